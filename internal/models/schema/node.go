package schema

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
)

// A node is a JSON value whose members keep their order.
type node struct {
	kind byte     // as in [jsonx.Kind]
	text string   // of a string its value, of a number its digits
	keys []string // of an object, one for each element of kids
	kids []*node  // of an object or an array

	up   *node  // the enclosing value in the caller's schema, and the member's name
	name string // or index in it
}

func parse(text string) (*node, bool) {
	if len(text) > MaxBytes+maxGrown {
		return nil, false
	}
	left := maxNodes
	dec := jsonx.NewDecoder([]byte(text))
	n, ok := read(dec, nil, "", &left)
	if !ok || n.kind != '{' {
		return nil, false
	}
	_, err := dec.ReadToken()
	return n, err == io.EOF
}

// read reads the next value, the member or element called name of up. left is the number of
// values that may still follow.
func read(dec *jsonx.Decoder, up *node, name string, left *int) (*node, bool) {
	if *left--; *left < 0 || dec.StackDepth() >= maxDepth {
		return nil, false
	}
	token, err := dec.ReadToken()
	if err != nil {
		return nil, false
	}
	n := &node{kind: byte(token.Kind()), up: up, name: name}
	switch n.kind {
	case '"', '0':
		n.text = token.String()
	case '[':
		for dec.PeekKind() != ']' {
			kid, ok := read(dec, n, strconv.Itoa(len(n.kids)), left)
			if !ok {
				return nil, false
			}
			n.kids = append(n.kids, kid)
		}
		_, err = dec.ReadToken()
	case '{':
		for dec.PeekKind() != '}' {
			token, err := dec.ReadToken()
			if err != nil {
				return nil, false
			}
			key := token.String()
			kid, ok := read(dec, n, key, left)
			if !ok {
				return nil, false
			}
			n.keys, n.kids = append(n.keys, key), append(n.kids, kid)
		}
		_, err = dec.ReadToken()
	}
	return n, err == nil
}

func (n *node) append(dst []byte) []byte {
	switch n.kind {
	case '"':
		return jsonx.AppendString(dst, n.text)
	case '0':
		return append(dst, n.text...)
	case 't':
		return append(dst, "true"...)
	case 'f':
		return append(dst, "false"...)
	case 'n':
		return append(dst, "null"...)
	}
	dst = append(dst, n.kind)
	for i, kid := range n.kids {
		if i > 0 {
			dst = append(dst, ',')
		}
		if n.kind == '{' {
			dst = append(jsonx.AppendString(dst, n.keys[i]), ':')
		}
		dst = kid.append(dst)
	}
	return append(dst, n.kind+2) // ] is [ plus two in ASCII, as } is { plus two
}

func (n *node) pointer() string {
	var steps []string
	for ; n != nil && n.up != nil; n = n.up {
		name := n.name
		if len(name) > 64 {
			name = strings.ToValidUTF8(name[:64], "") + "…"
		}
		steps = append(steps, strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	slices.Reverse(steps)
	var b strings.Builder
	for _, s := range steps {
		b.WriteString("/" + s)
	}
	return b.String()
}

func text(s string) *node      { return &node{kind: '"', text: s} }
func list(kids ...*node) *node { return &node{kind: '[', kids: kids} }

func (n *node) is(kind byte) bool    { return n != nil && n.kind == kind }
func (n *node) says(s string) bool   { return n.is('"') && n.text == s }
func (n *node) has(key string) bool  { return n.get(key) != nil }
func (n *node) index(key string) int { return slices.Index(n.keys, key) }
func (n *node) contains(word string) bool {
	return slices.ContainsFunc(n.kids, func(k *node) bool { return k.says(word) })
}

func (n *node) get(key string) *node {
	if n.kind == '{' {
		if i := n.index(key); i >= 0 {
			return n.kids[i]
		}
	}
	return nil
}

// at returns the target of a reference's steps, nil if none exists.
func (n *node) at(path []string) *node {
	for _, step := range path {
		switch i, err := strconv.Atoi(step); {
		case n == nil:
			return nil
		case n.kind != '[':
			n = n.get(step)
		case err != nil || i < 0 || i >= len(n.kids):
			return nil
		default:
			n = n.kids[i]
		}
	}
	return n
}

func (n *node) members() map[string]*node {
	m := make(map[string]*node, len(n.keys))
	for i, key := range n.keys {
		m[key] = n.kids[i]
	}
	return m
}

func (n *node) set(key string, value *node) {
	if i := n.index(key); i >= 0 {
		n.kids[i] = value
		return
	}
	n.keys, n.kids = append(n.keys, key), append(n.kids, value)
}

func (n *node) put(key string, value *node) {
	n.keys, n.kids = slices.Insert(n.keys, 0, key), slices.Insert(n.kids, 0, value)
}

func (n *node) rename(key, to string) {
	n.keys[n.index(key)] = to
}

func (n *node) remove(key string) *node {
	i := n.index(key)
	if n.kind != '{' || i < 0 {
		return nil
	}
	kid := n.kids[i]
	n.keys, n.kids = slices.Delete(n.keys, i, i+1), slices.Delete(n.kids, i, i+1)
	return kid
}

func (n *node) size(limit int) int {
	total := 64 + len(n.text)
	for i, kid := range n.kids {
		if n.kind == '{' {
			total += len(n.keys[i])
		}
		if total > limit {
			break
		}
		total += kid.size(limit - total)
	}
	return total
}

func (n *node) deep(level int) int {
	most := level
	for _, kid := range n.kids {
		most = max(most, kid.deep(level+1))
	}
	return most
}

// copy copies the value; positions stay those of the original.
func (n *node) copy() *node {
	c := *n
	c.keys = slices.Clone(n.keys)
	c.kids = make([]*node, len(n.kids))
	for i, kid := range n.kids {
		c.kids[i] = kid.copy()
	}
	return &c
}

func (n *node) equal(o *node) bool {
	return n.kind == o.kind && n.text == o.text && slices.Equal(n.keys, o.keys) && slices.EqualFunc(n.kids, o.kids, (*node).equal)
}
