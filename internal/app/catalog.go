package app

import (
	"maps"
	"slices"

	"stoa/internal/catalog"
	"stoa/internal/config"
	"stoa/internal/stoa"
)

// newCatalog builds the catalog of a configuration. Its errors name the setting and its
// source.
func newCatalog(cfg config.Config) (*catalog.Catalog, error) {
	opts := catalog.Options{
		Providers: cfg.Upstreams(), Families: cfg.Families, Models: cfg.Models, Auto: cfg.Auto, Sandbox: cfg.Sandbox,
		Aliases: cfg.Aliases, AliasSets: cfg.AliasSets,
	}
	cat, err := catalog.New(opts)
	if err != nil {
		return nil, cfg.Explain(err)
	}
	return cat, nil
}

// planList returns every plan in a stable order.
func (s *Service) planList() []stoa.Plan {
	plans := *s.plans.Load()
	var out []stoa.Plan
	for _, id := range slices.Sorted(maps.Keys(plans)) {
		out = append(out, plans[id])
	}
	return out
}

// Check returns errors of a configuration that reading it does not find: models, routes and
// prices that are inconsistent.
func Check(cfg config.Config) error {
	_, err := newCatalog(cfg)
	return err
}
