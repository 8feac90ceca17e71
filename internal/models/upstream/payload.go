package upstream

import (
	"bytes"
	"io"
	"sync"
)

// largePayload is the minimum size of a request body that is released after sending, in
// bytes. A smaller body has a type that net/http recognizes as in-memory, so that header and
// body are sent in one write.
const largePayload = 16 << 10

func newPayload(text []byte) io.ReadCloser {
	if len(text) < largePayload {
		return io.NopCloser(bytes.NewReader(text))
	}
	p := &payload{}
	p.text.Reset(text)
	return p
}

// A payload is a body that releases its bytes when the transport closes it, because the
// transport keeps the request while the reply arrives.
type payload struct {
	mu   sync.Mutex // because a transport may close a body while it reads it
	text bytes.Reader
}

// Read reads the body; after Close it returns nothing.
func (p *payload) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Read(b)
}

// Close releases the body.
func (p *payload) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Reset(nil)
	return nil
}
