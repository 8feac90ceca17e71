package app

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// busyGrowth is how much the heap may grow between two collections while the service is busy, in bytes. Go's default
	// is the size of the live heap, some 15 MB of a busy service, whose collector would then run several times a second
	// and take a tenth of the processor time of a call. Larger live heaps grow by their size as before.
	busyGrowth = 64 << 20
	// limitShare is the divisor of GOMEMLIMIT for busyGrowth, so that a small limit leaves memory for the live heap.
	limitShare = 8

	collectorInterval = time.Second
	defaultPercent    = 100 // of Go
)

// runCollector adapts the target of Go's garbage collector to the load until ctx ends. A service at rest keeps Go's
// default, so that its memory stays as small. The runtime still collects earlier if GOMEMLIMIT requires it.
func runCollector(ctx context.Context) error {
	tick := time.NewTicker(collectorInterval)
	defer tick.Stop()
	defer debug.SetGCPercent(defaultPercent)
	sample := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/gomemlimit:bytes"},
	}
	metrics.Read(sample)
	before, current := sample[0].Value.Uint64(), defaultPercent
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		metrics.Read(sample)
		value := func(i int) uint64 { return sample[i].Value.Uint64() }
		percent := collectorPercent(value(0)-before, value(1)+value(2)+value(3), value(4))
		before = value(0)
		// A change stops all goroutines for a moment, so that small ones are not worth it.
		if percent == defaultPercent && current != percent || percent > current+current/4 || percent < current-current/4 {
			current = percent
			debug.SetGCPercent(percent)
		}
	}
}

// collectorPercent returns GOGC for the bytes that were allocated in the last interval, those that the collector scans,
// and the limit of the memory.
func collectorPercent(allocated, scanned, limit uint64) int {
	growth := min(busyGrowth, limit/limitShare)
	if allocated < scanned || growth <= scanned { // it collects less than once per interval, or would not less often
		return defaultPercent
	}
	return int(growth * 100 / max(scanned, 1<<20))
}
