package cli

import (
	"bytes"
	"strings"
	"testing"
)

// render prints text in pieces of piece bytes, for a terminal of 40 columns.
func render(t *testing.T, text string, piece int, styled bool) string {
	t.Helper()
	var out bytes.Buffer
	m := &markdown{out: &out, style: style(styled), columns: 40}
	for rest := []rune(text); len(rest) > 0; {
		n := min(piece, len(rest))
		if err := m.write(string(rest[:n])); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := m.end(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestMarkdownIsRendered(t *testing.T) {
	t.Parallel()
	const b, i, c, u, off = "\x1b[1m", "\x1b[3m", "\x1b[36m", "\x1b[4m", "\x1b[0m"
	for name, tt := range map[string]struct{ text, styled, plain string }{
		"a paragraph":       {"one\ntwo\tx", "one\ntwo\tx\n", "one\ntwo\tx\n"},
		"words":             {"The quick brown fox jumps over the lazy dog and away.", "The quick brown fox jumps over the lazy\ndog and away.\n", "The quick brown fox jumps over the lazy\ndog and away.\n"},
		"a heading":         {"## Opening hours\n\nAt nine.", b + "Opening" + off + " " + b + "hours" + off + "\n\nAt nine.\n", "## Opening hours\n\nAt nine.\n"},
		"emphasis":          {"**bold**, *it* and `a*b`.", b + "bold" + off + ", " + i + "it" + off + " and " + c + "a*b" + off + ".\n", "**bold**, *it* and `a*b`.\n"},
		"within another":    {"**a *b* c**", b + "a" + off + " \x1b[1;3mb" + off + " " + b + "c" + off + "\n", "**a *b* c**\n"},
		"no emphasis":       {"2 * 3 ** 4, snake_case_name, **kwargs, ~5", "2 * 3 ** 4, snake_case_name, **kwargs,\n~5\n", "2 * 3 ** 4, snake_case_name, **kwargs,\n~5\n"},
		"escapes":           {`\*no\* a\b`, "*no* a\\b\n", "\\*no\\* a\\b\n"},
		"a list":            {"- one\n  - two and some words that need a second line\n1. three\n- [x] done", "• one\n  • two and some words that need a\n    second line\n1. three\n☑ done\n", "• one\n  • two and some words that need a\n    second line\n1. three\n☑ done\n"},
		"code":              {"```go\nif a   {\n\n```\nafter", "  " + c + "if a   {" + off + "\n\nafter\n", "  if a   {\n\nafter\n"},
		"a link":            {"See [the docs](https://x.example/a_b) now.", "See " + u + "the" + off + " " + u + "docs" + off + " \x1b[2m(https://x.example/a_b)" + off + "\nnow.\n", "See the docs (https://x.example/a_b)\nnow.\n"},
		"brackets":          {"a[0] [x] (y) [z", "a[0] [x] (y) [z\n", "a[0] [x] (y) [z\n"},
		"a quote":           {"> a wise word that is longer than one line of text", "\x1b[2m│ " + off + "a wise word that is longer than one\n\x1b[2m│ " + off + "line of text\n", "│ a wise word that is longer than one\n│ line of text\n"},
		"a rule":            {"a\n\n---\nb", "a\n\n\x1b[2m" + strings.Repeat("─", 40) + off + "\nb\n", "a\n\n" + strings.Repeat("─", 40) + "\nb\n"},
		"a table":           {"| Day | Hours |\n|---|:--:|\n| Mon | **9** to a very long time in the evening |\n\nEnd", b + "Day" + off + "  " + b + "Hours" + off + "\n\x1b[2m" + strings.Repeat("─", 40) + off + "\nMon  9 to a very long time in the\n     evening\n\nEnd\n", ""},
		"no table":          {"| not a table", "| not a table\n", "| not a table\n"},
		"a sum":             {"- 5\n-5 and -", "• 5\n-5 and -\n", "• 5\n-5 and -\n"},
		"a long word":       {strings.Repeat("x", 50) + " y", strings.Repeat("x", 50) + "\ny\n", strings.Repeat("x", 50) + "\ny\n"},
		"an escape":         {"a\x1b[31mred\x1b]0;title\x07 **b\x1b[2J**\u009b1m", "a[31mred]0;title " + b + "b[2J" + off + "1m\n", "a[31mred]0;title **b[2J**1m\n"},
		"a link's escape":   {"[a\x1b](https://x.example/\x1b]8;;y)", u + "a" + off + "\x1b[2m\x1b[0m", ""},
		"a mark by itself":  {"*", "*\n", "*\n"},
		"a fence left open": {"```\nx", "  " + c + "x" + off + "\n", "  x\n"},
		"nothing":           {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, piece := range []int{1, 2, 3, 7, 1000} {
				got := render(t, tt.text, piece, true)
				if name == "a link's escape" {
					if strings.Contains(got, "\x1b]") {
						t.Errorf("in pieces of %d: %q", piece, got)
					}
					continue
				}
				if got != tt.styled {
					t.Errorf("in pieces of %d:\n got %q\nwant %q", piece, got, tt.styled)
				}
				if got := render(t, tt.text, piece, false); tt.plain != "" && got != tt.plain {
					t.Errorf("without styles, in pieces of %d:\n got %q\nwant %q", piece, got, tt.plain)
				}
			}
		})
	}
}

// A word is printed as soon as it is whole.
func TestMarkdownIsPrintedAsItComes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := &markdown{out: &out, columns: 40}
	for _, step := range []struct{ piece, printed string }{
		{"Hello ", "Hello"},
		{"wor", "Hello"},
		{"ld and", "Hello world"},
		{" **bo", "Hello world and"},
		{"ld** x", "Hello world and **bold**"},
		{"\n- a b", "Hello world and **bold** x\n"},
		{"c defghijklm", "Hello world and **bold** x\n• a bc"},
	} {
		if err := m.write(step.piece); err != nil || out.String() != step.printed {
			t.Errorf("after %q: %q, want %q (%v)", step.piece, out.String(), step.printed, err)
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{"**a `b** c`\n|x|\n|-|\n|y", "[a](b) ![c](d) <http://e>", "> - # x\n\x1b[2Jy", "``` \n~~~\n```", "__a_b__ *** ~~x~~ \\"} {
		f.Add(s, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, piece uint8) {
		text = strings.ToValidUTF8(text, "?")
		got := render(t, text, 1+int(piece), false)
		if strings.ContainsAny(got, "\x1b\r\x07\u009b") {
			t.Errorf("%q has control characters: %q", text, got)
		}
	})
}
