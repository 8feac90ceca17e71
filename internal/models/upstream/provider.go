package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/base/config"
	"stoa/internal/base/ratelimit"
	"stoa/internal/base/stoa"
)

// A provider is a configured endpoint with its state in the pool.
type provider struct {
	stoa.Provider
	fingerprint string // see [stoa.Route]
	maxInFlight int64
	timeouts    stoa.Timeouts
	base        *url.URL
	last        atomic.Pointer[address] // cached, since usually all requests have the same path
	broken      error                   // why base is invalid; its text contains no secret

	inFlight *atomic.Int64    // shared with the provider before a reload, because its calls still count
	accounts *ratelimit.Slots // inFlight by account; shared alike
	refused  atomic.Uint64    // attempts rejected because it was at its maxInFlight
	alarmed  atomic.Int64     // time of the last log entry about its credentials, in Unix ns

	mu     sync.RWMutex
	routes map[string]*route // by upstream model
}

// A route is one upstream model at one provider: its counters and its breaker.
type route struct {
	breaker  breaker
	inFlight atomic.Int64
	requests atomic.Uint64
	retries  atomic.Uint64
	failures atomic.Uint64
	timeouts atomic.Uint64
	pace     pace
	// pausedUntil is the end of the vendor's latest Retry-After in Unix ns: until then calls use
	// another key of the provider, if there is one.
	pausedUntil atomic.Int64
	// streamsOnly is set until the service stops, because the vendor refused a request for a
	// whole reply but served the same call as a stream.
	streamsOnly atomic.Bool
	// nineIDs is set until the service stops, because the vendor refused ids of calls that do not
	// consist of nine letters and digits.
	nineIDs atomic.Bool
	lastBad atomic.Pointer[lastFailure]
}

// lastFailure is the latest failure of a route, for the status page.
type lastFailure struct {
	text   string
	at     time.Time
	code   stoa.Code
	status int
}

func keepOrCreate(old *provider, s stoa.Provider, defaults stoa.Timeouts) *provider {
	if old != nil && reflect.DeepEqual(old.Provider, s) {
		return old
	}
	made := &provider{Provider: s, fingerprint: fingerprint(s), maxInFlight: int64(s.MaxInFlight), timeouts: orTimeouts(s.Timeouts, defaults), routes: map[string]*route{}}
	setDefault(&made.maxInFlight, config.DefaultInFlight)
	if old != nil {
		made.inFlight, made.accounts = old.inFlight, old.accounts
	} else {
		made.inFlight, made.accounts = new(atomic.Int64), new(ratelimit.Slots)
	}
	if s.Wire != sandboxWire {
		made.base, made.broken = baseURL(s.Wire, s.BaseURL)
	}
	return made
}

// fingerprint identifies the address and the credential of a provider, in 16 hex digits.
func fingerprint(p stoa.Provider) string {
	sum := sha256.Sum256([]byte(p.Wire + "\x00" + p.BaseURL + "\x00" + p.APIKey))
	return hex.EncodeToString(sum[:8])
}

// route returns the upstream model's record, which it creates at the first use.
func (pr *provider) route(model string) *route {
	if rt := pr.peek(model); rt != nil {
		return rt
	}
	pr.mu.Lock()
	defer pr.mu.Unlock()
	rt := pr.routes[model]
	if rt == nil {
		rt = &route{}
		pr.routes[model] = rt
	}
	return rt
}

// peek returns the upstream model's record, or nil if it was never used.
func (pr *provider) peek(model string) *route {
	pr.mu.RLock()
	defer pr.mu.RUnlock()
	return pr.routes[model]
}

// enter counts a call of an account in flight and reports whether the provider's limit allows
// it: an account may have all but an eighth, so that no account occupies a provider. leave ends it.
func (pr *provider) enter(account string) bool {
	if pr.inFlight.Add(1) <= pr.maxInFlight {
		if account == "" || pr.accounts.Enter(account, int(pr.maxInFlight-pr.maxInFlight/8)) {
			return true
		}
	}
	pr.inFlight.Add(-1)
	pr.refused.Add(1)
	return false
}

func (pr *provider) leave(account string) {
	pr.inFlight.Add(-1)
	if account != "" {
		pr.accounts.Leave(account)
	}
}

// baseURL parses a provider's base URL. A version segment at its end is dropped for messages and
// gemini, because their paths contain it, but not for responses and chat: providers' own clients
// disagree about it, and people paste either form. A whole endpoint URL is cut back to its base.
// See docs/connect-a-vendor.md.
//
// Nothing else is guessed, because trying several addresses until one answers would send the key
// to each of them and hide a wrong setting. The rule fails for a proxy whose path really repeats
// a version segment.
func baseURL(wireName, text string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		return nil, errors.New("it is not a URL") // because the parser's own error would quote the URL
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("it must begin with http:// or https:// and name a host")
	}
	u.Fragment, u.RawFragment = "", ""
	path := strings.TrimRight(u.EscapedPath(), "/")
	for _, end := range stoa.WireNamed(wireName).BaseEnds {
		if rest, ok := strings.CutSuffix(path, end); ok {
			path = strings.TrimRight(rest, "/")
			break
		}
	}
	if u.Path, err = url.PathUnescape(path); err != nil {
		return nil, errors.New("its path has an invalid escape")
	}
	u.RawPath = path
	return u, nil
}

// An address is a codec's path and the resulting URL.
type address struct {
	path string
	url  *url.URL
}

// at returns the URL of a codec's path. It must not be modified.
func (pr *provider) at(path string) (*url.URL, error) {
	if last := pr.last.Load(); last != nil && last.path == path {
		return last.url, nil
	}
	u, err := join(pr.base, path)
	if err == nil {
		pr.last.Store(&address{path, u})
	}
	return u, err
}

// join appends a codec's path, which may contain a query, to the base.
func join(base *url.URL, path string) (*url.URL, error) {
	path, query, _ := strings.Cut(path, "?")
	u := *base
	escaped := base.EscapedPath() + path
	var err error
	if u.Path, err = url.PathUnescape(escaped); err != nil {
		return nil, err
	}
	u.RawPath = escaped
	switch {
	case u.RawQuery == "":
		u.RawQuery = query
	case query != "":
		u.RawQuery += "&" + query
	}
	return &u, nil
}
