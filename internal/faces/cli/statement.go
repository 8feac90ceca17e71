package cli

import (
	"context"
	"fmt"
	"html/template"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"stoa/internal/base/client"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// everyAccount selects the statements of all accounts.
const everyAccount = "*"

var viewStatements = view{"Statement", []column{
	{"Account", "accountName", objectName},
	{"Opening", "openingMicro", exact},
	{"Granted", "grantedMicro", exact},
	{"Withdrawn", "withdrawnMicro", exact},
	{"Charged", "chargedMicro", exact},
	{"Closing", "closingMicro", exact},
	{"Final", "final", plain},
}}

func (e *env) statement() *cobra.Command {
	c := command("statement MONTH", "Show the statement of a month",
		`Show the statement of a month (UTC): the opening balance, grants and withdrawals, charges by day and model, and
the closing balance. Three days after its month a statement is final and never changes again.

As an operator, read the statement of one account with --account, or those of all with --account '*', whose
charges are by model only. With --check, nothing is printed unless a statement is wrong: its lines must add
up to its closing balance, which must be the opening balance of the next month, up to the current balance.`,
		"  stoa statement 2026-11\n  stoa statement 2026-11 --format html --account acme > acme.html\n  stoa statement 2026-11 --format csv --account '*' > invoices.csv\n  stoa statement 2026-11 --check")
	format := c.Flags().String("format", "table", "the `format`: table, csv, json or html")
	account := c.Flags().String("account", "", "for operators: an `account`, or '*' for all")
	sends(c, "account", "accountId")
	sort := c.Flags().String("sort", "", "with --account '*': sort by `value`, created or charged (default created)")
	order := c.Flags().String("order", "", "the `direction`: asc or desc (default desc)")
	sends(c, "sort", "sort")
	sends(c, "order", "order")
	check := c.Flags().Bool("check", false, "only check the statements")
	c.RunE = func(c *cobra.Command, args []string) error {
		month, ok := stoa.ParseMonth(args[0])
		if !ok {
			return usagef("%q is not a month; write one such as 2026-11", args[0])
		}
		o := &output{e: e, json: *format == "json"}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		ctx, query := c.Context(), url.Values{}
		if *account != "" && *account != everyAccount {
			if *account, err = accountCollection.find(ctx, call, *account); err != nil {
				return err
			}
		}
		if *account != "" {
			query.Set("accountId", *account)
		}
		for name, value := range map[string]string{"sort": *sort, "order": *order} {
			if value != "" {
				query.Set(name, value)
			}
		}
		path := "/statements/" + string(month)
		switch {
		case *check:
			return e.checkStatements(ctx, call, month, query)
		case *format == "csv":
			query.Set("format", "csv")
			return e.copyOut(ctx, call, path, query)
		case *format == "html":
			list, err := statements(ctx, call, path, query)
			if err != nil {
				return err
			}
			return statementPage.Execute(e.out, list)
		case *format != "table" && *format != "json":
			return usagef("--format accepts table, csv, json and html, not %q", *format)
		}
		return o.list(viewStatements, call.All(ctx, path, query, 0), 0, "There are no statements.")
	}
	return c
}

func statements(ctx context.Context, call *client.Client, path string, query url.Values) (list []contract.Statement, err error) {
	for raw, err := range call.All(ctx, path, query, 0) {
		var s contract.Statement
		if err == nil {
			err = jsonx.Unmarshal(raw, &s)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// checkStatements checks the lines of each statement from a month on, and that it continues the one before. The last
// one must close with the present balance, which a call may change meanwhile.
func (e *env) checkStatements(ctx context.Context, call *client.Client, month stoa.Month, query url.Values) error {
	first, checked := month, 0
	closings := map[string]int64{}
	for ; month <= stoa.MonthOf(time.Now()); month = month.Next() {
		list, err := statements(ctx, call, "/statements/"+string(month), query)
		if err != nil {
			return err
		}
		for _, s := range list {
			closing := s.OpeningMicro
			for _, g := range s.Grants {
				closing += g.AmountMicro
			}
			for _, g := range s.Withdrawals {
				closing -= g.AmountMicro
			}
			for _, charge := range s.Charges {
				closing -= charge.AmountMicro
			}
			if closing != s.ClosingMicro || closing != s.OpeningMicro+s.GrantedMicro-s.WithdrawnMicro-s.ChargedMicro {
				return fmt.Errorf("the lines of %s of %s add up to %d, but it closes with %d", s.Month, s.AccountID, closing, s.ClosingMicro)
			}
			before, seen := closings[s.AccountID]
			if (seen || month > first) && before != s.OpeningMicro {
				return fmt.Errorf("%s of %s opens with %d, but the month before closes with %d", s.Month, s.AccountID, s.OpeningMicro, before)
			}
			closings[s.AccountID] = closing
			checked++
		}
	}
	for id, closing := range closings {
		path := "/credits"
		if query.Has("accountId") {
			path = "/accounts/" + id
		}
		var now struct {
			contract.Credits
			Account contract.Credits `json:"credits"`
		}
		if _, err := call.JSON(ctx, "GET", path, nil, nil, &now); err != nil {
			return err
		}
		if balance := now.AvailableMicro + now.HeldMicro + now.Account.AvailableMicro + now.Account.HeldMicro; balance != closing {
			return fmt.Errorf("the statements of %s close with %d, but its balance is %d; if calls are running, check again", id, closing, balance)
		}
	}
	e.say("%d statements are correct.", checked)
	return nil
}

var statementPage = template.Must(template.New("").Funcs(template.FuncMap{"credits": func(n int64) string { return stoa.Credits(n).String() }}).Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Statement</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #111; }
section + section { break-before: page; margin-top: 4rem; }
table { width: 100%; border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: .25rem .5rem; border-bottom: 1px solid #ddd; overflow-wrap: anywhere; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
</style>
{{range .}}<section>
<h1>Statement of {{.Month}}</h1>
<p>{{.AccountName}}<br>{{.AccountID}}<br>All times are UTC, all amounts are credits.{{if not .Final}} This statement is not final.{{end}}</p>
<table>
<tr><th>Opening balance<td class="n">{{credits .OpeningMicro}}
{{range .Grants}}<tr><td>Granted: {{.Kind}} ({{.Count}})<td class="n">{{credits .AmountMicro}}
{{end}}{{range .Withdrawals}}<tr><td>Withdrawn: {{.Kind}} ({{.Count}})<td class="n">−{{credits .AmountMicro}}
{{end}}<tr><td>Charged<td class="n">−{{credits .ChargedMicro}}
<tr><th>Closing balance<th class="n">{{credits .ClosingMicro}}
</table>
{{if .Charges}}<table>
<tr><th>Day<th>Model<th class="n">Calls<th class="n">Input tokens<th class="n">Output tokens<th class="n">Credits
{{range .Charges}}<tr><td>{{.Day}}<td>{{.Model}}<td class="n">{{.Calls}}<td class="n">{{.InputTokens}}<td class="n">{{.OutputTokens}}<td class="n">{{credits .AmountMicro}}
{{end}}</table>
{{end}}</section>
{{end}}`))
