package billing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

// model is the expected state of the books in its simplest form.
type model struct {
	accounts []stoa.Account
	granted  map[string]stoa.Credits
	owed     map[string]stoa.Credits
	charges  map[string]stoa.Charge // by id
	grants   map[string]stoa.Grant  // by reference
	holds    []*modelHold
	next     int
}

type modelHold struct {
	*billing.Hold
	account string
	amount  stoa.Credits
}

func (m *model) spent(account string) (sum stoa.Credits) {
	for _, c := range m.charges {
		if c.AccountID == account {
			sum += c.Amount
		}
	}
	return sum
}

func (m *model) held(account string) (sum stoa.Credits) {
	for _, h := range m.holds {
		if h.account == account {
			sum += h.amount
		}
	}
	return sum
}

func (m *model) free(account string) stoa.Credits {
	return m.granted[account] - m.spent(account) - m.held(account)
}

func (m *model) drop(i int) { m.holds = append(m.holds[:i], m.holds[i+1:]...) }

// TestLedgerMatchesItsModel runs random grants, holds, settles, releases, repeats and crashes
// against a ledger over a real store and against the model, and compares the complete state
// after each step.
func TestLedgerMatchesItsModel(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		defer func() { st.Close() }()
		l, stop := start(t, st, billing.Config{})
		ctx := context.Background()
		boom := errors.New("boom")
		rapid.Check(t, func(rt *rapid.T) {
			m := &model{granted: map[string]stoa.Credits{}, owed: map[string]stoa.Credits{}, charges: map[string]stoa.Charge{}, grants: map[string]stoa.Grant{}}
			run := stoa.NewID("run")
			for range 2 {
				a := storetest.Account(t, st, 0)
				m.accounts = append(m.accounts, a)
			}
			account := rapid.SampledFrom(m.accounts)
			amount := rapid.Int64Range(0, 60)
			rt.Repeat(map[string]func(*rapid.T){
				"grant": func(rt *rapid.T) {
					a, n := account.Draw(rt, "account"), stoa.Credits(amount.Draw(rt, "amount")+1)
					ref := ""
					if rapid.Bool().Draw(rt, "named") {
						ref = fmt.Sprint(run, rapid.IntRange(0, 5).Draw(rt, "ref"))
					}
					g, created, err := l.Grant(ctx, stoa.Grant{AccountID: a.ID, Amount: n, ExternalRef: ref})
					first, repeated := m.grants[ref]
					switch {
					case repeated && (first.AccountID != a.ID || first.Amount != n):
						if stoa.CodeOf(err) != stoa.CodeConflict {
							rt.Fatalf("another grant under the same reference: %v", err)
						}
						return
					case err != nil:
						rt.Fatal(err)
					case repeated:
						if created || g.ID != first.ID {
							rt.Fatalf("a repeated grant: created %v, %+v", created, g)
						}
						return
					case !created:
						rt.Fatalf("the grant was not made")
					}
					paid := min(n, m.owed[a.ID])
					if g.Repaid != paid {
						rt.Fatalf("%+v paid %d, want %d", g, g.Repaid, paid)
					}
					m.granted[a.ID] += n - paid
					m.owed[a.ID] -= paid
					g.Repaid = 0
					if ref != "" {
						m.grants[ref] = g
					}
				},
				"withdraw": func(rt *rapid.T) {
					a, n, owe := account.Draw(rt, "account"), stoa.Credits(amount.Draw(rt, "amount")+1), rapid.Bool().Draw(rt, "owe")
					m.next++
					asked := stoa.Withdrawal{AccountID: a.ID, Amount: n, ExternalRef: fmt.Sprint(run, "_w", m.next), Kind: stoa.Withdrawn}
					taken := min(n, m.free(a.ID))
					for _, first := range []bool{true, false} {
						w, created, err := l.Withdraw(ctx, asked, owe, nil)
						if !owe && taken == 0 {
							if err != nil || created {
								rt.Fatalf("nothing to take: %+v, %v", w, err)
							}
							continue
						}
						if err != nil || created != first || w.Taken != taken || owe && w.Owed() != n-taken || !owe && w.Owed() != 0 {
							rt.Fatalf("withdrew %+v, created %v, %v; want %d of %d", w, created, err, taken, n)
						}
					}
					m.granted[a.ID] -= taken
					if owe {
						m.owed[a.ID] += n - taken
					}
				},
				"hold": func(rt *rapid.T) {
					a := account.Draw(rt, "account")
					least := stoa.Credits(amount.Draw(rt, "least"))
					most := least + stoa.Credits(amount.Draw(rt, "more"))
					free := m.free(a.ID)
					h, err := l.Hold(ctx, caller(a), least, most)
					if free < least || free <= 0 && most > 0 {
						if stoa.CodeOf(err) != stoa.CodeQuota {
							rt.Fatalf("held at least %d of %d: %v", least, free, err)
						}
						return
					}
					if err != nil {
						rt.Fatalf("hold at least %d of %d: %v", least, free, err)
					}
					if want := min(most, free); h.Amount() != want {
						rt.Fatalf("held %d, want %d", h.Amount(), want)
					}
					m.holds = append(m.holds, &modelHold{Hold: h, account: a.ID, amount: h.Amount()})
				},
				"settle": func(rt *rapid.T) {
					if len(m.holds) == 0 {
						rt.Skip("nothing is held")
					}
					i := rapid.IntRange(0, len(m.holds)-1).Draw(rt, "hold")
					h := m.holds[i]
					n := stoa.Credits(amount.Draw(rt, "amount"))
					m.next++
					id := fmt.Sprint(run, "_", m.next)
					var repeated *stoa.Charge
					if rapid.IntRange(0, 3).Draw(rt, "repeat") == 0 {
						for old, c := range m.charges { // any will do
							if c.AccountID == h.account {
								id, repeated = old, &c
								break
							}
						}
					}
					var also []func(context.Context, *store.Tx) error
					fails := false
					switch rapid.IntRange(0, 3).Draw(rt, "also") {
					case 0:
						fails = repeated == nil
						also = append(also, func(context.Context, *store.Tx) error { return boom })
					case 1:
						also = append(also, func(ctx context.Context, tx *store.Tx) error {
							_, err := tx.Books().Account(ctx, h.account)
							return err
						})
					}
					c, err := h.Settle(ctx, charge(id, n), also...)
					if fails {
						if !errors.Is(err, boom) {
							rt.Fatalf("a failing closure: %v", err)
						}
						return
					}
					if err != nil {
						rt.Fatal(err)
					}
					if repeated != nil {
						if c != *repeated {
							rt.Fatalf("a repeat was answered with %+v, first %+v", c, *repeated)
						}
						m.drop(i)
						return
					}
					if want := min(n, h.amount+m.free(h.account)); c.Amount != want || c.WrittenOff != n-want || c.Clamped != (want < n) {
						rt.Fatalf("charged %+v for %d, want %d", c, n, want)
					}
					m.drop(i)
					m.charges[id] = c
				},
				"release": func(rt *rapid.T) {
					if len(m.holds) == 0 {
						rt.Skip("nothing is held")
					}
					i := rapid.IntRange(0, len(m.holds)-1).Draw(rt, "hold")
					m.holds[i].Release()
					m.holds[i].Release()
					if _, err := m.holds[i].Settle(ctx, charge(run+"_released", 1)); err == nil {
						rt.Fatal("settled after the release")
					}
					m.drop(i)
				},
				"crash": func(rt *rapid.T) {
					if rapid.IntRange(0, 4).Draw(rt, "really") > 0 {
						rt.Skip("not this time")
					}
					// Nothing is flushed and no lease is returned: the ledger is dropped with
					// its holds. (The store is closed because this process lives on and has
					// its lock; a real kill is in crash_test.go.)
					st.Close()
					stop()
					m.holds = nil
					st = database.Open()
					l, stop = start(t, st, billing.Config{})
				},
				"": func(rt *rapid.T) {
					for _, a := range m.accounts {
						got, err := l.Balance(ctx, a.ID)
						if err != nil {
							rt.Fatal(err)
						}
						want := stoa.Balance{Available: m.free(a.ID), Held: m.held(a.ID), Granted: m.granted[a.ID], Spent: m.spent(a.ID), Owed: m.owed[a.ID]}
						if got != want {
							rt.Fatalf("balance of %s: %+v, want %+v", a.ID, got, want)
						}
					}
					if diffs, err := l.Verify(ctx); err != nil || len(diffs) > 0 {
						rt.Fatalf("the books are wrong: %v %v", diffs, err)
					}
				},
			})
			for _, h := range m.holds {
				h.Release()
			}
		})
		wantBooksInOrder(t, l)
	})
}
