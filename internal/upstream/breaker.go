package upstream

import (
	"sync"
	"time"
)

// The breaker's rules. They are constants because nobody has yet had a reason
// to choose others; what an operator may choose is in [Config].
const (
	breakerSlots    = 10               // the window is counted in this many slots
	breakerSlot     = 2 * time.Second  // so it looks back over twenty seconds
	breakerFailures = 10               // fewer failures than this never open it
	breakerShortest = 1 * time.Second  // the first rest after opening
	breakerLongest  = 30 * time.Second // no rest is longer, whatever a vendor asks for
)

// An outcome is what a visit says about the route it was made to. A visit is all
// that one call does on one route: an attempt and its retries.
type outcome uint8

const (
	neutral outcome = iota // nothing: the caller left, or the caller's input was at fault
	succeeded
	failed
)

// A breaker rests a route that keeps failing. Closed, it lets everything pass
// and opens when, within its window, at least [breakerFailures] visits and at
// least half of all failed. Open, it refuses until its rest is over; then one
// visit at a time may pass as a probe. A probe that gets an answer closes it, one
// that fails opens it again for twice as long, and one that says nothing (the
// caller left) leaves the place to the next.
//
// Visits that began before the state last changed no longer count.
type breaker struct {
	mu      sync.Mutex
	slots   [breakerSlots]struct{ good, bad int }
	slot    int64 // the newest slot's number since the epoch of time.Time
	open    bool
	until   time.Time     // open: when probes may begin
	rest    time.Duration // open: how long this rest is
	probing bool          // open: a probe is under way
	epoch   uint64        // counts changes of state
}

// A permit is the right to make one visit; it must be given back with
// [breaker.done].
type permit struct {
	epoch uint64
	probe bool
}

// state is the breaker's name for an operator's page.
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

// stands reports whether nothing has happened to the breaker since the permit was
// given, and a retry is not a probe's: one failure of a probe is enough.
func (b *breaker) stands(p permit) bool {
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

// acquire asks for a permit. Refused, it says how long the rest still takes.
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

// answered says that the visit got its first text: a probe need not run to
// its end, which may be minutes away, to show that the route works again.
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

// done gives a permit back with what the visit showed. The vendor's own wish
// for a pause, if it told one, lengthens a rest that begins now.
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
			b.trip(max(2*b.rest, pause))
			return true
		}
		return false
	}
	if o == neutral {
		return false
	}
	b.turn()
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
	b.trip(max(breakerShortest, pause))
	return true
}

// turn moves the window to now, emptying the slots that time has passed over.
func (b *breaker) turn() {
	now := time.Now().UnixNano() / int64(breakerSlot)
	if now < b.slot {
		return // the clock was set back
	}
	for range min(now-b.slot, breakerSlots) {
		b.slot++
		b.slots[b.slot%breakerSlots] = struct{ good, bad int }{}
	}
	if b.slot < now {
		b.slot, b.slots = now, [breakerSlots]struct{ good, bad int }{}
	}
}

func (b *breaker) trip(rest time.Duration) {
	b.rest = min(rest, breakerLongest)
	b.until = time.Now().Add(b.rest)
	b.open, b.probing = true, false
	b.epoch++
}

func (b *breaker) close() {
	b.open, b.probing = false, false
	b.slots = [breakerSlots]struct{ good, bad int }{}
	b.epoch++
}
