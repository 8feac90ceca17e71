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
	Query  string // name of the parameter
	Value  string
	Parts  []string // parts of Value, in plain, that reveal it too
}

// Add adds the secret to a request that is about to be sent.
func (c Credential) Add(req *http.Request) {
	switch {
	case c.Header != "":
		req.Header.Set(c.Header, c.Value)
	case c.Query != "":
		u := *req.URL // others may share the URL
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&", "&") + url.QueryEscape(c.Query) + "=" + url.QueryEscape(c.Value)
		req.URL = &u
	}
}

// Longest returns the length, in bytes, of the longest encoded form of the secret that is
// blanked. If a text was cut, that many bytes at its end may contain a part of it.
func (c Credential) Longest() int {
	return 26 * len(c.Value) // two hexadecimal digits per byte, each as \u0000 with eight backslashes
}
