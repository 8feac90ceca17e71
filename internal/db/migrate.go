package db

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pressly/goose/v3"
)

// migrate runs the missing migrations. A database that is newer than this program
// is an error: an older program must not write what it does not understand.
func migrate(ctx context.Context, cfg Config, dialect goose.Dialect, pool *sql.DB) error {
	if cfg.Migrations == nil {
		return nil
	}
	p, err := goose.NewProvider(dialect, pool, cfg.Migrations,
		goose.WithTableName(cfg.migrationsTable()),
		goose.WithDisableGlobalRegistry(true),
		goose.WithSlog(cfg.Logger))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
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
		return fmt.Errorf("the tables are of version %d and this program needs %d: start the server once", at, newest)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", classify(err))
	}
	return nil
}
