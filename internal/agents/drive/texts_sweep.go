package drive

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"stoa/internal/base/db"
	"stoa/internal/base/extract"
	"stoa/internal/base/stoa"
)

// The times of the sweep of texts.
const (
	textPoll  = time.Minute     // interval of queries, since writes of other nodes do not wake this one
	textLease = 4 * time.Minute // lease of a text; more than its wait and textTime, so that no two nodes read it
	textTime  = time.Minute     // timeout of reading a text
	textTries = 3               // failures of the service after which it gives up a text
	readers   = 2               // texts that a node reads at the same time
)

func (d *Drives) runTexts(ctx context.Context, failed func(error)) {
	tick := time.NewTicker(textPoll)
	defer tick.Stop()
	for {
		if err := d.readDue(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-tick.C:
		}
	}
}

// readDue reads texts until none is due. Drives take turns, so that a large one does not delay
// the others. Texts that older readers have read come last, one at a time and the newest of a
// drive first, because they can be used meanwhile.
func (d *Drives) readDue(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(readers)
	var last int64 // the drive of the latest text
	for {
		job, err := d.claimText(ctx, last)
		if err != nil || job == nil {
			return errors.Join(err, group.Wait())
		}
		switch last = job.drive; {
		case job.lease == 0:
		case job.again:
			err = errors.Join(group.Wait(), d.readJob(ctx, *job))
		default:
			group.Go(func() error { return d.readJob(ctx, *job) })
		}
		if err != nil {
			return err
		}
	}
}

// A textJob is content that this node reads; the others leave it alone until the lease ends.
type textJob struct {
	who      Owner
	drive    int64
	file     File // a file with the content, since its name decides how to read it
	blob     blobRow
	declared string
	lease    int64 // end of the lease; 0 if there is nothing to read
	again    bool  // the content has a text of an older reader
}

// claimText leases the next text that is due; nil means none. It queries one value of the reader
// and the drives after the last one at a time, so that each query is one step in the index.
func (d *Drives) claimText(ctx context.Context, last int64) (*textJob, error) {
	job := &textJob{}
	found := false
	err := d.db.Read(ctx, func(tx *db.Tx) (err error) {
		found = false
		for reader := int64(unread); reader < d.version; reader++ {
			for _, after := range []int64{last, 0} {
				found, err = tx.Get(ctx, `SELECT t.drive_id, t.blob_id, d.account_id, d.agent_id FROM drive_texts t JOIN drive_drives d ON d.id = t.drive_id
					WHERE t.reader = $1 AND t.drive_id > $2 AND t.lease_until <= $3 ORDER BY t.drive_id, t.blob_id DESC LIMIT 1`,
					[]any{reader, after, db.Micros(tx.Now)}, &job.drive, &job.blob.id, &job.who.AccountID, &job.who.AgentID)
				if job.again = reader >= 0; err != nil || found {
					return err
				}
			}
		}
		return nil
	})
	if err != nil || !found {
		return nil, err
	}
	return job, d.change(ctx, job.who, func(w *writer) error { return w.lease(job) })
}

// lease leases the text of a job, unless another node has leased it or no file has the content.
// It counts the try before the reading and gives up after textTries, because a document that
// crashes the service would otherwise do so forever.
func (w *writer) lease(job *textJob) error {
	job.lease = 0
	var tries, until, reader int64
	found, err := w.tx.Get(w.ctx, `SELECT tries, lease_until, reader, declared FROM drive_texts WHERE drive_id = $1 AND blob_id = $2`,
		[]any{w.drive.id, job.blob.id}, &tries, &until, &reader, &job.declared)
	if err != nil || !found || until > w.now || reader >= w.d.version {
		return err
	}
	if job.blob, err = w.blob(job.blob.id); err != nil {
		return err
	}
	var path string
	if found, err = w.tx.Get(w.ctx, `SELECT path FROM drive_files WHERE drive_id = $1 AND blob_id = $2 ORDER BY rid LIMIT 1`,
		[]any{w.drive.id, job.blob.id}, &path); err != nil {
		return err
	}
	if !found { // only versions have the content, and restoring one reads it
		return w.forgetText(job.blob.id)
	}
	f, err := fileAt(w.ctx, w.tx, w.drive.id, path)
	if err != nil {
		return err
	}
	job.file = *f
	if tries >= textTries {
		return w.giveUp(*job, extract.Timeout, "The service was interrupted each time it read this file.")
	}
	job.lease = w.now + textLease.Microseconds()
	_, err = w.tx.Exec(w.ctx, `UPDATE drive_texts SET tries = tries + 1, lease_until = $1 WHERE drive_id = $2 AND blob_id = $3`, job.lease, w.drive.id, job.blob.id)
	return err
}

// giveUp stores the failure of reading a text. An earlier text remains, since it is better than none.
func (w *writer) giveUp(job textJob, status extract.Status, note string) error {
	old, _, err := w.textRow(job.blob.id)
	if err != nil {
		return err
	}
	if old.blob != 0 {
		old.reader = w.d.version
		return w.putText(job.blob.id, old)
	}
	return w.settle(job.blob, reading{textRow: textRow{reader: w.d.version, status: status, note: note, declared: job.declared}})
}

func (d *Drives) readJob(ctx context.Context, job textJob) error {
	within, cancel := context.WithTimeout(ctx, textTime)
	defer cancel()
	r, failure := d.readStored(within, job.who, job.file, job.blob, job.declared)
	if ctx.Err() != nil {
		return nil // another node reads it after the lease
	}
	err := d.underLease(ctx, job, func(w *writer) error {
		if failure != nil {
			return w.retry(job, failure)
		}
		return w.settle(job.blob, r)
	})
	if stoa.CodeOf(err) == stoa.CodeStorageFull {
		err = d.underLease(ctx, job, func(w *writer) error {
			return w.giveUp(job, extract.Timeout, "The drive has no space for the text of this file.")
		})
	}
	return err
}

// underLease runs fn in a transaction, if the lease of the job still exists; otherwise another node
// may have stored a newer text.
func (d *Drives) underLease(ctx context.Context, job textJob, fn func(w *writer) error) error {
	return d.change(ctx, job.who, func(w *writer) error {
		var until int64
		_, err := w.tx.Get(w.ctx, `SELECT lease_until FROM drive_texts WHERE drive_id = $1 AND blob_id = $2`, []any{w.drive.id, job.blob.id}, &until)
		if err != nil || until != job.lease {
			return err
		}
		return fn(w)
	})
}

// retry schedules the next try of a text, after a minute and after a quarter of an hour, or gives
// it up. Unavailable content and too many waiting documents do not count as a try, because they are
// no fault of the document.
func (w *writer) retry(job textJob, failure error) error {
	var tries int64
	if _, err := w.tx.Get(w.ctx, `SELECT tries FROM drive_texts WHERE drive_id = $1 AND blob_id = $2`, []any{w.drive.id, job.blob.id}, &tries); err != nil {
		return err
	}
	if _, ok := errors.AsType[unavailable](failure); ok || errors.Is(failure, extract.ErrBusy) {
		tries--
	}
	if tries >= textTries {
		if errors.Is(failure, context.DeadlineExceeded) {
			return w.giveUp(job, extract.Timeout, "Reading this file takes too long.")
		}
		if errors.Is(failure, extract.ErrUnavailable) {
			return w.giveUp(job, extract.Unsupported, extract.NoPDF+" Then read the file again.")
		}
		return w.giveUp(job, extract.Failed, "The service failed to read this file, which may be intact.")
	}
	_, err := w.tx.Exec(w.ctx, `UPDATE drive_texts SET tries = $1, lease_until = $2 WHERE drive_id = $3 AND blob_id = $4`,
		tries, w.now+w.d.textPause.Microseconds()<<(4*max(0, tries-1)), w.drive.id, job.blob.id)
	return err
}

// Outdated returns the number of texts that are read again because older readers have read them, at
// most limit.
func (d *Drives) Outdated(ctx context.Context, limit int) (n int, err error) {
	err = d.db.Read(ctx, func(tx *db.Tx) error {
		_, err := tx.Get(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM drive_texts WHERE reader >= 0 AND reader < $1 LIMIT $2) t`, []any{d.version, limit}, &n)
		return err
	})
	return n, err
}
