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
		name                           string
		current                        int
		allocated, live, others, limit uint64
		want                           int
	}{
		{"at rest", 100, 100 << 10, 8 * mb, mb, math.MaxInt64, 100},
		{"at rest again", 300, 100 << 10, 8 * mb, mb, math.MaxInt64, 100},
		{"busy", 100, 6 * mb, 14 * mb, 2 * mb, math.MaxInt64, 300},
		{"hardly busy", 100, mb, 14 * mb, 2 * mb, math.MaxInt64, 100},
		{"hardly busy any more", 300, mb, 14 * mb, 2 * mb, math.MaxInt64, 300},
		{"busy with hardly a heap", 100, 6 * mb, 0, 0, math.MaxInt64, 400},
		{"a large heap", 100, 200 * mb, 40 * mb, 2 * mb, math.MaxInt64, 100},
		{"a limit", 100, 6 * mb, 14 * mb, 2 * mb, 200 * mb, 200},
		{"a small limit", 100, 6 * mb, 14 * mb, 2 * mb, 64 * mb, 100},
		{"no memory", 100, 6 * mb, 14 * mb, 2 * mb, 0, 100},
	} {
		if got := collectorPercent(c.current, c.allocated, c.live, c.others, c.limit); got != c.want {
			t.Errorf("%s: %d, not %d", c.name, got, c.want)
		}
	}
}
