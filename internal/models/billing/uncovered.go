package billing

import (
	"context"
	"log/slog"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/store"
)

// chargeUncovered charges a call whose lease is closed or too small, in a separate transaction,
// because the call was served. That happens if the rows differ from memory, after a failed
// commit; the rows decide. The charge is limited to the account's remaining credits, and the
// rest is written off. It names the lease that pays it. If the node is dead, the reply fails.
//
// See docs/decisions/0012-every-charge-names-a-lease.md.
func (l *Ledger) chargeUncovered(e *entry) {
	a := e.h.a
	a.leasing.lock()
	defer a.leasing.unlock()
	ctx := context.Background()
	asked := e.receipt
	var c uncoveredCharge
	var at time.Time
	var err error
	for range attempts {
		err = l.st.WriteWait(ctx, func(tx *store.Tx) (err error) {
			at = tx.Now
			c, err = l.insertUncovered(ctx, tx, asked, e)
			return err
		})
		e.doubt = e.doubt || db.IsDoubtful(err)
		if !db.IsPassing(err) {
			break
		}
	}
	l.log.LogAttrs(ctx, slog.LevelWarn, "a charge exceeded its lease",
		slog.String("charge", asked.ID), slog.String("account", a.id), slog.Any("error", err))
	if err != nil && e.doubt {
		l.doubtful = append(l.doubtful, e)
		return
	}
	if e.err = err; e.doubt {
		l.doubtWindows(e)
	}
	if err == nil {
		e.receipt, e.inserted = c.receipt, c.inserted
		if c.inserted {
			a.mu.Lock()
			a.takeOver(c.lease)
			a.empty, a.emptyAt = false, 0
			a.mu.Unlock()
		}
	}
	l.complete(e, at)
}

// An uncoveredCharge is the result of the transaction of [Ledger.chargeUncovered].
type uncoveredCharge struct {
	receipt  store.Receipt
	inserted bool        // by this transaction; otherwise the charge was stored before
	lease    store.Lease // that paid it, in its previous state; zero if not inserted
}

// insertUncovered writes a charge that the node's open lease does not cover, from a separate
// lease. If the charge is already stored, it returns the stored one.
func (l *Ledger) insertUncovered(ctx context.Context, tx *store.Tx, asked store.Receipt, e *entry) (uncoveredCharge, error) {
	stored, found, err := tx.Books().ChargeByID(ctx, asked.ID)
	if err != nil {
		return uncoveredCharge{}, err
	}
	if found {
		if stored.AccountID != asked.AccountID {
			err = errForeignID(asked.ID)
		}
		return uncoveredCharge{receipt: stored}, err
	}
	if err := tx.Books().LockBudgetWindows(ctx, windowIDs(e)); err != nil {
		return uncoveredCharge{}, err
	}
	var lease store.Lease
	var alive bool
	if l.shared == nil {
		lease, alive, err = tx.Books().Lease(ctx, asked.AccountID, l.st.Node())
	} else {
		lease, _, err = tx.Books().LeaseMore(ctx, asked.AccountID, l.st.Node(), asked.Amount, 0)
		alive = true // otherwise the transaction would have failed
	}
	if err == nil && !alive {
		err = errTakenOver()
	}
	if err != nil {
		return uncoveredCharge{}, err
	}
	c := uncoveredCharge{receipt: asked, inserted: true, lease: lease}
	if left := lease.Left(); asked.Amount > left {
		clamp(&c.receipt.Charge, left)
	}
	c.receipt.LeaseID, c.receipt.NodeID = lease.ID, l.st.Node()
	inserted, err := tx.Books().InsertCharges(ctx, []store.Receipt{c.receipt})
	if err != nil {
		return uncoveredCharge{}, err
	}
	if !inserted[asked.ID] { // stored by another transaction since the read above
		return uncoveredCharge{}, db.ErrAgain
	}
	if _, err := tx.Books().SpendLease(ctx, lease.ID, c.receipt.Amount); err != nil {
		return uncoveredCharge{}, err
	}
	written := &entry{h: e.h, receipt: c.receipt, inserted: true}
	if err := l.spendWindows(ctx, tx, written); err != nil {
		return uncoveredCharge{}, err
	}
	return c, e.runClosures(tx)
}
