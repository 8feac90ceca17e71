package extract

import (
	"strings"
	"unicode/utf8"
)

// A flow is the text of a document while it is read. It stops at MaxText.
type flow struct {
	b      strings.Builder
	lines  int64 // line ends in b
	places []Place
	full   bool // something was left out
}

func (f *flow) write(s string) {
	if f.full {
		return
	}
	if room := MaxText - f.b.Len(); len(s) > room {
		f.full = true
		for room > 0 && !utf8.RuneStart(s[room]) {
			room--
		}
		s = s[:room]
	}
	f.lines += int64(strings.Count(s, "\n"))
	f.b.WriteString(s)
}

func (f *flow) line(s string) { f.write(s + "\n") }

func (f *flow) place(p Place) {
	if f.full {
		return
	}
	p.Line = f.lines + 1
	f.places = append(f.places, p)
}

// result returns what was read; pages are in the whole document.
func (f *flow) result(pages int64, empty bool) Result {
	r := Result{Status: Ready, Text: []byte(f.b.String()), Pages: pages, Places: f.places}
	switch {
	case empty:
		r.Status, r.Text, r.Places = Empty, nil, nil
		r.Note = "The document contains no text."
	case f.full:
		r.Status = Partial
		if r.Note = "Only the beginning of the text was read: the document is too long."; f.b.Len() == 0 {
			r.Text = nil
		}
	}
	return r
}

// oneLine replaces line ends and repeated white space by single spaces.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func cells(row []string) string {
	for i, c := range row {
		row[i] = strings.ReplaceAll(oneLine(c), "|", `\|`)
	}
	return "| " + strings.Join(row, " | ") + " |"
}
