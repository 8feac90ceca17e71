package store_test

import (
	"sync"
	"testing"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestRowsAreSeenInTheirOrder writes batches in many concurrent transactions, like several
// processes, and follows them: no row is missed, as it would be if one with an earlier time
// were committed after one with a later time.
func TestRowsAreSeenInTheirOrder(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		const writers, batches, rows = 8, 12, 3
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				var scratch []any
				for range batches {
					var batch []stoa.Request
					for range rows {
						batch = append(batch, stoa.Request{ID: stoa.NewID("req"), AccountID: "acc_a", Status: 200})
					}
					if err := st.Write(ctx, func(tx *store.Tx) error { return tx.Operations().InsertRequests(ctx, batch, 0, &scratch) }); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		seen := map[string]bool{}
		var cursor store.Cursor
		follow := func() {
			read(t, st, func(tx *store.Tx) error {
				list, next, err := tx.Operations().Requests(ctx, "acc_a", store.RequestFilter{}, store.Page{Limit: 20, Asc: true, After: cursor})
				if err != nil {
					return err
				}
				for _, r := range list {
					if seen[r.ID] {
						t.Fatalf("%s came twice", r.ID)
					}
					seen[r.ID] = true
				}
				if next == (store.Cursor{}) {
					next, err = tx.Operations().NewestRequest(ctx, "acc_a")
				}
				cursor = next
				return err
			})
		}
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			follow()
		}
		for range writers * batches * rows / 20 {
			follow()
		}
		if len(seen) != writers*batches*rows {
			t.Errorf("%d rows were seen, %d were written", len(seen), writers*batches*rows)
		}
	})
}

// TestRowsGoOnAfterAClockThatWasAhead writes rows, sets the clock back and writes others:
// they still come after the first ones.
func TestRowsGoOnAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	st := storetest.New(t).Open()
	var scratch []any
	for i, id := range []string{"req_a", "req_b"} {
		write(t, st, func(tx *store.Tx) error {
			tx.Now = tx.Now.Add(-time.Duration(i) * time.Hour)
			return tx.Operations().InsertRequests(ctx, []stoa.Request{{ID: id, AccountID: "acc_a"}}, 0, &scratch)
		})
	}
	read(t, st, func(tx *store.Tx) error {
		list, _, err := tx.Operations().Requests(ctx, "acc_a", store.RequestFilter{}, store.Page{})
		if err == nil && (len(list) != 2 || list[0].ID != "req_b") {
			t.Errorf("%+v", list)
		}
		return err
	})
}

// TestARowStoresNothingTwice writes rows whose names repeat others of the row, or do not: all are read as
// they were written, and so is a row in the form of earlier versions.
func TestARowStoresNothingTwice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		own := stoa.NewID("req")
		written := map[string]stoa.Request{}
		var rows []stoa.Request
		for _, r := range []stoa.Request{
			{ID: own, Asked: "m", Served: "m", ResponseID: stoa.ResponseTo(own), Charged: true},
			{ID: "req_alias", Asked: "a", Served: "m", ResponseID: stoa.ResponseTo("req_alias")},
			{ID: "req_replayed", Asked: "m", ResponseID: stoa.ResponseTo(own), Replayed: true},
			{ID: "req_nameless", Served: "m"},
			{ID: "req_earlier", Asked: "m", Served: "m", ResponseID: "resp_earlier"},
		} {
			r.AccountID, r.StartedAt = "acc_a", time.UnixMilli(1).UTC()
			written[r.ID] = r
			rows = append(rows, r)
		}
		var scratch []any
		write(t, st, func(tx *store.Tx) error {
			if err := tx.Operations().InsertRequests(ctx, rows, 0, &scratch); err != nil {
				return err
			}
			var texts int64
			if _, err := tx.Get(ctx, `SELECT CAST(LENGTH(asked) + LENGTH(response_id) AS BIGINT) FROM requests WHERE id = $1`, []any{own}, &texts); err != nil || texts > 0 {
				t.Errorf("%d bytes are stored twice (%v)", texts, err)
			}
			_, err := tx.Exec(ctx, `UPDATE requests SET asked = 'm', response_id = 'resp_earlier', marks = 0 WHERE id = 'req_earlier'`)
			return err
		})
		read(t, st, func(tx *store.Tx) error {
			list, _, err := tx.Operations().Requests(ctx, "acc_a", store.RequestFilter{Model: "m"}, store.Page{})
			if err == nil && len(list) != len(rows) {
				t.Errorf("%d rows have the model", len(list))
			}
			for _, got := range list {
				if want := written[got.ID]; got.Request != want {
					t.Errorf("got %+v\nwant %+v", got.Request, want)
				}
			}
			return err
		})
	})
}
