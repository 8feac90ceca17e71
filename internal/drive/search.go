package drive

import (
	"context"
	"database/sql"
	"math"
	"strings"
	"unicode/utf8"

	"stoa/internal/db"
	"stoa/internal/stoa"
)

const (
	defaultHits    = 10
	maxHits        = 100
	hitsPerFile    = 3 // of one result, so that one file does not hide the others
	maxQuery       = 1000
	snippetBytes   = 320
	candidateBatch = 4 // candidates read per requested hit
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

// Search finds passages that hold the words of a query, the best first. All the
// words first; where no passage has them all, any of them; where there is none,
// words that begin with them. A part in double quotes is a phrase.
// Limit 0 means 10; at most 100.
//
// The result is the text at one moment: never of a deleted or replaced file.
func (d *Drives) Search(ctx context.Context, who Owner, query, prefix string, limit int) ([]Hit, error) {
	if limit <= 0 {
		limit = defaultHits
	}
	limit = min(limit, maxHits)
	if !utf8.ValidString(query) || utf8.RuneCountInString(query) > maxQuery {
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "The query is longer than 1,000 characters, or not valid UTF-8.").At("q")
	}
	prefix, err := parsePrefix(prefix)
	if err != nil {
		return nil, err
	}
	terms := parseQuery(query)
	if len(terms) == 0 {
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "The query holds no word to look for.").At("q")
	}
	var hits []Hit
	err = d.db.Read(ctx, func(tx *db.Tx) error {
		hits = nil
		row, err := findDrive(ctx, tx, who)
		if err != nil || row.id == 0 {
			return err
		}
		s := &searcher{ctx: ctx, tx: tx, drive: row.id, prefix: prefix, limit: limit}
		for _, try := range []struct {
			terms []term
			all   bool
		}{{terms, true}, {terms, false}, {loosen(terms), false}} {
			if len(try.terms) == 0 {
				continue
			}
			if hits, err = s.find(try.terms, try.all); err != nil || len(hits) > 0 {
				return err
			}
		}
		return nil
	})
	return hits, err
}

// A searcher answers one query within one drive.
type searcher struct {
	ctx    context.Context
	tx     *db.Tx
	drive  int64
	prefix string
	limit  int
}

// A candidate is a passage found in the index.
type candidate struct {
	hit        Hit
	blob, size int64
	start, end int64
	score      float64
}

// find queries the index, chooses hits and reads their text.
func (s *searcher) find(terms []term, all bool) ([]Hit, error) {
	perFile := map[string]int{}
	var chosen []candidate
	for n := candidateBatch * s.limit; ; n *= 4 {
		found, err := s.candidates(terms, all, n)
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

// candidates returns the n best passages for the terms, best first: those with
// all terms, or with any of them.
func (s *searcher) candidates(terms []term, all bool, n int) ([]candidate, error) {
	query, args := s.sqlite(terms, all, n)
	if s.tx.Postgres() {
		query, args = s.postgres(terms, all, n)
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

// sqlite returns the query for FTS5, whose bm25 is more negative for a better match. Without a
// prefix the best passages are chosen before their files are looked up.
func (s *searcher) sqlite(terms []term, all bool, n int) (string, []any) {
	join := " OR "
	if all {
		join = " AND "
	}
	match := fts5Query(driveMark(s.drive), terms, join)
	if s.prefix == "" {
		return `SELECT ` + hitColumns + `, -m.score FROM
			(SELECT rowid AS id, bm25(drive_index, 0.7, 1.0) AS score FROM drive_index WHERE drive_index MATCH $1 ORDER BY score, rowid LIMIT $2) m
			JOIN drive_passages p ON p.id = m.id JOIN drive_files f ON f.rid = p.file_rid
			WHERE p.drive_id = $3 AND f.drive_id = $3 ORDER BY m.score, m.id`, []any{match, n, s.drive}
	}
	where, args := s.below()
	return `SELECT ` + hitColumns + `, -m.score FROM
		(SELECT rowid AS id, bm25(drive_index, 0.7, 1.0) AS score FROM drive_index WHERE drive_index MATCH $1) m
		JOIN drive_passages p ON p.id = m.id JOIN drive_files f ON f.rid = p.file_rid
		WHERE p.drive_id = $3 AND f.drive_id = $3` + where + ` ORDER BY m.score, m.id LIMIT $2`,
		append([]any{match, n, s.drive}, args...)
}

// below returns the condition for the prefix, with placeholders from $4 on.
func (s *searcher) below() (string, []any) {
	if s.prefix == "" {
		return "", nil
	}
	if end, ok := after(s.prefix); ok {
		return ` AND f.path >= $4 AND f.path < $5`, []any{s.prefix, end}
	}
	return ` AND f.path >= $4`, []any{s.prefix}
}

func (s *searcher) postgres(terms []term, all bool, n int) (string, []any) {
	join := " | "
	if all {
		join = " & "
	}
	where, args := s.below()
	args = append([]any{vectorQuery(driveMark(s.drive), terms, join), n, s.drive}, args...)
	return `SELECT ` + hitColumns + `, ts_rank(p.words, q.q, 1)::float8 AS score
		FROM (SELECT $1::tsquery AS q) q, drive_passages p JOIN drive_files f ON f.rid = p.file_rid
		WHERE p.words @@ q.q AND p.drive_id = $3 AND f.drive_id = $3` + where + ` ORDER BY score DESC, p.id LIMIT $2`, args
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

// snippet returns the part of a passage with most of the wanted words, on one
// line, with an ellipsis where it was cut.
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

// atWord moves a cut to the next space in the given direction if one is within 24
// bytes, otherwise to the boundary of a character.
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
