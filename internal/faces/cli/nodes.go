package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"stoa/internal/base/jsonx"
)

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
