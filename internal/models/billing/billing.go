// Package billing keeps the books: credits are reserved before a call (a hold, in memory),
// and a call is charged when it ends (settled; the charge is committed before its caller
// receives the answer). It is the only writer of the ledger.
//
// It never computes a price and does not depend on models or HTTP. A charge is durable before
// it is acknowledged. Start with [Ledger.Hold] and [Hold.Settle]; settle.go contains the one
// goroutine that collects charges, commit.go writes a group in one transaction, uncovered.go
// charges what a lease does not cover, budget.go counts what budgets limit, verify.go checks the
// books.
//
// The node leases the balance of an account from the store and reserves holds from that lease
// without a query: the whole balance if it is the only node, otherwise a part of it
// (share.go). The available amount is the lease's amount minus the amount spent minus the
// open holds. A crash loses only the holds: leases are closed when their node is known to be
// dead. See docs/decisions/0013-rows-decide-memory-is-a-cache.md.
package billing

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/telemetry"
)

// MaxGrant is the largest single grant: a billion credits.
const MaxGrant = 1_000_000_000 * stoa.Credit

// maxGranted is the maximum total that can be granted to an account, so that sums stay far below
// the maximum int64.
const maxGranted = 1000 * MaxGrant

// Config contains the settings of a ledger. The zero value is valid.
type Config struct {
	// Linger is the time that a commit waits for more charges when many calls end at the same
	// time; a single charge never waits. 0 means 1 ms; negative means no wait.
	Linger time.Duration
	// Shared means that other nodes have ledgers of the same store. A lease is then a part of
	// the balance.
	Shared bool
	// Reached is called in the transaction of a charge whose budget reaches a mark with it, once
	// per window and mark; nil ignores marks.
	Reached func(ctx context.Context, tx *store.Tx, m Mark) error
	Logger  *slog.Logger       // nil disables logging
	Metrics *telemetry.Metrics // nil disables metrics
}

// Ledger manages the books of one store; an open store must have only one Ledger. It is safe
// for use by many goroutines.
type Ledger struct {
	st      *store.Store
	log     *slog.Logger
	metrics *telemetry.Metrics
	linger  time.Duration
	shared  *sharing // nil if this is the only node
	reached func(context.Context, *store.Tx, Mark) error
	now     func() time.Time // for the windows of budgets

	began   time.Time    // of the clock of polled
	polled  atomic.Int64 // when other nodes were last asked for changes of budgets, since began
	changes atomic.Int64 // of budgets by all nodes, as of then
	polling turn         // held while a call polls, so that one call polls for all that wait

	accounts sync.Map       // account id → *account
	entries  sync.Pool      // of *entry
	doubtful []*entry       // charges that may be stored, and whose commit has to be looked up; only used by Run
	unsure   []unsureWindow // only used by Run
	started  atomic.Bool
	ended    atomic.Bool
	done     chan struct{} // closed together with ended

	qmu     sync.Mutex
	queue   []*entry
	enough  int // number of queued entries from which each new entry wakes Run; 0 means always
	stopped bool
	wake    chan struct{}

	failures  []stoa.VendorFailure // guarded by qmu
	recording sync.WaitGroup       // of writeFailures
}

// New returns a ledger over an open store. Nothing is charged before [Ledger.Run]
// runs: until then, Settle waits.
func New(st *store.Store, cfg Config) *Ledger {
	l := &Ledger{st: st, log: cfg.Logger, metrics: cfg.Metrics, linger: cfg.Linger, reached: cfg.Reached, now: time.Now, began: time.Now(), polling: make(turn, 1), wake: make(chan struct{}, 1), done: make(chan struct{})}
	l.polled.Store(-int64(time.Hour))
	l.entries.New = func() any { return &entry{done: make(chan struct{}, 1)} }
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if l.linger == 0 {
		l.linger = time.Millisecond
	}
	if cfg.Shared {
		l.share()
	}
	return l
}

// Done returns a channel that is closed when the ledger has stopped: no hold can be
// settled any more.
func (l *Ledger) Done() <-chan struct{} { return l.done }

// Grant adds credits to an account, at most [MaxGrant]. If the ExternalRef was used before
// with the same account and amount, it returns that grant and created is false; with a
// different account or amount it fails with CodeConflict.
func (l *Ledger) Grant(ctx context.Context, g stoa.Grant) (_ stoa.Grant, created bool, err error) {
	var out stoa.Grant
	err = l.st.Write(ctx, func(tx *store.Tx) (err error) {
		out, created, err = l.GrantIn(ctx, tx, g)
		return err
	})
	return out, created, err
}

// Limits of a grant's texts in characters.
const (
	maxGrantReason = 500
	maxGrantRef    = 128
)

// GrantIn is [Ledger.Grant] as part of a transaction.
func (l *Ledger) GrantIn(ctx context.Context, tx *store.Tx, g stoa.Grant) (_ stoa.Grant, created bool, err error) {
	if g.Amount <= 0 || g.Amount > MaxGrant {
		return g, false, stoa.Errorf(stoa.CodeInvalidValue, "A grant must be between 1 micro-credit and %s credits.", MaxGrant).At("amountMicro")
	}
	// The texts are limited, because grants are kept for ever. The API checks the same limits; this is for other callers.
	for _, text := range []struct {
		member, text string
		most         int
	}{{"reason", g.Reason, maxGrantReason}, {"externalRef", g.ExternalRef, maxGrantRef}} {
		if utf8.RuneCountInString(text.text) > text.most {
			return g, false, stoa.Errorf(stoa.CodeInvalidValue, "The %s of a grant can have at most %d characters.", text.member, text.most).At(text.member)
		}
	}
	out, created, err := tx.Books().InsertGrant(ctx, g)
	if err != nil {
		return out, false, err
	}
	if !created {
		if out.AccountID != g.AccountID || out.Amount != g.Amount {
			return out, false, stoa.Errorf(stoa.CodeConflict, "The external reference %q belongs to another grant.", g.ExternalRef).At("externalRef")
		}
		return out, false, nil
	}
	f, err := tx.Books().Funds(ctx, g.AccountID)
	if err == nil && f.Granted > maxGranted {
		err = stoa.Errorf(stoa.CodeInvalidValue, "The account would have been granted more than %s credits.", maxGranted).At("amountMicro")
	}
	return out, created, err
}

// Balance returns an account's balance. Granted is always the sum of the other three. Held is
// read before Spent, so that a call that ends in between counts in both, never in neither: when
// Held is 0, every call that this node held has been charged. Holds of other nodes are known
// with a delay of up to a second; see [Holds].
func (l *Ledger) Balance(ctx context.Context, accountID string) (stoa.Balance, error) {
	held := l.held(accountID)
	var f store.Funds
	err := l.st.Read(ctx, func(tx *store.Tx) (err error) {
		f, err = tx.Books().Funds(ctx, accountID)
		return err
	})
	if err != nil {
		return stoa.Balance{}, err
	}
	return balance(f, held), nil
}

// BalanceOf returns the balance of an account whose credits were just read from the store, for
// lists: unlike with [Ledger.Balance], a call that has ended since then is neither held nor spent.
func (l *Ledger) BalanceOf(accountID string, f store.Funds) stoa.Balance {
	return balance(f, l.held(accountID))
}

// held returns the amount that calls of this node hold, and those of other nodes according to
// their last report.
func (l *Ledger) held(accountID string) (held stoa.Credits) {
	if l.shared != nil {
		if elsewhere := l.shared.held.Load(); elsewhere != nil {
			held = (*elsewhere)[accountID]
		}
	}
	if a, ok := l.accounts.Load(accountID); ok {
		held += a.(*account).heldNow()
	}
	return held
}

func balance(f store.Funds, held stoa.Credits) stoa.Balance {
	unspent := f.Balance + f.Leased
	held = min(held, unspent)
	return stoa.Balance{Available: unspent - held, Held: held, Granted: f.Granted, Spent: f.Granted - unspent, Owed: f.Owed}
}
