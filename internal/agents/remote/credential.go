package remote

import (
	"net/http"
	"net/url"
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
