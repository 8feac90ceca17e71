package app

import (
	"math"
	"testing"
)

// TestTheCollectorHasMoreRoomUnderLoad checks the target of the garbage collector at rest, under load, with a large heap
// and with limits of the memory.
func TestTheCollectorHasMoreRoomUnderLoad(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for _, c := range []struct {
		name                      string
		allocated, scanned, limit uint64
		want                      int
	}{
		{"at rest", 100 << 10, 8 * mb, math.MaxInt64, 100},
		{"busy", 60 * mb, 16 * mb, math.MaxInt64, 400},
		{"busy with hardly a heap", 60 * mb, 1, math.MaxInt64, 6400},
		{"a large heap", 900 * mb, 300 * mb, math.MaxInt64, 100},
		{"a limit", 60 * mb, 16 * mb, 256 * mb, 200},
		{"a small limit", 60 * mb, 16 * mb, 64 * mb, 100},
		{"no memory", 60 * mb, 16 * mb, 0, 100},
	} {
		if got := collectorPercent(c.allocated, c.scanned, c.limit); got != c.want {
			t.Errorf("%s: %d, not %d", c.name, got, c.want)
		}
	}
}
