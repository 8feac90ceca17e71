package session

import (
	"context"
	"iter"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// An EventsRequest selects events of a session.
type EventsRequest struct {
	AccountID, AgentID, SessionID string        // AgentID may be empty: any
	After                         int64         // number of the last event that is known; 0: from the first
	Follow                        bool          // go on after a stopping status
	ThroughTools                  bool          // go on while outputs of tools are waited for
	Heartbeat                     time.Duration // yield an event with Seq 0 after so long a silence; 0: never
}

const eventBatch = 200

// Log returns at most limit events of a session after a number, and whether there
// are more by now.
func (s *Sessions) Log(ctx context.Context, accountID, agentID, id string, after int64, limit int) (list []stoa.SessionEvent, more bool, err error) {
	err = s.read(ctx, accountID, agentID, id, func(tx *store.Tx, row stoa.Session) (err error) {
		list, err = tx.Events(ctx, id, after, limit)
		more = len(list) > 0 && list[len(list)-1].Seq < row.LastSeq
		return err
	})
	return list, more, err
}

// Events ranges over a session's log from any point, and waits for more. It ends
// by itself once the session has stopped and all of the log was yielded, unless
// Follow is set; when the session is deleted; or with ctx, whose error is the
// last thing yielded. Every event yielded is committed.
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

// watcher is one reader of a log.
type watcher struct {
	s       *Sessions
	sub     *subscription
	req     EventsRequest
	after   int64
	stopped bool // by the newest status that was sent or read
	gone    bool // the range ended, or there is nothing left to range over
	yield   func(stoa.SessionEvent, error) bool
}

// catchUp yields what is there: from memory where the hub has it, so that many
// watchers of one session do not ask the database for the same rows.
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
		events, err = tx.Events(ctx, w.req.SessionID, w.after, eventBatch)
		last, stopped = row.LastSeq, w.stops(row.Status, row.Turn.Reason)
		return err
	})
	if err != nil {
		if code := stoa.CodeOf(err); !first && (code == stoa.CodeSessionNotFound || code == stoa.CodeAgentNotFound) {
			w.gone = true // deleted meanwhile
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

// stops reports whether the range ends at a status.
func (w *watcher) stops(status stoa.SessionStatus, reason string) bool {
	return status.Stopped() && !(w.req.ThroughTools && (reason == ReasonTool || reason == ReasonApproval))
}

// send yields events to the reader and remembers how far it is.
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

// wait returns when there may be more, and reports whether to go on.
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
