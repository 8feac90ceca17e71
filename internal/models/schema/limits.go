package schema

import (
	"strings"
	"unicode/utf8"
)

// OpenAI's limits of one enum with many values, in characters.
const (
	longEnum      = 250
	longEnumChars = 15_000
)

type counts struct{ optional, unions, levels, properties, values, names int }

func (f *fitter) limits() {
	var c counts
	long := f.count(f.root, 0, &c)
	r := &f.rules
	for _, l := range []struct {
		have, most int
		keyword    string
	}{
		{c.optional, r.optional, "required"},
		{c.unions, r.unions, "anyOf"},
		{c.levels, r.levels, "properties"},
		{c.properties, r.properties, "properties"},
		{c.values, r.values, "enum"},
		{c.names, r.names, "properties"},
	} {
		if l.most > 0 && l.have > l.most {
			f.misfit = &Misfit{Keyword: l.keyword, Hard: true}
			return
		}
	}
	if long != nil && r.values > 0 {
		f.misfit = &Misfit{Pointer: long.pointer(), Keyword: "enum", Hard: true}
	}
}

// count adds the numbers of a schema; it returns a schema with an enum that is too long.
func (f *fitter) count(n *node, level int, c *counts) (long *node) {
	c.levels = max(c.levels, level)
	if t := n.get("type"); n.get("anyOf").is('[') || t.is('[') && len(t.kids) > 1 {
		c.unions++
	}
	if values := n.get("enum"); values.is('[') {
		c.values += len(values.kids)
		chars := 0
		for _, v := range values.kids {
			chars += utf8.RuneCountInString(v.text)
		}
		c.names += chars
		if len(values.kids) > longEnum && chars > longEnumChars {
			long = n
		}
	}
	if v := n.get("const"); v != nil {
		c.names += utf8.RuneCountInString(v.text)
	}
	for i, key := range n.keys {
		value := n.kids[i]
		var more *node
		switch shape := keywords[key]; {
		case shape == isMap && value.kind == '{':
			c.names += utf8.RuneCountInString(strings.Join(value.keys, ""))
			if key == "properties" {
				c.properties += len(value.kids)
				c.optional += len(value.kids)
				if required := n.get("required"); required.is('[') {
					c.optional -= len(required.kids) // because object made each of them a property, which counts once
				}
			}
			for _, kid := range value.kids {
				if key == "$defs" {
					more = first(more, f.count(kid, 1, c))
				} else {
					more = first(more, f.count(kid, level+1, c))
				}
			}
		case shape == isSchema && value.kind == '{':
			more = f.count(value, level+1, c)
		case shape == isSchemas && value.kind == '[':
			for _, kid := range value.kids {
				more = first(more, f.count(kid, level, c))
			}
		}
		long = first(long, more)
	}
	return long
}

func first(a, b *node) *node {
	if a != nil {
		return a
	}
	return b
}
