package agui_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"stoa/internal/agents/agui"
	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
)

// A verifier checks the rules of order that the official client enforces, and keeps the messages that it would show.
type verifier struct {
	t               *testing.T
	messages, calls map[string]bool // open
	steps           []string
	started, ended  bool
	texts           map[string]string
	order           []string
	arguments       map[string]string
	results         []string
}

func newVerifier(t *testing.T) *verifier {
	return &verifier{t: t, messages: map[string]bool{}, calls: map[string]bool{}, texts: map[string]string{}, arguments: map[string]string{}}
}

func (v *verifier) add(events ...agui.Event) {
	v.t.Helper()
	for _, e := range events {
		if problem := v.check(e); problem != "" {
			v.t.Fatalf("%s: %+v", problem, e)
		}
	}
}

func (v *verifier) check(e agui.Event) string {
	if v.ended {
		return "after the end"
	}
	if !v.started && e.Type != agui.RunStarted {
		return "before the start"
	}
	switch e.Type {
	case agui.RunStarted:
		if v.started {
			return "started twice"
		}
		v.started = true
	case agui.TextStart:
		if len(v.messages) > 0 || e.MessageID == "" {
			return "a message is open"
		}
		if _, known := v.texts[e.MessageID]; !known {
			v.order = append(v.order, e.MessageID)
		}
		v.messages[e.MessageID] = true
	case agui.TextContent:
		if !v.messages[e.MessageID] || e.Delta == "" {
			return "content of a message that is not open, or empty"
		}
		v.texts[e.MessageID] += e.Delta
	case agui.TextEnd:
		if !v.messages[e.MessageID] {
			return "the end of a message that is not open"
		}
		delete(v.messages, e.MessageID)
	case agui.ToolStart:
		if _, known := v.arguments[e.ToolCallID]; known || len(v.messages) > 0 {
			return "a call begins twice, or within a message"
		}
		if _, known := v.texts[e.ParentMessageID]; e.ParentMessageID != "" && !known {
			return "the parent is unknown"
		}
		v.calls[e.ToolCallID], v.arguments[e.ToolCallID] = true, ""
	case agui.ToolArgs:
		if !v.calls[e.ToolCallID] || e.Delta == "" {
			return "arguments of a call that is not open, or empty"
		}
		v.arguments[e.ToolCallID] += e.Delta
	case agui.ToolEnd:
		if !v.calls[e.ToolCallID] {
			return "the end of a call that is not open"
		}
		delete(v.calls, e.ToolCallID)
	case agui.ToolResult:
		if slices.Contains(v.results, e.MessageID) || e.Content == "" {
			return "a result twice, or empty"
		}
		v.results = append(v.results, e.MessageID)
	case agui.StepStarted:
		if len(v.steps) > 0 || len(v.messages) > 0 || e.StepName == "" {
			return "a step or a message is open"
		}
		v.steps = append(v.steps, e.StepName)
	case agui.StepFinished:
		if len(v.steps) == 0 || v.steps[0] != e.StepName || len(v.messages) > 0 {
			return "the step is not open, or a message is"
		}
		v.steps = nil
	case agui.RunFinished:
		if len(v.messages)+len(v.calls)+len(v.steps) > 0 {
			return "something is open at the end"
		}
		v.ended = true
	case agui.RunError:
		if e.Message == "" {
			return "an error without a message"
		}
		v.ended = true
	default:
		return "an unknown event"
	}
	return ""
}

func event(seq int, typ string, data any) stoa.SessionEvent {
	text, _ := json.Marshal(data)
	return stoa.SessionEvent{Seq: int64(seq), Type: typ, Data: string(text)}
}

// log makes a random log of a turn: steps with texts and calls, of which some are repeated by a second worker after any
// number of deltas, in the same words or in others. It returns the texts that the messages have in the end.
func log(r *rand.Rand) (events []stoa.SessionEvent, texts map[string]string) {
	texts = map[string]string{}
	add := func(typ string, data any) { events = append(events, event(len(events)+1, typ, data)) }
	word := func() string { return []string{"Yes", "no ", "ä", "💡", " dawn", "\n"}[r.IntN(6)] }
	add(session.EventStatus, session.StatusData{Status: "running"})
	for step := int64(1); step <= int64(1+r.IntN(4)); step++ {
		id, stepID := fmt.Sprintf("msg_%d", step), fmt.Sprintf("stp_%d", step)
		var words []string
		for range r.IntN(6) {
			words = append(words, word())
		}
		text, created := "", false
		for attempt := range 1 + r.IntN(3) {
			add(session.EventStepStarted, session.StepData{StepID: stepID, Step: step})
			if attempt > 0 && r.IntN(2) == 0 {
				for i := range words {
					words[i] = word()
				}
			}
			text = ""
			last := r.IntN(len(words) + 1)
			for i, w := range words {
				if attempt == 0 && i == last {
					break
				}
				if !created {
					created = true
					add(session.EventMessageCreated, session.MessageData{MessageID: id, Role: "assistant"})
				}
				add(session.EventDelta, session.DeltaData{MessageID: id, Offset: len([]rune(text)), Text: w})
				text += w
			}
		}
		if created {
			add(session.EventMessageDone, session.MessageData{MessageID: id, Role: "assistant", Text: &text, Apart: r.IntN(2) == 0})
			texts[id] = text
		}
		add(session.EventStepDone, session.StepData{StepID: stepID, Step: step})
		for i := range r.IntN(3) {
			d := session.ToolData{StepID: stepID, CallID: fmt.Sprintf("call_%d", i), Name: "drive_list", Arguments: `{"a":1}`}
			if r.IntN(2) == 0 {
				d.ToolCallID, d.Attempt = fmt.Sprintf("cal_%d_%d", step, i), 1
			}
			add(session.EventToolCalled, d)
			if d.ToolCallID != "" && r.IntN(2) == 0 {
				d.Attempt = 2
				add(session.EventToolCalled, d)
			}
			isError, size := r.IntN(2) == 0, r.IntN(9)
			d.IsError, d.Bytes = &isError, &size
			add(session.EventToolDone, d)
		}
	}
	return events, texts
}

// TestAnyLogKeepsTheRulesOfTheClient encodes random logs up to a random point and ends the run in each way.
func TestAnyLogKeepsTheRulesOfTheClient(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		events, texts := log(r)
		whole := r.IntN(2) == 0
		if !whole {
			events = events[:r.IntN(len(events)+1)]
		}
		e := &agui.Encoder{ThreadID: "t", RunID: "r", Arguments: func(string) (string, error) { return `{"a":1}`, nil }}
		v := newVerifier(t)
		v.add(e.Start())
		for _, ev := range events {
			out, err := e.Add(ev)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			v.add(out...)
		}
		switch status := []stoa.SessionStatus{stoa.SessionCompleted, stoa.SessionFailed, stoa.SessionCancelled, stoa.SessionWaiting, ""}[r.IntN(5)]; status {
		case "":
			v.add(e.Break(stoa.Errorf(stoa.CodeOverloaded, "The service stops."))...)
		case stoa.SessionWaiting:
			out, _ := e.Add(event(100, session.EventInputRequested, session.InputData{InputID: "inp_1", Kind: stoa.InputToolCall, Calls: []session.CallData{{CallID: "cal_1"}}}))
			v.add(out...)
			fallthrough
		default:
			v.add(e.Finish(&session.Exchange{Status: status}, "", nil)...)
		}
		if !v.ended {
			t.Fatalf("seed %d: no end", seed)
		}
		for _, args := range v.arguments {
			if args != `{"a":1}` {
				t.Fatalf("seed %d: the arguments are %q", seed, args)
			}
		}
		if !whole {
			continue
		}
		for id, want := range texts {
			newest := ""
			for _, shown := range v.order {
				if shown == id || strings.HasPrefix(shown, id+"-") {
					newest = shown
				}
			}
			if v.texts[newest] != want && want != "" {
				t.Fatalf("seed %d: the message %s is %q, want %q", seed, id, v.texts[newest], want)
			}
		}
	}
}

func TestARunEndsAsItsSessionStopped(t *testing.T) {
	t.Parallel()
	asks := func(in session.InputData) *agui.Encoder {
		e := &agui.Encoder{ThreadID: "t", RunID: "r"}
		if _, err := e.Add(event(6, session.EventInputRequested, in)); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Add(event(7, session.EventStatus, session.StatusData{Status: "waiting_for_input"})); err != nil {
			t.Fatal(err)
		}
		return e
	}
	waiting := &session.Exchange{Status: stoa.SessionWaiting}
	for want, end := range map[string]agui.Event{
		`{"type":"interrupt","interrupts":[{"id":"inp_1","reason":"choice","message":"Which?","responseSchema":{"type":"string","enum":["a","b"]},"expiresAt":"2026-01-01T00:00:00.000Z"}]}`: asks(session.InputData{
			InputID: "inp_1", Kind: stoa.InputChoice, Prompt: "Which?", Options: []string{"a", "b"}, ExpiresAt: "2026-01-01T00:00:00.000Z",
		}).Finish(waiting, "", nil)[0],
		`{"type":"interrupt","interrupts":[{"id":"inp_1","reason":"question","message":"Why?","responseSchema":{"type":"string"}}]}`: asks(session.InputData{InputID: "inp_1", Kind: stoa.InputQuestion, Prompt: "Why?"}).Finish(waiting, "", nil)[0],
		`{"type":"interrupt","interrupts":[{"id":"inp_1.7","reason":"approval","message":"Approve.\nThere."}]}`:                      asks(session.InputData{InputID: "inp_1", Kind: stoa.InputToolApproval, Prompt: "Approve."}).Finish(waiting, "There.", nil)[0],
		`{"type":"success","pendingToolCallIds":["cal_1"]}`:                                                                          asks(session.InputData{Kind: stoa.InputToolCall, Calls: []session.CallData{{CallID: "cal_1"}}}).Finish(waiting, "", nil)[0],
		`{"type":"success"}`:   (&agui.Encoder{}).Finish(&session.Exchange{Status: stoa.SessionCompleted}, "", nil)[0],
		`{"type":"cancelled"}`: (&agui.Encoder{}).Finish(&session.Exchange{Status: stoa.SessionCancelled}, "", nil)[0],
	} {
		if got, _ := json.Marshal(end.Outcome); string(got) != want || end.Type != agui.RunFinished {
			t.Errorf("%s: %s, want %s", end.Type, got, want)
		}
	}
	failed := (&agui.Encoder{}).Finish(&session.Exchange{Status: stoa.SessionFailed, Failure: &stoa.Failure{Code: "turn_timeout", Message: "Too late."}}, "", agui.UsageOf(stoa.Usage{InputTokens: 3, OutputTokens: 2}))[0]
	if failed.Type != agui.RunError || failed.Code != "turn_timeout" || failed.Message != "Too late." || failed.Usage[0].Total != 5 {
		t.Errorf("failed: %+v", failed)
	}
}

// TestARepeatedCallIsNotShownAgain resumes a run after an approval to repeat a call that an earlier run has shown.
func TestARepeatedCallIsNotShownAgain(t *testing.T) {
	t.Parallel()
	e, size := &agui.Encoder{}, 3
	d := session.ToolData{CallID: "c", ToolCallID: "cal_1", Name: "send", Attempt: 2, Bytes: &size}
	if out, err := e.Add(event(1, session.EventToolCalled, d)); err != nil || out != nil {
		t.Errorf("the call: %+v, %v", out, err)
	}
	if out, err := e.Add(event(2, session.EventToolDone, d)); err != nil || len(out) != 1 || out[0].ToolCallID != "cal_1" || out[0].Content != `{"isError":false,"bytes":3}` {
		t.Errorf("the result: %+v, %v", out, err)
	}
	if out, err := e.Add(event(3, session.EventToolDone, session.ToolData{ToolCallID: "cal_2", Bytes: &size})); err != nil || out != nil {
		t.Errorf("the result of a call that was refused before it began: %+v, %v", out, err)
	}
}

func TestIDsOfApprovals(t *testing.T) {
	t.Parallel()
	if id, seq, ok := agui.ParseApprovalID(agui.ApprovalID("inp_1", 7)); id != "inp_1" || seq != 7 || !ok {
		t.Errorf("%q, %d, %t", id, seq, ok)
	}
	for _, other := range []string{"inp_1", "inp_1.", "inp_1.x", "inp_1.-3"} {
		if _, _, ok := agui.ParseApprovalID(other); ok {
			t.Errorf("%q is an approval", other)
		}
	}
}
