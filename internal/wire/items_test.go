package wire

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// TestFixturesDecodeItems decodes every reply item by item. A fixture may have want.json, the
// [Want] of its reply, and want.items, the events. The others say the same as without
// items.
func TestFixturesDecodeItems(t *testing.T) {
	t.Parallel()
	eachFixture(t, func(t *testing.T, f fixture) {
		body, ok := f.reply()
		if !ok {
			return
		}
		want := Want{Tools: true, Items: true}
		if text, ok := f.section("want.json"); ok {
			want = Want{}
			if err := jsonx.UnmarshalKnown(text, &want); err != nil {
				t.Fatal(err)
			}
		}
		got := checkReply(t, f, body, want)
		if got.last.State != (stoa.State{}) {
			t.Errorf("the end of the reply has a state: %v", got.last.State)
		}
		if _, ok := f.section("want.items"); ok {
			f.want(t, "want.items", got.String())
			return
		}
		plain := collect(t, codecs[f.wire].Decode(bytes.NewReader(body), f.route, Want{Tools: true}))
		if got.text != plain.text || got.thinking != plain.thinking || !slices.EqualFunc(got.calls, plain.calls, sameCall) || got.last.Stop != plain.last.Stop || got.last.Usage != plain.last.Usage {
			t.Errorf("item by item:\n%s\n\nelse:\n%s", got, plain)
		}
	})
}

// sameCall reports whether a call that came item by item is the other, whose id was
// not checked.
func sameCall(item, plain stoa.ToolCall) bool {
	if item.ID != plain.ID && !madeID.MatchString(item.ID) {
		return false
	}
	return item.Name == strings.TrimSpace(plain.Name) && item.Arguments == strings.TrimLeft(plain.Arguments, " \t\r\n")
}

// TestWhatAVendorDroppedIsTold reads a reply whose vendor dropped reasoning from the
// input: the note has it, and the events are those of any reply.
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
		want := Want{Items: true, Note: func(detail string) { notes = append(notes, detail) }}
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
