package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
)

// Names and limits of the tools that query tables.
const (
	toolTableList  = "table_list"
	toolTableQuery = "table_query"
)

const (
	maxTableFiles = 500 // of a drive, in the order of their paths
	maxTablePages = 20  // of 1,000 files of a drive, among which tables are looked for
	maxTableNames = 3000
	tableWait     = 2 * time.Minute // including the time in the queue of readers
)

var tableTools = []stoa.Tool{
	{
		Name: toolTableList, Description: "List the tables in the CSV and XLSX files of your drive and of the user: columns, types, first rows.",
		Parameters: `{"type":"object","properties":{"prefix":{"type":"string","description":"what the names of the tables begin with; leave out for all"}},"additionalProperties":false}`,
	},
	{
		Name: toolTableQuery, Description: "Run one SELECT or WITH statement of SQLite over these tables, with median(x) as well. Use it for every sum, count, comparison or join instead of computing yourself. " +
			"row_ is the row in the file: select it where an answer rests on single rows. Dates are texts such as 2024-03-01, booleans 1 and 0, empty cells NULL. Put names of columns in double quotes.",
		Parameters: `{"type":"object","properties":{"sql":{"type":"string"}},"required":["sql"],"additionalProperties":false}`,
	},
}

type tableFile struct {
	base     string // beginning of the names of its tables
	name     string
	attached bool
	who      drive.Owner
	path     drive.Path
	sha256   string
}

// tableFiles returns the files with tables that the agent can use. more reports that a drive contains more than it reads.
func (w *Worker) tableFiles(ctx context.Context, p *prompt, who drive.Owner) (list []tableFile, more bool, err error) {
	add := func(f tableFile, path string) error {
		f.path, err = drive.ParsePath(path)
		list = append(list, f)
		return err
	}
	cursor := ""
	for page := 0; p.access != stoa.DriveNone && !more; page++ {
		got, err := w.cfg.Drives.List(ctx, who, drive.Listing{Except: p.hidden(), Limit: 1000, Cursor: cursor})
		if err != nil {
			return nil, false, err
		}
		for _, f := range got.Files {
			if more = len(list) == maxTableFiles; more {
				break
			}
			if !extract.IsTable(f.Path, f.MimeType) {
				continue
			}
			if err := add(tableFile{name: f.Path, who: who}, f.Path); err != nil {
				return nil, false, err
			}
		}
		if cursor = got.Next; cursor == "" {
			break
		}
		more = more || page+1 == maxTablePages
	}
	for f := range p.attachedFiles() {
		if extract.IsTable(f.Name, f.MimeType) {
			if err := add(tableFile{name: f.Name, attached: true, who: drive.Owner{AccountID: who.AccountID, AgentID: f.ID}}, f.Path); err != nil {
				return nil, false, err
			}
		}
	}
	paths := make([]string, len(list))
	for i, f := range list {
		paths[i] = f.name
	}
	for i, base := range extract.TableBases(paths) {
		list[i].base = base
	}
	return list, more, nil
}

func (w *Worker) askTables(ctx context.Context, who drive.Owner, files []tableFile, q extract.TableQuery) (a extract.TableAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, tableWait)
	defer cancel()
	q.Account, q.Output = who.AccountID, w.textBudget()
	mentioned := extract.Mentions(q.SQL)
	for i := range files {
		f := &files[i]
		if q.SQL != "" && !mentioned(f.base) || q.SQL == "" && !strings.HasPrefix(f.base, q.Prefix) && !strings.HasPrefix(q.Prefix, f.base) {
			continue
		}
		file, content, err := w.cfg.Drives.Open(ctx, f.who, f.path)
		if stoa.CodeOf(err) == stoa.CodeFileNotFound {
			continue // deleted since it was listed
		}
		if err != nil {
			return a, err
		}
		f.sha256 = file.SHA256
		q.Files = append(q.Files, extract.TableFile{Base: f.base, Document: extract.Document{Name: f.name, MediaType: file.MimeType, Encoding: file.TextEncoding, Size: file.Size, Content: content}})
	}
	a, err = w.cfg.Tables.Tables(ctx, q)
	if errors.Is(err, extract.ErrBusy) || errors.Is(err, extract.ErrStopped) || errors.Is(err, context.DeadlineExceeded) {
		err = stoa.Errorf(stoa.CodeInvalidValue, "The reader of tables is busy or was stopped. Try again.").Because(err)
	}
	return a, err
}

// listedTable is a table in the result of table_list.
type listedTable struct {
	extract.Table
	File     string `json:"file"`
	Attached bool   `json:"attached,omitzero"`
}

func (w *Worker) tableList(ctx context.Context, p *prompt, who drive.Owner, prefix string) (any, error) {
	files, more, err := w.tableFiles(ctx, p, who)
	if err != nil {
		return nil, err
	}
	a, err := w.askTables(ctx, who, files, extract.TableQuery{Prefix: strings.ToLower(prefix)})
	if err == nil && a.Error != "" {
		err = stoa.Errorf(stoa.CodeInvalidValue, "%s", a.Error)
	}
	if err != nil {
		return nil, err
	}
	var out struct {
		Tables []listedTable `json:"tables"`
		Notes  []string      `json:"notes,omitzero"`
	}
	out.Notes = a.Notes
	for _, t := range a.Tables {
		f := fileOf(files, t.Base)
		if len(t.Columns) == 0 && len(t.Notes) == 0 {
			t.Notes = []string{"Left out: the list is long. Use prefix."}
		}
		t.Base = ""
		out.Tables = append(out.Tables, listedTable{t, f.name, f.attached})
	}
	switch {
	case more:
		out.Notes = append(out.Notes, fmt.Sprintf("Only the first %d files with tables can be queried.", maxTableFiles))
	case len(files) == 0:
		out.Notes = append(out.Notes, "There are no CSV or XLSX files.")
	}
	return out, nil
}

func fileOf(files []tableFile, base string) (found tableFile) {
	for _, f := range files {
		if f.base == base {
			return f
		}
	}
	return found
}

// tableQuery implements table_query. The rows on which the result rests are recorded as sources.
func (w *Worker) tableQuery(ctx context.Context, p *prompt, who drive.Owner, sql string, out *session.ToolEffect) (any, error) {
	if strings.TrimSpace(sql) == "" {
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "The argument sql is empty; nothing was done.")
	}
	files, _, err := w.tableFiles(ctx, p, who)
	if err != nil {
		return nil, err
	}
	a, err := w.askTables(ctx, who, files, extract.TableQuery{SQL: sql})
	if err != nil {
		return nil, err
	}
	if a.Error != "" {
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "%s\nTables: %s", a.Error, knownTables(files, a.Tables))
	}
	var result struct {
		Columns []string            `json:"columns"`
		Rows    [][]json.RawMessage `json:"rows"`
		Sources []string            `json:"sources,omitzero"`
		Notes   []string            `json:"notes,omitzero"`
	}
	result.Columns, result.Rows, result.Notes = a.Columns, a.Rows, a.Notes
	if result.Rows == nil {
		result.Rows = [][]json.RawMessage{}
	}
	for _, s := range a.Sources {
		f := fileOf(files, s.Base)
		cited := f.name + ", " + s.Place()
		if f.attached {
			result.Sources = append(result.Sources, cited+" (attached)")
			continue
		}
		result.Sources = append(result.Sources, cited)
		source := stoa.Source{Path: f.name, SHA256: f.sha256, Place: s.Place(), Via: "read"}
		// An error is ignored because the place is enough if the text of the file is of another version, or not read yet.
		if first, last, err := w.cfg.Drives.RowLines(ctx, who, f.path, s.Sheet, s.FirstRow, s.LastRow); err == nil {
			source.FromLine, source.ToLine = first, last
		}
		out.Sources = append(out.Sources, source)
	}
	return result, nil
}

// knownTables names the tables for a statement that failed: those that it uses with their columns, and the files of the
// others.
func knownTables(files []tableFile, read []extract.Table) string {
	var parts []string
	shown := map[string]bool{}
	for _, t := range read {
		shown[t.Base] = true
		var columns []string
		for _, c := range t.Columns {
			columns = append(columns, fmt.Sprintf("%q %s", c.Name, c.Type))
		}
		text := t.Name
		if len(columns) > 0 {
			text += " (row_, " + strings.Join(columns, ", ") + ")"
		}
		parts = append(parts, text)
	}
	for _, f := range files {
		if !shown[f.base] {
			parts = append(parts, f.base)
		}
	}
	return session.CutRunes(strings.Join(parts, ", "), maxTableNames)
}
