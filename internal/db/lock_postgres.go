package db

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	lockPing    = time.Second     // how often the connection that has the lock is tried
	lockTimeout = 5 * time.Second // how long an answer may take
	// lockWait is how long a start waits for the lock: PostgreSQL takes a moment to
	// notice that the process before was killed.
	lockWait  = 2 * time.Second
	lockRetry = 50 * time.Millisecond
)

// The lock is per database and schema, so that tests can share a database.
const tryLock = `SELECT pg_try_advisory_lock(hashtext('stoa'), hashtext(current_schema()::text))`

// LockPostgres takes the database's advisory lock on a connection of its own
// and watches that connection: PostgreSQL frees the lock when it breaks.
func LockPostgres(ctx context.Context, address string) (*Lock, error) {
	pc, err := postgresConfig(address)
	if err != nil {
		return nil, err
	}
	c, err := pgx.ConnectConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	got, err := acquire(ctx, c)
	if err != nil {
		c.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	if !got {
		c.Close(ctx)
		return nil, fmt.Errorf("PostgreSQL database %s: %w; stop it first, or choose another database", pc.Database, ErrLocked)
	}
	watch, stop := context.WithCancel(context.Background())
	l := &Lock{lost: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if !watchLock(watch, c) {
			close(l.lost)
		}
	}()
	l.release = func() error {
		stop()
		<-ended
		ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
		defer cancel()
		if !c.IsClosed() { // so that the lock is free when we return, not a moment later
			c.Exec(ctx, "SELECT pg_advisory_unlock_all()")
		}
		return c.Close(ctx)
	}
	return l, nil
}

// acquire tries to take the lock until lockWait is over.
func acquire(ctx context.Context, c *pgx.Conn) (got bool, err error) {
	deadline := time.Now().Add(lockWait)
	for {
		if err := c.QueryRow(ctx, tryLock).Scan(&got); err != nil || got || time.Now().After(deadline) {
			return got, err
		}
		select {
		case <-time.After(lockRetry):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// watchLock returns true when it was told to stop, false when the connection
// broke. Between pings it listens, so that a broken connection shows at once.
func watchLock(ctx context.Context, c *pgx.Conn) bool {
	for {
		wait, cancel := context.WithTimeout(ctx, lockPing)
		_, err := c.WaitForNotification(wait)
		timedOut := wait.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return true
		}
		if err != nil && !timedOut || c.IsClosed() {
			return false
		}
		ping, cancel := context.WithTimeout(ctx, lockTimeout)
		_, err = c.Exec(ping, "SELECT 1")
		cancel()
		if ctx.Err() != nil {
			return true
		}
		if err != nil {
			return false
		}
	}
}
