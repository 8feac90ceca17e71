package rest

import (
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

	"stoa/internal/stoa"
)

const (
	// bodyIdle is how long nothing of a body may come, and how long a body may take
	// before the least rate applies.
	bodyIdle = 30 * time.Second
	// bodyRate is the least rate of a body after that, in bytes per second.
	bodyRate = 1 << 10

	// A body that the handler did not read is read for so long, and so far, that
	// the connection can be used again.
	leftoverTimeout = 500 * time.Millisecond
	leftoverBytes   = 256 << 10
	// After 413, a client that sends before it reads is read for so long, and so
	// far, that it sees the reply and not a reset.
	lingerTimeout = 5 * time.Second
	lingerBytes   = 32 << 20
	// So many connections, in all and of one address, are read like that at a time;
	// others are closed at once.
	lingering           = 64
	lingeringPerAddress = 16

	// firstBuffer is what is allocated for a body before any of it has come.
	firstBuffer = 4 << 10
)

// An inbody is the body of a request as it comes: every read has a deadline that
// moves while bytes move.
//
// The connection is used again only if the body was read to its end before the
// reply began; otherwise the reply says that it will be closed. net/http is told not
// to read the rest itself (EnableFullDuplex), since it would wait for a body that
// never comes; a rest that it met after the handler would make it read the
// connection twice. Closing at every refusal was rejected: a client with a wrong
// key would dial anew for each request.
type inbody struct {
	io.ReadCloser // of net/http
	rc            *http.ResponseController
	idle          time.Duration
	announced     int64 // -1: unknown
	expectsAnswer bool  // the client waits for 100 before it sends

	started time.Time // of the first read
	n       int64
	ended   bool  // all of it was read
	err     error // of a read, other than the end
}

// Read reads with a deadline; see [bodyIdle] and [bodyRate].
func (b *inbody) Read(p []byte) (int, error) {
	now := time.Now()
	if b.started.IsZero() {
		b.started = now
	}
	deadline := now.Add(b.idle)
	if least := b.started.Add(b.idle + time.Duration(b.n)*(time.Second/bodyRate)); least.Before(deadline) {
		deadline = least
	}
	_ = b.rc.SetReadDeadline(deadline) // where there is none, the connection is none of a network
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	switch {
	case err == io.EOF:
		b.ended = true
		_ = b.rc.SetReadDeadline(time.Time{}) // net/http waits for the client to disconnect from here on
	case err != nil:
		b.err = err
	}
	return n, err
}

// unread reports whether there is a body that was not read to its end.
func (b *inbody) unread() bool { return b != nil && !b.ended }

// settle runs before a reply begins. It reads the rest of a small body that
// nobody wanted, or reports that the connection cannot be used again.
func (b *inbody) settle(status int) (closing bool) {
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

// linger runs after the reply of a connection that will be closed: it reads on for
// a moment, if enter lets it.
func (b *inbody) linger(status int, enter func() (leave func(), ok bool)) {
	if status == 0 || !b.unread() || b.expectsAnswer && b.n == 0 {
		return
	}
	defer b.rc.SetReadDeadline(time.Unix(1, 0)) // net/http is not to wait for more
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

// ReadError says what an error of reading a body means to the caller.
func ReadError(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return stoa.Errorf(stoa.CodeRequestTimeout, "The body did not come in time: send it without pauses of %d seconds, and at %d bytes per second at least. Nothing was done.", bodyIdle/time.Second, bodyRate).Because(err)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed):
		return ErrClientGone
	}
	return stoa.Errorf(stoa.CodeInvalidJSON, "The body ended early. Send it whole. Nothing was done.").Because(err)
}

// A budget bounds the bytes of all bodies in memory and shares them out by account:
// none holds more than what is left free, so that one that takes all it can leaves
// half, two leave a third, and so on. It is safe for concurrent use.
type budget struct {
	most int64

	mu   sync.Mutex
	used int64
	by   map[string]int64 // by account; "" for those who are nobody yet
}

// freeShare is how many bytes an account may hold while any are free at all, or a
// quarter of the budget if that is less.
const freeShare = 1 << 20

// take reserves n bytes for an account, or reports that they are too many.
func (b *budget) take(account string, n int64) bool {
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

// give returns bytes that were taken.
func (b *budget) give(account string, n int64) {
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

// largeBody is the size in bytes from which bodies are copied and parsed in turn.
const largeBody = 64 << 10

// largeBodies is the maximum number of large bodies that are parsed at the same time:
// half of the processors that the program uses, at least one. A GOMAXPROCS beyond the
// processors of the machine does not raise it.
func largeBodies() int { return max(1, min(runtime.NumCPU(), runtime.GOMAXPROCS(0))/2) }

// InTurn does work on a whole body, such as parsing it. On large ones it is done on
// half as many at a time as there are processors, and each account gets its turn,
// so that a small request finds a processor free and a large one waits for at most
// one of each other account.
func InTurn[T any](b *Base, w http.ResponseWriter, body []byte, work func([]byte) (T, error)) (T, error) {
	if len(body) < largeBody {
		return work(body)
	}
	x := w.(*Exchange)
	give, err := b.parsing.Acquire(x.HTTP.Context(), x.Log.Caller.Account.ID, largeBodies())
	if err != nil {
		var none T
		return none, ErrClientGone
	}
	defer give()
	return work(body)
}

// ReadBody returns the whole body of a JSON request, at most as large as the
// operation takes. A missing content type is read as JSON, since a body that is
// not will fail anyway; a wrong or compressed one is rejected before it is read.
// Memory is allocated as bytes come, whatever the length that was announced.
func (b *Base) ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	x := w.(*Exchange)
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, stoa.Errorf(stoa.CodeMediaType, "Compressed bodies are not read. Send the JSON as it is, without Content-Encoding.").At("Content-Encoding")
	}
	if given := r.Header.Get("Content-Type"); given != "" {
		media, _, err := mime.ParseMediaType(given)
		if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || media != "application/json" {
			return nil, stoa.Errorf(stoa.CodeMediaType, "The body must be JSON. Send it with Content-Type: application/json.").At("Content-Type")
		}
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
				size = min(size, r.ContentLength+1) // one more, so that the end is seen
			}
			size = min(size, x.maxBody+1)
			more := size - int64(cap(body))
			if !b.bodies.take(x.Log.Caller.Account.ID, more) {
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

func tooLarge(most int64) error {
	return stoa.Errorf(stoa.CodeTooLarge, "The body is larger than %d bytes, the most that this operation takes. Send less at once.", most)
}
