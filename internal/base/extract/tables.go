package extract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Limits of queries of tables, because neither statements nor files are trusted.
const (
	MaxQuery    = 16 << 10 // bytes of SQL
	maxRowsOut  = 200      // rows of a result
	maxCellOut  = 2000     // bytes of a text in a result
	maxAnswer   = 1 << 20  // bytes of an answer of a child
	maxSQLHeap  = 256 << 20
	maxSQLValue = 1 << 20 // bytes of a text that a query makes
	queryTime   = 10 * time.Second
	shownRows   = 3   // of each table in a list
	maxBase     = 60  // bytes
	maxDeclared = 100 // bytes of the type or the encoding of a file
	maxNotes    = 20  // of a result
	maxListed   = 50  // columns shown of a table that has too many for the list
)

// A TableFile is a file whose sheets are tables of a query.
type TableFile struct {
	Base string // the beginning of the names of its tables; see [TableBases]
	Document
}

// A TableQuery is a question about tables.
type TableQuery struct {
	Account string
	SQL     string // one SELECT or WITH statement; empty lists the tables
	Prefix  string // beginning of the names of the tables to list
	Files   []TableFile
	Output  int // maximum size of the rows, or of the list, in bytes of JSON
}

// A TableReader answers queries of tables. [Service] is the one of the running service.
type TableReader interface {
	// Tables answers a query. Its errors are faults of the service, [ErrBusy], [ErrStopped] or the end of ctx; the faults
	// of a query or of a file are in the answer.
	Tables(ctx context.Context, q TableQuery) (TableAnswer, error)
}

// A TableAnswer is the answer to a [TableQuery].
type TableAnswer struct {
	Error   string // why there is no result
	Tables  []Table
	Columns []string
	Rows    [][]json.RawMessage
	Sources []TableSource
	Notes   []string
}

// A Table is a sheet or a file of values as a table of SQL.
type Table struct {
	Name     string              `json:"table"`
	Base     string              `json:"base,omitempty"` // of its file
	Sheet    string              `json:"sheet,omitempty"`
	FirstRow int64               `json:"firstRow,omitempty"` // the first row with data
	LastRow  int64               `json:"lastRow,omitempty"`
	Rows     int                 `json:"rows,omitempty"`
	Columns  []TableColumn       `json:"columns,omitempty"`
	First    [][]json.RawMessage `json:"firstRows,omitempty"`
	Notes    []string            `json:"notes,omitempty"`
}

// A TableColumn is a column of a [Table].
type TableColumn struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Note string `json:"note,omitempty"`
}

// A TableSource is the rows of a file on which a result rests.
type TableSource struct {
	Base, Sheet       string // Sheet is empty for a file of values
	Table             string // its name
	FirstRow, LastRow int64
}

// Place returns the sheet and the rows, such as "sheet Sales, rows 40–52".
func (s TableSource) Place() string {
	rows := fmt.Sprintf("rows %d–%d", s.FirstRow, s.LastRow)
	if s.FirstRow == s.LastRow {
		rows = fmt.Sprintf("row %d", s.FirstRow)
	}
	if s.Sheet != "" {
		rows = "sheet " + s.Sheet + ", " + rows
	}
	return rows
}

// IsTable reports whether a file contains tables, by its name and type.
func IsTable(name, mime string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".csv", ".tsv", ".xlsx":
		return true
	}
	mime = mediaType(mime)
	return mime == "text/csv" || mime == "text/tab-separated-values" || mime == endings[".xlsx"].mediaType
}

// reserved are words that SQL does not accept as the name of a table.
var reserved = strings.Fields("add all alter and as autoincrement between case check collate commit constraint create cross current_date current_time current_timestamp default deferrable delete distinct drop else escape except exists foreign from full group having if in index inner insert intersect into is isnull join left limit natural not nothing notnull null on or order outer primary references returning right select set table then to transaction union unique update using values when where with")

// TableBases returns the beginnings of the names of the tables of files, by their paths: letters, digits and single
// underscores. They differ, and so do the names of sheets, which have two underscores before the name of the sheet.
func TableBases(paths []string) []string {
	used := map[string]bool{}
	list := make([]string, len(paths))
	for i, p := range paths {
		list[i] = sqlName(strings.TrimSuffix(p, path.Ext(p)))
		for n := 2; used[list[i]]; n++ {
			list[i] = sqlName(strings.TrimSuffix(p, path.Ext(p))) + "_" + strconv.Itoa(n)
		}
		used[list[i]] = true
	}
	return list
}

// sqlName makes a name that needs no quotes in SQL.
func sqlName(s string) string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	name := strings.Join(words, "_")
	if len(name) > maxBase {
		name = strings.TrimSuffix(cutText(name, maxBase), "…")
	}
	name = strings.Trim(name, "_")
	if slices.Contains(reserved, name) {
		name += "_table"
	}
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = strings.TrimSuffix("t_"+name, "_")
	}
	return name
}

// Mentions returns a function that reports whether a statement may use a table of the file with a base. It compares whole
// words, because otherwise a damaged file a.csv would fail every query that contains an a.
func Mentions(sql string) func(base string) bool {
	words := tokens(sql)
	for i := range words {
		words[i].text = unquoted(words[i].text)
	}
	return func(base string) bool {
		return slices.ContainsFunc(words, func(t token) bool { return t.text == base || strings.HasPrefix(t.text, base+"__") })
	}
}

// tableTask is what the child needs of a [TableQuery].
type tableTask struct {
	SQL    string      `json:"sql,omitempty"`
	Prefix string      `json:"prefix,omitempty"`
	Files  []tableFile `json:"files"`
	Output int         `json:"output"`
	Millis int64       `json:"millis"` // maximum for the statement
}

type tableFile struct {
	Base      string `json:"name"`
	MediaType string `json:"mediaType,omitempty"`
	Encoding  string `json:"encoding,omitempty"`
	Size      int64  `json:"size"`
}

// Tables implements [TableReader].
func (s *Service) Tables(ctx context.Context, q TableQuery) (TableAnswer, error) {
	if len(q.SQL) > MaxQuery {
		return TableAnswer{Error: fmt.Sprintf("The statement is longer than %d bytes.", MaxQuery)}, nil
	}
	if q.SQL != "" {
		if bad := checkStatement(q.SQL); bad != "" {
			return TableAnswer{Error: bad}, nil
		}
	}
	task := &tableTask{SQL: q.SQL, Prefix: q.Prefix, Output: q.Output, Millis: min(queryTime, s.cfg.Timeout/2).Milliseconds()}
	var contents []io.Reader
	var notes []string
	left := int64(maxDocument)
	for _, f := range q.Files {
		if f.Size > left {
			if q.SQL != "" {
				return TableAnswer{Error: fmt.Sprintf("The files of the tables have together more than %d MB. Query fewer of them.", maxDocument>>20)}, nil
			}
			notes = append(notes, fmt.Sprintf("%s is not listed: the files have together more than %d MB. Use prefix.", f.Base, maxDocument>>20))
			continue
		}
		left -= f.Size
		task.Files = append(task.Files, tableFile{f.Base, f.MediaType[:min(len(f.MediaType), maxDeclared)], f.Encoding[:min(len(f.Encoding), maxDeclared)], f.Size})
		contents = append(contents, io.LimitReader(f.Content, f.Size))
	}
	r, err := s.run(ctx, q.Account, request{Task: "tables", Tables: task}, io.MultiReader(contents...), maxAnswer)
	if err != nil {
		return TableAnswer{}, err
	}
	if r.Status != Ready {
		return TableAnswer{Error: r.Note}, nil
	}
	var a TableAnswer
	if err := json.Unmarshal(r.Text, &a); err != nil {
		return TableAnswer{}, fmt.Errorf("read the answer of a query: %w", err)
	}
	a.Notes = append(a.Notes, notes...)
	return a, nil
}

// tables answers a query in a child. data is the contents of the files, one after the other.
func tables(ctx context.Context, task tableTask, data []byte) (r Result) {
	defer func() {
		if fault := recover(); fault != nil {
			_ = reportPanic(fault)
			r = failed()
		}
	}()
	l := &loader{task: task, left: maxTableCells}
	if task.SQL != "" {
		var err error
		if l.db, err = openDatabase(ctx); err != nil {
			return Result{Status: Failed, Note: "The query could not be prepared: " + err.Error()}
		}
		defer l.db.close()
	}
	for _, f := range task.Files {
		if f.Size > int64(len(data)) {
			return Result{Status: Failed, Note: "A file could not be read."}
		}
		content := data[:f.Size]
		data = data[f.Size:]
		err := l.file(ctx, f, content)
		switch {
		case errors.Is(err, errTooManyCells) && task.SQL != "":
			l.answer = TableAnswer{Error: fmt.Sprintf("The tables of the query have together more than %d cells.", maxTableCells)}
		case errors.Is(err, errTooManyCells):
			l.answer.Notes = append(l.answer.Notes, fmt.Sprintf("The list ends at %s: the tables have together more than %d cells. Use prefix.", f.Base, maxTableCells))
		case err != nil:
			l.answer.Error = err.Error()
		}
		if err != nil {
			break
		}
	}
	if l.more > 0 {
		l.answer.Notes = append(l.answer.Notes, fmt.Sprintf("Cut: there are %d more tables. Use prefix.", l.more))
	}
	if task.SQL != "" && l.answer.Error == "" {
		l.db.query(ctx, task, &l.answer)
		if strings.HasPrefix(l.answer.Error, "no such table") {
			l.answer.Error = strings.Join(append([]string{l.answer.Error + "."}, l.missing...), " ")
		}
	}
	if l.answer.Error == "" && task.SQL != "" {
		l.answer.Tables = nil
	}
	text, err := json.Marshal(l.answer)
	if err != nil {
		return Result{Status: Failed, Note: "The result could not be written: " + err.Error()}
	}
	if len(text) > maxAnswer {
		return Result{Status: Failed, Note: "The result is too large."}
	}
	return Result{Status: Ready, Text: text}
}

// A loader reads the tables of files.
type loader struct {
	task   tableTask
	db     *database // nil for a list
	left   int       // cells that may still be loaded
	size   int       // of the list
	more   int       // tables that the list leaves out
	answer TableAnswer

	missing []string // files that cannot be read: a fault only if the statement uses them
}

// file reads the tables of a file that the query needs.
func (l *loader) file(ctx context.Context, f tableFile, data []byte) error {
	problem := func(r Result) error {
		if l.db != nil {
			l.missing = append(l.missing, fmt.Sprintf("The file of %s cannot be read: %s", f.Base, why(r)))
			return nil
		}
		l.list(Table{Name: f.Base, Base: f.Base, Notes: []string{why(r)}})
		return nil
	}
	if !bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		if binary(data) || bytes.HasPrefix(data, []byte("\xd0\xcf\x11\xe0")) {
			return problem(Result{Note: "It is neither CSV nor XLSX."})
		}
		text, encoding, r := decode(Document{MediaType: f.MediaType, Encoding: f.Encoding}, data)
		if r.Status != "" {
			return problem(r)
		}
		if encoding != "" && len(data) > 4*MaxText {
			return problem(Result{Note: fmt.Sprintf("Files in an encoding other than UTF-8 can have %d MB.", 4*MaxText>>20)})
		}
		g, err := readValues(text, &l.left)
		if err != nil {
			return err
		}
		if r.Note != "" {
			g.notes = append(g.notes, r.Note)
		}
		return l.tables(ctx, Table{Name: f.Base, Base: f.Base}, g)
	}
	a, r := openZip(data)
	if r.Status != "" {
		return problem(r)
	}
	w, err := a.workbook(a.mainPart())
	if err != nil || len(w.sheets) == 0 {
		return problem(broken("XLSX file"))
	}
	used, mentioned := map[string]bool{}, Mentions(l.task.SQL)
	for _, s := range w.sheets {
		t := Table{Name: f.Base, Base: f.Base, Sheet: s.name}
		if len(w.sheets) > 1 {
			name := f.Base + "__" + sqlName(s.name)
			t.Name = name
			for n := 2; used[t.Name]; n++ {
				t.Name = name + "_" + strconv.Itoa(n)
			}
			used[t.Name] = true
		}
		if l.db != nil && !mentioned(t.Name) || !strings.HasPrefix(t.Name, l.task.Prefix) && !strings.HasPrefix(l.task.Prefix, t.Name+"__") {
			if l.db != nil {
				l.answer.Tables = append(l.answer.Tables, Table{Name: t.Name, Base: t.Base, Sheet: t.Sheet})
			}
			continue
		}
		g, err := w.grid(s, &l.left)
		if errors.Is(err, errTooManyCells) {
			return err
		}
		if err != nil {
			note := "The sheet is damaged."
			if errors.Is(err, errTooMuch) {
				note = "The file unpacks to more than 64 MB."
			}
			if l.db != nil {
				return fmt.Errorf("the table %s cannot be read: %s", t.Name, note)
			}
			t.Notes = append(t.Notes, note)
			l.list(t)
			continue
		}
		if err := l.tables(ctx, t, g); err != nil {
			return err
		}
	}
	return nil
}

// why explains to a model why a file has no tables.
func why(r Result) string {
	if r.Note != "" {
		return r.Note
	}
	return "It is neither CSV nor XLSX."
}

// tables adds the tables of a sheet. One has the name of the sheet, and the others their number behind it.
func (l *loader) tables(ctx context.Context, t Table, g *grid) error {
	list, first := g.tables()
	for i, part := range list {
		t := t
		if i != first {
			t.Name += "__" + strconv.Itoa(i+1)
		}
		if len(list) > 1 && l.db == nil {
			part.notes = append(part.notes, fmt.Sprintf("Table %d of %d in this sheet.", i+1, len(list)))
		}
		if err := l.table(ctx, t, part); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) table(ctx context.Context, t Table, g *grid) error {
	columns := g.columns()
	rows := g.data()
	t.Notes, t.Rows = g.notes[:min(len(g.notes), maxNotes)], len(rows)
	if len(rows) > 0 {
		t.FirstRow, t.LastRow = rows[0].n, rows[len(rows)-1].n
	}
	for _, c := range columns {
		t.Columns = append(t.Columns, TableColumn{c.name, c.kind, c.note})
	}
	if l.db != nil {
		l.answer.Tables = append(l.answer.Tables, t)
		return l.db.load(ctx, t, columns, rows)
	}
	for _, row := range rows[:min(len(rows), shownRows)] {
		out := []json.RawMessage{jsonCell(row.n)}
		for _, c := range columns {
			text := jsonCell(c.of(row))
			if len(text) > 100 {
				text = jsonCell(cutText(fmt.Sprint(c.of(row)), 90))
			}
			out = append(out, text)
		}
		t.First = append(t.First, out)
	}
	t.Columns = append([]TableColumn{{Name: "row_", Type: typeInteger}}, t.Columns...)
	l.list(t)
	return nil
}

// list adds a table to the list. When the list is full, only the names of further tables are added.
func (l *loader) list(t Table) {
	if !strings.HasPrefix(t.Name, l.task.Prefix) {
		return
	}
	text, err := json.Marshal(t)
	if n := len(t.Columns); err == nil && n > maxListed && len(text) > l.task.Output/2 {
		t.Columns = t.Columns[:maxListed]
		for i := range t.First {
			t.First[i] = t.First[i][:maxListed]
		}
		t.Notes = append(t.Notes, fmt.Sprintf("Cut: there are %d columns.", n))
		text, err = json.Marshal(t)
	}
	if err != nil {
		return
	}
	if l.size += len(text) + 100; l.size > l.task.Output { // 100: what the list adds to it
		l.size -= len(text) - len(t.Name) - len(t.Base)
		if l.size > l.task.Output {
			l.size = l.task.Output
			l.more++
			return
		}
		t = Table{Name: t.Name, Base: t.Base, Sheet: t.Sheet}
	}
	l.answer.Tables = append(l.answer.Tables, t)
}

// of returns the value of a cell of the column in a row; nil if it is empty.
func (c *tableColumn) of(row gridRow) any {
	if c.at >= len(row.cells) {
		return nil
	}
	cell := row.cells[c.at]
	if cell.kind == cellEmpty || c.kind != typeText && c.kind != typeMixed && cell.kind == cellText && isBlank(cell.shown) {
		return nil
	}
	return c.value(cell)
}
