package drive

import (
	"cmp"
	"database/sql"
	"maps"
	"math"
	"slices"
	"strings"
)

// Ranking is BM25 with the statistics of one drive, and is the same on both databases: they
// only list the passages of each part of a query. The best of these by the rarity of their
// parts are read and scored.
const (
	maxScored   = 512  // passages that are read and scored, which takes most of the time of a search
	minScored   = 64   // passages that are scored although they contain only parts of little weight
	saturation  = 1.2  // k1 of BM25, its usual value
	lengthShare = 0.75 // b of BM25, its usual value
	pathWeight  = 0.7  // weight of a word in the path
	looseWeight = 0.9  // weight of a word with the same beginning; near 1, since most languages inflect
	nextWeight  = 0.5  // weight of parts that follow each other as in the query
)

// A candidate is a passage found in the index.
type candidate struct {
	id    int64
	all   bool // it contains all terms
	score float64
	hit   Hit
	text  string
}

// A posting lists the passages that contain a part, and the weights of the part.
type posting struct {
	part
	exact, loose             []int64
	exactWeight, looseWeight float64
}

// ranked returns the best passages.
func (s *searcher) ranked(terms []term) ([]Hit, error) {
	postings, absent, err := s.postings(terms)
	if err != nil {
		return nil, err
	}
	found := gather(postings)
	if s.restricted() {
		if err := s.keepBelow(found, postings); err != nil {
			return nil, err
		}
	}
	if !absent {
		if err := s.markAll(found, terms); err != nil {
			return nil, err
		}
	}
	order := make([]candidate, 0, len(found))
	for _, c := range found {
		order = append(order, *c)
	}
	slices.SortFunc(order, better)
	n := min(len(order), minScored)
	for n < min(len(order), maxScored) && (order[n].all || 2*order[n].score >= order[0].score) {
		n++
	}
	order, rest := order[:n], order[n:]
	if err := s.score(order, postings); err != nil {
		return nil, err
	}
	chosen := s.choose(order)
	if len(chosen) < s.limit && len(rest) > 0 {
		// The best passages are in few files, of which a result contains only hitsPerFile each, so
		// those of other files follow.
		rest = rest[:min(len(rest), maxScored)]
		if err := s.score(rest, postings); err != nil {
			return nil, err
		}
		chosen = s.choose(append(order, rest...))
	}
	return s.hits(chosen, terms), nil
}

// better orders candidates: those with all terms first, then by score, then by id, so that the
// order is always the same.
func better(a, b candidate) int {
	switch {
	case a.all != b.all && a.all:
		return -1
	case a.all != b.all:
		return 1
	case a.score != b.score:
		return cmp.Compare(b.score, a.score)
	}
	return cmp.Compare(a.id, b.id)
}

// postings looks up the parts of the terms. It also reports whether a term that a passage
// needs is absent from the drive.
func (s *searcher) postings(terms []term) (out []posting, absent bool, err error) {
	look := func(parts []part) (n int, err error) {
		for _, p := range parts {
			if len(out) == maxParts {
				break
			}
			post := posting{part: p}
			if post.exact, err = s.lookup(alternatives(p.any), maxCandidates, false); err != nil {
				return 0, err
			}
			if len(p.loose) > 0 && !s.common(len(post.exact)) {
				if post.loose, err = s.lookup(alternatives(p.loose), maxCandidates, false); err != nil {
					return 0, err
				}
			}
			post.exactWeight = p.factor * s.rarity(len(post.exact))
			post.looseWeight = p.factor * looseWeight * s.rarity(max(len(post.loose), len(post.exact)))
			n += len(post.exact)
			out = append(out, post)
		}
		return n, nil
	}
	for _, t := range terms {
		n, err := look(t.parts)
		if err == nil && n == 0 {
			absent = absent || len(t.need) > 0
			_, err = look(t.instead)
		}
		if err != nil {
			return nil, false, err
		}
	}
	return out, absent, nil
}

// alternatives returns the query for passages with one of the phrases.
func alternatives(phrases []phrase) [][][]phrase {
	var out [][]phrase
	for _, p := range phrases {
		out = append(out, []phrase{p})
	}
	return [][][]phrase{out}
}

// passages estimates the number of passages of the drive, since counting reads all of them.
func (s *searcher) passages() float64 {
	return float64(max(s.drive.files, s.drive.bytes/fullPassage))
}

// common reports whether a word is in so many passages that its beginning distinguishes none.
func (s *searcher) common(n int) bool { return n > 10 && 10*float64(n) > s.passages() }

// rarity returns the weight of a word in n passages. A lookup ends at maxCandidates, so a larger
// number is estimated as the geometric mean of what is possible.
func (s *searcher) rarity(n int) float64 {
	df, total := float64(n), max(s.passages(), float64(n))
	if n >= maxCandidates {
		df = math.Sqrt(df * total)
	}
	return math.Log(1 + (total-df+0.5)/(df+0.5))
}

func gather(postings []posting) map[int64]*candidate {
	found := map[int64]*candidate{}
	for _, p := range postings {
		gained := map[int64]bool{}
		add := func(ids []int64, weight float64) {
			for _, id := range ids {
				if gained[id] {
					continue
				}
				gained[id] = true
				c := found[id]
				if c == nil {
					c = &candidate{id: id}
					found[id] = c
				}
				c.score += weight
			}
		}
		add(p.exact, p.exactWeight)
		add(p.loose, p.looseWeight)
	}
	return found
}

// keepBelow removes the passages of files without the prefix. If few are left, it looks frequent
// words up again below the prefix, because their lookups ended before they reached all passages.
func (s *searcher) keepBelow(found map[int64]*candidate, postings []posting) error {
	// CROSS JOIN makes SQLite begin with the passages, not with all pairs of the list and a file.
	query := `SELECT p.id FROM drive_passages p CROSS JOIN drive_files f
		WHERE p.rowid IN (SELECT value FROM json_each($1)) AND f.rid = p.file_rid AND f.drive_id = $3`
	if s.tx.Postgres() {
		query = `SELECT p.id FROM drive_passages p JOIN drive_files f ON f.rid = p.file_rid
			WHERE p.id = ANY($1::bigint[]) AND f.drive_id = $3`
	}
	where, bounds := s.below()
	ids, err := s.ids(query+where+` LIMIT $2`, append([]any{s.list(slices.Collect(maps.Keys(found))), len(found), s.drive.id}, bounds...))
	if err != nil {
		return err
	}
	all := maps.Clone(found)
	clear(found)
	for _, id := range ids {
		found[id] = all[id]
	}
	var frequent []phrase
	for _, p := range postings {
		if len(p.exact) >= maxCandidates {
			frequent = append(frequent, p.any...)
		}
		if len(p.loose) >= maxCandidates {
			frequent = append(frequent, p.part.loose...)
		}
	}
	if len(found) >= maxScored || len(frequent) == 0 {
		return nil
	}
	ids, err = s.lookup(alternatives(frequent), maxCandidates, true)
	for _, id := range ids {
		if found[id] == nil {
			found[id] = &candidate{id: id}
		}
	}
	return err
}

func (s *searcher) markAll(found map[int64]*candidate, terms []term) error {
	var needs [][][]phrase
	for _, t := range terms {
		if len(t.need) > 0 {
			needs = append(needs, t.need)
		}
	}
	ids, err := s.lookup(needs, maxCandidates, s.restricted())
	for _, id := range ids {
		if found[id] == nil {
			found[id] = &candidate{id: id}
		}
		found[id].all = true
	}
	return err
}

func (s *searcher) score(found []candidate, postings []posting) error {
	if err := s.read(found); err != nil {
		return err
	}
	m := newMatcher(postings)
	for i := range found {
		found[i].score = m.score(found[i].hit.Path, found[i].text)
	}
	slices.SortFunc(found, better)
	return nil
}

// read reads the files and the text of candidates. It reads up to two rows for each, because a
// passage may be in two pieces.
func (s *searcher) read(found []candidate) error {
	if len(found) == 0 {
		return nil
	}
	at := map[int64]int{}
	ids := make([]int64, len(found))
	for i, c := range found {
		at[c.id], ids[i] = i, c.id
	}
	query := readSQLite
	if s.tx.Postgres() {
		query = readPostgres
	}
	return s.tx.Query(s.ctx, func(rows *sql.Rows) error {
		var id, n int64
		var h Hit
		var text []byte
		err := rows.Scan(&id, &n, &h.Path, &h.SHA256, &h.MimeType, &h.Version, &h.FirstLine, &h.LastLine, &h.start, &text)
		if i, ok := at[id]; ok {
			found[i].hit = h
			found[i].text += string(text)
		}
		return err
	}, query, s.list(ids), s.drive.id, int64(pieceSize), 2*len(found))
}

const (
	readSQLite = `SELECT p.id, c.n, f.path, f.sha256, f.mime, f.version, p.first_line, p.last_line, p.first_byte,
		substr(c.data, max(p.first_byte - c.n * $3, 0) + 1, min(p.end_byte - c.n * $3, $3) - max(p.first_byte - c.n * $3, 0))
		FROM drive_passages p JOIN drive_files f ON f.rid = p.file_rid
		JOIN drive_blobs b ON b.id = f.text_blob_id JOIN drive_pieces c ON c.blob_id = b.id AND c.n BETWEEN p.first_byte / $3 AND (p.end_byte - 1) / $3
		WHERE p.rowid IN (SELECT value FROM json_each($1)) AND p.drive_id = $2 AND f.drive_id = $2 AND b.drive_id = $2 ORDER BY p.id, c.n LIMIT $4`
	readPostgres = `SELECT p.id, c.n, f.path, f.sha256, f.mime, f.version, p.first_line, p.last_line, p.first_byte,
		substr(c.data, (greatest(p.first_byte - c.n * $3, 0) + 1)::int, (least(p.end_byte - c.n * $3, $3) - greatest(p.first_byte - c.n * $3, 0))::int)
		FROM drive_passages p JOIN drive_files f ON f.rid = p.file_rid
		JOIN drive_blobs b ON b.id = f.text_blob_id JOIN drive_pieces c ON c.blob_id = b.id AND c.n BETWEEN p.first_byte / $3 AND (p.end_byte - 1) / $3
		WHERE p.id = ANY($1::bigint[]) AND p.drive_id = $2 AND f.drive_id = $2 AND b.drive_id = $2 ORDER BY p.id, c.n LIMIT $4`
)

// A matcher counts the parts of a query in texts.
type matcher struct {
	postings []posting
	exact    map[string][]pattern // patterns by the first word
	prefixes []pattern            // patterns of one word that is a prefix
}

// A pattern is a phrase of a part.
type pattern struct {
	phrase
	part  int
	loose bool
}

func newMatcher(postings []posting) *matcher {
	m := &matcher{postings: postings, exact: map[string][]pattern{}}
	for i, p := range postings {
		add := func(phrases []phrase, loose bool) {
			for _, ph := range phrases {
				pat := pattern{phrase: ph, part: i, loose: loose}
				if first := ph.words[0]; ph.prefix && len(ph.words) == 1 {
					m.prefixes = append(m.prefixes, pat)
				} else {
					m.exact[first] = append(m.exact[first], pat)
				}
			}
		}
		if len(p.exact) > 0 {
			add(p.any, false)
		}
		if len(p.loose) > 0 {
			add(p.part.loose, true)
		}
	}
	return m
}

// A tally counts a part in a passage.
type tally struct{ exact, loose float64 }

func (m *matcher) score(path, text string) float64 {
	counts := make([]tally, len(m.postings))
	next := make([]bool, len(m.postings)) // the previous part precedes this one in the text
	m.count(path, pathWeight, counts, nil)
	m.count(text, 1, counts, next)
	norm := saturation * (1 - lengthShare + lengthShare*float64(len(text))/fullPassage)
	frequency := func(n float64) float64 { return n * (saturation + 1) / (n + norm) }
	sum := 0.0
	for i, p := range m.postings {
		sum += max(p.exactWeight*frequency(counts[i].exact), p.looseWeight*frequency(counts[i].loose))
		if next[i] {
			sum += nextWeight * min(p.exactWeight, m.postings[i-1].exactWeight)
		}
	}
	return sum
}

func (m *matcher) count(text string, weight float64, counts []tally, next []bool) {
	var words []string
	eachWord(text, func(w word) bool {
		words = append(words, w.text)
		return true
	})
	var last, here []int // parts that end at the previous word and at this one
	for i, w := range words {
		here = here[:0]
		found := func(p pattern) {
			switch c := &counts[p.part]; {
			case p.loose:
				c.loose += weight
			default:
				c.exact += weight
				if here = append(here, p.part); next != nil && slices.Contains(last, p.part-1) {
					next[p.part] = true
				}
			}
		}
		for _, p := range m.exact[w] {
			if p.follows(words[i:]) {
				found(p)
			}
		}
		for _, p := range m.prefixes {
			if strings.HasPrefix(w, p.words[0]) {
				found(p)
			}
		}
		last, here = here, last
	}
}

func (p phrase) follows(words []string) bool {
	if len(words) < len(p.words) {
		return false
	}
	last := len(p.words) - 1
	if !slices.Equal(words[:last], p.words[:last]) {
		return false
	}
	return words[last] == p.words[last] || p.prefix && strings.HasPrefix(words[last], p.words[last])
}
