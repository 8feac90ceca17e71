package cli

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestTheHeapGrowsByAnAmountAndAShare(t *testing.T) {
	const mb = 1 << 20
	for inUse, growth := range map[uint64]uint64{ // megabytes
		1: 4, 3: 12, 8: 26, 24: 29, 100: 44, 600: 144, 6000: 1200,
	} {
		got := inUse * uint64(percentFor(inUse*mb)) / 100
		if got > growth || got < growth-growth/10 {
			t.Errorf("a heap of %d MB grows by %d MB, want %d", inUse, got, growth)
		}
	}
	if got := percentFor(0); got != maxPercent {
		t.Errorf("an unknown heap has %d %%", got)
	}
}

func TestTheGrowthFollowsTheHeap(t *testing.T) {
	before := debug.SetGCPercent(100)
	cycles := make(chan struct{})
	ended := make(chan struct{})
	c := &collector{cycled: func() {
		select {
		case cycles <- struct{}{}:
		case <-ended:
		}
	}}
	c.run()
	t.Cleanup(func() { close(ended) })
	t.Cleanup(func() { debug.SetGCPercent(before) })
	percent := func() int {
		read := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(read)
		return int(read[0].Value.Uint64())
	}
	// A cycle of the program's own may come between, so the first need not be it.
	after := func(what string, ok func(int) bool) {
		t.Helper()
		for range 5 {
			runtime.GC()
			<-cycles
			if ok(percent()) {
				return
			}
		}
		t.Errorf("%s the growth is %d %%", what, percent())
	}
	small := percentFor(16 << 20)
	after("with a small heap", func(p int) bool { return p > small })
	large := make([]byte, 200<<20)
	after("with 200 MB in use", func(p int) bool { return p >= heapShare && p < small/3 })
	runtime.KeepAlive(large)
	after("with the memory free again", func(p int) bool { return p > small })
}

var sink []byte

func TestAQuietProcessReturnsItsMemory(t *testing.T) {
	returned := func() int {
		read := []metrics.Sample{{Name: "/memory/classes/heap/released:bytes"}}
		metrics.Read(read)
		return int(read[0].Value.Uint64())
	}
	r, now := &releaser{}, time.Now()
	r.ask(now, 0)
	before := make([]byte, 200<<20)
	if r.ask(now, 0) {
		t.Error("a process that allocates much has returned memory")
	}
	runtime.KeepAlive(before)
	had := returned()
	if before = nil; !r.ask(now, 0) {
		t.Error("a process that allocates little has returned none")
	}
	if got := returned() - had; got < 150<<20 {
		t.Errorf("only %d bytes were returned", got)
	}
	if r.ask(r.next, 0) {
		t.Error("what was returned is returned again")
	}
	if wait := r.next.Sub(now); wait < returnEvery {
		t.Errorf("it may be returned again after %v", wait)
	}
	sink = make([]byte, 1<<20)
	r.ask(now, 0)
	if r.ask(r.next.Add(-1), 0) {
		t.Error("memory is returned again too early")
	}
	if r.ask(r.next, quietCPU+1) {
		t.Error("a process that uses the processors has returned memory")
	}
	if !r.ask(r.next, 2*quietCPU+1) {
		t.Error("memory is not returned again")
	}
}
