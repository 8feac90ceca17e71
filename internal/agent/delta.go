package agent

import (
	"context"
	"sync"
	"time"

	"stoa/internal/session"
)

// deltaEvery is the shortest time between two stored deltas of a session while
// its text arrives. With the rest of a step, which comes when the step ends,
// that makes at most four in a second.
const deltaEvery = time.Second / 3

// firstDelta is how long the first piece of a text waits for more: a short reply
// then needs no delta of its own.
const firstDelta = 20 * time.Millisecond

// deltaWriter writes a step's text into the session's log while it arrives. One
// timer at a time writes; what is pending at the end stays in the draft, for the
// transaction of the step.
type deltaWriter struct {
	sessions *session.Sessions
	run      *run

	writing sync.Mutex // held while a delta is written; guards draft but for Pending

	mu      sync.Mutex
	draft   session.Draft
	pending []byte
	timer   *time.Timer
	closed  bool
	err     error
}

// add takes a piece of text, to be written soon.
func (d *deltaWriter) add(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(d.pending, text...)
	if d.timer == nil && !d.closed && d.err == nil {
		d.timer = time.AfterFunc(max(firstDelta, deltaEvery-time.Since(d.run.lastDelta)), d.flush)
	}
}

// flush writes what is pending.
func (d *deltaWriter) flush() {
	d.writing.Lock()
	defer d.writing.Unlock()
	text, draft, ok := d.take()
	if !ok {
		return
	}
	draft, err := d.sessions.AppendDelta(context.Background(), d.run.lease, draft, text)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draft, d.err = draft, err
	if err != nil {
		d.run.cancel(err) // no more text can be written: stop the call
	}
}

// take empties what is pending, unless the writer is closed.
func (d *deltaWriter) take() (text string, draft session.Draft, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer = nil
	if d.closed || len(d.pending) == 0 {
		return "", d.draft, false
	}
	text = string(d.pending)
	d.pending = nil
	d.run.lastDelta = time.Now()
	return text, d.draft, true
}

// close ends the writing of deltas, waiting for one that is under way. It
// returns the draft with what is still to be written, or why a delta could not
// be.
func (d *deltaWriter) close() (session.Draft, error) {
	d.mu.Lock()
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
	d.mu.Unlock()
	d.writing.Lock()
	defer d.writing.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draft.Pending = string(d.pending)
	return d.draft, d.err
}
