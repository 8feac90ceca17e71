package remote

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A Credential is the secret that a request sends, as the value of a header or of a query
// parameter. With neither there is no secret.
type Credential struct {
	Header string
	Query  string
	Value  string
	Parts  []string // parts of Value, in plain, that reveal it too
}

// Add adds the secret to a request.
func (c Credential) Add(req *http.Request) {
	switch {
	case c.Header != "":
		req.Header.Set(c.Header, c.Value)
	case c.Query != "":
		u := *req.URL // a copy, because others may share the URL
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&", "&") + url.QueryEscape(c.Query) + "=" + url.QueryEscape(c.Value)
		req.URL = &u
	}
}

// Longest returns the length, in bytes, of the longest encoded form of the secret that is
// blanked: two hexadecimal digits per byte, each as \u0000 with eight backslashes. The end of a
// text that was cut must be dropped by that length, because it may contain a part of the secret.
func (c Credential) Longest() int { return 26 * len(c.Value) }

// ownHeaders are names that callers cannot set, because they belong to the connection, to the
// protocol, or to the service.
var ownHeaders = []string{
	"authorization", "user-agent", "idempotency-key",
	"cookie", "set-cookie", "host", "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding",
	"upgrade", "content-length", "content-type", "content-encoding", "accept", "accept-encoding", "expect", "last-event-id", "forwarded", "via",
}

// HeaderName reports whether callers can set a header of this name: a token of RFC 9110.
func HeaderName(name string) bool {
	lower := strings.ToLower(name)
	token := name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
	return token && !slices.Contains(ownHeaders, lower) && !strings.HasPrefix(lower, "mcp-") && !strings.HasPrefix(lower, "x-forwarded-") && !strings.HasPrefix(lower, "proxy-")
}

// HeaderValue reports whether a text can be the value of a header: printable ASCII, so that no
// line break adds a header, and without a space at either end, which RFC 9110 strips.
func HeaderValue(v string) bool {
	return strings.TrimSpace(v) == v && !strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' })
}
