package drive

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// minPrefix is the minimum number of letters of a word that is searched as a prefix.
const minPrefix = 4

// maxTerms is the maximum number of terms of a query; further ones are ignored.
const maxTerms = 32

// A term is one word or phrase of a query.
type term struct {
	words  []string // more than one means a phrase
	prefix bool     // the last word is a prefix
	// endings are the words that the prefix may stand for, if they were looked up.
	endings []string
}

// parseQuery parses a query: words, and phrases in double quotes. Every text is valid:
// everything except words is a separator, and no part of the text reaches the query language
// of a database unchanged.
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
		var run []word // of a script without spaces: its pairs are consecutive
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

// dropSingle returns a phrase without the single character at the end of a run, since a text
// only contains that if its run ends there too, and the pair before covers it. A character
// that is alone becomes a prefix of pairs.
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

// loosen turns words into prefixes, for a query without results. Words of fewer than
// minPrefix letters are left out, because too many words begin with them; of a phrase only
// the last word becomes a prefix.
func loosen(terms []term) []term {
	var out []term
	for _, t := range terms {
		if last := t.words[len(t.words)-1]; utf8.RuneCountInString(last) >= minPrefix {
			out = append(out, term{words: t.words, prefix: true})
		}
	}
	return out
}

// fts5Query returns the query in the language of FTS5: quoted words with the mark of the
// drive, combined with the operator join.
func fts5Query(mark string, terms []term, join string) string {
	var b strings.Builder
	for i, t := range terms {
		if i > 0 {
			b.WriteString(join)
		}
		if len(t.endings) == 0 {
			quoted(&b, mark, t.words)
			continue
		}
		b.WriteByte('(')
		for j, w := range t.endings {
			if j > 0 {
				b.WriteString(" OR ")
			}
			quoted(&b, mark, append(slices.Clone(t.words[:len(t.words)-1]), w))
		}
		b.WriteByte(')')
	}
	return b.String()
}

// quoted writes words as a phrase of FTS5, each with the mark of the drive.
func quoted(b *strings.Builder, mark string, words []string) {
	b.WriteByte('"')
	for j, w := range words {
		if j > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(mark)
		b.WriteString(w)
	}
	b.WriteByte('"')
}

// vectorQuery returns the same query as a tsquery of PostgreSQL.
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
