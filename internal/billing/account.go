package billing

import (
	"context"
	"sync"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// recheck is how long "there is nothing more to lease" is believed when no
// grant went through this process. Nobody else writes to the store, so this is
// only against a hand in the database.
const recheck = time.Second

// account is what the node knows of an account, in memory.
type account struct {
	id string

	// leasing is held while the account's lease is changed in the store other
	// than by spending from it. It is taken before a transaction is asked for,
	// never inside one, and before mu.
	leasing sync.Mutex

	mu     sync.Mutex
	lease  string       // id of the open lease; empty: none yet
	amount stoa.Credits // of the lease
	spent  stoa.Credits // of the lease, committed
	held   stoa.Credits // by open holds, those being settled included

	// The balance was found empty when the store had seen emptyAt grants.
	empty      bool
	emptyAt    int64
	emptyUntil time.Time

	keys      map[string]*keyDay      // what this node charged, per key
	before    map[string]stoa.Credits // what earlier nodes charged on beforeDay, per key
	beforeDay int64                   // days since 1970; 0: nothing was read
}

// keyDay is what a key did today.
type keyDay struct {
	day   int64        // days since 1970, in UTC
	spent stoa.Credits // on that day, by this node
	held  stoa.Credits // now
}

func dayOf(t time.Time) int64 { return t.Unix() / 86_400 }

func (l *Ledger) account(id string) *account {
	if a, ok := l.accounts.Load(id); ok {
		return a.(*account)
	}
	a, _ := l.accounts.LoadOrStore(id, &account{id: id})
	return a.(*account)
}

func (a *account) heldNow() stoa.Credits {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

// free is what may be held. It is below zero while a lease has been lost and
// its holds are still open. The caller has mu.
func (a *account) free() stoa.Credits { return a.amount - a.spent - a.held }

// exhausted tells that the store has nothing more to lease. The caller has mu.
func (a *account) exhausted(grants int64) bool {
	return a.lease != "" && a.empty && a.emptyAt == grants && time.Now().Before(a.emptyUntil)
}

// key is today's book of a key. The caller has mu.
func (a *account) key(id string, day int64) *keyDay {
	k := a.keys[id]
	if k == nil {
		if a.keys == nil {
			a.keys = map[string]*keyDay{}
		}
		k = &keyDay{day: day}
		a.keys[id] = k
	}
	if day > k.day {
		k.day, k.spent = day, 0
	}
	return k
}

// extend leases what the account's balance has. When several callers need it
// at once, one asks and the others see its result.
func (l *Ledger) extend(ctx context.Context, a *account) error {
	a.leasing.Lock()
	defer a.leasing.Unlock()
	grants := l.st.Grants()
	a.mu.Lock()
	done := a.exhausted(grants)
	a.mu.Unlock()
	if done {
		return nil
	}
	var lease store.Lease
	alive := false
	err := l.st.Write(ctx, func(tx *store.Tx) (err error) {
		lease, alive, err = tx.Lease(ctx, a.id, l.st.Node())
		return err
	})
	if err != nil {
		if stoa.CodeOf(err) == stoa.CodeNotFound {
			l.accounts.CompareAndDelete(a.id, a)
		}
		return err
	}
	if !alive {
		return errTakenOver()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.adopt(lease)
	a.empty, a.emptyAt, a.emptyUntil = true, grants, time.Now().Add(recheck)
	return nil
}

// adopt takes over what the store says of the lease. Of a lease that is known
// already only the amount is news: what has been spent is counted by the
// settler as it commits. The caller has mu and leasing.
func (a *account) adopt(lease store.Lease) {
	if a.lease != lease.ID {
		a.lease, a.spent = lease.ID, lease.Spent
	}
	a.amount = lease.Amount
}

func errTakenOver() error {
	return stoa.Errorf(stoa.CodeOverloaded, "The service is restarting. Try again.").After(time.Second)
}
