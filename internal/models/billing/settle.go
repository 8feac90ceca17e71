package billing

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	maxBatch = 1024 // charges in one commit
	crowd    = 8    // charges in the last commit from which on the next one waits for more
	attempts = 3    // for a batch whose commit failed
)

// entry is one charge waiting for its commit.
type entry struct {
	h       *Hold
	ctx     context.Context
	also    []func(ctx context.Context, tx *store.Tx) error
	receipt store.Receipt // in: the charge to write; out: the stored charge
	done    chan struct{} // one element

	doubt     bool  // the answer to a commit of it was lost, so it may be stored
	inserted  bool  // by the latest attempt; otherwise the charge was stored before
	uncovered bool  // the lease does not cover it; see [Ledger.chargeUncovered]
	err       error // of this entry only, in the latest attempt
}

// enqueue adds an entry to the queue; it returns false if the ledger has stopped. The queue of
// package db does not suffice, because it shares the COMMIT, and this one shares the statements
// (one INSERT for up to 64 charges, one UPDATE per lease): with 8 callers a charge takes 36 to
// 45 % less CPU with both; see BenchmarkSettle.
func (l *Ledger) enqueue(e *entry) bool {
	l.qmu.Lock()
	if l.stopped {
		l.qmu.Unlock()
		return false
	}
	l.queue = append(l.queue, e)
	enough := len(l.queue) >= l.enough
	l.qmu.Unlock()
	if enough {
		l.signal()
	}
	return true
}

// signal wakes Run, which then reads the queue at least once.
func (l *Ledger) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Run commits charges in groups until ctx ends, then commits the queued charges, closes the
// node's leases and returns. After that nothing can be held or settled, so it must be stopped
// after everything that makes calls. It returns [store.ErrLost] if another process has
// claimed the database.
func (l *Ledger) Run(ctx context.Context) error {
	if l.started.Swap(true) {
		return errors.New("billing: the ledger is already running")
	}
	if l.shared != nil {
		sharing, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			var reserving sync.WaitGroup
			reserving.Go(func() { l.runReservations(sharing) })
			l.runShared(sharing)
			reserving.Wait()
		}()
		defer func() { stop(); <-ended }()
	}
	last := 0
	again := time.NewTimer(doubtPause)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-l.wake:
			if last >= crowd && l.linger > 0 {
				l.wait(ctx, last)
			}
			if last = l.commitBatch(); len(l.doubtful)+len(l.unsure) > 0 {
				again.Reset(doubtPause)
			}
		case <-again.C:
			l.resolve()
			if l.rereadWindows(); len(l.doubtful)+len(l.unsure) > 0 {
				again.Reset(doubtPause)
			}
		case <-ctx.Done():
			l.stop()
			ctx := context.Background()
			return l.st.Write(ctx, func(tx *store.Tx) error { return tx.Books().CloseLeases(ctx, l.st.Node()) })
		case <-l.st.Lost():
			l.stop()
			return store.ErrLost
		}
	}
}

// wait lets calls that end together join one commit: it returns when as many are queued as
// last time, or after linger.
func (l *Ledger) wait(ctx context.Context, last int) {
	t := time.NewTimer(l.linger)
	defer t.Stop()
	defer l.expect(0)
	for !l.expect(min(last, maxBatch)) {
		select {
		case <-l.wake:
		case <-t.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// expect sets the number of queued entries that triggers a signal, and reports whether it is
// already reached.
func (l *Ledger) expect(enough int) bool {
	l.qmu.Lock()
	defer l.qmu.Unlock()
	l.enough = enough
	return len(l.queue) >= enough
}

// stop refuses new entries and commits the queued ones.
func (l *Ledger) stop() {
	l.ended.Store(true)
	close(l.done)
	l.qmu.Lock()
	l.stopped = true
	l.qmu.Unlock()
	for l.commitBatch() > 0 {
	}
	l.recording.Wait()
	l.giveUp()
}

// dequeue removes up to maxBatch entries from the queue.
func (l *Ledger) dequeue() []*entry {
	l.qmu.Lock()
	defer l.qmu.Unlock()
	n := min(len(l.queue), maxBatch)
	batch := slices.Clone(l.queue[:n])
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	if rest > 0 {
		l.signal()
	}
	return batch
}

// commitBatch commits the queued entries and answers them. It returns their number.
func (l *Ledger) commitBatch() int {
	b := &batch{l: l}
	began := time.Now()
	err := b.commit()
	if b.entries == nil && err != nil { // because the transaction did not even begin
		b.entries = l.dequeue()
	}
	l.metrics.Committed(len(b.entries), time.Since(began))
	b.answer(err)
	return len(b.entries)
}

// answer answers the entries, except those in doubt if the batch was not committed.
func (b *batch) answer(err error) {
	l := b.l
	var unsure []*account
	if b.doubt && err == nil { // otherwise nothing was committed, or it is looked up later
		for _, e := range b.entries {
			if !slices.Contains(unsure, e.h.a) {
				unsure = append(unsure, e.h.a)
			}
			l.doubtWindows(e)
		}
	}
	var uncovered []*entry
	for _, e := range b.entries {
		switch {
		case err == nil && e.uncovered:
			uncovered = append(uncovered, e)
			continue
		case err != nil && e.doubt:
			l.doubtful = append(l.doubtful, e)
			continue
		case err != nil:
			e.err = err
		}
		l.complete(e, b.at)
	}
	for _, e := range uncovered {
		l.chargeUncovered(e)
	}
	// Nothing is counted twice, because only the goroutine of Run adds to the spent amount, and it is here. If the read
	// fails, the next charge that the lease does not cover repairs it; see [Ledger.chargeUncovered].
	for _, a := range unsure {
		a.leasing.lock()
		l.readLease(a, a.takeOver)
		a.leasing.unlock()
	}
	l.rereadWindows()
}

// batch is a group of entries that are being committed.
type batch struct {
	l       *Ledger
	entries []*entry
	at      time.Time // of the transaction that committed
	doubt   bool      // an attempt failed: the rows may differ from memory
	careful bool      // each charge gets its own savepoint
}

// commit writes the batch, several times if necessary.
func (b *batch) commit() (err error) {
	for range attempts {
		// Each errAgain marks the entries of at least one more lease; the others continue
		// without them.
		for err = b.write(); errors.Is(err, errAgain); {
			err = b.write()
		}
		if err == nil {
			return nil
		}
		b.doubt = true
		if db.IsDoubtful(err) {
			for _, e := range b.entries {
				e.doubt = true
			}
		}
		if db.IsPassing(err) {
			continue
		}
		// In the next attempt each charge has its own savepoint, so that one at fault fails alone.
		if b.careful || len(b.entries) < 2 || stoa.CodeOf(err) == stoa.CodeStorageFull || errors.Is(err, db.ErrTimeout) {
			return err
		}
		b.careful = true
	}
	return err
}

func (b *batch) write() error {
	ctx := context.Background()
	return b.l.st.WriteWait(ctx, func(tx *store.Tx) error {
		if b.entries == nil { // as late as possible, so that all waiting entries join
			b.entries = b.l.dequeue()
		}
		b.at = tx.Now
		return b.l.writeBatch(ctx, tx, b.entries, b.careful)
	})
}

// takeOver sets the lease in memory to its row. The caller must hold mu and leasing.
func (a *account) takeOver(lease store.Lease) {
	a.lease, a.amount, a.spent = lease.ID, lease.Amount, lease.Spent
}

// readLease reads the node's open lease of an account and, if there is one, calls set with mu
// held. The caller must hold leasing.
func (l *Ledger) readLease(a *account, set func(store.Lease)) {
	ctx := store.Promptly(context.Background())
	err := l.st.Read(ctx, func(tx *store.Tx) error {
		lease, found, err := tx.Books().OpenLease(ctx, a.id, l.st.Node())
		if err != nil || !found {
			return err
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		set(lease)
		return nil
	})
	if err != nil {
		l.log.LogAttrs(ctx, slog.LevelWarn, "a lease could not be read again", slog.String("account", a.id), slog.Any("error", err))
	}
}
