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
// See docs/decisions/0012-every-charge-names-a-lease.md.
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
