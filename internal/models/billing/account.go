package billing

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// recheck is the time for which "nothing more to lease" stays valid if this process has committed
// no grant. It only covers edits made directly in the database, because on a single node no other
// process writes to the store.
const recheck = time.Second

type account struct {
	id string

	// leasing is held while the account's lease in the store changes other than by spending
	// from it. It must be locked before a transaction begins, never inside one, and before mu.
	leasing turn

	mu     sync.Mutex
	lease  string       // id of the open lease; empty before the first
	amount stoa.Credits // of the lease
	spent  stoa.Credits // of the lease, committed
	held   stoa.Credits // by open holds, including those being settled
	unpaid unpaid

	// The balance was empty after emptyAt grants had been committed.
	empty      bool
	emptyAt    int64
	emptyUntil time.Time

	windows map[windowKey]*window      // of budgets
	budgets atomic.Pointer[budgetList] // nil before the first call
	// loading is held while budgets or windows are read. It guards live, the number of windows that had not
	// ended at the time counted, plus those that were created since.
	loading turn
	live    int
	counted time.Time

	shared shared // used if there are several nodes
}

// A turn is a lock whose wait ends with a context. It must be made with capacity 1.
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

// lockWithin is lock, but fails when ctx ends: with CodeOverloaded after its deadline.
func (t turn) lockWithin(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
	}
	return noAnswer(ctx.Err())
}

// noAnswer returns the error of a wait for the database that ended with err: CodeOverloaded after its deadline.
func noAnswer(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return stoa.Errorf(stoa.CodeOverloaded, "The service's database does not answer at the moment. Try again.").After(time.Second).Because(err)
	}
	return err
}

func (l *Ledger) account(id string) *account {
	if a, ok := l.accounts.Load(id); ok {
		return a.(*account)
	}
	a, _ := l.accounts.LoadOrStore(id, &account{id: id, leasing: make(turn, 1), loading: make(turn, 1)})
	return a.(*account)
}

func (a *account) heldNow() stoa.Credits {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

// left returns the part of the lease that is neither spent nor held. It is negative while a
// lease has been lost and its holds are still open. The caller must hold mu.
func (a *account) left() stoa.Credits { return a.amount - a.spent - a.held }

// exhausted reports whether the store has nothing more to lease for a call that needs at
// least least. The caller must hold mu.
func (l *Ledger) exhausted(a *account, least stoa.Credits) bool {
	if l.shared != nil {
		// An empty balance is not enough: if less is free than the call needs, the other nodes must have been asked,
		// because they may return credits.
		if a.lease == "" || !a.empty || a.emptyAt != l.st.Grants() {
			return false
		}
		until := a.emptyUntil
		if free := a.free(); free < least || free <= 0 {
			until = a.shared.refuseUntil
		}
		return l.shared.now().Before(until)
	}
	return a.lease != "" && a.empty && a.emptyAt == l.st.Grants() && time.Now().Before(a.emptyUntil)
}

// extend leases the account's whole balance. If several goroutines need it at the same time,
// one runs the transaction and the others use its result.
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
		lease, alive, err = tx.Books().Lease(ctx, a.id, l.st.Node())
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

// adopt sets the lease to its row, except for the spent amount of a known lease, because Run
// counts spending as it commits. The caller must hold mu and leasing.
func (a *account) adopt(lease store.Lease) {
	if a.lease != lease.ID {
		a.lease, a.spent = lease.ID, lease.Spent
	}
	a.amount = lease.Amount
}

func errTakenOver() error {
	return stoa.Errorf(stoa.CodeOverloaded, "The service is restarting. Try again.").After(time.Second)
}
