package drive

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
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
	nameWeight    = 2.7
	titleWeight   = 3.7
	textWeight    = 0.5
	detailsWeight = 0.2
	aliasWeight   = 0.4  // of a word with a similar meaning
	stemWeight    = 0.9  // of another form of a word
	minorWeight   = 0.65 // of a function word
	explained     = 1.1  // share of the score by which an explained name outweighs another
	longName      = 0.08 // share that each word of a name takes
	otherAct      = 0.7  // of an entry that does another kind of act
	usualLength   = 33.0 // weighted words of an entry
	lengthWeight  = 0.5  // b of BM25, less than for passages, because the texts of some tools say more than needed
	maxFieldWords = 60   // words of a field that count for its length
)

// aliases lists words that people use for the same act or thing, because few use those of a reference. Each line is a group.
const aliases = `
	create add make new open start post register publish put build draft
	delete remove drop take destroy erase away
	get show view read retrieve fetch see display open check
	list show which all what history recent
	update change edit modify set adjust replace
	search find look query
	cancel stop end abort terminate
	send email mail deliver notify
	reply answer respond comment
	approve accept confirm allow review
	attach add link
	detach remove unlink
	ask request
	newest latest recent last
	unread notification
	branch reference ref
	person member
	decline reject refuse deny
	enable activate turn switch
	disable deactivate turn switch
	save store keep
	issue bug ticket problem
	repository repo project
	organization org company
	user people person member who profile account
	access permission collaborator right role
	file document
	customer client buyer
	refund reimburse back return
	charge payment pay money price
	invoice bill
	dispute chargeback
	subscription subscribe plan
	preview upcoming next
	assign assignee
	email address
	picture image photo
	folder directory
	server host machine instance
	message text note
	webhook hook callback
	link url
	visit view traffic
	star favorite like
	tag label
	count number many
	permission access
	group team
	employee staff person
	schedule plan recurring
	download export
	upload import`

var aliasSets = sync.OnceValue(func() map[string]map[string]bool {
	sets := map[string]map[string]bool{}
	for line := range strings.Lines(aliases) {
		group := wordsOf(line)
		for _, w := range group {
			if sets[w] == nil {
				sets[w] = map[string]bool{}
			}
			for _, other := range group {
				if other != w {
					sets[w][other] = true
				}
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

var acts = sync.OnceValue(func() map[string]int {
	kinds := map[string]int{}
	for kind, text := range map[int]string{
		actRead:   "get list check search find show view read retrieve fetch see look download compare preview count return",
		actRemove: "delete remove erase destroy drop unfollow unstar unlock unpin detach unassign",
		actWrite: `create add make new open start post put update change edit modify set replace send approve accept decline reject refuse enable disable cancel merge
			close lock pin star follow assign attach upload publish save register reply comment request fork rename move transfer protect give call commit write
			capture confirm finalize void pay issue expire resume subscribe ask resend mark submit verify report turn rerun redeliver dismiss calculate`,
	} {
		for _, w := range wordsOf(text) {
			kinds[w] = kind
		}
	}
	return kinds
})

// actOf returns the kind of the first act that a text names.
func actOf(words []string) int {
	for _, w := range words {
		if kind := acts()[w]; kind != actUnknown {
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
	fields [4][]string // of the name, the title, the description and the details
	name   []string    // distinct words of the name
	length float64
	act    int
}

var fieldWeights = [...]float64{nameWeight, titleWeight, textWeight, detailsWeight}

func read(d Described) (out described) {
	title, rest := d.Title, d.Description
	if title == "" {
		title, rest = firstSentence(rest)
	}
	for i, text := range []string{d.Name, title, rest, d.Details} {
		out.fields[i] = wordsOf(text)
		out.length += fieldWeights[i] * float64(min(len(out.fields[i]), maxFieldWords))
	}
	out.name = slices.Compact(slices.Sorted(slices.Values(out.fields[0])))
	if out.act = actRead; !d.Reads {
		out.act = cmp.Or(actOf(out.fields[1]), actOf(out.fields[0]))
	}
	return out
}

func firstSentence(text string) (first, rest string) {
	text = strings.TrimSpace(text)
	for _, end := range []string{". ", ".\n", "\n", ".<"} {
		if at := strings.Index(text, end); at >= 0 {
			text, rest = text[:at], text[at:]+rest
		}
	}
	return text, rest
}

// A sought is a word of a query.
type sought struct {
	text   string
	stem   string // beginning of other forms
	others map[string]bool
	factor float64
}

// fits returns how well a word of an entry fits, from 0 to 1.
func (s sought) fits(w string) float64 {
	switch {
	case w == s.text:
		return 1
	case s.stem != "" && strings.HasPrefix(w, s.stem):
		return stemWeight
	case s.others[w]:
		return aliasWeight
	}
	return 0
}

func soughtOf(query string) (list []sought) {
	minor := isFunctionWord(query)
	query = withKinds(query)
	seen := map[string]bool{}
	for _, w := range wordsOf(query) {
		if seen[w] || len(list) == maxTerms {
			continue
		}
		seen[w] = true
		s := sought{text: w, others: aliasSets()[w], factor: 1}
		if n := utf8.RuneCountInString(w); n > minPrefix {
			if loose := beginnings(w, n, isHangul(w)); len(loose) > 0 {
				s.stem = loose[0].words[0]
			}
		}
		if minor(w) {
			s.factor = minorWeight
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
	names   map[string]float64 // number of entries with a word in their names
}

// NewRanking returns the ranking of entries.
func NewRanking(list []Described) *Ranking {
	r := &Ranking{entries: make([]described, len(list)), names: map[string]float64{}}
	for i, d := range list {
		r.entries[i] = read(d)
		for _, w := range r.entries[i].name {
			r.names[w]++
		}
	}
	return r
}

// Best returns the indexes of up to limit entries that fit a query in words, the best first.
func (r *Ranking) Best(query string, limit int) []int {
	terms := soughtOf(query)
	known := map[string][]float64{} // how well each word of the entries fits each term
	fit := func(w string) []float64 {
		fits, ok := known[w]
		if !ok {
			for j, t := range terms {
				if f := t.fits(w); f > 0 {
					if fits == nil {
						fits = make([]float64, len(terms))
					}
					fits[j] = f
				}
			}
			known[w] = fits
		}
		return fits
	}
	counts := make([][]float64, len(r.entries))
	found := make([]float64, len(terms)) // number of entries with the term
	for i, e := range r.entries {
		counts[i] = make([]float64, len(terms))
		best := make([]float64, len(terms))
		for f, words := range e.fields {
			for _, w := range words {
				for j, fits := range fit(w) {
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
	words := wordsOf(query)
	act := actOf(words)
	if len(words) > 0 && slices.Contains(questions, words[0]) {
		act = actRead
	}
	for i, e := range r.entries {
		norm := saturation * (1 - lengthWeight + lengthWeight*e.length/usualLength)
		for j, t := range terms {
			scores[i] += t.factor * rarity(found[j]) * counts[i][j] * (saturation + 1) / (counts[i][j] + norm)
		}
		weight, met := 0.0, 0.0
		for _, w := range e.name {
			most := 0.0
			for j, fits := range fit(w) {
				most = max(most, fits*min(terms[j].factor*2, 1))
			}
			weight += rarity(r.names[w])
			met += most * rarity(r.names[w])
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
