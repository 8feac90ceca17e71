package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// Calls that sessions of a deleted agent wait for are not handed out, although their rows are
// removed later.
func TestADeletedAgentsCallsAreNotHandedOut(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results []stoa.ToolResult
		h := sessiontest.Build(t, home, toolbox(&results, order("1")))
		gone, stays, r := h.Agent(withTools()), h.Agent(withTools()), h.Service()
		sessiontest.Run(t, r)
		s := h.Until(r, h.Begin(r, gone, "go"), stoa.SessionWaiting)
		kept := h.Until(r, h.Begin(r, stays, "go"), stoa.SessionWaiting)
		if err := r.DeleteAgent(t.Context(), h.Account.ID, gone.ID); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"", store.AllInputs} {
			list, _, err := r.OpenInputs(t.Context(), h.Account.ID, store.InputFilter{Kind: kind}, store.Page{Limit: 10}, 0)
			if err != nil || len(list) != 1 || list[0].ID != kept.Pending.ID {
				t.Errorf("%q: %+v, %v", kind, list, err)
			}
		}
		if _, err := r.ClaimInput(t.Context(), h.Caller(), session.ClaimRequest{InputID: s.Pending.ID, Lease: time.Minute}); stoa.CodeOf(err) != stoa.CodeNotFound {
			t.Errorf("it is claimed: %v", err)
		}
		if _, err := r.ClaimInput(t.Context(), h.Caller(), session.ClaimRequest{InputID: kept.Pending.ID, Lease: time.Minute}); err != nil {
			t.Error(err)
		}
	})
}

// received adds a webhook for all events, and returns a function that returns the received
// data of one type, each with the following events of the session.
func received(h *sessiontest.Fixture) func(kind string) []string {
	var hook stoa.Webhook
	h.Write(func(ctx context.Context, tx *store.Tx) (err error) {
		hook, err = tx.Operations().InsertWebhook(ctx, stoa.Webhook{AccountID: h.Account.ID, Events: []string{"*"}})
		return err
	})
	return func(kind string) (data []string) {
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			list, _, err := tx.Operations().Deliveries(ctx, h.Account.ID, hook.ID, store.DeliveryFilter{Type: kind}, store.Page{Limit: 500, Asc: true})
			data = nil
			for _, d := range list {
				body, err := tx.Operations().Delivery(ctx, h.Account.ID, hook.ID, d.ID)
				if err != nil {
					return err
				}
				data = append(data, body.Body)
			}
			return err
		})
		return data
	}
}

// countOf returns the number of rows that match a condition.
func countOf(h *sessiontest.Fixture, from string, args ...any) (n int) {
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		n = 0
		_, err := tx.Get(ctx, `SELECT COUNT(*) FROM `+from, args, &n)
		return err
	})
	return n
}

// Waiting sessions end with their agent: the first of them with its deletion, which is one
// transaction, the others before their rows are removed.
func TestWaitingSessionsEndWithTheirAgent(t *testing.T) {
	t.Parallel()
	const first, all = 50, 52
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results []stoa.ToolResult
		h := sessiontest.Build(t, home, toolbox(&results, order("1")))
		a, r := h.Agent(withTools(needsApproval)), h.Service()
		told := received(h)
		stop := sessiontest.Run(t, r)
		waiting := map[string]bool{}
		for range all {
			waiting[h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting).ID] = true
		}
		stop()
		if err := r.DeleteAgent(t.Context(), h.Account.ID, a.ID); err != nil {
			t.Fatal(err)
		}
		if got := told("session.cancelled"); len(got) != first {
			t.Errorf("webhooks are told of %d", len(got))
		}
		for _, from := range []string{`inputs WHERE status = 'cancelled'`, `tool_calls WHERE outcome = 'cancelled'`, `sessions WHERE status = 'cancelled'`, `session_events WHERE data LIKE '%agent_deleted%'`} {
			if n := countOf(h, from); n != first {
				t.Errorf("%s: %d", from, n)
			}
		}
		for more := true; more; {
			var err error
			if more, err = r.RemoveHidden(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := countOf(h, "sessions") + countOf(h, "inputs") + countOf(h, "tool_calls"); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		for _, body := range told("session.cancelled") {
			var e struct {
				Data struct{ SessionID, AgentID, StatusReason string }
			}
			if err := json.Unmarshal([]byte(body), &e); err != nil || !waiting[e.Data.SessionID] || e.Data.AgentID != a.ID || e.Data.StatusReason != "agent_deleted" {
				t.Errorf("%s, %v", body, err)
			}
			delete(waiting, e.Data.SessionID)
		}
		if len(waiting) > 0 {
			t.Errorf("nobody is told of %v", waiting)
		}
	})
}

// A session is deleted while a server has its call, and its worker does not react in time:
// before the row of the call is removed, its unknown outcome is reported.
func TestADeletedSessionTellsOfItsCalls(t *testing.T) {
	t.Parallel()
	for _, name := range []string{fakemcp.Act, fakemcp.Read} {
		t.Run(name, func(t *testing.T) {
			storetest.Each(t, func(t *testing.T, home storetest.Database) {
				var results told
				h := sessiontest.Build(t, home, one(&results))
				f := fakemcp.Start(t)
				a := h.Agent(using(connect(h, f, "far")))
				var log bytes.Buffer
				first, second := h.Service(shared), h.Service(shared, func(c *sessiontest.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				heardOf := received(h)
				stop := sessiontest.Run(t, first)
				s := h.Begin(first, a, name+` {"order":"hold"}`)
				calledTimes(f, name, 1)
				h.Write(func(ctx context.Context, tx *store.Tx) error { // its worker lives but does not react
					if _, err := tx.Exec(ctx, `INSERT INTO runners (id, expires_at, node_id) SELECT 'slow', 0, node_id FROM runners`); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, `UPDATE sessions SET owner = 'slow', fence = fence + 1`)
					return err
				})
				call := callsOf(h, second, s)[0]
				if err := second.Delete(t.Context(), h.Caller(), a.ID, s.ID); err != nil {
					t.Fatal(err)
				}
				f.Release()
				stop()
				if n := countOf(h, "sessions") + countOf(h, "tool_calls"); n != 0 {
					t.Errorf("%d rows are left", n)
				}
				want := 1
				if name == fakemcp.Read { // counts as not carried out
					want = 0
				}
				unknown := heardOf("tool_call.unknown")
				if len(unknown) != want || want > 0 && !strings.Contains(unknown[0], call.ID) {
					t.Errorf("webhooks are told %s", unknown)
				}
				if got := strings.Count(log.String(), `level=WARN msg="a tool call's outcome is unknown" call=`+call.ID); got != want {
					t.Errorf("the log has %s", log.String())
				}
				if got := heardOf("session.cancelled"); len(got) != 1 || !strings.Contains(got[0], s.ID) {
					t.Errorf("webhooks are told %s", got)
				}
			})
		})
	}
}
