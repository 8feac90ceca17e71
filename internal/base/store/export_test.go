package store

import (
	"context"

	"stoa/internal/base/db"
)

// Channel returns the name under which nodes notify each other.
func (s *Store) Channel() string { return s.db.Channel() }

// Freeing reports whether claims wait to be freed.
func (s *Store) Freeing() bool {
	s.toFree.mu.Lock()
	defer s.toFree.mu.Unlock()
	return s.toFree.working
}

// DifferencesBy is [Books.Differences] with another number of charges that are summed together.
func (tx Books) DifferencesBy(ctx context.Context, accountID string, together int) ([]Difference, ChargeTotals, error) {
	return tx.differencesBy(ctx, accountID, together)
}

// ErasedTables returns the list of the tables with texts, and the database.
func ErasedTables(s *Store) ([]erasedTable, *db.DB) { return erasedTables, s.db }

// Columns returns the columns that the list names.
func (t erasedTable) Columns() (table, columns string, explained bool) {
	return t.name, t.removed + " " + t.cleared + " " + t.kept, t.kept == "" || t.why != ""
}

// Rank is how well a folded value matches a folded text: 0 equal, 1 its beginning, 2 a word, 3 a part, 4 not at all.
var Rank = rank
