package fakeup

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"time"
)

// Rules of the cache of the format Messages.
const (
	cacheMarks    = 4    // in a request
	cacheLookBack = 20   // blocks before a mark at which an entry is looked for
	cacheLeast    = 1024 // tokens of an entry
	cacheShort    = 5 * time.Minute
	cacheLong     = time.Hour
)

// A block is a part of a request with the format Messages that may be cached.
type block struct {
	prefix [32]byte // hash of the request up to and including it
	tokens int64    // up to and including it
	life   time.Duration
}

// readBlocks returns the blocks of a request in the order of the vendor's cache: tools, system,
// messages. It refuses marks that the vendor refuses.
func (a *ask) readBlocks(body object) *refusal {
	var no *refusal
	var hash [32]byte
	tokens, marks, short := int64(0), 0, false
	add := func(role string, v any) {
		o, ok := v.(object)
		if !ok { // a string is the same as one block of text
			o = object{"type": "text", "text": v}
		}
		b := block{}
		if control, marked := o["cache_control"].(object); marked {
			o = maps.Clone(o)
			delete(o, "cache_control")
			marks++
			b.life = cacheShort
			if control["ttl"] == "1h" {
				b.life = cacheLong
			}
			switch {
			case control["type"] != "ephemeral":
				no = bad("cache_control.type: Input should be 'ephemeral'")
			case o["type"] == "thinking" || o["type"] == "redacted_thinking" || o["type"] == "text" && o["text"] == "":
				no = bad("cache_control cannot be set for this block")
			case b.life == cacheLong && short:
				no = bad("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.")
			case marks > cacheMarks:
				no = bad("A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
			}
			short = short || b.life == cacheShort
		}
		text, _ := json.Marshal(o)
		hash = sha256.Sum256(append(append(hash[:], role...), text...))
		tokens += int64(len(text)) / 4
		b.prefix, b.tokens = hash, tokens
		a.blocks = append(a.blocks, b)
	}
	each := func(role string, v any) {
		list, ok := v.([]any)
		if !ok && v != nil {
			list = []any{v}
		}
		for _, b := range list {
			add(role, b)
		}
	}
	each("tools", body["tools"])
	each("system", body["system"])
	if list, ok := body["messages"].([]any); ok {
		for _, m := range list {
			o, _ := m.(object)
			role, _ := o["role"].(string)
			each(role, o["content"])
		}
	}
	return no
}

// cached reads and writes the cache of a key and model for a request, and returns the usage of
// its input.
func (h *Handler) cached(a ask, now time.Time) (u Usage) {
	if len(a.blocks) == 0 {
		return u
	}
	u.Input = a.blocks[len(a.blocks)-1].tokens
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cache == nil {
		h.cache = map[[32]byte]cacheEntry{}
	}
	last := -1
	for i, b := range a.blocks {
		if b.life == 0 {
			continue
		}
		last = i
		for j := i; j >= max(0, i-cacheLookBack); j-- {
			entry, found := h.cache[a.blocks[j].prefix]
			if found && now.Before(entry.until) && a.blocks[j].tokens > u.Cached {
				u.Cached = a.blocks[j].tokens
				h.cache[a.blocks[j].prefix] = cacheEntry{now.Add(entry.life), entry.life}
			}
			if found {
				break
			}
		}
	}
	if last < 0 || a.blocks[last].tokens < cacheLeast {
		return u
	}
	u.Written = a.blocks[last].tokens - u.Cached
	at := u.Cached
	for _, b := range a.blocks {
		if b.life == 0 || b.tokens <= at {
			continue
		}
		if b.life == cacheLong {
			u.Long += b.tokens - at
		}
		at = b.tokens
		h.cache[b.prefix] = cacheEntry{now.Add(b.life), b.life}
	}
	return u
}

// A cacheEntry is a cached prefix.
type cacheEntry struct {
	until time.Time
	life  time.Duration
}
