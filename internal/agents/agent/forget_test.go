package agent_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// TestADeletedAgentIsForgotten deletes an agent with notes about users, and leaves another.
func TestADeletedAgentIsForgotten(t *testing.T) {
	t.Parallel()
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(fakeScript))
	r := h.Service()
	gone, stays := h.Agent(remembers), h.Agent(remembers)
	for _, a := range []stoa.Agent{gone, stays} {
		for i := range 300 {
			note(h, a, fmt.Sprint("user-", i), "one", "x")
		}
	}
	if err := r.DeleteAgent(t.Context(), gone.AccountID, gone.ID); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		var err error
		if more, err = r.RemoveHidden(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{"memories", "memory_notes"} {
		for id, want := range map[string]int{gone.ID: 0, stays.ID: 300} {
			n := -1
			h.Write(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Get(ctx, `SELECT COUNT(*) FROM `+table+` WHERE agent_id = $1`, []any{id}, &n)
				return err
			})
			if n != want {
				t.Errorf("%s has %d rows, want %d", table, n, want)
			}
		}
	}
}

// TestAnErasedUserIsNotRemembered begins an erasure while a session of the user runs: what the session writes then is refused, so that the
// next session of the same id, which stays, begins without notes.
func TestAnErasedUserIsNotRemembered(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		begun, goOn := make(chan struct{}), make(chan struct{})
		var results []stoa.ToolResult
		script := toolbox(&results, keep("1", "diet", "no nuts"))
		h := sessiontest.Build(t, home, sessiontest.Script(func(ctx context.Context, m stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
			if strings.HasPrefix(call.Messages[len(call.Messages)-1].Text(), "wait") {
				begun <- struct{}{}
				<-goOn
			}
			script(ctx, m, call, yield)
		}))
		a, r := h.Agent(remembers), h.Service()
		sessiontest.Run(t, r)
		note(h, a, "ada", "name", "Ada")
		note(h, a, "grace", "name", "Grace")
		erase := func() {
			h.Write(func(ctx context.Context, tx *store.Tx) error {
				if _, err := tx.Work().EraseMemories(ctx, a.AccountID, "ada"); err != nil {
					return err
				}
				_, err := tx.Operations().InsertErasure(ctx, stoa.Erasure{AccountID: a.AccountID, Kind: stoa.EraseEndUser, Target: a.AccountID, Subject: "ada"})
				return err
			})
		}
		other := h.Begin(r, a, "wait", of("grace"))
		<-begun
		erase()
		goOn <- struct{}{}
		h.Until(r, other, stoa.SessionCompleted)
		if got := notesOf(h, a, "grace"); len(got) != 2 || len(notesOf(h, a, "ada")) != 0 {
			t.Errorf("of another user it remembers %v", got)
		}
		h.Until(r, h.Begin(r, a, "go", of("ada")), stoa.SessionCompleted) // it is new
		if got := notesOf(h, a, "ada"); len(got) != 1 || results[0].IsError {
			t.Errorf("a session after the erasure has written %v: %+v", got, results)
		}
		h.Write(func(ctx context.Context, tx *store.Tx) error { // the erasure is completed
			_, err := tx.Exec(ctx, `UPDATE erasures SET completed_at = 1`)
			return err
		})
		s := h.Begin(r, a, "wait", of("ada"))
		<-begun
		erase()
		goOn <- struct{}{}
		h.Until(r, s, stoa.SessionCompleted)
		if got := notesOf(h, a, "ada"); len(got) != 0 || !results[0].IsError || !strings.Contains(results[0].Content, "is being erased. Nothing was written.") {
			t.Errorf("a session that was running has written %v: %+v", got, results)
		}
	})
}

// TestWritersOfANoteDoNotExceedTheLimits has several writers of one memory at the same time.
func TestWritersOfANoteDoNotExceedTheLimits(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := sessiontest.Build(t, home, sessiontest.Script(fakeScript))
		a := h.Agent(remembers)
		o := stoa.MemoryOwner{AccountID: a.AccountID, AgentID: a.ID, UserID: "ada"}
		var all sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		for w := range 8 {
			all.Go(func() {
				for i := range 10 {
					err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
						_, err := tx.Work().PutMemoryNote(t.Context(), o, fmt.Sprintf("n%d-%d", w%4, i), strings.Repeat("x", 7_000+w)) // two writers for each name
						return err
					})
					if stoa.CodeOf(err) == stoa.CodeLimitReached {
						mu.Lock()
						refused++
						mu.Unlock()
					} else if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		size := 0
		for name, text := range notesOf(h, a, "ada") {
			size += len(name) + len(text)
		}
		if refused == 0 || size > stoa.MaxMemoryBytes || size < stoa.MaxMemoryBytes-8_000 {
			t.Errorf("%d bytes are written, and %d writes refused", size, refused)
		}
	})
}

// TestAMemoryThatIsOffIsNotShown moves a session to a version of its agent without a memory, and back.
func TestAMemoryThatIsOffIsNotShown(t *testing.T) {
	t.Parallel()
	h, vendor := onVendor(t, "messages")
	a := h.Agent(remembers, func(a *stoa.Agent) { a.Model = vendors["messages"].model })
	r := h.Service()
	sessiontest.Run(t, r)
	note(h, a, "ada", "diet", "no nuts")
	s := h.Until(r, h.Begin(r, a, "say: one", of("ada")), stoa.SessionCompleted)
	set := func(memory string) {
		t.Helper()
		h.Write(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Setup().EditAgent(ctx, a.AccountID, a.ID, func(a *stoa.Agent) error {
				c := a.CallSettings()
				c.Memory = memory
				a.SetCallSettings(c)
				return nil
			})
			if err == nil {
				_, err = r.Sessions.Upgrade(ctx, tx, h.Caller(), a.ID, s.ID)
			}
			return err
		})
		if _, err := r.Send(t.Context(), h.Caller(), a.ID, s.ID, session.SendRequest{Message: "say: more"}); err != nil {
			t.Fatal(err)
		}
		h.Until(r, s, stoa.SessionCompleted)
	}
	set("")
	set(stoa.MemoryUser)
	var bodies [][]byte
	for _, one := range vendor.Served() {
		bodies = append(bodies, one.Body)
	}
	for i, want := range []bool{true, false, true} {
		if strings.Contains(string(bodies[i]), "no nuts") != want {
			t.Errorf("request %d: %s", i+1, bodies[i])
		}
	}
	checkSent(t, h, r, s, bodies)
}

// TestAForgottenUserLeavesNothing forgets a user while the first note is written: either all of it stays, or nothing.
func TestAForgottenUserLeavesNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := sessiontest.Build(t, home, sessiontest.Script(fakeScript))
		a := h.Agent(remembers)
		for i := range 300 {
			o := stoa.MemoryOwner{AccountID: a.AccountID, AgentID: a.ID, UserID: fmt.Sprint("user-", i)}
			var both sync.WaitGroup
			for _, change := range []func(tx *store.Tx) error{
				func(tx *store.Tx) error {
					_, err := tx.Work().PutMemoryNote(t.Context(), o, "diet", "no nuts")
					return err
				},
				func(tx *store.Tx) error {
					if i%2 == 0 {
						return tx.Work().DeleteMemory(t.Context(), o)
					}
					_, err := tx.Work().EraseMemories(t.Context(), o.AccountID, o.UserID)
					return err
				},
			} {
				both.Go(func() {
					if err := h.Store.Write(t.Context(), change); err != nil {
						t.Error(err)
					}
				})
			}
			both.Wait()
			notesOf(h, a, o.UserID)
		}
	})
}
