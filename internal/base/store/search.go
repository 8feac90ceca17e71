package store

import (
	"context"
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

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
