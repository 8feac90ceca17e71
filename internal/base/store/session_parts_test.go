package store_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestAStepKeepsItsReasoning writes the reasoning of a step and reads it again, and
// reads a row as older versions wrote it.
func TestAStepKeepsItsReasoning(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		st := home.Open()
		made := func(data string, tokens int64) stoa.State {
			return stoa.State{Wire: "messages", Model: "m", Provider: "fp", Data: data, Tokens: tokens}
		}
		want := []stoa.Segment{{State: made(`{"after":"","block":{"thinking":"h\u0000m"}}`, 7)}, {State: made("two", 0), Text: 3, Calls: 1}, {State: made("", 0), Text: 3, Calls: 1, Phase: "last"}}
		var list []stoa.Step
		err := st.Write(t.Context(), func(tx *store.Tx) error {
			for i, s := range []stoa.Step{{Text: "one", Reasoning: want}, {Text: "two"}, {Text: "three", Reasoning: want}} {
				s.SessionID, s.Turn, s.Number = "ses_1", 1, int64(i+1)
				if err := tx.Work().InsertStep(t.Context(), s); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		err = st.Write(t.Context(), func(tx *store.Tx) error {
			if _, err := tx.Exec(t.Context(), `UPDATE steps SET state_data = '[{"type":"thinking"}]' WHERE session_id = 'ses_1' AND number = 3`); err != nil {
				return err
			}
			var err error
			list, err = tx.Work().Steps(context.Background(), "ses_1", 1)
			return err
		})
		if err != nil || len(list) != 3 {
			t.Fatalf("%d steps, %v", len(list), err)
		}
		if diff := cmp.Diff([][]stoa.Segment{want, nil, nil}, [][]stoa.Segment{list[0].Reasoning, list[1].Reasoning, list[2].Reasoning}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
