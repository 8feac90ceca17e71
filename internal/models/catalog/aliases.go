package catalog

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

// maxRules is the maximum number of the operator's alias rules.
const maxRules = 100

// An aliasRule is a rule with its pattern, cut at each *.
type aliasRule struct {
	parts []string
	model string // an identifier or auto
	own   bool   // the operator's
}

// matches reports whether a name has the parts of the rule in their order.
func (r aliasRule) matches(name string) bool {
	last := len(r.parts) - 1
	if last == 0 {
		return name == r.parts[0]
	}
	name, ok := strings.CutPrefix(name, r.parts[0])
	for _, part := range r.parts[1:last] {
		if ok {
			_, name, ok = strings.Cut(name, part)
		}
	}
	return ok && strings.HasSuffix(name, r.parts[last])
}

// alias returns the model of an alias: of an exact name (including case), otherwise of the first
// rule that matches. It is empty for the identifier of a model and for an unknown name.
func (c *Catalog) alias(name string) string {
	if target, ok := c.aliases[name]; ok {
		return target
	}
	if _, isModel := c.byID[name]; isModel || name == Auto || len(c.rules) == 0 || !isIdentifier(name) {
		return ""
	}
	for _, r := range c.rules {
		if r.matches(name) {
			return r.model
		}
	}
	return ""
}

// VendorNames returns the names of Anthropic for the models of [Catalog.Offered], in the same
// order, if the alias set anthropic is on. Clients of Anthropic's API ignore others.
func (c *Catalog) VendorNames(plan stoa.Plan) (names []string) {
	if !c.anthropic {
		return nil
	}
	for _, id := range c.Offered(plan) {
		for _, f := range c.families {
			if name := upstreamName(id, f); strings.HasPrefix(name, "claude-") && c.alias(name) == id {
				names = append(names, name)
			}
		}
	}
	return names
}

var pattern = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9._:/*-]{0,127}$`)

// addRules adds the operator's alias rules first, so that they precede those of the sets.
func (b *builder) addRules(sets map[string][]stoa.AliasRule) {
	if n := len(b.opts.Aliases); n > maxRules {
		b.problem("aliases", "%d are too many; use up to %d", n, maxRules)
	}
	for i, r := range b.opts.Aliases {
		path := fmt.Sprintf("aliases[%d]", i)
		model := r.Model
		if target, ok := b.aliases[model]; ok {
			model = target
		}
		if _, ok := b.byID[model]; !ok && model != Auto {
			b.problem(path+".model", "there is no model %q%s", r.Model, b.didYouMean(r.Model))
		}
		if !pattern.MatchString(r.Match) {
			b.problem(path+".match", "%q is not a pattern: it has letters, digits and . _ : / - and * only, at most 128", r.Match)
		}
		b.rules = append(b.rules, aliasRule{strings.Split(r.Match, "*"), model, true})
	}
	for i, name := range b.opts.AliasSets {
		set, ok := sets[name]
		if !ok {
			b.problem(fmt.Sprintf("aliasSets[%d]", i), "there is no set %q; the sets are %s", name, strings.Join(slices.Sorted(maps.Keys(sets)), ", "))
		}
		b.anthropic = b.anthropic || name == "anthropic"
		for _, r := range set {
			b.rules = append(b.rules, aliasRule{strings.Split(r.Match, "*"), r.Model, false})
		}
	}
}
