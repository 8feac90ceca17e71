package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"stoa/internal/base/jsonx"
)

// Limits of the parameters of a tool, and of the check of arguments against them.
const (
	MaxParameters = 32 << 10  // bytes of the schema
	maxLevels     = 10        // nested schemas
	maxArguments  = 10_000    // values
	maxWork       = 2_000_000 // see [Parameters.work]; some 100 ns each
	maxNumber     = 32        // characters of a number, because the check computes with fractions of any size
	maxTold       = 1_000     // bytes of an error's text
)

// Parameters is the schema of a tool's arguments.
type Parameters struct {
	compiled *jsonschema.Schema
	order    []*node // its schemas, ordered: each before those that it applies to the same value
	same     map[*node][]*node
	below    map[*node][]*node // the schemas that it applies to nested values
	patterns patterns
}

// ReadParameters reads the schema of a tool's arguments: JSON Schema 2020-12 for an object,
// at most [MaxParameters] long, whose references stay within it. The error is for the author
// of the schema. No address is ever followed.
func ReadParameters(text string) (*Parameters, error) {
	if len(text) > MaxParameters {
		return nil, fmt.Errorf("it has %d bytes; the maximum is %d", len(text), MaxParameters)
	}
	doc, err := jsonx.Tree([]byte(text), maxNodes)
	root, ok := parse(text)
	if err != nil || !ok {
		return nil, errors.New("it is not one JSON object")
	}
	if !root.get("type").says("object") {
		return nil, errors.New(`its "type" must be "object"`)
	}
	if err := plainNumbers(doc); err != nil {
		return nil, err
	}
	if err := plainPatterns(doc); err != nil {
		return nil, err
	}
	p := &Parameters{same: map[*node][]*node{}, below: map[*node][]*node{}, patterns: patterns{}}
	draft := root.get("$schema")
	r := parameterReader{p: p, root: root, at: map[*node]int{}, draft4: draft.is('"') && strings.Contains(draft.text, "draft-04")}
	r.later = []placed{{root, 1}}
	for len(r.later) > 0 {
		next := r.later[0]
		r.later = r.later[1:]
		if err := r.visit(next.n, next.level); err != nil {
			return nil, err
		}
	}
	slices.Reverse(p.order)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(resource, doc); err != nil {
		return nil, told(err)
	}
	if p.compiled, err = c.Compile(resource); err != nil {
		return nil, told(err)
	}
	return p, nil
}

const resource = "stoa:parameters"

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is outside of the schema, and is not followed", url)
}

// told returns an error of the library without the name of the resource, shortened.
func told(err error) error {
	text := strings.ReplaceAll(err.Error(), resource, "")
	if _, rest, ok := strings.Cut(text, "\n"); ok {
		text = rest
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimPrefix(strings.TrimSpace(line), "- "))
	}
	text = strings.Join(lines, "; ")
	if len(text) > maxTold {
		text = strings.ToValidUTF8(text[:maxTold], "") + "…"
	}
	return errors.New(text)
}

// causes returns the first causes of an error, because all of them together may be a thousand times as long as the value.
func causes(err *jsonschema.ValidationError) error {
	var text strings.Builder
	printer := message.NewPrinter(language.English)
	var add func(e *jsonschema.ValidationError) bool
	add = func(e *jsonschema.ValidationError) bool {
		if len(e.Causes) == 0 {
			if text.Len() > 0 {
				text.WriteString("; ")
			}
			fmt.Fprintf(&text, "at '%s': %s", strings.Join(append([]string{""}, e.InstanceLocation...), "/"), e.ErrorKind.LocalizedString(printer))
		}
		return text.Len() <= maxTold && !slices.ContainsFunc(e.Causes, func(c *jsonschema.ValidationError) bool { return !add(c) })
	}
	add(err)
	if all := text.String(); len(all) > maxTold {
		return errors.New(strings.ToValidUTF8(all[:maxTold], "") + "…")
	}
	return errors.New(text.String())
}

func plainNumbers(v any) error {
	switch v := v.(type) {
	case json.Number:
		_, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
		if len(v) > maxNumber || len(strings.TrimLeft(exponent, "+-0")) > 2 {
			return fmt.Errorf("the number %.40s is too long, or too large", v)
		}
	case []any:
		for _, e := range v {
			if err := plainNumbers(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, e := range v {
			if err := plainNumbers(e); err != nil {
				return err
			}
		}
	}
	return nil
}

type parameterReader struct {
	p     *Parameters
	root  *node
	at    map[*node]int // 1 while being visited, 2 when visited
	later []placed      // those applied to other values, so that cycles end

	draft4 bool
}

// A placed node is a schema, and its nesting level.
type placed struct {
	n     *node
	level int
}

// sameValue are the keywords whose schemas are applied to the value itself.
var sameValue = []string{"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}

// visit visits a schema and those that it references. It fails if a schema is applied to the same
// value again by circular references, because its check would never end.
func (r *parameterReader) visit(n *node, level int) error {
	if n.kind != '{' || r.at[n] == 2 {
		return nil
	}
	if level > maxLevels {
		return fmt.Errorf("at %q there are more than %d nested schemas", n.pointer(), maxLevels)
	}
	r.at[n] = 1
	for i, key := range n.keys {
		value := n.kids[i]
		switch {
		case key == "$ref":
			path, ok := steps(value.text)
			to := r.root.at(path)
			if !ok || !value.is('"') || to == nil {
				return fmt.Errorf("the reference %.100q has no target in the schema; external references are not followed", value.text)
			}
			if r.at[to] == 1 {
				return fmt.Errorf("the reference at %q leads back to itself", n.pointer())
			}
			r.p.same[n] = append(r.p.same[n], to)
			if err := r.visit(to, 1); err != nil {
				return err
			}
		case key == "id" && value.is('"') && r.draft4 && n != r.root: // because references would then lead elsewhere
			return fmt.Errorf("the keyword %q at %q is not supported", key, n.pointer())
		case strings.HasPrefix(key, "$") && key != "$defs" && key != "$schema" && key != "$comment":
			return fmt.Errorf("the keyword %q at %q is not supported", key, n.pointer())
		default:
			for _, kid := range subschemas(key, value) {
				if !slices.Contains(sameValue, key) {
					r.later = append(r.later, placed{kid, level + 1})
					if key != "$defs" && key != "definitions" {
						r.p.below[n] = append(r.p.below[n], kid)
					}
					continue
				}
				r.p.same[n] = append(r.p.same[n], kid)
				if err := r.visit(kid, level+1); err != nil {
					return err
				}
			}
		}
	}
	r.at[n] = 2
	r.p.order = append(r.p.order, n)
	r.p.patterns.add(n)
	return nil
}

func subschemas(key string, value *node) []*node {
	shape := keywords[key]
	if key == "additionalItems" { // of earlier drafts
		shape = isSchema
	}
	switch {
	case shape == isSchema && value.kind == '{':
		return []*node{value}
	case (shape == isSchema || shape == isSchemas) && value.kind == '[',
		(shape == isMap || key == "definitions" || key == "dependencies") && value.kind == '{':
		return value.kids
	}
	return nil
}

// Check returns what is wrong with arguments, for the model that wrote them; nil if they are
// valid. Arguments that would take too long to check are an error too.
func (p *Parameters) Check(arguments string) error {
	v, err := jsonx.Tree([]byte(arguments), maxArguments)
	if errors.Is(err, jsonx.ErrTooMany) {
		return fmt.Errorf("they have more than %d values", maxArguments)
	}
	if err != nil {
		return errors.New("they are not valid JSON")
	}
	if err := plainNumbers(v); err != nil {
		return err
	}
	if p.work(v) > maxWork || p.patternWork(v) > maxWork {
		return errors.New("there is too much in them to be checked")
	}
	err = p.compiled.Validate(v)
	if failed, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return causes(failed)
	}
	return err
}

// work returns the maximum number of schemas applied to the values of arguments. The check needs it,
// because a schema of a few lines may double the work with each level of the value, or of its own.
func (p *Parameters) work(v any) (total float64) {
	times := map[*node]float64{}
	if len(p.order) > 0 {
		times[p.root()] = 1
	}
	for values := []any{v}; len(values) > 0; {
		next := map[*node]float64{}
		cost := 0.0
		for _, n := range p.order {
			m := times[n]
			if m == 0 {
				continue
			}
			cost += m * float64(1+len(n.kids))
			if enum := n.get("enum"); enum != nil {
				cost += m * float64(len(enum.kids))
			}
			for _, kid := range p.same[n] {
				times[kid] += m
			}
			for _, kid := range p.below[n] {
				next[kid] += m
			}
		}
		var inner []any
		for _, v := range values {
			size := 1.0
			switch v := v.(type) {
			case string:
				size += float64(len(v)) / 64
			case []any:
				inner = append(inner, v...)
			case map[string]any:
				for _, e := range v {
					inner = append(inner, e)
				}
			}
			total += cost * size
		}
		if total > maxWork {
			break
		}
		times, values = next, inner
	}
	return total
}

func (p *Parameters) root() *node {
	n := p.order[0]
	for n.up != nil {
		n = n.up
	}
	return n
}
