package cli

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
)

var viewBudget = view{"Budget", []column{
	{"Id", "id", ident},
	{"Scope", "scope", plain},
	{"Subject", "subject", flexible},
	{"Period", "period", plain},
	{"Time zone", "timeZone", plain},
	{"Limit", "limitMicro", credits},
	{"Spent", "spentMicro", credits},
	{"Held", "heldMicro", credits},
	{"At the limit", "atCap", plain},
	{"Set by operator", "setByOperator", plain},
	{"Notices at %", "notifyAt", plain},
	{"Begins again", "resetsAt", when},
	{"In effect since", "effectiveAt", when},
}}

var viewBudgets = viewBudget.only("id", "scope", "subject", "period", "limitMicro", "spentMicro", "resetsAt")

const budgetsPath = "/budgets"

func (e *env) budgets() *cobra.Command {
	c := group("budgets", "Limit spending", "Limit the spending of the account, a member, a key, an agent, an embed or an end user in a period.\nReading requires a key with the scope account:read, changing account:write; operator includes both.")
	c.AddCommand(e.verbs(
		verb{
			use: "list", short: "List the budgets",
			long:    "List the budgets of the account, newest first, with the state of their current periods.",
			example: "  stoa budgets list\n  stoa budgets list --jq '.[] | select(.scope==\"key\")'",
			op:      "GET /budgets", fields: []field{searchField("scope, subject or its name, or id")}, rows: viewBudgets, names: map[string]string{"subject": "subjectName"}, none: "There are no budgets. Create one with \"stoa budgets create\".",
		},
		verb{
			use: "get BUDGET", short: "Show a budget",
			long: "Show a budget with the state of its current period.", example: "  stoa budgets get bud_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "GET /budgets/{BUDGET}", show: viewBudget,
		},
		verb{
			use: "subjects BUDGET", short: "List what the subjects of a budget have spent",
			long: "List the current periods of the subjects of a budget, newest first.", example: "  stoa budgets subjects bud_01k9zqd3m8w5x7y2c4b6n8p0ra",
			op: "GET /budgets/{BUDGET}/windows", names: map[string]string{"subject": "subjectName"}, none: "No call has counted in the current period.",
			rows: view{"BudgetWindow", []column{
				{"Subject", "subject", flexible},
				{"Spent", "spentMicro", credits},
				{"Held", "heldMicro", credits},
				{"Limit", "limitMicro", credits},
				{"Begins again", "resetsAt", when},
			}},
		},
		verb{
			use: "update BUDGET", short: "Change a budget",
			long: "Change the limit of a budget, or what happens at it. What was spent counts against the new limit.", example: "  stoa budgets update bud_01k9zqd3m8w5x7y2c4b6n8p0ra --limit 750",
			op: "PATCH /budgets/{BUDGET}", show: viewBudget, missing: nothingChanges, extra: []adder{notifyAt},
			fields: []field{
				{"limit", "limitMicro", asCredits, "the maximum spending in a period, in `credits`"},
				{"at-cap", "atCap", asText, "the `behavior` at the limit: shorten (less output) or refuse"},
			},
		},
		verb{
			use: "delete BUDGET...", short: "Delete budgets",
			long: "Delete budgets. Calls are no longer limited by them.", example: "  stoa budgets delete bud_01k9zqd3m8w5x7y2c4b6n8p0ra --yes",
			op: "DELETE /budgets/{BUDGET}", ask: asks("Delete %s? Nothing else limits these calls.", "the budget", "budgets"),
		},
	)...)
	c.AddCommand(e.budgetsSet())
	return c
}

// budgetsPathOf returns the path of the budgets of an account, or of the key's own without one.
func budgetsPathOf(ctx context.Context, call *client.Client, account string) (string, error) {
	if account == "" {
		return budgetsPath, nil
	}
	id, err := accountCollection.find(ctx, call, account)
	return "/accounts/" + url.PathEscape(id) + budgetsPath, err
}

func notifyAt(c *cobra.Command) setter {
	marks := c.Flags().IntSlice("notify-at", nil, "marks in `percent` of the limit at which webhooks receive budget.threshold")
	sends(c, "notify-at", "notifyAt")
	return func(body map[string]any) error {
		if c.Flags().Changed("notify-at") {
			body["notifyAt"] = *marks
		}
		return nil
	}
}

func (e *env) budgetsSet() *cobra.Command {
	c := command("create", "Create or change a budget",
		`Create a budget, or change the one with the same scope, subject and period. The time zone of a budget cannot be
changed; delete it and create another one. --scope, --period and --limit are required. With --account, operators set
the budget of a customer, whose members can read it but not change it.`,
		"  stoa budgets create --account acme --scope account --period month --limit 500\n  stoa budgets create --scope account --period month --limit 500 --time-zone Europe/Vienna\n  stoa budgets create --scope end_user --subject '*' --period day --limit 0.5 --notify-at 80,100")
	settings := e.flags(c,
		field{"scope", "scope", asChoice, "the `kind` of subject: account, member, key, agent, embed or end_user"},
		field{"subject", "subject", asText, "the `id` of the member, key, agent or embed, or the end user; '*' limits each one separately"},
		field{"period", "period", asText, "the `period`: day, week, month or total"},
		field{"time-zone", "timeZone", asText, "the `zone` at whose midnights periods begin, such as Europe/Vienna (default UTC)"},
		field{"limit", "limitMicro", asCredits, "the maximum spending in a period, in `credits`"},
		field{"at-cap", "atCap", asText, "the `behavior` at the limit: shorten (less output) or refuse (default shorten)"},
	)
	marks := notifyAt(c)
	account := c.Flags().String("account", "", "for operators: a budget of the customer's `account` with this id or name")
	o := e.output(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		body := map[string]any{}
		if err := errors.Join(settings(body), marks(body)); err != nil {
			return err
		}
		for _, member := range []string{"scope", "period", "limitMicro"} {
			if body[member] == nil {
				return usagef("--scope, --period and --limit are required")
			}
		}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		method := http.MethodPost
		path, err := budgetsPathOf(c.Context(), call, *account)
		if err != nil {
			return err
		}
		for row, err := range call.All(c.Context(), path, nil, 0) {
			if err != nil {
				return err
			}
			var b struct{ ID, Scope, Subject, Period string }
			if err := json.Unmarshal(row, &b); err != nil {
				return err
			}
			subject, _ := body["subject"].(string)
			if b.Scope == body["scope"] && b.Period == body["period"] && b.Subject == subject {
				method, path = http.MethodPatch, budgetsPath+"/"+url.PathEscape(b.ID)
				maps.DeleteFunc(body, func(member string, _ any) bool { return member == "scope" || member == "period" || member == "subject" })
				break
			}
		}
		raw, err := call.JSON(c.Context(), method, path, nil, body, nil)
		if err != nil {
			return err
		}
		return o.object(viewBudget, raw)
	}
	return c
}
