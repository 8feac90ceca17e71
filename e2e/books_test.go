package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"stoa/internal/testkit/fakeup"
)

// A receipt is a charge as the API returns it.
type receipt struct {
	ID    string
	Model struct {
		Requested, Served string
		FallbackReason    *string
	}
	Usage struct {
		InputTokens, CachedInputTokens, OutputTokens, TotalTokens int64
	}
	Price struct {
		InputMicroPerMillion, CachedInputMicroPerMillion, OutputMicroPerMillion int64
		Version                                                                 string
		Band                                                                    *string // the hours that set it
	}
	CreditsMicro               int64
	Estimated, Clamped, Capped bool
	WrittenOffMicro            int64
	Status                     string
	EndUser                    *string
	KeyID                      string
	CreatedAt                  string
}

// mark returns the mark of the call that a receipt is for.
func (r receipt) mark() string {
	if r.EndUser == nil {
		return ""
	}
	return *r.EndUser
}

// cost returns usage times price, rounded up once.
func (r receipt) cost() int64 {
	u, p := r.Usage, r.Price
	return ((u.InputTokens-u.CachedInputTokens)*p.InputMicroPerMillion + u.CachedInputTokens*p.CachedInputMicroPerMillion +
		u.OutputTokens*p.OutputMicroPerMillion + 999_999) / 1_000_000
}

// receipts returns all receipts of an account.
func (h *server) receipts(t testing.TB, key string) []receipt {
	t.Helper()
	var all []receipt
	cursor := ""
	for {
		var page struct {
			Data       []receipt
			NextCursor *string
			HasMore    bool
		}
		path := "/receipts?limit=100&order=asc"
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		h.get(t, key, path, &page)
		all = append(all, page.Data...)
		if !page.HasMore {
			return all
		}
		cursor = *page.NextCursor
	}
}

type credits struct {
	AvailableMicro, HeldMicro, GrantedMicro, SpentMicro int64
}

type reconciliation struct {
	Balanced                                                                      bool
	GrantedMicro, AvailableMicro, HeldMicro, Charges, ChargesMicro, ReceiptsMicro int64
	Differences                                                                   []any
}

// idle reports whether none of the account's agent sessions is queued or running.
func (h *server) idle(t testing.TB, a *account) bool {
	t.Helper()
	if a.agent == "" {
		return true
	}
	for _, status := range []string{"queued", "running"} {
		var list struct{ Data []any }
		h.get(t, a.key, "/api-agents/"+a.agent+"/sessions?limit=1&status="+status, &list)
		if len(list.Data) > 0 {
			return false
		}
	}
	return true
}

// quiet waits until no session of the account is queued or running (one may continue after a
// restart) and no credits are held, and returns the credits.
func (h *server) quiet(t testing.TB, a *account) credits {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), safetyNet)
	defer cancel()
	var c credits
	for ctx.Err() == nil {
		idle := h.idle(t, a)
		h.get(t, a.key, "/credits", &c)
		if idle && c.HeldMicro == 0 {
			return c
		}
	}
	t.Errorf("account %s: %d micro-credits are held although nothing runs", a.id, c.HeldMicro)
	return c
}

// checkConservation compares an account's credits with its receipts while nothing
// runs (invariants 1 and 6), and returns the receipts.
func (h *server) checkConservation(t testing.TB, a *account) []receipt {
	t.Helper()
	c := h.quiet(t, a)
	if c.AvailableMicro < 0 {
		t.Errorf("account %s has %d micro-credits", a.id, c.AvailableMicro)
	}
	if a.granted != c.GrantedMicro {
		t.Errorf("account %s was granted %d and says %d", a.id, a.granted, c.GrantedMicro)
	}
	if c.GrantedMicro != c.AvailableMicro+c.HeldMicro+c.SpentMicro {
		t.Errorf("account %s: granted is not available + held + spent: %+v", a.id, c)
	}
	all := h.receipts(t, a.key)
	var sum, capped int64
	for _, r := range all {
		sum += r.CreditsMicro
		if r.KeyID == a.cappedID {
			capped += r.CreditsMicro
		}
	}
	if capped > a.cap {
		t.Errorf("account %s: the key that may spend %d a day has spent %d", a.id, a.cap, capped)
	}
	if sum != c.SpentMicro {
		t.Errorf("account %s: %d receipts come to %d and the account has spent %d", a.id, len(all), sum, c.SpentMicro)
	}
	var rec reconciliation
	h.get(t, a.key, "/usage/reconcile", &rec)
	if !rec.Balanced || len(rec.Differences) > 0 || rec.Charges != int64(len(all)) || rec.ChargesMicro != sum {
		t.Errorf("account %s does not reconcile: %+v, with %d receipts of %d", a.id, rec, len(all), sum)
	}
	return all
}

// A record contains the replies that the callers of one mark received, by attempt.
type record struct {
	mark     string
	account  *account
	key      string // idempotency key; empty means that the call was made once
	session  bool   // of an agent, not a call of the model endpoint
	attempts []seen
}

// An audit contains all data for the checks of the invariants.
type audit struct {
	records  map[string]*record
	receipts map[*account][]receipt
	served   map[string][]fakeup.Served // by mark
	prices   map[string][3]int64        // by model, or model and hours: input, cached input, output
}

// markOf returns the text after "mark:" in a prompt.
func markOf(prompt string) string {
	for line := range strings.Lines(prompt) {
		if word, ok := strings.CutPrefix(line, "mark: "); ok {
			return strings.TrimSpace(word)
		}
	}
	return ""
}

func (h *server) newAudit(t testing.TB, records map[string]*record, served []fakeup.Served) *audit {
	t.Helper()
	a := &audit{records: records, receipts: map[*account][]receipt{}, served: map[string][]fakeup.Served{}, prices: map[string][3]int64{}}
	for _, s := range served {
		a.served[markOf(s.Prompt)] = append(a.served[markOf(s.Prompt)], s)
	}
	var meta struct {
		Models []struct {
			ID    string
			Price struct {
				InputMicroPerMillion, CachedInputMicroPerMillion, OutputMicroPerMillion int64
				Hours                                                                   []struct {
					Zone, From, To string
					Factor         int64
				}
			}
		}
	}
	h.get(t, "", "/meta", &meta)
	for _, m := range meta.Models {
		p := [3]int64{m.Price.InputMicroPerMillion, m.Price.CachedInputMicroPerMillion, m.Price.OutputMicroPerMillion}
		a.prices[m.ID] = p
		for _, h := range m.Price.Hours {
			a.prices[m.ID+" "+h.From+"-"+h.To+" "+h.Zone] = [3]int64{p[0] * h.Factor, p[1] * h.Factor, p[2] * h.Factor}
		}
	}
	return a
}

// check compares every receipt with the provider's records and the callers' results
// (invariants 2 to 5).
func (a *audit) check(t testing.TB) {
	t.Helper()
	byID := map[string]receipt{}
	byMark := map[string][]receipt{}
	for acc, list := range a.receipts {
		for _, r := range list {
			if _, twice := byID[r.ID]; twice {
				t.Errorf("two receipts have the id %s", r.ID)
			}
			byID[r.ID] = r
			byMark[r.mark()] = append(byMark[r.mark()], r)
			if err := a.checkReceipt(acc, r); err != nil {
				t.Errorf("receipt %s of %s: %v", r.ID, r.mark(), err)
			}
		}
	}
	for mark, rec := range a.records {
		charges := byMark[mark]
		if rec.session {
			for _, err := range checkSession(rec, charges) {
				t.Errorf("session %s: %v", mark, err)
			}
			continue
		}
		if len(charges) > 1 {
			t.Errorf("%s (idempotency key %q) was charged %d times: %+v; its callers saw %+v", mark, rec.key, len(charges), charges, rec.attempts)
		}
		ids := map[string]bool{}
		free := true // every attempt ended in a way that must be free
		for _, s := range rec.attempts {
			if !s.done() {
				free = free && (s.end == "failed" || s.status >= 400 || s.refused)
				continue
			}
			free = false
			ids[s.id] = true
			r, charged := byID[s.id]
			switch {
			case !charged:
				t.Errorf("%s: its caller saw %s %s, which has no charge", mark, s.id, s.end)
			case r.Status != s.end || r.Model.Served != s.model:
				t.Errorf("%s: its caller saw %s of %s, the receipt says %s of %s", mark, s.end, s.model, r.Status, r.Model.Served)
			case r.Usage.InputTokens != s.usage.Input || r.Usage.OutputTokens != s.usage.Output || r.Usage.TotalTokens != s.usage.Total:
				t.Errorf("%s: its caller was told %+v, the receipt says %+v", mark, s.usage, r.Usage)
			case s.charge >= 0 && s.charge != r.CreditsMicro && !s.replayed:
				t.Errorf("%s: its caller was told a charge of %d, the receipt says %d", mark, s.charge, r.CreditsMicro)
			}
		}
		if len(ids) > 1 {
			t.Errorf("%s: its callers saw several replies: %v", mark, ids)
		}
		if free && len(charges) > 0 {
			t.Errorf("%s failed and was charged: %+v; its callers saw %+v", mark, charges, rec.attempts)
		}
	}
	for mark, list := range byMark {
		if a.records[mark] == nil {
			t.Errorf("no caller made the call %q that was charged: %+v", mark, list)
		}
	}
}

// checkSession compares a session of one step with its charges: one if it has
// completed, for that usage, and none otherwise, since the step and its charge
// are committed together.
func checkSession(rec *record, charges []receipt) (errs []error) {
	if len(rec.attempts) == 0 {
		return nil // it was never started, which another check reports
	}
	s := rec.attempts[0]
	want := 0
	if s.end == "completed" {
		want = 1
	}
	if len(charges) != want {
		return append(errs, fmt.Errorf("it %s and has %d charges: %+v", s.end, len(charges), charges))
	}
	for _, r := range charges {
		if r.ID != s.id+".1.1" || r.Model.Served != s.model {
			errs = append(errs, fmt.Errorf("the session %s of %s has the charge %s of %s", s.id, s.model, r.ID, r.Model.Served))
		}
		if r.Usage.InputTokens != s.usage.Input || r.Usage.OutputTokens != s.usage.Output || r.Usage.TotalTokens != s.usage.Total {
			errs = append(errs, fmt.Errorf("it tells %+v, its charge %+v", s.usage, r.Usage))
		}
	}
	return errs
}

// checkReceipt compares one receipt with the price list and the provider's records.
func (a *audit) checkReceipt(acc *account, r receipt) error {
	if rec := a.records[r.mark()]; rec != nil && rec.account != acc {
		return fmt.Errorf("it is charged to %s; the call was made by %s", acc.id, rec.account.id)
	}
	priced := r.Model.Served
	if r.Price.Band != nil {
		priced += " " + *r.Price.Band
	}
	price := a.prices[priced]
	if got := [3]int64{r.Price.InputMicroPerMillion, r.Price.CachedInputMicroPerMillion, r.Price.OutputMicroPerMillion}; got != price {
		return fmt.Errorf("its price is %v, that of %s is %v", got, priced, price)
	}
	full := r.CreditsMicro + r.WrittenOffMicro
	switch {
	case r.Capped && full > r.cost(), !r.Capped && full != r.cost(), !r.Clamped && r.WrittenOffMicro != 0:
		return fmt.Errorf("the charge of %d is not its usage at its price, %d: %+v", r.CreditsMicro, r.cost(), r)
	}
	accepted := false
	for _, s := range a.served[r.mark()] {
		writing := s.Status == 0 && !s.DisconnectedAt.IsZero() && s.Refused == "" // a whole reply
		if s.Status != http.StatusOK && !(writing && r.Status == "cancelled" && r.Usage.OutputTokens == 0) {
			continue
		}
		accepted = true
		if r.Estimated || s.Usage.Input == r.Usage.InputTokens && s.Usage.Cached == r.Usage.CachedInputTokens && s.Usage.Output == r.Usage.OutputTokens {
			return nil
		}
	}
	if !accepted {
		return fmt.Errorf("no vendor served it: %+v", a.served[r.mark()])
	}
	return fmt.Errorf("the vendor told another usage: %+v, the receipt says %+v", a.served[r.mark()], r)
}

// verify runs "stoa ledger verify" on the store.
func (h *server) verify(t testing.TB) {
	t.Helper()
	args := []string{"ledger", "verify", "--data", h.data}
	if h.postgres != "" {
		args = []string{"ledger", "verify", "--database", h.postgres}
	}
	if out, errOut, code := run(t, args...); code != 0 {
		t.Errorf("ledger verify exits with %d:\n%s%s", code, out, errOut)
	}
}

// grant tops an account up once, repeating the request as often as necessary.
func (h *server) grant(ctx context.Context, a *account, amount int64, ref string) error {
	for {
		status, err := h.call(ctx, http.MethodPost, ownerKey, "/accounts/"+a.id+"/grants",
			object{"amountMicro": amount, "reason": "top-up", "externalRef": ref}, nil)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if status != 0 && status < 500 {
			return err
		}
		h.await(ctx)
		if status == http.StatusServiceUnavailable {
			pass(ctx, retryAfter)
		}
	}
}
