// Package rest is the HTTP frame of the API: it creates handlers from functions with
// typed requests and replies.
//
// It authenticates, checks parameters and bodies against the contract, stores replies
// under Idempotency-Keys, renders errors in one place, writes the log line, and limits
// bodies and request rates. It contains no resources. route.go has the types of
// requests, replies and routes, exchange.go the steps of every request, operation.go
// and params.go the checks against the contract, page.go the cursors of lists. Start at
// [Base.Handler].
package rest

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/base/auth"
	"stoa/internal/base/config"
	"stoa/internal/base/ratelimit"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/telemetry"
)

// A Base contains the parts that every request passes through. Its fields must not change after
// [Base.Handler] is called, because requests read them without a lock. Fields without a comment are required.
type Base struct {
	Keys  *auth.Keys
	Store *store.Store

	MaxBody    int64             // maximum body in bytes; 0 means 16 MiB
	Limits     config.Limits     // zero members mean the defaults
	Extensions config.Extensions // additions to version 1 of the API
	Proxies    stoa.Proxies      // proxies that may name their clients

	// ChatNoCredits is the status of chat completions that credits or a budget do not cover; 0 means 429.
	ChatNoCredits int

	// PublicURL is the scheme and host for links; if empty, links are paths. With https the console's cookie
	// is sent over TLS only, and pages of this origin are not foreign.
	PublicURL string
	// Hosts reports whether a request may name this host; nil accepts all.
	Hosts  func(host string) bool
	Logger *slog.Logger // nil means slog.Default()

	// BodyIdle is the maximum pause within a request's body; 0 means 30 s.
	BodyIdle time.Duration
	// RateLimited reports whether the limits of plans and keys are enforced; nil means true.
	RateLimited func() bool
	// Audited contains the operations that the audit log records, by pattern.
	Audited map[string]*Audited
	// RequestLog returns the settings of the request log. It is a function, because they can change while the service runs.
	RequestLog func() *config.RequestLog
	// Ended receives each request when it has ended. It must be quick and must not keep the pointer, because it
	// runs on the request's goroutine. It may be nil.
	Ended func(*stoa.Request)
	// Tracer creates a span for each request; it may be nil.
	Tracer *telemetry.Tracer
	// Web serves the paths outside of /api/v1, and /api/v1/doc; nil means 404.
	Web http.Handler

	rates     ratelimit.Rates // requests by key and by account
	running   ratelimit.Slots // requests by account
	wrong     ratelimit.Rates // requests with wrong keys by slots of addresses
	parsing   ratelimit.Turns // large bodies by account
	lingering ratelimit.Slots // by address and ""; see [bodyReader.linger]
	bodies    budget
	origins   http.CrossOriginProtection
	addresses maphash.Seed // hash seed of the address table; see [Base.WrongKey]
	unread    atomic.Bool  // see [Base.UnreadForwarded]
	activity  activity
	once      sync.Once
	open      context.Context // ends when no more requests are accepted
	drain     context.CancelFunc
	calls     context.Context // context of model calls
	stopCalls context.CancelFunc
	callsMu   sync.Mutex // guards calls and stopCalls
}

// Prepare fills zero settings with the defaults of package config, once.
func (b *Base) Prepare() {
	b.once.Do(func() {
		defaults := config.Defaults()
		b.MaxBody = cmp.Or(b.MaxBody, int64(defaults.Limits.Body))
		if b.Logger == nil {
			b.Logger = slog.Default()
		}
		if b.Limits == (config.Limits{}) {
			b.Limits = defaults.Limits
		}
		b.activity.idle = make(chan struct{})
		b.addresses = maphash.MakeSeed()
		if b.PublicURL != "" {
			if err := b.origins.AddTrustedOrigin(b.PublicURL); err != nil {
				b.Logger.Error("the public URL is not an origin", "error", err)
			}
		}
		b.BodyIdle = cmp.Or(b.BodyIdle, bodyIdle)
		b.bodies.most = int64(cmp.Or(b.Limits.BodiesInFlight, defaults.Limits.BodiesInFlight))
		b.open, b.drain = context.WithCancel(context.Background())
		b.calls, b.stopCalls = context.WithCancel(context.Background())
	})
}

// Drain rejects new requests with 503 and Retry-After, so that clients try another node; running ones
// continue. It may be called more than once.
func (b *Base) Drain() {
	b.Prepare()
	b.drain()
	b.activity.drain()
}

// Idle returns a channel that is closed when every request from before [Base.Drain] has ended.
func (b *Base) Idle() <-chan struct{} {
	b.Prepare()
	return b.activity.idle
}

// An activity counts requests until a drain, and signals the end of the last one.
type activity struct {
	mu       sync.Mutex
	requests int
	draining bool
	idle     chan struct{}
}

func (a *activity) enter() (leave func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining {
		return func() {}
	}
	a.requests++
	return a.leave
}

func (a *activity) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.requests--; a.draining && a.requests == 0 {
		close(a.idle)
	}
}

func (a *activity) drain() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.draining && a.requests == 0 {
		close(a.idle)
	}
	a.draining = true
}

// Draining returns a channel that is closed by [Base.Drain].
func (b *Base) Draining() <-chan struct{} {
	b.Prepare()
	return b.open.Done()
}

// UntilDrain returns a context that also ends at a drain, for requests that only wait and would otherwise
// delay the stop. The caller must call done.
func (b *Base) UntilDrain(ctx context.Context) (waiting context.Context, done func()) {
	waiting, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(b.open, cancel)
	return waiting, func() { stop(); cancel() }
}

// Stop ends the running model calls: each reports an error to its caller and is free. It
// implies [Base.Drain] and does not wait.
func (b *Base) Stop() {
	b.Drain()
	b.callsMu.Lock()
	defer b.callsMu.Unlock()
	b.stopCalls()
}

// Interrupt ends the running model calls: each reports an error to its caller and is free. It does
// not wait, and does not affect later calls.
func (b *Base) Interrupt() {
	b.Prepare()
	b.callsMu.Lock()
	defer b.callsMu.Unlock()
	b.stopCalls()
	if !b.IsDraining() { // Stop may already have been called, and its context must stay ended
		b.calls, b.stopCalls = context.WithCancel(context.Background())
	}
}

// Stopping returns a context that [Base.Stop] and [Base.Interrupt] end.
func (b *Base) Stopping() context.Context {
	b.Prepare()
	b.callsMu.Lock()
	defer b.callsMu.Unlock()
	return b.calls
}

// MaxBodiesInFlight is the maximum number of bytes of bodies in memory.
func (b *Base) MaxBodiesInFlight() int64 { return b.bodies.most }

// InFlight returns the number of running requests, and the bytes of bodies in memory.
func (b *Base) InFlight() (requests, bodyBytes int64) {
	b.activity.mu.Lock()
	requests = int64(b.activity.requests)
	b.activity.mu.Unlock()
	b.bodies.mu.Lock()
	defer b.bodies.mu.Unlock()
	return requests, b.bodies.used
}

// IsDraining reports whether [Base.Drain] was called.
func (b *Base) IsDraining() bool { return b.open.Err() != nil }
