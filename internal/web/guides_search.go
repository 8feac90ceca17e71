package web

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"stoa/internal/stoa"
)

const (
	maxQuery   = 200 // bytes of a search; more is cut
	maxWords   = 16  // of a search; more are ignored
	maxFound   = 30  // sections that a search shows
	maxExcerpt = 240 // bytes of a section that is shown
)

// A foundSection is a section that a search has found.
type foundSection struct {
	Guide   *guide
	Section guideSection
	Excerpt []excerptPart
	score   float64
}

// An excerptPart is a piece of an excerpt; a match is shown marked.
type excerptPart struct {
	Text  string
	Match bool
}

func guidesFailed() *stoa.Error {
	return stoa.Errorf(stoa.CodeInternal, "the guides could not be rendered")
}

// A searchWord is a word of a search.
type searchWord struct {
	text   string  // lower case, without its ending
	weight float64 // larger for words in fewer sections
}

// common are words that do not narrow a search.
var common = strings.Fields("a an and are can do does for how i in is it my of on or the to what with")

// search returns the sections that have most of a search's words, by their weights, best first:
// words in titles count most, then the number of occurrences. A word matches the beginnings of words.
// It reads about 500 kB.
func (g *guides) search(query string) []foundSection {
	words, total := g.weigh(strings.Fields(strings.ToLower(query)))
	var found []foundSection
	for one, section := range g.sections() {
		score, has := section.score(one.Title, words)
		if one.Name == "cli" || one.Name == "dependencies" {
			score /= 2 // they have every word
		}
		if has >= total/2 && score > 0 {
			found = append(found, foundSection{Guide: one, Section: section, score: score})
		}
	}
	slices.SortStableFunc(found, func(a, b foundSection) int { return cmp.Compare(b.score, a.score) })
	found = found[:min(len(found), maxFound)]
	for i := range found {
		found[i].Excerpt = excerpt(found[i].Section.text, words)
	}
	return found
}

// sections returns all sections with their guides.
func (g *guides) sections() iter.Seq2[*guide, guideSection] {
	return func(yield func(*guide, guideSection) bool) {
		for _, group := range g.groups {
			for _, one := range group.Guides {
				for _, section := range one.Sections {
					if !yield(one, section) {
						return
					}
				}
			}
		}
	}
}

// weigh returns the words that narrow a search, and the sum of their weights: the logarithm of the part of
// the sections that have a word.
func (g *guides) weigh(texts []string) (words []searchWord, total float64) {
	for _, text := range texts[:min(len(texts), maxWords)] {
		if slices.Contains(common, text) {
			continue
		}
		text = stem(text)
		all, with := g.count(text)
		if with == 0 {
			if similar := g.similar(text); similar != "" {
				text = stem(similar)
				_, with = g.count(text)
			}
		}
		words = append(words, searchWord{text, math.Log((1 + all) / (0.5 + with))})
		total += words[len(words)-1].weight
	}
	return words, total
}

// count returns the number of sections, and of those that have a word.
func (g *guides) count(word string) (all, with float64) {
	for _, section := range g.sections() {
		if all++; wordIndex(section.lowerTitle, word) >= 0 || wordIndex(section.lowerText, word) >= 0 {
			with++
		}
	}
	return all, with
}

// similar returns a word of a title that differs from a misspelt one, of five letters or more, by one letter:
// an omitted, an added, a wrong or a swapped one. It returns "" without such a word.
func (g *guides) similar(misspelt string) string {
	if len(misspelt) < 5 {
		return ""
	}
	for _, section := range g.sections() {
		for word := range strings.FieldsFuncSeq(section.lowerTitle, func(r rune) bool { return !unicode.IsLetter(r) }) {
			if differsByOne(word, misspelt) || differsByOne(stem(word), misspelt) {
				return word
			}
		}
	}
	return ""
}

// differsByOne reports whether one omitted, added, wrong or swapped letter makes b of a.
func differsByOne(a, b string) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	a, b = a[i:], b[i:]
	switch {
	case a == "" || b == "":
		return len(a)+len(b) == 1
	case a[1:] == b || a == b[1:] || a[1:] == b[1:]:
		return true
	}
	return len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] && a[2:] == b[2:]
}

// stem returns a word without an ending of English, if four letters are left.
func stem(word string) string {
	for _, ending := range []string{"ing", "ed", "es", "s", "e"} {
		if s, found := strings.CutSuffix(word, ending); found && len(s) >= 4 {
			return s
		}
	}
	return word
}

// score returns the score of a section, and the weights of the words that it has.
func (s guideSection) score(guide string, words []searchWord) (score, has float64) {
	page := strings.ToLower(guide)
	for _, word := range words {
		n := 0
		for rest := s.lowerText; n < 8; n++ {
			at := wordIndex(rest, word.text)
			if at < 0 {
				break
			}
			rest = rest[at+len(word.text):]
		}
		if wordIndex(s.lowerTitle, word.text) >= 0 {
			n += 40
		}
		if n > 0 {
			has += word.weight
		}
		if wordIndex(page, word.text) >= 0 {
			n += 30
		}
		score += word.weight * float64(n+20*min(n, 1)) // a further word is worth more than many of one
	}
	return score, has
}

// wordIndex returns the index of the first word of a text that begins with the given one, or -1.
func wordIndex(text, word string) int {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return -1
		}
		i += from
		if before, _ := utf8.DecodeLastRuneInString(text[:i]); i == 0 || !unicode.IsLetter(before) && !unicode.IsDigit(before) {
			return i
		}
		from = i + len(word)
	}
}

// excerpt returns the text around the first match, with every match marked.
func excerpt(text string, words []searchWord) (parts []excerptPart) {
	start := -1
	for _, word := range words {
		if i := indexFold(text, word.text); i >= 0 && (start < 0 || i < start) {
			start = i
		}
	}
	start = max(0, start-maxExcerpt/4)
	if start > 0 {
		if i := strings.IndexByte(text[start:], ' '); i >= 0 {
			start += i + 1
		}
	}
	rest, more := text[start:], false
	if len(rest) > maxExcerpt {
		end := strings.LastIndexByte(rest[:maxExcerpt], ' ')
		rest, more = strings.ToValidUTF8(rest[:max(end, maxExcerpt/2)], ""), true
	}
	if start > 0 {
		parts = append(parts, excerptPart{Text: "… "})
	}
	for rest != "" {
		at, length := -1, 0
		for _, word := range words {
			if i := indexFold(rest, word.text); i >= 0 && (at < 0 || i < at) {
				at, length = i, len(word.text)
			}
		}
		if at < 0 {
			parts = append(parts, excerptPart{Text: rest})
			break
		}
		parts = append(parts, excerptPart{Text: rest[:at]}, excerptPart{Text: rest[at : at+length], Match: true})
		rest = rest[at+length:]
	}
	if more {
		parts = append(parts, excerptPart{Text: " …"})
	}
	return parts
}

// indexFold returns the index of a word in text that begins with a lower-case one, ignoring case. It returns
// -1 if there is no match, or if lower case changes the length.
func indexFold(text, word string) int {
	lower := strings.ToLower(text)
	if len(lower) != len(text) {
		return -1
	}
	return wordIndex(lower, word)
}
