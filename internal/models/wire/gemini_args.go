package wire

import (
	"strconv"
	"strings"

	"stoa/internal/base/jsonx"
)

// An argument is a value of a function call whose arguments arrive in pieces: each piece is a
// path with a value, or with more of a string.
type argument struct {
	kind byte // '{', '[', '"', or '0' for a literal
	keys []string
	kids []*argument
	text []byte
}

// maxArgumentDepth is the maximum number of steps of a path.
const maxArgumentDepth = 32

// add adds a list of partialArgs.
func (g *geminiCall) add(list []byte) error {
	c := jsonx.NewReplyCursor(list)
	if len(list) == 0 {
		return nil
	}
	for ok := c.Array(); ok && c.Element(); {
		var path string
		kind := byte('0')
		var text []byte
		for ok := c.Object(); ok && c.Member(); {
			switch string(c.Key) {
			case "jsonPath":
				path, _ = c.Text()
			case "stringValue":
				if c.Kind() == '"' {
					kind = '"'
					text, _ = c.AppendPiece(nil)
				}
			case "numberValue", "boolValue":
				text = c.Raw()
			case "nullValue":
				text = []byte("null")
			}
		}
		if g.size += len(path) + len(text) + 16; g.size > maxArguments {
			return tooMuch("tool arguments")
		}
		if g.tree == nil {
			g.tree = &argument{kind: '{'}
		}
		leaf := g.tree.at(path)
		if leaf == nil {
			return broken("an invalid path of an argument")
		}
		if text == nil {
			continue
		}
		if kind != '"' || leaf.kind != '"' {
			*leaf = argument{kind: kind}
		}
		leaf.text = append(leaf.text, text...)
	}
	return nil
}

// at returns the value at a path such as $.place.names[0] or $['a b'] and creates it
// if needed. It returns nil for an invalid path.
func (a *argument) at(path string) *argument {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok {
		return nil
	}
	for depth := 0; rest != ""; depth++ {
		if depth == maxArgumentDepth {
			return nil
		}
		var name string
		index := -1
		switch {
		case rest[0] == '.':
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			name, rest = rest[1:end], rest[end:]
		case len(rest) > 2 && rest[0] == '[' && (rest[1] == '\'' || rest[1] == '"'):
			end := strings.Index(rest[2:], rest[1:2]+"]")
			if end < 0 {
				return nil
			}
			name, rest = rest[2:2+end], rest[2+end+2:]
		case rest[0] == '[':
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return nil
			}
			n, err := strconv.ParseUint(rest[1:end], 10, 16)
			if err != nil {
				return nil
			}
			index, rest = int(n), rest[end+1:]
		default:
			return nil
		}
		if index >= 0 {
			if a = a.element(index); a == nil {
				return nil
			}
		} else {
			a = a.member(name)
		}
	}
	return a
}

func (a *argument) member(name string) *argument {
	if a.kind != '{' {
		*a = argument{kind: '{'}
	}
	for i, k := range a.keys {
		if k == name {
			return a.kids[i]
		}
	}
	kid := &argument{kind: '0'}
	a.keys, a.kids = append(a.keys, name), append(a.kids, kid)
	return kid
}

func (a *argument) element(index int) *argument {
	if a.kind != '[' {
		*a = argument{kind: '['}
	}
	switch {
	case index > len(a.kids): // refused, because elements arrive in order, and a gap could have any size
		return nil
	case index == len(a.kids):
		a.kids = append(a.kids, &argument{kind: '0'})
	}
	return a.kids[index]
}

func (a *argument) append(dst []byte) []byte {
	switch a.kind {
	case '{', '[':
		dst = append(dst, a.kind)
		for i, kid := range a.kids {
			if i > 0 {
				dst = append(dst, ',')
			}
			if a.kind == '{' {
				dst = append(jsonx.AppendString(dst, a.keys[i]), ':')
			}
			dst = kid.append(dst)
		}
		return append(dst, a.kind+2) // ] is [ plus two in ASCII, as } is { plus two
	case '"':
		return jsonx.AppendString(dst, jsonx.Mend(a.text))
	}
	if len(a.text) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, a.text...)
}
