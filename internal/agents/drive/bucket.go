package drive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"stoa/internal/base/config"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

const (
	// leastObject is the size above which content is stored in the bucket.
	leastObject = 64 << 10
	// Timeouts of one request to the bucket. A put sends a whole file, so it needs the longest.
	putTime   = 60 * time.Second
	getTime   = 15 * time.Second
	otherTime = 10 * time.Second
	// bucketRetry is the Retry-After while the bucket does not answer.
	bucketRetry = 5 * time.Second
	// uploadAge is the minimum age at which the sweep removes an upload. It is far longer than a write
	// needs between the upload and its commit, so that no write loses its object.
	uploadAge = time.Hour
	// sweepObjectsAtOnce is the maximum number of objects that one transaction marks, so that writers
	// wait only briefly.
	sweepObjectsAtOnce = 20
)

// A Bucket stores large content outside of the database, in a service that implements S3.
// Rows record the objects and their content; the bucket is never listed.
//
// It stores content above 64 KiB that is not text; texts stay in the database, where the
// index and transactions read them. An object's row is committed before the upload, without a
// reference; the write that refers to it sets the reference in the transaction of the file,
// and a removal first marks the row as being removed. Both require a row without a reference,
// so a write and a removal never both succeed, on any number of nodes, without a lock over
// the network. Objects outlive their last reference by `keep`, so that a restored backup of
// that age is complete.
type Bucket struct {
	s3     *s3
	prefix string
	keep   time.Duration
}

// NewBucket returns the bucket of the settings. It does not connect.
func NewBucket(cfg config.S3) (*Bucket, error) {
	s, err := newS3(cfg)
	if err != nil {
		return nil, err
	}
	return &Bucket{s3: s, prefix: cfg.Prefix, keep: cfg.Keep}, nil
}

// Check returns an error when the bucket does not answer or does not exist. It repeats a refused
// HEAD as GET, because only that reply contains a body with the reason.
func (b *Bucket) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, otherTime)
	defer cancel()
	err := b.s3.do(ctx, s3Request{method: http.MethodHead}, nil)
	if _, refused := errors.AsType[*s3Error](err); refused {
		if why := b.s3.do(ctx, s3Request{method: http.MethodGet, query: "list-type=2&max-keys=1"}, nil); why != nil {
			return why
		}
	}
	return err
}

// Try checks the bucket, then stores and removes an object with a random name, because a key may
// have the right to read but not to write.
func (b *Bucket) Try(ctx context.Context) error {
	if err := b.Check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, getTime)
	defer cancel()
	content := []byte("stoa config check --online")
	sum := sha256.Sum256(content)
	r := s3Request{method: http.MethodPut, key: b.prefix + stoa.NewID("check"), body: func() io.Reader { return bytes.NewReader(content) }, size: int64(len(content)), sha256: hex.EncodeToString(sum[:])}
	if err := b.s3.do(ctx, r, nil); err != nil {
		return err
	}
	return b.s3.do(ctx, s3Request{method: http.MethodDelete, key: r.key}, nil)
}

func (b *Bucket) put(ctx context.Context, key string, c *Content) error {
	within, cancel := context.WithTimeout(ctx, putTime)
	defer cancel()
	return bucketError(ctx, b.s3.do(within, s3Request{
		method: http.MethodPut, key: b.prefix + key, body: c.reader, size: c.size, sha256: c.sha256,
		header: map[string]string{"Content-Type": "application/octet-stream"},
	}, nil))
}

func (b *Bucket) get(ctx context.Context, key string, from, n int64) ([]byte, error) {
	within, cancel := context.WithTimeout(ctx, getTime)
	defer cancel()
	data := make([]byte, n)
	err := b.s3.do(within, s3Request{
		method: http.MethodGet, key: b.prefix + key, header: map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", from, from+n-1)},
	}, func(body io.Reader) error {
		_, err := io.ReadFull(body, data)
		return err
	})
	return data, bucketError(ctx, err)
}

// remove removes an object; a missing one is not an error.
func (b *Bucket) remove(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, otherTime)
	defer cancel()
	return b.s3.do(ctx, s3Request{method: http.MethodDelete, key: b.prefix + key}, nil)
}

// bucketError returns the error that a caller receives when the bucket failed. If the caller has
// disconnected, it returns the error of ctx, because then the bucket has not failed.
func bucketError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e, ok := errors.AsType[*s3Error](err); ok && e.permanent() {
		return stoa.Errorf(stoa.CodeOverloaded, "The storage for large files refuses the service. The operator has to correct its settings; the log has the reason.").Because(err)
	}
	return stoa.Errorf(stoa.CodeOverloaded, "The service cannot reach the storage for large files at the moment. Try again.").After(bucketRetry).Because(err)
}

// UseBucket makes the drives store new large content in a bucket. Existing content stays in
// the database. It must be called before any other method.
func (d *Drives) UseBucket(b *Bucket) { d.bucket = b }

// An upload is an object in the bucket that no row refers to yet.
type upload struct {
	key    string
	hashes []byte // the SHA-256 of each piece, concatenated
}

// inBucket reports whether content is stored in the bucket: large content that can never be text.
// Texts stay in the database, because transactions read them (lines, passages, the index) and must
// not wait for another service.
func (d *Drives) inBucket(c *Content) bool {
	return d.bucket != nil && c != nil && c.size > leastObject && !c.utf8
}

// upload stores the large content of ops in the bucket before the transaction that refers to it,
// and returns it by hash. It commits a row with a unique name before each object exists, so that
// the sweep finds the object even if the write fails, and no write refers to an object whose
// removal has begun.
func (d *Drives) upload(ctx context.Context, who Owner, ops []Op) (made map[string]upload, err error) {
	for _, op := range ops {
		c := op.Content
		if op.Verb != VerbPut || !d.inBucket(c) || made[c.sha256].key != "" {
			continue
		}
		var there bool
		if err := d.db.Read(ctx, func(tx *db.Tx) error {
			there, err = tx.Get(ctx, `SELECT b.id FROM drive_drives d JOIN drive_blobs b ON b.drive_id = d.id AND b.sha256 = $3 WHERE d.account_id = $1 AND d.agent_id = $2`,
				[]any{who.AccountID, who.AgentID, c.sha256}, new(int64))
			return err
		}); err != nil {
			return made, err
		}
		if there {
			continue
		}
		u := upload{key: c.sha256 + "-" + stoa.NewID("obj")}
		if u.hashes, err = pieceHashes(c.reader()); err != nil {
			return made, err
		}
		if err := d.db.Write(ctx, func(tx *db.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO drive_objects (key, account_id, size, blob_id, since) VALUES ($1, $2, $3, 0, $4)`,
				u.key, who.AccountID, c.size, db.Micros(tx.Now))
			return err
		}); err != nil {
			return made, err
		}
		if made == nil {
			made = map[string]upload{}
		}
		made[c.sha256] = u
		if err := d.bucket.put(ctx, u.key, c); err != nil {
			return made, err
		}
	}
	return made, nil
}

func pieceHashes(r io.Reader) (hashes []byte, err error) {
	for buf := make([]byte, pieceSize); ; {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			sum := sha256.Sum256(buf[:n])
			hashes = append(hashes, sum[:]...)
		}
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			return hashes, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// refer makes an object the content of a blob. It fails if the removal of the object has begun,
// because the upload is older than uploadAge.
func (u upload) refer(w *writer, blob int64) error {
	n, err := w.tx.Exec(w.ctx, `UPDATE drive_objects SET blob_id = $1 WHERE key = $2 AND blob_id = 0`, blob, u.key)
	if err == nil && n != 1 {
		err = bucketError(w.ctx, errors.New("the upload was removed before its write was committed"))
	}
	if err != nil {
		return err
	}
	_, err = w.tx.Exec(w.ctx, `INSERT INTO drive_pieces (blob_id, n, data) VALUES ($1, 0, $2)`, blob, u.hashes)
	return err
}

// discard removes the uploads without a reference after a write. It ignores errors, because the
// sweep removes what is left.
func (d *Drives) discard(ctx context.Context, made map[string]upload) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), otherTime)
	defer cancel()
	for _, u := range made {
		var mine int64
		if err := d.db.Write(ctx, func(tx *db.Tx) (err error) {
			mine, err = tx.Exec(ctx, `UPDATE drive_objects SET blob_id = -1 WHERE key = $1 AND blob_id = 0`, u.key)
			return err
		}); err == nil && mine == 1 {
			d.removeObject(ctx, u.key)
		}
	}
}

// removeObject removes an object that is marked as being removed. Its row goes last, because a
// crash between the two would otherwise leave an object that nothing lists.
func (d *Drives) removeObject(ctx context.Context, key string) error {
	if err := d.bucket.remove(ctx, key); err != nil {
		return err
	}
	return d.db.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM drive_objects WHERE key = $1 AND blob_id = -1`, key)
		return err
	})
}

// sweepObjects removes objects without a reference after the time that they are kept for
// backups. If an account has more of them than its drives may contain, it removes them after
// uploadAge, since they would otherwise exceed its quota. An object is marked first, so that a
// write cannot refer to it; any node may complete the removal if one dies.
func (d *Drives) sweepObjects(ctx context.Context) error {
	if d.bucket == nil {
		return nil
	}
	for _, q := range []struct {
		where string
		age   time.Duration
		args  []any
	}{
		{``, d.bucket.keep, nil},
		{` AND account_id IN (SELECT account_id FROM drive_objects WHERE blob_id <= 0 GROUP BY account_id HAVING SUM(size) > $3)`, uploadAge, []any{d.limits.MaxAccountBytes}},
	} {
		for {
			var keys []string
			err := d.db.Write(ctx, func(tx *db.Tx) error {
				keys = nil
				err := tx.Query(ctx, func(rows *sql.Rows) error {
					var key string
					err := rows.Scan(&key)
					keys = append(keys, key)
					return err
				}, `SELECT key FROM drive_objects WHERE blob_id <= 0 AND since < $1`+q.where+` ORDER BY since LIMIT $2`+tx.ForUpdateUnlocked(),
					append([]any{db.Micros(tx.Now.Add(-q.age)), sweepObjectsAtOnce}, q.args...)...)
				for _, key := range keys {
					if err == nil {
						_, err = tx.Exec(ctx, `UPDATE drive_objects SET blob_id = -1 WHERE key = $1`, key)
					}
				}
				return err
			})
			if err != nil || len(keys) == 0 {
				if err != nil {
					return err
				}
				break
			}
			for _, key := range keys {
				if err := d.removeObject(ctx, key); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// storedPiece reads piece n of content that is in the database or in an object. It checks the
// bytes of an object against the hash in the row, because rows are the truth and not the bucket. It
// keeps no transaction open during the request, since that may be slow.
func (d *Drives) storedPiece(ctx context.Context, who Owner, blob, size, n int64) (data []byte, err error) {
	var object string
	err = d.db.Read(ctx, func(tx *db.Tx) error {
		row, err := findDrive(ctx, tx, who)
		if err != nil {
			return err
		}
		found, err := tx.Get(ctx, `SELECT b.object, p.data FROM drive_blobs b JOIN drive_pieces p ON p.blob_id = b.id
			WHERE b.drive_id = $1 AND b.id = $2 AND p.n = CASE b.object WHEN '' THEN CAST($3 AS BIGINT) ELSE 0 END`, []any{row.id, blob, n}, &object, &data)
		if err == nil && !found {
			err = errGone
		}
		return err
	})
	if err != nil || object == "" {
		return data, err
	}
	if d.bucket == nil {
		return nil, bucketError(ctx, errors.New("the file is in a bucket, and drive.store.s3 is not set"))
	}
	if int64(len(data)) < (n+1)*sha256.Size {
		return nil, fmt.Errorf("the object %s has no hash of piece %d", object, n)
	}
	want := data[n*sha256.Size : (n+1)*sha256.Size]
	piece, err := d.bucket.get(ctx, object, n*pieceSize, min(pieceSize, size-n*pieceSize))
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(piece); !bytes.Equal(sum[:], want) {
		return nil, bucketError(ctx, fmt.Errorf("piece %d of the object %s differs from its hash", n, object))
	}
	return piece, nil
}
