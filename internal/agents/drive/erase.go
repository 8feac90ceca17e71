package drive

import (
	"context"
	"database/sql"

	"stoa/internal/base/db"
)

// erased lists the tables of the drives with their columns that are not numbers. [Drives.Erase] removes the rows of all of them with
// the drive, except that drive_objects has the names of objects until these have left the bucket. A test compares the list with the
// tables, so that a new column needs a decision.
var erased = map[string]string{
	"drive_drives":   "account_id agent_id",
	"drive_files":    "path id sha256 mime",
	"drive_versions": "path sha256 mime",
	"drive_blobs":    "sha256 object",
	"drive_pieces":   "data",
	"drive_texts":    "status places encoding declared note",
	"drive_passages": "words", // on PostgreSQL; SQLite has the words in drive_index
	"drive_claims":   "scope ref body result",
	"drive_objects":  "key account_id",
}

// mergePages is the number of pages of the index that one transaction merges, so that writers wait only briefly.
const mergePages = 500

// Erase removes the drives of an account whose agent or upload is gone, and returns their number. Unlike [Drives.Remove] it
// keeps nothing for restored backups: their objects leave the bucket immediately, and words leave the index of SQLite,
// which otherwise keeps those of deleted files until a later merge. With all it also removes the objects of files that were
// deleted earlier. It can be repeated after a crash.
func (d *Drives) Erase(ctx context.Context, accountID string, all bool, gone func(context.Context, Owner) (bool, error)) (n int, err error) {
	for last := ""; ; {
		var owners []Owner
		var ids []int64
		err := d.db.Read(ctx, func(tx *db.Tx) error {
			owners, ids = nil, nil
			return tx.Query(ctx, func(rows *sql.Rows) error {
				o, id := Owner{AccountID: accountID}, int64(0)
				err := rows.Scan(&id, &o.AgentID)
				owners, ids = append(owners, o), append(ids, id)
				return err
			}, `SELECT id, agent_id FROM drive_drives WHERE account_id = $1 AND agent_id > $2 ORDER BY agent_id LIMIT $3`, accountID, last, sweepDrives)
		})
		if err != nil {
			return n, err
		}
		if len(owners) == 0 {
			break
		}
		for i, o := range owners {
			last = o.AgentID
			if is, err := gone(ctx, o); err != nil {
				return n, err
			} else if !is {
				continue
			}
			// An object without a time is not kept when its content is removed; see dropBlob.
			if err := d.db.Write(ctx, func(tx *db.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE drive_objects SET since = 0 WHERE blob_id > 0 AND blob_id IN (SELECT id FROM drive_blobs WHERE drive_id = $1 AND object <> '')`, ids[i])
				return err
			}); err != nil {
				return n, err
			}
			if err := d.Remove(ctx, o); err != nil {
				return n, err
			}
			n++
		}
	}
	if all {
		if err := d.db.Write(ctx, func(tx *db.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE drive_objects SET since = 0 WHERE account_id = $1 AND blob_id <= 0`, accountID)
			return err
		}); err != nil {
			return n, err
		}
	}
	if err := d.sweepObjects(ctx); err != nil {
		return n, err
	}
	return n, d.mergeIndex(ctx)
}

// mergeIndex merges the segments of the index of SQLite into one, since a deleted word stays in its segment until then.
// PostgreSQL has the words in the deleted rows.
func (d *Drives) mergeIndex(ctx context.Context) error {
	if d.db.Postgres() {
		return nil
	}
	for rank := -mergePages; ; rank = mergePages {
		var before, after int64
		if err := d.db.Write(ctx, func(tx *db.Tx) error {
			if _, err := tx.Get(ctx, `SELECT total_changes()`, nil, &before); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `INSERT INTO drive_index (drive_index, rank) VALUES ('merge', $1)`, rank); err != nil {
				return err
			}
			_, err := tx.Get(ctx, `SELECT total_changes()`, nil, &after)
			return err
		}); err != nil || after-before < 2 { // SQLite's documented sign that nothing is left to merge
			return err
		}
	}
}
