package extract

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

// A glyph is a character of a page with its place, in points from the lower left corner.
type glyph struct {
	text                     string
	left, right, bottom, top float64
	base                     float64 // of its line
	added                    bool    // PDFium added it, as it adds spaces and line ends
	atSpace                  bool    // a space precedes or follows it in PDFium's order
}

// nothing is the text of a glyph that is not shown.
const nothing = "\u200b"

func (g glyph) middle() float64 { return (g.left + g.right) / 2 }
func (g glyph) height() float64 { return g.top - g.bottom }

func (g glyph) is(class func(rune) bool) bool {
	for _, r := range g.text {
		return class(r)
	}
	return false
}

func isSpace(r rune) bool { return unicode.IsSpace(r) }

func letterOrDigit(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// glyphs returns the characters of a page, whose text is known, in PDFium's order.
func glyphs(p pdfium.Pdfium, page references.FPDF_TEXTPAGE, text string, count int, rtl bool) ([]glyph, error) {
	units := utf16.Encode([]rune(text))
	list := make([]glyph, count)
	var high rune // the first half of a letter
	for i := range list {
		g := &list[i]
		var r rune
		if len(units) == count {
			r = rune(units[i])
		} else { // a character of the page has no text
			c, err := p.FPDFText_GetUnicode(&requests.FPDFText_GetUnicode{TextPage: page, Index: i})
			if err != nil {
				return nil, err
			}
			r = rune(c.Unicode)
		}
		if utf16.IsSurrogate(r) { // a letter in two halves
			if i > 0 && high != 0 {
				list[i-1].text = string(utf16.DecodeRune(high, r))
				*g, high = glyph{text: nothing, added: true}, 0
				continue
			}
			high = r
		}
		g.text = string(r)
		if isSpace(r) {
			added, err := p.FPDFText_IsGenerated(&requests.FPDFText_IsGenerated{TextPage: page, Index: i})
			if err != nil {
				return nil, err
			}
			if g.added = added.IsGenerated; g.added {
				continue
			}
		}
		if box, err := looseBox(p, page, i); err == nil {
			text := g.text
			*g = box
			g.text = text
		}
		// The letters of a word stand on one line. Questions to the library are slow.
		if i > 0 && !list[i-1].is(isSpace) && !list[i-1].added && (rtl && list[i-1].is(unicode.IsLetter) == unicode.IsLetter(r) || !rtl && math.Abs(g.height()-list[i-1].height()) < 0.02*g.height()) {
			g.base = list[i-1].base
		} else if at, err := p.FPDFText_GetCharOrigin(&requests.FPDFText_GetCharOrigin{TextPage: page, Index: i}); err == nil {
			g.base = at.Y
		}
	}
	return list, nil
}

func looseBox(p pdfium.Pdfium, page references.FPDF_TEXTPAGE, i int) (glyph, error) {
	box, err := p.FPDFText_GetLooseCharBox(&requests.FPDFText_GetLooseCharBox{TextPage: page, Index: i})
	if err != nil {
		return glyph{}, err
	}
	return glyph{left: float64(box.Rect.Left), right: float64(box.Rect.Right), bottom: float64(box.Rect.Bottom), top: float64(box.Rect.Top)}, nil
}

// rightToLeft reports whether a text has a letter that is written from right to left.
func rightToLeft(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r >= 0x590 && rtlLetter(r) })
}

func rtlLetter(r rune) bool {
	c := classOf(r)
	return c == bidi.R || c == bidi.AL
}

func classOf(r rune) bidi.Class {
	p, _ := bidi.LookupRune(r)
	return p.Class()
}

// torn reports whether PDFium may have torn lines or words of a page from left to right: a line begins with a space,
// or half of its words have one or two letters.
func torn(text string) bool {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, " ") && strings.TrimSpace(line) != "" || letterSpaced(line) {
			return true
		}
	}
	return false
}

func letterSpaced(line string) bool {
	short, words := 0, 0
	for w := range strings.FieldsSeq(line) {
		words++
		if len([]rune(w)) <= 2 && strings.ContainsFunc(w, unicode.IsLetter) {
			short++
		}
	}
	return short >= 3 && short*2 >= words
}

// maxChecked is the number of pieces of words of a page at which gaps are measured.
const maxChecked = 6

// raises reports whether PDFium ended a line at a raised or lowered letter: the next line begins where it ends, a little
// higher or lower.
func raises(p pdfium.Pdfium, page references.FPDF_TEXTPAGE, text string, count int) bool {
	checked, at := 0, 0 // characters before the line
	before := ""
	for line := range strings.Lines(text) {
		shown := strings.TrimSpace(line)
		if before != "" && shown != "" && (len(shown) <= 4 || len(before) <= 4 || endsInIndex(before)) && at > 2 && at < count {
			if checked++; checked > maxChecked {
				return false
			}
			a, err := looseBox(p, page, at-3) // CR and LF are between
			b, fault := looseBox(p, page, at)
			height, off := max(a.height(), b.height()), math.Abs(a.bottom-b.bottom)
			if err == nil && fault == nil && math.Abs(b.left-a.right) < 0.3*height && off > 0.02*height && off < 0.6*height {
				return true
			}
		}
		before, at = shown, at+len(utf16.Encode([]rune(line)))
	}
	return false
}

// endsInIndex reports whether a line ends in a number of one or two digits behind a letter or a digit, such as H2 or 106.
func endsInIndex(line string) bool {
	runes := []rune(line)
	n := len(runes)
	return n > 1 && unicode.IsDigit(runes[n-1]) && letterOrDigit(runes[n-2]) && (n < 5 || !unicode.IsDigit(runes[n-4]))
}

// splits reports whether PDFium split words of a page with small print whose letters stand apart: a piece without a
// vowel has a gap beside it that is too narrow for a space.
func splits(p pdfium.Pdfium, page references.FPDF_TEXTPAGE, text string, count int) bool {
	checked := 0
	for m := range pieces(text) {
		if checked++; checked > maxChecked {
			break
		}
		before, err := looseBox(p, page, m)
		after, fault := looseBox(p, page, m+2)
		if err == nil && fault == nil && m+2 < count && after.left > before.left && after.left-before.right < 0.2*after.height() {
			return true
		}
	}
	return false
}

// pieces yields the places, in characters, before the spaces around words of at most three small letters without a
// vowel.
func pieces(text string) iter.Seq[int] {
	return func(yield func(int) bool) {
		var a, b, c, d rune // the characters before
		at := 0
		for _, r := range text {
			// a space, a piece of one to three letters, and this space
			start := -1
			switch {
			case r != ' ':
			case b == ' ' && bare(c) && bare(d):
				start = at - 3
			case c == ' ' && bare(d):
				start = at - 2
			case a == ' ' && bare(b) && bare(c) && bare(d):
				start = at - 4
			}
			if start > 0 && (!yield(start-1) || !yield(at-1)) {
				return
			}
			a, b, c, d = b, c, d, r
			at++
		}
	}
}

// bare reports whether a letter is a small consonant of the Latin alphabet.
func bare(r rune) bool { return r >= 'b' && r <= 'z' && !strings.ContainsRune("eiouy", r) }

// Letters of TeX. A spacing accent is set above or below its letter; fonts in the encoding of Cork (T1) without a table
// of Unicode show ligatures and letters as control characters.
var (
	texAccents  = map[string]string{"¨": "\u0308", "´": "\u0301", "`": "\u0300", "ˆ": "\u0302", "˜": "\u0303", "¸": "\u0327", "˚": "\u030a", "ˇ": "\u030c", "˝": "\u030b", "¯": "\u0304", "˘": "\u0306", "˙": "\u0307"}
	corkSigns   = strings.Fields("“ ” „ « » – — \u200b \u200b ı ȷ ff fi fl ffi ffl")      // from U+0010
	corkLetters = []rune("ĂĄĆČĎĚĘĞĹĽŁŃŇŊŐŔŘŚŠŞŤŢŰŮŸŹŽŻĲİđ§ăąćčďěęğĺľłńňŋőŕřśšşťţűůÿźžżĳ") // from U+0080
)

// texMarks reports whether a text of TeX may have letters in pieces or torn lines.
func texMarks(text string) bool {
	if strings.ContainsAny(text, "¨´ˆ˜¸˚ˇ˝¯˘˙`") || strings.ContainsFunc(text, cork) {
		return true
	}
	longest := 0
	for line := range strings.Lines(text) {
		longest = max(longest, len(line))
	}
	for line := range strings.Lines(text) { // the line is short, and the sentence goes on
		if line = strings.TrimRight(line, "\r\n"); line != "" && len(line) < longest*2/3 && !strings.ContainsAny(line[len(line)-1:], ".:;!?") {
			return true
		}
	}
	return false
}

// cork reports whether a character is certainly not what it seems, but a sign or a letter of Cork.
func cork(r rune) bool { return r >= 0x10 && r < 0x20 || r >= 0x80 && r < 0xa0 }

// composeTeX puts the letters of TeX together.
func composeTeX(list []glyph) {
	beside := func(i int, class func(rune) bool) bool {
		return i > 0 && list[i-1].is(class) || i+1 < len(list) && list[i+1].is(class)
	}
	certain := false // a sign apart from words may be of another font, such as the bullet of a list
	for i, g := range list {
		certain = certain || g.is(cork) && ([]rune(g.text)[0] < 0x20 || beside(i, unicode.IsLetter))
	}
	letter := func(r rune) bool { return unicode.IsLetter(r) || certain && r >= 0x80 && r < 0xc0 }
	inWord := func(i int) bool { return beside(i, letter) }
	// Some signs of Latin-1 are letters of Cork; only those that stand in words and are many, or beside others that are
	// certain, are taken for them.
	kinds := map[rune]bool{}
	for i, g := range list {
		r := []rune(g.text)[0]
		if r >= 0xa0 && int(r-0x80) < len(corkLetters) && inWord(i) {
			kinds[r] = true
		}
	}
	for i := range list {
		g := &list[i]
		r := []rune(g.text)[0]
		accent := texAccents[g.text]
		if accent != "" && compose(list, i, accent) {
			continue
		}
		switch {
		case r >= 0x10 && r < 0x20:
			g.text = corkSigns[r-0x10]
		case r == 'ÿ' && certain:
			g.text = "ß"
		case r == texBullet && !inWord(i):
			g.text = "•"
		case r >= 0x80 && r < 0xa0 && inWord(i), kinds[r] && inWord(i) && (certain || accent == "" && len(kinds) >= 3):
			g.text = string(corkLetters[r-0x80])
		}
	}
}

// texBullet is the bullet in the encoding TS1.
const texBullet = 0x88

// compose puts the accent at i on the letter that it stands at, and reports whether there is one.
func compose(list []glyph, i int, accent string) bool {
	g := &list[i]
	if g.right <= g.left {
		return false
	}
	best, nearest := -1, 0.0
	for j := max(0, i-200); j < min(len(list), i+200); j++ { // the accent of a capital stands elsewhere in the text
		l := list[j]
		off := math.Abs(l.middle() - g.middle())
		if j == i || off > 0.35*max(l.right-l.left, g.right-g.left) || math.Abs(l.base-g.base) > 0.6*l.height() || composed(l.text, accent) == "" {
			continue
		}
		if best < 0 || off < nearest {
			best, nearest = j, off
		}
	}
	if best < 0 {
		return false
	}
	list[best].text = composed(list[best].text, accent)
	g.text, g.added = nothing, true
	return true
}

// composed returns a letter with an accent; "" if there is no such letter.
func composed(letter, accent string) string {
	letter = strings.NewReplacer("ı", "i", "ȷ", "j").Replace(letter)
	if s := norm.NFC.String(letter + accent); len([]rune(s)) == 1 && len([]rune(letter)) == 1 {
		return s
	}
	return ""
}

// mend returns the text of a page from left to right in PDFium's order, without the line ends and spaces that it added
// within lines and words.
func mend(list []glyph, tex bool) string {
	if tex {
		composeTeX(list)
	}
	lines := [][]glyph{nil}
	for i := 0; i < len(list); i++ {
		g := list[i]
		line := &lines[len(lines)-1]
		if (g.text == "\x02" || g.text == "\ufffe") && i+1 < len(list) {
			if next := list[i+1]; !next.added && next.left >= g.left && math.Abs(next.base-g.base) < 0.3*next.height() { // no hyphen at a line end
				continue
			}
		}
		if g.text != "\r" && g.text != "\n" {
			*line = append(*line, g)
			continue
		}
		for i+1 < len(list) && (list[i+1].text == "\n" || list[i+1].text == "\r") {
			i++
		}
		at := i + 1
		for at < len(list) && list[at].text == nothing { // an accent that has joined its letter
			at++
		}
		if at == len(list) || !continues(*line, list[at]) {
			lines = append(lines, nil)
		} else if next := list[at]; !next.is(isSpace) && next.left-lastOf(*line).right > 0.12*next.height() {
			*line = append(*line, glyph{text: " ", added: true})
		}
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(mendedLine(line, tex) + "\r\n")
	}
	return b.String()
}

// lastOf returns the last glyph of a line that is on the page.
func lastOf(line []glyph) glyph {
	for _, g := range slices.Backward(line) {
		if !g.added {
			return g
		}
	}
	return glyph{}
}

// continues reports whether a glyph continues a line: as a raised or lowered letter, or behind one.
func continues(line []glyph, next glyph) bool {
	last := lastOf(line)
	gap := next.left - last.right
	if last.text == "" || gap < -0.5*next.height() || gap > 0.6*next.height() || next.left < last.left {
		return false
	}
	if d := math.Abs(next.base - last.base); d > 0.05*last.height() && d < 0.6*max(last.height(), next.height()) && min(last.height(), next.height()) < 0.85*max(last.height(), next.height()) {
		return true
	}
	for _, g := range line[max(0, len(line)-8):] {
		if !g.added && math.Abs(g.base-next.base) < 0.1*next.height() && g.left < next.left {
			return true
		}
	}
	return false
}

// mendedLine returns the text of a line. Where letters stand apart, an added space stays if the gap at it is clearly wider than
// that between them.
func mendedLine(line []glyph, tex bool) string {
	var b strings.Builder
	var gaps []float64
	height, own := 0.0, false // whether the line has spaces of its own
	shown, letters := 0, 0
	var all strings.Builder
	last := -1 // the last glyph on the page
	for i, g := range line {
		all.WriteString(g.text)
		if g.added {
			continue
		}
		own = own || g.is(isSpace)
		if shown++; g.is(unicode.IsLetter) || g.is(isSpace) {
			letters++
		}
		if last >= 0 && g.is(letterOrDigit) && line[last].is(letterOrDigit) {
			gaps = append(gaps, g.left-line[last].right)
		}
		height, last = max(height, g.height()), i
	}
	slices.Sort(gaps)
	usual := 0.0
	if len(gaps) >= 5 {
		usual = max(0, gaps[len(gaps)/2])
	}
	// Numbers and letters with spaces between them look like a word whose letters stand apart, and TeX sets none so.
	apart := !tex && (own || letters*5 >= shown*4 && (usual > 0.04*height || letterSpaced(all.String())))
	last = -1
	blank, dropped := true, false // nothing or a space is written last; an accent has left the end
	write := func(s string) {
		b.WriteString(s)
		blank = strings.HasSuffix(s, " ")
	}
	for i, g := range line {
		switch {
		case g.text == nothing:
			dropped = true
		case g.added && g.is(isSpace):
			next := lastOf(line[i+1 : min(i+2, len(line))])
			narrow := last >= 0 && next.text != "" && next.left >= line[last].left && next.left-line[last].right <= usual+0.15*height && next.is(letterOrDigit) && line[last].is(letterOrDigit)
			if !blank && !(apart && narrow) {
				write(" ")
			}
		case g.added:
			write(g.text)
		default:
			if last >= 0 && (raised(line, last, g) || noteMark(line, last, g)) && !blank {
				write(" ")
			}
			write(g.text)
			last, dropped = i, false
		}
	}
	if dropped {
		return strings.TrimRight(b.String(), " ")
	}
	return b.String()
}

// raised reports whether a glyph is the number of a note, behind a word of at least three letters: a smaller digit
// above the line.
func raised(line []glyph, last int, g glyph) bool {
	if last < 2 || !g.is(unicode.IsDigit) {
		return false
	}
	for _, before := range line[last-2 : last+1] {
		if !before.is(unicode.IsLetter) || before.added {
			return false
		}
	}
	before := line[last]
	return g.height() < 0.85*before.height() && g.base > before.base+0.1*before.height()
}

// noteMark reports whether a letter follows the raised number of a note at the beginning of a line.
func noteMark(line []glyph, last int, g glyph) bool {
	mark := line[last]
	return last < 3 && g.is(unicode.IsLetter) && mark.is(unicode.IsDigit) && line[0].is(unicode.IsDigit) && mark.height() < 0.85*g.height() && mark.base > g.base+0.1*g.height()
}

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

// A direction is that of a character of a line.
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

// spaced returns a line with a space at each gap.
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

// brackets returns lines in which each pair of brackets of a text from right to left opens and closes: in a file they
// may stand in the form in which they are seen. They are marked with a NUL before them.
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
