package stoa

import (
	"strings"
	"testing"
)

func TestNamesOfTools(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"": false, "a": true, "Z-9_": true, "-": true, strings.Repeat("x", MaxName): true, strings.Repeat("x", MaxName+1): false,
		"a.b": false, "a b": false, "é": false, "a\x00": false, "a\n": false, "functions.f:0": false, "@": false, "[": false, "`": false, "{": false, "/": false, ":": false,
	} {
		if IsName(name) != want {
			t.Errorf("IsName(%q) = %t", name, !want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"abc", "abc", 0},
		{"abc", "abd", 1},
		{"listen", "lsten", 1},
		{"kitten", "sitting", 3},
		{"claude", "cluade", 2},
		{"flaw", "lawn", 2},
	} {
		if got := EditDistance(c.a, c.b); got != c.want {
			t.Errorf("EditDistance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := EditDistance(c.b, c.a); got != c.want {
			t.Errorf("EditDistance(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
