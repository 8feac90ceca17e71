package store

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

func list[T any](ctx context.Context, tx *Tx, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	var all []T
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		v, err := scan(rows)
		all = append(all, v)
		return err
	}, query, args...)
	return all, err
}

func first[T any](ctx context.Context, tx *Tx, scan func(*sql.Rows) (T, error), query string, args ...any) (v T, found bool, err error) {
	all, err := list(ctx, tx, scan, query, args...)
	if err != nil || len(all) == 0 {
		return v, false, err
	}
	return all[0], true, nil
}

// page runs a query over the columns created_at and id and returns the rows of one page and whether
// there are more. The query must end within its WHERE, because the condition, order and limit of the
// page follow.
func page[T any](ctx context.Context, tx *Tx, p Page, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, bool, error) {
	where, order, more := p.clause(len(args) + 1)
	return listPage(ctx, tx, p, scan, query+where+order, append(args, more...)...)
}

// maxPageBytes limits the long texts in the rows of one page, so that a page of
// instructions or messages does not need the memory of a hundred of them.
const maxPageBytes = 8 << 20

var errPageFull = errors.New("store: the page is full")

// listPage returns the rows of a page and whether there are more. The query must be limited to one
// row more than the page, so that it shows whether there are more. A page ends early with the row that
// reaches [maxPageBytes]; it contains at least one row if there is one.
func listPage[T any](ctx context.Context, tx *Tx, p Page, scan func(*sql.Rows) (T, error), query string, args ...any) (rows []T, more bool, err error) {
	size := 0
	err = tx.Query(ctx, func(r *sql.Rows) error {
		if len(rows) == p.limit() || size >= maxPageBytes {
			return errPageFull
		}
		v, err := scan(r)
		rows = append(rows, v)
		size += textBytes(v)
		return err
	}, query, args...)
	if errors.Is(err, errPageFull) {
		return rows, true, nil
	}
	return rows, false, err
}

// textBytes returns the bytes of the texts of a row that may be long; 0 for rows
// whose texts are all bounded by some thousand characters.
func textBytes(row any) int {
	switch v := row.(type) {
	case stoa.Agent:
		return len(v.Instructions) + toolBytes(v.Tools)
	case stoa.AgentVersion:
		return len(v.Instructions) + toolBytes(v.Tools)
	case stoa.ExternalCall:
		return len(v.Arguments) + len(v.Result)
	case stoa.ScheduledTask:
		return len(v.Message)
	case MessageRow:
		return len(v.Text)
	case stoa.Session:
		return len(v.Reply)
	}
	return 0
}

func toolBytes(tools []stoa.AgentTool) (n int) {
	for _, t := range tools {
		n += len(t.Description) + len(t.Parameters)
		for _, name := range t.Allow {
			n += len(name)
		}
	}
	return n
}

// optionalText returns a list as JSON, or "" if the list is empty.
func optionalText[T any](list []T) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	return jsonText(list)
}

// readOptional reads a JSON value of a column that may be empty.
func readOptional[T any](text string, into *T) error {
	if text == "" {
		return nil
	}
	return jsonx.Unmarshal([]byte(text), into)
}

func scanText(rows *sql.Rows) (s string, err error) {
	err = rows.Scan(&s)
	return s, err
}

func scanRef(rows *sql.Rows) (r Ref, err error) {
	err = rows.Scan(&r.AccountID, &r.ID)
	return r, err
}

// insertRows returns an INSERT of the given number of rows of width columns; into is its
// beginning, with the table and its columns.
func insertRows(into string, rows, width int) string {
	var b strings.Builder
	b.WriteString(into + ` VALUES `)
	n := 0
	for i := range rows {
		if i > 0 {
			b.WriteString(", ")
		}
		for j := range width {
			n++
			b.WriteString([2]string{"(", ","}[min(j, 1)] + "$" + strconv.Itoa(n))
		}
		b.WriteByte(')')
	}
	return b.String()
}

// insertEach returns an INSERT for each of insertSizes, with the end of the statement.
func insertEach(into string, width int, end string) (texts [len(insertSizes)]string) {
	for i, size := range insertSizes {
		texts[i] = insertRows(into, size, width) + end
	}
	return texts
}

func (tx *Tx) texts(ctx context.Context, query string, args ...any) ([]string, error) {
	return list(ctx, tx, scanText, query, args...)
}

func jsonText[T any](v T) (string, error) {
	b, err := jsonx.Marshal(v)
	return string(b), err
}

// dayOf returns the days since 1970, in UTC.
func dayOf(t time.Time) int64 { return t.Unix() / 86_400 }
