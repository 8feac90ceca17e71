package db

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// migrate runs the missing migrations. A database that is newer than this program
// is an error: an older program must not write what it does not understand.
func migrate(ctx context.Context, cfg Config, dialect goose.Dialect, pool *sql.DB) error {
	if cfg.Migrations == nil {
		return nil
	}
	p, err := provider(cfg, dialect, pool)
	if err != nil {
		return err
	}
	at, err := p.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the tables: %w", classify(err))
	}
	sources := p.ListSources()
	newest := sources[len(sources)-1].Version
	if at > newest {
		return fmt.Errorf("the tables are of version %d and this program knows %d: run the newer program", at, newest)
	}
	if at == newest {
		return nil
	}
	if cfg.ReadOnly {
		return fmt.Errorf("the tables are of version %d and this program needs %d: run \"stoa migrate\", or start the server once", at, newest)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", classify(err))
	}
	return nil
}

func provider(cfg Config, dialect goose.Dialect, pool *sql.DB) (*goose.Provider, error) {
	p, err := goose.NewProvider(dialect, pool, cfg.Migrations,
		goose.WithTableName(cfg.migrationsTable()),
		goose.WithDisableGlobalRegistry(true),
		goose.WithSlog(cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}

// Versions returns the version of the tables of a database, 0 where there are none,
// and the one that cfg.Migrations lead to. It changes nothing.
func Versions(ctx context.Context, cfg Config) (at, newest int64, err error) {
	dialect, query := goose.DialectSQLite3, `SELECT COUNT(*) FROM sqlite_schema WHERE name = $1`
	var pool *sql.DB
	if cfg.PostgresURL != "" {
		dialect, query = goose.DialectPostgres, `SELECT COUNT(to_regclass(quote_ident($1)))`
		pc, err := postgresConfig(cfg.PostgresURL)
		if err != nil {
			return 0, 0, err
		}
		pool = stdlib.OpenDB(*pc)
	} else {
		path, err := filepath.Abs(filepath.Join(cfg.Dir, cfg.File))
		if err != nil {
			return 0, 0, err
		}
		if pool, err = sqlitePool(path, cfg, true); err != nil {
			return 0, 0, err
		}
	}
	defer pool.Close()
	p, err := provider(cfg, dialect, pool)
	if err != nil {
		return 0, 0, err
	}
	sources := p.ListSources()
	newest = sources[len(sources)-1].Version
	if cfg.PostgresURL == "" {
		if info, err := os.Stat(filepath.Join(cfg.Dir, cfg.File)); err != nil || info.Size() == 0 {
			return 0, newest, nil // opening it would create it
		}
	}
	var tables int
	if err := pool.QueryRowContext(ctx, query, cfg.migrationsTable()).Scan(&tables); err != nil {
		return 0, 0, fmt.Errorf("db: read the version of the tables: %w", classify(err))
	}
	if tables == 0 { // asking goose would create its table
		return 0, newest, nil
	}
	if at, err = p.GetDBVersion(ctx); err != nil {
		return 0, 0, fmt.Errorf("db: read the version of the tables: %w", classify(err))
	}
	return at, newest, nil
}
