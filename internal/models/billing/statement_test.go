package billing_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/billing"
	"stoa/internal/testkit/storetest"
)

var customers = flag.Int("customers", 30, "the number of customers of TestStatementsAreTheLedger; nightly: 1000")

// A customer is an account of TestStatementsAreTheLedger with what its statements must say.
type customer struct {
	stoa.Account
	granted, charged map[stoa.Month]stoa.Credits
	lines            map[string]stoa.Credits // by month, day and model
	lease            store.Lease
}

// TestStatementsAreTheLedger makes up months of many customers, and compares their statements to the
// micro-credit with what was granted and charged: computed, final, and after their receipts are removed.
func TestStatementsAreTheLedger(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		ctx := context.Background()
		st := database.Open()
		random := rand.New(rand.NewPCG(1, 2))
		models := []string{"alpha-sonnet-5-5", "beta-3.8-flash", "=HYPERLINK(\"x\")"}
		now := time.Now().UTC()
		first := stoa.MonthOf(now).Start().AddDate(0, -4, 0)
		write := func(at time.Time, fn func(tx *store.Tx) error) {
			t.Helper()
			if err := st.Write(ctx, func(tx *store.Tx) error {
				tx.Now = at
				return fn(tx)
			}); err != nil {
				t.Fatal(err)
			}
		}
		list := make([]*customer, *customers)
		for i := range list {
			c := &customer{granted: map[stoa.Month]stoa.Credits{}, charged: map[stoa.Month]stoa.Credits{}, lines: map[string]stoa.Credits{}}
			list[i] = c
			write(first, func(tx *store.Tx) (err error) {
				if c.Account, err = tx.Books().InsertAccount(ctx, stoa.Account{Name: fmt.Sprint("customer ", i), Plan: "free"}); err != nil {
					return err
				}
				_, _, err = tx.Books().InsertGrant(ctx, stoa.Grant{AccountID: c.ID, Amount: 1_000_000})
				return err
			})
			c.granted[stoa.MonthOf(first)] = 1_000_000
			write(first, func(tx *store.Tx) (err error) {
				c.lease, _, err = tx.Books().Lease(ctx, c.ID, st.Node())
				return err
			})
			for n := range 4 {
				at := first.Add(time.Duration(random.Int64N(int64(now.Sub(first)))))
				if n == 0 {
					at = first.AddDate(0, 1, 0) // the first instant of a month
				}
				write(at, func(tx *store.Tx) error {
					var receipts []store.Receipt
					var sum stoa.Credits
					for k := range 1 + random.IntN(8) {
						amount := stoa.Credits(random.IntN(5_000))
						receipts = append(receipts, store.Receipt{
							Charge: stoa.Charge{
								ID: fmt.Sprintf("resp_%d_%d_%d", i, n, k), AccountID: c.ID, KeyID: "key_1", Served: models[random.IntN(len(models))], State: "completed",
								Usage: stoa.Usage{OutputTokens: int64(amount)}, Price: stoa.Price{Output: stoa.Credit}, Amount: amount, StartedAt: at,
							},
							LeaseID: c.lease.ID, NodeID: st.Node(),
						})
						sum += amount
						c.charged[stoa.MonthOf(at)] += amount
						c.lines[at.Format(time.DateOnly)+receipts[k].Served] += amount
					}
					if _, err := tx.Books().InsertCharges(ctx, receipts); err != nil {
						return err
					}
					_, err := tx.Books().SpendLease(ctx, c.lease.ID, sum)
					return err
				})
				if random.IntN(2) == 0 {
					amount := stoa.Credits(1 + random.IntN(9_000))
					c.granted[stoa.MonthOf(at)] += amount
					write(at, func(tx *store.Tx) error {
						_, _, err := tx.Books().InsertGrant(ctx, stoa.Grant{AccountID: c.ID, Amount: amount})
						return err
					})
				}
			}
		}

		// compare checks every statement of every customer.
		compare := func(what string, final stoa.Month) {
			t.Helper()
			for _, c := range list {
				var balance stoa.Credits
				for month := stoa.MonthOf(first); month <= stoa.MonthOf(now); month = month.Next() {
					var s stoa.Statement
					if err := st.Report(ctx, func(tx *store.Tx) (err error) {
						s, err = tx.Books().Statement(ctx, c.ID, month)
						return err
					}); err != nil {
						t.Fatal(err)
					}
					closing := balance + c.granted[month] - c.charged[month]
					granted, _ := s.Granted()
					if s.Opening != balance || granted != c.granted[month] || s.Charged != c.charged[month] || s.Closing != closing || s.Final != (month <= final) {
						t.Fatalf("%s, %s: %+v; want %d + %d - %d = %d, final until %s", what, month, s, balance, c.granted[month], c.charged[month], closing, final)
					}
					balance = closing
					for _, line := range s.Charges {
						if want := c.lines[line.Day+line.Model]; line.Amount != want || line.OutputTokens != int64(want) {
							t.Fatalf("%s: %+v, want %d", what, line, want)
						}
					}
				}
				if err := st.Read(ctx, func(tx *store.Tx) error {
					f, err := tx.Books().Funds(ctx, c.ID)
					if f.Balance+f.Leased != balance {
						t.Fatalf("%s: %+v are left, the statements close with %d", what, f, balance)
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			for month := stoa.MonthOf(first); month <= stoa.MonthOf(now); month = month.Next() {
				var want, got stoa.Credits
				for _, c := range list {
					want += c.charged[month]
				}
				if err := st.Report(ctx, func(tx *store.Tx) error {
					charges, err := tx.Books().ChargesOfMonth(ctx, month)
					for _, c := range charges {
						got += c.Amount
					}
					return err
				}); err != nil {
					t.Fatal(err)
				}
				if got != want {
					t.Fatalf("%s, %s: all accounts were charged %d, want %d", what, month, got, want)
				}
			}
			wantBooksInOrder(t, billing.New(st, billing.Config{}))
		}
		compare("computed", "")
		third := stoa.MonthOf(first).Next().Next()
		for range 2 { // the second time it stores nothing
			if err := billing.EndStatements(ctx, st, third.End().Add(3*24*time.Hour)); err != nil {
				t.Fatal(err)
			}
			compare("final", third)
		}
		for _, c := range list {
			write(now, func(tx *store.Tx) error {
				_, err := tx.PurgeReceipts(ctx, c.ID, third.End().AddDate(0, 0, -1), 1000)
				return err
			})
		}
		compare("without receipts", third)
		write(now, func(tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE statements SET closing = closing + 1 WHERE account_id = $1 AND month = $2`, list[0].ID, string(third.Start().AddDate(0, -1, 0).Format("2006-01")))
			return err
		})
		if diffs, err := billing.New(st, billing.Config{}).Verify(ctx); err != nil || len(diffs) == 0 {
			t.Errorf("a changed statement: %+v, %v", diffs, err)
		}
	})
}

// TestReceiptsThatAreGoneHaveNoStatement opens the statements of a store whose receipts were removed before
// it kept statements.
func TestReceiptsThatAreGoneHaveNoStatement(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		ctx := context.Background()
		st := database.Open()
		a := storetest.Account(t, st, 0)
		now := time.Now().UTC()
		gone := stoa.MonthOf(now).Start().AddDate(0, -2, 0)
		if err := st.Write(ctx, func(tx *store.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE accounts SET created_at = $1`, gone.AddDate(-1, 0, 0).UnixMicro()); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO purged_charges (account_id, lease_id, charges, amount, written_off, last_at) VALUES ($1, 'l', 1, 0, 0, $2)`, a.ID, gone.UnixMicro())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for month, want := range map[stoa.Month]stoa.Code{stoa.MonthOf(gone): stoa.CodeNotFound, stoa.MonthOf(gone).Next(): ""} {
				err := st.Read(ctx, func(tx *store.Tx) error {
					_, err := tx.Books().Statement(ctx, a.ID, month)
					return err
				})
				if err != nil && stoa.CodeOf(err) != want || err == nil && want != "" {
					t.Errorf("%s: %v", month, err)
				}
			}
			if err := billing.EndStatements(ctx, st, now.AddDate(0, 1, 0)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
