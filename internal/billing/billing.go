// Package billing keeps the books: credits are set aside before a call (a hold,
// in memory), and a call is charged when it ends (settled, committed before the
// caller is told). It is the only writer of the ledger.
//
// It never computes a price and knows no model and no HTTP. A charge is durable
// before it is acknowledged. Start with [Ledger.Hold] and [Hold.Settle];
// settle.go has the one goroutine that takes charges in groups, commit.go writes
// them, verify.go proves the books from their rows.
//
// How it works: the node leases the whole balance of an account from the store
// and takes holds from that lease without touching the database. What is
// available is the lease's amount, less what it has spent, less the open holds.
// A crash loses the holds and nothing else: leases are closed when the store is
// opened again. See docs/decisions/0013-rows-decide-memory-is-a-cache.md.
package billing

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// MaxGrant is the largest single grant: a billion credits.
const MaxGrant = 1_000_000_000 * stoa.Credit

// maxGranted keeps an account's sums far away from the end of an int64.
const maxGranted = 1000 * MaxGrant

// Config has the ledger's settings. The zero value works.
type Config struct {
	// Linger is how long a commit may wait for more charges to join it when many
	// calls end at once; alone, a charge never waits. 0: 1 ms; negative: never.
	Linger time.Duration
	Logger *slog.Logger // nil: none
}

// Ledger is the books of one store; there must be one per open store. It is
// safe for use by many goroutines.
type Ledger struct {
	st     *store.Store
	log    *slog.Logger
	linger time.Duration

	accounts sync.Map  // account id → *account
	entries  sync.Pool // of *entry
	started  atomic.Bool
	ended    atomic.Bool
	done     chan struct{} // closed with ended

	qmu     sync.Mutex
	queue   []*entry
	stopped bool
	wake    chan struct{}
}

// New makes a ledger over an open store. Nothing is charged before [Ledger.Run]
// runs: until then, Settle waits.
func New(st *store.Store, cfg Config) *Ledger {
	l := &Ledger{st: st, log: cfg.Logger, linger: cfg.Linger, wake: make(chan struct{}, 1), done: make(chan struct{})}
	l.entries.New = func() any { return &entry{done: make(chan struct{}, 1)} }
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if l.linger == 0 {
		l.linger = time.Millisecond
	}
	return l
}

// Done returns a channel that is closed when the ledger has stopped: no hold can be
// settled any more.
func (l *Ledger) Done() <-chan struct{} { return l.done }

// Grant adds credits to an account. With an ExternalRef that was used before it
// returns the first grant and created is false, if account and amount are the
// same; otherwise CodeConflict.
func (l *Ledger) Grant(ctx context.Context, g stoa.Grant) (_ stoa.Grant, created bool, err error) {
	var out stoa.Grant
	err = l.st.Write(ctx, func(tx *store.Tx) (err error) {
		out, created, err = l.GrantIn(ctx, tx, g)
		return err
	})
	return out, created, err
}

// GrantIn is [Ledger.Grant] as part of a transaction.
func (l *Ledger) GrantIn(ctx context.Context, tx *store.Tx, g stoa.Grant) (_ stoa.Grant, created bool, err error) {
	if g.Amount <= 0 || g.Amount > MaxGrant {
		return g, false, stoa.Errorf(stoa.CodeInvalidValue, "A grant is between 1 micro-credit and %s credits.", MaxGrant).At("amountMicro")
	}
	out, created, err := tx.InsertGrant(ctx, g)
	if err != nil {
		return out, false, err
	}
	if !created {
		if out.AccountID != g.AccountID || out.Amount != g.Amount {
			return out, false, stoa.Errorf(stoa.CodeConflict, "The external reference %q belongs to another grant.", g.ExternalRef).At("externalRef")
		}
		return out, false, nil
	}
	f, err := tx.Funds(ctx, g.AccountID)
	if err == nil && f.Granted > maxGranted {
		err = stoa.Errorf(stoa.CodeInvalidValue, "The account would have been granted more than %s credits.", maxGranted).At("amountMicro")
	}
	return out, created, err
}

// Balance is what an account has. Granted is always the sum of the other three.
// What is held is looked at before what is spent: a call that ends in between
// counts in both, never in neither, so that nothing is held only when every
// charge of a call that was held is spent.
func (l *Ledger) Balance(ctx context.Context, accountID string) (stoa.Balance, error) {
	var held stoa.Credits
	if a, ok := l.accounts.Load(accountID); ok {
		held = a.(*account).heldNow()
	}
	var f store.Funds
	err := l.st.Read(ctx, func(tx *store.Tx) (err error) {
		f, err = tx.Funds(ctx, accountID)
		return err
	})
	if err != nil {
		return stoa.Balance{}, err
	}
	unspent := f.Balance + f.Leased
	held = min(held, unspent)
	return stoa.Balance{Available: unspent - held, Held: held, Granted: f.Granted, Spent: f.Granted - unspent}, nil
}
