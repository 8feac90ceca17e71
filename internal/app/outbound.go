package app

import (
	"fmt"
	"net/url"

	"stoa/internal/outbound"
)

// newNetwork returns the network for addresses that callers choose, which never reaches the
// service itself.
func newNetwork(p Parts) (*outbound.Network, error) {
	o := p.Config.Outbound
	allow, err := outbound.ParseDestinations(o.Allow)
	if err != nil {
		return nil, fmt.Errorf("outbound.allow: %w", err)
	}
	deny, err := outbound.ParseDestinations(o.Deny)
	if err != nil {
		return nil, fmt.Errorf("outbound.deny: %w", err)
	}
	proxy, err := o.ProxyURL()
	if err != nil {
		return nil, fmt.Errorf("outbound.proxy: %w", err)
	}
	own := []string{p.Address, p.Admin}
	if origin, err := url.Parse(p.Config.BaseURL(p.Address)); err == nil {
		own = append(own, outbound.HostPort(origin))
	}
	settings := outbound.Settings{Allow: allow, Deny: deny, Proxy: proxy, Own: own}
	adjust(p.Network, &settings)
	return outbound.New(settings), nil
}
