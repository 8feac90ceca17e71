package ratelimit

import (
	"context"
	"slices"
	"sync"
)

// Turns limits concurrent work and distributes it fairly by name: each waiting name gets one
// turn before any name gets its next, regardless of how many requests of a name wait. The
// zero value is ready to use. It is safe for concurrent use.
type Turns struct {
	mu      sync.Mutex
	taken   int
	names   []string // names with waiting requests, the next one first
	waiting map[string][]chan struct{}
}

// Acquire waits until fewer than most turns are in use and it is the turn of name. release
// ends the turn; it must be called once. The error is that of ctx.
func (t *Turns) Acquire(ctx context.Context, name string, most int) (release func(), err error) {
	t.mu.Lock()
	if t.taken < most && len(t.names) == 0 {
		t.taken++
		t.mu.Unlock()
		return t.release, nil
	}
	ready := make(chan struct{})
	if t.waiting == nil {
		t.waiting = map[string][]chan struct{}{}
	}
	if len(t.waiting[name]) == 0 {
		t.names = append(t.names, name)
	}
	t.waiting[name] = append(t.waiting[name], ready)
	t.mu.Unlock()
	select {
	case <-ready:
		return t.release, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.forget(name, ready) {
		t.pass() // it was assigned in the meantime
	}
	return nil, ctx.Err()
}

func (t *Turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

// pass assigns a turn to the next waiting request; if none waits it becomes free. The caller
// must hold mu.
func (t *Turns) pass() {
	if len(t.names) == 0 {
		t.taken--
		return
	}
	name := t.names[0]
	t.names = t.names[1:]
	ready := t.waiting[name][0]
	if t.waiting[name] = t.waiting[name][1:]; len(t.waiting[name]) > 0 {
		t.names = append(t.names, name)
	} else {
		delete(t.waiting, name)
	}
	close(ready)
}

// forget drops a waiting request and reports whether it still waited. The caller must hold
// mu.
func (t *Turns) forget(name string, ready chan struct{}) bool {
	i := slices.Index(t.waiting[name], ready)
	if i < 0 {
		return false
	}
	if t.waiting[name] = slices.Delete(t.waiting[name], i, i+1); len(t.waiting[name]) == 0 {
		delete(t.waiting, name)
		t.names = slices.Delete(t.names, slices.Index(t.names, name), slices.Index(t.names, name)+1)
	}
	return true
}
