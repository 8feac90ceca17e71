package schema

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const defsPrefix = "#/$defs/"

var (
	unescapeStep = strings.NewReplacer("~1", "/", "~0", "~")
	escapeStep   = strings.NewReplacer("~", "~0", "/", "~1")
)

func steps(ref string) ([]string, bool) {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, ref == "#"
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil {
		return nil, false
	}
	out := strings.Split(pointer, "/")
	for i, s := range out {
		out[i] = unescapeStep.Replace(s)
	}
	return out, true
}

func (f *fitter) target(ref string) *node {
	if s, ok := steps(ref); ok && len(s) == 2 && s[0] == "$defs" {
		return f.defs[s[1]]
	}
	return nil
}

// hoist makes every reference one to a member of $defs at the root, because all vendors expect it there.
func (f *fitter) hoist() {
	f.defs = map[string]*node{}
	defs := f.root.get("$defs")
	old := f.root.get("definitions")
	moved := map[string]string{} // names in definitions that also occur in $defs
	switch {
	case old.is('{') && defs == nil:
		f.root.rename("definitions", "$defs")
		defs = old
	case old.is('{') && defs.is('{'):
		for i, name := range defs.keys {
			f.defs[name] = defs.kids[i]
		}
		for i, name := range old.keys {
			fresh := f.fresh(name)
			moved[name] = fresh
			f.defs[fresh] = old.kids[i]
			defs.keys, defs.kids = append(defs.keys, fresh), append(defs.kids, old.kids[i])
		}
		f.root.remove("definitions")
	case defs != nil && !defs.is('{'):
		return // because filter refuses its shape
	case defs == nil:
		defs = &node{kind: '{'}
	}
	for i, name := range defs.keys {
		f.defs[name] = defs.kids[i]
	}
	h := hoister{f: f, defs: defs, moved: moved, done: map[string]string{}}
	h.visit(f.root)
	for i := 0; i < len(defs.kids); i++ { // it grows
		h.visit(defs.kids[i])
	}
	if len(defs.keys) > 0 {
		f.root.set("$defs", defs)
	}
}

type hoister struct {
	f     *fitter
	defs  *node             // $defs of the root
	moved map[string]string // names in definitions that are different in $defs
	done  map[string]string // names in $defs by the pointer to the copied value
}

// maxHoisted is the maximum number of schemas that are copied to $defs because of references.
const maxHoisted = 256

// visit rewrites the references in a schema, except those in $defs of the root.
func (h *hoister) visit(n *node) {
	if ref := n.get("$ref"); ref.is('"') {
		h.point(ref)
	}
	for i, key := range n.keys {
		value := n.kids[i]
		switch shape := keywords[key]; {
		case value == h.defs:
		case shape == isSchema && value.kind == '{':
			h.visit(value)
		case shape == isMap || shape == isSchemas || shape == isSchema || key == "definitions":
			for _, kid := range value.kids {
				h.visit(kid)
			}
		}
	}
}

func (h *hoister) point(ref *node) {
	f := h.f
	to, ok := steps(ref.text)
	if !ok || len(to) == 0 && !f.rules.noRootRef {
		return
	}
	if len(to) == 2 && to[0] == "definitions" {
		if name := cmp.Or(h.moved[to[1]], to[1]); f.defs[name] != nil {
			setDefinition(ref, name)
			return
		}
	}
	if len(to) == 2 && to[0] == "$defs" {
		return
	}
	pointer := strings.Join(to, "/")
	name, done := h.done[pointer]
	if !done {
		n := h.find(to)
		if !n.is('{') || len(h.done) == maxHoisted || !f.spend(n.size(f.budget)) {
			return
		}
		n = n.copy()
		n.remove("$defs")
		name = f.fresh(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, "at_"+pointer[max(0, len(pointer)-48):]))
		h.done[pointer] = name
		f.defs[name] = n
		h.defs.keys, h.defs.kids = append(h.defs.keys, name), append(h.defs.kids, n)
	}
	setDefinition(ref, name)
}

func setDefinition(ref *node, name string) { ref.text = defsPrefix + escapeStep.Replace(name) }

// find returns the value at the steps from the root, nil if none exists. The content of
// definitions is in $defs by then.
func (h *hoister) find(to []string) *node {
	n := h.f.root
	if len(to) > 1 && to[0] == "definitions" && !n.has("definitions") {
		to = slices.Clone(to)
		to[0], to[1] = "$defs", cmp.Or(h.moved[to[1]], to[1])
	}
	return n.at(to)
}

func (f *fitter) fresh(name string) string {
	for i, base := 2, name; f.defs[name] != nil; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	return name
}

// inlineRoot replaces a root reference by its definition, because vendors require an object there.
func (f *fitter) inlineRoot() {
	f.reform(f.root)
	f.mergeOne(f.root)
	for f.root.get("$ref").is('"') {
		defs := f.root.remove("$defs")
		ok := f.merge(f.root)
		if defs != nil {
			f.root.set("$defs", defs)
		}
		if !ok {
			break
		}
		f.mergeOne(f.root)
	}
}

// inline replaces a reference by a copy of its definition, if the vendor does not accept
// other keywords next to a reference, and reports whether it did.
func (f *fitter) inline(n *node) bool {
	if !n.get("$ref").is('"') || n == f.root || !f.force[n] && (!f.rules.refAlone || len(n.keys) == 1) {
		return false
	}
	if f.merge(n) {
		return true
	}
	if f.target(n.get("$ref").text) == nil && n.get("$ref").text != "#" {
		return false // because filter drops it
	}
	if f.force[n] {
		f.refuse(n, "$ref")
		n.remove("$ref")
		return false
	}
	for _, key := range n.keys {
		if key != "$ref" && !isRemark(key) {
			f.refuse(n, key)
		}
	}
	*n = node{kind: '{', keys: []string{"$ref"}, kids: []*node{n.get("$ref")}, up: n.up, name: n.name}
	return false
}

// merge replaces a reference by the members of its definition, since keywords next to it still
// apply. It fails for a definition that contains the reference, and for one that is too large.
func (f *fitter) merge(n *node) bool {
	ref := n.get("$ref").text
	to := f.target(ref)
	s, _ := steps(ref)
	if to == nil || to.kind != '{' || slices.Contains(f.active, s[1]) || len(f.active) >= maxActive || !f.spend(to.size(f.budget)) {
		return false
	}
	if n != f.root || len(f.active) > 0 || to.has("$ref") {
		f.active = append(f.active, s[1])
	}
	to = to.copy()
	besides, has := n.members(), to.members()
	merged := &node{kind: '{', up: n.up, name: n.name}
	for i, key := range to.keys {
		value := to.kids[i]
		if beside := besides[key]; beside != nil && key != "$ref" && !beside.equal(value) {
			if isRemark(key) {
				value = beside
			} else {
				f.refuse(n, key)
			}
		}
		merged.keys, merged.kids = append(merged.keys, key), append(merged.kids, value)
	}
	for i, key := range n.keys {
		if key != "$ref" && has[key] == nil {
			merged.keys, merged.kids = append(merged.keys, key), append(merged.kids, n.kids[i])
		}
	}
	*n = *merged
	return true
}

// maxActive is the maximum nesting of inlined definitions.
const maxActive = 16

// references breaks the cycles that the vendor does not accept, and drops unreferenced
// definitions.
func (f *fitter) references() {
	defs := f.root.get("$defs")
	if f.rules.keywords == nil || !defs.is('{') {
		return
	}
	edges := map[string][]edge{"": edgesOf(f.root)}
	for i, name := range defs.keys {
		edges["/"+name] = edgesOf(defs.kids[i])
	}
	open, done := map[string]bool{}, map[string]bool{}
	var follow func(at string)
	follow = func(at string) {
		open[at], done[at] = true, true
		for i, e := range edges[at] {
			if f.rules.recursion == optionalRecursion && e.optional || f.rules.recursion == anyRecursion && !e.alone {
				continue
			}
			if to := "/" + e.to; !done[to] {
				follow(to)
			} else if open[to] {
				f.refuse(e.from, "$ref")
				e.from.remove("$ref")
				if !e.from.has("description") {
					e.from.set("description", text("A value as in the schema around it."))
				}
				edges[at][i].gone = true
			}
		}
		open[at] = false
	}
	follow("")
	for _, name := range defs.keys {
		if !done["/"+name] {
			follow("/" + name)
		}
	}
	used := map[string]bool{}
	next := []string{""}
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		for _, e := range edges[at] {
			if to := "/" + e.to; !e.gone && !used[to] {
				used[to] = true
				next = append(next, to)
			}
		}
	}
	out := &node{kind: '{', up: f.root, name: "$defs"}
	for i, name := range defs.keys {
		if used["/"+name] {
			out.keys, out.kids = append(out.keys, name), append(out.kids, defs.kids[i])
		}
	}
	if f.root.set("$defs", out); len(out.keys) == 0 {
		f.root.remove("$defs")
	}
}

type edge struct {
	from     *node // the schema with $ref
	to       string
	optional bool // it is in an optional member
	alone    bool // it is the whole definition
	gone     bool
}

func edgesOf(n *node) []edge { return edgesIn(n, false, true, nil) }

// edgesIn adds the references in a schema. optional means that it is in an optional member;
// whole that it is the definition itself.
func edgesIn(n *node, optional, whole bool, out []edge) []edge {
	if ref := n.get("$ref"); ref.is('"') {
		if s, ok := steps(ref.text); ok && len(s) == 2 {
			out = append(out, edge{from: n, to: s[1], optional: optional, alone: whole})
		}
	}
	for i, key := range n.keys {
		value := n.kids[i]
		switch shape := keywords[key]; {
		case key == "$defs":
		case shape == isSchema && value.kind == '{':
			out = edgesIn(value, optional || key == "additionalProperties", false, out)
		case shape == isMap && value.kind == '{':
			must := map[string]bool{}
			if required := n.get("required"); required.is('[') {
				for _, name := range required.kids {
					must[name.text] = true
				}
			}
			for j, kid := range value.kids {
				out = edgesIn(kid, optional || key == "properties" && !must[value.keys[j]], false, out)
			}
		case shape == isSchemas && value.kind == '[':
			for _, kid := range value.kids {
				out = edgesIn(kid, optional, false, out)
			}
		}
	}
	return out
}
