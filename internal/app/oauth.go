package app

import (
	"net/http"
	"net/url"

	"stoa/internal/oauth"
	"stoa/internal/web"
)

// useOAuth lets connections be authorized, where the service has an address that people
// can come back to: the public one, or on this machine that of the listener.
func (s *Service) useOAuth(p Parts) {
	base := p.Config.BaseURL(p.Address)
	if u, err := url.Parse(base); p.Config.PublicURL != "" || err == nil && oauth.Loopback(u) {
		s.Tools.PublicURL = base
	}
}

// land takes what a person brings back from an authorization server.
func (s *Service) land(r *http.Request) web.LandingPage {
	l := s.Tools.Land(r.Context(), r.URL.Query())
	page := web.LandingPage{Authorized: l.Authorized, Message: l.Message}
	if l.ConnectionID != "" {
		page.Console = "/console#connections/" + l.ConnectionID
	}
	return page
}
