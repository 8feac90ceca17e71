package agent_test

import (
	"bytes"
	"strings"
	"testing"

	"stoa/internal/session"
	"stoa/internal/session/sessiontest"
	"stoa/internal/stoa"
)

// TestReasoningGoesBackWithEveryStep has agents call tools in three rounds, at vendors
// that want back what they thought: each request has the reasoning of all steps before,
// in its place, and the vendor drops none.
func TestReasoningGoesBackWithEveryStep(t *testing.T) {
	carried := map[string]string{ // what a segment of reasoning has in a request
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

// TestReasoningOutlivesItsWorker has a turn go on with what is stored of it.
func TestReasoningOutlivesItsWorker(t *testing.T) {
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
