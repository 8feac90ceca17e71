package billing

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/base/cluster"
	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// With several nodes on one store, each leases a part of an account's balance. A lease is
// extended by the amount that a call needs, or by a chunk that grows with the account's rate
// so that it lasts about a second, but by no more than a third of the balance. The unused
// lease of an idle account is returned. Before a call is refused, the other nodes are asked
// to return the credits that no hold covers. See give.go for the other side and
// docs/decisions/0041-lease-parts-of-a-balance-to-each-node.md.

const (
	// askFor is the maximum wait of a call for the answers of other nodes.
	askFor = 150 * time.Millisecond
	// gatherTime is the total time that a call may wait for credits, because the database may
	// not answer, and earlier calls may wait for it too.
	gatherTime = 2 * time.Second
	// askPoll is the interval for polling their answers, since a hint may be lost.
	askPoll = 30 * time.Millisecond
	// recheckShared is shorter than recheck, because other nodes may return credits or commit
	// grants.
	recheckShared = 200 * time.Millisecond
	// The next extension of a lease that lasts less than shortLease is twice as large; of one
	// that lasts longer than longLease, half as large.
	shortLease = time.Second
	longLease  = 4 * time.Second
	// scarce is the time during which an account requested by another node leases nothing ahead.
	scarce = time.Second
	// wishTime is the time that a call waits for a lease that only its wish needs; if the database needs longer, no
	// call of the account waits so in the next wishPause.
	wishTime  = 100 * time.Millisecond
	wishPause = 10 * time.Second
)

// sharing is the state of a ledger that shares its store with ledgers of other nodes.
type sharing struct {
	timeout time.Duration // askFor
	now     func() time.Time
	asked   chan string // accounts that other nodes have requested

	mu     sync.Mutex            // locked before account.mu
	leased map[*account]struct{} // accounts whose lease may have unspent credits

	reservations reservations // of credits of budgets

	held atomic.Pointer[map[string]stoa.Credits] // by calls of other nodes, by account
}

// shared is the part of an account's state that only several nodes need. It is guarded by
// account.mu.
type shared struct {
	chunk       stoa.Credits // amount leased ahead at the next extension
	rest        stoa.Credits // what no node had leased after the last extension
	noWishUntil time.Time    // no call waits for its wish until then
	extended    time.Time    // when the lease was extended last
	scarceUntil time.Time    // nothing is leased ahead until then

	refuseUntil time.Time     // until then, calls that the lease does not cover are refused
	unanswered  bool          // reason of the refusal: a node that has credits does not answer
	asking      chan struct{} // closed when the current request is answered; nil if none exists
	answered    bool          // the result of the latest request
	changed     chan struct{} // closed when another node returned credits
	wanted      bool          // another node requested more than could be returned

	calls, seen uint32 // calls so far, and at the last sweep
	idle        int    // sweeps without a call
}

func (l *Ledger) share() {
	l.shared = &sharing{
		timeout: askFor, now: time.Now, asked: make(chan string, 1024),
		leased: map[*account]struct{}{}, reservations: reservations{wake: make(chan struct{}, 1)},
	}
	l.st.OnHint(cluster.HintAsked, func(id string) {
		select {
		case l.shared.asked <- id:
		default: // dropped, because the next sweep reads it
		}
	})
	l.st.OnHint(cluster.HintReturned, l.returned)
}

func (l *Ledger) returned(id string) {
	v, ok := l.accounts.Load(id)
	if !ok {
		return
	}
	a := v.(*account)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.emptyUntil, a.shared.refuseUntil = time.Time{}, time.Time{}
	if a.shared.changed != nil {
		close(a.shared.changed)
		a.shared.changed = nil
	}
}

// A verdict is the result of an attempt to reserve credits.
type verdict uint8

const (
	tooFew  verdict = iota // the lease has to be extended
	taken                  // the credits are reserved
	refused                // the credits cannot be reserved
)

// gather extends an account's lease until try no longer returns tooFew, and asks the other
// nodes before that leads to a refusal. try is called with mu held; with tooFew it returns
// the credits that it needs. wish is leased ahead, if the balance is at least three times as much.
func (l *Ledger) gather(ctx context.Context, a *account, wish stoa.Credits, try func() (verdict, stoa.Credits)) (v verdict, err error) {
	ctx, cancel := context.WithTimeout(store.Promptly(ctx), gatherTime)
	defer cancel()
	defer func() {
		if _, known := errors.AsType[*stoa.Error](err); !known {
			err = noAnswer(err) // the pool had no free connection within gatherTime
		}
	}()
	v, err = l.extendShared(ctx, a, wish, try)
	if err != nil || v != tooFew {
		return v, err
	}
	answered, err := l.ask(ctx, a)
	if err != nil {
		return v, err
	}
	if v, err = l.extendShared(ctx, a, 0, try); err != nil || v != tooFew {
		return v, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shared.refuseUntil, a.shared.unanswered = l.shared.now().Add(recheckShared), !answered
	v, _ = try()
	return v, nil
}

// leaseWish leases what the account has plenty of and a call wishes.
func (l *Ledger) leaseWish(ctx context.Context, a *account, n need) {
	if l.shared == nil || n.wish == 0 {
		return
	}
	now := l.shared.now()
	a.mu.Lock()
	free := a.free()
	leased := free >= n.wished() || free < n.most || !n.plenty(free+a.shared.rest) || now.Before(a.shared.noWishUntil) || now.Before(a.shared.scarceUntil)
	a.mu.Unlock()
	if leased { // or not to be leased, or only with the need
		return
	}
	ctx, cancel := context.WithTimeout(store.Promptly(ctx), wishTime)
	defer cancel()
	if _, err := l.extendShared(ctx, a, 0, func() (verdict, stoa.Credits) {
		if a.free() >= n.wished() {
			return taken, 0
		}
		return tooFew, n.wished()
	}); err != nil {
		a.mu.Lock()
		a.shared.noWishUntil = now.Add(wishPause)
		a.mu.Unlock()
	}
}

// extendShared leases the amount that try needs, and some more, at least ahead, and calls try. The leased
// amount cannot be returned to another node in between.
func (l *Ledger) extendShared(ctx context.Context, a *account, ahead stoa.Credits, try func() (verdict, stoa.Credits)) (verdict, error) {
	if err := a.leasing.lockWithin(ctx); err != nil {
		return tooFew, err
	}
	defer a.leasing.unlock()
	for {
		grants := l.st.Grants()
		a.mu.Lock()
		v, want := try()
		need := want - a.free()
		chunk := a.nextChunk(l.shared.now(), want)
		if chunk == 0 { // it is scarce
			ahead = 0
		}
		a.mu.Unlock()
		if v != tooFew {
			return v, nil
		}
		var lease store.Lease
		var left stoa.Credits
		err := l.st.Write(ctx, func(tx *store.Tx) (err error) {
			lease, left, err = tx.Books().LeaseMore(ctx, a.id, l.st.Node(), need, max(chunk, need+ahead))
			return err
		})
		if db.IsUnique(err) { // a first lease whose commit was in doubt exists now
			continue
		}
		if err != nil {
			if stoa.CodeOf(err) == stoa.CodeNotFound {
				l.accounts.CompareAndDelete(a.id, a)
			}
			return v, err
		}
		l.shared.mu.Lock()
		l.shared.leased[a] = struct{}{}
		l.shared.mu.Unlock()
		a.mu.Lock()
		a.adopt(lease)
		a.shared.extended, a.shared.chunk, a.shared.rest = l.shared.now(), chunk, left
		a.empty, a.emptyAt, a.emptyUntil = left == 0, grants, l.shared.now().Add(recheckShared)
		v, _ = try()
		a.mu.Unlock()
		if v != tooFew || left == 0 {
			return v, nil
		}
	}
}

// nextChunk returns the amount to lease ahead. The caller must hold mu.
func (a *account) nextChunk(now time.Time, want stoa.Credits) stoa.Credits {
	s := &a.shared
	if now.Before(s.scarceUntil) {
		return 0
	}
	switch lasted := now.Sub(s.extended); {
	case lasted < shortLease:
		return min(2*max(s.chunk, want), maxGranted)
	case lasted > longLease:
		return max(s.chunk/2, want)
	}
	return max(s.chunk, want)
}

// ask asks the other nodes to return the spare credits of an account, and reports whether all
// that have some have answered. Concurrent calls share one request.
func (l *Ledger) ask(ctx context.Context, a *account) (answered bool, err error) {
	a.mu.Lock()
	if asking := a.shared.asking; asking != nil {
		a.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.shared.answered, nil
	}
	done := make(chan struct{})
	a.shared.asking = done
	a.mu.Unlock()
	answered, err = l.askOthers(context.WithoutCancel(ctx), a) // because other calls wait for it too
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shared.answered, a.shared.asking = answered, nil
	close(done)
	return answered, err
}

func (l *Ledger) askOthers(ctx context.Context, a *account) (answered bool, err error) {
	changed := a.changed()
	var asked int
	err = l.st.Write(ctx, func(tx *store.Tx) (err error) {
		asked, err = tx.Books().AskLeases(ctx, a.id, l.st.Node())
		return err
	})
	if err != nil || asked == 0 {
		return true, err
	}
	l.st.Hint(cluster.HintAsked, a.id, "")
	end := time.NewTimer(l.shared.timeout)
	defer end.Stop()
	poll := time.NewTicker(askPoll)
	defer poll.Stop()
	for over := false; ; {
		select {
		case <-changed:
			changed = a.changed()
		case <-poll.C:
		case <-end.C:
			over = true
		}
		unanswered := false
		err := l.st.Read(ctx, func(tx *store.Tx) (err error) {
			unanswered, err = tx.Books().Unanswered(ctx, a.id, l.st.Node())
			return err
		})
		if err != nil || !unanswered || over {
			return !unanswered, err
		}
	}
}

// changed returns a channel that is closed when another node returns credits.
func (a *account) changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shared.changed == nil {
		a.shared.changed = make(chan struct{})
	}
	return a.shared.changed
}

// errElsewhere returns the refusal while it is unknown whether another node could return
// credits.
func errElsewhere() error {
	return stoa.Errorf(stoa.CodeOverloaded, "Credits of this account are reserved by another process of this service, which has not answered yet. Try again.").After(time.Second)
}
