package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"stoa/internal/jsonx"
)

func viewProviders() view {
	return view{"Provider", []column{
		{"Name", "name", plain},
		{"Format", "wire", plain},
		{"In flight", "inFlight", count},
		{"Limit", "maxInFlight", count},
		{"Requests", "requests", count},
		{"Retries", "retries", count},
		{"Failures", "failures", count},
		{"Last failure", "lastFailure.at", when},
		{"Code", "lastFailure.code", plain},
	}}
}

func viewRecentProviders() view {
	return view{"RecentProvider", []column{
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
}

func viewProviderTest() view {
	return view{"ProviderTest", []column{
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
}

func (e *env) providers() *cobra.Command {
	c := &cobra.Command{
		Use: "providers", Short: "Show recent provider health", Args: cobra.ArbitraryArgs,
		Long: `Show what the service knows of each provider from the calls it made since it started; on a terminal, what
"stoa providers recent" shows as well. --json has their models too, with those whose circuit is open after failures. It
takes a key with the scope operator.`,
		Example: "  stoa providers\n  stoa providers --jq '.[].routes[] | select(.state != \"closed\").model'",
	}
	o := e.output(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(c, args[0])
		}
		err := e.providerList(c, o, "/providers", viewProviders(), "There are no providers.")
		if err != nil || o.raw() || !isTerminal(e.out) {
			return err
		}
		fmt.Fprintln(e.out)
		return e.recentProviders(c, o)
	}
	recent := &cobra.Command{
		Use: "recent", Short: "Show how the providers did lately", Args: noArgs,
		Long: `Show calls, errors and times of each provider in the last hour and the last 24 hours. They come from the request
log, which has no steps of agents; of very many calls the latest are looked at, and a line on standard error says so.
--json has the models too.`,
		Example: "  stoa providers recent\n  stoa providers recent --jq '.[] | select(.hour.errors > 0).name'",
	}
	ro := e.output(recent)
	recent.RunE = func(c *cobra.Command, _ []string) error { return e.recentProviders(c, ro) }
	c.AddCommand(recent, e.providersTest())
	return c
}

// providerList prints a list that is not in pages.
func (e *env) providerList(c *cobra.Command, o *output, path string, v view, none string) error {
	call, err := e.ready(o)
	if err != nil {
		return err
	}
	var list struct {
		Data  []jsonx.Value `json:"data"`
		Since string        `json:"since"`
		Cut   bool          `json:"cut"`
	}
	if _, err := call.JSON(c.Context(), "GET", path, nil, nil, &list); err != nil {
		return err
	}
	if list.Cut {
		fmt.Fprintf(e.err, "There were too many calls: only those since %s are counted.\n", clean(list.Since))
	}
	return o.list(v, sequence(list.Data), 0, none)
}

func (e *env) recentProviders(c *cobra.Command, o *output) error {
	return e.providerList(c, o, "/providers/recent", viewRecentProviders(), "No provider was called in the last 24 hours.")
}

func (e *env) providersTest() *cobra.Command {
	return e.verb(verb{
		use: "test PROVIDER", short: "Make a small call to a provider",
		long: `Make a small call to a provider, with a dozen tokens of input and at most 16 of output, of the cheapest model that is
routed to it, and show what came of it. No account is charged; what the vendor asks for it is yours. It takes 20 seconds
at most. The exit code is 1 if the provider did not answer.`,
		example: "  stoa providers test claude",
		op:      "POST /providers/{PROVIDER}/test",
		print: func(o *output, raw jsonx.Value) error {
			var test struct {
				OK bool `json:"ok"`
			}
			err := jsonx.Unmarshal(raw, &test)
			if err == nil {
				err = o.object(viewProviderTest(), raw)
			}
			if err != nil || test.OK {
				return err
			}
			return errors.New("the provider did not answer")
		},
	})
}
