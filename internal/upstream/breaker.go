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
	minCoolDown     = 1 * time.Second  // the first cool-down after opening
	maxCoolDown     = 30 * time.Second // also caps what a vendor's Retry-After asks for
)

// An outcome is what an attempt (one call's request to one route, with its
// retries) shows about the health of the route.
type outcome uint8

const (
	neutral outcome = iota // nothing: the caller disconnected, or the caller's input was at fault
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
// Attempts that began before the state last changed no longer count.
type breaker struct {
	mu       sync.Mutex
	slots    [breakerSlots]struct{ good, bad int }
	slot     int64 // the newest slot's number since the epoch of time.Time
	open     bool
	until    time.Time     // open: when probes may begin
	coolDown time.Duration // open: the length of this cool-down
	probing  bool          // open: a probe is under way
	epoch    uint64        // counts changes of state
}

// A permit allows one attempt; it must be returned with [breaker.done].
type permit struct {
	epoch uint64
	probe bool
}

// state returns closed, open or half-open, and for open the end of the cool-down.
func (b *breaker) state() (name string, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.open:
		return "closed", time.Time{}
	case time.Now().Before(b.until):
		return "open", b.until
	}
	return "half-open", time.Time{}
}

// mayRetry reports whether an attempt may send its request again: the state has not
// changed since the permit was issued, and the attempt is no probe, for which one
// failure is enough.
func (b *breaker) mayRetry(p permit) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.epoch == b.epoch && !p.probe
}

// ready reports whether acquire would succeed now.
func (b *breaker) ready() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.open || !b.probing && !time.Now().Before(b.until)
}

// acquire returns a permit, or false and what is left of the cool-down.
func (b *breaker) acquire() (p permit, ok bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return permit{epoch: b.epoch}, true, 0
	}
	if wait := time.Until(b.until); wait > 0 {
		return permit{}, false, wait
	}
	if b.probing {
		return permit{}, false, time.Second
	}
	b.probing = true
	return permit{epoch: b.epoch, probe: true}, true, 0
}

// answered records that the attempt got its first text. It closes the circuit for a
// probe at once, because the end of the reply may be minutes away.
func (b *breaker) answered(p *permit) {
	if !p.probe {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.epoch == b.epoch {
		b.close()
	}
	p.probe, p.epoch = false, b.epoch
}

// done returns a permit with the attempt's outcome and reports whether that opened
// the circuit. pause, the vendor's Retry-After (0: none), lengthens a cool-down
// that begins now, up to [maxCoolDown].
func (b *breaker) done(p permit, o outcome, pause time.Duration) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.epoch != b.epoch {
		return false
	}
	if p.probe {
		b.probing = false
		switch o {
		case succeeded:
			b.close()
		case failed:
			b.trip(max(2*b.coolDown, pause))
			return true
		}
		return false
	}
	if o == neutral {
		return false
	}
	b.advance()
	s := &b.slots[b.slot%breakerSlots]
	if o == succeeded {
		s.good++
		return false
	}
	s.bad++
	var good, bad int
	for _, s := range b.slots {
		good, bad = good+s.good, bad+s.bad
	}
	if bad < breakerFailures || bad < good {
		return false
	}
	b.trip(max(minCoolDown, pause))
	return true
}

// advance moves the window to now and clears the slots that have expired.
func (b *breaker) advance() {
	now := time.Now().UnixNano() / int64(breakerSlot)
	if now < b.slot {
		return // the clock was set back: count in the newest slot
	}
	for range min(now-b.slot, breakerSlots) {
		b.slot++
		b.slots[b.slot%breakerSlots] = struct{ good, bad int }{}
	}
	if b.slot < now {
		b.slot, b.slots = now, [breakerSlots]struct{ good, bad int }{}
	}
}

// trip opens the circuit for a cool-down.
func (b *breaker) trip(coolDown time.Duration) {
	b.coolDown = min(coolDown, maxCoolDown)
	b.until = time.Now().Add(b.coolDown)
	b.open, b.probing = true, false
	b.epoch++
}

func (b *breaker) close() {
	b.open, b.probing = false, false
	b.slots = [breakerSlots]struct{ good, bad int }{}
	b.epoch++
}
