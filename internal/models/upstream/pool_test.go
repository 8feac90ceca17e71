package upstream

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
	"stoa/internal/testkit/fakeup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wires are the vendor formats under test, with the name of a model of each.
var wires = []struct{ name, model string }{
	{"messages", "claude-haiku-4-5"},
	{"gemini", "gemini-3.8-flash"},
	{"responses", "gpt-6-luna"},
	{"chat", "gpt-6-luna"},
	{"deepseek", "deepseek-v4-flash"},
}

// quick returns a pool's configuration for tests, with a backoff of a millisecond.
func quick(providers ...stoa.Provider) Config {
	return Config{
		Providers:      providers,
		Backoff:        time.Millisecond,
		DefaultTimeout: stoa.Timeouts{FirstByte: 5 * time.Second, Idle: 5 * time.Second, Total: 20 * time.Second},
	}
}

// CloseIdle closes connections that no call is using.
func (p *Pool) CloseIdle() {
	if t, ok := p.cfg.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

func open(t testing.TB, cfg Config) *Pool {
	t.Helper()
	p := New(cfg)
	t.Cleanup(p.CloseIdle)
	return p
}

// inBubble runs a subtest in a synctest bubble, where timeouts take no time and are
// exact. Fakes in it must be started with start, their pools opened with openPipe.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// start starts a fake vendor that listens in memory under a host name.
func start(t testing.TB, host string) *fakeup.Server {
	return fakeup.Start(t, fakeup.Options{Pipe: host})
}

// openPipe opens a pool that reaches the fakes in memory.
func openPipe(t testing.TB, cfg Config, fakes ...*fakeup.Server) *Pool {
	t.Helper()
	cfg.Transport = fakeup.Transport(newTransport(), fakes...)
	return open(t, cfg)
}

// at returns a model served by the given providers in turn.
func at(model string, providers ...stoa.Provider) stoa.Model {
	m := stoa.Model{ID: "alpha-test", Family: "alpha"}
	for _, p := range providers {
		m.Routes = append(m.Routes, stoa.Route{Provider: p.Name, Model: model, Wire: p.Wire, Dialect: p.Dialect})
	}
	return m
}

func ask(prompt string) stoa.Call {
	return stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, prompt)}, MaxOutputTokens: 1000}
}

// A reply is what a stream yielded.
type reply struct {
	started  []string
	text     string
	deltas   int
	calls    []stoa.ToolCall
	finished []stoa.Event
	err      error
	after    bool // an event followed the error
}

func collect(ctx context.Context, p *Pool, m stoa.Model, call stoa.Call) (r reply) {
	for ev, err := range p.Stream(ctx, m, call) {
		if r.err != nil {
			r.after = true
		}
		if err != nil {
			r.err = err
			continue
		}
		switch ev.Kind {
		case stoa.Started:
			r.started = append(r.started, ev.Provider)
		case stoa.Delta:
			r.text += ev.Text
			r.deltas++
		case stoa.Called:
			r.calls = append(r.calls, ev.Call)
		case stoa.Finished:
			r.finished = append(r.finished, *ev)
		}
	}
	return r
}

// expect checks the code of a stream's error; empty means that the stream finished.
func (r reply) expect(t *testing.T, code stoa.Code) {
	t.Helper()
	if got := stoa.CodeOf(r.err); got != code {
		t.Errorf("the stream ended with code %q (%v), want %q", got, r.err, code)
	}
	if code == "" && len(r.finished) != 1 {
		t.Errorf("the stream finished %d times, want once", len(r.finished))
	}
	if code != "" && len(r.finished) != 0 {
		t.Errorf("the stream finished and failed")
	}
	if r.after {
		t.Error("something came after the error")
	}
}

func failureOf(t *testing.T, err error) *wire.Failure {
	t.Helper()
	f, ok := errors.AsType[*wire.Failure](err)
	if !ok {
		t.Fatalf("the error is no Failure: %v", err)
	}
	return f
}

// A testLog is a log that a test can read.
type testLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *testLog) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestEveryWireServesAPlainCall(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			fake := fakeup.Start(t)
			pr := fake.Provider(w.name)
			p := open(t, quick(pr))
			m := at(w.model, pr)
			if !p.Healthy("", m) {
				t.Error("a fresh route is not healthy")
			}
			r := collect(t.Context(), p, m, ask("think: 100\ncached: 3\nsay: good morning to everybody"))
			r.expect(t, "")
			if r.text != "good morning to everybody" || r.deltas != 4 {
				t.Errorf("got %q in %d deltas", r.text, r.deltas)
			}
			if len(r.started) != 1 || r.started[0] != w.name {
				t.Errorf("started by %q", r.started)
			}
			s := fake.WaitEnded(t, 1)[0]
			if len(r.finished) == 1 {
				u := r.finished[0].Usage
				want := stoa.Usage{InputTokens: s.Usage.Input, CachedTokens: s.Usage.Cached, OutputTokens: s.Usage.Output, ReasoningTokens: s.Usage.Reasoning}
				if u != want || !r.finished[0].HasUsage || r.finished[0].Stop != stoa.StopEnd {
					t.Errorf("finished with %+v, want usage %+v", r.finished[0], want)
				}
			}
			if got := s.Header.Get("User-Agent"); got != "stoa/dev" {
				t.Errorf("User-Agent is %q", got)
			}
			if got := s.Header.Get("Accept-Encoding"); got != "identity" {
				t.Errorf("Accept-Encoding is %q", got)
			}
			if !s.Completed {
				t.Error("the vendor did not get to its end")
			}
		})
	}
}

func TestAConnectionServesManyCalls(t *testing.T) {
	t.Parallel()
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) {
			fake := fakeup.Start(t)
			pr := fake.Provider(w.name)
			var dials int
			tr := newTransport()
			dial := tr.DialContext
			tr.DialContext = countDials(dial, &dials)
			cfg := quick(pr)
			cfg.Transport = tr
			p := open(t, cfg)
			for range 10 {
				collect(t.Context(), p, at(w.model, pr), ask("tokens: 5")).expect(t, "")
			}
			if dials != 1 {
				t.Errorf("ten calls in a row took %d connections", dials)
			}
		})
	}
}

func TestHTTP2OverTLSServes(t *testing.T) {
	t.Parallel()
	fake := fakeup.Start(t, fakeup.Options{TLS: true})
	pr := fake.Provider("messages")
	tr := newTransport()
	tr.TLSClientConfig = fake.TLSConfig()
	cfg := quick(pr)
	cfg.Transport = tr
	p := open(t, cfg)
	m := at("claude-haiku-4-5", pr)
	collect(t.Context(), p, m, ask("tokens: 50")).expect(t, "")
	collect(t.Context(), p, m, ask("fault: reset after 2\ntokens: 50")).expect(t, stoa.CodeUpstream)
	stopRanging(t, p, m, fake)

	strict := open(t, quick(pr))
	r := collect(t.Context(), strict, m, ask("hello"))
	r.expect(t, stoa.CodeUpstream)
	if d := failureOf(t, r.err).Detail; !strings.Contains(d, "certificate") {
		t.Errorf("an unknown certificate was met with %q", d)
	}
}

// stopRanging stops ranging in the middle of a reply, checks that the vendor observes the
// disconnect, and returns the time until then.
func stopRanging(t *testing.T, p *Pool, m stoa.Model, fake *fakeup.Server) time.Duration {
	t.Helper()
	before := len(fake.Served())
	var left time.Time
	for ev, err := range p.Stream(t.Context(), m, ask("fault: hang-body after 3\ntokens: 20")) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == stoa.Delta {
			left = time.Now()
			break
		}
	}
	s := fake.WaitEnded(t, before+1)[before]
	if s.DisconnectedAt.IsZero() {
		t.Error("the vendor saw no disconnect")
	}
	if st := p.Stats(); st.Active != 0 || st.Providers[0].InFlight != 0 {
		t.Errorf("after the disconnect something is left: %+v", st)
	}
	return s.DisconnectedAt.Sub(left)
}

// countDials counts new connections.
func countDials(dial dialFunc, n *int) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		*n++
		return dial(ctx, network, addr)
	}
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)
