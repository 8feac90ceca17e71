package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stoa/internal/base/stoa"
)

// The reasons for serving a different model than the requested one.
const (
	ReasonAlias = "alias" // the name is an alias
	ReasonAuto  = "auto"  // the caller left the choice to the service
	ReasonPlan  = "plan"  // the model is gated and not in the caller's plan
)

// A Resolution is the current result for a requested name.
type Resolution struct {
	Asked  string
	Models []stoa.Model // candidates in order, at least one; each has routes
	Reason string       // empty if the model was requested by its identifier
	// Requested is the model the caller named, after its alias: its price caps
	// the charge when another model serves. Its ID is empty for "auto".
	Requested stoa.Model
}

// Resolve returns the models that may serve a call. An explicit model is the only
// candidate; "auto", and a gated model that the plan does not include, resolve to the list
// of auto: healthy models first, then those with unhealthy routes. A nil healthy counts
// every model as healthy.
//
// It fails with [stoa.CodeModelNotFound] for a name that is neither an identifier nor an
// alias (see [Catalog.alias]), and with [stoa.CodeModelUnavailable] if nothing
// is configured to serve it, or a list that may contain it is missing (see
// [Catalog.WithListings]).
func (c *Catalog) Resolve(asked string, plan stoa.Plan, healthy func(stoa.Model) bool) (Resolution, error) {
	res := Resolution{Asked: asked}
	id := asked
	if target := c.alias(asked); target != "" {
		id, res.Reason = target, ReasonAlias
	}
	if id == Auto {
		res.Reason = ReasonAuto
		return c.resolveAuto(res, healthy)
	}
	i, ok := c.byID[id]
	if !ok {
		if len(c.unread) > 0 && isIdentifier(asked) { // not an unknown name, because a missing list may contain it
			return Resolution{}, stoa.Errorf(stoa.CodeModelUnavailable,
				"It is unknown whether there is a model %q: the list of models of %s could not be read yet. Try again later, or use another model.",
				asked, strings.Join(c.unread, ", ")).At("model")
		}
		return Resolution{}, c.notFound(asked)
	}
	m := c.models[i].Model
	res.Requested = m
	if !plan.Allows(m) {
		res.Reason = ReasonPlan
		return c.resolveAuto(res, healthy)
	}
	if len(m.Routes) == 0 {
		return Resolution{}, stoa.Errorf(stoa.CodeModelUnavailable,
			"The model %s is not available here: no provider of the family %s is configured and enabled. Use another model, or \"auto\".", m.ID, m.Family).At("model")
	}
	res.Models = []stoa.Model{m}
	return res, nil
}

func (c *Catalog) resolveAuto(res Resolution, healthy func(stoa.Model) bool) (Resolution, error) {
	models := make([]stoa.Model, 0, len(c.auto))
	var unhealthy []stoa.Model
	for _, i := range c.auto {
		switch m := c.models[i].Model; {
		case len(m.Routes) == 0:
		case healthy == nil || healthy(m):
			models = append(models, m)
		default:
			unhealthy = append(unhealthy, m)
		}
	}
	res.Models = append(models, unhealthy...)
	if len(res.Models) == 0 {
		return Resolution{}, stoa.Errorf(stoa.CodeModelUnavailable,
			"The service has no default model at the moment: none of those that \"auto\" can choose has a provider. Name a model instead.").At("model")
	}
	return res, nil
}

const listed = 20 // identifiers in an error message

// notFound returns the error for an unknown name, with the existing identifiers. The
// requested name is cut to 64 characters and quoted, since it may contain anything.
func (c *Catalog) notFound(asked string) error {
	ids := []string{Auto}
	for _, m := range c.models {
		ids = append(ids, m.ID)
	}
	more := ""
	if len(ids) > listed {
		more = fmt.Sprintf(" and %d more (see /api/v1/meta)", len(ids)-listed)
		ids = ids[:listed]
	}
	shown := []rune(asked)
	if len(shown) > 64 {
		shown = append(shown[:64], '…')
	}
	hint := cmp.Or(c.didYouMean(asked), ".") // a hint ends with its question mark
	return stoa.Errorf(stoa.CodeModelNotFound, "There is no model %q%s The models are %s%s.",
		string(shown), hint, strings.Join(ids, ", "), more).At("model")
}

// didYouMean returns a hint with the closest identifier, or "" if none is close.
func (c *Catalog) didYouMean(asked string) string {
	if len(asked) > 128 {
		return ""
	}
	lower := strings.ToLower(asked)
	// A vendor's name is replaced, because it has exactly one counterpart here.
	if _, bare, ok := strings.Cut(lower, "/"); ok {
		lower = bare
	}
	for _, f := range c.families {
		if rest, ok := strings.CutPrefix(lower, f.UpstreamPrefix); ok && f.UpstreamPrefix != "" {
			lower = f.Name + "-" + rest
		}
	}
	best, least := "", 1+min(6, len(lower)/3)
	try := func(name, means string) {
		if d := stoa.EditDistance(lower, strings.ToLower(name)); d < least {
			best, least = means, d
		}
	}
	try(Auto, Auto)
	for _, m := range c.models {
		try(m.ID, m.ID)
	}
	for _, m := range c.models {
		for _, alias := range slices.Concat(m.Aliases, m.DeprecatedAliases) {
			try(alias, m.ID)
		}
	}
	if best == "" || best == asked {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}
