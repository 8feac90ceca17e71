package cli

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/client"
	"stoa/internal/jsonx"
)

func viewCredits() view {
	return view{"Credits", []column{
		{"Available", "availableMicro", credits},
		{"Held", "heldMicro", credits},
		{"Granted", "grantedMicro", credits},
		{"Spent", "spentMicro", credits},
	}}
}

func viewLedger() view {
	return view{"LedgerEntry", []column{
		{"Time", "createdAt", when},
		{"Type", "type", plain},
		{"Credits", "amountMicro", credits},
		{"Reference", "ref", plain},
		{"Reason", "reason", flexible},
	}}
}

func viewReconciliation() view {
	return view{"Reconciliation", []column{
		{"Balanced", "balanced", plain},
		{"Granted", "grantedMicro", credits},
		{"Available", "availableMicro", credits},
		{"Held", "heldMicro", credits},
		{"Charged", "chargesMicro", credits},
		{"Receipts", "receiptsMicro", credits},
		{"Charges", "charges", count},
		{"Checked", "checkedAt", when},
	}}
}

func viewDifferences() view {
	return view{"Difference", []column{
		{"Line", "id", plain},
		{"Expected", "expectedMicro", credits},
		{"Actual", "actualMicro", credits},
		{"Rule", "what", flexible},
	}}
}

// getCommand returns c completed to read the object at path and print it by v.
func (e *env) getCommand(c *cobra.Command, path string, v view) *cobra.Command {
	o := e.output(c)
	c.Args = noArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		raw, err := call.JSON(c.Context(), "GET", path, nil, nil, nil)
		if err != nil {
			return err
		}
		return o.object(v, raw)
	}
	return c
}

// listCommand returns c completed to read a list and print its rows by v; none
// is the hint for an empty list, and where returns the path and query of the
// request.
func (e *env) listCommand(c *cobra.Command, v view, none string, where func(c *cobra.Command, args []string) (path string, query url.Values, err error)) *cobra.Command {
	o := e.output(c)
	n := limit(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		path, query, err := where(c, args)
		if err != nil {
			return err
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		return o.list(v, call.All(c.Context(), path, query, rowsToFetch(*n)), *n, none)
	}
	return c
}

// constantPath returns a where function for a path that depends on no argument.
func constantPath(path string) func(*cobra.Command, []string) (string, url.Values, error) {
	return func(*cobra.Command, []string) (string, url.Values, error) { return path, nil, nil }
}

func (e *env) credits() *cobra.Command {
	c := e.getCommand(&cobra.Command{
		Use: "credits", Short: "Show the credits of the account",
		Long:    "Show the credits of the account. What was granted is what is available, held for running calls, and spent.",
		Example: "  stoa credits\n  stoa credits --jq .availableMicro",
	}, "/credits", viewCredits())
	c.Args = cobra.ArbitraryArgs
	show := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(c, args[0])
		}
		return show(c, args)
	}
	check := &cobra.Command{
		Use: "reconcile", Short: "Compute the account's books again", Args: noArgs,
		Long: `Have the service compute the account's books again from their lines: granted = available + held +
charged, and the receipts add up to the charges. When they do not, the lines that differ are listed
and the exit code is 1.`,
		Example: "  stoa credits reconcile",
	}
	o := e.output(check)
	check.RunE = func(c *cobra.Command, _ []string) error {
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		var found struct {
			Balanced    bool          `json:"balanced"`
			Differences []jsonx.Value `json:"differences"`
		}
		raw, err := call.JSON(c.Context(), "GET", "/usage/reconcile", nil, nil, &found)
		if err != nil {
			return err
		}
		if err := o.object(viewReconciliation(), raw); err != nil || found.Balanced {
			return err
		}
		if !o.raw() {
			fmt.Fprintln(e.out)
			if err := o.list(viewDifferences(), sequence(found.Differences), 0, ""); err != nil {
				return err
			}
		}
		return fmt.Errorf("%d lines of the books do not fit the others; tell the operator", len(found.Differences))
	}
	c.AddCommand(
		e.listCommand(&cobra.Command{
			Use: "ledger", Short: "List the lines of the ledger", Args: noArgs,
			Long:    "List every line that changed the balance, newest first: grants, charges and corrections.",
			Example: "  stoa credits ledger\n  stoa credits ledger --limit 0 --jq '.[] | select(.type==\"grant\")'",
		}, viewLedger(), "The ledger has no lines yet.", constantPath("/credits/ledger")),
		check,
	)
	return c
}

func viewReceipts() view {
	return view{"Receipt", []column{
		{"Receipt", "id", plain},
		{"Time", "createdAt", when},
		{"Model", "model.served", flexible},
		{"In", "usage.inputTokens", count},
		{"Out", "usage.outputTokens", count},
		{"Credits", "creditsMicro", credits},
		{"Status", "status", state},
	}}
}

func viewReceipt() view {
	return view{"Receipt", []column{
		{"Receipt", "id", plain},
		{"Status", "status", state},
		{"Time", "createdAt", when},
		{"Model requested", "model.requested", plain},
		{"Model served", "model.served", plain},
		{"Why another", "model.fallbackReason", plain},
		{"Input tokens", "usage.inputTokens", count},
		{"of which cached", "usage.cachedInputTokens", count},
		{"written to a cache", "usage.cacheWriteTokens", count},
		{"Output tokens", "usage.outputTokens", count},
		{"of which reasoning", "usage.reasoningTokens", count},
		{"Credits", "creditsMicro", credits},
		{"In / million", "price.inputMicroPerMillion", credits},
		{"Cache write / million", "price.cacheWriteMicroPerMillion", credits},
		{"Out / million", "price.outputMicroPerMillion", credits},
		{"Estimated", "estimated", plain},
		{"Adjustments", "adjustments", plain},
		{"Key", "keyId", plain},
		{"End user", "endUser", plain},
		{"Agent", "agentId", plain},
		{"Session", "sessionId", plain},
		{"First token (ms)", "timeToFirstTokenMilliseconds", count},
		{"Duration (ms)", "durationMilliseconds", count},
	}}
}

// periodFlags adds --from and --to to c and returns a function that reads them
// as query parameters.
func periodFlags(c *cobra.Command) func() (url.Values, error) {
	from := c.Flags().String("from", "", "from this `time` on: 2026-11-20, or a span back such as 7d")
	to := c.Flags().String("to", "", "before this `time`")
	return func() (url.Values, error) {
		query, now := url.Values{}, time.Now()
		for name, text := range map[string]string{"from": *from, "to": *to} {
			if text == "" {
				continue
			}
			t, err := moment(text, now, true)
			if err != nil {
				return nil, err
			}
			query.Set(name, stamp(t))
		}
		return query, nil
	}
}

func (e *env) receipts() *cobra.Command {
	c := group("receipts", "Show what calls cost", "Show what calls cost: one receipt for each call that was charged.")
	list := &cobra.Command{
		Use: "list", Short: "List receipts", Args: noArgs,
		Long:    "List receipts, newest first.",
		Example: "  stoa receipts list --from 1d\n  stoa receipts list --model alpha-sonnet-5-5 --limit 0 --json",
	}
	span := periodFlags(list)
	filters := map[string]*string{
		"model":     list.Flags().String("model", "", "only calls that this `model` served"),
		"keyId":     list.Flags().String("key", "", "only calls of the key with this `id`"),
		"agentId":   list.Flags().String("agent", "", "only steps of the agent with this `id`"),
		"spaceId":   list.Flags().String("space", "", "only steps of agents in the space with this `id`"),
		"sessionId": list.Flags().String("session", "", "only steps of the session with this `id`"),
		"endUser":   list.Flags().String("end-user", "", "only calls for this end `user`"),
	}
	e.listCommand(list, viewReceipts(), "There are no receipts.", func(*cobra.Command, []string) (string, url.Values, error) {
		query, err := span()
		if err != nil {
			return "", nil, err
		}
		for name, value := range filters {
			if *value != "" {
				query.Set(name, *value)
			}
		}
		return "/receipts", query, nil
	})
	get := &cobra.Command{
		Use: "get RECEIPT", Short: "Show a receipt", Args: takes("RECEIPT"),
		Long:    "Show a receipt by the id of its reply (resp_…) or of an agent's step.",
		Example: "  stoa receipts get resp_01k9zqd3m8w5x7y2c4b6n8p0ra",
	}
	o := e.output(get)
	get.RunE = func(c *cobra.Command, args []string) error {
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		raw, err := call.JSON(c.Context(), "GET", "/receipts/"+url.PathEscape(args[0]), nil, nil, nil)
		if err != nil {
			return err
		}
		return o.object(viewReceipt(), raw)
	}
	c.AddCommand(list, get)
	return c
}

// groupings returns the columns that usage can be grouped by, under the names
// that --by takes.
func groupings() map[string]column {
	return map[string]column{
		"day": {"Day", "day", plain}, "model": {"Model", "model", flexible}, "key": {"Key", "keyId", plain},
		"agent": {"Agent", "agentId", plain}, "space": {"Space", "spaceId", plain},
		"session": {"Session", "sessionId", plain}, "endUser": {"End user", "endUser", flexible},
	}
}

func viewUsage(by []string) view {
	v := view{schema: "UsageRow"}
	for _, word := range by {
		v.columns = append(v.columns, groupings()[word])
	}
	v.columns = append(v.columns,
		column{"Calls", "calls", count}, column{"In", "inputTokens", count},
		column{"Out", "outputTokens", count}, column{"Credits", "creditsMicro", credits})
	return v
}

// namedRows is how many keys, agents or spaces are asked for their names.
const namedRows = 5000

// withNames returns rows of usage with names in place of the ids of what they are
// grouped by.
func withNames(ctx context.Context, call *client.Client, by []string, rows []jsonx.Value) ([]jsonx.Value, error) {
	if len(rows) == 0 {
		return rows, nil
	}
	all := map[string]collection{"key": keyCollection(), "agent": agentCollection(), "space": spaceCollection()}
	names := map[string]map[string]string{}
	for _, word := range by {
		if p, ok := all[word]; ok {
			names[groupings()[word].path] = p.names(ctx, call)
		}
	}
	if len(names) == 0 {
		return rows, nil
	}
	out := make([]jsonx.Value, len(rows))
	for i, raw := range rows {
		row, err := decode(raw)
		if err != nil {
			return nil, err
		}
		for member, known := range names {
			if name, m := known[text(row, member)], row.(map[string]any); name != "" {
				m[member] = name
			}
		}
		if out[i], err = jsonx.Marshal(row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// names returns the names of what the key may list, by id; those that several have
// with the id. It is short of what could not be asked for.
func (p collection) names(ctx context.Context, call *client.Client) map[string]string {
	names, count := map[string]string{}, map[string]int{}
	for raw, err := range call.All(ctx, p.path, nil, namedRows) {
		var n struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		}
		if err != nil || jsonx.Unmarshal(raw, &n) != nil {
			break // ids will do
		}
		names[n.ID] = n.Name
		count[n.Name]++
	}
	for id, name := range names {
		if count[name] > 1 {
			names[id] = name + " (" + id + ")"
		}
	}
	return names
}

func (e *env) usage() *cobra.Command {
	c := &cobra.Command{
		Use: "usage", Short: "Sum up calls, tokens and credits", Args: noArgs,
		Long: `Sum up calls, tokens and credits of a span of time, grouped by one or more of day, model, agent,
space, key, session and endUser. Days are those of UTC. Keys, agents and spaces are shown by their
names, with the id where several have one name; an id alone is of one that is gone, or that the key
may not list. JSON and CSV have the ids.`,
		Example: "  stoa usage --from 7d\n  stoa usage --by model,key --from 2026-11-01 --to 2026-12-01\n  stoa usage --by day,model --csv > usage.csv",
	}
	o := e.output(c)
	by := c.Flags().StringSlice("by", []string{"day"}, "what to group by, in `order`")
	csv := c.Flags().Bool("csv", false, "print CSV with a line of names")
	span := periodFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		words := make([]string, len(*by))
		for i, word := range *by {
			if words[i] = strings.TrimSpace(word); words[i] == "end-user" {
				words[i] = "endUser"
			}
			if _, ok := groupings()[words[i]]; !ok {
				return usagef("--by takes day, model, agent, space, key, session and endUser, not %q", word)
			}
		}
		query, err := span()
		if err != nil {
			return err
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		query.Set("groupBy", strings.Join(words, ","))
		if *csv {
			if o.raw() {
				return usagef("--csv goes without --json and --jq")
			}
			query.Set("format", "csv")
			return e.copyOut(c.Context(), call, "/usage", query)
		}
		var report struct {
			Data []jsonx.Value `json:"data"`
		}
		raw, err := call.JSON(c.Context(), "GET", "/usage", query, nil, &report)
		if err != nil {
			return err
		}
		if o.raw() {
			return o.printJSON(raw)
		}
		rows, err := withNames(c.Context(), call, words, report.Data)
		if err != nil {
			return err
		}
		return o.list(viewUsage(words), sequence(rows), 0, "Nothing was used in that time.")
	}
	return c
}
