package extract

import (
	"encoding/xml"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// readDOCX returns the text of a document of Word: its body, its charts, its notes and comments,
// then its headers and footers, each text once.
func (a *archive) readDOCX(main string) Result {
	var f flow
	w := &walker{f: &f, styles: a.styles(main), numbers: a.numbers(main)}
	r, err := a.open(main)
	if err == nil {
		err = w.read(r)
	}
	w.any = a.charts(&f, main) || w.any
	for _, kind := range []string{"footnotes", "endnotes", "comments"} {
		part := a.related(main, kind)
		if part == "" || err != nil {
			continue
		}
		w.note = kind[:1]
		if r, noteErr := a.open(part); noteErr == nil {
			err = w.read(r)
		}
	}
	seen := map[string]bool{}
	for _, part := range a.relations(main) {
		title := map[string]string{"header": "Header: ", "footer": "Footer: "}[path.Base(part.kind)]
		r, openErr := a.open(part.target)
		if title == "" || openErr != nil || err != nil {
			continue
		}
		var lines flow
		one := &walker{f: &lines, styles: w.styles, numbers: w.numbers, plain: true}
		err = one.read(r)
		if text := strings.TrimSpace(lines.b.String()); text != "" && !seen[text] {
			seen[text], w.any = true, true
			f.line("")
			f.line(title + text)
		}
	}
	return a.outcome(&f, 0, !w.any, err, "DOCX file")
}

type style struct {
	level int    // level of a heading, from 1; 0 for others
	list  string // numId of its list; "0" for none, "" for that of base
	depth int    // level of the list
	base  string
}

func (a *archive) styles(main string) map[string]style {
	r, err := a.open(a.related(main, "styles"))
	if err != nil {
		return nil
	}
	styles := map[string]style{}
	x := xml.NewDecoder(r)
	var id string
	var s style
	for {
		t, err := x.Token()
		if err != nil {
			break
		}
		switch e := t.(type) {
		case xml.StartElement:
			value := attr(e, "val")
			switch e.Name.Local {
			case "style":
				id, s = attr(e, "styleId"), style{}
			case "name":
				if n, ok := strings.CutPrefix(strings.ToLower(value), "heading "); ok {
					s.level, _ = strconv.Atoi(n)
				} else if strings.EqualFold(value, "title") {
					s.level = 1
				}
			case "basedOn":
				s.base = value
			case "outlineLvl":
				if n, err := strconv.Atoi(value); err == nil && s.level == 0 && n < 9 {
					s.level = n + 1
				}
			case "numId":
				s.list = value
			case "ilvl":
				s.depth, _ = strconv.Atoi(value)
			}
		case xml.EndElement:
			if e.Name.Local == "style" && id != "" {
				styles[id] = s
			}
		}
	}
	for id, s := range styles {
		for range 10 {
			base, ok := styles[s.base]
			if !ok || s.level > 0 && s.list != "" {
				break
			}
			if s.level == 0 {
				s.level = base.level
			}
			if s.list == "" {
				s.list, s.depth = base.list, base.depth
			}
			s.base = base.base
		}
		styles[id] = s
	}
	return styles
}

// A walker writes the text of a part in WordprocessingML or DrawingML as Markdown. Both have
// the same local names of paragraphs, runs and tables.
type walker struct {
	f       *flow
	styles  map[string]style
	numbers *numbering // empty in presentations
	title   int        // level of the paragraphs as headings; 0 outside of titles
	plain   bool       // headings have no marks
	note    string     // prefix of the numbers of notes: "f", "e" or "c"; "" in the body
	any     bool       // there was a text
	shape   func(e xml.StartElement) (skip bool)

	path    []string        // names of the open elements
	paras   []*para         // open paragraphs: a text box is within one
	tables  []*table        // open tables: one may be within a cell of another
	reading strings.Builder // of the letters before, as Japanese has it; it is written in brackets after them
	list    bool            // the last line is an item of a list
	pending string          // number of a note, which precedes the next paragraph
}

// A para is an open paragraph. Slices contain pointers to it, because a copy of a strings.Builder in use panics.
type para struct {
	text   strings.Builder
	level  int // level as a heading
	list   bool
	number string // numId of the list in a document
	depth  int    // level as an item of a list
	quiet  bool
	joined bool // its end is deleted, so that it is a part of the next one
}

type table struct {
	row  []string
	cell strings.Builder
	span int // columns that the open cell covers
}

// skipped are the elements whose texts are not part of the document: deleted and moved texts,
// earlier formats, instructions of fields, and the second form of a drawing.
var skipped = []string{
	"del", "moveFrom", "delText", "instrText", "delInstrText", "Fallback", "rPrChange", "pPrChange", "tblPrChange", "sectPrChange",
	"tcPrChange", "trPrChange", "sectPr", "tblPr", "tabs", "tabLst",
}

const maxDepth = 2000

// read adds the text of a part. It recovers from a panic with [errReader], so that the text before it is kept.
func (w *walker) read(r io.Reader) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = reportPanic(fault)
		}
	}()
	w.path, w.paras, w.tables = nil, nil, nil
	x := xml.NewDecoder(r)
	for !w.f.full {
		t, err := x.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch e := t.(type) {
		case xml.StartElement:
			name := e.Name.Local
			if slices.Contains(skipped, name) && !keptProperty(name, w.path) || w.shape != nil && w.shape(e) {
				if err := x.Skip(); err != nil {
					return err
				}
				continue
			}
			if w.path = append(w.path, name); len(w.path) > maxDepth {
				return errTooMuch
			}
			w.start(e)
		case xml.EndElement:
			if len(w.path) > 0 {
				w.path = w.path[:len(w.path)-1]
			}
			w.end(e.Name.Local)
		case xml.CharData:
			if n := len(w.path); n > 0 && w.path[n-1] == "t" {
				w.add(string(e))
			}
		}
	}
	return nil
}

// keptProperty reports whether a name means something else at its place: "del" within the
// properties of a run marks the end of a paragraph as deleted.
func keptProperty(name string, at []string) bool {
	return name == "del" && len(at) > 0 && at[len(at)-1] == "rPr"
}

func (w *walker) current() *para {
	if len(w.paras) == 0 {
		return nil
	}
	return w.paras[len(w.paras)-1]
}

// add appends a text to the open paragraph. A reading waits until a text without one follows, so that words stay whole.
func (w *walker) add(s string) {
	p := w.current()
	switch {
	case p == nil || p.quiet:
	case slices.Contains(w.path, "rt"):
		w.reading.WriteString(s)
	case slices.Contains(w.path, "rubyBase"):
		p.text.WriteString(s)
	default:
		w.endReading(p)
		p.text.WriteString(s)
	}
}

func (w *walker) endReading(p *para) {
	if w.reading.Len() > 0 {
		p.text.WriteString("(" + w.reading.String() + ")")
		w.reading.Reset()
	}
}

func (w *walker) start(e xml.StartElement) {
	p := w.current()
	within := ""
	if n := len(w.path); n > 1 {
		within = w.path[n-2]
	}
	switch name := e.Name.Local; name {
	case "p":
		w.paras = append(w.paras, &para{level: w.title})
	case "tbl":
		if w.list && len(w.tables) == 0 {
			w.f.line("")
			w.list = false
		}
		w.tables = append(w.tables, &table{})
	case "gridSpan", "gridBefore":
		n, err := strconv.Atoi(attr(e, "val"))
		if err != nil || n < 1 || len(w.tables) == 0 {
			break
		}
		t := w.tables[len(w.tables)-1]
		if name == "gridSpan" {
			t.span = min(n, maxSpan)
		} else {
			t.row = append(t.row, make([]string, min(n, maxSpan))...)
		}
	case "footnote", "endnote":
		if kind := attr(e, "type"); kind == "" || kind == "normal" {
			w.pending = "[^" + w.note + attr(e, "id") + "]: "
		}
	case "comment":
		w.pending = "[^c" + attr(e, "id") + "]: "
		if author := oneLine(attr(e, "author")); author != "" {
			w.pending += author + ": "
		}
	case "footnoteReference", "endnoteReference", "commentReference":
		w.add("[^" + name[:1] + attr(e, "id") + "]")
	case "tab":
		w.add("\t")
	case "br", "cr":
		w.add("\n")
	case "noBreakHyphen":
		w.add("-")
	case "r":
		if p != nil {
			p.quiet = false
		}
	}
	if p == nil {
		return
	}
	switch value := attr(e, "val"); e.Name.Local {
	case "pStyle":
		s := w.styles[value]
		p.level, p.number, p.depth = max(p.level, s.level), s.list, s.depth
		if depth, ok := w.numbers.styled[value]; ok {
			p.depth = depth
		}
	case "outlineLvl":
		if n, err := strconv.Atoi(value); err == nil && n < 9 && within == "pPr" {
			p.level = max(p.level, n+1)
		}
	case "numId":
		p.number = value
	case "ilvl":
		p.depth, _ = strconv.Atoi(value)
	case "del":
		p.joined = true
	case "buChar", "buAutoNum":
		p.list = true
	case "pPr":
		if n, err := strconv.Atoi(attr(e, "lvl")); err == nil {
			p.list, p.depth = n > 0, n
		}
	case "vanish":
		p.quiet = within == "rPr" && len(w.path) > 2 && w.path[len(w.path)-3] == "r" && value != "0" && value != "false"
	}
}

func (w *walker) end(name string) {
	switch {
	case name == "r" && len(w.paras) > 0:
		w.current().quiet = false
	case name == "p" && len(w.paras) > 0:
		p := w.current()
		w.endReading(p)
		w.paragraph(p)
		w.paras = w.paras[:len(w.paras)-1]
	case name == "tc" && len(w.tables) > 0:
		t := w.tables[len(w.tables)-1]
		t.row = append(append(t.row, t.cell.String()), make([]string, max(1, t.span)-1)...)
		t.cell.Reset()
		t.span = 0
	case name == "tr" && len(w.tables) > 0:
		t := w.tables[len(w.tables)-1]
		row := cells(t.row)
		t.row = nil
		if len(w.tables) > 1 { // a table within a cell
			w.tables[len(w.tables)-2].cell.WriteString(row + " ")
		} else if strings.Trim(row, " |") != "" {
			w.f.line(row)
			w.any = true
		}
	case name == "tbl" && len(w.tables) > 0:
		if w.tables = w.tables[:len(w.tables)-1]; len(w.tables) == 0 {
			w.f.line("")
		}
	}
}

func (w *walker) paragraph(p *para) {
	text := strings.TrimSpace(p.text.String())
	number := ""
	if p.number != "" && p.number != "0" && !p.joined {
		p.list = true
		number = w.numbers.next(p.number, p.depth) // also for empty paragraphs, because Word counts them
	}
	if text == "" {
		return
	}
	w.any = true
	if number != "" {
		text = number + " " + text
	}
	if len(w.tables) > 0 {
		w.tables[len(w.tables)-1].cell.WriteString(text + " ")
		return
	}
	list := p.list && p.level == 0 && w.pending == ""
	if w.list && !list {
		w.f.line("")
	}
	w.list = list
	switch {
	case p.level > 0 && !w.plain:
		text = strings.Repeat("#", min(p.level, 6)) + " " + oneLine(text)
	case list:
		if number == "" {
			text = "- " + text
		}
		text = strings.Repeat("  ", min(max(p.depth, 0), 8)) + text
	}
	w.f.line(w.pending + text)
	if !list {
		w.f.line("")
	}
	w.pending = ""
}
