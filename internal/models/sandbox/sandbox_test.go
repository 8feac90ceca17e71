package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
)

// say returns a call with one user message.
func say(text string) stoa.Call {
	return stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleUser, text)}}
}

// played is the combined result of the events of a reply.
type played struct {
	text   string
	deltas int
	think  int
	calls  []stoa.ToolCall
	end    stoa.Event
	err    error
}

func play(t *testing.T, ctx context.Context, call stoa.Call) played {
	t.Helper()
	var p played
	var open stoa.ToolCall
	for ev, err := range Reply(ctx, call, Options{Model: "alpha-haiku-4-5"}) {
		if p.err != nil || p.end.Kind != 0 {
			t.Fatalf("something came after the end: %+v, %v", ev, err)
		}
		if p.err = err; err != nil {
			continue
		}
		switch ev.Kind {
		case stoa.Delta:
			if ev.Text == "" || !utf8.ValidString(ev.Text) {
				t.Errorf("delta %q", ev.Text)
			}
			p.text += ev.Text
			p.deltas++
		case stoa.Thinking:
			p.think += ev.Thinking
		case stoa.Reasoned:
			if p.think == 0 {
				t.Errorf("reasoning without a thought: %+v", ev)
			}
		case stoa.CallStarted:
			open = ev.Call
		case stoa.CallDelta:
			open.Arguments += ev.Text
		case stoa.Called:
			if ev.Call != open {
				t.Errorf("called %+v, begun %+v", ev.Call, open)
			}
			p.calls = append(p.calls, ev.Call)
		case stoa.Finished:
			if ev.More {
				t.Error("the last event promises more")
			}
			p.end = *ev
		default:
			t.Errorf("unexpected event %+v", ev)
		}
	}
	if p.err == nil && p.end.Kind == 0 {
		t.Error("the reply has no end")
	}
	return p
}

func TestReplyStatesThatItIsTheSandbox(t *testing.T) {
	t.Parallel()
	call := stoa.Call{Instructions: "Be brief.", Messages: []stoa.Message{
		stoa.TextMessage(stoa.RoleUser, "Hi"), stoa.TextMessage(stoa.RoleAssistant, "Hello"), stoa.TextMessage(stoa.RoleUser, "What is a stoa?"),
	}}
	p := play(t, t.Context(), call)
	for _, want := range []string{"sandbox", "alpha-haiku-4-5", "“What is a stoa?”", "ANTHROPIC_API_KEY", "STOA_UPSTREAM", "message 2 of yours", "“Be brief.”"} {
		if !strings.Contains(p.text, want) {
			t.Errorf("the reply lacks %q:\n%s", want, p.text)
		}
	}
	if p.end.Stop != stoa.StopEnd || !p.end.HasUsage || p.end.Usage.InputTokens != call.EstimateInput() || p.end.Usage.OutputTokens != int64(p.deltas) || p.deltas < 20 {
		t.Errorf("end: %+v after %d deltas", p.end, p.deltas)
	}
	if again := play(t, t.Context(), call); again.text != p.text || again.end != p.end {
		t.Error("the same call gave another reply")
	}
}

func TestLongMessageIsQuotedFromItsStart(t *testing.T) {
	t.Parallel()
	p := play(t, t.Context(), say("Begin "+strings.Repeat("日 ", 1<<20)))
	if !strings.Contains(p.text, "“Begin 日 日") || !strings.Contains(p.text, "…”") || len(p.text) > 3000 {
		t.Errorf("got %d bytes: %.200s", len(p.text), p.text)
	}
	if p := play(t, t.Context(), say(strings.Repeat(" ", 1<<20)+"x")); len(p.text) > 1000 {
		t.Errorf("got %d bytes", len(p.text))
	}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	unicodeText := "Ünïcödé — 日本語のとても長い文がここにあります、息継ぎなしで。 👩‍👩‍👧‍👦\n\tdata: x\u2028end"
	for _, tt := range []struct {
		name, prompt string
		limit        int64
		text         string
		deltas       int
		think        int
		stop         stoa.Stop
		out          int64
	}{
		{"say", "say: Hello there, world", 0, "Hello there, world", 3, 0, stoa.StopEnd, 3},
		{"say nothing", "say:", 0, "", 0, 0, stoa.StopEnd, 0},
		{"say it over several lines", "say: a\nb\n\nc\n", 0, "a\nb\n\nc\n", 4, 0, stoa.StopEnd, 4},
		{"say in every script", "say: " + unicodeText, 0, unicodeText, 8, 0, stoa.StopEnd, 8},
		{"empty", "empty", 0, "", 0, 0, stoa.StopEnd, 0},
		{"repeat", "repeat\nwhat I said", 0, "what I said", 3, 0, stoa.StopEnd, 3},
		{"tokens", "tokens: 15", 0, "stoa is a quiet place where people walk and talk in the shade stoa is", 15, 0, stoa.StopEnd, 15},
		{"tokens up to the limit", "tokens: 15", 4, "stoa is a quiet", 4, 0, stoa.StopLength, 4},
		{"tokens exactly at the limit", "tokens: 4", 4, "stoa is a quiet", 4, 0, stoa.StopEnd, 4},
		{"thinking", "think: 300\nsay: yes", 0, "yes", 1, 300, stoa.StopEnd, 102},
		{"a limit used up by thinking", "think: 300\nsay: yes", 50, "", 0, 256, stoa.StopLength, 50},
		{"a filter", "stop: content_filter\nsay: half", 0, "half", 1, 0, stoa.StopContentFilter, 1},
		{"a filter before any text", "stop: content_filter\nempty", 0, "", 0, 0, stoa.StopContentFilter, 0},
		{"a length stop", "stop: length\nsay: half", 0, "half", 1, 0, stoa.StopLength, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call := say(tt.prompt)
			call.MaxOutputTokens = tt.limit
			p := play(t, t.Context(), call)
			if p.err != nil {
				t.Fatal(p.err)
			}
			if p.text != tt.text || p.deltas != tt.deltas || p.think != tt.think || p.end.Stop != tt.stop || p.end.Usage.OutputTokens != tt.out {
				t.Errorf("got %q in %d deltas, thinking %d, %s, %d tokens", p.text, p.deltas, p.think, p.end.Stop, p.end.Usage.OutputTokens)
			}
			if thought := p.end.Usage.ReasoningTokens; thought != tt.out-int64(tt.deltas) {
				t.Errorf("%d tokens of thinking, %d deltas, %d in all", thought, p.deltas, tt.out)
			}
			if !p.end.HasUsage || !p.end.Usage.Sane() {
				t.Errorf("usage: %+v", p.end.Usage)
			}
		})
	}
}

func TestOrderedUsage(t *testing.T) {
	t.Parallel()
	if p := play(t, t.Context(), say("usage: none\nsay: x")); p.end.HasUsage || p.end.Usage != (stoa.Usage{}) {
		t.Errorf("none: %+v", p.end)
	}
	for _, kind := range []string{"huge", "negative"} {
		if p := play(t, t.Context(), say("usage: "+kind+"\nsay: x")); !p.end.HasUsage || p.end.Usage.Sane() {
			t.Errorf("%s: %+v", kind, p.end)
		}
	}
}

func TestOrderedFailures(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, prompt string
		deltas       int
		status       int
		code         stoa.Code
		retry        bool
		caller, ours bool
	}{
		{"before the first delta", "fail: 529\ntokens: 9", 0, 529, stoa.CodeOverloaded, true, false, false},
		{"after three", "fail: 500 after 3\ntokens: 9", 3, 500, stoa.CodeUpstream, true, false, false},
		{"after more than there are", "fail: 503 after 30\ntokens: 9", 9, 503, stoa.CodeOverloaded, true, false, false},
		{"after all there are", "fail: 503 after 9\ntokens: 9", 9, 503, stoa.CodeOverloaded, true, false, false},
		{"too late", "fail: 504", 0, 504, stoa.CodeUpstreamTimeout, true, false, false},
		{"an unpaid bill", "fail: 402", 0, 402, stoa.CodeUpstream, false, false, true},
		{"the caller's text", "fail: 400", 0, 400, stoa.CodeInvalidPrompt, false, true, false},
		{"the caller's length", "fail: 413", 0, 413, stoa.CodeContextLength, false, true, false},
		{"a rate limit", "fail: 429", 0, 429, stoa.CodeOverloaded, true, false, false},
		{"cut at once", "cut: 0\ntokens: 9", 0, 0, stoa.CodeUpstream, true, false, false},
		{"cut after two", "cut: 2\ntokens: 9", 2, 0, stoa.CodeUpstream, true, false, false},
		{"cut after the text, before the end", "cut: 9\ntokens: 9", 9, 0, stoa.CodeUpstream, true, false, false},
		{"cut later than the text", "cut: 99\nempty", 0, 0, stoa.CodeUpstream, true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := play(t, t.Context(), say(tt.prompt))
			f, ok := errors.AsType[*Failure](p.err)
			if !ok {
				t.Fatalf("got %v", p.err)
			}
			if p.deltas != tt.deltas || f.Status != tt.status || stoa.CodeOf(p.err) != tt.code || f.Retry != tt.retry || f.Caller != tt.caller || f.Ours != tt.ours {
				t.Errorf("got %d deltas, then %+v", p.deltas, f)
			}
		})
	}
}

func TestOrderedPauses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, prompt string
		took         time.Duration
	}{
		{"none", "tokens: 5", 0},
		{"before the first", "wait: 2s\ntokens: 5", 2 * time.Second},
		{"between deltas", "slow: 50ms\ntokens: 5", 200 * time.Millisecond},
		{"both", "slow: 50ms\nwait: 1s\ntokens: 3", 1100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				if p := play(t, t.Context(), say(tt.prompt)); p.err != nil {
					t.Fatal(p.err)
				}
				if took := time.Since(begin); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}

func TestReplyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, prompt := range []string{"wait: 5m", "slow: 10s\ntokens: 100", "think: 10000\nslow: 10s"} {
		t.Run(prompt, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if p := play(t, ctx, say(prompt)); !errors.Is(p.err, context.DeadlineExceeded) {
					t.Errorf("got %v", p.err)
				}
				if took := time.Since(begin); took != time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if p := play(t, ctx, say("say: x")); !errors.Is(p.err, context.Canceled) || p.deltas != 0 {
		t.Errorf("a call that was never wanted: %+v", p)
	}
}

func TestReaderMayStop(t *testing.T) {
	t.Parallel()
	for range 3 {
		n := 0
		for ev, err := range Reply(t.Context(), say("think: 600\ntokens: 100"), Options{}) {
			if n++; n == 5 {
				break
			}
			if err != nil {
				t.Fatal(ev, err)
			}
		}
	}
}

var agentTools = []stoa.Tool{{Name: "drive_list"}, {Name: "drive_search"}, {Name: "ask_user"}}

// withResult adds the sandbox's tool calls and their result to a call.
func withResult(call stoa.Call, p played, content string, isError bool) stoa.Call {
	step := stoa.Step{Text: p.text, Calls: p.calls}
	answer := stoa.Message{Role: stoa.RoleUser}
	for _, c := range p.calls {
		answer.Parts = append(answer.Parts, stoa.Part{Kind: stoa.PartResult, Result: &stoa.ToolResult{CallID: c.ID, Name: c.Name, Content: content, IsError: isError}})
	}
	call.Messages = append(call.Messages[:len(call.Messages):len(call.Messages)], step.Message(), answer)
	return call
}

func TestDriveIsSearchedAndQuoted(t *testing.T) {
	t.Parallel()
	call := say("What are the opening hours?")
	call.Tools = agentTools
	first := play(t, t.Context(), call)
	want := []stoa.ToolCall{{ID: "call_1_0", Name: "drive_search", Arguments: `{"query":"What are the opening hours"}`}}
	if diff := cmp.Diff(want, first.calls); diff != "" || first.end.Stop != stoa.StopToolCalls || first.text != "" {
		t.Fatalf("stop %s, calls (-want +got):\n%s", first.end.Stop, diff)
	}
	for _, tt := range []struct {
		name, result string
		isError      bool
		want         []string
	}{
		{
			"hits", `{"data":[{"path":"shop/hours.md","startLine":3,"endLine":4,"snippet":"Open from 9 to 5."},{"path":"b.txt","text":"Closed on Sunday"}]}`, false,
			[]string{"shop/hours.md (lines 3-4): “Open from 9 to 5.”", "b.txt: “Closed on Sunday”"},
		},
		{"lines of their own", `[{"path":"a.md","lines":"7-9","passage":"x"}]`, false, []string{"a.md (lines 7-9): “x”"}},
		{"plain text", "hours.md:3: Open from 9 to 5.", false, []string{"“hours.md:3: Open from 9 to 5.”"}},
		{"nothing", `{"data":[]}`, false, []string{"found nothing", "opening hours"}},
		{"a failure", "the drive is gone", true, []string{"drive_search failed: the drive is gone"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := play(t, t.Context(), withResult(call, first, tt.result, tt.isError))
			if p.end.Stop != stoa.StopEnd || len(p.calls) > 0 {
				t.Errorf("it did not end: %+v", p)
			}
			for _, want := range tt.want {
				if !strings.Contains(p.text, want) {
					t.Errorf("the reply lacks %q:\n%s", want, p.text)
				}
			}
		})
	}
	// Another message starts again, with another id.
	next := withResult(call, first, "x", false)
	next.Messages = append(next.Messages, stoa.TextMessage(stoa.RoleAssistant, "y"), stoa.TextMessage(stoa.RoleUser, "And on Sunday?"))
	if p := play(t, t.Context(), next); len(p.calls) != 1 || p.calls[0].ID == "call_1_0" {
		t.Errorf("the next turn: %+v", p)
	}
}

func TestOrderedQuestion(t *testing.T) {
	t.Parallel()
	call := say("ask: Which \"colour\"? | red | blue")
	call.Tools = agentTools
	first := play(t, t.Context(), call)
	want := []stoa.ToolCall{{ID: "call_1_0", Name: "ask_user", Arguments: `{"question":"Which \"colour\"?","options":["red","blue"]}`}}
	if diff := cmp.Diff(want, first.calls); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for content, want := range map[string]string{`{"answer":"red"}`: "You answered: red", "blue": "You answered: blue"} {
		if p := play(t, t.Context(), withResult(call, first, content, false)); p.text != want || p.end.Stop != stoa.StopEnd {
			t.Errorf("got %q, want %q", p.text, want)
		}
	}
	// Without the tool the question is the reply.
	call.Tools = nil
	if p := play(t, t.Context(), call); p.text != `Which "colour"?` || len(p.calls) > 0 {
		t.Errorf("got %+v", p)
	}
}

func TestOrderedToolCalls(t *testing.T) {
	t.Parallel()
	call := say("call: drive_list {}\ncall: unknown {}\ncall: drive_search {\"query\":\"x\"}\nsay: done")
	call.Tools = agentTools
	first := play(t, t.Context(), call)
	if len(first.calls) != 2 || first.calls[0].Name != "drive_list" || first.calls[1].Arguments != `{"query":"x"}` || first.calls[0].ID == first.calls[1].ID {
		t.Fatalf("got %+v", first.calls)
	}
	if p := play(t, t.Context(), withResult(call, first, "ok", false)); p.text != "done" || p.end.Stop != stoa.StopEnd {
		t.Errorf("after the results: %+v", p)
	}
	// Again after every result, for the limit on steps.
	call = say("repeat\ncall: drive_list {}")
	call.Tools = agentTools
	seen := map[string]bool{}
	for step := range 5 {
		p := play(t, t.Context(), call)
		if len(p.calls) != 1 || seen[p.calls[0].ID] {
			t.Fatalf("step %d: %+v", step, p)
		}
		seen[p.calls[0].ID] = true
		call = withResult(call, p, "ok", false)
	}
	if p := play(t, t.Context(), say("call: drive_list {}")); !strings.Contains(p.text, "No tool named drive_list was offered") {
		t.Errorf("a tool that was not offered: %+v", p)
	}
}

func BenchmarkReply(b *testing.B) {
	for _, n := range []int{1, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			call := say(fmt.Sprintf("tokens: %d", n))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range Reply(context.Background(), call, Options{}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
