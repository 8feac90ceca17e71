package wire

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// TestRecordedReplies decodes recorded vendor replies from the folder in
// STOA_VENDOR_STREAMS and compares the result with a second, naive decoder.
func TestRecordedReplies(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("STOA_VENDOR_STREAMS")
	if dir == "" {
		t.Skip("STOA_VENDOR_STREAMS is not set: no recorded replies to read")
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*.*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings in %s (%v)", dir, err)
	}
	for _, path := range paths {
		wire := filepath.Base(filepath.Dir(path))
		name := filepath.Base(path)
		if codecs[wire] == nil {
			continue
		}
		route := stoa.Route{Wire: wire, Model: "upstream-model"}
		if wire == "chat" {
			route.Dialect, _, _ = strings.Cut(name, "-")
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".json") {
			t.Run(wire+"/"+name, func(t *testing.T) { recordedWhole(t, route, raw) })
			continue
		}
		// A recording may contain the replies of several calls.
		for i, chunks := range recordedReplies(wire, raw) {
			t.Run(wire+"/"+name+"/"+string(rune('a'+i)), func(t *testing.T) { recordedStream(t, route, chunks) })
		}
	}
}

func recordedReplies(wire string, raw []byte) (out [][]string) {
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if len(out) == 0 || wire == "responses" && strings.Contains(line, `"type":"response.created"`) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], line)
	}
	return out
}

func recordedStream(t *testing.T, route stoa.Route, chunks []string) {
	var body []byte
	want := naive{}
	for _, chunk := range chunks {
		var v map[string]any
		if err := jsonx.Lenient([]byte(chunk), &v); err != nil {
			t.Fatal(err)
		}
		if kind, ok := v["type"].(string); ok {
			body = append(body, "event: "+kind+"\n"...)
		}
		body = append(body, "data: "+chunk+"\n\n"...)
		want.read(route.Wire, v)
	}
	if route.Wire == "chat" {
		body = append(body, "data: [DONE]\n\n"...)
	}
	got := collect(t, codecs[route.Wire].Decode(bytes.NewReader(body), route, Want{Tools: true}))
	want.check(t, got)
	if got.complete() {
		checkCuts(t, route.Wire, route, Want{Tools: true}, body, got, max(1, len(body)/1500))
		recordedSummary(t, route, body, got)
	}
}

// recordedSummary decodes a reply with the summary of its reasoning and compares it with
// the same reply without.
func recordedSummary(t *testing.T, route stoa.Route, body []byte, plain outcome) {
	want := Want{Tools: true, Summary: true}
	got := collect(t, codecs[route.Wire].Decode(bytes.NewReader(body), route, want))
	if got.text != plain.text || !slices.EqualFunc(got.calls, plain.calls, alikeCalls) || got.last.Stop != plain.last.Stop || got.last.Usage != plain.last.Usage {
		t.Errorf("with a summary:\n%s\n\nwithout:\n%s", got, plain)
	}
	checkCuts(t, route.Wire, route, want, body, got, max(1, len(body)/500))
	for _, s := range got.states {
		if route.Wire != "chat" && !jsonx.Valid([]byte(s.Data)) {
			t.Errorf("a segment of reasoning is no JSON: %s", s.Data)
		}
	}
}

func recordedWhole(t *testing.T, route stoa.Route, raw []byte) {
	var v map[string]any
	if err := jsonx.Lenient(raw, &v); err != nil {
		t.Fatal(err)
	}
	if _, ok := v["error"].(map[string]any); ok {
		f := codecs[route.Wire].DecodeError(400, nil, raw)
		checkFailure(t, f, string(raw))
		t.Log(showFailure(f))
		if got := collect(t, codecs[route.Wire].Decode(bytes.NewReader(raw), route, Want{Tools: true})); got.err == nil {
			t.Error("an error body became a reply")
		}
		return
	}
	want := naive{}
	want.read(route.Wire, v)
	got := collect(t, codecs[route.Wire].Decode(bytes.NewReader(raw), route, Want{Tools: true}))
	want.check(t, got)
	checkCuts(t, route.Wire, route, Want{Tools: true}, raw, got, max(1, len(raw)/1500))
	recordedSummary(t, route, raw, got)
}

// naive decodes a reply with plain maps; it shares no code with the codecs.
type naive struct {
	text   string
	calls  []string
	stop   string
	usage  stoa.Usage
	failed bool
}

// dig follows keys and indexes; it returns nil if one is absent.
func dig(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func text(v any) string  { s, _ := v.(string); return s }
func number(v any) int64 { f, _ := v.(float64); return int64(f) }
func list(v any) []any   { l, _ := v.([]any); return l }
func has(v any) bool     { return v != nil }
func last(s *string, v any) {
	if has(v) {
		*s = text(v)
	}
}

func (n *naive) read(wire string, v map[string]any) {
	switch wire {
	case "messages":
		n.text += text(dig(v, "delta", "text"))
		for _, b := range append(list(dig(v, "content")), dig(v, "content_block")) {
			n.text += text(dig(b, "text"))
			if text(dig(b, "type")) == "tool_use" {
				n.calls = append(n.calls, text(dig(b, "name")))
			}
		}
		last(&n.stop, dig(v, "stop_reason"))
		last(&n.stop, dig(v, "delta", "stop_reason"))
		if u := dig(v, "usage"); has(u) {
			cached, written := number(dig(u, "cache_read_input_tokens")), number(dig(u, "cache_creation_input_tokens"))
			n.usage = stoa.Usage{
				InputTokens: number(dig(u, "input_tokens")) + cached + written, CachedTokens: cached, CacheWriteTokens: written,
				OutputTokens: number(dig(u, "output_tokens")), ReasoningTokens: number(dig(u, "output_tokens_details", "thinking_tokens")),
			}
		}
	case "gemini":
		for _, p := range list(dig(v, "candidates", 0, "content", "parts")) {
			n.text += text(dig(p, "text"))
			if name := text(dig(p, "functionCall", "name")); name != "" {
				n.calls = append(n.calls, name)
			}
		}
		last(&n.stop, dig(v, "candidates", 0, "finishReason"))
		u := dig(v, "usageMetadata")
		thoughts := number(dig(u, "thoughtsTokenCount"))
		n.usage = stoa.Usage{
			InputTokens: number(dig(u, "promptTokenCount")), CachedTokens: number(dig(u, "cachedContentTokenCount")),
			OutputTokens: number(dig(u, "candidatesTokenCount")) + thoughts, ReasoningTokens: thoughts,
		}
	case "responses":
		if text(dig(v, "type")) == "response.output_text.delta" {
			n.text += text(dig(v, "delta"))
		}
		if text(dig(v, "type")) == "error" {
			n.failed = true
		}
		r, whole := dig(v, "response"), text(dig(v, "object")) == "response"
		if whole {
			r = v
		}
		last(&n.stop, dig(r, "status"))
		for _, item := range list(dig(r, "output")) {
			if text(dig(item, "type")) == "function_call" {
				n.calls = append(n.calls, text(dig(item, "name")))
			}
			for _, p := range list(dig(item, "content")) {
				if whole && text(dig(item, "type")) == "message" {
					n.text += text(dig(p, "text"))
				}
			}
		}
		u := dig(r, "usage")
		n.usage = stoa.Usage{
			InputTokens: number(dig(u, "input_tokens")), CachedTokens: number(dig(u, "input_tokens_details", "cached_tokens")),
			OutputTokens: number(dig(u, "output_tokens")), ReasoningTokens: number(dig(u, "output_tokens_details", "reasoning_tokens")),
		}
	case "chat":
		choice := dig(v, "choices", 0)
		n.text += text(dig(choice, "delta", "content")) + text(dig(choice, "message", "content"))
		for _, c := range append(list(dig(choice, "delta", "tool_calls")), list(dig(choice, "message", "tool_calls"))...) {
			if name := text(dig(c, "function", "name")); name != "" {
				n.calls = append(n.calls, name)
			}
		}
		last(&n.stop, dig(choice, "finish_reason"))
		if u := dig(v, "usage"); has(u) {
			n.usage = stoa.Usage{
				InputTokens: number(dig(u, "prompt_tokens")), CachedTokens: number(dig(u, "prompt_tokens_details", "cached_tokens")),
				OutputTokens: number(dig(u, "completion_tokens")), ReasoningTokens: number(dig(u, "completion_tokens_details", "reasoning_tokens")),
			}
		}
	}
}

var naiveStops = map[string]stoa.Stop{
	"end_turn": stoa.StopEnd, "refusal": stoa.StopContentFilter, "tool_use": stoa.StopToolCalls, "STOP": stoa.StopEnd,
	"completed": stoa.StopEnd, "stop": stoa.StopEnd, "length": stoa.StopLength, "tool_calls": stoa.StopToolCalls,
}

func (n *naive) check(t *testing.T, got outcome) {
	t.Helper()
	if n.failed {
		if got.err == nil {
			t.Error("a failed reply became a complete one")
		}
		t.Log(got.lines)
		return
	}
	if got.err != nil {
		t.Fatal(got.err)
	}
	var calls []string
	for _, c := range got.calls {
		calls = append(calls, c.Name)
		if !jsonx.Valid([]byte(c.Arguments)) {
			t.Errorf("the arguments are no JSON: %s", c.Arguments)
		}
	}
	stop := naiveStops[n.stop]
	if len(n.calls) > 0 && stop == stoa.StopEnd {
		stop = stoa.StopToolCalls
	}
	if n.usage.ReasoningTokens == 0 { // the codec estimates what a vendor does not count
		n.usage.ReasoningTokens = min(stoa.EstimateTokens(got.thinking), n.usage.OutputTokens)
	}
	type reading struct {
		Text  string
		Calls []string
		Stop  stoa.Stop
		Usage stoa.Usage
		Known bool
	}
	want := reading{n.text, n.calls, stop, n.usage, true}
	if diff := cmp.Diff(want, reading{got.text, calls, got.last.Stop, got.last.Usage, got.last.HasUsage}); diff != "" {
		t.Errorf("(-naive +codec)\n%s", diff)
	}
	if !got.last.Usage.Sane() {
		t.Errorf("the usage is not sane: %+v", got.last.Usage)
	}
	t.Logf("%d bytes of text, %d of thinking, calls %v, %s, state of %d bytes", len(got.text), got.thinking, got.calls, got.last.Stop, len(got.last.State.Data))
}
