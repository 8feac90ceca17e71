package extract

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

// placed returns the text of a page by the places of its characters: lines from above, in each the characters in the
// order in which they are read.
func placed(list []glyph) string {
	var all []glyph
	space := false
	for _, g := range list {
		r := []rune(g.text)[0]
		g.atSpace = space
		if space = isSpace(r); space && len(all) > 0 {
			all[len(all)-1].atSpace = true
		}
		switch {
		case r == 0xfffe: // a hyphen at a line end
			g.text = "\x02"
		case g.added, g.text == nothing, unicode.IsControl(r) && r != 2, space && g.right-g.left < 0.01:
			continue
		case len(all) > 0 && rtlLetter(r) && g.left == all[len(all)-1].left && g.right == all[len(all)-1].right: // two letters in one
			last := &all[len(all)-1]
			if r == 'ل' && strings.Contains("اأإآ", last.text) { // PDFium may turn them round
				last.text = g.text + last.text
			} else {
				last.text += g.text
			}
			continue
		case unicode.In(r, unicode.Mn) && len(all) > 0: // a vowel mark belongs to the letter at its place
			at := len(all) - 1
			for i := at; i >= max(0, at-2); i-- {
				if all[i].left <= g.middle() && g.middle() <= all[i].right {
					at = i
					break
				}
			}
			all[at].text += g.text
			if complexScript(all[at]) { // PDFium shares a box among the letters of a cluster
				all[at].right = max(all[at].right, g.right)
			}
			continue
		case r >= 0xfb50 && r <= 0xfdff, r >= 0xfe70 && r <= 0xfeff: // the forms of Arabic letters
			g.text = norm.NFKC.String(g.text)
		}
		all = append(all, g)
	}
	var lines []string
	spaces := slices.ContainsFunc(all, func(g glyph) bool { return g.is(isSpace) }) // the file has spaces between words
	rtl, ltr := 0, 0
	left, right := math.Inf(1), math.Inf(-1)
	for _, g := range all {
		switch {
		case g.is(rtlLetter):
			rtl++
		case g.is(unicode.IsLetter):
			ltr++
		}
		left, right = min(left, g.left), max(right, g.right)
	}
	for len(all) > 0 {
		n := block(all)
		rows := linesOf(all[:n])
		tables := rowsFromRight(rows, spaces)
		for i, line := range rows {
			begins := right - 0.05*(right-left) // a line that begins at the right edge, and not at the left one
			last := line[len(line)-1]
			text := readingOrder(line, rtl > ltr && (last.right > begins && line[0].left > left+0.05*(right-left) || line[0].is(unicode.IsPunct) && !last.is(unicode.IsPunct)), spaces, tables[i])
			if at := strings.IndexByte(text, 2); at >= 0 && at < len(text)-1 { // no hyphen at a line end
				text = strings.ReplaceAll(text, "\x02", "-")
			}
			lines = append(lines, text)
		}
		all = all[n:]
	}
	return brackets(lines)
}

// rowsFromRight returns which lines are rows of a table whose cells follow each other from right to left: most letters of
// the rows around each are.
func rowsFromRight(lines [][]glyph, spaces bool) []bool {
	list := make([]bool, len(lines))
	begin, count := 0, 0 // letters from right to left less the others
	for i := range len(lines) + 1 {
		row := false
		if i < len(lines) {
			line := spaced(lines[i])
			height := tallest(line)
			for j := range line {
				row = row || spaces && isWall(line, j, height) && line[j].right-line[j].left > height // wider than at a sign of Chinese
			}
			for _, g := range line {
				if row && g.is(rtlLetter) {
					count++
				} else if row && g.is(unicode.IsLetter) {
					count--
				}
			}
		}
		if row {
			continue
		}
		for j := begin; j < i; j++ {
			list[j] = count > 0
		}
		begin, count = i+1, 0
	}
	return list
}

// isWall reports whether a glyph of a line with spaces at its gaps is a gap between cells.
func isWall(line []glyph, i int, height float64) bool {
	g := line[i]
	return g.added && g.text == " " && g.right-g.left > 0.25*height && !(line[i-1].is(rtlLetter) && line[i+1].is(rtlLetter))
}

// block returns the number of characters before the page goes on further up: another column.
func block(list []glyph) int {
	lowest := math.Inf(1)
	for i, g := range list {
		if h := g.height(); h > 0 && i > 0 && (g.base > lowest+4*h || g.base > lowest+1.8*h && nextColumn(list, i)) {
			return i
		}
		lowest = min(lowest, g.base)
	}
	return len(list)
}

// nextColumn reports whether a column begins at a character: it and those that follow stand beside all before it that are
// not above, and both are lines of a text.
func nextColumn(list []glyph, at int) bool {
	first := list[at]
	left, right := math.Inf(1), math.Inf(-1)
	text := func(list []glyph) bool {
		lines, base := 0, math.Inf(1)
		for _, g := range list {
			if base-g.base > 0.5*g.height() {
				lines, base = lines+1, g.base
			}
		}
		return lines >= 3 && len(list) >= 15*lines
	}
	from := at
	for from > 0 && list[from-1].base < first.base+0.5*first.height() {
		from--
		left, right = min(left, list[from].left), max(right, list[from].right)
	}
	end := at
	for end < len(list) && (first.left >= right && list[end].left >= right || first.right <= left && list[end].right <= left) {
		end++
	}
	return text(list[from:at]) && text(list[at:end])
}

// linesOf returns the lines of characters from above, each from left to right. What is raised or lowered belongs to the
// line that it touches.
func linesOf(list []glyph) (lines [][]glyph) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b glyph) int { return cmp.Compare(b.height(), a.height()) })
	type line struct {
		base, height float64
		glyphs       []glyph
	}
	var all []*line
	most := list[0].height()
	for _, g := range list { // the tallest first, so that small ones find their line
		var best *line
		for _, l := range all {
			within := 0.25 * min(l.height, most)
			if g.height() < 0.9*l.height {
				within = 0.45 * l.height
			}
			if d := math.Abs(l.base - g.base); d <= within && (best == nil || d < math.Abs(best.base-g.base)) {
				best = l
			}
		}
		if best == nil {
			best = &line{base: g.base, height: g.height()}
			all = append(all, best)
		}
		best.glyphs = append(best.glyphs, g)
	}
	slices.SortStableFunc(all, func(a, b *line) int { return cmp.Compare(b.base, a.base) })
	for _, l := range all {
		slices.SortStableFunc(l.glyphs, func(a, b glyph) int { return cmp.Compare(a.left, b.left) })
		lines = append(lines, l.glyphs)
	}
	return lines
}

type direction byte

const (
	neutral direction = iota
	leftward
	rightward
	number // from left to right, in texts of both directions
	wall   // a gap between cells of a table
)

// readingOrder returns a line in the order in which it is read, with spaces at its gaps. rtl is set if it seems to
// begin at the right, whatever most of its letters are. spaces is set if the file has spaces: a gap without one then
// separates cells, whose order is that of the line. table is set for a row of cells from right to left.
func readingOrder(line []glyph, rtl, spaces, table bool) string {
	line = spaced(line)
	height := tallest(line)
	dir := make([]direction, len(line))
	l, r, arabic := 0, 0, false
	for i, g := range line {
		if spaces && isWall(line, i, height) {
			dir[i] = wall
			continue
		}
		switch classOf([]rune(g.text)[0]) {
		case bidi.L:
			dir[i] = rightward
			l++
		case bidi.R:
			dir[i] = leftward
			r++
		case bidi.AL:
			dir[i], arabic = leftward, true
			r++
		case bidi.EN, bidi.AN:
			dir[i] = number
		}
	}
	rtl = table || r > 0 && (r >= l || rtl)
	if r == 0 && !table {
		return textOf(line)
	}
	at := func(i int) direction {
		if i < 0 || i >= len(dir) {
			return neutral
		}
		return dir[i]
	}
	for i := range line { // separators within numbers, and signs at them
		switch class := classOf([]rune(line[i].text)[0]); {
		case dir[i] != neutral:
		case (class == bidi.CS || class == bidi.ES) && at(i-1) == number && at(i+1) == number:
			dir[i] = number
		case class == bidi.ET && at(i-1) == number, class == bidi.ET && at(i+1) == number && !arabic:
			dir[i] = number
		}
	}
	// What stands between two characters of the other direction has theirs; so do numbers beside Latin letters.
	other := rightward
	if !rtl {
		other = leftward
	}
	for i := 0; i < len(dir); i++ {
		if dir[i] != other {
			continue
		}
		end := i
		for j := i + 1; j < len(dir) && (dir[j] == other || dir[j] == neutral || dir[j] == number); j++ {
			if dir[j] == other || rtl && dir[j] == number {
				end = j
			}
		}
		begin := i
		if rtl { // "3 mm": a number before Latin letters
			for j := i - 1; j >= 0 && (dir[j] == neutral || dir[j] == number); j-- {
				if dir[j] == number {
					begin = j
				}
			}
		}
		for j := begin; j <= end; j++ {
			if rtl || dir[j] == neutral {
				dir[j] = other
			}
		}
		i = end
	}
	out := make([]glyph, 0, len(line))
	backward := func(from, to int) { // [from, to): runs from right to left, numbers and Latin letters as they are
		for i := to - 1; i >= from; i-- {
			j := i
			if dir[i] == rightward || dir[i] == number {
				for j > from && dir[j-1] == dir[i] {
					j--
				}
				out = append(out, line[j:i+1]...)
			} else {
				g := line[i]
				if dir[i] != leftward || !g.is(unicode.IsLetter) {
					g.text = "\x00" + g.text // a sign within a text from right to left
				}
				out = append(out, g)
			}
			i = j
		}
	}
	if rtl {
		backward(0, len(line))
	} else {
		for i := 0; i < len(line); i++ {
			if dir[i] != leftward {
				out = append(out, line[i])
				continue
			}
			end := i
			for j := i; j < len(line) && (dir[j] == leftward || dir[j] == number); j++ {
				if dir[j] == leftward {
					end = j
				}
			}
			backward(i, end+1)
			i = end
		}
	}
	return textOf(out)
}

func spaced(line []glyph) (out []glyph) {
	height := tallest(line)
	right := math.Inf(-1)
	usual := letterGap(line)
	for i, g := range line {
		if g.is(isSpace) {
			continue
		}
		apart := i > 0 && line[i-1].is(isSpace)
		least := 0.14 + usual/height
		if len(out) > 0 && complexScript(g) && complexScript(out[len(out)-1]) {
			// PDFium adds spaces at vowel signs
		} else if usual > 0 {
			// PDFium adds spaces between letters that stand apart
		} else if len(out) > 0 && g.atSpace && out[len(out)-1].atSpace && g.is(letterOrDigit) && out[len(out)-1].is(letterOrDigit) {
			least = 0.03
		} else if len(out) > 0 && !g.atSpace && !out[len(out)-1].atSpace && g.is(rtlLetter) && out[len(out)-1].is(rtlLetter) {
			least = 0.25 // joined letters end in narrow ones
		}
		if len(out) > 0 && (apart || g.left-right > least*height || raised(out, len(out)-1, g)) {
			out = append(out, glyph{text: " ", left: right, right: g.left, added: !apart})
		}
		out = append(out, g)
		right = max(right, g.right)
	}
	return out
}

// letterGap returns the gap between the letters of a line whose letters all stand apart equally, as those of a heading
// may; 0 for other lines.
func letterGap(line []glyph) float64 {
	var gaps []float64
	letters, shown := 0, 0
	for i, g := range line {
		if g.is(isSpace) {
			continue
		}
		if shown++; g.is(unicode.IsLetter) {
			letters++
		}
		if i > 0 && g.is(letterOrDigit) && line[i-1].is(letterOrDigit) {
			gaps = append(gaps, g.left-line[i-1].right)
		}
	}
	if len(gaps) < 4 || letters*5 < shown*4 {
		return 0
	}
	slices.Sort(gaps)
	usual, height := gaps[len(gaps)/2], tallest(line)
	if usual < 0.05*height || usual > 0.8*height || gaps[len(gaps)*3/4]-gaps[len(gaps)/4] > 0.1*height {
		return 0
	}
	return usual
}

// complexScript reports whether a letter is of a script whose vowel signs stand around their letters.
func complexScript(g glyph) bool {
	return g.is(func(r rune) bool { return r >= 0x900 && r < 0x1100 || r >= 0x1780 && r < 0x1800 })
}

func tallest(line []glyph) (height float64) {
	for _, g := range line {
		height = max(height, g.height())
	}
	return height
}

func textOf(line []glyph) string {
	var b strings.Builder
	for _, g := range line {
		b.WriteString(g.text)
	}
	return b.String()
}

// maxOpen is the number of lines after which a bracket is not closed any more.
const maxOpen = 5

// brackets returns lines in which each pair of brackets of a text from right to left opens and closes. They are marked with
// a NUL before them, because a file may contain them in the form in which they are seen.
func brackets(lines []string) string {
	runes := []rune(strings.Join(lines, "\n"))
	for _, pair := range []string{"()", "[]", "{}", "<>", "«»"} {
		both := []rune(pair)
		var places []int
		open := 0 // line ends after an open bracket
		for i, r := range append(runes, '\n') {
			switch {
			case i > 0 && i < len(runes) && runes[i-1] == 0 && (r == both[0] || r == both[1]):
				places = append(places, i)
				continue
			case r != '\n':
				continue
			case len(places)%2 == 1 && open < maxOpen:
				open++
				continue
			}
			paired := len(places)%2 == 0
			for i := 1; i < len(places) && open > 0; i++ { // "1)" and "2)" in two lines are not a pair
				paired = paired && runes[places[i]] != runes[places[i-1]]
			}
			for i, at := range places {
				if paired {
					runes[at] = both[i%2]
				}
			}
			places, open = places[:0], 0
		}
	}
	return strings.ReplaceAll(string(runes), "\x00", "")
}
