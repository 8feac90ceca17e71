package extract

import (
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
	base                     float64 // base of its line
	added                    bool    // PDFium added it, as it adds spaces and line ends
	atSpace                  bool    // a space precedes or follows it in PDFium's order
}

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
		// The letters of a word share one query, because they stand on one line and queries to the library are slow.
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
			a, err := looseBox(p, page, at-3) // before CR and LF
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

func bare(r rune) bool { return r >= 'b' && r <= 'z' && !strings.ContainsRune("eiouy", r) }

// Letters of TeX. A spacing accent is set above or below its letter; fonts in the encoding of Cork (T1) without a table
// of Unicode show ligatures and letters as control characters.
var (
	texAccents  = map[string]string{"¨": "\u0308", "´": "\u0301", "`": "\u0300", "ˆ": "\u0302", "˜": "\u0303", "¸": "\u0327", "˚": "\u030a", "ˇ": "\u030c", "˝": "\u030b", "¯": "\u0304", "˘": "\u0306", "˙": "\u0307"}
	corkSigns   = strings.Fields("“ ” „ « » – — \u200b \u200b ı ȷ ff fi fl ffi ffl")      // from U+0010
	corkLetters = []rune("ĂĄĆČĎĚĘĞĹĽŁŃŇŊŐŔŘŚŠŞŤŢŰŮŸŹŽŻĲİđ§ăąćčďěęğĺľłńňŋőŕřśšşťţűůÿźžżĳ") // from U+0080
)

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
	// Some signs of Latin-1 are letters of Cork. Only those in words count, and only if they are many or stand beside certain
	// ones, because otherwise they may be signs.
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

// mend returns the text of a page from left to right in PDFium's order. It drops the line ends and spaces that PDFium added
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
	// Numbers and letters with spaces between them look like a word whose letters stand apart. TeX is exempt, because it sets
	// no such words.
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
