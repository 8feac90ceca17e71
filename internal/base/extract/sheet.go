package extract

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Limits of a sheet, those of Excel.
const (
	maxRows    = 1 << 20
	maxColumns = 1 << 14
)

// maxCarried is the number of columns over which the value of a merged cell is carried.
const maxCarried = 100

var errCell = errors.New("a cell has no place")

// A merge is a range of cells that shows the value of its first one. Rows and columns count from 0.
type merge struct {
	top, left, bottom, right int
	value                    sheetCell
}

// rows calls row with each row that has cells, until it returns false. Merged cells have their value in each row and
// column that they cover; what a program has stored under them is not read.
func (w *workbook) rows(part string, row func(n int64, cells []sheetCell) bool) error {
	r, err := w.a.open(part)
	if err != nil {
		return nil // such as a sheet with a chart only
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	merges := mergesOf(data)
	var (
		active         []*merge
		cells          []sheetCell
		n, column      = -1, -1
		kind, style    string
		value, formula strings.Builder
		hasValue       bool
		hasFormula     bool
		group          string // of formulas that are alike
		shared         = map[string]sharedFormula{}
		ended          bool
	)
	err = walkTokens(bytes.NewReader(data), func(t xml.Token, within []string) error {
		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "row":
				n++
				if r := attr(t, "r"); r != "" {
					at, err := strconv.Atoi(r)
					if err != nil || at < 1 || at > maxRows {
						return errCell
					}
					n = at - 1
				}
				cells, column = cells[:0], -1
			case "c":
				column++
				if r := attr(t, "r"); r != "" {
					_, at, ok := cellPlace(r)
					if !ok {
						return errCell
					}
					column = at
				}
				if column >= maxColumns {
					return errCell
				}
				kind, style = attr(t, "t"), attr(t, "s")
				value.Reset()
				formula.Reset()
				hasValue, hasFormula, group = false, false, ""
			case "v":
				hasValue = true
			case "f":
				hasFormula = true
				if attr(t, "t") == "shared" {
					group = attr(t, "si")
				}
			}
		case xml.CharData:
			switch top := within[max(0, len(within)-1):]; {
			case len(within) < 2:
			case top[0] == "v", top[0] == "t" && within[len(within)-2] != "rPh":
				value.Write(t)
			case top[0] == "f":
				formula.Write(t)
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "c":
				text := formula.String()
				if group != "" && text != "" {
					shared[group] = sharedFormula{text, n, column}
				} else if group != "" {
					text = shared[group].at(n, column)
				}
				c := w.cell(kind, style, value.String())
				if hasFormula && value.Len() == 0 && (!hasValue || kind != "str") {
					w.unstored++
					c = sheetCell{shown: "=" + text, kind: cellText}
				}
				for len(cells) <= column {
					cells = append(cells, sheetCell{})
				}
				cells[column] = c
			case "row":
				for len(merges) > 0 && merges[0].top <= n {
					active = append(active, &merges[0])
					merges = merges[1:]
				}
				active = slices.DeleteFunc(active, func(m *merge) bool { return m.bottom < n })
				cells = carry(cells, active, n)
				if !row(int64(n+1), cells) {
					ended = true
					return io.EOF
				}
			}
		}
		return nil
	})
	if ended {
		return nil
	}
	return err
}

// carry writes the values of merged cells into a row. It does not repeat the only text of a row that begins it, because
// that is a title.
func carry(cells []sheetCell, active []*merge, n int) []sheetCell {
	for _, m := range active {
		if m.top == n && m.left < len(cells) {
			m.value = cells[m.left]
		}
		for i := m.left; i <= m.right && i < len(cells); i++ { // covered values
			cells[i] = sheetCell{}
		}
	}
	others := slices.ContainsFunc(cells, func(c sheetCell) bool { return c.shown != "" }) || len(active) > 1
	for _, m := range active {
		if m.value.shown == "" {
			continue
		}
		last := min(m.right, m.left+maxCarried-1)
		if !others && m.left == 0 {
			last = m.left
		}
		for len(cells) <= last {
			cells = append(cells, sheetCell{})
		}
		for i := m.left; i <= last; i++ {
			cells[i] = m.value
		}
	}
	return cells
}

// mergesOf returns the merged cells of a sheet by their first row. It reads them separately, because they stand after the
// rows.
func mergesOf(sheet []byte) (list []merge) {
	end := bytes.LastIndex(sheet, []byte("sheetData>"))
	if end < 0 || !bytes.Contains(sheet[end:], []byte("mergeCell")) {
		return nil
	}
	// The error is expected, because this part lacks the start of the element around the rows. It comes after all merged cells.
	_ = walkTokens(bytes.NewReader(sheet[end+len("sheetData>"):]), func(t xml.Token, _ []string) error {
		if e, ok := t.(xml.StartElement); ok && e.Name.Local == "mergeCell" {
			from, to, _ := strings.Cut(attr(e, "ref"), ":")
			top, left, ok := cellPlace(from)
			bottom, right, fine := cellPlace(to)
			if ok && fine && top <= bottom && left <= right && len(list) < MaxCells {
				list = append(list, merge{top: top, left: left, bottom: bottom, right: right})
			}
		}
		return nil
	})
	slices.SortStableFunc(list, func(a, b merge) int { return a.top - b.top })
	return list
}

// cellPlace returns the row and the column of a cell by its name, from 0.
func cellPlace(name string) (row, column int, ok bool) {
	name = strings.ReplaceAll(name, "$", "")
	letters := strings.TrimRight(name, "0123456789")
	for _, r := range strings.ToUpper(letters) {
		if r < 'A' || r > 'Z' || column > maxColumns {
			return 0, 0, false
		}
		column = column*26 + int(r-'A') + 1
	}
	row, err := strconv.Atoi(name[len(letters):])
	if err != nil || row < 1 || row > maxRows || column < 1 || column > maxColumns {
		return 0, 0, false
	}
	return row - 1, column - 1, true
}

// cell returns what a person sees of a cell with a type, a style and a stored value.
func (w *workbook) cell(kind, style, value string) sheetCell {
	if value == "" {
		return sheetCell{}
	}
	var format numberFormat
	if s, err := strconv.Atoi(style); err == nil && s >= 0 && s < len(w.formats) {
		format = w.formats[s]
	}
	switch kind {
	case "s":
		i, err := strconv.Atoi(value)
		if err != nil || i < 0 || i >= len(w.texts) {
			return sheetCell{}
		}
		return textCell(format.showText(unescaped(w.texts[i])))
	case "str", "inlineStr":
		return textCell(format.showText(unescaped(value)))
	case "b":
		return sheetCell{shown: map[bool]string{true: "TRUE", false: "FALSE"}[isTrue(value)], kind: cellLogical}
	case "e":
		return textCell(value)
	case "d":
		return sheetCell{shown: value, kind: cellDate}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
		return textCell(value)
	}
	if format == nil {
		shown := general(v)
		if strings.Trim(value, "0123456789") == "" { // a longer number than programs show
			shown = value
		}
		return sheetCell{shown: shown, kind: cellNumber, value: v}
	}
	shown, certain := format.show(v, w.from1904)
	if !certain && oneLine(shown) != general(v) {
		shown = oneLine(shown) + " [" + general(v) + "]"
	}
	c := sheetCell{shown: shown, kind: cellNumber, value: v}
	if s, _ := format.section(v); s != nil && s.date {
		c.kind = cellDate
		c.hours = slices.ContainsFunc(s.tokens, func(t formatToken) bool { return t.kind == fmtElapsed })
	}
	return c
}

// unescaped returns a text with the characters that a workbook writes by their numbers, such as _x000D_ (ECMA-376 part
// 1, 22.9.2.19).
func unescaped(s string) string {
	if !strings.Contains(s, "_x") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if i+7 <= len(s) && s[i:i+2] == "_x" && s[i+6] == '_' {
			if n, err := strconv.ParseUint(s[i+2:i+6], 16, 16); err == nil {
				b.WriteRune(rune(n))
				i += 7
				continue
			}
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}

func textCell(text string) sheetCell {
	if text == "" {
		return sheetCell{}
	}
	return sheetCell{shown: text, kind: cellText}
}

// A sharedFormula is the formula of the first cell of a group, which holds for the others relative to their place.
type sharedFormula struct {
	text        string
	row, column int
}

// at returns the formula of another cell of the group.
func (f sharedFormula) at(row, column int) string {
	var b strings.Builder
	quoted := byte(0)
	for i := 0; i < len(f.text); {
		c := f.text[i]
		if quoted != 0 || c == '"' || c == '\'' {
			if quoted == 0 {
				quoted = c
			} else if quoted == c {
				quoted = 0
			}
			b.WriteByte(c)
			i++
			continue
		}
		end := i
		for end < len(f.text) && (f.text[end] == '$' || f.text[end] == '_' || f.text[end] == '.' || f.text[end] >= '0' && f.text[end] <= '9' || f.text[end]|0x20 >= 'a' && f.text[end]|0x20 <= 'z' || f.text[end] >= 0x80) {
			end++
		}
		if end == i {
			b.WriteByte(c)
			i++
			continue
		}
		name := f.text[i:end]
		if call := end < len(f.text) && (f.text[end] == '(' || f.text[end] == '!'); !call {
			name = f.moved(name, row, column)
		}
		b.WriteString(name)
		i = end
	}
	return b.String()
}

// moved returns a reference to a cell as it is in another cell of the group; other names stay.
func (f sharedFormula) moved(name string, row, column int) string {
	r, c, ok := cellPlace(name)
	letters := strings.TrimRight(strings.TrimLeft(name, "$"), "0123456789")
	if !ok || strings.Count(name, "$") > 2 {
		return name
	}
	text := "$"
	if name[0] != '$' {
		text, c = "", c+column-f.column
	}
	if c < 0 || r+row-f.row < 0 {
		return "#REF!"
	}
	text += columnName(c)
	if strings.HasSuffix(letters, "$") {
		return text + "$" + strconv.Itoa(r+1)
	}
	return text + strconv.Itoa(r+row-f.row+1)
}
