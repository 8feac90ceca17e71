package upstream

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/fakeup"
)

func named(p stoa.Provider, name string) stoa.Provider { p.Name = name; return p }

func TestFailoverTakesTheRoutesInOrder(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, prompt    string // of the first two vendors; the third is healthy
		first, second   int    // attempts that they receive
		started         []string
		text            string
		code            stoa.Code
		withoutTheThird bool
	}{
		{name: "the first serves", prompt: "say: hello", first: 1, started: []string{"one"}, text: "hello"},
		{name: "retries are spent on the first, then each route is tried once", prompt: "fail: 500\nmark: x", first: 3, second: 1, started: []string{"three"}},
		{name: "what is accepted and fails before the text goes on", prompt: "fault: error-in-stream", first: 3, second: 1, started: []string{"one", "one", "one", "two", "three"}},
		{name: "a timeout goes to the next route without a retry", prompt: "fault: hang", first: 1, second: 1, started: []string{"three"}},
		{name: "refused credentials go to the next route without a retry", prompt: "fail: 401", first: 1, second: 1, started: []string{"three"}},
		{name: "a long retry-after goes to the next route at once", prompt: "fail: 429\nretry-after: 60", first: 1, second: 1, started: []string{"three"}},
		{name: "a failure after the text stays where it is", prompt: "cut: 2\ntokens: 5", first: 1, started: []string{"one"}, text: "word word", code: stoa.CodeUpstream},
		{name: "when all fail the last overload is told", prompt: "fail: 503", first: 3, second: 1, code: stoa.CodeOverloaded, withoutTheThird: true},
	}
	for _, tt := range tests {
		inBubble(t, tt.name, func(t *testing.T) {
			one, two := start(t, "one.test"), start(t, "two.test")
			three := fakeup.Start(t, fakeup.Options{Pipe: "three.test", Null: 3}) // it serves every prompt
			a := named(one.Provider("messages"), "one")
			b := named(two.Provider("chat"), "two")
			c := named(three.Provider("gemini"), "three")
			a.Timeouts.FirstByte, b.Timeouts.FirstByte = 200*time.Millisecond, 200*time.Millisecond
			p := openPipe(t, quick(a, b, c), one, two, three)
			m := at("m", a, b)
			if !tt.withoutTheThird {
				m = at("m", a, b, c)
			}
			r := collect(t.Context(), p, m, ask(tt.prompt))
			r.expect(t, tt.code)
			if !slices.Equal(r.started, tt.started) {
				t.Errorf("started by %q, want %q", r.started, tt.started)
			}
			if tt.text != "" && !strings.HasPrefix(tt.text, r.text) {
				t.Errorf("text %q, want %q", r.text, tt.text)
			}
			if n := len(one.Served()); n != tt.first {
				t.Errorf("the first vendor saw %d attempts, want %d", n, tt.first)
			}
			if n := len(two.Served()); n != tt.second {
				t.Errorf("the second vendor saw %d attempts, want %d", n, tt.second)
			}
		})
	}
}

func TestCallersFaultStopsAtOnce(t *testing.T) {
	t.Parallel()
	one, two := fakeup.Start(t), fakeup.Start(t)
	a, b := named(one.Provider("messages"), "one"), named(two.Provider("messages"), "two")
	p := open(t, quick(a, b))
	r := collect(t.Context(), p, at("claude-haiku-4-5", a, b), ask("fail: 413"))
	if f := failureOf(t, r.err); !f.Caller {
		t.Errorf("a request that is too large is not the caller's fault: %+v", f)
	}
	if len(one.Served()) != 1 || len(two.Served()) != 0 {
		t.Errorf("attempts: %d and %d, want 1 and 0", len(one.Served()), len(two.Served()))
	}
	if s := p.Stats(); s.Providers[0].Routes[0].Failures != 0 {
		t.Error("the caller's fault counts as the route's failure")
	}
}

func TestShortRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		inBubble(t, w.name, func(t *testing.T) {
			fake := start(t, "fake.test")
			pr := fake.Provider(w.name)
			cfg := quick(pr)
			cfg.Backoff = 2 * time.Second // the call's own pause
			began := time.Now()
			collect(t.Context(), openPipe(t, cfg, fake), at(w.model, pr), ask("flaky: 1\nfail: 429\nretry-after: 1")).expect(t, "")
			if d := time.Since(began); d < time.Second || d > 1100*time.Millisecond { // at most a tenth of jitter
				t.Errorf("the retry came after %v", d)
			}
		})
	}
}

// TestALongRetryAfterIsHandedOn: the caller repeats the call, too, so that a refusal repeated here reaches the provider
// several times for each of its requests. Another route is tried first.
func TestALongRetryAfterIsHandedOn(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		for _, status := range []string{"429", "503"} {
			inBubble(t, w.name+" "+status, func(t *testing.T) {
				fake := start(t, "fake.test")
				pr := fake.Provider(w.name)
				pool := openPipe(t, quick(pr), fake)
				began := time.Now()
				r := collect(t.Context(), pool, at(w.model, pr), ask("fail: "+status+"\nretry-after: 2"))
				r.expect(t, stoa.CodeOverloaded)
				if f := failureOf(t, r.err); f.Err.RetryAfter != 2*time.Second || len(fake.Served()) != 1 || time.Since(began) != 0 {
					t.Errorf("after %v: %d requests, Retry-After %v", time.Since(began), len(fake.Served()), f.Err.RetryAfter)
				}
			})
		}
	}
	one, two := fakeup.Start(t), fakeup.Start(t)
	a, b := named(one.Provider("messages"), "one"), named(two.Provider("messages"), "two")
	collect(t.Context(), open(t, quick(a, b)), at("claude-haiku-4-5", a, b), ask("fail: 429\nretry-after: 2")).expect(t, stoa.CodeOverloaded)
	if len(one.Served()) != 1 || len(two.Served()) != 1 {
		t.Errorf("%d and %d requests", len(one.Served()), len(two.Served()))
	}
}

func TestRetryBeyondTheDeadlineIsNotMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := start(t, "fake.test")
		pr := fake.Provider("messages")
		ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
		defer cancel()
		began := time.Now()
		collect(ctx, openPipe(t, quick(pr), fake), at("claude-haiku-4-5", pr), ask("fail: 429\nretry-after: 1")).expect(t, stoa.CodeOverloaded)
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %v", d)
		}
	})
}

func TestMostUsefulFailureIsReturned(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		first, then int
		want        stoa.Code
	}{
		{"an overload before a broken vendor", 503, 500, stoa.CodeOverloaded},
		{"in either order", 500, 503, stoa.CodeOverloaded},
		{"a broken vendor before rejected credentials", 401, 500, stoa.CodeUpstream},
		{"an overload before rejected credentials", 503, 401, stoa.CodeOverloaded},
		{"a rate limit before rejected credentials", 429, 403, stoa.CodeOverloaded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one, two := &vendor{}, &vendor{}
			one.status.Store(int64(tt.first))
			two.status.Store(int64(tt.then))
			a := stoa.Provider{Name: "one", Wire: "messages", BaseURL: "https://one.example"}
			b := stoa.Provider{Name: "two", Wire: "messages", BaseURL: "https://two.example"}
			cfg := quick(a, b)
			cfg.Transport = byHost{"one.example": one, "two.example": two}
			r := collect(t.Context(), open(t, cfg), at("m", a, b), ask("hi"))
			r.expect(t, tt.want)
			if f := failureOf(t, r.err); f.Ours {
				t.Errorf("the failure is the operator's: %v", f)
			}
		})
	}
}

type byHost map[string]http.RoundTripper

func (h byHost) RoundTrip(r *http.Request) (*http.Response, error) {
	return h[r.URL.Host].RoundTrip(r)
}

func TestTotalTimeoutCoversAllRoutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, two := start(t, "one.test"), start(t, "two.test")
		a, b := named(one.Provider("messages"), "one"), named(two.Provider("messages"), "two")
		a.Timeouts = stoa.Timeouts{Total: 200 * time.Millisecond}
		b.Timeouts = stoa.Timeouts{Total: 100 * time.Millisecond}
		p := openPipe(t, quick(a, b), one, two)
		r := collect(t.Context(), p, at("claude-haiku-4-5", a, b), ask("fault: hang"))
		r.expect(t, stoa.CodeUpstreamTimeout)
		if len(one.Served()) != 1 || len(two.Served()) != 0 {
			t.Errorf("attempts: %d and %d, want 1 and 0", len(one.Served()), len(two.Served()))
		}
		if s := p.Stats().Providers[2]; len(s.Routes) != 0 {
			t.Errorf("the time of the first route counts as a failure of the second: %+v", s.Routes)
		}
	})
}

func TestModelWithoutProviderIsUnavailable(t *testing.T) {
	t.Parallel()
	p := open(t, quick())
	for _, m := range []stoa.Model{{ID: "none"}, at("m", stoa.Provider{Name: "absent", Wire: "messages"})} {
		collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeModelUnavailable)
		if p.Healthy("", m) {
			t.Errorf("%v is healthy", m)
		}
	}
}

func TestInvalidProviderIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, pr := range map[string]stoa.Provider{
		"no URL":  {Name: "p", Wire: "messages", BaseURL: "::secret"},
		"no host": {Name: "p", Wire: "messages", BaseURL: "https://"},
		"no wire": {Name: "p", Wire: "telegraph", BaseURL: "http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			var out testLog
			cfg := quick(pr)
			cfg.Logger = out.logger()
			p := open(t, cfg)
			collect(t.Context(), p, at("m", pr), ask("hi")).expect(t, stoa.CodeModelUnavailable)
			if log := out.String(); !strings.Contains(log, "left out") || strings.Contains(log, "secret") {
				t.Errorf("logged: %q", log)
			}
		})
	}
}

func TestMissingVersionInBaseURLIsHinted(t *testing.T) {
	t.Parallel()
	fake := fakeup.Start(t)
	pr := fake.Provider("responses")
	pr.BaseURL = fake.URL
	r := collect(t.Context(), open(t, quick(pr)), at("gpt-6-luna", pr), ask("hi"))
	r.expect(t, stoa.CodeUpstream)
	if d := failureOf(t, r.err).Detail; !strings.Contains(d, "/v1") {
		t.Errorf("the detail is %q", d)
	}
}

func TestFullProviderFailsOver(t *testing.T) { synctest.Test(t, fullProvider) }

func fullProvider(t *testing.T) {
	one, two := start(t, "one.test"), start(t, "two.test")
	a, b := named(one.Provider("messages"), "one"), named(two.Provider("messages"), "two")
	a.MaxInFlight, b.MaxInFlight = 2, 1
	p := openPipe(t, quick(a, b), one, two)
	m := at("claude-haiku-4-5", a, b)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { collect(ctx, p, m, ask("fault: hang-body after 1")) })
	}
	one.Wait(t, "two calls", func(s []fakeup.Served) bool { return len(s) == 2 && s[0].Deltas == 1 && s[1].Deltas == 1 })
	all.Go(func() { collect(ctx, p, m, ask("fault: hang-body after 1")) })
	two.WaitDeltas(t, 1)

	if p.Healthy("", m) {
		t.Error("a model whose providers are full is healthy")
	}
	began := time.Now()
	r := collect(t.Context(), p, m, ask("hi"))
	r.expect(t, stoa.CodeOverloaded)
	if e := stoa.AsError(r.err); e.RetryAfter != time.Second {
		t.Errorf("retry after %v", e.RetryAfter)
	}
	if d := time.Since(began); d != 0 {
		t.Errorf("the error came after %v", d)
	}
	// A reload keeps the count of running calls.
	a.APIKey = "another"
	p.Update([]stoa.Provider{a, b})
	collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeOverloaded)
	cancel()
	all.Wait()
	if !p.Healthy("", m) || one.Peak() != 2 || two.Peak() != 1 {
		t.Errorf("afterwards: healthy %v, peaks %d and %d", p.Healthy("", m), one.Peak(), two.Peak())
	}
	for _, s := range p.Stats().Providers {
		if s.InFlight != 0 {
			t.Errorf("%s has %d in flight", s.Name, s.InFlight)
		}
	}
}

func TestRetriesStayWithinTheBudget(t *testing.T) { synctest.Test(t, retryBudget) }

func retryBudget(t *testing.T) {
	const calls, share = 60, 12 // a fifth of the calls
	fake := start(t, "fake.test")
	pr := fake.Provider("messages")
	cfg := quick(pr)
	cfg.Backoff = 400 * time.Millisecond
	p := openPipe(t, cfg, fake)
	m := at("claude-haiku-4-5", pr)
	// While these calls run, the budget allows the others, and all fail at the same moment.
	gate := make(chan struct{})
	p.cfg.Transport = gated{p.cfg.Transport, gate}
	var all sync.WaitGroup
	for range calls {
		all.Go(func() { collect(t.Context(), p, m, ask("fail: 503")).expect(t, stoa.CodeOverloaded) })
	}
	synctest.Wait() // all are at the gate: one that failed before the last began would have opened the circuit
	for range calls {
		gate <- struct{}{}
	}
	close(gate)
	all.Wait()
	// Each slot of the budget serves one retry of at least 200 ms; the calls end together, so
	// there is no time for many retries.
	if n := len(fake.Served()); n < calls+3 || n > calls+3*share {
		t.Errorf("%d calls made %d attempts", calls, n)
	}
	if s := p.Stats(); s.Retrying != 0 || s.Active != 0 {
		t.Errorf("left: %+v", s)
	}
}

// gated lets each request through when the gate allows it.
type gated struct {
	http.RoundTripper
	gate chan struct{}
}

func (g gated) RoundTrip(r *http.Request) (*http.Response, error) {
	<-g.gate
	return g.RoundTripper.RoundTrip(r)
}

func TestReloadKeepsUnchangedProviders(t *testing.T) {
	t.Parallel()
	fake := fakeup.Start(t)
	a, b := named(fake.Provider("messages"), "one"), named(fake.Provider("messages"), "two")
	p := open(t, quick(a, b))
	for _, pr := range []stoa.Provider{a, b} {
		collect(t.Context(), p, at("claude-haiku-4-5", pr), ask("hi")).expect(t, "")
	}
	b.APIKey = "wrong"
	p.Update([]stoa.Provider{a, b})
	s := p.Stats()
	if len(s.Providers) != 3 || len(s.Providers[0].Routes) != 1 || len(s.Providers[2].Routes) != 0 {
		t.Errorf("after the reload: %+v", s)
	}
	p.Update([]stoa.Provider{b})
	collect(t.Context(), p, at("claude-haiku-4-5", a), ask("hi")).expect(t, stoa.CodeModelUnavailable)
}

func TestRejectedKeyIsOneAlarmAMinute(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			fake := fakeup.Start(t)
			pr := fake.Provider(w.name)
			pr.APIKey = "zz wrong key 0123456789" // OpenAI's formats repeat it in their error
			var out testLog
			cfg := quick(pr)
			cfg.Logger = out.logger()
			p := open(t, cfg)
			for range 3 {
				r := collect(t.Context(), p, at(w.model, pr), ask("hi"))
				f := failureOf(t, r.err)
				if c := f.Err.Code; !f.Ours || c != stoa.CodeUpstream && c != stoa.CodeModelUnavailable {
					t.Errorf("refused credentials came to %+v", f)
				}
				if strings.Contains(f.Error(), pr.APIKey) {
					t.Errorf("the error contains the key: %v", f)
				}
			}
			log := out.String()
			if n := strings.Count(log, "level=ERROR"); n != 1 {
				t.Errorf("%d alarms in\n%s", n, log)
			}
			for _, want := range []string{"provider=" + w.name, "model=" + w.model, "status=40", "requestId="} {
				if !strings.Contains(log, want) {
					t.Errorf("the log lacks %q:\n%s", want, log)
				}
			}
			if strings.Contains(log, pr.APIKey) {
				t.Errorf("the log contains the key:\n%s", log)
			}
		})
	}
}

func TestToolCallsCountAsText(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			fake := fakeup.Start(t)
			pr := fake.Provider(w.name)
			call := ask(`call: look {"at":"the sky"}`)
			call.Stateful = true
			call.Tools = []stoa.Tool{{Name: "look", Description: "look at something", Parameters: `{"type":"object","properties":{"at":{"type":"string"}}}`}}
			r := collect(t.Context(), open(t, quick(pr)), at(w.model, pr), call)
			r.expect(t, "")
			if len(r.calls) != 1 || r.calls[0].Name != "look" || len(r.finished) != 1 || r.finished[0].Stop != stoa.StopToolCalls {
				t.Fatalf("calls %+v, finished %+v", r.calls, r.finished)
			}
			call.Messages = append(call.Messages,
				stoa.Message{Role: stoa.RoleAssistant, Parts: []stoa.Part{{Kind: stoa.PartCall, Call: &r.calls[0]}}},
				stoa.Message{Role: stoa.RoleUser, Parts: []stoa.Part{{Kind: stoa.PartResult, Result: &stoa.ToolResult{CallID: r.calls[0].ID, Name: "look", Content: "blue"}}}})
			collect(t.Context(), open(t, quick(pr)), at(w.model, pr), call).expect(t, "")
		})
	}
}

func TestBufferedReplyIsRetriedAfterText(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		inBubble(t, w.name, func(t *testing.T) {
			one, two := start(t, "one.test"), start(t, "two.test")
			a, b := named(one.Provider(w.name), "one"), named(two.Provider(w.name), "two")
			p := openPipe(t, quick(a, b), one, two)
			call := ask("flaky: 1\ncut: 3\ntokens: 9")
			call.Buffered = true
			r := collect(t.Context(), p, at(w.model, a, b), call)
			r.expect(t, "")
			if !slices.Equal(r.started, []string{"one", "one"}) || !strings.HasSuffix(r.text, strings.TrimSpace(strings.Repeat("word ", 9))) {
				t.Errorf("started by %q, %q", r.started, r.text)
			}
			call = ask("cut: 3\ntokens: 9\nmark: both")
			call.Buffered = true
			r = collect(t.Context(), p, at(w.model, a, b), call)
			r.expect(t, stoa.CodeUpstream)
			if len(r.started) != 4 || r.started[3] != "two" {
				t.Errorf("started by %q", r.started)
			}
		})
	}
}
