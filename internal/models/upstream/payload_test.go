package upstream

import (
	"bytes"
	"io"
	"testing"
)

func TestAPayloadIsReadOnceAndForgotten(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 100, largePayload - 1, largePayload, 3 * largePayload} {
		text := bytes.Repeat([]byte("x"), n)
		r := newPayload(text)
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes are read as %d, %v", n, len(got), err)
		}
		again := newPayload(text)
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		p, large := again.(*payload)
		if large != (n >= largePayload) || large && p.text.Size() != 0 {
			t.Errorf("a closed body of %d bytes (large: %v) still has its bytes", n, large)
		}
	}
}
