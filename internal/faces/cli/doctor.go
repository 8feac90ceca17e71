package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"
	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
)

func (e *env) doctor() *cobra.Command {
	return e.verb(verb{
		use: "doctor", short: "Check the service for problems",
		long: `Check all accounts for problems that need an operator: connections that are not ready, secrets that cannot be
decrypted, late or failed webhook deliveries, the longest-waiting sessions, the settings for OAuth, the
databases, clocks, free disk space, the limit on open files, models that are not offered, the mail server, owners without their group, and open alerts. With
several nodes, the node that answers checks its own machine. The exit code is 0 if no check needs attention,
and 1 if one does or the service cannot be reached. Requires a key with the scope operator.`,
		example: "  stoa doctor\n  stoa doctor --json\n  stoa doctor --jq '.checks[] | select(.status != \"ok\").name'",
		op:      "GET /doctor", print: printDiagnosis,
	})
}

func printDiagnosis(o *output, raw jsonx.Value) error {
	var found contract.Diagnosis
	err := jsonx.Unmarshal(raw, &found)
	switch {
	case err != nil:
		return err
	case o.raw():
		err = o.printJSON(raw)
	default:
		_, err = fmt.Fprint(o.e.out, diagnosisText(found))
	}
	if err != nil || found.Status == "ok" {
		return err
	}
	n := 0
	for _, c := range found.Checks {
		if c.Status == "attention" {
			n++
		}
	}
	if n == 1 {
		return errors.New("1 check needs attention")
	}
	return fmt.Errorf("%d checks need attention", n)
}

func diagnosisText(d contract.Diagnosis) string {
	var b strings.Builder
	for _, c := range d.Checks {
		fmt.Fprintf(&b, "%-9s  %s: %s\n", clean(c.Status), clean(c.Name), clean(c.Summary))
		for _, item := range c.Items {
			fmt.Fprintf(&b, "           - %s", clean(item.Detail))
			for _, part := range []nullable.Nullable[string]{item.ID, item.AccountID} {
				if text, err := part.Get(); err == nil {
					fmt.Fprintf(&b, "  %s", clean(text))
				}
			}
			if since, err := item.Since.Get(); err == nil {
				fmt.Fprintf(&b, "  %s", since)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// healthWait limits a health check, so that a supervisor does not wait for a blocked service.
const healthWait = 5 * time.Second

func (e *env) health() *cobra.Command {
	c := command("health [URL]", "Check the health of a service",
		`Check whether a service accepts requests, and print its status: ok, draining or unavailable. The exit code is
0 for ok and 1 for everything else, including an unreachable service and no answer within 5 s, so that a
container or a supervisor can use it as a health check. Requires no key. The default address is that of the
login.`,
		"  stoa health\n  stoa health http://127.0.0.1:8080")
	c.RunE = func(c *cobra.Command, args []string) error {
		call, err := e.publicClient()
		if len(args) > 0 {
			call, err = e.newClient(args[0], "")
		}
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), healthWait)
		defer cancel()
		var health struct {
			Status string `json:"status"`
		}
		_, err = call.JSON(ctx, "GET", "/health", nil, nil, &health)
		if refused, ok := errors.AsType[*client.Error](err); ok && jsonx.Unmarshal(refused.Body, &health) == nil && health.Status != "" {
			err = fmt.Errorf("the service accepts no requests: %s", clean(health.Status))
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(e.out, clean(health.Status))
		return nil
	}
	return c
}

var viewNodes = view{"Node", []column{
	{"Node", "id", ident},
	{"Address", "address", plain},
	{"Version", "version", plain},
	{"Since", "startedAt", when},
	{"Seen", "seenAt", when},
	{"Calls", "calls", count},
	{"Sessions", "sessions", count},
	{"Settings", "configHash", plain},
	{"Managed settings", "configVersion", count},
	{"Self", "self", plain},
}}

func (e *env) nodes() *cobra.Command {
	return e.verb(verb{
		use: "nodes", short: "Show the nodes of the service",
		long: `Show the running processes of the service. Several can share one PostgreSQL database; "Self" is the one that
answered. All nodes should have the same settings; if they do not, a warning is printed on standard error.
Requires a key with the scope operator.`,
		example: "  stoa nodes\n  stoa nodes --jq '.[] | select(.calls > 0).address'",
		op:      "GET /nodes", print: printNodes,
	})
}

func printNodes(o *output, raw jsonx.Value) error {
	var list struct {
		Data       []jsonx.Value `json:"data"`
		SameConfig bool          `json:"sameConfig"`
	}
	if err := jsonx.Unmarshal(raw, &list); err != nil {
		return err
	}
	if !list.SameConfig {
		fmt.Fprintln(o.e.err, "The nodes have different settings.")
	}
	for _, n := range list.Data {
		var node struct {
			Address string  `json:"address"`
			Problem *string `json:"configProblem"`
		}
		if err := jsonx.Unmarshal(n, &node); err != nil {
			return err
		}
		if node.Problem != nil {
			fmt.Fprintf(o.e.err, "The node at %s is not ready. %s\n", clean(node.Address), clean(*node.Problem))
		}
	}
	return o.list(viewNodes, sequence(list.Data), 0, "There are no nodes.")
}
