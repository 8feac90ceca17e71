package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// banned are words that had another meaning in earlier versions of this code; CONTRIBUTING.md
// lists the words to use. Identifiers count too, so the pattern of a word finds it in camel
// case. The stem is part of each match, in lower case.
var banned = []struct{ word, stem, pattern string }{
	{"house", "house", `(^|[^a-z])[hH]ouses?($|[^a-z])|[a-z]Houses?($|[^a-z])`},
	{"room", "room", `(^|[^a-z])[rR]ooms?($|[^a-z])|[a-z]Rooms?($|[^a-z])`},
	{"floor", "floor", `(^|[^a-z])[fF]loors?($|[^a-z])|[a-z]Floors?($|[^a-z])`},
	{"tells whether", "tell", `\btells? (whether|who|if|which)\b`},
	{"patience", "patience", `[pP]atience`},
	{"leash", "leash", `(^|[^a-z])[lL]eash`},
	{"chores", "chores", `[cC]hores`},
	{"wish", "wish", `\b[wW]ish(es)?\b`},
	{"nudge", "nudg", `[nN]udg(e|ing)`},
	{"poke", "poke", `(^|[^a-z])[pP]okes?($|[^a-z])`},
	{"scribe", "scribe", `(^|[^a-z])[sS]cribes?($|[^a-z])`},
	{"stranger", "stranger", `[sS]tranger`},
	{"hung up", "up", `\b([hH]ung|[hH]angs?)[ -]ups?\b|[hH]angUp|[hH]ungUp`},
	{"leads nowhere", "nowhere", `leads? nowhere`},
	{"calm", "calm", `(^|[^a-z])[cC]alm($|[^a-z])`},
	{"abreast", "abreast", `[aA]breast`},
	{"janitor", "janitor", `[jJ]anitor`},
}

// lawful are the uses of a banned word in its own meaning, by the part of the path and the
// text around the word.
var lawful = []struct{ path, text string }{
	{"", "math.Floor"},
	{"", "Math.floor"},
	{"", "floorDiv"},
	{"internal/store/migrate_test.go", `"room"`}, // the name in old rows
	{"internal/archtest/words_test.go", ""},      // lists them
	{"internal/contract/openapi.yaml", "`room`"},
	{"internal/contract/models.gen.go", "`room`"},
	{"docs/schedules.md", "`room`"},
	{"docs/operations.md", "`hungUp`"}, // the former name of a log key
	{"CONTRIBUTING.md", "| "},          // the column of words that are not used
}

func TestPlainWords(t *testing.T) {
	t.Parallel()
	all, err := files("cmd", "internal", "e2e", "docs", "tools")
	if err != nil {
		t.Fatal(err)
	}
	for p, text := range pages(t) {
		all[p] = text
	}
	for p, text := range all {
		lower := strings.ToLower(text)
		for i, pattern := range patterns {
			if !strings.Contains(lower, banned[i].stem) {
				continue // strings.Contains is a hundred times faster
			}
			for _, at := range pattern.FindAllStringIndex(text, -1) {
				line := strings.Count(text[:at[0]+1], "\n") // the match may begin with the line break before
				from := strings.LastIndexByte(text[:at[0]+1], '\n') + 1
				whole, _, _ := strings.Cut(text[from:], "\n")
				if !allowed(p, whole) {
					t.Errorf("%s:%d: %q; CONTRIBUTING.md has the word to use: %s", p, line+1, banned[i].word, strings.TrimSpace(whole))
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
