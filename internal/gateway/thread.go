package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"slices"

	"stoa/internal/stoa"
)

// isSpread reports whether a thread selects among the routes of the models.
func isSpread(models []stoa.Model) bool {
	return slices.ContainsFunc(models, func(m stoa.Model) bool {
		return slices.ContainsFunc(m.Routes, func(r stoa.Route) bool { return r.Weight > 0 })
	})
}

// maxHashed limits the bytes of an image or a file that are hashed.
const maxHashed = 4096

// thread returns a hash of the account and the conversation of a request: the session, the caller's key
// or the client's session, and otherwise the part of the input that all calls of a conversation have
// in common.
func thread(account string, req *Request) uint64 {
	h := sha256.New()
	write := func(parts ...string) {
		for _, part := range parts {
			_, _ = io.WriteString(h, part) // a hash never fails
			h.Write([]byte{0})
		}
	}
	write(account)
	switch call := &req.Call; {
	case req.SessionID != "":
		write("session", req.SessionID)
	case req.CacheKey != "":
		write("key", req.CacheKey)
	case req.ClientSession != "":
		write("client", req.ClientSession)
	default:
		write("input", req.Model, call.System())
		for _, t := range call.Tools {
			write(t.Name, t.Description, t.Parameters)
		}
		if i := slices.IndexFunc(call.Messages, func(m stoa.Message) bool { return m.Role != stoa.RoleSystem }); i >= 0 {
			for _, p := range call.Messages[i].Parts {
				write(p.Text)
				if m := p.Media; m != nil {
					write(m.URL, m.Base64[:min(len(m.Base64), maxHashed)])
				}
			}
		}
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}
