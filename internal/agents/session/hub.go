package session

import (
	"context"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"stoa/internal/base/cluster"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// tailLength is the maximum number of events of a watched session that stay in memory.
const tailLength = 256

// hub publishes this process's committed events to the watchers of sessions. It keeps no
// state of sessions without watchers.
type hub struct {
	mu     sync.Mutex
	topics map[string]*topic
}

// A topic is a session that has watchers.
type topic struct {
	watchers int
	tail     []stoa.SessionEvent // newest events, without gaps
	last     int64               // newest known event; the tail may end before it
	changed  chan struct{}       // closed by the next event
}

func newHub() *hub { return &hub{topics: map[string]*topic{}} }

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

// changed returns a channel that is closed when there is more. Get it before reading the
// rows, so that no event in between is missed.
func (s *subscription) changed() <-chan struct{} {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	return s.t.changed
}

// since returns the events after the given number, if memory has all of them.
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

// publish adds committed events. It drops a tail with a gap, because two commits may arrive in the
// wrong order on PostgreSQL; watchers then read the rows.
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
		// The array is new because watchers may still read the old one.
		t.tail = append(make([]stoa.SessionEvent, 0, 2*tailLength), t.tail[len(t.tail)-min(len(t.tail), tailLength):]...)
	}
	t.tail = append(t.tail, events...)
	t.last = events[len(events)-1].Seq
	t.notify()
}

func (t *topic) notify() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (h *hub) invalidate(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[id]; t != nil {
		t.tail = nil
		t.notify()
	}
}

// lacks reports whether a session has watchers that have not received the event with number
// seq.
func (h *hub) lacks(id string, seq int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[id]
	return t != nil && seq > t.last
}

// behind returns, for each watched session whose rows have events that were not published,
// the number of the event after which to read: at most tailLength events follow.
func (h *hub) behind(seqs map[string]int64) map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	after := map[string]int64{}
	for id, seq := range seqs {
		if t := h.topics[id]; t != nil && seq > t.last {
			after[id] = max(t.last, seq-tailLength)
		}
	}
	return after
}

// observe records the numbers of the newest events in the rows of these sessions, so that watchers
// read unpublished events themselves. A session without a number was deleted: its watchers
// read the rows and find none.
func (h *hub) observe(ids []string, seqs map[string]int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		t := h.topics[id]
		if t == nil {
			continue
		}
		seq, there := seqs[id]
		if !there {
			t.tail = nil
		}
		if !there || seq > t.last {
			t.last = max(seq, t.last)
			t.notify()
		}
	}
}

func (h *hub) followers() (n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		n += int64(t.watchers)
	}
	return n
}

// known records the number of the newest event that the only watcher found in the rows, so
// that earlier events are not read again. If there are other watchers, the publication of
// that event may still follow and must reach them.
func (s *subscription) known(seq int64) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if s.t.watchers == 1 && s.t.last == 0 {
		s.t.last = seq
	}
}

func (h *hub) watched() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := make([]string, 0, len(h.topics))
	for id := range h.topics {
		ids = append(ids, id)
	}
	return ids
}

// maxHinted is the maximum number of sessions whose news waits to be read. Further hints can be dropped because the next
// poll of all watched sessions finds their news.
const maxHinted = 4096

// peers collects the hints of other nodes about sessions that are watched here.
type peers struct {
	mu     sync.Mutex
	hinted map[string]bool // sessions whose rows have more events than the hub
	wake   chan struct{}
}

func (s *Sessions) subscribe() {
	s.peers.hinted, s.peers.wake = map[string]bool{}, make(chan struct{}, 1)
	s.store.OnHint(cluster.HintSession, func(text string) {
		id, number, _ := strings.Cut(text, " ")
		seq, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			seq = math.MaxInt64 // because the session was deleted
		}
		if !s.hub.lacks(id, seq) {
			return
		}
		s.peers.mu.Lock()
		defer s.peers.mu.Unlock()
		if len(s.peers.hinted) < maxHinted {
			s.peers.hinted[id] = true
			signal(s.peers.wake)
		}
	})
}

// FollowPeers publishes to this process's watchers the events that other processes write,
// until ctx ends: soon after a hint, and at least once per interval, because a hint may be lost.
// Only a shared store needs it. Each session with news is read once, regardless of the number of
// its watchers.
func (s *Sessions) FollowPeers(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var ids []string
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			ids = s.hub.watched()
		case <-s.peers.wake:
			ids = s.peers.drain()
		}
		if err := s.follow(ctx, ids); err != nil && ctx.Err() == nil {
			s.log.LogAttrs(ctx, slog.LevelError, "the logs of watched sessions could not be read", slog.Any("error", err))
		}
	}
}

func (p *peers) drain() (ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.hinted {
		ids = append(ids, id)
	}
	clear(p.hinted)
	return ids
}

func (s *Sessions) follow(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	var seqs map[string]int64
	var news map[string][]stoa.SessionEvent
	err := s.store.Read(ctx, func(tx *store.Tx) (err error) {
		if seqs, err = tx.Work().LastSeqs(ctx, ids); err != nil {
			return err
		}
		news = map[string][]stoa.SessionEvent{}
		for id, after := range s.hub.behind(seqs) {
			if news[id], err = tx.Work().Events(ctx, id, after, tailLength); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id, events := range news {
		s.hub.publish(id, events)
	}
	s.hub.observe(ids, seqs)
	return nil
}
