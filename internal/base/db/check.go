package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
)

// checkTime is the longest that [DB.checkPages] runs.
const checkTime = 5 * time.Second

// errPages is the cause when the check of a file found a damaged page.
var errPages = errors.New("db: a page is damaged")

// leftWAL reports whether the last process to use a file did not close it.
func leftWAL(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}

// checkPages looks for damaged pages after a process died, for at most checkTime, while the
// first work runs. It sets the latch if it finds one. The part of a large file that does
// not fit into that time stays unchecked.
func (d *DB) checkPages() {
	ctx, cancel := context.WithTimeout(d.closing, checkTime)
	defer cancel()
	d.checked(ctx, d.pages(ctx))
}

// findDamage returns a function that reads all pages of a file over a separate connection and
// returns an error if one is damaged or the check did not finish.
func findDamage(path string, cfg Config) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		pool, err := sqlitePool(path, cfg, true)
		if err != nil {
			return err
		}
		defer pool.Close()
		rows, err := pool.QueryContext(ctx, "PRAGMA quick_check(100)")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				return err
			}
			if isPageLine(line) {
				return fmt.Errorf("%w: %s", errPages, line)
			}
		}
		return rows.Err()
	}
}

func (d *DB) checked(ctx context.Context, err error) {
	if isDamage(err) {
		d.observe(err)
		return
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "the database was checked after an unclean stop", slog.String("file", d.file), slog.Bool("damaged", false), slog.Any("error", err))
}

// isPageLine reports whether a line of quick_check is about pages, because other lines are about
// values, which are not a reason to refuse work.
func isPageLine(line string) bool {
	if line == "ok" {
		return false
	}
	for _, values := range []string{"CHECK constraint", "NULL value", "NUMERIC value", "TEXT value", "non-unique", "row "} {
		if strings.HasPrefix(line, values) {
			return false
		}
	}
	return true
}
