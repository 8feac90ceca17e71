package billing

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
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

// errAgain says that entries were found to be slow and the batch has to be run
// without them.
var errAgain = errors.New("billing: run the batch again")

// settle writes a batch of charges inside one transaction. Plain ones share
// their statements; one with a closure has a savepoint to itself. It takes locks in
// the order node, lease, whatever the closures take. If careful, each charge has a
// savepoint.
func (l *Ledger) settle(ctx context.Context, tx *store.Tx, batch []*entry, careful bool) error {
	alive, err := tx.NodeAlive(ctx, l.st.Node())
	if err != nil {
		return err
	}
	var plain, closures []*entry
	ids := make(map[string]bool, len(batch))
	var twice []*entry // an id that is in the batch already
	for _, e := range batch {
		e.inserted, e.err = false, nil
		if !alive {
			e.slow = true
		}
		if e.slow {
			continue
		}
		e.h.a.mu.Lock()
		e.receipt.LeaseID, e.receipt.NodeID = e.h.a.lease, l.st.Node()
		e.h.a.mu.Unlock()
		if e.receipt.LeaseID == "" && e.receipt.Amount > 0 {
			e.slow = true
			continue
		}
		switch {
		case ids[e.receipt.ID]:
			twice = append(twice, e)
		case careful || len(e.also) > 0:
			closures = append(closures, e)
		default:
			plain = append(plain, e)
		}
		ids[e.receipt.ID] = true
	}
	if err := l.settlePlain(ctx, tx, plain); err != nil {
		return err
	}
	for _, e := range closures {
		l.settleOne(ctx, tx, e)
	}
	for _, e := range twice {
		l.settleOne(ctx, tx, e)
	}
	return nil
}

// settlePlain inserts charges together and adds up what each lease has spent.
func (l *Ledger) settlePlain(ctx context.Context, tx *store.Tx, plain []*entry) error {
	if len(plain) == 0 {
		return nil
	}
	receipts := make([]store.Receipt, len(plain))
	for i, e := range plain {
		receipts[i] = e.receipt
	}
	inserted, err := tx.InsertCharges(ctx, receipts)
	if err != nil {
		return err
	}
	type sum struct {
		lease  string
		amount stoa.Credits
	}
	var sums []sum
	byLease := make(map[string]int, 8)
	for _, e := range plain {
		if !inserted[e.receipt.ID] {
			if err := l.repeat(ctx, tx, e); err != nil {
				return err
			}
			continue
		}
		e.inserted = true
		if e.receipt.Amount == 0 {
			continue
		}
		i, ok := byLease[e.receipt.LeaseID]
		if !ok {
			i = len(sums)
			byLease[e.receipt.LeaseID] = i
			sums = append(sums, sum{lease: e.receipt.LeaseID})
		}
		sums[i].amount += e.receipt.Amount
	}
	slices.SortFunc(sums, func(a, b sum) int { return strings.Compare(a.lease, b.lease) }) // one order of locks
	again := false
	for _, s := range sums {
		ok, err := tx.SpendLease(ctx, s.lease, s.amount)
		if err != nil {
			return err
		}
		if !ok {
			again = true
			for _, e := range plain {
				e.slow = e.slow || e.receipt.LeaseID == s.lease
			}
		}
	}
	if again {
		return errAgain
	}
	return nil
}

// repeat gives an entry the charge that is stored under its id.
func (l *Ledger) repeat(ctx context.Context, tx *store.Tx, e *entry) error {
	stored, found, err := tx.ChargeByID(ctx, e.receipt.ID)
	if err != nil {
		return err
	}
	if !found || stored.AccountID != e.receipt.AccountID {
		e.err = stoa.Errorf(stoa.CodeConflict, "The charge %q is another account's.", e.receipt.ID)
		return nil
	}
	e.receipt = stored
	return nil
}

// settleOne writes one charge and runs its closures in a savepoint. What goes
// wrong is the entry's own.
func (l *Ledger) settleOne(ctx context.Context, tx *store.Tx, e *entry) {
	asked := e.receipt
	e.err = tx.Savepoint(ctx, func() error {
		inserted, err := tx.InsertCharges(ctx, []store.Receipt{e.receipt})
		if err != nil {
			return err
		}
		if !inserted[e.receipt.ID] {
			return l.repeat(ctx, tx, e)
		}
		if e.receipt.Amount > 0 {
			ok, err := tx.SpendLease(ctx, e.receipt.LeaseID, e.receipt.Amount)
			if err != nil {
				return err
			}
			if !ok {
				return errAgain
			}
		}
		e.inserted = true
		for _, fn := range e.also {
			if err := fn(e.ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if e.err != nil {
		e.inserted, e.receipt = false, asked
	}
	if errors.Is(e.err, errAgain) {
		e.err, e.slow = nil, true
	}
}

// settleAlone charges a call whose lease is gone or too small: the store knows
// better than our memory. It leases what the account has and charges at most
// that. A node that was declared dead charges the balance directly, under the
// same id: the call was served.
func (l *Ledger) settleAlone(e *entry) {
	a := e.h.a
	a.leasing.Lock()
	defer a.leasing.Unlock()
	ctx := context.Background()
	asked := e.receipt
	var lease store.Lease
	var alive bool
	var at time.Time
	var err error
	for range attempts {
		err = l.st.Write(ctx, func(tx *store.Tx) (err error) {
			e.receipt, e.inserted, e.err = asked, false, nil
			at = tx.Now
			stored, found, err := tx.ChargeByID(ctx, asked.ID)
			if err != nil {
				return err
			}
			if found {
				alive = false
				if stored.AccountID != asked.AccountID {
					return stoa.Errorf(stoa.CodeConflict, "The charge %q is another account's.", asked.ID)
				}
				e.receipt = stored
				return nil
			}
			if lease, alive, err = tx.Lease(ctx, a.id, l.st.Node()); err != nil {
				return err
			}
			if !alive {
				if lease, err = tx.LeaseDead(ctx, a.id, l.st.Node()); err != nil {
					return err
				}
			}
			if left := lease.Left(); e.receipt.Amount > left {
				clamp(&e.receipt.Charge, left)
			}
			e.receipt.LeaseID, e.receipt.NodeID = lease.ID, l.st.Node()
			inserted, err := tx.InsertCharges(ctx, []store.Receipt{e.receipt})
			if err != nil {
				return err
			}
			if !inserted[asked.ID] { // another was first, after our look
				return db.ErrAgain
			}
			e.inserted = true
			if !alive {
				err = tx.SettleDead(ctx, lease, e.receipt.Amount)
			} else if _, err = tx.SpendLease(ctx, lease.ID, e.receipt.Amount); err == nil {
				lease.Spent += e.receipt.Amount
			}
			if err != nil {
				return err
			}
			for _, fn := range e.also {
				if err := fn(e.ctx, tx); err != nil {
					return err
				}
			}
			return nil
		})
		if !db.IsPassing(err) {
			break
		}
	}
	if err != nil {
		e.err, e.inserted = err, false
	}
	if err == nil && alive {
		a.mu.Lock()
		a.lease, a.amount, a.spent = lease.ID, lease.Amount, lease.Spent
		if e.inserted {
			a.spent -= e.receipt.Amount // finish adds it
		}
		a.empty, a.emptyAt = false, 0
		a.mu.Unlock()
	}
	if err == nil && e.inserted && !alive {
		a.mu.Lock() // what was spent is not of the lease that memory knows
		a.spent -= e.receipt.Amount
		a.mu.Unlock()
	}
	l.log.LogAttrs(ctx, slog.LevelWarn, "a charge went past its lease", slog.String("charge", asked.ID), slog.String("account", a.id), slog.Any("error", err))
	l.finish(e, at)
}

// finish brings the memory up to what is committed and answers the entry.
func (l *Ledger) finish(e *entry, at time.Time) {
	h, a := e.h, e.h.a
	if e.err != nil {
		h.reopen()
		e.done <- struct{}{}
		return
	}
	c := &e.receipt
	a.mu.Lock()
	h.end(holdSettled)
	if e.inserted {
		a.spent += c.Amount
		day := dayOf(at)
		if k := a.key(c.KeyID, day); k.day == day {
			k.spent += c.Amount
		}
		c.CreatedAt = at
	}
	a.mu.Unlock()
	if e.inserted && c.Clamped {
		l.log.LogAttrs(e.ctx, slog.LevelError, "a charge was clamped", slog.String("charge", c.ID), slog.String("account", a.id),
			slog.Int64("amountMicro", int64(c.Amount)), slog.Int64("writtenOffMicro", int64(c.WrittenOff)))
	}
	e.done <- struct{}{}
}
