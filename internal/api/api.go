// Package api serves the contract over HTTP: it routes, authenticates, validates,
// calls the packages below and renders their errors, in one place each.
//
// It knows no SQL, no provider and no price, and it never decides what a call
// costs. A route is a line of the table in routes.go; route.go has the types of
// requests and replies and what makes a handler of a function, exchange.go what
// every request passes through, operation.go and params.go the checks against the
// contract. Package responses parses and answers POST /api/v1/responses. Start at
// [Server.Handler].
package api

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/agent"
	"stoa/internal/auth"
	"stoa/internal/billing"
	"stoa/internal/catalog"
	"stoa/internal/config"
	"stoa/internal/drive"
	"stoa/internal/embed"
	"stoa/internal/gateway"
	"stoa/internal/media"
	"stoa/internal/outbound"
	"stoa/internal/requestlog"
	"stoa/internal/responses"
	"stoa/internal/scheduler"
	"stoa/internal/seal"
	"stoa/internal/session"
	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/telemetry"
	"stoa/internal/tool"
	"stoa/internal/upstream"
	"stoa/internal/webhook"
)

// A Server answers requests. Its fields are set before [Server.Handler] is
// called and not changed afterwards; those without a remark are required.
type Server struct {
	Keys     *auth.Keys
	Gateway  *gateway.Gateway
	Ledger   *billing.Ledger
	Store    *store.Store
	Drives   *drive.Drives
	Sessions *session.Sessions
	// Worker is asked whether the credits cover a session.
	Worker *agent.Worker
	// Scheduler starts sessions at the instants of tasks.
	Scheduler *scheduler.Scheduler
	Catalog   *atomic.Pointer[catalog.Catalog] // swapped when the configuration is read again

	Pool func() upstream.Stats // of the calls to providers; nil: there are none
	// Try makes a small call to a provider; nil: none can be tested.
	Try func(ctx context.Context, account, model string, r stoa.Route) (upstream.Tried, error)

	Plans     func() []stoa.Plan // as published; nil: none
	Version   string             // of the program; empty: "dev"
	Commit    string             // empty: "unknown"
	PublicURL string             // scheme and host for links; empty: links are paths
	Contact   config.Contact     // as published
	MaxBody   int64              // bytes of a request's body; 0: 16 MiB
	Limits    config.Limits      // zero members: the defaults
	Logger    *slog.Logger       // nil: slog.Default()

	// Extensions are offered beside version 1 of the API.
	Extensions       config.Extensions
	ExtensionOptions config.ExtensionOptions
	States           *seal.Box // needed with the extension tools
	// Outbound is the way to addresses of callers.
	Outbound *outbound.Network
	Tools    *tool.Tools // looks after connections
	Hooks    *webhook.Hooks

	// HeaderWait is how long a stream waits for its first event before it
	// begins by itself, KeepAlive how long it may be silent after that. 0: 10 s
	// and 15 s.
	HeaderWait, KeepAlive time.Duration
	// Heartbeat is how long a stream of events may be silent before a comment is
	// sent. 0: 10 s.
	Heartbeat time.Duration

	// BodyIdle is how long nothing of a request's body may come. 0: 30 s.
	BodyIdle time.Duration

	// ReportTime is how long a query over many receipts may take. 0: 30 s.
	ReportTime time.Duration

	// RateLimited reports whether plans' and keys' limits are enforced; nil: they
	// are.
	RateLimited func() bool

	// Machine returns what is known of the machine; nil: nothing is.
	Machine func() Machine

	// Requests is the request log, and RequestLog how it is kept.
	Requests   *requestlog.Log
	RequestLog func() *config.RequestLog

	// Ended gets what became of each request, on the request's goroutine: it must be
	// quick, and must not keep the pointer. nil: nobody does.
	Ended func(*stoa.Request)
	// Tracer makes a span of each request; nil: none is made.
	Tracer *telemetry.Tracer

	// Web serves what is outside of /api/v1, and /api/v1/doc; nil: 404.
	Web http.Handler

	limits    limits
	bodies    budget
	addresses maphash.Seed // of the table of addresses; see [Server.wrongKey]
	activity  activity
	responses *responses.Service
	embeds    *embed.Embeds
	once      sync.Once
	open      context.Context // ends when no more requests are taken
	drain     context.CancelFunc
	calls     context.Context // of model calls
	stopCalls context.CancelFunc
	callsMu   sync.Mutex // of the two above
}

func (s *Server) newResponses() *responses.Service {
	o := s.ExtensionOptions
	return &responses.Service{
		Gateway: s.Gateway, HeaderWait: s.HeaderWait, KeepAlive: s.KeepAlive, WriteTimeout: writeTimeout, States: s.States,
		Options: responses.Options{
			Tools: s.Extensions.Tools, Formats: s.Extensions.Formats, ForeignTools: o.Tools.Foreign == "ignore",
			Images: s.Extensions.Images, Files: s.Extensions.Files, ImageURL: media.Policy(o.Images.URL), FileURL: media.Policy(o.Files.URL),
		},
		Policy:  responses.Policy{AnyChoice: o.Tools.Forced == "auto", BestEffort: o.Formats.BestEffort},
		Fetcher: media.NewFetcher(s.Outbound),
	}
}

// prepare fills zero settings with the defaults of package config, once.
func (s *Server) prepare() {
	s.once.Do(func() {
		defaults := config.Defaults()
		s.HeaderWait = cmp.Or(s.HeaderWait, defaults.HeaderWait)
		s.KeepAlive = cmp.Or(s.KeepAlive, defaults.KeepAlive)
		s.MaxBody = cmp.Or(s.MaxBody, int64(defaults.Limits.Body))
		if s.Logger == nil {
			s.Logger = slog.Default()
		}
		if s.Limits == (config.Limits{}) {
			s.Limits = defaults.Limits
		}
		s.activity.idle = make(chan struct{})
		s.addresses = maphash.MakeSeed()
		s.BodyIdle = cmp.Or(s.BodyIdle, bodyIdle)
		s.bodies.most = int64(cmp.Or(s.Limits.BodiesInFlight, defaults.Limits.BodiesInFlight))
		s.responses = s.newResponses()
		s.embeds = embed.New(embed.Config{
			Store: s.Store, Sessions: s.Sessions, Plans: s.Keys.Plan, Logger: s.Logger, PublicURL: s.PublicURL,
			TicketLife: s.Limits.EmbedURL, TokenLife: s.Limits.EmbedToken, RateLimited: s.RateLimited,
		})
		s.open, s.drain = context.WithCancel(context.Background())
		s.calls, s.stopCalls = context.WithCancel(context.Background())
	})
}

// Drain refuses new requests from now on, with 503 and Retry-After; those that
// run go on. It may be called more than once.
func (s *Server) Drain() {
	s.prepare()
	s.drain()
	s.activity.drain()
}

// Idle is closed when [Server.Drain] was called and every request that was taken
// before it has ended.
func (s *Server) Idle() <-chan struct{} {
	s.prepare()
	return s.activity.idle
}

// An activity counts requests until a drain, and says when the last of them ended.
type activity struct {
	mu       sync.Mutex
	requests int
	draining bool
	idle     chan struct{}
}

// enter counts a request, unless the drain has begun.
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

// Draining is closed once [Server.Drain] was called.
func (s *Server) Draining() <-chan struct{} {
	s.prepare()
	return s.open.Done()
}

// untilDrain returns a context that also ends when the service is about to stop,
// for requests that only wait. done has to be called.
func (s *Server) untilDrain(ctx context.Context) (waiting context.Context, done func()) {
	waiting, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.open, cancel)
	return waiting, func() { stop(); cancel() }
}

// Stop ends the model calls that still run: each tells its caller and is free.
// It implies [Server.Drain] and does not wait.
func (s *Server) Stop() {
	s.Drain()
	s.callsMu.Lock()
	defer s.callsMu.Unlock()
	s.stopCalls()
}

// Interrupt ends the model calls that run now: each tells its caller and is free.
// Later ones are not affected. It does not wait.
func (s *Server) Interrupt() {
	s.prepare()
	s.callsMu.Lock()
	defer s.callsMu.Unlock()
	s.stopCalls()
	if !s.isDraining() { // else Stop may have been called
		s.calls, s.stopCalls = context.WithCancel(context.Background())
	}
}

// stopping ends with [Server.Stop] and [Server.Interrupt].
func (s *Server) stopping() context.Context {
	s.prepare()
	s.callsMu.Lock()
	defer s.callsMu.Unlock()
	return s.calls
}

// InFlight returns how many requests are being served, and how many bytes of bodies
// are in memory.
func (s *Server) InFlight() (requests, bodyBytes int64) {
	s.activity.mu.Lock()
	requests = int64(s.activity.requests)
	s.activity.mu.Unlock()
	s.bodies.mu.Lock()
	defer s.bodies.mu.Unlock()
	return requests, s.bodies.used
}

func (s *Server) isDraining() bool {
	return s.open.Err() != nil
}
