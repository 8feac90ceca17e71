package wire

import (
	"bytes"
	"net/http"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

func FuzzMessages(f *testing.F)  { fuzzDecode(f, "messages") }
func FuzzGemini(f *testing.F)    { fuzzDecode(f, "gemini") }
func FuzzResponses(f *testing.F) { fuzzDecode(f, "responses") }
func FuzzChat(f *testing.F)      { fuzzDecode(f, "chat", "openai", "deepseek", "compatible") }

// fuzzDecode decodes any bytes, whole and cut anywhere. It checks that the result
// does not depend on how the bytes arrive, that memory is bounded by their number,
// that states are JSON, and that a cut reply is an error or the same reply, for both
// wants. The corpus are the replies of the fixtures.
func fuzzDecode(f *testing.F, wire string, dialects ...string) {
	dialects = append(dialects, "")
	for _, x := range fixtures(f) {
		if body, ok := x.reply(); ok && x.wire == wire {
			f.Add(body, uint(len(body)/2), byte(0))
			f.Add(body, uint(len(body)-1), byte(1))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, cut uint, which byte) {
		route := stoa.Route{Wire: wire, Model: "m", Dialect: dialects[int(which)%len(dialects)]}
		for _, want := range []Want{{Tools: true}, {Tools: true, JSON: true, Summary: true, Limit: 9}} {
			fuzzReply(t, body, cut, route, want)
		}
	})
}

func fuzzReply(t *testing.T, body []byte, cut uint, route stoa.Route, want Want) {
	t.Helper()
	codec := codecs[route.Wire]
	before := allocated()
	whole := collect(t, codec.Decode(bytes.NewReader(body), route, want))
	if n := allocated() - before; n > 2000*uint64(len(body))+1<<20 {
		t.Fatalf("%d bytes took %d bytes of memory", len(body), n)
	}
	states := 0
	for _, s := range whole.states {
		states += len(s.Data)
	}
	if len(whole.text) > 3*len(body) || states > 16*len(body)+64 {
		t.Fatalf("%d bytes became %d of text and %d of states", len(body), len(whole.text), states)
	}
	slow := collect(t, codec.Decode(iotest.OneByteReader(bytes.NewReader(body)), route, want))
	if diff := cmp.Diff(whole.lines, slow.lines); diff != "" {
		t.Fatal(diff)
	}
	for _, s := range whole.states {
		if c := jsonx.NewCursor([]byte(s.Data)); route.Wire != "chat" && !c.Done() {
			t.Fatalf("a state is no JSON: %s", s.Data)
		}
	}
	if strings.ContainsRune(whole.text, 0) {
		t.Fatalf("U+0000 in %q", whole.text)
	}
	if !whole.complete() || len(body) == 0 {
		return
	}
	part := collect(t, codec.Decode(bytes.NewReader(body[:cut%uint(len(body))]), route, want))
	if !strings.HasPrefix(whole.text, part.text) {
		t.Fatalf("the cut reply has another text: %q, not %q", part.text, whole.text)
	}
	terminated := route.Wire == "messages" || route.Wire == "responses" || route.Dialect == "openai" || route.Dialect == "deepseek"
	if part.complete() && terminated && cmp.Diff(whole.lines, part.lines) != "" {
		t.Fatalf("a cut reply looks complete: %v, not %v", part.lines, whole.lines)
	}
}

// allocated returns the number of bytes that the process has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func FuzzDecodeError(f *testing.F) {
	for _, x := range fixtures(f) {
		if raw, ok := x.section("error.raw"); ok {
			_, body, _ := strings.Cut(string(raw), "\n\n")
			f.Add(400, "1", []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		h := http.Header{"Retry-After": {after}, "Request-Id": {after}}
		checkFailure(t, decodeError(status, h, body), string(body))
	})
}
