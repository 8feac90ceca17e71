// Package db opens the house's databases: a SQLite file in the data directory,
// or PostgreSQL. It gives both one face: a closure that runs inside a
// transaction, one SQL text ($n placeholders, times as integer microseconds),
// and migrations.
//
// It knows no table of the house and never decides what a statement means. The
// few things that truly differ between the two databases are here, behind small
// functions, and nowhere else. Start with [Open], [DB.Write] and [DB.Read];
// sqlite.go has the group-committing writer.
package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"
)

// Durability says when a commit counts as kept.
type Durability string

// The durabilities. Full survives a power loss. Process survives the death of
// this process at any moment, and may lose the last commits when the whole
// machine dies. PostgreSQL always commits in full.
const (
	Full    Durability = "full"
	Process Durability = "process"
)

// Config says what to open. Either Dir or PostgresURL is needed; PostgresURL
// wins.
type Config struct {
	Dir         string       // data directory of the SQLite file
	File        string       // the file's name in Dir, such as core.db; on PostgreSQL it names the table of migrations
	PostgresURL string       // postgres://…
	Migrations  fs.FS        // *.sql in the form of goose, at its root; nil: none are run
	Durability  Durability   // empty: Full
	Readers     int          // read-only connections of SQLite; 0: 4
	Connections int          // connections to PostgreSQL; 0: 16
	ReadOnly    bool         // writes and migrations are refused; for looking at a file beside its server
	Logger      *slog.Logger // nil: none
}

// DB is an open database. It is safe for use by many goroutines.
type DB struct {
	engine
	postgres bool
	reports  chan struct{} // places for Report
}

// engine is what SQLite and PostgreSQL do differently as a whole.
type engine interface {
	write(ctx context.Context, fn func(*Tx) error) error
	read(ctx context.Context, fn func(*Tx) error) error
	close() error
}

// ErrClosed is returned by calls after Close.
var ErrClosed = errors.New("db: closed")

// ErrReadOnly is returned by Write on a database opened read-only.
var ErrReadOnly = errors.New("db: opened read-only")

// Open opens the database and runs its migrations. It takes no lock: a data
// directory or PostgreSQL database belongs to one process, which takes [LockDir]
// or [LockPostgres] first.
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
	case Full, Process:
	default:
		return nil, fmt.Errorf("db: durability is %q; it may be %q or %q", cfg.Durability, Full, Process)
	}
	if cfg.PostgresURL != "" {
		p, err := openPostgres(ctx, cfg)
		if err != nil {
			return nil, err
		}
		return &DB{engine: p, postgres: true, reports: make(chan struct{}, max(1, cmp.Or(cfg.Connections, defaultConnections)/2))}, nil
	}
	if cfg.Dir == "" {
		return nil, errors.New("db: neither a data directory nor a PostgreSQL address is given")
	}
	s, err := openSQLite(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &DB{engine: s, reports: make(chan struct{}, max(1, s.nread/2))}, nil
}

// Write runs fn inside a transaction and returns after its commit. An error or
// a panic of fn rolls back what fn did and nothing else; it is returned.
//
// ctx counts until fn starts: what has begun is finished, whoever hangs up. fn
// may run on another goroutine and, on PostgreSQL, more than once (after a
// deadlock), so it must only touch the transaction and variables that it sets
// anew each time; it must not call Write.
// See docs/decisions/0011-one-writer-per-sqlite-file.md.
func (d *DB) Write(ctx context.Context, fn func(*Tx) error) error { return d.write(ctx, fn) }

// Read runs fn inside a read-only transaction: all of it sees one moment.
func (d *DB) Read(ctx context.Context, fn func(*Tx) error) error { return d.read(ctx, fn) }

// Report is [DB.Read] for questions that read many rows: at most half of the
// connections answer such at once, so that short ones never wait for them.
func (d *DB) Report(ctx context.Context, fn func(*Tx) error) error {
	select {
	case d.reports <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.reports }()
	return d.read(ctx, fn)
}

// Postgres tells which of the two databases this is.
func (d *DB) Postgres() bool { return d.postgres }

// Close waits for the writes that were accepted and closes the database.
func (d *DB) Close() error { return d.close() }

// migrationsTable is the table that remembers which migrations ran; two files
// of SQLite become two sets of tables in one PostgreSQL database.
func (c Config) migrationsTable() string {
	return strings.TrimSuffix(c.File, ".db") + "_migrations"
}

// now is the present to the microsecond, which is all that the database keeps.
func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// Micros is how a time is stored: microseconds since 1970, and 0 for the zero
// time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time reads what [Micros] wrote.
func Time(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// Bit is how a truth is stored: 1 or 0.
func Bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
