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

// migrate runs the missing migrations. A program may run on tables of a later version
// unless their migrations forbid it: [Config.needsTable] has the oldest version that a
// program must have.
func migrate(ctx context.Context, cfg Config, dialect goose.Dialect, pool *sql.DB) error {
	if cfg.Migrations == nil {
		return nil
	}
	m, err := newMigration(ctx, cfg, dialect, pool)
	if err != nil || m.current() {
		return err
	}
	return m.run(ctx)
}

// migratePostgres is [migrate] for a database that other processes may be opening
// at the same time: one of them migrates, and the others wait for it.
func migratePostgres(ctx context.Context, cfg Config, pool *sql.DB) error {
	if cfg.Migrations == nil {
		return nil
	}
	var exists bool // checked first, because reading the version creates its table, which only one process may do
	if err := pool.QueryRowContext(ctx, "SELECT to_regclass($1) IS NOT NULL", cfg.migrationsTable()).Scan(&exists); err != nil {
		return fmt.Errorf("look for the version of the tables: %w", classify(err))
	}
	if exists || cfg.ReadOnly {
		m, err := newMigration(ctx, cfg, goose.DialectPostgres, pool)
		if err != nil || m.current() || cfg.ReadOnly {
			return err
		}
	}
	unlock, err := lockMigrations(ctx, cfg)
	if err != nil {
		return fmt.Errorf("wait for the migrations: %w", err)
	}
	defer unlock()
	m, err := newMigration(ctx, cfg, goose.DialectPostgres, pool)
	if err != nil || m.current() {
		return err
	}
	return m.run(ctx)
}

// A migration is the state of a database before migrations run.
type migration struct {
	provider   *goose.Provider
	at, newest int64 // versions: of the tables, and the latest of this program
}

// newMigration compares the tables with the migrations. It fails when this program
// is too old for the tables, or when it may only read and they are too old.
func newMigration(ctx context.Context, cfg Config, dialect goose.Dialect, pool *sql.DB) (m migration, err error) {
	if m.provider, err = provider(cfg, dialect, pool); err != nil {
		return m, err
	}
	if m.at, err = m.provider.GetDBVersion(ctx); err != nil {
		return m, fmt.Errorf("read the version of the tables: %w", classify(err))
	}
	sources := m.provider.ListSources()
	m.newest = sources[len(sources)-1].Version
	if m.at > m.newest {
		needs := m.at // if the tables have no value
		if err := pool.QueryRowContext(ctx, "SELECT version FROM "+cfg.needsTable()).Scan(&needs); err != nil {
			cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "the tables have no required version", slog.String("file", cfg.File), slog.Any("error", err))
		}
		if needs > m.newest {
			return m, fmt.Errorf("the tables are of version %d and require a program that supports %d; this one supports %d: run the newer program", m.at, needs, m.newest)
		}
	}
	if m.at < m.newest && cfg.ReadOnly {
		return m, fmt.Errorf("the tables are of version %d and this program needs %d: run \"stoa migrate\", or start the server once", m.at, m.newest)
	}
	return m, nil
}

func (m migration) current() bool { return m.at >= m.newest }

func (m migration) run(ctx context.Context) error {
	if _, err := m.provider.Up(ctx); err != nil {
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

// Versions returns the version of the tables of a database, or 0 without tables, and the
// version that cfg.Migrations lead to. It changes nothing.
func Versions(ctx context.Context, cfg Config) (at, newest int64, err error) {
	dialect, query := goose.DialectSQLite3, `SELECT COUNT(*) FROM sqlite_schema WHERE name = $1`
	var pool *sql.DB
	if cfg.PostgresURL != "" {
		dialect, query = goose.DialectPostgres, `SELECT COUNT(to_regclass(quote_ident($1)))`
		pc, err := postgresConfig(cfg.PostgresURL, cfg.Lineage)
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
			return 0, newest, nil // because opening it would create it
		}
	}
	var tables int
	if err := pool.QueryRowContext(ctx, query, cfg.migrationsTable()).Scan(&tables); err != nil {
		return 0, 0, fmt.Errorf("db: read the version of the tables: %w", classify(err))
	}
	if tables == 0 { // because asking goose would create its table
		return 0, newest, nil
	}
	if at, err = p.GetDBVersion(ctx); err != nil {
		return 0, 0, fmt.Errorf("db: read the version of the tables: %w", classify(err))
	}
	return at, newest, nil
}
