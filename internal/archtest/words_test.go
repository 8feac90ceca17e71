package archtest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// banned are words that stood for something else in earlier versions of this
// code; CONTRIBUTING.md has the words to use. Identifiers count too, so the
// pattern of a word finds it in camel case.
var banned = []struct{ word, pattern string }{
	{"house", `(^|[^a-z])[hH]ouses?($|[^a-z])|[a-z]Houses?($|[^a-z])`},
	{"room", `(^|[^a-z])[rR]ooms?($|[^a-z])|[a-z]Rooms?($|[^a-z])`},
	{"floor", `(^|[^a-z])[fF]loors?($|[^a-z])|[a-z]Floors?($|[^a-z])`},
	{"tells whether", `\btells? (whether|who|if|which)\b`},
	{"patience", `[pP]atience`},
	{"leash", `(^|[^a-z])[lL]eash`},
	{"chores", `[cC]hores`},
	{"wish", `\b[wW]ish(es)?\b`},
	{"nudge", `[nN]udg(e|ing)`},
	{"poke", `(^|[^a-z])[pP]okes?($|[^a-z])`},
	{"scribe", `(^|[^a-z])[sS]cribes?($|[^a-z])`},
	{"stranger", `[sS]tranger`},
	{"hung up", `\b([hH]ung|[hH]angs?)[ -]ups?\b|[hH]angUp|[hH]ungUp`},
	{"leads nowhere", `leads? nowhere`},
	{"calm", `(^|[^a-z])[cC]alm($|[^a-z])`},
	{"abreast", `[aA]breast`},
	{"janitor", `[jJ]anitor`},
}

// lawful are the uses of a banned word in its own meaning, by the part of the
// path and the text that surrounds the word.
var lawful = []struct{ path, text string }{
	{"", "math.Floor"},
	{"", "Math.floor"},
	{"", "floorDiv"},
	{"internal/store/migrate_test.go", `"room"`}, // as rows had it
	{"internal/archtest/words_test.go", ""},      // names them
	{"internal/contract/openapi.yaml", "`room`"},
	{"internal/contract/models.gen.go", "`room`"},
	{"docs/schedules.md", "`room`"},
	{"docs/operations.md", "`hungUp`"}, // the former name of a log key
	{"CONTRIBUTING.md", "| "},          // the column of words that are not used
}

func TestPlainWords(t *testing.T) {
	all, err := files("cmd", "internal", "e2e", "docs", "tools")
	if err != nil {
		t.Fatal(err)
	}
	for p, text := range pages(t) {
		all[p] = text
	}
	for p, text := range all {
		if slices.ContainsFunc(stillColourful, func(dir string) bool { return strings.HasPrefix(p, dir+"/") }) {
			continue
		}
		n := 0
		for line := range strings.Lines(text) {
			n++
			for i, pattern := range patterns {
				if pattern.MatchString(line) && !allowed(p, line) {
					t.Errorf("%s:%d: %q; CONTRIBUTING.md has the word to use: %s", p, n, banned[i].word, strings.TrimSpace(line))
				}
			}
		}
	}
}

// patterns are those of banned, compiled.
var patterns = func() (out []*regexp.Regexp) {
	for _, b := range banned {
		out = append(out, regexp.MustCompile(b.pattern))
	}
	return out
}()

// allowed reports whether a line with a banned word uses it lawfully.
func allowed(p, line string) bool {
	for _, l := range lawful {
		if (l.path == "" || p == l.path) && strings.Contains(line, l.text) {
			return true
		}
	}
	return false
}

// stillColourful are directories that are not rewritten yet.
var stillColourful = []string{
	"internal/agent",
	"internal/api",
	"internal/scheduler",
}
