package schema

import (
	"slices"
	"strings"
)

type fitter struct {
	rules  rules
	vendor Vendor
	strict bool
	root   *node
	defs   map[string]*node // of $defs at the root
	active []string         // the definitions that contain the current schema
	force  map[*node]bool   // references that must be replaced
	budget int              // number of bytes that may still be added
	misfit *Misfit
}

// run rewrites the root, then the definitions, then applies the steps that need the whole
// schema.
func (f *fitter) run() {
	if f.vendor == Compatible { // references keep their targets, because nothing is known to be refused
		f.plain(f.root)
		if !f.root.has("type") {
			f.guessType(f.root, true)
		}
		return
	}
	f.hoist()
	f.inlineRoot()
	f.schema(f.root, true)
	if defs := f.root.get("$defs"); defs != nil {
		for i, name := range defs.keys {
			f.active = append(f.active[:0], name)
			defs.kids[i] = f.subschema(defs.kids[i])
		}
		f.active = nil
	}
	f.references()
	f.limits()
}

// refuse records that a part of the schema had to be removed; the first one counts.
func (f *fitter) refuse(n *node, keyword string) {
	if f.misfit == nil {
		f.misfit = &Misfit{Pointer: n.pointer(), Keyword: keyword}
	}
}

func (f *fitter) spend(n int) bool {
	if n > f.budget {
		return false
	}
	f.budget -= n
	return true
}

func (f *fitter) plain(n *node) {
	for _, key := range nameKeywords {
		if n.get(key).is('"') {
			n.remove(key)
		}
	}
	for i, key := range n.keys {
		switch value := n.kids[i]; keywords[key] {
		case isSchema:
			f.plain(value)
		case isSchemas, isMap:
			for _, kid := range value.kids {
				f.plain(kid)
			}
		}
	}
}

// nameKeywords are keywords about the origin of a schema.
var nameKeywords = []string{"$schema", "$id", "$comment"}

func (f *fitter) subschema(n *node) *node {
	if n.kind != '{' {
		if f.rules.keywords == nil {
			return n
		}
		empty := &node{kind: '{', up: n.up, name: n.name}
		if n.kind == 'f' {
			f.refuse(n, "false")
			empty.set("description", text("No value is valid here."))
		}
		n = empty
	}
	f.schema(n, false)
	return n
}

// schema rewrites an object schema and its subschemas. The order of the steps is part of the
// package's guarantee.
func (f *fitter) schema(n *node, root bool) {
	mark := len(f.active)
	f.reform(n)
	f.mergeOne(n)
	for f.inline(n) {
		f.reform(n)
		f.mergeOne(n)
	}
	if f.rules.anyOf && !n.has("anyOf") && n.has("oneOf") {
		n.rename("oneOf", "anyOf")
	}
	nullable(n)
	f.splitTypes(n, root)
	if f.rules.noConst && n.has("const") && !n.has("enum") {
		c := n.get("const")
		n.rename("const", "enum")
		n.set("enum", list(c))
	}
	f.splitNull(n)
	f.guessType(n, root)
	f.filter(n, root)
	f.object(n, root)
	f.within(n)
	f.active = f.active[:mark]
}

// reform drops keywords that only name a schema, and converts older drafts to draft 2020-12.
func (f *fitter) reform(n *node) {
	for _, key := range nameKeywords {
		n.remove(key)
	}
	for _, key := range []string{"$anchor", "$dynamicAnchor", "$vocabulary"} {
		n.remove(key)
	}
	for _, key := range []string{"$defs", "definitions"} { // every reference has its target at the root
		if n != f.root {
			n.remove(key)
		}
	}
	if items := n.get("items"); items.is('[') && !n.has("prefixItems") {
		n.rename("items", "prefixItems")
		if more := n.remove("additionalItems"); more != nil && isSubschema(more) {
			n.set("items", more)
		}
	}
	for _, key := range []string{"Minimum", "Maximum"} {
		exclusive, plain := "exclusive"+key, strings.ToLower(key)
		switch e := n.get(exclusive); {
		case e.is('f'):
			n.remove(exclusive)
		case e.is('t') && n.get(plain).is('0'):
			n.set(exclusive, n.remove(plain))
		}
	}
}

func (f *fitter) mergeOne(n *node) {
	for {
		all := n.get("allOf")
		if !all.is('[') || len(all.kids) != 1 || all.kids[0].kind != '{' {
			return
		}
		only, members := all.kids[0], n.members()
		for i, key := range only.keys {
			if have := members[key]; key != "allOf" && have != nil && !have.equal(only.kids[i]) && !isRemark(key) {
				return
			}
		}
		merged := &node{kind: '{', up: n.up, name: n.name}
		for i, key := range n.keys {
			if key == "allOf" {
				for j, inner := range only.keys {
					if inner == "allOf" || members[inner] == nil {
						merged.keys, merged.kids = append(merged.keys, inner), append(merged.kids, only.kids[j])
					}
				}
				continue
			}
			merged.keys, merged.kids = append(merged.keys, key), append(merged.kids, n.kids[i])
		}
		*n = *merged
		f.reform(n)
	}
}

func isRemark(key string) bool { return key == "description" || slices.Contains(remarks, key) }

// limits are keywords that only refuse some of the values of a type.
var limits = []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems"}

// WithoutLimits returns a schema without the keywords that only limit numbers, texts and lists. It accepts every value that
// the schema accepts.
func WithoutLimits(schema string) string {
	root, ok := parse(schema)
	if !ok {
		return schema
	}
	for later := []*node{root}; len(later) > 0; {
		n := later[0]
		later = later[1:]
		if n.kind != '{' {
			continue
		}
		for _, key := range limits {
			n.remove(key)
		}
		for i, key := range n.keys {
			later = append(later, subschemas(key, n.kids[i])...)
		}
	}
	return string(root.append(nil))
}

func nullable(n *node) {
	value := n.get("nullable")
	if value == nil || value.kind != 't' && value.kind != 'f' {
		return
	}
	n.remove("nullable")
	if value.kind == 'f' {
		return
	}
	null := text("null")
	switch t := n.get("type"); {
	case t.is('"') && t.text != "null":
		n.set("type", list(t, null))
	case t.is('[') && !t.contains("null"):
		t.kids = append(t.kids, null)
	case t == nil && n.get("anyOf").is('['):
		branch := &node{kind: '{'}
		branch.set("type", null)
		union := n.get("anyOf")
		union.kids = append(union.kids, branch)
	case t == nil && n.get("$ref").is('"'):
		ref, branch := &node{kind: '{'}, &node{kind: '{'}
		ref.set("$ref", n.get("$ref"))
		branch.set("type", null)
		n.rename("$ref", "anyOf")
		n.set("anyOf", list(ref, branch))
	}
	if values := n.get("enum"); values.is('[') && !slices.ContainsFunc(values.kids, func(k *node) bool { return k.kind == 'n' }) {
		values.kids = append(values.kids, &node{kind: 'n'})
	}
}

// about maps keywords to the type that they constrain. Missing keywords apply to any value.
var about = map[string]string{
	"properties": "object", "required": "object", "additionalProperties": "object", "patternProperties": "object", "propertyNames": "object",
	"unevaluatedProperties": "object", "minProperties": "object", "maxProperties": "object", "dependentRequired": "object", "dependentSchemas": "object",
	"items": "array", "prefixItems": "array", "contains": "array", "minContains": "array", "maxContains": "array",
	"unevaluatedItems": "array", "minItems": "array", "maxItems": "array", "uniqueItems": "array",
	"minLength": "string", "maxLength": "string", "pattern": "string", "format": "string",
	"minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number", "multipleOf": "number",
}

// splitTypes turns a list of types that includes an object or an array into a union. The root
// must be an object and becomes one.
func (f *fitter) splitTypes(n *node, root bool) {
	t := n.get("type")
	if !t.is('[') || !isType.fits(t) || !t.contains("object") && !t.contains("array") {
		return
	}
	if root && t.contains("object") {
		n.set("type", text("object"))
		return
	}
	if len(t.kids) == 1 {
		n.set("type", t.kids[0])
		return
	}
	if n.has("anyOf") || n.has("enum") || n.has("const") {
		return
	}
	union := list()
	for _, kind := range t.kids {
		branch := &node{kind: '{', up: n.up, name: n.name}
		branch.set("type", kind)
		for i, key := range n.keys {
			if a := about[key]; a != "" && (a == kind.text || a == "number" && kind.text == "integer") {
				value := n.kids[i]
				if a == "number" && !f.spend(value.size(f.budget)) {
					continue
				} else if a == "number" { // since an integer may belong to two branches
					value = value.copy()
				}
				branch.keys, branch.kids = append(branch.keys, key), append(branch.kids, value)
			}
		}
		union.kids = append(union.kids, branch)
	}
	out := &node{kind: '{', up: n.up, name: n.name}
	for i, key := range n.keys {
		switch {
		case key == "type":
			out.keys, out.kids = append(out.keys, "anyOf"), append(out.kids, union)
		case about[key] == "":
			out.keys, out.kids = append(out.keys, key), append(out.kids, n.kids[i])
		}
	}
	*n = *out
}

// splitNull removes null from the values of an enum and makes a union with it, because the vendor
// accepts only strings and numbers there.
func (f *fitter) splitNull(n *node) {
	values := n.get("enum")
	if !f.rules.plainEnum || !values.is('[') || n.has("anyOf") {
		return
	}
	isNull := func(k *node) bool { return k.kind == 'n' }
	rest := slices.DeleteFunc(slices.Clone(values.kids), isNull)
	if len(rest) == len(values.kids) {
		return
	}
	null := &node{kind: '{', keys: []string{"type"}, kids: []*node{text("null")}, up: n.up, name: n.name}
	if len(rest) == 0 {
		n.remove("enum")
		n.remove("type")
		n.put("type", text("null"))
		return
	}
	branch := &node{kind: '{', up: n.up, name: n.name}
	if t := n.remove("type"); t.is('"') {
		branch.set("type", t)
	} else if t.is('[') {
		t.kids = slices.DeleteFunc(t.kids, func(k *node) bool { return k.says("null") })
		if len(t.kids) == 1 {
			t = t.kids[0]
		}
		branch.set("type", t)
	}
	branch.set("enum", list(rest...))
	n.rename("enum", "anyOf")
	n.set("anyOf", list(branch, null))
}

func (f *fitter) guessType(n *node, root bool) {
	if n.has("type") || n.has("$ref") || n.has("anyOf") || n.has("oneOf") || n.has("allOf") {
		if root && f.rules.plainRoot && !n.has("type") {
			n.put("type", text("object"))
		}
		return
	}
	kind := ""
	switch values := n.get("enum"); {
	case root && f.rules.plainRoot:
		kind = "object"
	case values.is('[') && len(values.kids) > 0:
		kind = typeOf(values.kids[0])
		for _, v := range values.kids {
			if typeOf(v) != kind {
				kind = ""
				break
			}
		}
	case n.has("const"):
		kind = typeOf(n.get("const"))
	case n.has("properties") || root:
		kind = "object"
	case n.has("items") || n.has("prefixItems"):
		kind = "array"
	}
	if kind != "" && (root || f.rules.keywords != nil) {
		n.put("type", text(kind))
	}
}

func typeOf(n *node) string {
	switch n.kind {
	case '"':
		return "string"
	case '0':
		return "number"
	case 't', 'f':
		return "boolean"
	case '[':
		return "array"
	case '{':
		return "object"
	}
	return "null"
}

func (f *fitter) within(n *node) {
	for i, key := range n.keys {
		value := n.kids[i]
		switch {
		case n == f.root && key == "$defs":
		case keywords[key] == isSchema && isSubschema(value):
			if value.kind == '{' || key != "additionalProperties" && key != "unevaluatedProperties" && key != "unevaluatedItems" {
				n.kids[i] = f.subschema(value)
			}
		case keywords[key] == isSchemas && value.kind == '[', keywords[key] == isMap && value.kind == '{':
			for j, kid := range value.kids {
				if f.rules.refInUnion && key == "anyOf" && kid.kind == '{' && kid.has("$ref") {
					f.force[kid] = true
				}
				if isSubschema(kid) {
					value.kids[j] = f.subschema(kid)
				}
			}
		}
	}
}
