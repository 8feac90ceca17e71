package upstream

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/wire"
)

// An expired is the cause of a context that a [watch] cancelled: which timeout it was.
type expired int32

const (
	firstByte expired = iota
	idle
	inOnePiece
	total
)

// Error implements error; the caller gets the failure of [expired.failure].
func (expired) Error() string { return "the upstream took too long" }

// failure returns the failure for the timeout.
func (e expired) failure(t stoa.Timeouts) *wire.Failure {
	switch e {
	case firstByte:
		return slow("no reply began within the first-byte timeout", t.FirstByte)
	case idle:
		return slow("nothing came within the idle timeout", t.Idle)
	case inOnePiece:
		return slow("nothing came within the timeout of whole replies", t.Whole)
	}
	return slow("the reply was not complete within the total timeout", t.Total)
}

// A watch cancels an attempt that waits too long for its upstream. It runs only
// while the pool waits: the time that the reader of the events takes does not count.
type watch struct {
	cancel   context.CancelCauseFunc
	timer    *time.Timer
	deadline time.Time    // of the whole call
	waits    atomic.Int32 // an expired: the timeout that the timer stands for
}

func newWatch(cancel context.CancelCauseFunc, deadline time.Time) *watch {
	w := &watch{cancel: cancel, deadline: deadline}
	w.timer = time.AfterFunc(time.Hour, func() { w.cancel(expired(w.waits.Load())) })
	w.timer.Stop()
	return w
}

// start begins a wait of at most limit that also ends at the deadline.
func (w *watch) start(what expired, limit time.Duration) {
	if left := time.Until(w.deadline); left < limit {
		what, limit = total, max(left, 0)
	}
	w.waits.Store(int32(what))
	w.timer.Reset(limit)
}

func (w *watch) stop() { w.timer.Stop() }

var errTooLarge = errors.New("the reply is too large")

// A reader reads a reply's body. It bounds each wait for bytes and their sum.
type reader struct {
	from  io.ReadCloser
	watch *watch
	wait  expired // what idle is the limit of
	idle  time.Duration
	left  int64 // bytes that may still come; negative: the limit was exceeded
	err   error // the first error
}

// Read reads the body under the idle timeout. More than the reply's limit in
// bytes is errTooLarge.
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

// Limits of what is read after a reply's last event (the terminator of the HTTP
// framing, which has usually arrived) so that the connection can be reused.
const (
	drainBytes = 16 << 10
	drainTime  = 20 * time.Millisecond
)

// drain reads what is left after the last event, up to drainBytes and for
// drainTime, so that the connection can be reused.
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
