package billing

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// With several nodes on one store, the credits of windows that calls in progress hold are rows
// (budget_holds), one for each call and window. One goroutine per node reserves them for all
// calls that wait, in one transaction: it locks the windows in the order of their ids, compares
// what they have spent and what all nodes hold with the limits, and adds the new holds, so that no
// window exceeds its limit, and a call is refused only if too little is left. The transaction of a
// charge adds to the windows and removes the rows of its call. The rows of a dead node are removed
// with its leases. If the database does not answer, calls fail with CodeOverloaded.

const maxReservations = 256 // calls in one transaction

// reservations are the reservations and releases that wait for a transaction.
type reservations struct {
	mu       sync.Mutex
	queue    []*reservation
	shrunk   []store.WindowHold
	released []string        // ids of rows
	answered []chan struct{} // of the calls that wait for the releases
	stopped  bool
	wake     chan struct{}
}

// A reservation is the credits that one call needs from its windows.
type reservation struct {
	rows   string // id of its rows
	claims []claim
	n      need
	had    stoa.Credits // reserved before
	got    stoa.Credits
	err    error
	done   chan struct{}
}

func (r *reservations) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// reserveWindows reserves between n.least and n.most credits from all windows of a hold, in
// addition to those that it has, and returns the amount.
func (l *Ledger) reserveWindows(ctx context.Context, h *Hold, n need, had stoa.Credits) (stoa.Credits, error) {
	r := &l.shared.reservations
	if h.rows == "" {
		h.rows = stoa.NewID("hld")
	}
	one := &reservation{rows: h.rows, claims: h.claims, n: n, had: had, done: make(chan struct{})}
	r.mu.Lock()
	if r.stopped {
		r.mu.Unlock()
		return 0, errStopping()
	}
	r.queue = append(r.queue, one)
	r.mu.Unlock()
	r.signal()
	select {
	case <-one.done:
		return one.got, one.err
	case <-ctx.Done():
		if had == 0 {
			l.releaseRows(h.rows, nil)
		}
		return 0, ctx.Err()
	}
}

// releaseRows removes the rows of a hold. done is closed after the first attempt; it may be nil.
func (l *Ledger) releaseRows(rows string, done chan struct{}) {
	r := &l.shared.reservations
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped { // not queued, because the rows are removed with the end of the node
		if done != nil {
			close(done)
		}
		return
	}
	r.released = append(r.released, rows)
	if done != nil {
		r.answered = append(r.answered, done)
	}
	r.signal()
}

func (l *Ledger) runReservations(ctx context.Context) {
	r := &l.shared.reservations
	again := time.NewTimer(doubtPause)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-r.wake:
		case <-again.C:
		case <-ctx.Done():
			r.mu.Lock()
			defer r.mu.Unlock()
			r.stopped = true
			for _, one := range r.queue {
				one.err = errStopping()
				close(one.done)
			}
			for _, done := range r.answered {
				close(done)
			}
			r.queue, r.answered = nil, nil
			return
		}
		if err := l.reserveBatch(ctx); err != nil {
			l.log.LogAttrs(ctx, slog.LevelWarn, "reservations of budgets could not be written", slog.Any("error", err))
			again.Reset(doubtPause)
		}
	}
}

func (l *Ledger) reserveBatch(ctx context.Context) error {
	r := &l.shared.reservations
	r.mu.Lock()
	n := min(len(r.queue), maxReservations)
	batch := slices.Clone(r.queue[:n])
	r.queue = slices.Delete(r.queue, 0, n)
	shrunk, released, answered := r.shrunk, r.released, r.answered
	r.shrunk, r.released, r.answered = nil, nil, nil
	if len(r.queue) > 0 {
		r.signal()
	}
	r.mu.Unlock()
	if len(batch) == 0 && len(shrunk) == 0 && len(released) == 0 {
		return nil
	}
	err := l.st.Write(store.Promptly(context.WithoutCancel(ctx)), func(tx *store.Tx) error {
		return l.writeReservations(ctx, tx, batch, shrunk, released)
	})
	r.mu.Lock()
	if err != nil { // what the batch reserved is released, because the commit may be in doubt
		r.shrunk = append(shrunk, r.shrunk...)
		r.released = append(released, r.released...)
		for _, one := range batch {
			if one.had == 0 {
				r.released = append(r.released, one.rows)
			} else {
				r.shrunk = append(r.shrunk, store.WindowHold{HoldID: one.rows, Amount: one.had})
			}
			one.err = err
		}
	}
	r.mu.Unlock()
	for _, one := range batch {
		close(one.done)
	}
	for _, done := range answered {
		close(done)
	}
	return err
}

// writeReservations is the transaction of [Ledger.reserveBatch].
func (l *Ledger) writeReservations(ctx context.Context, tx *store.Tx, batch []*reservation, shrunk []store.WindowHold, released []string) error {
	var ids []string
	for _, one := range batch {
		for i := range one.claims {
			ids = append(ids, one.claims[i].w.id)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if err := tx.Books().LockBudgetWindows(ctx, ids); err != nil {
		return err
	}
	for _, s := range shrunk {
		if err := tx.Books().ShrinkBudgetHold(ctx, s.HoldID, s.Amount); err != nil {
			return err
		}
	}
	if err := tx.Books().ReleaseBudgetHolds(ctx, released); err != nil || len(batch) == 0 {
		return err
	}
	states, err := tx.Books().BudgetWindowStates(ctx, ids) // after the locks, so that it reads what others have committed
	if err != nil {
		return err
	}
	left := func(c *claim) stoa.Credits {
		s, limit := states[c.w.id], c.limit
		switch {
		case s == nil, c.budget != nil && !s.Limited: // the budget was deleted
			return math.MaxInt64
		case c.budget != nil:
			limit = s.Limit
		}
		return limit - s.Used - s.Held
	}
	var holds []store.WindowHold
	for _, one := range batch {
		one.got, one.err = 0, nil
		if slices.Contains(released, one.rows) { // because its caller has gone
			one.err = context.Canceled
			continue
		}
		if one.got, one.err = claimed(one.claims, one.n, left); one.err != nil {
			continue
		}
		for i := range one.claims {
			id := one.claims[i].w.id
			if s := states[id]; s != nil {
				s.Held += one.got
				holds = append(holds, store.WindowHold{WindowID: id, HoldID: one.rows, Amount: one.had + one.got})
			}
		}
	}
	return tx.Books().HoldBudgetWindows(ctx, l.st.Node(), holds)
}

// coverWindows reserves the part of a charge that exceeds the hold, as far as the windows have it
// left, and lowers the charge to the amount that they cover.
func (l *Ledger) coverWindows(ctx context.Context, h *Hold, c *stoa.Charge) error {
	h.a.mu.Lock()
	open, had := h.state == holdOpen, h.reserved
	h.a.mu.Unlock()
	if !open {
		return errEnded
	}
	if c.Amount <= had {
		return nil
	}
	got, err := l.reserveWindows(ctx, h, need{most: c.Amount - had, any: true}, had)
	if err != nil {
		return err
	}
	h.a.mu.Lock()
	h.reserved += got
	h.a.mu.Unlock()
	if had+got < c.Amount {
		clamp(c, had+got)
	}
	return nil
}
