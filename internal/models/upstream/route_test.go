package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/catalog"
	"stoa/internal/testkit/fakeup"
)

// weighted returns a model with a route per provider, each with a weight.
func weighted(model string, weights []int64, providers ...stoa.Provider) stoa.Model {
	m := at(model, providers...)
	for i := range m.Routes {
		m.Routes[i].Weight = weights[i]
	}
	return m
}

// without is a transport to which a host is unreachable while it is down.
type without struct {
	http.RoundTripper
	down string
}

func (w *without) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() == w.down {
		return nil, errors.New("connection refused")
	}
	return w.RoundTripper.RoundTrip(r)
}

// TestThreadsStayWhereTheirCacheIs has 1,000 threads call ten times each on three equal routes, with
// two minutes between two calls of a thread, while one route is down for a minute.
func TestThreadsStayWhereTheirCacheIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const threads, calls = 1000, 10
		var fakes []*fakeup.Server
		var providers []stoa.Provider
		for i := range 3 {
			f := fakeup.Start(t, fakeup.Options{Pipe: fmt.Sprintf("%d.test", i), Cache: true, Brief: true})
			fakes = append(fakes, f)
			providers = append(providers, named(f.Provider("messages"), fmt.Sprint(i)))
		}
		cfg := quick(providers...)
		transport := &without{RoundTripper: fakeup.Transport(newTransport(), fakes...)}
		cfg.Transport = transport
		p := open(t, cfg)
		m := weighted("claude-haiku-4-5", []int64{1, 1, 1}, providers...)
		document := strings.Repeat("a long document, ", 250)
		read, first, reasons := 0, map[string]int{}, map[stoa.RouteReason]int{}
		for round := range calls {
			for i := range threads {
				now := round*threads + i
				switch down := 4 * threads; now { // a minute is half of a round
				case down:
					transport.down = "1.test"
				case down + threads/2:
					transport.down = ""
				}
				call := ask(fmt.Sprintf("say: %d\n%s", i, document))
				call.Caching, call.Thread, call.Trail = stoa.CacheConversation, uint64(i), new(stoa.Trail)
				for range round {
					call.Messages = append(call.Messages, stoa.TextMessage(stoa.RoleAssistant, "x"), stoa.TextMessage(stoa.RoleUser, "say: more"))
				}
				r := collect(t.Context(), p, m, call)
				r.expect(t, "")
				usage := r.finished[0].Usage
				if usage.CachedTokens > 0 {
					read++
				}
				if reasons[call.Trail.Reason]++; round == 0 {
					first[call.Trail.Provider]++
				}
				time.Sleep(2 * time.Minute / threads)
			}
		}
		share := float64(read) / (threads * (calls - 1))
		t.Logf("%.1f %% of the calls after a thread's first read the cache; first calls %v, reasons %v", 100*share, first, reasons)
		if share < 0.97 {
			t.Errorf("%.1f %% of the calls after a thread's first went where their cache is, want 97", 100*share)
		}
		for name, n := range first {
			if n < threads/4 {
				t.Errorf("provider %s has %d of %d threads", name, n, threads)
			}
		}
		if reasons[stoa.RouteByFailover] == 0 || reasons[stoa.RouteByOrder] != 0 {
			t.Errorf("the reasons are %v", reasons)
		}
	})
}

// TestOrderOfRoutes orders routes with and without weights.
func TestOrderOfRoutes(t *testing.T) {
	t.Parallel()
	provider := func(name string) stoa.Provider {
		return stoa.Provider{Name: name, Wire: "messages", BaseURL: "https://" + name + ".example", APIKey: "k"}
	}
	a, b, c, d := provider("a"), provider("b"), provider("c"), provider("d")
	p := open(t, quick(a, b, c, d))
	order := func(m stoa.Model, call stoa.Call) (string, stoa.RouteReason) {
		routes, reason := p.order(m.Routes, &call)
		var names []string
		for _, r := range routes {
			names = append(names, r.Provider)
		}
		return strings.Join(names, ""), reason
	}
	seen := map[string]int{}
	const threads = 10_000
	m := weighted("m", []int64{0, 1, 3, 0}, a, b, c, d)
	configured := slices.Clone(m.Routes)
	for i := range uint64(threads) {
		names, reason := order(m, stoa.Call{Thread: i})
		if again, _ := order(m, stoa.Call{Thread: i}); again != names || reason != stoa.RouteByOrder {
			t.Fatalf("thread %d: %s and %s, %s", i, names, again, reason)
		}
		seen[names]++
	}
	if len(seen) != 2 || seen["abcd"] < threads*23/100 || seen["abcd"] > threads*27/100 || seen["acbd"] == 0 {
		t.Errorf("with the weights 1 and 3 the orders are %v", seen)
	}
	if !slices.EqualFunc(m.Routes, configured, func(x, y stoa.Route) bool { return x.Provider == y.Provider }) {
		t.Error("the model's own routes were changed")
	}
	// Without a route, only its threads move.
	three, two := weighted("m", []int64{1, 1, 1}, a, b, c), weighted("m", []int64{1, 1}, a, b)
	for i := range uint64(1000) {
		names, reason := order(three, stoa.Call{Thread: i})
		rest, _ := order(two, stoa.Call{Thread: i})
		if strings.ReplaceAll(names, "c", "") != rest || reason != stoa.RouteByCache {
			t.Fatalf("thread %d: %s by %s, and without c %s", i, names, reason, rest)
		}
	}
	for _, test := range []struct {
		m     stoa.Model
		made  string
		names string
		by    stoa.RouteReason
	}{
		{at("m", a, b), "", "ab", stoa.RouteByOrder},
		{at("m", a, b), "b", "ba", stoa.RouteByReasoning},
		{at("m", a, b), "a", "ab", stoa.RouteByReasoning},
		{at("m", a), "a", "a", stoa.RouteByOrder},
		{weighted("m", []int64{1, 0}, a, b), "", "ab", stoa.RouteByOrder}, // it has no equal
		{weighted("m", []int64{0, 1, 0}, a, b, c), "c", "cab", stoa.RouteByReasoning},
	} {
		call := stoa.Call{}
		if test.made != "" {
			call.Prefer = &stoa.State{Wire: "messages", Model: "m", Provider: p.provider(&stoa.Route{Provider: test.made}).fingerprint}
		}
		if names, reason := order(test.m, call); names != test.names || reason != test.by {
			t.Errorf("made by %q: %s by %s, want %s by %s", test.made, names, reason, test.names, test.by)
		}
	}
}

// TestKeysShareARoute orders the keys of two providers: those of the first one come first, in
// proportion to their weights, and a sealed state leads to its key.
func TestKeysShareARoute(t *testing.T) {
	t.Parallel()
	var all []stoa.Provider
	for _, name := range []string{"a", "b"} {
		for key, weight := range map[string]int64{"x": 1, "y": 3} {
			all = append(all, stoa.Provider{Name: name, Wire: "messages", BaseURL: "https://" + name + ".example", APIKey: name + key, Key: key, KeyWeight: weight})
		}
	}
	p := open(t, quick(all...))
	cat, err := catalog.New(catalog.Options{Providers: all, Families: map[string][]stoa.Route{"alpha": {{Provider: "a"}, {Provider: "b"}}}, Handle: p.Prepare(all).Handle})
	if err != nil {
		t.Fatal(err)
	}
	m, _ := cat.Model("alpha-haiku-4-5")
	first := map[string]int{}
	const threads = 10_000
	for i := range uint64(threads) {
		routes, reason := p.order(m.Routes, &stoa.Call{Thread: i})
		if len(routes) != 4 || routes[0].Provider != "a" || routes[1].Provider != "a" || routes[0].Key == routes[1].Key || reason != stoa.RouteByCache {
			t.Fatalf("thread %d: %+v, %s", i, routes, reason)
		}
		first[routes[0].Key]++
	}
	if share := float64(first["y"]) / threads; share < 0.73 || share > 0.77 {
		t.Errorf("the first keys are %v", first)
	}
	of := p.provider(&stoa.Route{Provider: "b", Key: "x"})
	routes, reason := p.order(m.Routes, &stoa.Call{Prefer: &stoa.State{Wire: "messages", Model: m.Routes[0].Model, Provider: of.fingerprint}})
	if routes[0].Ref() != "b#x" || reason != stoa.RouteByReasoning {
		t.Errorf("a state leads to %s, %s", routes[0].Ref(), reason)
	}
	if of.inFlight != p.provider(&stoa.Route{Provider: "b", Key: "y"}).inFlight {
		t.Error("the keys of a provider do not share its maximum of calls")
	}
}

// limitedKey is a vendor that limits one key, and counts its requests.
type limitedKey struct {
	vendor, other vendor
	key           string
}

func (v *limitedKey) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("x-api-key") == v.key {
		return v.vendor.RoundTrip(r)
	}
	return v.other.RoundTrip(r)
}

// TestALimitedKeyRests: after the vendor's Retry-After for one key, calls use the other one until it is over,
// and the last key is tried in any case.
func TestALimitedKeyRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &limitedKey{key: "one", vendor: vendor{header: http.Header{"Retry-After": {"12"}}}}
		v.vendor.status.Store(429)
		var all []stoa.Provider
		for _, key := range []string{"one", "two"} {
			all = append(all, stoa.Provider{Name: "v", Wire: "messages", BaseURL: "https://vendor.example", APIKey: key, Key: key, KeyWeight: 1})
		}
		p := New(Config{Providers: all, Transport: v, Retries: -1})
		m := at("claude-haiku-4-5", all...)
		for i := range m.Routes {
			m.Routes[i].Key = all[i].Key
		}
		asked := func(calls int) (one, two int64) {
			t.Helper()
			one, two = v.vendor.requests.Load(), v.other.requests.Load()
			for range calls {
				collect(t.Context(), p, m, ask("hi")).expect(t, "")
			}
			return v.vendor.requests.Load() - one, v.other.requests.Load() - two
		}
		if one, two := asked(5); one != 1 || two != 5 {
			t.Errorf("%d requests with the limited key, %d with the other one", one, two)
		}
		<-time.After(12 * time.Second)
		v.vendor.status.Store(0)
		if one, two := asked(5); one != 5 || two != 0 {
			t.Errorf("after the pause: %d and %d requests", one, two)
		}
		v.vendor.status.Store(429)
		v.other.status.Store(429)
		for range 2 { // the last key has no other one
			collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeOverloaded)
		}
		if v.vendor.requests.Load() != 7 || v.other.requests.Load() != 7 {
			t.Errorf("%d and %d requests", v.vendor.requests.Load(), v.other.requests.Load())
		}
	})
}
