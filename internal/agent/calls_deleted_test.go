package agent_test

import (
	"testing"
	"time"

	"stoa/internal/session"
	"stoa/internal/session/sessiontest"
	"stoa/internal/stoa"
	"stoa/internal/store"
	"stoa/internal/store/storetest"
)

// What sessions of a deleted agent wait for is handed to nobody, although their rows are
// removed later.
func TestADeletedAgentsCallsAreNotHandedOut(t *testing.T) {
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
