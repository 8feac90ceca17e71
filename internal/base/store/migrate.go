package store

import (
	"context"
	"errors"
	"io/fs"

	"stoa/internal/base/db"
)

// DriveTables are the properties of package drive's tables that this package needs; they
// are stored next to its own.
type DriveTables struct {
	Migrations func(postgres bool) fs.FS
	// Refill copies a table whose rows differ between the databases, because they contain
	// or belong to an index that each database builds itself. It calls progress with the
	// number of rows written so far.
	Refill func(ctx context.Context, from, to *db.DB, progress func(rows int64)) error
	// Refilled is the table of Refill; Own are the tables and columns ("table.column")
	// that one kind of database needs for its index.
	Refilled string
	Own      []string
}

// A Migrated is the version of the tables of one database, before and after.
type Migrated struct {
	File     string // core.db or drive.db; on PostgreSQL their tables are in one database
	From, To int64  // From is 0 for tables that did not exist
}

// Migrate runs only the migrations of a start: it acquires the lock, checks that the
// databases belong together and runs the missing migrations. With check it only returns
// those that would run, and acquires no lock.
func Migrate(ctx context.Context, cfg Config, drives DriveTables, check bool) (done []Migrated, err error) {
	for _, c := range Databases(cfg, drives) {
		m := Migrated{File: c.File}
		if m.From, m.To, err = db.Versions(ctx, c); err != nil {
			return nil, err
		}
		done = append(done, m)
	}
	if check {
		return done, nil
	}
	cfg.tablesOnly = true
	s, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	d, err := db.Open(ctx, Databases(cfg, drives)[1])
	if err != nil {
		return nil, err
	}
	return done, d.Close()
}

// Databases returns the configurations of a store's databases: the core's and the drives'.
func Databases(cfg Config, drives DriveTables) []db.Config {
	all := make([]db.Config, 2)
	for i, files := range []fs.FS{Migrations(), drives.Migrations(cfg.PostgresURL != "")} {
		all[i] = db.Config{
			Dir: cfg.Dir, File: Files()[i], PostgresURL: cfg.PostgresURL, Migrations: files,
			Durability: cfg.Durability, ReadOnly: cfg.ReadOnly, Logger: cfg.Logger, Readers: 1, Connections: 4,
		}
	}
	return all
}
