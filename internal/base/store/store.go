// Package store contains the SQL of the core tables: one file per noun, each with methods on
// [Tx], and the migrations that create the tables. (An agent's files are in a separate
// database; package drive contains its SQL.)
//
// The SQL is written by hand, one text for SQLite and PostgreSQL: numbers are BIGINT, times
// are microseconds, booleans 0 or 1. Differences are a suffix ([db.Tx.ForUpdate]) or hidden
// in package db. No generator writes it, because none helps with the statements that matter most: many
// rows in one INSERT, and keyset pages. Tests run every method on both databases, because a wrong
// column fails only when the statement runs.
//
// The package never interprets a row for a caller: no prices, no permissions, no HTTP.
// Every query for an object that an account owns names the account. Charges and grants are
// only added, never changed. Start with [Open], [Store.Read] and [Store.Write], then the
// file of the noun you need.
package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"stoa/internal/base/cluster"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrations returns the migrations of the tables of this package.
func Migrations() fs.FS {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the path is valid
	}
	return files
}

// Config contains the location and options of a store. Dir or PostgresURL is required; of both,
// PostgresURL is used.
type Config struct {
	Dir         string        // data directory with core.db
	PostgresURL string        // postgres://…
	Durability  db.Durability // empty means db.Full
	Readers     int           // read-only connections of SQLite; 0 means 4
	Connections int           // connections to PostgreSQL; 0 means 16
	// ReadOnly opens the store while a server uses it, to verify the books: no
	// lock, no migrations, no node; Write returns an error.
	ReadOnly bool
	Node     cluster.NodeInfo // the information of this process
	Life     cluster.Times    // times of this process's node, on PostgreSQL
	Quota    Quota            // zero means no limit
	Trace    func(db.Trace)   // see [db.Config]; may be nil
	Observe  func(string)     // see [db.Config]; may be nil
	Logger   *slog.Logger     // nil means no log

	tablesOnly bool // migrate, and begin no node
}

// Store is the open store. It is safe for use by many goroutines.
type Store struct {
	*cluster.Hints
	db      *db.DB
	lock    *db.Lock        // nil on PostgreSQL
	member  *cluster.Member // nil on SQLite
	direct  *db.Direct
	node    string
	fenced  *db.Fence
	lineage *db.Lineage // nil on SQLite
	quota   Quota
	grants  atomic.Int64
	budgets atomic.Int64

	toFree claimsToFree
	outbox chan struct{}
	server string // the address of PostgreSQL; empty for SQLite
	log    *slog.Logger
}

// Open opens the database, migrates it, and registers a new node. On SQLite it acquires the lock of
// the directory first, so that it can declare every earlier node dead: it closes their leases and
// frees their unfinished idempotency keys. On PostgreSQL that happens to nodes without a recent
// renewal; see [cluster.Times].
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s := &Store{node: stoa.NewID("node"), quota: cfg.Quota, outbox: make(chan struct{}, 1), server: cfg.PostgresURL, log: cfg.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if cfg.PostgresURL != "" && !cfg.ReadOnly {
		s.lineage = db.NewLineage(cfg.Dir, s.log)
	}
	s.Hints = cluster.NewHints(s.node, cfg.PostgresURL, s.lineage, s.log)
	s.toFree.stop = make(chan struct{})
	if err := s.open(ctx, cfg); err != nil {
		s.Close()
		return nil, fmt.Errorf("store: %w", err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, cfg Config) error {
	var err error
	if !cfg.ReadOnly {
		if cfg.PostgresURL == "" {
			s.lock, err = db.LockDir(cfg.Dir)
		} else {
			err = s.share(ctx, cfg)
		}
		if err != nil {
			return err
		}
	}
	if err := CheckCopied(ctx, cfg); err != nil {
		return err
	}
	if cfg.PostgresURL == "" {
		if err := CheckRestored(cfg.Dir); err != nil {
			return err
		}
		if !cfg.ReadOnly {
			if err := CheckIdentity(ctx, cfg.Dir); err != nil {
				return err
			}
		}
	}
	s.fenced = s.fence(cfg)
	s.db, err = db.Open(ctx, db.Config{
		Dir: cfg.Dir, File: CoreFile, PostgresURL: cfg.PostgresURL, Migrations: Migrations(),
		Durability: cfg.Durability, Readers: cfg.Readers, Connections: cfg.Connections,
		ReadOnly: cfg.ReadOnly, Fence: s.fenced, Lineage: s.lineage, Logger: cfg.Logger, Probe: probe, Trace: cfg.Trace, Observe: cfg.Observe,
	})
	s.Hints.Open(s.db)
	if err != nil || cfg.ReadOnly || cfg.tablesOnly {
		return err
	}
	if cfg.PostgresURL != "" {
		s.member = cluster.New(cluster.Config{ID: s.node, Info: cfg.Node, Times: cfg.Life, Rows: nodeRows{s}, Direct: s.direct, Logger: cfg.Logger})
		return s.member.Begin(ctx)
	}
	return s.Write(ctx, func(tx *Tx) error { return tx.Operations().beginAlone(ctx, s.node, cfg.Node) })
}

// share connects to PostgreSQL and acquires the lock of the database, shared with the other
// nodes.
func (s *Store) share(ctx context.Context, cfg Config) error {
	var err error
	if s.direct, err = db.OpenDirect(ctx, cfg.PostgresURL, "-node", s.lineage, cfg.Logger); err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	return s.direct.Share(ctx)
}

// fence returns the fence of this process's node, or nil if it has none.
func (s *Store) fence(cfg Config) *db.Fence {
	if cfg.PostgresURL == "" || cfg.ReadOnly || cfg.tablesOnly {
		return nil
	}
	return &db.Fence{Query: fenceQuery, Args: []any{s.node, strconv.FormatInt(idleTransaction.Milliseconds(), 10)}}
}

// fenceQuery keeps a node alive until the commit, and fails if it is dead. It locks FOR KEY SHARE, so
// that a renewal does not wait for it. A declaration of death does, because alive is part of a unique
// index.
const fenceQuery = `SELECT 1 / COALESCE((SELECT alive FROM nodes WHERE id = $1 FOR KEY SHARE), 0), set_config('idle_in_transaction_session_timeout', $2, true)`

// idleTransaction is the maximum time that a transaction waits for this process before PostgreSQL ends
// it, because a process that was stopped in the middle holds its locks for that time.
const idleTransaction = 10 * time.Second

// ErrLost is the error of Write if this process's node is dead. The process must stop, because others
// may have taken over its resources.
var ErrLost error = stoa.Errorf(stoa.CodeOverloaded, "This node of the service has ended. Try again.").After(time.Second)

// Outbox returns a channel that receives a value after this process may have added
// deliveries; see [Operations.InsertEvent].
func (s *Store) Outbox() <-chan struct{} { return s.outbox }

// Fence returns the fence for the write transactions of other pools on the same PostgreSQL
// database, so that a dead node cannot write there, or nil on SQLite.
func (s *Store) Fence() *db.Fence { return s.fenced }

// Lineage returns the lineage for other pools on the same PostgreSQL database, or nil on SQLite.
func (s *Store) Lineage() *db.Lineage { return s.lineage }

// Close releases the resources of the node, such as the rest of its leases, waits for
// accepted writes, closes the database and releases the lock.
func (s *Store) Close() error {
	s.toFree.mu.Lock()
	select {
	case <-s.toFree.stop: // closed twice
	default:
		close(s.toFree.stop)
	}
	s.toFree.mu.Unlock()
	s.toFree.worker.Wait()
	var errs []error
	if s.member != nil {
		errs = append(errs, s.member.End())
	}
	if s.direct != nil {
		errs = append(errs, s.direct.Close())
	}
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

// Lost returns a channel that is closed when this process's node is dead: the process
// must stop. On SQLite, where that cannot happen, it is nil and blocks for ever.
func (s *Store) Lost() <-chan struct{} {
	if s.member == nil {
		return nil
	}
	return s.member.Lost()
}

// OnExpiry sets the function that is called, on a separate goroutine, when the node could not renew its
// lease for [cluster.Times.Expiry]. It must end running model calls, because they cannot be charged. It
// is never called on SQLite.
func (s *Store) OnExpiry(fn func()) {
	if s.member != nil {
		s.member.OnExpiry(fn)
	}
}

// CountCalls sets the function that returns the number of running model calls, for
// [Node.Calls].
func (s *Store) CountCalls(count func() int64) {
	if s.member != nil {
		s.member.CountCalls(count)
	}
}

// SetConfigHash changes [cluster.NodeInfo.ConfigHash] of this process's node.
func (s *Store) SetConfigHash(hash string) {
	if s.member != nil {
		s.member.SetConfigHash(hash)
	}
}

// suspended returns the error for callers while it is unknown whether this process's node
// is alive, and nil otherwise.
func (s *Store) suspended() error {
	if s.member == nil {
		return nil
	}
	if changed, _ := s.member.Away(); changed == nil {
		return nil
	}
	return stoa.Errorf(stoa.CodeOverloaded, "The service has lost the connection to its database. Try again.").After(time.Second)
}

// Read runs fn in a read-only transaction with one snapshot of the data.
func (s *Store) Read(ctx context.Context, fn func(tx *Tx) error) error {
	return s.db.Read(ctx, func(tx *db.Tx) error { return fn(&Tx{Tx: tx, s: s}) })
}

// Report is like [Store.Read] for queries that read many rows, such as sums over usage. At most half of
// the connections run them, so that short queries never wait for them.
func (s *Store) Report(ctx context.Context, fn func(tx *Tx) error) error {
	return s.db.Report(ctx, func(tx *db.Tx) error { return fn(&Tx{Tx: tx, s: s}) })
}

// Write runs fn in a transaction and returns after its commit. An error or panic of fn
// rolls back all its changes.
//
// ctx can end the wait until fn starts, not fn itself. fn may run on another goroutine,
// together with others in one commit, and more than once: it must set its results again
// each time, and must not call Read or Write.
func (s *Store) Write(ctx context.Context, fn func(tx *Tx) error) error {
	return s.writeBy(ctx, s.db.Write, fn)
}

// WriteLow is like [Store.Write] for rows that may be delayed and that a power failure may
// lose; see [db.DB.WriteLow].
func (s *Store) WriteLow(ctx context.Context, fn func(tx *Tx) error) error {
	return s.writeBy(ctx, s.db.WriteLow, fn)
}

func (s *Store) writeBy(ctx context.Context, write func(context.Context, func(*db.Tx) error) error, fn func(tx *Tx) error) error {
	select {
	case <-s.Lost():
		return ErrLost
	default:
	}
	if err := s.suspended(); err != nil {
		return err
	}
	err := write(ctx, func(tx *db.Tx) error { return (&Tx{Tx: tx, s: s}).People().audited(ctx, fn) })
	if errors.Is(err, db.ErrFenced) {
		s.member.Lose()
		return ErrLost
	}
	return err
}

// promptTime is the time limit of transactions under [Promptly], because the caller's work has not begun.
const promptTime = 2 * time.Second

// Promptly returns a context for steps before the actual work, such as the check of a key. On PostgreSQL
// a transaction under it takes at most 2 s, and otherwise fails with CodeOverloaded, so that a new call
// is refused quickly if the database does not answer, and no queue grows.
func Promptly(ctx context.Context) context.Context { return db.Limit(ctx, promptTime) }

// WriteWait is like [Store.Write], but while the node retries its renewal it waits until
// [cluster.Times.Expiry], where Write returns CodeOverloaded immediately. The transaction
// itself may take as long. It is for work that is already done and must be recorded, such
// as a charge.
func (s *Store) WriteWait(ctx context.Context, fn func(tx *Tx) error) error {
	if s.member != nil {
		if changed, expired := s.member.Away(); changed != nil && !expired {
			select {
			case <-changed:
			case <-s.Lost():
			case <-ctx.Done():
			}
		}
		ctx = db.Limit(ctx, s.member.Expiry())
	}
	return s.Write(ctx, fn)
}

// Grants returns the number of grants that this process has committed. When it changes,
// some account has more credits than before.
func (s *Store) Grants() int64 { return s.grants.Load() }

// Postgres reports whether the store is on PostgreSQL.
func (s *Store) Postgres() bool { return s.db.Postgres() }
