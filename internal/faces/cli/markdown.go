package cli

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Limits of the text that is held back until its kind is known. Without them, a reply that never closes a mark would
// appear only at its end.
const (
	maxSpan = 400 // bytes of emphasis, code or a link within a line
	maxRows = 500
	maxLine = 16 << 10 // bytes
)

// A markdown prints Markdown on a terminal as it arrives: words are wrapped at the
// width, and marks are shown as styles. A word, a span such as **bold**, a link, a line
// of code and a table are printed when they are complete. Line breaks are kept. Without
// styles, the marks of headings, emphasis and code are kept.
//
// The renderer is our own because libraries bring themes and a dozen packages and print nothing before the whole text
// is there. The input is cleaned first, so that it cannot contain control sequences.
type markdown struct {
	out     io.Writer
	style   style
	columns int

	b bytes.Buffer // the state of the output

	line   string // input that is not printed yet
	begun  bool   // the kind of the line is known, and its text is split into spans
	code   string // SGR codes of the whole line
	before rune   // last rune before line, because it decides whether a mark can begin emphasis

	fence string   // the opening marks of the code block
	table []string // collected lines, because the widths of columns depend on all rows
	list  bool     // an indented line belongs to an item above it

	col    int    // the column of the cursor
	prefix string // the beginning of wrapped lines
	space  string // space between the last word and the next
	word   []stretch
	wide   int // columns of word
}

func (m *markdown) write(text string) error {
	text = clean(text)
	for text != "" {
		head, rest, whole := strings.Cut(text, "\n")
		m.line += head
		m.step(whole)
		if text = rest; !whole {
			break
		}
	}
	return m.flush()
}

func (m *markdown) end() error {
	if m.line != "" || m.begun {
		m.step(true)
	}
	m.endTable()
	m.fence, m.list = "", false
	return m.flush()
}

func (m *markdown) flush() error {
	_, err := m.out.Write(m.b.Bytes())
	m.b.Reset()
	return err
}

var (
	fenceLine   = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	ruleLine    = regexp.MustCompile(`^ {0,3}((- *){3,}|(\* *){3,}|(_ *){3,})$`)
	headingLine = regexp.MustCompile(`^ {0,3}(#{1,6}) +`)
	itemLine    = regexp.MustCompile(`^( *)([-*+]|[0-9]{1,4}[.)]) +(\[[ xX]\] )?`)
	quoteLine   = regexp.MustCompile(`^ {0,3}(> ?)+`)
	ruleOfTable = regexp.MustCompile(`^ *\|?( *:?-+:? *\|)+( *:?-+:?)? *$`)
)

// undecided matches the beginning of a line that may still be something other than
// plain text; 12 characters decide.
var undecided = regexp.MustCompile(`^ *([-*+_>#|~` + "`" + `0-9].{0,11})?$`)

// step processes the line so far; whole means that it has ended.
func (m *markdown) step(whole bool) {
	switch {
	case m.begun:
	case m.fence != "":
		if !whole && len(m.line) <= maxLine {
			return
		}
		text := m.line
		m.line = ""
		if end := strings.TrimSpace(text); strings.HasPrefix(end, m.fence) && strings.Trim(end, m.fence[:1]) == "" {
			m.fence = ""
			return
		}
		m.b.WriteString(strings.TrimRight("  "+m.style.paint("36", text), " ") + "\n")
		return
	case !whole && undecided.MatchString(m.line):
		return
	case !whole && len(m.line) <= maxLine &&
		(fenceLine.MatchString(m.line) || strings.HasPrefix(strings.TrimLeft(m.line, " "), "|") || ruleLine.MatchString(m.line)):
		return // held until its end, because these kinds of lines are processed as a whole
	default:
		if m.begin(whole) {
			return
		}
	}
	m.spans(whole)
	if whole {
		m.endWord()
		m.newline()
		m.begun, m.prefix, m.code, m.before = false, "", "", 0
	}
}

// begin processes the beginning of the line, and reports whether that was all of it.
func (m *markdown) begin(whole bool) bool {
	if whole && strings.HasPrefix(strings.TrimLeft(m.line, " "), "|") && len(m.table) < maxRows {
		m.table = append(m.table, m.line)
		m.line = ""
		return true
	}
	m.endTable()
	if whole && fenceLine.MatchString(m.line) {
		m.fence = strings.TrimSpace(fenceLine.FindString(m.line))
		m.line = ""
		return true
	}
	if whole && ruleLine.MatchString(m.line) {
		m.b.WriteString(m.style.dim(strings.Repeat("─", min(m.columns, 40))) + "\n")
		m.line = ""
		return true
	}
	indent := len(m.line) - len(strings.TrimLeft(m.line, " "))
	if whole && strings.TrimSpace(m.line) == "" {
		m.line = ""
		m.newline()
		return true
	}
	m.begun = true
	if h := headingLine.FindStringSubmatch(m.line); h != nil {
		m.list, m.code = false, "1"
		if len(h[1]) == 1 {
			m.code = "1;4"
		}
		if m.style {
			m.line = strings.TrimRight(m.line[len(h[0]):], " #")
		}
		return false
	}
	if item := itemLine.FindStringSubmatch(m.line); item != nil {
		mark := item[2]
		if strings.ContainsAny(mark, "-*+") {
			mark = "•"
		}
		switch strings.TrimSpace(item[3]) {
		case "[ ]":
			mark = "☐"
		case "":
		default:
			mark = "☑"
		}
		m.list = true
		m.lead(item[1]+mark+" ", strings.Repeat(" ", len(item[1])+ansi.StringWidth(mark)+1))
		m.line = m.line[len(item[0]):]
		return false
	}
	if quote := quoteLine.FindString(m.line); quote != "" {
		bar := strings.Repeat("│ ", strings.Count(quote, ">"))
		m.lead(m.style.dim(bar), m.style.dim(bar))
		m.line = m.line[len(quote):]
		return false
	}
	if indent == 0 {
		m.list = false
	}
	if indent > 0 && indent < m.columns/2 {
		m.lead(m.line[:indent], m.line[:indent])
		m.line = m.line[indent:]
		if !m.list && indent >= 4 { // code without a fence
			m.code = "36"
		}
	}
	return false
}

func (m *markdown) lead(text, prefix string) {
	m.b.WriteString(text)
	m.col, m.prefix = ansi.StringWidth(text), prefix
}

func (m *markdown) spans(whole bool) {
	for m.line != "" {
		at := strings.IndexAny(m.line, "*_`[!\\<~")
		if at < 0 {
			at = len(m.line)
		}
		if at > 0 {
			m.text(m.line[:at], m.code)
			m.line = m.line[at:]
			continue
		}
		s, n := m.span(m.line, whole)
		if n == 0 && !whole && len(m.line) < maxSpan {
			return // because more of it may arrive
		}
		if n == 0 {
			s, n = stretch{text: m.line[:1]}, 1
		}
		m.put(s, m.code)
		m.before, _ = utf8.DecodeLastRuneInString(m.line[:n])
		m.line = m.line[n:]
	}
}

// A stretch is a piece of a line with a style.
type stretch struct {
	text  string
	code  string // SGR codes; empty means those of the line
	inner bool   // text contains spans
	link  string // the address of a link
}

func (m *markdown) put(s stretch, code string) {
	if s.code != "" {
		code = strings.Trim(code+";"+s.code, ";")
	}
	if !s.inner {
		m.text(s.text, code)
	} else {
		m.before = 0
		for rest := s.text; rest != ""; {
			at := strings.IndexAny(rest, "*_`[!\\<~")
			if at < 0 {
				at = len(rest)
			}
			if at > 0 {
				m.text(rest[:at], code)
				rest = rest[at:]
				continue
			}
			in, n := m.span(rest, true)
			if n == 0 {
				in, n = stretch{text: rest[:1]}, 1
			}
			m.put(in, code)
			rest = rest[n:]
		}
	}
	if s.link != "" && s.link != s.text {
		m.text(" ("+s.link+")", "2")
	}
}

var (
	linkText = regexp.MustCompile(`^!?\[([^\[\]]*)\]\(<?([^()<>\s]+(?:\([^()\s]*\)[^()<>\s]*)?)>?(?: +"[^"]*")?\)`)
	autoLink = regexp.MustCompile(`^<((?:https?://|mailto:)[^<>\s]+)>`)
	inCode   = regexp.MustCompile("^(`+)")
)

// span returns the span at the beginning of text and its length. The length is 0 if
// there is no span or it has not ended. whole means that the line has ended.
func (m *markdown) span(text string, whole bool) (stretch, int) {
	switch text[0] {
	case '\\':
		if len(text) > 1 && strings.IndexByte("\\`*_{}[]()#+-.!|<>~", text[1]) >= 0 {
			if !m.style { // because marks are kept, so this one is kept too
				return stretch{text: text[:2]}, 2
			}
			return stretch{text: text[1:2]}, 2
		}
		if len(text) > 1 {
			return stretch{text: text[:1]}, 1
		}
		return stretch{}, 0
	case '`':
		ticks := inCode.FindString(text)
		end := strings.Index(text[len(ticks):], ticks)
		if end < 0 || !whole && len(ticks) == len(text) {
			return stretch{}, 0
		}
		n := end + 2*len(ticks)
		if !m.style {
			return stretch{text: text[:n]}, n
		}
		return stretch{text: strings.Trim(text[len(ticks):len(ticks)+end], " "), code: "36"}, n
	case '[', '!':
		if l := linkText.FindStringSubmatch(text); l != nil {
			return stretch{text: l[1], code: "4", inner: true, link: l[2]}, len(l[0])
		}
		end := strings.IndexByte(text, ']')
		literal := end >= 0 && end+1 < len(text) && text[end+1] != '(' // because it can no longer begin a link
		if text[0] == '!' && len(text) > 1 && text[1] != '[' || text[0] == '[' && literal {
			return stretch{text: text[:1]}, 1
		}
		return stretch{}, 0
	case '<':
		if l := autoLink.FindStringSubmatch(text); l != nil {
			return stretch{text: l[1], code: "4"}, len(l[0])
		}
		if !strings.HasPrefix("<http", text[:min(5, len(text))]) && !strings.HasPrefix("<mail", text[:min(5, len(text))]) {
			return stretch{text: text[:1]}, 1
		}
		return stretch{}, 0
	}
	return m.emphasis(text, whole)
}

// emphasis returns the span of *, _ or ~ at the beginning of text, like
// [markdown.span].
func (m *markdown) emphasis(text string, whole bool) (stretch, int) {
	c := text[0]
	marks := len(text) - len(strings.TrimLeft(text, string(c)))
	rest := text[marks:]
	if rest == "" && !whole {
		return stretch{}, 0
	}
	next, _ := utf8.DecodeRuneInString(rest)
	codes := map[int]string{1: "3", 2: "1", 3: "1;3"}
	if c == '~' {
		codes = map[int]string{2: "9"}
	}
	letter := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	if rest == "" || codes[marks] == "" || unicode.IsSpace(next) || c == '_' && letter(m.before) {
		return stretch{text: text[:marks]}, marks
	}
	closing := text[:marks]
	for from := 1; from < len(rest); {
		i := strings.Index(rest[from:], closing)
		if i < 0 {
			break
		}
		i += from
		last, _ := utf8.DecodeLastRuneInString(rest[:i])
		after, _ := utf8.DecodeRuneInString(rest[i+marks:])
		if i+marks == len(rest) && !whole {
			return stretch{}, 0 // because the next character decides
		}
		switch {
		case unicode.IsSpace(last), last == '\\', c == '_' && letter(after), after == rune(c):
			from = i + marks
			for from < len(rest) && rest[from] == c {
				from++
			}
			continue
		}
		n := 2*marks + i
		if !m.style {
			return stretch{text: text[:n]}, n
		}
		return stretch{text: rest[:i], code: codes[marks], inner: true}, n
	}
	return stretch{}, 0
}

// text adds text without marks, and prints its words except the last one.
func (m *markdown) text(s, code string) {
	for s != "" {
		at := strings.IndexFunc(s, func(r rune) bool { return r == ' ' || r == '\t' })
		if at != 0 {
			piece := s
			if at > 0 {
				piece = s[:at]
			}
			if last := len(m.word) - 1; last >= 0 && m.word[last].code == code {
				m.word[last].text += piece
			} else {
				m.word = append(m.word, stretch{text: piece, code: code})
			}
			m.wide += ansi.StringWidth(piece)
			m.before, _ = utf8.DecodeLastRuneInString(piece)
			s = s[len(piece):]
			continue
		}
		m.endWord()
		n := len(s) - len(strings.TrimLeft(s, " \t"))
		m.space += s[:n]
		m.before = ' '
		s = s[n:]
	}
}

func (m *markdown) endWord() {
	if len(m.word) == 0 {
		return
	}
	gap := 0
	for _, r := range m.space {
		if gap++; r == '\t' {
			gap += 7 - (m.col+gap-1)%8
		}
	}
	if begin := ansi.StringWidth(m.prefix); m.col+gap+m.wide > m.columns && m.col > begin {
		m.b.WriteString("\n" + m.prefix)
		m.col = begin
	} else {
		m.b.WriteString(m.space)
		m.col += gap
	}
	for _, s := range m.word {
		if s.code != "" {
			s.text = m.style.paint(s.code, s.text)
		}
		m.b.WriteString(s.text)
	}
	m.col += m.wide
	m.word, m.wide, m.space = m.word[:0], 0, ""
}

func (m *markdown) newline() {
	m.b.WriteByte('\n')
	m.col, m.space = 0, ""
}

func (m *markdown) endTable() {
	rows := m.table
	m.table = nil
	if len(rows) == 0 {
		return
	}
	if len(rows) < 2 || !ruleOfTable.MatchString(rows[1]) {
		for _, row := range rows {
			m.text(row, "")
			m.endWord()
			m.newline()
		}
		return
	}
	var cells [][]string
	var widths []int
	for i, row := range rows {
		if i == 1 {
			continue
		}
		var line []string
		for j, cell := range splitRow(row) {
			in := &markdown{out: io.Discard, columns: 1 << 30, style: m.style}
			in.put(stretch{text: cell, inner: true}, "")
			in.endWord()
			cell = ansi.Strip(in.b.String())
			line = append(line, cell)
			if j == len(widths) {
				widths = append(widths, 1)
			}
			widths[j] = max(widths[j], ansi.StringWidth(cell))
		}
		cells = append(cells, line)
	}
	m.narrow(widths)
	for i, row := range cells {
		m.row(row, widths, i == 0)
		if i == 0 {
			rule := 2 * (len(widths) - 1)
			for _, w := range widths {
				rule += w
			}
			m.b.WriteString(m.style.dim(strings.Repeat("─", min(rule, m.columns))) + "\n")
		}
	}
}

func (m *markdown) narrow(widths []int) {
	for {
		total, widest := 2*(len(widths)-1), 0
		for i, w := range widths {
			total += w
			if w > widths[widest] {
				widest = i
			}
		}
		if total <= m.columns || widths[widest] <= narrowest {
			return
		}
		widths[widest]--
	}
}

func (m *markdown) row(cells []string, widths []int, head bool) {
	var lines [][]string
	height := 1
	for i, cell := range cells {
		wrapped := strings.Split(ansi.Wrap(cell, widths[i], ""), "\n")
		lines = append(lines, wrapped)
		height = max(height, len(wrapped))
	}
	for y := range height {
		var b strings.Builder
		for i, cell := range lines {
			text := ""
			if y < len(cell) {
				text = cell[y]
			}
			pad := strings.Repeat(" ", max(0, widths[i]-ansi.StringWidth(text))+2)
			if head {
				text = m.style.bold(text)
			}
			b.WriteString(text + pad)
		}
		m.b.WriteString(strings.TrimRight(b.String(), " ") + "\n")
	}
}

func splitRow(line string) []string {
	line = strings.TrimSpace(line)
	line = strings.TrimPrefix(line, "|")
	if strings.HasSuffix(line, "|") && !strings.HasSuffix(line, `\|`) {
		line = line[:len(line)-1]
	}
	cells := strings.Split(strings.ReplaceAll(line, `\|`, "\x00"), "|")
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|"))
	}
	return cells
}
