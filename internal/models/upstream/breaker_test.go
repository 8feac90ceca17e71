package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"stoa/internal/base/stoa"
)

// A vendor is a transport that answers every request with a status, or a short reply.
type vendor struct {
	status   atomic.Int64 // 0 means a reply; -1 means no connection
	requests atomic.Int64
	header   http.Header
}

const wellAnswered = `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","usage":{"input_tokens":1,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"well"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}

event: message_stop
data: {"type":"message_stop"}

`

func (v *vendor) RoundTrip(r *http.Request) (*http.Response, error) {
	v.requests.Add(1)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	status, text := int(v.status.Load()), `{"type":"error","error":{"type":"api_error","message":"no"}}`
	h := http.Header{"Content-Type": {"application/json"}}
	if status == 0 {
		status, text = 200, wellAnswered
		h.Set("Content-Type", "text/event-stream")
	} else if status == -1 {
		return nil, errors.New("connection refused")
	}
	for k, s := range v.header {
		h[k] = s
	}
	body, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, strings.NewReader(text))
		in.CloseWithError(err)
	}()
	return &http.Response{StatusCode: status, Header: h, Body: body, Request: r}, nil
}

func inMemory(v *vendor) (*Pool, stoa.Model) {
	pr := stoa.Provider{Name: "v", Wire: "messages", BaseURL: "https://vendor.example"}
	return New(Config{Providers: []stoa.Provider{pr}, Transport: v, Retries: -1}), at("claude-haiku-4-5", pr)
}

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		p, m := inMemory(v)
		state := func() string { return p.Stats().Providers[1].Routes[0].Breaker }
		v.status.Store(500)
		for range breakerFailures {
			if !p.Healthy("", m) {
				t.Fatal("the breaker opened too early")
			}
			collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeUpstream)
		}
		if p.Healthy("", m) || state() != "open" {
			t.Fatalf("after %d failures the breaker is %s", breakerFailures, state())
		}
		asked := v.requests.Load()
		r := collect(t.Context(), p, m, ask("hi"))
		r.expect(t, stoa.CodeOverloaded)
		if v.requests.Load() != asked || stoa.AsError(r.err).RetryAfter != time.Second {
			t.Errorf("an open circuit let a call pass, or Retry-After is %v", stoa.AsError(r.err).RetryAfter)
		}
		// Each failed probe doubles the cool-down, up to thirty seconds.
		for _, coolDown := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			<-time.After(coolDown*time.Second - time.Millisecond)
			if p.Healthy("", m) {
				t.Fatalf("the cool-down was shorter than %ds", coolDown)
			}
			<-time.After(time.Millisecond)
			if !p.Healthy("", m) || state() != "half-open" {
				t.Fatalf("after a cool-down of %ds the breaker is %s", coolDown, state())
			}
			asked = v.requests.Load()
			collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeUpstream)
			collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeOverloaded)
			if n := v.requests.Load() - asked; n != 1 {
				t.Fatalf("%d probes", n)
			}
		}
		v.status.Store(0)
		<-time.After(30 * time.Second)
		collect(t.Context(), p, m, ask("hi")).expect(t, "")
		if !p.Healthy("", m) || state() != "closed" {
			t.Errorf("after a good probe the breaker is %s", state())
		}
	})
}

func TestHalfOpenBreakerPermitsOneCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		p, m := inMemory(v)
		v.status.Store(-1)
		for range breakerFailures {
			collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeUpstream)
		}
		<-time.After(time.Second)
		v.status.Store(0)
		asked := v.requests.Load()
		for ev, err := range p.Stream(t.Context(), m, ask("hi")) {
			if err != nil {
				t.Fatal(err)
			}
			switch ev.Kind {
			case stoa.Started: // the probe is in progress
				collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeOverloaded)
				if p.Healthy("", m) {
					t.Error("a route with a probe under way is healthy")
				}
			case stoa.Delta: // it has answered
				collect(t.Context(), p, m, ask("hi")).expect(t, "")
			}
		}
		if n := v.requests.Load() - asked; n != 2 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestProbeIsNotRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		p, m := inMemory(v)
		p.cfg.Retries = 2
		v.status.Store(500)
		for range breakerFailures {
			collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeUpstream)
		}
		if n := v.requests.Load(); n != 3*breakerFailures {
			t.Errorf("%d requests", n)
		}
		<-time.After(time.Second)
		v.requests.Store(0)
		collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeUpstream)
		if n := v.requests.Load(); n != 1 {
			t.Errorf("the probe made %d requests", n)
		}
	})
}

func TestAbandonedProbeLetsTheNextProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		p, m := inMemory(v)
		v.status.Store(500)
		for range breakerFailures {
			collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeUpstream)
		}
		v.status.Store(0)
		<-time.After(time.Second)
		for range p.Stream(t.Context(), m, ask("hi")) {
			break // the caller disconnects before any text
		}
		if !p.Healthy("", m) {
			t.Fatal("no probe is permitted any more")
		}
		collect(t.Context(), p, m, ask("hi")).expect(t, "")
	})
}

// An endlessError answers with a status immediately and never ends its body.
type endlessError int

func (s endlessError) RoundTrip(r *http.Request) (*http.Response, error) {
	body, in := io.Pipe()
	context.AfterFunc(r.Context(), func() { in.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: int(s), Header: http.Header{}, Body: body, Request: r}, nil
}

func TestErrorWithoutBodyIsReadByItsStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, m := inMemory(nil)
		p.cfg.Transport = endlessError(529)
		began := time.Now()
		r := collect(t.Context(), p, m, ask("hi"))
		r.expect(t, stoa.CodeOverloaded)
		if d := time.Since(began); d != errorTimeout {
			t.Errorf("it took %v", d)
		}
		if f := failureOf(t, r.err); f.Status != 529 {
			t.Errorf("status %d", f.Status)
		}
	})
}

func TestRetryAfterLengthensTheCoolDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{header: http.Header{"Retry-After": {"12"}}}
		p, m := inMemory(v)
		v.status.Store(429)
		for range breakerFailures {
			collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeOverloaded)
		}
		r := collect(t.Context(), p, m, ask("hi"))
		if e := stoa.AsError(r.err); e.RetryAfter != 12*time.Second {
			t.Errorf("the cool-down is %v", e.RetryAfter)
		}
	})
}

func TestFewOrOldFailuresKeepTheCircuitClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		p, m := inMemory(v)
		for range 100 { // a third of them fails
			v.status.Store(0)
			collect(t.Context(), p, m, ask("hi")).expect(t, "")
			collect(t.Context(), p, m, ask("hi")).expect(t, "")
			v.status.Store(500)
			collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeUpstream)
		}
		<-time.After(time.Minute)
		for range 30 { // never ten within twenty seconds
			collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeUpstream)
			<-time.After(2500 * time.Millisecond)
		}
	})
}

func TestCallersFaultsKeepTheCircuitClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		p, m := inMemory(v)
		v.status.Store(413)
		for range 3 * breakerFailures {
			collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeContextLength)
		}
		if !p.Healthy("", m) {
			t.Error("it opened")
		}
	})
}

func TestRejectedRequestsKeepTheCircuitClosed(t *testing.T) {
	t.Parallel()
	for _, status := range []int64{400, 422} {
		inBubble(t, fmt.Sprint(status), func(t *testing.T) {
			v := &vendor{}
			p, m := inMemory(v)
			v.status.Store(status) // with words that are in no list
			for range 3 * breakerFailures {
				collect(t.Context(), p, m, ask("hi")).expect(t, stoa.CodeInvalidValue)
			}
			if !p.Healthy("", m) {
				t.Error("it opened")
			}
		})
	}
}

// by returns a call of an account.
func by(account string) stoa.Call {
	c := ask("hi")
	c.Account = account
	return c
}

func TestOneAccountOpensTheCircuitForItselfOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		p, m := inMemory(v)
		v.status.Store(500)
		for range breakerFailures {
			collect(t.Context(), p, m, by("a")).expect(t, stoa.CodeUpstream)
		}
		if p.Healthy("a", m) || !p.Healthy("b", m) {
			t.Fatalf("healthy for a: %v, for b: %v", p.Healthy("a", m), p.Healthy("b", m))
		}
		asked := v.requests.Load()
		collect(t.Context(), p, m, by("a")).expect(t, stoa.CodeOverloaded)
		if v.requests.Load() != asked {
			t.Error("an open circuit let the account's call pass")
		}
		v.status.Store(0)
		collect(t.Context(), p, m, by("b")).expect(t, "")
		// The account's own probe fails and doubles its cool-down; b is not affected.
		<-time.After(time.Second)
		v.status.Store(500)
		collect(t.Context(), p, m, by("a")).expect(t, stoa.CodeUpstream)
		<-time.After(2*time.Second - time.Millisecond)
		if p.Healthy("a", m) || !p.Healthy("b", m) {
			t.Errorf("after a failed probe: healthy for a: %v, for b: %v", p.Healthy("a", m), p.Healthy("b", m))
		}
		<-time.After(time.Millisecond)
		v.status.Store(0)
		collect(t.Context(), p, m, by("a")).expect(t, "")
		if s := p.Stats().Providers[1].Routes[0].Breaker; !p.Healthy("a", m) || s != "closed" {
			t.Errorf("after a good probe: %s", s)
		}
		// Its earlier failures are discarded.
		v.status.Store(500)
		for range breakerFailures - 1 {
			collect(t.Context(), p, m, by("a")).expect(t, stoa.CodeUpstream)
		}
		if !p.Healthy("a", m) {
			t.Error("it opened again too early")
		}
	})
}

func TestSeveralAccountsOpenTheCircuitForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		p, m := inMemory(v)
		v.status.Store(500)
		for i := range breakerFailures {
			collect(t.Context(), p, m, by([]string{"a", "b", "c", "d"}[i%4])).expect(t, stoa.CodeUpstream)
		}
		for _, account := range []string{"a", "e", ""} {
			if p.Healthy(account, m) {
				t.Errorf("healthy for %q", account)
			}
		}
		<-time.After(time.Second)
		v.status.Store(0)
		collect(t.Context(), p, m, by("e")).expect(t, "")
		if !p.Healthy("a", m) {
			t.Error("a good probe of another account did not close it")
		}
	})
}

// TestColludersNeverRefuseOthers lets several accounts fail on purpose, alone or in large
// numbers, while other accounts are served.
func TestColludersNeverRefuseOthers(t *testing.T) {
	t.Parallel()
	for _, colluders := range []int{2, 4, 50, 3 * breakerAccounts} {
		inBubble(t, fmt.Sprint(colluders), func(t *testing.T) {
			v := &vendor{}
			p, m := inMemory(v)
			collect(t.Context(), p, m, by("rare")).expect(t, "")
			refused := 0
			for i := range 3 * max(colluders, 100) {
				v.status.Store(500)
				if r := collect(t.Context(), p, m, by(fmt.Sprint("bad", i%colluders))); stoa.CodeOf(r.err) == stoa.CodeOverloaded {
					refused++
				}
				v.status.Store(0)
				if i%20 == 0 {
					collect(t.Context(), p, m, by("often")).expect(t, "")
				}
				<-time.After(20 * time.Millisecond)
			}
			if colluders <= 50 && refused == 0 {
				t.Error("no circuit opened")
			}
			if colluders <= 50 {
				collect(t.Context(), p, m, by("rare")).expect(t, "")
			}
			// A new account waits for one cool-down at most, and its call closes the circuit
			// for all.
			<-time.After(minCoolDown)
			collect(t.Context(), p, m, by("new")).expect(t, "")
			if !p.Healthy("newer", m) {
				t.Error("the circuit is open after an account was served")
			}
		})
	}
}

func TestDeadProviderIsLearntOncePerAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{}
		p, m := inMemory(v)
		const accounts = 20
		for i := range accounts {
			collect(t.Context(), p, m, by(fmt.Sprint(i))).expect(t, "")
		}
		<-time.After(2 * breakerSlots * breakerSlot)
		v.status.Store(500)
		v.requests.Store(0)
		for range 10 {
			for i := range accounts {
				collect(t.Context(), p, m, by(fmt.Sprint(i)))
			}
			<-time.After(minCoolDown / 20)
		}
		if n := v.requests.Load(); n != accounts {
			t.Errorf("%d accounts sent %d requests to a dead provider in half a second", accounts, n)
		}
		// Within a minute each probes after 1, 2, 4, 8, 16 and 30 s.
		for range 60 {
			for i := range accounts {
				collect(t.Context(), p, m, by(fmt.Sprint(i)))
			}
			<-time.After(time.Second)
		}
		if n := v.requests.Load(); n > 7*accounts {
			t.Errorf("%d requests in a minute", n)
		}
		v.status.Store(0)
		<-time.After(maxCoolDown)
		collect(t.Context(), p, m, by("0")).expect(t, "")
		for i := range accounts {
			if !p.Healthy(fmt.Sprint(i), m) {
				t.Errorf("one good probe did not close the circuit for account %d", i)
			}
		}
	})
}

// A noDescriptors transport fails like a dial without a free file descriptor.
type noDescriptors struct{}

func (noDescriptors) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
}

func TestLackOfDescriptorsIsOurOverload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, m := inMemory(nil)
		p.cfg.Transport = noDescriptors{}
		for range 3 * breakerFailures {
			r := collect(t.Context(), p, m, ask("hi"))
			r.expect(t, stoa.CodeOverloaded)
			if e := stoa.AsError(r.err); e.RetryAfter != time.Second {
				t.Fatalf("Retry-After is %v", e.RetryAfter)
			}
		}
		if !p.Healthy("", m) {
			t.Error("the circuit opened")
		}
	})
}
