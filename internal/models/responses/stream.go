package responses

import (
	"net/http"
	"sync"
	"time"
	"unicode/utf8"
)

// An eventStream sends a reply as server-sent events, which its format produces. Nothing is sent
// before the first item, so that an error of the provider can still be a plain HTTP error. After
// headerWait it sends its headers anyway; from then on it sends a comment after each silence of
// keepAlive, since proxies cut silent requests.
//
// Its methods may be called concurrently from the handler and from its own timer;
// [eventStream.end] is called once and nothing is written after it.
type eventStream struct {
	s      *Service
	w      http.ResponseWriter
	rc     *http.ResponseController
	format format
	reply  *reply
	pin    func(*reply) // fixes the model that serves, and completes the reply

	contentType []string
	silence     string // sent after each silence of KeepAlive

	mu       sync.Mutex
	timer    *time.Timer
	lent     *[]byte // from the pool; nil while nothing is buffered
	buf      []byte  // lent's memory
	begun    bool    // headers and the first events were sent
	ended    bool
	flushed  bool // something was written
	wrote    time.Time
	deadline time.Time // of writes to w
	err      error     // error of the first failed write: the client disconnected
}

const (
	// settleWait is the longest time that text waits for a charge, so that both can be sent
	// in one write.
	settleWait = 10 * time.Millisecond
	// flushAt is the maximum number of bytes that are buffered while a provider keeps
	// delivering.
	flushAt = 16 << 10
	// keepBuffer is the maximum size of a buffer that is kept for the next stream, in bytes.
	keepBuffer = 64 << 10
	// maxDelta is the maximum number of bytes of a delta. Some clients read lines of at most 64 KiB, as Go's
	// bufio.Scanner does, and a byte can take six in JSON.
	maxDelta = 8 << 10
)

// stream returns the stream of a reply with its timer running. It must be released.
func (s *Service) stream(w http.ResponseWriter, f format, rep *reply, pin func(*reply)) *eventStream {
	e := &eventStream{s: s, w: w, rc: http.NewResponseController(w), format: f, reply: rep, pin: pin, contentType: eventStreamType, silence: keepAlive}
	if f, ok := f.(framed); ok {
		e.contentType, e.silence = f.framing()
	}
	e.mu.Lock() // because the timer may fire before it is stored
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(s.HeaderWait, e.tick)
	return e
}

func (e *eventStream) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	e.timer.Stop()
	e.giveBack()
}

// tick sends the headers after headerWait, the text that waits for a slow charge, or a comment after
// a silence. The timer calls it.
func (e *eventStream) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return
	}
	next := e.s.KeepAlive
	switch idle := time.Since(e.wrote); {
	case !e.begun:
		e.begin()
		e.flush()
	case e.lent != nil: // see settling
		e.flush()
	case idle >= e.s.KeepAlive:
		e.borrow()
		e.buf = append(e.buf, e.silence...)
		e.flush()
	default:
		next = e.s.KeepAlive - idle
	}
	e.timer.Reset(next)
}

func (e *eventStream) opened(it *item) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.announce(it)
}

// piece sends a piece of an item and adds the piece to the item. more means that the next
// event has already arrived, so that the piece may be sent together with it.
func (e *eventStream) piece(it *item, kind pieceKind, text string, more bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	it.add(kind, text)
	e.borrow()
	for len(text) > maxDelta {
		n := maxDelta
		for n > maxDelta-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		e.buf = e.format.piece(e.buf, e.reply, it, kind, text[:n])
		text = text[n:]
	}
	e.buf = e.format.piece(e.buf, e.reply, it, kind, text)
	if !more || len(e.buf) >= flushAt {
		e.flush()
	}
	return e.err
}

func (e *eventStream) closed(it *item) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.borrow()
	e.buf = e.format.close(e.buf, e.reply, it)
	if len(e.buf) >= flushAt {
		e.flush()
	}
}

const keepAlive = ": keepalive\n\n"

// framed is implemented by formats whose streams may be another sequence of objects than
// server-sent events.
type framed interface {
	// framing returns the content type of a stream, and the bytes that may come between two objects.
	framing() (contentType []string, silence string)
}

var (
	eventStreamType = []string{"text/event-stream; charset=utf-8"}
	jsonType        = []string{"application/json"}
	noCache         = []string{"no-cache"}
	notBuffered     = []string{"no"}
)

// settling announces that the finished reply is about to be charged. Buffered data is sent
// together with the end, or after settleWait, or immediately if nothing was sent before.
func (e *eventStream) settling() {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.lent == nil:
	case !e.flushed:
		e.flush()
	default:
		e.timer.Reset(settleWait)
	}
}

func (e *eventStream) catchUp() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lent != nil {
		e.flush()
	}
	return e.err
}

// halt stops the timer. It reports whether the stream had begun, because a failure can still be an
// HTTP error before that.
func (e *eventStream) halt() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	e.timer.Stop()
	return e.begun
}

// name fixes the serving model, so that the reply can be built.
func (e *eventStream) name() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pinned()
}

func (e *eventStream) end(o *outcome) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begin()
	e.borrow()
	if it := o.last; it != nil {
		e.announce(it) // because an empty message was not announced before
		e.buf = e.format.close(e.buf, e.reply, it)
	}
	e.buf = e.format.end(e.buf, e.reply, o)
	return e.done()
}

type streamError struct {
	code, kind, message, param string
	charged                    bool // the call was charged
}

func (e *eventStream) fail(o *outcome) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.borrow()
	e.buf = e.format.fail(e.buf, e.reply, o)
	return e.done()
}

// The methods below require that e.mu is held.

// begin sends the status, the headers and the first events, once. From here on a
// failure can only be reported inside the stream.
func (e *eventStream) begin() {
	if e.begun {
		return
	}
	e.begun = true
	if e.s.KeepAlive < e.s.HeaderWait {
		e.timer.Reset(e.s.KeepAlive) // because it was set for the headers
	}
	h := e.w.Header()
	h["Content-Type"], h["Cache-Control"], h["X-Accel-Buffering"] = e.contentType, noCache, notBuffered
	e.w.WriteHeader(http.StatusOK)
	e.pinned()
	e.borrow()
	e.buf = e.format.start(e.buf, e.reply)
}

func (e *eventStream) pinned() {
	if e.reply.model == "" {
		e.pin(e.reply)
	}
}

func (e *eventStream) announce(it *item) {
	e.begin()
	if it.announced {
		return
	}
	it.announced = true
	e.borrow()
	e.buf = e.format.open(e.buf, e.reply, it)
}

func (e *eventStream) done() error {
	e.flush()
	e.ended = true
	e.timer.Stop()
	return e.err
}

// borrow gets a buffer from the pool unless the stream has one. A stream has a buffer only between
// the first byte of a write and its last, because most streams wait for their provider most of the
// time, and 20 KB each would be a third of their memory.
func (e *eventStream) borrow() {
	if e.lent != nil {
		return
	}
	if lent, ok := e.s.buffers.Get().(*[]byte); ok {
		e.lent, e.buf = lent, (*lent)[:0]
	} else {
		e.lent, e.buf = new([]byte), make([]byte, 0, flushAt+flushAt/4)
	}
}

func (e *eventStream) giveBack() {
	if e.lent != nil && cap(e.buf) <= keepBuffer {
		*e.lent = e.buf
		e.s.buffers.Put(e.lent)
	}
	e.lent, e.buf = nil, nil
}

// flush writes the buffered events in one call. A client that accepts nothing for
// WriteTimeout, or for the timeout of its connection, counts as disconnected.
func (e *eventStream) flush() {
	defer e.giveBack()
	if e.err != nil || len(e.buf) == 0 && e.flushed { // because what waits for its end must not delay the next comment
		return
	}
	e.wrote, e.flushed = time.Now(), true
	if e.deadline.Sub(e.wrote) < e.s.WriteTimeout/2 {
		e.deadline = e.wrote.Add(e.s.WriteTimeout)
		_ = e.rc.SetWriteDeadline(e.deadline) // without a connection deadline, TCP's own limits apply
	}
	if _, e.err = e.w.Write(e.buf); e.err == nil {
		e.err = e.rc.Flush()
	}
}
