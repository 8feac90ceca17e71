package app

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"stoa/internal/base/config"
	"stoa/internal/base/outbound"
)

// knownHost returns a function that reports whether a Host header may name this service. A page of another site can
// let its own name resolve to an address of this machine or its network, and would then read replies as its own (DNS
// rebinding). So a name in a public domain must be at the site of publicUrl, because nobody else can register
// other names.
func knownHost(cfg config.Config) func(host string) bool {
	own := ""
	if u, err := url.Parse(cfg.PublicURL); err == nil && u.Hostname() != "" {
		own = outbound.SiteOf(u.Hostname())
	}
	return func(host string) bool {
		name := host
		if h, _, err := net.SplitHostPort(host); err == nil {
			name = h
		}
		name = strings.Trim(name, "[]")
		return !outbound.InPublicDomain(name) || outbound.SiteOf(name) == own
	}
}

// serviceHosts returns the check of the listener for callers, or nil to accept every name. It checks only if the
// service listens on this machine only.
func serviceHosts(cfg config.Config) func(host string) bool {
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil
	}
	if a, err := netip.ParseAddr(host); (err != nil || !a.IsLoopback()) && host != "localhost" {
		return nil
	}
	return knownHost(cfg)
}
