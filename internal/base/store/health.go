package store

import (
	"context"
	"strings"

	"stoa/internal/base/db"
)

// probeSize is the number of bytes that a probe writes. It equals about a full group of charges, because
// a disk may have space for less.
const probeSize = 64 << 10

// probe writes and empties one row; see [db.Config].
func probe(ctx context.Context, tx *db.Tx) error {
	for _, data := range []string{strings.Repeat("x", probeSize), ""} {
		if _, err := tx.Exec(ctx, `INSERT INTO store_probe (id, data) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET data = excluded.data`, data); err != nil {
			return err
		}
	}
	return nil
}

// Usable returns nil while the store can commit. After a commit failed because the disk is
// full, or the database is damaged, read-only or unreachable, it returns the error for
// callers (CodeStorageFull, CodeOverloaded) until a probe write succeeds; see
// [db.DB.Usable]. Work that costs or creates something outside the store, such as a model
// call, must not begin before it returned nil, since it could not be recorded. See
// docs/decisions/0029-refuse-work-that-cannot-be-recorded.md.
func (s *Store) Usable(ctx context.Context) error {
	if err := s.suspended(); err != nil {
		return err
	}
	return s.db.Usable(ctx)
}

// Latched reports whether the store refuses new work, because it does not commit or its node has not
// renewed its lease. It makes no probe write.
func (s *Store) Latched() bool { return s.suspended() != nil || s.db.Latched() }

// CheckServer connects to PostgreSQL once more, and returns an error if a service could not begin there now; see
// [db.CheckPostgres].
func (s *Store) CheckServer(ctx context.Context) error {
	if s.server == "" {
		return nil
	}
	return db.CheckPostgres(ctx, s.server)
}

// Health returns the reason why the store cannot serve: the error of [Store.Usable], a
// write transaction that does not end, or a query without an answer.
func (s *Store) Health(ctx context.Context) error {
	if err := s.suspended(); err != nil {
		return err
	}
	if err := s.db.Health(ctx); err != nil {
		return err
	}
	return s.Read(ctx, func(tx *Tx) error {
		_, err := tx.Books().HasAccounts(ctx)
		return err
	})
}
