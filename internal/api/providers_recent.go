package api

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/catalog"
	"stoa/internal/contract"
	"stoa/internal/rest"
	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/upstream"
)

// maxRecent is how many rows of the request log are looked at for what providers did
// lately; they take some 50 ms.
const maxRecent = 20_000

// listRecentProviders serves GET /api/v1/providers/recent.
func (s *Server) listRecentProviders(ctx context.Context, in rest.Request[rest.None, rest.None]) (rest.Reply[contract.RecentProviderList], error) {
	out, err := report(ctx, s, in.Caller.Account.ID, func(ctx context.Context, tx *store.Tx) (contract.RecentProviderList, error) {
		return recentProviders(ctx, tx, maxRecent)
	})
	return rest.Reply[contract.RecentProviderList]{Body: out}, err
}

// recentProviders sums at most most rows of the request log.
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
	err := tx.RecentCalls(ctx, since, most+1, func(c store.RecentCall) {
		if out.Rows == most {
			out.Cut = true
			return
		}
		out.Rows++
		oldest = c.CreatedAt
		if c.Provider == "" {
			return // it was refused before one was tried
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
			p.last = &c
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

// recent is what was called in the last hour and the last day.
type recent struct{ hour, day recentCalls }

// recentCalls are calls, and how long those without an error took.
type recentCalls struct {
	calls, errors int64
	took          []time.Duration
}

// add counts a call and reports whether it failed by no fault of the caller.
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

// meaning is what a code means, as the documentation has it.
func meaning(code stoa.Code) string {
	for _, c := range contract.Codes() {
		if c.Code == code {
			return c.Meaning
		}
	}
	return "Something went wrong."
}

type byName struct {
	Name string `path:"name"`
}

// testProvider serves POST /api/v1/providers/{name}/test.
func (s *Server) testProvider(ctx context.Context, in rest.Request[byName, rest.None]) (rest.Reply[contract.ProviderTest], error) {
	var reply rest.Reply[contract.ProviderTest]
	name := in.Params.Name
	known := s.Pool != nil && slices.ContainsFunc(s.Pool().Providers, func(p upstream.ProviderStats) bool { return p.Name == name })
	if !known || s.Try == nil {
		return reply, stoa.Errorf(stoa.CodeNotFound, "There is no provider %q. GET /api/v1/providers lists them.", rest.ShortName(name))
	}
	out := contract.ProviderTest{
		Provider: name, Model: unlessZero(""), Status: unlessZero(0), ErrorCode: unlessZero(""), TimeToFirstTokenMilliseconds: unlessZero(int64(0)),
		Text: "No model is routed to this provider, so nothing was sent. Put it into a family or a model of the configuration.",
	}
	model, route, found := cheapest(s.Catalog.Load(), name)
	if !found {
		return rest.Reply[contract.ProviderTest]{Body: out}, nil
	}
	t, err := s.Try(ctx, in.Caller.Account.ID, model, route)
	if err != nil {
		return reply, err
	}
	out.Model, out.Ok, out.Text, out.Attempts = unlessZero(route.Model), t.Failed == "", "It responded.", t.Attempts
	out.TimeToFirstTokenMilliseconds, out.DurationMilliseconds = unlessZero(milliseconds(t.FirstToken)), milliseconds(t.Duration)
	if !out.Ok {
		out.Status, out.ErrorCode, out.Text = unlessZero(t.Status), unlessZero(string(t.Failed)), told(t)
	}
	return rest.Reply[contract.ProviderTest]{Body: out}, nil
}

// cheapest returns the model with the lowest price of output that is routed to a
// provider, and its route; for the sandbox, which serves any, the first one.
func cheapest(cat *catalog.Catalog, provider string) (model string, route stoa.Route, found bool) {
	var least stoa.Credits
	models := cat.Models()
	for _, m := range models {
		i := slices.IndexFunc(m.Routes, func(r stoa.Route) bool { return r.Provider == provider })
		if i >= 0 && (!found || m.Price.Output < least) {
			model, route, found, least = m.ID, m.Routes[i], true, m.Price.Output
		}
	}
	if !found && provider == catalog.SandboxProvider && len(models) > 0 {
		return models[0].ID, stoa.Route{Provider: provider, Wire: catalog.SandboxWire, Model: models[0].ID}, true
	}
	return model, route, found
}

// told says what a failed test means for an operator. What the provider wrote is in
// the log alone: it may hold secrets.
func told(t upstream.Tried) string {
	const more = " The service's log has the provider's own words."
	switch {
	case t.Status == 401 || t.Status == 403:
		return "The provider refuses the key or what the key may do." + more
	case t.Status == 402:
		return "The provider wants to be paid first." + more
	case t.Status == 404:
		return "The provider does not know the address or the model: see its baseURL and the names of the models." + more
	case t.Status == 429:
		return "The provider's limits are reached." + more
	case t.Status > 0:
		return meaning(t.Failed) + more
	case t.Attempts == 0:
		return "Nothing was sent: the model's circuit is open after failures, or the provider's maxInFlight is reached. Try again in half a minute."
	case t.Failed == stoa.CodeUpstreamTimeout:
		return "No answer came in time: see the provider's baseURL, and whether this machine may connect to it." + more
	}
	return "No usable answer came: see the provider's baseURL, and whether this machine may connect to it." + more
}
