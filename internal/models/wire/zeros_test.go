package wire

import (
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

// TestZerosAfterCountsKeepTheCounts reports the usage of a reply twice, on every wire that can
// report it before the end. The later report is charged unless it is empty.
func TestZerosAfterCountsKeepTheCounts(t *testing.T) {
	t.Parallel()
	chat := func(usage string) string {
		return `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":` + usage + "}\n\n"
	}
	gemini := func(text, end, usage string) string {
		return `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"` + text + `"}]}` + end + `}],"usageMetadata":` + usage + "}\n\n"
	}
	messages := func(first, last string) string {
		return `data: {"type":"message_start","message":{"usage":` + first + "}}\n\n" +
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}` + "\n\n" +
			`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` + last + "}\n\n" +
			"data: {\"type\":\"message_stop\"}\n\n"
	}
	const begun = `{"input_tokens":100,"cache_read_input_tokens":800,"cache_creation_input_tokens":100,"output_tokens":1}`
	const chatFull = `{"prompt_tokens":1000,"completion_tokens":5,"total_tokens":1005,"prompt_tokens_details":{"cached_tokens":800}}`
	const geminiFull = `{"promptTokenCount":1000,"candidatesTokenCount":5,"cachedContentTokenCount":800,"totalTokenCount":1005}`
	for name, c := range map[string]struct {
		wire, body string
		want       stoa.Usage
	}{
		"messages, zeros":        {"messages", messages(begun, `{"input_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":5}`), stoa.Usage{InputTokens: 1000, CachedTokens: 800, CacheWriteTokens: 100, OutputTokens: 5}},
		"messages, zero output":  {"messages", messages(begun, `{"output_tokens":0}`), stoa.Usage{InputTokens: 1000, CachedTokens: 800, CacheWriteTokens: 100, OutputTokens: 1}},
		"messages, null":         {"messages", messages(begun, `{"input_tokens":null,"output_tokens":5}`), stoa.Usage{InputTokens: 1000, CachedTokens: 800, CacheWriteTokens: 100, OutputTokens: 5}},
		"messages, other counts": {"messages", messages(begun, `{"input_tokens":0,"cache_read_input_tokens":700,"cache_creation_input_tokens":0,"output_tokens":5}`), stoa.Usage{InputTokens: 700, CachedTokens: 700, OutputTokens: 5}},
		"chat, zeros":            {"chat", chat(chatFull) + chat(`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}`) + "data: [DONE]\n\n", stoa.Usage{InputTokens: 1000, CachedTokens: 800, OutputTokens: 5}},
		"chat, other counts":     {"chat", chat(chatFull) + chat(`{"prompt_tokens":900,"completion_tokens":6,"total_tokens":906,"prompt_tokens_details":{"cached_tokens":0}}`) + "data: [DONE]\n\n", stoa.Usage{InputTokens: 900, OutputTokens: 6}},
		"gemini, zeros":          {"gemini", gemini("a", "", geminiFull) + gemini("b", `,"finishReason":"STOP"`, `{"promptTokenCount":0,"candidatesTokenCount":0,"totalTokenCount":0}`), stoa.Usage{InputTokens: 1000, CachedTokens: 800, OutputTokens: 5}},
		"gemini, other counts":   {"gemini", gemini("a", "", geminiFull) + gemini("b", `,"finishReason":"STOP"`, `{"promptTokenCount":900,"candidatesTokenCount":6,"totalTokenCount":906}`), stoa.Usage{InputTokens: 900, OutputTokens: 6}},
	} {
		var got stoa.Usage
		counted := false
		for ev, err := range codecs[c.wire].Decode(strings.NewReader(c.body), stoa.Route{Wire: c.wire}, Want{}) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if ev.Kind == stoa.Finished {
				got, counted = ev.Usage, ev.HasUsage
			}
		}
		if got != c.want || !counted {
			t.Errorf("%s: %+v (counted %v), want %+v", name, got, counted, c.want)
		}
	}
}
