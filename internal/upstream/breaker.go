package upstream

import (
	"sync"
	"time"
)

// The breaker's rules. They are constants, not settings; see
// docs/decisions/0015-own-circuit-breaker.md for why a breaker of our own.
const (
	breakerSlots    = 10               // slots of the sliding window
	breakerSlot     = 2 * time.Second  // length of a slot: the window is 20 s
	breakerFailures = 10               // fewer failures than this never open the circuit
	breakerOthers   = 3                // of them: by other accounts than the one with most, or it opens for that one alone
	breakerAccounts = 64               // accounts whose failures are counted apart in one slot
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

// A breaker is the circuit breaker of a route. While the circuit is closed every
// attempt is permitted; it opens when, within the window, at least
// [breakerFailures] attempts and at least half of all attempts failed. While it
// is open no attempt is permitted until the cool-down is over; then one attempt
// at a time is permitted as a probe (half-open). A probe that gets its first text
// closes the circuit, one that fails opens it again with twice the cool-down, and
// a neutral one lets the next attempt probe.
//
// One account alone cannot open the circuit for the others: unless at least
// [breakerOthers] of the failures are those of other accounts, the circuit opens
// for the account with most of them, and all others keep theirs closed. Attempts
// without an account count as those of others.
//
// Attempts that began before the state last changed no longer count.
type breaker struct {
	mu      sync.Mutex
	slots   [breakerSlots]slot
	slot    int64 // the newest slot's number since the epoch of time.Time
	all     circuit
	one     circuit // of account alone
	account string
}

// A slot counts the attempts of a part of the window.
type slot struct {
	good, bad int
	by        map[string]int // of bad: by account, as far as it was counted apart
}

// A circuit is closed, open or half-open.
type circuit struct {
	open     bool
	until    time.Time     // open: when probes may begin
	coolDown time.Duration // open: the length of this cool-down
	probing  bool          // open: a probe is under way
	epoch    uint64        // counts changes of state
}

// A permit allows one attempt; it must be returned with [breaker.done].
type permit struct {
	account string
	circuit *circuit // the one it was issued by
	epoch   uint64
	probe   bool
}

// state returns closed, open or half-open, and for open the end of the cool-down.
// A circuit that is open for one account is reported like one open for all.
func (b *breaker) state() (name string, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &b.all
	if !c.open {
		c = &b.one
	}
	switch {
	case !c.open:
		return "closed", time.Time{}
	case time.Now().Before(c.until):
		return "open", c.until
	}
	return "half-open", time.Time{}
}

// of returns the circuit that decides about an account's attempts.
func (b *breaker) of(account string) *circuit {
	if !b.all.open && b.one.open && b.account == account {
		return &b.one
	}
	return &b.all
}

// mayRetry reports whether an attempt may send its request again: the state has not
// changed since the permit was issued, and the attempt is no probe, for which one
// failure is enough.
func (b *breaker) mayRetry(p permit) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.circuit == b.of(p.account) && p.epoch == p.circuit.epoch && !p.probe
}

// ready reports whether acquire would succeed now.
func (b *breaker) ready(account string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.of(account)
	return !c.open || !c.probing && !time.Now().Before(c.until)
}

// acquire returns a permit for an attempt of an account, or false and what is left
// of the cool-down.
func (b *breaker) acquire(account string) (p permit, ok bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.of(account)
	if !c.open {
		return permit{account, c, c.epoch, false}, true, 0
	}
	if wait := time.Until(c.until); wait > 0 {
		return permit{}, false, wait
	}
	if c.probing {
		return permit{}, false, time.Second
	}
	c.probing = true
	return permit{account, c, c.epoch, true}, true, 0
}

// answered records that the attempt got its first text. It closes the circuit for a
// probe at once, because the end of the reply may be minutes away.
func (b *breaker) answered(p *permit) {
	if !p.probe {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.epoch == p.circuit.epoch {
		b.close(p.circuit)
	}
	p.probe, p.circuit = false, &b.all
	p.epoch = p.circuit.epoch
}

// done returns a permit with the attempt's outcome and reports whether that opened
// the circuit, and for which account alone (empty: for all). pause, the vendor's
// Retry-After (0: none), lengthens a cool-down that begins now, up to [maxCoolDown].
func (b *breaker) done(p permit, o outcome, pause time.Duration) (opened bool, account string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := p.circuit
	if p.epoch != c.epoch {
		return false, ""
	}
	if p.probe {
		c.probing = false
		switch o {
		case succeeded:
			b.close(c)
		case failed:
			c.trip(max(2*c.coolDown, pause))
			if c == &b.one {
				account = b.account
			}
			return true, account
		}
		return false, ""
	}
	if o == neutral || c != b.of(p.account) {
		return false, ""
	}
	b.advance()
	s := &b.slots[b.slot%breakerSlots]
	if o == succeeded {
		s.good++
		return false, ""
	}
	s.fail(p.account)
	return b.judge(max(minCoolDown, pause))
}

// judge opens the circuit if the window has enough failures.
func (b *breaker) judge(coolDown time.Duration) (opened bool, account string) {
	var good, bad, most int
	by := map[string]int{}
	for _, s := range b.slots {
		good, bad = good+s.good, bad+s.bad
		for a, n := range s.by {
			if by[a] += n; by[a] > most {
				most, account = by[a], a
			}
		}
	}
	if bad < breakerFailures || bad < good {
		return false, ""
	}
	if most > 0 && bad-most < breakerOthers {
		b.one.trip(coolDown)
		b.account = account
		return true, account
	}
	b.all.trip(coolDown)
	return true, ""
}

func (s *slot) fail(account string) {
	s.bad++
	if _, known := s.by[account]; account == "" || !known && len(s.by) == breakerAccounts {
		return
	}
	if s.by == nil {
		s.by = map[string]int{}
	}
	s.by[account]++
}

// advance moves the window to now and clears the slots that have expired.
func (b *breaker) advance() {
	now := time.Now().UnixNano() / int64(breakerSlot)
	if now < b.slot {
		return // the clock was set back: count in the newest slot
	}
	for range min(now-b.slot, breakerSlots) {
		b.slot++
		b.slots[b.slot%breakerSlots] = slot{}
	}
	if b.slot < now {
		b.slot, b.slots = now, [breakerSlots]slot{}
	}
}

// trip opens the circuit for a cool-down.
func (c *circuit) trip(coolDown time.Duration) {
	c.coolDown = min(coolDown, maxCoolDown)
	c.until = time.Now().Add(c.coolDown)
	c.open, c.probing = true, false
	c.epoch++
}

// close closes a circuit and forgets the failures that opened it.
func (b *breaker) close(c *circuit) {
	if c == &b.one {
		for i := range b.slots {
			s := &b.slots[i]
			s.bad -= s.by[b.account]
			delete(s.by, b.account)
		}
	} else {
		b.slots = [breakerSlots]slot{}
		b.one.open, b.one.probing = false, false
		b.one.epoch++
	}
	c.open, c.probing = false, false
	c.epoch++
}
