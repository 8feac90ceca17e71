package store

import (
	"fmt"
	"time"

	"stoa/internal/db"
)

// A Page asks for part of a list in order of creation, newest first.
type Page struct {
	Limit int    // most rows; 0: 20
	Asc   bool   // oldest first
	After Cursor // the last row of the page before; zero: from the start
}

// A Cursor is the place of a row in a list ordered by creation.
type Cursor struct {
	At time.Time
	ID string
}

func (p Page) limit() int {
	if p.Limit <= 0 {
		return 20
	}
	return p.Limit
}

// clause is the condition and order of the page over the columns created_at
// and id, with the placeholders from $n on. One row more than asked for is
// read, which reports whether there is another page.
func (p Page) clause(n int) (where, order string, args []any) {
	op, dir := "<", "DESC"
	if p.Asc {
		op, dir = ">", "ASC"
	}
	order = fmt.Sprintf(" ORDER BY created_at %s, id %s", dir, dir)
	if p.After != (Cursor{}) {
		where = fmt.Sprintf(" AND (created_at, id) %s ($%d, $%d)", op, n, n+1)
		args = []any{db.Micros(p.After.At), p.After.ID}
		n += 2
	}
	args = append(args, p.limit()+1)
	return where, order + fmt.Sprintf(" LIMIT $%d", n), args
}

// cut drops the row that only told that there are more.
func cut[T any](rows []T, p Page) ([]T, bool) {
	if len(rows) > p.limit() {
		return rows[:p.limit()], true
	}
	return rows, false
}
