package responses

import (
	"encoding/base64"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

func (o object) camel() {
	var names map[string]bool
	for i := range o.members {
		m := &o.members[i]
		if !strings.Contains(m.name, "_") {
			continue
		}
		if names == nil {
			names = map[string]bool{}
			for _, m := range o.members {
				names[m.name] = true
			}
		}
		parts := strings.Split(strings.Trim(m.name, "_"), "_")
		for j, p := range parts {
			if j > 0 && p != "" {
				parts[j] = strings.ToUpper(p[:1]) + p[1:]
			}
		}
		if as := strings.Join(parts, ""); !names[as] { // otherwise the receipt names the member
			m.name, names[as] = as, true
		}
	}
}

// sealedIn returns the sealed reasoning of this service in a signature. Signatures of another
// service are left out.
func sealedIn(signature string) []string {
	if signature == "" {
		return nil
	}
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(plainBase64(signature), "="))
	if err != nil || !strings.HasPrefix(string(text), stoa.SealedPrefix) {
		return nil
	}
	return strings.Split(string(text), " ")
}

// signatureOf returns sealed reasoning as a thoughtSignature. It is base64, because clients that are
// written in languages with types decode it.
func signatureOf(sealed []string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Join(sealed, " ")))
}

// maxSchema is the maximum depth of a schema of the format.
const maxSchema = 96

// schema parses a member of o with a schema, if it has it. A schema of the format is converted,
// because its types are words in capitals, its counts can be strings, and "nullable" allows null.
func (g *geminiRequest) schema(o object, name string, parse func(path string) error) {
	if strings.HasSuffix(name, "JsonSchema") {
		o.take(func(_, path string) error { return parse(path) }, name)
		return
	}
	b := g.appendSchema(nil, o.get(name), o.at(name), 0)
	if g.err == nil {
		g.fail(g.within(b, func() error { return parse(o.at(name)) }))
	}
}

func (g *geminiRequest) appendSchema(b []byte, v jsonx.Value, path string, depth int) []byte {
	if depth > maxSchema {
		g.fail(stoa.Errorf(stoa.CodeInvalidValue, "The schema has more than %d levels.", maxSchema).At(path))
		return b
	}
	o := g.read(v, path)
	nullable := o.get("nullable").Kind() == 't'
	b = append(b, '{')
	for i := range o.members {
		m := &o.members[i]
		v, path := m.value, o.join(m.written)
		m.read = m.name != "propertyOrdering" // which the receipt names
		switch m.name {
		case "nullable", "propertyOrdering":
		case "type":
			kind := strings.ToLower(string(v))
			switch {
			case v.Kind() != '"': // a list, as in JSON Schema
				b = append(appendName(b, m.name), v...)
			case kind == `"type_unspecified"`:
			case nullable && kind != `"null"`:
				b = append(appendName(b, m.name), "["+kind+`,"null"]`...)
			default:
				b = append(appendName(b, m.name), kind...)
			}
		case "format":
			if string(v) != `"enum"` { // which says no more than the member enum
				b = append(appendName(b, m.name), v...)
			}
		case "enum":
			b = append(appendName(b, m.name), v...)
			if nullable && v.Kind() == '[' && !isEmpty(v, '[') {
				b = append(b[:len(b)-1], ",null]"...)
			}
		case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
			count := strings.Trim(string(v), `"`)
			b = append(appendName(b, m.name), count...)
			if !jsonx.Valid(jsonx.Value(count)) {
				g.fail(wrongType(path, "a number"))
			}
		case "items":
			if b = appendName(b, m.name); v.Kind() == '{' {
				b = g.appendSchema(b, v, path, depth+1)
			} else {
				b = append(b, v...)
			}
		case "properties":
			b = append(appendName(b, m.name), '{')
			all := g.read(v, path)
			for _, p := range all.members { // their names are the client's
				b = g.appendSchema(appendName(b, p.written), p.value, all.join(p.written), depth+1)
			}
			b = append(b, '}')
		case "anyOf":
			b = append(appendName(b, m.name), '[')
			for i, v := range o.list(m.name) {
				b = g.appendSchema(appendComma(b), v, at(path, i), depth+1)
			}
			if nullable {
				b = append(appendComma(b), `{"type":"null"}`...)
			}
			b = append(b, ']')
		default: // as in JSON Schema, such as additionalProperties
			b = append(appendName(b, m.name), v...)
		}
	}
	o.done()
	return append(b, '}')
}

func appendComma(b []byte) []byte {
	if last := b[len(b)-1]; last != '{' && last != '[' {
		b = append(b, ',')
	}
	return b
}

func appendName(b []byte, name string) []byte {
	return append(jsonx.AppendString(appendComma(b), name), ':')
}
