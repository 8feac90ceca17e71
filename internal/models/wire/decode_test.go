package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
)

func TestEveryWireHasACodec(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{"messages", "gemini", "responses", "chat"} {
		if c, ok := For(wire); !ok || c == nil {
			t.Errorf("no codec for %s", wire)
		}
	}
	if _, ok := For("telegraph"); ok {
		t.Error("a codec for a wire that does not exist")
	}
}

func TestKeyIsInTheVendorsHeader(t *testing.T) {
	t.Parallel()
	call := stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "Hi")}}
	want := map[string]http.Header{
		"messages":  {"X-Api-Key": {"k"}, "Anthropic-Version": {"2023-06-01"}},
		"gemini":    {"X-Goog-Api-Key": {"k"}},
		"responses": {"Authorization": {"Bearer k"}},
		"chat":      {"Authorization": {"Bearer k"}},
	}
	for wire, codec := range codecs {
		for _, key := range []string{"k", ""} {
			req, err := codec.Encode(call, stoa.Route{Wire: wire, Model: "m"}, key)
			if err != nil {
				t.Fatal(err)
			}
			h := want[wire].Clone()
			h.Set("Content-Type", "application/json")
			h.Set("Accept", "text/event-stream")
			if key == "" {
				for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key", "Authorization"} {
					h.Del(name)
				}
			}
			if diff := cmp.Diff(h, req.Header); diff != "" {
				t.Errorf("%s with key %q: %s", wire, key, diff)
			}
		}
	}
}

func TestEncodeDoesNotChangeTheCall(t *testing.T) {
	t.Parallel()
	for wire, codec := range codecs {
		call := stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, "a"), stoa.TextMessage(stoa.RoleUser, "  "), stoa.TextMessage(stoa.RoleUser, "b")}}
		if _, err := codec.Encode(call, stoa.Route{Wire: wire, Model: "m"}, ""); err != nil {
			t.Fatal(err)
		}
		if call.Messages[0].Text() != "a" || call.Messages[1].Text() != "  " || len(call.Messages) != 3 {
			t.Errorf("%s changed the call: %+v", wire, call.Messages)
		}
	}
}

// A chunkReader returns each of its parts in one Read, after a call of onRead.
type chunkReader struct {
	parts  []string
	onRead func()
}

func (c *chunkReader) Read(b []byte) (int, error) {
	c.onRead()
	if len(c.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.parts[0])
	c.parts = c.parts[1:]
	return n, nil
}

// TestMoreIsExact checks that an event with More is followed by another without reading, and
// that an event without it is yielded before the next read, whatever is buffered behind it.
func TestMoreIsExact(t *testing.T) {
	t.Parallel()
	delta := func(s string) string {
		return `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + s + `"}}` + "\n\n"
	}
	ping := "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	var log []string
	body := &chunkReader{onRead: func() { log = append(log, "read") }, parts: []string{
		delta("a") + ping + delta("b") + ping + ping,
		delta("c"),
		": comment\n\n" + delta("d") + delta("e") + delta("f")[:20],
		delta("f")[20:] + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n\n",
		`data: {"type":"message_stop"}` + "\n\n",
	}}
	for ev, err := range codecs["messages"].Decode(body, stoa.Route{}, Want{Tools: true}) {
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, fmt.Sprintf("%s%s %v", ev.Text, ev.Stop, ev.More))
	}
	want := []string{"read", "a true", "b false", "read", "c false", "read", "d true", "e false", "read", "f false", "read", "end false"}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Error(diff)
	}
}

func TestACallWithoutToolsIsPassedOn(t *testing.T) {
	t.Parallel()
	body := `data: {"choices":[{"delta":{"content":"a","tool_calls":[{"index":0,"id":"x","function":{"name":"rm","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
	o := collect(t, codecs["chat"].Decode(strings.NewReader(body), stoa.Route{}, Want{Tools: false}))
	if !o.complete() || o.text != "a" || len(o.calls) != 1 || o.last.Stop != stoa.StopToolCalls {
		t.Errorf("got %v", o.lines)
	}
	plain := `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	if o := collect(t, codecs["chat"].Decode(strings.NewReader(plain), stoa.Route{}, Want{Tools: false})); !o.complete() || o.text != "a" {
		t.Errorf("a plain reply became %v", o.lines)
	}
	for range codecs["chat"].Decode(strings.NewReader(plain), stoa.Route{}, Want{Tools: false}) {
		break
	}
}

type timeout struct{}

func (timeout) Error() string   { return "read tcp 10.0.0.1: i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func TestBrokenBodyIsAFailure(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset by peer")
	for name, tc := range map[string]struct {
		err  error
		code stoa.Code
	}{
		"a reset":           {reset, stoa.CodeUpstream},
		"a short body":      {io.ErrUnexpectedEOF, stoa.CodeUpstream},
		"a timeout":         {timeout{}, stoa.CodeUpstreamTimeout},
		"a deadline":        {context.DeadlineExceeded, stoa.CodeUpstreamTimeout},
		"a caller who left": {context.Canceled, stoa.CodeUpstream},
	} {
		for wire, codec := range codecs {
			for _, head := range []string{"", "\n", "data: {", "{\"a\":"} {
				o := collect(t, codec.Decode(io.MultiReader(strings.NewReader(head), iotest.ErrReader(tc.err)), stoa.Route{Wire: wire}, Want{Tools: true}))
				if stoa.CodeOf(o.err) != tc.code || !errors.Is(o.err, tc.err) {
					t.Errorf("%s, %s after %q: %v", name, wire, head, o.err)
				}
				if strings.Contains(stoa.AsError(o.err).Message, tc.err.Error()) {
					t.Errorf("%s: the caller's message contains the cause", name)
				}
			}
		}
	}
}

// A flood repeats a text endlessly.
type flood struct {
	text string
	at   int
}

func (f *flood) Read(b []byte) (n int, err error) {
	for n < len(b) {
		c := copy(b[n:], f.text[f.at:])
		n += c
		f.at = (f.at + c) % len(f.text)
	}
	return n, nil
}

func TestEndlessReplyIsRejected(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 100_000)
	for name, tc := range map[string]struct{ wire, head, text string }{
		"text":      {"messages", `data: {"type":"content_block_start","content_block":{"type":"text"}}` + "\n\n", `data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"` + big + `"}}` + "\n\n"},
		"thinking":  {"messages", `data: {"type":"content_block_start","content_block":{"type":"thinking"}}` + "\n\n", `data: {"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"` + big + `"}}` + "\n\n"},
		"signature": {"messages", "", `data: {"type":"content_block_delta","delta":{"type":"signature_delta","signature":"` + big + `"}}` + "\n\n"},
		"input":     {"messages", `data: {"type":"content_block_start","content_block":{"type":"tool_use","name":"n"}}` + "\n\n", `data: {"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"` + big + `"}}` + "\n\n"},
		"blocks":    {"messages", "", `data: {"type":"content_block_start","content_block":{"type":"redacted_thinking","data":"` + big + `"}}` + "\n\n"},
		"calls":     {"messages", "", `data: {"type":"content_block_start","content_block":{"type":"tool_use","name":"n"}}` + "\n\n"},
		"an event":  {"gemini", "data: ", "x"},
		"a body":    {"gemini", "[", " "},
		"parts":     {"gemini", "", `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"n"},"thoughtSignature":"` + big + `"}]}}]}` + "\n\n"},
		"pieces":    {"gemini", `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"n","willContinue":true}}]}}]}` + "\n\n", `data: {"candidates":[{"content":{"parts":[{"functionCall":{"willContinue":true,"partialArgs":[{"jsonPath":"$.a","stringValue":"` + big + `"}]}}]}}]}` + "\n\n"},
		"items":     {"responses", "", `data: {"type":"response.output_item.done","item":{"type":"reasoning","encrypted_content":"` + big + `"}}` + "\n\n"},
		"functions": {"responses", "", `data: {"type":"response.output_item.done","item":{"type":"function_call","name":"n","arguments":"{}"}}` + "\n\n"},
		"reasoning": {"chat", "", `data: {"choices":[{"delta":{"reasoning_content":"` + big + `"}}]}` + "\n\n"},
		"arguments": {"chat", "", `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"n","arguments":"` + big + `"}}]}}]}` + "\n\n"},
		"many":      {"chat", "", `data: {"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"n"}},{"id":"b","function":{"name":"n"}}]}}]}` + "\n\n"},
	} {
		body := io.LimitReader(io.MultiReader(strings.NewReader(tc.head), &flood{text: tc.text}), 100<<20)
		o := collect(t, codecs[tc.wire].Decode(body, stoa.Route{Wire: tc.wire}, Want{Tools: true}))
		f, ok := errors.AsType[*Failure](o.err)
		if !ok || f.Retry || !strings.HasPrefix(f.Detail, "too much") {
			t.Errorf("%s: %v", name, o.err)
		}
	}
}

func TestRetryAfterForms(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{
		"Retry-After: 7":                             7 * time.Second,
		"Retry-After: 0.5":                           500 * time.Millisecond,
		"Retry-After: -7":                            0,
		"Retry-After: soon":                          0,
		"Retry-After: NaN":                           0,
		"Retry-After: 1e300":                         24 * time.Hour,
		"Retry-After-Ms: 1250":                       1250 * time.Millisecond,
		"Retry-After: Fri, 20 Nov 2026 10:00:09 GMT": 9 * time.Second,
		"Retry-After: Fri, 20 Nov 2026 09:00:00 GMT": 0,
		"Retry-After: Fri, 20 Nov 2099 09:00:00 GMT": 24 * time.Hour,
	} {
		name, value, _ := strings.Cut(in, ": ")
		h := http.Header{"Date": {"Fri, 20 Nov 2026 10:00:00 GMT"}}
		h.Set(name, value)
		f := decodeError(429, h, nil)
		if f.RetryAfter != want {
			t.Errorf("%s: %v, want %v", in, f.RetryAfter, want)
		}
		if told := f.Err.RetryAfter; told < time.Second || told > 5*time.Second {
			t.Errorf("%s: the caller's Retry-After is %v", in, told)
		}
	}
	if f := decodeError(429, http.Header{"Retry-After": {"Fri, 20 Nov 2026 10:00:09 GMT"}}, nil); f.RetryAfter != 0 {
		t.Errorf("a date without the reply's own: %v", f.RetryAfter)
	}
}

func TestKeysNeverReachTheLog(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"sk-proj-abcdefghijklmnop", "AIzaSyA1234567890abcdef", "sk_live_abcdefghijklmnop", "gsk_abcdefghijklmnop"} {
		for _, form := range []string{"Incorrect API key provided: %s.", "key=%s", "Authorization: Bearer %s", `{"k":"%s"}`} {
			body := fmt.Sprintf(`{"error":{"message":%q}}`, fmt.Sprintf(form, secret))
			for _, b := range []string{body, fmt.Sprintf(form, secret)} {
				if f := decodeError(401, nil, []byte(b)); strings.Contains(f.Detail, secret[8:]) {
					t.Errorf("%s: %s", form, f.Detail)
				}
			}
		}
	}
	if f := decodeError(500, http.Header{"X-Request-Id": {"a b\nc"}}, bytes.Repeat([]byte("é\n"), 5000)); f.RequestID != "" || len(f.Detail) > maxDetail {
		t.Errorf("unfit for a log: %q, %d bytes", f.RequestID, len(f.Detail))
	}
}

func TestVendorsMessageIsForTheLogOnly(t *testing.T) {
	t.Parallel()
	f := decodeError(400, nil, []byte(`{"error":{"message":"prompt is too long: 9 > 8 for gpt-secret"}}`))
	if e, ok := errors.AsType[*stoa.Error](error(f)); !ok || e.Code != stoa.CodeContextLength || strings.Contains(e.Message, "gpt-secret") {
		t.Errorf("the caller gets %v", e)
	}
	if !strings.Contains(f.Error(), "gpt-secret") {
		t.Errorf("the log gets %v", f)
	}
	f.Detail = ""
	if f.Error() != f.Err.Error() {
		t.Errorf("without detail: %v", f)
	}
}

// TestMergedTurnsAreJoinedOnce bounds the bytes that an encoding allocates: they
// grow with the conversation, not with its square.
func TestMergedTurnsAreJoinedOnce(t *testing.T) {
	call := stoa.Call{MaxOutputTokens: 16}
	for range 30_000 {
		call.Messages = append(call.Messages, stoa.TextMessage(stoa.RoleUser, "a"))
	}
	for wire, codec := range codecs {
		allocated := func() uint64 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.TotalAlloc
		}
		before := allocated()
		req, err := codec.Encode(call, stoa.Route{Wire: wire, Model: "m"}, "")
		if err != nil {
			t.Fatal(err)
		}
		if n := allocated() - before; n > 1000*uint64(len(call.Messages)) {
			t.Errorf("%s: %d messages took %d MB", wire, len(call.Messages), n>>20)
		}
		if wire != "responses" && !bytes.Contains(req.Body, []byte(strings.Repeat(`a\n\n`, len(call.Messages)-1)+"a")) {
			t.Errorf("%s: the texts are not joined", wire)
		}
	}
}
