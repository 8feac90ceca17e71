package billing

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// recheck is how long the result "nothing more to lease" is used when this process
// has committed no grant. Where this is the only node no other process writes to
// the store, so it only guards against edits made directly in the database.
const recheck = time.Second

// account is the in-memory state of an account.
type account struct {
	id string

	// leasing is held while the account's lease is changed in the store other
	// than by spending from it. It is locked before a transaction is begun,
	// never inside one, and before mu.
	leasing turn

	mu     sync.Mutex
	lease  string       // id of the open lease; empty: none yet
	amount stoa.Credits // of the lease
	spent  stoa.Credits // of the lease, committed
	held   stoa.Credits // by open holds, those being settled included

	// The balance was empty when the store had committed emptyAt grants.
	empty      bool
	emptyAt    int64
	emptyUntil time.Time

	keys      map[string]*keyDay   // what this node charged, by key id
	before    map[string][]peerDay // what other nodes had charged on beforeDay when it was read, by book
	beforeDay int64                // days since 1970; 0: nothing was read

	shared shared // used where there are several nodes
}

// keyDay is what a key has spent and holds on one day.
type keyDay struct {
	day   int64        // days since 1970, in UTC
	spent stoa.Credits // on that day, by this node
	held  stoa.Credits // by open holds
	limit stoa.Credits // at the last hold; 0: none
}

// A turn is a lock that can be waited for until a context ends. It is made with one
// place.
type turn chan struct{}

func (t turn) lock()   { t <- struct{}{} }
func (t turn) unlock() { <-t }

func (t turn) tryLock() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// lockWithin is lock that fails when ctx ends: CodeOverloaded where its time is over.
func (t turn) lockWithin(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return stoa.Errorf(stoa.CodeOverloaded, "The service's database does not answer at the moment. Try again.").After(time.Second).Because(ctx.Err())
	}
	return ctx.Err()
}

func dayOf(t time.Time) int64 { return t.Unix() / 86_400 }

func (l *Ledger) account(id string) *account {
	if a, ok := l.accounts.Load(id); ok {
		return a.(*account)
	}
	a, _ := l.accounts.LoadOrStore(id, &account{id: id, leasing: make(turn, 1)})
	return a.(*account)
}

func (a *account) heldNow() stoa.Credits {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

// free returns what may be held. It is negative while a lease has been lost and
// its holds are still open. The caller holds mu.
func (a *account) free() stoa.Credits { return a.amount - a.spent - a.held }

// exhausted reports whether the store has nothing more to lease for a call that
// needs at least so much. The caller holds mu.
func (l *Ledger) exhausted(a *account, least stoa.Credits) bool {
	if l.shared != nil {
		return l.usedUp(a, least)
	}
	grants := l.st.Grants()
	return a.lease != "" && a.empty && a.emptyAt == grants && time.Now().Before(a.emptyUntil)
}

// key returns the sums of a key on that day. The caller holds mu.
func (a *account) key(id string, day int64) *keyDay {
	k := a.keys[id]
	if k == nil {
		if a.keys == nil {
			a.keys = map[string]*keyDay{}
		}
		// Keys come and go while the process lives. Yesterday's stay, since the clock
		// may go back.
		maps.DeleteFunc(a.keys, func(_ string, old *keyDay) bool { return old.held == 0 && old.day < day-1 })
		k = &keyDay{day: day}
		a.keys[id] = k
	}
	if day > k.day {
		k.day, k.spent = day, 0
	}
	return k
}

// extend leases the account's whole balance. When several goroutines need it at
// once, one runs the transaction and the others use its result.
func (l *Ledger) extend(ctx context.Context, a *account) error {
	if err := a.leasing.lockWithin(ctx); err != nil {
		return err
	}
	defer a.leasing.unlock()
	grants := l.st.Grants()
	a.mu.Lock()
	done := l.exhausted(a, 0)
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

// adopt sets the lease to its row. Of a lease that is known already only the
// amount is used: what is spent is counted by Run as it commits. The caller holds
// mu and leasing.
func (a *account) adopt(lease store.Lease) {
	if a.lease != lease.ID {
		a.lease, a.spent = lease.ID, lease.Spent
	}
	a.amount = lease.Amount
}

func errTakenOver() error {
	return stoa.Errorf(stoa.CodeOverloaded, "The service is restarting. Try again.").After(time.Second)
}
