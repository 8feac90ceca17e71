package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
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
	return nullUnless(!r.LastFailureAt.IsZero(), contract.ProviderFailure{
		At: contract.Time(r.LastFailureAt), Code: string(r.LastFailureCode), Text: cmp.Or(r.LastFailureText, meaning(r.LastFailureCode)), Status: nullIfZero(r.LastFailureStatus),
	})
}

// maxRecent limits the request log rows that are read for the recent calls of providers, because reading them takes about 50 ms.
const maxRecent = 20_000

func (s *Providers) listRecentProviders(ctx context.Context, in rest.Request[rest.None, rest.None]) (rest.Reply[contract.RecentProviderList], error) {
	out, err := report(ctx, &s.core, in.Caller.Account.ID, func(ctx context.Context, tx *store.Tx) (contract.RecentProviderList, error) {
		return recentProviders(ctx, tx, maxRecent)
	})
	return rest.Reply[contract.RecentProviderList]{Body: out}, err
}

func recentProviders(ctx context.Context, tx *store.Tx, most int) (contract.RecentProviderList, error) {
	since, lastHour := tx.Now.Add(-24*time.Hour), tx.Now.Add(-time.Hour)
	out := contract.RecentProviderList{Data: []contract.RecentProvider{}, Since: contract.Time(since)}
	type provider struct {
		all    recent
		models map[string]*recent
		last   *store.RecentCall
	}
	providers := map[string]*provider{}
	var oldest time.Time
	err := tx.Operations().RecentCalls(ctx, since, most+1, func(c store.RecentCall) {
		if out.Rows == most {
			out.Cut = true
			return
		}
		out.Rows++
		oldest = c.CreatedAt
		if c.Provider == "" && c.Code == stoa.CodeModelUnavailable {
			out.Unserved.Day++
			if !c.CreatedAt.Before(lastHour) {
				out.Unserved.Hour++
			}
		}
		if c.Provider == "" {
			return // because it was rejected before a provider was tried
		}
		p := providers[c.Provider]
		if p == nil {
			p = &provider{models: map[string]*recent{}}
			providers[c.Provider] = p
		}
		m := p.models[c.Model]
		if m == nil {
			m = &recent{}
			p.models[c.Model] = m
		}
		failed := p.all.add(c, lastHour)
		m.add(c, lastHour)
		if failed && p.last == nil {
			last := c // not c itself, which would be allocated for each call
			p.last = &last
		}
	})
	if out.Cut {
		out.Since = contract.Time(oldest)
	}
	for _, name := range slices.Sorted(maps.Keys(providers)) {
		p := providers[name]
		one := contract.RecentProvider{
			Name: name, Hour: p.all.hour.sums(), Day: p.all.day.sums(), Models: []contract.RecentModel{},
			LastError: nullable.NewNullNullable[contract.RecentError](),
		}
		if e := p.last; e != nil {
			one.LastError = nullable.NewNullableWithValue(contract.RecentError{
				At: contract.Time(e.CreatedAt), Code: string(e.Code), Text: meaning(e.Code), Status: e.Status, RequestID: e.ID,
			})
		}
		for _, model := range slices.Sorted(maps.Keys(p.models)) {
			m := p.models[model]
			one.Models = append(one.Models, contract.RecentModel{Model: model, Hour: m.hour.sums(), Day: m.day.sums()})
		}
		out.Data = append(out.Data, one)
	}
	return out, err
}

type recent struct{ hour, day recentCalls }

type recentCalls struct {
	calls, errors int64
	took          []time.Duration
}

// add counts a call and reports whether it failed. An error of the caller is not a failure of the provider.
func (r *recent) add(c store.RecentCall, lastHour time.Time) (failed bool) {
	failed = c.Code != "" && (c.Status < 400 || c.Status >= 500)
	r.day.add(c, failed)
	if !c.CreatedAt.Before(lastHour) {
		r.hour.add(c, failed)
	}
	return failed
}

func (r *recentCalls) add(c store.RecentCall, failed bool) {
	r.calls++
	switch {
	case failed:
		r.errors++
	case c.Status < 400:
		r.took = append(r.took, c.Duration)
	}
}

func (r *recentCalls) sums() contract.RecentCalls {
	slices.Sort(r.took)
	quantile := func(percent int) nullable.Nullable[int64] { // the nearest rank
		if len(r.took) == 0 {
			return nullable.NewNullNullable[int64]()
		}
		return nullable.NewNullableWithValue(milliseconds(r.took[(len(r.took)*percent+99)/100-1]))
	}
	return contract.RecentCalls{Calls: r.calls, Errors: r.errors, P50Milliseconds: quantile(50), P95Milliseconds: quantile(95)}
}

func meaning(code stoa.Code) string {
	for _, c := range contract.Codes() {
		if c.Code == code {
			return c.Meaning
		}
	}
	return "An error occurred."
}

type byName struct {
	Name string `path:"name"`
}

func (s *Providers) testProvider(ctx context.Context, in rest.Request[byName, rest.None]) (rest.Reply[contract.ProviderTest], error) {
	var reply rest.Reply[contract.ProviderTest]
	name := in.Params.Name
	known := s.Pool != nil && slices.ContainsFunc(s.Pool().Providers, func(p upstream.ProviderStats) bool { return p.Name == name || strings.HasPrefix(p.Name, name+"#") })
	if !known || s.Try == nil {
		return reply, stoa.Errorf(stoa.CodeNotFound, "There is no provider %q. GET /api/v1/providers lists them.", rest.ShortName(name))
	}
	out, err := s.tryProvider(ctx, in.Caller.Account.ID, s.Catalog.Load(), name)
	return rest.Reply[contract.ProviderTest]{Body: out}, err
}

func (s *Providers) tryProvider(ctx context.Context, accountID string, cat *catalog.Catalog, name string) (contract.ProviderTest, error) {
	out := contract.ProviderTest{
		Provider: name, Model: nullIfZero(""), Status: nullIfZero(0), ErrorCode: nullIfZero(""), TimeToFirstTokenMilliseconds: nullIfZero(int64(0)),
		Text: "No model is routed to this provider, so nothing was sent. Add it to a family or a model in the configuration.",
	}
	cat, listed, problem := s.withList(ctx, cat, name)
	if problem != "" {
		out.Text = problem
		return out, nil
	}
	model, route, found := cheapest(cat, name)
	if !found {
		if listed != "" {
			out.Text = listed + "None of them can be called."
		}
		if cat.Disabled(name) {
			out.Text = "This provider is disabled, so nothing was sent. Enable it to test it."
		}
		return out, nil
	}
	t, err := s.Try(ctx, accountID, model, route)
	if err != nil {
		return out, err
	}
	out.Model, out.Ok, out.Text, out.Attempts = nullIfZero(route.Model), t.Failed == "", listed+"It responded.", t.Attempts
	out.TimeToFirstTokenMilliseconds, out.DurationMilliseconds = nullIfZero(milliseconds(t.FirstToken)), milliseconds(t.Duration)
	if !out.Ok {
		out.Status, out.ErrorCode, out.Text = nullIfZero(t.Status), nullIfZero(string(t.Failed)), listed+explain(t)
	}
	return out, nil
}

const maxListedNames = 5

// withList adds the models that the server of a provider lists to a catalog, and says what it lists;
// "" for a provider that does not offer listed models. Then problem is the reason why the list cannot
// be used.
func (s *Providers) withList(ctx context.Context, cat *catalog.Catalog, name string) (with *catalog.Catalog, listed, problem string) {
	i := slices.IndexFunc(cat.Discovering(), func(p stoa.Provider) bool { return p.Name == name || p.Ref() == name })
	if i < 0 || s.ListModels == nil {
		return cat, "", ""
	}
	l := catalog.Listing{Of: cat.Discovering()[i]}
	var err error
	if l.Models, l.Local, err = s.ListModels(ctx, l.Of); err != nil {
		return cat, "", fmt.Sprintf("The list of models could not be read: %v.", err)
	}
	var names []string
	for _, m := range l.Models[:min(len(l.Models), maxListedNames)] {
		names = append(names, rest.ShortName(m.ID))
	}
	if len(l.Models) > maxListedNames {
		names = append(names, "…")
	}
	listed = fmt.Sprintf("The server lists %s: %s. ", counted(len(l.Models), "model", "models"), strings.Join(names, ", "))
	switch {
	case len(l.Models) == 0:
		return cat, "", "The server lists no models, so nothing was sent."
	case l.Unpriced():
		return cat, "", listed + "They cannot be called: its address is not a private one, and the provider has no price. Set its price."
	}
	return cat.WithListings(map[string]catalog.Listing{l.Of.Name: l}), listed, ""
}

// cheapest returns the model with the lowest output price that is routed to a provider,
// and its route. For the sandbox, which serves every model, it returns the first one.
func cheapest(cat *catalog.Catalog, provider string) (model string, route stoa.Route, found bool) {
	var least stoa.Credits
	models := cat.Models()
	for _, m := range models {
		i := slices.IndexFunc(m.Routes, func(r stoa.Route) bool { return r.Provider == provider || r.Ref() == provider })
		if i >= 0 && (!found || m.Price.Output < least) {
			model, route, found, least = m.ID, m.Routes[i], true, m.Price.Output
		}
	}
	if !found && provider == catalog.SandboxProvider && len(models) > 0 {
		return models[0].ID, stoa.Route{Provider: provider, Wire: catalog.SandboxWire, Model: models[0].ID}, true
	}
	return model, route, found
}

// explain returns the meaning of a failed test for an operator. Only the log contains the provider's
// message, because it may contain secrets.
func explain(t upstream.Tried) string {
	const more = " The service's log contains the provider's message."
	switch {
	case t.Status == 401 || t.Status == 403:
		return "The provider rejects the key or its permissions." + more
	case t.Status == 402:
		return "The provider requires payment." + more
	case t.Status == 404:
		return "The provider does not have the address or the model: check its baseURL and the names of the models." + more
	case t.Status == 429:
		return "The provider's rate limits are reached." + more
	case t.Status > 0:
		return meaning(t.Failed) + more
	case t.Attempts == 0:
		return "Nothing was sent: the model's circuit is open after failures, or the provider's maxInFlight is reached. Try again in half a minute."
	case t.Failed == stoa.CodeUpstreamTimeout:
		return "The provider did not answer in time: check its baseURL, and whether this machine can connect to it." + more
	}
	return "The provider sent no usable answer: check its baseURL, and whether this machine can connect to it." + more
}
