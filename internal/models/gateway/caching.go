package gateway

import (
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	"stoa/internal/base/stoa"
)

// cache sets how the vendor is asked to cache the input of a call.
//
// A vendor's cache write costs more than input and a read much less, so the input is marked
// only if it will probably be sent again: in a conversation, and in the instructions and tools
// that the account has sent within the life of a cache. The marks of a caller are never added
// to.
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

const (
	prefixLife  = 5 * time.Minute // the shortest life of a vendor's cache
	maxPrefixes = 1 << 17
)

// prefixes remembers the instructions and tools of the calls of this process, by account. The
// zero value is ready to use.
type prefixes struct {
	mu sync.Mutex
	at map[uint64]time.Time
}

var prefixSeed = maphash.MakeSeed()

// seen reports whether a call of the account had the same instructions and tools within
// prefixLife, and remembers this one.
func (p *prefixes) seen(account string, call *stoa.Call, now time.Time) bool {
	system := call.System()
	if system == "" && len(call.Tools) == 0 {
		return false
	}
	var h maphash.Hash
	h.SetSeed(prefixSeed)
	write := func(parts ...string) {
		for _, part := range parts {
			h.WriteString(part)
			h.WriteByte(0)
		}
	}
	write(account, system)
	for _, t := range call.Tools {
		write(t.Name, t.Description, t.Parameters)
	}
	return p.add(h.Sum64(), now)
}

// add remembers a hash, and reports whether it was added within prefixLife.
func (p *prefixes) add(key uint64, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, found := p.at[key]
	if !found && len(p.at) >= maxPrefixes {
		maps.DeleteFunc(p.at, func(_ uint64, at time.Time) bool { return now.Sub(at) > prefixLife })
		if len(p.at) >= maxPrefixes {
			clear(p.at)
		}
	}
	if p.at == nil {
		p.at = map[uint64]time.Time{}
	}
	p.at[key] = now
	return found && now.Sub(before) <= prefixLife
}
