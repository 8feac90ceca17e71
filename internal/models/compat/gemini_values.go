package compat

import (
	"encoding/base64"
	"strings"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// camel renames the members that are written in snake_case.
func (o *object) camel() {
	for i, name := range o.order {
		if !strings.Contains(name, "_") {
			continue
		}
		parts := strings.Split(strings.Trim(name, "_"), "_")
		for j, p := range parts {
			if j > 0 && p != "" {
				parts[j] = strings.ToUpper(p[:1]) + p[1:]
			}
		}
		as := strings.Join(parts, "")
		if _, both := o.members[as]; both {
			continue // the receipt names it
		}
		if o.written == nil {
			o.written = map[string]string{}
		}
		o.members[as], o.written[as], o.order[i] = o.members[name], name, as
		delete(o.members, name)
	}
}

// sealedIn returns the sealed reasoning of this service in a signature, as JSON strings. Signatures
// of another service are left out.
func sealedIn(signature string) (list []jsonx.Value) {
	if signature == "" {
		return nil
	}
	text, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(plainBase64(signature), "="))
	if err != nil || !strings.HasPrefix(string(text), stoa.SealedPrefix) {
		return nil
	}
	for sealed := range strings.SplitSeq(string(text), " ") {
		list = append(list, jsonx.AppendString(nil, sealed))
	}
	return list
}

// Signature returns sealed reasoning as a thoughtSignature. It is base64, because clients that are
// written in languages with types decode it.
func Signature(sealed []string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Join(sealed, " ")))
}

// SealedIn returns the sealed reasoning that [Signature] wrote.
func SealedIn(signature string) string {
	text, _ := base64.StdEncoding.DecodeString(signature)
	return string(text)
}

// maxSchema is the maximum depth of a schema of the format.
const maxSchema = 96

// schema writes a schema of the format as a JSON Schema: types are words in capitals, counts can be
// strings, and null is allowed by "nullable".
func (g *geminiRequest) schema(v jsonx.Value, path string) error { return g.schemaAt(v, path, 0) }

func (g *geminiRequest) schemaAt(v jsonx.Value, path string, depth int) error {
	if depth > maxSchema {
		return stoa.Errorf(stoa.CodeInvalidValue, "The schema has more than %d levels.", maxSchema).At(path)
	}
	o, err := g.object(v, path)
	if err != nil {
		return err
	}
	nullable := o.get("nullable").Kind() == 't'
	g.raw("{")
	for _, name := range o.order {
		v := o.members[name]
		o.read[name] = true
		var err error
		switch name {
		case "nullable", "propertyOrdering":
			if name == "propertyOrdering" {
				o.read[name] = false // the receipt names it
			}
		case "type":
			err = g.schemaType(v, nullable)
		case "format":
			if string(v) != `"enum"` { // which says no more than the member enum
				g.key(name).value(v)
			}
		case "enum":
			g.key(name).value(v)
			if nullable && v.Kind() == '[' && !isEmpty(v, '[') {
				g.out = append(g.out[:len(g.out)-1], ",null]"...)
			}
		case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
			g.key(name).raw(strings.Trim(string(v), `"`))
			if !jsonx.Valid(jsonx.Value(strings.Trim(string(v), `"`))) {
				err = wrongType(o.at(name), "a number")
			}
		case "items":
			g.key(name)
			if v.Kind() == '{' {
				err = g.schemaAt(v, o.at(name), depth+1)
			} else {
				g.value(v)
			}
		case "properties":
			err = g.properties(v, o.at(name), depth)
		case "anyOf":
			g.key(name).raw("[")
			err = eachIn(v, o.at(name), func(_ int, of object) error {
				g.element()
				return g.schemaAt(of.value, of.path, depth+1)
			})
			if nullable {
				g.element().raw(`{"type":"null"}`)
			}
			g.raw("]")
		default: // as in JSON Schema, such as additionalProperties
			g.out = append(jsonx.AppendString(g.comma(), name), ':')
			g.value(v)
		}
		if err != nil {
			return err
		}
	}
	g.raw("}")
	g.done(o)
	return nil
}

// schemaType writes the type of a schema.
func (g *geminiRequest) schemaType(v jsonx.Value, nullable bool) error {
	if v.Kind() != '"' { // a list, as in JSON Schema
		g.key("type").value(v)
		return nil
	}
	kind := strings.ToLower(string(v))
	switch {
	case kind == `"type_unspecified"`:
	case nullable && kind != `"null"`:
		g.key("type").raw("[" + kind + `,"null"]`)
	default:
		g.key("type").raw(kind)
	}
	return nil
}

// properties writes the schemas of properties, whose names are the client's.
func (g *geminiRequest) properties(v jsonx.Value, path string, depth int) error {
	o, err := readObject(v, path)
	if err != nil {
		return err
	}
	g.key("properties").raw("{")
	for _, name := range o.order {
		g.out = append(jsonx.AppendString(g.comma(), name), ':')
		if err := g.schemaAt(o.members[name], o.at(name), depth+1); err != nil {
			return err
		}
	}
	g.raw("}")
	return nil
}

// comma ends the member before the next one, if there is one.
func (g *geminiRequest) comma() []byte {
	if g.out[len(g.out)-1] != '{' {
		g.out = append(g.out, ',')
	}
	return g.out
}
