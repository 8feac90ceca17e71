package db_test

import (
	"context"
	"errors"
	"testing"

	"stoa/internal/base/db"
)

// later inserts a row without waiting for the answer.
func later(tx *db.Tx, id string, n int64) error {
	return tx.Later(context.Background(), "INSERT INTO things (id, n) VALUES ($1, $2)", id, n)
}

func TestStatementsTravelWithTheNextOne(t *testing.T) {
	t.Parallel()
	address := postgresSchema(t)
	var last db.Trace
	d := open(t, db.Config{PostgresURL: address, Migrations: migrations, Trace: func(tr db.Trace) { last = tr }})
	ctx := context.Background()
	for range 2 {
		if err := d.Write(ctx, func(tx *db.Tx) error {
			if _, err := tx.Exec(ctx, "DELETE FROM things"); err != nil {
				return err
			}
			return errors.Join(later(tx, "a", 1), later(tx, "b", 2), later(tx, "c", 3))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if want := (db.Trace{Write: true, Statements: 4, Trips: 2}); last != want {
		t.Errorf("a write took %+v, not %+v", last, want)
	}
	if got := ids(t, d); got != "a b c" {
		t.Errorf("stored: %q", got)
	}
}

func TestALateErrorIsItsTransactions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		committed := false
		err := d.Write(ctx, func(tx *db.Tx) error {
			tx.AfterCommit(func() { committed = true })
			if err := later(tx, "a", 1); err != nil {
				return err
			}
			return later(tx, "b", -1) // the CHECK of the table
		})
		if err == nil || committed {
			t.Errorf("a transaction with a failed statement: error %v, committed %v", err, committed)
		}
		if got := ids(t, d); got != "" {
			t.Errorf("stored: %q", got)
		}
		if err := d.Write(ctx, func(tx *db.Tx) error { return later(tx, "c", 1) }); err != nil {
			t.Errorf("the next transaction: %v", err)
		}
	})
}

// TestALateErrorUndoesItsSavepoint checks that the work before and after a savepoint is
// kept when a statement in it fails, whether it was sent or not.
func TestALateErrorUndoesItsSavepoint(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *db.DB) {
		ctx := context.Background()
		wrong := errors.New("wrong")
		if err := d.Write(ctx, func(tx *db.Tx) error {
			if _, err := tx.Exec(ctx, "DELETE FROM things WHERE n = 99"); err != nil {
				return err
			}
			first := tx.Savepoint(ctx, func() error { return errors.Join(later(tx, "x", 1), later(tx, "y", -1)) })
			if err := later(tx, "a", 1); err != nil {
				return err
			}
			second := tx.Savepoint(ctx, func() error { return errors.Join(later(tx, "z", 1), wrong) })
			third := tx.Savepoint(ctx, func() error { return later(tx, "b", 1) })
			if first == nil || !errors.Is(second, wrong) || third != nil {
				t.Errorf("the savepoints returned %v, %v and %v", first, second, third)
			}
			return later(tx, "c", 1)
		}); err != nil {
			t.Fatal(err)
		}
		if got := ids(t, d); got != "a b c" {
			t.Errorf("stored: %q", got)
		}
	})
}
