package api_test

import (
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
)

const previewPath = "/api/v1/prices/preview"

// TestThePreviewIsWhatWouldBeCharged previews the present month twice: at the present prices the sums are
// what was charged, and at other prices they are the sum of what each receipt costs at them.
func TestThePreviewIsWhatWouldBeCharged(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited})
	c := h.Client(t)
	month := string(stoa.MonthOf(time.Now()))
	var other contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "Other", "plan": "free", "grantMicro": 5_000}).JSON(&other)
	poor := h.ClientWith(t, other.Key.Secret)
	for n, model := range []string{"auto", "alpha-sonnet-5-5", "beta-3.8-flash", "alpha-opus-5-5", "delta-v4-flash"} {
		call := object{"model": model, "input": strings.Repeat("word ", 10*n+1) + "\nsay: " + strings.Repeat("hello ", 7*n+1)}
		c.Do("POST", "/api/v1/responses", call)
		poor.Do("POST", "/api/v1/responses", call) // a gated model is answered by another one; the last calls are shortened or refused
	}
	a := newAuthor(t, h, c, nil)
	_, path := a.begin(t, "say: done", nil)
	a.until(t, path, "completed")

	var receipts []store.Receipt
	for _, account := range []string{h.Account.ID, other.ID} {
		if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
			list, _, err := tx.Books().Receipts(t.Context(), account, store.ReceiptFilter{}, store.Page{Limit: 100})
			receipts = append(receipts, list...)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	var charged, raised int64
	price := stoa.Price{Input: 30_000_123, CachedInput: 30_000_123, CacheWrite: 30_000_123, CacheWriteLong: 30_000_123, Output: 70_000_321}
	for _, r := range receipts {
		charged += int64(r.Amount)
		if n := int64(r.Amount); r.Served == "beta-3.8-flash" && (r.Asked == "auto" || r.Asked == "beta-3.8-flash") && !r.Clamped {
			raised += int64(price.Cost(r.Usage)) - n
		}
	}
	if len(receipts) < 8 || raised <= 0 {
		t.Fatalf("only %d receipts, raised by %d", len(receipts), raised)
	}
	preview := func(body object) (p contract.PricesPreview) {
		t.Helper()
		c.Want(200, "POST", previewPath, body).JSON(&p)
		return p
	}
	for _, by := range [][]string{nil, {"account"}, {"plan"}, {"account", "plan", "model"}} {
		p := preview(object{"month": month, "groupBy": by})
		if p.Totals.ChargedMicro != charged || p.Totals.DifferenceMicro != 0 || p.Totals.Calls != int64(len(receipts)) {
			t.Errorf("by %v: %+v, want %d of %d calls", by, p.Totals, charged, len(receipts))
		}
		var sum int64
		for _, row := range p.Data {
			if row.DifferenceMicro != 0 {
				t.Errorf("by %v: at the present prices %+v", by, row)
			}
			sum += row.ChargedMicro
		}
		if sum != charged {
			t.Errorf("by %v: the rows add up to %d, want %d", by, sum, charged)
		}
	}
	p := preview(object{"month": month, "groupBy": []string{"model", "account"}, "settings": object{"models": object{"beta-3.8-flash": object{"price": object{"input": price.Input, "output": price.Output}}}}})
	if p.Totals.DifferenceMicro < raised || p.Totals.ChargedMicro != charged {
		t.Errorf("at a higher price: %+v, want at least %d more", p.Totals, raised)
	}
	for _, row := range p.Data {
		if row.Model != "beta-3.8-flash" && row.Model != "alpha-sonnet-5-5" && row.DifferenceMicro != 0 {
			t.Errorf("another model: %+v", row)
		}
	}
	for param, body := range map[string]object{
		"month":                {"month": "2199-01"},
		"settings.models.none": {"month": month, "settings": object{"models": object{"none": object{"price": object{"input": 1, "output": 1}}}}},
		"settings.models.beta-3.8-flash.price.input": {"month": month, "settings": object{"models": object{"beta-3.8-flash": object{"price": object{"input": -1, "output": 1}}}}},
	} {
		if e := c.Want(400, "POST", previewPath, body).Error(); e.Param == nil || !strings.HasPrefix(*e.Param, param) {
			t.Errorf("%s: %+v", param, e)
		}
	}
	poor.Want(403, "POST", previewPath, object{"month": month})
}
