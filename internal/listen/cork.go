package listen

import (
	"context"
	"net"
	"sync"
)

// corkAt is how many bytes a corked connection gathers before it writes them.
const corkAt = 64 << 10

// corkBuffers are lent to connections while they are corked.
var corkBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 20<<10)
	return &b
}}

// A Cork gathers what is written to one connection. net/http writes through a
// buffer of 4 KiB, so that a larger piece of a stream takes two or three system
// calls instead of one, each of which may wake the peer.
//
// Between Stop and Release only one goroutine may write to the connection.
type Cork struct{ c *conn }

// Stop begins to gather.
func (k *Cork) Stop() {
	if k.c.gathered == nil {
		k.c.gathered = corkBuffers.Get().(*[]byte)
	}
}

// Release writes what was gathered since Stop and returns the error of that.
func (k *Cork) Release() error {
	lent := k.c.gathered
	if lent == nil {
		return nil
	}
	k.c.gathered = nil
	var err error
	if len(*lent) > 0 {
		_, err = k.c.write(*lent)
	}
	if cap(*lent) <= corkAt {
		*lent = (*lent)[:0]
		corkBuffers.Put(lent)
	}
	return err
}

// gather adds b to what waits for Release, and writes what exceeds corkAt.
func (c *conn) gather(b []byte) (int, error) {
	if len(*c.gathered)+len(b) <= corkAt {
		*c.gathered = append(*c.gathered, b...)
		return len(b), nil
	}
	_, err := c.write(*c.gathered)
	*c.gathered = (*c.gathered)[:0]
	if err != nil {
		return 0, err
	}
	return c.write(b)
}

type corkKey struct{}

// Context adds a [Cork] for the connection to the context of its requests; it is a
// ConnContext of [http.Server]. A connection that is none of a [Listener] has none.
func Context(ctx context.Context, c net.Conn) context.Context {
	if ours, ok := c.(*conn); ok {
		return context.WithValue(ctx, corkKey{}, &Cork{ours})
	}
	return ctx
}

// CorkOf returns the cork of the connection that a request came on; nil: it has none.
func CorkOf(ctx context.Context) *Cork {
	k, _ := ctx.Value(corkKey{}).(*Cork)
	return k
}
