package media

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"stoa/internal/base/outbound"
	"stoa/internal/base/stoa"
)

// Limits of fetching.
const (
	connectTime  = 5 * time.Second  // until the connection is established
	fetchTime    = 15 * time.Second // for everything after it, and for all redirects together
	maxRedirects = 3
	perAccount   = 4 // concurrent fetches
)

// A Fetcher fetches images and files from public addresses. It keeps no cookie, no connection
// and none of the fetched content.
type Fetcher struct {
	network *outbound.Network

	mu   sync.Mutex
	busy map[string]*slots // by account
}

type slots struct {
	free  chan struct{} // contains a value for each fetch in progress
	users int           // number of users that have a slot or wait for one
}

// NewFetcher returns a fetcher. It ignores the additional destinations that the operator
// allows, because fetched content is sent to a vendor.
func NewFetcher(n *outbound.Network) *Fetcher {
	return &Fetcher{network: n, busy: map[string]*slots{}}
}

// Fetch returns the content of an address that [CheckURL] accepts, at most limit bytes. It
// waits while the account has four fetches in progress. Its errors do not reveal what the
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
	client := f.network.Client(outbound.Limits{Connect: connectTime, Body: int64(limit), ErrorBody: 1, Public: true})
	for range maxRedirects + 1 {
		reply, err := get(ctx, client, address)
		if failure, ok := errors.AsType[*outbound.Error](err); ok && failure.Reason == outbound.TooLarge {
			return nil, invalid("The content of the URL is larger than %s.", stoa.Size(int64(limit)))
		}
		switch {
		case err != nil:
			return nil, failed()
		case reply.Status == http.StatusOK:
			return reply.Body, nil
		}
		if address = target(address, reply); CheckURL(address) != nil {
			break
		}
	}
	return nil, failed()
}

func get(ctx context.Context, client *outbound.Client, address string) (*outbound.Reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "stoa")
	return client.Exchange(req)
}

// target returns the target of a redirect; empty if the reply is not one.
func target(from string, reply *outbound.Reply) string {
	switch reply.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return ""
	}
	base, err := url.Parse(from)
	if err != nil {
		return ""
	}
	to, err := base.Parse(reply.Header.Get("Location"))
	if err != nil {
		return ""
	}
	return to.String()
}

func failed() error {
	return invalid("The URL could not be fetched. Send the content itself as a data URL.")
}

// enter waits for a slot of the account, which done returns.
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
