package db_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/storetest"
)

// A COMMIT whose answer does not arrive in time is in doubt: it may have been made.
func TestALateCommitIsInDoubt(t *testing.T) {
	t.Parallel()
	address := postgresSchema(t)
	l := storetest.NewLink(t, address)
	d := open(t, committing(l.URL))
	ctx := context.Background()
	var free func()
	err := d.Write(db.Limit(ctx, 300*time.Millisecond), func(tx *db.Tx) error {
		if err := put(tx, "a", 1); err != nil {
			return err
		}
		free = l.Hold()
		return nil
	})
	free()
	if !db.IsDoubtful(err) || stoa.CodeOf(err) != stoa.CodeOverloaded {
		t.Errorf("%v", err)
	}
	if err := d.Usable(ctx); err != nil {
		t.Errorf("one late commit refuses all work: %v", err)
	}
}

// A statement that is not answered in time is refused, and was not carried out.
func TestALimitEndsATransaction(t *testing.T) {
	t.Parallel()
	address := postgresSchema(t)
	l := storetest.NewLink(t, address)
	d := open(t, committing(l.URL))
	ctx := db.Limit(context.Background(), 300*time.Millisecond)
	for name, run := range map[string]func(func(*db.Tx) error) error{
		"a write": func(fn func(*db.Tx) error) error { return d.Write(ctx, fn) },
		"a read":  func(fn func(*db.Tx) error) error { return d.Read(ctx, fn) },
	} {
		err := run(func(tx *db.Tx) error {
			if _, err := tx.Get(ctx, "SELECT 1", nil, new(int)); err != nil {
				return err
			}
			free := l.Hold()
			defer free()
			_, err := tx.Get(ctx, "SELECT 1", nil, new(int))
			return err
		})
		if stoa.CodeOf(err) != stoa.CodeOverloaded || db.IsDoubtful(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A call without a connection is refused early and does not wait for slow others.
func TestNobodyQueuesForAConnection(t *testing.T) {
	t.Parallel()
	cfg := committing(postgresSchema(t))
	cfg.Connections = 1
	d := open(t, cfg)
	ctx := context.Background()
	busy, free, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		ended <- d.Write(ctx, func(tx *db.Tx) error {
			close(busy)
			<-free
			return put(tx, "a", 1)
		})
	}()
	<-busy
	for name, run := range map[string]func() error{
		"a write": func() error { return d.Write(ctx, func(tx *db.Tx) error { return put(tx, "b", 1) }) },
		"a read":  func() error { return d.Read(ctx, func(tx *db.Tx) error { return nil }) },
	} {
		if err := run(); stoa.CodeOf(err) != stoa.CodeOverloaded || errors.Is(err, db.ErrTimeout) {
			t.Errorf("%s beside a long one: %v", name, err)
		}
	}
	if err := d.Usable(ctx); stoa.CodeOf(err) != stoa.CodeOverloaded {
		t.Errorf("new work, while nobody gets a connection: %v", err)
	}
	close(free)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for d.Usable(ctx) != nil { // until the next probe is due
	}
}
