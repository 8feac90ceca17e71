// Package null is a vendor that costs next to nothing: it speaks the four formats
// of providers, checks nothing, and answers from bytes that were made once, one
// write per delta. It reads HTTP/1.1 itself and understands just what clients of
// vendors send: a request line, headers, and a body with its length.
//
// The prompt says what the reply is: see [Prompt]. Start at [Vendor.Serve].
package null

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Plan is what a reply is made of.
type Plan struct {
	Deltas int           // of a stream; also the output tokens that are reported
	Bytes  int           // of the text, deltas together
	Delay  time.Duration // before each delta but the first; 0: none
}

const mark = "null-reply "

// Prompt returns the prompt that is answered by the plan, also where it is one
// string among others of a body.
func Prompt(p Plan) string {
	return fmt.Sprintf("%s%d %d %d.", mark, p.Deltas, p.Bytes, p.Delay.Microseconds())
}

// planOf reads what [Prompt] wrote, wherever it is in a body.
func planOf(body []byte) (p Plan, ok bool) {
	i := bytes.LastIndex(body, []byte(mark))
	if i < 0 {
		return p, false
	}
	text, _, ok := bytes.Cut(body[i+len(mark):], []byte("."))
	if !ok || len(text) > 60 {
		return p, false
	}
	var numbers [3]int
	for n := range numbers {
		var field []byte
		field, text, _ = bytes.Cut(text, []byte(" "))
		v, err := strconv.Atoi(string(field))
		if err != nil {
			return p, false
		}
		numbers[n] = v
	}
	return Plan{Deltas: numbers[0], Bytes: numbers[1], Delay: time.Duration(numbers[2]) * time.Microsecond}, numbers[0] > 0
}

// A Vendor answers. Its zero value is ready.
type Vendor struct {
	// Step is called before each delta, also the first; nil: none. It lets a test
	// send a delta only when the one before has arrived.
	Step func()

	mu      sync.Mutex
	replies map[kind]*reply
}

// A kind of request has one reply.
type kind struct {
	wire          string
	deltas, bytes int
}

// Serve answers on every connection of l until l is closed.
func (v *Vendor) Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_ = v.serve(c) // the client is gone, or sent what is no request: it sees the end
		}()
	}
}

// serve answers the requests of one connection, one after the other.
func (v *Vendor) serve(c net.Conn) error {
	buf := make([]byte, 0, 4<<10)
	for {
		r, rest, err := read(c, buf)
		if err != nil {
			return err
		}
		if err := v.answer(c, r); err != nil {
			return err
		}
		buf = append(buf[:0], rest...)
	}
}

// A request is what is read of one: slices of the connection's buffer.
type request struct {
	path, body []byte
}

// read reads one request; rest is what came after it.
func read(c net.Conn, buf []byte) (r request, rest []byte, err error) {
	end, need := -1, 0
	for {
		if end < 0 {
			if end = bytes.Index(buf, []byte("\r\n\r\n")); end >= 0 {
				length, err := contentLength(buf[:end])
				if err != nil {
					return r, nil, err
				}
				end += 4
				need = end + length
			}
		}
		if end >= 0 && len(buf) >= need {
			line, _, _ := bytes.Cut(buf, []byte("\r\n"))
			_, line, _ = bytes.Cut(line, []byte(" "))
			r.path, _, _ = bytes.Cut(line, []byte(" "))
			r.body = buf[end:need]
			return r, buf[need:], nil
		}
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := c.Read(buf[len(buf):cap(buf)])
		if err != nil {
			return r, nil, err
		}
		buf = buf[:len(buf)+n]
	}
}

var errLength = errors.New("a request without Content-Length")

// contentLength finds the length of a body among the header's lines.
func contentLength(header []byte) (int, error) {
	const name = "\r\ncontent-length:"
	for i := 0; i+len(name) < len(header); i++ {
		if header[i] == '\r' && bytes.EqualFold(header[i:i+len(name)], []byte(name)) {
			value, _, _ := bytes.Cut(header[i+len(name):], []byte("\r"))
			return strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}
	if bytes.HasPrefix(header, []byte("GET ")) {
		return 0, nil
	}
	return 0, errLength
}

// answer writes the reply to one request.
func (v *Vendor) answer(c net.Conn, r request) error {
	wire, stream := wireOf(string(r.path), r.body)
	plan, ok := planOf(r.body)
	if wire == "" || !ok {
		const text = "the null vendor knows neither the path nor the prompt"
		_, err := fmt.Fprintf(c, "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		return err
	}
	reply := v.reply(kind{wire, plan.Deltas, plan.Bytes})
	if !stream {
		_, err := c.Write(reply.whole)
		return err
	}
	if _, err := c.Write(reply.before); err != nil {
		return err
	}
	for i, d := range reply.deltas {
		if i > 0 && plan.Delay > 0 {
			time.Sleep(plan.Delay)
		}
		if v.Step != nil {
			v.Step()
		}
		if _, err := c.Write(d); err != nil {
			return err
		}
	}
	_, err := c.Write(reply.after)
	return err
}

// wireOf returns the format that a request has, and whether it asks for a stream.
func wireOf(path string, body []byte) (wire string, stream bool) {
	path, query, _ := strings.Cut(path, "?")
	stream = bytes.Contains(body, []byte(`"stream":true`))
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return "chat", stream
	case strings.HasSuffix(path, "/responses"):
		return "responses", stream
	case strings.HasSuffix(path, "/messages"):
		return "messages", stream
	case strings.HasSuffix(path, ":streamGenerateContent"):
		return "gemini", strings.Contains(query, "alt=sse")
	case strings.HasSuffix(path, ":generateContent"):
		return "gemini", false
	}
	return "", false
}

func (v *Vendor) reply(k kind) *reply {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.replies[k]
	if r == nil {
		if v.replies == nil {
			v.replies = map[kind]*reply{}
		}
		r = newReply(k.wire, k.deltas, k.bytes)
		v.replies[k] = r
	}
	return r
}
