// Package db opens a database: a SQLite file in the data directory, or PostgreSQL. Both
// have one interface: a closure that runs inside a transaction, one SQL text ($n
// placeholders, times as integer microseconds), and migrations.
//
// The package has no tables and never interprets a statement. All differences between the
// two databases are here, behind small functions. Start with [Open], [DB.Write] and
// [DB.Read]; sqlite.go has the group-committing writer.
package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Durability is the kind of failure that a commit survives.
type Durability string

// The durabilities. With Full a commit survives a power loss. With Process it
// survives the death of this process at any moment; when the machine dies the last
// commits may be lost. PostgreSQL always commits in full.
const (
	Full    Durability = "full"
	Process Durability = "process"
)

// Config are the options of [Open]. Dir or PostgresURL is required; with both, PostgresURL
// is used.
type Config struct {
	Dir         string     // data directory of the SQLite file
	File        string     // the file's name in Dir, such as core.db; on PostgreSQL it names the table of migrations
	PostgresURL string     // postgres://…
	Migrations  fs.FS      // *.sql in the form of goose, at its root; nil means none
	Durability  Durability // empty means Full
	Readers     int        // read-only connections of SQLite; 0 means 4
	Connections int        // connections to PostgreSQL; 0 means 16
	ReadOnly    bool       // writes and migrations are refused; for reading a file that a server uses

	// Lineage refuses connections to other PostgreSQL servers; it may be nil.
	Lineage *Lineage
	// Fence begins each write transaction on PostgreSQL; it may be nil.
	Fence *Fence

	// WriteTimeout ends a write transaction that runs longer; 0 means 30 s.
	WriteTimeout time.Duration
	// SlowWrite is the duration of a write transaction after which [DB.Health] reports it;
	// 0 means 5 s.
	SlowWrite time.Duration
	// Probe writes as much as real work does and removes it again, to check whether the
	// database commits; see [DB.Usable]. If it is nil, Usable always returns nil.
	Probe func(ctx context.Context, tx *Tx) error

	// Trace is called after each transaction, on its goroutine. It is for tests and
	// measurements, and may be nil.
	Trace func(Trace)

	// Observe is called with each statement that a transaction runs, for tests; nil:
	// none.
	Observe func(query string)

	Logger *slog.Logger // nil means no log
}

// A Trace has the costs of a transaction.
type Trace struct {
	Write      bool
	Statements int // excluding BEGIN and COMMIT
	Trips      int // messages to PostgreSQL that were waited for; 0 on SQLite
}

// DB is an open database. It is safe for use by many goroutines.
type DB struct {
	engine
	postgres bool
	channel  string        // see [DB.Channel]
	reports  chan struct{} // one element per running Report
	file     string
	log      *slog.Logger
	probe    func(ctx context.Context, tx *Tx) error
	latch    latch
	slow     time.Duration // of a write transaction, for Health
	observed func(query string)

	pages   func(ctx context.Context) error // returns an error if a page is damaged; nil on PostgreSQL
	checks  sync.WaitGroup
	closing context.Context // of the checks
	stop    func()          // ends closing
}

// engine has the operations that differ between SQLite and PostgreSQL.
type engine interface {
	write(ctx context.Context, fn func(*Tx) error) error
	writeLow(ctx context.Context, fn func(*Tx) error) error
	read(ctx context.Context, fn func(*Tx) error) error
	writing() time.Time // start of the oldest running write transaction; zero if none runs
	close() error
}

// ErrClosed is returned by calls after Close.
var ErrClosed = errors.New("db: closed")

// ErrReadOnly is returned by Write on a database opened read-only.
var ErrReadOnly = errors.New("db: opened read-only")

// ErrTimeout is the cause of the error of a write transaction that ran longer than
// Config.WriteTimeout. It was rolled back.
var ErrTimeout = errors.New("db: the write transaction took too long")

const writeTimeout = 30 * time.Second

// Open opens the database and runs its migrations, on PostgreSQL in one process at a time.
// It does not lock the data directory, which belongs to one process: call [LockDir] first.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.File == "" {
		cfg.File = "core.db"
	}
	switch cfg.Durability {
	case "":
		cfg.Durability = Full
	case Full, Process: // valid
	default:
		return nil, fmt.Errorf("db: durability is %q; it may be %q or %q", cfg.Durability, Full, Process)
	}
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, writeTimeout)
	if cfg.PostgresURL != "" {
		p, err := openPostgres(ctx, cfg)
		if err != nil {
			return nil, err
		}
		d := newDB(p, cfg, cmp.Or(cfg.Connections, DefaultConnections))
		if err := p.pool.QueryRowContext(ctx, channelName).Scan(&d.channel); err != nil {
			return nil, errors.Join(classify(err), d.Close())
		}
		return d, nil
	}
	if cfg.Dir == "" {
		return nil, errors.New("db: neither a data directory nor a PostgreSQL address is given")
	}
	path := filepath.Join(cfg.Dir, cfg.File)
	check := cfg.Probe != nil && !cfg.ReadOnly && leftWAL(path)
	s, err := openSQLite(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d := newDB(s, cfg, s.nread)
	if path, err = filepath.Abs(path); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.pages = findDamage(path, cfg)
	if check {
		d.checks.Go(d.checkPages)
	}
	return d, nil
}

func newDB(e engine, cfg Config, connections int) *DB {
	closing, stop := context.WithCancel(context.Background())
	return &DB{
		closing: closing, stop: stop, engine: e, postgres: cfg.PostgresURL != "", reports: make(chan struct{}, max(1, connections/2)),
		file: cfg.File, log: cfg.Logger, probe: cfg.Probe,
		slow: cmp.Or(cfg.SlowWrite, slowWrite), observed: cfg.Observe,
	}
}

type limitKey struct{}

// Limit returns a context that limits the duration of a transaction on PostgreSQL,
// including the wait for a connection: CodeOverloaded. It is for work for which a quick
// refusal is better than a long wait. A write takes at most Config.WriteTimeout in any
// case. On SQLite it has no effect.
func Limit(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, limitKey{}, d)
}

func limitOf(ctx context.Context) time.Duration {
	d, _ := ctx.Value(limitKey{}).(time.Duration)
	return d
}

// Write runs fn inside a transaction and returns after its commit. An error or a panic of
// fn rolls back only the work of fn; it is returned.
//
// ctx can end the wait until fn starts, not fn itself: a transaction that has begun is
// finished even if its caller has gone. fn may run on another goroutine and more than once
// (after a deadlock, or when another transaction of the same group timed out), so it must
// only use the transaction and variables that it sets again each time; it must not call
// Write. A transaction that runs longer than Config.WriteTimeout is interrupted and rolled
// back: [ErrTimeout]. See docs/decisions/0011-one-writer-per-sqlite-file.md.
func (d *DB) Write(ctx context.Context, fn func(*Tx) error) error {
	err := d.write(ctx, d.noted(fn))
	d.observe(err)
	return err
}

// WriteLow is like [DB.Write] for rows that may be delayed and that a power failure may
// lose, such as logs. On SQLite it runs alone, when no other write waits or after lowWait,
// and its commit does not wait for the disk, so that it delays others only by its statements. On
// PostgreSQL its commit does not wait for the disk.
func (d *DB) WriteLow(ctx context.Context, fn func(*Tx) error) error {
	err := d.writeLow(ctx, d.noted(fn))
	d.observe(err)
	return err
}

// Read runs fn inside a read-only transaction with one snapshot. On PostgreSQL fn runs once
// more if the connection breaks; so it must set its results again each time.
func (d *DB) Read(ctx context.Context, fn func(*Tx) error) error {
	err := d.read(ctx, d.noted(fn))
	if isDamage(err) {
		d.observe(err)
	}
	return err
}

func (d *DB) noted(fn func(*Tx) error) func(*Tx) error {
	if d.observed == nil {
		return fn
	}
	return func(tx *Tx) error {
		tx.observed = d.observed
		return fn(tx)
	}
}

// Report is like [DB.Read] for queries that read many rows: at most half of the connections
// run them, so that short queries never wait for them.
func (d *DB) Report(ctx context.Context, fn func(*Tx) error) error {
	leave, err := d.Turn(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return d.Read(ctx, fn)
}

// Turn waits until another [DB.Report] may run, in order of arrival. Until leave is called,
// the caller may use [DB.Read] for such queries, one after the other.
func (d *DB) Turn(ctx context.Context) (leave func(), err error) {
	leave = func() { <-d.reports }
	select {
	case d.reports <- struct{}{}:
		return leave, nil
	default:
	}
	select {
	case d.reports <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ErrInUse is returned by [DB.EmptyLog] while a transaction, such as that of a backup, reads the log.
var ErrInUse = errors.New("db: a transaction reads the log")

// EmptyLog removes the earlier contents of pages from the log of SQLite (the WAL), so that deleted rows are in no file.
// It does nothing on PostgreSQL, whose log is kept for its standbys and backups.
func (d *DB) EmptyLog(ctx context.Context) error {
	if s, ok := d.engine.(*sqliteDB); ok {
		return s.emptyWAL(ctx)
	}
	return nil
}

// Postgres reports whether this is PostgreSQL.
func (d *DB) Postgres() bool { return d.postgres }

// Close waits for the writes that were accepted and closes the database.
func (d *DB) Close() error {
	d.latch.mu.Lock()
	d.stop() // no check begins any more
	d.latch.mu.Unlock()
	d.checks.Wait()
	return d.close()
}

const migrationsSuffix = "_migrations"

// migrationsTable returns the name of the table that records which migrations ran. It depends on the
// file, because two files of SQLite are two sets of tables in one PostgreSQL database.
func (c Config) migrationsTable() string {
	return strings.TrimSuffix(c.File, ".db") + migrationsSuffix
}

// needsSuffix ends the name of every table of [Config.needsTable].
const needsSuffix = "_needs"

// needsTable returns the name of the table whose only row has the oldest version that a
// program must have to run on the tables. A migration after which older programs no longer
// work sets it to its own version.
func (c Config) needsTable() string {
	return strings.TrimSuffix(c.File, ".db") + needsSuffix
}

// now returns the current time to the microsecond, the precision of the database.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Micros returns a time as it is stored: microseconds since 1970, and 0 for the
// zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time is the inverse of [Micros].
func Time(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// Bit returns a bool as it is stored: 1 or 0.
func Bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
