package wire

import (
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

// TestWhatAVendorDroppedIsTold reads a reply whose vendor dropped reasoning from the input:
// the note reports it, and the events are the usual ones.
func TestWhatAVendorDroppedIsTold(t *testing.T) {
	t.Parallel()
	const dropped = `[{"type":"thinking_dropped","reason":"prefix_mismatch"}]`
	stream := func(list string) string {
		return "data: {\"type\":\"message_start\",\"message\":{\"input_transformations\":" + list + "}}\n\n" +
			"data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"a\"}}\n\n" +
			"data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\ndata: {\"type\":\"message_stop\"}\n\n"
	}
	whole := func(list string) string {
		return `{"content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"output_tokens":1},"input_transformations":` + list + `}`
	}
	for _, c := range []struct{ body, want string }{
		{stream(dropped), "input_transformations " + dropped},
		{whole(dropped), "input_transformations " + dropped},
		{stream("[]"), ""},
		{whole("null"), ""},
	} {
		var notes []string
		want := Want{Note: func(detail string) { notes = append(notes, detail) }}
		got := collect(t, messages{}.Decode(strings.NewReader(c.body), stoa.Route{Wire: "messages"}, want))
		if got.text != "a" || !got.complete() || strings.Join(notes, "") != c.want {
			t.Errorf("%s: %q, %v", c.body, notes, got)
		}
		want.Note = nil
		if silent := collect(t, messages{}.Decode(strings.NewReader(c.body), stoa.Route{Wire: "messages"}, want)); silent.String() != got.String() {
			t.Errorf("without a note: %v", silent)
		}
	}
}
