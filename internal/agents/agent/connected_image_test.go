package agent_test

import (
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// TestAnAgentSeesImagesOfResults has a tool of a server whose result has an image: the requests
// of the turn have it, and another process finds it with the step.
func TestAnAgentSeesImagesOfResults(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		h := sessiontest.Build(t, home, nil)
		f := fakemcp.Start(t)
		c := connect(h, f, "far")
		a, r := h.Agent(using(c)), h.Service()
		sessiontest.Run(t, r)
		got := h.Until(r, h.Begin(r, a, `call: far__read {"order":"photo"}`), stoa.SessionCompleted)
		for _, want := range []string{"before", "(image 1: image/png, 2 × 3 pixels)", "after", "[an image (image/png, 2 × 3 pixels,"} {
			if !strings.Contains(got.Reply, want) {
				t.Errorf("the reply lacks %s: %s", want, got.Reply)
			}
		}
		var steps []stoa.Step
		err := h.Store.Read(t.Context(), func(tx *store.Tx) (err error) {
			steps, err = tx.Work().Steps(t.Context(), got.ID, 1)
			return err
		})
		if err != nil || len(steps) != 2 || len(steps[0].Results) != 1 {
			t.Fatalf("%+v, %v", steps, err)
		}
		want := []stoa.ResultImage{{Step: 1, Type: "image/png", Width: 2, Height: 3, Bytes: steps[0].Results[0].Images[0].Bytes}}
		if got := steps[0].Results[0].Images; !slices.Equal(got, want) {
			t.Errorf("stored are %+v, want %+v", got, want)
		}
		h.CheckBooks(r, got)
	})
}
