package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// TestAgentsKnowTheTime checks the note about the time: in the zone of the agent or the task,
// unchanged in later turns, with the instant of a run.
func TestAgentsKnowTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // it begins at midnight of 1 January 2000 in UTC
		told := make(chan []string, 1)
		said := make(chan string, 1)
		h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Script(func(ctx context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
			told <- sessiontest.Notes(ctx)
			said <- call.Messages[len(call.Messages)-1].Text()
			sessiontest.Say(yield, "yes")
		}))
		a := h.Agent(func(a *stoa.Agent) { a.Timezone = "Asia/Kolkata" })
		r := h.Service()
		sessiontest.Run(t, r)
		day := func(n int) { time.Sleep(time.Until(time.Date(2000, 1, n, 0, 0, 0, 0, time.UTC))) }
		check := func(message string, notes ...string) {
			t.Helper()
			if diff := cmp.Diff(notes, <-told); diff != "" {
				t.Errorf("the notes (-want +got):\n%s", diff)
			}
			if got := <-said; got != message {
				t.Errorf("the message is %q, want %q", got, message)
			}
		}
		day(2)
		s := h.Begin(r, a, "hello")
		first := "[It is Sunday, 2 January 2000, 05:30 in Asia/Kolkata (UTC+05:30).]"
		check("hello", first)
		h.Until(r, s, stoa.SessionCompleted)
		day(3)
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "again"}); err != nil {
			t.Fatal(err)
		}
		check("again", first, "[It is Monday, 3 January 2000, 05:30 in Asia/Kolkata (UTC+05:30).]")
		h.Until(r, s, stoa.SessionCompleted)

		run := h.Begin(r, a, "The report of {{date}}, {{time}} ({{scheduledFor}}) {{other}}", func(req *session.StartRequest) {
			req.Timezone, req.ScheduledFor = "America/New_York", time.Date(2000, 1, 2, 14, 0, 0, 0, time.UTC)
		})
		check("The report of 2000-01-02, 09:00 (2000-01-02T09:00:00-05:00) {{other}}",
			"[It is Sunday, 2 January 2000, 19:00 in America/New_York (UTC-05:00). This run was scheduled for Sunday, 2 January 2000, 09:00.]")
		h.Until(r, run, stoa.SessionCompleted)

		visit := h.Begin(r, a, "{{date}}", func(req *session.StartRequest) { req.Timezone = "Nowhere/Else" })
		check("{{date}}", "[It is Monday, 3 January 2000, 05:30 in Asia/Kolkata (UTC+05:30).]")
		h.Until(r, visit, stoa.SessionCompleted)
	})
}

func TestTheSameCallIsMarkedFromTheThirdOn(t *testing.T) {
	t.Parallel()
	var results []string
	h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		if last := sessiontest.Results(call.Messages[len(call.Messages)-1]); len(last) > 0 {
			results = append(results, last[0].Content)
		}
		path := "no.md"
		if len(results) == 1 {
			path = "other.md" // another call between them
		}
		if len(results) == 5 {
			sessiontest.Say(yield, "I give up")
			return
		}
		sessiontest.Say(yield, "", stoa.ToolCall{ID: fmt.Sprint(len(results)), Name: "drive_read", Arguments: fmt.Sprintf(`{"path":%q}`, path)})
	}))
	a, r := h.Agent(func(a *stoa.Agent) { a.DriveAccess = stoa.DriveReadWrite }), h.Service()
	sessiontest.Run(t, r)
	h.Until(r, h.Begin(r, a, "hello"), stoa.SessionCompleted)
	for i, times := range []string{"", "", "", "call 3 with the same arguments", "call 4 with the same arguments"} {
		if got := strings.Contains(results[i], "with the same arguments"); got != (times != "") || !strings.Contains(results[i], times) {
			t.Errorf("result %d is %q", i+1, results[i])
		}
	}
}

// TestTheLastStepAsksForTheAnswer checks that the last step is announced while the tools stay,
// and that its calls are not carried out.
func TestTheLastStepAsksForTheAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits stoa.TurnLimits
		text   string // beside the call of the last step
		status stoa.SessionStatus
		reason string
	}{
		"steps":          {stoa.TurnLimits{MaxSteps: 3}, "what I know", stoa.SessionCompleted, "step_limit_reached"},
		"steps, no text": {stoa.TurnLimits{MaxSteps: 3}, "", stoa.SessionFailed, "step_limit_reached"},
		"credits":        {stoa.TurnLimits{MaxSteps: 40, MaxCredits: 60_000}, "what I know", stoa.SessionCompleted, "credit_limit_reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps, tools := 0, 0
			h := sessiontest.Build(t, storetest.SQLite(t), sessiontest.Script(func(ctx context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
				steps++
				notes := sessiontest.Notes(ctx)
				last := notes[len(notes)-1] == stoa.LastStepNote
				if tools = max(tools, len(call.Tools)); len(call.Tools) != tools {
					t.Errorf("step %d has %d tools, earlier ones had %d", steps, len(call.Tools), tools)
				}
				text := "…"
				if last {
					text = tt.text
				}
				if !yield(&stoa.Event{Kind: stoa.Started, Provider: "test"}, nil) || text != "" && !yield(&stoa.Event{Kind: stoa.Delta, Text: text}, nil) {
					return
				}
				if yield(&stoa.Event{Kind: stoa.Called, Call: stoa.ToolCall{ID: fmt.Sprint(steps), Name: "drive_write", Arguments: fmt.Sprintf(`{"path":"%d.md","content":"x"}`, steps)}}, nil) {
					yield(&stoa.Event{Kind: stoa.Finished, Stop: stoa.StopToolCalls, HasUsage: true, Usage: stoa.Usage{InputTokens: 2_000, OutputTokens: 2_000}}, nil)
				}
			}))
			a, r := h.Agent(func(a *stoa.Agent) { a.DriveAccess, a.Limits = stoa.DriveReadWrite, tt.limits }), h.Service()
			sessiontest.Run(t, r)
			s := h.Until(r, h.Begin(r, a, "hello"), tt.status)
			if s.Reply != tt.text || s.Turn.Reason != tt.reason {
				t.Errorf("the reply is %q, the reason %q", s.Reply, s.Turn.Reason)
			}
			if got := strings.Count(h.Log(r, s), "drive.written"); got != steps-1 || steps < 2 {
				t.Errorf("%d steps have written %d files", steps, got)
			}
			h.CheckBooks(r, s)
		})
	}
}
