package extract

import (
	"encoding/xml"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Limits of a chart, those of Excel.
const (
	maxSeries = 255
	maxPoints = 32_000 // per series
)

type chart struct {
	title  string
	series []series
}

// A series is a line or a group of bars: a name, and a category and a value for each point, by
// its number from 0.
type series struct {
	name               string
	categories, values map[int]string
}

// charts writes the charts of a document or of a slide as tables and reports whether there were any. It leaves out a
// damaged chart, so that the rest of the document is still read.
func (a *archive) charts(f *flow, part string) (any bool) {
	for _, r := range a.relations(part) {
		if path.Base(r.kind) != "chart" {
			continue
		}
		c := a.chart(r.target)
		if c.title == "" && len(c.series) == 0 {
			continue
		}
		any = true
		f.line(strings.TrimSpace("[chart " + c.title + "]"))
		c.table(f)
		f.line("")
	}
	return any
}

func (a *archive) chart(part string) (c chart) {
	r, err := a.open(part)
	if err != nil {
		return c
	}
	x := xml.NewDecoder(r)
	var names []string // names of the open elements
	var point int
	within := func(name string) bool { return slices.Contains(names, name) }
	for len(names) < maxDepth {
		t, err := x.Token()
		if err != nil {
			return c
		}
		switch e := t.(type) {
		case xml.StartElement:
			names = append(names, e.Name.Local)
			switch e.Name.Local {
			case "ser":
				c.series = append(c.series, series{categories: map[int]string{}, values: map[int]string{}})
			case "pt":
				if point, err = strconv.Atoi(attr(e, "idx")); err != nil {
					point = -1
				}
			}
		case xml.EndElement:
			names = names[:len(names)-1]
		case xml.CharData:
			text := oneLine(string(e))
			if text == "" || len(names) == 0 || len(c.series) > maxSeries {
				continue
			}
			switch name := names[len(names)-1]; {
			case (name == "t" || name == "v") && within("title") && !within("plotArea"):
				c.title = strings.TrimSpace(c.title + " " + text)
			case name == "v" && within("ser"):
				c.series[len(c.series)-1].add(within, point, text)
			}
		}
	}
	return c
}

func (s *series) add(within func(string) bool, point int, text string) {
	var to map[int]string
	switch {
	case within("tx"):
		s.name = strings.TrimSpace(s.name + " " + text)
		return
	case within("cat"), within("xVal"):
		to = s.categories
	case within("val"), within("yVal"):
		to = s.values
	}
	if to == nil || point < 0 || point >= maxPoints {
		return
	}
	to[point] = strings.TrimSpace(text + " " + to[point]) // the inner category precedes the one that has it
}

func (c chart) table(f *flow) {
	row := []string{""}
	points := 0
	var categories map[int]string
	for _, s := range c.series {
		row = append(row, s.name)
		for i := range s.values {
			points = max(points, i+1)
		}
		if len(s.categories) > len(categories) {
			categories = s.categories
		}
	}
	if points == 0 {
		return
	}
	f.line(cells(row))
	for i := range points {
		row := []string{categories[i]}
		for _, s := range c.series {
			row = append(row, s.values[i])
		}
		f.line(cells(row))
	}
}
