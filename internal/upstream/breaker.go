package upstream

import (
	"sync"
	"time"
)

// The breaker's rules. They are constants, not settings; see
// docs/decisions/0015-write-our-own-circuit-breaker.md for why a breaker of our own.
const (
	breakerSlots    = 10               // slots of the sliding window
	breakerSlot     = 2 * time.Second  // length of a slot: the window is 20 s
	breakerFailures = 10               // fewer failures than this never open a circuit
	breakerOthers   = 3                // of them: by other accounts than the one with most, or the shared circuit stays closed
	breakerAccounts = 1024             // accounts that a route remembers
	minCoolDown     = 1 * time.Second  // the first cool-down after opening
	maxCoolDown     = 30 * time.Second // also caps what a vendor's Retry-After asks for
)

// An outcome is what an attempt (one call's request to one route, with its
// retries) shows about the health of the route.
type outcome uint8

const (
	neutral outcome = iota // nothing: the caller disconnected, or the vendor rejected this one request
	succeeded
	failed
)

// A breaker is the circuit breaker of a route: a circuit that accounts share, and
// one for each account. A circuit opens when, within the window, at least
// [breakerFailures] attempts and at least half of all attempts failed: an account's
// own counts its attempts, the shared one those of all, and opens only if
// [breakerOthers] of the failures are those of other accounts than the one with most.
//
// What others do never refuses an account that is served: the shared circuit refuses
// accounts whose own latest attempt failed or of which nothing is known. When its
// cool-down is over, each of them may probe (half-open), one attempt at a time. An
// account's probe that fails opens its own circuit again with twice the cool-down,
// and a neutral one lets its next attempt probe. A probe that gets its first text
// closes the circuit, the shared one for all.
//
// Attempts that began before the state last changed no longer count.
type breaker struct {
	mu       sync.Mutex
	slot     int64 // the newest slot's number since the epoch of time.Time
	window   window
	shared   circuit
	accounts map[string]*member // at most breakerAccounts
}

// A member is an account at a breaker. Attempts without an account are one member,
// which counts as several accounts do.
type member struct {
	circuit
	name   string
	window window
	served bool   // its latest attempt succeeded
	trial  bool   // its circuit is open because the shared one is, and it may probe
	last   int64  // the slot of its latest attempt
	shared uint64 // the epoch of the shared circuit that the window and trial belong to
}

// A window counts the attempts of the latest slots.
type window [breakerSlots]struct {
	slot      int64
	good, bad int32
}

func (w *window) add(slot int64, o outcome) {
	s := &w[slot%breakerSlots]
	if s.slot != slot {
		s.slot, s.good, s.bad = slot, 0, 0
	}
	if o == succeeded {
		s.good++
	} else {
		s.bad++
	}
}

// sum returns the counts of the window that ends with a slot.
func (w *window) sum(slot int64) (good, bad int) {
	for _, s := range w {
		if slot-s.slot < breakerSlots {
			good, bad = good+int(s.good), bad+int(s.bad)
		}
	}
	return good, bad
}

// subtract removes the failures that other counted.
func (w *window) subtract(other *window) {
	for i := range w {
		if s := &w[i]; s.slot == other[i].slot {
			s.bad -= min(other[i].bad, s.bad)
		}
	}
}

// A circuit is closed, open or half-open.
type circuit struct {
	open     bool
	until    time.Time     // open: when probes may begin
	coolDown time.Duration // open: the length of this cool-down
	probing  bool          // open: a probe is under way; not used by the shared one
	epoch    uint64        // counts changes of state
}

// A permit allows one attempt; it must be returned with [breaker.done].
type permit struct {
	of            *member
	epoch, shared uint64 // of the member's circuit and of the shared one
	probe         bool
}

// state returns closed, open or half-open, and for open the end of the cool-down
// that ends last. A circuit that is open for one account is reported like one open
// for all.
func (b *breaker) state() (name string, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := b.shared.open
	if open {
		until = b.shared.until
	}
	for _, m := range b.accounts {
		if b.refresh(m); m.open {
			open = true
			if m.until.After(until) {
				until = m.until
			}
		}
	}
	switch {
	case !open:
		return "closed", time.Time{}
	case time.Now().Before(until):
		return "open", until
	}
	return "half-open", time.Time{}
}

// mayRetry reports whether an attempt may send its request again: its account would
// still get a permit, and the attempt is no probe, for which one failure is enough.
func (b *breaker) mayRetry(p permit) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refresh(p.of)
	if p.probe || p.epoch != p.of.epoch {
		return false
	}
	probe, wait := b.decide(p.of)
	return !probe && wait == 0
}

// ready reports whether acquire would succeed now.
func (b *breaker) ready(account string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.accounts[account]
	if m != nil {
		b.refresh(m)
	}
	_, wait := b.decide(m)
	return wait == 0
}

// acquire returns a permit for an attempt of an account, or false and what is left
// of the cool-down.
func (b *breaker) acquire(account string) (p permit, ok bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.member(account)
	probe, wait := b.decide(m)
	if wait > 0 {
		return permit{}, false, wait
	}
	if probe {
		if !m.open {
			m.open, m.trial, m.until, m.coolDown = true, true, b.shared.until, b.shared.coolDown
			m.epoch++
		}
		m.probing = true
	}
	return permit{m, m.epoch, b.shared.epoch, probe}, true, 0
}

// decide returns whether an attempt of an account (nil: nothing is known of it) is
// refused, for as long as wait says, or has to be a probe.
func (b *breaker) decide(m *member) (probe bool, wait time.Duration) {
	c := &b.shared
	switch {
	case m != nil && m.open:
		c = &m.circuit
	case !c.open, m != nil && m.served:
		return false, 0
	}
	if wait := time.Until(c.until); wait > 0 {
		return false, wait
	}
	if c.probing {
		return false, time.Second
	}
	return true, 0
}

// answered records that the attempt got its first text. It closes the circuit for a
// probe at once, because the end of the reply may be minutes away.
func (b *breaker) answered(p *permit) {
	if !p.probe {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refresh(p.of)
	if p.epoch == p.of.epoch {
		b.succeed(p.of)
	}
	p.probe, p.epoch, p.shared = false, p.of.epoch, b.shared.epoch
}

// done returns a permit with the attempt's outcome and reports whether that opened
// a circuit, and for which account alone (empty: the shared one). pause, the vendor's
// Retry-After (0: none), lengthens a cool-down that begins now, up to [maxCoolDown].
func (b *breaker) done(p permit, o outcome, pause time.Duration) (opened bool, account string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := p.of
	b.refresh(m)
	if o == failed {
		m.served = false
	}
	if p.epoch != m.epoch {
		return false, ""
	}
	if p.probe {
		m.probing = false
		switch o {
		case succeeded:
			b.succeed(m)
		case failed:
			m.trip(max(2*m.coolDown, pause))
			return !m.trial, m.name
		}
		return false, ""
	}
	if o == neutral || p.shared != b.shared.epoch {
		return false, ""
	}
	b.advance()
	m.window.add(b.slot, o)
	b.window.add(b.slot, o)
	if o == succeeded {
		b.succeed(m)
		return false, ""
	}
	return b.judge(m, max(minCoolDown, pause))
}

// judge opens the shared circuit or an account's, whose attempt has failed, if the
// window has enough failures.
func (b *breaker) judge(m *member, coolDown time.Duration) (opened bool, account string) {
	if good, bad := b.window.sum(b.slot); !b.shared.open && enough(good, bad) && bad-b.most() >= breakerOthers {
		b.shared.trip(coolDown)
		return true, ""
	}
	if enough(m.window.sum(b.slot)) {
		m.trip(coolDown)
		return true, m.name
	}
	return false, ""
}

func enough(good, bad int) bool { return bad >= breakerFailures && bad >= good }

// most returns the failures of the account that has most.
func (b *breaker) most() (most int) {
	for name, m := range b.accounts {
		if name == "" || m.shared != b.shared.epoch {
			continue
		}
		_, bad := m.window.sum(b.slot)
		most = max(most, bad)
	}
	return most
}

// succeed records a success. It closes the account's circuit, and the shared one
// after its cool-down, and forgets the failures that opened it.
func (b *breaker) succeed(m *member) {
	m.served = true
	if b.shared.open && !time.Now().Before(b.shared.until) {
		b.shared.close()
		b.window = window{}
		b.refresh(m)
	}
	if m.open {
		b.window.subtract(&m.window)
		m.window = window{}
		m.close()
	}
}

// member returns an account's member; a new one takes the place of one that has not
// been used for longer when there are too many.
func (b *breaker) member(account string) *member {
	m := b.accounts[account]
	if m == nil {
		if len(b.accounts) >= breakerAccounts {
			b.evict()
		}
		if b.accounts == nil {
			b.accounts = map[string]*member{}
		}
		m = &member{name: account, shared: b.shared.epoch}
		b.accounts[account] = m
	}
	b.refresh(m)
	m.last = time.Now().UnixNano() / int64(breakerSlot)
	return m
}

// evict forgets the oldest of some accounts.
func (b *breaker) evict() {
	var oldest *member
	seen := 0
	for _, m := range b.accounts { // in random order
		if oldest == nil || m.last < oldest.last {
			oldest = m
		}
		if seen++; seen == 16 {
			break
		}
	}
	delete(b.accounts, oldest.name)
}

// refresh brings a member up to the state of the shared circuit.
func (b *breaker) refresh(m *member) {
	if m.shared == b.shared.epoch {
		return
	}
	m.shared, m.window = b.shared.epoch, window{}
	if m.trial {
		m.trial = false
		m.close()
	}
}

// advance moves the window to now.
func (b *breaker) advance() {
	// If the clock was set back, attempts count in the newest slot.
	b.slot = max(b.slot, time.Now().UnixNano()/int64(breakerSlot))
}

// trip opens the circuit for a cool-down.
func (c *circuit) trip(coolDown time.Duration) {
	c.coolDown = min(coolDown, maxCoolDown)
	c.until = time.Now().Add(c.coolDown)
	c.open, c.probing = true, false
	c.epoch++
}

// close closes the circuit.
func (c *circuit) close() {
	c.open, c.probing = false, false
	c.epoch++
}
