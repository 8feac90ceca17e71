package responses

import (
	"slices"
	"testing"

	"stoa/internal/base/stoa"
)

// TestReasoningStaysBetweenTwoTexts reads a reply whose model reasons between two texts: if
// it were sent back in another order, the vendor would refuse the reasoning.
func TestReasoningStaysBetweenTwoTexts(t *testing.T) {
	t.Parallel()
	b := &builder{wanted: wanted{itemized: true, reasoning: true, summary: true}, seal: func(s stoa.State) string { return s.Data }}
	for _, ev := range []stoa.Event{
		{Kind: stoa.Delta, Text: "a"},
		{Kind: stoa.Delta, Text: "b"},
		{Kind: stoa.Reasoned, State: stoa.State{Data: "one"}},
		{Kind: stoa.Delta, Text: "c"},
		{Kind: stoa.Delta, Text: "d"},
	} {
		if _, err := b.apply(&ev); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, it := range b.items {
		got = append(got, it.text.String()+it.sealed)
	}
	if want := []string{"ab", "one", "cd"}; !slices.Equal(got, want) {
		t.Errorf("the items are %q, want %q", got, want)
	}
}
