package drive

import (
	"strings"
)

// maxTerms is how many words of a query count; more add nothing but work.
const maxTerms = 32

// A term is one word or phrase of a query.
type term struct {
	words  []string // more than one: they follow each other
	prefix bool     // the last word is the beginning of one
}

// parseQuery reads what somebody looks for: words, and phrases in double quotes.
// There is nothing to get wrong: what is not a word only separates, and nothing
// of the text reaches a database's query language as it is.
func parseQuery(text string) []term {
	var out []term
	seen := map[string]bool{}
	add := func(t term) {
		key := strings.Join(t.words, " ")
		if len(t.words) > 0 && !seen[key] && len(out) < maxTerms {
			seen[key] = true
			out = append(out, t)
		}
	}
	for i, part := range strings.Split(text, `"`) {
		if i%2 == 1 {
			add(phrase(part))
			continue
		}
		var run []word // of a script without spaces: its pairs follow each other
		flush := func() {
			add(dropSingle(run))
			run = nil
		}
		end := 0
		eachWord(part, func(w word) bool {
			if isPair := isDense(part[w.start:w.end]); isPair {
				if len(run) > 0 && w.start > end {
					flush()
				}
				run = append(run, w)
			} else {
				flush()
				add(term{words: []string{w.text}})
			}
			end = w.end
			return true
		})
		flush()
	}
	return out
}

func phrase(text string) term {
	var words []word
	eachWord(text, func(w word) bool {
		words = append(words, w)
		return len(words) < maxTerms
	})
	return dropSingle(words)
}

// dropSingle makes a phrase of words. The single character at the end of a run
// is only in the text when the text's run ends there too; the pair before it
// holds it. Alone it is the beginning of pairs.
func dropSingle(words []word) term {
	var t term
	for i, w := range words {
		if w.first && i > 0 && words[i-1].end == w.end && words[i-1].start < w.start {
			continue
		}
		t.words = append(t.words, w.text)
		t.prefix = w.first
	}
	return t
}

func isDense(s string) bool {
	for _, r := range s {
		return dense(r)
	}
	return false
}

// loosen makes the words of a query beginnings of words, for when nothing else
// was found. Short words would begin half of the dictionary; of a phrase only
// the last word is loosened.
func loosen(terms []term) []term {
	var out []term
	for _, t := range terms {
		if len(t.words) > 1 || len(t.words[0]) >= 3 {
			out = append(out, term{words: t.words, prefix: true})
		}
	}
	return out
}

// fts5Query writes a query for SQLite: quoted strings and our own operators.
func fts5Query(mark string, terms []term, join string) string {
	var b strings.Builder
	for i, t := range terms {
		if i > 0 {
			b.WriteString(join)
		}
		b.WriteByte('"')
		for j, w := range t.words {
			if j > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(mark)
			b.WriteString(w)
		}
		b.WriteByte('"')
		if t.prefix {
			b.WriteByte('*')
		}
	}
	return b.String()
}

// vectorQuery writes the same for PostgreSQL.
func vectorQuery(mark string, terms []term, join string) string {
	var b strings.Builder
	for i, t := range terms {
		if i > 0 {
			b.WriteString(join)
		}
		b.WriteByte('(')
		for j, w := range t.words {
			if j > 0 {
				b.WriteString(" <-> ")
			}
			b.WriteByte('\'')
			b.WriteString(mark)
			b.WriteString(w)
			b.WriteByte('\'')
			if t.prefix && j == len(t.words)-1 {
				b.WriteString(":*")
			}
		}
		b.WriteByte(')')
	}
	return b.String()
}
