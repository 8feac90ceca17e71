package schema

import (
	"fmt"
	"maps"
	"regexp/syntax"
)

// maxStates bounds the regular expressions of a schema: so many states all of them are
// compiled to at most. A short one may repeat itself a thousand times: sixty of them
// would take gigabytes.
const maxStates = 50_000

// stateWork is what a state of a regular expression costs for 64 bytes of a text, as
// [Parameters.work] counts: all of them may be followed at every byte.
const stateWork = 6

// PatternStates returns to how many states a regular expression is compiled, or more; it
// compiles nothing. It fails where the check of arguments does not know the expression.
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

// statesOf returns the states of all regular expressions in a schema; beyond most it
// stops.
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
			k, _ := PatternStates(text) // one that is wrong is said so when it is compiled
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

// plainPatterns refuses regular expressions that take too much memory, or time.
func plainPatterns(doc any) error {
	if statesOf(doc, maxStates) > maxStates {
		return fmt.Errorf("its regular expressions are too large: all of them may have %d states, and a repetition counts as often as it repeats", maxStates)
	}
	return nil
}

// patterns has what the regular expressions of schemas cost for 64 bytes of a text, or of
// the name of a member.
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

// patternWork is what the regular expressions cost that are applied to the texts of
// arguments, as [Parameters.work] counts. It ends beyond what may be spent.
func (p *Parameters) patternWork(v any) (total float64) {
	if len(p.patterns) == 0 || len(p.order) == 0 {
		return 0
	}
	p.applied(v, map[*node]float64{p.root(): 1}, &total)
	return total
}

// applied adds the cost for a value, to which schemas are applied so many times.
func (p *Parameters) applied(v any, times map[*node]float64, total *float64) {
	if *total > maxWork {
		return
	}
	*total += float64(len(p.order)) / 16 // of the counting itself
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

// inner returns the schemas that are applied to the values within a value to which those
// are applied, or to the member of a name. Those for the names of members are put into
// names; nil: they are no names.
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
