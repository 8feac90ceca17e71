package responses

import (
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

// TestTextEndsAtAStopSequence sends the same texts whole and one character at a time: the
// reply must not depend on the pieces.
func TestTextEndsAtAStopSequence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, want, reached string
		stops               []string
	}{
		{"one two", "one ", "two", []string{"two"}},
		{"one two", "", "one", []string{"two", "one"}},
		{"xabc", "xa", "b", []string{"abc", "b"}},
		{"xabc", "x", "abc", []string{"c", "abc"}},
		{"aab", "a", "ab", []string{"ab"}},
		{"ab", "ab", "", []string{"abc", "bd"}},
		{"grün", "gr", "ün", []string{"ün"}},
		{"a\n\nb", "a", "\n\n", []string{"\n\n", "b"}},
	} {
		for _, pieces := range [][]string{{c.text}, strings.Split(c.text, "")} {
			b := &builder{wanted: wanted{stops: c.stops}}
			b.reset()
			for _, s := range append(pieces, " more") {
				if _, err := b.apply(&stoa.Event{Kind: stoa.Delta, Text: s}); err != nil {
					t.Fatal(err)
				}
			}
			b.ending(&stoa.Event{Kind: stoa.Finished})
			o := b.finish(stoa.StopLength)
			want, status := c.want, statusCompleted
			if c.reached == "" {
				want, status = c.want+" more", statusIncomplete
			}
			if got := o.text(); got != want || o.stopped != c.reached || o.status != status {
				t.Errorf("%q until %q: %q, %q, %s; want %q, %q, %s", pieces, c.stops, got, o.stopped, o.status, want, c.reached, status)
			}
		}
	}
}

// TestNothingFollowsAStopSequence has calls and reasoning after the sequence, and a text that
// might begin one before a call.
func TestNothingFollowsAStopSequence(t *testing.T) {
	t.Parallel()
	b := &builder{wanted: wanted{itemized: true, reasoning: true, stops: []string{"END"}}, seal: func(s stoa.State) string { return s.Data }}
	call := func(id string) stoa.Event {
		return stoa.Event{Kind: stoa.Called, Call: stoa.ToolCall{ID: id, Name: "f", Arguments: "{}"}}
	}
	text := func(s string) stoa.Event { return stoa.Event{Kind: stoa.Delta, Text: s} }
	for _, ev := range []stoa.Event{
		{Kind: stoa.Started},
		text("void END"),
		{Kind: stoa.Started},
		text("a EN"), call("c1"), text("D END"), call("c2"),
		{Kind: stoa.Reasoned, State: stoa.State{Data: "r"}},
		text("b"),
	} {
		if _, err := b.apply(&ev); err != nil {
			t.Fatal(err)
		}
	}
	b.ending(&stoa.Event{Kind: stoa.Finished})
	o := b.finish(stoa.StopEnd)
	var got []string
	for _, it := range o.items {
		got = append(got, it.text.String()+it.callID)
	}
	if s := strings.Join(got, "|"); s != "a EN|{}c1|D " || b.adjusted() != stoa.StopCutHere {
		t.Errorf("the items are %q, adjusted %v", s, b.adjusted().Names())
	}
}

func TestStopSequencesHaveLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ stop, param string }{
		{`"x"`, ""},
		{`["1","2","3","4"]`, ""},
		{`["1","2","3","4","5"]`, "stop"},
		{`[""]`, "stop[0]"},
		{`""`, "stop"},
		{`["a",1]`, "stop[1]"},
		{`["` + strings.Repeat("x", maxLabel+1) + `"]`, "stop[0]"},
	} {
		_, err := ParseChat([]byte(`{"model":"auto","messages":[{"role":"user","content":"x"}],"stop":`+c.stop+`}`), Options{})
		if got := ""; err != nil {
			if got = stoa.AsError(err).Param; got != c.param {
				t.Errorf("%s: refused at %q, want %q", c.stop, got, c.param)
			}
		} else if c.param != "" {
			t.Errorf("%s was accepted", c.stop)
		}
	}
	if req, err := Parse([]byte(`{"model":"auto","input":"x","stop":5,"top_k":"x"}`), Options{}); err != nil || req.call.Stops != nil {
		t.Errorf("in the Responses format, which has no stop sequences: %v", err)
	}
}
