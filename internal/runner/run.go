package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// Why a run in this process is stopped from outside; the cause of its context.
var (
	errCancelled = errors.New("runner: the turn was cancelled")
	errDeadline  = errors.New("runner: the turn's time is over")
	errHandBack  = errors.New("runner: this process stops")

	// errLost: write nothing. It has a code so that the gateway does not take it
	// for a database that broke and may work in a moment.
	errLost error = stoa.Errorf(stoa.CodeInternal, "The lease of this turn is lost.")
)

const (
	pollShared = time.Second      // how often the rows are looked at when others write them too
	pollAlone  = 15 * time.Second // and when nobody does: news is told, so this only heals
	strayEvery = 5 * time.Second
	claimBatch = 32 // claims in one transaction
	sweepBatch = 100
	forever    = 100 * 365 * 24 * time.Hour
)

// run is one claimed session in this process.
type run struct {
	accountID, sessionID string
	fence                int64
	cancel               context.CancelCauseFunc
	lastDelta            time.Time // its scribe's
}

// Recover takes back what an earlier life of this process was running, and ends
// what has passed its deadline meanwhile. Call it before anybody can ask.
func (r *Runner) Recover(ctx context.Context) error {
	if !r.cfg.Shared {
		if err := r.cfg.Store.Write(ctx, func(tx *store.Tx) error { return tx.EndRunners(ctx, r.id) }); err != nil {
			return fmt.Errorf("recover sessions: %w", err)
		}
	}
	for {
		n, err := r.sweepOrphans(ctx)
		if err != nil {
			return fmt.Errorf("recover sessions: %w", err)
		}
		if n < sweepBatch {
			break
		}
	}
	for {
		n, err := r.sweepDue(ctx)
		if err != nil {
			return fmt.Errorf("end overdue sessions: %w", err)
		}
		if n < sweepBatch {
			return nil
		}
	}
}

// Run claims sessions and runs their turns until ctx ends; then it lets steps
// finish for Config.Grace and hands the turns back to the queue, which costs
// them no attempt. It fails only when it cannot begin.
func (r *Runner) Run(ctx context.Context) error {
	if err := r.beat(ctx); err != nil {
		return fmt.Errorf("begin to run sessions: %w", err)
	}
	var turns, helpers sync.WaitGroup
	done := make(chan struct{})
	if r.cfg.Shared {
		helpers.Go(func() { r.beats(ctx, done) })
		helpers.Go(func() { r.listen(ctx) })
	}
	r.claimLoop(ctx, &turns)

	r.mu.Lock()
	r.stopping = true
	r.mu.Unlock()
	go func() { turns.Wait(); close(done) }()
	grace := time.NewTimer(max(r.cfg.Grace, 0))
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		r.stopAll(errHandBack)
		<-done
	}
	helpers.Wait()
	ctx = context.WithoutCancel(ctx)
	if err := r.cfg.Store.Write(ctx, func(tx *store.Tx) error { return tx.EndRunner(ctx, r.id) }); err != nil {
		r.log.LogAttrs(ctx, slog.LevelWarn, "the runner could not sign off", slog.Any("error", err))
	}
	return nil
}

// claimLoop claims and sweeps until ctx ends. Between what is known to fall due
// it looks only when somebody says that there is news, and now and then anyway.
func (r *Runner) claimLoop(ctx context.Context, turns *sync.WaitGroup) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
		r.nextLook.Store(math.MaxInt64) // what commits from here on may be missed by the look
		next := time.Now().Add(r.poll())
		chores, err := r.chores(ctx)
		if err != nil {
			r.report(ctx, "the queue could not be looked at", err)
			next = time.Now().Add(pollShared)
		}
		for _, at := range []time.Time{chores.WakeAt, chores.DueAt} {
			if !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		r.nextLook.Store(next.UnixMicro())
		for n := claimBatch; chores.Queued && n == claimBatch && ctx.Err() == nil; {
			if n, err = r.claim(ctx, turns); err != nil {
				r.report(ctx, "sessions could not be claimed", err)
			}
		}
		timer.Reset(max(time.Until(next), time.Millisecond))
	}
}

// poll is how often the rows are looked at when nobody says anything.
func (r *Runner) poll() time.Duration {
	if r.cfg.Shared {
		return pollShared
	}
	return pollAlone
}

// expect has the loop look at that time at the latest.
func (r *Runner) expect(at time.Time) {
	if !at.IsZero() && at.UnixMicro() < r.nextLook.Load() {
		r.nudge()
	}
}

// chores looks at what there is to do and does all but claiming.
func (r *Runner) chores(ctx context.Context) (store.PendingWork, error) {
	var c store.PendingWork
	err := r.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		c, err = tx.PendingWork(ctx)
		return err
	})
	if err != nil {
		return c, err
	}
	if c.Orphans {
		for n := sweepBatch; n == sweepBatch; {
			if n, err = r.sweepOrphans(ctx); err != nil {
				return c, err
			}
		}
		c.Queued = true
	}
	if c.Due {
		for n := sweepBatch; n == sweepBatch; {
			if n, err = r.sweepDue(ctx); err != nil {
				return c, err
			}
		}
		c.Queued, c.DueAt = true, time.Time{}
		r.nudge() // for what falls due next
	}
	if time.Since(r.strayLook) > strayEvery {
		r.strayLook = time.Now()
		if err := r.sweepStrays(ctx); err != nil {
			return c, err
		}
	}
	for more := c.Hidden; more && ctx.Err() == nil; {
		if more, err = r.sweepHidden(ctx); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (r *Runner) report(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		r.log.LogAttrs(ctx, slog.LevelError, what, slog.Any("error", err))
	}
}

// claim takes sessions off the queue, one of each account in turn, and starts
// them. It tells how many.
func (r *Runner) claim(ctx context.Context, turns *sync.WaitGroup) (int, error) {
	r.mu.Lock()
	free, after := min(r.cfg.Workers-len(r.runs), claimBatch), r.after
	r.mu.Unlock()
	if free <= 0 {
		return 0, nil
	}
	var claimed []store.SessionRow
	var last string
	err := r.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		claimed, last, err = r.claimIn(ctx, tx, free, after)
		return err
	})
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = last
	for _, row := range claimed {
		base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		one := &run{accountID: row.AccountID, sessionID: row.ID, fence: row.Fence, cancel: cancel}
		r.runs[row.ID] = one
		turns.Go(func() { r.serve(base, one, row) })
	}
	return len(claimed), nil
}

// claimIn goes round the accounts from the one after the last, until it has
// enough or a whole round has given nothing.
func (r *Runner) claimIn(ctx context.Context, tx *store.Tx, free int, after string) (claimed []store.SessionRow, last string, err error) {
	// Nobody claims under leases that are void: it would be taken away at once.
	alive, err := tx.RunnerAlive(ctx, r.id)
	if err == nil && !alive {
		_, err = tx.Heartbeat(ctx, r.id, tx.Now.Add(r.lease()))
	}
	if err != nil {
		return nil, "", err
	}
	full := map[string]bool{}
	whole, progress := false, false // is this round a whole one; has it given anything
	for len(claimed) < free {
		account, found, err := tx.NextQueuedAccount(ctx, after)
		if err != nil {
			return nil, "", err
		}
		if !found {
			if after == "" || whole && !progress {
				break
			}
			after, whole, progress = "", true, false
			continue
		}
		after = account
		if full[account] {
			continue
		}
		line, err := tx.AccountQueue(ctx, account, 1)
		if err != nil {
			return nil, "", err
		}
		if limit := r.cfg.Plans(line.Plan).ActiveSessions; limit > 0 && line.Running >= limit || len(line.Next) == 0 {
			full[account] = true
			continue
		}
		row, err := tx.LockSession(ctx, account, "", line.Next[0])
		if stoa.CodeOf(err) == stoa.CodeSessionNotFound {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if row.Status != stoa.SessionQueued { // cancelled while we came to its lock
			continue
		}
		ch := r.change(ctx, tx, &row)
		ch.claim(r.id)
		if err := ch.save(); err != nil {
			return nil, "", err
		}
		claimed = append(claimed, row)
		progress = true
	}
	return claimed, after, nil
}

// serve runs a claimed session's turn and writes how it went.
func (r *Runner) serve(ctx context.Context, one *run, row store.SessionRow) {
	defer func() {
		one.cancel(nil)
		r.mu.Lock()
		if r.runs[one.sessionID] == one {
			delete(r.runs, one.sessionID)
		}
		r.mu.Unlock()
		r.nudge() // a place is free
	}()
	at, stopClock := context.WithDeadlineCause(ctx, row.Turn.DeadlineAt, errDeadline)
	defer stopClock()
	err := calm(func() error { return r.turn(at, one, row) })
	if cause := context.Cause(at); cause != nil && err != nil && !errors.Is(err, errLost) {
		err = cause
	}
	if err == nil || errors.Is(err, errLost) {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if err := r.conclude(ctx, one, err); err != nil && !errors.Is(err, errLost) {
		// The rows still say that the turn runs here; see sweepStrays.
		r.report(ctx, "the end of a turn could not be written", err)
	}
}

// calm turns a panic into an error: one session must not take the others down.
func calm(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a turn: %v\n%s", p, debug.Stack())
		}
	}()
	return fn()
}

// conclude writes why a turn goes on no further here. A cancel always wins: it
// was promised.
func (r *Runner) conclude(ctx context.Context, one *run, why error) error {
	var f *failure
	transient := !errors.As(why, &f)
	if transient {
		f = classify(why)
		transient = f.passing
	}
	if f.cause != nil {
		r.log.LogAttrs(ctx, slog.LevelWarn, "a turn ran into a failure", slog.String("session", one.sessionID), slog.Any("error", f.cause))
	}
	return r.mine(ctx, one, func(ch *change) {
		switch {
		case !ch.row.CancelAt.IsZero() || errors.Is(why, errCancelled):
			ch.finish(stoa.SessionCancelled, "")
		case errors.Is(why, errDeadline):
			ch.timeout()
		case errors.Is(why, errHandBack):
			ch.requeue(reasonHandedBack, 0)
		case transient:
			ch.strike(strikesFailed, reasonRetrying, max(f.after, backoff(ch.row.Strikes)), f.Failure)
		default:
			ch.fail(f.Failure)
		}
	})
}

// backoff is the pause before the next attempt, after so many that failed.
func backoff(strikes int) time.Duration {
	return time.Second << (2 * min(strikes, 3)) // 1 s, 4 s, …
}

// mine changes the run's session, if its lease still holds.
func (r *Runner) mine(ctx context.Context, one *run, fn func(ch *change)) error {
	return r.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		ch, err := r.mineIn(ctx, tx, one)
		if err != nil {
			return err
		}
		fn(ch)
		return ch.save()
	})
}

// mineIn locks the run's session; errLost where the lease no longer holds.
func (r *Runner) mineIn(ctx context.Context, tx *store.Tx, one *run) (*change, error) {
	row, err := tx.LockSession(ctx, one.accountID, "", one.sessionID)
	if stoa.CodeOf(err) == stoa.CodeSessionNotFound {
		return nil, errLost
	}
	if err != nil {
		return nil, err
	}
	if row.Status != stoa.SessionRunning || row.Owner != r.id || row.Fence != one.fence {
		return nil, errLost
	}
	return r.change(ctx, tx, &row), nil
}

// stop ends what this process does for a session, if anything.
func (r *Runner) stop(sessionID string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.runs[sessionID]; one != nil {
		one.cancel(why)
	}
}

func (r *Runner) stopAll(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.runs {
		one.cancel(why)
	}
}

func (r *Runner) isStopping() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping
}
