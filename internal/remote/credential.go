package remote

import (
	"net/http"
	"net/url"
	"strings"
)

// A Credential is the secret that a request carries, as the value of a header or of a
// parameter of the address. Neither: there is none.
type Credential struct {
	Header string
	Query  string // the name of the parameter
	Value  string
	Parts  []string // of Value, in plain: what gives it away beside itself
}

// Add puts the secret into a request that is about to be sent.
func (c Credential) Add(req *http.Request) {
	switch {
	case c.Header != "":
		req.Header.Set(c.Header, c.Value)
	case c.Query != "":
		u := *req.URL // which others may hold
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&", "&") + url.QueryEscape(c.Query) + "=" + url.QueryEscape(c.Value)
		req.URL = &u
	}
}

// Longest is how many bytes the secret has in the longest of its forms that is blanked.
// Where a text was cut, that much of its end may hold a part of it.
func (c Credential) Longest() int {
	return 26 * len(c.Value) // two hexadecimal digits, each as \u0000 with eight backslashes
}
