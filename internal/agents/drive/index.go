package drive

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// index stores the passages of a text and their words in the transaction that stores the text,
// so that a search never misses a committed text or finds a replaced one.
func (w *writer) index(f File, r io.Reader) error {
	mark := driveMark(w.drive.id)
	var ix indexer
	if w.tx.Postgres() {
		ix = &vectorIndexer{w: w, mark: mark, path: f.Path}
	} else {
		ix = &fts5Indexer{w: w, path: joinWords(mark, f.Path)}
	}
	return eachPassage(r, func(p passage) error { return ix.add(f.rid, p, mark) })
}

func (w *writer) unindex(rid int64) error {
	if !w.tx.Postgres() {
		if _, err := w.tx.Exec(w.ctx, `DELETE FROM drive_index WHERE rowid IN (SELECT id FROM drive_passages WHERE file_rid = $1)`, rid); err != nil {
			return err
		}
	}
	_, err := w.tx.Exec(w.ctx, `DELETE FROM drive_passages WHERE drive_id = $1 AND file_rid = $2`, w.drive.id, rid)
	return err
}

// driveMark returns the prefix of every word of a drive in the index, so that no search finds,
// counts or scans words of another drive.
func driveMark(driveID int64) string { return strconv.FormatInt(driveID, 10) + "x" }

// An indexer adds passages to the full-text index; mark is that of driveMark.
type indexer interface {
	add(rid int64, p passage, mark string) error
}

const insertPassage = `INSERT INTO drive_passages (drive_id, file_rid, first_line, last_line, first_byte, end_byte) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id`

type fts5Indexer struct {
	w    *writer
	path string // words of the path
}

func (x *fts5Indexer) add(rid int64, p passage, mark string) error {
	var id int64
	_, err := x.w.tx.Get(x.w.ctx, insertPassage, []any{x.w.drive.id, rid, p.firstLine, p.lastLine, p.start, p.end}, &id)
	if err != nil {
		return err
	}
	_, err = x.w.tx.Exec(x.w.ctx, `INSERT INTO drive_index (rowid, path, body) VALUES ($1, $2, $3)`, id, x.path, joinWords(mark, string(p.text)))
	return err
}

func joinWords(mark, text string) string {
	var b strings.Builder
	b.Grow(2 * len(text))
	eachWord(text, func(w word) bool {
		b.WriteString(mark)
		b.WriteString(w.text)
		b.WriteByte(' ')
		return true
	})
	return b.String()
}

// vectorIndexer writes the index of PostgreSQL. It builds the vector itself, so that both
// databases index the same words.
type vectorIndexer struct {
	w    *writer
	mark string
	path string
}

// Positions in a vector. The words of the path come first, far from those of the text, so that no
// phrase spans both. PostgreSQL stores no position above 16,383, and at most 256 of a word.
const (
	bodyStart   = 1000
	maxPosition = 16383
)

func (x *vectorIndexer) add(rid int64, p passage, mark string) error {
	_, err := x.w.tx.Exec(x.w.ctx, `INSERT INTO drive_passages (drive_id, file_rid, first_line, last_line, first_byte, end_byte, words) VALUES ($1, $2, $3, $4, $5, $6, $7::tsvector)`,
		x.w.drive.id, rid, p.firstLine, p.lastLine, p.start, p.end, vector(mark, x.path, string(p.text)))
	return err
}

// vector returns the literal of a tsvector. It escapes nothing, since words consist of letters
// and digits.
func vector(mark, path, text string) string {
	places := map[string][]string{}
	put := func(from int, text, weight string) {
		at := from
		eachWord(text, func(w word) bool {
			if at < maxPosition && len(places[w.text]) < 255 {
				places[w.text] = append(places[w.text], strconv.Itoa(at)+weight)
			}
			at++
			return true
		})
	}
	put(1, path, "C")
	put(bodyStart, text, "")
	var b strings.Builder
	for _, w := range slices.Sorted(maps.Keys(places)) {
		b.WriteByte('\'')
		b.WriteString(mark)
		b.WriteString(w)
		b.WriteString("':")
		b.WriteString(strings.Join(places[w], ","))
		b.WriteByte(' ')
	}
	return b.String()
}
