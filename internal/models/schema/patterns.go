package schema

import (
	"fmt"
	"maps"
	"regexp/syntax"
)

// maxStates limits the states to which all regular expressions of a schema may compile, because a short
// one may repeat itself a thousand times: sixty of them would use gigabytes.
const maxStates = 50_000

// stateWork is the cost of a state of a regular expression for 64 bytes of a text, in the unit of
// [Parameters.work], because all states may be active at every byte.
const stateWork = 6

// PatternStates returns an upper bound of the number of states to which a regular expression
// compiles. It does not compile it, because that may use gigabytes. It fails if the check of
// arguments does not support the expression.
func PatternStates(pattern string) (int, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return states(parsed), nil
}

func states(re *syntax.Regexp) (n int) {
	for _, sub := range re.Sub {
		n += states(sub) + 1
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpRepeat:
		n *= max(re.Min+1, re.Max)
	}
	return n + 1
}

func statesOf(v any, most int) (n int) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if n += statesOf(e, most-n); n > most {
				return n
			}
		}
	case map[string]any:
		patterns := []string{}
		if text, ok := v["pattern"].(string); ok {
			patterns = append(patterns, text)
		}
		if of, ok := v["patternProperties"].(map[string]any); ok {
			for text := range of {
				patterns = append(patterns, text)
			}
		}
		for _, text := range patterns {
			k, _ := PatternStates(text) // ignored, because an invalid one is reported when it is compiled
			if n += k; n > most {
				return n
			}
		}
		for _, e := range v {
			if n += statesOf(e, most-n); n > most {
				return n
			}
		}
	}
	return n
}

func plainPatterns(doc any) error {
	if statesOf(doc, maxStates) > maxStates {
		return fmt.Errorf("its regular expressions are too large: all of them can have %d states, and a repetition counts as often as it repeats", maxStates)
	}
	return nil
}

// patterns contains the cost of the regular expressions of schemas for 64 bytes of a text, or
// of a member's name.
type patterns map[*node]float64

func (p patterns) add(n *node) {
	count := func(text string) {
		k, _ := PatternStates(text)
		p[n] += stateWork * float64(k)
	}
	if v := n.get("pattern"); v.is('"') {
		count(v.text)
	}
	if v := n.get("patternProperties"); v != nil && v.kind == '{' {
		for _, text := range v.keys {
			count(text)
		}
	}
}

// patternWork returns the cost of the regular expressions that are applied to the texts of
// arguments, in the unit of [Parameters.work]. It stops above the limit.
func (p *Parameters) patternWork(v any) (total float64) {
	if len(p.patterns) == 0 || len(p.order) == 0 {
		return 0
	}
	p.applied(v, map[*node]float64{p.root(): 1}, &total)
	return total
}

func (p *Parameters) applied(v any, times map[*node]float64, total *float64) {
	if *total > maxWork {
		return
	}
	*total += float64(len(p.order)) / 16 // cost of the counting itself
	bytes := 0
	switch v := v.(type) {
	case string:
		bytes = len(v)
	case map[string]any:
		for name := range v {
			bytes += len(name)
		}
	case []any:
	default:
		return
	}
	for _, n := range p.order {
		m := times[n]
		if m == 0 {
			continue
		}
		*total += m * p.patterns[n] * float64(bytes) / 64
		for _, kid := range p.same[n] {
			times[kid] += m
		}
	}
	switch v := v.(type) {
	case map[string]any:
		names := make(map[*node]float64)
		for name, e := range v {
			p.applied(e, p.inner(times, name, names), total)
		}
		for name := range v {
			if len(names) > 0 {
				p.applied(name, maps.Clone(names), total)
			}
		}
	case []any:
		for _, e := range v {
			p.applied(e, p.inner(times, "", nil), total)
		}
	}
}

// inner returns the schemas that are applied to the elements of a value, or to its member called
// name. times contains the schemas applied to the value. It adds to names, unless nil, the schemas
// for the member's name.
func (p *Parameters) inner(times map[*node]float64, name string, names map[*node]float64) map[*node]float64 {
	out := map[*node]float64{}
	for n, m := range times {
		for _, kid := range p.below[n] {
			switch of := kid.up; {
			case of != n && of.name == "properties" && of.up == n:
				if names != nil && kid.name == name {
					out[kid] += m
				}
			case of == n && kid.name == "propertyNames":
				if names != nil {
					names[kid] = m
				}
			default:
				out[kid] += m
			}
		}
	}
	return out
}
