package extract

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// readPPTX returns the text of a presentation: its slides in their order, each with its notes.
func (a *archive) readPPTX(main string) Result {
	var f flow
	any, failed := false, error(nil)
	slides := a.slides(main)
	for i, part := range slides[:min(len(slides), MaxPages)] {
		f.place(Place{Name: fmt.Sprintf("slide %d", i+1), Page: int64(i + 1)})
		f.line(fmt.Sprintf("[slide %d]", i+1))
		had, err := a.slide(&f, part)
		any = any || had
		if err != nil {
			failed = err
		}
		if notes := a.related(part, "notesSlide"); notes != "" && err == nil {
			var n flow
			if had, err = a.slide(&n, notes); had {
				any = true
				f.line("Notes: " + n.b.String())
			}
			if err != nil {
				failed = err
			}
		}
	}
	f.full = f.full || len(slides) > MaxPages
	if len(slides) == 0 {
		return broken("PPTX file")
	}
	return a.outcome(&f, int64(len(slides)), !any, failed, "PPTX file")
}

func (a *archive) slides(main string) (parts []string) {
	target := map[string]string{}
	for _, r := range a.relations(main) {
		target[r.id] = r.target
	}
	r, err := a.open(main)
	if err != nil {
		return nil
	}
	for e := range elements(r, "sldId") {
		for _, at := range e.Attr {
			if part := target[at.Value]; at.Name.Local == "id" && at.Name.Space != "" && part != "" && !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
	}
	return parts
}

func (a *archive) slide(f *flow, part string) (bool, error) {
	r, err := a.open(part)
	if err != nil {
		return false, err
	}
	w := &walker{f: f, numbers: &numbering{}}
	repeated := false // the shape has the number, date or footer of every slide
	w.shape = func(e xml.StartElement) bool {
		switch e.Name.Local {
		case "sp", "graphicFrame", "pic":
			w.title, repeated = 0, false
		case "ph":
			switch attr(e, "type") {
			case "title", "ctrTitle":
				w.title = 1
			case "sldNum", "dt", "ftr", "hdr":
				repeated = true
			}
		case "txBody":
			return repeated
		}
		return false
	}
	err = w.read(r)
	for _, r := range a.relations(part) {
		if err == nil && strings.HasSuffix(r.kind, "/diagramData") {
			if data, openErr := a.open(r.target); openErr == nil {
				w.title = 0
				err = w.read(data)
			}
		}
	}
	return a.charts(f, part) || w.any, err
}
