package app

import (
	"maps"
	"slices"

	"stoa/internal/catalog"
	"stoa/internal/config"
	"stoa/internal/stoa"
)

// newCatalog builds the catalog of a configuration. Its errors name the setting
// and where it stands.
func newCatalog(cfg config.Config) (*catalog.Catalog, error) {
	opts := catalog.Options{
		Providers: cfg.Upstreams(), Families: cfg.Families, Models: cfg.Models, Auto: cfg.Auto, Sandbox: cfg.Sandbox,
	}
	cat, err := catalog.New(opts)
	if err != nil {
		return nil, cfg.Explain(err)
	}
	return cat, nil
}

// planList is every plan in a stable order.
func (s *Service) planList() []stoa.Plan {
	plans := *s.plans.Load()
	var out []stoa.Plan
	for _, id := range slices.Sorted(maps.Keys(plans)) {
		out = append(out, plans[id])
	}
	return out
}

// Check returns what is wrong with a configuration beyond what reading it finds:
// models, routes and prices that do not fit together.
func Check(cfg config.Config) error {
	_, err := newCatalog(cfg)
	return err
}
