package rest

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"stoa/internal/base/stoa"
)

type parameter struct {
	name, in string
	required bool
	schema   *openapi3.Schema
	kind     string // string, integer, boolean, or an array of strings joined by commas
	index    []int  // index of the field; nil if the parameter is only checked
}

// parameters decode a request into a struct P. The tags of its fields, including those of embedded structs
// and of the struct in a field Query, name the parameter: path:"name" is in the path, form:"name" in the query, and json:"Name" without
// form is a header, because the generated Params types of the contract use the latter two.
type parameters []parameter

// parametersOf compares the contract's parameters with the fields of t. It panics unless each has a
// counterpart of a matching type. Only the Idempotency-Key and the session need no field, because [Once] and the calls of
// models read them.
func parametersOf(pattern string, declared []*openapi3.Parameter, t reflect.Type) parameters {
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		switch {
		case f.Name == "Query":
			for _, sub := range reflect.VisibleFields(f.Type) {
				sub.Index = append(slices.Clone(f.Index), sub.Index...)
				fields[placeOf(sub)] = sub
			}
		case !f.Anonymous:
			fields[placeOf(f)] = f
		}
	}
	var out parameters
	for _, d := range declared {
		p := parameter{name: d.Name, in: d.In, required: d.Required, schema: d.Schema.Value}
		if types := p.schema.Type.Slice(); len(types) == 1 {
			p.kind = types[0]
		}
		place := d.In + " " + d.Name
		f, ok := fields[place]
		delete(fields, place)
		switch {
		case ok && !fits(f.Type, p):
			panic(fmt.Sprintf("api: %s: the field %s cannot hold the %s parameter %q", pattern, f.Name, p.kind, p.name))
		case ok:
			p.index = f.Index
		case d.Name != idempotencyHeader && d.Name != SessionHeader:
			panic(fmt.Sprintf("api: %s: no field for the %s parameter %q", pattern, d.In, d.Name))
		}
		out = append(out, p)
	}
	for place := range fields {
		panic(fmt.Sprintf("api: %s: the contract has no parameter for the field tagged %s", pattern, place))
	}
	return out
}

// placeOf returns the location from a field's tag: "query limit".
func placeOf(f reflect.StructField) string {
	for _, m := range [...]struct{ tag, in string }{{"path", openapi3.ParameterInPath}, {"form", openapi3.ParameterInQuery}, {"json", openapi3.ParameterInHeader}} {
		if tag, ok := f.Tag.Lookup(m.tag); ok {
			name, _, _ := strings.Cut(tag, ",")
			return m.in + " " + name
		}
	}
	return f.Name
}

// fits reports whether a field can hold every value of the parameter.
func fits(t reflect.Type, p parameter) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch p.kind {
	case "string":
		return t.Kind() == reflect.String || p.schema.Format != "" && reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	case "integer":
		return t.Kind() == reflect.Int || t.Kind() == reflect.Int64
	case "boolean":
		return t.Kind() == reflect.Bool
	case "array":
		return t == reflect.TypeFor[[]string]()
	}
	return false
}

func (ps parameters) read(r *http.Request, into reflect.Value) error {
	var query url.Values
	if r.URL.RawQuery != "" {
		query = r.URL.Query()
	}
	for i := range ps {
		p := &ps[i]
		text, found, err := p.text(r, query)
		if err != nil {
			return err
		}
		if !found {
			if p.required {
				return stoa.Errorf(stoa.CodeMissingParameter, "The parameter %q is missing.", p.name).At(p.name)
			}
			continue
		}
		if err := p.set(text, into); err != nil {
			return err
		}
	}
	return nil
}

// checkQuery refuses unknown query parameters of a strict operation, because a caller who sends one
// expects an effect. accountId would otherwise act on the caller's own account.
func (op *operation) checkQuery(raw string) error {
	if raw == "" || !op.strict {
		return nil
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return stoa.Errorf(stoa.CodeInvalidValue, "The query cannot be read. Encode it as name=value pairs joined by &.").Because(err)
	}
	var known []string
	for _, p := range op.params {
		if p.In == openapi3.ParameterInQuery {
			known = append(known, p.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		shown := ShortName(strings.ToValidUTF8(name, "\uFFFD"))
		switch {
		case slices.Contains(known, name):
			continue
		case name == "accountId" && op.otherAccount != "":
			return stoa.Errorf(stoa.CodeUnknownParameter, "This operation is for the account of the key, so it has no parameter \"accountId\". For another account, use %s.", op.otherAccount).At(name)
		case name == "accountId":
			return stoa.Errorf(stoa.CodeUnknownParameter, "This operation is for the account of the key, so it has no parameter \"accountId\". For another account, use a key of that account.").At(name)
		case len(known) == 0:
			return stoa.Errorf(stoa.CodeUnknownParameter, "Unknown parameter %q. This operation has no query parameters.", shown).At(shown)
		}
		return stoa.Errorf(stoa.CodeUnknownParameter, "Unknown parameter %q. The query parameters are %s.", shown, strings.Join(known, ", ")).At(shown)
	}
	return nil
}

func (p *parameter) text(r *http.Request, query url.Values) (text string, found bool, err error) {
	var values []string
	switch p.in {
	case openapi3.ParameterInPath:
		return r.PathValue(p.name), true, nil
	case openapi3.ParameterInHeader:
		if values = r.Header[http.CanonicalHeaderKey(p.name)]; len(values) == 0 {
			return "", false, nil
		}
		return strings.Join(values, ","), true, nil // joined, because a list may arrive in several lines: RFC 9110, 5.3
	}
	switch values = query[p.name]; {
	case len(values) > 1:
		return "", true, stoa.Errorf(stoa.CodeInvalidValue, "The parameter %q is sent twice. Send it once.", p.name).At(p.name)
	case len(values) == 1 && !isText(values[0]):
		return "", true, stoa.Errorf(stoa.CodeInvalidValue, "The parameter %q is not valid text: it contains a NUL character, or is not UTF-8.", p.name).At(p.name)
	case len(values) == 1:
		return values[0], true, nil
	}
	return "", false, nil
}

// set checks a value against the contract and stores it. It does not check path parameters, because an id of
// the wrong format is an unknown id: 404 instead of 400.
func (p *parameter) set(text string, into reflect.Value) error {
	var field reflect.Value
	if p.index != nil {
		field = into.FieldByIndex(p.index)
	}
	if p.in == openapi3.ParameterInPath {
		field.SetString(text)
		return nil
	}
	v, err := p.value(text)
	if err == nil {
		err = p.schema.VisitJSON(v, openapi3.VisitAsRequest(), openapi3.EnableFormatValidation())
	}
	if err != nil {
		return p.wrong(err)
	}
	if p.index == nil {
		return nil
	}
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	switch v := v.(type) {
	case int64:
		field.SetInt(v)
	case bool:
		field.SetBool(v)
	case []any:
		list := make([]string, len(v))
		for i := range v {
			list[i], _ = v[i].(string)
		}
		field.Set(reflect.ValueOf(list))
	default:
		if u, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
			if err := u.UnmarshalText([]byte(text)); err != nil {
				return p.wrong(err)
			}
			return nil
		}
		field.SetString(text)
	}
	return nil
}

// value converts a text to the parameter's kind, so that the schema can check it.
func (p *parameter) value(text string) (any, error) {
	switch p.kind {
	case "integer":
		return strconv.ParseInt(text, 10, 64)
	case "boolean":
		return strconv.ParseBool(text)
	case "array":
		if text == "" {
			return nil, errors.New("it is empty")
		}
		var list []any
		for item := range strings.SplitSeq(text, ",") {
			list = append(list, item)
		}
		return list, nil
	}
	return text, nil
}

func (p *parameter) wrong(err error) error {
	if se, ok := errors.AsType[*openapi3.SchemaError](err); ok {
		return stoa.Errorf(stoa.CodeInvalidValue, "The parameter %q must %s.", p.name, requirement(se)).At(p.name)
	}
	return stoa.Errorf(stoa.CodeInvalidType, "The parameter %q has the wrong type%s.", p.name, kindOf(p.schema)).At(p.name).Because(err)
}

func kindOf(s *openapi3.Schema) string {
	if types := s.Type.Slice(); len(types) == 1 {
		return "; it must be " + article(types[0])
	}
	return ""
}
