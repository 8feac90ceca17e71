package drive_test

import (
	"context"
	"database/sql"
	"io"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/base/db"
)

// check verifies the invariants of the tables between two writes.
func check(t testing.TB, d *drive.Drives) {
	t.Helper()
	ctx := context.Background()
	err := d.DB().Read(ctx, func(tx *db.Tx) error {
		for _, c := range []struct{ what, query string }{
			{"the count of files", `SELECT COUNT(*) FROM drive_drives d WHERE files <> (SELECT COUNT(*) FROM drive_files f WHERE f.drive_id = d.id)`},
			{"the sum of bytes", `SELECT COUNT(*) FROM drive_drives d WHERE bytes <> (SELECT COALESCE(SUM(size + text_size), 0) FROM drive_files f WHERE f.drive_id = d.id)`},
			{"the count of history", `SELECT COUNT(*) FROM drive_drives d WHERE old_files <> (SELECT COUNT(*) FROM drive_versions v WHERE v.drive_id = d.id AND retired_at > 0)`},
			{"the bytes of history", `SELECT COUNT(*) FROM drive_drives d WHERE old_bytes <> (SELECT COALESCE(SUM(size + text_size), 0) FROM drive_versions v WHERE v.drive_id = d.id AND retired_at > 0)`},
			{"references to content", `SELECT COUNT(*) FROM drive_blobs b WHERE refs <> (SELECT COUNT(*) FROM drive_versions v WHERE v.drive_id = b.drive_id AND v.blob_id = b.id)
				+ (SELECT COUNT(*) FROM drive_texts t WHERE t.drive_id = b.drive_id AND t.text_blob_id = b.id AND t.blob_id <> b.id)
				+ (SELECT COUNT(*) FROM drive_files f WHERE f.drive_id = b.drive_id AND f.text_blob_id = b.id AND f.blob_id <> b.id)`},
			{"content of versions", `SELECT COUNT(*) FROM drive_versions v WHERE NOT EXISTS (SELECT 1 FROM drive_blobs b WHERE b.id = v.blob_id AND b.drive_id = v.drive_id AND b.sha256 = v.sha256 AND b.size = v.size)`},
			{"the pieces of content", `SELECT COUNT(*) FROM drive_blobs b WHERE size <> (SELECT COALESCE(SUM(LENGTH(data)), 0) FROM drive_pieces p WHERE p.blob_id = b.id)`},
			{"files without their version", `SELECT COUNT(*) FROM drive_files f WHERE NOT EXISTS (SELECT 1 FROM drive_versions v WHERE v.drive_id = f.drive_id AND v.number = f.version AND v.path = f.path AND v.retired_at = 0 AND v.blob_id = f.blob_id)`},
			{"present versions without their file", `SELECT COUNT(*) FROM drive_versions v WHERE retired_at = 0 AND NOT EXISTS (SELECT 1 FROM drive_files f WHERE f.drive_id = v.drive_id AND f.version = v.number)`},
			{"passages of files that are gone", `SELECT COUNT(*) FROM drive_passages p WHERE NOT EXISTS (SELECT 1 FROM drive_files f WHERE f.rid = p.file_rid AND f.is_text = 1)`},
			{"bytes that no passage covers", `SELECT COUNT(*) FROM drive_files f WHERE is_text = 1 AND CASE text_blob_id WHEN blob_id THEN size ELSE text_size END <> (SELECT COALESCE(SUM(end_byte - first_byte), 0) FROM drive_passages p WHERE p.file_rid = f.rid)`},
			{"texts that are not stored", `SELECT COUNT(*) FROM drive_files f WHERE is_text = 1 AND NOT EXISTS (SELECT 1 FROM drive_blobs b WHERE b.drive_id = f.drive_id AND b.id = f.text_blob_id AND b.lines = f.lines)`},
			{"files without a text or its status", `SELECT COUNT(*) FROM drive_files f WHERE is_text = 0 AND NOT EXISTS (SELECT 1 FROM drive_texts t WHERE t.drive_id = f.drive_id AND t.blob_id = f.blob_id)`},
			{"statuses of content that is gone", `SELECT COUNT(*) FROM drive_texts t WHERE NOT EXISTS (SELECT 1 FROM drive_blobs b WHERE b.drive_id = t.drive_id AND b.id = t.blob_id)`},
			{"files that are folders too", `SELECT COUNT(*) FROM drive_files a JOIN drive_files b ON a.drive_id = b.drive_id AND b.path > a.path || '/' AND b.path < a.path || '0'`},
		} {
			var n int64
			if _, err := tx.Get(ctx, c.query, nil, &n); err != nil {
				return err
			}
			if n != 0 {
				t.Errorf("%s: %d wrong", c.what, n)
			}
		}
		if tx.Postgres() {
			return nil
		}
		var passages, indexed int64
		if _, err := tx.Get(ctx, `SELECT (SELECT COUNT(*) FROM drive_passages), (SELECT COUNT(*) FROM drive_index_docsize)`, nil, &passages, &indexed); err != nil {
			return err
		}
		if passages != indexed {
			t.Errorf("%d passages and %d of them indexed", passages, indexed)
		}
		return tx.Query(ctx, func(rows *sql.Rows) error {
			var id int64
			if err := rows.Scan(&id); err != nil {
				return err
			}
			t.Errorf("passage %d is not in the index", id)
			return nil
		}, `SELECT id FROM drive_passages WHERE id NOT IN (SELECT id FROM drive_index_docsize)`)
	})
	if err != nil {
		t.Error(err)
	}
}

func drain(t testing.TB, r io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func count(t testing.TB, d *drive.Drives, table string) int64 {
	t.Helper()
	var n int64
	err := d.DB().Read(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Get(context.Background(), `SELECT COUNT(*) FROM `+table, nil, &n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// age moves the last write of all drives back by an hour.
func age(t testing.TB, d *drive.Drives) {
	t.Helper()
	err := d.DB().Write(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Exec(context.Background(), `UPDATE drive_drives SET updated_at = updated_at - 3600000000`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
