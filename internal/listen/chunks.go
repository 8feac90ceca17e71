package listen

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"

	"stoa/internal/eventloop"
)

// ChunkHead is how many bytes a chunk leaves free at its beginning for its length: up
// to eight hexadecimal digits and the end of their line.
const ChunkHead = 10

// gatherMost is how many bytes wait for what they are sent together with.
const gatherMost = 64 << 10

// gatherBuffers are lent to connections while something waits.
var gatherBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, 20<<10)) }}

// Chunks writes the body of one reply to its connection, past the two buffers of
// net/http, which would cut a piece of more than 4 KiB into several system calls, copy
// each piece twice, and send the end of the body by a call of its own. net/http writes
// the header and the end of the body; both go out together with the chunk beside them.
//
// From [Chunks.Begin] on nothing may be written through the [http.ResponseWriter], and
// only one goroutine at a time may use the Chunks. See RFC 9112, 7.1, and
// docs/decisions/0055-chunks-go-past-net-http.md.
type Chunks conn

// ChunksOf returns the chunks of the reply to r; nil if its connection is none of a
// [Listener] or its reply has none: HTTP/1.0 and HTTP/2 have no chunks, and neither has
// the reply to HEAD. The reply must have no Content-Length.
func ChunksOf(r *http.Request) *Chunks {
	k, _ := r.Context().Value(chunksKey{}).(*Chunks)
	if k == nil || r.ProtoMajor != 1 || r.ProtoMinor == 0 || r.Method == http.MethodHead {
		return nil
	}
	return k
}

type chunksKey struct{}

// Context adds the [Chunks] of a connection to the context of its requests; it is a
// ConnContext of [http.Server].
func Context(ctx context.Context, c net.Conn) context.Context {
	if ours, ok := c.(*conn); ok {
		return context.WithValue(ctx, chunksKey{}, (*Chunks)(ours))
	}
	return ctx
}

// Begin calls flush, which makes net/http write the header of the reply, and keeps what
// it writes for the first chunk.
func (k *Chunks) Begin(flush func() error) error {
	k.gathered, k.ending = gatherBuffers.Get().(*[]byte), false
	return flush()
}

// Write sends a chunk: what follows the first [ChunkHead] bytes of b, which it changes.
// An empty one is not sent, since it would end the body. A function that is on a loop
// leaves it if the peer does not take all at once.
func (k *Chunks) Write(b []byte, task *eventloop.Task) error {
	if b = framed(b); len(b) == 0 {
		return nil
	}
	if k.gathered != nil {
		return (*conn)(k).release(b, task)
	}
	_, err := (*conn)(k).write(b, task)
	return err
}

// End is [Chunks.Write] of the last chunk, which is sent with the end of the body when
// the handler has returned. Whether that succeeds is not told: the error is one of chunks
// that waited before.
func (k *Chunks) End(b []byte) error {
	if len(b) > gatherMost {
		return k.Write(b, nil)
	}
	if b = framed(b); len(b) == 0 {
		return nil
	}
	if k.gathered == nil {
		k.gathered = gatherBuffers.Get().(*[]byte)
	}
	k.ending = true
	*k.gathered = append(*k.gathered, b...)
	return nil
}

// framed returns b as a chunk.
func framed(b []byte) []byte {
	n := len(b) - ChunkHead
	if n <= 0 {
		return nil
	}
	var digits [16]byte
	length := append(strconv.AppendInt(digits[:0], int64(n), 16), '\r', '\n')
	from := ChunkHead - len(length)
	copy(b[from:], length)
	return append(b[from:], '\r', '\n')
}

// gather is what becomes of a write of net/http while something waits: a header waits
// for the first chunk, and the end of a body takes the last chunk with it.
func (c *conn) gather(b []byte) (int, error) {
	if c.ending || len(*c.gathered)+len(b) > gatherMost {
		if err := c.release(b, nil); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	*c.gathered = append(*c.gathered, b...)
	return len(b), nil
}

// release writes what waited, and b.
func (c *conn) release(b []byte, task *eventloop.Task) error {
	lent := c.gathered
	c.gathered, c.ending = nil, false
	all := append(*lent, b...)
	_, err := c.write(all, task)
	if cap(all) <= 2*gatherMost {
		*lent = all[:0]
		gatherBuffers.Put(lent)
	}
	return err
}
