// Package sse reads and writes server-sent events by the rules of the HTML
// standard: lines that end with LF, CR or CRLF, comments, a byte order mark,
// data over several lines. It never interprets what the data says, and it never
// keeps an "id" or a "retry". Start with [Reader.Next] and [AppendEvent].
package sse

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// DefaultMaxEvent is the largest event in bytes of a [Reader] that was given no limit.
const DefaultMaxEvent = 8 << 20

// An Event is one event. Its bytes belong to the reader and are valid until its
// next call. An empty Type stands for "message".
type Event struct {
	Type, Data []byte
}

// A TooLargeError says that one event (its comments counted) exceeds the limit in bytes.
type TooLargeError struct{ Limit int }

// Error returns the limit in bytes.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("server-sent event larger than %d bytes", e.Limit)
}

// A Reader reads events. It allocates when its buffer has to grow, not per event.
// While it waits for a source that brings an event now and then, it holds
// smallBuffer bytes; it takes a larger buffer from a pool for bursts and long events.
type Reader struct {
	src     io.Reader
	buf     []byte
	small   []byte  // the reader's own buffer; nil before the first read
	lent    *[]byte // buf, when it is not small
	busy    bool    // the last read brought so much that more has probably arrived
	start   int     // of what was not consumed
	end     int     // of what was read
	max     int
	err     error // of src, returned when the buffer is empty
	joined  []byte
	begun   bool // a byte order mark was skipped, if there was one
	swallow bool // a CR ended the last line: an LF that follows belongs to it
	left    bool // see Leftover
}

// NewReader reads from src events of at most limit bytes; 0 means [DefaultMaxEvent].
func NewReader(src io.Reader, limit int) *Reader {
	if limit <= 0 {
		limit = DefaultMaxEvent
	}
	return &Reader{src: src, max: limit}
}

// A span is a range of the buffer, relative to start so that it stays valid when
// the buffer's content moves.
type span struct{ from, to int }

// Next returns the next event that has data. At the end of the source it returns
// io.EOF, and [Reader.Leftover] reports whether the source ended inside an event.
// Other errors are the source's own, unchanged, or a [*TooLargeError].
func (r *Reader) Next() (Event, error) {
	if err := r.begin(); err != nil {
		return Event{}, err
	}
	var (
		at     int // where the line begins, from start
		seen   int // up to where no line end was found
		typ    span
		data   span
		lines  int  // of data
		fields bool // the event has a line that is no comment
	)
	for {
		line, next, ok := r.line(at, seen)
		if !ok {
			at, seen = next, r.end-r.start
			if err := r.fill(); err != nil {
				if err == io.EOF {
					r.left = fields || r.end-r.start > at && r.buf[r.start+at] != ':'
				}
				return Event{}, err
			}
			continue
		}
		at, seen = next, next
		if line.from == line.to { // blank: the event is complete
			if lines == 0 {
				r.start += at
				at, seen, typ, fields = 0, 0, span{}, false
				continue
			}
			ev := Event{Type: r.bytes(typ), Data: r.bytes(data)}
			if lines > 1 {
				ev.Data = r.joined[:len(r.joined)-1]
			}
			r.start += at
			return ev, nil
		}
		b := r.bytes(line)
		if b[0] == ':' {
			if !fields { // nothing before it has to be kept
				r.start += at
				at, seen = 0, 0
			}
			continue
		}
		fields = true
		name, value := b, line.to
		if i := bytes.IndexByte(b, ':'); i >= 0 {
			name, value = b[:i], line.from+i+1
			if i+1 < len(b) && b[i+1] == ' ' {
				value++
			}
		}
		switch string(name) {
		case "event":
			typ = span{value, line.to}
		case "data":
			switch lines++; lines {
			case 1:
				data = span{value, line.to}
			case 2:
				r.joined = append(append(r.joined[:0], r.bytes(data)...), '\n')
				fallthrough
			default:
				r.joined = append(append(r.joined, r.bytes(span{value, line.to})...), '\n')
			}
		}
	}
}

// More reports whether Next would return another event without reading from the
// source.
func (r *Reader) More() bool {
	if !r.begun {
		return false
	}
	data := false
	swallow := r.swallow
	defer func() { r.swallow = swallow }()
	for at := 0; ; {
		line, next, ok := r.line(at, at)
		switch b := r.bytes(line); {
		case !ok:
			return false
		case len(b) == 0 && data:
			return true
		case bytes.HasPrefix(b, []byte("data")) && (len(b) == 4 || b[4] == ':'):
			data = true
		}
		at = next
	}
}

// Partial returns, after io.EOF, the event inside which the source ended, as if its
// blank line had come, and false if that has no data. Some servers omit the last
// blank line, which by the standard makes the event none; the caller must be able to
// tell a complete event from a cut one by its data.
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

// Leftover reports, after io.EOF, that the source ended inside an event.
func (r *Reader) Leftover() bool { return r.left }

// First returns the first byte that is not white space without consuming it, to
// distinguish other formats from events. It must be called before Next.
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

// Rest reads everything that was not consumed, for a source that turned out to have
// another format. Beyond limit bytes it fails with a [*TooLargeError].
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

// begin skips a byte order mark.
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

// line returns the line that begins at at; up to seen there is no line end.
// Positions are relative to start; next is where the following line begins or, if
// the line is not complete, where this one does. A CR ends its line at once, so that
// an event is complete without waiting for an LF that may belong to it.
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
	if j := bytes.IndexByte(b, '\r'); j >= 0 {
		r.swallow = true
		return span{at, seen + j}, seen + j + 1, true
	}
	if i < 0 {
		return span{}, at, false
	}
	return span{at, seen + i}, seen + i + 1, true
}

// fill reads more from the source.
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
		r.shrink()
	case r.end == len(r.buf) || r.busy && r.lent == nil:
		r.grow()
	}
	for range 100 {
		n, err := r.src.Read(r.buf[r.end:])
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

// Sizes in bytes.
const (
	smallBuffer = 1 << 10  // holds an event of a few words
	bigBuffer   = 8 << 10  // the least that is lent
	keepBuffer  = 64 << 10 // the most that is kept for another reader
	burst       = 3 * smallBuffer / 4
)

var buffers = sync.Pool{New: func() any { return new(make([]byte, bigBuffer)) }}

// shrink gives an empty reader its own buffer back.
func (r *Reader) shrink() {
	r.giveBack()
	if r.small == nil {
		r.small = make([]byte, smallBuffer)
	}
	r.buf = r.small
}

// grow moves what was read to a larger buffer.
func (r *Reader) grow() {
	size := max(bigBuffer, 2*len(r.buf))
	larger := buffers.Get().(*[]byte)
	if len(*larger) < size {
		*larger = make([]byte, size)
	}
	copy(*larger, r.buf[:r.end])
	r.giveBack()
	r.lent, r.buf = larger, *larger
}

func (r *Reader) giveBack() {
	if r.lent != nil && len(*r.lent) <= keepBuffer {
		buffers.Put(r.lent)
	}
	r.lent = nil
}
