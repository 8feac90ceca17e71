package billing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// A Hold is credits reserved for one call. Settle or Release ends it; otherwise
// its credits stay reserved until the process ends. It is safe for use by several
// goroutines.
type Hold struct {
	l      *Ledger
	a      *account
	key    string  // the key of the call, in its charge
	root   string  // the root of its family, if that is another key
	member string  // whose key it is
	claims []claim // the windows of budgets that count the call
	rows   string  // id of the rows that reserve them on several nodes; empty if there are none

	// Guarded by a.mu.
	amount   stoa.Credits
	extra    stoa.Credits // added while settling
	reserved stoa.Credits // by the rows
	state    holdState
}

type holdState uint8

const (
	holdOpen holdState = iota
	holdSettling
	holdSettled
	holdReleased
)

// Hold reserves credits of the caller's account: most, or the remaining amount if that is
// less, but at least least. It needs no query while the node's lease lasts and no budget of
// several nodes applies. Too few credits are CodeQuota; a budget that has too little left is
// CodeBudget, or CodeKeyBudget for the daily limit of a key; a store that cannot commit is as
// [store.Store.Usable] says.
func (l *Ledger) Hold(ctx context.Context, c stoa.Caller, least, most stoa.Credits) (*Hold, error) {
	return l.HoldFor(ctx, c, Source{}, least, most, 0)
}

// HoldFor is [Ledger.Hold] for a call whose source may have budgets. It reserves wish if that is more than most and
// there is plenty: if it is at most an eighth of what is free to the call, in the account and in each budget, and thirty
// more calls could still reserve most. On several nodes a wish waits for its lease no longer than wishTime, because the
// call can be made without it.
func (l *Ledger) HoldFor(ctx context.Context, c stoa.Caller, of Source, least, most, wish stoa.Credits) (*Hold, error) {
	if least < 0 {
		return nil, fmt.Errorf("billing: a hold of %d", least)
	}
	if l.ended.Load() {
		return nil, errStopping()
	}
	if err := l.st.Usable(ctx); err != nil { // because a call that cannot be charged must not begin
		return nil, err
	}
	a := l.account(c.Account.ID)
	budgets, err := l.budgetsOf(ctx, a)
	if err != nil {
		return nil, err
	}
	n := need{least: least, most: max(most, least), wish: wish}
	h := &Hold{l: l, a: a, key: c.Key.ID, member: c.Key.MemberID}
	if root := c.Key.Root(); root != c.Key.ID {
		h.root = root
	}
	if len(budgets.list) > 0 || c.Key.MaxCreditsPerDay > 0 {
		if err := l.claim(ctx, h, budgets, c.Key, of, &n); err != nil {
			return nil, err
		}
	}
	if err := l.take(ctx, h, n); err != nil {
		h.drop()
		return nil, err
	}
	if h.rows != "" && h.amount < h.reserved {
		h.reserved = h.amount
		r := &l.shared.reservations
		r.mu.Lock()
		defer r.mu.Unlock()
		r.shrunk = append(r.shrunk, store.WindowHold{HoldID: h.rows, Amount: h.amount})
		r.signal()
	}
	return h, nil
}

// claim finds the windows that count a call and, on several nodes, reserves n from them, which
// it lowers to the reserved amount.
func (l *Ledger) claim(ctx context.Context, h *Hold, budgets *budgetList, key stoa.Key, of Source, n *need) error {
	if of.StartedAt.IsZero() {
		of.StartedAt = l.now()
	}
	by := stoa.Spenders{Member: key.MemberID, Key: key.Root(), Agent: of.AgentID, Embed: of.EmbedID, EndUser: cutText(stoa.Storable(of.EndUser))}
	if h.claims = budgets.claims(by, key.MaxCreditsPerDay, of.StartedAt); len(h.claims) == 0 {
		return nil
	}
	if err := l.attach(ctx, h); err != nil || l.shared == nil {
		return err
	}
	got, err := l.reserveWindows(ctx, h, *n, 0)
	if err != nil {
		h.rows = "" // because nothing is reserved
		h.drop()
		return err
	}
	if n.wish == 0 || got != n.wish {
		n.most, n.wish = got, 0
	}
	h.reserved = got
	return nil
}

func (h *Hold) drop() {
	if h.rows != "" {
		h.l.releaseRows(h.rows, nil)
	}
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	h.detach()
}

// take reserves the credits of the account for a hold.
func (l *Ledger) take(ctx context.Context, h *Hold, n need) error {
	l.leaseWish(ctx, h.a, n)
	for {
		h.a.mu.Lock()
		v, _, err := h.reserveNeed(n)
		h.a.mu.Unlock()
		if v == tooFew {
			v, err = l.more(ctx, h, n)
		}
		if err != nil || v == taken {
			return err
		}
	}
}

// A need is the amount for a call: between least and most, or wish out of plenty. With any, whatever is left suffices.
type need struct {
	least, most, wish stoa.Credits
	any               bool
}

// The limits of a wish, so that it leaves enough free credits to other calls.
const (
	wishShare = 8  // at most this part
	wishCalls = 30 // and most for this number of calls
)

// plenty reports whether the need may be its wish.
func (n need) plenty(free stoa.Credits) bool {
	return n.wish > n.most && n.wish <= free/wishShare && free-n.wish >= wishCalls*n.most
}

// wished returns the amount that a node needs for a wish: most besides, so that the next call does not wait for the database.
func (n need) wished() stoa.Credits {
	if n.wish == 0 {
		return 0
	}
	return n.wish + n.most
}

// more extends the account's lease for a hold, and may also reserve it.
func (l *Ledger) more(ctx context.Context, h *Hold, n need) (v verdict, err error) {
	if l.shared == nil {
		return tooFew, l.extend(ctx, h.a)
	}
	var refusal error
	v, err = l.gather(ctx, h.a, n.wished(), func() (v verdict, want stoa.Credits) {
		v, want, refusal = h.reserveNeed(n)
		return v, want
	})
	if err == nil {
		err = refusal
	}
	return v, err
}

// reserveNeed reserves the amount for a call, if available. It returns the amount wanted from
// the account and, with refused, the reason. The caller must hold a.mu.
func (h *Hold) reserveNeed(n need) (v verdict, want stoa.Credits, err error) {
	l, a := h.l, h.a
	free := a.free()
	if !n.plenty(free+a.shared.rest) || free < n.wished() {
		n.wish = 0
	}
	want = max(n.most, n.wish)
	if l.shared == nil && len(h.claims) > 0 { // otherwise they are reserved
		for i := range h.claims {
			if h.claims[i].w.stale {
				return refused, 0, errTakenOver()
			}
		}
		if want, err = claimed(h.claims, n, leftInMemory); err != nil {
			return refused, want, err
		}
	}
	if free < want && !l.exhausted(a, n.least) {
		return tooFew, want, nil
	}
	if free < n.least || free <= 0 && want > 0 {
		if l.shared != nil && a.shared.unanswered {
			return refused, want, errElsewhere()
		}
		if unpaid := a.unpaid.sum(time.Now()); free+unpaid >= n.least {
			return refused, want, stoa.Errorf(stoa.CodeQuota, "This call needs at least %s credits, but only %s are available: %s more are set aside for up to an hour, because calls failed after their provider had received them, or after their files had been read. Try again later, or top up the account.",
				max(n.least, 1), max(free, 0), unpaid)
		}
		return refused, want, stoa.Errorf(stoa.CodeQuota, "This call needs at least %s credits, but only %s are available. Top up the account, or request fewer output tokens.", max(n.least, 1), max(free, 0))
	}
	h.amount = min(free, want)
	h.addHeld(h.amount)
	a.shared.calls++
	return taken, want, nil
}

func errStopping() error {
	return stoa.Errorf(stoa.CodeOverloaded, "The service is stopping. Try again.").After(time.Second)
}

// Amount returns the reserved credits.
func (h *Hold) Amount() stoa.Credits {
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	return h.amount
}

// Release frees the credits. It may be called repeatedly, and does nothing after Settle. On
// several nodes it waits until the credits of budgets are free, for at most some seconds.
func (h *Hold) Release() {
	h.a.mu.Lock()
	rows := h.rows
	open := h.state == holdOpen
	if open {
		h.end(holdReleased)
		h.l.freed(h.a)
	}
	h.a.mu.Unlock()
	if open && rows != "" {
		done := make(chan struct{})
		h.l.releaseRows(rows, done)
		<-done
	}
}

// end frees all credits of the hold. The caller must hold a.mu.
func (h *Hold) end(state holdState) {
	h.addHeld(-h.amount - h.extra)
	h.state, h.extra = state, 0
	h.detach()
}

// errEnded is a programming error: a hold may be settled only once.
var errEnded = errors.New("billing: the hold has been settled or released")

// Settle charges the call, frees the rest of the hold, and returns the charge after its
// commit. It does not end with ctx, because a call that was served is charged even if its client
// has disconnected.
//
// If the amount exceeds the hold, the rest is charged from the available credits; any
// uncovered rest is written off and the charge is marked Clamped. If a charge with this ID is
// already stored, it is returned unchanged and also does not run. Texts are cut at maxText
// characters.
//
// also runs in the charge's savepoint: its error undoes the charge and is returned. It may
// run more than once. After an error nothing is charged, the hold is open again, and Settle
// may be called again. Only if the connection broke during a commit may a charge exist;
// calling Settle again returns it.
func (h *Hold) Settle(ctx context.Context, c stoa.Charge, also ...func(ctx context.Context, tx *store.Tx) error) (stoa.Charge, error) {
	ctx = context.WithoutCancel(ctx)
	if c.ID == "" || c.Amount < 0 || c.WrittenOff < 0 {
		return stoa.Charge{}, fmt.Errorf("billing: a charge %q of %d", c.ID, c.Amount)
	}
	c.AccountID = h.a.id
	if c.KeyID == "" {
		c.KeyID = h.key
	}
	c.RootID, c.MemberID, c.Windows = h.root, h.member, h.windowList()
	// No text of a caller may prevent its charge from being written.
	for _, text := range []*string{&c.ID, &c.KeyID, &c.Price.Version, &c.State, &c.SpaceID, &c.AgentID, &c.SessionID, &c.EmbedID} {
		*text = stoa.Storable(*text)
	}
	for _, text := range []*string{&c.Asked, &c.Served, &c.Reason, &c.Provider, &c.EndUser} {
		*text = cutText(stoa.Storable(*text))
	}
	c.StartedAt = c.StartedAt.UTC().Truncate(time.Microsecond)
	c.FirstToken, c.Duration = c.FirstToken.Truncate(time.Microsecond), c.Duration.Truncate(time.Microsecond)
	if h.rows != "" {
		if err := h.l.coverWindows(ctx, h, &c); err != nil {
			return stoa.Charge{}, err
		}
	}
	if err := h.cover(ctx, &c); err != nil {
		return stoa.Charge{}, err
	}
	e := h.l.entries.Get().(*entry)
	e.h, e.also, e.ctx = h, also, ctx
	e.receipt = store.Receipt{Charge: c}
	if !h.l.enqueue(e) {
		h.reopen()
		*e = entry{done: e.done}
		h.l.entries.Put(e)
		return stoa.Charge{}, errStopping()
	}
	<-e.done
	charge, err := e.receipt.Charge, e.err
	*e = entry{done: e.done}
	h.l.entries.Put(e)
	if err != nil {
		return stoa.Charge{}, err
	}
	return charge, nil
}

// windowList returns the ids of the windows that count the call, with spaces between.
func (h *Hold) windowList() string {
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	ids := make([]string, len(h.claims))
	for i := range h.claims {
		ids[i] = h.claims[i].w.id
	}
	return strings.Join(ids, " ")
}

// maxText is the maximum length, in characters, of a text in a charge that a caller or a
// provider chose. It is enforced again after the request, because charges are kept for ever.
const maxText = 512

func cutText(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := 0
	for i := range s {
		if n == maxText {
			return s[:i]
		}
		n++
	}
	return s
}

// cover begins settling: it reserves the part of the charge that exceeds the hold, and lowers
// the charge to the available amount.
func (h *Hold) cover(ctx context.Context, c *stoa.Charge) error {
	for {
		h.a.mu.Lock()
		v, _, err := h.reserve(c)
		h.a.mu.Unlock()
		if v == tooFew {
			v, err = h.l.moreFor(ctx, h, c)
		}
		if err != nil || v == taken {
			return err
		}
	}
}

// moreFor extends the account's lease for a charge above its hold, and may also reserve it.
func (l *Ledger) moreFor(ctx context.Context, h *Hold, c *stoa.Charge) (v verdict, err error) {
	if l.shared == nil {
		return tooFew, l.extend(ctx, h.a)
	}
	var refusal error
	charge := *c // so that only this path allocates on the heap
	v, err = l.gather(ctx, h.a, 0, func() (v verdict, want stoa.Credits) {
		v, want, refusal = h.reserve(&charge)
		return v, want
	})
	*c = charge
	if err == nil {
		err = refusal
	}
	return v, err
}

// reserve reserves the part of the charge that exceeds the hold, or the available amount, and
// begins settling. It returns the reserved amount. The caller must hold a.mu.
func (h *Hold) reserve(c *stoa.Charge) (v verdict, extra stoa.Credits, err error) {
	if h.state != holdOpen {
		return refused, 0, errEnded
	}
	if c.Amount > h.amount {
		extra = c.Amount - h.amount
		if h.l.shared == nil && len(h.claims) > 0 { // otherwise they are reserved
			extra, _ = claimed(h.claims, need{most: extra, any: true}, leftInMemory)
		}
		free := max(h.a.left(), 0)
		if free < extra && !h.l.exhausted(h.a, extra) {
			return tooFew, extra, nil
		}
		h.extra = min(extra, free)
		h.addHeld(h.extra)
		if h.amount+h.extra < c.Amount {
			clamp(c, h.amount+h.extra)
		}
	}
	h.state = holdSettling
	return taken, extra, nil
}

func clamp(c *stoa.Charge, to stoa.Credits) {
	c.WrittenOff += c.Amount - to
	c.Amount = to
	c.Clamped = true
}

func (h *Hold) reopen() {
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	h.addHeld(-h.extra)
	h.extra, h.state = 0, holdOpen
}
