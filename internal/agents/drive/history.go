package drive

import (
	"context"
	"database/sql"
	"io"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// pieceSize is the size in bytes of the pieces in which a file is stored and read, so that a range
// request or a slow download does not load all of it. It must not change: it locates stored pieces.
const pieceSize = 256 << 10

const notText = -1

// A blobRow is stored content.
type blobRow struct {
	id, size, lines int64
	added           bool // this transaction added it
}

// keep stores content, once per drive.
//
// Content is a row named by its hash, with pieces of pieceSize bytes. Files and versions are
// counted references to it, so versions and moves copy nothing. A reader fetches one piece
// per short transaction: downloads neither hold a transaction for as long as a slow client
// needs, nor change during reading, nor keep files in memory. Unreferenced content is removed
// by [Drives.Sweep] after [Limits].Grace, or by dropWaiting. Content is never shared across
// drives: an account cannot learn from a write's speed what another one has.
//
// Files in the file system were rejected: after a crash they could contradict the rows, and
// other nodes on PostgreSQL would not have them. So was one blob per file, since a Range
// request would read all of it. Reconsider this if downloads fail with "the content is no
// longer kept", or if unreferenced content fills disks within the grace.
func (w *writer) keep(c *Content) (blobRow, error) {
	b := blobRow{size: c.size, lines: notText}
	found, err := w.tx.Get(w.ctx, `SELECT id, lines FROM drive_blobs WHERE drive_id = $1 AND sha256 = $2`,
		[]any{w.drive.id, c.sha256}, &b.id, &b.lines)
	if err != nil || found {
		return b, err
	}
	b.added = true
	if err := w.dropWaiting(); err != nil {
		return b, err
	}
	if c.utf8 {
		if b.lines, err = countLines(c.reader()); err != nil {
			return b, err
		}
	}
	uploaded, large := w.uploads[c.sha256]
	_, err = w.tx.Get(w.ctx, `INSERT INTO drive_blobs (drive_id, sha256, size, lines, refs, freed_at, object) VALUES ($1, $2, $3, $4, 0, $5, $6) RETURNING id`,
		[]any{w.drive.id, c.sha256, c.size, b.lines, w.now, uploaded.key}, &b.id)
	if err != nil {
		return b, err
	}
	if large {
		delete(w.uploads, c.sha256)
		return b, uploaded.refer(w, b.id)
	}
	r, buf := c.reader(), make([]byte, min(pieceSize, c.size))
	for n := int64(0); n*pieceSize < c.size; n++ {
		k, err := io.ReadFull(r, buf[:min(pieceSize, c.size-n*pieceSize)])
		if err != nil {
			return b, err
		}
		if _, err := w.tx.Exec(w.ctx, `INSERT INTO drive_pieces (blob_id, n, data) VALUES ($1, $2, $3)`, b.id, n, buf[:k]); err != nil {
			return b, err
		}
	}
	return b, nil
}

// dropWaiting removes content of this drive that waits for the sweep, the oldest first, while
// the account has more of it than its drives may contain, because an account that replaces files
// quickly must shorten the grace of its downloads, not fill the disk.
func (w *writer) dropWaiting() error {
	var waiting int64
	if _, err := w.tx.Get(w.ctx, `SELECT CAST(COALESCE(SUM(b.size), 0) AS BIGINT) FROM drive_drives d JOIN drive_blobs b ON b.drive_id = d.id AND b.refs = 0
		WHERE d.account_id = $1`, []any{w.who.AccountID}, &waiting); err != nil {
		return err
	}
	for waiting > w.d.limits.MaxAccountBytes {
		var id, size int64
		found, err := w.tx.Get(w.ctx, `SELECT id, size FROM drive_blobs WHERE drive_id = $1 AND refs = 0 AND freed_at < $2 ORDER BY freed_at, id LIMIT 1`,
			[]any{w.drive.id, w.now}, &id, &size)
		if err != nil || !found {
			return err
		}
		if err := w.dropBlob(id); err != nil {
			return err
		}
		waiting -= size
	}
	return nil
}

// countLines counts lines, including a last one without a line break. An empty text contains 0.
func countLines(r io.Reader) (int64, error) {
	var lines int64
	last := byte('\n')
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		for _, c := range buf[:n] {
			if c == '\n' {
				lines++
			}
			last = c
		}
		if err == io.EOF {
			if last != '\n' {
				lines++
			}
			return lines, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

func (w *writer) blob(id int64) (blobRow, error) {
	b := blobRow{id: id}
	_, err := w.tx.Get(w.ctx, `SELECT size, lines FROM drive_blobs WHERE drive_id = $1 AND id = $2`, []any{w.drive.id, id}, &b.size, &b.lines)
	return b, err
}

// refer adds by, 1 or -1, to the number of references to content. It never deletes, because
// downloads may still read the content: the sweep does after the grace.
func (w *writer) refer(blob, by int64) error {
	_, err := w.tx.Exec(w.ctx, `UPDATE drive_blobs SET refs = refs + $1, freed_at = $2 WHERE drive_id = $3 AND id = $4`,
		by, w.now, w.drive.id, blob)
	return err
}

// retire moves a file to the history and removes its oldest versions beyond MaxVersions.
func (w *writer) retire(cur *File) error {
	w.drive.oldFiles++
	w.drive.oldBytes += cur.Size + cur.textSize
	if _, err := w.tx.Exec(w.ctx, `UPDATE drive_versions SET retired_at = $1, text_size = $2 WHERE drive_id = $3 AND number = $4`,
		w.now, cur.textSize, w.drive.id, cur.Version); err != nil {
		return err
	}
	// 100 suffice, because every write to the path removes those beyond the limit.
	return w.forget(`SELECT number, blob_id, size + text_size FROM drive_versions WHERE drive_id = $1 AND path = $2 AND retired_at > 0
		ORDER BY number DESC LIMIT 100 OFFSET $3`, w.drive.id, cur.Path, w.d.limits.MaxVersions)
}

// prune removes the oldest history of the drive while it exceeds its limits.
//
// The quotas count the current files. History has separate limits: [Limits].MaxVersions of a
// path, and in total as many files and bytes as the drive may contain, within the account's
// limit; so a drive uses at most twice its quota, plus the content that waits for the sweep.
// If history counted against the quota, a full drive could not be emptied by deleting files;
// an age limit keeps too much of a busy drive and too little of a quiet one. Deletes and
// moves create history too, so they can be undone. Reconsider this if disks fill with
// history, or if callers miss versions that they need.
func (w *writer) prune() error {
	if w.drive.oldFiles == 0 {
		return nil
	}
	others, err := w.account()
	if err != nil {
		return err
	}
	most := min(w.d.limits.MaxBytes, max(0, w.d.limits.MaxAccountBytes-others.oldBytes))
	for w.drive.oldFiles > w.d.limits.MaxFiles || w.drive.oldBytes > most {
		before := w.drive.oldFiles
		if err := w.forget(`SELECT number, blob_id, size + text_size FROM drive_versions WHERE drive_id = $1 AND retired_at > 0
			ORDER BY retired_at, number LIMIT 20`, w.drive.id); err != nil {
			return err
		}
		if w.drive.oldFiles == before {
			return nil
		}
	}
	return nil
}

func (w *writer) forget(query string, args ...any) error {
	type version struct{ number, blob, size int64 }
	var some []version
	err := w.tx.Query(w.ctx, func(rows *sql.Rows) error {
		var v version
		err := rows.Scan(&v.number, &v.blob, &v.size)
		some = append(some, v)
		return err
	}, query, args...)
	if err != nil {
		return err
	}
	for _, v := range some {
		if _, err := w.tx.Exec(w.ctx, `DELETE FROM drive_versions WHERE drive_id = $1 AND number = $2`, w.drive.id, v.number); err != nil {
			return err
		}
		if err := w.refer(v.blob, -1); err != nil {
			return err
		}
		w.drive.oldFiles--
		w.drive.oldBytes -= v.size
	}
	return nil
}

func (w *writer) opener(b blobRow) func() io.Reader {
	return func() io.Reader {
		return &pieces{size: b.size, fetch: func(n int64) ([]byte, error) { return fetchPiece(w.ctx, w.tx, w.drive.id, b.id, n) }}
	}
}

// A Version is current or earlier content of a path.
type Version struct {
	Number    int64 // names it in a restore
	Path      string
	Size      int64
	MimeType  string
	SHA256    string
	Current   bool
	CreatedAt time.Time
	RetiredAt time.Time // zero for the current one
}

// Versions returns the stored versions of a path, newest first, also of a deleted one. A path
// without any is [stoa.CodeFileNotFound].
func (d *Drives) Versions(ctx context.Context, who Owner, p Path) ([]Version, error) {
	var out []Version
	err := d.db.Read(ctx, func(tx *db.Tx) error {
		row, err := findDrive(ctx, tx, who)
		if err != nil {
			return err
		}
		return tx.Query(ctx, func(rows *sql.Rows) error {
			var v Version
			var created, retired int64
			err := rows.Scan(&v.Number, &v.Path, &v.Size, &v.MimeType, &v.SHA256, &created, &retired)
			v.Current, v.CreatedAt, v.RetiredAt = retired == 0, db.Time(created), db.Time(retired)
			out = append(out, v)
			return err
		}, `SELECT number, path, size, mime, sha256, created_at, retired_at FROM drive_versions
			WHERE drive_id = $1 AND path = $2 ORDER BY number DESC`, row.id, p.text)
	})
	if err == nil && len(out) == 0 {
		return nil, notFound(p)
	}
	return out, err
}

// replay reads the result of an earlier call with the same claim, if any.
func (w *writer) replay(claim Claim, out *Result) (bool, error) {
	var body, result string
	var expires int64
	found, err := w.tx.Get(w.ctx, `SELECT body, result, expires_at FROM drive_claims WHERE drive_id = $1 AND scope = $2 AND ref = $3`,
		[]any{w.drive.id, claim.Scope, claim.Ref}, &body, &result, &expires)
	if err != nil || !found || expires <= w.now {
		return false, err
	}
	if body != claim.Body {
		return false, stoa.Errorf(stoa.CodeIdempotencyReused, "This Idempotency-Key was used before with another body. Use a new key for a new request.")
	}
	if err := decodeResult(result, out); err != nil {
		return false, err
	}
	out.Replayed = true
	return true, nil
}

// claim stores the result with its claim in the transaction of the write, so that neither exists
// without the other.
func (w *writer) claim(claim Claim, out Result) error {
	result, err := encodeResult(out)
	if err != nil {
		return err
	}
	ttl := w.d.limits.ClaimTTL
	if claim.Scope == StepScope {
		ttl = w.d.limits.StepTTL
	}
	_, err = w.tx.Exec(w.ctx, `INSERT INTO drive_claims (drive_id, scope, ref, body, result, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (drive_id, scope, ref) DO UPDATE SET body = excluded.body, result = excluded.result, expires_at = excluded.expires_at`,
		w.drive.id, claim.Scope, claim.Ref, claim.Body, result, w.now+ttl.Microseconds())
	return err
}
