package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"stoa/internal/base/stoa"

	"github.com/jackc/pgx/v5"
)

// The locks are per database and schema, so that tests can share a database.
const (
	// Every node shares the lock of the database with the others, on its direct connection.
	// Processes that need exclusive access hold it exclusively: a copy, and the programs
	// before version 600 while they run.
	shareLock = `SELECT pg_try_advisory_lock_shared(hashtext('stoa'), hashtext(current_schema()::text))`
	ownLock   = `SELECT pg_try_advisory_lock(hashtext('stoa'), hashtext(current_schema()::text))`
	// The migrating process holds this lock.
	migrationLock = `SELECT pg_try_advisory_lock(hashtext('stoa migrations'), hashtext(current_schema()::text))`
)

const (
	// lockWait is the maximum wait of a start for the database, because PostgreSQL needs a moment
	// to notice that a process was killed.
	lockWait = 2 * time.Second
	// migrationWait is the maximum wait of a start for the migrations of another one.
	migrationWait = 10 * time.Minute
	lockRetry     = 50 * time.Millisecond
	lockPing      = time.Second
)

func (d *Direct) tryLock(ctx context.Context, statement string) (got bool, err error) {
	err = d.Query(ctx, func(scan func(...any) error) error { return scan(&got) }, statement)
	return got, err
}

// checkTarget returns an error if the service cannot work at the address; reads: if it cannot even read.
func (d *Direct) checkTarget(ctx context.Context, reads bool) error {
	var found target
	err := d.Query(ctx, func(scan func(...any) error) error {
		return scan(&found.schema, &found.path, &found.standby, &found.readOnly)
	}, targetQuery)
	if err != nil {
		return err
	}
	return found.check(reads)
}

// lock tries to acquire a lock until the limit: ErrLocked. It calls wait before it waits,
// unless wait is nil.
func (d *Direct) lock(ctx context.Context, statement string, limit time.Duration, waiting func()) error {
	deadline := time.Now().Add(limit)
	for first := true; ; first = false {
		got, err := d.tryLock(ctx, statement)
		if err != nil || got {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("PostgreSQL database %s: %w; stop it first, or choose another database", d.cfg.Database, ErrLocked)
		}
		if first && waiting != nil {
			waiting()
		}
		if !stoa.Sleep(ctx, lockRetry) {
			return ctx.Err()
		}
	}
}

// LockPostgres locks a database exclusively for this process while its connection lives. It
// fails with ErrLocked if a node serves the database or another process has locked it.
func LockPostgres(ctx context.Context, address string, log *slog.Logger) (*Lock, error) {
	d, err := OpenDirect(ctx, address, "-lock", nil, log)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	err = d.checkTarget(ctx, true) // a copy may read a standby
	if err == nil {
		err = d.lock(ctx, ownLock, lockWait, nil)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	watching, stop := context.WithCancel(context.Background())
	l := &Lock{lost: make(chan struct{})}
	var ended sync.WaitGroup
	ended.Go(func() {
		for watching.Err() == nil {
			if err := d.Idle(watching, lockPing); err != nil && watching.Err() == nil {
				close(l.lost)
				return
			}
		}
	})
	l.release = func() error {
		stop()
		ended.Wait()
		return d.unlock()
	}
	return l, nil
}

// CheckPostgres connects to an address once, and returns an error if a service could not work there: it cannot
// be reached, has no schema, accepts no changes, or is behind a pooler that shares connections.
func CheckPostgres(ctx context.Context, address string) error {
	cfg, err := postgresConfig(address, nil)
	if err != nil {
		return err
	}
	d := &Direct{cfg: cfg}
	if err := d.connected(ctx); err != nil {
		return err
	}
	defer d.Close()
	if err := d.checkTarget(ctx, false); err != nil {
		return err
	}
	return d.checkSession(ctx)
}

// unlock frees all locks, so that they are free on return and not a moment later, and
// closes the connection.
func (d *Direct) unlock() error {
	if d.conn != nil && !d.conn.IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		if _, err := d.conn.Exec(ctx, "SELECT pg_advisory_unlock_all()"); err != nil {
			return errors.Join(err, d.Close())
		}
	}
	return d.Close()
}

func lockMigrations(ctx context.Context, cfg Config) (unlock func() error, err error) {
	d, err := OpenDirect(ctx, cfg.PostgresURL, "-migrations", cfg.Lineage, cfg.Logger)
	if err != nil {
		return nil, err
	}
	if err := d.lock(ctx, migrationLock, migrationWait, func() {
		cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "another process migrates the database; waiting for it", slog.String("file", cfg.File))
	}); err != nil {
		d.Close()
		return nil, err
	}
	return d.unlock, nil
}

// Share makes every connection, including this one, share the lock of the database with
// other nodes. It waits a moment for it, and fails with ErrLocked if another process holds
// it exclusively.
func (d *Direct) Share(ctx context.Context) error {
	if err := d.checkTarget(ctx, false); err != nil {
		return err
	}
	if err := d.checkSession(ctx); err != nil {
		return err
	}
	if err := d.lock(ctx, shareLock, lockWait, nil); err != nil {
		return err
	}
	d.shared = true
	return nil
}

// checkSession returns an error if a pooler lends one connection to several clients, because the locks
// of a session would belong to any of them, and migrations could run beside a service. With a session
// of its own a client keeps its server process, and no other client ever gets it.
func (d *Direct) checkSession(ctx context.Context) error {
	if err := d.connected(ctx); err != nil {
		return err
	}
	other, err := pgx.ConnectConfig(ctx, d.cfg)
	if err != nil {
		return err
	}
	defer other.Close(ctx)
	const process = `SELECT pg_backend_pid()::text`
	own := ""
	for range 5 { // the pool may choose another one of its connections
		mine, err := ask(ctx, d.conn.PgConn(), process)
		if err != nil {
			return err
		}
		lent, err := ask(ctx, other.PgConn(), process)
		if err != nil {
			return err
		}
		if lent == mine || own != "" && own != mine {
			return errors.New("a pooler shares connections to PostgreSQL by transaction (pool_mode = transaction of PgBouncer), which breaks the locks of the service: connect directly, or use its session mode; databaseListen does not change this")
		}
		own = mine
	}
	return nil
}

// connect opens a new connection, which shares the lock if the previous one did.
func (d *Direct) connect(ctx context.Context) error {
	c, err := pgx.ConnectConfig(ctx, d.cfg)
	if err != nil {
		return err
	}
	d.conn = c
	if !d.shared {
		return nil
	}
	got, err := d.tryLock(ctx, shareLock)
	if err == nil && !got {
		err = ErrLocked
	}
	if err != nil {
		d.Close()
	}
	return err
}
