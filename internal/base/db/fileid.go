package db

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
)

// FileID returns the number that [SetFileID] has stored in a SQLite file, or 0. The file must exist
// and not be empty, because opening an empty file makes SQLite delete a WAL next to it.
func FileID(ctx context.Context, dir, name string) (id uint32, err error) {
	err = withFile(dir, name, true, func(pool *sql.DB) error {
		var n int32
		if err := pool.QueryRowContext(ctx, "PRAGMA user_version").Scan(&n); err != nil {
			return err
		}
		id = uint32(n)
		return nil
	})
	return id, err
}

// SetFileID stores a number in a SQLite file, in its header, and creates the file
// if it does not exist.
func SetFileID(ctx context.Context, dir, name string, id uint32) error {
	return withFile(dir, name, false, func(pool *sql.DB) error {
		_, err := pool.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", int32(id)))
		return err
	})
}

func withFile(dir, name string, queryOnly bool, fn func(*sql.DB) error) error {
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if !queryOnly {
		if err := makePrivate(path); err != nil {
			return fmt.Errorf("db: %w", classify(err))
		}
	}
	pool, err := sqlitePool(path, Config{}, queryOnly)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := fn(pool); err != nil {
		return fmt.Errorf("db: %s: %w", name, classify(err))
	}
	return nil
}
