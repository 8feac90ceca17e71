package fakeup

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// cacheRules are the rules of a vendor's cache. All caches compare prefixes of the same model, and an
// entry lives on when it is read.
type cacheRules struct {
	least    int64 // tokens of an entry
	lookBack int   // blocks before a point at which an entry is looked for
	// auto means that the end of the input is a point of its own. Of the marked points, the latest
	// ones of most are written; of Messages, more are refused.
	auto bool
	most int
	free bool // writes are not counted
	life time.Duration
}

// The rules of the vendors.
var (
	anthropicCache = cacheRules{least: 1024, lookBack: 20, most: 4, life: 5 * time.Minute}
	openAICache    = cacheRules{least: 1024, lookBack: 80, most: 3, auto: true, life: 30 * time.Minute}
	geminiCache    = cacheRules{least: 4096, lookBack: 1 << 20, auto: true, free: true, life: 5 * time.Minute}
	deepSeekCache  = cacheRules{least: 64, lookBack: 1 << 20, auto: true, free: true, life: time.Hour}
)

const cacheLong = time.Hour // the life of a long mark of the format Messages

// A block is a part of a request that may be cached.
type block struct {
	prefix [32]byte // hash of the request up to and including it
	tokens int64    // up to and including it
	life   time.Duration
}

// A blocks is the input of a request as its vendor's cache compares it.
type blocks struct {
	rules cacheRules
	list  []block
	hash  [32]byte
	size  int64 // tokens
}

// add adds a block; life is that of its mark, or 0.
func (b *blocks) add(role string, v any, life time.Duration) {
	text, _ := json.Marshal(v)
	b.hash = sha256.Sum256(append(append(b.hash[:], role...), text...))
	b.size += int64(len(text)) / 4
	b.list = append(b.list, block{b.hash, b.size, life})
}

// each calls add with each element of a list, or with another value as it is.
func each(v any, add func(any)) {
	list, ok := v.([]any)
	if !ok && v != nil {
		list = []any{v}
	}
	for _, e := range list {
		add(e)
	}
}

// messagesBlocks reads the input in the order of Anthropic's cache: tools, system, messages. It
// refuses marks that the vendor refuses.
func (a *ask) messagesBlocks(body object) (no *refusal) {
	a.blocks.rules = anthropicCache
	a.blocks.hash = sha256.Sum256([]byte(a.model))
	marks, short := 0, false
	block := func(role string, v any) {
		o, ok := v.(object)
		if !ok { // a string is the same as one block of text
			o = object{"type": "text", "text": v}
		}
		life := time.Duration(0)
		if control, marked := o["cache_control"].(object); marked {
			o = maps.Clone(o)
			delete(o, "cache_control")
			marks++
			life = a.blocks.rules.life
			if control["ttl"] == "1h" {
				life = cacheLong
			}
			switch {
			case control["type"] != "ephemeral":
				no = bad("cache_control.type: Input should be 'ephemeral'")
			case o["type"] == "thinking" || o["type"] == "redacted_thinking" || o["type"] == "text" && o["text"] == "":
				no = bad("cache_control cannot be set for this block")
			case life == cacheLong && short:
				no = bad("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.")
			case marks > a.blocks.rules.most:
				no = bad("A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
			}
			short = short || life != cacheLong
		}
		a.blocks.add(role, o, life)
	}
	each(body["tools"], func(v any) { block("tools", v) })
	each(body["system"], func(v any) { block("system", v) })
	each(body["messages"], func(m any) {
		o, _ := m.(object)
		role, _ := o["role"].(string)
		each(o["content"], func(v any) { block(role, v) })
	})
	return no
}

// responsesBlocks reads the input in the order of OpenAI's cache: what comes before the input, then
// its items. It refuses breakpoints that the vendor refuses.
func (a *ask) responsesBlocks(body object) (no *refusal) {
	a.blocks.rules = openAICache
	if options, ok := body["prompt_cache_options"].(object); ok {
		switch options["mode"] {
		case "explicit":
			a.blocks.rules.auto, a.blocks.rules.most = false, 4
		case "implicit", nil:
		default:
			return bad("Invalid value: '%v'. Supported values are: 'implicit' and 'explicit'.", options["mode"])
		}
	}
	reasoning, _ := body["reasoning"].(object)
	settings := []any{body["model"], body["prompt_cache_key"], body["parallel_tool_calls"], body["text"], reasoning["effort"], body["service_tier"]}
	a.blocks.hash = sha256.Sum256(encode(settings))
	block := func(role string, v any) {
		life := time.Duration(0)
		if o, ok := v.(object); ok {
			if point, marked := o["prompt_cache_breakpoint"].(object); marked {
				kind, _ := o["type"].(string)
				if point["mode"] != "explicit" || !slices.Contains([]string{"input_text", "input_image", "input_file"}, kind) {
					no = bad("Unknown parameter: 'prompt_cache_breakpoint'.")
				}
				o = maps.Clone(o)
				delete(o, "prompt_cache_breakpoint")
				v, life = o, a.blocks.rules.life
			}
			if o["type"] == "input_text" { // a string is the same as one text
				v = o["text"]
			}
		}
		a.blocks.add(role, v, life)
	}
	each(body["tools"], func(v any) { block("tools", v) })
	each(body["instructions"], func(v any) { block("developer", v) })
	each(body["input"], func(v any) {
		o, ok := v.(object)
		if role, _ := o["role"].(string); ok && role != "" {
			each(o["content"], func(v any) { block(role, v) })
			return
		}
		block("user", v)
	})
	return no
}

// geminiBlocks reads the input in the order of Gemini's cache.
func (a *ask) geminiBlocks(body object) {
	a.blocks.rules = geminiCache
	a.blocks.hash = sha256.Sum256([]byte(a.model))
	each(body["tools"], func(v any) { a.blocks.add("tools", v, 0) })
	contents := func(v any) {
		o, _ := v.(object)
		role, _ := o["role"].(string)
		each(o["parts"], func(v any) { a.blocks.add(role, v, 0) })
	}
	each(body["systemInstruction"], contents)
	each(body["contents"], contents)
}

// chatBlocks reads the input in the order of DeepSeek's cache, which separates users.
func (a *ask) chatBlocks(body object) {
	a.blocks.rules = deepSeekCache
	a.blocks.hash = sha256.Sum256(encode([]any{a.model, body["user_id"]}))
	each(body["tools"], func(v any) { a.blocks.add("tools", v, 0) })
	each(body["messages"], func(v any) { a.blocks.add("", v, 0) })
}

// points returns the blocks at which entries are written, and those at which they are looked for.
func (b *blocks) points() (write, read []int) {
	for i := range b.list {
		if b.list[i].life > 0 {
			write = append(write, i)
		}
	}
	write = write[max(0, len(write)-b.rules.most):]
	if !b.rules.auto {
		return write, write
	}
	last := len(b.list) - 1
	if len(write) == 0 || write[len(write)-1] != last {
		write = append(write, last)
	}
	return write, []int{last}
}

// cached reads and writes the cache for a request, and returns the usage of its input.
func (h *Handler) cached(b blocks, now time.Time) (u Usage) {
	if len(b.list) == 0 {
		return u
	}
	u.Input = b.list[len(b.list)-1].tokens
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cache == nil {
		h.cache = map[[32]byte]cacheEntry{}
	}
	write, read := b.points()
	for _, i := range read {
		for j := i; j >= max(0, i-b.rules.lookBack); j-- {
			entry, found := h.cache[b.list[j].prefix]
			if !found || !now.Before(entry.until) {
				continue
			}
			u.Cached = max(u.Cached, b.list[j].tokens)
			h.cache[b.list[j].prefix] = cacheEntry{now.Add(entry.life), entry.life}
			break
		}
	}
	at := u.Cached
	for _, i := range write {
		p := b.list[i]
		if p.tokens <= at || p.tokens < b.rules.least {
			continue
		}
		if p.life == 0 {
			p.life = b.rules.life
		}
		h.cache[p.prefix] = cacheEntry{now.Add(p.life), p.life}
		if !b.rules.free {
			u.Written += p.tokens - at
			if p.life == cacheLong {
				u.Long += p.tokens - at
			}
		}
		at = p.tokens
	}
	return u
}

// A cacheEntry is a cached prefix.
type cacheEntry struct {
	until time.Time
	life  time.Duration
}
