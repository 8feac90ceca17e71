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
