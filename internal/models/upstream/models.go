package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

const (
	listTime     = 5 * time.Second // timeout of [Pool.Models]
	maxListBytes = 4 << 20
)

// Models reads the models that the server of a provider lists, within five seconds. local
// reports whether all addresses of the server are loopback or private ones. An error contains
// neither the key nor the host.
func (p *Pool) Models(ctx context.Context, of stoa.Provider) (models []stoa.ListedModel, local bool, err error) {
	r, ok := wire.ModelsRequest(of.Wire, of.APIKey)
	if !ok {
		return nil, false, fmt.Errorf("the wire %s has no list of models", of.Wire)
	}
	to, err := baseURL(of.Wire, of.BaseURL)
	if err == nil {
		to, err = join(to, r.Path)
	}
	if err != nil {
		return nil, false, fmt.Errorf("its base URL is invalid: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	p.complete(r.Header, to)
	req := &http.Request{Method: http.MethodGet, URL: to, Host: to.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: r.Header}
	res, err := p.cfg.Transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, false, errors.New("the server could not be reached, or did not answer in time")
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, false, fmt.Errorf("the server answered GET %s with status %d", to.Path, res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxListBytes+1))
	if err != nil || len(body) > maxListBytes {
		return nil, false, fmt.Errorf("the list of models broke off, or has more than %d MiB", maxListBytes>>20)
	}
	if models, ok = wire.DecodeModels(body); !ok {
		return nil, false, errors.New("the server's answer is not a list of models")
	}
	return models, isLocal(ctx, to), nil
}

// isLocal reports whether all addresses of a URL's host are loopback or private ones.
func isLocal(ctx context.Context, u *url.URL) bool {
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return isPrivate(addr)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	for _, addr := range addrs {
		if !isPrivate(addr) {
			return false
		}
	}
	return err == nil && len(addrs) > 0
}

func isPrivate(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsLoopback() || addr.IsPrivate()
}
