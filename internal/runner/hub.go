package runner

import (
	"sync"

	"stoa/internal/stoa"
)

// tailLength is how many events of a watched session stay in memory.
const tailLength = 256

// hub tells watchers of sessions what this process has committed. It keeps
// nothing of sessions that nobody watches.
type hub struct {
	mu     sync.Mutex
	topics map[string]*topic
}

type topic struct {
	watchers int
	tail     []stoa.SessionEvent // the newest, without gaps
	last     int64               // number of the newest event known of; the tail may end before it
	changed  chan struct{}       // closed when there is news
}

func newHub() *hub { return &hub{topics: map[string]*topic{}} }

// subscription is one watcher's place at a topic.
type subscription struct {
	h  *hub
	id string
	t  *topic
}

func (h *hub) subscribe(id string) *subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[id]
	if t == nil {
		t = &topic{changed: make(chan struct{})}
		h.topics[id] = t
	}
	t.watchers++
	return &subscription{h: h, id: id, t: t}
}

func (s *subscription) close() {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if s.t.watchers--; s.t.watchers == 0 {
		delete(s.h.topics, s.id)
	}
}

// changed is closed at the next news. It must be taken before looking, so that
// nothing falls in between.
func (s *subscription) changed() <-chan struct{} {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	return s.t.changed
}

// since gives the events after a number, if memory holds all of them.
func (s *subscription) since(after int64) ([]stoa.SessionEvent, bool) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	t := s.t
	if len(t.tail) == 0 || t.tail[len(t.tail)-1].Seq != t.last || after < t.tail[0].Seq-1 {
		return nil, false
	}
	from := int(after - t.tail[0].Seq + 1)
	if from >= len(t.tail) {
		return nil, true
	}
	return t.tail[from:len(t.tail):len(t.tail)], true
}

// publish tells what was committed. On PostgreSQL two commits may arrive in the
// wrong order; then memory forgets, and watchers read the rows.
func (h *hub) publish(id string, events []stoa.SessionEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[id]
	if t == nil || len(events) == 0 || events[len(events)-1].Seq <= t.last {
		return
	}
	if len(t.tail) > 0 && t.tail[len(t.tail)-1].Seq != events[0].Seq-1 {
		t.tail = nil
	}
	if len(t.tail)+len(events) > 2*tailLength {
		// A new array: watchers may still read the old one.
		t.tail = append(make([]stoa.SessionEvent, 0, 2*tailLength), t.tail[len(t.tail)-min(len(t.tail), tailLength):]...)
	}
	t.tail = append(t.tail, events...)
	t.last = events[len(events)-1].Seq
	t.news()
}

func (t *topic) news() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// poke has all watchers of a session look at the rows.
func (h *hub) poke(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[id]; t != nil {
		t.tail = nil
		t.news()
	}
}

// heard tells of numbers that the rows have: another process may have written.
func (h *hub) heard(seqs map[string]int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, t := range h.topics {
		seq, there := seqs[id]
		if !there || seq > t.last {
			t.last = max(seq, t.last)
			t.news()
		}
	}
}

// watched gives the sessions that have watchers.
func (h *hub) watched() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make([]string, 0, len(h.topics))
	for id := range h.topics {
		ids = append(ids, id)
	}
	return ids
}
