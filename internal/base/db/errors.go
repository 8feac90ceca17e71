package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"stoa/internal/base/stoa"
)

// classify wraps errors of the database that are not the program's own fault in
// a [stoa.Error] for callers; others are returned unchanged.
func classify(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*stoa.Error](err); ok {
		return err
	}
	if reason := commitFailure(err); reason != nil {
		return reason
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == "57014" { // query_canceled: see [Tx.LimitTime]
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return err
}

// timedOut is the error of a transaction that exceeded its time limit; own: that of
// [Limit].
func timedOut(limit time.Duration, own bool) error {
	if own {
		return stoa.Errorf(stoa.CodeOverloaded, "The service's database does not answer in time at the moment. Try again.").After(time.Second).Because(ErrTimeout)
	}
	return stoa.Errorf(stoa.CodeOverloaded, "The change took longer than %s and was undone. Try again, with a smaller request.", limit).After(time.Second).Because(ErrTimeout)
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
// transaction by itself, or the connection to PostgreSQL broke. Other errors of
// a PostgreSQL transaction block all further statements there, so nothing has to be
// remembered for them.
func mayEndTransaction(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return isBroken(err)
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_CORRUPT:
		return true
	}
	return false
}

func isDamage(err error) bool {
	if errors.Is(err, errPages) {
		return true
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()&0xff == sqlite3.SQLITE_CORRUPT || e.Code()&0xff == sqlite3.SQLITE_NOTADB
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "XX001" || e.Code == "XX002" // data_corrupted, index_corrupted
	}
	return false
}

// isReadOnly reports whether PostgreSQL accepts no change: a standby, or a role that is read-only by default.
func isReadOnly(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "25006" // read_only_sql_transaction
}

// isUnwritable reports whether the file or the server refuses every write: an I/O
// error, a read-only file system.
func isUnwritable(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
			return true
		}
		return false
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == "58030" // io_error
	}
	return errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EIO)
}

// IsUnique reports whether an error is a violation of a unique index or primary key.
func IsUnique(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "23505"
}

// ErrAgain is returned by closures whose transaction should be run again.
// [IsPassing] reports true for it.
var ErrAgain = errors.New("db: run the transaction again")

// IsPassing reports whether the same work may succeed when it is repeated: after a
// deadlock, a busy file, a broken connection. After a broken connection the first
// attempt may have been committed.
func IsPassing(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()&0xff == sqlite3.SQLITE_BUSY
	}
	return errors.Is(err, ErrAgain) || errors.Is(err, errDoubt) || isConflict(err) || isBroken(err)
}

// IsDoubtful reports whether the change of a failed [DB.Write] may have been made all the
// same, because the answer to its commit is lost.
func IsDoubtful(err error) bool { return errors.Is(err, errDoubt) }

// errUnreached is in the chain of the error of a transaction that could not begin:
// no connection of the pool and no new one reached PostgreSQL. errDoubt is in that
// of one whose connection broke between its commit and the answer.
var (
	errUnreached = errors.New("no connection")
	errDoubt     = errors.New("the answer to the commit is lost")
)

// isConflict reports whether PostgreSQL has rolled the transaction back because of
// another one, and it should be run again.
func isConflict(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40001" || e.Code == "40P01")
}

// isBroken reports whether the connection to PostgreSQL failed or the server is
// stopping, starting or has no connection left.
func isBroken(err error) bool {
	if errors.Is(err, errUnreached) {
		return true
	}
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return len(e.Code) == 5 && (e.Code[:2] == "08" || e.Code[:3] == "57P" || e.Code == "25P03" || e.Code == "53300") // idle for too long; too many connections
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok { // also when connectTime is over
		return true
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return pgconn.SafeToRetry(err) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
