package gateway

import (
	"cmp"
	"slices"
	"time"

	"stoa/internal/base/stoa"
)

// cache sets how the vendor is asked to cache the input of a call.
//
// The input is marked only if it will probably be sent again, because a vendor's cache write costs
// more than input and a read much less: in a conversation, and in the instructions and tools that
// the account has sent within the life of a cache. Nothing is added to a caller's marks.
func (g *Gateway) cache(account string, req *Request) {
	call := &req.Call
	if key := cmp.Or(req.CacheKey, req.AgentID); key != "" {
		call.CacheKey = stoa.CacheKey(account, key)
	}
	seen := g.prefixes.seen(account, call, time.Now())
	marks, _ := call.Marks()
	switch {
	case marks > 0, call.MarkedOnly:
		call.Caching = stoa.CacheNothing
	case req.SessionID != "", call.Stateful, len(call.Tools) > 0, slices.ContainsFunc(call.Messages, func(m stoa.Message) bool { return m.Role == stoa.RoleAssistant }):
		call.Caching = stoa.CacheConversation
	case seen:
		call.Caching = stoa.CacheInstructions
	}
}

// prefixLife is the shortest life of a vendor's cache.
const prefixLife = 5 * time.Minute

// prefixes remembers the instructions and tools of the calls of this process, by account. The
// zero value is ready to use.
type prefixes struct{ recent }

// seen reports whether a call of the account had the same instructions and tools within
// prefixLife, and remembers this one.
func (p *prefixes) seen(account string, call *stoa.Call, now time.Time) bool {
	system := call.System()
	if system == "" && len(call.Tools) == 0 {
		return false
	}
	parts := []string{account, system}
	for _, t := range call.Tools {
		parts = append(parts, t.Name, t.Description, t.Parameters)
	}
	_, found := p.put(0, prefixLife, now, parts...)
	return found
}
