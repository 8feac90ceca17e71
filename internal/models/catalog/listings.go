package catalog

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

// MaxListed limits how many of a server's own models can be called by name.
const MaxListed = 1000

// maxModels is the maximum number of models with listed ones, because the contract allows 10,000.
const maxModels = 9000

// A Listing is the list of models that the server of a provider reported.
type Listing struct {
	Of     stoa.Provider // as it was configured then; the list of a changed one is not used
	Local  bool          // the server is at a loopback or private address
	Models []stoa.ListedModel
}

// Discovering returns the providers whose servers list their models.
func (c *Catalog) Discovering() (list []stoa.Provider) {
	for _, name := range c.discover {
		list = append(list, c.providers[name])
	}
	return list
}

// Unpriced reports whether the models are not served, because they have no price.
func (l Listing) Unpriced() bool { return !l.Local && !l.Of.Discover.Priced }

// WithListings returns the catalog with the models that servers list, by their names there. A
// configured model, an alias and an alias rule of the operator take precedence over a listed
// name, and so does the list of an earlier provider. Invalid identifiers, models without a
// price, and those after the first [MaxListed] of a provider are left out. A name that ends
// with ":latest" may be called without that, as at Ollama. Without a configured model behind
// "auto", it is the first listed one.
//
// Until the list of each server is read, an unknown name is [stoa.CodeModelUnavailable].
func (c *Catalog) WithListings(listings map[string]Listing) *Catalog {
	if c.sandbox || len(c.discover) == 0 {
		return c
	}
	out := *c
	out.models, out.byID, out.aliases = slices.Clone(c.models), maps.Clone(c.byID), maps.Clone(c.aliases)
	out.auto, out.unread = slices.Clone(c.auto), nil
	b := &builder{Catalog: &out}
	for _, name := range c.discover {
		l, read := listings[name]
		switch {
		case !read || !reflect.DeepEqual(l.Of, c.providers[name]):
			out.unread = append(out.unread, name)
		case !l.Unpriced():
			for _, m := range l.Models[:min(len(l.Models), MaxListed)] {
				b.list(l.Of, m)
			}
		}
	}
	for i := len(c.models); i < len(out.models); i++ {
		m := &out.models[i]
		if bare, ok := strings.CutSuffix(m.ID, ":latest"); ok && !out.taken(bare) {
			m.Aliases, out.aliases[bare] = []string{bare}, m.ID
		}
	}
	b.addCacheWrites()
	if out.DefaultModel(stoa.Plan{}) == "" && !c.ownAuto && len(out.models) > len(c.models) {
		out.auto = []int{len(c.models)}
	}
	return &out
}

func (b *builder) list(p stoa.Provider, m stoa.ListedModel) {
	if b.taken(m.ID) || len(b.models) >= maxModels {
		return
	}
	e := entry{Model: stoa.Model{ID: m.ID, Family: p.Name, ContextTokens: min(max(m.ContextTokens, 0), stoa.MaxTokens), Price: p.Discover.Price}}
	if route, ok := b.route(&e, stoa.Route{Provider: p.Name, Model: m.ID}, ""); ok {
		route.Traits.Vision = route.Traits.Vision || m.Vision
		e.Routes = b.keyed(route, 0)
	}
	b.byID[m.ID] = len(b.models)
	b.models = append(b.models, e)
}

// taken reports whether a listed name is invalid or means something else.
func (c *Catalog) taken(name string) bool {
	_, isModel := c.byID[name]
	return !isIdentifier(name) || name == Auto || isModel || c.aliases[name] != "" ||
		slices.ContainsFunc(c.rules, func(r aliasRule) bool { return r.own && r.matches(name) })
}
