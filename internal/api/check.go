package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// A checker holds requests of one operation against the contract.
type checker struct {
	route  *routers.Route
	params []*openapi3.Parameter // of the query and the header
	schema *openapi3.Schema      // of the body; nil: there is none
	must   bool                  // the body is required
}

// newChecker finds the operation of a pattern.
func newChecker(doc *openapi3.T, pattern string) *checker {
	method, path, _ := strings.Cut(pattern, " ")
	item := doc.Paths.Value(path)
	if item == nil || item.GetOperation(method) == nil {
		panic(fmt.Sprintf("api: %s is not in the contract", pattern))
	}
	op := item.GetOperation(method)
	c := &checker{route: &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: op}}
	for _, p := range slices.Concat(item.Parameters, op.Parameters) {
		if p.Value.In != openapi3.ParameterInPath { // an id of the wrong form is one that does not exist
			c.params = append(c.params, p.Value)
		}
	}
	if op.RequestBody != nil {
		c.schema = op.RequestBody.Value.Content["application/json"].Schema.Value
		c.must = op.RequestBody.Value.Required
	}
	return c
}

func (c *checker) takesBody() bool { return c.schema != nil }

// parameters checks the query and the headers.
func (c *checker) parameters(r *http.Request) error {
	if len(c.params) == 0 {
		return nil
	}
	in := &openapi3filter.RequestValidationInput{Request: r, Route: c.route, Options: &openapi3filter.Options{SkipSettingDefaults: true}}
	for _, p := range c.params {
		if p.In == openapi3.ParameterInQuery {
			values := r.URL.Query()[p.Name]
			if len(values) > 1 {
				return stoa.Errorf(stoa.CodeInvalidValue, "The parameter %q is there twice. Send it once.", p.Name).At(p.Name)
			}
			if len(values) == 1 && !isText(values[0]) {
				return stoa.Errorf(stoa.CodeInvalidValue, "The parameter %q is no text: it has a NUL character, or is not UTF-8.", p.Name).At(p.Name)
			}
		}
		if err := openapi3filter.ValidateParameter(r.Context(), in, p); err != nil {
			return parameterError(p, err)
		}
	}
	return nil
}

func parameterError(p *openapi3.Parameter, err error) error {
	if errors.Is(err, openapi3filter.ErrInvalidRequired) {
		return stoa.Errorf(stoa.CodeMissingParameter, "The parameter %q is missing.", p.Name).At(p.Name)
	}
	if se, ok := errors.AsType[*openapi3.SchemaError](err); ok {
		return stoa.Errorf(stoa.CodeInvalidValue, "The parameter %q is not right: %s.", p.Name, reason(se)).At(p.Name)
	}
	return stoa.Errorf(stoa.CodeInvalidType, "The parameter %q has a value of the wrong kind%s.", p.Name, kindOf(p.Schema.Value)).At(p.Name).Because(err)
}

func kindOf(s *openapi3.Schema) string {
	if types := s.Type.Slice(); len(types) == 1 {
		return "; it takes " + article(types[0])
	}
	return ""
}

// body checks a body and gives a reader of it for the generated code.
func (c *checker) body(raw []byte) (io.ReadCloser, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		if !c.must {
			return http.NoBody, nil
		}
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body is empty. Send one JSON object.")
	}
	if !jsonx.Valid(raw) {
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body is not JSON, or it has a member twice. Send one JSON object in UTF-8.")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body is not JSON: %v", err)
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body must be one JSON object.")
	}
	if err := c.schema.VisitJSON(v, openapi3.VisitAsRequest(), openapi3.EnableFormatValidation()); err != nil {
		return nil, bodyError(v, err)
	}
	changed := false
	v, err := plainValues(v, &changed)
	if err != nil {
		return nil, err
	}
	if changed {
		if raw, err = json.Marshal(v); err != nil {
			return nil, fmt.Errorf("write a checked body again: %w", err)
		}
	}
	return io.NopCloser(bytes.NewReader(raw)), nil
}

// isText reports whether a text can be stored anywhere.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// plainValues writes whole numbers the plain way (1e2 and 5.0 are integers to
// JSON Schema and not to Go) and refuses texts with a NUL character, which not
// every database takes.
func plainValues(v any, changed *bool) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		if text := v.String(); strings.ContainsAny(text, ".eE") || text == "-0" {
			if f, err := v.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
				*changed = true
				return json.Number(strconv.FormatInt(int64(f), 10)), nil
			}
		}
	case string:
		if !isText(v) {
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "A text must not have a NUL character.")
		}
	case []any:
		for i := range v {
			if v[i], err = plainValues(v[i], changed); err != nil {
				return nil, within(err, fmt.Sprintf("[%d]", i))
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !isText(name) {
				return nil, stoa.Errorf(stoa.CodeInvalidValue, "The name of a member must not have a NUL character.")
			}
			if v[name], err = plainValues(v[name], changed); err != nil {
				return nil, within(err, name)
			}
		}
	}
	return v, nil
}

// within puts a step before the path of an error's member.
func within(err error, step string) error {
	e := stoa.AsError(err)
	if e.Param != "" && e.Param[0] != '[' {
		step += "."
	}
	return e.At(step + e.Param)
}

// bodyError says which member is wrong and what it should be.
func bodyError(body any, err error) error {
	se, ok := errors.AsType[*openapi3.SchemaError](err)
	if !ok {
		return stoa.Errorf(stoa.CodeInvalidValue, "The body does not fit the contract.").Because(err)
	}
	at := memberPath(body, se.JSONPointer())
	name := strconv.Quote(at)
	if at == "" {
		name = "the body"
	}
	switch se.SchemaField {
	case "required":
		return stoa.Errorf(stoa.CodeMissingParameter, "The member %s is missing.", name).At(at)
	case "nullable":
		return stoa.Errorf(stoa.CodeMissingParameter, "The member %s must not be null.", name).At(at)
	case "properties":
		unknown := unknownMember(se)
		if at != "" {
			unknown = at + "." + unknown
		}
		return stoa.Errorf(stoa.CodeUnknownField, "There is no member %q here. The members are %s.", unknown, strings.Join(slices.Sorted(memberNames(se.Schema)), ", ")).At(unknown)
	case "type":
		return stoa.Errorf(stoa.CodeInvalidType, "The member %s has the wrong type: %s.", name, reason(se)).At(at)
	}
	code := stoa.CodeInvalidValue
	if own, ok := se.Schema.Extensions["x-code"].(string); ok {
		code = stoa.Code(own)
	}
	return stoa.Errorf(code, "The member %s is not right: %s.", name, reason(se)).At(at)
}

// unknownMember is the first member of the value that its schema lacks.
func unknownMember(se *openapi3.SchemaError) string {
	members, _ := se.Value.(map[string]any)
	var unknown []string
	for name := range members {
		if se.Schema.Properties[name] == nil {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return ""
	}
	return slices.Min(unknown)
}

func memberNames(s *openapi3.Schema) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range s.Properties {
			if !yield(name) {
				return
			}
		}
	}
}

// reason says in words what a schema wants, without the value that was sent.
func reason(se *openapi3.SchemaError) string {
	s := se.Schema
	switch se.SchemaField {
	case "type":
		if types := s.Type.Slice(); len(types) == 1 {
			return "it takes " + article(types[0])
		}
	case "enum":
		var allowed []string
		for _, v := range s.Enum {
			if v != nil {
				allowed = append(allowed, fmt.Sprint(v))
			}
		}
		return "it takes one of " + strings.Join(allowed, ", ")
	case "minLength":
		if s.MinLength == 1 {
			return "it must not be empty"
		}
		return fmt.Sprintf("it needs at least %d characters", s.MinLength)
	case "maxLength":
		return fmt.Sprintf("it takes at most %d characters", *s.MaxLength)
	case "minimum":
		return "it must be at least " + number(*s.Min)
	case "maximum":
		return "it must be at most " + number(*s.Max)
	case "minItems":
		return fmt.Sprintf("it needs at least %d items", s.MinItems)
	case "maxItems":
		return fmt.Sprintf("it takes at most %d items", *s.MaxItems)
	case "uniqueItems":
		return "it has an item twice"
	case "maxProperties":
		return fmt.Sprintf("it takes at most %d members", *s.MaxProps)
	case "minProperties":
		return fmt.Sprintf("it needs at least %d members", s.MinProps)
	case "format":
		if s.Format == "date-time" {
			return "it takes an RFC 3339 time such as 2026-11-20T12:00:00Z"
		}
		return "it does not have the format " + s.Format
	case "pattern":
		if s.Description != "" {
			return "it does not have its form; " + strings.ToLower(s.Description[:1]) + strings.TrimSuffix(s.Description[1:], ".")
		}
		return "it must match " + s.Pattern
	}
	return se.Reason
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func article(kind string) string {
	if strings.ContainsAny(kind[:1], "aeiou") {
		return "an " + kind
	}
	return "a " + kind
}

// memberPath writes a pointer the way a programmer would: a.b[2].c.
func memberPath(body any, pointer []string) string {
	var out strings.Builder
	for _, step := range pointer {
		if list, ok := body.([]any); ok {
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(list) {
				return out.String()
			}
			fmt.Fprintf(&out, "[%d]", i)
			body = list[i]
			continue
		}
		if out.Len() > 0 {
			out.WriteByte('.')
		}
		out.WriteString(step)
		members, _ := body.(map[string]any)
		body = members[step]
	}
	return out.String()
}
