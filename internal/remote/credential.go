package remote

import "net/http"

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
		q := req.URL.Query()
		q.Set(c.Query, c.Value)
		u := *req.URL
		u.RawQuery = q.Encode()
		req.URL = &u
	}
}

// Longest is how many bytes the secret has in the longest of its forms that is blanked.
// Where a text was cut, that much of its end may hold a part of it.
func (c Credential) Longest() int { return 6 * len(c.Value) } // each character as \u0000
