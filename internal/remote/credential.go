package remote

import "net/http"

// A Credential is the secret that a request carries as the value of a header. No
// header: there is none.
type Credential struct{ Header, Value string }

// Add puts the secret into a request that is about to be sent.
func (c Credential) Add(req *http.Request) {
	if c.Header != "" {
		req.Header.Set(c.Header, c.Value)
	}
}

// Longest is how many bytes the secret has in the longest of its forms that is blanked.
// Where a text was cut, that much of its end may hold a part of it.
func (c Credential) Longest() int { return 6 * len(c.Value) } // each character as \u0000
