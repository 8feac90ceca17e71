package billing

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"stoa/internal/base/cluster"
	"stoa/internal/base/store"
)

const (
	// sweepEvery is the interval at which a node looks for leases to return: idle ones, and
	// requested ones, because their hint may have been lost.
	sweepEvery   = time.Second
	idleSweeps   = 10 // sweeps without a call after which the lease of an account is returned
	giveTogether = 64 // leases returned in one transaction
)

// runShared returns credits to the other nodes until ctx ends.
func (l *Ledger) runShared(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case id := <-l.shared.asked:
			err = l.answer(ctx, id)
		case <-tick.C:
			err = errors.Join(l.pollBudgets(ctx), l.sweep(ctx))
		case <-ctx.Done():
			return
		}
		if err != nil && ctx.Err() == nil {
			l.log.LogAttrs(ctx, slog.LevelWarn, "leases could not be returned", slog.Any("error", err))
		}
	}
}

// sweep answers the requests of other nodes and returns the leases of accounts that have not
// been called for idleSweeps.
func (l *Ledger) sweep(ctx context.Context) error {
	var asked []string
	if err := l.st.Read(ctx, func(tx *store.Tx) (err error) {
		asked, err = tx.Books().Asked(ctx, l.st.Node())
		return err
	}); err != nil {
		return err
	}
	for _, id := range asked {
		if err := l.answer(ctx, id); err != nil {
			return err
		}
	}
	idle := l.idle()
	for len(idle) > 0 {
		n := min(len(idle), giveTogether)
		var locked []*account
		for _, a := range idle[:n] {
			if a.leasing.tryLock() { // otherwise it is being extended
				locked = append(locked, a)
			}
		}
		err := l.giveBack(ctx, locked)
		for _, a := range locked {
			a.leasing.unlock()
		}
		if err != nil {
			return err
		}
		idle = idle[n:]
	}
	return nil
}

// idle counts a sweep for every account with a leased amount and returns those that were idle
// long enough.
func (l *Ledger) idle() (list []*account) {
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	for a := range l.shared.leased {
		a.mu.Lock()
		s := &a.shared
		if s.calls != s.seen {
			s.seen, s.idle = s.calls, 0
		} else if s.idle++; s.idle >= idleSweeps {
			list = append(list, a)
		}
		a.mu.Unlock()
	}
	return list
}

// answer returns the spare credits of an account that another node requested.
func (l *Ledger) answer(ctx context.Context, id string) error {
	a := l.account(id)
	a.leasing.lock()
	defer a.leasing.unlock()
	a.mu.Lock()
	a.shared.chunk, a.shared.scarceUntil = 0, l.shared.now().Add(scarce)
	a.shared.wanted = true
	known := a.lease != ""
	a.mu.Unlock()
	if !known { // the commit of its lease failed
		l.readLease(a, a.takeOver)
	}
	if err := l.giveBack(ctx, []*account{a}); err != nil {
		return err
	}
	l.st.Hint(cluster.HintReturned, id, "")
	return nil
}

// giveBack returns the amounts that no hold covers. The caller must hold leasing of each
// account.
func (l *Ledger) giveBack(ctx context.Context, accounts []*account) error {
	list := make([]store.Return, 0, len(accounts))
	of := map[string]*account{}
	for _, a := range accounts {
		a.mu.Lock()
		free := max(a.free(), 0)
		if a.lease != "" {
			a.amount -= free // so that no hold can reserve it from here on
			list = append(list, store.Return{LeaseID: a.lease, AccountID: a.id, Amount: free})
			of[a.lease] = a
		}
		a.mu.Unlock()
	}
	if len(list) == 0 {
		return nil
	}
	err := l.st.Write(store.Promptly(ctx), func(tx *store.Tx) error { return tx.Books().ReturnCredits(ctx, list) })
	for _, r := range list {
		a := of[r.LeaseID]
		if err != nil || !r.Done {
			l.rereadAmount(a)
			continue
		}
		l.shared.mu.Lock()
		a.mu.Lock()
		if a.shared.idle = 0; a.free() <= 0 && a.held == 0 {
			delete(l.shared.leased, a)
		}
		a.empty = false
		a.mu.Unlock()
		l.shared.mu.Unlock()
	}
	return err
}

// rereadAmount sets the amount of a lease to its row, which only the holder of leasing
// changes. If that fails nothing can be held from it until the lease is extended.
func (l *Ledger) rereadAmount(a *account) {
	l.readLease(a, func(lease store.Lease) {
		if lease.ID == a.lease {
			a.amount = lease.Amount
		}
	})
}

// freed notifies the other nodes that credits are free that one of them requested while they
// were held. The caller must hold mu.
func (l *Ledger) freed(a *account) {
	if a.shared.wanted && a.free() > 0 {
		a.shared.wanted = false
		l.st.Hint(cluster.HintReturned, a.id, "")
	}
}
