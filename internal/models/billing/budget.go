package billing

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"stoa/internal/base/schedule"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// A budget limits the credits that a subject spends in a period: see [stoa.Budget]. The daily
// limit of a key is one too. Each period of a subject is a window, a row whose spent amount grows
// in the transaction of each charge. A hold reserves credits of the account and of all its
// windows, or of none, so that the charges never exceed a limit.
//
// A node that is alone counts the holds of a window in memory. With several nodes they are rows;
// see reserve.go. docs/decisions/0053-count-budgets-in-windows.md compares the alternatives.

// pollBudgets is the maximum age of the knowledge that no other node has changed budgets. It is
// shorter than budgetDelay, so that every node knows a new budget when it takes effect.
const (
	pollBudgets = 1500 * time.Millisecond
	budgetDelay = 2 * time.Second
)

// BudgetDelay returns the time after which a new budget takes effect, because until then other
// nodes may not know it.
func (l *Ledger) BudgetDelay() time.Duration {
	if l.shared == nil {
		return 0
	}
	return budgetDelay
}

// A Source is the origin of a call, for the budgets that count it. Empty members do not apply.
type Source struct {
	AgentID, EmbedID, EndUser string
	StartedAt                 time.Time // zero means now
}

// A budgetList is the budgets of an account. It is never changed.
type budgetList struct {
	local, global int64 // changes of budgets before it was read: of this process, of all nodes
	list          []*budget
}

type budget struct {
	stoa.Budget
	zone *time.Location
}

// A window is a window of a budget in memory. It is guarded by account.mu.
type window struct {
	id         string
	ends       time.Time
	used, held stoa.Credits // only of a node that is alone
	stale      bool         // used may differ from the row
	notified   int          // the highest mark that is known to be announced
	refs       int          // open holds
}

type windowKey struct {
	budget, subject string
	starts          int64 // in microseconds
}

// A claim is a window that counts a call.
type claim struct {
	a            *account
	w            *window
	budget       *budget // nil means the daily limit of a key
	limit        stoa.Credits
	subject      string
	starts, ends time.Time
}

func (c *claim) key() windowKey {
	k := windowKey{subject: c.subject, starts: c.starts.UnixMicro()}
	if c.budget != nil {
		k.budget = c.budget.ID
	}
	return k
}

func (c *claim) scope() (scope stoa.BudgetScope, id string) {
	if c.budget == nil {
		return stoa.BudgetOfKey, ""
	}
	return c.budget.Scope, c.budget.ID
}

// budgetsOf returns the budgets of an account: the cached list, unless budgets have changed since
// it was read. Other nodes are polled for changes once a second, or here if that is overdue.
func (l *Ledger) budgetsOf(ctx context.Context, a *account) (*budgetList, error) {
	if l.mustPoll() {
		if err := l.polling.lockWithin(ctx); err != nil {
			return nil, err
		}
		var err error
		if l.mustPoll() {
			err = l.pollBudgets(ctx)
		}
		l.polling.unlock()
		if err != nil {
			return nil, err
		}
	}
	if list := l.knownBudgets(a); list != nil {
		return list, nil
	}
	if err := a.loading.lockWithin(ctx); err != nil {
		return nil, err
	}
	defer a.loading.unlock()
	if list := l.knownBudgets(a); list != nil {
		return list, nil
	}
	return l.loadBudgets(ctx, a)
}

// mustPoll reports whether it is too long ago that other nodes were polled for changes.
func (l *Ledger) mustPoll() bool {
	return l.shared != nil && time.Since(l.began)-time.Duration(l.polled.Load()) > pollBudgets
}

// knownBudgets returns the cached list of an account, or nil if it is out of date.
func (l *Ledger) knownBudgets(a *account) *budgetList {
	if list := a.budgets.Load(); list != nil && list.local == l.st.BudgetChanges() && list.global >= l.changes.Load() {
		return list
	}
	return nil
}

func (l *Ledger) pollBudgets(ctx context.Context) error {
	began := time.Since(l.began)
	var n int64
	err := l.st.Read(store.Promptly(ctx), func(tx *store.Tx) (err error) {
		n, err = tx.Books().BudgetChanges(ctx)
		return err
	})
	if err != nil {
		return err
	}
	l.changes.Store(n)
	l.polled.Store(int64(began))
	return nil
}

// loadBudgets reads the budgets of an account. The caller must hold a.loading.
func (l *Ledger) loadBudgets(ctx context.Context, a *account) (*budgetList, error) {
	list := &budgetList{local: l.st.BudgetChanges()}
	err := l.st.Read(store.Promptly(ctx), func(tx *store.Tx) error {
		list.list = nil
		n, err := tx.Books().BudgetChanges(ctx)
		if err != nil {
			return err
		}
		list.global = n
		all, err := tx.Books().BudgetsOf(ctx, a.id)
		for _, b := range all {
			zone, err := zoneOf(b)
			if err != nil {
				return fmt.Errorf("billing: the time zone of the budget %s: %w", b.ID, err)
			}
			list.list = append(list.list, &budget{b, zone})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	a.budgets.Store(list)
	return list, nil
}

// claims returns the budget windows that apply to a call, without their state.
func (list *budgetList) claims(of stoa.Spenders, dayLimit stoa.Credits, at time.Time) (claims []claim) {
	if dayLimit > 0 {
		begin, end := period(stoa.BudgetDay, at, time.UTC)
		claims = append(claims, claim{limit: dayLimit, subject: of.Key, starts: begin, ends: end})
	}
	for _, b := range list.list {
		subject, ok := of.Of(b.Scope)
		if !ok || at.Before(b.EffectiveAt) || b.Subject != subject && (b.Subject != stoa.EachSubject || list.names(b, subject, at)) {
			continue
		}
		begin, end := period(b.Period, at, b.zone)
		claims = append(claims, claim{budget: b, limit: b.Limit, subject: subject, starts: begin, ends: end})
	}
	return claims
}

func zoneOf(b stoa.Budget) (*time.Location, error) { return stoa.LoadZone(cmp.Or(b.TimeZone, "UTC")) }

// period returns the begin and the end of the period that contains a time, at midnights of the
// zone. A total has neither: both are zero.
func period(p stoa.BudgetPeriod, at time.Time, zone *time.Location) (begin, end time.Time) {
	y, m, d := at.In(zone).Date()
	switch p {
	case stoa.BudgetDay:
		return schedule.Midnight(y, m, d, zone), schedule.Midnight(y, m, d+1, zone)
	case stoa.BudgetWeek:
		d -= (int(at.In(zone).Weekday()) + 6) % 7
		return schedule.Midnight(y, m, d, zone), schedule.Midnight(y, m, d+7, zone)
	case stoa.BudgetMonth:
		return schedule.Midnight(y, m, 1, zone), schedule.Midnight(y, m+1, 1, zone)
	}
	return time.Time{}, time.Time{}
}

// names reports whether a budget that names a subject replaces the budget each of every subject.
func (list *budgetList) names(each *budget, subject string, at time.Time) bool {
	return slices.ContainsFunc(list.list, func(b *budget) bool {
		return b.Subject == subject && b.Scope == each.Scope && b.Period == each.Period && !at.Before(b.EffectiveAt)
	})
}

// attach finds the windows of a hold, creates those that are missing, and keeps them in memory
// until the hold ends.
func (l *Ledger) attach(ctx context.Context, h *Hold) error {
	a := h.a
	for {
		var missing []*claim
		a.mu.Lock()
		for i := range h.claims {
			if c := &h.claims[i]; c.w == nil {
				c.a = a
				if c.w = a.windows[c.key()]; c.w == nil {
					missing = append(missing, c)
					continue
				}
				c.w.refs++
			}
		}
		a.mu.Unlock()
		if len(missing) == 0 {
			return nil
		}
		if err := l.loadWindows(ctx, a, missing); err != nil {
			a.mu.Lock()
			h.detach()
			a.mu.Unlock()
			return err
		}
	}
}

// detach drops the windows of a hold. The caller must hold a.mu.
func (h *Hold) detach() {
	for i := range h.claims {
		if w := h.claims[i].w; w != nil {
			w.refs--
		}
	}
	h.claims = nil
}

// keptWindows is the number of windows of an account from which unused ones are dropped from
// memory, since a call that needs them reads them again.
const keptWindows = 1024

// loadWindows reads the rows of windows, or creates them. It need not lock them, because nothing
// spends from a window that is not in memory, and one goroutine loads those of an account.
func (l *Ledger) loadWindows(ctx context.Context, a *account, missing []*claim) error {
	if err := a.loading.lockWithin(ctx); err != nil {
		return err
	}
	defer a.loading.unlock()
	rows := make([]store.BudgetWindow, len(missing))
	found := 0
	err := l.st.Read(store.Promptly(ctx), func(tx *store.Tx) error {
		found = 0
		for i, c := range missing {
			_, id := c.scope()
			w, ok, err := tx.Books().BudgetWindow(ctx, a.id, id, c.subject, c.starts)
			if err != nil {
				return err
			}
			if rows[i] = w; ok {
				found++
			}
		}
		return nil
	})
	if err == nil && found < len(missing) {
		err = l.addWindows(ctx, a, missing, rows)
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.windows == nil {
		a.windows = map[windowKey]*window{}
	}
	if len(a.windows) >= keptWindows {
		maps.DeleteFunc(a.windows, func(_ windowKey, w *window) bool { return w.refs == 0 })
	}
	for i, c := range missing {
		if key := c.key(); a.windows[key] == nil {
			a.windows[key] = &window{id: rows[i].ID, ends: rows[i].EndsAt, used: rows[i].Used(), notified: rows[i].Notified}
		}
	}
	return nil
}

// recount is the interval at which the windows of an account are counted again, because some end.
const recount = time.Minute

// addWindows creates the windows that have no row yet.
func (l *Ledger) addWindows(ctx context.Context, a *account, missing []*claim, rows []store.BudgetWindow) error {
	live, now := a.live, l.now()
	err := l.st.Write(store.Promptly(ctx), func(tx *store.Tx) (err error) {
		live = a.live
		if now.Sub(a.counted) > recount {
			if live, err = tx.Books().LiveBudgetWindows(ctx, a.id); err != nil {
				return err
			}
		}
		for i, c := range missing {
			if rows[i].ID != "" {
				continue
			}
			if live >= stoa.MaxBudgetWindows {
				return stoa.Errorf(stoa.CodeBudget, "The budgets of this account already count %d subjects and periods, which is the maximum, so no new subject is served until some periods have ended.", stoa.MaxBudgetWindows)
			}
			scope, id := c.scope()
			w := store.BudgetWindow{AccountID: a.id, BudgetID: id, Subject: c.subject, StartsAt: c.starts, EndsAt: c.ends}
			if rows[i], err = tx.Books().AddBudgetWindow(ctx, w, scope); err != nil {
				return err
			}
			live++
		}
		return nil
	})
	if now.Sub(a.counted) > recount && (err == nil || stoa.CodeOf(err) == stoa.CodeBudget) {
		a.counted = now
	}
	a.live = live
	return err
}

// claimed returns the amount that the windows of a call allow between least and most, or its wish; left
// returns the credits that a window has left. A refusal is the error of the tightest window.
func claimed(claims []claim, n need, left func(c *claim) stoa.Credits) (want stoa.Credits, err error) {
	want = n.most
	if n.wish > 0 && !slices.ContainsFunc(claims, func(c claim) bool { return !n.plenty(left(&c)) }) {
		return n.wish, nil
	}
	var tightest *claim
	for i := range claims {
		c := &claims[i]
		if rest := left(c); (n.any || c.budget == nil || c.budget.AtCap == stoa.CapShortens) && rest < want {
			want, tightest = rest, c
		}
	}
	if n.any {
		return max(want, 0), nil
	}
	if tightest != nil && (want < n.least || want <= 0 && n.most > 0) {
		return 0, errExceeded(tightest, want, n.least)
	}
	for i := range claims {
		if c := &claims[i]; c.budget != nil && c.budget.AtCap == stoa.CapRefuses {
			if rest := left(c); rest < want || rest < n.least {
				return 0, errExceeded(c, rest, want)
			}
		}
	}
	return want, nil
}

func errExceeded(c *claim, left, least stoa.Credits) error {
	left = max(left, 0)
	if c.budget == nil {
		return stoa.Errorf(stoa.CodeKeyBudget, "This key, with the keys created from it, can spend %s credits a day and has %s of them left until midnight UTC; the call needs at least %s. Raise the key's limit or use another key.",
			c.limit, left, least)
	}
	if c.ends.IsZero() {
		return stoa.Errorf(stoa.CodeBudget, "The budget %s has %s credits left; the call needs at least %s. Raise the limit of the budget.", c.budget, left, max(least, 1))
	}
	return stoa.Errorf(stoa.CodeBudget, "The budget %s has %s credits left until it begins again at %s; the call needs at least %s. Wait until then, or raise the limit of the budget.",
		c.budget, left, c.ends.In(c.budget.zone).Format(time.RFC3339), max(least, 1))
}

func leftInMemory(c *claim) stoa.Credits { return c.limit - c.w.used - c.w.held }

// addHeld counts an amount that the hold reserves, in memory. The caller must hold a.mu.
func (h *Hold) addHeld(amount stoa.Credits) {
	h.a.held += amount
	for i := range h.claims {
		h.claims[i].w.held += amount
	}
}

// spendWindows adds charges to the windows that they name, in the transaction of the charges, and
// reports the marks that they reach. On several nodes it removes the reservations of the holds.
func (l *Ledger) spendWindows(ctx context.Context, tx *store.Tx, entries ...*entry) error {
	var sums map[string]stoa.Credits
	var of map[string]*claim
	var ended []string
	for _, e := range entries {
		if e.err != nil || len(e.h.claims) == 0 {
			continue
		}
		if e.h.rows != "" {
			ended = append(ended, e.h.rows)
		}
		if !e.inserted || e.receipt.Amount == 0 {
			continue
		}
		if sums == nil {
			sums, of = map[string]stoa.Credits{}, map[string]*claim{}
		}
		for i := range e.h.claims {
			c := &e.h.claims[i]
			sums[c.w.id] += e.receipt.Amount
			of[c.w.id] = c
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sums)) { // sorted, so that all transactions lock them in the same order
		if l.shared == nil && !of[id].mayReach(sums[id]) {
			if err := tx.Books().AddToBudgetWindow(ctx, id, sums[id]); err != nil {
				return err
			}
			continue
		}
		used, notified, found, err := tx.Books().SpendBudgetWindow(ctx, id, sums[id])
		if err != nil {
			return err
		}
		if found {
			if err := l.announce(ctx, tx, of[id], used, notified); err != nil {
				return err
			}
		}
	}
	return tx.Books().ReleaseBudgetHolds(ctx, ended)
}

// mayReach reports whether a charge of a window that this node counts in memory may reach a mark.
func (c *claim) mayReach(amount stoa.Credits) bool {
	if c.budget == nil {
		return false
	}
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	for _, mark := range c.budget.NotifyAt {
		if c.w.stale || mark > c.w.notified && c.w.used+amount >= markAt(c.limit, mark) {
			return true
		}
	}
	return false
}

// markAt returns the use at which a mark, in percent, is reached.
func markAt(limit stoa.Credits, mark int) stoa.Credits {
	return limit/100*stoa.Credits(mark) + limit%100*stoa.Credits(mark)/100
}

// A Mark is a mark of a budget that the use of a window has reached.
type Mark struct {
	Budget       stoa.Budget
	Subject      string
	Percent      int
	Used         stoa.Credits
	Starts, Ends time.Time // of the window; zero for a total
}

// announce reports the marks of a budget that the use of a window has reached since the highest
// announced one.
func (l *Ledger) announce(ctx context.Context, tx *store.Tx, c *claim, used stoa.Credits, notified int) error {
	if c.budget == nil {
		return nil
	}
	c.a.mu.Lock()
	c.w.notified = max(c.w.notified, notified)
	c.a.mu.Unlock()
	reached := notified
	for _, mark := range c.budget.NotifyAt {
		if mark <= notified || used < markAt(c.limit, mark) {
			continue
		}
		reached = max(reached, mark)
		if l.reached != nil {
			if err := l.reached(ctx, tx, Mark{c.budget.Budget, c.subject, mark, used, c.starts, c.ends}); err != nil {
				return err
			}
		}
	}
	if reached == notified {
		return nil
	}
	return tx.Books().NotifiedBudgetWindow(ctx, c.w.id, reached)
}

// windowIDs returns the ids of the windows of entries, sorted.
func windowIDs(entries ...*entry) (ids []string) {
	for _, e := range entries {
		for i := range e.h.claims {
			ids = append(ids, e.h.claims[i].w.id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// An unsureWindow is a window in memory that may differ from its row.
type unsureWindow struct {
	a *account
	w *window
}

// doubtWindows stops holds from the windows of an entry, whose charge may have been stored by a
// commit that was not answered, until [Ledger.rereadWindows] has read the rows.
func (l *Ledger) doubtWindows(e *entry) {
	if l.shared != nil || len(e.h.claims) == 0 {
		return
	}
	e.h.a.mu.Lock()
	defer e.h.a.mu.Unlock()
	for i := range e.h.claims {
		if w := e.h.claims[i].w; !w.stale {
			w.stale = true
			w.refs++ // so that it stays in memory
			l.unsure = append(l.unsure, unsureWindow{e.h.a, w})
		}
	}
}

// rereadWindows sets the use of unsure windows to their rows. Nothing is counted twice, because
// only the goroutine of Run adds to it, and it is here. After a failure it is tried again.
func (l *Ledger) rereadWindows() {
	if len(l.unsure) == 0 {
		return
	}
	ctx := store.Promptly(context.Background())
	used := make([]stoa.Credits, len(l.unsure))
	err := l.st.Read(ctx, func(tx *store.Tx) (err error) {
		for i, u := range l.unsure {
			if used[i], _, err = tx.Books().UsedOfBudgetWindow(ctx, u.w.id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return
	}
	for i, u := range l.unsure {
		u.a.mu.Lock()
		u.w.used, u.w.stale = used[i], false
		u.w.refs--
		u.a.mu.Unlock()
	}
	l.unsure = l.unsure[:0]
}

// A BudgetUse is the state of a budget's current window for one subject.
type BudgetUse struct {
	Opening      stoa.Credits // spent in the period before the budget counted
	Spent        stoa.Credits // in the period, with the opening
	Held         stoa.Credits // by calls in progress
	Starts, Ends time.Time    // zero for a total
}

// BudgetUse returns the use of a budget by a subject. It creates no window: before the first call
// that the budget counts, the opening is everything that the subject has spent in the period.
func (l *Ledger) BudgetUse(ctx context.Context, tx *store.Tx, b stoa.Budget, subject string) (BudgetUse, error) {
	var u BudgetUse
	var err error
	if u.Starts, u.Ends, err = CurrentWindow(b, l.now()); err != nil {
		return u, err
	}
	w, found, err := tx.Books().BudgetWindow(ctx, b.AccountID, b.ID, subject, u.Starts)
	if err != nil {
		return u, err
	}
	if !found {
		u.Opening, err = tx.Books().SpentIn(ctx, b.AccountID, b.Scope, subject, u.Starts)
		u.Spent = u.Opening
		return u, err
	}
	u.Opening, u.Spent = w.Opening, w.Used()
	u.Held, err = l.HeldOf(ctx, tx, w)
	return u, err
}

// CurrentWindow returns the begin and the end of the period of a budget that contains a time; both
// are zero for a total.
func CurrentWindow(b stoa.Budget, at time.Time) (starts, ends time.Time, err error) {
	zone, err := zoneOf(b)
	if err != nil {
		return starts, ends, err
	}
	starts, ends = period(b.Period, at, zone)
	return starts, ends, nil
}

// HeldOf returns the credits of a window that calls in progress reserve.
func (l *Ledger) HeldOf(ctx context.Context, tx *store.Tx, w store.BudgetWindow) (stoa.Credits, error) {
	if l.shared != nil {
		return tx.Books().HeldOfBudgetWindow(ctx, w.ID)
	}
	a := l.account(w.AccountID)
	a.mu.Lock()
	defer a.mu.Unlock()
	if in := a.windows[windowKey{w.BudgetID, w.Subject, w.StartsAt.UnixMicro()}]; in != nil {
		return in.held, nil
	}
	return 0, nil
}

// SpentToday returns the amount that a key, with the keys of its family, has spent and holds
// today (UTC).
func (l *Ledger) SpentToday(ctx context.Context, k stoa.Key) (stoa.Credits, error) {
	var u BudgetUse
	err := l.st.Read(ctx, func(tx *store.Tx) (err error) {
		u, err = l.BudgetUse(ctx, tx, stoa.Budget{AccountID: k.AccountID, Scope: stoa.BudgetOfKey, Period: stoa.BudgetDay}, k.Root())
		return err
	})
	return u.Spent + u.Held, err
}
