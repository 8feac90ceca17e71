package scheduler_test

import (
	"context"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// A run that waits for a program of the account has not ended: the overlap policy decides
// about the instants in the meantime. It ends when the program has answered, or when the time
// for that is over.
func TestRunsThatWaitForProgramsHaveNotEnded(t *testing.T) {
	t.Parallel()
	const first, second, third = "03-01 08:01 schedule ", "03-01 08:02 schedule ", "03-01 08:03 schedule "
	for _, tc := range []struct {
		policy       string
		began        int // runs in three minutes
		during, then []string
	}{
		{stoa.OverlapSkip, 1, []string{first + "waiting_for_input", second + "skipped overlap", third + "skipped overlap"}, []string{first + "completed", second + "skipped overlap", third + "skipped overlap"}},
		{stoa.OverlapQueue, 1, []string{first + "waiting_for_input", second + "queued (overlap)", third + "queued (overlap)"}, []string{first + "completed", second + "waiting_for_input", third + "queued (overlap)"}},
		{stoa.OverlapAllow, 3, []string{first + "waiting_for_input", second + "waiting_for_input", third + "waiting_for_input"}, []string{first + "completed", second + "waiting_for_input", third + "waiting_for_input"}},
	} {
		for _, ending := range []stoa.CallOutcome{stoa.OutcomeOK, stoa.OutcomeExpired} {
			t.Run(tc.policy+" "+string(ending), func(t *testing.T) {
				storetest.Each(t, func(t *testing.T, home storetest.Database) {
					d := newDesk(sessiontest.Build(t, home, nil), "2026-03-01T08:00:00Z")
					d.agent = d.Agent(func(a *stoa.Agent) {
						a.Tools = []stoa.AgentTool{{Type: stoa.ToolClient, Name: "refund", Description: "Refunds.", Parameters: `{"type":"object"}`, Effects: stoa.EffectsOnce, TimeoutSeconds: 3600, OnTimeout: stoa.TimeoutTells}}
					})
					task := d.task(minutely, func(t *stoa.ScheduledTask) {
						t.AgentID, t.Mode, t.Message, t.OverlapPolicy = d.agent.ID, stoa.ModeChat, "call: refund {}", tc.policy
					})
					sessiontest.Run(t, d.r)
					wait := func(began int) (s stoa.Session) {
						t.Helper()
						list := d.sessions(task)
						if len(list) != began {
							t.Fatalf("%d sessions began", len(list))
						}
						if s = d.Until(d.r, list[began-1], stoa.SessionWaiting); s.Pending.Kind != stoa.InputToolCall {
							t.Fatalf("it waits for %+v", s.Pending)
						}
						return s
					}
					for minute := range 3 {
						d.clock.add(time.Minute)
						d.tick()
						wait(min(minute+1, tc.began))
					}
					d.want(task, tc.during...)
					s := d.Until(d.r, d.sessions(task)[0], stoa.SessionWaiting)
					if ending == stoa.OutcomeOK {
						give := session.AnswerRequest{InputID: s.Pending.ID, Outputs: []session.Output{{CallID: s.Pending.Calls[0].ID, Text: "done"}}}
						if _, err := d.r.Answer(t.Context(), d.Caller(), d.agent.ID, s.ID, give); err != nil {
							t.Fatal(err)
						}
					} else {
						d.Write(func(ctx context.Context, tx *store.Tx) error { // its hour is over
							for _, q := range []string{`UPDATE tool_calls SET expires_at = 1 WHERE session_id = $1`, `UPDATE inputs SET expires_at = 1 WHERE session_id = $1`, `UPDATE sessions SET due_at = 1 WHERE id = $1`} {
								if _, err := tx.Exec(ctx, q, s.ID); err != nil {
									return err
								}
							}
							return nil
						})
						if err := d.r.Recover(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					d.Until(d.r, s, stoa.SessionCompleted)
					calls, _, err := d.r.SessionCalls(t.Context(), d.Account.ID, d.agent.ID, s.ID, store.Page{Limit: 10})
					if err != nil || len(calls) != 1 || calls[0].Outcome != ending {
						t.Errorf("the calls are %+v, %v", calls, err)
					}
					d.tick()
					if tc.policy == stoa.OverlapQueue {
						wait(2)
					}
					d.want(task, tc.then...)
					d.clock.add(time.Minute)
					d.tick()
					if tc.policy == stoa.OverlapSkip { // and the next instant runs again
						wait(2)
						d.want(task, append(tc.then, "03-01 08:04 schedule waiting_for_input")...)
					}
				})
			})
		}
	}
}
