// Package raw is an inexpensive client of HTTP/1.1: one connection, requests that are
// prepared bytes, and a body that is passed on as it arrives. It checks the data to the byte,
// since a measurement of wrong replies is worthless. It is not a general client: it follows
// no redirects and does not retry.
//
// Start at [Dial] and [Conn.Do]; [Whole] and [Stream] check replies.
package raw

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// timeout limits a request: no measurement needs longer between two bytes.
const timeout = time.Minute

// A Conn is one connection. It is for one goroutine.
type Conn struct {
	c    net.Conn
	buf  []byte // buf[r:w] is unread data
	r, w int
}

// Dial connects to host:port, with a buffer of the given size in bytes.
func Dial(address string, buffer int) (*Conn, error) {
	c, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return nil, err
	}
	return &Conn{c: c, buf: make([]byte, buffer)}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Request returns the bytes of a request.
func Request(method, host, path, key string, body []byte) []byte {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", method, path, host, key)
	if body != nil {
		b = fmt.Appendf(b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return append(append(b, "\r\n"...), body...)
}

// Do sends a request and passes on the body of the response piece by piece; a piece is valid
// during the call only. After an error the connection is closed.
func (c *Conn) Do(request []byte, body func([]byte) error) (status int, err error) {
	if err := c.c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	if _, err := c.c.Write(request); err != nil {
		return 0, err
	}
	return c.response(body)
}

// response reads one response.
func (c *Conn) response(body func([]byte) error) (status int, err error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, fmt.Errorf("no status line: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, fmt.Errorf("no status: %q", line)
	}
	length, chunked := -1, false
	for {
		line, err := c.line()
		if err != nil {
			return status, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return status, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked"))
		}
	}
	switch {
	case chunked:
		return status, c.chunks(body)
	case length >= 0:
		return status, c.exactly(length, body)
	}
	return status, errors.New("a response whose end cannot be known")
}

// chunks reads a chunked body to its end.
func (c *Conn) chunks(body func([]byte) error) error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return err
		}
		if n > 0 {
			if err := c.exactly(int(n), body); err != nil {
				return err
			}
		}
		end, err := c.line()
		if err != nil {
			return err
		}
		if len(end) != 0 {
			return fmt.Errorf("a chunk is longer than it says: %q", end)
		}
		if n == 0 {
			return nil
		}
	}
}

// exactly passes on the next n bytes.
func (c *Conn) exactly(n int, body func([]byte) error) error {
	for n > 0 {
		if c.r == c.w {
			if err := c.fill(); err != nil {
				return err
			}
		}
		piece := c.buf[c.r:min(c.w, c.r+n)]
		c.r, n = c.r+len(piece), n-len(piece)
		if body != nil {
			if err := body(piece); err != nil {
				return err
			}
		}
	}
	return nil
}

// line returns the next line without its end; it is valid until the next read.
func (c *Conn) line() ([]byte, error) {
	for from := c.r; ; {
		if i := bytes.IndexByte(c.buf[from:c.w], '\n'); i >= 0 {
			line := c.buf[c.r : from+i]
			c.r = from + i + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		seen := c.w - c.r
		if err := c.fill(); err != nil {
			return nil, err
		}
		from = c.r + seen
	}
}

// fill reads more.
func (c *Conn) fill() error {
	if c.r > 0 {
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
	if c.w == len(c.buf) {
		return fmt.Errorf("a line is longer than %d bytes", len(c.buf))
	}
	n, err := c.c.Read(c.buf[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Extend restarts the timeout of the response that is being read.
func (c *Conn) Extend() error { return c.c.SetDeadline(time.Now().Add(timeout)) }
