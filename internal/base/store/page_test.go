package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestPagesAreBoundedByBytes: a page of long rows ends early and reports more rows, and a
// reader who follows the pages gets every row once, in order.
func TestPagesAreBoundedByBytes(t *testing.T) {
	t.Parallel()
	const rows, size = 50, 400_000
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		ctx := context.Background()
		a := storetest.Account(t, st, 0)
		var want []string
		err := st.Write(ctx, func(tx *store.Tx) error {
			space, err := tx.Setup().InsertSpace(ctx, stoa.Space{AccountID: a.ID, Name: "s"})
			if err != nil {
				return err
			}
			for range rows {
				agent, err := tx.Setup().InsertAgent(ctx, stoa.Agent{AccountID: a.ID, SpaceID: space.ID, Name: "n", AgentSettings: stoa.AgentSettings{Instructions: strings.Repeat("i", size), DriveAccess: stoa.DriveReadOnly}})
				if err != nil {
					return err
				}
				want = append(want, agent.ID)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(want) // created at the same time, they are listed by id
		var got []string
		p := store.Page{Limit: 100, Asc: true}
		for more := true; more && len(got) <= rows; more = p.After != (store.Cursor{}) {
			var page []stoa.Agent
			var next store.Cursor
			err := st.Read(ctx, func(tx *store.Tx) (err error) {
				page, next, err = tx.Setup().Agents(ctx, a.ID, store.AgentFilter{}, p)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 || len(page) > 8<<20/size+1 {
				t.Fatalf("a page has %d rows of %d bytes", len(page), size)
			}
			for _, agent := range page {
				got = append(got, agent.ID)
			}
			last := page[len(page)-1]
			if next != (store.Cursor{}) && next != (store.Cursor{At: last.CreatedAt, ID: last.ID}) {
				t.Fatalf("the next page starts after %v", next)
			}
			p.After = next
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("the pages have %d rows, want %d in order", len(got), len(want))
		}
	})
}

// TestFilteredPagesLookAtABoundedNumber: a filter without an index ends a page after 2,000
// rows, and a reader who follows the pages gets every row once, in order.
func TestFilteredPagesLookAtABoundedNumber(t *testing.T) {
	t.Parallel()
	const rows, rare = 4500, 1000 // every 1,000th is of another key
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a := storetest.Account(t, st, 10_000)
		var all []store.Receipt
		var want []string
		for i := range rows {
			r := receipt(a.ID, fmt.Sprintf("resp_%05d", i), 1)
			r.AgentID, r.SessionID = "", ""
			if i%rare == 0 {
				r.KeyID = "key_rare"
				want = append(want, r.ID)
			}
			all = append(all, r)
		}
		charge(t, st, all...)
		for _, asc := range []bool{true, false} {
			var got []string
			pages := 0
			for p := (store.Page{Limit: 3, Asc: asc}); ; pages++ {
				var list []store.Receipt
				var next store.Cursor
				read(t, st, func(tx *store.Tx) (err error) {
					list, next, err = tx.Books().Receipts(ctx, a.ID, store.ReceiptFilter{KeyID: "key_rare"}, p)
					return err
				})
				for _, r := range list {
					got = append(got, r.ID)
				}
				if p.After = next; next == (store.Cursor{}) {
					break
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) || pages != 2 {
				t.Errorf("ascending %v: %v on %d pages before the last, want %v on 2", asc, got, pages, want)
			}
		}
		read(t, st, func(tx *store.Tx) error { // with an index, no row is read in vain
			list, next, err := tx.Books().Receipts(ctx, a.ID, store.ReceiptFilter{EndUser: "nobody"}, store.Page{})
			if len(list) != 0 || next != (store.Cursor{}) {
				t.Errorf("of nobody: %d, next %v", len(list), next)
			}
			return err
		})
	})
}
