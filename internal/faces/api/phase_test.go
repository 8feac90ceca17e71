package api_test

import (
	"strings"
	"testing"

	"stoa/internal/testkit/apitest"
)

// TestThePhaseOfATextGoesThereAndBack has a vendor declare the purpose of its text: the
// caller receives it in each form of the reply, and only that vendor gets it back.
func TestThePhaseOfATextGoesThereAndBack(t *testing.T) {
	t.Parallel()
	const phase = `"phase":"commentary"`
	h, f := vendors(t, apitest.Config{})
	question := body{"role": "user", "content": "phase: commentary\ncall: weather {\"city\":\"Oslo\"}\nsay: Let me look."}
	for _, stream := range []bool{false, true} {
		keyed := h.Client(t).With("Idempotency-Key", map[bool]string{false: "whole", true: "stream"}[stream])
		asked := body{"model": "gamma-6-luna", "input": []any{question}, "tools": loopTools, "stream": stream}
		r := keyed.Want(200, "POST", responses, asked)
		told := 1
		if stream {
			told = 3 // the item twice, and the whole reply
		}
		if n := strings.Count(string(r.Body), phase); n != told {
			t.Errorf("stream %v: the phase is told %d times: %s", stream, n, r.Body)
		}
		again := keyed.Want(200, "POST", responses, asked)
		if n := strings.Count(string(again.Body), phase); n != told || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("stream %v, again: the phase is told %d times: %s", stream, n, again.Body)
		}
	}
	var reply struct {
		Output []body `json:"output"`
	}
	c := h.Client(t)
	c.Want(200, "POST", responses, body{"model": "gamma-6-luna", "input": []any{question}, "tools": loopTools}).JSON(&reply)
	input := []any{question}
	for _, item := range reply.Output {
		input = append(input, item)
		if item["type"] == "function_call" {
			input = append(input, body{"type": "function_call_output", "call_id": item["call_id"], "output": "4 °C"})
		}
	}
	for model, want := range map[string]int{"gamma-6-luna": 1, "alpha-haiku-4-5": 0} {
		c.Want(200, "POST", responses, body{"model": model, "input": input, "tools": loopTools})
		served := f.Served()
		if n := strings.Count(string(served[len(served)-1].Body), phase); n != want {
			t.Errorf("%s gets the phase %d times: %s", model, n, served[len(served)-1].Body)
		}
	}
	// Callers without tools receive nothing new.
	if r := c.Want(200, "POST", responses, body{"model": "gamma-6-luna", "input": []any{question}}); strings.Contains(string(r.Body), `"phase"`) {
		t.Errorf("without tools: %s", r.Body)
	}
	quiet(t, h)
}

// TestAnAgentSendsThePhaseBack is the same for the steps of an agent.
func TestAnAgentSendsThePhaseBack(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"model": "gamma-6-luna"})
	a.file("a.md", "The stoa opens at dawn.\n")
	_, path := a.begin(t, "phase: commentary\ncall: drive_list {}\nsay: Let me look.", nil)
	s := a.until(t, path, "completed")
	served := f.Served()
	if last := string(served[len(served)-1].Body); s.Usage.Steps != 2 || strings.Count(last, `"content":"Let me look.","phase":"commentary"`) != 1 {
		t.Errorf("%d steps; the last gets %s", s.Usage.Steps, last)
	}
}
