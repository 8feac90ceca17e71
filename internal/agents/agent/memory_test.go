package agent_test

import (
	"context"
	"runtime"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// held returns the bytes of live objects and of stacks.
func held() int {
	for range 4 { // pools keep theirs for two, and a stack halves at most once in each
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// TestManySessionsWaitWithLittleMemory lets more sessions wait for a slow model than there
// once were slots, and measures the memory of each without its connection.
func TestManySessionsWaitWithLittleMemory(t *testing.T) {
	// Not parallel: it measures the heap of the process.
	if testing.Short() {
		t.Skip("the race detector, which runs the short tests, takes memory of its own")
	}
	const sessions, most = 200, 40 << 10
	begun, goOn := make(chan struct{}), make(chan struct{})
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(ctx context.Context, _ stoa.Model, _ stoa.Call, yield func(*stoa.Event, error) bool) {
		select {
		case begun <- struct{}{}:
		case <-goOn: // a step that a busy machine made the worker repeat
		case <-ctx.Done(): // the test has failed
			return
		}
		<-goOn
		sessiontest.Say(yield, "yes")
	}))
	a := h.Agent()
	r := h.Service(func(c *sessiontest.Config) {
		c.Plans = func(id string) stoa.Plan { return stoa.Plan{ID: id, GatedModels: true} }
	})
	sessiontest.Run(t, r)
	const warm = sessions // they open the connections to the database and prepare its statements
	last := h.Begin(r, a, "what is made once, and kept")
	for range warm - 1 {
		h.Begin(r, a, "likewise")
	}
	for range warm {
		<-begun
	}
	before := held()
	for range sessions {
		last = h.Begin(r, a, "hello")
	}
	for range sessions {
		<-begun
	}
	if each := (held() - before) / sessions; each > most {
		t.Errorf("a session that waits holds %d bytes, more than %d", each, most)
	} else {
		t.Logf("a session that waits holds %d bytes", each)
	}
	close(goOn)
	h.Until(r, last, stoa.SessionCompleted)
}
