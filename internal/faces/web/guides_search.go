package web

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"stoa/internal/base/stoa"
)

const (
	maxQuery   = 200 // maximum bytes of a search, because strangers can search; the rest is ignored
	maxWords   = 16  // maximum words of a search
	maxFound   = 30  // maximum sections in the results
	maxExcerpt = 240 // maximum bytes of a shown section
)

// A foundSection is a section that a search has found.
type foundSection struct {
	Guide   *guide
	Section guideSection
	Excerpt []excerptPart
	score   float64
}

// An excerptPart is a piece of an excerpt. A match is highlighted.
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
	other  string  // synonym in the guides; "" for most words
	weight float64 // higher for words in fewer sections, because these narrow the search more
}

// common contains words that do not narrow a search.
var common = strings.Fields("a an and are be can do does for how i in is it much my of on or the to what with")

// otherWords maps stems of words that people search for to the words of the guides.
var otherWords = map[string]string{
	"bubbl": "script tag", "certificat": "proxy", "cluster": "node", "colleagu": "member", "cost": "price", "email": "mail", "expensiv": "price",
	"forgot": "lost", "gdpr": "erase", "hitl": "approval", "http": "proxy", "human": "approval", "knowledg": "drive", "login": "sign-in",
	"loop": "approval", "multi": "several", "multipl": "several", "password": "sign-in", "pay": "payment", "rag": "drive",
	"refund": "withdrawal", "ssl": "proxy", "sse": "event stream", "structur": "json", "stuck": "waiting", "tls": "proxy", "top": "grant", "topup": "grant",
	"vision": "image", "widget": "script tag",
}

// search returns the sections that contain most of a search's words, by weight, best first. Words in titles
// count most, then the number of occurrences. A word matches the beginnings of words. It reads about 500 kB.
func (g *guides) search(query string) []foundSection {
	words, total := g.weigh(strings.Fields(strings.ToLower(query)))
	var found []foundSection
	for one, section := range g.sections() {
		score, has := section.score(one.Title, words)
		if one.Name == "cli" || one.Name == "dependencies" {
			score /= 2 // halved, because they contain every word
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

// weigh returns the words that narrow a search, and the sum of their weights: the logarithm of the share of
// sections that contain a word. A word in no section weighs a little more than the rarest other word.
func (g *guides) weigh(texts []string) (words []searchWord, total float64) {
	var unknown, most float64
	for _, text := range texts[:min(len(texts), maxWords)] {
		if slices.Contains(common, text) {
			continue
		}
		word := searchWord{text: stem(text)}
		word.other = otherWords[word.text]
		all, with := g.count(word)
		if with == 0 {
			if similar := g.similar(word.text); similar != "" {
				word.text = stem(similar)
				_, with = g.count(word)
			}
		}
		word.weight = math.Log((1 + all) / (0.5 + with))
		if with == 0 {
			unknown++
		} else {
			most = max(most, word.weight)
			total += word.weight
		}
		words = append(words, word)
	}
	return words, total + unknown*1.1*most
}

// count returns the number of sections, and the number that contain a word.
func (g *guides) count(word searchWord) (all, with float64) {
	for _, section := range g.sections() {
		if all++; word.in(section.lowerTitle) || word.in(section.lowerText) {
			with++
		}
	}
	return all, with
}

// similar returns a title's word that differs from a misspelt one in one letter, or "". It ignores words of fewer than
// five letters.
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

// differsByOne reports whether one omitted, added, wrong or swapped letter turns a into b.
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

// stem returns a word without its English ending if four letters are left.
func stem(word string) string {
	for _, ending := range []string{"ing", "ies", "ed", "es", "s", "e", "y"} {
		if s, found := strings.CutSuffix(word, ending); found && len(s) >= 4 {
			return s
		}
	}
	return word
}

// score returns the score of a section, and the weight of the words that it contains.
func (s guideSection) score(guide string, words []searchWord) (score, has float64) {
	page := strings.ToLower(guide)
	for _, word := range words {
		n := 0
		for rest := s.lowerText; n < 8; n++ {
			at, length := word.index(rest)
			if at < 0 {
				break
			}
			rest = rest[at+length:]
		}
		if word.in(s.lowerTitle) {
			n += 40
		}
		if n > 0 {
			has += word.weight
		}
		if word.in(page) {
			n += 30
		}
		score += word.weight * float64(n+20*min(n, 1)) // because a further word is worth more than many occurrences of one
	}
	return score, has
}

// in reports whether a lower-case text contains the word or its synonym.
func (w searchWord) in(text string) bool {
	at, _ := w.index(text)
	return at >= 0
}

// index returns the index and length of the first occurrence of the word or its synonym in a lower-case
// text, or -1.
func (w searchWord) index(text string) (at, length int) {
	at, length = wordIndex(text, w.text), len(w.text)
	if w.other != "" {
		if i := wordIndex(text, w.other); i >= 0 && (at < 0 || i < at) {
			return i, len(w.other)
		}
	}
	return at, length
}

// wordIndex returns the index of the first word of a text that begins with word, or -1. A word of up to three letters
// matches only itself and its plural.
func wordIndex(text, word string) int {
	part := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return -1
		}
		i += from
		from = i + len(word)
		if before, _ := utf8.DecodeLastRuneInString(text[:i]); i > 0 && part(before) {
			continue
		}
		after, _ := utf8.DecodeRuneInString(strings.TrimPrefix(text[from:], "s"))
		if len(word) > 3 || !part(after) {
			return i
		}
	}
}

// excerpt returns the text around the first match, with every match marked.
func excerpt(text string, words []searchWord) (parts []excerptPart) {
	start := -1
	for _, word := range words {
		if i, _ := word.indexFold(text); i >= 0 && (start < 0 || i < start) {
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
			if i, n := word.indexFold(rest); i >= 0 && (at < 0 || i < at) {
				end := strings.IndexFunc(rest[i+n:], func(r rune) bool { return !unicode.IsLetter(r) })
				if end < 0 {
					end = len(rest) - i - n
				}
				at, length = i, n+end
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

// indexFold is like index for a text in any case. It returns -1 if lower case changes the length, because the index would
// be wrong.
func (w searchWord) indexFold(text string) (at, length int) {
	lower := strings.ToLower(text)
	if len(lower) != len(text) {
		return -1, 0
	}
	return w.index(lower)
}
