package extract

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// A database contains the tables of a query in memory.
type database struct {
	db      *sql.DB
	conn    *sql.Conn
	tables  map[string]Table // by name
	modules []string         // names of virtual tables
	read    map[[2]string]bool
	joined  bool   // rows of the result may stand for several rows of a table
	denied  string // the operation that was refused
}

// openDatabase opens an empty database. Only a child may call it, because its limit of memory applies to the process.
func openDatabase(ctx context.Context) (*database, error) {
	if err := registerMedian(); err != nil {
		return nil, err
	}
	// Without _dqs a misspelled column in double quotes would be a text. Sorting uses memory, because a query must not write files.
	db, err := sql.Open("sqlite", fmt.Sprintf("file::memory:?_dqs=0&_pragma=temp_store(2)&_pragma=hard_heap_limit(%d)", maxSQLHeap))
	if err != nil {
		return nil, err
	}
	d := &database{db: db, tables: map[string]Table{}, read: map[[2]string]bool{}}
	if d.conn, err = db.Conn(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	rows, err := d.conn.QueryContext(ctx, `SELECT name FROM pragma_module_list`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, errors.Join(err, db.Close())
		}
		d.modules = append(d.modules, name)
	}
	return d, rows.Err()
}

func (d *database) close() {
	d.conn.Close()
	d.db.Close()
}

func quoted(name string) string { return `"` + name + `"` }

func (d *database) load(ctx context.Context, t Table, columns []tableColumn, rows []gridRow) error {
	var b strings.Builder
	b.WriteString("CREATE TABLE " + quoted(t.Name) + " (row_ INTEGER PRIMARY KEY")
	for _, c := range columns {
		affinity := "TEXT"
		switch c.kind {
		case typeInteger, typeBoolean:
			affinity = "INTEGER"
		case typeReal:
			affinity = "REAL"
		case typeMixed:
			affinity = ""
		}
		b.WriteString(", " + quoted(c.name) + " " + affinity)
	}
	b.WriteString(")")
	if _, err := d.conn.ExecContext(ctx, b.String()); err != nil {
		return loadError(t, err)
	}
	tx, err := d.conn.BeginTx(ctx, nil)
	if err != nil {
		return loadError(t, err)
	}
	defer func() { _ = tx.Rollback() }()
	insert, err := tx.PrepareContext(ctx, "INSERT INTO "+quoted(t.Name)+" VALUES (?"+strings.Repeat(", ?", len(columns))+")")
	if err != nil {
		return loadError(t, err)
	}
	defer insert.Close()
	values := make([]any, 1+len(columns))
	for _, row := range rows {
		values[0] = row.n
		for i := range columns {
			values[i+1] = columns[i].of(row)
		}
		if _, err := insert.Exec(values...); err != nil {
			return loadError(t, err)
		}
	}
	d.tables[t.Name] = t
	return loadError(t, tx.Commit())
}

func loadError(t Table, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the table %s cannot be loaded: %w", t.Name, err)
}

// deniedFunctions are refused because they reach outside of the query.
var deniedFunctions = []string{"load_extension", "fts3_tokenizer", "fts5_source_id", "sqlite_log"}

// aggregates are functions of several rows, so that no single row is the source of their result.
var aggregates = []string{"avg", "count", "group_concat", "json_group_array", "json_group_object", "max", "median", "min", "string_agg", "sum", "total"}

// authorize is called for each operation of a statement while SQLite compiles it. It allows only reads of the loaded
// tables, because the statement is not trusted.
func (d *database) authorize(action sqlite.AuthorizerActionCode, arg1, arg2, schema, _ string) sqlite.AuthorizerReturnCode {
	refuse := func(what string) sqlite.AuthorizerReturnCode {
		if d.denied == "" {
			d.denied = what
		}
		return sqlite.AuthorizerDeny
	}
	switch action {
	case sqlite.AuthSelect, sqlite.AuthRecursive:
		return sqlite.AuthorizerOK
	case sqlite.AuthFunction:
		if name := strings.ToLower(arg2); slices.Contains(deniedFunctions, name) {
			return refuse("the function " + name)
		} else if slices.Contains(aggregates, name) {
			d.joined = true
		}
		return sqlite.AuthorizerOK
	case sqlite.AuthRead:
		name := strings.ToLower(arg1)
		if _, ok := d.tables[name]; ok {
			d.read[[2]string{name, arg2}] = true
			return sqlite.AuthorizerOK
		}
		// Of a table of which no column is used, such as in count(*), the schema is missing: it may be the name of a WITH.
		system := strings.HasPrefix(name, "pragma_") || strings.HasPrefix(name, "sqlite_") || strings.HasPrefix(name, "json") || slices.Contains(d.modules, name)
		if arg2 == "" && schema == "" && !system {
			return sqlite.AuthorizerOK
		}
		return refuse("reading " + arg1)
	}
	return refuse("anything but reading the tables")
}

func (d *database) query(ctx context.Context, task tableTask, a *TableAnswer) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(task.Millis)*time.Millisecond)
	defer cancel()
	columns, err := d.compile(ctx, task.SQL)
	if err == nil {
		err = d.run(ctx, task, columns, a)
	}
	if err != nil {
		a.Error, a.Rows, a.Columns = d.explain(err, time.Duration(task.Millis)*time.Millisecond), nil, nil
		return
	}
	for _, t := range a.Tables {
		if !slices.ContainsFunc(a.Sources, func(s TableSource) bool { return s.Table == t.Name }) {
			continue
		}
		for _, note := range t.Notes {
			a.Notes = append(a.Notes, t.Name+": "+note)
		}
		for _, c := range t.Columns {
			if c.Note != "" && d.read[[2]string{t.Name, c.Name}] {
				a.Notes = append(a.Notes, fmt.Sprintf("%s.%q: %s", t.Name, c.Name, c.Note))
			}
		}
	}
	if len(a.Notes) > maxNotes {
		a.Notes = append(a.Notes[:maxNotes], "Cut: there are more notes.")
	}
}

// compile limits the connection from then on, and returns the columns of the result.
func (d *database) compile(ctx context.Context, statement string) (columns []sqlite.ColumnInfo, err error) {
	for id, limit := range map[int]int{
		sqlite3.SQLITE_LIMIT_LENGTH: maxSQLValue, sqlite3.SQLITE_LIMIT_SQL_LENGTH: 2 * MaxQuery, sqlite3.SQLITE_LIMIT_ATTACHED: 0,
		sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200, sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50, sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200, sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
	} {
		if _, err := sqlite.Limit(d.conn, id, limit); err != nil {
			return nil, err
		}
	}
	err = d.conn.Raw(func(c any) error {
		if err := c.(sqlite.AuthorizerRegisterer).RegisterAuthorizer(d.authorize); err != nil {
			return err
		}
		columns, err = c.(interface {
			ColumnInfo(string) ([]sqlite.ColumnInfo, error)
		}).ColumnInfo(statement)
		return err
	})
	return columns, err
}

func (d *database) run(ctx context.Context, task tableTask, columns []sqlite.ColumnInfo, a *TableAnswer) error {
	rows, err := d.conn.QueryContext(ctx, task.SQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	if a.Columns, err = rows.Columns(); err != nil {
		return err
	}
	size := 0
	for i, name := range a.Columns {
		a.Columns[i] = cutText(name, maxColumnName)
		size += len(a.Columns[i]) + 3
	}
	if size > task.Output/2 {
		return errors.New("the result has too many columns")
	}
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	cut, more := 0, false
	seen := map[string]TableSource{} // by table
	for rows.Next() {
		if len(a.Rows) >= maxRowsOut || size > task.Output {
			more = true
			break
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		out := make([]json.RawMessage, len(values))
		for i, v := range values {
			if text, ok := v.(string); ok && len(text) > maxCellOut {
				v, cut = cutText(text, maxCellOut), cut+1
			}
			out[i] = jsonCell(v)
			size += len(out[i]) + 1
			if n, ok := v.(int64); ok && columns[i].OriginName == "row_" {
				s := seen[columns[i].TableName]
				if s.FirstRow == 0 || n < s.FirstRow {
					s.FirstRow = n
				}
				s.LastRow = max(s.LastRow, n)
				seen[columns[i].TableName] = s
			}
		}
		if size > task.Output && len(a.Rows) > 0 {
			more = true
			break
		}
		a.Rows = append(a.Rows, out)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil && !more {
		return err
	}
	if more {
		a.Notes = append(a.Notes, fmt.Sprintf("Cut: there are more rows than these %d. Use aggregates, fewer columns, or ORDER BY with LIMIT and OFFSET.", len(a.Rows)))
	}
	if cut > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("Cut: %d texts are longer than %d bytes; use substr.", cut, maxCellOut))
	}
	if d.joined || slices.ContainsFunc(tokens(task.SQL), func(t token) bool { return t.text == "group" }) {
		seen = nil // row_ is that of one of the rows
	}
	only, clause := simpleClause(task.SQL)
	for _, t := range a.Tables {
		if !slices.ContainsFunc(t.Columns, func(c TableColumn) bool { return d.read[[2]string{t.Name, c.Name}] }) && !d.read[[2]string{t.Name, ""}] && !d.read[[2]string{t.Name, "row_"}] {
			continue
		}
		s, exact := seen[t.Name]
		if !exact || more {
			s = TableSource{FirstRow: t.FirstRow, LastRow: t.LastRow}
			if t.Name == only {
				var first, last sql.NullInt64
				if err := d.conn.QueryRowContext(ctx, "SELECT min(row_), max(row_) "+clause).Scan(&first, &last); err == nil && first.Valid {
					s.FirstRow, s.LastRow = first.Int64, last.Int64
				}
			}
		}
		s.Base, s.Sheet, s.Table = t.Base, t.Sheet, t.Name
		a.Sources = append(a.Sources, s)
	}
	return nil
}

func (d *database) explain(err error, limit time.Duration) string {
	var e *sqlite.Error
	code := 0
	if errors.As(err, &e) {
		code = e.Code() & 0xff
	}
	switch {
	case d.denied != "":
		return fmt.Sprintf("Not allowed: %s. A query is one SELECT or WITH statement that reads the tables.", d.denied)
	case errors.Is(err, context.DeadlineExceeded), code == sqlite3.SQLITE_INTERRUPT:
		return fmt.Sprintf("The query took longer than %v and was ended.", limit)
	case code == sqlite3.SQLITE_NOMEM:
		return fmt.Sprintf("The query needs more than %d MB of memory and was ended.", maxSQLHeap>>20)
	case code == sqlite3.SQLITE_TOOBIG:
		return fmt.Sprintf("The query makes a text of more than %d MB and was ended.", maxSQLValue>>20)
	}
	return strings.TrimSuffix(strings.TrimPrefix(err.Error(), "SQL logic error: "), fmt.Sprintf(" (%d)", code))
}

// jsonCell writes a value of a result. Numbers have the 15 digits that a spreadsheet shows, because further digits are
// those of binary fractions, as in 0.1 + 0.2.
func jsonCell(v any) json.RawMessage {
	switch x := v.(type) {
	case float64:
		if math.IsInf(x, 0) || math.IsNaN(x) {
			return json.RawMessage("null")
		}
		short, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 15, 64), 64)
		format := byte('f')
		if short != 0 && (math.Abs(short) >= 1e15 || math.Abs(short) < 1e-6) {
			format = 'g'
		}
		return json.RawMessage(strconv.FormatFloat(short, format, -1, 64))
	case []byte:
		v = fmt.Sprintf("blob of %d bytes", len(x))
	case string:
		v = strings.ToValidUTF8(x, "\ufffd")
	}
	text, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return text
}

// A token is a word, a number, a text or a sign of SQL.
type token struct {
	text  string // in lower case
	at    int
	depth int // of parentheses
}

func unquoted(name string) string { return strings.Trim(name, "\"'`[]") }

// tokens splits a statement, without its comments.
func tokens(s string) (list []token) {
	depth := 0
	word := func(r rune) bool { return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for i := 0; i < len(s); {
		var end int
		r, size := utf8.DecodeRuneInString(s[i:])
		skip := unicode.IsSpace(r)
		find := func(text string, from int) int {
			if n := strings.Index(s[min(from, len(s)):], text); n >= 0 {
				return from + n + len(text)
			}
			return len(s)
		}
		switch {
		case strings.HasPrefix(s[i:], "--"):
			end, skip = find("\n", i), true
		case strings.HasPrefix(s[i:], "/*"):
			end, skip = find("*/", i+2), true
		case r == '\'', r == '"', r == '`':
			end = find(string(r), i+1)
		case r == '[':
			end = find("]", i+1)
		case word(r):
			for end = i + size; end < len(s); end += size {
				if r, size = utf8.DecodeRuneInString(s[end:]); !word(r) {
					break
				}
			}
		default:
			end = i + size
		}
		if s[i] == ')' {
			depth--
		}
		if !skip {
			list = append(list, token{strings.ToLower(s[i:end]), i, depth})
		}
		if s[i] == '(' {
			depth++
		}
		i = end
	}
	return list
}

// checkStatement returns why a statement is not one SELECT or WITH; empty if it is. It need not find writes, since the
// authorizer of the database refuses them.
func checkStatement(s string) string {
	const rule = "A query is one SELECT or WITH statement."
	list := tokens(s)
	for len(list) > 0 && list[len(list)-1].text == ";" {
		list = list[:len(list)-1]
	}
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return rule + " It contains a NUL."
	case len(list) == 0:
		return rule + " This one is empty."
	case list[0].text != "select" && list[0].text != "with":
		return fmt.Sprintf("%s It cannot begin with %q.", rule, cutText(list[0].text, 20))
	case slices.ContainsFunc(list, func(t token) bool { return t.text == ";" }):
		return rule + " There are several."
	}
	return ""
}

// simpleClause returns the table and the FROM and WHERE of a query that selects from one table, so that the matching rows
// can be cited as its source; empty for others.
func simpleClause(s string) (table, clause string) {
	list := tokens(s)
	list = slices.DeleteFunc(list, func(t token) bool { return t.depth > 0 || t.text == ";" })
	if list[0].text != "select" || slices.ContainsFunc(list, func(t token) bool { return t.text == "union" || t.text == "intersect" || t.text == "except" }) {
		return "", ""
	}
	from := slices.IndexFunc(list, func(t token) bool { return t.text == "from" })
	if from < 0 || from+1 >= len(list) || list[from+1].text == "(" {
		return "", ""
	}
	table = unquoted(list[from+1].text)
	ends := []string{"where", "group", "order", "limit", "having", "window"}
	rest := list[from+2:]
	if len(rest) > 0 && rest[0].text == "as" {
		rest = rest[1:]
	}
	if len(rest) > 0 && !slices.Contains(ends, rest[0].text) && rest[0].text != "," && rest[0].text != "join" {
		rest = rest[1:]
	}
	if len(rest) > 0 && !slices.Contains(ends, rest[0].text) {
		return "", ""
	}
	for _, t := range rest {
		if t.text != "where" && slices.Contains(ends, t.text) {
			return table, s[list[from].at:t.at]
		}
	}
	return table, strings.TrimRight(s[list[from].at:], "; \n\t")
}

// maxMedian limits the values of all medians of a process, because SQLite's limit of memory does not include them.
const maxMedian = 4_000_000

var medianValues atomic.Int64

// registerMedian adds the aggregate median to SQLite, for connections that are opened afterwards.
var registerMedian = sync.OnceValue(func() error {
	return sqlite.RegisterFunction("median", &sqlite.FunctionImpl{
		NArgs: 1, Deterministic: true,
		MakeAggregate: func(sqlite.FunctionContext) (sqlite.AggregateFunction, error) { return &median{}, nil },
	})
})

// A median is the middle of the numbers of a group, or the mean of the two in the middle. It ignores NULL.
type median struct{ values []float64 }

func (m *median) Step(_ *sqlite.FunctionContext, args []driver.Value) error {
	var v float64
	switch x := args[0].(type) {
	case nil:
		return nil
	case int64:
		v = float64(x)
	case float64:
		v = x
	default:
		return errors.New("median needs numbers, and the column has texts")
	}
	if medianValues.Add(1) > maxMedian {
		return fmt.Errorf("median of more than %d values", maxMedian)
	}
	m.values = append(m.values, v)
	return nil
}

// WindowInverse removes the oldest value of a window.
func (m *median) WindowInverse(_ *sqlite.FunctionContext, args []driver.Value) error {
	if args[0] != nil && len(m.values) > 0 {
		m.values = m.values[1:]
		medianValues.Add(-1)
	}
	return nil
}

func (m *median) WindowValue(*sqlite.FunctionContext) (driver.Value, error) {
	if len(m.values) == 0 {
		return nil, nil
	}
	sorted := slices.Sorted(slices.Values(m.values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle], nil
	}
	return (sorted[middle-1] + sorted[middle]) / 2, nil
}

func (m *median) Final(*sqlite.FunctionContext) {
	medianValues.Add(-int64(len(m.values)))
	m.values = nil
}
