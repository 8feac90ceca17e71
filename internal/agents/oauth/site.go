package oauth

import (
	"net/url"

	"stoa/internal/base/outbound"
)

// checkSite refuses an endpoint that is neither at the site of the issuer nor at that of the
// token endpoint. A hostile server could otherwise have a person sign in at an honest one and
// redeem the code itself (RFC 9700, 4.4).
func (s Server) checkSite(endpoint string) error {
	if at := siteOf(endpoint); at == siteOf(s.Issuer) || at == siteOf(s.Token) {
		return nil
	}
	return failed("The authorization server %s refers to %s, which is neither at its own site nor at that of its token endpoint. "+
		"It is not used, because it could obtain tokens that are meant for others. Check the connection's address. If it is right, "+
		"store a token as the connection's secret, or ask the server's operator for endpoints at one site.", cut(s.Issuer), cut(place(endpoint)))
}

// place returns the origin of an address, or the address if it has none.
func place(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

func siteOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return outbound.SiteOf(u.Hostname())
}

// Places returns the origins at which a person signs in and from which tokens come.
func (s Server) Places() (signIn, token string) { return place(s.Authorization), place(s.Token) }
