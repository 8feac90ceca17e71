package drive

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"stoa/internal/base/db"
	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
)

// Maximum sizes in bytes of texts that a document determines. They go into prompts and replies, so
// a document must not be able to fill those.
const (
	maxHeader = 400 // the head of a table that a hit repeats
	maxPlace  = 280 // the name of a place
	maxNote   = 900 // a note on a text
)

// places lists the beginnings of pages, slides or sheets in the order of the text.
type places []extract.Place

func placesOf(ctx context.Context, tx *db.Tx, drive int64, f File) (list places, err error) {
	if f.textBlob == 0 || f.textBlob == f.blob {
		return nil, nil
	}
	var text string
	if _, err := tx.Get(ctx, `SELECT places FROM drive_texts WHERE drive_id = $1 AND blob_id = $2 AND text_blob_id = $3`,
		[]any{drive, f.blob, f.textBlob}, &text); err != nil || text == "" {
		return nil, err
	}
	return list, json.Unmarshal([]byte(text), &list)
}

// at returns the place that contains a line; nil if the line precedes all places.
func (p places) at(line int64) *extract.Place {
	i := sort.Search(len(p), func(i int) bool { return p[i].Line > line })
	if i == 0 {
		return nil
	}
	return &p[i-1]
}

// of returns the place of some lines, such as "p. 12–13", or "" if they precede all places.
func (p places) of(first, last int64) string {
	from, to := p.at(first), p.at(last)
	switch {
	case to == nil:
		return ""
	case from == nil:
		from = &p[0]
	}
	if from.Row == 0 && to.Row > 0 && from.Name == to.Name { // the line with the name of a sheet
		from = p.firstRow(from.Name)
	}
	name := from.Name
	if to.Name != name {
		unit := 1 + strings.LastIndexByte(name, ' ')
		if unit > 0 && strings.HasPrefix(to.Name, name[:unit]) && from.Row == 0 && to.Row == 0 {
			return name + "–" + to.Name[unit:]
		}
		return named(from, first) + " – " + named(to, last)
	}
	if from.Row == 0 {
		return name
	}
	if a, b := rowOf(from, first), rowOf(to, last); a != b {
		return fmt.Sprintf("%s, rows %d–%d", name, a, b)
	}
	return named(from, first)
}

func (p places) firstRow(sheet string) *extract.Place {
	return &p[slices.IndexFunc(p, func(at extract.Place) bool { return at.Name == sheet && at.Row > 0 })]
}

// table returns the beginning of the table that contains a line, or the first row of its sheet.
func (p places) table(line int64) *extract.Place {
	at := p.at(line)
	for i := len(p) - 1; i >= 0; i-- {
		if p[i].Line <= line && p[i].Name == at.Name && p[i].Table {
			return &p[i]
		}
	}
	return p.firstRow(at.Name)
}

// named returns the name of the place of a line, with the row of a sheet.
func named(p *extract.Place, line int64) string {
	if p.Row == 0 {
		return p.Name
	}
	return fmt.Sprintf("%s, row %d", p.Name, rowOf(p, line))
}

func rowOf(p *extract.Place, line int64) int64 { return p.Row + max(0, line-p.Line) }

// maxHeadRows is the maximum number of rows that are searched for the names of the columns: more than
// one, because a title may precede them.
const maxHeadRows = 10

// heads returns the names of the columns of the table that contains a line, if they precede the
// line; a head of two rows contains a line end. It is empty for other texts. Without the names, a
// row from the middle of a table says nothing to the model.
func heads(ctx context.Context, tx *db.Tx, drive int64, f File, p places, line int64) (string, error) {
	lines := func(first, last int64) ([]string, error) {
		if first > last {
			return nil, nil
		}
		text, err := linesOf(ctx, tx, drive, f, first, last, 0)
		return strings.Split(strings.TrimSuffix(text.Text, "\n"), "\n"), err
	}
	mime, _, _ := strings.Cut(f.MimeType, ";")
	ending := strings.ToLower(path.Ext(f.Path))
	at := p.at(line)
	switch {
	case at != nil && at.Row > 0:
		for _, first := range []int64{at.Line, p.table(line).Line} { // many empty rows may divide a table
			rows, err := lines(first, min(line, first+maxHeadRows)-1)
			if head := headOf(rows, " | "); head != "" || err != nil {
				return head, err
			}
		}
		return "", nil
	case mime == "text/csv", mime == "text/tab-separated-values", ending == ".csv", ending == ".tsv":
		from := max(1, line-maxTableRows)
		rows, err := lines(from, line+maxHeadRows)
		if err != nil {
			return "", err
		}
		if from > 1 { // another table begins after an empty row
			above := rows[:min(len(rows), maxTableRows)]
			empty := slices.IndexFunc(above, func(row string) bool { return strings.Trim(row, ",;\t| \r") == "" })
			if empty < 0 {
				empty = len(rows) - 1
			}
			rows, from = rows[empty+1:], from+int64(empty)+1
		}
		switch first, last := extract.HeadOf(strings.Join(rows, "\n"), line-from+1); {
		case first > 0 && from+last-1 < line:
			return strings.Join(rows[first-1:last], "\n"), nil
		case first > 0 || from == 1:
			return "", nil
		}
		rows, err = lines(1, maxHeadRows)
		first, last := extract.HeadOf(strings.Join(rows, "\n"), int64(len(rows)))
		return strings.Join(rows[max(1, first)-1:last], "\n"), err
	case f.textBlob == f.blob && ending != ".md" || line == 1:
		return "", nil
	}
	rows, err := lines(line, line) // a table of a document or of Markdown; most lines are in none
	if err != nil || !strings.HasPrefix(rows[0], "| ") {
		return "", err
	}
	first := max(1, line-maxTableRows)
	if rows, err = lines(first, line-1); err != nil || int64(len(rows)) < line-first { // too long to be read at once
		return "", err
	}
	begin := len(rows)
	for begin > 0 && strings.HasPrefix(rows[begin-1], "|") {
		begin--
	}
	return headOf(rows[begin:], "|"), nil
}

// maxTableRows is the maximum number of lines before a hit that are searched for the beginning of its
// table, so that a hit at the end of a long table does not read all of it.
const maxTableRows = 500

// headOf returns the first row with at least two cells, since a title may precede it, and without
// numbers except years. If a name stands for several columns, it also returns the next row. It returns ""
// if no row is such a head.
func headOf(rows []string, separator string) string {
	for i, row := range rows {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(row, "|"), "|"), separator)
		filled, several, number := 0, false, false
		for j, c := range cells {
			if cells[j] = strings.TrimSpace(c); cells[j] != "" {
				filled++
			}
			v, err := strconv.ParseFloat(strings.ReplaceAll(cells[j], ",", ""), 64)
			number = number || err == nil && (v != math.Trunc(v) || v < 1900 || v > 2100)
			several = several || j > 0 && (cells[j] == "" || cells[j] == cells[j-1])
		}
		if filled < 2 || number {
			continue
		}
		if several && i+1 < len(rows) {
			row += "\n" + rows[i+1]
		}
		return row
	}
	return ""
}

func (s *searcher) locate(hits []Hit) error {
	type source struct {
		file   *File
		places places
	}
	sources := map[string]*source{}
	for i := range hits {
		h := &hits[i]
		src := sources[h.Path]
		if src == nil {
			src = &source{}
			var err error
			if src.file, err = fileAt(s.ctx, s.tx, s.drive.id, h.Path); err != nil || src.file == nil {
				return err
			}
			if src.places, err = placesOf(s.ctx, s.tx, s.drive.id, *src.file); err != nil {
				return err
			}
			sources[h.Path] = src
		}
		if err := s.beginning(h, *src.file); err != nil {
			return err
		}
		h.Place = short(src.places.of(h.FirstLine, h.LastLine), maxPlace)
		head, err := heads(s.ctx, s.tx, s.drive.id, *src.file, src.places, h.FirstLine)
		if err != nil {
			return err
		}
		h.Header = short(head, maxHeader)
	}
	return nil
}

// beginning sets FromByte of a hit that begins within a line, because the passage before it ends
// in the same line.
func (s *searcher) beginning(h *Hit, f File) error {
	var last int64
	found, err := s.tx.Get(s.ctx, `SELECT last_line FROM drive_passages WHERE drive_id = $1 AND file_rid = $2 AND id < $3 ORDER BY id DESC LIMIT 1`,
		[]any{s.drive.id, f.rid, h.passage}, &last)
	if err != nil || !found || last < h.FirstLine {
		return err
	}
	text, line, err := before(s.ctx, s.tx, s.drive.id, f, h.FirstLine)
	if err != nil {
		return err
	}
	start, err := lineStart(text, h.FirstLine-line)
	h.FromByte = h.start - start
	return err
}

// short returns the beginning of a line, without its line break, in at most n bytes before an
// ellipsis.
func short(line string, n int) string {
	line = strings.TrimRight(line, "\r\n")
	if len(line) <= n {
		return line
	}
	for !utf8.RuneStart(line[n]) {
		n--
	}
	return line[:n] + "…"
}

// PageLines returns the first and the last line of a page, slide or sheet of a document, from 1;
// 0 if it has no text. A page that the document does not have is [stoa.CodeInvalidValue].
func (d *Drives) PageLines(ctx context.Context, who Owner, p Path, page int64) (first, last int64, err error) {
	err = d.db.Read(ctx, func(tx *db.Tx) error {
		row, f, err := fileOf(ctx, tx, who, p)
		switch {
		case err != nil:
			return err
		case f.Pages == 0:
			return stoa.Errorf(stoa.CodeInvalidValue, "The file %q has no pages. Leave page out; use fromLine and toLine for a part of its %d lines.", p.text, f.Lines).At("page")
		case page < 1 || page > f.Pages:
			return noPage(*f, page)
		}
		list, err := placesOf(ctx, tx, row.id, *f)
		if err != nil {
			return err
		}
		first, last = 0, 0
		for i, at := range list {
			if at.Page != page {
				continue
			}
			if first == 0 {
				first = at.Line
			}
			if last = f.Lines; i+1 < len(list) {
				last = list[i+1].Line - 1
			}
		}
		if first == 0 {
			return nil
		}
		// The text of a page without text is only the line that names the page.
		text, err := linesOf(ctx, tx, row.id, *f, first, last, 0)
		if strings.TrimSpace(strings.TrimPrefix(text.Text, fmt.Sprintf("[page %d]", page))) == "" {
			first, last = 0, 0
		}
		return err
	})
	return first, last, err
}

// RowLines returns the lines of some rows of a sheet, or of a file of comma- or tab-separated values; to 0 means up to the
// last. sheet is the name of a sheet; empty means the first. A missing sheet or row is [stoa.CodeInvalidValue].
func (d *Drives) RowLines(ctx context.Context, who Owner, p Path, sheet string, from, to int64) (first, last int64, err error) {
	err = d.db.Read(ctx, func(tx *db.Tx) error {
		row, f, err := fileOf(ctx, tx, who, p)
		if err != nil {
			return err
		}
		list, err := placesOf(ctx, tx, row.id, *f)
		if err != nil {
			return err
		}
		var names []string
		var begin, end int64 // the rows of the sheet
		first, last = 0, 0
		for i, at := range list {
			name, ok := strings.CutPrefix(at.Name, "sheet ")
			if !ok || at.Row == 0 {
				continue
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			if name != cmp.Or(sheet, names[0]) {
				continue
			}
			until := f.Lines // the last line of these rows
			if i+1 < len(list) {
				until = list[i+1].Line - 1
			}
			begin, end = cmp.Or(begin, at.Row), rowOf(&at, until)
			begins, ends := max(at.Line, at.Line+from-at.Row), until
			if to > 0 {
				ends = min(until, at.Line+to-at.Row)
			}
			if begins > ends {
				continue
			}
			if first == 0 {
				first = begins
			}
			last = ends
		}
		switch ending := strings.ToLower(path.Ext(p.text)); {
		case len(names) == 0 && (ending == ".csv" || ending == ".tsv"):
			text := &pieces{size: f.textBytes(), fetch: func(n int64) ([]byte, error) { return fetchPiece(ctx, tx, row.id, f.textBlob, n) }}
			begin = 1
			if first, last, end, err = extract.RecordLines(text, max(1, from), to); err != nil {
				return err
			}
		case len(names) == 0:
			return stoa.Errorf(stoa.CodeInvalidValue, "The file %q has no sheets, and only spreadsheets and CSV files have rows. Use fromLine and toLine; it has %d lines.", p.text, f.Lines).At("fromRow")
		case sheet != "" && !slices.Contains(names, sheet):
			return stoa.Errorf(stoa.CodeInvalidValue, "The file %q has no sheet %q with rows. Its sheets are %s.", p.text, short(sheet, maxPlace), short(fmt.Sprintf("%q", names), maxNote)).At("sheet")
		}
		switch {
		case to > 0 && from > to:
			return stoa.Errorf(stoa.CodeInvalidValue, "Row %d is after row %d. Use a toRow that is not less than fromRow.", from, to).At("toRow")
		case first == 0 || first > last:
			what := "The file has"
			if len(names) > 0 {
				what = fmt.Sprintf("The sheet %q has", short(cmp.Or(sheet, names[0]), maxPlace))
			}
			asked := fmt.Sprintf("no row %d", max(1, from))
			if to > from && from <= end {
				asked = fmt.Sprintf("none from %d to %d", max(1, from), to)
			}
			return stoa.Errorf(stoa.CodeInvalidValue, "%s the rows %d to %d, and %s.", what, begin, end, asked).At("fromRow")
		}
		return nil
	})
	return first, last, err
}
