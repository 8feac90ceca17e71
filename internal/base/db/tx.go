package db

import (
	"context"
	"database/sql"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"
)

// A Tx is a running transaction. It is valid until the closure that got it returns,
// and is not safe for use by several goroutines.
type Tx struct {
	// Now is the moment the transaction began, in UTC, to the microsecond.
	Now time.Time

	ctx      context.Context // of a write, instead of the caller's; nil for reads
	limit    time.Duration   // of a write
	own      bool            // limit is that of [Limit]
	on       runner
	pg       *pgConn // nil on SQLite
	postgres bool
	ran      int      // statements
	depth    int      // of savepoints
	broken   error    // the transaction may have been rolled back; nothing more may run
	after    []func() // for [Tx.AfterCommit]
	observed func(query string)
}

// runner is the common interface of connections to both databases.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (t *Tx) context(ctx context.Context) context.Context {
	if t.ctx != nil {
		return t.ctx
	}
	return ctx
}

// Exec runs a statement and returns the number of changed rows.
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if t.broken != nil || t.overdue() {
		return 0, t.broken
	}
	t.ran++
	if t.observed != nil {
		t.observed(query)
	}
	res, err := t.on.ExecContext(t.context(ctx), query, args...)
	if err != nil {
		return 0, t.fail(err)
	}
	n, err := res.RowsAffected()
	return n, t.fail(err)
}

// Later runs a statement whose result is not needed: it must be certain to change a row,
// and the closure must not handle its failure. On PostgreSQL it is sent with the next
// statement or the COMMIT, which reports its error; on SQLite it runs immediately. An error
// always rolls back the enclosing savepoint or transaction.
func (t *Tx) Later(ctx context.Context, query string, args ...any) error {
	if t.pg == nil {
		_, err := t.Exec(ctx, query, args...)
		return err
	}
	if t.broken != nil || t.overdue() {
		return t.broken
	}
	t.ran++
	if t.observed != nil {
		t.observed(query)
	}
	return t.pg.later(query, args)
}

// Query runs a statement that returns rows and calls scan for each. It returns the
// first error of either.
func (t *Tx) Query(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error {
	if t.broken != nil || t.overdue() {
		return t.broken
	}
	t.ran++
	if t.observed != nil {
		t.observed(query)
	}
	rows, err := t.on.QueryContext(t.context(ctx), query, args...)
	if err != nil {
		return t.fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return t.fail(rows.Err())
}

// Get runs a statement that returns at most one row, scans it into dest, and
// reports whether there was one.
func (t *Tx) Get(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	found := false
	err := t.Query(ctx, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(dest...)
	}, query, args...)
	return found, err
}

// Savepoint runs fn so that its error or panic rolls back only the work of fn; the error is
// returned and the transaction continues.
func (t *Tx) Savepoint(ctx context.Context, fn func() error) error {
	t.depth++
	defer func() { t.depth-- }()
	name := savepointName(t.depth)
	hooks := len(t.after)
	var begin mark
	if t.pg != nil {
		begin = t.pg.mark()
	}
	if err := t.Later(ctx, "SAVEPOINT "+name); err != nil {
		return err
	}
	err := recovered(fn)
	if err == nil {
		err = t.broken // fn may have swallowed it
	}
	if err == nil {
		if _, err = t.Exec(ctx, "RELEASE SAVEPOINT "+name); err == nil {
			return nil
		}
	}
	t.after = t.after[:hooks]
	if undo := t.rollbackTo(ctx, name, begin); undo != nil && t.broken == nil {
		t.broken = fmt.Errorf("undo after %w: %w", err, undo)
	}
	return err
}

// rollbackTo rolls back to the savepoint and releases it. When that works, the
// transaction still exists.
func (t *Tx) rollbackTo(ctx context.Context, name string, begin mark) error {
	if t.overdue() {
		return t.broken
	}
	if t.pg != nil {
		if err := t.pg.undo(begin, name); err != nil {
			return classify(err)
		}
		t.broken = nil
		return nil
	}
	ctx = t.context(ctx)
	if _, err := t.on.ExecContext(ctx, "ROLLBACK TO SAVEPOINT "+name); err != nil {
		return classify(err)
	}
	if _, err := t.on.ExecContext(ctx, "RELEASE SAVEPOINT "+name); err != nil {
		return classify(err)
	}
	t.broken = nil
	return nil
}

func savepointName(depth int) string {
	switch depth { // the usual ones without formatting
	case 0:
		return "s0"
	case 1:
		return "s1"
	}
	return fmt.Sprintf("s%d", depth)
}

// AfterCommit runs fn after the transaction is committed, before its Write returns;
// never if it is rolled back. fn must be quick and must not use the database.
func (t *Tx) AfterCommit(fn func()) { t.after = append(t.after, fn) }

func (t *Tx) committed() {
	for _, fn := range t.after {
		fn()
	}
}

// Postgres reports whether the transaction is on PostgreSQL.
func (t *Tx) Postgres() bool { return t.postgres }

// ForUpdate returns the suffix of a SELECT that locks its rows until the commit. It
// is empty on SQLite, which has one writer.
func (t *Tx) ForUpdate() string {
	if t.postgres {
		return " FOR UPDATE"
	}
	return ""
}

// ForUpdateUnlocked is [Tx.ForUpdate] that skips the rows which another transaction
// has locked instead of waiting for them.
func (t *Tx) ForUpdateUnlocked() string {
	if t.postgres {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// ForShare returns the suffix of a SELECT whose rows may not change until the
// commit.
func (t *Tx) ForShare() string {
	if t.postgres {
		return " FOR SHARE"
	}
	return ""
}

// LimitTime makes PostgreSQL end the next statements of the transaction at the deadline of
// ctx: the end of a context itself would break the connection. The error of such a
// statement is [context.DeadlineExceeded], even if it arrives just before ctx ends. On
// SQLite the context of each statement interrupts it.
func (t *Tx) LimitTime(ctx context.Context) error {
	end, ok := ctx.Deadline()
	if !ok || !t.postgres {
		return nil
	}
	return t.Later(ctx, `SELECT set_config('statement_timeout', $1, true)`, strconv.FormatInt(max(1, time.Until(end).Milliseconds()), 10))
}

// overdue reports whether the transaction has exceeded its time limit, and if so
// marks it as broken.
func (t *Tx) overdue() bool {
	if t.ctx == nil || t.ctx.Err() == nil {
		return false
	}
	t.broken = timedOut(t.limit, t.own)
	return true
}

// fail classifies an error and records when the transaction may have been rolled
// back by the database.
func (t *Tx) fail(err error) error {
	if err == nil {
		return nil
	}
	if t.overdue() {
		return t.broken
	}
	err = classify(err)
	if mayEndTransaction(err) {
		t.broken = err
	}
	return err
}

func recovered(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic inside a transaction: %v\n%s", p, debug.Stack())
		}
	}()
	return fn()
}
