package billing

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// errAgain means that the batch has to be written again, because the leases of some entries,
// which are marked, do not cover them.
var errAgain = errors.New("billing: write the batch again")

// writeBatch writes a batch of charges inside one transaction. Plain charges share their
// statements; each charge with closures, and with careful every charge, has its own
// savepoint. Entries that their lease does not cover are marked. Locks are acquired in the
// order node, windows of budgets, leases, then those of the closures, to avoid deadlocks.
func (l *Ledger) writeBatch(ctx context.Context, tx *store.Tx, batch []*entry, careful bool) error {
	alive, err := tx.Operations().NodeAlive(ctx, l.st.Node())
	if err != nil {
		return err
	}
	var plain, separate []*entry
	var repeated []*entry // their id occurs earlier in the batch
	ids := make(map[string]bool, len(batch))
	for _, e := range batch {
		e.inserted, e.err = false, nil
		e.h.a.mu.Lock()
		e.receipt.LeaseID, e.receipt.NodeID = e.h.a.lease, l.st.Node()
		e.h.a.mu.Unlock()
		e.uncovered = e.uncovered || !alive || e.receipt.LeaseID == "" && e.receipt.Amount != 0
		if e.uncovered {
			continue
		}
		switch {
		case ids[e.receipt.ID]:
			repeated = append(repeated, e)
		case careful || len(e.also) > 0:
			separate = append(separate, e)
		default:
			plain = append(plain, e)
		}
		ids[e.receipt.ID] = true
	}
	if err := tx.Books().LockBudgetWindows(ctx, windowIDs(batch...)); err != nil {
		return err
	}
	if err := l.insertTogether(ctx, tx, plain); err != nil {
		return err
	}
	for _, e := range append(separate, repeated...) {
		l.insertSeparately(ctx, tx, e)
	}
	return nil
}

// insertTogether inserts charges with shared statements and adds to each lease the sum of its
// charges. errAgain means that some leases do not cover theirs; these entries are marked.
func (l *Ledger) insertTogether(ctx context.Context, tx *store.Tx, plain []*entry) error {
	if len(plain) == 0 {
		return nil
	}
	receipts := make([]store.Receipt, len(plain))
	for i, e := range plain {
		receipts[i] = e.receipt
	}
	inserted, err := tx.Books().InsertCharges(ctx, receipts)
	if err != nil {
		return err
	}
	spent := make(map[string]stoa.Credits, 8) // by lease
	var leases []string
	for _, e := range plain {
		if !inserted[e.receipt.ID] {
			if err := l.useStored(ctx, tx, e); err != nil {
				return err
			}
			continue
		}
		e.inserted = true
		if e.receipt.Amount == 0 {
			continue
		}
		if _, seen := spent[e.receipt.LeaseID]; !seen {
			leases = append(leases, e.receipt.LeaseID)
		}
		spent[e.receipt.LeaseID] += e.receipt.Amount
	}
	slices.SortFunc(leases, strings.Compare) // so that all transactions lock them in the same order
	again := false
	for _, lease := range leases {
		covered, err := tx.Books().SpendLease(ctx, lease, spent[lease])
		if err != nil {
			return err
		}
		if covered {
			continue
		}
		again = true
		for _, e := range plain {
			e.uncovered = e.uncovered || e.receipt.LeaseID == lease
		}
	}
	if again {
		return errAgain
	}
	return l.spendWindows(ctx, tx, plain...)
}

// useStored replaces an entry's charge by the one that is stored under its id. An id that
// another account has used is CodeConflict, for this entry only.
func (l *Ledger) useStored(ctx context.Context, tx *store.Tx, e *entry) error {
	stored, found, err := tx.Books().ChargeByID(ctx, e.receipt.ID)
	if err != nil {
		return err
	}
	if !found || stored.AccountID != e.receipt.AccountID {
		e.err = errForeignID(e.receipt.ID)
		return nil
	}
	e.receipt = stored
	return nil
}

func errForeignID(id string) error {
	return stoa.Errorf(stoa.CodeConflict, "The charge %q belongs to another account.", id)
}

// insertSeparately inserts one charge and runs its closures in a savepoint: an error only
// affects this entry.
func (l *Ledger) insertSeparately(ctx context.Context, tx *store.Tx, e *entry) {
	asked := e.receipt
	e.err = tx.Savepoint(ctx, func() error {
		inserted, err := tx.Books().InsertCharges(ctx, []store.Receipt{e.receipt})
		if err != nil {
			return err
		}
		if !inserted[e.receipt.ID] {
			if err := l.useStored(ctx, tx, e); err != nil {
				return err
			}
			if e.err != nil {
				return e.err
			}
			return l.spendWindows(ctx, tx, e)
		}
		if e.receipt.Amount > 0 {
			covered, err := tx.Books().SpendLease(ctx, e.receipt.LeaseID, e.receipt.Amount)
			if err != nil {
				return err
			}
			if !covered {
				return errAgain
			}
		}
		e.inserted = true
		if err := l.spendWindows(ctx, tx, e); err != nil {
			return err
		}
		return e.runClosures(tx)
	})
	if e.err != nil {
		e.inserted, e.receipt = false, asked
	}
	if errors.Is(e.err, errAgain) {
		e.err, e.uncovered = nil, true
	}
}

func (e *entry) runClosures(tx *store.Tx) error {
	for _, fn := range e.also {
		if err := fn(e.ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// complete updates memory to the committed state and answers the entry, which then belongs to
// the caller of Settle again.
func (l *Ledger) complete(e *entry, at time.Time) {
	h, a := e.h, e.h.a
	if e.err != nil {
		h.reopen()
		e.done <- struct{}{}
		return
	}
	c := &e.receipt
	a.mu.Lock()
	if e.inserted {
		a.spent += c.Amount
		for i := range h.claims {
			h.claims[i].w.used += c.Amount
		}
		c.CreatedAt = at
	}
	h.end(holdSettled)
	l.freed(a)
	a.mu.Unlock()
	if h.rows != "" && !e.inserted { // because the transaction that stored the charge before may not have removed them
		l.releaseRows(h.rows, nil)
	}
	if e.inserted && c.Clamped {
		l.log.LogAttrs(e.ctx, slog.LevelError, "a charge was clamped", slog.String("charge", c.ID), slog.String("account", a.id),
			slog.Int64("amountMicro", int64(c.Amount)), slog.Int64("writtenOffMicro", int64(c.WrittenOff)))
	}
	e.done <- struct{}{}
}
