package billing

import (
	"time"

	"stoa/internal/base/ratelimit"
	"stoa/internal/base/stoa"
)

// Holds publishes to other nodes the amounts that calls of this one hold, by account, and
// adds theirs to [Ledger.Balance]. It decides nothing, because leases determine whether a call
// is refused.
type Holds struct{ l *Ledger }

// Holds returns the holds of a ledger.
func (l *Ledger) Holds() Holds { return Holds{l} }

// Counts returns the holds of at most most accounts, the largest ones.
func (h Holds) Counts(_ time.Time, most int) []ratelimit.Count {
	if h.l.shared == nil {
		return nil
	}
	var list []ratelimit.Count
	h.l.shared.mu.Lock()
	defer h.l.shared.mu.Unlock()
	for a := range h.l.shared.leased { // includes all accounts with a hold
		if held := a.heldNow(); held > 0 {
			list = append(list, ratelimit.Count{Name: a.id, Count: int64(held), Limit: int64(maxGranted)})
		}
	}
	return ratelimit.Nearest(list, most)
}

// SetPeers sets the amounts that calls of other nodes hold, by node and account.
func (h Holds) SetPeers(byNode map[string]map[string]int64) {
	if h.l.shared == nil {
		return
	}
	held := map[string]stoa.Credits{}
	for _, accounts := range byNode {
		for id, n := range accounts {
			held[id] += stoa.Credits(min(max(n, 0), int64(maxGranted)))
		}
	}
	h.l.shared.held.Store(&held)
}
