package store

import "context"

// Read runs fn in a transaction that only reads, and returns its result.
func Read[T any](ctx context.Context, s *Store, fn func(*Tx) (T, error)) (T, error) {
	var out T
	err := s.Read(ctx, func(tx *Tx) (err error) {
		out, err = fn(tx)
		return err
	})
	return out, err
}

// Write runs fn in a transaction, and returns its result after the commit. fn may run more than once.
func Write[T any](ctx context.Context, s *Store, fn func(*Tx) (T, error)) (T, error) {
	var out T
	err := s.Write(ctx, func(tx *Tx) (err error) {
		out, err = fn(tx)
		return err
	})
	return out, err
}
