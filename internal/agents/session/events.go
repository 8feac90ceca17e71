package session

import (
	"context"
	"iter"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// An EventsRequest selects events of a session.
type EventsRequest struct {
	AccountID, AgentID, SessionID string        // an empty AgentID means any agent
	After                         int64         // number of the reader's last event; 0 means from the first
	Follow                        bool          // continue after a stopping status
	ThroughTools                  bool          // continue while the session waits for outputs of tools
	Heartbeat                     time.Duration // yield an event with Seq 0 after this much silence; 0 means never
}

const eventBatch = 200

// Log returns at most limit events of a session after the given number, and whether there are
// more.
func (s *Sessions) Log(ctx context.Context, accountID, agentID, id string, after int64, limit int) (list []stoa.SessionEvent, more bool, err error) {
	err = s.read(ctx, accountID, agentID, id, func(tx *store.Tx, row stoa.Session) (err error) {
		list, err = tx.Work().Events(ctx, id, after, limit)
		more = len(list) > 0 && list[len(list)-1].Seq < row.LastSeq
		return err
	})
	return list, more, err
}

// Events ranges over a session's log from any point, and waits for more. Unless Follow is
// set, the range ends once the session has stopped and the whole log was yielded. It also
// ends when the session is deleted, or with ctx, whose error is the last value yielded. Every
// yielded event is committed.
func (s *Sessions) Events(ctx context.Context, req EventsRequest) iter.Seq2[stoa.SessionEvent, error] {
	return func(yield func(stoa.SessionEvent, error) bool) {
		sub := s.hub.subscribe(req.SessionID)
		defer sub.close()
		w := &watcher{s: s, sub: sub, req: req, after: req.After, yield: yield}
		for first := true; ; first = false {
			changed := sub.changed()
			caughtUp, err := w.catchUp(ctx, first)
			if err != nil {
				if !w.gone {
					yield(stoa.SessionEvent{}, err)
				}
				return
			}
			if w.gone || caughtUp && w.stopped && !req.Follow {
				return
			}
			if !caughtUp {
				continue
			}
			if !w.wait(ctx, changed) {
				return
			}
		}
	}
}

type watcher struct {
	s       *Sessions
	sub     *subscription
	req     EventsRequest
	after   int64
	stopped bool
	gone    bool
	yield   func(stoa.SessionEvent, error) bool
}

// catchUp yields the events that exist. It reads from memory if the hub has them, so that many
// watchers of one session do not query the database for the same rows.
func (w *watcher) catchUp(ctx context.Context, first bool) (caughtUp bool, err error) {
	if !first {
		if events, ok := w.sub.since(w.after); ok {
			return true, w.send(events)
		}
	}
	var events []stoa.SessionEvent
	var last int64
	var stopped bool
	err = w.s.read(ctx, w.req.AccountID, w.req.AgentID, w.req.SessionID, func(tx *store.Tx, row stoa.Session) (err error) {
		events, err = tx.Work().Events(ctx, w.req.SessionID, w.after, eventBatch)
		last, stopped = row.LastSeq, w.stops(row.Status, row.Turn.Reason)
		return err
	})
	if err != nil {
		if code := stoa.CodeOf(err); !first && (code == stoa.CodeSessionNotFound || code == stoa.CodeAgentNotFound) {
			w.gone = true
		}
		return false, err
	}
	if err := w.send(events); err != nil || w.gone {
		return false, err
	}
	if w.after < last {
		return false, nil
	}
	w.sub.known(last)
	w.stopped = stopped
	return true, nil
}

func (w *watcher) stops(status stoa.SessionStatus, reason string) bool {
	return status.Stopped() && !(w.req.ThroughTools && (reason == ReasonTool || reason == ReasonApproval))
}

func (w *watcher) send(events []stoa.SessionEvent) error {
	for _, e := range events {
		if s, reason := statusOf(e); s != "" {
			w.stopped = w.stops(s, reason)
		}
		w.after = e.Seq
		if !w.yield(e, nil) {
			w.gone = true
			return nil
		}
	}
	return nil
}

func (w *watcher) wait(ctx context.Context, changed <-chan struct{}) bool {
	var heartbeat <-chan time.Time
	if w.req.Heartbeat > 0 {
		t := time.NewTicker(w.req.Heartbeat)
		defer t.Stop()
		heartbeat = t.C
	}
	for {
		select {
		case <-changed:
			return true
		case <-heartbeat:
			if !w.yield(stoa.SessionEvent{}, nil) {
				return false
			}
		case <-ctx.Done():
			w.yield(stoa.SessionEvent{}, ctx.Err())
			return false
		}
	}
}
