package cli

import (
	"encoding/csv"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

func viewPricesPreview(by []string) view {
	v := view{schema: "PricesPreviewRow"}
	for _, word := range by {
		v.columns = append(v.columns, map[string]column{
			"account": {"Account", "accountName", flexible}, "model": {"Model", "model", plain}, "plan": {"Plan", "plan", plain},
		}[word])
	}
	v.columns = append(v.columns, column{"Calls", "calls", count}, column{"Charged", "chargedMicro", exact}, column{"At the new prices", "newMicro", exact}, column{"Difference", "differenceMicro", exact})
	return v
}

func (e *env) prices() *cobra.Command {
	all := group("prices", "Compare prices", "Compare prices with the usage of a month. Requires a key with the scope operator:read.")
	c := command("preview FILE", "Compute a month at other prices",
		`Compute the receipts of all accounts in a month of UTC, of calls and of agents, at the prices of the models in a
file, and compare the sums with what was charged. The file has the form of the configuration file; only the prices
in its member models are used, and other models have their current prices. "-" is standard input. Nothing changes.`,
		"  stoa prices preview new.yaml --month 2026-10\n  stoa prices preview new.yaml --month 2026-10 --by account,plan --format csv > effect.csv")
	month := c.Flags().String("month", "", "the `month`, such as 2026-10")
	by := c.Flags().StringSlice("by", []string{"model"}, "the `groups`, in order, separated by commas: account, model and plan")
	sends(c, "by", "groupBy")
	format := c.Flags().String("format", "table", "the `format`: table, csv or json")
	c.RunE = func(c *cobra.Command, args []string) error {
		at, ok := stoa.ParseMonth(*month)
		if !ok {
			return usagef("--month is required: a month such as 2026-10")
		}
		for _, word := range *by {
			if !slices.Contains([]string{"account", "model", "plan"}, word) {
				return usagef("--by accepts account, model and plan, not %q", word)
			}
		}
		if !slices.Contains([]string{"table", "csv", "json"}, *format) {
			return usagef("--format accepts table, csv and json, not %q", *format)
		}
		text, err := e.fileText(args[0], args[0], maxSettings)
		if err != nil {
			return err
		}
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return usagef("%s is not YAML: %w", args[0], err)
		}
		var file struct {
			Models json.RawMessage `json:"models"`
		}
		if err := json.Unmarshal(raw, &file); err != nil || len(file.Models) == 0 {
			return usagef("%s has no member models with prices", args[0])
		}
		o := &output{e: e, json: *format == "json"}
		call, err := e.ready(o)
		if err != nil {
			return err
		}
		body := map[string]any{"month": at, "groupBy": *by, "settings": map[string]any{"models": file.Models}}
		var p contract.PricesPreview
		var rows struct {
			Data []jsonx.Value `json:"data"`
		}
		reply, err := call.JSON(c.Context(), "POST", "/prices/preview", nil, body, &p)
		if err != nil {
			return err
		}
		switch *format {
		case "json":
			return o.printJSON(reply)
		case "csv":
			return e.previewCSV(*by, p.Data)
		}
		if err := jsonx.Unmarshal(reply, &rows); err != nil {
			return err
		}
		if err := o.list(viewPricesPreview(*by), sequence(rows.Data), 0, "Nothing was charged in this month."); err != nil {
			return err
		}
		e.say("%s: %s credits were charged for %d calls; at the new prices %s (difference %s).", p.Month,
			stoa.Credits(p.Totals.ChargedMicro), p.Totals.Calls, stoa.Credits(p.Totals.NewMicro), stoa.Credits(p.Totals.DifferenceMicro))
		return nil
	}
	all.AddCommand(c)
	return all
}

// previewCSV prints rows as CSV.
func (e *env) previewCSV(by []string, rows []contract.PricesPreviewRow) error {
	w := csv.NewWriter(e.out)
	names := map[string][]string{"account": {"accountId", "accountName"}, "model": {"model"}, "plan": {"plan"}}
	var header []string
	for _, word := range by {
		header = append(header, names[word]...)
	}
	if err := w.Write(append(header, "calls", "chargedMicro", "newMicro", "differenceMicro")); err != nil {
		return err
	}
	for _, r := range rows {
		texts := map[string][]string{"account": {r.AccountID, r.AccountName}, "model": {r.Model}, "plan": {r.Plan}}
		var cells []string
		for _, word := range by {
			for _, text := range texts[word] {
				cells = append(cells, csvText(text))
			}
		}
		for _, n := range []int64{r.Calls, r.ChargedMicro, r.NewMicro, r.DifferenceMicro} {
			cells = append(cells, strconv.FormatInt(n, 10))
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
