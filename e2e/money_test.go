package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"stoa/internal/testkit/fakeup"
	"stoa/internal/testkit/storetest"
)

// wires is a model of each wire, none of them gated for plan pro.
var wires = map[string]string{
	"messages": "alpha-haiku-4-5", "gemini": "beta-3.8-flash", "responses": "gamma-6-luna", "chat": "delta-v4-pro",
}

// only returns the one receipt with that mark.
func only(t testing.TB, all []receipt, mark string) receipt {
	t.Helper()
	var found []receipt
	for _, r := range all {
		if r.mark() == mark {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d receipts: %+v", mark, len(found), found)
	}
	return found[0]
}

// TestNobodyOverspends makes two hundred concurrent calls for an account with credits
// for five.
func TestNobodyOverspends(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		v := newVendor(t, nil)
		h := newServer(t, v.url, "")
		h.postgres = database.Config.PostgresURL
		h.start()
		ask := func(a *account, mark string) seen {
			return h.ask(context.Background(), a.key, "", object{
				"model": "alpha-haiku-4-5", "user": mark, "stream": false,
				"max_output_tokens": 300, "input": "mark: " + mark + "\nwait: 20ms\ntokens: 300",
			}, nil)
		}
		rich := h.newAccount(t, "pro", 1_000_000_000)
		sample := ask(rich, "sample0")
		if !sample.done() || sample.charge <= 0 {
			t.Fatalf("the sample: %+v", sample)
		}
		// A call holds a little more than it costs: its input is overestimated.
		poor := h.newAccount(t, "pro", sample.charge*5+sample.charge/5)
		const crowd = 200
		results := make([]seen, crowd)
		var all sync.WaitGroup
		for i := range crowd {
			all.Go(func() { results[i] = ask(poor, fmt.Sprintf("crowd%d", i)) })
		}
		all.Wait()
		var served, refused int
		var told int64
		for _, s := range results {
			switch {
			case s.done():
				served++
				told += s.charge
			case s.status == 429 && s.code == "insufficient_quota" && s.noRetry:
				refused++
			default:
				t.Errorf("neither served nor refused for want of credits: %+v", s)
			}
		}
		t.Logf("%d served, %d refused, %d of %d micro-credits spent", served, refused, told, poor.granted)
		if served < 5 || served+refused != crowd {
			t.Errorf("%d were served and %d refused of %d, with credits for 5", served, refused, crowd)
		}
		if told > poor.granted {
			t.Errorf("%d was charged of %d", told, poor.granted)
		}
		list := h.checkConservation(t, poor)
		if len(list) != served {
			t.Errorf("%d were served, %d charged", served, len(list))
		}
		// A top-up clears it.
		if s := ask(poor, "still-poor"); s.code != "insufficient_quota" {
			t.Errorf("before the top-up: %+v", s)
		}
		if err := h.grant(context.Background(), poor, sample.charge*3, "top-up"); err != nil {
			t.Fatal(err)
		}
		poor.granted += sample.charge * 3
		if s := ask(poor, "richer"); s.end != "completed" {
			t.Errorf("after the top-up: %+v", s)
		}
		h.checkConservation(t, poor)
		h.stop(t)
		h.verify(t)
	})
}

// TestLowBalanceShortensTheReply checks that a reply ends where the credits end.
func TestLowBalanceShortensTheReply(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		v := newVendor(t, nil)
		// The shipped price depends on the hour.
		h := newServer(t, v.url, "models: {delta-v4-pro: {price: {input: 660000, cachedInput: 22000, output: 1980000}}}\n")
		h.postgres = database.Config.PostgresURL
		h.start()
		prices := h.newAudit(t, nil, nil).prices
		for wire, model := range wires {
			// The prompt is so long that the fake, which counts all of a request's bytes,
			// reports less than the estimate.
			input := "mark: short-" + wire + "\ntokens: 5000\n" + strings.Repeat("and on ", 300)
			p := prices[model]
			a := h.newAccount(t, "pro", (int64(len(input)/3+5)*p[0]+600*p[2])/1_000_000)
			mark := "short-" + wire
			s := h.ask(context.Background(), a.key, "", object{"model": model, "user": mark, "stream": true, "input": input}, nil)
			if s.end != "incomplete" || s.usage.Output < 256 || s.usage.Output > 600 {
				t.Errorf("%s: %s after %d tokens", wire, s.end, s.usage.Output)
			}
			r := only(t, h.checkConservation(t, a), mark)
			if r.Status != "incomplete" || r.Clamped || r.Estimated {
				t.Errorf("%s: %+v", wire, r)
			}
		}
	})
}

// TestDisconnectIsCancelledAndCharged disconnects on every wire, streamed and whole;
// before the provider has answered the input is charged.
func TestDisconnectIsCancelledAndCharged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		v := newVendor(t, nil)
		h := newServer(t, v.url, "")
		h.postgres = database.Config.PostgresURL
		h.start()
		a := h.newAccount(t, "pro", 1_000_000_000)
		for wire, model := range wires {
			for _, stream := range []bool{true, false} {
				mark := fmt.Sprintf("left-%s-%v", wire, stream)
				ctx, leave := context.WithCancel(context.Background())
				done := make(chan seen, 1)
				go func() {
					done <- h.ask(ctx, a.key, "", object{"model": model, "user": mark, "stream": stream, "input": "mark: " + mark + "\nslow: 10ms\ntokens: 5000"}, nil)
				}()
				v.Wait(t, "five deltas of "+mark, func(all []fakeup.Served) bool {
					s := of(all, mark)
					return s != nil && s.Deltas >= 5
				})
				leave()
				<-done
				ended := v.Wait(t, "the vendor to be left", func(all []fakeup.Served) bool { return !of(all, mark).EndedAt.IsZero() })
				s := of(ended, mark)
				if s.DisconnectedAt.IsZero() || s.Deltas > 2500 {
					t.Errorf("%s: the provider was cancelled after %d of 5000 deltas, at %v", mark, s.Deltas, s.DisconnectedAt)
				}
				r := only(t, h.checkConservation(t, a), mark)
				if r.Status != "cancelled" || !r.Estimated || r.CreditsMicro == 0 || r.CreditsMicro != r.cost() {
					t.Errorf("%s: %+v", mark, r)
				}
				if r.Usage.OutputTokens < 1 || r.Usage.OutputTokens > int64(3*s.Deltas) {
					t.Errorf("%s: charged for %d tokens of output, the vendor made %d", mark, r.Usage.OutputTokens, s.Deltas)
				}
			}
		}

		ctx, leave := context.WithCancel(context.Background())
		done := make(chan seen, 1)
		go func() {
			done <- h.ask(ctx, a.key, "", object{"model": "alpha-haiku-4-5", "user": "early", "stream": true, "input": "mark: early\nfault: hang"}, nil)
		}()
		v.Wait(t, "the call to reach the vendor", func(all []fakeup.Served) bool { return of(all, "early") != nil })
		leave()
		<-done
		v.Wait(t, "the vendor to be left", func(all []fakeup.Served) bool { return !of(all, "early").EndedAt.IsZero() })
		early := only(t, h.checkConservation(t, a), "early")
		if early.Status != "cancelled" || !early.Estimated || early.Usage.InputTokens == 0 || early.Usage.OutputTokens != 0 || early.CreditsMicro != early.cost() {
			t.Errorf("a call that was left before the headers: %+v", early)
		}

		// With a key a disconnect cancels nothing: the call is finished, charged once, and a
		// repeated request receives its reply.
		keyed := object{"model": "alpha-haiku-4-5", "user": "keyed", "stream": true, "input": "mark: keyed\nslow: 2ms\ntokens: 60"}
		ctx, leave = context.WithCancel(context.Background())
		h.ask(ctx, a.key, "a-key", keyed, func(n int) {
			if n == 3 {
				leave()
			}
		})
		leave()
		v.Wait(t, "the vendor to finish", func(all []fakeup.Served) bool { return of(all, "keyed").Completed })
		limit, cancel := context.WithTimeout(t.Context(), safetyNet)
		defer cancel()
		for again := 0; limit.Err() == nil; again++ {
			s := h.ask(context.Background(), a.key, "a-key", keyed, nil)
			if s.code == "idempotency_in_progress" {
				continue
			}
			r := only(t, h.checkConservation(t, a), "keyed")
			if !s.done() || !s.replayed || s.id != r.ID || strings.Count(s.text, "word") != 60 || r.Status != "completed" {
				t.Errorf("after %d attempts: %+v; %+v", again, s, r)
			}
			return
		}
		t.Error("the keyed call never ended")
	})
}

// of returns the provider's record of the call with the given mark.
func of(all []fakeup.Served, mark string) *fakeup.Served {
	for i := range all {
		if markOf(all[i].Prompt) == mark {
			return &all[i]
		}
	}
	return nil
}

// TestImpossibleUsageIsEstimated reports impossible usage, on every wire.
func TestImpossibleUsageIsEstimated(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		v := newVendor(t, nil)
		h := newServer(t, v.url, "")
		h.postgres = database.Config.PostgresURL
		h.start()
		a := h.newAccount(t, "pro", 1_000_000_000)
		for wire, model := range wires {
			for _, told := range []string{"none", "huge", "negative"} {
				for _, stream := range []bool{true, false} {
					mark := fmt.Sprintf("%s-%s-%v", told, wire, stream)
					s := h.ask(context.Background(), a.key, "", object{
						"model": model, "user": mark, "stream": stream,
						"input": "mark: " + mark + "\nusage: " + told + "\ntokens: 30",
					}, nil)
					if s.end != "completed" {
						t.Errorf("%s: %+v", mark, s)
						continue
					}
					r := only(t, h.checkConservation(t, a), mark)
					if !r.Estimated || r.CreditsMicro != r.cost() || r.CreditsMicro == 0 {
						t.Errorf("%s: %+v", mark, r)
					}
					if r.Usage.InputTokens != s.usage.Input || r.Usage.OutputTokens != s.usage.Output || s.usage.Total != s.usage.Input+s.usage.Output {
						t.Errorf("%s: told %+v, charged %+v", mark, s.usage, r.Usage)
					}
					if s.usage.Output < 10 || s.usage.Output > 60 || s.usage.Input < 5 || s.usage.Input > 100 {
						t.Errorf("%s: 30 words were counted as %+v", mark, s.usage)
					}
				}
			}
		}
	})
}

// TestCallKeepsThePricesItBeganWith changes prices while a call runs.
func TestCallKeepsThePricesItBeganWith(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		const priced = "models:\n  beta-3.8-flash: {price: {input: %[1]d, cachedInput: %[1]d, output: %[1]d}}\n"
		v := newVendor(t, nil)
		h := newServer(t, v.url, fmt.Sprintf(priced, 1_000_000))
		h.postgres = database.Config.PostgresURL
		p := h.start()
		a := h.newAccount(t, "pro", 1_000_000_000)
		const inFlight = 8
		done := make(chan seen, inFlight)
		begun := make(chan struct{}, inFlight)
		for i := range inFlight {
			mark := fmt.Sprintf("before%d", i)
			go func() {
				done <- h.ask(context.Background(), a.key, "", object{"model": "beta-3.8-flash", "user": mark, "stream": true, "input": "mark: " + mark + "\nslow: 5ms\ntokens: 100"},
					func(n int) {
						if n == 1 {
							begun <- struct{}{}
						}
					})
			}()
		}
		for range inFlight {
			<-begun
		}
		h.configure(v.url, fmt.Sprintf(priced, 3_000_000))
		taken := p.logs("configuration reloaded")
		p.signal(t, syscall.SIGHUP)
		wait(t, "the new configuration", taken)
		after := h.ask(context.Background(), a.key, "", object{"model": "beta-3.8-flash", "user": "after", "stream": false, "input": "mark: after\ntokens: 20"}, nil)
		if after.end != "completed" {
			t.Fatalf("after the change: %+v", after)
		}
		for range inFlight {
			if s := <-done; s.end != "completed" {
				t.Errorf("a call in flight: %+v", s)
			}
		}
		versions := map[string]int64{}
		for _, r := range h.checkConservation(t, a) {
			want := int64(1_000_000)
			if r.mark() == "after" {
				want = 3_000_000
			}
			if r.Price.InputMicroPerMillion != want || r.Price.OutputMicroPerMillion != want || r.CreditsMicro != r.cost() {
				t.Errorf("%s: %+v", r.mark(), r)
			}
			if was, ok := versions[r.Price.Version]; ok && was != want {
				t.Errorf("two prices have the version %q", r.Price.Version)
			}
			versions[r.Price.Version] = want
		}

		// A configuration with a mistake changes nothing.
		h.configure(v.url, "models: {beta-3.8-flash: {price: {input: lots}}}\n")
		refused := p.logs("the configuration could not be reloaded")
		p.signal(t, syscall.SIGHUP)
		wait(t, "the refusal of the new configuration", refused)
		if s := h.ask(context.Background(), a.key, "", object{"model": "beta-3.8-flash", "user": "still", "stream": false, "input": "mark: still\ntokens: 20"}, nil); s.charge != after.charge {
			t.Errorf("after a mistake: %+v", s)
		}
	})
}

// TestGatedAndAliasedModelsAreChargedOnce checks that the charge is at the price of
// the model that served, and never above that of the requested one.
func TestGatedAndAliasedModelsAreChargedOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		v := newVendor(t, nil)
		h := newServer(t, v.url, "")
		h.postgres = database.Config.PostgresURL
		h.start()
		free, pro := h.newAccount(t, "free", 1_000_000_000), h.newAccount(t, "pro", 1_000_000_000)
		for i, c := range []struct {
			a                     *account
			asked, served, reason string
		}{
			{pro, "alpha-opus-5-5", "alpha-opus-5-5", ""},
			{pro, "alpha-opus-5", "alpha-opus-5-5", "alias"},
			{pro, "alpha-sonnet-5", "alpha-sonnet-5-5", "alias"},
			{free, "alpha-opus-5-5", "", "plan"},
			{free, "delta-v4-flash", "", "plan"},
			{free, "auto", "", "auto"},
		} {
			mark := fmt.Sprintf("gate%d", i)
			s := h.ask(context.Background(), c.a.key, "", object{"model": c.asked, "user": mark, "stream": false, "input": "mark: " + mark + "\ntokens: 20"}, nil)
			r := only(t, h.checkConservation(t, c.a), mark)
			if r.Model.Requested != c.asked || c.served != "" && s.model != c.served || r.Model.Served != s.model || r.CreditsMicro > r.cost() || s.charge != r.CreditsMicro {
				t.Errorf("%s of %s: %+v, %+v", c.asked, c.a.plan, s, r)
			}
			if got := r.Model.FallbackReason; (got == nil) != (c.reason == "") || got != nil && *got != c.reason {
				t.Errorf("%s of %s: the reason is %v, want %q", c.asked, c.a.plan, got, c.reason)
			}
			if c.a == free && strings.Contains(s.model, "opus") {
				t.Errorf("a gated model served plan free: %+v", s)
			}
		}
	})
}
