package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"stoa/internal/base/jsonx"
)

var viewCredits = view{"Credits", []column{
	{"Available", "availableMicro", credits},
	{"Held", "heldMicro", credits},
	{"Granted", "grantedMicro", credits},
	{"Spent", "spentMicro", credits},
	{"Owed", "owedMicro", credits},
}}

var viewLedger = view{"LedgerEntry", []column{
	{"Time", "createdAt", when},
	{"Type", "type", plain},
	{"Credits", "amountMicro", exact},
	{"Reference", "ref", ident},
	{"Reason", "reason", flexible},
}}

var viewReconciliation = view{"Reconciliation", []column{
	{"Balanced", "balanced", plain},
	{"Granted", "grantedMicro", exact},
	{"Available", "availableMicro", exact},
	{"Held", "heldMicro", exact},
	{"Charged", "chargesMicro", exact},
	{"Receipts", "receiptsMicro", exact},
	{"Charges", "charges", count},
	{"Checked", "checkedAt", when},
}}

var viewDifferences = view{"Difference", []column{
	{"Line", "id", ident},
	{"Expected", "expectedMicro", exact},
	{"Actual", "actualMicro", exact},
	{"Rule", "what", flexible},
}}

func (e *env) credits() *cobra.Command {
	c := e.verb(verb{
		use: "credits", short: "Show the credits of the account",
		long:    "Show the credits of the account. Granted credits equal the sum of available, held and spent credits.",
		example: "  stoa credits\n  stoa credits --jq .availableMicro",
		op:      "GET /credits", show: viewCredits,
	})
	c.Args = cobra.ArbitraryArgs
	show := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(c, args[0])
		}
		return show(c, args)
	}
	c.AddCommand(e.verbs(
		verb{
			use: "ledger", short: "List the ledger",
			long:    "List every change of the balance, newest first: grants, charges and corrections.",
			example: "  stoa credits ledger\n  stoa credits ledger --limit 0 --jq '.[] | select(.type==\"grant\")'",
			op:      "GET /credits/ledger", rows: viewLedger, none: "The ledger is empty.",
		},
		verb{
			use: "reconcile", short: "Reconcile the account's books",
			long: `Recompute the account's books from the ledger: granted = available + held + charged, and the receipts must add
up to the charges. If they do not, the inconsistent lines are listed and the exit code is 1.`,
			example: "  stoa credits reconcile",
			op:      "GET /usage/reconcile", print: e.printReconciliation,
		},
	)...)
	return c
}

func (e *env) printReconciliation(o *output, raw jsonx.Value) error {
	var found struct {
		Balanced    bool          `json:"balanced"`
		Differences []jsonx.Value `json:"differences"`
	}
	if err := jsonx.Unmarshal(raw, &found); err != nil {
		return err
	}
	if err := o.object(viewReconciliation, raw); err != nil || found.Balanced {
		return err
	}
	if !o.raw() {
		fmt.Fprintln(e.out)
		if err := o.list(viewDifferences, sequence(found.Differences), 0, ""); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d lines of the books are inconsistent; report this to the operator", len(found.Differences))
}

var viewReceipts = view{"Receipt", []column{
	{"Receipt", "id", ident},
	{"Time", "createdAt", when},
	{"Model", "model.served", label},
	{"In", "usage.inputTokens", count},
	{"Out", "usage.outputTokens", count},
	{"Credits", "creditsMicro", credits},
	{"Status", "status", state},
}}

var viewReceipt = view{"Receipt", []column{
	{"Receipt", "id", ident},
	{"Status", "status", state},
	{"Time", "createdAt", when},
	{"Model requested", "model.requested", plain},
	{"Model served", "model.served", plain},
	{"Provider", "route.provider", plain},
	{"Provider chosen by", "route.reason", plain},
	{"Input tokens", "usage.inputTokens", count},
	{"of which cached", "usage.cachedInputTokens", count},
	{"written to cache", "usage.cacheWriteTokens", count},
	{"Output tokens", "usage.outputTokens", count},
	{"of which reasoning", "usage.reasoningTokens", count},
	{"Credits", "creditsMicro", exact},
	{"Cache marked by", "cache.marks", plain},
	{"Cache not read because of", "cache.broke", plain},
	{"Saved by the cache", "cache.savedMicro", exact},
	{"In / million", "price.inputMicroPerMillion", credits},
	{"Cache write / million", "price.cacheWriteMicroPerMillion", credits},
	{"Out / million", "price.outputMicroPerMillion", credits},
	{"Price band", "price.band", plain},
	{"Estimated", "estimated", plain},
	{"Adjustments", "adjustments", plain},
	{"Ignored", "ignored", plain},
	{"Key", "keyId", ident},
	{"Key name", "keyName", flexible},
	{"End user", "endUser", plain},
	{"Agent", "agentId", ident},
	{"Agent name", "agentName", flexible},
	{"Session", "sessionId", ident},
	{"First token (ms)", "timeToFirstTokenMilliseconds", count},
	{"Duration (ms)", "durationMilliseconds", count},
}}

var periodFields = []field{
	{"from", "from", asPast, "the start `time`: 2026-11-20, or a time ago such as 7d"},
	{"to", "to", asPast, "the end `time`, exclusive (default now)"},
}

func (e *env) receipts() *cobra.Command {
	c := group("receipts", "Show receipts", "Show receipts. A receipt shows what a call cost, and why.")
	c.AddCommand(e.verbs(
		verb{
			use: "list", short: "List receipts",
			long: "List the receipts of the account, newest first: one for each charged call or agent step.", example: "  stoa receipts list --from 1d\n  stoa receipts list --model alpha-sonnet-5-5 --limit 0 --json",
			op: "GET /receipts", rows: viewReceipts, none: "There are no receipts.",
			fields: append(periodFields,
				field{"model", "model", asText, "only calls that this `model` served"},
				field{"key", "keyId", asKey, "only calls of this `key`, by id or name"},
				field{"agent", "agentId", asAgent, "only steps of this `agent`, by id or name"},
				field{"space", "spaceId", asSpace, "only steps of agents in this `space`, by id or name"},
				field{"session", "sessionId", asText, "only steps of the session with this `id`"},
				field{"end-user", "endUser", asText, "only calls for this end `user`"}),
		},
		verb{
			use: "get RECEIPT", short: "Show a receipt",
			long: "Show a receipt by the id of its reply (resp_…) or of an agent's step.", example: "  stoa receipts get resp_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "GET /receipts/{RECEIPT}", show: viewReceipt,
		},
	)...)
	return c
}

// groupings returns the columns that usage can be grouped by, under their names for --by.
var groupings = map[string]column{
	"day": {"Day", "day", plain}, "model": {"Model", "model", flexible}, "key": {"Key", "keyId", ident}, "member": {"Member", "memberId", flexible},
	"agent": {"Agent", "agentId", ident}, "space": {"Space", "spaceId", ident},
	"session": {"Session", "sessionId", ident}, "account": {"Account", "accountName", flexible}, "provider": {"Provider", "provider", plain}, "endUser": {"End user", "endUser", flexible},
}

func viewUsage(by []string) view {
	v := view{schema: "UsageRow"}
	for _, word := range by {
		v.columns = append(v.columns, groupings[word])
	}
	if slices.Contains(by, "provider") {
		v.columns = append(v.columns, column{"Failed", "failedCalls", count}, column{"Estimated", "estimatedCalls", count})
	}
	v.columns = append(v.columns,
		column{"Calls", "calls", count}, column{"In", "inputTokens", count},
		column{"Out", "outputTokens", count}, column{"Credits", "creditsMicro", credits}, column{"Saved", "savedMicro", credits})
	return v
}

// withNames returns rows of usage with the ids of their groups replaced by names. It adds the id to a name that several
// groups share, because the rows would otherwise look alike.
func withNames(by []string, rows []jsonx.Value) ([]jsonx.Value, error) {
	members := map[string]string{}
	for _, word := range by {
		if name := map[string]string{"key": "keyName", "agent": "agentName", "space": "spaceName", "member": "memberName"}[word]; name != "" {
			members[groupings[word].path] = name
		}
	}
	ids := map[string]map[string]bool{} // by name
	all := make([]map[string]any, len(rows))
	for i, raw := range rows {
		row, err := decode(raw)
		if err != nil {
			return nil, err
		}
		all[i], _ = row.(map[string]any)
		for id, name := range members {
			found := text(row, name)
			if ids[found] == nil {
				ids[found] = map[string]bool{}
			}
			ids[found][text(row, id)] = true
		}
	}
	out := make([]jsonx.Value, len(rows))
	for i, row := range all {
		for id, name := range members {
			if found := text(row, name); len(ids[found]) > 1 && found != "" {
				row[id] = found + " (" + text(row, id) + ")"
			} else if found != "" {
				row[id] = found
			}
		}
		var err error
		if out[i], err = json.Marshal(row); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e *env) usage() *cobra.Command {
	c := command("usage", "Show usage: calls, tokens and credits",
		`Show the calls, tokens and credits of a time range in groups. --by accepts day, model, agent, space, key, member,
session and endUser, and several of them. An operator's key also accepts account and provider, which cover all
accounts; by provider, failed requests that vendors can bill are included.

Days, and the dates of --from and --to, are in the time zone of --timezone. Keys, agents, spaces and members are
shown by name, and by id if several share a name or if they were deleted. JSON contains ids and names, CSV only ids.`,
		"  stoa usage --from 7d\n  stoa usage --by model,key --from 2026-11-01 --to 2026-12-01\n  stoa usage --by day,model --time-zone Europe/Berlin --csv > usage.csv\n  stoa usage --by account,model --from 2026-11-01 --to 2026-12-01 --csv > invoices.csv")
	o := e.output(c)
	by := c.Flags().StringSlice("by", []string{"day"}, "the `groups`, in order, separated by commas")
	sends(c, "by", "groupBy")
	csv := c.Flags().Bool("csv", false, "print CSV with a header line")
	timezone := c.Flags().String("time-zone", "UTC", "the time `zone` of days, such as Europe/Berlin")
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "timezone" { // the earlier name
			name = "time-zone"
		}
		return pflag.NormalizedName(name)
	})
	period := e.flags(c, periodFields...)
	c.RunE = func(c *cobra.Command, _ []string) error {
		words := make([]string, len(*by))
		for i, word := range *by {
			if words[i] = strings.TrimSpace(word); words[i] == "end-user" {
				words[i] = "endUser"
			}
			if _, ok := groupings[words[i]]; !ok {
				return usagef("--by accepts day, model, agent, space, key, member, session, endUser, account and provider, not %q", word)
			}
		}
		span := map[string]any{}
		if err := period(span); err != nil {
			return err
		}
		query := parameters(span)
		zone, err := time.LoadLocation(*timezone)
		if err != nil {
			return usagef("--time-zone %q is not a time zone; write one such as Europe/Berlin", *timezone)
		}
		query.Set("timeZone", zone.String())
		if slices.Contains(words, "account") || slices.Contains(words, "provider") {
			query.Set("accountId", "*")
		}
		for _, name := range []string{"from", "to"} {
			if day, err := time.ParseInLocation(time.DateOnly, c.Flag(name).Value.String(), zone); err == nil {
				query.Set(name, stamp(day))
			}
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		query.Set("groupBy", strings.Join(words, ","))
		if *csv {
			if o.raw() {
				return usagef("--csv cannot be combined with --json and --jq")
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
		rows, err := withNames(words, report.Data)
		if err != nil {
			return err
		}
		return o.list(viewUsage(words), sequence(rows), 0, "No usage in this time range.")
	}
	return c
}
