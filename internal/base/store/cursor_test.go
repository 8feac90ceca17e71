package store_test

import (
	"math"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// A cursor of these lists is a number from a caller, who may send any value.
func TestANumberForACursorMayBeAny(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, database storetest.Database) {
		st := database.Open()
		a := storetest.Account(t, st, 0)
		var agent stoa.Agent
		if err := st.Write(t.Context(), func(tx *store.Tx) error {
			space, err := tx.Setup().InsertSpace(t.Context(), stoa.Space{AccountID: a.ID, Name: "s"})
			if err != nil {
				return err
			}
			agent, err = tx.Setup().InsertAgent(t.Context(), stoa.Agent{AccountID: a.ID, SpaceID: space.ID, Name: "n", AgentSettings: stoa.AgentSettings{DriveAccess: stoa.DriveReadOnly}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, after := range []int64{0, -1, math.MaxInt32 + 1, math.MaxInt64, math.MinInt64} {
			for _, desc := range []bool{false, true} {
				if err := st.Read(t.Context(), func(tx *store.Tx) error {
					if _, _, err := tx.Work().Messages(t.Context(), "ses_none", after, 10, desc); err != nil {
						return err
					}
					if _, _, err := tx.Work().Turns(t.Context(), "ses_none", after, 10, desc); err != nil {
						return err
					}
					_, _, err := tx.Setup().AgentVersions(t.Context(), a.ID, agent.ID, after, 10, !desc)
					return err
				}); err != nil {
					t.Errorf("after %d, descending %v: %v", after, desc, err)
				}
			}
		}
	})
}
