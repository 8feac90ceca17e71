package drive

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"stoa/internal/db"
	"stoa/internal/stoa"
)

const (
	defaultHits    = 10
	maxHits        = 100
	hitsPerFile    = 3 // in one result, so that one file does not hide the others
	maxQuery       = 1000
	snippetBytes   = 320
	candidateBatch = 4 // candidates read per requested hit
	maxCandidates  = 5000
	maxEndings     = 64 // words that a prefix may match
)

// A Hit is a passage found by a search.
type Hit struct {
	Path      string
	SHA256    string // of the file
	MimeType  string
	Version   int64
	FirstLine int64
	LastLine  int64
	Snippet   string  // a part of the passage around the words found, on one line
	Text      string  // the whole passage
	Score     float64 // 1 for the best hit, less for others; comparable within one result only
}

// Found is the result of a search.
type Found struct {
	Hits []Hit
	// Cut means that the search ran out of time: the hits are passages with words of the
	// query, but there may be better ones.
	Cut bool
}

// isNoise reports whether a character is white space, punctuation, a control character or an
// ASCII symbol: a query of these alone is a mistake.
func isNoise(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsPunct(r) || unicode.IsControl(r) || r <= unicode.MaxASCII && unicode.IsSymbol(r)
}

// Search finds passages that contain the words of a query, best first. It first requires all
// words; if no passage has them all, any of them; if none exists, words that begin with
// them, for words of at least 4 letters. A part in double quotes is a phrase. Limit 0 means
// 10; the maximum is 100.
//
// A search is limited to [Limits].SearchTime; the last fifth is reserved for the unranked
// result of a search that ran out of time. At most maxCandidates passages with equal words
// are ranked, on SQLite the newest. An account runs one search at a time; the next waits for
// at most the time of a search (then [stoa.CodeRateLimit]). All searches together leave half
// of the connections to other reads; a search that gets no connection in time is
// [stoa.CodeOverloaded].
//
// The result is consistent: it never includes text of a deleted or replaced file.
func (d *Drives) Search(ctx context.Context, who Owner, query, prefix string, limit int) (Found, error) {
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
	s := &searcher{d: d, who: who, prefix: prefix, limit: limit}
	return s.within(ctx, terms)
}

// within runs the search within its time.
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
	hits, err := s.ranked(first, terms)
	if err == nil || ctx.Err() != nil || !isOver(first, err) {
		return Found{Hits: hits}, err
	}
	// Out of time: some passages with any of the words, in the order of the index.
	last, cancel := context.WithDeadline(ctx, begin.Add(limit))
	defer cancel()
	hits, err = s.attempt(last, terms, how{unranked: true})
	if err != nil && ctx.Err() == nil && isOver(last, err) {
		hits, err = nil, nil
	}
	return Found{Hits: hits, Cut: true}, err
}

// isOver reports whether an error means that the time of a search is over.
func isOver(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
}

// searches allows one search of an account at a time.
type searches struct {
	mu      sync.Mutex
	running map[string]chan struct{} // by account; contains an element while a search runs
	users   map[string]int           // by account: the running search and the waiting ones
}

// enter waits until no other search of the account runs, at most for timeout. The search must
// call leave.
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

// A searcher runs one search.
type searcher struct {
	d      *Drives
	who    Owner
	prefix string
	limit  int
	// Of the running attempt:
	ctx   context.Context
	tx    *db.Tx
	drive int64
}

// how describes how an attempt combines the terms.
type how struct {
	all      bool // a passage must contain all of them, not any
	unranked bool // in the order of the index
}

// ranked tries one combination of the terms after the other until one has results.
func (s *searcher) ranked(ctx context.Context, terms []term) ([]Hit, error) {
	for _, try := range []struct {
		terms []term
		how   how
	}{{terms, how{all: true}}, {terms, how{}}, {loosen(terms), how{}}} {
		if len(try.terms) == 0 {
			continue
		}
		if hits, err := s.attempt(ctx, try.terms, try.how); err != nil || len(hits) > 0 {
			return hits, err
		}
	}
	return nil, nil
}

// attempt searches once, in a separate transaction, which must not block writers: see
// [db.DB.Turn].
func (s *searcher) attempt(ctx context.Context, terms []term, h how) (hits []Hit, err error) {
	err = s.d.db.Read(ctx, func(tx *db.Tx) error {
		hits = nil
		row, err := findDrive(ctx, tx, s.who)
		if err != nil || row.id == 0 {
			return err
		}
		s.ctx, s.tx, s.drive = ctx, tx, row.id
		hits, err = s.find(terms, h)
		return err
	})
	return hits, err
}

// A candidate is a passage found in the index.
type candidate struct {
	hit        Hit
	blob, size int64
	start, end int64
	score      float64
}

// find queries the index, chooses hits and reads their text.
func (s *searcher) find(terms []term, h how) ([]Hit, error) {
	terms, err := s.expand(terms)
	if err != nil {
		return nil, err
	}
	perFile := map[string]int{}
	var chosen []candidate
	for n := candidateBatch * s.limit; ; n *= 4 {
		found, err := s.candidates(terms, h, n)
		if err != nil {
			return nil, err
		}
		chosen = chosen[:0]
		clear(perFile)
		for _, c := range found {
			if perFile[c.hit.Path] < hitsPerFile && len(chosen) < s.limit {
				perFile[c.hit.Path]++
				chosen = append(chosen, c)
			}
		}
		if len(chosen) == s.limit || len(found) < n || n > 1<<12 {
			break
		}
	}
	wanted := map[string]bool{}
	for _, t := range terms {
		for _, w := range t.words {
			wanted[w] = true
		}
	}
	hits := make([]Hit, 0, len(chosen))
	for _, c := range chosen {
		text, err := s.text(c)
		if err != nil {
			return nil, err
		}
		h := c.hit
		h.Text = text
		h.Snippet = snippet(text, wanted)
		h.Score = 1
		if best := chosen[0].score; best > 0 {
			h.Score = math.Round(c.score/best*1e4) / 1e4
		}
		hits = append(hits, h)
	}
	return hits, nil
}

// expand looks up, on SQLite, the words that begin with the prefix terms: FTS5 would merge
// the lists of all of them before it returned the first passage. PostgreSQL does so too, but
// has no list of words; there only the time limit applies.
func (s *searcher) expand(terms []term) ([]term, error) {
	if s.tx.Postgres() {
		return terms, nil
	}
	mark := driveMark(s.drive)
	out := make([]term, 0, len(terms))
	for _, t := range terms {
		if !t.prefix {
			out = append(out, t)
			continue
		}
		begin := mark + t.words[len(t.words)-1]
		end, _ := after(begin)
		err := s.tx.Query(s.ctx, func(rows *sql.Rows) error {
			var word string
			err := rows.Scan(&word)
			t.endings = append(t.endings, strings.TrimPrefix(word, mark))
			return err
		}, `SELECT term FROM drive_vocabulary WHERE term >= $1 AND term < $2 LIMIT $3`, begin, end, maxEndings)
		if err != nil {
			return nil, err
		}
		if len(t.endings) == 0 {
			t.prefix = false // no indexed word begins with it
		}
		out = append(out, t)
	}
	return out, nil
}

func (s *searcher) candidates(terms []term, h how, n int) ([]candidate, error) {
	query, args := s.sqlite(terms, h, n)
	if s.tx.Postgres() {
		query, args = s.postgres(terms, h, n)
	}
	if err := s.tx.LimitTime(s.ctx); err != nil {
		return nil, err
	}
	var out []candidate
	err := s.tx.Query(s.ctx, func(rows *sql.Rows) error {
		var c candidate
		err := rows.Scan(&c.hit.Path, &c.hit.SHA256, &c.hit.MimeType, &c.hit.Version, &c.hit.FirstLine, &c.hit.LastLine,
			&c.start, &c.end, &c.blob, &c.size, &c.score)
		out = append(out, c)
		return err
	}, query, args...)
	return out, err
}

const hitColumns = `f.path, f.sha256, f.mime, f.version, p.first_line, p.last_line, p.first_byte, p.end_byte, f.blob_id, f.size`

// sqlite returns the query for FTS5, whose bm25 is more negative for a better match. At most
// maxCandidates passages, the newest, get a score; with a prefix of paths only those of
// matching files count.
func (s *searcher) sqlite(terms []term, h how, n int) (string, []any) {
	join := " OR "
	if h.all {
		join = " AND "
	}
	score, most := `bm25(drive_index, 0.7, 1.0)`, maxCandidates
	if h.unranked {
		score, most = `0.0`, n
	}
	match := fts5Query(driveMark(s.drive), terms, join)
	inner, args := `SELECT rowid AS id, `+score+` AS score FROM drive_index WHERE drive_index MATCH $1 ORDER BY rowid DESC LIMIT $2`, []any{match, most, s.drive, n}
	if s.prefix != "" {
		where, bounds := s.below()
		inner = `SELECT drive_index.rowid AS id, ` + score + ` AS score FROM drive_index
			JOIN drive_passages ip ON ip.id = drive_index.rowid JOIN drive_files f ON f.rid = ip.file_rid
			WHERE drive_index MATCH $1 AND f.drive_id = $3` + where + ` ORDER BY drive_index.rowid DESC LIMIT $2`
		args = append(args, bounds...)
	}
	return `SELECT ` + hitColumns + `, -m.score FROM (SELECT id, score FROM (` + inner + `) ORDER BY score, id LIMIT $4) m
		JOIN drive_passages p ON p.id = m.id JOIN drive_files f ON f.rid = p.file_rid
		WHERE p.drive_id = $3 AND f.drive_id = $3 ORDER BY m.score, m.id`, args
}

// below returns the condition for the prefix, with placeholders from $5 on.
func (s *searcher) below() (string, []any) {
	if s.prefix == "" {
		return "", nil
	}
	if end, ok := after(s.prefix); ok {
		return ` AND f.path >= $5 AND f.path < $6`, []any{s.prefix, end}
	}
	return ` AND f.path >= $5`, []any{s.prefix}
}

func (s *searcher) postgres(terms []term, h how, n int) (string, []any) {
	join := " | "
	if h.all {
		join = " & "
	}
	score, most := `ts_rank('{0.1, 0.07, 0, 0}', m.words, $1::tsquery, 1)::float8`, maxCandidates
	if h.unranked {
		score, most = `0::float8`, n
	}
	where, bounds := s.below()
	args := append([]any{vectorQuery(driveMark(s.drive), terms, join), most, s.drive, n}, bounds...)
	return `SELECT ` + strings.NewReplacer("f.", "m.", "p.", "m.").Replace(hitColumns) + `, ` + score + ` AS score
		FROM (SELECT ` + hitColumns + `, p.id, p.words FROM drive_passages p JOIN drive_files f ON f.rid = p.file_rid
			WHERE p.words @@ $1::tsquery AND p.drive_id = $3 AND f.drive_id = $3` + where + ` LIMIT $2) m
		ORDER BY score DESC, m.id LIMIT $4`, args
}

// text reads the passage of a candidate from its file.
func (s *searcher) text(c candidate) (string, error) {
	src := &pieces{size: c.size, pos: c.start, fetch: func(n int64) ([]byte, error) { return fetchPiece(s.ctx, s.tx, s.drive, c.blob, n) }}
	b := make([]byte, c.end-c.start)
	for done := 0; done < len(b); {
		n, err := src.Read(b[done:])
		if err != nil {
			return "", err
		}
		done += n
	}
	return string(b), nil
}

// snippet returns the part of a passage with most of the wanted words, on one line, with
// ellipses at cuts.
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
