package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"stoa/internal/eventloop"
)

// A body is the body of a reply. Its reader reads from the connection, and the framing
// is removed where the bytes lie.
type body struct {
	t    *Transport
	conn *conn
	ctx  context.Context
	stop func() bool   // ends the watch over ctx
	in   *bufio.Reader // holds what came with the header; nil: it was read

	task   *eventloop.Task // nil: it is read here
	slow   time.Duration   // see OnLoop
	last   time.Time       // when something came
	silent time.Duration   // in waits that took so long, the last ones

	chunked bool
	chunks  chunks
	left    int64 // bytes that come; negative: until the server closes the connection
	keep    bool  // the connection may serve other requests
	err     error // the first error
	ended   atomic.Bool
}

// begin makes b the body of the reply.
func (b *body) begin(res *http.Response) {
	b.chunked = len(res.TransferEncoding) > 0 // net/http knows no other than chunked
	b.left = res.ContentLength
	none := res.Body == http.NoBody
	res.Body = b
	if none {
		b.err = io.EOF
		b.end()
	}
}

// Read reads the body. The end comes with the last bytes.
func (b *body) Read(p []byte) (n int, err error) {
	for n == 0 && b.err == nil && len(p) > 0 {
		if b.left >= 0 && !b.chunked {
			p = p[:min(int64(len(p)), b.left)]
		}
		n, b.err = b.read(p)
		switch {
		case b.chunked:
			n, b.err = b.chunks.remove(p[:n], b.err)
		case b.left >= 0:
			b.left -= int64(n)
			b.err = ended(b.left == 0, b.err)
		}
		if b.err != nil {
			b.end()
		}
	}
	return n, b.err
}

// Buffered returns how many bytes came with the header and were not read, framing
// included.
func (b *body) Buffered() int {
	if b.in == nil {
		return 0
	}
	return b.in.Buffered()
}

// ended returns the error of a body of which something or nothing is to come.
func ended(all bool, err error) error {
	switch {
	case all:
		return io.EOF
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// read reads what came with the header, then from the connection.
func (b *body) read(p []byte) (int, error) {
	if b.Buffered() > 0 {
		return b.in.Read(p)
	}
	if b.in != nil {
		b.drop()
	}
	n, err := b.receive(p)
	if err != nil && err != io.EOF && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

// receive reads from the connection. One that is slow is read on a loop from then on.
func (b *body) receive(p []byte) (int, error) {
	switch {
	case b.task == nil:
		return b.conn.Read(p)
	case b.conn.own.open():
		return b.conn.own.read(b.task, p)
	}
	n, err := b.conn.Read(p)
	now := time.Now()
	wait := now.Sub(b.last)
	if b.last = now; wait < b.slow {
		b.silent = 0
	} else if b.silent += wait; b.silent >= slowWaits*b.slow && err == nil {
		b.conn.toOwn()
	}
	return n, err
}

// A connection is slow that was silent for slowWaits times SlowAfter (96 ms) in waits of at
// least SlowAfter, one after the other. In a process with much to do fast ones have such
// waits, too, but seldom so many, and it costs them more than it saves to be read on a loop.
const (
	SlowAfter = 8 * time.Millisecond
	slowWaits = 12
)

// OnLoop has the body of a reply, if it is one of a [Transport], read on a loop of the
// task once its connection is slow, by waits of that time. The body may be read, and
// closed, only by the function of that task from then on.
func OnLoop(res *http.Response, task *eventloop.Task, slow time.Duration) {
	if b, ok := res.Body.(*body); ok && task != nil {
		b.task, b.slow, b.last = task, slow, time.Now()
	}
}

// drop gives the buffer of the header back.
func (b *body) drop() {
	putInput(b.in)
	b.in = nil
}

// end ends the use of the connection, once.
func (b *body) end() {
	if !b.ended.CompareAndSwap(false, true) {
		return
	}
	more := b.chunks.more || b.Buffered() > 0
	if b.in != nil {
		b.drop()
	}
	b.task.Leave()
	if b.stop() && b.err == io.EOF && b.keep && !more && b.conn.fromOwn() {
		b.t.put(b.conn)
	} else {
		b.conn.Close()
	}
}

// Close closes the connection unless the body was read to its end.
func (b *body) Close() error {
	if b.ended.CompareAndSwap(false, true) {
		b.task.Leave()
		b.stop()
		b.conn.Close()
	}
	return nil
}

// Bounds of the framing, those of net/http.
const (
	maxLine    = 4096     // bytes of a line with a size
	maxChunk   = 1 << 61  // bytes
	maxExcess  = 16 << 10 // bytes of framing beyond what small chunks need
	maxTrailer = 64 << 10 // bytes
)

// A place is where in the framing of chunks the next byte belongs.
type place uint8

const (
	atSize    place = iota // before or in the size of a chunk
	afterSize              // in white space after it
	extension
	sizeLF // after the CR of that line
	inData
	dataCR // after the data
	dataLF
	trailer     // at the beginning of a line
	trailerLine // in a line
	trailerLF   // after a CR at the beginning of a line
	last        // after the end
)

// chunks is how far the framing of a chunked body (RFC 9112, section 7.1) was read.
type chunks struct {
	at     place
	digits int
	line   int    // bytes of the line, or of the trailer
	size   uint64 // of the chunk, then what is left of it
	excess int64  // bytes of framing beyond those that small chunks need
	more   bool   // bytes came after the end
}

var (
	errChunk    = errors.New("http1: the framing of the reply is malformed")
	errTooLarge = fmt.Errorf("%w: a chunk is too large", errChunk)
)

// remove removes the framing from what was read, in place, and returns how many bytes
// of the body are left. err is that of the read; the end is io.EOF.
func (c *chunks) remove(p []byte, err error) (n int, _ error) {
	for i := 0; i < len(p); {
		if c.at == inData {
			k := int(min(uint64(len(p)-i), c.size))
			if n != i {
				copy(p[n:], p[i:i+k])
			}
			n, i = n+k, i+k
			if c.size -= uint64(k); c.size == 0 {
				c.at = dataCR
			}
			continue
		}
		if c.at == last {
			c.more = true
			break
		}
		k, e := c.frame(p[i:])
		if e != nil {
			return n, e
		}
		i += k
	}
	return n, ended(c.at == last, err)
}

// frame reads framing, all that stands between two chunks or one byte, and returns how
// many bytes it read.
func (c *chunks) frame(p []byte) (int, error) {
	size, all := c.between(p)
	if all == 0 {
		return 1, c.next(p[0])
	}
	c.size, c.line = size, all-len("\r\n\r\n")
	return all, c.chunk()
}

// between finds what stands between two chunks in the form in which nearly all servers
// write it: the end of a chunk, and a line that is the size of the next. It returns
// that size and how many bytes it found; 0 if there are other bytes, or not all yet.
func (c *chunks) between(p []byte) (size uint64, all int) {
	const digits = 5 // of a size that is seen here: 1 MiB
	if c.at != dataCR || len(p) < len("\r\n1\r\n") || p[0] != '\r' || p[1] != '\n' {
		return 0, 0
	}
	i := 2
	for ; i < min(2+digits, len(p)-2); i++ {
		d, ok := hexDigit(p[i])
		if !ok {
			break
		}
		size = size<<4 | uint64(d)
	}
	if size == 0 || p[i] != '\r' || p[i+1] != '\n' {
		return 0, 0
	}
	return size, i + 2
}

// next reads one byte of framing.
func (c *chunks) next(b byte) error {
	switch c.at {
	case atSize:
		if d, ok := hexDigit(b); ok {
			if c.digits++; c.digits > 16 {
				return errTooLarge
			}
			c.size = c.size<<4 | uint64(d)
			return c.inLine()
		}
		if c.digits == 0 {
			return fmt.Errorf("%w: a chunk has no size", errChunk)
		}
		return c.afterDigits(b)
	case afterSize:
		if b == ';' {
			return fmt.Errorf("%w: white space before an extension", errChunk)
		}
		return c.afterDigits(b)
	case extension:
		switch b {
		case '\r':
			c.at = sizeLF
			return nil
		case '\n':
			return fmt.Errorf("%w: a line ends without CR", errChunk)
		}
		return c.inLine()
	case sizeLF:
		if b != '\n' {
			return fmt.Errorf("%w: a CR without LF", errChunk)
		}
		return c.chunk()
	case dataCR, dataLF:
		if b != "\r\n"[c.at-dataCR] {
			return fmt.Errorf("%w: a chunk is longer than its size", errChunk)
		}
		if c.at++; c.at > dataLF {
			c.at = atSize
		}
		return nil
	}
	return c.inTrailer(b)
}

// afterDigits reads what follows a size in its line.
func (c *chunks) afterDigits(b byte) error {
	switch b {
	case '\r':
		c.at = sizeLF
		return nil
	case ';':
		c.at = extension
	case ' ', '\t':
		c.at = afterSize
	default:
		return fmt.Errorf("%w: a size is no hexadecimal number", errChunk)
	}
	return c.inLine()
}

// inLine counts a byte of the line with a size.
func (c *chunks) inLine() error {
	if c.line++; c.line >= maxLine {
		return fmt.Errorf("%w: a line is too long", errChunk)
	}
	return nil
}

// chunk begins the chunk whose line ended. A server may send single bytes, but not
// little else than extensions.
func (c *chunks) chunk() error {
	if c.size > maxChunk {
		return errTooLarge
	}
	c.excess = max(c.excess+int64(c.line)+2-16-2*int64(c.size), 0)
	if c.excess > maxExcess {
		return fmt.Errorf("%w: it has too many extensions", errChunk)
	}
	c.at, c.digits, c.line = inData, 0, 0
	if c.size == 0 {
		c.at = trailer
	}
	return nil
}

// inTrailer reads what follows the last chunk, of which nothing is kept.
func (c *chunks) inTrailer(b byte) error {
	if c.line++; c.line > maxTrailer {
		return fmt.Errorf("%w: the trailer is too long", errChunk)
	}
	switch {
	case b == '\n' && c.at == trailerLine:
		c.at = trailer
	case b == '\n':
		c.at = last
	case b == '\r' && c.at == trailer:
		c.at = trailerLF
	default:
		c.at = trailerLine
	}
	return nil
}

func hexDigit(b byte) (byte, bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b && b <= 'f':
		return b - 'a' + 10, true
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}
