package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/db"
)

// A Page selects part of a list in order of creation, newest first, or by name.
type Page struct {
	Limit  int    // maximum number of rows; 0 means 20
	Asc    bool   // oldest first, or by name from A to Z
	ByName bool   // order by name, in the order of the database; only lists whose method says so support it
	By     string // order by a number, such as SortSpent; only lists whose method says so support it
	Ranked bool   // a searched list begins with the best matches; without a search it has no effect
	After  Cursor // the last row of the previous page; zero means from the start

	apart bool // created_at differs in all rows, whose index therefore has no id
}

// The numbers by which lists can be ordered. Their methods say what each is.
const (
	SortBalance  = "balance"
	SortSpent    = "spent"
	SortUsed     = "used"
	SortUpdated  = "updated"
	SortDuration = "duration"
	SortCharged  = "charged"
)

// A Cursor is the position of a row in a list ordered by creation. In the order of names At is
// zero, and ID contains the name, a zero byte and the id. In the order of a number At has it as microseconds.
type Cursor struct {
	At time.Time
	ID string
}

func (p Page) cursor(at time.Time, name, id string) Cursor {
	if p.ByName {
		return Cursor{ID: name + "\x00" + id}
	}
	return Cursor{At: at, ID: id}
}

func (p Page) numbered(n int64, id string) Cursor { return Cursor{At: time.UnixMicro(n).UTC(), ID: id} }

func (p Page) limit() int {
	if p.Limit <= 0 {
		return 20
	}
	return p.Limit
}

// clause returns the condition and the order of the page over the columns created_at and id, with
// placeholders from $n on. It selects one row more than the limit, so that [listPage] detects another
// page without a count.
func (p Page) clause(n int) (where, order string, args []any) {
	where, order, args = p.from(n)
	args = append(args, p.limit()+1)
	return where, order + fmt.Sprintf(" LIMIT $%d", n+len(args)-1), args
}

// from is [Page.clause] without the limit.
func (p Page) from(n int) (where, order string, args []any) {
	op, dir := "<", "DESC"
	if p.Asc {
		op, dir = ">", "ASC"
	}
	by := "created_at"
	switch {
	case p.By != "":
		by = "sort_key"
	case p.ByName:
		by = "name"
	}
	order = fmt.Sprintf(" ORDER BY %s %s", by, dir)
	if !p.apart || p.By != "" {
		order += ", id " + dir
	}
	if p.After == (Cursor{}) {
		return "", order, nil
	}
	where = fmt.Sprintf(" AND (%s, id) %s ($%d, $%d)", by, op, n, n+1)
	if at := strings.LastIndexByte(p.After.ID, 0); p.ByName && at >= 0 {
		return where, order, []any{p.After.ID[:at], p.After.ID[at+1:]}
	}
	return where, order, []any{db.Micros(p.After.At), p.After.ID}
}

// order orders the rows of a page that were selected in a subquery of that name.
func (p Page) order(name string) string {
	if p.By != "" {
		return fmt.Sprintf(" ORDER BY %s.place", name)
	}
	if p.Asc {
		return fmt.Sprintf(" ORDER BY %[1]s.created_at, %[1]s.id", name)
	}
	return fmt.Sprintf(" ORDER BY %[1]s.created_at DESC, %[1]s.id DESC", name)
}

// maxLooked is the maximum number of rows that a filtered page reads, so that it takes about 5 ms
// however few of them match.
const maxLooked = 2000

// A filtered list consists of the rows of a table that an index finds, in the order of a
// page, and that further conditions then filter.
type filtered struct {
	from string   // FROM and the conditions that the index serves
	args []any    // arguments of from
	rest []string // pairs of a column and the value that it must have; empty values do not count

	tests  []test     // further conditions, which require reading the rows
	search textSearch // a text that the rows must contain

	plain *filtered // for [Page.By]: the same rows without the column sort_key, which from then has
}

// sorted returns f in the order of a number: from is as in f, with a column sort_key and its own arguments.
func (f filtered) sorted(from string, args ...any) filtered {
	plain := f
	f.from, f.args, f.plain = from, args, &plain
	return f
}

// A test is a condition with one value, whose placeholder is $%d.
type test struct {
	cond  string
	value any
}

// rows returns the SELECT for the rows of a page and one row more, with its arguments. With
// further conditions it reads the first maxLooked rows.
func (f filtered) rows(p Page) (query string, args []any) {
	if !f.hasTests() {
		where, order, more := p.clause(len(f.args) + 1)
		return `SELECT * ` + f.from + where + order, append(slices.Clip(f.args), more...)
	}
	query, args = f.looked(p, `*`)
	return query + fmt.Sprintf(` LIMIT $%d`, len(args)+1), append(args, p.limit()+1)
}

// looked returns the SELECT for those of the first maxLooked rows that match the further
// conditions, with its arguments.
func (f filtered) looked(p Page, columns string) (query string, args []any) {
	where, order, more := p.from(len(f.args) + 1)
	rest, args := f.conditions(append(slices.Clip(f.args), more...))
	return fmt.Sprintf(`SELECT %s FROM (SELECT * %s%s%s LIMIT %d) looked WHERE 1 = 1%s%s`, columns, f.from, where, order, maxLooked, rest, order), args
}

// conditions returns the further conditions, with their values after these arguments.
func (f filtered) conditions(args []any) (cond string, all []any) {
	all, cond = narrow(slices.Clip(args), f.rest...)
	for _, t := range f.tests {
		all = append(all, t.value)
		cond += fmt.Sprintf(" AND "+t.cond, len(all))
	}
	return cond, all
}

// filteredPage returns a page of a filtered list, and the cursor of the next one, or the
// zero cursor. before and after are the parts of the query around the list. cursor returns
// a row's position.
func filteredPage[T any](ctx context.Context, tx *Tx, p Page, f filtered, scan func(*sql.Rows) (T, error), cursor func(T) Cursor, before, after string) ([]T, Cursor, error) {
	if p.Ranked && f.search.text != "" {
		return rankedPage(ctx, tx, p, f, scan, cursor, before, after)
	}
	query, args := f.rows(p)
	var keys map[string]int64
	if f.search.text != "" || p.By != "" {
		ids, found, err := f.found(ctx, tx, p)
		if err != nil {
			return nil, Cursor{}, err
		}
		if len(ids) == 0 {
			next, err := f.next(ctx, tx, p, false, Cursor{})
			return nil, next, err
		}
		keys = found
		query, args = f.rowsOf(p, ids)
	}
	rows, more, err := listPage(ctx, tx, p, scan, before+query+after, args...)
	if err != nil {
		return nil, Cursor{}, err
	}
	var last Cursor
	if len(rows) > 0 {
		last = cursor(rows[len(rows)-1])
	}
	if p.By != "" && len(rows) > 0 {
		last = p.numbered(keys[last.ID], last.ID)
	}
	next, err := f.next(ctx, tx, p, more, last)
	return rows, next, err
}

func (f filtered) hasTests() bool {
	for i := 1; i < len(f.rest); i += 2 {
		if f.rest[i] != "" {
			return true
		}
	}
	return len(f.tests) > 0 || f.search.text != ""
}

// next returns the cursor of the page after these rows: their last row if the query found more than the
// page, otherwise the last row that was read, so that the list continues even after an empty page. It
// returns the zero cursor at the end of the list.
func (f filtered) next(ctx context.Context, tx *Tx, p Page, more bool, last Cursor) (Cursor, error) {
	if more {
		return last, nil
	}
	if !f.hasTests() {
		return Cursor{}, nil
	}
	where, order, args := p.from(len(f.args) + 1)
	var at int64
	name, id, number, column := "", "", "created_at", "''"
	if p.ByName {
		column = "name"
	}
	if p.By != "" {
		number = "sort_key"
	}
	found, err := tx.Get(ctx, fmt.Sprintf(`SELECT %s, %s, id %s%s%s LIMIT 1 OFFSET %d`, number, column, f.from, where, order, maxLooked-1),
		append(slices.Clip(f.args), args...), &at, &name, &id)
	if err != nil || !found {
		return Cursor{}, err
	}
	if p.By != "" {
		return p.numbered(at, id), nil
	}
	return p.cursor(db.Time(at), name, id), nil
}
