package api

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/models/catalog"
	"stoa/internal/models/upstream"
)

func (s *Providers) listProviders(context.Context, rest.Request[rest.None, rest.None]) (rest.Reply[contract.ProviderList], error) {
	var stats upstream.Stats
	if s.Pool != nil {
		stats = s.Pool()
	}
	out := contract.ProviderList{Data: []contract.Provider{}, Active: stats.Active, Retrying: stats.Retrying}
	models := map[string][]string{} // by provider
	for _, m := range s.Catalog.Load().Models() {
		for _, r := range m.Routes {
			if ref := r.Ref(); !slices.Contains(models[ref], m.ID) {
				models[ref] = append(models[ref], m.ID)
			}
		}
	}
	problems := map[string]string{}
	if s.Listings != nil {
		for _, f := range s.Listings() {
			problems[f.ID] = f.Detail
		}
	}
	for _, p := range stats.Providers {
		c := contractProvider(p, models[p.Name])
		name, _, _ := strings.Cut(p.Name, "#")
		c.ListProblem = nullIfZero(problems[name])
		c.Disabled = c.Disabled || p.Name == catalog.SandboxProvider && len(c.Models) == 0
		out.Data = append(out.Data, c)
	}
	return rest.Reply[contract.ProviderList]{Body: out}, nil
}

func contractProvider(p upstream.ProviderStats, models []string) contract.Provider {
	c := contract.Provider{
		Name: p.Name, Wire: p.Wire, Disabled: p.Disabled, Models: append([]string{}, models...), InFlight: p.InFlight, MaxInFlight: p.MaxInFlight, Refused: int64(p.Refused),
		LastFailure: nullable.NewNullNullable[contract.ProviderFailure](), Routes: []contract.ProviderRoute{},
	}
	var latest upstream.RouteStats
	for _, r := range p.Routes {
		c.Requests += int64(r.Requests)
		c.Retries += int64(r.Retries)
		c.Failures += int64(r.Failures)
		c.Timeouts += int64(r.Timeouts)
		if r.LastFailureAt.After(latest.LastFailureAt) {
			latest = r
		}
		c.Routes = append(c.Routes, contract.ProviderRoute{
			Model: r.Model, State: strings.ReplaceAll(r.Breaker, "-", "_"), OpenUntil: nullIfNever(r.OpenUntil),
			InFlight: r.InFlight, Requests: int64(r.Requests), Retries: int64(r.Retries),
			Failures: int64(r.Failures), Timeouts: int64(r.Timeouts), LastFailure: lastFailure(r),
		})
	}
	c.LastFailure = lastFailure(latest)
	return c
}

// lastFailure returns the code and the status of a failure. It omits the vendor's message, because that
// may contain secrets.
func lastFailure(r upstream.RouteStats) nullable.Nullable[contract.ProviderFailure] {
	if r.LastFailureAt.IsZero() {
		return nullable.NewNullNullable[contract.ProviderFailure]()
	}
	return nullable.NewNullableWithValue(contract.ProviderFailure{
		At: contract.Time(r.LastFailureAt), Code: string(r.LastFailureCode), Text: cmp.Or(r.LastFailureText, meaning(r.LastFailureCode)), Status: nullIfZero(r.LastFailureStatus),
	})
}
