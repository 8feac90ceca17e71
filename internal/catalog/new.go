package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"stoa/internal/stoa"
)

// builder gathers a catalog and everything that is wrong with its settings.
type builder struct {
	*Catalog
	opts     Options
	upstream map[string]known // upstream name → what is known of it
	problems []error
}

// known is a vendor's model: the traits hold for its own wire alone.
type known struct {
	wire, dialect string
	traits        stoa.Traits
}

// New joins the shipped catalog and an operator's settings. Its error joins one
// [*Problem] for each setting that cannot work.
func New(opts Options) (*Catalog, error) {
	s, err := load()
	if err != nil {
		return nil, err
	}
	b := &builder{opts: opts, upstream: map[string]known{}, Catalog: &Catalog{
		byID: map[string]int{}, aliases: map[string]string{}, providers: map[string]stoa.Provider{},
		famRoutes: opts.Families, families: s.Families,
	}}
	b.addProviders()
	b.addShipped(s)
	b.addFamilies()
	b.addOwn()
	b.addAliases()
	b.addRoutes()
	b.addAuto(s.Auto)
	if len(b.problems) > 0 {
		return nil, errors.Join(b.problems...)
	}
	return b.Catalog, nil
}

func (b *builder) problem(path, format string, args ...any) {
	b.problems = append(b.problems, &Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (b *builder) addProviders() {
	for i, p := range b.opts.Providers {
		path := fmt.Sprintf("providers[%d].name", i)
		switch _, twice := b.providers[p.Name]; {
		case p.Name == "":
			b.problem(path, "a provider needs a name")
		case p.Name == SandboxProvider:
			b.problem(path, "%q is the built-in model's own name; choose another", p.Name)
		case twice:
			b.problem(path, "there are two providers named %q; rename one", p.Name)
		}
		b.providers[p.Name] = p
	}
	switch b.opts.Sandbox {
	case "", "auto":
		b.sandbox = len(b.opts.Providers) == 0
	case "always":
		b.sandbox = true
	case "off":
	default:
		b.problem("sandbox", "%q is none of auto, always, off", b.opts.Sandbox)
	}
}

func (b *builder) addShipped(s shipped) {
	for _, m := range s.Models {
		b.byID[m.ID] = len(b.models)
		b.models = append(b.models, entry{
			Model: stoa.Model{
				ID: m.ID, Family: m.Family, Gated: m.Gated,
				ContextTokens: m.ContextTokens, MaxOutput: m.MaxOutput, DefaultOutput: m.DefaultOutput,
				Price: stoa.Price{Input: m.Price.Input, CachedInput: m.Price.CachedInput, Output: m.Price.Output, Version: s.PriceVersion},
			},
			aliases: m.Aliases, deprecated: m.DeprecatedAliases, assumed: m.Price.Assumption, traits: m.Traits,
		})
		f := b.family(m.Family)
		b.upstream[upstreamName(m.ID, f)] = known{wire: f.Wire, dialect: f.Dialect, traits: m.Traits}
	}
}

// family finds a family by name; an operator's own has no vendor behind it.
func (b *builder) family(name string) family {
	for _, f := range b.families {
		if f.Name == name {
			return f
		}
	}
	return family{Name: name}
}

// addFamilies adds the operator's own families, by name.
func (b *builder) addFamilies() {
	names := map[string]bool{}
	for name := range b.opts.Families {
		names[name] = true
	}
	for _, m := range b.opts.Models {
		if m.Family != "" {
			names[m.Family] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !slices.ContainsFunc(b.families, func(f family) bool { return f.Name == name }) {
			b.families = append(b.families, family{Name: name})
		}
	}
}

// upstreamName is a vendor's usual name of an identifier: alpha-x becomes
// claude-x. It is empty where there is no such rule.
func upstreamName(id string, f family) string {
	rest, ok := strings.CutPrefix(id, f.Name+"-")
	if !ok || f.UpstreamPrefix == "" {
		return ""
	}
	return f.UpstreamPrefix + rest
}

// identifier is the form of what callers may ask for.
func isIdentifier(s string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`).MatchString(s)
}

// addOwn applies the operator's changes and adds the operator's own models.
func (b *builder) addOwn() {
	for _, id := range slices.Sorted(maps.Keys(b.opts.Models)) {
		o, path := b.opts.Models[id], "models."+id
		i, exists := b.byID[id]
		if !exists {
			switch {
			case id == Auto:
				b.problem(path, "%q is the service's own choice; set the list auto instead", id)
				continue
			case !isIdentifier(id):
				b.problem(path, "an identifier begins with a letter or digit and has letters, digits and . _ : / - only, at most 128")
				continue
			case o.Family == "":
				b.problem(path+".family", "a model of your own needs a family; any word will do, such as \"local\"")
				continue
			case o.Price == nil:
				b.problem(path+".price", "a model without a price is not served; set price: {input: …, output: …} in micro-credits per million tokens (0 for free)")
				continue
			}
			i = len(b.models)
			b.byID[id] = i
			b.models = append(b.models, entry{Model: stoa.Model{ID: id}})
		}
		b.change(&b.models[i], o, path)
	}
}

// change applies the members that are set.
func (b *builder) change(m *entry, o Model, path string) {
	if o.Family != "" {
		m.Family = o.Family
	}
	if o.Gated != nil {
		m.Gated = *o.Gated
	}
	m.aliases = slices.Concat(m.aliases, o.Aliases)
	m.deprecated = slices.Concat(m.deprecated, o.DeprecatedAliases)
	for _, n := range []struct {
		name string
		from int64
		to   *int64
	}{
		{"contextTokens", o.ContextTokens, &m.ContextTokens},
		{"maxOutput", o.MaxOutput, &m.MaxOutput},
		{"defaultOutput", o.DefaultOutput, &m.DefaultOutput},
	} {
		if n.from < 0 || n.from > stoa.MaxTokens {
			b.problem(path+"."+n.name, "%d is not a count of tokens; use 1 to %d", n.from, stoa.MaxTokens)
		} else if n.from > 0 {
			*n.to = n.from
		}
	}
	if m.MaxOutput > 0 && m.DefaultOutput > m.MaxOutput {
		if o.DefaultOutput > 0 {
			b.problem(path+".defaultOutput", "%d is more than maxOutput (%d)", m.DefaultOutput, m.MaxOutput)
		}
		m.DefaultOutput = m.MaxOutput
	}
	if o.Price != nil {
		m.Price, m.assumed = b.price(*o.Price, path+".price"), false
	}
}

// price checks an operator's rates. The version is computed from them, so that
// a receipt tells two lists apart.
func (b *builder) price(p Price, path string) stoa.Price {
	cached := p.Input
	if p.CachedInput != nil {
		cached = *p.CachedInput
	}
	for _, r := range []struct {
		name string
		rate stoa.Credits
	}{{"input", p.Input}, {"cachedInput", cached}, {"output", p.Output}} {
		if r.rate < 0 || r.rate > stoa.MaxRate {
			b.problem(path+"."+r.name, "%d micro-credits per million tokens is no price; use 0 to %d", int64(r.rate), int64(stoa.MaxRate))
		}
	}
	if cached > p.Input && p.Input >= 0 {
		b.problem(path+".cachedInput", "cached input costs more (%d) than input (%d); a cache may only make it cheaper", int64(cached), int64(p.Input))
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d", p.Input, cached, p.Output))
	return stoa.Price{Input: p.Input, CachedInput: cached, Output: p.Output, Version: "own-" + hex.EncodeToString(sum[:4])}
}

// addAliases makes every alias known once.
func (b *builder) addAliases() {
	for _, m := range b.models {
		for _, list := range []struct {
			member string
			names  []string
		}{{"aliases", m.aliases}, {"deprecatedAliases", m.deprecated}} {
			for _, alias := range list.names {
				path := "models." + m.ID + "." + list.member
				_, isModel := b.byID[alias]
				other, isAlias := b.aliases[alias]
				switch {
				case !isIdentifier(alias):
					b.problem(path, "%q is no identifier", alias)
				case alias == Auto || isModel:
					b.problem(path, "%q is a model of its own; an alias needs another name", alias)
				case isAlias:
					b.problem(path, "%q is an alias of %s already", alias, other)
				}
				b.aliases[alias] = m.ID
			}
		}
	}
}

// addRoutes says for every model who serves it.
func (b *builder) addRoutes() {
	for name, routes := range b.opts.Families {
		for i, r := range routes {
			b.checkProvider(r, fmt.Sprintf("families.%s[%d].provider", name, i))
		}
	}
	for i := range b.models {
		m := &b.models[i]
		o := b.opts.Models[m.ID]
		wishes, path := b.opts.Families[m.Family], "families."+m.Family
		if len(o.Routes) > 0 {
			wishes, path = o.Routes, "models."+m.ID+".routes"
			for j, r := range wishes {
				b.checkProvider(r, fmt.Sprintf("%s[%d].provider", path, j))
			}
		}
		if b.sandbox {
			m.Routes = []stoa.Route{{Provider: SandboxProvider, Model: m.ID, Wire: SandboxWire}}
			continue
		}
		m.ownRoutes = len(o.Routes) > 0
		for j, r := range wishes {
			if route, ok := b.route(m, r, fmt.Sprintf("%s[%d]", path, j)); ok {
				m.Routes = append(m.Routes, route)
			}
		}
	}
}

func (b *builder) checkProvider(r Route, path string) {
	if _, ok := b.providers[r.Provider]; !ok {
		b.problem(path, "there is no provider named %q", r.Provider)
	}
}

// route completes a wish. What a vendor's model will not take is known for its
// own wire; elsewhere the route takes everything, unless the operator says so.
func (b *builder) route(m *entry, r Route, path string) (stoa.Route, bool) {
	p, ok := b.providers[r.Provider]
	if !ok {
		return stoa.Route{}, false
	}
	f := b.family(m.Family)
	name := r.Model
	if name == "" {
		name = upstreamName(m.ID, f)
	}
	if name == "" {
		b.problem(path+".model", "say which model of %s serves %s, for instance model: llama3.2", r.Provider, m.ID)
		return stoa.Route{}, false
	}
	route := stoa.Route{Provider: p.Name, Model: name, Wire: p.Wire, Dialect: p.Dialect}
	switch k, isKnown := b.upstream[name]; {
	case r.Traits != nil:
		route.Traits = *r.Traits
	case isKnown && vendor(k.wire, k.dialect) == vendor(p.Wire, p.Dialect):
		route.Traits = k.traits
	case !isKnown && f.Wire != "" && vendor(f.Wire, f.Dialect) == vendor(p.Wire, p.Dialect):
		route.Traits = m.traits
	}
	return route, true
}

// vendor names whose servers a wire and its dialect stand for. OpenAI's models
// are the same on both of its wires.
func vendor(wire, dialect string) string {
	if wire == "chat" && dialect != "openai" {
		return wire + "/" + dialect
	}
	if wire == "chat" {
		return "responses"
	}
	return wire
}

// addAuto orders the candidates of "auto".
func (b *builder) addAuto(shippedAuto []string) {
	ids, own := b.opts.Auto, true
	if len(ids) == 0 {
		ids, own = shippedAuto, false
	}
	for n, id := range ids {
		path := fmt.Sprintf("auto[%d]", n)
		if target, ok := b.aliases[id]; ok {
			id = target
		}
		i, ok := b.byID[id]
		switch {
		case !ok:
			b.problem(path, "there is no model %q%s", id, b.didYouMean(id))
			continue
		case b.models[i].Gated && own:
			b.problem(path, "%s is gated, and auto never holds a gated model: every plan may ask for it; take it out or set models.%s.gated: false", id, id)
			continue
		case b.models[i].Gated:
			b.problem("models."+id+".gated", "%s is in the shipped list auto, which never holds a gated model; set auto as well", id)
			continue
		case slices.Contains(b.auto, i):
			b.problem(path, "%s is in the list twice", id)
			continue
		}
		b.auto = append(b.auto, i)
	}
}
