package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/session"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

func TestTheDefaultSpaceIsMadeOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := sessiontest.Build(t, home, nil)
		ids := make([]string, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				err := h.Store.Write(context.Background(), func(tx *store.Tx) error {
					s, err := tx.Setup().DefaultSpace(context.Background(), h.Account.ID)
					ids[i] = s.ID
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for _, id := range ids {
			if id != ids[0] {
				t.Fatalf("there are several: %v", ids)
			}
		}
	})
}

func TestAnAgentsVersionsAreFrozen(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := sessiontest.Build(t, home, nil)
		a := h.Agent(func(a *stoa.Agent) { a.ExternalID = "mine" })
		edit := func(fn func(*stoa.Agent)) (got stoa.Agent) {
			t.Helper()
			h.Write(func(ctx context.Context, tx *store.Tx) (err error) {
				got, err = tx.Setup().EditAgent(ctx, h.Account.ID, a.ID, func(a *stoa.Agent) error { fn(a); return nil })
				return err
			})
			return got
		}
		if got := edit(func(a *stoa.Agent) { a.Name = "renamed" }); got.Version != 1 || got.Revision != 2 {
			t.Errorf("a new name makes version %d, revision %d", got.Version, got.Revision)
		}
		edit(func(a *stoa.Agent) { a.Instructions = "two" })
		edit(func(a *stoa.Agent) { a.Model = "auto" })
		edit(func(a *stoa.Agent) { a.Limits.MaxSteps = 3 })
		if got := edit(func(a *stoa.Agent) { a.DriveAccess = stoa.DriveReadWrite }); got.Version != 5 {
			t.Errorf("version %d", got.Version)
		}
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			got, err := tx.Setup().RollbackAgent(ctx, h.Account.ID, a.ID, 2)
			if err != nil {
				return err
			}
			if got.Version != 6 || got.Instructions != "two" || got.Model != a.Model || got.Limits.MaxSteps != 0 || got.Name != "renamed" {
				t.Errorf("rolled back to %+v", got)
			}
			list, more, err := tx.Setup().AgentVersions(ctx, h.Account.ID, a.ID, 0, 4, false)
			if err != nil || !more || len(list) != 4 || list[0].Version != 6 {
				t.Errorf("%d versions, more %v, %v", len(list), more, err)
			}
			rest, more, err := tx.Setup().AgentVersions(ctx, h.Account.ID, a.ID, list[3].Version, 4, false)
			if err != nil || more || len(rest) != 2 || rest[1].Instructions != "Be brief." {
				t.Errorf("%d more versions, %v, %v", len(rest), more, err)
			}
			twin, err := tx.Setup().DuplicateAgent(ctx, h.Account.ID, a.ID, "twin", "")
			if err != nil || twin.Version != 1 || twin.Instructions != "two" || twin.ExternalID != "" || twin.ID == a.ID {
				t.Errorf("the twin is %+v, %v", twin, err)
			}
			if _, err := tx.Setup().Agent(ctx, "acc_other", a.ID); stoa.CodeOf(err) != stoa.CodeAgentNotFound {
				t.Errorf("another account: %v", err)
			}
			if _, err := tx.Setup().RollbackAgent(ctx, h.Account.ID, a.ID, 99); stoa.CodeOf(err) != stoa.CodeNotFound {
				t.Errorf("a version that is not there: %v", err)
			}
			_, err = tx.Setup().InsertAgent(ctx, stoa.Agent{AccountID: h.Account.ID, SpaceID: a.SpaceID, Name: "x", ExternalID: "mine"})
			if stoa.CodeOf(err) != stoa.CodeConflict {
				t.Errorf("an external id twice: %v", err)
			}
			return nil
		})
		refused := errors.New("not the one you saw")
		err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Setup().EditAgent(t.Context(), h.Account.ID, a.ID, func(*stoa.Agent) error { return refused })
			return err
		})
		if !errors.Is(err, refused) {
			t.Errorf("got %v", err)
		}
	})
}

func TestASessionPinsTheVersionItStartedWith(t *testing.T) {
	t.Parallel()
	var told []string
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		told = append(told, strings.SplitN(call.Instructions, "\n", 2)[0])
		sessiontest.Say(yield, "yes")
	}))
	a, r := h.Agent(), h.Service()
	s := h.Begin(r, a, "hello")
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Setup().EditAgent(ctx, h.Account.ID, a.ID, func(a *stoa.Agent) error { a.Instructions = "Be long."; return nil })
		return err
	})
	sessiontest.Run(t, r)
	h.Until(r, s, stoa.SessionCompleted)
	h.Until(r, h.Begin(r, a, "hello"), stoa.SessionCompleted)
	if diff := cmp.Diff([]string{"Be brief.", "Be long."}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestADeletedAgentTakesItsSessionsAlong(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		begun := make(chan string)
		h := sessiontest.Build(t, home, sessiontest.Blocking(begun, nil))
		a := h.Agent(func(a *stoa.Agent) { a.ExternalID = "mine" })
		r := h.Service()
		stop := sessiontest.Run(t, r)
		s := h.Begin(r, a, "hello")
		<-begun
		space := a.SpaceID
		if err := r.DeleteSpace(t.Context(), h.Account.ID, space, false); stoa.CodeOf(err) != stoa.CodeSpaceNotEmpty {
			t.Errorf("a space with agents: %v", err)
		}
		for _, want := range []stoa.Code{"", stoa.CodeSpaceNotFound} {
			if err := r.DeleteSpace(t.Context(), h.Account.ID, space, true); stoa.CodeOf(err) != want {
				t.Fatalf("got %v, want %q", err, want)
			}
		}
		select {
		case <-r.RunsChanged(): // the scheduler drops its tasks
		default:
			t.Error("the scheduler does not hear of it")
		}
		if _, err := r.Get(t.Context(), h.Account.ID, a.ID, s.ID); stoa.CodeOf(err) != stoa.CodeAgentNotFound {
			t.Errorf("a session of a deleted agent: %v", err)
		}
		if _, err := r.Start(t.Context(), h.Caller(), session.StartRequest{AgentID: a.ID, Message: "x"}); stoa.CodeOf(err) != stoa.CodeAgentNotFound {
			t.Errorf("start: %v", err)
		}
		// Its worker stops, then the sweep removes everything. Watching shows when that has
		// happened.
		for _, err := range r.Events(t.Context(), session.EventsRequest{AccountID: h.Account.ID, SessionID: s.ID, Follow: true}) {
			if err != nil {
				if stoa.CodeOf(err) != stoa.CodeSessionNotFound {
					t.Error(err)
				}
				break
			}
		}
		h.Agent(func(a *stoa.Agent) { a.ExternalID = "mine" }) // the name is free again
		left := 0
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			left = 0
			for _, table := range []string{"sessions", "turns", "messages", "session_events", "steps"} {
				n := 0
				if _, err := tx.Get(ctx, `SELECT COUNT(*) FROM `+table, nil, &n); err != nil {
					return err
				}
				left += n
			}
			return nil
		})
		if left != 0 {
			t.Errorf("%d rows are left", left)
		}
		stop() // memory is released shortly after the commit
		if b, err := h.Ledger.Balance(t.Context(), h.Account.ID); err != nil || b.Spent == 0 || b.Held != 0 {
			t.Errorf("the receipts are gone: %+v, %v", b, err)
		}
	})
}

func TestListsOfSessionsAreNarrowedAndPaged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := sessiontest.Build(t, home, nil)
		a, r := h.Agent(), h.Service()
		for i := range 7 {
			h.Begin(r, a, "hello", func(req *session.StartRequest) {
				req.ExternalUserID = []string{"ann", "bob"}[i%2]
				req.Title = fmt.Sprint(i)
				if i > 4 {
					req.Trigger = stoa.Trigger{Type: "schedule", ID: "run_1"}
				}
			})
		}
		list := func(f store.SessionFilter) (titles []string) {
			f.AgentID = a.ID
			p := store.Page{Limit: 2}
			for {
				page, next, err := r.List(t.Context(), h.Account.ID, f, p)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range page {
					titles = append(titles, s.Title)
				}
				if p.After = next; next == (store.Cursor{}) {
					return titles
				}
			}
		}
		for name, tt := range map[string]struct {
			f    store.SessionFilter
			want []string
		}{
			"all":             {store.SessionFilter{}, []string{"6", "5", "4", "3", "2", "1", "0"}},
			"of a user":       {store.SessionFilter{ExternalUserID: "bob"}, []string{"5", "3", "1"}},
			"of a schedule":   {store.SessionFilter{TriggerType: "schedule"}, []string{"6", "5"}},
			"queued":          {store.SessionFilter{Status: stoa.SessionQueued, ExternalUserID: "ann"}, []string{"6", "4", "2", "0"}},
			"of nobody":       {store.SessionFilter{ExternalUserID: "eve"}, nil},
			"that run":        {store.SessionFilter{Status: stoa.SessionRunning}, nil},
			"by its own name": {store.SessionFilter{ExternalID: "none"}, nil},
		} {
			if diff := cmp.Diff(tt.want, list(tt.f)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

func TestNoAccountWaitsForAnothersQueue(t *testing.T) {
	t.Parallel()
	called, goOn := make(chan string, 100), make(chan struct{})
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		called <- call.Messages[0].Text()
		<-goOn
		sessiontest.Say(yield, "yes")
	}))
	first := h.Account
	a := h.Agent()
	second := storetest.Account(t, h.Store, stoa.Credit)
	h.Account = second
	b := h.Agent()
	r := h.Service(func(c *sessiontest.Config) { c.Workers = 4; c.Limits.Queued = 100 })
	h.Account = first
	for range 50 {
		h.Begin(r, a, "many")
	}
	h.Account = second
	var last stoa.Session
	for range 2 {
		last = h.Begin(r, b, "few")
	}
	sessiontest.Run(t, r)
	first4 := []string{<-called, <-called, <-called, <-called} // no more than four run
	close(goOn)
	h.Until(r, last, stoa.SessionCompleted)
	slices.Sort(first4)
	if diff := cmp.Diff([]string{"few", "few", "many", "many"}, first4); diff != "" {
		t.Errorf("the first four (-want +got):\n%s", diff)
	}
}

func TestAnExportTellsAllThatWasSaid(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), nil)
	a, r := h.Agent(), h.Service()
	h.File(a, "docs/prices.md", "A ticket costs seven drachmas.\n")
	sessiontest.Run(t, r)
	s := h.Begin(r, a, "What does a ticket cost?", func(req *session.StartRequest) { req.Title = "Tickets" })
	h.Until(r, s, stoa.SessionCompleted)
	var out bytes.Buffer
	if err := r.Export(t.Context(), h.Account.ID, a.ID, s.ID, session.ExportJSONL, &out); err != nil {
		t.Fatal(err)
	}
	var types []string
	for line := range strings.Lines(out.String()) {
		var v struct {
			Type string `json:"type"`
		}
		if err := jsonx.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		types = append(types, v.Type)
	}
	if diff := cmp.Diff([]string{"session", "message", "message", "tool", "source", "source", "receipt", "receipt"}, types); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out.Reset()
	if err := r.Export(t.Context(), h.Account.ID, a.ID, s.ID, session.ExportMarkdown, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Tickets\n", "## User\n\nWhat does a ticket cost?", "## Agent\n\n", "seven drachmas", "- source: docs/prices.md (search, lines 1)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
	if err := r.Export(t.Context(), h.Account.ID, a.ID, s.ID, "pdf", &out); stoa.CodeOf(err) != stoa.CodeInvalidValue {
		t.Errorf("an unknown format: %v", err)
	}
}

func TestAGatedModelFallsBackAndTheSessionSaysSo(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), nil)
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		h.Account.Plan = "free"
		return tx.Books().UpdateAccount(ctx, h.Account)
	})
	a, r := h.Agent(func(a *stoa.Agent) { a.Model = "alpha-opus-5-5" }), h.Service()
	sessiontest.Run(t, r)
	got := h.Until(r, h.Begin(r, a, "say: hi"), stoa.SessionCompleted)
	if got.ModelAsked != "alpha-opus-5-5" || got.ModelServed == "alpha-opus-5-5" || got.ModelServed == "" || !got.Fallback {
		t.Errorf("asked %q, served %q, fallback %v", got.ModelAsked, got.ModelServed, got.Fallback)
	}
}

// The default cap ends a turn if neither agent nor session sets one. Their caps override it
// and may be higher.
func TestATurnWithoutACapHasTheDefault(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), nil)
	r := h.Service(func(cfg *sessiontest.Config) { cfg.Limits.TurnCredits = 5_000 })
	sessiontest.Run(t, r)
	work := func(a *stoa.Agent) { a.DriveAccess = stoa.DriveReadWrite }
	a := h.Agent(work)
	got := h.Until(r, h.Begin(r, a, "repeat\ncall: drive_list {}"), stoa.SessionFailed)
	if got.Turn.Failure.Code != session.CodeCreditLimit || got.Spent > 5_000 || got.Steps == 0 {
		t.Errorf("%+v after %d steps and %d", got.Turn.Failure, got.Steps, got.Spent)
	}
	higher := stoa.TurnLimits{MaxCredits: stoa.Credit, MaxSteps: 20}
	own := h.Agent(work, func(a *stoa.Agent) { a.Limits = higher })
	for name, s := range map[string]stoa.Session{
		"the agent's":   h.Begin(r, own, "repeat\ncall: drive_list {}"),
		"the session's": h.Begin(r, a, "repeat\ncall: drive_list {}", func(req *session.StartRequest) { req.Limits = higher }),
	} {
		if got := h.Until(r, s, stoa.SessionFailed); got.Turn.Failure.Code != session.CodeStepLimit || got.Spent <= 5_000 {
			t.Errorf("with %s cap: %+v after %d", name, got.Turn.Failure, got.Spent)
		}
	}
}

func TestLimitsOfATurnEndIt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits stoa.TurnLimits
		code   stoa.Code
		steps  int
	}{
		"steps":   {stoa.TurnLimits{MaxSteps: 3}, "step_limit_reached", 3},
		"credits": {stoa.TurnLimits{MaxCredits: 5_000}, "credit_limit_reached", -1},
	} {
		t.Run(name, func(t *testing.T) {
			h := sessiontest.Build(t, storetest.New(t), nil)
			a, r := h.Agent(func(a *stoa.Agent) { a.DriveAccess = stoa.DriveReadWrite }), h.Service()
			sessiontest.Run(t, r)
			s := h.Begin(r, a, "repeat\ncall: drive_list {}", func(req *session.StartRequest) { req.Limits = tt.limits })
			got := h.Until(r, s, stoa.SessionFailed)
			if got.Turn.Failure.Code != tt.code || tt.steps >= 0 && got.Steps != tt.steps {
				t.Errorf("%+v after %d steps", got.Turn.Failure, got.Steps)
			}
			if tt.limits.MaxCredits > 0 && (got.Spent > tt.limits.MaxCredits || got.Steps == 0) {
				t.Errorf("spent %d of %d in %d steps", got.Spent, tt.limits.MaxCredits, got.Steps)
			}
			h.CheckBooks(r, got)
		})
	}
}
