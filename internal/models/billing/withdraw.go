package billing

import (
	"context"
	"unicode/utf8"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Withdraw takes credits from an account: the available ones up to w.Amount, also those that other nodes
// have leased. With owe the account owes the rest, which later grants pay first; otherwise w.Amount is
// lowered to the available amount, and nothing is stored if that is 0. Held credits stay with their calls.
//
// The ExternalRef is required: if it was used before with the same account and amount (without
// owe, at least that of the account), Withdraw returns that withdrawal and created is false; with others
// it fails with CodeConflict. also runs in the transaction of a new withdrawal, and may run more than
// once; nil does nothing.
func (l *Ledger) Withdraw(ctx context.Context, w stoa.Withdrawal, owe bool, also func(ctx context.Context, tx *store.Tx, w stoa.Withdrawal) error) (out stoa.Withdrawal, created bool, err error) {
	if w.Amount <= 0 || w.Amount > MaxGrant {
		return w, false, stoa.Errorf(stoa.CodeInvalidValue, "A withdrawal must be between 1 micro-credit and %s credits.", MaxGrant).At("amountMicro")
	}
	if w.ExternalRef == "" || utf8.RuneCountInString(w.ExternalRef) > maxGrantRef {
		return w, false, stoa.Errorf(stoa.CodeInvalidValue, "A withdrawal needs a reference of at most %d characters.", maxGrantRef).At("externalRef")
	}
	if l.ended.Load() {
		return w, false, errStopping()
	}
	var earlier bool
	err = l.st.Read(ctx, func(tx *store.Tx) error {
		if out, earlier, err = tx.Books().Withdrawal(ctx, w.ExternalRef); err == nil && !earlier {
			_, err = tx.Books().Funds(ctx, w.AccountID)
		}
		return err
	})
	if err != nil || earlier {
		return same(w, out, owe, err)
	}
	h := &Hold{l: l, a: l.account(w.AccountID)}
	defer h.Release()
	err = l.take(ctx, h, need{least: w.Amount, most: w.Amount})
	if stoa.CodeOf(err) == stoa.CodeQuota {
		err = l.take(ctx, h, need{most: w.Amount})
	}
	if err != nil && stoa.CodeOf(err) != stoa.CodeQuota {
		return w, false, err
	}
	w.Taken = h.Amount()
	if !owe {
		if w.Amount = w.Taken; w.Amount == 0 {
			return w, false, nil
		}
	}
	if out, created, err = l.writeWithdrawal(ctx, h, w, also); err == nil && !created {
		return same(w, out, owe, nil)
	}
	return out, created, err
}

func same(w, earlier stoa.Withdrawal, owe bool, err error) (stoa.Withdrawal, bool, error) {
	if err == nil && (earlier.AccountID != w.AccountID || owe && earlier.Amount != w.Amount) {
		err = stoa.Errorf(stoa.CodeConflict, "The external reference %q belongs to another withdrawal.", w.ExternalRef).At("externalRef")
	}
	return earlier, false, err
}

// writeWithdrawal stores a withdrawal of the credits of a hold, and takes them from the lease.
func (l *Ledger) writeWithdrawal(ctx context.Context, h *Hold, w stoa.Withdrawal, also func(context.Context, *store.Tx, stoa.Withdrawal) error) (out stoa.Withdrawal, created bool, err error) {
	a := h.a
	if err := a.leasing.lockWithin(ctx); err != nil {
		return w, false, err
	}
	defer a.leasing.unlock()
	a.mu.Lock()
	lease := a.lease
	a.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	err = l.st.Write(ctx, func(tx *store.Tx) error {
		var covered bool
		var err error
		if out, created, covered, err = tx.Books().Withdraw(ctx, w, lease); err != nil {
			return err
		}
		if !covered {
			return errTakenOver()
		}
		if created && also != nil {
			return also(ctx, tx, out)
		}
		return nil
	})
	if err != nil {
		if db.IsDoubtful(err) {
			l.rereadAmount(a)
		}
		return w, false, err
	}
	if created && w.Taken > 0 {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.amount -= w.Taken
		h.end(holdReleased)
	}
	return out, created, nil
}
