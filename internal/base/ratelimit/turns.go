package ratelimit

import (
	"context"
	"slices"
	"sync"
)

// Turns limits concurrent work and distributes it fairly by name: each waiting name gets one
// turn before any name gets its next, regardless of how many requests of a name wait, and no
// name has more than its share of the turns, however long its work takes. The zero value is
// ready to use. It is safe for concurrent use.
type Turns struct {
	mu      sync.Mutex
	taken   int
	share   int            // of a name, at the last Acquire
	by      map[string]int // turns in use, by name
	names   []string       // names with waiting requests, the next one first
	waiting map[string][]chan struct{}
}

// Acquire waits until fewer than most turns are in use, fewer than share of them by name, and
// it is the turn of name. release ends the turn; it must be called once. The error is that of
// ctx.
func (t *Turns) Acquire(ctx context.Context, name string, most, share int) (release func(), err error) {
	t.mu.Lock()
	if t.by == nil {
		t.by, t.waiting = map[string]int{}, map[string][]chan struct{}{}
	}
	release = func() { t.release(name) }
	if t.share = share; t.taken < most && t.by[name] < share {
		t.taken++
		t.by[name]++
		t.mu.Unlock()
		return release, nil
	}
	ready := make(chan struct{})
	if len(t.waiting[name]) == 0 {
		t.names = append(t.names, name)
	}
	t.waiting[name] = append(t.waiting[name], ready)
	t.mu.Unlock()
	select {
	case <-ready:
		return release, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.forget(name, ready) {
		t.pass(name) // it was assigned in the meantime
	}
	return nil, ctx.Err()
}

func (t *Turns) release(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass(name)
}

// pass ends a turn of a name and assigns it to the next waiting request whose name has not
// its share; if none waits it becomes free. The caller must hold mu.
func (t *Turns) pass(from string) {
	if t.by[from]--; t.by[from] == 0 {
		delete(t.by, from)
	}
	i := slices.IndexFunc(t.names, func(name string) bool { return t.by[name] < t.share })
	if i < 0 {
		t.taken--
		return
	}
	name := t.names[i]
	t.names = slices.Delete(t.names, i, i+1)
	ready := t.waiting[name][0]
	if t.waiting[name] = t.waiting[name][1:]; len(t.waiting[name]) > 0 {
		t.names = append(t.names, name)
	} else {
		delete(t.waiting, name)
	}
	t.by[name]++
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
