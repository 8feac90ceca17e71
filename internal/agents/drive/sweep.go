package drive

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"stoa/internal/base/db"
)

// The limits of a sweep's work in one transaction, so that writers wait only briefly. That of blobs
// is the lowest, because each is up to a whole file.
const (
	sweepDrives   = 200
	sweepFiles    = 100
	sweepVersions = 1000
	sweepBlobs    = 20
	sweepClaims   = 1000
)

// Run calls [Drives.Sweep] at an interval, and reads the texts that wait, until ctx ends. It passes
// errors to failed and continues, because the next sweep tries again.
func (d *Drives) Run(ctx context.Context, every time.Duration, exists func(context.Context, []Owner) ([]bool, error), failed func(error)) error {
	var texts sync.WaitGroup
	defer texts.Wait()
	texts.Go(func() { d.runTexts(ctx, failed) })
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := d.Sweep(ctx, exists); err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}

// Sweep removes obsolete data: drives of deleted agents, unreferenced content after its
// grace, expired claims. exists reports for each owner whether the agent exists; it is called
// for drives whose last write was at least a minute ago, so that a new agent is never
// mistaken for a deleted one.
func (d *Drives) Sweep(ctx context.Context, exists func(context.Context, []Owner) ([]bool, error)) error {
	if err := d.sweepOrphans(ctx, exists); err != nil {
		return fmt.Errorf("sweep drives: %w", err)
	}
	if err := d.sweepContent(ctx); err != nil {
		return fmt.Errorf("sweep content: %w", err)
	}
	if err := d.sweepClaims(ctx); err != nil {
		return fmt.Errorf("sweep claims: %w", err)
	}
	if err := d.sweepObjects(ctx); err != nil {
		return fmt.Errorf("sweep the bucket: %w", err)
	}
	return nil
}

const orphanAge = time.Minute

// sweepOrphans removes the drives whose agent no longer exists, sweepDrives at a time. It skips
// drives written to within orphanAge, because their agent may be about to commit.
func (d *Drives) sweepOrphans(ctx context.Context, exists func(context.Context, []Owner) ([]bool, error)) error {
	for last := int64(0); ; {
		var owners []Owner
		err := d.db.Read(ctx, func(tx *db.Tx) error {
			owners = nil
			return tx.Query(ctx, func(rows *sql.Rows) error {
				var o Owner
				err := rows.Scan(&last, &o.AccountID, &o.AgentID)
				owners = append(owners, o)
				return err
			}, `SELECT id, account_id, agent_id FROM drive_drives WHERE id > $1 AND updated_at <= $2 ORDER BY id LIMIT $3`,
				last, db.Micros(tx.Now.Add(-orphanAge)), sweepDrives)
		})
		if err != nil || len(owners) == 0 {
			return err
		}
		there, err := exists(ctx, owners)
		if err != nil {
			return err
		}
		if len(there) != len(owners) {
			return fmt.Errorf("checked %d agents but received %d results", len(owners), len(there))
		}
		for i, o := range owners {
			if !there[i] {
				if err := d.Remove(ctx, o); err != nil {
					return err
				}
			}
		}
	}
}

// Remove deletes a whole drive in parts, so that other writers wait only briefly. Its agent must be
// deleted already, since a later write would create the drive again. After a crash the next sweep
// continues.
func (d *Drives) Remove(ctx context.Context, who Owner) error {
	for done := false; !done; {
		err := d.db.Write(ctx, func(tx *db.Tx) error {
			row, err := findDrive(ctx, tx, who)
			if err != nil || row.id == 0 {
				done = true
				return err
			}
			if row, err = lockDrive(ctx, tx, who); err != nil {
				return err
			}
			w := &writer{d: d, ctx: ctx, tx: tx, drive: row, now: db.Micros(tx.Now)}
			done, err = w.removeSome()
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeSome deletes a part of the drive; done reports whether nothing is left. The row of the drive is
// last, so that a sweep after a crash still finds the drive.
func (w *writer) removeSome() (done bool, err error) {
	ids := func(query string, limit int) (out []int64, err error) {
		err = w.tx.Query(w.ctx, func(rows *sql.Rows) error {
			var id int64
			err := rows.Scan(&id)
			out = append(out, id)
			return err
		}, query, w.drive.id, limit)
		return out, err
	}
	files, err := ids(`SELECT rid FROM drive_files WHERE drive_id = $1 ORDER BY path LIMIT $2`, sweepFiles)
	if err != nil {
		return false, err
	}
	for _, rid := range files {
		if err := w.unindex(rid); err != nil {
			return false, err
		}
		if _, err := w.tx.Exec(w.ctx, `DELETE FROM drive_files WHERE drive_id = $1 AND rid = $2`, w.drive.id, rid); err != nil {
			return false, err
		}
	}
	if len(files) > 0 {
		return false, nil
	}
	n, err := w.tx.Exec(w.ctx, `DELETE FROM drive_versions WHERE drive_id = $1 AND number IN
		(SELECT number FROM drive_versions WHERE drive_id = $1 ORDER BY number LIMIT $2)`, w.drive.id, sweepVersions)
	if err != nil || n > 0 {
		return false, err
	}
	blobs, err := ids(`SELECT id FROM drive_blobs WHERE drive_id = $1 LIMIT $2`, sweepBlobs)
	if err != nil {
		return false, err
	}
	for _, id := range blobs {
		if err := w.dropBlob(id); err != nil {
			return false, err
		}
	}
	if len(blobs) > 0 {
		return false, nil
	}
	if _, err := w.tx.Exec(w.ctx, `DELETE FROM drive_claims WHERE drive_id = $1`, w.drive.id); err != nil {
		return false, err
	}
	_, err = w.tx.Exec(w.ctx, `DELETE FROM drive_drives WHERE id = $1`, w.drive.id)
	return true, err
}

func (w *writer) dropBlob(id int64) error {
	if err := w.forgetText(id); err != nil {
		return err
	}
	if _, err := w.tx.Exec(w.ctx, `DELETE FROM drive_blobs WHERE drive_id = $1 AND id = $2`, w.drive.id, id); err != nil {
		return err
	}
	if _, err := w.tx.Exec(w.ctx, `UPDATE drive_objects SET blob_id = 0, since = CASE since WHEN 0 THEN 0 ELSE CAST($1 AS BIGINT) END WHERE blob_id = $2 AND blob_id > 0`, w.now, id); err != nil {
		return err
	}
	_, err := w.tx.Exec(w.ctx, `DELETE FROM drive_pieces WHERE blob_id = $1`, id)
	return err
}

// sweepContent removes unreferenced content, one drive at a time and under its lock, since a
// write may refer to the content again.
func (d *Drives) sweepContent(ctx context.Context) error {
	for {
		done := false
		err := d.db.Write(ctx, func(tx *db.Tx) error {
			done = false
			before := db.Micros(tx.Now.Add(-d.limits.Grace))
			var who Owner
			found, err := tx.Get(ctx, `SELECT d.account_id, d.agent_id FROM drive_blobs b JOIN drive_drives d ON d.id = b.drive_id
				WHERE b.refs = 0 AND b.freed_at < $1 LIMIT 1`, []any{before}, &who.AccountID, &who.AgentID)
			if err != nil || !found {
				done = true
				return err
			}
			row, err := lockDrive(ctx, tx, who)
			if err != nil {
				return err
			}
			w := &writer{d: d, ctx: ctx, tx: tx, drive: row, now: db.Micros(tx.Now)}
			var blobs []int64
			err = tx.Query(ctx, func(rows *sql.Rows) error {
				var id int64
				err := rows.Scan(&id)
				blobs = append(blobs, id)
				return err
			}, `SELECT id FROM drive_blobs WHERE drive_id = $1 AND refs = 0 AND freed_at < $2 ORDER BY freed_at LIMIT $3`, row.id, before, sweepBlobs)
			if err != nil {
				return err
			}
			for _, id := range blobs {
				if err := w.dropBlob(id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || done {
			return err
		}
	}
}

func (d *Drives) sweepClaims(ctx context.Context) error {
	for {
		var n int64
		err := d.db.Write(ctx, func(tx *db.Tx) (err error) {
			n, err = tx.Exec(ctx, `DELETE FROM drive_claims WHERE (drive_id, scope, ref) IN
				(SELECT drive_id, scope, ref FROM drive_claims WHERE expires_at <= $1 LIMIT $2)`, db.Micros(tx.Now), sweepClaims)
			return err
		})
		if err != nil || n < sweepClaims {
			return err
		}
	}
}
