package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

func TestASessionSearchesItsDriveAndNamesWhatItFound(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := sessiontest.Build(t, home, nil)
		a := h.Agent()
		h.File(a, "docs/prices.md", "# Prices\n\nA ticket to the stoa costs seven drachmas.\n")
		h.File(a, "docs/hours.md", "The stoa opens at dawn.\n")
		r := h.Service()
		sessiontest.Run(t, r)
		s := h.Begin(r, a, "What does a ticket cost?")
		if s.Status != stoa.SessionQueued || s.Turn.Number != 1 {
			t.Errorf("a new session is %s in turn %d", s.Status, s.Turn.Number)
		}
		got := h.Until(r, s, stoa.SessionCompleted)
		if !strings.Contains(got.Reply, "docs/prices.md") || !strings.Contains(got.Reply, "seven drachmas") {
			t.Errorf("the reply is %q", got.Reply)
		}
		if got.Steps != 2 || got.Spent <= 0 || got.ModelServed != "alpha-haiku-4-5" {
			t.Errorf("steps %d, spent %d, served by %q", got.Steps, got.Spent, got.ModelServed)
		}
		var types []string
		for _, e := range h.Events(r, s) {
			types = append(types, e.Type)
		}
		want := []string{
			"session.created", "message.created", "message.completed", "session.status",
			"session.status", "turn.started",
			"step.started", "drive.read", "drive.read", "step.completed",
			"tool.called", "drive.read", "tool.completed",
			"step.started",
		}
		if diff := cmp.Diff(want, types[:min(len(types), len(want))]); diff != "" {
			t.Errorf("the log begins differently (-want +got):\n%s\n%s", diff, h.Log(r, s))
		}
		if diff := cmp.Diff([]string{"message.completed", "step.completed", "session.status"}, types[len(types)-3:]); diff != "" {
			t.Errorf("the log ends differently (-want +got):\n%s", diff)
		}
		sources, err := r.Sources(context.Background(), h.Account.ID, a.ID, s.ID, 1, 1, 1000)
		if err != nil {
			t.Fatal(err)
		}
		via := map[string]string{}
		for _, s := range sources {
			via[s.Path] += s.Via + " "
		}
		if diff := cmp.Diff(map[string]string{"docs/prices.md": "context search ", "docs/hours.md": "context "}, via); diff != "" {
			t.Errorf("sources (-want +got):\n%s", diff)
		}
		h.CheckBooks(r, got)
	})
}

func TestAQuestionIsAskedAndAnswered(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := sessiontest.Build(t, home, nil)
		a, r := h.Agent(), h.Service()
		sessiontest.Run(t, r)
		s := h.Begin(r, a, "ask: Which colour? | red | blue")
		got := h.Until(r, s, stoa.SessionWaiting)
		in := got.Pending
		if in == nil || in.Kind != stoa.InputChoice || in.Prompt != "Which colour?" || len(in.Options) != 2 || !got.Turn.DeadlineAt.IsZero() {
			t.Fatalf("it waits for %+v until %v", in, got.Turn.DeadlineAt)
		}
		ctx := context.Background()
		answer := func(id, choice string) error {
			_, err := r.Answer(ctx, h.Caller(), a.ID, s.ID, session.AnswerRequest{InputID: id, Choice: choice})
			return err
		}
		if code := stoa.CodeOf(answer(in.ID, "green")); code != stoa.CodeInvalidValue {
			t.Errorf("a choice that was not offered is %q", code)
		}
		if err := answer(in.ID, "blue"); err != nil {
			t.Fatal(err)
		}
		if code := stoa.CodeOf(answer(in.ID, "blue")); code != stoa.CodeInputAnswered {
			t.Errorf("a second answer is %q", code)
		}
		got = h.Until(r, s, stoa.SessionCompleted)
		if got.Reply != "You answered: blue" || got.Turn.Number != 1 || got.Turn.Attempt != 1 {
			t.Errorf("turn %d, attempt %d: %q", got.Turn.Number, got.Turn.Attempt, got.Reply)
		}
		h.CheckBooks(r, got)
	})
}
