package agent_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// TestReasoningGoesBackWithEveryStep lets agents call tools in three rounds, at vendors that
// require their reasoning back: each request contains the reasoning of all previous steps, in
// its place, and the vendor drops none.
func TestReasoningGoesBackWithEveryStep(t *testing.T) {
	t.Parallel()
	carried := map[string]string{ // the form of a segment of reasoning in a request
		"messages":  `"type":"thinking","thinking":"hm, `,
		"gemini":    `"thoughtSignature":"CiQ`,
		"responses": `"encrypted_content":"`,
		"deepseek":  `"reasoning_content":"hm, `,
	}
	for name, segment := range carried {
		for _, order := range []string{"", "interleave\n"} {
			t.Run(name+"/"+strings.TrimSpace(order), func(t *testing.T) {
				h, vendor := onVendor(t, name)
				a := h.Agent(func(a *stoa.Agent) { a.Model = vendors[name].model })
				h.File(a, "docs/answer.md", "The answer is forty-two.\n")
				r := h.Service()
				sessiontest.Run(t, r)
				s := h.Begin(r, a, "think: 60\n"+order+"rounds: 3\ncall: drive_search {\"query\":\"answer\"}\ncall: drive_list {}\nsay: Look.")
				got := h.Until(r, s, stoa.SessionCompleted)
				checkAccepted(t, vendor)
				served := vendor.Served()
				if len(served) != 4 {
					t.Fatalf("%d requests", len(served))
				}
				each := bytes.Count(served[1].Body, []byte(segment))
				for step, request := range served {
					if n := bytes.Count(request.Body, []byte(segment)); each == 0 || n != step*each || request.Dropped > 0 {
						t.Errorf("request %d has %d segments of reasoning, and each step %d; %d were dropped\n%s", step, n, each, request.Dropped, request.Body)
					}
				}
				h.CheckBooks(r, got)
			})
		}
	}
}

// TestReasoningOutlivesItsWorker continues a turn from its stored state.
func TestReasoningOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	h, vendor := onVendor(t, "messages")
	a := h.Agent(func(a *stoa.Agent) { a.Model = vendors["messages"].model })
	r := h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "think: 60\ninterleave\ncall: ask_user {\"question\":\"Sure?\"}")
	got := h.Until(r, s, stoa.SessionWaiting)
	if _, err := r.Answer(t.Context(), h.Caller(), a.ID, s.ID, session.AnswerRequest{InputID: got.Pending.ID, Answer: "yes"}); err != nil {
		t.Fatal(err)
	}
	h.Until(r, s, stoa.SessionCompleted)
	checkAccepted(t, vendor)
	served := vendor.Served()
	if last := served[len(served)-1]; !bytes.Contains(last.Body, []byte(`"signature":"`)) || last.Dropped > 0 {
		t.Errorf("%d dropped: %s", last.Dropped, last.Body)
	}
}

// TestATurnStaysWhereItsReasoningIsFrom has a reply with reasoning, and one without: the
// later steps prefer the route that made it, and only that route receives it.
func TestATurnStaysWhereItsReasoningIsFrom(t *testing.T) {
	t.Parallel()
	made := stoa.State{Wire: "messages", Model: "m", Provider: "fp", Data: "data", Tokens: 3}
	var told []stoa.Call
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		told = append(told, call)
		switch len(told) {
		case 1:
			yield(&stoa.Event{Kind: stoa.Reasoned, State: made}, nil)
			sessiontest.Say(func(ev *stoa.Event, err error) bool { return ev.Kind == stoa.Started || yield(ev, err) }, "", stoa.ToolCall{ID: "1", Name: "drive_list", Arguments: "{}"})
		case 2:
			sessiontest.Say(yield, "", stoa.ToolCall{ID: "2", Name: "drive_list", Arguments: "{}"})
		default:
			sessiontest.Say(yield, "done")
		}
	}))
	a, r := h.Agent(func(a *stoa.Agent) { a.Model = "auto" }), h.Service()
	h.File(a, "a.md", "a")
	sessiontest.Run(t, r)
	h.Until(r, h.Begin(r, a, "go"), stoa.SessionCompleted)
	want := &stoa.State{Wire: made.Wire, Model: made.Model, Provider: made.Provider}
	if diff := cmp.Diff([]*stoa.State{nil, want, want}, []*stoa.State{told[0].Prefer, told[1].Prefer, told[2].Prefer}); diff != "" {
		t.Errorf("the calls prefer (-want +got):\n%s", diff)
	}
	if back := told[2].Messages[2].Parts; len(back) != 2 || back[0].State != made || back[1].Call.ID != "1" {
		t.Errorf("what goes back: %+v", back)
	}
}
