package app

import (
	"maps"
	"slices"

	"stoa/internal/catalog"
	"stoa/internal/config"
	"stoa/internal/stoa"
)

// newCatalog makes the catalog of a configuration. Its errors name the setting
// and where it stands.
func newCatalog(cfg config.Config) (*catalog.Catalog, error) {
	opts := catalog.Options{
		Providers: cfg.Upstreams(), Auto: cfg.Auto, Sandbox: cfg.Sandbox,
		Families: map[string][]catalog.Route{}, Models: map[string]catalog.Model{},
	}
	for name, routes := range cfg.Families {
		opts.Families[name] = routesOf(routes)
	}
	for id, m := range cfg.Models {
		to := catalog.Model{
			Family: m.Family, Gated: m.Gated, Aliases: m.Aliases, DeprecatedAliases: m.DeprecatedAliases,
			ContextTokens: m.ContextTokens, MaxOutput: m.MaxOutput, DefaultOutput: m.DefaultOutput, Routes: routesOf(m.Routes),
		}
		if m.Price != nil {
			to.Price = (*catalog.Price)(m.Price)
		}
		opts.Models[id] = to
	}
	cat, err := catalog.New(opts)
	if err != nil {
		return nil, cfg.Explain(err)
	}
	return cat, nil
}

func routesOf(routes []config.Route) []catalog.Route {
	var out []catalog.Route
	for _, r := range routes {
		out = append(out, catalog.Route(r))
	}
	return out
}

// planList is every plan in a stable order.
func (h *house) planList() []stoa.Plan {
	plans := *h.plans.Load()
	var out []stoa.Plan
	for _, id := range slices.Sorted(maps.Keys(plans)) {
		out = append(out, plans[id])
	}
	return out
}

// Check says what is wrong with a configuration beyond what reading it finds:
// models, routes and prices that do not fit together.
func Check(cfg config.Config) error {
	_, err := newCatalog(cfg.WithDefaults())
	return err
}
