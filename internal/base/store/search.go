package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// A textSearch narrows a list to the rows with a text in one of their columns, ignoring case in every
// script. It compares the columns of at most maxLooked rows here, because the databases cannot: SQLite
// changes the case of ASCII letters only, and PostgreSQL that of the letters of its locale.
type textSearch struct {
	text    string   // empty does not narrow
	columns []string // columns to search, which may be NULL
}

func folded(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return cases.Fold().String(norm.NFKC.String(s))
		}
	}
	return strings.ToLower(s)
}

// found returns the ids of the rows of a page that contain the text, and of one row more, and in the order of a number
// that of each.
func (f filtered) found(ctx context.Context, tx *Tx, p Page) (ids []any, keys map[string]int64, err error) {
	columns, searched := `id, 0`, f.search.columns
	if p.By != "" {
		columns = `id, sort_key`
	}
	if f.search.text == "" {
		searched = nil
	}
	for _, c := range searched {
		columns += `, COALESCE(` + c + `, '')`
	}
	var query string
	var args []any
	if f.hasTests() {
		query, args = f.looked(p, columns)
	} else {
		where, order, more := p.clause(len(f.args) + 1)
		query, args = `SELECT `+columns+` `+f.from+where+order, append(slices.Clip(f.args), more...)
	}
	text := folded(f.search.text)
	var id string
	var key int64
	values := make([]string, len(searched))
	dest := []any{&id, &key}
	for i := range values {
		dest = append(dest, &values[i])
	}
	keys = map[string]int64{}
	err = tx.Query(ctx, func(rows *sql.Rows) error {
		if len(ids) > p.limit() {
			return errPageFull
		}
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if text == "" || slices.ContainsFunc(values, func(v string) bool { return strings.Contains(folded(v), text) }) {
			ids = append(ids, id)
			keys[id] = key
		}
		return nil
	}, query, args...)
	if err == errPageFull {
		err = nil
	}
	return ids, keys, err
}

// The ranks of a match, best first.
const (
	rankExact = iota
	rankPrefix
	rankWord
	rankPart
	rankNone
)

// rank returns how well a folded value matches a folded text.
func rank(value, text string) int {
	at := strings.Index(value, text)
	switch {
	case at < 0:
		return rankNone
	case value == text:
		return rankExact
	case at == 0:
		return rankPrefix
	}
	for {
		before, _ := utf8.DecodeLastRuneInString(value[:at])
		if !unicode.IsLetter(before) && !unicode.IsDigit(before) {
			return rankWord
		}
		end := at + len(text)
		next := strings.Index(value[end:], text)
		if next < 0 {
			return rankPart
		}
		at = end + next
	}
}

// rankedMark begins the id of the cursor of a ranked page. No id of a row begins with it.
const rankedMark = "\x01"

// IsRanked reports whether c is the place of a row in a ranked list, which has no meaning in another order.
func (c Cursor) IsRanked() bool { return strings.HasPrefix(c.ID, rankedMark) }

// A rankedPlace is the place of a row in a ranked list. Only the maxLooked rows after start are ranked together; the
// next ones follow them.
type rankedPlace struct {
	start Cursor // the rows after it are ranked together
	rank  int
	last  Cursor // the row before the page; zero before the first
}

func (r rankedPlace) cursor() Cursor {
	return Cursor{r.last.At, fmt.Sprintf("%s%d\x00%d\x00%s\x00%s", rankedMark, r.rank, r.start.At.UnixMicro(), r.start.ID, r.last.ID)}
}

func placeOf(c Cursor) (r rankedPlace, ok bool) {
	if !c.IsRanked() {
		return rankedPlace{start: c}, true
	}
	parts := strings.Split(strings.TrimPrefix(c.ID, rankedMark), "\x00")
	if len(parts) != 4 {
		return r, false
	}
	rank, err := strconv.Atoi(parts[0])
	at, failed := strconv.ParseInt(parts[1], 10, 64)
	return rankedPlace{Cursor{time.UnixMicro(at).UTC(), parts[2]}, rank, Cursor{c.At, parts[3]}}, err == nil && failed == nil
}

// rankedPage is [filteredPage] for a search that begins with the best matches: equal columns, then those that begin with
// the text, then those with a word that does, then the others; equal ones by age, newest first. It ranks maxLooked rows
// together, because it reads no more of them for a page.
func rankedPage[T any](ctx context.Context, tx *Tx, p Page, f filtered, scan func(*sql.Rows) (T, error), cursor func(T) Cursor, before, after string) ([]T, Cursor, error) {
	place, ok := placeOf(p.After)
	if !ok {
		return nil, Cursor{}, fmt.Errorf("store: a ranked cursor is damaged: %q", p.After.ID)
	}
	if place.start == (Cursor{}) { // fixed, because rows created later would move others out of the ranked ones
		var at int64
		where, order, args := Page{}.from(len(f.args) + 1)
		if found, err := tx.Get(ctx, `SELECT created_at `+f.from+where+order+` LIMIT 1`, append(slices.Clip(f.args), args...), &at); err != nil || !found {
			return nil, Cursor{}, err
		}
		place.start.At = db.Time(at + 1)
	}
	window := Page{After: place.start, apart: p.apart, Limit: p.Limit}
	type match struct {
		rank int
		at   int64
		id   string
	}
	better := func(a, b match) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.at, a.at), cmp.Compare(b.id, a.id))
	}
	var matches []match
	query, args := f.looked(window, `id, created_at, COALESCE(`+strings.Join(f.search.columns, `, ''), COALESCE(`)+`, '')`)
	text := folded(f.search.text)
	var m match
	values := make([]string, len(f.search.columns))
	dest := []any{&m.id, &m.at}
	for i := range values {
		dest = append(dest, &values[i])
	}
	last := match{place.rank, db.Micros(place.last.At), place.last.ID}
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		m.rank = rankNone
		for _, v := range values {
			m.rank = min(m.rank, rank(folded(v), text))
		}
		if m.rank < rankNone && (place.last == (Cursor{}) || better(m, last) > 0) {
			matches = append(matches, m)
		}
		return nil
	}, query, args...)
	if err != nil {
		return nil, Cursor{}, err
	}
	slices.SortFunc(matches, better)
	more := len(matches) > p.limit()
	matches = matches[:min(len(matches), p.limit())]
	if len(matches) == 0 {
		next, err := f.next(ctx, tx, window, false, Cursor{})
		return nil, next, err
	}
	ids, position := make([]any, len(matches)), map[string]int{}
	for i, m := range matches {
		ids[i], position[m.id] = m.id, i
	}
	var list []T
	for {
		query, args = f.rowsOf(window, ids)
		var cut bool
		if list, cut, err = listPage(ctx, tx, window, scan, before+query+after, args...); err != nil {
			return nil, Cursor{}, err
		}
		if !cut {
			break
		}
		ids = ids[:(len(ids)+1)/2] // because the texts of all are larger than a page may be
		matches, more = matches[:len(ids)], true
	}
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(position[cursor(a).ID], position[cursor(b).ID]) })
	if more {
		end := matches[len(matches)-1]
		return list, rankedPlace{place.start, end.rank, Cursor{db.Time(end.at), end.id}}.cursor(), nil
	}
	next, err := f.next(ctx, tx, window, false, Cursor{})
	return list, next, err
}

// rowsOf returns the SELECT for the rows of a filtered list that have these ids, in the order of
// the page, with its arguments.
func (f filtered) rowsOf(p Page, ids []any) (query string, args []any) {
	if p.By != "" { // the order of ids, which their numbers had when they were read
		in, args := inList(slices.Clip(f.plain.args), ids)
		var place strings.Builder
		for i := range ids {
			fmt.Fprintf(&place, " WHEN $%d THEN %d", len(f.plain.args)+1+i, i)
		}
		return `SELECT *, CASE id` + place.String() + ` END AS place ` + f.plain.from + ` AND id IN (` + in + `) ORDER BY place` + fmt.Sprintf(` LIMIT %d`, p.limit()+1), args
	}
	_, order, _ := p.from(1)
	in, args := inList(slices.Clip(f.args), ids)
	return `SELECT * ` + f.from + ` AND id IN (` + in + `)` + order + fmt.Sprintf(` LIMIT %d`, p.limit()+1), args
}

// inList appends values to the arguments of a query, and returns their placeholders. It repeats the
// last value up to the next of a few sizes, so that few statements are ever prepared.
func inList[T any](args []any, values []T) (placeholders string, all []any) {
	size := len(values)
	for _, n := range []int{1, 8, 32, 128, 512} {
		if n >= size {
			size = n
			break
		}
	}
	var b strings.Builder
	for i := range size {
		if i > 0 {
			b.WriteString(", ")
		}
		args = append(args, values[min(i, len(values)-1)])
		fmt.Fprintf(&b, "$%d", len(args))
	}
	return b.String(), args
}

// search returns a page of a filtered list of the table, and the cursor of the next one, or the
// zero cursor. T must contain the columns created_at and id.
func (t *table[T]) search(ctx context.Context, tx *Tx, p Page, f filtered) ([]T, Cursor, error) {
	return filteredPage(ctx, tx, p, f, t.scan, func(row T) Cursor { return t.cursor(p, row) }, `SELECT `+t.columns+` FROM (`, `) x`)
}

func (t *table[T]) cursor(p Page, row T) Cursor {
	var at time.Time
	var name, id string
	v := reflect.ValueOf(row)
	for _, f := range t.fields {
		switch field := v.FieldByIndex(f.index); f.column {
		case "id":
			id = field.String()
		case "name":
			name = field.String()
		case "created_at":
			at = field.Interface().(time.Time)
		}
	}
	return p.cursor(at, name, id)
}

// The kinds of objects that have names.
const (
	NamedAgents      = "agents"
	NamedKeys        = "keys"
	NamedSpaces      = "spaces"
	NamedConnections = "connections"
	NamedTasks       = "tasks"
	NamedMembers     = "members"
	NamedAccounts    = "accounts"
)

// Names returns the names of objects of an account by their ids. Ids that are empty or unknown
// are absent. For operators, who read objects of all accounts, accountID is empty.
func (tx Work) Names(ctx context.Context, accountID, kind string, ids []string) (map[string]string, error) {
	const most = 512
	names := map[string]string{}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" })
	slices.Sort(ids)
	for part := range slices.Chunk(slices.Compact(ids), most) {
		in, args := inList([]any{accountID}, part)
		query := `SELECT id, name FROM ` + kind + ` WHERE (account_id = $1 OR $1 = '') AND id IN (` + in + `)`
		switch kind {
		case NamedAccounts:
			query = `SELECT id, name FROM accounts WHERE (id = $1 OR $1 = '') AND id IN (` + in + `)`
		case NamedMembers:
			query = `SELECT p.id, COALESCE(NULLIF(p.name, ''), p.email) FROM people p WHERE p.id IN (` + in + `)
				AND ($1 = '' OR EXISTS (SELECT 1 FROM members m WHERE m.account_id = $1 AND m.person_id = p.id))`
		case NamedAgents, NamedKeys, NamedSpaces, NamedConnections, NamedTasks:
		default:
			return nil, stoa.Errorf(stoa.CodeInternal, "There are no names of %q.", kind)
		}
		err := tx.Query(ctx, func(rows *sql.Rows) error {
			var id, name string
			err := rows.Scan(&id, &name)
			names[id] = name
			return err
		}, query+fmt.Sprintf(` LIMIT %d`, most), args...)
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}
