package upstream

import (
	"bytes"
	"io"
	"sync"
)

// largePayload is from how many bytes on the body of a request is forgotten once it
// was sent. A smaller one is of a type that net/http knows to be in memory, so that it
// sends the header and the body in one write.
const largePayload = 16 << 10

// newPayload returns a reader of the body of a request.
func newPayload(text []byte) io.ReadCloser {
	if len(text) < largePayload {
		return io.NopCloser(bytes.NewReader(text))
	}
	p := &payload{}
	p.text.Reset(text)
	return p
}

// A payload is a body that drops its bytes when the transport closes it: the transport
// keeps the request for as long as the reply comes.
type payload struct {
	mu   sync.Mutex // a transport may close a body that it still reads
	text bytes.Reader
}

// Read reads the body; nothing is left of it after Close.
func (p *payload) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Read(b)
}

// Close drops the body.
func (p *payload) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Reset(nil)
	return nil
}
