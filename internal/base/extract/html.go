package extract

import (
	"iter"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// htmlText returns the text of an HTML document as Markdown, without scripts, styles,
// navigation and templates.
func htmlText(s string) string {
	root, err := html.ParseWithOptions(strings.NewReader(s), html.ParseOptionEnableScripting(false))
	if err != nil { // its elements are nested too deeply
		return htmlWords(s)
	}
	p := page{layout: map[*html.Node]bool{}}
	p.findLayout(root)
	p.node(root)
	return strings.TrimSpace(p.b.String())
}

// htmlWords returns the texts between the tags of HTML, one per line, because HTML that is nested too deeply has no tree.
func htmlWords(s string) string {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(s))
	within := ""
	for {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.StartTagToken:
			name, _ := z.TagName()
			within = string(name)
		case html.EndTagToken:
			within = ""
		case html.TextToken:
			text := oneLine(string(z.Text()))
			if text != "" && within != "script" && within != "style" && within != "noscript" {
				b.WriteString(text + "\n")
			}
		}
	}
}

type page struct {
	b     strings.Builder
	pre   int       // open elements whose white space counts
	list  int       // open lists
	cells *[]string // of the open row of a table
	grid  []int     // of the open table: the rows in which a cell above still covers a column
	table bool      // the open row is one of this table, and not of a table within a cell
	space bool      // white space precedes the next text
	empty int       // line ends at the end of b
	item  int       // length of b after the mark of an item of a list

	layout map[*html.Node]bool // rows whose cells are parts of the page, and not of a table
}

// blocks are the elements that begin and end a line; those with true have an empty line around
// them.
var blocks = map[atom.Atom]bool{
	atom.P: true, atom.Ul: true, atom.Ol: true, atom.Table: true, atom.Blockquote: true, atom.Pre: true, atom.Dl: true, atom.Figure: true,
	atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true, atom.Hr: true,
	atom.Article: true, atom.Section: true, atom.Div: false, atom.Li: false, atom.Tr: false, atom.Dt: false, atom.Dd: false,
	atom.Header: false, atom.Footer: false, atom.Main: false, atom.Aside: false, atom.Address: false, atom.Form: false, atom.Fieldset: false,
	atom.Figcaption: false, atom.Caption: false, atom.Details: false, atom.Summary: false, atom.Body: false, atom.Option: false,
}

// node writes a node and its children. It may recurse, because the parser limits the depth.
func (p *page) node(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		p.text(n.Data)
		return
	case html.DocumentNode:
		p.children(n)
		return
	case html.ElementNode:
	default:
		return
	}
	switch n.DataAtom {
	case atom.Script, atom.Style, atom.Nav, atom.Template, atom.Noscript, atom.Svg, atom.Iframe, atom.Object, atom.Textarea:
		return
	case atom.Canvas, atom.Video, atom.Audio, atom.Noframes, atom.Noembed, atom.Annotation, atom.AnnotationXml: // browsers show none of the texts in them
		return
	case atom.Ruby:
		p.ruby(n)
		return
	case atom.Title:
		if t := content(n); t != "" {
			p.lines(2)
			p.text(t)
			p.lines(2)
		}
		return
	case atom.Head, atom.Html:
		p.children(n)
		return
	case atom.Br:
		if p.cells != nil {
			p.space = true
		} else {
			p.end()
		}
		return
	case atom.Img:
		p.text(htmlAttr(n, "alt"))
		return
	case atom.Td, atom.Th:
		if p.cells != nil && p.table {
			p.cell(n)
			return
		} else if p.cells != nil { // of a table within a cell
			p.children(n)
			p.text(" | ")
			return
		}
	case atom.Table, atom.Thead, atom.Tbody, atom.Tfoot: // a cell covers none below its group of rows
		if p.cells == nil && !p.headContinues(n) {
			p.grid = nil
		}
	}
	for _, a := range n.Attr {
		if a.Key == "hidden" && a.Val != "until-found" {
			return
		}
	}
	wide, block := blocks[n.DataAtom]
	p.around(block, wide)
	switch n.DataAtom {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		if p.cells != nil {
			p.children(n)
		} else if t := p.apart(n); t != "" {
			p.write(strings.Repeat("#", int(n.Data[1]-'0')) + " " + t)
		}
	case atom.Tr:
		p.row(n)
	case atom.Li:
		if p.cells != nil {
			p.text(" - ")
			p.children(n)
			break
		}
		p.write(strings.Repeat("  ", max(p.list-1, 0)) + "- ")
		p.item = p.b.Len()
		p.children(n)
	case atom.Ul, atom.Ol:
		p.list++
		p.children(n)
		p.list--
	case atom.Pre:
		p.pre++
		p.children(n)
		p.pre--
	default:
		p.children(n)
	}
	p.around(block, wide)
}

func (p *page) children(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		p.node(c)
	}
}

func (p *page) around(block, wide bool) {
	switch {
	case !block:
	case p.cells != nil:
		p.space = true
	case wide && p.list == 0:
		p.lines(2)
	default:
		p.lines(1)
	}
}

func (p *page) row(n *html.Node) {
	if p.cells != nil { // of a table within a cell
		p.text(" | ")
		p.children(n)
		return
	}
	if p.layout[n] {
		grid := p.grid
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			p.lines(2)
			p.children(c)
		}
		p.lines(2)
		p.grid = grid
		return
	}
	var row []string
	p.cells, p.table = &row, true
	p.children(n)
	p.cover()
	for i := len(row); i < len(p.grid); i++ {
		p.grid[i] = max(0, p.grid[i]-1)
	}
	p.cells, p.table = nil, false
	if strings.Join(row, "") != "" {
		p.write(cells(row))
	}
}

// findLayout finds the rows that arrange parts of a page, and returns the most rows of a table of values within a node. A
// row is one if it contains a table with more rows than its own table has, or beside empty cells, or if its table has one
// column of blocks.
func (p *page) findLayout(n *html.Node) (most int) {
	if n.DataAtom == atom.Table {
		return p.findRows(n)
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		most = max(most, p.findLayout(c))
	}
	return most
}

func (p *page) findRows(table *html.Node) (most int) {
	var rows []*html.Node
	for c := table.FirstChild; c != nil; c = c.NextSibling {
		switch c.DataAtom {
		case atom.Tbody, atom.Thead, atom.Tfoot:
			for r := c.FirstChild; r != nil; r = r.NextSibling {
				if r.DataAtom == atom.Tr {
					rows = append(rows, r)
				}
			}
		default:
			most = max(most, p.findLayout(c))
		}
	}
	wide := 0
	for _, row := range rows {
		cells := 0
		for range cellsOf(row) {
			cells++
		}
		if cells > 1 {
			wide++
		}
	}
	narrow := wide == 0
	for _, row := range rows {
		inner := p.findLayout(row)
		if most = max(most, inner); inner == 0 && !narrow {
			continue
		}
		full, block := 0, false
		for c := range cellsOf(row) {
			if within(c, func(n *html.Node) bool { return n.Type == html.TextNode && strings.TrimSpace(n.Data) != "" }) {
				full++
			}
			block = block || within(c, func(n *html.Node) bool { _, ok := blocks[n.DataAtom]; return ok })
		}
		if inner > 0 && (full < 2 || inner > len(rows)) || narrow && block {
			p.layout[row] = true
		}
	}
	if wide > 1 {
		most = max(most, len(rows))
	}
	return most
}

func cellsOf(row *html.Node) iter.Seq[*html.Node] {
	return func(yield func(*html.Node) bool) {
		for c := row.FirstChild; c != nil; c = c.NextSibling {
			if (c.DataAtom == atom.Td || c.DataAtom == atom.Th) && !yield(c) {
				return
			}
		}
	}
}

func within(n *html.Node, is func(*html.Node) bool) bool {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if is(c) || within(c, is) {
			return true
		}
	}
	return false
}

const maxSpan = 100

func (p *page) cell(n *html.Node) {
	p.cover()
	at := len(*p.cells)
	*p.cells = append(*p.cells, p.apart(n))
	rows := span(n, "rowspan")
	for i := range span(n, "colspan") {
		if i > 0 {
			*p.cells = append(*p.cells, "")
		}
		for len(p.grid) <= at+i {
			p.grid = append(p.grid, 0)
		}
		p.grid[at+i] = rows - 1
	}
}

// headContinues reports whether a body begins with a row of the head, as LibreOffice writes a head of two rows: its cells
// fit between those that the cells above cover. See findings/libreoffice-html-heads.sh.
func (p *page) headContinues(body *html.Node) bool {
	free := 0
	for _, rows := range p.grid {
		if rows == 0 {
			free++
		}
	}
	row := body.FirstChild
	for row != nil && row.DataAtom != atom.Tr {
		row = row.NextSibling
	}
	if row == nil || free == len(p.grid) {
		return false
	}
	for c := row.FirstChild; c != nil; c = c.NextSibling {
		if c.DataAtom == atom.Td {
			return false
		} else if c.DataAtom == atom.Th {
			free -= span(c, "colspan")
		}
	}
	return free == 0
}

func (p *page) cover() {
	for i := len(*p.cells); i < len(p.grid) && p.grid[i] > 0; i++ {
		*p.cells = append(*p.cells, "")
		p.grid[i]--
	}
}

func span(n *html.Node, name string) int {
	v, err := strconv.Atoi(strings.TrimSpace(htmlAttr(n, name)))
	switch {
	case err == nil && v == 0 && name == "rowspan": // up to the end of its group
		return maxSpan
	case err != nil || v < 1:
		return 1
	}
	return min(v, maxSpan)
}

// ruby writes letters with their readings, and joins the elements that follow directly, so that a word stays whole: the
// reading follows in brackets.
func (p *page) ruby(n *html.Node) {
	if before := n.PrevSibling; before != nil && before.DataAtom == atom.Ruby {
		return
	}
	var base, reading strings.Builder
	var read func(n *html.Node, into *strings.Builder)
	read = func(n *html.Node, into *strings.Builder) {
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			switch {
			case c.Type == html.TextNode:
				into.WriteString(oneLine(c.Data))
			case c.DataAtom == atom.Rp:
			case c.DataAtom == atom.Rt || c.DataAtom == atom.Rtc:
				read(c, &reading)
			default:
				read(c, into)
			}
		}
	}
	for ; n != nil && n.DataAtom == atom.Ruby; n = n.NextSibling {
		read(n, &base)
	}
	if reading.Len() > 0 {
		base.WriteString("(" + reading.String() + ")")
	}
	p.text(base.String())
}

func (p *page) apart(n *html.Node) string {
	inner := page{cells: &[]string{}}
	inner.children(n)
	return oneLine(inner.b.String())
}

func (p *page) text(s string) {
	if p.pre > 0 && p.cells == nil {
		p.write(s)
		return
	}
	words := strings.FieldsFunc(s, htmlSpace)
	if len(words) == 0 {
		p.space = p.space || s != ""
		return
	}
	before := p.space || htmlSpace(rune(s[0]))
	if before && p.b.Len() > 0 && p.empty == 0 {
		p.b.WriteByte(' ')
	}
	p.write(strings.Join(words, " "))
	p.space = htmlSpace(rune(s[len(s)-1]))
}

func htmlSpace(r rune) bool { return r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '\f' }

func (p *page) write(s string) {
	if s == "" {
		return
	}
	p.b.WriteString(s)
	p.empty = len(s) - len(strings.TrimRight(s, "\n"))
	p.space = false
}

func (p *page) end() {
	p.b.WriteByte('\n')
	p.empty++
	p.space = false
}

func (p *page) lines(n int) {
	for p.b.Len() > p.item && p.empty < n { // the text of an item follows its mark
		p.end()
	}
	p.space = false
}

func content(n *html.Node) string {
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return oneLine(b.String())
}

func htmlAttr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
