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
