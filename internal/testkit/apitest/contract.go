package apitest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
)

// Document is the contract with every object closed that is not explicitly open: a reply with
// an undocumented member does not conform.
var Document = sync.OnceValue(func() *openapi3.T {
	doc, err := contract.Load()
	if err != nil {
		panic(err)
	}
	for _, ref := range doc.Components.Schemas {
		closeObjects(ref.Value)
	}
	return doc
})

func closeObjects(s *openapi3.Schema) {
	if s.Type.Is(openapi3.TypeObject) && len(s.Properties) > 0 && s.AdditionalProperties.Has == nil && s.AdditionalProperties.Schema == nil {
		s.AdditionalProperties.Has = new(false)
	}
	for _, p := range s.Properties {
		if p.Ref == "" {
			closeObjects(p.Value)
		}
	}
	if s.Items != nil && s.Items.Ref == "" {
		closeObjects(s.Items.Value)
	}
}

var editions sync.Map // of *openapi3.T by edition

// keepEdition keeps the parsed document of a service for the next service of the same tests:
// parsing is a third of the cost of a start.
func keepEdition(t testing.TB, extensions config.Extensions) {
	t.Helper()
	edition := contract.For(extensions.Names()...)
	doc, err := edition.Requests()
	if err != nil {
		t.Fatalf("load the contract: %v", err)
	}
	editions.Store(edition, doc)
}

// find returns the operation of a request; nil for a path or method that the contract does
// not have.
func find(doc *openapi3.T, method, path string) *Operation {
	if plain, err := url.PathUnescape(path); err != nil || !utf8.ValidString(plain) || strings.Contains(plain, "\x00") {
		return nil // invalid text is not a path of the contract
	}
	best := -1
	var found *Operation
	for template, item := range doc.Paths.Map() {
		literal, ok := fits(template, path)
		if !ok || literal <= best {
			continue
		}
		if op := item.GetOperation(method); op != nil {
			best, found = literal, &Operation{op, method, template}
		}
	}
	return found
}

// fits reports whether a path matches a template, and the number of literally equal segments.
func fits(template, path string) (literal int, ok bool) {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return 0, false
	}
	for i := range want {
		switch {
		case want[i] == got[i]:
			literal++
		case !strings.HasPrefix(want[i], "{") || got[i] == "":
			return 0, false
		}
		if _, method, ok := strings.Cut(want[i], "}:"); ok && !strings.HasSuffix(got[i], ":"+method) {
			return 0, false
		}
	}
	return literal, true
}

// visit validates a value against a schema.
func visit(s *openapi3.Schema, v any) error {
	err := s.VisitJSON(v, openapi3.VisitAsResponse(), openapi3.EnableFormatValidation())
	if err != nil {
		text := err.Error()
		if i := strings.Index(text, "\nSchema:"); i > 0 {
			text = text[:i]
		}
		return fmt.Errorf("%s", text)
	}
	return nil
}

// An Operation is one operation of the contract.
type Operation struct {
	*openapi3.Operation
	Method, Path string
}

// Operations lists the operations of the contract, ordered by path and method.
func Operations() []Operation {
	var list []Operation
	for path, item := range Document().Paths.Map() {
		for method, op := range item.Operations() {
			list = append(list, Operation{op, method, path})
		}
	}
	slices.SortFunc(list, func(a, b Operation) int {
		return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method)
	})
	return list
}
