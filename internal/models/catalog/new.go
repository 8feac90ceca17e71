package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// builder builds a catalog and collects every problem of its settings.
type builder struct {
	*Catalog
	opts     Options
	problems []error
}

// known describes a vendor's model. The traits hold on that wire only.
type known struct {
	wire, dialect string
	traits        stoa.Traits
}

// New combines the shipped list with the operator's settings. Its error joins
// one [*Problem] per setting that is wrong.
func New(opts Options) (*Catalog, error) {
	var s shipped
	if err := jsonx.UnmarshalKnown(shippedJSON, &s); err != nil {
		return nil, fmt.Errorf("read the shipped models: %w", err)
	}
	if opts.Handle == nil {
		opts.Handle = func(string) any { return nil }
	}
	b := &builder{opts: opts, Catalog: &Catalog{
		handle:   opts.Handle,
		upstream: map[string]known{}, ownAuto: len(opts.Auto) > 0,
		byID: map[string]int{}, aliases: map[string]string{}, providers: map[string]stoa.Provider{}, keys: map[string][]stoa.Provider{},
		famRoutes: opts.Families, families: s.Families, created: time.Unix(s.Created, 0).UTC(), priceVersion: s.PriceVersion,
	}}
	b.addProviders()
	for _, m := range s.Models {
		b.byID[m.ID] = len(b.models)
		m.Price.Version = s.PriceVersion
		b.models = append(b.models, entry{Model: m.Model})
		f := b.family(m.Family)
		b.upstream[upstreamName(m.ID, f)] = known{wire: f.Wire, dialect: f.Dialect, traits: m.Traits}
	}
	b.addFamilies()
	b.addOwn()
	b.addAliases()
	b.addRules(s.AliasSets)
	b.addRoutes()
	b.addCacheWrites()
	// Disabled providers lose their routes only here, because prices depend on a model's routes and must stay the same.
	for i := range b.models {
		m := &b.models[i]
		before := len(m.Routes)
		m.Routes = slices.DeleteFunc(m.Routes, func(r stoa.Route) bool { return b.providers[r.Provider].Disabled })
		if before > 0 && len(m.Routes) == 0 {
			b.stopped = append(b.stopped, m.ID)
		}
	}
	b.addAuto(s.Auto)
	if len(b.problems) > 0 {
		return nil, errors.Join(b.problems...)
	}
	return b.Catalog, nil
}

func (b *builder) problem(path, format string, args ...any) {
	b.problems = append(b.problems, &Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// addProviders checks the names of the providers and decides whether the
// sandbox serves.
func (b *builder) addProviders() {
	for i, p := range b.opts.Providers {
		path := fmt.Sprintf("providers[%d].name", i)
		first, twice := b.providers[p.Name]
		if p.Key != "" {
			b.keys[p.Name] = append(b.keys[p.Name], p)
			if twice && first.Key != "" {
				continue
			}
		}
		switch {
		case p.Name == "":
			b.problem(path, "a provider needs a name")
		case p.Name == SandboxProvider:
			b.problem(path, "%q is the built-in model's own name; choose another", p.Name)
		case twice:
			b.problem(path, "there are two providers named %q; rename one", p.Name)
		}
		b.providers[p.Name] = p
		if p.Discover.On {
			if !p.Disabled {
				b.discover = append(b.discover, p.Name)
			}
			b.price(p.Discover.Price, fmt.Sprintf("providers[%d].price", i))
		}
	}
	switch b.opts.Sandbox {
	case "", "auto":
		b.sandbox = len(b.opts.Providers) == 0
	case "always":
		b.sandbox = true
	case "off":
	default:
		b.problem("sandbox", "%q must be auto, always or off", b.opts.Sandbox)
	}
}

// family returns the shipped family of that name, or one without a vendor.
func (b *builder) family(name string) family {
	for _, f := range b.families {
		if f.Name == name {
			return f
		}
	}
	return family{Name: name}
}

// addFamilies adds the families of the operator, sorted by name.
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

// upstreamName returns the usual name of an identifier at its vendor: claude-x
// for alpha-x. It is empty for a family without such a rule.
func upstreamName(id string, f family) string {
	rest, ok := strings.CutPrefix(id, f.Name+"-")
	if !ok || f.UpstreamPrefix == "" {
		return ""
	}
	return f.UpstreamPrefix + rest
}

var identifier = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

func isIdentifier(s string) bool { return identifier.MatchString(s) }

// addOwn applies the operator's changes and adds the operator's models.
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
				b.problem(path+".family", "your own model needs a family; any word will do, such as \"local\"")
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

func (b *builder) change(m *entry, o stoa.ModelChange, path string) {
	if o.Family != "" {
		m.Family = o.Family
	}
	if o.Gated != nil {
		m.Gated = *o.Gated
	}
	m.Aliases = slices.Concat(m.Aliases, o.Aliases)
	m.DeprecatedAliases = slices.Concat(m.DeprecatedAliases, o.DeprecatedAliases)
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
	m.LimitSet = m.LimitSet || o.DefaultOutput > 0
	if o.Price != nil {
		m.Price, m.PriceAssumed = b.price(*o.Price, path+".price"), false
	}
}

func (b *builder) price(p stoa.Tariff, path string) stoa.Tariff {
	for _, r := range []struct {
		name string
		rate stoa.Credits
	}{{"input", p.Input}, {"cachedInput", p.CachedInput}, {"cacheWrite", p.CacheWrite}, {"cacheWriteLong", p.CacheWriteLong}, {"output", p.Output}} {
		if r.rate < 0 || r.rate > stoa.MaxRate {
			b.problem(path+"."+r.name, "%d micro-credits per million tokens is not a price; use 0 to %d", int64(r.rate), int64(stoa.MaxRate))
		}
	}
	if p.CachedInput > p.Input && p.Input >= 0 {
		b.problem(path+".cachedInput", "cached input costs more (%d) than input (%d); a cache may only make it cheaper", int64(p.CachedInput), int64(p.Input))
	}
	if p.CacheWrite != 0 && p.CacheWrite < p.Input {
		b.problem(path+".cacheWrite", "writing to the cache costs less (%d) than input (%d); use at least the rate of input, or leave it out", int64(p.CacheWrite), int64(p.Input))
	}
	if least := max(p.Input, p.CacheWrite); p.CacheWriteLong != 0 && p.CacheWriteLong < least {
		b.problem(path+".cacheWriteLong", "writing to the cache for a long life costs less (%d) than for a short one (%d); use at least that, or leave it out", int64(p.CacheWriteLong), int64(least))
	}
	if p.Input == 0 && p.Output == 0 && (p.Above != nil || len(p.Hours) > 0) {
		b.problem(path, "has rules, but no rates to which they apply; set input and output, since a price replaces the shipped one")
	}
	p.Problems(func(at, format string, args ...any) { b.problem(strings.TrimSuffix(path+"."+at, "."), format, args...) })
	p.Version = "" // set with the rates that are left out
	return p
}

// addCacheWrites sets the rates of cache writes that neither the shipped list nor the
// operator sets, and the version of the operator's prices: a hash of all rates, so that
// receipts distinguish price lists.
func (b *builder) addCacheWrites() {
	for i := range b.models {
		m := &b.models[i]
		f := b.family(m.Family)
		short, long := cacheWritePercent(f.Wire, f.Dialect)
		for _, r := range m.Routes {
			s, l := cacheWritePercent(r.Wire, r.Dialect)
			short, long = max(short, s), max(long, l)
		}
		p := &m.Price
		if p.CacheWrite == 0 {
			p.CacheWrite = percentOf(p.Input, short)
		}
		if p.CacheWriteLong == 0 {
			p.CacheWriteLong = max(percentOf(p.Input, long), p.CacheWrite)
		}
		if p.Version == "" {
			rates := fmt.Appendf(nil, "%d %d %d %d %d", p.Input, p.CachedInput, p.CacheWrite, p.CacheWriteLong, p.Output)
			if p.Above != nil {
				rates = fmt.Appendf(rates, " %v", *p.Above)
			}
			for _, h := range p.Hours {
				rates = fmt.Appendf(rates, " %v", h)
			}
			sum := sha256.Sum256(rates)
			p.Version = "own-" + hex.EncodeToString(sum[:4])
		}
	}
}

// cacheWritePercent returns a vendor's rates for input that it writes to its cache for a
// short and for a long lifetime, in percent of its rate of input. For a model with routes
// on several wires the highest rate applies, so that no route sells below cost.
func cacheWritePercent(wire, dialect string) (short, long int64) {
	w := stoa.WireNamed(vendor(wire, dialect))
	return max(100, w.CacheWrite), max(100, w.CacheWriteLong)
}

// percentOf returns a share of a rate, rounded up, so that a price is never below the vendor's.
func percentOf(rate stoa.Credits, percent int64) stoa.Credits {
	return (rate*stoa.Credits(percent) + 99) / 100
}

// addAliases indexes every alias; each may be used once.
func (b *builder) addAliases() {
	for _, m := range b.models {
		for _, list := range []struct {
			member string
			names  []string
		}{{"aliases", m.Aliases}, {"deprecatedAliases", m.DeprecatedAliases}} {
			for _, alias := range list.names {
				path := "models." + m.ID + "." + list.member
				_, isModel := b.byID[alias]
				other, isAlias := b.aliases[alias]
				switch {
				case !isIdentifier(alias):
					b.problem(path, "%q is not an identifier", alias)
				case alias == Auto || isModel:
					b.problem(path, "%q is the name of a model; choose another name for the alias", alias)
				case isAlias:
					b.problem(path, "%q is an alias of %s already", alias, other)
				}
				b.aliases[alias] = m.ID
			}
		}
	}
}

// sandboxTraits are the traits of the built-in model. It supports everything that a call can request.
var sandboxTraits = stoa.Traits{
	ParallelSwitch: true, StrictTools: true, Schema: "native", MidSystem: true,
	Vision: true, ImageURL: true, PDF: true,
}

func (b *builder) addRoutes() {
	for name, routes := range b.opts.Families {
		for i, r := range routes {
			b.checkProvider(r, fmt.Sprintf("families.%s[%d].provider", name, i))
		}
	}
	for i := range b.models {
		m := &b.models[i]
		o := b.opts.Models[m.ID]
		routes, path := b.opts.Families[m.Family], "families."+m.Family
		if len(o.Routes) > 0 {
			routes, path = o.Routes, "models."+m.ID+".routes"
			for j, r := range routes {
				b.checkProvider(r, fmt.Sprintf("%s[%d].provider", path, j))
			}
		}
		if b.sandbox {
			m.Routes = []stoa.Route{{Provider: SandboxProvider, Model: m.ID, Wire: SandboxWire, Traits: sandboxTraits, Handle: b.handle(SandboxProvider)}}
			continue
		}
		m.ownRoutes = len(o.Routes) > 0
		for j, r := range routes {
			if route, ok := b.route(m, r, fmt.Sprintf("%s[%d]", path, j)); ok {
				m.Routes = append(m.Routes, b.keyed(route, j)...)
			}
		}
	}
}

// weightUnit is the weight of 1 in the settings: a route divides its weight among its keys.
const weightUnit = 1 << 20

// keyed returns a route for each key of the provider, which share its weight. The keys of a route
// without a weight form a separate group; i is the index of the route.
func (b *builder) keyed(r stoa.Route, i int) []stoa.Route {
	r.Weight *= weightUnit
	keys := b.keys[r.Provider]
	if len(keys) == 0 {
		return []stoa.Route{r}
	}
	if r.Weight == 0 {
		r.Weight, r.Group = weightUnit, i+1
	}
	sum := int64(0)
	for _, k := range keys {
		sum += k.KeyWeight
	}
	var routes []stoa.Route
	for _, k := range keys {
		of := r
		of.Key, of.Handle = k.Key, b.handle(k.Ref())
		of.Weight = max(1, r.Weight*k.KeyWeight/max(sum, 1))
		routes = append(routes, of)
	}
	return routes
}

func (b *builder) checkProvider(r stoa.Route, path string) {
	if _, ok := b.providers[r.Provider]; !ok {
		b.problem(path, "there is no provider named %q", r.Provider)
	}
}

// route completes a configured route. Its traits (the settings that the model refuses) are,
// in this order: those of the operator; those of the shipped model with that exact upstream
// name, if the route's wire and dialect are its provider's own; those of the requested
// model, if the wire is its family's own and the name is unknown (a dated snapshot); else
// none. The requested model's traits do not apply in all cases, because a route that falls back
// to a smaller model of the same provider would then receive settings that only the former accepts.
func (b *builder) route(m *entry, r stoa.Route, path string) (stoa.Route, bool) {
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
		b.problem(path+".model", "set the model of %s that serves %s, for instance model: llama3.2", r.Provider, m.ID)
		return stoa.Route{}, false
	}
	route := stoa.Route{Provider: p.Name, Model: name, Weight: r.Weight, Wire: p.Wire, Dialect: p.Dialect, Handle: b.handle(p.Name)}
	switch k, isKnown := b.upstream[name]; {
	case r.Override != nil:
		route.Traits = *r.Override
	case isKnown && vendor(k.wire, k.dialect) == vendor(p.Wire, p.Dialect):
		route.Traits = k.traits
	case !isKnown && f.Wire != "" && vendor(f.Wire, f.Dialect) == vendor(p.Wire, p.Dialect):
		route.Traits = m.Traits
	}
	switch s := &route.Traits.Schema; {
	case *s == "none":
		*s = ""
	case *s == "" && vendor(p.Wire, cmp.Or(p.Dialect, "compatible")) == "chat/compatible":
		*s = "native" // because llama.cpp, vLLM and Ollama accept a schema
	}
	return route, true
}

// vendor returns the name of the vendor that uses a wire with this dialect.
func vendor(wire, dialect string) string {
	return cmp.Or(stoa.WireNamed(wire).Vendor(dialect), wire)
}

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
			b.problem(path, "%s is gated, and auto must not contain a gated model, because every plan may request it; remove it or set models.%s.gated: false", id, id)
			continue
		case b.models[i].Gated:
			b.problem("models."+id+".gated", "%s is in the shipped list auto, which must not contain a gated model; set auto as well", id)
			continue
		case slices.Contains(b.auto, i):
			b.problem(path, "%s is in the list twice", id)
			continue
		}
		b.auto = append(b.auto, i)
	}
}
