package media

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Limits of fetching.
const (
	connectTime  = 5 * time.Second  // until a connection is there
	fetchTime    = 15 * time.Second // for all after it, and for all redirects together
	maxRedirects = 3
	maxHeader    = 64 << 10 // bytes of the headers of a reply
	perAccount   = 4        // fetches at a time
)

// A Fetcher fetches images and files from public addresses. It follows no proxy and
// keeps no cookie, no connection and nothing of what it fetched.
type Fetcher struct {
	client *http.Client

	// The network, which tests replace.
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	dial    func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex
	busy map[string]*slots // by account
}

// slots are the places of one account.
type slots struct {
	free  chan struct{} // holds a value for each fetch that is going on
	users int           // that hold one or wait for one
}

// NewFetcher returns a fetcher for the network of this machine.
func NewFetcher() *Fetcher {
	f := &Fetcher{busy: map[string]*slots{}}
	f.resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
	f.dial = (&net.Dialer{}).DialContext
	f.client = f.newClient(nil)
	return f
}

// newClient returns a client whose connections go to public addresses only.
func (f *Fetcher) newClient(settings *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil,
			DialContext:            f.connect,
			TLSClientConfig:        settings,
			TLSHandshakeTimeout:    connectTime,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return errors.New("too many redirects")
			}
			req.Header.Del("Referer")
			return CheckURL(req.URL.String())
		},
	}
}

// connect resolves a name and connects to what it checked. A name with any address
// that is not public is refused whole: the next answer may have the addresses in
// another order.
func (f *Fetcher) connect(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	all, err := f.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if !IsPublic(a) {
			return nil, errors.New("an address is not public")
		}
	}
	err = errors.New("no address")
	for _, a := range all {
		var conn net.Conn
		if conn, err = f.dial(ctx, network, net.JoinHostPort(a.Unmap().WithZone("").String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// Fetch returns what is at an address that [CheckURL] takes, at most limit bytes. It
// waits while the account has four fetches going on. Its errors do not tell what the
// address resolves to.
func (f *Fetcher) Fetch(ctx context.Context, account, address string, limit int) ([]byte, error) {
	if err := CheckURL(address); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime+fetchTime)
	defer cancel()
	done, err := f.enter(ctx, account)
	if err != nil {
		return nil, failed()
	}
	defer done()
	data, err := f.get(ctx, address, limit)
	if errors.Is(err, errTooLarge) {
		return nil, invalid("What is at the URL is larger than %d bytes.", limit)
	}
	if err != nil {
		return nil, failed()
	}
	return data, nil
}

var errTooLarge = errors.New("too large")

func failed() error {
	return invalid("The URL could not be fetched. Send the content itself as a data URL.")
}

// get makes one request.
func (f *Fetcher) get(ctx context.Context, address string, limit int) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "stoa")
	resp, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "" && resp.Header.Get("Content-Encoding") != "identity":
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	case resp.ContentLength > int64(limit):
		return nil, errTooLarge
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	if err == nil {
		err = ctx.Err() // a body that was cut at the deadline may look like one that ended
	}
	if err == nil && len(data) > limit {
		err = errTooLarge
	}
	return data, err
}

// enter waits for a place of the account, which done gives back.
func (f *Fetcher) enter(ctx context.Context, account string) (done func(), err error) {
	f.mu.Lock()
	s := f.busy[account]
	if s == nil {
		s = &slots{free: make(chan struct{}, perAccount)}
		f.busy[account] = s
	}
	s.users++
	f.mu.Unlock()
	leave := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(f.busy, account)
		}
	}
	select {
	case s.free <- struct{}{}:
		return func() { <-s.free; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
