// Package peers exchanges counts between the nodes of one database: counts in memory for
// limits that all nodes share, such as the requests of a key per minute. Twice a second a
// node writes its counts into one row and reads those of the others. No call waits for that;
// so all nodes together may exceed a limit by the calls of one second.
//
// It does not decide about a limit: a [Counter] does. It needs no locks and no messages
// between processes; lost or late counts only make the limit less exact for a second. Start
// at [Peers.Exchange].
package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"stoa/internal/base/ratelimit"
	"stoa/internal/base/store"
)

const (
	// Every is half a second, so that the others know a count after at most a second.
	Every = 500 * time.Millisecond
	// MaxNames is the maximum number of counts per counter that a node publishes: those
	// closest to their limits. Further ones count on their own node only.
	MaxNames = 1000
)

// A Counter counts by name, and includes the counts of other nodes.
type Counter interface {
	// Counts returns at most most counts, those closest to their limits.
	Counts(now time.Time, most int) []ratelimit.Count
	// SetPeers replaces the counts of the other nodes, by node and name. The maps must not be
	// changed. A node without counts has no names.
	SetPeers(byNode map[string]map[string]int64)
}

// Peers exchanges the counts of this node with those of others.
type Peers struct {
	st  *store.Store
	log *slog.Logger

	counters map[string]Counter

	mu     sync.Mutex // held by Exchange
	last   string     // the last published counts
	parsed map[string]read
}

// read contains a node's counts at the last read.
type read struct {
	text   string
	counts map[string]map[string]int64 // by counter and name
}

// New returns the exchange of a store without counters. log may be nil.
func New(st *store.Store, log *slog.Logger) *Peers {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Peers{st: st, log: log, counters: map[string]Counter{}, parsed: map[string]read{}}
}

// Share adds a counter under a name that is the same on all nodes. Call it before
// the first exchange.
func (p *Peers) Share(name string, c Counter) { p.counters[name] = c }

// Run exchanges counts twice a second until ctx ends.
func (p *Peers) Run(ctx context.Context) error {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	failed := false
	for {
		err := p.Exchange(ctx)
		if err != nil && ctx.Err() == nil && !failed {
			p.log.LogAttrs(ctx, slog.LevelWarn, "counts are not exchanged with other nodes; new counts only apply to limits on this node", slog.Any("error", err))
		}
		failed = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Exchange publishes the counts of this node, if they have changed, and adopts those of the
// others.
func (p *Peers) Exchange(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := p.counts(time.Now())
	if err != nil {
		return err
	}
	if text != p.last {
		if err := p.st.Write(ctx, func(tx *store.Tx) error { return tx.Operations().PublishCounts(ctx, p.st.Node(), text) }); err != nil {
			return err
		}
		p.last = text
	}
	others, err := store.Read(ctx, p.st, func(tx *store.Tx) (map[string]string, error) { return tx.Operations().PeerCounts(ctx, p.st.Node()) })
	if err != nil {
		return err
	}
	p.st.SetAlone(len(others) == 0)
	p.parse(ctx, others)
	for name, c := range p.counters {
		byNode := make(map[string]map[string]int64, len(others))
		for node := range others {
			byNode[node] = p.parsed[node].counts[name]
			if byNode[node] == nil {
				byNode[node] = map[string]int64{}
			}
		}
		c.SetPeers(byNode)
	}
	return nil
}

// counts returns the published counts of this node: JSON, by counter and name; empty if there
// are none.
func (p *Peers) counts(now time.Time) (string, error) {
	all := map[string]map[string]int64{}
	for name, c := range p.counters {
		for _, n := range c.Counts(now, MaxNames) {
			if all[name] == nil {
				all[name] = map[string]int64{}
			}
			all[name][n.Name] = n.Count
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// parse reads changed counts of other nodes. Unreadable ones, for example of another program
// version, are treated as empty.
func (p *Peers) parse(ctx context.Context, others map[string]string) {
	parsed := make(map[string]read, len(others))
	for node, text := range others {
		r := p.parsed[node]
		if r.text != text {
			r = read{text: text}
			if text == "" {
				parsed[node] = r
				continue
			}
			if err := json.Unmarshal([]byte(text), &r.counts); err != nil {
				p.log.LogAttrs(ctx, slog.LevelWarn, "the counts of another node cannot be read", slog.Any("error", fmt.Errorf("node %s: %w", node, err)))
				r.counts = nil
			}
		}
		parsed[node] = r
	}
	p.parsed = parsed
}
