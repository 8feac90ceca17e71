package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"stoa/internal/stoa"
)

// classify gives errors of the database that a caller can be told about their
// code; others pass as they are.
func classify(err error) error {
	if err == nil || !isFull(err) {
		return err
	}
	if _, ok := errors.AsType[*stoa.Error](err); ok {
		return err
	}
	return stoa.Errorf(stoa.CodeStorageFull, "The service has run out of storage. The operator has to make room.").Because(err)
}

func isFull(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()&0xff == sqlite3.SQLITE_FULL || e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "53100"
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// mayEndTransaction reports whether SQLite may have rolled back the whole
// transaction by itself. Errors of a PostgreSQL transaction block all further
// statements there, so nothing has to be remembered for it.
func mayEndTransaction(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_CORRUPT:
		return true
	}
	return false
}

// IsUnique reports whether an error is a breach of a unique index or primary key.
func IsUnique(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "23505"
}

// ErrAgain is for closures that find that their transaction should be run again;
// [IsPassing] recognises it.
var ErrAgain = errors.New("db: run the transaction again")

// IsPassing reports whether the same work may succeed when it is tried again: a
// deadlock, a busy file, a connection that broke. After a broken connection the
// first attempt may have been committed.
func IsPassing(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()&0xff == sqlite3.SQLITE_BUSY
	}
	return errors.Is(err, ErrAgain) || isConflict(err) || isBroken(err)
}

// isConflict is PostgreSQL asking for the transaction to be run again; it was
// rolled back.
func isConflict(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40001" || e.Code == "40P01")
}

func isBroken(err error) bool {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return len(e.Code) == 5 && (e.Code[:2] == "08" || e.Code[:3] == "57P")
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
