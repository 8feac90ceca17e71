package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/telemetry"
)

// Why a turn is stopped from inside this process: causes of its context. The causes from
// outside are [session.ErrCancelled] and [session.ErrLost].
var (
	errDeadline = errors.New("agent: the turn's time is over")
	errHandBack = errors.New("agent: this process stops")
)

const (
	strayEvery = 5 * time.Second
	minShare   = 16 // sessions of an account in this process, so that it cannot occupy all workers; or a quarter of them, if that is more
	claimBatch = 32 // sessions per transaction
)

// run is a claimed session in this process.
type run struct {
	lease     session.Lease
	cancel    context.CancelCauseFunc
	lastDelta time.Time // time of the last write by its deltaWriter
	overdue   time.Time // time from which the sweep ends the turn, by the monotonic clock

	calls *tool.Turn // nil before the first call
	cut   atomic.Bool
}

// Run claims sessions and runs their turns until ctx ends. It then waits up to Config.Grace
// for steps to finish and returns the turns to the queue, which does not count as an attempt.
// It fails only if it cannot start.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.store.Write(ctx, func(tx *store.Tx) error { return tx.Work().BeginRunner(ctx, w.id) }); err != nil {
		return fmt.Errorf("begin to run sessions: %w", err)
	}
	var turns, helpers sync.WaitGroup
	done := make(chan struct{})
	if w.cfg.Shared {
		helpers.Go(func() { w.cancelLoop(ctx, done) })
		helpers.Go(func() { w.sessions.FollowPeers(ctx, stoa.PollShared) })
	}
	w.claimLoop(ctx, &turns)

	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()
	go func() { turns.Wait(); close(done) }()
	grace := time.NewTimer(max(w.cfg.Grace, 0))
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		w.stopAll(errHandBack)
		<-done
	}
	helpers.Wait()
	ctx = context.WithoutCancel(ctx)
	if err := w.store.Write(ctx, func(tx *store.Tx) error { return tx.Work().EndRunner(ctx, w.id) }); err != nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "the leases of this process could not be ended", slog.Any("error", err))
	}
	return nil
}

// claimLoop claims and sweeps until ctx ends. It reads the rows when it is woken, when known
// work becomes due, and at least once per polling interval.
func (w *Worker) claimLoop(ctx context.Context, turns *sync.WaitGroup) {
	stoa.Poll(ctx, w.alarm.C(), nil, func() time.Duration {
		w.alarm.Looking()
		next := time.Now().Add(stoa.PollEvery(w.cfg.Shared))
		work, err := w.pendingWork(ctx)
		if err != nil {
			w.report(ctx, "the queue could not be read", err)
			next = time.Now().Add(stoa.PollShared)
		}
		for _, at := range []time.Time{work.WakeAt, work.DueAt} {
			if !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		w.alarm.Plan(next)
		for more := work.Queued; more && ctx.Err() == nil; {
			if more, err = w.claim(ctx, turns); err != nil {
				w.report(ctx, "sessions could not be claimed", err)
			}
		}
		return max(time.Until(next), time.Millisecond)
	})
}

func (w *Worker) claim(ctx context.Context, turns *sync.WaitGroup) (more bool, err error) {
	w.mu.Lock()
	free, after := min(w.cfg.Workers-len(w.runs), claimBatch), w.after
	w.mu.Unlock()
	if free <= 0 {
		return false, nil
	}
	var claimed []store.SessionRow
	var last string
	err = w.store.Write(ctx, func(tx *store.Tx) error {
		refs, account, err := w.nextInLine(ctx, tx, free, after)
		if err != nil {
			return err
		}
		last, more = account, len(refs) == claimBatch
		claimed, err = w.sessions.Claim(ctx, tx, refs, w.id)
		return err
	})
	if err != nil {
		return false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = last
	for _, row := range claimed {
		base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		r := &run{
			lease:  session.Lease{AccountID: row.AccountID, SessionID: row.ID, Owner: w.id, Fence: row.Fence},
			cancel: cancel, overdue: time.Now().Add(time.Until(row.DueAt)),
		}
		w.runs[row.ID] = r
		turns.Go(func() { w.serve(base, r, row) })
	}
	return more, nil
}

// nextInLine returns up to n sessions to claim, one per account in round-robin order,
// starting with the account after the given one. It also returns the last account served.
func (w *Worker) nextInLine(ctx context.Context, tx *store.Tx, n int, after string) (refs []store.Ref, last string, err error) {
	// The row must exist, because sessions claimed by a worker without one would be taken from it immediately.
	if err := tx.Work().BeginRunner(ctx, w.id); err != nil {
		return nil, "", err
	}
	lines, err := w.queues(ctx, tx, n, after)
	if err != nil {
		return nil, "", err
	}
	refs, last = takeTurns(lines, n, after)
	return refs, last, nil
}

type line struct {
	account string
	next    []string
}

// queues returns the lines of up to n accounts below their limit, ordered by account id, starting
// after the given account and wrapping around.
func (w *Worker) queues(ctx context.Context, tx *store.Tx, n int, after string) (lines []line, err error) {
	start, wrapped := after, after == ""
	for len(lines) < n {
		account, found, err := tx.Work().NextQueuedAccount(ctx, after)
		if err != nil {
			return nil, err
		}
		if wrapped && (!found || start != "" && account > start) {
			break
		}
		if !found {
			after, wrapped = "", true
			continue
		}
		after = account
		queue, err := tx.Work().AccountQueue(ctx, account, n)
		if err != nil {
			return nil, err
		}
		limit := max(w.cfg.Workers/4, minShare)
		if of := w.cfg.Plans(queue.Plan).ActiveSessions; of > 0 {
			limit = min(limit, of)
		}
		next := alternate(queue, limit, n)
		if len(next) > 0 {
			lines = append(lines, line{account, next})
		}
	}
	return lines, nil
}

// alternate returns up to n sessions of an account to claim, so that at most limit run: each
// time the longest waiting one of the lines with the fewest running sessions. At most half of
// the running sessions are those of visitors, so that they leave places for their owner.
func alternate(q store.AccountQueue, limit, n int) (next []string) {
	running, all, visitors := map[string]int{}, 0, 0
	for _, r := range q.Running {
		running[r.Line] += r.Count
		if all += r.Count; r.Visitor {
			visitors += r.Count
		}
	}
	for waiting := slices.Clone(q.Next); len(next) < n && all < limit; all++ {
		best := -1
		for i, s := range waiting {
			if s.Visitor && visitors >= max(limit/2, 1) {
				continue
			}
			if best < 0 || running[s.Line] < running[waiting[best].Line] {
				best = i
			}
		}
		if best < 0 {
			break
		}
		s := waiting[best]
		waiting = slices.Delete(waiting, best, best+1)
		next = append(next, s.ID)
		if running[s.Line]++; s.Visitor {
			visitors++
		}
	}
	return next
}

// takeTurns picks up to n sessions, one from each line in turn. It also returns the account
// that was served last, or the given one if it picked none.
func takeTurns(lines []line, n int, last string) (refs []store.Ref, _ string) {
	for round := 0; ; round++ {
		any := false
		for _, l := range lines {
			if round >= len(l.next) {
				continue
			}
			if len(refs) == n {
				return refs, last
			}
			refs = append(refs, store.Ref{AccountID: l.account, ID: l.next[round]})
			last, any = l.account, true
		}
		if !any {
			return refs, last
		}
	}
}

func (w *Worker) serve(ctx context.Context, r *run, row store.SessionRow) {
	defer func() {
		if r.calls != nil {
			r.calls.Close()
		}
		r.cancel(nil)
		w.mu.Lock()
		if w.runs[row.ID] == r {
			delete(w.runs, row.ID)
		}
		w.mu.Unlock()
		w.alarm.Wake()
	}()
	bounded, stopClock := context.WithDeadlineCause(ctx, row.Turn.DeadlineAt, errDeadline)
	defer stopClock()
	bounded, endSpan := w.cfg.Tracer.Turn(bounded, telemetry.Turn{
		Session: row.ID, Agent: row.AgentID, Created: row.CreatedAt, Number: row.Turn.Number, Attempt: int64(row.Turn.Attempt),
		First: row.Turn.Number == 1 && row.Turn.Attempt == 1 && row.Steps == 0,
	})
	err := recovered(func() error { return w.turn(bounded, r, row) })
	if cause := context.Cause(bounded); cause != nil && err != nil && !errors.Is(err, session.ErrLost) {
		err = cause
	}
	endSpan(turnCode(err))
	if err == nil || errors.Is(err, session.ErrLost) {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if err := w.conclude(ctx, r, err); err != nil && !errors.Is(err, session.ErrLost) {
		// The rows still say that the turn runs here, so sweepStrays will find it.
		w.report(ctx, "the end of a turn could not be written", err)
	}
}

func turnCode(err error) stoa.Code {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, session.ErrCancelled):
		return "cancelled"
	case errors.Is(err, session.ErrLost):
		return "worker_lost"
	case errors.Is(err, errHandBack):
		return "handed_back"
	case errors.Is(err, errDeadline):
		return "turn_timeout"
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.Code
	}
	return stoa.CodeOf(err)
}

// recovered turns a panic of fn into an error, so that one session cannot end the others.
func recovered(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in a turn: %v\n%s", p, debug.Stack())
		}
	}()
	return fn()
}

// conclude records why a turn does not continue in this process. A cancellation always wins,
// because its caller was told that it is stored.
func (w *Worker) conclude(ctx context.Context, r *run, why error) error {
	var f *failure
	transient := !errors.As(why, &f)
	if transient {
		f = classify(why)
		transient = f.passing
	}
	if f.cause != nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "a turn failed", slog.String("session", r.lease.SessionID), slog.Any("error", f.cause))
	}
	return w.sessions.IfOwned(ctx, r.lease, func(t *session.Transition) {
		switch {
		case !t.Row.CancelAt.IsZero() || errors.Is(why, session.ErrCancelled):
			t.Cancel()
		case errors.Is(why, errDeadline):
			t.Timeout()
		case errors.Is(why, errHandBack):
			t.HandBack()
		case transient:
			t.Strike(max(f.after, time.Second<<(2*min(t.Row.Strikes, 3))), f.Failure)
		default:
			t.Fail(f.Failure)
		}
	})
}
