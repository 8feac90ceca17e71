package agent

import (
	"context"
	"fmt"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// sweepBatch is the maximum number of sessions that one transaction of a sweep reads.
const sweepBatch = 100

// Recover requeues the sessions of an earlier process and ends those whose deadline has
// passed. Call it before requests are accepted.
func (w *Worker) Recover(ctx context.Context) error {
	if err := all(ctx, w.sweepOrphans); err != nil {
		return fmt.Errorf("recover sessions: %w", err)
	}
	if err := all(ctx, w.sweepDue); err != nil {
		return fmt.Errorf("end overdue sessions: %w", err)
	}
	return nil
}

// all repeats a sweep until it finds less than a batch. It ends, because each pass ends or
// requeues what it finds.
func all(ctx context.Context, sweep func(context.Context) (int, error)) error {
	for n := sweepBatch; n == sweepBatch; {
		var err error
		if n, err = sweep(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// pendingWork does all pending work except claiming, and returns what it found.
func (w *Worker) pendingWork(ctx context.Context) (store.PendingWork, error) {
	p, err := store.Read(ctx, w.store, func(tx *store.Tx) (store.PendingWork, error) { return tx.Work().PendingWork(ctx) })
	if err != nil {
		return p, err
	}
	if p.Orphans {
		if err := all(ctx, w.sweepOrphans); err != nil {
			return p, err
		}
		p.Queued = true
	}
	if p.Due {
		if err := all(ctx, w.sweepDue); err != nil {
			return p, err
		}
		p.Queued, p.DueAt = true, time.Time{}
		w.alarm.Wake()
	}
	if time.Since(w.lastStrayScan) > strayEvery {
		w.lastStrayScan = time.Now()
		if err := w.sweepStrays(ctx); err != nil {
			return p, err
		}
	}
	for more := p.Hidden; more && ctx.Err() == nil; {
		if more, err = w.sessions.RemoveHidden(ctx); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (w *Worker) sweepOrphans(ctx context.Context) (int, error) {
	n := 0
	err := w.store.Write(ctx, func(tx *store.Tx) error {
		refs, err := tx.Work().Orphans(ctx, sweepBatch)
		if err != nil {
			return err
		}
		n = len(refs)
		return w.sessions.ForEach(ctx, tx, refs, func(t *session.Transition) (bool, error) {
			if t.Row.Status != stoa.SessionRunning {
				return false, nil
			}
			alive, err := tx.Work().RunnerAlive(ctx, t.Row.Owner)
			if err != nil || alive {
				return false, err
			}
			id := t.Row.ID
			tx.AfterCommit(func() { w.stop(id, session.ErrLost) }) // because the lease of our own session was renewed too late
			t.Lost()
			return true, nil
		})
	})
	return n, err
}

// sweepStrays requeues sessions that the rows assign to this process but that it does not
// run, because the end of a turn could not be written, or a claim was committed although its
// commit seemed to fail. Only the claiming loop may call it, so that no claim is in progress.
func (w *Worker) sweepStrays(ctx context.Context) error {
	owned, err := store.Read(ctx, w.store, func(tx *store.Tx) ([]store.Ref, error) { return tx.Work().SessionsOf(ctx, w.id) })
	var strays []store.Ref
	w.mu.Lock()
	for _, ref := range owned {
		if w.runs[ref.ID] == nil {
			strays = append(strays, ref)
		}
	}
	w.mu.Unlock()
	if err != nil || len(strays) == 0 {
		return err
	}
	return w.store.Write(ctx, func(tx *store.Tx) error {
		return w.sessions.ForEach(ctx, tx, strays, func(t *session.Transition) (bool, error) {
			if t.Row.Status != stoa.SessionRunning || t.Row.Owner != w.id {
				return false, nil // because it ended between the two reads
			}
			t.Lost()
			return true, nil
		})
	})
}

// sweepDue ends sessions that have waited in the queue, run, or waited for an answer too long.
// It leaves a running turn to its worker first, because a step of the clock does not change a
// timer, and then only to the sweep of the same process, because the clock of another node may be
// wrong.
func (w *Worker) sweepDue(ctx context.Context) (int, error) {
	n := 0
	err := w.store.Write(ctx, func(tx *store.Tx) error {
		refs, err := tx.Work().DueSessions(ctx, sweepBatch)
		if err != nil {
			return err
		}
		n = len(refs)
		return w.sessions.ForEach(ctx, tx, refs, func(t *session.Transition) (bool, error) {
			id, running := t.Row.ID, t.Row.Status == stoa.SessionRunning
			if running && t.Row.CancelAt.IsZero() && !w.overdue(t.Row) {
				t.Postpone()
				return true, nil
			}
			due := t.Due()
			if due && running {
				tx.AfterCommit(func() { w.stop(id, session.ErrLost) })
			}
			return due, nil
		})
	})
	return n, err
}

// overdue reports whether a running session belongs to this process, whose worker should
// have ended its turn.
func (w *Worker) overdue(row *store.SessionRow) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.runs[row.ID]
	return row.Owner == w.id && (r == nil || !time.Now().Before(r.overdue))
}

// cancelLoop stops the turns that other processes have cancelled, until over is closed, that
// is, until the last run has ended.
func (w *Worker) cancelLoop(ctx context.Context, over <-chan struct{}) {
	every := time.NewTicker(stoa.PollShared)
	defer every.Stop()
	reading := context.WithoutCancel(ctx)
	for {
		select {
		case <-every.C:
		case <-over:
			return
		}
		var cancelled []string
		if err := w.store.Read(reading, func(tx *store.Tx) (err error) {
			cancelled, err = tx.Work().CancelledOf(reading, w.id)
			return err
		}); err != nil {
			w.report(ctx, "the cancelled sessions could not be read", err)
		}
		for _, id := range cancelled {
			w.stop(id, session.ErrCancelled)
		}
	}
}

// Interrupt stops the turns of this process without recording that, because this process can
// no longer write. A process that can write resumes the turns.
func (w *Worker) Interrupt() { w.stopAll(session.ErrLost) }
