package api_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"stoa/internal/apitest"
	"stoa/internal/contract"
	"stoa/internal/stoa"
)

// TestEveryChargeIsTheInvoice makes random calls in each format to each wire, streamed and
// whole, whose vendors read and write caches, reason, and end by a limit: each charge is the
// vendor's invoice, rounded up, and no more than was held.
func TestEveryChargeIsTheInvoice(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	random := rand.New(rand.NewPCG(1, 2))
	models := []string{"alpha-sonnet-5-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"}
	prices := map[string]stoa.Price{}
	for _, model := range models {
		res, err := h.Gateway.Catalog.Load().Resolve(model, stoa.Plan{GatedModels: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		prices[model] = res.Models[0].Price
	}
	formats := []func(model, text string, more body) (string, body){
		func(model, text string, more body) (string, body) {
			return responses, with(body{"model": model, "input": text}, more)
		},
	}
	for _, format := range otherFormats {
		formats = append(formats, func(model, text string, more body) (string, body) {
			return format.path, format.call(model, text, more)
		})
	}
	before := quiet(t, h).Spent
	calls := 0
	for round := range 20 {
		for _, model := range models {
			for _, format := range formats {
				for _, stream := range []bool{false, true} {
					cached, written := random.IntN(60), random.IntN(60)
					text := fmt.Sprintf("cached: %d\nwritten: %d\nwritten-long: %d\ntokens: %d\nmark: %s", cached, written, random.IntN(written+1), 1+random.IntN(40), strings.Repeat("x", random.IntN(3_000)))
					if random.IntN(4) == 0 {
						text = "stop: length\n" + text
					}
					if random.IntN(4) == 0 {
						text = fmt.Sprintf("think: %d\n", 1+random.IntN(200)) + text
					}
					path, call := format(model, text, body{"stream": stream})
					c.Want(200, "POST", path, call)
					calls++
					served := f.WaitEnded(t, calls)
					u := served[len(served)-1].Usage
					want := prices[model].Cost(stoa.Usage{InputTokens: u.Input, CachedTokens: u.Cached, CacheWriteTokens: u.Written, CacheWriteLongTokens: u.Long, OutputTokens: u.Output})
					after := quiet(t, h).Spent
					if got := after - before; got != want {
						t.Errorf("round %d, %s of %s, stream %v: charged %d, the vendor asks %d for %+v", round, path, model, stream, got, want, u)
					}
					before = after
				}
			}
		}
	}
	saved, receipts := usageSaved(t, c)
	if saved != receipts || saved == 0 {
		t.Errorf("the usage says that caches saved %d, the receipts %d", saved, receipts)
	}
	if diffs, err := h.Ledger.Verify(t.Context()); err != nil || len(diffs) != 0 {
		t.Errorf("the books differ: %+v, %v", diffs, err)
	}
}

// usageSaved returns the credits that caches saved, by the usage of an account and by its receipts.
func usageSaved(t *testing.T, c *apitest.Client) (usage, receipts int64) {
	t.Helper()
	var report contract.UsageReport
	c.Want(200, "GET", "/api/v1/usage?groupBy=model,day", nil).JSON(&report)
	var sum int64
	for _, row := range report.Data {
		sum += row.SavedMicro
	}
	if sum != report.Totals.SavedMicro {
		t.Errorf("the groups saved %d, all of them %d", sum, report.Totals.SavedMicro)
	}
	path := "/api/v1/receipts?limit=100"
	for next := path; next != ""; {
		var page contract.ReceiptList
		c.Want(200, "GET", next, nil).JSON(&page)
		for _, r := range page.Data {
			receipts += r.Cache.SavedMicro
		}
		if next = ""; page.HasMore {
			next = path + "&cursor=" + page.NextCursor.MustGet()
		}
	}
	return report.Totals.SavedMicro, receipts
}
