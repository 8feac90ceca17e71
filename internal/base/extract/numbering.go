package extract

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A numbering contains the numbers that Word shows before paragraphs, because their texts do not include them.
type numbering struct {
	lists  map[string]*list // by the numId of paragraphs
	styled map[string]int   // levels that belong to a style, by its id
}

// A list is a numId: a use of a definition. Several uses continue one count.
type list struct {
	*definition             // nil for an unknown one
	restart     map[int]int // levels that begin again with the list, with their first numbers
}

// A definition is an abstractNum of numbering.xml.
type definition struct {
	levels [9]level
	counts [9]int // paragraphs of each level since it began
}

const (
	maxLists  = 10_000 // definitions and lists
	maxNumber = 200    // bytes of the form of a number
)

// A level is the form of the numbers of a level, such as "%1.%2" and "decimal".
type level struct {
	start        int
	format, text string
	decimal      bool // all numbers in it are in digits
}

// numbers returns the numbering of a document, which is empty without one.
func (a *archive) numbers(main string) *numbering {
	n := &numbering{lists: map[string]*list{}, styled: map[string]int{}}
	if r, err := a.open(a.related(main, "numbering")); err == nil {
		n.read(r)
	}
	return n
}

// read reads numbering.xml up to its first error. A definition precedes its uses.
func (n *numbering) read(r io.Reader) {
	definitions := map[string]*definition{}
	var d *definition
	var l *list
	at := &level{}
	depth := 0
	x := xml.NewDecoder(r)
	for len(definitions)+len(n.lists) < maxLists {
		t, err := x.Token()
		if err != nil {
			return
		}
		e, ok := t.(xml.StartElement)
		if !ok {
			continue
		}
		value := attr(e, "val")
		number, _ := strconv.Atoi(value)
		switch e.Name.Local {
		case "abstractNum":
			d, l = &definition{}, nil
			definitions[attr(e, "abstractNumId")] = d
		case "num":
			d, l = nil, &list{restart: map[int]int{}}
			n.lists[attr(e, "numId")] = l
		case "abstractNumId":
			if l != nil {
				l.definition = definitions[value]
			}
		case "lvl", "lvlOverride":
			depth, _ = strconv.Atoi(attr(e, "ilvl"))
			at = &level{}
			if d != nil && depth >= 0 && depth < len(d.levels) {
				at = &d.levels[depth]
				at.start = 1
			}
		case "startOverride":
			if l != nil {
				l.restart[depth] = number
			}
		case "start":
			at.start = number
		case "numFmt":
			at.format = value
		case "lvlText":
			if len(value) <= maxNumber {
				at.text = value
			}
		case "isLgl":
			at.decimal = value != "0" && value != "false"
		case "pStyle":
			if d != nil {
				n.styled[value] = depth
			}
		}
	}
}

// next returns the number of the next paragraph of a list, such as "2.1" or "(a)"; "" for
// bullets and without a number.
func (n *numbering) next(id string, depth int) string {
	l := n.lists[id]
	if l == nil || l.definition == nil || depth < 0 || depth >= len(l.levels) {
		return ""
	}
	if first, ok := l.restart[depth]; ok {
		l.counts[depth], l.levels[depth].start = 0, first
		delete(l.restart, depth)
	}
	l.counts[depth]++
	clear(l.counts[depth+1:])
	at := l.levels[depth]
	if at.format == "bullet" || at.format == "none" {
		return ""
	}
	text := at.text
	for i := range depth + 1 {
		above := l.levels[i]
		if at.decimal {
			above.format = "decimal"
		}
		number := above.start + max(l.counts[i]-1, 0)
		text = strings.ReplaceAll(text, fmt.Sprintf("%%%d", i+1), formatted(number, above.format))
	}
	return strings.TrimSpace(text)
}

// formatted returns a number in one of Word's formats; in digits for those of other languages.
func formatted(n int, format string) string {
	s := ""
	switch format {
	case "decimalZero":
		return fmt.Sprintf("%02d", n)
	case "lowerLetter", "upperLetter":
		if n > 0 && n <= 26*10 { // z is followed by aa, then bb
			s = strings.Repeat(string(rune('a'+(n-1)%26)), (n-1)/26+1)
		}
	case "lowerRoman", "upperRoman":
		if n > 0 && n < 4000 {
			s = roman(n)
		}
	}
	switch {
	case s == "":
		return strconv.Itoa(n)
	case strings.HasPrefix(format, "upper"):
		return strings.ToUpper(s)
	}
	return s
}

func roman(n int) string {
	var b strings.Builder
	for _, d := range []struct {
		value  int
		letter string
	}{{1000, "m"}, {900, "cm"}, {500, "d"}, {400, "cd"}, {100, "c"}, {90, "xc"}, {50, "l"}, {40, "xl"}, {10, "x"}, {9, "ix"}, {5, "v"}, {4, "iv"}, {1, "i"}} {
		for ; n >= d.value; n -= d.value {
			b.WriteString(d.letter)
		}
	}
	return b.String()
}
