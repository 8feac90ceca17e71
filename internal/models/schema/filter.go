package schema

import (
	"slices"
	"strings"
)

// Moved begins the part of a description that has the keywords which the vendor does not accept.
const Moved = "It also has to fit this schema: "

// filter removes the keywords that the vendor refuses from a schema. It notes them in the description, because the model
// reads them there.
func (f *fitter) filter(n *node, root bool) {
	if !f.rules.valid {
		return
	}
	var notes []byte
	keys, kids := n.keys[:0:0], n.kids[:0:0]
	for i, key := range n.keys {
		value := n.kids[i]
		keep, loss := f.allowed(n, root, key, value)
		if keep {
			keys, kids = append(keys, key), append(kids, value)
			continue
		}
		if _, known := keywords[key]; !known {
			continue
		}
		if loss && !slices.Contains(remarks, key) {
			f.refuse(n, key)
		}
		notes = f.note(notes, key, value)
	}
	n.keys, n.kids = keys, kids
	if len(notes) == 0 {
		return
	}
	said := string(append(notes, '}'))
	if d := n.get("description"); d.is('"') && d.text != "" {
		n.set("description", text(d.text+"\n"+said))
	} else {
		n.set("description", text(said))
	}
}

// note adds a keyword to the notes of a description, as long as they are short.
func (f *fitter) note(notes []byte, key string, value *node) []byte {
	if value.size(maxNote) > maxNote+64 || len(notes) > maxNotes {
		return notes
	}
	entry := value.append(append((&node{kind: '"', text: key}).append(nil), ':'))
	if !f.spend(2*len(entry) + 32) {
		return notes
	}
	if len(notes) == 0 {
		notes = append(append(notes, Moved...), '{')
	} else {
		notes = append(notes, ',')
	}
	return append(notes, entry...)
}

// allowed reports whether a keyword may stay, and otherwise whether the schema is weaker
// without it.
func (f *fitter) allowed(n *node, root bool, key string, value *node) (keep, loss bool) {
	want, known := keywords[key]
	if f.rules.keywords != nil && !slices.Contains(f.rules.keywords, key) {
		return false, known
	}
	if known && !want.fits(value) {
		return false, true
	}
	if root && f.rules.plainRoot {
		switch key {
		case "anyOf", "oneOf", "allOf", "not", "enum", "const":
			return false, true
		case "type":
			return value.says("object"), true // object sets it
		}
	}
	switch key {
	case "$ref":
		return f.target(value.text) != nil || value.text == "#" && !f.rules.noRootRef, true
	case "format":
		return f.rules.formats == nil || slices.Contains(f.rules.formats, value.text), false
	case "enum":
		return f.values(value.kids), true
	case "const":
		return f.values([]*node{value}), true
	case "minItems":
		return !f.rules.oneItem || value.text == "0" || value.text == "1", true
	case "pattern":
		return !f.rules.simple || isSimple(value.text), true
	case "allOf":
		return f.rules.refInAllOf || !slices.ContainsFunc(value.kids, func(k *node) bool { return k.kind == '{' && k.has("$ref") }), true
	case "additionalProperties":
		return !f.rules.closed || value.kind == 'f', true
	}
	return true, false
}

func (f *fitter) values(values []*node) bool {
	for _, v := range values {
		switch v.kind {
		case '{', '[':
			if f.rules.scalars || f.rules.plainEnum {
				return false
			}
		case 't', 'f', 'n':
			if f.rules.plainEnum {
				return false
			}
		}
	}
	return len(values) > 0
}

// isSimple reports whether a regular expression has no groups with a question mark,
// no references to groups and no word boundaries.
func isSimple(pattern string) bool {
	for i := 0; i < len(pattern); i++ {
		switch {
		case strings.HasPrefix(pattern[i:], "(?"):
			return false
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			if c := pattern[i]; '1' <= c && c <= '9' || c == 'b' || c == 'B' || c == 'k' {
				return false
			}
		}
	}
	return true
}

func (f *fitter) object(n *node, root bool) {
	if root && f.rules.plainRoot && !n.has("type") {
		n.put("type", text("object"))
	}
	if n.get("type").says("array") && !n.has("items") && !n.has("prefixItems") {
		if f.strict {
			f.refuse(n, "items")
		}
		n.set("items", &node{kind: '{', up: n.up, name: n.name})
	}
	if f.rules.typed && !n.has("type") && !n.has("$ref") && !n.has("anyOf") && !n.has("enum") && !n.has("const") {
		f.refuse(n, "type")
	}
	isObject := n.get("type").says("object") || n.get("type").is('[') && n.get("type").contains("object") || n.has("properties")
	if !isObject || f.rules.keywords == nil {
		return
	}
	if f.rules.closed && !n.has("additionalProperties") {
		if !n.has("properties") && !root {
			f.refuse(n, "additionalProperties") // because any object fits, whose members are not described
		}
		n.set("additionalProperties", &node{kind: 'f'})
	}
	f.names(n)
}

// names makes required consistent with properties.
func (f *fitter) names(n *node) {
	properties, required := n.get("properties"), n.get("required")
	if f.rules.required {
		if properties == nil {
			properties = &node{kind: '{'}
			n.set("properties", properties)
		}
		if required == nil {
			required = list()
			n.set("required", required)
		}
	}
	if required == nil {
		return
	}
	declared := map[string]bool{}
	if properties != nil {
		for _, name := range properties.keys {
			declared[name] = false
		}
	}
	kept := required.kids[:0:0]
	for _, name := range required.kids {
		seen, ok := declared[name.text]
		if !ok {
			f.refuse(n, "required")
			continue
		}
		if !seen {
			kept = append(kept, name)
		}
		declared[name.text] = true
	}
	if f.rules.required {
		for i, name := range properties.keys {
			if !declared[name] {
				f.refuse(properties.kids[i], "required")
				kept = append(kept, text(name))
			}
		}
	}
	required.kids = kept
}
