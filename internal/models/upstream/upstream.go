// Package upstream calls providers over HTTP: it picks the route, enforces the timeouts,
// retries and fails over until the first text, and opens the circuit of a route that keeps
// failing.
//
// It does not depend on vendors' formats (package wire does), balances or prices, and never
// starts a goroutine or a channel for a call: a reply is read by ranging over it, so a slow
// reader slows the vendor down. Start with [Pool.Stream].
package upstream

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/base/config"
	"stoa/internal/base/stoa"
	"stoa/internal/base/telemetry"
	"stoa/internal/models/wire"
)

// A Config contains a pool's settings. The zero value serves only the sandbox.
type Config struct {
	Providers []stoa.Provider
	Logger    *slog.Logger      // nil disables logging
	Tracer    *telemetry.Tracer // nil disables spans
	Version   string            // of the User-Agent "stoa/<version>"; empty means dev

	// Transport sends the requests. Nil means the pool's own transport, which keeps
	// connections alive, uses HTTP/1.1 and HTTP/2, honours the proxy settings of the
	// environment, verifies certificates and limits headers to 64 KiB.
	Transport http.RoundTripper

	Retries        int           // of one call, on all its routes together; 0 means 2, negative means none
	Backoff        time.Duration // before the first retry, doubled for each further one, with jitter; 0 means 250 ms
	MaxReplyBytes  int64         // of one reply; 0 means 64 MiB
	RetryShare     float64       // retries in progress, as a share of calls in progress; 0 means 0.2
	RetriesAnyway  int           // retries in progress that are allowed at any load; 0 means 3
	DefaultTimeout stoa.Timeouts // for the zero timeouts of a provider; zero means 60 s, 60 s, 60 s, 15 min
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Transport == nil {
		c.Transport = newTransport()
	}
	setDefault(&c.Retries, 2)
	setDefault(&c.Backoff, 250*time.Millisecond)
	setDefault(&c.MaxReplyBytes, 64<<20)
	setDefault(&c.RetryShare, 0.2)
	setDefault(&c.RetriesAnyway, 3)
	c.DefaultTimeout = orTimeouts(c.DefaultTimeout, config.DefaultTimeouts())
	return c
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func orTimeouts(t, d stoa.Timeouts) stoa.Timeouts {
	setDefault(&t.FirstByte, d.FirstByte)
	setDefault(&t.Idle, d.Idle)
	setDefault(&t.Whole, d.Whole)
	setDefault(&t.Total, d.Total)
	return t
}

const (
	idlePerHost    = 512     // idle connections kept per host
	readBuffer     = 8 << 10 // bytes per HTTP/1.1 connection to a vendor, so that most bursts of events need one read
	maxHeaderBytes = 64 << 10
	maxErrorBytes  = 64 << 10
	userAgent      = "stoa/"
	sandboxWire    = "sandbox"
)

// newTransport returns a transport like http.DefaultTransport, tuned for few hosts
// with many long streams each.
func newTransport() *http.Transport {
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            counted(dialer.DialContext),
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		DisableCompression:     true, // because a compressed stream would be delayed
		ReadBufferSize:         readBuffer,
		MaxResponseHeaderBytes: maxHeaderBytes,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// A Pool serves model calls from the configured providers and from the built-in sandbox,
// which is the provider "sandbox" with the wire "sandbox" unless another provider is
// configured under that name. It is safe for concurrent use.
type Pool struct {
	cfg       Config
	codec     func(name string) (wire.Codec, bool)
	userAgent []string // one value, shared by all requests

	providers atomic.Pointer[map[string]*provider]

	active   atomic.Int64 // calls in progress
	retrying atomic.Int64 // of these, waiting for or making a retry

	mu          sync.Mutex
	unknownEnds map[string]bool // words for the end of a reply that were logged, by provider
}

// New creates a pool. A provider with an invalid base URL or an unknown wire is
// logged and left out.
func New(cfg Config) *Pool {
	p := &Pool{cfg: cfg.withDefaults(), codec: wire.For, unknownEnds: map[string]bool{}}
	p.userAgent = []string{userAgent + p.cfg.Version}
	p.Update(cfg.Providers)
	return p
}

// A Set is the providers of one configuration; see [Pool.Prepare].
type Set struct{ providers map[string]*provider }

// Handle returns the provider for a route, by [stoa.Provider.Ref], or nil if it is not in the set.
func (s *Set) Handle(ref string) any {
	if pr := s.providers[ref]; pr != nil {
		return pr
	}
	return nil
}

// Use makes a set the current one. Calls in progress finish with their original settings.
func (p *Pool) Use(s *Set) { p.providers.Store(&s.providers) }

// Update prepares the providers and uses them.
func (p *Pool) Update(providers []stoa.Provider) { p.Use(p.Prepare(providers)) }

// Prepare returns the providers without using them, so that routes can be made with their
// handles first. An unchanged provider keeps its breakers and counters; a changed one gets
// new ones, but still counts its calls in flight.
func (p *Pool) Prepare(providers []stoa.Provider) *Set {
	var old map[string]*provider
	if m := p.providers.Load(); m != nil {
		old = *m
	}
	next := make(map[string]*provider, len(providers)+1)
	next[sandboxWire] = keepOrCreate(old[sandboxWire], stoa.Provider{Name: sandboxWire, Wire: sandboxWire}, p.cfg.DefaultTimeout)
	counts := map[string]*provider{}
	for _, s := range providers {
		made := keepOrCreate(old[s.Ref()], s, p.cfg.DefaultTimeout)
		if first := counts[s.Name]; first != nil { // the keys of a provider share its maximum
			made.inFlight, made.accounts = first.inFlight, first.accounts
		} else {
			counts[s.Name] = made
		}
		if _, ok := p.codec(s.Wire); !ok && s.Wire != sandboxWire {
			made.broken = fmt.Errorf("the wire %q does not exist", s.Wire)
		}
		if made.broken != nil {
			p.cfg.Logger.Error("a provider cannot be used and is left out: its base URL or its wire is invalid", "provider", s.Name, "error", made.broken)
			continue
		}
		next[s.Ref()] = made
	}
	return &Set{next}
}

var identity = []string{"identity"}

// complete adds the common headers to a request, and the credentials of its URL if it has no
// other.
func (p *Pool) complete(h http.Header, to *url.URL) {
	h["User-Agent"], h["Accept-Encoding"] = p.userAgent, identity
	if user := to.User; user != nil && h.Get("Authorization") == "" {
		password, _ := user.Password()
		(&http.Request{Header: h}).SetBasicAuth(user.Username(), password)
	}
}

// provider returns the provider of a route, or nil if there is none.
func (p *Pool) provider(r *stoa.Route) *provider {
	if pr, ok := r.Handle.(*provider); ok {
		return pr
	}
	return (*p.providers.Load())[r.Ref()]
}

// Timeout returns the longest total timeout of the providers of a model's routes.
func (p *Pool) Timeout(m stoa.Model) (longest time.Duration) {
	for _, r := range m.Routes {
		if pr := p.provider(&r); pr != nil {
			longest = max(longest, pr.timeouts.Total)
		}
	}
	return longest
}

// Healthy reports whether an account's call of the model would be sent now: the provider of
// one of its routes is below its maxInFlight, and that route's circuit is not open.
func (p *Pool) Healthy(account string, m stoa.Model) bool {
	for _, r := range m.Routes {
		pr := p.provider(&r)
		if pr == nil || pr.inFlight.Load() >= pr.maxInFlight {
			continue
		}
		if rt := pr.peek(r.Model); rt == nil || rt.breaker.ready(account) {
			return true
		}
	}
	return false
}
