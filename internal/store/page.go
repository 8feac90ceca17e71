package store

import (
	"fmt"
	"time"

	"stoa/internal/db"
)

// A Page selects part of a list in order of creation, newest first.
type Page struct {
	Limit int    // most rows; 0: 20
	Asc   bool   // oldest first
	After Cursor // the last row of the previous page; zero: from the start
}

// A Cursor is the position of a row in a list ordered by creation.
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

// clause returns the condition and the order of the page over the columns
// created_at and id, with placeholders from $n on. It selects one row more than
// the limit, which shows whether there is another page; see [listPage].
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
