package store

import (
	"context"
	"database/sql"
)

// list runs a query and returns its rows, each read by scan.
func list[T any](ctx context.Context, tx *Tx, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	var all []T
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		v, err := scan(rows)
		all = append(all, v)
		return err
	}, query, args...)
	return all, err
}

// first returns the first row of a query and whether there is one.
func first[T any](ctx context.Context, tx *Tx, scan func(*sql.Rows) (T, error), query string, args ...any) (v T, found bool, err error) {
	all, err := list(ctx, tx, scan, query, args...)
	if err != nil || len(all) == 0 {
		return v, false, err
	}
	return all[0], true, nil
}

// page runs a query over the columns created_at and id and returns the rows of
// one page and whether there are more. The query ends within its WHERE; the
// condition, order and limit of the page follow.
func page[T any](ctx context.Context, tx *Tx, p Page, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, bool, error) {
	where, order, more := p.clause(len(args) + 1)
	rows, err := list(ctx, tx, scan, query+where+order, append(args, more...)...)
	return cut(p, rows, err)
}

// cut drops the row that was read only to see that there is another page, and
// reports whether it was there.
func cut[T any](p Page, rows []T, err error) ([]T, bool, error) {
	if err != nil || len(rows) <= p.limit() {
		return rows, false, err
	}
	return rows[:p.limit()], true, nil
}

// scanText reads a row of one text.
func scanText(rows *sql.Rows) (s string, err error) {
	err = rows.Scan(&s)
	return s, err
}

// scanRef reads a row of an account and an id.
func scanRef(rows *sql.Rows) (r Ref, err error) {
	err = rows.Scan(&r.AccountID, &r.ID)
	return r, err
}
