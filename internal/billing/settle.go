package billing

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"stoa/internal/db"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

const (
	maxBatch = 1024 // charges in one commit
	crowd    = 8    // charges in the last commit that make the next one linger
	attempts = 3    // at a batch whose commit broke
)

// entry is one charge waiting for its commit.
type entry struct {
	h       *Hold
	ctx     context.Context
	also    []func(ctx context.Context, tx *store.Tx) error
	receipt store.Receipt // in: what to charge; out: what is stored
	done    chan struct{} // one element

	// Set anew by each attempt.
	inserted bool  // by us; otherwise it was there before
	slow     bool  // the lease does not cover it; see [Ledger.settleAlone]
	err      error // of this entry alone
}

func (l *Ledger) enqueue(e *entry) bool {
	l.qmu.Lock()
	if l.stopped {
		l.qmu.Unlock()
		return false
	}
	l.queue = append(l.queue, e)
	l.qmu.Unlock()
	l.nudge()
	return true
}

func (l *Ledger) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run is the settler: it commits charges in groups until ctx ends, then commits
// what is queued, gives the leases back, and returns. After that nothing can be
// held or settled any more, so it must be stopped after all that makes calls. It
// fails when another process has taken over the database.
func (l *Ledger) Run(ctx context.Context) error {
	if l.started.Swap(true) {
		return errors.New("billing: the ledger runs already")
	}
	last := 0
	for {
		select {
		case <-l.wake:
			if last >= crowd && l.linger > 0 {
				l.wait(ctx, last)
			}
			last = l.flush()
		case <-ctx.Done():
			l.stop()
			return l.returnLeases()
		case <-l.st.Lost():
			l.stop()
			return store.ErrLost
		}
	}
}

// wait gives calls that end together time to join one commit: until as many are
// there as last time, or the linger is over.
func (l *Ledger) wait(ctx context.Context, last int) {
	t := time.NewTimer(l.linger)
	defer t.Stop()
	for {
		l.qmu.Lock()
		n := len(l.queue)
		l.qmu.Unlock()
		if n >= min(last, maxBatch) {
			return
		}
		select {
		case <-l.wake:
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (l *Ledger) stop() {
	l.ended.Store(true)
	close(l.done)
	l.qmu.Lock()
	l.stopped = true
	l.qmu.Unlock()
	for l.flush() > 0 {
	}
}

func (l *Ledger) returnLeases() error {
	ctx := context.Background()
	return l.st.Write(ctx, func(tx *store.Tx) error { return tx.CloseLeases(ctx, l.st.Node()) })
}

// take removes up to maxBatch entries from the queue.
func (l *Ledger) take(batch []*entry) []*entry {
	l.qmu.Lock()
	defer l.qmu.Unlock()
	n := min(len(l.queue), maxBatch)
	batch = append(batch, l.queue[:n]...)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	if rest > 0 {
		l.nudge()
	}
	return batch
}

// flush commits one batch and answers it. It tells how many entries there were.
func (l *Ledger) flush() int {
	var batch []*entry
	ctx := context.Background()
	var at time.Time
	var err error
	doubt := false   // whether the rows still say what memory believes
	careful := false // whether each charge gets a savepoint
	for range attempts {
		err = l.st.Write(ctx, func(tx *store.Tx) error {
			if batch == nil { // as late as can be: all that waits comes along
				batch = l.take(nil)
			}
			at = tx.Now
			return l.settle(ctx, tx, batch, careful)
		})
		// Where entries were marked slow the others go on without them. Each round
		// marks at least one account.
		for errors.Is(err, errAgain) {
			err = l.st.Write(ctx, func(tx *store.Tx) error {
				at = tx.Now
				return l.settle(ctx, tx, batch, careful)
			})
		}
		doubt = doubt || err != nil
		if err == nil {
			break
		}
		if !db.IsPassing(err) {
			// Something in the batch may be at fault: in the next attempt each charge
			// stands for itself, so that it fails alone.
			if careful || len(batch) < 2 || stoa.CodeOf(err) == stoa.CodeStorageFull {
				break
			}
			careful = true
		}
	}
	if batch == nil && err != nil { // the transaction did not even begin
		batch = l.take(nil)
	}
	n := len(batch)
	var doubtful []*account
	if doubt {
		for _, e := range batch {
			if !slices.Contains(doubtful, e.h.a) {
				doubtful = append(doubtful, e.h.a)
			}
		}
	}
	slow := batch[:0]
	for _, e := range batch {
		if err != nil {
			e.err = err
		} else if e.slow {
			slow = append(slow, e)
			continue
		}
		l.finish(e, at) // e is the caller's again
	}
	for _, e := range slow {
		l.settleAlone(e)
	}
	for _, a := range doubtful {
		l.reread(ctx, a)
	}
	return n
}

// reread brings the memory of a lease up to its row, after a commit of which it
// is not known whether it happened. Only the settler adds to what is spent, and
// it is here, so nothing is counted twice. When it fails, the next charge that
// the lease does not cover finds out; see [Ledger.settleAlone].
func (l *Ledger) reread(ctx context.Context, a *account) {
	a.leasing.Lock()
	defer a.leasing.Unlock()
	err := l.st.Read(ctx, func(tx *store.Tx) error {
		lease, found, err := tx.OpenLease(ctx, a.id, l.st.Node())
		if err != nil || !found {
			return err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lease, a.amount, a.spent = lease.ID, lease.Amount, lease.Spent
		return nil
	})
	if err != nil {
		l.log.LogAttrs(ctx, slog.LevelWarn, "a lease could not be read again", slog.String("account", a.id), slog.Any("error", err))
	}
}
