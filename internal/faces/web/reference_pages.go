package web

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"stoa/internal/base/stoa"
)

// A referencePage is the data for one page of the reference. Group, Operation and Schema are nil on other pages.
type referencePage struct {
	*reference
	Kind      string // index, explorer, tag, operation, schema or one of referenceTables
	Group     *group
	Operation *operation
	Schema    *namedSchema
}

// referencePages contains the pages of the reference by their addresses below [referenceRoot]. Each is rendered on its
// first request, because most are rarely requested, and then served from memory.
type referencePages struct {
	*reference
	files map[string]func() (*file, error)
}

// explorerPage is the name of the explorer among the pages of the reference. No address contains it.
const explorerPage = "/explorer"

// layReference lays out the reference. It parses the contract itself and keeps nothing of it, because the parsed contract
// takes megabytes that most processes never need.
func (s *Site) layReference() (*referencePages, error) {
	doc, err := parse(s.contract.JSON())
	if err != nil {
		return nil, err
	}
	ref, err := newReference(doc)
	if err != nil {
		return nil, err
	}
	pages := &referencePages{ref, map[string]func() (*file, error){}}
	add := func(address, title string, page referencePage) {
		page.reference = ref
		with := pageData{Title: title + " · Stoa API", Summary: "Endpoints, schemas, events and error codes.", Here: "reference", Page: page}
		if page.Kind == "explorer" {
			with.Here = "explorer"
		}
		pages.files[address] = sync.OnceValues(func() (*file, error) { return s.render("reference", with) })
	}
	add("", "Reference", referencePage{Kind: "index"})
	add(explorerPage, "Explorer", referencePage{Kind: "explorer"})
	for _, name := range referenceTables {
		add(name, strings.ToUpper(name[:1])+name[1:], referencePage{Kind: name})
	}
	for i := range ref.Groups {
		g := &ref.Groups[i]
		add(g.Name, g.Name, referencePage{Kind: "tag", Group: g})
		for j := range g.Operations {
			o := &g.Operations[j]
			add(g.Name+"/"+o.ID, o.Summary, referencePage{Kind: "operation", Group: g, Operation: o})
		}
	}
	for i := range ref.Schemas {
		one := &ref.Schemas[i]
		add("schemas/"+one.Name, one.Name, referencePage{Kind: "schema", Schema: one})
	}
	return pages, nil
}

func (s *Site) referenceFile(w http.ResponseWriter, r *http.Request, name string) {
	pages, err := s.reference()
	if err != nil {
		s.refuse(w, stoa.Errorf(stoa.CodeInternal, "the reference could not be rendered"))
		return
	}
	render := pages.files[name]
	if render == nil {
		s.notFound(w, r)
		return
	}
	s.rendered(render, "")(w, r)
}

func (s *Site) referencePage(w http.ResponseWriter, r *http.Request) {
	s.referenceFile(w, r, r.PathValue("page"))
}

// explorer serves the explorer: the index of the reference, whose script shows operations with their forms.
func (s *Site) explorer(w http.ResponseWriter, r *http.Request) {
	s.referenceFile(w, r, explorerPage)
}

// search returns up to [maxFound] operations that contain all words of a search of the guides.
func (p *referencePages) search(query string) []operation {
	words := strings.Fields(strings.ToLower(query))
	var found []operation
	for _, g := range p.Groups {
		for _, o := range g.Operations {
			text := o.Words()
			missing := func(word string) bool { return !strings.Contains(text, word) }
			if len(words) > 0 && len(found) < maxFound && !slices.ContainsFunc(words, missing) {
				found = append(found, o)
			}
		}
	}
	return found
}
