package db_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"stoa/internal/base/db"
)

// lowThing adds a row at low priority.
func lowThing(d *db.DB) error {
	return d.WriteLow(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Exec(context.Background(), "INSERT INTO things (id, n) VALUES ('low', 1)")
		return err
	})
}

// lowThings counts the rows of lowThing.
func lowThings(t *testing.T, d *db.DB) (n int) {
	t.Helper()
	if err := d.Read(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Get(context.Background(), "SELECT COUNT(*) FROM things WHERE id = 'low'", nil, &n)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAWriteOfLowPriorityRunsAtLast sends other writes without a pause: the one of low
// priority runs between them, alone in its transaction.
func TestAWriteOfLowPriorityRunsAtLast(t *testing.T) {
	t.Parallel()
	d := open(t, db.Config{Dir: t.TempDir(), Migrations: migrations})
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := d.Write(context.Background(), func(*db.Tx) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	broken := errors.New("broken")
	if err := d.WriteLow(ctx, func(*db.Tx) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	err := lowThing(d)
	stop()
	all.Wait()
	if err != nil {
		t.Error(err)
	}
	if n := lowThings(t, d); n != 1 {
		t.Errorf("there are %d rows", n)
	}
}

// TestBothPrioritiesEndWithTheDatabase closes a database.
func TestBothPrioritiesEndWithTheDatabase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		if err := lowThing(d); err != nil || lowThings(t, d) != 1 {
			t.Errorf("%v, %d rows", err, lowThings(t, d))
		}
		d.Close()
		if err := d.WriteLow(ctx, func(*db.Tx) error { return nil }); !errors.Is(err, db.ErrClosed) {
			t.Error(err)
		}
	})
}
