package billing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// A Hold is credits reserved for one call. Settle or Release ends it; otherwise
// its credits stay reserved until the process ends. It is safe for use by several
// goroutines.
type Hold struct {
	l      *Ledger
	a      *account
	key    string // the key of the call, in its charge
	book   string // the key under which its credits of a day are counted
	capped bool   // the key has a daily limit

	// Guarded by a.mu.
	amount stoa.Credits
	extra  stoa.Credits // reserved in addition while settling
	state  holdState
}

// holdState is the state of a [Hold]: open until it is settled or released,
// each once.
type holdState uint8

const (
	holdOpen holdState = iota
	holdSettling
	holdSettled
	holdReleased
)

// Hold reserves credits of the caller's account: most, or what is left of it, but
// not fewer than least. It needs no query while the node's lease lasts. Too few
// credits are CodeQuota; a key that would exceed its daily limit is
// CodeKeyBudget; a store that cannot commit is as [store.Store.Usable] says.
func (l *Ledger) Hold(ctx context.Context, c stoa.Caller, least, most stoa.Credits) (*Hold, error) {
	if least < 0 {
		return nil, fmt.Errorf("billing: a hold of %d", least)
	}
	if l.ended.Load() {
		return nil, errStopping()
	}
	if err := l.st.Usable(ctx); err != nil { // a call that cannot be charged is not begun
		return nil, err
	}
	most = max(most, least)
	a := l.account(c.Account.ID)
	limit := c.Key.MaxCreditsPerDay
	h := &Hold{l: l, a: a, key: c.Key.ID, book: c.Key.Root(), capped: limit > 0}
	for {
		want := most
		day := dayOf(time.Now())
		a.mu.Lock()
		if h.capped {
			if a.beforeDay != day {
				a.mu.Unlock()
				if err := l.loadDay(ctx, a, day); err != nil {
					return nil, err
				}
				continue
			}
			k := a.key(h.book, day)
			left := limit - a.before[h.book] - k.spent - k.held
			if left < least || left <= 0 && most > 0 {
				a.mu.Unlock()
				return nil, stoa.Errorf(stoa.CodeKeyBudget, "This key, with the keys created from it, may spend %s credits a day and %s of them are left until midnight UTC; the call needs at least %s. Raise the key's limit or use another key.",
					limit, max(left, 0), least)
			}
			want = min(want, left)
		}
		free := a.free()
		if free < want && !a.exhausted(l.st.Grants()) {
			a.mu.Unlock()
			if err := l.extend(ctx, a); err != nil {
				return nil, err
			}
			continue
		}
		if free < least || free <= 0 && want > 0 {
			a.mu.Unlock()
			return nil, stoa.Errorf(stoa.CodeQuota, "This call needs at least %s credits and %s are available. Top up the account, or ask for fewer output tokens.", max(least, 1), max(free, 0))
		}
		h.amount = min(free, want)
		a.held += h.amount
		if h.capped {
			a.key(h.book, day).held += h.amount
		}
		a.mu.Unlock()
		return h, nil
	}
}

func errStopping() error {
	return stoa.Errorf(stoa.CodeOverloaded, "The service is stopping. Try again.").After(time.Second)
}

// loadDay reads what earlier nodes charged to the account's keys on that day.
func (l *Ledger) loadDay(ctx context.Context, a *account, day int64) error {
	var spent map[string]stoa.Credits
	err := l.st.Read(ctx, func(tx *store.Tx) (err error) {
		spent, err = tx.SpentByRoot(ctx, a.id, l.st.Node(), time.Unix(day*86_400, 0))
		return err
	})
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if day > a.beforeDay {
		a.before, a.beforeDay = spent, day
	}
	return nil
}

// Amount returns the reserved credits.
func (h *Hold) Amount() stoa.Credits {
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	return h.amount
}

// Release frees the credits. It may be called several times, and does nothing
// after Settle.
func (h *Hold) Release() {
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	if h.state == holdOpen {
		h.end(holdReleased)
	}
}

// end frees all credits of the hold. The caller holds a.mu.
func (h *Hold) end(state holdState) {
	h.a.held -= h.amount + h.extra
	if k := h.a.keys[h.book]; h.capped && k != nil { // a hold of nothing does not keep it
		k.held -= h.amount
	}
	h.state, h.extra = state, 0
}

// errEnded is a programming error: a hold is settled once.
var errEnded = errors.New("billing: the hold has been settled or released")

// Settle charges the call, frees what it did not need, and returns the charge
// after its commit. The end of ctx does not stop it: a call that was served is
// charged even when its client has disconnected.
//
// An amount above the hold takes the rest from what is available; what that does
// not cover is written off and the charge is marked Clamped. If a charge with
// this ID is stored already, it is returned unchanged and also does not run.
// Texts are cut at maxText characters.
//
// also runs in the charge's savepoint: its error undoes the charge and is
// returned. It may run more than once. After an error nothing is charged, the
// hold is open again, and Settle may be called again. Only when the connection
// broke during a commit may a charge exist; calling Settle again returns it.
func (h *Hold) Settle(ctx context.Context, c stoa.Charge, also ...func(ctx context.Context, tx *store.Tx) error) (stoa.Charge, error) {
	ctx = context.WithoutCancel(ctx)
	if c.ID == "" || c.Amount < 0 || c.WrittenOff < 0 {
		return stoa.Charge{}, fmt.Errorf("billing: a charge %q of %d", c.ID, c.Amount)
	}
	c.AccountID = h.a.id
	if c.KeyID == "" {
		c.KeyID = h.key
	}
	for _, text := range []*string{&c.ID, &c.KeyID, &c.Price.Version, &c.State, &c.SpaceID, &c.AgentID, &c.SessionID} {
		*text = storable(*text)
	}
	for _, text := range []*string{&c.Asked, &c.Served, &c.Reason, &c.Provider, &c.EndUser} {
		*text = cutText(storable(*text))
	}
	c.StartedAt = c.StartedAt.UTC().Truncate(time.Microsecond)
	c.FirstToken, c.Duration = c.FirstToken.Truncate(time.Microsecond), c.Duration.Truncate(time.Microsecond)
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

// maxText is the most characters of a text in a charge that a caller or a provider
// chose. Requests with longer ones are refused before; charges are kept for ever,
// so they are limited here once more.
const maxText = 512

// cutText returns at most maxText characters of s.
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

// storable returns a text in the form that both databases accept: valid UTF-8
// without NUL. Some texts of a charge come from the caller, and none may prevent
// the charge from being written.
func storable(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// cover starts settling: it reserves what the charge needs beyond the hold, and
// lowers the charge to what is available.
func (h *Hold) cover(ctx context.Context, c *stoa.Charge) error {
	for {
		h.a.mu.Lock()
		if h.state != holdOpen {
			h.a.mu.Unlock()
			return errEnded
		}
		if c.Amount <= h.amount {
			break
		}
		extra := c.Amount - h.amount
		free := max(h.a.free(), 0)
		if free < extra && !h.a.exhausted(h.l.st.Grants()) {
			h.a.mu.Unlock()
			if err := h.l.extend(ctx, h.a); err != nil {
				return err
			}
			continue
		}
		h.extra = min(extra, free)
		h.a.held += h.extra
		if h.extra < extra {
			clamp(c, h.amount+h.extra)
		}
		break
	}
	h.state = holdSettling
	h.a.mu.Unlock()
	return nil
}

// clamp lowers a charge to what can be paid.
func clamp(c *stoa.Charge, to stoa.Credits) {
	c.WrittenOff += c.Amount - to
	c.Amount = to
	c.Clamped = true
}

// reopen opens the hold again after settling failed.
func (h *Hold) reopen() {
	h.a.mu.Lock()
	defer h.a.mu.Unlock()
	h.a.held -= h.extra
	h.extra, h.state = 0, holdOpen
}
