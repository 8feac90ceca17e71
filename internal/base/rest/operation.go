package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

type operation struct {
	pattern string
	id      string // operationId
	params  []*openapi3.Parameter
	body    *openapi3.Schema // schema of a JSON body; nil if there is none, or if the handler reads it
	must    bool             // the body is required
	maxBody int64            // bytes, from the extension x-max-body; 0 if the operation accepts no body

	strict       bool   // unknown query parameters are refused
	otherAccount string // operation for another account, from x-other-account; may be empty
}

// NewOperation returns the operation of a pattern. It panics if the contract has none.
func NewOperation(doc *openapi3.T, pattern string) *operation {
	method, path, _ := strings.Cut(pattern, " ")
	item := doc.Paths.Value(path)
	if item == nil || item.GetOperation(method) == nil {
		panic(fmt.Sprintf("api: %s is not in the contract", pattern))
	}
	of := item.GetOperation(method)
	op := &operation{pattern: pattern, id: of.OperationID}
	// Other operations must accept unknown parameters, because clients of vendors send some (?beta=true),
	// and addresses without a key are followed from pages and mails, to which others add theirs (?utm_source=).
	op.strict = of.Security == nil && of.Extensions["x-other-parameters"] != "allowed"
	op.otherAccount, _ = of.Extensions["x-other-account"].(string)
	for _, p := range slices.Concat(item.Parameters, of.Parameters) {
		op.params = append(op.params, p.Value)
	}
	if of.RequestBody != nil {
		most, ok := of.Extensions["x-max-body"].(float64)
		if !ok || most <= 0 {
			panic(fmt.Sprintf("api: %s takes a body and has no x-max-body in the contract", pattern))
		}
		op.maxBody = int64(most)
		if media := of.RequestBody.Value.Content["application/json"]; media != nil {
			op.body = media.Schema.Value
			op.must = of.RequestBody.Value.Required
		}
	}
	return op
}

// newReader returns a function that reads the input of an operation. It panics if P or B does not match
// the contract, so that a mistake appears at the start.
func newReader[P, B any](b *Base, op *operation) func(*Exchange) (Input[P, B], error) {
	params := parametersOf(op.pattern, op.params, reflect.TypeFor[P]())
	op.checkBodyType(reflect.TypeFor[B]())
	return func(x *Exchange) (Input[P, B], error) {
		in := Input[P, B]{HTTP: x.HTTP, Log: &x.Log}
		if err := op.checkQuery(x.HTTP.URL.RawQuery); err != nil {
			return in, err
		}
		if err := params.read(x.HTTP, reflect.ValueOf(&in.Params).Elem()); err != nil {
			return in, err
		}
		if op.body == nil {
			return in, nil
		}
		var err error
		if x.body, err = b.ReadBody(x, x.HTTP); err != nil {
			return in, err
		}
		in.Body, err = InTurn(b, x, x.body, func(raw []byte) (body B, err error) {
			text, err := op.CheckBody(raw)
			if err != nil || text == nil {
				return body, err
			}
			if err := jsonx.Unmarshal(text, &body); err != nil {
				// unreachable, because the check has reported all known errors
				return body, stoa.Errorf(stoa.CodeInvalidValue, "A value of the body cannot be read. Compare it with the contract.").Because(err)
			}
			return body, nil
		})
		return in, err
	}
}

func (op *operation) checkBodyType(t reflect.Type) {
	var members []string
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		members = append(members, name)
	}
	var declared []string
	if op.body != nil {
		declared = slices.Collect(maps.Keys(op.body.Properties))
	}
	slices.Sort(members)
	slices.Sort(declared)
	if !slices.Equal(members, declared) {
		panic(fmt.Sprintf("api: %s: the body has the members %q in the contract and %q in %s", op.pattern, declared, members, t))
	}
}

// CheckBody checks the body of a request that a handler has read itself; see
// [operation.CheckBody].
func CheckBody(w http.ResponseWriter, raw []byte) ([]byte, error) {
	return w.(*Exchange).op.CheckBody(raw)
}

// CheckBody checks a body and returns the text to decode; nil if an optional body is absent.
func (op *operation) CheckBody(raw []byte) ([]byte, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		if !op.must {
			return nil, nil
		}
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body is empty. Send one JSON object.")
	}
	v, err := jsonx.Tree(raw, maxBodyValues)
	if errors.Is(err, jsonx.ErrTooMany) {
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body has more than %d values, or more than %d levels of nesting. Send a smaller one.", maxBodyValues, jsonx.MaxDepth)
	}
	if err != nil {
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body is not JSON, or it has a member twice. Send one JSON object in UTF-8.").Because(err)
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, stoa.Errorf(stoa.CodeInvalidJSON, "The body must be one JSON object.")
	}
	if err := op.body.VisitJSON(v, openapi3.VisitAsRequest(), openapi3.EnableFormatValidation()); err != nil {
		return nil, bodyError(v, err)
	}
	changed := false
	v, err = plainValues(v, &changed)
	if err != nil || !changed {
		return raw, err
	}
	if raw, err = json.Marshal(v); err != nil {
		return nil, fmt.Errorf("write a checked body again: %w", err)
	}
	return raw, nil
}

// maxBodyValues limits the memory for checking a body, because each value takes up to 400 bytes: up to 4 MB in
// addition to the body itself.
const maxBodyValues = 10_000

// isText reports whether every database can store a text.
func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// plainValues normalizes integers, because 1e2 and 5.0 are integers in JSON Schema but not in Go. It
// rejects texts with a NUL character, because not every database accepts them.
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
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "A text must not contain a NUL character.")
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
				return nil, stoa.Errorf(stoa.CodeInvalidValue, "The name of a member must not contain a NUL character.")
			}
			if v[name], err = plainValues(v[name], changed); err != nil {
				return nil, within(err, ShortName(name))
			}
		}
	}
	return v, nil
}

// within prepends a step to the path of an error's member.
func within(err error, step string) error {
	e := stoa.AsError(err)
	if e.Param != "" && e.Param[0] != '[' {
		step += "."
	}
	return e.At(step + e.Param)
}

// bodyError returns the error with the wrong member and its requirement.
func bodyError(body any, err error) error {
	se, ok := errors.AsType[*openapi3.SchemaError](err)
	if !ok {
		return stoa.Errorf(stoa.CodeInvalidValue, "The body does not match the contract.").Because(err)
	}
	for se.SchemaField == "oneOf" && se.Schema.Discriminator != nil {
		// The discriminator selects one schema, so that only its error is the reason.
		if se, ok = errors.AsType[*openapi3.SchemaError](se.Origin); !ok {
			return stoa.Errorf(stoa.CodeInvalidValue, "The body does not match the contract.").Because(err)
		}
	}
	at := memberPath(body, se.JSONPointer())
	name := strconv.Quote(at)
	if at == "" {
		name = "The body"
	}
	switch se.SchemaField {
	case "discriminator":
		property := se.Schema.Discriminator.PropertyName
		var allowed []string
		for _, one := range se.Schema.OneOf {
			allowed = append(allowed, fmt.Sprint(one.Value.Properties[property].Value.Enum[0]))
		}
		at = strings.TrimPrefix(at+"."+property, ".")
		if v, _ := se.Value.(string); v == "" {
			return stoa.Errorf(stoa.CodeMissingParameter, "%q is missing. It must be one of %s.", at, strings.Join(allowed, ", ")).At(at)
		}
		return stoa.Errorf(stoa.CodeInvalidValue, "%q must be one of %s.", at, strings.Join(allowed, ", ")).At(at)
	case "required":
		return stoa.Errorf(stoa.CodeMissingParameter, "%s is missing.", name).At(at)
	case "nullable":
		return stoa.Errorf(stoa.CodeMissingParameter, "%s must not be null.", name).At(at)
	case "properties":
		unknown := unknownMember(se)
		if at != "" {
			unknown = at + "." + unknown
		}
		return stoa.Errorf(stoa.CodeUnknownField, "Unknown member %q. The members are %s.", unknown, strings.Join(slices.Sorted(memberNames(se.Schema)), ", ")).At(unknown)
	case "type":
		return stoa.Errorf(stoa.CodeInvalidType, "%s must %s.", name, requirement(se)).At(at)
	}
	code := stoa.CodeInvalidValue
	if own, ok := se.Schema.Extensions["x-code"].(string); ok {
		code = stoa.Code(own)
	}
	return stoa.Errorf(code, "%s must %s.", name, requirement(se)).At(at)
}

// unknownMember returns the first member of the value that is not in its schema.
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
	return ShortName(slices.Min(unknown))
}

// maxShownName is the maximum length of a caller's name in an error, in bytes.
const maxShownName = 64

// ShortName shortens a caller's name for an error.
func ShortName(name string) string { return cut(name, maxShownName) }

func memberNames(s *openapi3.Schema) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range s.Properties {
			if !yield(name) {
				return
			}
		}
	}
}

// requirement returns a schema's requirement as text after "must". It does not contain the sent value, which may be
// secret. The text for a pattern is in x-must, because nobody reads regular expressions.
func requirement(se *openapi3.SchemaError) string {
	s := se.Schema
	switch se.SchemaField {
	case "type":
		if types := s.Type.Slice(); len(types) == 1 {
			return "be " + article(types[0])
		}
	case "enum":
		var allowed []string
		for _, v := range s.Enum {
			if v != nil {
				allowed = append(allowed, fmt.Sprint(v))
			}
		}
		return "be one of " + strings.Join(allowed, ", ")
	case "minLength":
		if s.MinLength == 1 {
			return "not be empty"
		}
		return fmt.Sprintf("have at least %d characters", s.MinLength)
	case "maxLength":
		return fmt.Sprintf("have at most %d characters", *s.MaxLength)
	case "minimum":
		return "be at least " + number(*s.Min)
	case "maximum":
		return "be at most " + number(*s.Max)
	case "minItems":
		return "have at least " + counted(s.MinItems, "item")
	case "maxItems":
		return "have at most " + counted(*s.MaxItems, "item")
	case "uniqueItems":
		return "not contain duplicate items"
	case "maxProperties":
		return "have at most " + counted(*s.MaxProps, "member")
	case "minProperties":
		return "have at least " + counted(s.MinProps, "member")
	case "format":
		if s.Format == "date-time" {
			return "be an RFC 3339 time such as 2026-11-20T12:00:00Z"
		}
		return "have the format " + s.Format
	case "pattern":
		if must, ok := s.Extensions["x-must"].(string); ok {
			return must
		}
		return "match " + s.Pattern
	}
	return "match its schema: " + se.Reason
}

func counted(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func article(kind string) string {
	if strings.ContainsAny(kind[:1], "aeiou") {
		return "an " + kind
	}
	return "a " + kind
}

// memberPath converts a JSON pointer to the notation a.b[2].c.
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
		out.WriteString(ShortName(step))
		members, _ := body.(map[string]any)
		body = members[step]
	}
	return out.String()
}
