package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"stoa/internal/base/stoa"
)

// A reader applies a YAML file to settings. It walks the syntax tree itself, so that it can
// record the line of every setting and problem.
type reader struct {
	file    string
	sources map[string]string
	excused map[string]bool // see Config
	anchors map[string]ast.Node
	errs    []error
}

func newReader(file string, sources map[string]string) *reader {
	return &reader{file: file, sources: sources, excused: map[string]bool{}, anchors: map[string]ast.Node{}}
}

// readYAML applies a file's text to c and records the position of each setting. It reports
// whether it could read the whole file.
func readYAML(c *Config, file string, text []byte) (whole bool, errs []error) {
	r := newReader(file, c.sources)
	c.excused = r.excused
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return false, []error{r.syntax(err)}
	}
	if len(tree.Docs) > 1 {
		return false, []error{&Problem{Where: file, Message: "contains several YAML documents; put all settings into one"}}
	}
	for _, doc := range tree.Docs {
		if doc.Body != nil {
			r.value(doc.Body, reflect.ValueOf(c).Elem(), "")
		}
	}
	return true, r.errs
}

// syntax returns a parser error as one line with its position, because the parser's text contains an excerpt of the
// file.
func (r *reader) syntax(err error) error {
	var e yaml.Error
	if errors.As(err, &e) && e.GetToken() != nil {
		return &Problem{Where: r.position(e.GetToken().Position.Line, e.GetToken().Position.Column), Message: e.GetMessage()}
	}
	return &Problem{Where: r.file, Message: strings.SplitN(err.Error(), "\n", 2)[0]}
}

func (r *reader) position(line, column int) string {
	return fmt.Sprintf("%s:%d:%d", r.file, line, column)
}

func (r *reader) at(n ast.Node) string {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return r.position(t.Position.Line, t.Position.Column)
	}
	return r.file
}

func (r *reader) fail(n ast.Node, path, format string, args ...any) {
	r.errs = append(r.errs, &Problem{Where: r.at(n), Path: path, Message: fmt.Sprintf(format, args...)})
}

// plain resolves anchors, aliases and tags. It gives up after 100 steps, so that an alias that refers to
// itself stays an alias instead of a loop.
func (r *reader) plain(n ast.Node) ast.Node {
	for range 100 {
		switch t := n.(type) {
		case *ast.AnchorNode:
			r.anchors[t.Name.String()] = t.Value
			n = t.Value
		case *ast.AliasNode:
			target, ok := r.anchors[t.Value.String()]
			if !ok {
				return n
			}
			n = target
		case *ast.TagNode:
			n = t.Value
		default:
			return n
		}
	}
	return &ast.AliasNode{BaseNode: &ast.BaseNode{}, Start: n.GetToken()}
}

// value sets v from a node. A null keeps the default in v.
func (r *reader) value(n ast.Node, v reflect.Value, path string) {
	n = r.plain(n)
	switch n.(type) {
	case *ast.NullNode, *ast.CommentGroupNode:
		return
	case *ast.AliasNode:
		r.fail(n, path, "this alias has no anchor above it")
		return
	}
	if v.Kind() == reflect.Pointer {
		to := reflect.New(v.Type().Elem())
		r.value(n, to.Elem(), path)
		v.Set(to)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		r.fields(n, v, path)
	case reflect.Map:
		r.entries(n, v, path)
	case reflect.Slice:
		seq, ok := n.(*ast.SequenceNode)
		if !ok {
			r.fail(n, path, "must be a list, such as [a, b]")
			return
		}
		list := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
		for i, item := range seq.Values {
			p := fmt.Sprintf("%s[%d]", path, i)
			r.sources[p] = r.at(item)
			r.value(item, list.Index(i), p)
		}
		v.Set(list)
	default:
		s, ok := n.(ast.ScalarNode)
		if !ok {
			r.fail(n, path, "must be a single value")
			return
		}
		if err := setText(v, scalarText(s)); err != nil {
			r.fail(n, path, "%v", err)
		}
	}
}

func scalarText(n ast.ScalarNode) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return strings.TrimSuffix(n.Value.Value, "\n")
	}
	return n.GetToken().Value
}

// pairs returns the entries of a mapping, or records a problem. A mapping of one entry is a node of another type.
func (r *reader) pairs(n ast.Node, path string) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	if path == "extensions" { // the variable and the flag accept a list
		r.fail(n, path, "must be a mapping of names to values; all of them are {%s: true}", strings.Join(AllExtensions().Names(), ": true, "))
		return nil
	}
	r.fail(n, path, "must be a mapping of names to values")
	return nil
}

func (r *reader) key(pair *ast.MappingValueNode, path string) (string, bool) {
	if s, ok := pair.Key.(ast.ScalarNode); ok {
		if _, merge := pair.Key.(*ast.MergeKeyNode); !merge {
			return scalarText(s), true
		}
	}
	r.fail(pair.Key, path, "only plain names are allowed here")
	return "", false
}

// fields sets a struct from a mapping. An unknown name is an error, because it is probably misspelt and would
// otherwise be ignored.
func (r *reader) fields(n ast.Node, v reflect.Value, path string) {
	known := map[string]int{}
	var names []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if name := yamlName(f); name != "" {
			known[name] = i
			names = append(names, name)
		} else if name, _ := constant(f); name != "" {
			known[name] = i
		}
	}
	for _, pair := range r.pairs(n, path) {
		name, ok := r.key(pair, path)
		if !ok {
			continue
		}
		p := join(path, name)
		i, ok := known[name]
		if !ok {
			r.fail(pair.Key, p, "unknown setting%s", didYouMean(name, names))
			if meant := nearest(name, names); meant != "" {
				r.excused[join(path, meant)] = true
			}
			continue
		}
		r.sources[p] = r.at(pair.Value)
		r.value(pair.Value, v.Field(i), p)
	}
}

func (r *reader) entries(n ast.Node, v reflect.Value, path string) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, pair := range r.pairs(n, path) {
		name, ok := r.key(pair, path)
		if !ok {
			continue
		}
		p := join(path, name)
		r.sources[p] = r.at(pair.Key)
		item := reflect.New(v.Type().Elem()).Elem()
		r.value(pair.Value, item, p)
		v.SetMapIndex(reflect.ValueOf(name), item)
	}
}

// yamlName returns a field's name in the file, or "" if the file cannot contain it.
func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if name == "-" || !f.IsExported() {
		return ""
	}
	return name
}

// constant returns the name and the variable of a field that was a setting once, or "".
func constant(f reflect.StructField) (name, env string) {
	name, env, _ = strings.Cut(f.Tag.Get("constant"), ",")
	return name, env
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// didYouMean returns a hint: the closest name, or all names if none is close.
func didYouMean(name string, names []string) string {
	best := nearest(name, names)
	if best == "" {
		return "; valid names are " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// nearest returns the closest name, or "". A third of the letters may differ, so that unrelated names are not suggested.
func nearest(name string, names []string) string {
	best, least := "", 1+max(2, len(name)/3)
	for _, n := range names {
		if d := stoa.EditDistance(strings.ToLower(name), strings.ToLower(n)); d < least {
			best, least = n, d
		}
	}
	return best
}
