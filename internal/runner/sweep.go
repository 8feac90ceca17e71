package runner

import (
	"context"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// sweepOrphans takes turns back from runners that are gone. It tells how many
// it looked at.
func (r *Runner) sweepOrphans(ctx context.Context) (int, error) {
	n := 0
	err := r.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		refs, err := tx.Orphans(ctx, sweepBatch)
		if err != nil {
			return err
		}
		n = len(refs)
		return r.each(ctx, tx, refs, func(ch *change) (bool, error) {
			if ch.row.Status != stoa.SessionRunning {
				return false, nil
			}
			alive, err := tx.RunnerAlive(ctx, ch.row.Owner)
			if err != nil || alive {
				return false, err
			}
			id := ch.row.ID
			tx.AfterCommit(func() { r.stop(id, errLost) }) // if it is our own that we were too slow to keep
			ch.lost()
			return true, nil
		})
	})
	return n, err
}

// sweepStrays takes back sessions that the rows give to this process and that it
// does not run: the end of a turn could not be written, or a claim was committed
// although its commit seemed to fail. Only the claiming loop calls it, so nothing
// is being claimed meanwhile.
func (r *Runner) sweepStrays(ctx context.Context) error {
	var mine, strays []store.Ref
	err := r.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		mine, err = tx.SessionsOf(ctx, r.id)
		return err
	})
	r.mu.Lock()
	for _, ref := range mine {
		if r.runs[ref.ID] == nil {
			strays = append(strays, ref)
		}
	}
	r.mu.Unlock()
	if err != nil || len(strays) == 0 {
		return err
	}
	return r.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		return r.each(ctx, tx, strays, func(ch *change) (bool, error) {
			if ch.row.Status != stoa.SessionRunning || ch.row.Owner != r.id {
				return false, nil // it has ended between our two looks
			}
			ch.lost()
			return true, nil
		})
	})
}

// sweepDue ends what has waited, run or asked for too long.
func (r *Runner) sweepDue(ctx context.Context) (int, error) {
	n := 0
	err := r.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		refs, err := tx.DueSessions(ctx, sweepBatch)
		if err != nil {
			return err
		}
		n = len(refs)
		return r.each(ctx, tx, refs, func(ch *change) (bool, error) {
			if ch.row.DueAt.IsZero() || ch.row.DueAt.After(tx.Now) {
				return false, nil
			}
			if id := ch.row.ID; ch.row.Status == stoa.SessionRunning {
				tx.AfterCommit(func() { r.stop(id, errLost) })
			}
			ch.due()
			return true, nil
		})
	})
	return n, err
}

// each changes sessions one after the other, in one transaction.
func (r *Runner) each(ctx context.Context, tx *store.Tx, refs []store.Ref, fn func(ch *change) (changed bool, err error)) error {
	for _, ref := range refs {
		row, err := tx.LockSession(ctx, ref.AccountID, "", ref.ID)
		if stoa.CodeOf(err) == stoa.CodeSessionNotFound {
			continue
		}
		if err != nil {
			return err
		}
		ch := r.change(ctx, tx, &row)
		changed, err := fn(ch)
		if err == nil && changed {
			err = ch.save()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// beat makes this runner's leases hold for a while longer, and stops what others
// have asked to be cancelled.
func (r *Runner) beat(ctx context.Context) error {
	var cancelled []string
	err := r.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		cancelled, err = tx.Heartbeat(ctx, r.id, tx.Now.Add(r.lease()))
		return err
	})
	for _, id := range cancelled {
		r.stop(id, errCancelled)
	}
	return err
}

// lease is how long a beat keeps the leases.
func (r *Runner) lease() time.Duration {
	if !r.cfg.Shared {
		return forever // until the next life declares this one over
	}
	return r.cfg.Lease
}

// beats keeps the leases until over is closed: the last run has ended. When the
// store does not answer for longer than a lease, others have taken the sessions
// over: nothing is written for them any more.
func (r *Runner) beats(ctx context.Context, over <-chan struct{}) {
	every := time.NewTicker(r.cfg.Lease / 4)
	defer every.Stop()
	last := time.Now()
	for {
		select {
		case <-every.C:
		case <-over:
			return
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Lease/2)
		err := r.beat(bounded)
		cancel()
		switch {
		case err == nil:
			last = time.Now()
		case time.Since(last) > r.cfg.Lease:
			r.report(ctx, "the leases of this process have run out", err)
			r.stopAll(errLost)
		}
	}
}

// listen tells watchers of what other processes write.
func (r *Runner) listen(ctx context.Context) {
	every := time.NewTicker(pollShared)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		ids := r.hub.watched()
		if len(ids) == 0 {
			continue
		}
		var seqs map[string]int64
		err := r.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
			seqs, err = tx.LastSeqs(ctx, ids)
			return err
		})
		if err != nil {
			r.report(ctx, "the logs of watched sessions could not be looked at", err)
			continue
		}
		r.hub.heard(seqs)
	}
}
