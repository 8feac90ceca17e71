package stoa

import (
	"slices"
	"strings"
	"testing"
)

func TestWiresAreConsistent(t *testing.T) {
	t.Parallel()
	for _, w := range Wires() {
		if WireNamed(w.Name).Name != w.Name {
			t.Errorf("%s is not found by its name", w.Name)
		}
		if (w.Dialect != "" || len(w.Dialects) > 0) && !slices.Contains(w.Dialects, w.Dialect) {
			t.Errorf("%s: its usual dialect %q is none of %v", w.Name, w.Dialect, w.Dialects)
		}
		for i, end := range w.BaseEnds {
			for _, longer := range w.BaseEnds[i+1:] {
				if strings.HasSuffix(longer, end) {
					t.Errorf("%s: the end %s hides the end %s", w.Name, end, longer)
				}
			}
		}
		for _, other := range w.OtherVendor {
			if WireNamed(other).Name == "" {
				t.Errorf("%s: there is no wire %s", w.Name, other)
			}
		}
	}
	for _, c := range []struct{ wire, dialect, want string }{
		{"messages", "", "messages"},
		{"responses", "", "responses"},
		{"chat", "openai", "responses"},
		{"chat", "deepseek", "chat/deepseek"},
		{"chat", "compatible", "chat/compatible"},
		{"none", "", ""},
	} {
		if got := WireNamed(c.wire).Vendor(c.dialect); got != c.want {
			t.Errorf("the vendor of %s %s is %q, want %q", c.wire, c.dialect, got, c.want)
		}
	}
}
