package drive

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A Described is something that people look for by what it does, such as a tool.
type Described struct {
	Name        string // in words that punctuation or capitals separate
	Title       string
	Description string // its first sentence counts as a title if there is none
	Details     string // such as the names of parameters
	Reads       bool   // it changes nothing
}

// Weights of a [Ranking]. A word of a name or title says more than one of a text, and a name of which the query explains every word fits
// better than a longer one.
const (
	nameWeight    = 3.0
	titleWeight   = 6.0
	textWeight    = 0.35
	detailsWeight = 0.4
	formWeight    = 0.8  // of another form of a word
	shortWeight   = 0.45 // of a word that begins as a longer one does, such as repo
	aliasWeight   = 0.45 // of a word with a similar meaning
	minorWeight   = 0.45 // of a function word
	laterWeight   = 0.6  // of the words after a preposition, because the act and its object come before
	explained     = 1.4  // share of the score by which an explained name outweighs another
	longName      = 0.04 // share that each word of a name takes
	otherAct      = 0.65 // of an entry that does another kind of act
	tempered      = 2.8  // k1 of BM25, more than for passages, because the fields have weights above 1
	usualLength   = 70.0 // weighted words of an entry
	lengthWeight  = 0.4  // b of BM25, less than for passages, because the texts of some tools say more than needed
	maxFieldWords = 60   // words of a field that count for its length
	minStem       = 4    // letters of a word that can be the beginning of another
)

// aliases lists words that people use for the same act or thing, because few use those of a reference. Each line is a group.
const aliases = `
	create add make new open start post register publish put build draft
	delete remove drop take destroy erase away close revoke
	get show view read retrieve fetch see display open check detail
	list show which all what history recent
	update change edit modify set adjust replace rename move mark turn make
	search find look query
	cancel stop end abort terminate
	send email mail deliver notify
	reply answer respond comment
	approve accept confirm allow review
	attach add link
	detach remove unlink
	ask request
	decline reject refuse deny
	enable activate turn switch
	disable deactivate turn switch suspend block freeze pause
	save store keep
	assign assignee
	schedule plan recurring
	download export
	upload import attach
	invite add
	move transfer
	copy duplicate clone fork
	newest latest recent last
	unread notification
	branch reference ref
	person member
	issue bug ticket problem task
	repository repo project
	organization org company business
	user people person member who profile account
	access permission collaborator right role
	file document
	customer client buyer
	seller merchant vendor
	refund reimburse back return
	charge payment pay money price
	amount sum total
	fee charge price
	discount coupon voucher
	tax vat
	invoice bill
	dispute chargeback
	subscription subscribe plan
	preview upcoming next
	email address
	phone number
	picture image photo avatar
	folder directory
	shop store location
	server host machine instance
	message text note
	comment discussion conversation thread
	status state
	webhook hook callback
	link url
	visit view traffic
	star favorite like
	tag label
	count number many statistic
	group team
	employee staff person
	event meeting appointment
	login signin session authenticated
	key token credential secret
	setting preference configuration option
	log history activity audit`

// phrases contains acts of two words, and the word that a reference uses.
var phrases = strings.NewReplacer(" look up ", " retrieve ", " take off ", " remove ", " take away ", " remove ", " get rid of ", " remove ", " shut down ", " disable ",
	" turn on ", " enable ", " turn off ", " disable ", " switch on ", " enable ", " switch off ", " disable ", " set up ", " create ", " sign up ", " register ", " log in ", " login ", " logged in ", " login ")

// aliasSets contains the aliases of each word, all in their stems.
var aliasSets = sync.OnceValue(func() map[string]map[string]bool {
	sets := map[string]map[string]bool{}
	for line := range strings.Lines(aliases) {
		group := tokensOf(line)
		for _, w := range group {
			if sets[w.stem] == nil {
				sets[w.stem] = map[string]bool{}
			}
			for _, other := range group {
				sets[w.stem][other.stem] = true
			}
		}
	}
	return sets
})

// Kinds of acts, by the words that name them.
const (
	actUnknown = iota
	actRead
	actRemove
	actWrite
)

var actWords = map[int]string{
	actRead:   "get list check search find show view read retrieve fetch see look download compare preview count return",
	actRemove: "delete remove erase destroy drop unfollow unstar unlock unpin detach unassign revoke",
	actWrite: `create add make new open start post put update change edit modify set replace send approve accept decline reject refuse enable disable cancel merge
		close lock pin star follow assign attach upload publish save register reply comment request fork rename move transfer protect give call commit write
		capture confirm finalize void pay issue expire resume subscribe ask resend mark submit verify report turn rerun redeliver dismiss calculate`,
}

var acts = sync.OnceValue(func() map[string]int {
	kinds := map[string]int{}
	for kind, text := range actWords {
		for _, w := range wordsOf(text) {
			kinds[stemOf(w)] = kind
		}
	}
	return kinds
})

// actOf returns the kind of the first act that a text names.
func actOf(words []token) int {
	for _, w := range words {
		if kind := acts()[w.stem]; kind != actUnknown {
			return kind
		}
	}
	return actUnknown
}

// questions begin queries that ask for something.
var questions = []string{"what", "which", "who", "how", "where", "when", "is", "are", "did", "do", "does", "has", "have", "was"}

// wordsOf returns the words of a text in their indexed form, with those of identifiers apart.
func wordsOf(text string) (list []string) {
	eachWord(text, func(w word) bool {
		for _, hump := range humps(text[w.start:w.end]) {
			if hump = fold(hump, isASCII(hump)); hump != "" {
				list = append(list, hump)
			}
		}
		return true
	})
	return list
}

// A described is a [Described] with its words.
type described struct {
	fields [4][]int32 // of the name, the title, the description and the details
	name   []int32    // distinct words of the name
	length float64
	act    int
}

var fieldWeights = [...]float64{nameWeight, titleWeight, textWeight, detailsWeight}

// A token is a word and what its other forms share.
type token struct{ text, stem string }

func tokensOf(text string) (list []token) {
	for _, w := range wordsOf(text) {
		list = append(list, token{w, stemOf(w)})
	}
	return list
}

// stemOf returns the part of an English word that its forms share; other words are shortened at most by a few letters.
func stemOf(w string) string {
	n := len(w)
	if n < 4 || !isASCII(w) {
		return w
	}
	switch {
	case strings.HasSuffix(w, "ies"), strings.HasSuffix(w, "ied"):
		return w[:n-3] + "y"
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "s"):
		w = w[:n-1]
	case strings.HasSuffix(w, "ing") && n > 5 && strings.ContainsAny(w[:n-3], "aeiouy"):
		w = undouble(w[:n-3])
	case strings.HasSuffix(w, "ed") && n > 4 && strings.ContainsAny(w[:n-2], "aeiouy"):
		w = undouble(w[:n-2])
	}
	if len(w) > 3 {
		w = strings.TrimSuffix(w, "e")
	}
	return w
}

func undouble(w string) string {
	n := len(w)
	if n > 3 && w[n-1] == w[n-2] && !strings.ContainsAny(w[n-1:], "lsz") {
		return w[:n-1]
	}
	return w
}

func (r *Ranking) read(d Described) (out described) {
	title, rest := withoutTags(d.Title), withoutTags(d.Description)
	if title == "" {
		title, rest = firstSentence(rest)
	}
	var fields [4][]token
	for i, text := range []string{d.Name, title, rest, d.Details} {
		fields[i] = tokensOf(text)
		out.length += fieldWeights[i] * float64(min(len(fields[i]), maxFieldWords))
		for _, w := range fields[i] {
			id, ok := r.ids[w]
			if !ok {
				id = int32(len(r.words))
				r.ids[w] = id
				r.words = append(r.words, w)
				r.stems[w.stem] = true
			}
			out.fields[i] = append(out.fields[i], id)
		}
	}
	seen := map[string]bool{}
	for i, w := range fields[0] {
		if !seen[w.stem] {
			seen[w.stem] = true
			out.name = append(out.name, out.fields[0][i])
		}
	}
	if out.act = actRead; !d.Reads {
		out.act = cmp.Or(actOf(fields[1]), actOf(fields[0]))
	}
	return out
}

// withoutTags removes the tags of HTML, in which some servers describe their tools.
func withoutTags(text string) string { return tags.ReplaceAllString(text, " ") }

var tags = regexp.MustCompile(`</?[a-z][^<>]*>`)

func firstSentence(text string) (first, rest string) {
	text = strings.TrimSpace(text)
	for _, end := range []string{". ", ".\n", "\n", "; "} {
		if at := strings.Index(text, end); at >= 0 {
			text, rest = text[:at], text[at:]+rest
		}
	}
	return text, rest
}

// A sought is a word of a query.
type sought struct {
	token
	prefix string // beginning of other forms
	others map[string]bool
	factor float64
}

// fits returns how well a word of an entry fits, from 0 to 1.
func (s sought) fits(w token) float64 {
	switch {
	case w.text == s.text:
		return 1
	case w.stem == s.stem || s.prefix != "" && strings.HasPrefix(w.text, s.prefix):
		return formWeight
	case shortens(w.stem, s.stem) || shortens(s.stem, w.stem):
		return shortWeight
	case s.others[w.stem]:
		return aliasWeight
	}
	return 0
}

// shortens reports whether a word is a short form of another.
func shortens(short, long string) bool {
	return len(short) >= minStem && len(long) >= len(short)+3 && strings.HasPrefix(long, short)
}

// prepositions end the part of a query that names an act and its object.
var prepositions = strings.Fields("of from for with to in on by about into at as that without until under after before")

// soughtOf returns the words of a query.
func (r *Ranking) soughtOf(query string) (list []sought) {
	minor := isFunctionWord(query)
	first, size := utf8.DecodeRuneInString(query) // of a sentence; other capitals separate the words of identifiers
	query = withKinds(phrases.Replace(" " + string(unicode.ToLower(first)) + query[size:] + " "))
	seen := map[string]bool{}
	factor := 1.0
	words := tokensOf(query)
	for i, w := range slices.Clone(words[:max(len(words), 1)-1]) { // because names are written in both ways, such as payout
		if joined := w.text + words[i+1].text; r.stems[stemOf(joined)] {
			words = append(words, token{joined, stemOf(joined)})
		}
	}
	for _, w := range words {
		if len(list) > 0 && slices.Contains(prepositions, w.text) {
			factor = laterWeight
		}
		if seen[w.text] || len(list) == maxTerms {
			continue
		}
		seen[w.text] = true
		s := sought{token: w, others: aliasSets()[w.stem], factor: factor}
		if n := utf8.RuneCountInString(w.text); n > minPrefix {
			if loose := beginnings(w.text, n, isHangul(w.text)); len(loose) > 0 {
				s.prefix = loose[0].words[0]
			}
		}
		if minor(w.text) {
			s.factor *= minorWeight
		}
		list = append(list, s)
	}
	return list
}

// withKinds adds what the names of files and addresses in a query stand for.
func withKinds(query string) string {
	for _, w := range strings.Fields(query) {
		w = strings.Trim(w, `.,;:!?"'()`)
		at := strings.LastIndexByte(w, '.')
		switch {
		case strings.Contains(w, "@"):
			query += " email"
		case at > 0 && !strings.Contains(w, "/") && len(w)-at >= 3 && len(w)-at <= 5 && strings.Trim(w[at+1:], "abcdefghijklmnopqrstuvwxyz") == "":
			query += " file"
		}
	}
	return query
}

// A Ranking ranks entries in memory, by BM25 as the search of a drive does, over all fields together. It is safe for concurrent use.
type Ranking struct {
	entries []described
	words   []token
	ids     map[token]int32
	stems   map[string]bool
	names   map[string]float64 // number of entries with a word in their names
}

// NewRanking returns the ranking of entries.
func NewRanking(list []Described) *Ranking {
	r := &Ranking{entries: make([]described, len(list)), names: map[string]float64{}, ids: map[token]int32{}, stems: map[string]bool{}}
	for i, d := range list {
		r.entries[i] = r.read(d)
		for _, w := range r.entries[i].name {
			r.names[r.words[w].stem]++
		}
	}
	return r
}

// Best returns the indexes of up to limit entries that fit a query in words, the best first.
func (r *Ranking) Best(query string, limit int) []int {
	terms := r.soughtOf(query)
	known := make([][]float64, len(r.words)) // how well each word of the entries fits each term
	for i, w := range r.words {
		for j, t := range terms {
			if f := t.fits(w); f > 0 {
				if known[i] == nil {
					known[i] = make([]float64, len(terms))
				}
				known[i][j] = f
			}
		}
	}
	counts := make([][]float64, len(r.entries))
	found := make([]float64, len(terms)) // number of entries with the term
	for i, e := range r.entries {
		counts[i] = make([]float64, len(terms))
		best := make([]float64, len(terms))
		for f, words := range e.fields {
			for _, w := range words {
				for j, fits := range known[w] {
					counts[i][j] += fits * fieldWeights[f]
					best[j] = max(best[j], fits)
				}
			}
		}
		for j, b := range best {
			found[j] += b
		}
	}
	total := float64(len(r.entries))
	rarity := func(n float64) float64 { return math.Log(1 + (total-n+0.5)/(n+0.5)) }
	scores := make([]float64, len(r.entries))
	words := tokensOf(query)
	act := actOf(words)
	if len(words) > 0 && slices.Contains(questions, words[0].text) {
		act = actRead
	}
	for i, e := range r.entries {
		norm := tempered * (1 - lengthWeight + lengthWeight*e.length/usualLength)
		for j, t := range terms {
			scores[i] += t.factor * rarity(found[j]) * counts[i][j] * (tempered + 1) / (counts[i][j] + norm)
		}
		weight, met := 0.0, 0.0
		for _, w := range e.name {
			most := 0.0
			for _, fits := range known[w] {
				most = max(most, fits)
			}
			weight += rarity(r.names[r.words[w].stem])
			met += most * rarity(r.names[r.words[w].stem])
		}
		if weight > 0 {
			scores[i] *= 1 + explained*met/weight
		}
		scores[i] /= 1 + longName*float64(len(e.fields[0]))
		if act != actUnknown && e.act != actUnknown && act != e.act {
			scores[i] *= otherAct
		}
	}
	var order []int
	for i, s := range scores {
		if s > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return order[:min(len(order), limit)]
}
