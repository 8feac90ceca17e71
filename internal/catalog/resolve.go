package catalog

import (
	"fmt"
	"slices"
	"strings"

	"stoa/internal/near"
	"stoa/internal/stoa"
)

// The reasons why another model serves than the one that was asked for.
const (
	ReasonAlias = "alias" // the name is an alias
	ReasonAuto  = "auto"  // the caller left the choice to the service
	ReasonPlan  = "plan"  // the model is gated and the caller's plan lacks it
)

// A Resolution is what a name stands for at this moment.
type Resolution struct {
	Asked  string
	Models []stoa.Model // candidates in order, at least one; each has routes
	Reason string       // empty: the model was asked for by its identifier
	// Requested is the model the caller named, after its alias: its price caps
	// the charge when another one serves. Its ID is empty for "auto".
	Requested stoa.Model
}

// Resolve finds the models that may serve a call. An explicit model stands
// alone; "auto", and a gated model that the plan lacks, give the list of auto:
// healthy ones first, then those that have routes but are not healthy. A nil
// healthy counts every model as healthy.
//
// It fails with [stoa.CodeModelNotFound] for a name that is neither an
// identifier nor an alias (exactly, case included), and with
// [stoa.CodeModelUnavailable] when nothing is configured to serve it.
func (c *Catalog) Resolve(asked string, plan stoa.Plan, healthy func(stoa.Model) bool) (Resolution, error) {
	res := Resolution{Asked: asked}
	if asked == Auto {
		res.Reason = ReasonAuto
		return c.resolveAuto(res, healthy)
	}
	id := asked
	if target, ok := c.aliases[asked]; ok {
		id, res.Reason = target, ReasonAlias
	}
	i, ok := c.byID[id]
	if !ok {
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
			"The model %s is not available here: no provider of the family %s is configured. Use another model, or \"auto\".", m.ID, m.Family).At("model")
	}
	res.Models = []stoa.Model{m}
	return res, nil
}

// resolveAuto fills in the candidates of "auto".
func (c *Catalog) resolveAuto(res Resolution, healthy func(stoa.Model) bool) (Resolution, error) {
	models := make([]stoa.Model, 0, len(c.auto))
	var ill []stoa.Model
	for _, i := range c.auto {
		switch m := c.models[i].Model; {
		case len(m.Routes) == 0:
		case healthy == nil || healthy(m):
			models = append(models, m)
		default:
			ill = append(ill, m)
		}
	}
	res.Models = append(models, ill...)
	if len(res.Models) == 0 {
		return Resolution{}, stoa.Errorf(stoa.CodeModelUnavailable,
			"The service has no default model at the moment: none of those that \"auto\" may choose has a provider. Name a model instead.").At("model")
	}
	return res, nil
}

// listed is how many identifiers an error message names at most.
const listed = 20

// notFound says what exists instead. The caller's own text is shortened and
// quoted: it may hold anything.
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
	return stoa.Errorf(stoa.CodeModelNotFound, "There is no model %q%s. The models are %s%s.",
		string(shown), c.didYouMean(asked), strings.Join(ids, ", "), more).At("model")
}

// didYouMean suggests the identifier that was probably meant, if any.
func (c *Catalog) didYouMean(asked string) string {
	if len(asked) > 128 {
		return ""
	}
	lower := strings.ToLower(asked)
	// A vendor's own name has exactly one counterpart here.
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
		if d := near.Distance(lower, strings.ToLower(name)); d < least {
			best, least = means, d
		}
	}
	try(Auto, Auto)
	for _, m := range c.models {
		try(m.ID, m.ID)
	}
	for _, m := range c.models {
		for _, alias := range slices.Concat(m.aliases, m.deprecated) {
			try(alias, m.ID)
		}
	}
	if best == "" || best == asked {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}
