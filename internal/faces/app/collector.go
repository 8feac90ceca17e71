package app

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// busyHeap is the size that the heap of a busy service may reach before it is collected, in bytes. By Go's default it is
	// twice the live heap, some 30 MB, so that the collector would run several times a second and take a tenth of the
	// processor time of a call. A live heap above half of busyHeap, such as that of many streams, grows by its size as before.
	busyHeap = 64 << 20
	// limitShare is the divisor of GOMEMLIMIT for busyHeap, so that a small limit leaves memory for what is not heap.
	limitShare = 4

	collectorInterval = 100 * time.Millisecond // short, because the live heap of a thousand new streams has doubled after a second
	defaultPercent    = 100                    // of Go
	percentStep       = 100
	// maxPercent bounds what a sudden growth of the live heap can bring about until the next interval, because the target is
	// a share of the live heap.
	maxPercent = 400
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
		percent := collectorPercent(current, value(0)-before, value(1), value(2)+value(3), value(4))
		before = value(0)
		// It is lowered in steps and raised by more than one, because the live heap differs from collection to collection and each
		// change stops all goroutines.
		if percent < current || percent > current+percentStep {
			current = percent
			debug.SetGCPercent(percent)
		}
	}
}

// collectorPercent returns GOGC for the bytes that were allocated in the last interval, the live heap, the other bytes
// that the collector scans, and the limit of the memory.
func collectorPercent(current int, allocated, live, others, limit uint64) int {
	scanned := max(live+others, 1<<20)
	busy := allocated*uint64(time.Second/collectorInterval) >= scanned // the default would collect every second
	if current != defaultPercent {
		busy = busy || 2*allocated*uint64(time.Second/collectorInterval) >= scanned // so that it does not change all the time
	}
	heap := min(busyHeap, limit/limitShare)
	if !busy || heap < live+2*scanned {
		return defaultPercent
	}
	return min(int((heap-live)/scanned)*percentStep, maxPercent)
}
