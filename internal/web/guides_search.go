package web

import (
	"cmp"
	"slices"
	"strings"

	"stoa/internal/stoa"
)

const (
	maxQuery   = 200 // bytes of a search; more is cut
	maxWords   = 16  // of a search; more are ignored
	maxFound   = 30  // sections that a search shows
	maxExcerpt = 240 // bytes of a section that is shown
)

// A foundSection is a section that contains every word of a search.
type foundSection struct {
	Guide   *guide
	Section guideSection
	Excerpt []excerptPart
	score   int
}

// An excerptPart is a piece of an excerpt; a match is shown marked.
type excerptPart struct {
	Text  string
	Match bool
}

func guidesFailed() *stoa.Error {
	return stoa.Errorf(stoa.CodeInternal, "the guides could not be laid out")
}

// search returns the sections that contain every word of query, best first: words in
// titles count most, then the number of occurrences. It reads about 200 kB.
func (g *guides) search(query string) []foundSection {
	words := strings.Fields(strings.ToLower(query))
	words = words[:min(len(words), maxWords)]
	if len(words) == 0 {
		return nil
	}
	var found []foundSection
	for _, group := range g.groups {
		for _, one := range group.Guides {
			for _, section := range one.Sections {
				if score := section.score(one.Title, words); score > 0 {
					found = append(found, foundSection{Guide: one, Section: section, score: score})
				}
			}
		}
	}
	slices.SortStableFunc(found, func(a, b foundSection) int { return cmp.Compare(b.score, a.score) })
	found = found[:min(len(found), maxFound)]
	for i := range found {
		found[i].Excerpt = excerpt(found[i].Section.text, words)
	}
	return found
}

// score returns 0 if a word is missing.
func (s guideSection) score(guide string, words []string) (score int) {
	title, page, text := strings.ToLower(s.Title), strings.ToLower(guide), strings.ToLower(s.text)
	for _, word := range words {
		n := min(strings.Count(text, word), 8)
		if strings.Contains(title, word) {
			n += 40
		}
		if n == 0 {
			return 0
		}
		if strings.Contains(page, word) {
			n += 10
		}
		score += n
	}
	return score
}

// excerpt returns the text around the first match, with every match marked.
func excerpt(text string, words []string) (parts []excerptPart) {
	start := -1
	for _, word := range words {
		if i := indexFold(text, word); i >= 0 && (start < 0 || i < start) {
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
			if i := indexFold(rest, word); i >= 0 && (at < 0 || i < at) {
				at, length = i, len(word)
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

// indexFold returns the index of a lower-case word in text, ignoring case. It returns
// -1 if there is no match, or if lower case changes the length.
func indexFold(text, word string) int {
	lower := strings.ToLower(text)
	if len(lower) != len(text) {
		return -1
	}
	return strings.Index(lower, word)
}
