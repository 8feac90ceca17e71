package extract

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxTableCells   = 2_000_000 // in all tables of one query, because they are in memory
	maxTableColumns = 1000
	maxTableCell    = 64 << 10 // bytes of a text
	maxColumnName   = 80       // bytes
	headSample      = 100      // rows that decide how wide a table is
	headBelow       = 5        // rows below a head that are compared with it
)

var errTooManyCells = errors.New("too many cells")

// A grid contains the rows of a sheet, or of a file whose values a character separates.
type grid struct {
	rows      []gridRow
	texts     bool // all cells are texts: their contents decide the types
	delimiter byte // separator of the values of such a file
	from1904  bool
	notes     []string

	head  int // rows up to the head of the table, which is the last one or two of them
	lines int // rows of the head
}

type gridRow struct {
	n     int64 // in the sheet, or of the file, in which empty lines are rows
	line  int64 // of the file
	cells []sheetCell
}

// add adds a row unless it is empty. left is the number of cells that may still be loaded.
func (g *grid) add(n, line int64, cells []sheetCell, left *int) error {
	filled := false
	for i := range cells {
		c := &cells[i]
		if c.kind == cellText {
			c.shown = strings.TrimSpace(c.shown)
			if len(c.shown) > maxTableCell {
				c.shown = cutText(c.shown, maxTableCell)
				g.notes = append(g.notes, fmt.Sprintf("A text in row %d is cut.", n))
			}
			if c.shown == "" {
				*c = sheetCell{}
			}
		}
		filled = filled || c.kind != cellEmpty
	}
	if !filled {
		return nil
	}
	if *left -= len(cells); *left < 0 {
		return errTooManyCells
	}
	g.rows = append(g.rows, gridRow{n, line, cells})
	return nil
}

func (g *grid) data() []gridRow { return g.rows[g.head:] }

func (g *grid) cell(row, column int) sheetCell {
	if row >= len(g.rows) || column >= len(g.rows[row].cells) {
		return sheetCell{}
	}
	return g.rows[row].cells[column]
}

func (g *grid) typed(c sheetCell) bool {
	if c.kind != cellText {
		return c.kind != cellEmpty
	}
	if !g.texts {
		return false
	}
	orders, _, _ := momentOf(c.shown)
	return orders != 0 || numeralOf(c.shown).styles != 0 || strings.EqualFold(c.shown, "true") || strings.EqualFold(c.shown, "false")
}

// period reports whether a cell is a year or a date, which can be the name of a column.
func (g *grid) period(c sheetCell) bool {
	if !g.texts && c.kind == cellNumber && len(c.shown) != len("2026") {
		return false
	}
	if orders, _, _ := momentOf(c.shown); c.kind == cellDate || orders != 0 {
		return true
	}
	year, err := strconv.Atoi(c.shown)
	return err == nil && year >= 1900 && year <= 2100
}

// isHead reports whether all cells of a row can be names of columns, and how many of them are filled. At least one is a
// text. A year or a date is a name only if the cells below it are something else.
func (g *grid) isHead(row int) (ok bool, filled int) {
	text := false
	ok = true
	for j, c := range g.rows[row].cells {
		switch {
		case c.kind == cellEmpty:
			continue
		case !g.typed(c):
			text = true
		case !g.period(c):
			ok = false
		default:
			for below := row + 1; below <= row+headBelow; below++ {
				ok = ok && !g.period(g.cell(below, j))
			}
		}
		filled++
	}
	return ok && text, filled
}

// findHead finds the names of the columns: the first row that is as wide as most rows, if it contains only names. Rows
// above it are titles. A second row belongs to it if the first names several columns together.
func (g *grid) findHead() {
	n := min(len(g.rows), headSample)
	if n == 0 {
		return
	}
	names, filled := make([]bool, n), make([]int, n)
	for i := range n {
		names[i], filled[i] = g.isHead(i)
	}
	widths := slices.Sorted(slices.Values(filled))
	least, widest := 1, widths[n-1]
	if widest > 1 {
		least = max(2, (widths[n/2]+1)/2)
	}
	for i := range n {
		if filled[i] < least {
			continue
		}
		if !names[i] {
			g.head = i // no names
			if i > 0 && filled[i] < widest {
				g.head = 0
			}
			return
		}
		g.head, g.lines = i+1, 1
		if g.isSecond(i) {
			g.head, g.lines = i+2, 2
		}
		return
	}
}

// isSecond reports whether the row after a head belongs to it: the head has a name for several columns, which the row
// tells apart, and the columns have types.
func (g *grid) isSecond(head int) bool {
	if head+2 >= len(g.rows) {
		return false
	}
	several, told := false, false
	for j, c := range g.rows[head+1].cells {
		first := g.cell(head, j)
		if c.kind == cellEmpty {
			continue
		}
		if g.typed(c) {
			return false
		}
		several = several || j > 0 && (first.kind == cellEmpty || first.shown == g.cell(head, j-1).shown)
		for below := head + 2; below < head+2+headBelow; below++ {
			told = told || g.typed(g.cell(below, j))
		}
	}
	return several && told
}

func (g *grid) names() []string {
	width := 0
	for _, r := range g.rows[g.head-g.lines:] {
		width = max(width, len(r.cells))
	}
	if width > maxTableColumns {
		g.notes = append(g.notes, fmt.Sprintf("Only the first %d of %d columns are loaded.", maxTableColumns, width))
		width = maxTableColumns
	}
	names := make([]string, width)
	before := ""
	for j := range names {
		if g.lines == 0 {
			break
		}
		name := g.cell(g.head-g.lines, j).shown
		if g.lines == 2 {
			below := g.cell(g.head-1, j).shown
			if name == "" && below != "" {
				name = before
			}
			before = name
			if below != name {
				name += " " + below
			}
		}
		names[j] = cutText(strings.ReplaceAll(oneLine(name), `"`, "'"), maxColumnName)
	}
	return names
}

// unique names columns without a name by their letters. It makes names differ also in case, because SQL ignores it.
func unique(list []tableColumn) {
	used := map[string]bool{"row_": true}
	for i := range list {
		c := &list[i]
		if c.name == "" {
			c.name = "column " + columnName(c.at)
		}
		base := c.name
		for n := 2; used[strings.ToLower(c.name)]; n++ {
			c.name = base + "_" + strconv.Itoa(n)
		}
		used[strings.ToLower(c.name)] = true
	}
}

func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func (w *workbook) grid(s sheet, left *int) (*grid, error) {
	g := &grid{from1904: w.from1904}
	unstored := w.unstored
	var full error
	err := w.rows(s.part, func(n int64, row []sheetCell) bool {
		full = g.add(n, 0, slices.Clone(row), left)
		return full == nil
	})
	if err = errors.Join(err, full); err != nil {
		return nil, err
	}
	if n := w.unstored - unstored; n > 0 {
		g.notes = append(g.notes, fmt.Sprintf("%d formulas have no stored results and are texts.", n))
	}
	return g, nil
}

func readValues(text string, left *int) (*grid, error) {
	skip := int64(0)
	delimiter, declared := delimiterOf(text)
	if declared {
		_, text, _ = strings.Cut(text, "\n")
		skip = 1
	}
	read := func(lazy bool, left *int) (*grid, error) {
		g := &grid{texts: true, delimiter: delimiter}
		r := csv.NewReader(strings.NewReader(text))
		r.Comma, r.FieldsPerRecord, r.LazyQuotes, r.ReuseRecord = rune(delimiter), -1, lazy, true
		for n := skip + 1; ; n++ {
			for at := int(r.InputOffset()); at < len(text); at++ { // the reader skips empty lines
				if text[at] == '\n' {
					n++
				} else if text[at] != '\r' || at+1 == len(text) || text[at+1] != '\n' {
					break
				}
			}
			record, err := r.Read()
			if err == io.EOF {
				return g, nil
			}
			if err != nil {
				return nil, err
			}
			cells := make([]sheetCell, len(record))
			for i, field := range record {
				cells[i] = sheetCell{shown: field, kind: cellText}
			}
			line, _ := r.FieldPos(0)
			if err := g.add(n, int64(line)+skip, cells, left); err != nil {
				return nil, err
			}
		}
	}
	before := *left
	g, err := read(false, left)
	var wrong *csv.ParseError
	if errors.As(err, &wrong) {
		*left = before
		if g, err = read(true, left); err == nil {
			g.notes = append(g.notes, fmt.Sprintf("The quotes of line %d are not closed as CSV requires: compare the rows from there on with the file.", int64(wrong.Line)+skip))
		}
	}
	return g, err
}

// delimiters are the characters that may separate values. Of those that fit equally, the first is used; the comma is last
// because it may be that of decimals.
const delimiters = "\t;|,"

// delimiterOf finds the character that separates the values of a text: the one that its first line declares, as Excel
// writes it, or that most rows have equally often.
func delimiterOf(text string) (delimiter byte, declared bool) {
	if first, _, ok := strings.Cut(text, "\n"); ok && len(first) >= 5 && strings.EqualFold(first[:4], "sep=") && len(strings.TrimRight(first, "\r")) == 5 {
		return first[4], true
	}
	var counts [len(delimiters)]map[int]int
	for i := range counts {
		counts[i] = map[int]int{}
	}
	var row [len(delimiters)]int
	rows, quoted, empty := 0, false, true
	end := func() {
		if !empty {
			rows++
			for i, n := range row {
				if n > 0 && (len(counts[i]) < 1000 || counts[i][n] > 0) {
					counts[i][n]++
				}
			}
		}
		row, empty = [len(delimiters)]int{}, true
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"':
			quoted, empty = !quoted, false
		case quoted:
		case c == '\n':
			end()
		default:
			if k := bytes.IndexByte([]byte(delimiters), c); k >= 0 {
				row[k]++
			}
			empty = empty && (c == ' ' || c == '\r')
		}
	}
	end()
	var shares [len(delimiters)]int
	best := 0
	for i := range counts {
		for _, n := range counts[i] {
			shares[i] = max(shares[i], n)
		}
		best = max(best, shares[i])
	}
	if best == 0 {
		return ',', false
	}
	for i, n := range shares {
		if n*20 >= best*19 {
			return delimiters[i], false
		}
	}
	return ',', false
}

// delimiterSample is the size of the beginning of a text that decides which character separates its values, in bytes.
const delimiterSample = 64 << 10

// RecordLines returns the first and the last line of some rows of a file of values, and the number of its rows up to the
// last of them; to 0 means up to the last. It reads quotes, since a cell in quotes may contain line ends.
func RecordLines(r io.Reader, from, to int64) (first, last, rows int64, err error) {
	in := bufio.NewReaderSize(r, delimiterSample)
	head, err := in.Peek(delimiterSample)
	if err != nil && err != io.EOF {
		return 0, 0, 0, err
	}
	delimiter, declared := delimiterOf(string(head))
	line, within, open := int64(0), false, false // the line is not at its beginning
	begin := true                                // of a value
	end := func() {
		line++
		if open = false; within {
			return
		}
		if rows++; rows >= from {
			last = line
		}
		begin = true
	}
	for to == 0 || rows < to {
		c, err := in.ReadByte()
		if err == io.EOF {
			if open || within {
				within = false
				end()
			}
			break
		} else if err != nil {
			return 0, 0, 0, err
		}
		if first == 0 && rows+1 >= from {
			first = line + 1
		}
		if c == '\n' {
			end()
			continue
		}
		open = true
		switch {
		case within && c == '"':
			next, _ := in.Peek(2)
			if len(next) > 0 && next[0] == '"' {
				_, _ = in.Discard(1)
			} else {
				within = len(next) > 0 && next[0] != delimiter && next[0] != '\n' && (next[0] != '\r' || len(next) > 1 && next[1] != '\n')
			}
		case within:
		case declared && rows == 0:
			begin = false
		default:
			within = begin && c == '"'
			begin = c == delimiter
		}
	}
	return first, last, rows, nil
}
