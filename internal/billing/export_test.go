package billing

import (
	"context"
	"time"

	"stoa/internal/stoa"
)

// Sweep is what a ledger with peers does each second.
func (l *Ledger) Sweep(ctx context.Context) error { return l.sweep(ctx) }

// SetTimeout sets how long a call waits for the answers of other nodes.
func (l *Ledger) SetTimeout(d time.Duration) { l.shared.timeout = d }

// SetNow sets the clock by which leases grow and refusals are remembered.
func (l *Ledger) SetNow(now func() time.Time) { l.shared.now = now }

// Leased returns what the node's lease of an account has, less what it has spent.
func (l *Ledger) Leased(account string) stoa.Credits {
	a := l.account(account)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.amount - a.spent
}
