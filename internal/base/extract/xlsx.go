package extract

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/encoding/htmlindex"
)

const (
	maxGap    = 100    // empty rows that are written as empty lines; more begin a new place
	maxPlaces = 10_000 // maximum of a workbook
)

// readXLSX returns the text of a workbook: a line per row, after a line with the columns and their types.
func (a *archive) readXLSX(main string) Result {
	w, err := a.workbook(main)
	if err != nil || len(w.sheets) == 0 {
		return a.outcome(&flow{}, 0, true, cmp.Or(err, errNoSheets), "XLSX file")
	}
	var f flow
	any, left := false, MaxCells
	var failed error
	for i, s := range w.sheets {
		p := Place{Name: "sheet " + s.name, Page: int64(i + 1)}
		f.place(p)
		f.line("[sheet " + oneLine(s.name) + "]")
		var about summary
		type line struct {
			row   int64
			text  string
			shape []shape
		}
		var lines []line
		size := 0
		err := w.rows(s.part, func(n int64, row []sheetCell) bool {
			filled := len(row) / 100 // empty cells cost little
			for _, c := range row {
				if c.kind != cellEmpty {
					filled++
				}
			}
			if left -= filled; left < 0 || size > MaxText || len(f.places) > maxPlaces {
				f.full = true
				return false
			}
			if text := sheetRow(row); text != "" {
				about.add(n, row)
				shapes := make([]shape, len(row))
				for i, c := range row {
					shapes[i] = (&grid{}).shape(c)
				}
				lines = append(lines, line{n, text, shapes})
				size += len(text)
			}
			return true
		})
		if err != nil {
			failed = err
		}
		full := f.full
		f.full = false
		slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.row, b.row) }) // programs may write them in any order
		shapes := make([]rowShape, len(lines))
		for i, l := range lines {
			shapes[i] = rowShape{l.row, l.shape}
		}
		starts := tableStarts(shapes)
		if len(lines) > 0 {
			any = true
			for _, i := range starts {
				about.tables = append(about.tables, lines[i].row)
			}
			text := about.line(w.from1904)
			if s.hidden {
				text = strings.TrimSuffix(text, "]") + "; a hidden sheet]"
			}
			f.line(text)
		}
		written := int64(0) // the number of the last written row
		for i, l := range lines {
			gap := l.row - written - 1
			far := written == 0 || gap > maxGap || gap < 0
			if !far {
				f.write(strings.Repeat("\n", int(gap)))
			}
			if p.Table = slices.Contains(starts, i); far || p.Table {
				p.Row = l.row
				f.place(p)
			}
			f.line(l.text)
			written = l.row
		}
		f.full = f.full || full
		comments, err := a.sheetComments(s.part)
		if err != nil {
			failed = err
		}
		for i, c := range comments {
			if i == 0 {
				f.place(Place{Name: p.Name + ", comments", Page: p.Page})
			}
			any = true
			f.line("Comment on " + c[0] + ": " + oneLine(c[1]))
		}
		f.line("")
	}
	r := a.outcome(&f, int64(len(w.sheets)), !any, failed, "XLSX file")
	if w.unstored > 0 {
		what := "1 formula has no stored result and is"
		if w.unstored > 1 {
			what = fmt.Sprintf("%d formulas have no stored results and are", w.unstored)
		}
		r.Note = strings.TrimSpace(r.Note + " " + what + " shown as written.")
	}
	return r
}

var errNoSheets = errors.New("the workbook has no sheets")

// sheetRow returns a row as a line without its empty end; "" for an empty row.
func sheetRow(row []sheetCell) string {
	var b strings.Builder
	waiting := 0 // separators of empty cells
	for i, c := range row {
		if i > 0 {
			waiting++
		}
		if text := oneLine(c.shown); text != "" {
			b.WriteString(strings.Repeat(" | ", waiting))
			b.WriteString(text)
			waiting = 0
		}
	}
	return b.String()
}

type summary struct {
	first, last int64
	kinds       [][cellKinds]int // by column
	tables      []int64          // their first rows
}

func (s *summary) add(n int64, row []sheetCell) {
	if s.first == 0 {
		s.first = n
	}
	s.last = n
	for len(s.kinds) < len(row) {
		s.kinds = append(s.kinds, [cellKinds]int{})
	}
	for i, c := range row {
		s.kinds[i][c.kind]++
	}
}

// maxTyped is the number of groups of columns whose types are named.
const maxTyped = 40

// line returns the summary. The type of a column is that of most cells.
func (s *summary) line(from1904 bool) string {
	kind := func(i int) cellKind {
		best := cellEmpty
		for k := cellText; k < cellKinds; k++ {
			if n := s.kinds[i][k]; n > 0 && (best == cellEmpty || n > s.kinds[i][best] || n == s.kinds[i][best] && best == cellText) {
				best = k
			}
		}
		return best
	}
	var groups []string
	dates := false
	for i := 0; i < len(s.kinds); {
		k, to := kind(i), i
		for to+1 < len(s.kinds) && kind(to+1) == k {
			to++
		}
		dates = dates || k == cellDate
		if k != cellEmpty {
			name := columnName(i)
			if to > i {
				name += "–" + columnName(to)
			}
			groups = append(groups, name+" "+cellNames[k])
		}
		i = to + 1
	}
	if len(groups) > maxTyped {
		groups = append(groups[:maxTyped], "…")
	}
	rows := fmt.Sprintf("rows %d to %d", s.first, s.last)
	if s.first == s.last {
		rows = fmt.Sprintf("row %d", s.first)
	}
	text := "[" + rows + "; columns: " + strings.Join(groups, ", ")
	if n := len(s.tables); n > 1 {
		text += fmt.Sprintf("; %d tables, from the rows %d", n, s.tables[0])
		for _, row := range s.tables[1:min(n, maxTyped)] {
			text += fmt.Sprintf(", %d", row)
		}
	}
	if from1904 && dates {
		text += "; the dates of this workbook count from 1904"
	}
	return text + "]"
}

// columnName returns the letters of a column, from 0.
func columnName(i int) (name string) {
	for i++; i > 0; i = (i - 1) / 26 {
		name = string(rune('A'+(i-1)%26)) + name
	}
	return name
}

type workbook struct {
	a        *archive
	sheets   []sheet
	texts    []string       // texts that cells refer to
	formats  []numberFormat // by the style of a cell; nil without one
	from1904 bool
	unstored int // formulas without a stored result
}

type sheet struct {
	name, part string
	hidden     bool
}

// A sheetCell is a cell as a person sees it.
type sheetCell struct {
	shown string
	kind  cellKind
	value float64 // of a number or a date
	hours bool    // the date is a duration, such as 36:30
}

type cellKind int

const (
	cellEmpty cellKind = iota
	cellText
	cellNumber
	cellDate
	cellLogical
	cellKinds
)

var cellNames = [...]string{"empty", "text", "numbers", "dates", "true or false"}

// workbook reads what the sheets have in common.
func (a *archive) workbook(main string) (*workbook, error) {
	w := &workbook{a: a}
	target, texts, styles := map[string]string{}, "", ""
	for _, r := range a.relations(main) {
		switch {
		case strings.HasSuffix(r.kind, "/worksheet"):
			target[r.id] = r.target
		case strings.HasSuffix(r.kind, "/sharedStrings"):
			texts = r.target
		case strings.HasSuffix(r.kind, "/styles"):
			styles = r.target
		}
	}
	err := a.walk(main, func(t xml.Token, _ []string) error {
		e, ok := t.(xml.StartElement)
		switch {
		case ok && e.Name.Local == "workbookPr":
			w.from1904 = isTrue(attr(e, "date1904"))
		case ok && e.Name.Local == "sheet" && len(w.sheets) < MaxPages:
			for _, at := range e.Attr {
				if at.Name.Local == "id" && at.Name.Space != "" {
					w.sheets = append(w.sheets, sheet{attr(e, "name"), target[at.Value], strings.HasSuffix(strings.ToLower(attr(e, "state")), "hidden")})
				}
			}
		}
		return nil
	})
	if err == nil && a.files[texts] != nil {
		err = a.richTexts(texts, "si", func(xml.StartElement) { w.texts = append(w.texts, "") }, func(part string) { w.texts[len(w.texts)-1] += part })
	}
	if err == nil && a.files[styles] != nil {
		err = w.readStyles(styles)
	}
	return w, err
}

// richTexts calls begin at each element with a name, and add with the parts of the texts in it.
func (a *archive) richTexts(part, element string, begin func(xml.StartElement), add func(text string)) error {
	begun := false
	return a.walk(part, func(t xml.Token, within []string) error {
		switch t := t.(type) {
		case xml.StartElement:
			if t.Name.Local == element {
				begin(t)
				begun = true
			}
		case xml.CharData:
			if n := len(within); n > 2 && within[n-1] == "t" && within[n-2] != "rPh" && begun { // rPh is the reading of a Japanese word
				add(string(t))
			}
		}
		return nil
	})
}

func isTrue(s string) bool { return s == "1" || s == "true" }

// walk calls do with the tokens of a part, and with the names of the elements around each, its own included.
func (a *archive) walk(part string, do func(t xml.Token, within []string) error) error {
	r, err := a.open(part)
	if err != nil {
		return err
	}
	return walkTokens(r, do)
}

func walkTokens(r io.Reader, do func(t xml.Token, within []string) error) error {
	x := xml.NewDecoder(r)
	x.CharsetReader = func(label string, r io.Reader) (io.Reader, error) {
		e, err := htmlindex.Get(label)
		if err != nil {
			return nil, err
		}
		return e.NewDecoder().Reader(r), nil
	}
	var within []string
	for {
		t, err := x.Token()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if e, ok := t.(xml.StartElement); ok {
			if within = append(within, e.Name.Local); len(within) > maxDepth {
				return errors.New("elements are nested too deeply")
			}
		}
		if err := do(t, within); err != nil {
			return err
		}
		if _, ok := t.(xml.EndElement); ok {
			within = within[:len(within)-1]
		}
	}
}

// builtinFormats are the format codes that a workbook does not list. Those that a program shows as its reader's
// country does are written as ISO 8601 has them.
var builtinFormats = map[int]string{
	1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: `"$"#,##0_);\("$"#,##0\)`, 6: `"$"#,##0_);\("$"#,##0\)`, 7: `"$"#,##0.00_);\("$"#,##0.00\)`,
	8: `"$"#,##0.00_);\("$"#,##0.00\)`, 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy",
	18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0_);(#,##0)", 38: "#,##0_);(#,##0)", 39: "#,##0.00_);(#,##0.00)",
	40: "#,##0.00_);(#,##0.00)", 41: `_(* #,##0_);_(* \(#,##0\);_(* "-"_);_(@_)`, 42: `_("$"* #,##0_);_("$"* \(#,##0\);_("$"* "-"_);_(@_)`,
	43: `_(* #,##0.00_);_(* \(#,##0.00\);_(* "-"??_);_(@_)`, 44: `_("$"* #,##0.00_);_("$"* \(#,##0.00\);_("$"* "-"??_);_(@_)`,
	45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@",
}

// builtinFormat returns the code of a number that a workbook does not list.
func builtinFormat(id int) string {
	if id >= 27 && id <= 36 || id >= 50 && id <= 58 { // dates of East Asian editions
		return "yyyy-mm-dd"
	}
	return builtinFormats[id]
}

func (w *workbook) readStyles(part string) error {
	codes, parsed := map[int]string{}, map[string]numberFormat{}
	return w.a.walk(part, func(t xml.Token, within []string) error {
		e, ok := t.(xml.StartElement)
		if !ok {
			return nil
		}
		id, _ := strconv.Atoi(attr(e, "numFmtId"))
		switch {
		case e.Name.Local == "numFmt":
			codes[id] = attr(e, "formatCode")
		case e.Name.Local == "xf" && len(within) > 1 && within[len(within)-2] == "cellXfs":
			code := cmp.Or(codes[id], builtinFormat(id))
			if _, ok := parsed[code]; !ok && code != "" {
				parsed[code] = parseFormat(code)
			}
			w.formats = append(w.formats, parsed[code])
		}
		return nil
	})
}

// sheetComments returns the comments of a sheet, each with its cell.
func (a *archive) sheetComments(part string) (list [][2]string, err error) {
	for _, r := range a.relations(part) {
		if !strings.HasSuffix(r.kind, "/comments") || a.files[r.target] == nil {
			continue
		}
		err = a.richTexts(r.target, "comment", func(e xml.StartElement) { list = append(list, [2]string{attr(e, "ref")}) }, func(part string) { list[len(list)-1][1] += part })
	}
	return list, err
}
