package store_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/storetest"
)

// TestStepsOfTheLastReleaseAreRead reads the rows of testdata/steps.json, which the
// previous release wrote, and checks the messages that are sent back. The file is never
// rewritten.
func TestStepsOfTheLastReleaseAreRead(t *testing.T) {
	text, err := os.ReadFile("testdata/steps.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Number                                              int64
		Text, Calls, StateWire, StateModel, StateData, Stop string
	}
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	const data = `{"after":"","block":{"type":"thinking","thinking":"hm","signature":"s1"}}`
	want := []string{
		`text "Just a text."`,
		`text "I look." | call c1 drive_read {"path":"a.md"} | call c2 drive_read {"path":"a.md"}`,
		`reasoning messages m fp 7 ` + data + ` | text "one" | reasoning messages m fp 0 second | text "two" | call c3 drive_read {"path":"a.md"} | reasoning messages m fp 3 third | call c4 drive_read {"path":"a.md"} | text "six" last`,
	}
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		st := home.Open()
		var list []stoa.Step
		err := st.Write(t.Context(), func(tx *store.Tx) error {
			for _, r := range rows {
				_, err := tx.Exec(t.Context(), `INSERT INTO steps (session_id, turn, number, text, calls, state_wire, state_model, state_data, stop, created_at)
					VALUES ('ses_1', 1, $1, $2, $3, $4, $5, $6, $7, 1)`, r.Number, r.Text, r.Calls, r.StateWire, r.StateModel, r.StateData, r.Stop)
				if err != nil {
					return err
				}
			}
			var err error
			list, err = tx.Work().Steps(t.Context(), "ses_1", 1)
			return err
		})
		if err != nil || len(list) != len(want) {
			t.Fatalf("%d steps, %v", len(list), err)
		}
		for i := range list {
			if got := sentBack(list[i].Message()); got != want[i] {
				t.Errorf("step %d\n got %s\nwant %s", i+1, got, want[i])
			}
		}
	})
}

// sentBack returns the parts of an assistant's message as text.
func sentBack(m stoa.Message) string {
	var all []string
	for _, p := range m.Parts {
		switch p.Kind {
		case stoa.PartText:
			all = append(all, strings.TrimSpace(fmt.Sprintf("text %q %s", p.Text, p.Phase)))
		case stoa.PartCall:
			all = append(all, "call "+p.Call.ID+" "+p.Call.Name+" "+p.Call.Arguments)
		case stoa.PartReasoning:
			s := p.State
			all = append(all, fmt.Sprintf("reasoning %s %s %s %d %s", s.Wire, s.Model, s.Provider, s.Tokens, s.Data))
		}
	}
	return strings.Join(all, " | ")
}
