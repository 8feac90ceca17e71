package drive

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

const (
	defaultHits    = 10
	maxHits        = 100
	hitsPerFile    = 3 // maximum of one file in a result, so that it does not hide the others
	maxQuery       = 1000
	snippetBytes   = 320
	candidateBatch = 4 // candidates per requested hit of an unranked search; more than one because of hitsPerFile
	maxCandidates  = 5000
	maxEndings     = 64 // words that a prefix may match: FTS5 reads the list of each, so a frequent prefix would take seconds
)

// A Hit is a passage found by a search.
type Hit struct {
	Path      string
	SHA256    string // hash of the file
	MimeType  string
	Version   int64
	FirstLine int64
	LastLine  int64
	Snippet   string  // a part of the passage around the words found, on one line
	Text      string  // the whole passage
	Place     string  // position in a document, such as "p. 12–13"; may be empty
	FromByte  int64   // number of bytes of its first line before the passage
	Header    string  // line with the names of the columns, if the passage is in a table and does not contain it
	Score     float64 // 1 for the best hit, less for others; comparable within one result only

	passage, start int64 // id of the passage, its first byte
}

// Found is the result of a search.
type Found struct {
	Hits []Hit
	// Cut means that the search ran out of time: the hits are passages with words of the
	// query, but there may be better ones.
	Cut bool
}

// isNoise reports whether a character is white space, punctuation, a control character or an ASCII
// symbol. A query of these alone is refused, because it is a mistake.
func isNoise(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsPunct(r) || unicode.IsControl(r) || r <= unicode.MaxASCII && unicode.IsSymbol(r)
}

// Search finds passages that contain the words of a query, best first: those with all words,
// then those with some, weighed by how rare the words are in the drive. Words with the same
// beginning count a little less, and function words much less. A part in double quotes is a phrase.
// Limit 0 means 10; the maximum is 100.
//
// A search is limited to [Limits].SearchTime; the last fifth is reserved for the unranked
// result of a search that ran out of time. At most maxCandidates passages with a word are
// ranked, on SQLite the newest. An account runs one search at a time, so that it cannot delay
// those of others; the next waits for at most the time of a search (then [stoa.CodeRateLimit]).
// All searches together leave half of the connections to other reads; a search that gets no
// connection in time is [stoa.CodeOverloaded].
//
// The result is consistent: it never includes text of a deleted or replaced file, because all
// reads of a search are in one transaction.
func (d *Drives) Search(ctx context.Context, who Owner, query, prefix string, limit int) (Found, error) {
	return d.SearchExcept(ctx, who, query, prefix, "", limit)
}

// SearchExcept is [Drives.Search] without the files whose paths begin with except, unless that is empty.
func (d *Drives) SearchExcept(ctx context.Context, who Owner, query, prefix, except string, limit int) (Found, error) {
	if limit <= 0 {
		limit = defaultHits
	}
	limit = min(limit, maxHits)
	if !utf8.ValidString(query) || utf8.RuneCountInString(query) > maxQuery {
		return Found{}, stoa.Errorf(stoa.CodeInvalidValue, "The query is longer than 1,000 characters, or not valid UTF-8.").At("q")
	}
	prefix, err := parsePrefix(prefix)
	if err != nil {
		return Found{}, err
	}
	terms := parseQuery(query)
	switch {
	case strings.TrimFunc(query, isNoise) == "":
		return Found{}, stoa.Errorf(stoa.CodeInvalidValue, "The query contains no word to search for.").At("q")
	case len(terms) == 0: // such as an emoji: no text is indexed by it
		return Found{}, nil
	}
	leave, err := d.searches.enter(ctx, who.AccountID, d.limits.SearchTime)
	if err != nil {
		return Found{}, err
	}
	defer leave()
	s := &searcher{d: d, who: who, prefix: prefix, except: except, limit: limit}
	return s.within(ctx, terms)
}

// within runs the search within [Limits].SearchTime. It ranks for four fifths of the time only, so
// that the rest suffices for some unranked hits.
func (s *searcher) within(ctx context.Context, terms []term) (Found, error) {
	begin, limit := time.Now(), s.d.limits.SearchTime
	first, cancel := context.WithDeadline(ctx, begin.Add(limit/5*4))
	defer cancel()
	leave, err := s.d.db.Turn(first)
	if err != nil {
		if ctx.Err() != nil {
			return Found{}, ctx.Err()
		}
		return Found{}, stoa.Errorf(stoa.CodeOverloaded, "The service is busy with searches of other accounts. Try again.").After(time.Second)
	}
	defer leave()
	hits, err := s.attempt(first, terms, (*searcher).ranked)
	if err == nil || ctx.Err() != nil || !isOver(first, err) {
		return Found{Hits: hits}, err
	}
	last, cancel := context.WithDeadline(ctx, begin.Add(limit))
	defer cancel()
	hits, err = s.attempt(last, terms, (*searcher).unranked)
	if err != nil && ctx.Err() == nil && isOver(last, err) {
		hits, err = nil, nil
	}
	return Found{Hits: hits, Cut: true}, err
}

func isOver(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
}

// searches allows one search of an account at a time.
type searches struct {
	mu      sync.Mutex
	running map[string]chan struct{} // by account; a channel contains an element while a search runs
	users   map[string]int           // number of running and waiting searches by account, so that the last one removes the entries
}

// enter waits until no other search of the account runs, at most for timeout. The caller must call
// leave, since the account could otherwise not search again.
func (s *searches) enter(ctx context.Context, accountID string, timeout time.Duration) (leave func(), err error) {
	s.mu.Lock()
	if s.running == nil {
		s.running, s.users = map[string]chan struct{}{}, map[string]int{}
	}
	turn := s.running[accountID]
	if turn == nil {
		turn = make(chan struct{}, 1)
		s.running[accountID] = turn
	}
	s.users[accountID]++
	s.mu.Unlock()
	quit := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.users[accountID]--; s.users[accountID] == 0 {
			delete(s.users, accountID)
			delete(s.running, accountID)
		}
	}
	leave = func() { <-turn; quit() }
	select {
	case turn <- struct{}{}:
		return leave, nil
	default:
	}
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case turn <- struct{}{}:
		return leave, nil
	case <-wait.Done():
		quit()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, stoa.Errorf(stoa.CodeRateLimit, "Another search of this account is running. Try again.").After(time.Second)
	}
}

type searcher struct {
	d      *Drives
	who    Owner
	prefix string
	except string // beginning of the paths that are left out; empty leaves out none
	limit  int
	// State of the running attempt:
	ctx   context.Context
	tx    *db.Tx
	drive driveRow
}

// attempt searches once, in a separate transaction, because one that ran out of time cannot be used
// again. It must not block writers: see [db.DB.Turn].
func (s *searcher) attempt(ctx context.Context, terms []term, find func(*searcher, []term) ([]Hit, error)) (hits []Hit, err error) {
	err = s.d.db.Read(ctx, func(tx *db.Tx) error {
		hits = nil
		row, err := findDrive(ctx, tx, s.who)
		if err != nil || row.id == 0 {
			return err
		}
		s.ctx, s.tx, s.drive = ctx, tx, row
		if hits, err = find(s, terms); err != nil {
			return err
		}
		return s.locate(hits)
	})
	return hits, err
}

// unranked returns passages with any part of the query, in the order of the index. It leaves out
// function words, because almost any passage contains one.
func (s *searcher) unranked(terms []term) ([]Hit, error) {
	var either [][]phrase
	for _, t := range terms {
		if len(t.need) == 0 {
			continue
		}
		for _, p := range t.parts {
			for _, ph := range p.any {
				either = append(either, []phrase{ph})
			}
		}
	}
	ids, err := s.lookup([][][]phrase{either}, candidateBatch*s.limit, s.restricted())
	if err != nil {
		return nil, err
	}
	found := make([]candidate, len(ids))
	for i, id := range ids {
		found[i].id = id
	}
	if err := s.read(found); err != nil {
		return nil, err
	}
	return s.hits(s.choose(found), terms), nil
}

func (s *searcher) choose(found []candidate) (chosen []candidate) {
	perFile := map[string]int{}
	for _, c := range found {
		if c.text != "" && perFile[c.hit.Path] < hitsPerFile && len(chosen) < s.limit {
			perFile[c.hit.Path]++
			chosen = append(chosen, c)
		}
	}
	return chosen
}

func (s *searcher) hits(chosen []candidate, terms []term) []Hit {
	wanted := map[string]bool{}
	for _, t := range terms {
		for _, p := range slices.Concat(t.parts, t.instead) {
			for _, ph := range slices.Concat(p.any, p.loose) {
				for _, w := range ph.words {
					wanted[w] = true
				}
			}
		}
	}
	hits := make([]Hit, 0, len(chosen))
	score := 1.0
	for _, c := range chosen {
		h := c.hit
		h.passage = c.id
		h.Text = c.text
		h.Snippet = snippet(c.text, wanted)
		if best := chosen[0].score; best > 0 {
			// The minimum keeps scores in descending order, because a passage with all words
			// precedes a better one with some.
			score = min(score, math.Round(c.score/best*1e4)/1e4)
		}
		h.Score = score
		hits = append(hits, h)
	}
	return hits
}

// expand looks up, on SQLite, the words that begin with a prefix, because FTS5 would merge the
// lists of all of them before it returned the first passage. PostgreSQL does so too, but has no
// list of words; there only the time limit applies.
func (s *searcher) expand(phrases []phrase) ([]phrase, error) {
	if s.tx.Postgres() {
		return phrases, nil
	}
	mark := driveMark(s.drive.id)
	out := slices.Clone(phrases)
	for i, p := range out {
		if !p.prefix {
			continue
		}
		begin := mark + p.words[len(p.words)-1]
		end, _ := after(begin)
		err := s.tx.Query(s.ctx, func(rows *sql.Rows) error {
			var word string
			err := rows.Scan(&word)
			out[i].endings = append(out[i].endings, strings.TrimPrefix(word, mark))
			return err
		}, `SELECT term FROM drive_vocabulary WHERE term >= $1 AND term < $2 LIMIT $3`, begin, end, maxEndings)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// lookup returns the passages that match all terms, at most limit: on SQLite the newest, because
// FTS5 reads its lists from that end without sorting. below restricts them to the prefix of paths,
// which takes longer, since each passage needs its file.
func (s *searcher) lookup(terms [][][]phrase, limit int, below bool) (ids []int64, err error) {
	expanded := make([][][]phrase, len(terms))
	for i, alternatives := range terms {
		for _, phrases := range alternatives {
			if phrases, err = s.expand(phrases); err != nil {
				return nil, err
			}
			expanded[i] = append(expanded[i], phrases)
		}
	}
	if err := s.tx.LimitTime(s.ctx); err != nil {
		return nil, err
	}
	mark, where, bounds := driveMark(s.drive.id), "", []any(nil)
	if below {
		where, bounds = s.below()
	}
	var query string
	var args []any
	switch {
	case s.tx.Postgres() && below:
		query = `SELECT p.id FROM drive_passages p JOIN drive_files f ON f.rid = p.file_rid
			WHERE p.words @@ $1::tsquery AND p.drive_id = $3 AND f.drive_id = $3` + where + ` LIMIT $2`
		args = append([]any{tsvector.query(mark, expanded), limit, s.drive.id}, bounds...)
	case s.tx.Postgres():
		query = `SELECT p.id FROM drive_passages p WHERE p.words @@ $1::tsquery AND p.drive_id = $3 LIMIT $2`
		args = []any{tsvector.query(mark, expanded), limit, s.drive.id}
	case below:
		query = `SELECT drive_index.rowid FROM drive_index
			JOIN drive_passages p ON p.id = drive_index.rowid JOIN drive_files f ON f.rid = p.file_rid
			WHERE drive_index MATCH $1 AND f.drive_id = $3` + where + ` ORDER BY drive_index.rowid DESC LIMIT $2`
		args = append([]any{fts5.query(mark, expanded), limit, s.drive.id}, bounds...)
	default:
		query = `SELECT rowid FROM drive_index WHERE drive_index MATCH $1 ORDER BY rowid DESC LIMIT $2`
		args = []any{fts5.query(mark, expanded), limit}
	}
	return s.ids(query, args)
}

func (s *searcher) ids(query string, args []any) (ids []int64, err error) {
	err = s.tx.Query(s.ctx, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, query, args...)
	return ids, err
}

func (s *searcher) list(ids []int64) string {
	list, _ := json.Marshal(ids) // integers: cannot fail
	if s.tx.Postgres() {
		return "{" + strings.Trim(string(list), "[]") + "}"
	}
	return string(list)
}

func (s *searcher) restricted() bool { return s.prefix != "" || s.except != "" }

// below returns the condition for the prefix and except, with placeholders from $4 on.
func (s *searcher) below() (string, []any) {
	end, _ := after(s.except) // without except the range is empty
	where, args := ` AND f.path >= $4 AND NOT (f.path >= $5 AND f.path < $6)`, []any{s.prefix, s.except, end}
	if end, ok := after(s.prefix); ok {
		return where + ` AND f.path < $7`, append(args, end)
	}
	return where, args
}

// snippet returns the part of a passage with most of the wanted words, on one line.
func snippet(text string, wanted map[string]bool) string {
	var found []word
	eachWord(text, func(w word) bool {
		if wanted[w.text] || begins(w.text, wanted) {
			found = append(found, w)
		}
		return true
	})
	from, most := 0, 0
	for i := range found {
		distinct := map[string]bool{}
		for _, w := range found[i:] {
			if w.end-found[i].start > snippetBytes*2/3 {
				break
			}
			distinct[w.text] = true
		}
		if len(distinct) > most {
			most, from = len(distinct), found[i].start
		}
	}
	from = max(0, from-snippetBytes/4)
	to := min(len(text), from+snippetBytes)
	from = max(0, min(from, to-snippetBytes))
	from, to = atWord(text, from, true), atWord(text, to, false)
	out := strings.Join(strings.Fields(text[from:to]), " ")
	if from > 0 {
		out = "…" + out
	}
	if to < len(text) {
		out += "…"
	}
	return out
}

// begins reports whether a wanted word of 3 bytes or more is a prefix of w.
func begins(w string, wanted map[string]bool) bool {
	for p := range wanted {
		if len(p) >= 3 && strings.HasPrefix(w, p) {
			return true
		}
	}
	return false
}

// atWord moves a cut to the next space in the given direction if one is within 24 bytes,
// otherwise to a character boundary.
func atWord(text string, at int, forward bool) int {
	if at <= 0 || at >= len(text) {
		return max(0, min(at, len(text)))
	}
	const near = 24
	if forward {
		if i := strings.IndexAny(text[at:min(len(text), at+near)], " \t\n"); i >= 0 {
			return at + i + 1
		}
		for at < len(text) && !utf8.RuneStart(text[at]) {
			at++
		}
		return at
	}
	low := max(0, at-near)
	if i := strings.LastIndexAny(text[low:at], " \t\n"); i >= 0 {
		return low + i
	}
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}
