package fakeup

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// bindingBeta is the header that is required for the setting to drop thinking.
const bindingBeta = "thinking-binding-controls-2026-08-01"

// binds reports whether the model's thinking is bound to its prefix.
func binds(model string) bool {
	return strings.HasPrefix(model, "claude-") && !strings.Contains(model, "haiku-4")
}

// signature signs a block of thinking: its text, its number in the conversation and, for
// models that bind it, the values of its prefix.
func signature(model, text string, number int, before []any) string {
	sum := sha256.Sum256([]byte(text))
	s := thinkingSignature + "." + hex.EncodeToString(sum[:4]) + "." + strconv.Itoa(number)
	if binds(model) {
		sum = sha256.Sum256(encode(before))
		s += "." + hex.EncodeToString(sum[:8])
	}
	return s
}

// A prefix is everything before a block of thinking: the system text, the tools, and the
// blocks of all messages except thinking, in order.
type prefix struct {
	values []any
	number int // of the last thinking block
	drops  bool
	// mismatch is the error for accounts created since 2026-08-31; for others the block is
	// silently dropped.
	mismatch *refusal
}

func newPrefix(r *http.Request, body object) (p prefix, no *refusal) {
	p.values = []any{unmarked(body["system"]), unmarked(body["tools"])}
	t, _ := body["thinking"].(object)
	binding, ok := t["block_binding"].(object)
	if !ok {
		return p, nil
	}
	switch {
	case !strings.Contains(r.Header.Get("Anthropic-Beta"), bindingBeta):
		return p, bad("thinking.block_binding: Extra inputs are not permitted")
	case t["type"] != "adaptive" && t["type"] != "enabled":
		return p, bad("thinking.block_binding: not supported with thinking of type '%v'", t["type"])
	}
	p.drops = binding["prefix_mismatch_behavior"] == "drop_block"
	return p, nil
}

// unmarked returns a value without its marks for the cache, which bind nothing; a single block of
// text is the same as its text.
func unmarked(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = unmarked(v[i])
		}
		if len(out) == 1 {
			if o, ok := out[0].(object); ok && o["type"] == "text" {
				return o["text"]
			}
		}
		return out
	case object:
		v = maps.Clone(v)
		delete(v, "cache_control")
		return v
	}
	return v
}

// read checks the thinking of a message and adds the message to the prefix. It returns the
// number of dropped blocks.
func (p *prefix) read(model string, i int, role string, content any) (dropped int, no *refusal) {
	list, ok := content.([]any)
	if !ok {
		list = []any{object{"type": "text", "text": content}}
	}
	p.values = append(p.values, role)
	for j, b := range list {
		o, _ := b.(object)
		if o["type"] != "thinking" {
			p.values = append(p.values, unmarked(b))
			continue
		}
		text, _ := o["thinking"].(string)
		got, _ := o["signature"].(string)
		parts := strings.Split(strings.TrimPrefix(got, thinkingSignature+"."), ".")
		number := 0
		if len(parts) > 1 {
			number, _ = strconv.Atoi(parts[1])
		}
		want := signature(model, text, number, p.values)
		bound := strings.LastIndexByte(want, '.')
		switch {
		case got == want:
		case binds(model) && strings.HasPrefix(got, want[:bound]):
			if !p.drops && p.mismatch == nil {
				p.mismatch = bad("messages.%d.content.%d: `thinking` block is bound to another conversation prefix", i, j)
			}
			dropped++
		default:
			return 0, bad("messages.%d.content.%d: Invalid `signature` in `thinking` block", i, j)
		}
		if p.number > 0 && number != p.number+1 {
			return 0, bad("messages.%d.content.%d: a `thinking` block between this one and the one before it is missing", i, j)
		}
		p.number = number
	}
	return dropped, nil
}
