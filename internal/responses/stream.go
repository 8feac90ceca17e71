package responses

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"stoa/internal/contract"
	"stoa/internal/listen"
	"stoa/internal/sse"
	"stoa/internal/stoa"
)

// An eventStream writes a reply as server-sent events in the order of the
// Responses format. It begins late: nothing is sent before the first text, so
// that an error of the provider can still be a plain HTTP error. If that takes
// longer than headerWait it begins by itself; from then on it sends a comment
// whenever it was silent for keepAlive.
//
// Its methods may be called from the handler and from its own timer at the same
// time; [eventStream.end] is called once and nothing is written after it.
type eventStream struct {
	s     *Service
	w     http.ResponseWriter
	rc    *http.ResponseController
	cork  *listen.Cork // of the connection; nil: it has none
	reply *reply
	pin   func() string // fixes and names the model that serves

	mu       sync.Mutex
	timer    *time.Timer
	lent     *[]byte         // from the pool while something is buffered; nil: nothing is
	buf      []byte          // lent's memory
	text     strings.Builder // every delta so far
	seq      int64
	begun    bool // headers and response.created are out
	opened   bool // the message item and its part are announced
	ended    bool
	wrote    time.Time
	deadline time.Time
	err      error // of the first write that failed: the client disconnected
}

const (
	// flushAt bounds the bytes that are buffered while a provider keeps delivering.
	flushAt = 16 << 10
	// oneWrite is how many bytes net/http surely writes with one system call: its
	// buffer has 4 KiB, which the headers of the reply share.
	oneWrite = 3 << 10
	// keepBuffer is the largest buffer in bytes that is kept for the next stream.
	keepBuffer = 64 << 10
)

// stream returns the stream of a reply with its timer running. It must be released.
func (s *Service) stream(w http.ResponseWriter, cork *listen.Cork, rep *reply, pin func() string) *eventStream {
	e := &eventStream{s: s, w: w, rc: http.NewResponseController(w), cork: cork, reply: rep, pin: pin}
	e.mu.Lock() // the timer may fire before it is stored
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(s.HeaderWait, e.tick)
	return e
}

// release ends the stream in any state and returns its buffer to the pool.
func (e *eventStream) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	e.timer.Stop()
	e.giveBack()
}

// tick begins a stream that had to wait too long, or sends a comment after a silence.
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
	case idle >= e.s.KeepAlive:
		e.borrow()
		e.buf = sse.AppendComment(e.buf, "keepalive")
		e.flush()
	default:
		next = e.s.KeepAlive - idle
	}
	e.timer.Reset(next)
}

// delta sends a piece of the reply's text. With more the next event has already
// arrived, and the piece may be sent together with it.
func (e *eventStream) delta(text string, more bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open()
	e.text.WriteString(text)
	e.borrow()
	e.buf = append(e.buf, deltaHead...)
	e.number()
	e.place()
	e.buf = append(e.buf, `,"delta":`...)
	e.buf = appendText(e.buf, text)
	e.buf = append(e.buf, `,"logprobs":[]}`...)
	e.tail()
	if !more || len(e.buf) >= flushAt {
		e.flush()
	}
	return e.err
}

// catchUp sends what delta has buffered.
func (e *eventStream) catchUp() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.buf) > 0 {
		e.flush()
	}
	return e.err
}

// halt stops the timer. It reports whether the stream had begun: before that, a
// failure can still be an HTTP error.
func (e *eventStream) halt() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	e.timer.Stop()
	return e.begun
}

// joined returns the text of all deltas so far. It fixes the model that serves,
// so that the reply can be built from now on.
func (e *eventStream) joined() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.name()
	return e.text.String()
}

// end sends the closing events of a finished reply, then [DONE]. The outcome's
// text is that of [eventStream.joined].
func (e *eventStream) end(o *outcome) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open()
	e.head("response.output_text.done")
	e.place()
	e.buf = append(e.buf, `,"text":`...)
	e.buf = appendText(e.buf, o.text)
	e.buf = append(e.buf, `,"logprobs":[]}`...)
	e.tail()
	e.head("response.content_part.done")
	e.place()
	e.buf = append(e.buf, `,"part":`...)
	e.buf = appendPart(e.buf, o.text)
	e.buf = append(e.buf, '}')
	e.tail()
	e.head("response.output_item.done")
	e.buf = append(e.buf, `,"output_index":0,"item":`...)
	e.buf = e.reply.appendItem(e.buf, o.itemStatus(), o.text)
	e.buf = append(e.buf, '}')
	e.tail()
	e.snapshot("response."+o.status, o)
	return e.done()
}

// A streamError is an error as it is sent inside a stream.
type streamError struct {
	code, kind, message, param string
}

// streamErrorOf converts err. Faults of the service and of providers have the
// one code that clients of the format know; an error that the caller can correct
// keeps its code.
func streamErrorOf(err error) *streamError {
	e := stoa.AsError(err)
	info := contract.Code(e.Code)
	out := &streamError{code: string(e.Code), kind: info.Type, message: e.Message, param: e.Param}
	if info.Status >= 500 {
		out.code = string(stoa.CodeInternal)
	}
	return out
}

// fail ends a stream that has begun with an error event in both of its shapes
// and response.failed, then [DONE].
func (e *eventStream) fail(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := streamErrorOf(err)
	e.head("error")
	members := func() {
		e.buf = append(e.buf, `"code":`...)
		e.buf = appendText(e.buf, f.code)
		e.buf = append(e.buf, `,"message":`...)
		e.buf = appendText(e.buf, f.message)
		e.buf = append(e.buf, `,"param":`...)
		if f.param == "" {
			e.buf = append(e.buf, `null`...)
		} else {
			e.buf = appendText(e.buf, f.param)
		}
	}
	e.buf = append(e.buf, ',')
	members()
	e.buf = append(e.buf, `,"error":{"type":`...)
	e.buf = appendText(e.buf, f.kind)
	e.buf = append(e.buf, ',')
	members()
	e.buf = append(e.buf, `}}`...)
	e.tail()
	e.snapshot("response.failed", &outcome{status: "failed", failure: f, text: e.text.String(), hasOutput: e.opened})
	return e.done()
}

// The methods below require that e.mu is held.

// begin sends the status, the headers and the first two events, once. From
// here on a failure can only be reported inside the stream.
func (e *eventStream) begin() {
	if e.begun {
		return
	}
	e.begun = true
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	e.w.WriteHeader(http.StatusOK)
	e.name()
	o := &outcome{status: "in_progress"}
	e.snapshot("response.created", o)
	e.snapshot("response.in_progress", o)
}

func (e *eventStream) name() {
	if e.reply.model == "" {
		e.reply.model = e.pin()
	}
}

// open sends the events that begin the message, once, before its first text.
func (e *eventStream) open() {
	e.begin()
	if e.opened {
		return
	}
	e.opened = true
	e.head("response.output_item.added")
	e.buf = append(e.buf, `,"output_index":0,"item":`...)
	e.buf = e.reply.appendItemHead(e.buf, "in_progress")
	e.buf = append(e.buf, `]}}`...)
	e.tail()
	e.head("response.content_part.added")
	e.place()
	e.buf = append(e.buf, `,"part":`...)
	e.buf = appendPart(e.buf, "")
	e.buf = append(e.buf, '}')
	e.tail()
}

func (e *eventStream) snapshot(kind string, o *outcome) {
	e.head(kind)
	e.buf = append(e.buf, `,"response":`...)
	e.buf = e.reply.appendObject(e.buf, o)
	e.buf = append(e.buf, '}')
	e.tail()
}

// head opens an event; its object is left open after the sequence number.
func (e *eventStream) head(kind string) {
	e.borrow()
	e.buf = sse.AppendHead(e.buf, kind)
	e.buf = append(e.buf, `{"type":"`...)
	e.buf = append(e.buf, kind...)
	e.buf = append(e.buf, `","sequence_number":`...)
	e.number()
}

// deltaHead is what head writes for the one event of which a reply has many.
const deltaHead = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":"

// number appends the next sequence number.
func (e *eventStream) number() {
	e.buf = strconv.AppendInt(e.buf, e.seq, 10)
	e.seq++
}

func (e *eventStream) tail() { e.buf = sse.AppendEnd(e.buf) }

// place appends the members that name the item and part of an event.
func (e *eventStream) place() {
	e.buf = append(e.buf, `,"item_id":"`...)
	e.buf = append(e.buf, e.reply.item...)
	e.buf = append(e.buf, `","output_index":0,"content_index":0`...)
}

func (e *eventStream) done() error {
	e.borrow()
	e.buf = sse.AppendEvent(e.buf, "", "[DONE]")
	e.flush()
	e.ended = true
	e.timer.Stop()
	return e.err
}

// borrow takes a buffer from the pool unless there is one. A stream has one only
// between the first byte of a write and its last: most streams wait for their
// provider most of the time, and 20 KB each would be a third of their memory.
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

// giveBack returns the buffer to the pool, with what is in it.
func (e *eventStream) giveBack() {
	if e.lent != nil && cap(e.buf) <= keepBuffer {
		*e.lent = e.buf
		e.s.buffers.Put(e.lent)
	}
	e.lent, e.buf = nil, nil
}

// flush writes the buffered events in one call. A client that accepts nothing
// for WriteTimeout counts as disconnected.
func (e *eventStream) flush() {
	defer e.giveBack()
	if e.err != nil {
		return
	}
	now := time.Now()
	if e.deadline.Sub(now) < e.s.WriteTimeout/2 {
		e.deadline = now.Add(e.s.WriteTimeout)
		_ = e.rc.SetWriteDeadline(e.deadline) // where the connection has none, TCP's own limits hold
	}
	corked := e.cork != nil && len(e.buf) > oneWrite
	if corked {
		e.cork.Stop()
	}
	_, err := e.w.Write(e.buf)
	if err == nil {
		err = e.rc.Flush()
	}
	if corked {
		err = errors.Join(err, e.cork.Release())
	}
	e.err, e.wrote = err, now
}
