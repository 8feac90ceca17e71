package responses

import (
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

// built returns the items that a builder makes from events, as text.
func built(t *testing.T, w wanted, stop stoa.Stop, events ...stoa.Event) string {
	t.Helper()
	b := &builder{wanted: w, seal: func(s stoa.State) string { return s.Data }}
	for _, ev := range events {
		if _, err := b.apply(&ev); err != nil {
			t.Fatal(err)
		}
	}
	o := b.finish(stop)
	var all []string
	for _, it := range o.items {
		text := map[itemKind]string{itemMessage: "text ", itemReasoning: "reasoning ", itemCall: it.name + " "}[it.kind]
		all = append(all, text+it.text.String()+it.refusal.String()+it.sealed+" "+it.status)
	}
	return o.status + ": " + strings.Join(all, " | ")
}

func TestCallsThatTheRequestDoesNotAllowAreLeftOut(t *testing.T) {
	t.Parallel()
	call := func(name string) stoa.Event {
		return stoa.Event{Kind: stoa.Called, Call: stoa.ToolCall{ID: "id_" + name, Name: name, Arguments: "{}"}}
	}
	for choice, want := range map[string]string{
		`"auto"`:                         "completed: f {} completed | g {} completed",
		`"none"`:                         "completed: text  completed",
		`{"type":"function","name":"f"}`: "completed: f {} completed",
	} {
		req, err := Parse([]byte(`{"model":"m","input":"q","tool_choice":`+choice+`,"tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}]}`), Options{Tools: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := built(t, req.wanted, stoa.StopToolCalls, call("f"), call("other"), call("g")); got != want {
			t.Errorf("%s: got %s, want %s", choice, got, want)
		}
	}
}

func TestItemsAreBuiltFromEvents(t *testing.T) {
	t.Parallel()
	text := func(s string) stoa.Event { return stoa.Event{Kind: stoa.Delta, Text: s} }
	reasoned := func(s string) stoa.Event { return stoa.Event{Kind: stoa.Reasoned, State: stoa.State{Data: s}} }
	started := func(name string) stoa.Event {
		return stoa.Event{Kind: stoa.CallStarted, Call: stoa.ToolCall{ID: "id_" + name, Name: name}}
	}
	piece := func(s string) stoa.Event { return stoa.Event{Kind: stoa.CallDelta, Text: s} }
	called := func(name, args string) stoa.Event {
		return stoa.Event{Kind: stoa.Called, Call: stoa.ToolCall{ID: "id_" + name, Name: name, Arguments: args}}
	}
	all := wanted{itemized: true, reasoning: true, summary: true}
	for _, c := range []struct {
		name   string
		w      wanted
		stop   stoa.Stop
		events []stoa.Event
		want   string
	}{
		{
			"in their order", all, stoa.StopToolCalls,
			[]stoa.Event{reasoned("r1"), text("a"), text("b"), reasoned("r2"), started("f"), piece("{"), piece("}"), called("f", "{}"), text("c")},
			"completed: reasoning r1  | text ab completed | reasoning r2  | f {} completed | text c completed",
		},
		{"a call without pieces", all, stoa.StopToolCalls, []stoa.Event{called("f", "")}, "completed: f {} completed"},
		{"a call that was cut off", all, stoa.StopLength, []stoa.Event{called("f", "{}"), started("g"), piece("{")}, "incomplete: f {} completed"},
		{"a call without an end", all, stoa.StopEnd, []stoa.Event{started("g"), piece("{")}, "incomplete: text  incomplete"},
		{"reasoning of a call that was cut off", all, stoa.StopLength, []stoa.Event{text("a"), reasoned("r"), started("g"), piece("{")}, "incomplete: text a incomplete"},
		{"a text around a call that is not allowed", wanted{itemized: true, only: []string{"g"}}, stoa.StopEnd, []stoa.Event{text("a"), started("f"), called("f", "{}"), text("b")}, "completed: text ab completed"},
		{"a filter", all, stoa.StopContentFilter, []stoa.Event{text("a")}, "incomplete: text a incomplete"},
		{"no text", all, stoa.StopEnd, []stoa.Event{reasoned("r")}, "completed: "},
		{"no text of a plain reply", wanted{}, stoa.StopEnd, nil, "completed: text  completed"},
		{"reasoning that nobody wants", wanted{itemized: true}, stoa.StopEnd, []stoa.Event{reasoned("r"), text("a")}, "completed: text a completed"},
		{"what begins again", all, stoa.StopEnd, []stoa.Event{reasoned("old"), text("old"), {Kind: stoa.Started}, text("a")}, "completed: text a completed"},
		{"a summary", all, stoa.StopEnd, []stoa.Event{{Kind: stoa.Summary, Text: "s"}, {Kind: stoa.Summary, Text: "t"}, reasoned("r"), text("a")}, "completed: reasoning str  | text a completed"},
		{"a refusal", all, stoa.StopEnd, []stoa.Event{text("a"), {Kind: stoa.Refusal, Text: "no"}}, "completed: text ano completed"},
		{
			"one call",
			wanted{itemized: true, reasoning: true, summary: true, noParallel: true},
			stoa.StopToolCalls,
			[]stoa.Event{reasoned("r1"), called("f", "{}"), reasoned("r2"), started("g"), piece("{}"), called("g", "{}")},
			"completed: reasoning r1  | f {} completed",
		},
		{
			"allowed calls",
			wanted{itemized: true, reasoning: true, summary: true, only: []string{"g"}},
			stoa.StopToolCalls,
			[]stoa.Event{reasoned("r1"), started("f"), piece("{}"), called("f", "{}"), reasoned("r2"), called("g", "{}")},
			"completed: reasoning r2  | g {} completed",
		},
		{"nothing but a call that is not allowed", wanted{itemized: true, only: []string{"g"}}, stoa.StopToolCalls, []stoa.Event{called("f", "{}")}, "completed: text  completed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := built(t, c.w, c.stop, c.events...); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}
