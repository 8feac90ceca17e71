package store_test

import (
	"context"
	"strings"
	"testing"

	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/store/storetest"
)

// TestPagesAreBoundedByBytes: a page of long rows ends early and says that there
// are more, and a reader who follows the pages sees every row once, in order.
func TestPagesAreBoundedByBytes(t *testing.T) {
	const rows, size = 50, 400_000
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		ctx := context.Background()
		a := storetest.Account(t, st, 0)
		var want []string
		err := st.Write(ctx, func(tx *store.Tx) error {
			space, err := tx.InsertSpace(ctx, stoa.Space{AccountID: a.ID, Name: "s"})
			if err != nil {
				return err
			}
			for range rows {
				agent, err := tx.InsertAgent(ctx, stoa.Agent{
					AccountID: a.ID, SpaceID: space.ID, Name: "n", Instructions: strings.Repeat("i", size), DriveAccess: stoa.DriveReadOnly,
				})
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
		var got []string
		p := store.Page{Limit: 100, Asc: true}
		for more := true; more && len(got) <= rows; {
			var page []stoa.Agent
			err := st.Read(ctx, func(tx *store.Tx) (err error) {
				page, more, err = tx.Agents(ctx, a.ID, store.AgentFilter{}, p)
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
			p.After = store.Cursor{At: last.CreatedAt, ID: last.ID}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("the pages have %d rows, want %d in order", len(got), len(want))
		}
	})
}
