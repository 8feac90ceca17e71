package store

import "context"

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
