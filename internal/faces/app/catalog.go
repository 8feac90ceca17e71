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

// Check returns errors of a configuration that reading it does not find: models, routes and
// prices that are inconsistent.
func Check(cfg config.Config) error {
	_, err := managed.Catalog(cfg, nil)
	return err
}
