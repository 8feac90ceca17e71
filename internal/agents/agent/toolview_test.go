package agent_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// redefine has the server describe a tool in other words, and reads its catalog again.
func redefine(h *sessiontest.Fixture, f *fakemcp.Server, c store.Connection, was, is string) {
	h.T.Helper()
	f.Change(was, is)
	if _, err := h.Tools.Refresh(h.T.Context(), h.Account.ID, c.ID); err != nil {
		h.T.Fatal(err)
	}
}

func enable(h *sessiontest.Fixture, c store.Connection, on bool) {
	h.T.Helper()
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Setup().EditConnection(ctx, c.AccountID, c.ID, func(c *store.Connection) error { c.Disabled = !on; return nil })
		return err
	})
}

// TestToolsStayAsASessionBeganWithThem changes, withholds and approves a tool between the turns of a session: the definitions in its calls
// stay as they were, each change is told once, a withheld tool is refused with the reason, and no receipt names a broken prefix. A new tool
// is added at the end, which a receipt says.
func TestToolsStayAsASessionBeganWithThem(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var calls []stoa.Call
		var notes [][]string
		answered := ""
		h := sessiontest.Build(t, home, sessiontest.Script(func(ctx context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
			calls, notes = append(calls, call), append(notes, toolNotes(ctx))
			yield(&stoa.Event{Kind: stoa.Started, Provider: "test"}, nil)
			call.Trail.MarkedBy = stoa.MarkedByVendor
			stop, last := stoa.StopEnd, call.Messages[len(call.Messages)-1]
			if results := sessiontest.Results(last); len(results) > 0 {
				answered = results[0].Content
			} else if name, arguments, ok := strings.Cut(last.Text(), " "); ok {
				stop = stoa.StopToolCalls
				yield(&stoa.Event{Kind: stoa.Called, Call: stoa.ToolCall{ID: fmt.Sprint("c", len(calls)), Name: name, Arguments: arguments}}, nil)
			}
			yield(&stoa.Event{Kind: stoa.Finished, Stop: stop, HasUsage: true, Usage: stoa.Usage{InputTokens: 5_000, CachedTokens: 4_000, OutputTokens: 2}}, nil)
		}))
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		later := connect(h, fakemcp.Start(t), "later")
		enable(h, later, false)
		a, r := h.Agent(using(c, later)), h.Service()
		stop := sessiontest.Run(t, r)
		s := h.Until(r, h.Begin(r, a, "hello"), stoa.SessionCompleted)
		say := func(message string) []string {
			t.Helper()
			if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: message}); err != nil {
				t.Fatal(err)
			}
			h.Until(r, s, stoa.SessionCompleted)
			return notes[len(notes)-1]
		}
		same := func(what string, notes []string, want ...string) {
			t.Helper()
			if !gocmp.Equal(calls[len(calls)-1].Tools, calls[0].Tools) {
				t.Errorf("%s: the tools differ: %+v", what, calls[len(calls)-1].Tools)
			}
			if len(notes) != len(want) {
				t.Fatalf("%s: the notes are %q", what, notes)
			}
			for i, text := range want {
				if !strings.Contains(notes[i], text) {
					t.Errorf("%s: note %d is %q, want %q", what, i+1, notes[i], text)
				}
			}
		}
		same("nothing has changed", say("far__read {}"))
		redefine(h, f, c, "Reads.", "Reads anew.")
		same("changed", say("far__read {}"), "far__read: The definition of the tool has changed, and the new one is not approved.")
		if !strings.Contains(answered, "not approved. Nothing was done") {
			t.Errorf("a call of a withheld tool was answered %q", answered)
		}
		approve(h, c, "never")
		before := len(f.Calls())
		same("approved", say("far__read {}"), "not approved", "far__read: It is available with this definition, which replaces the one before: Reads anew.")
		if len(f.Calls()) != before+1 {
			t.Errorf("the approved tool answered %q after %d calls", answered, len(f.Calls())-before)
		}
		stop()
		r = h.Service()
		sessiontest.Run(t, r)
		redefine(h, f, c, "Reads anew.", "Reads.")
		approve(h, c, "never")
		same("as it was", say("hello"), "not approved", "Reads anew.", "far__read: It is available as defined at the beginning.")
		enable(h, c, false)
		if last := say("hello"); len(last) != 4 || strings.Count(last[3], "The connection of the tool is switched off.") != 4 {
			t.Errorf("switched off: %q", last)
		}
		if call := calls[len(calls)-1]; strings.Contains(call.Instructions, "no network") {
			t.Error("the instructions say that there is no network")
		}
		enable(h, c, true)
		enable(h, later, true)
		say("hello")
		if got := calls[len(calls)-1].Tools; len(got) <= len(calls[0].Tools) || !gocmp.Equal(got[:len(calls[0].Tools)], calls[0].Tools) || got[len(got)-1].Name != "later__echo" {
			t.Errorf("with a new tool the tools are %+v", got)
		}
		var broke []stoa.Broke
		list, _, err := r.Receipts(t.Context(), h.Account.ID, a.ID, s.ID, store.Page{Limit: 100, Asc: true})
		for _, c := range list {
			broke = append(broke, c.Broke)
		}
		if want := append(make([]stoa.Broke, len(list)-1), stoa.BrokeTools); err != nil || !slices.Equal(broke, want) {
			t.Errorf("receipts say %q, %v", broke, err)
		}
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			n := 0
			_, err := tx.Get(ctx, `SELECT COUNT(*) FROM tool_lists WHERE agent_id = $1`, []any{a.ID}, &n)
			if n != 2 {
				t.Errorf("%d lists of tools are stored", n)
			}
			return err
		})
	})
}

// TestFormerToolsDoNotFillThePrompt offers one connection after another, whose definitions are as large as an agent's can be together: calls
// do not keep the definitions of all.
func TestFormerToolsDoNotFillThePrompt(t *testing.T) {
	t.Parallel()
	var calls []stoa.Call
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		calls = append(calls, call)
		sessiontest.Say(yield, "done")
	}))
	var list []store.Connection
	for i := range 4 {
		f := fakemcp.Start(t)
		f.Change(`"properties":{`, fmt.Sprintf(`"properties":{"long":{"enum":[%q]},`, strings.Repeat("x", 10_000)))
		list = append(list, connect(h, f, fmt.Sprint("far", i)))
		enable(h, list[i], i == 0)
	}
	a, r := h.Agent(using(list...)), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "hello"), stoa.SessionCompleted)
	for i := range list[1:] {
		enable(h, list[i], false)
		enable(h, list[i+1], true)
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "hello"}); err != nil {
			t.Fatal(err)
		}
		h.Until(r, s, stoa.SessionCompleted)
	}
	for i, c := range calls {
		if n := (stoa.Call{Tools: c.Tools}).EstimateInput(); n < 10_000 || n > 20_000 {
			t.Errorf("the %d tools of call %d have %d tokens", len(c.Tools), i+1, n)
		}
	}
	if last := calls[len(calls)-1].Tools; !slices.ContainsFunc(last, func(t stoa.Tool) bool { return t.Name == "far3__read" }) {
		t.Errorf("the last call has not the new tools: %+v", last)
	}
}

// toolNotes returns the notes about tools in the call that a script answers.
func toolNotes(ctx context.Context) (list []string) {
	for _, text := range sessiontest.Notes(ctx) {
		if strings.HasPrefix(text, stoa.ToolsNote) {
			list = append(list, text)
		}
	}
	return list
}

// TestAToolMayChangeWhileATurnWaits approves another definition while a call waits for a person: the note follows the results of the step,
// and stays there in later turns.
func TestAToolMayChangeWhileATurnWaits(t *testing.T) {
	t.Parallel()
	for name, tt := range vendors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, vendor := onVendor(t, name)
			f := fakemcp.Start(t)
			c := connect(h, f, "far")
			approve(h, c, stoa.ApprovalAlways)
			a, r := h.Agent(using(c), func(a *stoa.Agent) { a.Model = tt.model }), h.Service()
			sessiontest.Run(t, r)
			s := h.Until(r, h.Begin(r, a, "call: far__act {\"key\":\"a\",\"text\":\"x\"}\nsay: done"), stoa.SessionWaiting)
			redefine(h, f, c, "Reads.", "Reads anew.")
			decideAll(h, r, s, "approve")
			s = h.Until(r, s, stoa.SessionCompleted)
			approve(h, c, "never")
			for range 2 {
				if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "say: again"}); err != nil {
					t.Fatal(err)
				}
				s = h.Until(r, s, stoa.SessionCompleted)
			}
			checkAccepted(t, vendor)
			served := vendor.Served()
			checkPrefixes(t, served)
			var bodies [][]byte
			for _, one := range served {
				bodies = append(bodies, one.Body)
			}
			if last := string(bodies[len(bodies)-1]); strings.Count(last, "is not approved.") != 1 || strings.Count(last, "Reads anew.") != 1 {
				t.Errorf("the last request is %s", last)
			}
			checkSent(t, h, r, s, bodies)
		})
	}
}

// TestRandomToolsKeepThePrefix has random sessions whose tools are changed, approved, switched off and on between their turns and while they
// wait: every request begins with the one before, and can be shown as it was sent.
func TestRandomToolsKeepThePrefix(t *testing.T) {
	t.Parallel()
	for name, tt := range vendors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, vendor := onVendor(t, name)
			random := rand.New(rand.NewPCG(uint64(len(name)), 77))
			f := fakemcp.Start(t)
			names := crowd(f, 40)
			c := connect(h, f, "far")
			texts := []string{"Reads.", "Reads a key.", "Reads what is there.", "Reads on."}
			now, on := 0, true
			change := func() {
				switch n := random.IntN(5); {
				case n < 2 && on:
					was := now
					now = random.IntN(len(texts))
					redefine(h, f, c, fmt.Sprintf("%q", texts[was]), fmt.Sprintf("%q", texts[now]))
				case n == 2:
					approve(h, c, []string{stoa.ApprovalAlways, stoa.ApprovalNever}[random.IntN(2)])
				case n == 3:
					on = !on
					enable(h, c, on)
				}
			}
			restore := func() { // so that the next session begins with all tools
				if on = true; now != 0 {
					enable(h, c, true)
					redefine(h, f, c, fmt.Sprintf("%q", texts[now]), fmt.Sprintf("%q", texts[0]))
					now = 0
				}
				enable(h, c, true)
				approve(h, c, stoa.ApprovalNever)
			}
			r := h.Service()
			stop := sessiontest.Run(t, r)
			orders := []string{"call: far__read {\"key\":\"a\"}", "call: far__put {\"key\":\"b\"}", "call: far__read {\"none\":1}", "call: drive_list {}", "think: 40", "call: ask_user {\"question\":\"Sure?\"}", "call: nonsense {}"}
			for n := range *prefixSessions / len(vendors) {
				restore()
				access, orders := using(c), orders
				if n%2 == 1 {
					access, orders = searching(c, names), append(slices.Clone(orders), findOrders...)
				}
				a := h.Agent(access, func(a *stoa.Agent) { a.Model, a.DriveAccess, a.Limits.MaxSteps = tt.model, stoa.DriveReadWrite, 12 })
				before := len(vendor.Served())
				var s stoa.Session
				for turn := range 3 + random.IntN(4) {
					if turn > 0 {
						change()
						if !on && random.IntN(2) == 0 {
							enable(h, c, true)
							on = true
						}
					}
					message := ""
					for range random.IntN(3) {
						message += orders[random.IntN(len(orders))] + "\n"
					}
					message += fmt.Sprintf("say: turn %d", turn)
					if turn > 0 && random.IntN(6) == 0 {
						stop()
						r = h.Service()
						stop = sessiontest.Run(t, r)
					}
					if turn == 0 {
						s = h.Begin(r, a, message)
					} else if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: message}); err != nil {
						t.Fatal(err)
					}
					for {
						if s = h.Stopped(r, s); s.Status != stoa.SessionWaiting {
							break
						}
						change()
						if s.Pending.Kind == stoa.InputToolApproval {
							decideAll(h, r, s, []string{"approve", "reject"}[random.IntN(2)])
						} else if _, err := r.Answer(t.Context(), h.Caller(), a.ID, s.ID, session.AnswerRequest{InputID: s.Pending.ID, Answer: "yes"}); err != nil {
							t.Fatal(err)
						}
					}
					if s.Status != stoa.SessionCompleted {
						t.Fatalf("session %d is %s\n%s", n, s.Status, h.Log(r, s))
					}
				}
				served := vendor.Served()[before:]
				checkPrefixes(t, served)
				var bodies [][]byte
				for _, one := range served {
					bodies = append(bodies, one.Body)
				}
				checkSent(t, h, r, s, bodies)
			}
			checkAccepted(t, vendor)
		})
	}
}
