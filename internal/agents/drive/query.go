package drive

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	minPrefix = 4  // minimum number of letters of a prefix, because a shorter one matches too many words (Hangul has no minimum)
	maxTerms  = 32 // terms of a query; further ones are ignored
	maxParts  = 64 // parts of a query, each a lookup in the index; further ones are ignored
	maxJoined = 4  // words of a query that are also searched as one word, since names are written in both ways

	minorFactor = 0.25 // weight of a function word relative to another word
)

// A phrase is one word, or several that follow each other.
type phrase struct {
	words  []string
	prefix bool // the last word is a prefix
	// endings lists the words that the prefix may stand for, if they were looked up.
	endings []string
}

// A part is the unit of a query by which passages are scored.
type part struct {
	any    []phrase // a passage needs one of these
	loose  []phrase // beginnings of long words, which count less
	factor float64  // weight relative to a word
}

// A term is one word, phrase or run of a query.
type term struct {
	need  [][]phrase // a passage has the term if it contains all phrases of one of these
	parts []part
	// instead replaces parts if no passage contains one of them.
	instead []part
}

// parseQuery parses a query: words, and phrases in double quotes. Every text is valid, because
// everything except words is a separator. No part of the text reaches the query language of a
// database unchanged, so that a caller cannot inject operators.
func parseQuery(text string) []term {
	p := parser{seen: map[string]bool{}, minor: isFunctionWord(text)}
	for i, section := range strings.Split(text, `"`) {
		if i%2 == 1 {
			p.quoted(section)
		} else {
			p.plain(section)
		}
	}
	// Of too many terms, those that a passage needs remain, because the others only add score.
	extra := len(p.terms) - maxTerms
	p.terms = slices.DeleteFunc(p.terms, func(t term) bool {
		drop := extra > 0 && len(t.need) == 0
		if drop {
			extra--
		}
		return drop
	})
	return p.terms[:min(len(p.terms), maxTerms)]
}

type parser struct {
	terms []term
	seen  map[string]bool
	minor func(word string) bool // reports whether a word is a function word
}

func (p *parser) add(key string, t term) {
	if key != "" && !p.seen[key] {
		p.seen[key] = true
		p.terms = append(p.terms, t)
	}
}

func (p *parser) quoted(text string) {
	var words []word
	eachWord(text, func(w word) bool {
		words = append(words, w)
		return len(words) < maxTerms
	})
	whole := dropSingle(words)
	if len(whole.words) == 0 {
		return
	}
	t := single(whole, nil)
	if last := whole.words[len(whole.words)-1]; !whole.prefix && utf8.RuneCountInString(last) >= minPrefix {
		t.instead = []part{{any: []phrase{{words: whole.words, prefix: true}}, factor: 1}}
	}
	p.add(strings.Join(whole.words, " "), t)
}

// plain adds the words outside of quotes. Words joined by ".", "_" or "-" are one term, and so
// are consecutive characters of a script without spaces.
func (p *parser) plain(text string) {
	var group []word
	isRun := false // the group is in a script without spaces
	var loners []string
	flush := func() {
		switch {
		case len(group) == 0:
		case isRun:
			p.run(text, group)
		case len(group) == 1 && len(humps(text[group[0].start:group[0].end])) < 2:
			p.word(text[group[0].start:group[0].end], group[0].text)
		default:
			p.identifier(text, group)
		}
		if len(group) > 0 && !isRun {
			loners = append(loners, text[group[0].start:group[len(group)-1].end])
		}
		group = nil
	}
	eachWord(strings.ReplaceAll(text, "\n", " "), func(w word) bool {
		run := isDense(text[w.start:w.end])
		if n := len(group); n > 0 {
			gap := text[min(group[n-1].end, w.start):w.start]
			if run != isRun || run && w.start > group[n-1].end || !run && gap != "." && gap != "_" && gap != "-" {
				flush()
			}
		}
		isRun = run
		group = append(group, w)
		return true
	})
	flush()
	if n := len(loners); 2 <= n && n <= maxJoined {
		whole := joinedWord(strings.Join(loners, ""))
		p.add(whole, term{parts: []part{{any: []phrase{{words: []string{whole}}}, factor: 1}}})
	}
}

func single(ph phrase, loose []phrase) term {
	return term{need: [][]phrase{{ph}}, parts: []part{{any: []phrase{ph}, loose: loose, factor: 1}}}
}

// word adds a word. Words of Hangul also stand for those with a particle. Passages need not contain
// function words.
func (p *parser) word(raw, w string) {
	if p.minor(w) {
		p.add(w, term{parts: []part{{any: []phrase{{words: []string{w}}}, factor: minorFactor}}})
		return
	}
	n := utf8.RuneCountInString(w)
	hangul := isHangul(w)
	t := single(phrase{words: []string{w}, prefix: hangul && n > 1}, beginnings(w, n, hangul))
	if n == minPrefix && !hangul {
		t.instead = append(t.instead, part{any: []phrase{{words: []string{w}, prefix: true}}, factor: 1})
	}
	if other := respelled(raw, w); other != w {
		t.instead = append(t.instead, part{any: []phrase{{words: []string{other}}}, loose: beginnings(other, utf8.RuneCountInString(other), false), factor: 1})
	}
	p.add(w, t)
}

var (
	umlauts  = strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "Ä", "ae", "Ö", "oe", "Ü", "ue")
	digraphs = strings.NewReplacer("ae", "a", "oe", "o", "ue", "u") // to umlauts as they are indexed
)

// respelled returns the indexed form of a word in the other spelling of German umlauts, Gruesse
// for Grüße, since texts and questions use both.
func respelled(raw, w string) string {
	if other := umlauts.Replace(raw); other != raw {
		return fold(other, false)
	}
	if len(w) <= minPrefix {
		return w
	}
	return digraphs.Replace(w)
}

// beginnings returns the beginning of a word that its inflected forms are likely to share, because
// most languages inflect at the end, with the particles that Arabic joins to it.
func beginnings(w string, n int, hangul bool) (out []phrase) {
	if base := withoutParticle(w); isArabic(w) && utf8.RuneCountInString(base) >= 3 {
		for _, particle := range arabicParticles {
			out = append(out, phrase{words: []string{particle + base}, prefix: true})
		}
		return append(out, phrase{words: []string{base}, prefix: true})
	}
	cut := 0
	switch {
	case hangul && n == 1:
	case hangul && n > 2:
		cut = min((n-1)/2, 2)
	case !hangul && n > minPrefix:
		cut = n * 3 / 10
	default:
		return nil
	}
	for range cut {
		_, size := utf8.DecodeLastRuneInString(w)
		w = w[:len(w)-size]
	}
	return []phrase{{words: []string{w}, prefix: true}}
}

// arabicParticles are the article, conjunctions and prepositions that are written together
// with the next word, and the usual combinations, longest first.
var arabicParticles = []string{"وال", "بال", "كال", "فال", "لل", "ال", "و", "ب", "ل", "ك", "ف"}

// withoutParticle returns an Arabic word without a particle if at least 3 letters are left.
func withoutParticle(w string) string {
	for _, particle := range arabicParticles {
		if base, ok := strings.CutPrefix(w, particle); ok && utf8.RuneCountInString(base) >= 3 {
			return base
		}
	}
	return w
}

// identifier adds words that were joined by punctuation or capitals, such as max_body_size,
// maxBodySize or v1.2.3. They are searched side by side and as one word. Each by itself is searched
// only if no passage contains them together, since the parts of a version or number mean little.
func (p *parser) identifier(text string, group []word) {
	var words []string
	for _, w := range group {
		for _, hump := range humps(text[w.start:w.end]) {
			eachWord(hump, func(w word) bool {
				words = append(words, w.text)
				return true
			})
		}
	}
	var split, raw []string // split: as in a text with the same punctuation
	for _, w := range group {
		split, raw = append(split, w.text), append(raw, text[w.start:w.end])
	}
	forms := []phrase{{words: split}}
	for _, other := range [][]string{words, {joinedWord(strings.Join(raw, ""))}} {
		if len(other) > 0 && other[0] != "" && !slices.ContainsFunc(forms, func(f phrase) bool { return slices.Equal(f.words, other) }) {
			forms = append(forms, phrase{words: other})
		}
	}
	t := term{parts: []part{{any: forms, factor: 1}}}
	for _, f := range forms {
		t.need = append(t.need, []phrase{f})
	}
	for _, w := range words {
		n := utf8.RuneCountInString(w)
		t.instead = append(t.instead, part{any: []phrase{{words: []string{w}}}, loose: beginnings(w, n, isHangul(w)), factor: 0.5})
	}
	p.add(strings.Join(split, " "), t)
}

// joinedWord returns the indexed form of words without what separated them.
func joinedWord(raw string) string {
	raw = strings.Map(func(r rune) rune {
		if inWord(r) {
			return r
		}
		return -1
	}, raw)
	return fold(raw, isASCII(raw))
}

// humps splits a word at its capitals: maxBodySize, HTTPServer.
func humps(w string) (out []string) {
	runes := []rune(w)
	from := 0
	for i := 1; i < len(runes); i++ {
		starts := unicode.IsUpper(runes[i]) &&
			(unicode.IsLower(runes[i-1]) || unicode.IsUpper(runes[i-1]) && i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if starts {
			out = append(out, string(runes[from:i]))
			from = i
		}
	}
	return append(out, string(runes[from:]))
}

// run adds consecutive characters of scripts without spaces. A passage contains the run if it
// contains all its characters together, or all pairs that begin at every other character, so that
// a question need not be a literal part of the text. Kanji and kana are separate; only the whole
// run includes the pairs between them.
func (p *parser) run(text string, group []word) {
	whole := dropSingle(group)
	key := strings.Join(whole.words, " ")
	begin, end := group[0].start, group[len(group)-1].end
	t := single(whole, nil)
	pieces := scripts(text, begin, end)
	if len(whole.words) == 1 {
		t.parts[0].loose = pieces[0].loose()
		p.add(key, t)
		return
	}
	t.parts = nil
	var offsets [2][]phrase
	for _, s := range pieces {
		var pairs []phrase
		for _, w := range group {
			if s.begin <= w.start && w.end <= s.end && !w.first {
				pairs = append(pairs, phrase{words: []string{w.text}})
			}
		}
		factor := 0.5 // each character is in two pairs
		if s.kana {
			factor = 0.25 // mostly grammar
		}
		for i, pair := range pairs {
			t.parts = append(t.parts, part{any: []phrase{pair}, loose: s.loose(), factor: factor})
			if !s.kana || len(pieces) == 1 {
				if offsets[i%2] = append(offsets[i%2], pair); len(pairs) == 1 {
					offsets[1] = append(offsets[1], pair)
				}
			}
		}
	}
	for _, side := range offsets {
		if len(side) > 0 {
			t.need = append(t.need, side)
		}
	}
	if len(t.parts) == 0 { // only characters between other scripts
		for _, w := range whole.words {
			t.parts = append(t.parts, part{any: []phrase{{words: []string{w}}}, factor: 0.5})
		}
	}
	p.add(key, t)
}

// A script is a part of a run in the same script.
type script struct {
	begin, end int
	kana       bool   // Hiragana
	alone      string // the character of a part that has only one; otherwise empty
}

// loose returns the pairs that begin with a lone character, because they are other forms of a
// Japanese verb or adjective: 長い, 長く.
func (s script) loose() []phrase {
	if s.alone == "" {
		return nil
	}
	return []phrase{{words: []string{s.alone}, prefix: true}}
}

// scripts splits a run into its scripts. It extends a lone character by its neighbour, because
// texts are indexed by pairs.
func scripts(text string, begin, end int) []script {
	class := func(r rune) int {
		switch {
		case unicode.Is(unicode.Hiragana, r):
			return 1
		case unicode.Is(unicode.Katakana, r), r == 'ー':
			return 2
		}
		return 0
	}
	var out []script
	last := -1
	for i, r := range text[begin:end] {
		at, c := begin+i, class(r)
		if c != last {
			out = append(out, script{begin: at, kana: c == 1})
			last = c
		}
		out[len(out)-1].end = at + utf8.RuneLen(r)
	}
	for i := range out {
		s := &out[i]
		if utf8.RuneCountInString(text[s.begin:s.end]) > 1 || s.kana {
			continue
		}
		s.alone = text[s.begin:s.end]
		if s.end < end {
			_, n := utf8.DecodeRuneInString(text[s.end:end])
			s.end += n
		} else {
			_, n := utf8.DecodeLastRuneInString(text[begin:s.begin])
			s.begin -= n
		}
	}
	return out
}

// dropSingle returns a phrase without the single character at its end, since a text only
// contains that if its run ends there too, and the pair before covers it. Before a word of
// another script it stays: there the run of the text ends, too. A character that is alone
// becomes a prefix of pairs.
func dropSingle(words []word) phrase {
	var out phrase
	for i, w := range words {
		if w.first && i > 0 && i == len(words)-1 && words[i-1].end == w.end && words[i-1].start < w.start {
			continue
		}
		out.words = append(out.words, w.text)
		out.prefix = w.first
	}
	return out
}

func isDense(s string) bool {
	for _, r := range s {
		return dense(r)
	}
	return false
}

func isArabic(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.Is(unicode.Arabic, r)
}

func isHangul(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.Is(unicode.Hangul, r)
}

// A language writes a query for a database.
type language struct {
	and, or string
	phrase  func(b *strings.Builder, mark string, p phrase)
}

var (
	fts5     = language{and: " AND ", or: " OR ", phrase: fts5Phrase}
	tsvector = language{and: " & ", or: " | ", phrase: tsvectorPhrase}
)

// query returns the query for passages that match all terms. A term lists alternatives; one of
// them must match with all its phrases.
func (l language) query(mark string, terms [][][]phrase) string {
	var b strings.Builder
	for i, alternatives := range terms {
		if i > 0 {
			b.WriteString(l.and)
		}
		b.WriteByte('(')
		for j, phrases := range alternatives {
			if j > 0 {
				b.WriteString(l.or)
			}
			b.WriteByte('(')
			for k, p := range phrases {
				if k > 0 {
					b.WriteString(l.and)
				}
				l.phrase(&b, mark, p)
			}
			b.WriteByte(')')
		}
		b.WriteByte(')')
	}
	return b.String()
}

// fts5Phrase writes a phrase for FTS5. It lists the endings of a prefix, because FTS5 itself would
// merge the lists of all words that begin with it.
func fts5Phrase(b *strings.Builder, mark string, p phrase) {
	lasts := p.endings
	if len(lasts) == 0 {
		lasts = p.words[len(p.words)-1:]
	}
	b.WriteByte('(')
	for i, last := range lasts {
		if i > 0 {
			b.WriteString(" OR ")
		}
		b.WriteByte('"')
		for _, w := range p.words[:len(p.words)-1] {
			b.WriteString(mark)
			b.WriteString(w)
			b.WriteByte(' ')
		}
		b.WriteString(mark)
		b.WriteString(last)
		b.WriteByte('"')
	}
	b.WriteByte(')')
}

// tsvectorPhrase writes a phrase as a tsquery of PostgreSQL.
func tsvectorPhrase(b *strings.Builder, mark string, p phrase) {
	b.WriteByte('(')
	for i, w := range p.words {
		if i > 0 {
			b.WriteString(" <-> ")
		}
		b.WriteByte('\'')
		b.WriteString(mark)
		b.WriteString(w)
		b.WriteByte('\'')
		if p.prefix && i == len(p.words)-1 {
			b.WriteString(":*")
		}
	}
	b.WriteByte(')')
}
