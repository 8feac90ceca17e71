package billing

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// unpaidFor is the time for which the cost of a call that failed free of charge counts.
const unpaidFor = time.Hour

// Unpaid costs are those of requests that failed free of charge after their provider had
// received them, since it may bill their input, or after their files had been read. That amount
// of an account's credits is not available to other calls, so that within an hour the account
// cannot cause more of them than it has credits. The sums are per node, in memory.
type unpaid []unpaidPart

// An unpaidPart is the unpaid cost of about a minute.
type unpaidPart struct {
	since  time.Time
	amount stoa.Credits
}

func (u *unpaid) add(amount stoa.Credits, now time.Time) {
	if n := len(*u); n > 0 && now.Sub((*u)[n-1].since) < time.Minute {
		(*u)[n-1].amount += amount
		return
	}
	*u = append(*u, unpaidPart{now, amount})
}

// sum returns the amount of the last hour. A part counts for an hour after its end.
func (u *unpaid) sum(now time.Time) (sum stoa.Credits) {
	if len(*u) == 0 {
		return 0
	}
	*u = slices.DeleteFunc(*u, func(p unpaidPart) bool { return now.Sub(p.since) >= unpaidFor+time.Minute })
	for _, p := range *u {
		sum += p.amount
	}
	return sum
}

// free returns the amount available for new calls. It is negative while a lease has been lost
// and its holds are still open, or if more is unpaid than the account has. The caller must
// hold mu.
func (a *account) free() stoa.Credits { return a.left() - a.unpaid.sum(time.Now()) }

// RecordFailure stores a request that failed free of charge and whose provider may bill it, for the usage
// by provider. It does not wait for the store, because the caller of the failed call waits.
func (l *Ledger) RecordFailure(f stoa.VendorFailure) {
	l.qmu.Lock()
	defer l.qmu.Unlock()
	l.failures = append(l.failures, f)
	if len(l.failures) == 1 {
		l.recording.Go(l.writeFailures)
	}
}

func (l *Ledger) writeFailures() {
	var list []stoa.VendorFailure
	ctx := context.Background()
	err := l.st.WriteWait(ctx, func(tx *store.Tx) error {
		l.qmu.Lock() // as late as possible, so that other failures join
		list, l.failures = append(list, l.failures...), nil
		l.qmu.Unlock()
		for _, f := range list {
			if err := tx.Books().InsertVendorFailure(ctx, f); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		return
	}
	if list == nil { // the transaction did not begin
		l.qmu.Lock()
		list, l.failures = l.failures, nil
		l.qmu.Unlock()
	}
	for _, f := range list {
		l.log.LogAttrs(ctx, slog.LevelWarn, "a failed request was not recorded", slog.String("account", f.AccountID), slog.String("provider", f.Provider), slog.String("model", f.Model),
			slog.Int64("inputTokens", f.InputTokens), slog.Int64("outputTokens", f.OutputTokens), slog.Any("error", err))
	}
}

// Unpaid counts the cost of a request of the call that failed free of charge after its
// provider had received it, or its files had been read. The hold may have ended. It reports whether the credits also cover another request that
// costs at most next.
func (h *Hold) Unpaid(cost, next stoa.Credits) bool {
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	h.a.unpaid.add(cost, time.Now())
	return h.a.free()+h.amount >= next
}
