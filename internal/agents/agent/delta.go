package agent

import (
	"context"
	"sync"
	"time"

	"stoa/internal/agents/session"
)

// deltaEvery is the minimum interval between two stored deltas of a session, so that it makes at
// most four writes per second, including the rest of the text at the end of a step.
const deltaEvery = time.Second / 3

// firstDelta delays the first piece of a text, so that a short reply needs no separate delta.
const firstDelta = 20 * time.Millisecond

// deltaWriter writes a step's text to the session's log while it arrives. Only one timer
// writes at a time. Text that is pending at the end is written with the step.
type deltaWriter struct {
	sessions *session.Sessions
	run      *run
	hold     bool // write all text with the step, because it may be rejected

	writing sync.Mutex // held while a delta is written; guards draft except Pending

	mu      sync.Mutex
	draft   session.Draft
	pending []byte
	timer   *time.Timer
	closed  bool
	err     error
}

func (d *deltaWriter) add(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(d.pending, text...)
	if d.timer == nil && !d.hold && !d.closed && d.err == nil {
		d.timer = time.AfterFunc(max(firstDelta, deltaEvery-time.Since(d.run.lastDelta)), d.flush)
	}
}

func (d *deltaWriter) flush() {
	d.writing.Lock()
	defer d.writing.Unlock()
	text, draft, ok := d.drain()
	if !ok {
		return
	}
	draft, err := d.sessions.AppendDelta(context.Background(), d.run.lease, draft, text)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.draft, d.err = draft, err
	if err != nil {
		d.run.cancel(err) // because no more text can be written: stop the call
	}
}

func (d *deltaWriter) drain() (text string, draft session.Draft, ok bool) {
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

// close stops the writing of deltas and waits for one in progress. It returns the draft with
// the text that is still to be written, or the error of a failed write.
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
