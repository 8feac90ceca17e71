package web

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"stoa/internal/base/contract"
)

// referenceRoot is the address of the reference. Below it are the pages of tags, of their operations and of
// [referenceTables].
const referenceRoot = "/docs/api-openapi"

// referenceTables are the pages of the reference besides those of tags.
var referenceTables = []string{"errors", "events", "schemas"}

// A reference is the contract in the form of the pages below [referenceRoot].
type reference struct {
	Title, Version string
	Description    template.HTML
	Groups         []group
	Events         []eventTable
	Codes          []code
	Schemas        []namedSchema
}

// A group contains the operations with one tag.
type group struct {
	Name        string
	Description template.HTML
	Operations  []operation
}

// An operation is a method of a path.
type operation struct {
	ID, Method, Path, Summary, Scope string
	Tag                              string   // page of its tag
	Secret                           string   // kind of its secret in words; empty if it needs none
	Accepts                          []string // media types among which a header chooses, if one is a stream
	Draft                            string   // body that its form begins with
	Deprecated                       bool
	Description                      template.HTML
	Parameters                       []parameter
	Bodies                           []content // bodies of the request, one for each media type
	BodyRequired                     bool
	BodyNote                         template.HTML
	Answers                          []answer
	Samples                          []sample
}

// Address returns the page of the operation.
func (o operation) Address() string { return referenceRoot + "/" + o.Tag + "/" + o.ID }

// Place returns the address of the operation on the page of its tag.
func (o operation) Place() string { return referenceRoot + "/" + o.Tag + "#" + o.ID }

// Words returns the lower-case text that the page's filter searches in addition to the visible text.
func (o operation) Words() string {
	return strings.ToLower(o.Method + " " + o.Path + " " + o.ID + " " + o.Summary)
}

// A parameter is a path, query or header parameter.
type parameter struct {
	Name, In string
	Required bool
	Schema   *schema
	Note     template.HTML
	Example  string
	Choices  []string // only values, if there are few
}

// A content is a body of one media type.
type content struct {
	Type     string
	Schema   *schema
	Examples []sample
	Stream   bool
	Events   string // address of a stream's table of events; may be empty
}

// An answer is a documented reply.
type answer struct {
	Status  string
	Kind    string // style of its badge: ok, info or failed
	Note    template.HTML
	Codes   []string
	Headers []parameter
	Bodies  []content
	Error   bool // the body is the error envelope, which is not repeated because all errors share it
}

type sample struct{ Title, Text string }

// A code is a row of the table of error codes.
type code struct {
	contract.CodeInfo
	Text template.HTML
}

// An eventTable contains the events of one stream.
type eventTable struct {
	ID, Title string
	Of        string // operation that streams them, in words
	Rows      []eventRow
}

// An eventRow is one event.
type eventRow struct {
	Name   string
	Note   template.HTML
	Schema *schema
}

// A namedSchema is a schema with its own page, to which others link.
type namedSchema struct {
	Name   string
	Schema *schema
}

// Words returns the text that the filter of the page searches.
func (s namedSchema) Words() string { return strings.ToLower(s.Name) }

const methods = "get put post delete patch head options"

// newReference lays the contract document out for pages that are readable without scripts, printable and
// searchable by the browser. It reads the document itself, because OpenAPI libraries for Go store properties in maps
// and lose the order, which is chosen for readers. A named type is expanded on its own page and linked elsewhere, which
// also ends recursion. Descriptions are Markdown without raw HTML.
//
// Each tag, operation and schema gets its own page, because the contract on one page was 136,000 elements, for which
// browsers need half a minute. Redoc was rejected because it loads from other hosts, and pages
// generated into the repository because they would drift.
func newReference(doc *value) (*reference, error) {
	b := &builder{root: doc, prose: newProse()}
	page := b.page()
	if b.err != nil {
		return nil, fmt.Errorf("lay out the reference: %w", b.err)
	}
	return page, nil
}

// A builder converts the document. It keeps the first error, so that the code reads as a list of the page's
// contents.
type builder struct {
	root  *value
	prose prose
	err   error

	summary string       // current operation
	streams []eventTable // streams processed so far
}

func (b *builder) fail(err error) {
	if b.err == nil && err != nil {
		b.err = err
	}
}

func (b *builder) html(text string) template.HTML {
	out, err := b.prose.html(text)
	b.fail(err)
	return out
}

func (b *builder) line(text string) template.HTML {
	html, err := b.prose.html(text)
	s := strings.TrimSpace(string(html))
	if inner, ok := strings.CutPrefix(s, "<p>"); ok && strings.Count(s, "<p>") == 1 && strings.HasSuffix(inner, "</p>") {
		s = strings.TrimSuffix(inner, "</p>")
	}
	out := template.HTML(s)
	b.fail(err)
	return out
}

func (b *builder) follow(v *value) *value {
	if ref := v.str("$ref"); ref != "" {
		found, err := b.root.at(ref)
		b.fail(err)
		return found
	}
	return v
}

func (b *builder) page() *reference {
	page := &reference{
		Title:       b.root.str("info", "title"),
		Version:     b.root.str("info", "version"),
		Description: b.html(b.root.str("info", "description")),
	}
	at := map[string]int{}
	for _, tag := range b.root.list("tags") {
		at[tag.str("name")] = len(page.Groups)
		page.Groups = append(page.Groups, group{Name: tag.str("name"), Description: b.line(tag.str("description"))})
	}
	for _, path := range b.root.all("paths") {
		shared := path.value.list("parameters")
		for _, m := range path.value.members {
			if !slices.Contains(strings.Fields(methods), m.name) {
				continue
			}
			tag := "other"
			if tags := m.value.strs("tags"); len(tags) > 0 {
				tag = tags[0]
			}
			if slices.Contains(referenceTables, tag) {
				b.fail(fmt.Errorf("the tag %q has the address of another page", tag))
			}
			i, ok := at[tag]
			if !ok {
				i = len(page.Groups)
				at[tag] = i
				page.Groups = append(page.Groups, group{Name: tag})
			}
			page.Groups[i].Operations = append(page.Groups[i].Operations, b.operation(tag, path.name, m.name, m.value, shared))
		}
	}
	page.Groups = slices.DeleteFunc(page.Groups, func(g group) bool { return len(g.Operations) == 0 })
	page.Events = b.streams
	for _, c := range contract.Codes() {
		page.Codes = append(page.Codes, code{c, b.line(c.Meaning)})
	}
	for _, s := range b.root.all("components", "schemas") {
		page.Schemas = append(page.Schemas, namedSchema{s.name, b.schema(s.value, 0)})
	}
	return page
}

func (b *builder) operation(tag, path, method string, v *value, shared []*value) operation {
	b.summary = v.str("summary")
	op := operation{
		ID: v.str("operationId"), Tag: tag, Method: strings.ToUpper(method), Path: path,
		Summary: v.str("summary"), Scope: v.str("x-scope"), Deprecated: v.yes("deprecated"),
		Description: b.html(v.str("description")),
	}
	security := v.get("security")
	if security == nil {
		security = b.root.get("security")
	}
	if security != nil && len(security.items) > 0 {
		op.Secret = "API key"
		if security.items[0].get("embedToken") != nil {
			op.Secret = "Embed token"
		}
	}
	for _, p := range append(slices.Clone(shared), v.list("parameters")...) {
		p = b.follow(p)
		op.Parameters = append(op.Parameters, b.parameter(p.str("name"), p.str("in"), p))
	}
	if body := v.get("requestBody"); body != nil {
		body = b.follow(body)
		op.BodyRequired = body.yes("required")
		op.BodyNote = b.line(body.str("description"))
		op.Bodies = b.contents(body, 0)
	}
	for _, r := range v.all("responses") {
		op.Answers = append(op.Answers, b.answer(r.name, r.value))
	}
	example := b.exampleBody(v)
	op.Samples = samplesOf(op, example)
	if example != nil {
		op.Draft = example.pretty()
	}
	for _, a := range op.Answers {
		if op.Method == "GET" && slices.ContainsFunc(a.Bodies, func(c content) bool { return c.Stream }) {
			for _, c := range a.Bodies {
				op.Accepts = append(op.Accepts, c.Type)
			}
		}
	}
	return op
}

func (b *builder) parameter(name, in string, p *value) parameter {
	out := parameter{Name: name, In: in, Required: p.yes("required"), Note: b.line(p.str("description"))}
	if s := p.get("schema"); s != nil {
		out.Schema = b.schema(s, 1)
		s = b.follow(s)
		out.Choices = s.strs("enum")
		if s.str("type") == "boolean" {
			out.Choices = []string{"true", "false"}
		}
	}
	if e := p.get("example"); e != nil {
		out.Example = strings.Trim(e.inline(), `"`)
	}
	return out
}

// contents returns the bodies of a request or a reply. It expands named types at depth 0.
func (b *builder) contents(v *value, depth int) []content {
	var out []content
	for _, m := range v.all("content") {
		c := content{Type: m.name, Stream: m.name == "text/event-stream"}
		if s := m.value.get("schema"); s != nil && !c.Stream {
			c.Schema = b.schema(s, depth)
		}
		if c.Stream {
			c.Events = b.stream(m.value.str("schema", "$ref"))
		}
		if e := m.value.get("example"); e != nil {
			c.Examples = append(c.Examples, sample{"Example", formatExample(e, c.Stream)})
		}
		for _, e := range m.value.all("examples") {
			one := b.follow(e.value)
			if given := one.get("value"); given != nil {
				title := one.str("summary")
				if title == "" {
					title = e.name
				}
				c.Examples = append(c.Examples, sample{title, formatExample(given, c.Stream)})
			}
		}
		out = append(out, c)
	}
	return out
}

// formatExample formats an example: text unchanged, a stream's event with its framing, and anything else as
// JSON.
func formatExample(e *value, stream bool) string {
	if s, ok := e.scalar.(string); ok && e.kind == 's' {
		return s
	}
	if kind := e.str("type"); stream && kind != "" {
		return "event: " + kind + "\ndata: " + e.inline()
	}
	return e.pretty()
}

func (b *builder) answer(status string, v *value) answer {
	envelope := "#/components/schemas/ErrorEnvelope"
	v = b.follow(v)
	out := answer{Status: status, Note: b.line(v.str("description")), Codes: v.strs("x-codes")}
	switch status[0] {
	case '2':
		out.Kind = "ok"
	case '3':
		out.Kind = "info"
	default:
		out.Kind = "failed"
	}
	out.Error = v.str("content", "application/json", "schema", "$ref") == envelope
	if !out.Error {
		out.Bodies = b.contents(v, 1)
	}
	for _, h := range v.all("headers") {
		if !strings.EqualFold(h.name, "x-request-id") { // omitted, because every reply contains it and the page describes it once
			out.Headers = append(out.Headers, b.parameter(h.name, "header", b.follow(h.value)))
		}
	}
	return out
}

// stream adds the events of a stream, once for each type, and returns the address of their table; empty if the
// contract does not distinguish them.
func (b *builder) stream(ref string) string {
	if ref == "" {
		return ""
	}
	v, err := b.root.at(ref)
	b.fail(err)
	if len(v.all("discriminator", "mapping")) == 0 {
		return ""
	}
	name := ref[strings.LastIndexByte(ref, '/')+1:]
	id := "events-" + name
	if !slices.ContainsFunc(b.streams, func(t eventTable) bool { return t.ID == id }) {
		t := eventTable{ID: id, Title: name, Of: b.summary}
		for _, m := range v.all("discriminator", "mapping") {
			ref, _ := m.value.scalar.(string)
			target, err := b.root.at(ref)
			b.fail(err)
			t.Rows = append(t.Rows, eventRow{Name: m.name, Note: b.line(target.str("description")), Schema: b.schema(target, 0)})
		}
		b.streams = append(b.streams, t)
	}
	return referenceRoot + "/events#" + id
}
