package app

import (
	"maps"
	"slices"

	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
	"stoa/internal/operate/managed"
)

// planList returns every plan in a stable order.
func (s *Service) planList() []stoa.Plan {
	plans := *s.plans.Load()
	var out []stoa.Plan
	for _, id := range slices.Sorted(maps.Keys(plans)) {
		out = append(out, plans[id])
	}
	return out
}

// Check returns the errors of a configuration that reading it does not find, such as inconsistent models, routes and
// prices, because only package catalog can check those.
func Check(cfg config.Config) error {
	_, err := managed.Catalog(cfg, nil)
	return err
}
