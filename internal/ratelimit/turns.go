package ratelimit

import (
	"context"
	"slices"
	"sync"
)

// Turns bounds how much work is done at once and shares it out by name: of those
// that wait, each name gets one turn before any gets its next, however many a name
// has waiting. The zero value is ready to use. It is safe for concurrent use.
type Turns struct {
	mu      sync.Mutex
	taken   int
	names   []string // those with somebody waiting, the next one first
	waiting map[string][]chan struct{}
}

// Take waits until fewer than most turns are taken and it is the turn of name. give
// ends the turn; it is called once. The error is that of ctx.
func (t *Turns) Take(ctx context.Context, name string, most int) (give func(), err error) {
	t.mu.Lock()
	if t.taken < most && len(t.names) == 0 {
		t.taken++
		t.mu.Unlock()
		return t.give, nil
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
		return t.give, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.forget(name, ready) {
		t.pass() // it was given meanwhile
	}
	return nil, ctx.Err()
}

func (t *Turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

// pass gives a turn to the next that waits; without one it is free. The caller has
// mu.
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

// forget drops one that waits and reports whether it still did. The caller has mu.
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
