package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// TestWholeRequestsLackTheStream encodes every call of the fixtures for a stream and for a
// reply in one piece: they differ only in the members that request the stream.
func TestWholeRequestsLackTheStream(t *testing.T) {
	t.Parallel()
	n := 0
	eachFixture(t, func(t *testing.T, f fixture) {
		given, ok := f.section("call.json")
		if !ok {
			return
		}
		var call stoa.Call
		if err := jsonx.UnmarshalKnown(given, &call); err != nil {
			t.Fatal(err)
		}
		stream, streamErr := codecs[f.wire].Encode(call, f.route, "sk-secret")
		call.Whole = true
		whole, err := codecs[f.wire].Encode(call, f.route, "sk-secret")
		if diff := cmp.Diff(streamErr, err, cmp.Comparer(func(a, b error) bool { return (a == nil) == (b == nil) })); diff != "" {
			t.Fatal(diff)
		}
		if err != nil {
			return
		}
		n++
		members := func(body []byte) (m map[string]any) {
			if err := json.Unmarshal(body, &m); err != nil {
				t.Fatal(err)
			}
			return m
		}
		want := members(stream.Body)
		delete(want, "stream")
		delete(want, "stream_options")
		if diff := cmp.Diff(want, members(whole.Body)); diff != "" {
			t.Errorf("the body (-stream +whole):\n%s", diff)
		}
		if got := strings.Replace(stream.Path, ":streamGenerateContent?alt=sse", ":generateContent", 1); got != whole.Path {
			t.Errorf("the path is %s", whole.Path)
		}
		stream.Header.Set("Accept", "application/json")
		if diff := cmp.Diff(stream.Header, whole.Header); diff != "" {
			t.Errorf("the headers: %s", diff)
		}
	})
	if n < 50 {
		t.Errorf("only %d calls were encoded", n)
	}
}

// TestLongWholeReplyComesInPieces checks that a reply beyond its limit can be stopped between
// two pieces.
func TestLongWholeReplyComesInPieces(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("aß語🙂", 3000)
	quoted, _ := json.Marshal(text)
	for wire, form := range map[string]string{
		"chat":      `{"choices":[{"message":{"content":@},"finish_reason":"stop"}]}`,
		"messages":  `{"content":[{"type":"text","text":@}],"stop_reason":"end_turn"}`,
		"responses": `{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":@}]}]}`,
		"gemini":    `{"candidates":[{"content":{"parts":[{"text":@}]},"finishReason":"STOP"}]}`,
	} {
		var got strings.Builder
		n := 0
		for ev, err := range codecs[wire].Decode(strings.NewReader(strings.Replace(form, "@", string(quoted), 1)), stoa.Route{Wire: wire}, Want{Tools: false}) {
			if err != nil {
				t.Fatal(wire, err)
			}
			if len(ev.Text) > wholePiece || !utf8.ValidString(ev.Text) {
				t.Fatalf("%s: a piece of %d bytes", wire, len(ev.Text))
			}
			got.WriteString(ev.Text)
			n++
		}
		if got.String() != text || n != 1+(len(text)+wholePiece-1)/wholePiece {
			t.Errorf("%s: %d bytes in %d events", wire, got.Len(), n)
		}
	}
}
