package cli

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A collector sets how much the heap may grow before the garbage collector runs
// again (GOGC), anew after each of its cycles: by a fixed amount and a share of what
// is in use.
// See docs/decisions/0034-the-heap-grows-by-an-amount-and-a-share.md.
type collector struct {
	percent int    // in force; 0: not set yet
	cycled  func() // called after each setting that follows a cycle; nil: not
}

const (
	heapGrowth = 24 << 20 // bytes
	heapShare  = 20       // percent of what is in use
	// At most so many percent: a process that does nothing has some 3 MB in use.
	maxPercent = 400
)

// percentFor returns the GOGC for so many bytes in use.
func percentFor(inUse uint64) int {
	return min(heapShare+int(100*heapGrowth/max(inUse, 1)), maxPercent)
}

// run sets the growth now and after each cycle, for as long as the process lives.
func (c *collector) run() {
	c.adjust()
	// A mark that nothing refers to is found dead by the next cycle.
	type mark struct{ _ *mark }
	runtime.AddCleanup(new(mark), func(c *collector) {
		c.run()
		if c.cycled != nil {
			c.cycled()
		}
	}, c)
}

// adjust sets the growth for what the last cycle found in use. A small difference is
// not worth stopping all goroutines for, which a new setting does.
func (c *collector) adjust() {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(read)
	var inUse uint64
	for _, s := range read {
		inUse += s.Value.Uint64()
	}
	percent := percentFor(inUse)
	if apart := percent - c.percent; max(apart, -apart) <= c.percent/10 {
		return
	}
	c.percent = percent
	debug.SetGCPercent(percent)
}

// endStart gives back what only the start needed: most of the memory that it took is
// garbage by then, and without calls no collection would come.
func endStart() {
	runtime.GC() // what lies in pools is garbage after two cycles
	debug.FreeOSMemory()
	dropPages()
}

// A releaser returns memory that the heap does not use to the system once the process
// is quiet. By itself the runtime keeps what the next cycle may need, which is what
// the last burst of calls has needed.
type releaser struct {
	allocated uint64        // bytes since the start of the process, when it was last asked
	used      time.Duration // of processors; as before
	busy      bool          // it was not quiet since memory was returned
	next      time.Time     // when memory may be returned again
}

const (
	// In quietTime a quiet process allocates and takes of the processors so much at most.
	quietTime   = 500 * time.Millisecond
	quietAllocs = 256 << 10 // bytes
	quietCPU    = quietTime / 20

	returnShare = 100         // of the time that it takes, between two returns
	returnEvery = time.Second // between two returns at least
)

// run asks every quietTime, until ctx ends.
func (r *releaser) run(ctx context.Context) {
	r.allocated, r.used = allocatedBytes(), processorTime() // of the start nothing is left; see endStart
	for tick := time.NewTicker(quietTime); ; {
		select {
		case now := <-tick.C:
			r.ask(now, processorTime())
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

// ask returns the memory once the process was quiet since it was asked before, and not
// before that, so often that it takes a hundredth of the time at most. It reports
// whether it did. used is [processorTime].
func (r *releaser) ask(now time.Time, used time.Duration) bool {
	allocated := allocatedBytes()
	much := allocated-r.allocated > quietAllocs
	quiet := !much && used-r.used <= quietCPU
	r.allocated, r.used = allocated, used
	if !quiet || !r.busy || now.Before(r.next) {
		r.busy = r.busy || much
		return false
	}
	began := time.Now()
	runtime.GC() // what lies in pools is garbage after two cycles
	debug.FreeOSMemory()
	r.busy, r.next = false, now.Add(max(returnShare*time.Since(began), returnEvery))
	return true
}

// allocatedBytes returns how much was allocated since the start of the process.
func allocatedBytes() uint64 {
	read := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64()
}
