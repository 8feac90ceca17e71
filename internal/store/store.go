// Package store has the SQL of the core tables: one file per noun, each with
// methods on [Tx], and the migrations that create the tables. (An agent's files
// are in a database of their own; package drive has its SQL.) Why it is written
// by hand: docs/decisions/0010-hand-written-sql.md.
//
// It never decides what a row means for a caller: no prices, no permissions, no
// HTTP. Every query for something that an account owns names the account.
// Charges and grants are only ever added, never changed. Start with [Open],
// [Store.Read] and [Store.Write], then the file of the noun you need.
package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"stoa/internal/db"
	"stoa/internal/stoa"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Config is where the store is and how it is opened. Dir or PostgresURL is required; with both,
// PostgresURL is used.
type Config struct {
	Dir         string        // data directory; holds core.db
	PostgresURL string        // postgres://…
	Durability  db.Durability // empty: db.Full
	Readers     int           // read-only connections of SQLite; 0: 4
	Connections int           // connections to PostgreSQL; 0: 16
	// ReadOnly opens the store while a server uses it, to verify the books: no
	// lock, no migrations, no node; Write returns an error.
	ReadOnly bool
	Quota    Quota          // zero: no bounds
	Trace    func(db.Trace) // see [db.Config]; nil: none
	Observe  func(string)   // see [db.Config]; nil: none
	Logger   *slog.Logger   // nil: none

	tablesOnly bool // migrate, and begin no node
}

// Store is the open store. It is safe for use by many goroutines.
type Store struct {
	db     *db.DB
	lock   *db.Lock
	node   string
	quota  Quota
	grants atomic.Int64
}

// A Tx is a running transaction with the store's methods. See [Store.Write] for
// what a closure may do with it.
type Tx struct {
	*db.Tx
	s *Store
}

// ErrLost is returned by Write when another process may have taken over the
// database.
var ErrLost = errors.New("store: the lock on the database is lost")

// Open takes the lock, opens the database, migrates it, and registers a new
// node: every earlier node is declared dead, its leases are closed, and its
// unfinished idempotency keys are freed.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := &Store{node: stoa.NewID("node"), quota: cfg.Quota}
	if err := s.open(ctx, cfg); err != nil {
		s.Close()
		return nil, fmt.Errorf("store: %w", err)
	}
	return s, nil
}

// open takes the lock, opens and migrates the database, and begins the node
// that owns the leases of this process.
func (s *Store) open(ctx context.Context, cfg Config) error {
	var err error
	if !cfg.ReadOnly {
		if cfg.PostgresURL != "" {
			s.lock, err = db.LockPostgres(ctx, cfg.PostgresURL, cfg.Logger)
		} else {
			s.lock, err = db.LockDir(cfg.Dir)
		}
		if err != nil {
			return err
		}
	}
	if err := checkCopied(ctx, cfg); err != nil {
		return err
	}
	if cfg.PostgresURL == "" {
		if err := checkRestored(cfg.Dir); err != nil {
			return err
		}
		if !cfg.ReadOnly {
			if err := checkIdentity(ctx, cfg.Dir); err != nil {
				return err
			}
		}
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	s.db, err = db.Open(ctx, db.Config{
		Dir: cfg.Dir, File: coreFile, PostgresURL: cfg.PostgresURL, Migrations: files,
		Durability: cfg.Durability, Readers: cfg.Readers, Connections: cfg.Connections,
		ReadOnly: cfg.ReadOnly, Logger: cfg.Logger, Probe: probe, Trace: cfg.Trace, Observe: cfg.Observe,
	})
	if err != nil || cfg.ReadOnly || cfg.tablesOnly {
		return err
	}
	if err := s.Write(ctx, func(tx *Tx) error { return tx.beginNode(ctx, s.node) }); err != nil {
		return err
	}
	s.lock.Confirm(s.stillAlive)
	return nil
}

// stillAlive returns db.ErrLocked when another process has declared this node dead.
func (s *Store) stillAlive(ctx context.Context) error {
	alive := false
	if err := s.Read(ctx, func(tx *Tx) (err error) {
		_, err = tx.Get(ctx, `SELECT alive FROM nodes WHERE id = $1`, []any{s.node}, &alive)
		return err
	}); err != nil {
		return err
	}
	if !alive {
		return db.ErrLocked
	}
	return nil
}

// Close waits for accepted writes, closes the database and releases the lock.
func (s *Store) Close() error {
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Release())
	}
	return errors.Join(errs...)
}

// Node returns the id of this process; every start has a new one.
func (s *Store) Node() string { return s.node }

// Lost returns a channel that is closed when another process may have taken over
// the database: the process must stop. On SQLite, where that cannot happen, it is
// nil and blocks for ever.
func (s *Store) Lost() <-chan struct{} {
	if s.lock == nil {
		return nil
	}
	return s.lock.Lost()
}

// suspended returns the error for callers while the lock on the database is being
// taken again; nil otherwise.
func (s *Store) suspended() error {
	if s.lock == nil || s.lock.Suspended() == nil {
		return nil
	}
	return stoa.Errorf(stoa.CodeOverloaded, "The service has lost the connection to its database. Try again.").After(time.Second)
}

// Read runs fn in a read-only transaction that sees one snapshot of the data.
func (s *Store) Read(ctx context.Context, fn func(tx *Tx) error) error {
	return s.db.Read(ctx, func(tx *db.Tx) error { return fn(&Tx{Tx: tx, s: s}) })
}

// Report is [Store.Read] for queries that read many rows, such as sums over
// usage: at most half of the connections run them at once, so that short queries
// never wait for them.
func (s *Store) Report(ctx context.Context, fn func(tx *Tx) error) error {
	return s.db.Report(ctx, func(tx *db.Tx) error { return fn(&Tx{Tx: tx, s: s}) })
}

// Write runs fn in a transaction and returns after its commit. An error or
// panic of fn rolls back all that fn did.
//
// ctx can end the wait until fn starts, not fn itself. fn may run on another
// goroutine, together with others in one commit, and more than once: it must
// set its results anew each time, and must not call Read or Write.
func (s *Store) Write(ctx context.Context, fn func(tx *Tx) error) error {
	select {
	case <-s.Lost():
		return ErrLost
	default:
	}
	if err := s.suspended(); err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx *db.Tx) error { return fn(&Tx{Tx: tx, s: s}) })
}

// outage is how long [Store.WriteWait] waits.
const outage = 30 * time.Second

// WriteWait is [Store.Write] that waits up to 30 s while the lock on the database is
// being taken again, where Write returns CodeOverloaded at once. It is for what has
// been done already and must be recorded, such as a charge.
func (s *Store) WriteWait(ctx context.Context, fn func(tx *Tx) error) error {
	if s.lock != nil {
		if resumed := s.lock.Suspended(); resumed != nil {
			over := time.NewTimer(outage)
			defer over.Stop()
			select {
			case <-resumed:
			case <-s.Lost():
			case <-over.C:
			case <-ctx.Done():
			}
		}
	}
	return s.Write(ctx, fn)
}

// Grants returns how many grants this process has committed. When it has
// changed, some account has more credits than before.
func (s *Store) Grants() int64 { return s.grants.Load() }

// Postgres reports whether the store is on PostgreSQL.
func (s *Store) Postgres() bool { return s.db.Postgres() }
