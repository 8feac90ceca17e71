// Package logwriter keeps a slow log away from those who log: their lines are
// gathered in memory, and one goroutine writes what has gathered.
//
// A line is what one call of Write gets, as the handlers of slog call it. Lines keep
// their order and are never mixed. One that finds the buffer full is dropped, counted
// and told where it is missing, and so is what the destination refused. The package
// never formats a line, and never stops whoever logs. Start at [New].
// See docs/decisions/0059-the-log-may-lose-lines.md.
package logwriter

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// limit is how many bytes wait to be written at most, beside those that are being
// written, which are as many at most.
const limit = 1 << 20

// pause is how long lines gather after a write, unless they fill half of the buffer before
// that: waking a goroutine costs more than a line, and a busy service has thousands a second.
const pause = 10 * time.Millisecond

// A Writer gathers lines and writes them to another writer. It is safe for use by many
// goroutines.
type Writer struct {
	to    io.Writer
	tell  func(io.Writer, uint64)
	early chan struct{} // a value ends a pause
	ended chan struct{}

	mu       sync.Mutex
	changed  *sync.Cond // there are lines, or nothing comes any more
	gathered []byte
	dropped  uint64
	closed   bool

	rest []byte // of a line whose beginning is written; only for the goroutine that writes
}

// New returns a Writer of lines to a writer, whose Write may take any time and may
// fail. tell writes one line that says how many lines were dropped; it gets a buffer,
// so that no other line comes between.
func New(to io.Writer, tell func(to io.Writer, lines uint64)) *Writer {
	w := &Writer{to: to, tell: tell, early: make(chan struct{}, 1), ended: make(chan struct{})}
	w.changed = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// Write takes one line, its line break included. It copies it and returns at once, and
// never fails: a line that is dropped is counted.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	if w.closed || len(w.gathered)+len(line) > limit {
		w.dropped++
	} else {
		w.gathered = append(w.gathered, line...)
	}
	much := len(w.gathered) > limit/2
	w.mu.Unlock()
	w.changed.Signal()
	if much {
		w.endPause()
	}
	return len(line), nil
}

func (w *Writer) endPause() {
	select {
	case w.early <- struct{}{}:
	default:
	}
}

// Dropped returns how many lines were dropped in all.
func (w *Writer) Dropped() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Close writes what has gathered, within so much time, and reports whether that was
// enough. What comes later is dropped.
func (w *Writer) Close(within time.Duration) bool {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.changed.Signal()
	w.endPause()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-w.ended:
		return true
	case <-timer.C:
		return false
	}
}

// run writes until the Writer is closed. While it writes one buffer, and pauses, lines
// gather in the other.
func (w *Writer) run() {
	defer close(w.ended)
	var batch []byte
	var told uint64
	for {
		w.mu.Lock()
		for len(w.gathered) == 0 && !w.closed {
			w.changed.Wait()
		}
		batch, w.gathered = w.gathered, batch[:0]
		dropped := w.dropped // after the lines of this batch, before those of the next
		closed := w.closed
		w.mu.Unlock()

		n, err := w.write(batch)
		if lost := bytes.Count(batch[n:], []byte("\n")); lost > 0 {
			w.mu.Lock()
			w.dropped += uint64(lost)
			w.mu.Unlock()
		}
		if err == nil && dropped > told {
			var notice bytes.Buffer
			w.tell(&notice, dropped-told)
			if n, _ := w.write(notice.Bytes()); n > 0 {
				told = dropped
			}
		}
		switch {
		case closed && len(batch) == 0:
			return
		case closed: // once more, for what could not be written or told
			continue
		}
		select {
		case <-time.After(pause):
		case <-w.early:
		}
	}
}

// write writes lines, after the rest of one that is written in part. It returns how
// many bytes are written or kept, up to the end of a line: a later call begins with
// what is kept.
func (w *Writer) write(lines []byte) (n int, err error) {
	n, err = writeAll(w.to, w.rest)
	if w.rest = w.rest[n:]; err != nil {
		return 0, err
	}
	n, err = writeAll(w.to, lines)
	if n > 0 && n < len(lines) && lines[n-1] != '\n' {
		length := bytes.IndexByte(lines[n:], '\n') + 1
		w.rest = append(w.rest, lines[n:n+length]...)
		n += length
	}
	return n, err
}

// writeAll writes p, unless it is empty. What is written in part has an error.
func writeAll(to io.Writer, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := to.Write(p)
	if n < len(p) && err == nil {
		err = io.ErrShortWrite
	}
	return n, err
}
