// Package logwriter prevents a slow log from blocking its callers: it collects their lines in
// memory, and one goroutine writes them.
//
// Without it each request writes its line under a lock, so that an unread pipe stops the service after
// 64 KiB. A line is one call of Write, because the handlers of slog write lines that way. Lines keep their order. A line
// that does not fit into the buffer is dropped, and so are the lines of a failed write; both are counted, and a line of
// the log reports them. A crash loses the unwritten lines. Start at [New].
package logwriter

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// limit is the maximum size in bytes of the buffer that collects lines, so that a blocked log cannot fill the memory.
// The buffer that is being written has the same limit.
const limit = 1 << 20

// A Writer collects lines and writes them to another writer. It is safe for concurrent use.
type Writer struct {
	to     io.Writer
	report func(io.Writer, uint64)
	ended  chan struct{}

	mu        sync.Mutex
	changed   *sync.Cond // there are lines, or the Writer is closed
	collected []byte
	dropped   uint64
	closed    bool
}

// New returns a Writer to a writer whose Write may block or fail. report writes one line with the number of dropped lines.
func New(to io.Writer, report func(to io.Writer, lines uint64)) *Writer {
	w := &Writer{to: to, report: report, ended: make(chan struct{})}
	w.changed = sync.NewCond(&w.mu)
	go w.run()
	return w
}

// Write copies one line, including its line break. It never blocks and never fails.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	if w.closed || len(w.collected)+len(line) > limit {
		w.dropped++
	} else {
		w.collected = append(w.collected, line...)
	}
	w.mu.Unlock()
	w.changed.Signal()
	return len(line), nil
}

// Dropped returns the number of dropped lines.
func (w *Writer) Dropped() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Close writes the collected lines and reports whether that completed within the timeout. Later lines are dropped.
func (w *Writer) Close(timeout time.Duration) bool {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.changed.Signal()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-w.ended:
		return true
	case <-timer.C:
		return false
	}
}

// run writes until the Writer is closed. It writes one buffer while lines are collected in the other, so that no caller
// waits.
func (w *Writer) run() {
	defer close(w.ended)
	var batch []byte
	var reported uint64
	for {
		w.mu.Lock()
		for len(w.collected) == 0 && !w.closed {
			w.changed.Wait()
		}
		batch, w.collected = w.collected, batch[:0]
		dropped, closed := w.dropped, w.closed
		w.mu.Unlock()

		var err error
		if len(batch) > 0 {
			var n int
			n, err = w.to.Write(batch)
			w.mu.Lock()
			w.dropped += uint64(bytes.Count(batch[n:], []byte("\n")))
			w.mu.Unlock()
		}
		if err == nil && dropped > reported {
			w.report(w.to, dropped-reported)
			reported = dropped
		}
		if closed && len(batch) == 0 {
			return
		}
	}
}
