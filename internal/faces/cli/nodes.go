package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"stoa/internal/base/jsonx"
)

func viewNodes() view {
	return view{"Node", []column{
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
}

func (e *env) nodes() *cobra.Command {
	c := &cobra.Command{
		Use: "nodes", Short: "Show the nodes of the service", Args: noArgs,
		Long: `Show the running processes of the service. Several can share one PostgreSQL database; "Self" is the one that
answered. All nodes should have the same settings; if they do not, a warning is printed on standard error.
Requires a key with the scope operator.`,
		Example: "  stoa nodes\n  stoa nodes --jq '.[] | select(.calls > 0).address'",
	}
	o := e.output(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		var list struct {
			Data       []jsonx.Value `json:"data"`
			SameConfig bool          `json:"sameConfig"`
		}
		if _, err := call.JSON(c.Context(), "GET", "/nodes", nil, nil, &list); err != nil {
			return err
		}
		if !list.SameConfig {
			fmt.Fprintln(e.err, "The nodes have different settings.")
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
				fmt.Fprintf(e.err, "The node at %s is not ready. %s\n", clean(node.Address), clean(*node.Problem))
			}
		}
		return o.list(viewNodes(), sequence(list.Data), 0, "There are no nodes.")
	}
	return c
}
