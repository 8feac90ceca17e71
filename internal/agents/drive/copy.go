package drive

import (
	"context"
	"database/sql"
	"errors"
	"io"

	"stoa/internal/base/db"
	"stoa/internal/base/store"
)

// Tables describes how to copy the tables of this package.
func Tables() store.DriveTables {
	return store.DriveTables{
		Migrations: Migrations,
		Refill:     copyPassages, Refilled: "drive_passages",
		Own: []string{"drive_passages.words"}, // SQLite's index is a virtual table
	}
}

// passagesPerRead is the number of passages that are copied at a time, so that memory stays bounded.
const passagesPerRead = 500

// copyPassages copies the passages of all files, whose content was copied before. It builds the
// index from their text, because the two databases store words differently, and those of SQLite
// cannot be read back.
func copyPassages(ctx context.Context, from, to *db.DB, progress func(rows int64)) error {
	r := &passageReader{from: from}
	if to.Postgres() {
		_, err := to.Load(ctx, "drive_passages", []string{"id", "drive_id", "file_rid", "first_line", "last_line", "first_byte", "end_byte", "words"}, func(yield func([]any, error) bool) {
			for {
				some, err := r.next(ctx)
				if err != nil {
					yield(nil, err)
				}
				if err != nil || len(some) == 0 {
					return
				}
				for _, p := range some {
					if !yield(append(p.row(), vector(driveMark(p.drive), p.path, p.text)), nil) {
						return
					}
				}
				progress(r.rows)
			}
		})
		return err
	}
	for {
		some, err := r.next(ctx)
		if err != nil || len(some) == 0 {
			return err
		}
		err = to.Write(ctx, func(tx *db.Tx) error {
			for _, p := range some {
				if _, err := tx.Exec(ctx, `INSERT INTO drive_passages (id, drive_id, file_rid, first_line, last_line, first_byte, end_byte) VALUES ($1, $2, $3, $4, $5, $6, $7)`, p.row()...); err != nil {
					return err
				}
				mark := driveMark(p.drive)
				if _, err := tx.Exec(ctx, `INSERT INTO drive_index (rowid, path, body) VALUES ($1, $2, $3)`, p.id, joinWords(mark, p.path), joinWords(mark, p.text)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		progress(r.rows)
	}
}

// A storedPassage is a row of drive_passages with the text and path that contain its words.
type storedPassage struct {
	id, drive, file, firstLine, lastLine, start, end int64

	path, text string
	blob, size int64
}

func (p storedPassage) row() []any {
	return []any{p.id, p.drive, p.file, p.firstLine, p.lastLine, p.start, p.end}
}

// A passageReader reads the passages of a store file by file, and their texts.
type passageReader struct {
	from     *db.DB
	rows     int64 // number of rows read
	file, id int64 // key of the last row

	src  *pieces // text of the last file
	blob int64
	tx   *db.Tx // transaction of the running call of next
}

// next returns the next passages; empty at the end.
func (r *passageReader) next(ctx context.Context) (some []storedPassage, err error) {
	file, id := r.file, r.id
	err = r.from.Read(ctx, func(tx *db.Tx) error {
		some = nil
		err := tx.Query(ctx, func(rows *sql.Rows) error {
			var p storedPassage
			err := rows.Scan(&p.id, &p.drive, &p.file, &p.firstLine, &p.lastLine, &p.start, &p.end, &p.path, &p.blob, &p.size)
			some = append(some, p)
			return err
		}, `SELECT p.id, p.drive_id, p.file_rid, p.first_line, p.last_line, p.first_byte, p.end_byte, f.path, f.text_blob_id,
			CASE f.text_blob_id WHEN f.blob_id THEN f.size ELSE f.text_size END
			FROM drive_passages p JOIN drive_files f ON f.rid = p.file_rid AND f.drive_id = p.drive_id
			WHERE p.file_rid > $1 OR p.file_rid = $1 AND p.id > $2 ORDER BY p.file_rid, p.id LIMIT $3`, file, id, passagesPerRead)
		if err != nil {
			return err
		}
		r.tx = tx
		for i := range some {
			if err := r.read(ctx, &some[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if n := len(some); err == nil && n > 0 {
		r.file, r.id = some[n-1].file, some[n-1].id
		r.rows += int64(n)
	}
	return some, err
}

// read reads the text of a passage. It keeps the reader, because the next passage is usually in
// the same piece.
func (r *passageReader) read(ctx context.Context, p *storedPassage) error {
	if r.src == nil || r.blob != p.blob {
		drive, blob := p.drive, p.blob
		r.blob = blob
		r.src = &pieces{size: p.size, fetch: func(n int64) ([]byte, error) { return fetchPiece(ctx, r.tx, drive, blob, n) }}
	}
	if _, err := r.src.Seek(p.start, io.SeekStart); err != nil {
		return err
	}
	text := make([]byte, p.end-p.start)
	if _, err := io.ReadFull(r.src, text); err != nil {
		return errors.Join(errors.New("the text of "+p.path+" is not complete"), err)
	}
	p.text = string(text)
	return nil
}
