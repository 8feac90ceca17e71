package store

// Channel returns the name under which nodes notify each other.
func (s *Store) Channel() string { return s.db.Channel() }
