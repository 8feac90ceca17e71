package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"stoa/internal/base/db"
)

// Files returns the names of the databases of a data directory; the first
// is in every one. Other files of a data directory (the lock, a WAL) belong to
// a running process.
func Files() []string { return []string{CoreFile, DriveFile} }

const (
	CoreFile  = "core.db"
	DriveFile = "drive.db" // the tables of package drive
)

// WriteSynced writes a small file and syncs it.
func WriteSynced(path, text string) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Sync()
}

// Marks of a data directory or a database that is being written as a whole. A store with one of them
// does not open, because parts of it may be missing.
const (
	UnfinishedRestore = "restore.unfinished" // a file
	UnfinishedCopy    = "copy.unfinished"    // a file with the id of the source
	CopyTable         = "stoa_copy"          // on PostgreSQL: a table with that id
)

// CheckRestored returns an error for a directory in which a restore was
// interrupted.
func CheckRestored(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, UnfinishedRestore)); err == nil {
		return fmt.Errorf("a restore into %s was interrupted; run \"stoa restore\" again, with --force", dir)
	}
	return nil
}

func errUnfinishedCopy(where string) error {
	return fmt.Errorf("a copy to %s was interrupted or failed; run \"stoa copy\" again", where)
}

// CheckCopied returns an error for a store that a copy has begun to write.
func CheckCopied(ctx context.Context, cfg Config) error {
	if cfg.PostgresURL == "" {
		if _, err := os.Lstat(filepath.Join(cfg.Dir, UnfinishedCopy)); err == nil {
			return errUnfinishedCopy(cfg.Dir)
		}
		return nil
	}
	d, err := db.Open(ctx, db.Config{PostgresURL: cfg.PostgresURL, Connections: 1})
	if err != nil {
		return err
	}
	defer d.Close() // nothing was written
	marked, _, err := CopyMark(ctx, d)
	if err == nil && marked {
		err = errUnfinishedCopy("this database")
	}
	return err
}

// CopyMark reports whether a database is marked as a copy that is not complete, and
// returns the id of its source.
func CopyMark(ctx context.Context, d *db.DB) (marked bool, source string, err error) {
	err = d.Read(ctx, func(tx *db.Tx) error {
		if _, err := tx.Get(ctx, `SELECT to_regclass($1::text) IS NOT NULL`, []any{CopyTable}, &marked); err != nil || !marked {
			return err
		}
		_, err := tx.Get(ctx, `SELECT source FROM `+CopyTable+` LIMIT 1`, nil, &source)
		return err
	})
	return marked, source, err
}
