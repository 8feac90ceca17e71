package billing

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoa/internal/ratelimit"
	"stoa/internal/stoa"
)

// A peerDay is the amount that another node has charged to a book on a day, and holds.
type peerDay struct {
	node        string
	day         int64
	spent, held stoa.Credits
}

// spentElsewhere returns the amount that other nodes have charged to a book on a day and
// hold: for each node the larger of its rows when they were read and its own report. The
// caller must hold a.mu.
func (l *Ledger) spentElsewhere(a *account, book string, day int64) (sum stoa.Credits) {
	var said []peerDay
	if l.shared != nil {
		if peers := l.shared.peers.Load(); peers != nil {
			said = (*peers)[book]
		}
	}
	for _, b := range a.before[book] {
		spent := b.spent
		for _, p := range said {
			if p.node == b.node && p.day == day {
				spent = max(spent, p.spent)
			}
		}
		sum += spent
	}
	for _, p := range said {
		sum += p.held
		known := slices.ContainsFunc(a.before[book], func(b peerDay) bool { return b.node == p.node })
		if !known && p.day == day {
			sum += p.spent
		}
	}
	return sum
}

// SpentToday returns the amount that a key, with the keys that share its book, has spent and
// holds today (UTC).
func (l *Ledger) SpentToday(ctx context.Context, k stoa.Key) (stoa.Credits, error) {
	a, day := l.account(k.AccountID), dayOf(time.Now())
	a.mu.Lock()
	unread := a.beforeDay != day
	a.mu.Unlock()
	if unread {
		if err := l.loadDay(ctx, a, day); err != nil {
			return 0, err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.key(k.Root(), day)
	return l.spentElsewhere(a, k.Root(), day) + own.spent + own.held, nil
}

// noteCapped records a book with a daily limit, for [Ledger.Counts]. The caller must hold
// a.mu.
func (l *Ledger) noteCapped(book string, a *account, k *keyDay, limit stoa.Credits) {
	if k.limit != 0 {
		k.limit = limit
		return
	}
	k.limit = limit
	l.shared.cappedMu.Lock()
	defer l.shared.cappedMu.Unlock()
	l.shared.capped[book] = a
}

// heldBy is the prefix of the name of a book's holds among the counts of a node; the name of
// its spending begins with the day.
const heldBy = "held"

// Counts returns the amounts that this node has charged today to books with a daily limit,
// and holds: at most most counts, those closest to their limits. Other nodes must receive
// them through [Ledger.SetPeers].
func (l *Ledger) Counts(now time.Time, most int) []ratelimit.Count {
	if l.shared == nil {
		return nil
	}
	l.shared.cappedMu.Lock()
	capped := maps.Clone(l.shared.capped)
	l.shared.cappedMu.Unlock()
	today := dayOf(now)
	var list []ratelimit.Count
	for book, a := range capped {
		a.mu.Lock()
		k := a.keys[book]
		if k == nil || k.day < today && k.held == 0 {
			if k != nil {
				k.limit = 0
			}
			l.shared.cappedMu.Lock()
			delete(l.shared.capped, book)
			l.shared.cappedMu.Unlock()
			a.mu.Unlock()
			continue
		}
		if k.spent > 0 {
			list = append(list, ratelimit.Count{Name: strconv.FormatInt(k.day, 10) + " " + book, Count: int64(k.spent), Limit: int64(k.limit)})
		}
		if k.held > 0 {
			list = append(list, ratelimit.Count{Name: heldBy + " " + book, Count: int64(k.held), Limit: int64(k.limit)})
		}
		a.mu.Unlock()
	}
	return ratelimit.Nearest(list, most)
}

// SetPeers sets the amounts that other nodes have charged today and hold, by node. After a
// node is gone, its last charges are read from the rows.
func (l *Ledger) SetPeers(byNode map[string]map[string]int64) {
	if l.shared == nil {
		return
	}
	peers := map[string][]peerDay{}
	for node, counts := range byNode {
		for name, n := range counts {
			kind, book, ok := strings.Cut(name, " ")
			if !ok || n <= 0 {
				continue
			}
			list := peers[book]
			i := slices.IndexFunc(list, func(p peerDay) bool { return p.node == node })
			if i < 0 {
				i, list = len(list), append(list, peerDay{node: node})
			}
			if kind == heldBy {
				list[i].held = stoa.Credits(n)
			} else if day, err := strconv.ParseInt(kind, 10, 64); err == nil {
				list[i].day, list[i].spent = day, stoa.Credits(n)
			}
			peers[book] = list
		}
	}
	l.shared.peers.Store(&peers)
	gone := false
	for node := range l.shared.nodes {
		gone = gone || byNode[node] == nil
	}
	l.shared.nodes = map[string]bool{}
	for node := range byNode {
		l.shared.nodes[node] = true
	}
	if !gone {
		return
	}
	l.accounts.Range(func(_, v any) bool {
		a := v.(*account)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.beforeDay = 0
		return true
	})
}
