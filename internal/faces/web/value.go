package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A value is a part of the contract document. Members keep the order of the document, because it is chosen for
// readers.
type value struct {
	members []member // only of an object
	items   []*value // only of an array
	scalar  any      // string, json.Number, bool or nil
	kind    byte     // 'o', 'a' or 's'
}

type member struct {
	name  string
	value *value
}

func parse(text []byte) (*value, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return read(dec)
}

func read(dec *json.Decoder) (*value, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		out := &value{kind: 'o'}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := read(dec)
			if err != nil {
				return nil, err
			}
			out.members = append(out.members, member{name.(string), v})
		}
		_, err = dec.Token()
		return out, err
	case json.Delim('['):
		out := &value{kind: 'a'}
		for dec.More() {
			v, err := read(dec)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, v)
		}
		_, err = dec.Token()
		return out, err
	}
	return &value{kind: 's', scalar: tok}, nil
}

// get returns the value at a path of member names; nil if one is missing. It may be called on nil, so that calls can be
// chained.
func (v *value) get(path ...string) *value {
	for _, name := range path {
		if v == nil {
			return nil
		}
		var next *value
		for _, m := range v.members {
			if m.name == name {
				next = m.value
				break
			}
		}
		v = next
	}
	return v
}

// str returns the string at a path below v, or "".
func (v *value) str(path ...string) string {
	if at := v.get(path...); at != nil {
		s, _ := at.scalar.(string)
		return s
	}
	return ""
}

// yes reports whether the value at a path below v is true.
func (v *value) yes(path ...string) bool {
	at := v.get(path...)
	return at != nil && at.scalar == true
}

// all returns the members of the object below v, in order.
func (v *value) all(path ...string) []member {
	if at := v.get(path...); at != nil {
		return at.members
	}
	return nil
}

// list returns the items of the array below v.
func (v *value) list(path ...string) []*value {
	if at := v.get(path...); at != nil {
		return at.items
	}
	return nil
}

// strs returns the strings of the array below v.
func (v *value) strs(path ...string) []string {
	var out []string
	for _, item := range v.list(path...) {
		if s, ok := item.scalar.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// at resolves a reference within the document, such as "#/components/schemas/X".
func (v *value) at(ref string) (*value, error) {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, fmt.Errorf("reference %q leaves the document", ref)
	}
	found := v.get(strings.Split(path, "/")...)
	if found == nil {
		return nil, fmt.Errorf("reference %q has no target", ref)
	}
	return found, nil
}

func (v *value) inline() string {
	var out strings.Builder
	v.write(&out, "", "")
	return out.String()
}

// pretty returns v as JSON, indented by two spaces. Values of up to 72 characters stay on one line.
func (v *value) pretty() string {
	var out strings.Builder
	v.write(&out, "\n", "")
	return out.String()
}

func (v *value) write(out *strings.Builder, newline, indent string) {
	if v.kind == 's' {
		raw, _ := encode(v.scalar)
		out.WriteString(raw)
		return
	}
	open, end, n := "{", "}", len(v.members)
	if v.kind == 'a' {
		open, end, n = "[", "]", len(v.items)
	}
	broken := newline != ""
	if broken {
		if line := v.inline(); len(line)+len(indent) <= 72 && indent != "" || n == 0 {
			out.WriteString(line)
			return
		}
	}
	deeper := indent + "  "
	out.WriteString(open)
	for i := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		if broken {
			out.WriteString(newline + deeper)
		} else if i > 0 {
			out.WriteByte(' ')
		}
		if v.kind == 'a' {
			v.items[i].write(out, newline, deeper)
			continue
		}
		raw, _ := encode(v.members[i].name)
		out.WriteString(raw + ": ")
		v.members[i].value.write(out, newline, deeper)
	}
	if broken {
		out.WriteString(newline + indent)
	}
	out.WriteString(end)
}

// encode returns a scalar as JSON without HTML escapes, because the templates escape it.
func encode(v any) (string, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}
