package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"stoa/internal/base/stoa"
)

// isSpread reports whether a thread selects among the routes of the models.
func isSpread(models []stoa.Model) bool {
	return slices.ContainsFunc(models, func(m stoa.Model) bool {
		return slices.ContainsFunc(m.Routes, func(r stoa.Route) bool { return r.Weight > 0 })
	})
}

// maxHashed limits the bytes of a text that are hashed. That is harmless, because conversations that
// differ only after them just share a route.
const maxHashed = 1024

// thread returns a hash of the account and the conversation of a request: the session, the caller's key
// or the client's session, and otherwise the part of the input that all calls of a conversation have
// in common.
func thread(account string, req *Request) uint64 {
	b := make([]byte, 0, 4*maxHashed)
	write := func(parts ...string) {
		for _, part := range parts {
			b = binary.AppendUvarint(b, uint64(len(part)))
			b = append(b, part[:min(len(part), maxHashed)]...)
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
					write(m.URL, m.Base64)
				}
			}
		}
	}
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}
