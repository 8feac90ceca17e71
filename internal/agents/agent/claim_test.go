package agent

import (
	"strings"
	"testing"

	"stoa/internal/base/store"
)

// TestTurnsAlternate gives the order in which the sessions of an account are claimed: those
// of visitors have lower-case lines.
func TestTurnsAlternate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ running, queue, want string }{
		{"", "A A A A", "A A A A"},
		{"", "a a a a a a", "a a a a"},        // half of eight
		{"", "a a a a a A", "a A a a a"},      // the owner is second at the latest
		{"a a a a", "a a a a A B A", "A B A"}, // visitors have their half
		{"a a", "a a a b b B", "b B b"},       // the line with the fewest first
		{"A A A A A A", "A A a", "a A"},       // eight at most
		{"A A A A A A A", "A a", "a"},         //
		{"A A A A A A A A", "A a", ""},        //
		{"a b c A", "a b c d A B", "d B A"},   // the fifth visitor would be too many
		{"", "a a a b A A A B", "a b A B a A a A"},
	} {
		var q store.AccountQueue
		for line := range strings.FieldsSeq(c.running) {
			q.Running = append(q.Running, store.RunningLine{Line: line, Visitor: line >= "a", Count: 1})
		}
		lines := map[string]string{}
		for i, line := range strings.Fields(c.queue) {
			id := strings.Repeat("x", i+1)
			lines[id] = line
			q.Next = append(q.Next, store.QueuedSession{ID: id, Line: line, Visitor: line >= "a"})
		}
		var got []string
		for _, id := range alternate(q, 8, 100) {
			got = append(got, lines[id])
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("beside %q, of %q: %q, want %q", c.running, c.queue, text, c.want)
		}
		if n := len(alternate(q, 8, 1)); n != min(len(got), 1) {
			t.Errorf("%d sessions for one place", n)
		}
	}
	if got := alternate(store.AccountQueue{Next: []store.QueuedSession{{ID: "x", Line: "a", Visitor: true}}}, 1, 1); len(got) != 1 {
		t.Error("a visitor has no place where there is one")
	}
}
