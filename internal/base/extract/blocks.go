package extract

import "slices"

// A shape is what a cell can be in a table.
type shape byte

const (
	shapeEmpty  shape = iota
	shapeText         // which can be the name of a column
	shapeBlank        // a mark of a missing value
	shapePeriod       // a year or a date, which can be the name of a column, too
	shapeValue        // a number or a logical value
)

func (s shape) typed() bool { return s >= shapePeriod }

type rowShape struct {
	n     int64
	cells []shape
}

func (r rowShape) filled() (n int) {
	for _, c := range r.cells {
		if c != shapeEmpty {
			n++
		}
	}
	return n
}

func (r rowShape) at(column int) shape {
	if column >= len(r.cells) {
		return shapeEmpty
	}
	return r.cells[column]
}

const maxSheetTables = 100

// tableStarts returns the rows, by their index, at which the tables of a sheet begin; the first is 0. Empty rows and a head
// separate tables: a group of rows without names for its columns belongs to the table before. Titles before a head belong
// to its table.
func tableStarts(rows []rowShape) []int {
	starts, waiting := []int{0}, -1
	for i := 1; i < len(rows) && len(starts) < maxSheetTables; i++ {
		if rows[i].n <= rows[i-1].n+1 {
			continue
		}
		end := i + 1
		for end < len(rows) && end < i+headSample && rows[end].n == rows[end-1].n+1 {
			end++
		}
		from, title := i, i
		if waiting >= 0 {
			from = waiting
		}
		for title < end && rows[title].filled() == 1 {
			title++
		}
		if waiting = from; title == end { // only titles or notes
			continue
		}
		before := rows[max(starts[len(starts)-1], from-headSample):from]
		if beginsTable(before, rows[title:end]) {
			starts = append(starts, from)
		}
		waiting = -1
	}
	return starts
}

// hasHead reports whether the first row can contain the names of columns of the others.
func hasHead(rows []rowShape) bool {
	if len(rows) < 2 || rows[0].filled() < 2 {
		return false
	}
	names, widest := 0, 0
	for j, c := range rows[0].cells {
		switch c {
		case shapeText:
			names++
		case shapeBlank, shapeValue:
			return false
		case shapePeriod:
			if slices.Contains(column(rows[1:], j), shapePeriod) {
				return false
			}
		}
	}
	for _, r := range rows[1:min(len(rows), 1+headBelow)] {
		widest = max(widest, r.filled())
	}
	return names > 0 && 2*rows[0].filled() >= widest
}

func column(rows []rowShape, at int) (list []shape) {
	for _, r := range rows[:min(len(rows), headBelow)] {
		if c := r.at(at); c != shapeEmpty && c != shapeBlank {
			list = append(list, c)
		}
	}
	return list
}

func named(rows []rowShape) bool {
	years := 0
	for j, c := range rows[0].cells {
		switch below := column(rows[1:], j); {
		case c == shapeText && slices.ContainsFunc(below, shape.typed):
			return true
		case c == shapePeriod && slices.Contains(below, shapeValue):
			years++
		}
	}
	return years > 1
}

func withoutTitles(rows []rowShape) []rowShape {
	for len(rows) > 0 && rows[0].filled() == 1 {
		rows = rows[1:]
	}
	return rows
}

// beginsTable reports whether rows are a table, and not more rows of the one before.
func beginsTable(before, rows []rowShape) bool {
	if before = withoutTitles(before); len(before) == 0 || !hasHead(rows) {
		return false
	}
	if named(rows) {
		return true
	}
	for j, c := range rows[0].cells {
		if c != shapeText || len(column(rows[1:], j)) == 0 {
			continue
		}
		above := column(before[max(1, len(before)-headBelow):], j)
		if len(above) > 0 && !slices.Contains(above, shapeText) { // texts below values
			return true
		}
		if !slices.ContainsFunc(before, func(r rowShape) bool { return r.at(j) != shapeEmpty }) { // a column more
			return true
		}
	}
	return false
}

// isTable reports whether rows are surely a table: a name stands above a column of values. Pairs of names and values, such
// as those at the top of an invoice, are not.
func isTable(rows []rowShape) bool {
	if rows = withoutTitles(rows); !hasHead(rows) {
		return false
	}
	for j, c := range rows[0].cells {
		if below := column(rows[1:], j); c == shapeText && len(below) > 0 && !slices.Contains(below, shapeText) {
			return true
		}
	}
	return false
}

func (g *grid) shape(c sheetCell) shape {
	switch {
	case c.kind == cellEmpty:
		return shapeEmpty
	case !g.typed(c):
		if len(c.shown) < 10 && isBlank(c.shown) {
			return shapeBlank
		}
		return shapeText
	case g.period(c):
		return shapePeriod
	}
	return shapeValue
}

func (g *grid) shapes(n int) []rowShape {
	list := make([]rowShape, min(n, len(g.rows)))
	for i, r := range g.rows[:len(list)] {
		list[i].n = r.n
		for _, c := range r.cells {
			list[i].cells = append(list[i].cells, g.shape(c))
		}
	}
	return list
}

// tables returns the tables of a sheet, and which of them has its name: the first that is surely one.
func (g *grid) tables() (list []*grid, first int) {
	list = g.split()
	first = slices.IndexFunc(list, func(t *grid) bool { return len(list) > 1 && isTable(t.shapes(headSample)) })
	for _, t := range list {
		t.findHead()
	}
	return list, max(first, 0)
}

// split returns the tables below each other, and those side by side.
func (g *grid) split() (list []*grid) {
	if len(g.rows) == 0 {
		return []*grid{g}
	}
	part := func(rows []gridRow) *grid {
		return &grid{rows: rows, texts: g.texts, delimiter: g.delimiter, from1904: g.from1904}
	}
	starts := []int{0}
	if g.rows[len(g.rows)-1].n-g.rows[0].n >= int64(len(g.rows)) { // there are empty rows
		starts = tableStarts(g.shapes(len(g.rows)))
	}
	for i, from := range starts {
		to := len(g.rows)
		if i+1 < len(starts) {
			to = starts[i+1]
		}
		below := part(g.rows[from:to])
		beside := below.beside()
		if len(beside) < 2 {
			list = append(list, below)
			continue
		}
		for _, t := range beside {
			list = append(list, part(t).split()...)
		}
	}
	list[0].notes = g.notes
	return list
}

// beside returns the rows of tables that stand side by side: empty columns separate them, each has a head above values, and
// they do not end in the same row, because otherwise an empty column may be one of a single table.
func (g *grid) beside() (list [][]gridRow) {
	var filled []bool
	for _, r := range g.rows {
		for j, c := range r.cells {
			if c.kind != cellEmpty {
				for len(filled) <= j {
					filled = append(filled, false)
				}
				filled[j] = true
			}
		}
	}
	differ := false
	for from := 0; from < len(filled); from++ {
		if !filled[from] {
			continue
		}
		to := from
		for to < len(filled) && filled[to] {
			to++
		}
		var rows []gridRow
		for _, r := range g.rows {
			cells := slices.Clone(r.cells[:min(len(r.cells), to)])
			clear(cells[:min(len(cells), from)])
			if slices.ContainsFunc(cells, func(c sheetCell) bool { return c.kind != cellEmpty }) {
				rows = append(rows, gridRow{r.n, r.line, cells})
			}
		}
		head := withoutTitles((&grid{rows: rows, texts: g.texts}).shapes(headSample))
		if to-from < 2 || !hasHead(head) || !named(head) {
			return nil
		}
		list = append(list, rows)
		differ = differ || rows[len(rows)-1].n != list[0][len(list[0])-1].n
		from = to
	}
	if !differ {
		return nil
	}
	return list
}

// HeadOf returns the lines, from 1, that name the columns of the table that a line is in; 0 if there are none. text is a
// part of a file of values.
func HeadOf(text string, line int64) (first, last int64) {
	left := maxTableCells
	g, err := readValues(text, &left)
	if err != nil {
		return 0, 0
	}
	list, _ := g.tables()
	for _, t := range list {
		if len(t.rows) == 0 || t.rows[0].line > line {
			continue
		}
		if first, last = 0, 0; t.lines > 0 {
			first, last = t.rows[t.head-t.lines].line, t.rows[t.head-1].line
		}
	}
	return first, last
}
