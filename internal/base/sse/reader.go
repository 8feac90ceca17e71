// Package sse reads and writes server-sent events by the rules of the HTML standard: lines
// that end with LF, CR or CRLF, comments, a byte order mark, data over several lines. It does
// not interpret the data. Start with [Reader.Next] and [AppendEvent].
package sse

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// DefaultMaxEvent is the default of a [Reader]'s maximum event size, in bytes.
const DefaultMaxEvent = 8 << 20

// An Event is one event. Its bytes are valid until the reader's next call. An empty Type means "message".
type Event struct {
	Type, Data []byte
}

// A TooLargeError means that one event, including its comments, exceeds the limit in bytes.
type TooLargeError struct{ Limit int }

// Error returns a text with the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("server-sent event larger than %d bytes", e.Limit)
}

// A Reader reads events. It allocates when its buffer has to grow, not for each event. While it waits for a
// slow source, it keeps only smallBuffer bytes; it borrows a larger buffer from a pool for bursts and long events.
type Reader struct {
	src     io.Reader
	buf     []byte
	small   *[]byte // buffer of smallBuffer bytes; nil before the first read
	lent    *[]byte // buf, if it is not small
	busy    bool    // the last read returned so much data that more has probably arrived
	start   int     // start of the unconsumed data
	end     int     // end of the read data
	max     int
	err     error // error of src, returned when the buffer is empty
	event   scan
	joined  []byte
	begun   bool // a byte order mark was skipped, if there was one
	crs     bool // there may be a CR between start and end
	swallow bool // a CR ended the last line, so that an immediately following LF belongs to it
	left    bool // see Leftover
	lastID  []byte
	retry   time.Duration
}

// NewReader returns a reader of events of at most limit bytes; 0 means [DefaultMaxEvent].
func NewReader(src io.Reader, limit int) *Reader {
	if limit <= 0 {
		limit = DefaultMaxEvent
	}
	return &Reader{src: src, max: limit}
}

// A span is a range of the buffer, relative to start so that it stays valid when
// the buffer's content moves.
type span struct{ from, to int }

// A scan is the progress of reading the next event. Its positions are relative to start, so that they stay valid when the
// buffer's content moves.
type scan struct {
	at     int  // position of the next line
	seen   int  // position up to which the line has no end
	typ    span // value of its event line
	data   span // value of its first data line
	lines  int  // number of data lines
	fields bool // it contains a line that is not a comment
	id     span // value of its id line
	named  bool // it contains an id line
	whole  bool // its blank line has arrived
}

// Next returns the next event that has data. At the end of the source it returns
// io.EOF, and [Reader.Leftover] reports whether the source ended inside an event.
// Other errors are the source's own, unchanged, or a [*TooLargeError].
func (r *Reader) Next() (Event, error) {
	if err := r.begin(); err != nil {
		return Event{}, err
	}
	for !r.advance() {
		if err := r.fill(); err != nil {
			if at := r.start + r.event.at; err == io.EOF {
				r.left = r.event.fields || r.end > at && r.buf[at] != ':'
			}
			return Event{}, err
		}
	}
	ev := Event{Type: r.bytes(r.event.typ), Data: r.bytes(r.event.data)}
	if r.event.lines > 1 {
		ev.Data = r.joined[:len(r.joined)-1]
	}
	r.drop()
	return ev, nil
}

// More reports whether Next would return another event without reading from the source.
func (r *Reader) More() bool { return r.begun && r.advance() }

// advance reads the available lines of the next event, each byte once. It reports whether the event is complete.
func (r *Reader) advance() bool {
	e := &r.event
	for !e.whole {
		line, next, ok := r.line(e.at, e.seen)
		if !ok {
			e.at, e.seen = next, r.end-r.start
			return false
		}
		e.at, e.seen = next, next
		switch {
		case line.from == line.to:
			if e.named {
				r.lastID = append(r.lastID[:0], r.bytes(e.id)...)
			}
			if e.whole = e.lines > 0; !e.whole {
				r.drop()
			}
		case r.buf[r.start+line.from] != ':':
			r.field(line)
		case !e.fields: // dropped, because data before the comment need not be kept
			r.drop()
		}
	}
	return true
}

// field reads a line of the event that is not a comment.
func (r *Reader) field(line span) {
	const data, event, id, retry = "data:", "event:", "id:", "retry:"
	e, b := &r.event, r.bytes(line)
	e.fields = true
	switch {
	case len(b) >= len(data) && string(b[:len(data)]) == data:
		r.data(afterSpace(b, line, len(data)))
	case len(b) >= len(event) && string(b[:len(event)]) == event:
		e.typ = afterSpace(b, line, len(event))
	case string(b) == data[:len(data)-1]:
		r.data(span{line.to, line.to})
	case string(b) == event[:len(event)-1]:
		e.typ = span{line.to, line.to}
	case len(b) >= len(id) && string(b[:len(id)]) == id && bytes.IndexByte(b, 0) < 0:
		e.id, e.named = afterSpace(b, line, len(id)), true
	case len(b) > len(retry) && string(b[:len(retry)]) == retry:
		if ms, err := strconv.ParseUint(string(r.bytes(afterSpace(b, line, len(retry)))), 10, 31); err == nil {
			r.retry = time.Duration(ms) * time.Millisecond
		}
	}
}

// LastID returns the id of the newest complete event with one, even without data; empty if there is none. A client
// sends it when it reconnects.
func (r *Reader) LastID() string { return string(r.lastID) }

// Retry returns the time after which the source wants a client to reconnect; 0 if it has not said so.
func (r *Reader) Retry() time.Duration { return r.retry }

// afterSpace returns the part of the line from position at on, without one leading space.
func afterSpace(b []byte, line span, at int) span {
	if at < len(b) && b[at] == ' ' {
		at++
	}
	return span{line.from + at, line.to}
}

func (r *Reader) data(value span) {
	e := &r.event
	if e.lines++; e.lines == 1 {
		e.data = value
		return
	}
	if e.lines == 2 {
		r.joined = append(append(r.joined[:0], r.bytes(e.data)...), '\n')
	}
	r.joined = append(append(r.joined, r.bytes(value)...), '\n')
}

// drop discards the lines that were read.
func (r *Reader) drop() {
	r.start += r.event.at
	r.event = scan{}
}

// Partial returns, after io.EOF, the event inside which the source ended, as if its blank line had arrived; false if it
// has no data. By the standard such an event does not count, but some servers omit the last blank line, so that the
// caller must distinguish a complete event from a truncated one by its data.
func (r *Reader) Partial() (Event, bool) {
	if !r.left {
		return Event{}, false
	}
	rest := append(append([]byte(nil), r.buf[r.start:r.end]...), "\n\n"...)
	last := NewReader(bytes.NewReader(rest), len(rest)+1)
	last.begun = true
	ev, err := last.Next()
	return ev, err == nil
}

// Unfinished returns, after any error of Next, the received data of the current event.
func (r *Reader) Unfinished() []byte {
	r.left = true
	ev, _ := r.Partial()
	return ev.Data
}

// Leftover reports, after io.EOF, that the source ended inside an event.
func (r *Reader) Leftover() bool { return r.left }

// First returns the first byte that is not white space without consuming it, so that other formats can be distinguished
// from events. It must be called before Next.
func (r *Reader) First() (byte, error) {
	if err := r.begin(); err != nil {
		return 0, err
	}
	for at := 0; ; at++ {
		for r.start+at >= r.end {
			if err := r.fill(); err != nil {
				return 0, err
			}
		}
		switch k := r.buf[r.start+at]; k {
		case ' ', '\t', '\r', '\n':
		default:
			return k, nil
		}
	}
}

// Rest reads all unconsumed data, for a source that turned out to use another format. Beyond limit bytes it fails with a
// [*TooLargeError].
func (r *Reader) Rest(limit int) ([]byte, error) {
	r.max = limit
	for {
		if err := r.fill(); err == io.EOF {
			rest := r.buf[r.start:r.end]
			r.start = r.end
			return rest, nil
		} else if err != nil {
			return nil, err
		}
	}
}

func (r *Reader) bytes(s span) []byte { return r.buf[r.start+s.from : r.start+s.to] }

func (r *Reader) begin() error {
	const mark = "\xef\xbb\xbf"
	for !r.begun {
		have := r.buf[r.start:r.end]
		switch {
		case len(have) >= len(mark):
			if string(have[:len(mark)]) == mark {
				r.start += len(mark)
			}
			r.begun = true
		case len(have) > 0 && string(have) != mark[:len(have)]:
			r.begun = true
		default:
			if err := r.fill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// line returns the line that begins at at; up to seen there is no line end. Positions are relative to start; next is the
// start of the following line or, if the line is incomplete, of this one. A CR ends its line immediately, so
// that an event is complete without waiting for an LF that may belong to it.
func (r *Reader) line(at, seen int) (s span, next int, ok bool) {
	if r.swallow && r.start+at < r.end {
		if r.swallow = false; r.buf[r.start+at] == '\n' {
			at++
			seen = max(seen, at)
		}
	}
	b := r.buf[r.start+seen : r.end]
	i := bytes.IndexByte(b, '\n')
	if i >= 0 {
		b = b[:i]
	}
	if r.crs {
		if j := bytes.IndexByte(b, '\r'); j >= 0 {
			r.swallow = true
			return span{at, seen + j}, seen + j + 1, true
		}
	}
	if i < 0 {
		return span{}, at, false
	}
	return span{at, seen + i}, seen + i + 1, true
}

func (r *Reader) fill() error {
	if r.err != nil {
		return r.err
	}
	if r.end-r.start >= r.max {
		return &TooLargeError{r.max}
	}
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	switch {
	case r.end == 0 && !r.busy:
		r.giveBack()
		if r.small == nil {
			r.small = smallBuffers.Get().(*[]byte)
		}
		r.buf = *r.small
	case r.end == len(r.buf) || r.busy && r.lent == nil:
		size := max(bigBuffer, 2*len(r.buf))
		larger := buffers.Get().(*[]byte)
		if len(*larger) < size {
			*larger = make([]byte, size)
		}
		copy(*larger, r.buf[:r.end])
		r.giveBack()
		r.lent, r.buf = larger, *larger
	}
	for range 100 {
		n, err := r.src.Read(r.buf[r.end:])
		r.crs = r.crs && r.end > 0 || bytes.IndexByte(r.buf[r.end:r.end+n], '\r') >= 0
		r.end += n
		r.busy = n >= burst || r.end == len(r.buf)
		r.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	r.err = io.ErrNoProgress
	return r.err
}

const (
	smallBuffer = 4 << 10  // large enough for a short whole reply, or for events that arrive while others are written
	bigBuffer   = 32 << 10 // minimum size that is borrowed, so that a burst of a hundred events needs one read
	keepBuffer  = 64 << 10 // maximum size that is kept for another reader, so that one long event does not hold its memory for ever
	burst       = 3 * smallBuffer / 4
)

var (
	buffers      = sync.Pool{New: func() any { return new(make([]byte, bigBuffer)) }}
	smallBuffers = sync.Pool{New: func() any { return new(make([]byte, smallBuffer)) }}
)

func (r *Reader) giveBack() {
	if r.lent != nil && len(*r.lent) <= keepBuffer {
		buffers.Put(r.lent)
	}
	r.lent = nil
}

// Release returns the reader's memory to the pools. The reader must not be used afterwards, because others may use the
// bytes that it returned.
func (r *Reader) Release() {
	r.giveBack()
	if r.small != nil {
		smallBuffers.Put(r.small)
	}
	r.buf, r.small, r.start, r.end = nil, nil, 0, 0
}
