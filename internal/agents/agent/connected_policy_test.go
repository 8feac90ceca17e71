package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// reviewed approves one tool of a connection with its suggested settings, modified by change.
func reviewed(h *sessiontest.Fixture, c store.Connection, name string, change func(*tool.Decision)) {
	h.T.Helper()
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Setup().NamedTools(ctx, c.AccountID, c.ID, []string{name})
		if err != nil {
			return err
		}
		d := tool.Decision{Name: name, SHA256: rows[0].SHA256, Approve: true, Approval: stoa.ApprovalNever, Effects: effectsOf[name]}
		change(&d)
		return tool.Review(ctx, tx, c.AccountID, c.ID, []tool.Decision{d})
	})
}

// failing configures all tools so that the turn fails if it is unknown whether a call was
// carried out.
func failing(h *sessiontest.Fixture, c store.Connection, approval string) {
	h.T.Helper()
	for _, name := range []string{fakemcp.Read, fakemcp.Put, fakemcp.Act} {
		reviewed(h, c, name, func(d *tool.Decision) { d.OnUnknown, d.Approval = stoa.UnknownFails, approval })
	}
}

// lines contains the lines written to a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const toolUnknown stoa.Code = "tool_outcome_unknown"

// failedWith waits until the turn of a session has failed with the given code, and returns
// its session and its first call.
func failedWith(h *sessiontest.Fixture, r *sessiontest.Service, s stoa.Session, code stoa.Code, outcome stoa.CallOutcome) (stoa.Session, stoa.ExternalCall) {
	h.T.Helper()
	got := h.Until(r, s, stoa.SessionFailed)
	if got.Turn.Failure == nil || got.Turn.Failure.Code != code || got.Turn.Reason != string(code) {
		h.T.Errorf("the turn failed with %+v, reason %s, want %s", got.Turn.Failure, got.Turn.Reason, code)
	}
	row := callsOf(h, r, got)[0]
	if row.Status != stoa.CallDone || row.Outcome != outcome {
		h.T.Errorf("the call is %+v, want the outcome %s", row, outcome)
	}
	h.CheckBooks(r, got)
	return got, row
}

// decideAll approves or rejects all calls that a session waits for.
func decideAll(h *sessiontest.Fixture, r *sessiontest.Service, s stoa.Session, decision string) {
	h.T.Helper()
	caller := h.Caller()
	caller.Key.Scopes = []string{session.ScopeApprovals}
	if _, err := r.Answer(h.T.Context(), caller, s.AgentID, s.ID, session.AnswerRequest{InputID: s.Pending.ID, Decision: decision}); err != nil {
		h.T.Fatal(err)
	}
}

func TestAnUnknownCallFailsItsTurn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		var log lines
		h := sessiontest.Build(t, home, one(&results))
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		failing(h, c, stoa.ApprovalNever)
		a := h.Agent(using(c))
		r := h.Service(func(c *sessiontest.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		sessiontest.Run(t, r)
		for _, order := range []string{"-32603", "500", "reset"} {
			f.Next("tools/call", order)
			message := `act {"key":"` + order + `"}`
			s, row := failedWith(h, r, h.Begin(r, a, message), toolUnknown, stoa.OutcomeUnknown)
			if !s.Turn.Failure.Retryable || !strings.Contains(s.Turn.Failure.Message, "far__act") || row.Attempts != 1 || f.EffectsByKey()[order] != 1 {
				t.Errorf("%s: %+v after %+v", order, s.Turn.Failure, row)
			}
			if got := results.of(message); got != nil {
				t.Errorf("%s: the model was told %+v", order, got)
			}
			want := `msg="a tool call's outcome is unknown" call=` + row.ID + ` tool=far__act connection=` + c.ID + ` session=` + s.ID + ` outcome=unknown`
			if text := log.String(); !strings.Contains(text, "level=WARN "+want) {
				t.Errorf("%s: the log has no %q:\n%s", order, want, text)
			}
			if _, err := r.Retry(t.Context(), h.Caller(), a.ID, s.ID); stoa.CodeOf(err) != stoa.CodeTurnHadEffects {
				t.Errorf("%s: a retry: %v", order, err)
			}
			h.Write(func(ctx context.Context, tx *store.Tx) error {
				_, err := r.Sessions.Retry(ctx, tx, h.Caller(), a.ID, s.ID, true)
				return err
			})
			h.Until(r, s, stoa.SessionCompleted)
		}
		// A known failure of a call does not fail the turn.
		for _, message := range []string{`act {"order":"422"}`, `act {"order":"error"}`, `read {"order":"422"}`} {
			h.Until(r, h.Begin(r, a, message), stoa.SessionCompleted)
		}
	})
}

// An agent may be stricter than the review. People who must approve the calls are not asked
// again.
func TestAnUnknownCallIsNotAskedAboutIfItFails(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, one(&results))
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		approve(h, c, stoa.ApprovalAlways)
		r := h.Service()
		sessiontest.Run(t, r)
		lax := h.Agent(using(c))
		strict := h.Agent(using(c), func(a *stoa.Agent) {
			a.Tools[0].Stricter = []stoa.Stricter{{Name: fakemcp.Act, OnUnknown: stoa.UnknownFails}}
		})
		for _, a := range []stoa.Agent{lax, strict} {
			f.Next("tools/call", "500")
			s := h.Until(r, h.Begin(r, a, `act {}`), stoa.SessionWaiting)
			decideAll(h, r, s, "approve")
			if a.ID == strict.ID {
				failedWith(h, r, s, toolUnknown, stoa.OutcomeUnknown)
				continue
			}
			if s = h.Until(r, s, stoa.SessionWaiting); s.Pending.Calls[0].PreviousOutcome != stoa.OutcomeUnknown {
				t.Errorf("it waits for %+v", s.Pending)
			}
		}
	})
}

// The next process finds a call that a killed one had begun, possibly after the end of the
// turn's time.
func TestAKilledCallFailsItsTurn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
				var results told
				h := sessiontest.Build(t, home, one(&results))
				f := fakemcp.Start(t)
				c := connect(h, f, "far")
				failing(h, c, stoa.ApprovalNever)
				a := h.Agent(using(c))
				first, second := h.Service(shared), h.Service(shared)
				stop := sessiontest.Run(t, first)
				f.Next("tools/call", "hold")
				s := h.Begin(first, a, `act {"key":"a"}`)
				calledTimes(f, fakemcp.Act, 1)
				h.Write(func(ctx context.Context, tx *store.Tx) error {
					if late {
						if _, err := tx.Exec(ctx, `UPDATE turns SET deadline_at = $1 WHERE session_id = $2`, tx.Now.Add(-time.Second).UnixMicro(), s.ID); err != nil {
							return err
						}
					}
					return endRunners(ctx, tx)
				})
				sessiontest.Run(t, second)
				got, row := failedWith(h, second, s, toolUnknown, stoa.OutcomeUnknown)
				f.Release()
				stop()
				if row.Attempts != 1 || f.EffectsByKey()["a"] != 1 || got.LastSeq != h.Until(second, s, stoa.SessionFailed).LastSeq {
					t.Errorf("%+v after %v", row, f.EffectsByKey())
				}
			})
		}
	})
}

// A process that shuts down, and the end of a turn's time, leave calls with an unknown
// outcome. A cancellation is intended by its caller.
func TestWhatEndsInACallFailsItsTurn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, one(&results))
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		failing(h, c, stoa.ApprovalNever)
		a := h.Agent(using(c))
		begin := func(r *sessiontest.Service, name string, change ...func(*session.StartRequest)) stoa.Session {
			before := len(f.Calls())
			f.Next("tools/call", "hang")
			s := h.Begin(r, a, name+` {}`, change...)
			f.Await(func(calls []fakemcp.Call) bool { return len(calls) > before })
			return s
		}
		first := h.Service(shared, func(c *sessiontest.Config) { c.Grace = -1 })
		stop := sessiontest.Run(t, first)
		s := begin(first, fakemcp.Act)
		stop()
		second := h.Service(shared)
		failedWith(h, second, s, toolUnknown, stoa.OutcomeUnknown)

		sessiontest.Run(t, second)
		soon := func(req *session.StartRequest) { req.Limits.Timeout = 3 * time.Second }
		act, put := begin(second, fakemcp.Act, soon), begin(second, fakemcp.Put, soon)
		failedWith(h, second, act, toolUnknown, stoa.OutcomeUnknown)
		failedWith(h, second, put, toolUnknown, stoa.OutcomeUnknown)

		for _, name := range []string{fakemcp.Act, fakemcp.Put} {
			s = begin(second, name)
			if _, err := second.Cancel(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
				t.Fatal(err)
			}
			got := h.Until(second, s, stoa.SessionCancelled)
			if row := callsOf(h, second, s)[0]; row.Outcome != stoa.OutcomeUnknown || got.Turn.Failure != nil {
				t.Errorf("after a cancel the call is %+v, the failure %+v", row, got.Turn.Failure)
			}
			h.CheckBooks(second, got)
		}
	})
}

// One of several concurrent reads fails permanently: the others end with the turn.
func TestALostReadEndsItsNeighbours(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, callers(&results, func(string) []stoa.ToolCall {
			return []stoa.ToolCall{call("1", fakemcp.Read, `{"key":"a"}`), call("2", fakemcp.Read, `{"key":"b"}`)}
		}))
		f := fakemcp.Start(t)
		c := connect(h, f, "far", func(c *store.Connection) { c.Limits.TimeoutSeconds = 3600 })
		failing(h, c, stoa.ApprovalNever)
		a := h.Agent(using(c))
		first, second := h.Service(shared), h.Service(shared, func(c *sessiontest.Config) { c.Grace = time.Hour })
		stop := sessiontest.Run(t, first)
		f.Next("tools/call", "hold", "hold", "hang", "hang")
		s := h.Begin(first, a, "go", func(req *session.StartRequest) { req.Limits.Timeout = time.Hour })
		calledTimes(f, fakemcp.Read, 2)
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE tool_calls SET lost = 1 WHERE session_id = $1 AND place = 0`, s.ID); err != nil {
				return err
			}
			return endRunners(ctx, tx)
		})
		stopSecond := sessiontest.Run(t, second)
		failedWith(h, second, s, toolUnknown, stoa.OutcomeUnknown)
		stopSecond() // which waits for the requests in progress
		f.Release()
		stop()
		if row := callsOf(h, second, s)[1]; row.Status != stoa.CallDone || row.Outcome != stoa.OutcomeCancelled {
			t.Errorf("its neighbour is %+v", row)
		}
	})
}

// A disabled connection is not called: neither for a turn that begins, nor for a planned
// call, nor between two attempts of one.
func TestADisabledConnectionIsNotAsked(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, one(&results))
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		reviewed(h, c, fakemcp.Act, func(d *tool.Decision) { d.Approval = stoa.ApprovalAlways })
		a, r := h.Agent(using(c)), h.Service()
		sessiontest.Run(t, r)
		enable := func(on bool) {
			h.Write(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Setup().EditConnection(ctx, c.AccountID, c.ID, func(c *store.Connection) error { c.Disabled = !on; return nil })
				return err
			})
		}
		// Between the plan and the intent.
		s := h.Until(r, h.Begin(r, a, `act {}`), stoa.SessionWaiting)
		enable(false)
		decideAll(h, r, s, "approve")
		h.Until(r, s, stoa.SessionCompleted)
		if row := callsOf(h, r, s)[0]; row.Outcome != stoa.OutcomeError || row.ErrorCode != stoa.CodeConnectionDisabled || row.Attempts != 0 || len(f.Calls()) != 0 {
			t.Errorf("the call is %+v after %d requests", row, len(f.Calls()))
		}
		if got := results.of(`act {}`); len(got) != 1 || !got[0].IsError || !strings.Contains(got[0].Content, "switched off; nothing was done") {
			t.Errorf("the model was told %+v", got)
		}
		// Before a turn, and for a manual refresh.
		before := len(f.Requests())
		got := h.Until(r, h.Begin(r, a, `read {}`), stoa.SessionCompleted)
		if len(got.Withheld) != 4 || slices.ContainsFunc(got.Withheld, func(w stoa.Withheld) bool { return w.Reason != stoa.WithheldDisabled }) {
			t.Errorf("withheld are %+v", got.Withheld)
		}
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE connections SET checked_at = 1000000, refresh_at = 0`)
			return err
		})
		if err := h.Tools.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Tools.Refresh(t.Context(), h.Account.ID, c.ID); stoa.CodeOf(err) != stoa.CodeConnectionDisabled {
			t.Errorf("a refresh: %v", err)
		}
		if _, err := h.Tools.Try(t.Context(), h.Account.ID, c.ID, tool.Trial{Tool: fakemcp.Read}); stoa.CodeOf(err) != stoa.CodeConnectionDisabled {
			t.Errorf("a test call: %v", err)
		}
		if n := len(f.Requests()) - before; n != 0 {
			t.Errorf("the server was asked %d times", n)
		}
		// Between two attempts: the first may have been carried out.
		enable(true)
		f.OnCall(func(fakemcp.Call) { enable(false) })
		s = h.Begin(r, a, `put {"order":"500"}`)
		h.Until(r, s, stoa.SessionCompleted)
		if row := callsOf(h, r, s)[0]; row.Outcome != stoa.OutcomeUnknown || row.Attempts != 1 {
			t.Errorf("the call is %+v", row)
		}
		f.OnCall(nil)
		enable(true)
		if got := h.Until(r, h.Begin(r, a, `read {}`), stoa.SessionCompleted); len(got.Withheld) != 0 || len(results.of(`read {}`)) != 1 || results.of(`read {}`)[0].IsError {
			t.Errorf("switched on again: withheld %+v, told %+v", got.Withheld, results.of(`read {}`))
		}
		if err := h.Tools.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			now, err := tx.Setup().Connection(ctx, c.AccountID, c.ID)
			if now.CheckedAt.Year() == 1970 {
				t.Error("it was not refreshed after it was switched on again")
			}
			return err
		})
	})
}
