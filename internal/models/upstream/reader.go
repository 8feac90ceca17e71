package upstream

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/models/wire"
)

// An expired is the cause of a context that a [watch] cancelled: the timeout that expired.
type expired int32

const (
	firstByte expired = iota
	idle
	inOnePiece
	total
)

// Error implements error; the caller receives the failure of [expired.failure].
func (expired) Error() string { return "the upstream took too long" }

func (e expired) failure(t stoa.Timeouts) *wire.Failure {
	switch e {
	case firstByte:
		return slow("no reply began within the first-byte timeout", t.FirstByte)
	case idle:
		return slow("nothing arrived within the idle timeout", t.Idle)
	case inOnePiece:
		return slow("nothing arrived within the timeout of whole replies", t.Whole)
	}
	f := slow("the reply was not complete within the total timeout", t.Total)
	f.Cut = true
	return f
}

// A watch cancels an attempt that waits too long for its upstream. It runs only while the
// pool waits: the time that the reader of the events uses does not count, and moves the
// deadline.
//
// Its timer is not reset for each wait, so that a stream with regular events hardly touches it:
// it fires at the end of an earlier wait, and is then set to the rest of the current one.
type watch struct {
	cancel   context.CancelCauseFunc
	deadline time.Time // of the whole call
	ended    time.Time // when the last wait ended; zero before
	late     bool      // the reader once used more than slowReader between two waits

	mu    sync.Mutex
	timer *time.Timer // nil before the first wait
	fires time.Time   // when the timer fires; zero if it is stopped
	until time.Time   // the end of the current wait; zero if none exists
	what  expired     // the timeout that ends at until
}

// slowReader is the time between two waits from which on a reply that then breaks is the
// fault of its reader, because a provider that cannot send closes its connection.
const slowReader = 10 * time.Second

// start begins a wait of at most limit that also ends at the deadline.
func (w *watch) start(what expired, limit time.Duration) {
	now := time.Now()
	if !w.ended.IsZero() {
		used := now.Sub(w.ended)
		w.deadline, w.late = w.deadline.Add(used), w.late || used > slowReader
	}
	until := now.Add(limit)
	if w.deadline.Before(until) {
		what, until = total, w.deadline
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.what, w.until = what, until
	if w.fires.IsZero() || until.Before(w.fires) {
		w.set(until.Sub(now))
	}
}

// set sets the timer to fire after left, the rest of the wait. w.mu must be held.
func (w *watch) set(left time.Duration) {
	w.fires = w.until
	if w.timer == nil {
		w.timer = time.AfterFunc(left, w.fire)
	} else {
		w.timer.Reset(left)
	}
}

// fire cancels the attempt if the current wait has ended.
func (w *watch) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fires = time.Time{}
	if w.until.IsZero() {
		return
	}
	if left := time.Until(w.until); left > 0 {
		w.set(left)
		return
	}
	w.cancel(w.what)
}

func (w *watch) stop() {
	w.ended = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = time.Time{}
}

func (w *watch) end() {
	w.stop()
	if w.timer != nil {
		w.timer.Stop()
	}
}

var errTooLarge = errors.New("the reply is too large")

// A reader reads a reply's body. It limits each wait for bytes and the total size.
type reader struct {
	from  io.ReadCloser
	watch *watch
	wait  expired // the timeout that idle limits
	idle  time.Duration
	left  int64 // bytes that may still arrive; negative if the limit was exceeded
	err   error // the first error
}

// Read reads the body under the idle timeout.
func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	r.watch.start(r.wait, r.idle)
	n, err := r.from.Read(p)
	r.watch.stop()
	if r.left -= int64(n); r.left < 0 {
		err = errTooLarge
	}
	r.err = err
	return n, err
}

// The limits of [reader.drain] are small, because usually only the terminator of the HTTP framing
// is left, which has been received.
const (
	drainBytes = 16 << 10
	drainTime  = 20 * time.Millisecond
)

// drain reads the rest after the last event, so that the connection can be reused.
func (r *reader) drain() {
	if r.err != nil {
		return
	}
	r.idle = drainTime
	for left := drainBytes; left > 0; {
		var buf [512]byte
		n, err := r.Read(buf[:])
		if left -= n; err != nil {
			return
		}
	}
}

func (r *reader) close() { r.from.Close() }
