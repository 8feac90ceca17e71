// Package requestlog stores a row for each call of the model endpoint: it collects the
// outcomes of calls in memory and writes them in batches, off the path of the call.
//
// It never delays a call, and never stores a text of a caller or a model. Rows that arrive faster than they can be
// written are dropped, counted and reported. Package store contains the SQL, package retention removes old
// rows. Start at [Log.Add] and [Log.Run].
//
// Rows are not written in the transaction of the charge, because refused calls have none. They
// are collected in a ring of up to 4,096 slots and written in batches at low priority. An account
// has at most as many rows in the ring as slots are free, so that a flood only drops rows of its
// own account. The list is in the order of writing: `created_at` comes from a row that a
// batch locks until its commit, so that nothing is missed behind a cursor at the newest row.
// See docs/decisions/0056-write-the-request-log-apart-from-charges.md.
package requestlog

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	queued    = 4096        // maximum rows in memory, for all accounts
	batch     = 128         // maximum rows in a transaction
	gather    = time.Second // maximum wait for a batch to fill
	again     = time.Second // pause after a failed transaction
	farewell  = 5 * time.Second
	tellEvery = time.Minute // minimum interval of log lines about dropped rows
	maxKnown  = 10_000      // maximum accounts whose dropped rows are counted separately, so that the counts stay small while nothing can be written

	maxName = 128 // maximum bytes of a stored name
)

// Keeps reports whether the requests of an operation are stored: those that call a model in any format.
func Keeps(route string) bool {
	switch route {
	case "POST /api/v1/responses", "POST /api/v1/chat/completions", "POST /api/v1/messages", "POST /api/v1/models/{model}:generateContent", "POST /api/v1/models/{model}:streamGenerateContent":
		return true
	}
	return false
}

// A Log is the request log of a process. It is safe for concurrent use.
type Log struct {
	st   *store.Store
	keep func() (on bool, most int)
	log  *slog.Logger

	mu      sync.Mutex
	ring    []stoa.Request // of queued slots at most
	first   int            // index of the oldest row
	waiting int            // number of rows
	by      map[string]int // number of waiting rows by account
	dropped map[string]store.Dropped
	noting  map[string]store.Dropped // counts in the current transaction
	untold  store.Dropped            // counts since the last log line
	wake    chan struct{}            // signalled when the first row waits
	full    chan struct{}            // signalled when a batch waits

	counting sync.RWMutex // held while counts of dropped rows move from memory into the store, so that no reader sees them twice

	writing sync.Mutex // held while a batch is written; guards the fields below
	rows    [batch]stoa.Request
	n       int  // number of removed but unwritten rows
	doubt   bool // the last transaction of these rows failed, or seemed to
	scratch []any
	told    time.Time
}

// New returns the log of a store. keep returns whether rows are stored and the maximum of an account. It is called
// repeatedly, because both can change.
func New(st *store.Store, keep func() (on bool, most int), log *slog.Logger) *Log {
	return &Log{
		st: st, keep: keep, log: log, by: map[string]int{}, dropped: map[string]store.Dropped{},
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1),
	}
}

// Add stores the outcome of a request if it was a call of the model endpoint with a known key. It copies the data it
// needs.
//
// An account may have as many waiting rows as slots are free: a single account half of the queue, a second one a third
// and so on, so that a flood only drops rows of its own account. Refused requests may use half as many, because they
// are free for the caller.
func (l *Log) Add(r *stoa.Request) {
	if !Keeps(r.Route) || r.AccountID == "" {
		return
	}
	if on, _ := l.keep(); !on {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	mine, free := l.by[r.AccountID], queued-l.waiting
	if r.Refused() {
		free /= 2 // so that the account's other requests still find slots
	}
	if mine >= free {
		l.drop(r.AccountID, store.Dropped{Count: 1, First: r.StartedAt, Last: r.StartedAt})
		return
	}
	l.by[r.AccountID] = mine + 1
	if l.waiting == len(l.ring) { // grown by doubling, because all slots take more than a megabyte
		ring := make([]stoa.Request, max(2*len(l.ring), batch))
		n := copy(ring, l.ring[l.first:])
		copy(ring[n:], l.ring[:l.first])
		l.ring, l.first = ring, 0
	}
	row := &l.ring[(l.first+l.waiting)%len(l.ring)]
	*row = *r
	row.Asked, row.Param = name(r.Asked), name(r.Param)
	if l.waiting++; l.waiting == 1 {
		signal(l.wake)
	} else if l.waiting == batch {
		signal(l.full)
	}
}

// drop counts rows that are not stored. l.mu must be held.
func (l *Log) drop(account string, d store.Dropped) {
	l.untold.Add(d)
	if _, known := l.dropped[account]; !known && len(l.dropped) >= maxKnown {
		return
	}
	sum := l.dropped[account]
	sum.Add(d)
	l.dropped[account] = sum
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// name returns a text if it looks like the name of a model or a member, otherwise "", because a caller may send any
// text as a name, and texts of callers are not stored.
func name(s string) string {
	if len(s) > maxName {
		return ""
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '_', c == '.', c == ':', c == '/', c == '@', c == '[', c == ']':
		default:
			return ""
		}
	}
	return s
}

// Dropped calls read with the counts of an account's dropped rows, or of all, that are not yet in the store. They do not
// change while read runs, so that it can add the counts in the store without counting a row twice, unless it is unknown
// whether the last transaction was committed.
func (l *Log) Dropped(accountID string, read func(store.Dropped) error) error {
	l.counting.RLock()
	defer l.counting.RUnlock()
	return read(l.unnoted(accountID))
}

// unnoted returns the counts of dropped rows that are only in memory.
func (l *Log) unnoted(accountID string) (d store.Dropped) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, all := range []map[string]store.Dropped{l.dropped, l.noting} {
		for account, one := range all {
			if accountID == "" || account == accountID {
				d.Add(one)
			}
		}
	}
	return d
}

// Run writes the rows of [Log.Add], at most a second later, until ctx ends; then it writes the rest.
func (l *Log) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-l.wake:
		case <-ctx.Done():
		}
		l.pause(ctx, gather, l.full)
		for l.Flush(ctx) != nil && ctx.Err() == nil {
			l.pause(ctx, again, nil)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := l.Flush(last); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.log.Warn("rows of the request log could not be written at the end", "requests", l.n+l.waiting, "error", err)
	}
	return nil
}

// pause waits until the time is over, early is signalled or ctx ends.
func (l *Log) pause(ctx context.Context, d time.Duration, early <-chan struct{}) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-early:
	case <-ctx.Done():
	}
}

// Flush writes all waiting rows.
func (l *Log) Flush(ctx context.Context) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	defer l.tell()
	for l.next() {
		if err := l.commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// next moves the next rows and the counts of dropped ones out of the queue, unless rows of a failed attempt are
// left. It reports whether there is something to write.
func (l *Log) next() bool {
	if l.doubt {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.n < batch && l.waiting > 0 {
		row := &l.ring[l.first]
		if l.by[row.AccountID]--; l.by[row.AccountID] == 0 {
			delete(l.by, row.AccountID)
		}
		l.rows[l.n] = *row
		*row = stoa.Request{} // so that the ring does not retain its texts
		l.first = (l.first + 1) % len(l.ring)
		l.waiting--
		l.n++
	}
	if len(l.dropped) > 0 {
		l.noting, l.dropped = l.dropped, map[string]store.Dropped{}
	}
	return l.n > 0 || len(l.noting) > 0
}

// commit writes the rows of next and the counts of dropped ones. After a failure it keeps the rows if a retry may
// succeed.
func (l *Log) commit(ctx context.Context) error {
	_, most := l.keep()
	if len(l.noting) > 0 {
		l.counting.Lock()
		defer l.counting.Unlock()
	}
	err := l.st.WriteLow(ctx, func(tx *store.Tx) error {
		if l.doubt && l.n > 0 { // checked, because the failed transaction may have been committed
			if there, err := tx.Operations().HasRequest(ctx, l.rows[0].ID); err != nil || there {
				return err
			}
		}
		for _, account := range slices.Sorted(maps.Keys(l.noting)) {
			if err := tx.Operations().AddDropped(ctx, account, l.noting[account]); err != nil {
				return err
			}
		}
		return tx.Operations().InsertRequests(ctx, l.rows[:l.n], most, &l.scratch)
	})
	if l.doubt = err != nil && (db.IsPassing(err) || stoa.CodeOf(err) != stoa.CodeInternal || ctx.Err() != nil); l.doubt {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.log.Error("rows of the request log could not be written and are dropped", "requests", l.n, "error", err)
		for account, d := range l.noting {
			l.drop(account, d)
		}
		for i := range l.rows[:l.n] {
			r := &l.rows[i]
			l.drop(r.AccountID, store.Dropped{Count: 1, First: r.StartedAt, Last: r.StartedAt})
		}
	}
	l.noting = nil
	clear(l.rows[:l.n])
	clear(l.scratch[:cap(l.scratch)])
	l.n = 0
	return err
}

// tell writes a log line about dropped rows, at most one a minute, so that a flood does not fill the log.
func (l *Log) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.untold.Count == 0 || time.Since(l.told) < tellEvery {
		return
	}
	l.log.Warn("rows of the request log were dropped, because they arrived faster than they could be written", "requests", l.untold.Count, "since", l.untold.First)
	l.untold, l.told = store.Dropped{}, time.Now()
}
