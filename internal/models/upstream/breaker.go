package upstream

import (
	"sync"
	"time"
)

// The breaker's rules. A circuit opens slowly and retries quickly, because on a model with one
// route it protects the provider, not the caller; see docs/decisions/0015-write-our-own-circuit-breaker.md.
const (
	breakerSlots    = 10               // slots of the sliding window
	breakerSlot     = 2 * time.Second  // length of a slot: the window is 20 s
	breakerFailures = 10               // minimum number of failures that opens a circuit
	breakerOthers   = 3                // of these, minimum by accounts other than the one with most, since one account can provoke failures
	breakerAccounts = 1024             // maximum number of accounts tracked per route
	minCoolDown     = 1 * time.Second  // the first cool-down after opening
	maxCoolDown     = 30 * time.Second // also for a vendor's Retry-After
)

// An outcome says what an attempt (one call's request to one route, with its retries) shows
// about the health of the route.
type outcome uint8

const (
	neutral outcome = iota // nothing, because the caller disconnected or the vendor rejected this one request
	succeeded
	failed
)

// A breaker is the circuit breaker of a route: a circuit that accounts share, and one for
// each account. A circuit opens when, within the window, at least [breakerFailures] attempts
// and at least half of all attempts failed. An account's own circuit counts only its
// attempts; the shared one counts those of all accounts, and opens only if [breakerOthers] of
// the failures are of accounts other than the one with most.
//
// An account that is served is never refused because of other accounts: the shared circuit
// only refuses accounts whose own latest attempt failed or that have no known attempt. When
// its cool-down is over, each of them may probe (half-open), one attempt at a time. A failed
// probe opens the account's own circuit with twice the cool-down; after a neutral one, the
// account's next attempt may probe. A probe that receives its first text closes the circuit,
// the shared one for all.
//
// Attempts that began before the state last changed do not count.
type breaker struct {
	mu       sync.Mutex
	slot     int64 // the newest slot's number since the zero time.Time
	window   window
	shared   circuit
	accounts map[string]*member // at most breakerAccounts
}

// A member is an account at a breaker. All attempts without an account form one member, which
// counts as several accounts.
type member struct {
	circuit
	name   string
	window window
	served bool   // its latest attempt succeeded
	trial  bool   // its circuit is open because the shared one is, and it may probe
	last   int64  // the slot of its latest attempt
	shared uint64 // epoch of the shared circuit that the window and trial belong to
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

func (w *window) sum(slot int64) (good, bad int) {
	for _, s := range w {
		if slot-s.slot < breakerSlots {
			good, bad = good+int(s.good), bad+int(s.bad)
		}
	}
	return good, bad
}

// A circuit is closed, open or half-open.
type circuit struct {
	open     bool
	until    time.Time     // open: when probes may begin
	coolDown time.Duration // open: the length of this cool-down
	probing  bool          // open: a probe is in progress; not used by the shared circuit
	epoch    uint64        // number of state changes
}

// A permit allows one attempt; it must be returned with [breaker.done].
type permit struct {
	of            *member
	epoch, shared uint64 // of the member's circuit and of the shared one
	probe         bool
}

// state returns closed, open or half-open, and for open the latest end of a cool-down. A
// circuit that is open for one account is reported like one that is open for all.
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

// mayRetry reports whether an attempt may send its request again: its account would still get
// a permit, and the attempt is not a probe, which a single failure ends.
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

// acquire returns a permit for an attempt of an account, or false and the rest of the
// cool-down.
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

// decide returns whether an attempt of an account must be a probe, or is refused for the
// duration wait. m is nil for an unknown account.
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

// answered records the first text of an attempt. For a probe it closes the circuit immediately,
// because the end of the reply may be minutes away.
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

// done returns a permit with the attempt's outcome. It reports whether that opened a circuit,
// and for which account (empty for the shared circuit). pause, the vendor's Retry-After or 0,
// lengthens a cool-down that begins now, up to [maxCoolDown].
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
	// If the clock was set back, attempts count in the newest slot.
	b.slot = max(b.slot, time.Now().UnixNano()/int64(breakerSlot))
	m.window.add(b.slot, o)
	b.window.add(b.slot, o)
	if o == succeeded {
		b.succeed(m)
		return false, ""
	}
	coolDown := max(minCoolDown, pause)
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

// most returns the failures of the account with the most failures.
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

// succeed records a success. It closes the account's circuit and, after its cool-down, the
// shared one, and discards the failures that opened them.
func (b *breaker) succeed(m *member) {
	m.served = true
	if b.shared.open && !time.Now().Before(b.shared.until) {
		b.shared.close()
		b.window = window{}
		b.refresh(m)
	}
	if m.open {
		w, other := &b.window, &m.window
		for i := range w {
			if s := &w[i]; s.slot == other[i].slot {
				s.bad -= min(other[i].bad, s.bad)
			}
		}
		m.window = window{}
		m.close()
	}
}

// member returns an account's member. A new one beyond the maximum replaces one that has been
// unused longer.
func (b *breaker) member(account string) *member {
	m := b.accounts[account]
	if m == nil {
		if len(b.accounts) >= breakerAccounts {
			var oldest *member
			seen := 0
			for _, m := range b.accounts { // a sample, since the order is random
				if oldest == nil || m.last < oldest.last {
					oldest = m
				}
				if seen++; seen == 16 {
					break
				}
			}
			delete(b.accounts, oldest.name)
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

// refresh updates a member to the state of the shared circuit.
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

func (c *circuit) trip(coolDown time.Duration) {
	c.coolDown = min(coolDown, maxCoolDown)
	c.until = time.Now().Add(c.coolDown)
	c.open, c.probing = true, false
	c.epoch++
}

func (c *circuit) close() {
	c.open, c.probing = false, false
	c.epoch++
}
