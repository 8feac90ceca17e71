package billing

import (
	"context"
	"time"

	"stoa/internal/base/stoa"
)

// Sweep runs the sweep that a ledger with peers runs each second.
func (l *Ledger) Sweep(ctx context.Context) error { return l.sweep(ctx) }

// SetTimeout sets the maximum wait of a call for the answers of other nodes.
func (l *Ledger) SetTimeout(d time.Duration) { l.shared.timeout = d }

// SetNow sets the clock for the growth of leases and the expiry of refusals.
func (l *Ledger) SetNow(now func() time.Time) { l.shared.now = now }

// Leased returns the unspent amount of the node's lease of an account.
func (l *Ledger) Leased(account string) stoa.Credits {
	a := l.account(account)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.amount - a.spent
}

// PollBudgets is the maximum age of what a node knows about new budgets.
const PollBudgets = pollBudgets

// SetClock sets the clock for the windows of budgets.
func (l *Ledger) SetClock(now func() time.Time) { l.now = now }

// ForgetBudgets makes the next call read the budgets of its account again, as if it had been
// time to poll.
func (l *Ledger) ForgetBudgets() { l.polled.Store(-int64(time.Hour)) }

// SetLiveWindows sets the number of windows of an account.
func (l *Ledger) SetLiveWindows(account string, n int) {
	a := l.account(account)
	a.loading.lock()
	defer a.loading.unlock()
	a.live, a.counted = n, time.Now()
}

// Period is [period].
var Period = period
