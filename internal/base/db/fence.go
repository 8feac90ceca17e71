package db

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// A Fence is a statement that each write transaction on PostgreSQL begins with. It
// fails with a division by zero when this process may write no more, and otherwise
// keeps that from changing until the commit. It travels with the transaction's first
// statement and so costs no round trip.
type Fence struct {
	Query string
	Args  []any
}

// ErrFenced is in the chain of the error of a write transaction that [Config.Fence]
// has ended. Nothing was written.
var ErrFenced = errors.New("db: this process must not write any more")

func isFenced(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "22012" // division_by_zero: no other statement divides by a value that may be 0
}
