package remote

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// A Credential is the secret that a request carries as the value of a header. No
// header: there is none.
type Credential struct{ Header, Value string }

// Add puts the secret into a request that is about to be sent.
func (c Credential) Add(req *http.Request) {
	if c.Header != "" {
		req.Header.Set(c.Header, c.Value)
	}
}

// minBlanked is the length of the shortest secret that is blanked: a shorter one could
// be any word.
const minBlanked = 8

// Blank takes the secret out of what a server sent, in plain and in base64: servers
// repeat headers.
func (c Credential) Blank(data []byte) []byte {
	if len(c.Value) < minBlanked {
		return data
	}
	for _, secret := range blanked(c.Value) {
		data = bytes.ReplaceAll(data, secret, []byte("[secret]"))
	}
	return data
}

// blanked returns the texts that would give a secret away: that of the header, and what
// follows its scheme.
func blanked(secret string) (all [][]byte) {
	_, value, _ := strings.Cut(secret, " ")
	for _, s := range []string{value, secret} {
		if len(s) >= minBlanked {
			quoted := strconv.Quote(s)
			all = append(all, []byte(s), []byte(quoted[1:len(quoted)-1]), []byte(base64.StdEncoding.EncodeToString([]byte(s))))
		}
	}
	return all
}
