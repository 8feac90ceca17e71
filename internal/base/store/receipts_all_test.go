package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestReceiptsOfAllAccountsAreListed reads the charges of several accounts and hours in pages, both ways, and with a filter that
// one charge matches, over more hours than a page reads.
func TestReceiptsOfAllAccountsAreListed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		var want []string // oldest first
		const hours = 30
		var accounts []stoa.Account
		for range 3 {
			accounts = append(accounts, storetest.Account(t, st, 100_000))
		}
		for hour := hours; hour >= 0; hour-- {
			var list []store.Receipt
			for i, a := range accounts {
				r := receipt(a.ID, fmt.Sprintf("resp_%02d_%d_%s", hours-hour, i, a.ID), 1)
				if hour == hours {
					r.KeyID = "key_rare"
				}
				list = append(list, r)
				want = append(want, r.ID)
			}
			write(t, st, func(tx *store.Tx) error {
				tx.Now = tx.Now.Add(-time.Duration(hour) * time.Hour)
				_, err := tx.Books().InsertCharges(ctx, list)
				return err
			})
		}
		for _, asc := range []bool{true, false} {
			for _, f := range []store.ReceiptFilter{{}, {KeyID: "key_rare"}, {From: time.Now().Add(-150 * time.Minute)}} {
				ids := want
				switch {
				case f.KeyID != "":
					ids = want[:3]
				case !f.From.IsZero():
					ids = want[len(want)-9:]
				}
				if !asc {
					ids = slices.Clone(ids)
					slices.Reverse(ids)
				}
				var got []string
				for p := (store.Page{Limit: 4, Asc: asc}); ; {
					var list []store.Receipt
					var next store.Cursor
					read(t, st, func(tx *store.Tx) (err error) {
						list, next, err = tx.Books().ReceiptsOfAll(ctx, f, p)
						return err
					})
					for _, r := range list {
						got = append(got, r.ID)
					}
					if p.After = next; next == (store.Cursor{}) || len(got) > len(ids) {
						break
					}
				}
				if !slices.Equal(got, ids) {
					t.Errorf("ascending %v, %+v: %v, want %v", asc, f, got, ids)
				}
			}
		}
		read(t, st, func(tx *store.Tx) error {
			sum, err := tx.Books().SumReceipts(ctx, "", store.ReceiptFilter{All: true})
			rare, err2 := tx.Books().SumReceipts(ctx, "", store.ReceiptFilter{All: true, KeyID: "key_rare"})
			if err == nil {
				err = err2
			}
			if sum.Calls != int64(len(want)) || rare.Calls != 3 {
				t.Errorf("%d receipts, %d of the key; want %d and 3", sum.Calls, rare.Calls, len(want))
			}
			return err
		})
	})
}
