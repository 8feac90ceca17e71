package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"stoa/internal/base/jsonx"
)

var viewProviders = view{"Provider", []column{
	{"Name", "name", plain},
	{"Format", "wire", plain},
	{"Disabled", "disabled", plain},
	{"Running", "inFlight", count},
	{"Limit", "maxInFlight", count},
	{"Requests", "requests", count},
	{"Retries", "retries", count},
	{"Failures", "failures", count},
	{"Last failure", "lastFailure.at", when},
	{"Code", "lastFailure.code", plain},
}}

var viewRecentProviders = view{"RecentProvider", []column{
	{"Name", "name", plain},
	{"Calls 1 h", "hour.calls", count},
	{"Errors", "hour.errors", count},
	{"p50 ms", "hour.p50Milliseconds", count},
	{"p95 ms", "hour.p95Milliseconds", count},
	{"Calls 24 h", "day.calls", count},
	{"Errors", "day.errors", count},
	{"p50 ms", "day.p50Milliseconds", count},
	{"p95 ms", "day.p95Milliseconds", count},
	{"Last error", "lastError.at", when},
	{"Code", "lastError.code", plain},
}}

var viewProviderTest = view{"ProviderTest", []column{
	{"Provider", "provider", plain},
	{"Model", "model", plain},
	{"Healthy", "ok", plain},
	{"Result", "text", flexible},
	{"HTTP status", "status", count},
	{"Code", "errorCode", plain},
	{"Attempts", "attempts", count},
	{"First token (ms)", "timeToFirstTokenMilliseconds", count},
	{"Duration (ms)", "durationMilliseconds", count},
}}

func (e *env) providers() *cobra.Command {
	c := &cobra.Command{
		Use: "providers", Short: "Show recent provider health", Args: cobra.ArbitraryArgs,
		Long: `Show the state of each provider from the calls since the service started; on a terminal, also the output of
"stoa providers recent". --json includes their models and open circuits. Requires a key with the scope
operator.`,
		Example: "  stoa providers\n  stoa providers --jq '.[].routes[] | select(.state != \"closed\").model'",
	}
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(c, args[0])
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		raw, err := call.JSON(c.Context(), "GET", "/providers", nil, nil, nil)
		if err == nil {
			err = printProviders(o, raw, viewProviders, "There are no providers.")
		}
		if err != nil || o.raw() || !isTerminal(e.out) {
			return err
		}
		fmt.Fprintln(e.out)
		if raw, err = call.JSON(c.Context(), "GET", "/providers/recent", nil, nil, nil); err != nil {
			return err
		}
		return printRecentProviders(o, raw)
	}
	c.AddCommand(e.verb(verb{
		use: "recent", short: "Show recent calls and errors of the providers",
		long: `Show calls, errors and times of each provider in the last hour and the last 24 hours. They come from the request
log, which does not contain steps of agents. If there are too many calls, only the latest are counted, with a note
on standard error. --json includes the models.`,
		example: "  stoa providers recent\n  stoa providers recent --jq '.[] | select(.hour.errors > 0).name'",
		op:      "GET /providers/recent", print: printRecentProviders,
	}), e.providersTest())
	return c
}

func printProviders(o *output, raw jsonx.Value, v view, none string) error {
	e := o.e
	var list struct {
		Data     []jsonx.Value `json:"data"`
		Since    string        `json:"since"`
		Cut      bool          `json:"cut"`
		Unserved struct {
			Day int `json:"day"`
		} `json:"unserved"` // of recent calls
	}
	if err := jsonx.Unmarshal(raw, &list); err != nil {
		return err
	}
	if list.Cut {
		fmt.Fprintf(e.err, "There were too many calls: only calls since %s are counted.\n", clean(list.Since))
	}
	if n := list.Unserved.Day; n > 0 {
		fmt.Fprintf(e.err, "%s in the last 24 hours had no provider (model_unavailable).\n", some(n, "call", "calls"))
	}
	for _, raw := range list.Data {
		var p struct {
			Name        string `json:"name"`
			ListProblem string `json:"listProblem"` // of a provider
		}
		if err := jsonx.Unmarshal(raw, &p); err == nil && p.ListProblem != "" {
			fmt.Fprintf(e.err, "%s: %s\n", clean(p.Name), clean(p.ListProblem))
		}
	}
	return o.list(v, sequence(list.Data), 0, none)
}

func printRecentProviders(o *output, raw jsonx.Value) error {
	return printProviders(o, raw, viewRecentProviders, "There were no calls in the last 24 hours.")
}

func (e *env) providersTest() *cobra.Command {
	return e.verb(verb{
		use: "test PROVIDER", short: "Test a provider with a small call",
		long: `Send a small call to a provider, with a dozen tokens of input and at most 16 of output, to the cheapest model
that is routed to it, and show the result. No account is charged; you pay the vendor. It takes at most 20
seconds. The exit code is 1 if the provider did not answer.`,
		example: "  stoa providers test claude",
		op:      "POST /providers/{PROVIDER}/test",
		print:   printTest,
	})
}
