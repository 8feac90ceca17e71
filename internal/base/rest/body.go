package rest

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"stoa/internal/base/stoa"
)

const (
	// bodyIdle is the maximum pause within a body, and the time before bodyRate applies.
	bodyIdle = 30 * time.Second
	// bodyRate is the minimum rate in bytes per second, so that a body that trickles in does not hold its
	// connection for ever.
	bodyRate = 1 << 10

	// Limits of time and size for reading the unread rest of a body, so that the
	// connection can be reused.
	leftoverTimeout = 500 * time.Millisecond
	leftoverBytes   = 256 << 10
	// After 413, limits of time and size for reading from a client that sends before it
	// reads, so that it receives the reply instead of a reset.
	lingerTimeout = 5 * time.Second
	lingerBytes   = 32 << 20
	// The maximum numbers of connections, in total and for one address, that are read this way
	// concurrently. Others are closed immediately, because reading for nothing must not cost much.
	lingering           = 64
	lingeringPerAddress = 16

	// firstBuffer is the allocation for a body before any of it has arrived. It is small, because
	// an announced length is free for the client.
	firstBuffer = 4 << 10
)

// A bodyReader is the body of a request as it arrives: every read has a deadline that is
// extended while bytes arrive.
//
// The connection is reused only if the body was read to its end before the reply began.
// Otherwise the reply announces that it will be closed. EnableFullDuplex prevents net/http
// from reading the rest itself, because it would wait for a body that never arrives; an
// unread rest after the handler would make it read the connection twice. Closing the
// connection after every error was rejected, because a client with a wrong key would dial again
// for each request.
type bodyReader struct {
	io.ReadCloser // net/http's body
	rc            *http.ResponseController
	idle          time.Duration
	announced     int64 // -1 if unknown
	expectsAnswer bool  // the client waits for 100 before it sends

	started time.Time // time of the first read
	n       int64
	ended   bool  // all of it was read
	err     error // the first error, except io.EOF
}

// Read extends the deadline; see [bodyIdle] and [bodyRate].
func (b *bodyReader) Read(p []byte) (int, error) {
	now := time.Now()
	if b.started.IsZero() {
		b.started = now
	}
	deadline := now.Add(b.idle)
	if least := b.started.Add(b.idle + time.Duration(b.n)*(time.Second/bodyRate)); least.Before(deadline) {
		deadline = least
	}
	_ = b.rc.SetReadDeadline(deadline) // ignored, because only connections without a network lack deadlines
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	switch {
	case err == io.EOF:
		b.ended = true
		_ = b.rc.SetReadDeadline(time.Time{}) // net/http needs no deadline here, because it waits for the client to disconnect from now on
	case err != nil:
		b.err = err
	}
	return n, err
}

func (b *bodyReader) unread() bool { return b != nil && !b.ended }

// settle runs before a reply begins. It reads the rest of a small unread body, or reports that
// the connection cannot be reused.
func (b *bodyReader) settle(status int) (closing bool) {
	if !b.unread() {
		return false
	}
	if b.err != nil || b.expectsAnswer && b.n == 0 || status == http.StatusRequestEntityTooLarge || b.announced-b.n > leftoverBytes {
		return true
	}
	_ = b.rc.SetReadDeadline(time.Now().Add(leftoverTimeout))
	n, err := io.CopyN(io.Discard, b.ReadCloser, leftoverBytes+1)
	b.n += n
	if err != io.EOF {
		b.err = err
		return true
	}
	b.ended = true
	_ = b.rc.SetReadDeadline(time.Time{})
	return false
}

// linger runs after the reply of a connection that will be closed. It reads on for a short time if
// enter allows it, because a reset could destroy the reply before the client reads it.
func (b *bodyReader) linger(status int, enter func() (leave func(), ok bool)) {
	if status == 0 || !b.unread() || b.expectsAnswer && b.n == 0 {
		return
	}
	defer b.rc.SetReadDeadline(time.Unix(1, 0)) // so that net/http does not wait for more
	leave, ok := enter()
	if !ok {
		return
	}
	defer leave()
	timeout, most := leftoverTimeout, int64(leftoverBytes)
	if status == http.StatusRequestEntityTooLarge {
		timeout, most = lingerTimeout, lingerBytes
	}
	if b.err == nil {
		_ = b.rc.Flush()
		_ = b.rc.SetReadDeadline(time.Now().Add(timeout))
		discard(b.ReadCloser, most)
	}
}

// discard reads up to most bytes, or to the end, in few large reads.
func discard(r io.Reader, most int64) {
	buf := make([]byte, 64<<10)
	for most > 0 {
		n, err := r.Read(buf)
		if most -= int64(n); err != nil {
			return
		}
	}
}

// ReadError returns the API error of a failed read of a body.
func ReadError(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return stoa.Errorf(stoa.CodeRequestTimeout, "The body did not arrive in time: send it without pauses of %d seconds, and at a rate of at least %d bytes per second. Nothing was done.", bodyIdle/time.Second, bodyRate).Because(err)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed):
		return stoa.ErrClientGone
	}
	return stoa.Errorf(stoa.CodeInvalidJSON, "The body ended early. Send the complete body. Nothing was done.").Because(err)
}

// A budget limits the bytes of all bodies in memory. It distributes them among accounts: an account
// cannot hold more than the free rest, so that one account that reserves its maximum leaves half, two
// leave a third, and so on. It is safe for concurrent use.
type budget struct {
	most int64

	mu   sync.Mutex
	used int64
	by   map[string]int64 // by account; "" before authentication
}

// freeShare is the number of bytes that an account can always hold while any are free, or a quarter
// of the budget if that is less, so that small requests succeed next to large ones.
const freeShare = 1 << 20

// reserve reserves n bytes for an account, and reports whether they were available.
func (b *budget) reserve(account string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	free, held := b.most-b.used-n, b.by[account]+n
	if free < 0 || held > free && held > min(freeShare, b.most/4) {
		return false
	}
	if b.by == nil {
		b.by = map[string]int64{}
	}
	b.used += n
	b.by[account] = held
	return true
}

func (b *budget) release(account string, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.by[account] -= n; b.by[account] == 0 {
		delete(b.by, account)
	}
}

const largeBody = 64 << 10

// largeBodies is the maximum number of large bodies that are parsed concurrently: half of the
// program's processors, so that small requests find a free one. A GOMAXPROCS beyond the machine's processors does not
// raise it.
func largeBodies() int { return max(1, min(runtime.NumCPU(), runtime.GOMAXPROCS(0))/2) }

// InTurn does work on a whole body, such as parsing it. Only [largeBodies] large bodies are
// processed concurrently, and accounts take turns, so that a small request finds a free processor
// and a large one waits for at most one request of each other account.
func InTurn[T any](b *Base, w http.ResponseWriter, body []byte, work func([]byte) (T, error)) (T, error) {
	if len(body) < largeBody {
		return work(body)
	}
	x := w.(*Exchange)
	give, err := b.parsing.Acquire(x.HTTP.Context(), x.Log.Caller.Account.ID, largeBodies(), max(1, largeBodies()/2))
	if err != nil {
		var none T
		return none, stoa.ErrClientGone
	}
	defer give()
	return work(body)
}

// ReadBody returns the whole body of a JSON request, up to the maximum size of the operation.
// It accepts a missing content type, because a body that is not JSON fails anyway. It rejects a wrong
// content type before reading it.
func (b *Base) ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if given := r.Header.Get("Content-Type"); given != "" {
		media, _, err := mime.ParseMediaType(given)
		if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || media != "application/json" {
			return nil, stoa.Errorf(stoa.CodeMediaType, "The body must be JSON. Send it with Content-Type: application/json.").At("Content-Type")
		}
	}
	body, err := b.ReadBytes(w, r)
	return bytes.TrimPrefix(body, byteOrderMark), err
}

// ReadBytes returns the whole body of a request of any type, up to the maximum size of the operation.
// It rejects a compressed one. Memory is allocated as bytes arrive, because a client can announce any
// length.
func (b *Base) ReadBytes(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	x := w.(*Exchange)
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, stoa.Errorf(stoa.CodeMediaType, "Compressed bodies are not supported. Send uncompressed JSON, without Content-Encoding.").At("Content-Encoding")
	}
	if r.ContentLength > x.maxBody {
		return nil, tooLarge(x.maxBody)
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	var body []byte
	for {
		if len(body) == cap(body) {
			size := max(int64(2*cap(body)), firstBuffer)
			if r.ContentLength > 0 {
				size = min(size, r.ContentLength+1) // one byte more, so that the read reports the end
			}
			size = min(size, x.maxBody+1)
			more := size - int64(cap(body))
			if !b.bodies.reserve(x.Log.Caller.Account.ID, more) {
				return nil, stoa.Errorf(stoa.CodeOverloaded, "Too many large requests are being read at the moment. Try again in a second.").After(time.Second)
			}
			x.held += more
			var err error
			if body, err = InTurn(b, x, body, func(body []byte) ([]byte, error) {
				grown := make([]byte, len(body), size)
				copy(grown, body)
				return grown, nil
			}); err != nil {
				return nil, err
			}
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > x.maxBody:
			return nil, tooLarge(x.maxBody)
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, ReadError(err)
		}
	}
}

// byteOrderMark precedes the JSON of some programs, such as files of PowerShell. It is removed because RFC 8259
// lets readers ignore it and Go's decoder does not.
var byteOrderMark = []byte("\ufeff")

func tooLarge(most int64) error {
	return stoa.Errorf(stoa.CodeTooLarge, "The body is larger than %s, the maximum of this operation. Send a smaller body.", stoa.Size(most))
}
