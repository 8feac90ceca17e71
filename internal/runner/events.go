package runner

import (
	"context"
	"iter"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// An EventsRequest says which events of a session are wanted.
type EventsRequest struct {
	AccountID, AgentID, SessionID string        // AgentID may be empty: any
	After                         int64         // number of the last event that is known; 0: from the first
	Follow                        bool          // go on after a stopping status
	Beat                          time.Duration // yield an event with Seq 0 after so long a silence; 0: never
}

const eventBatch = 200

// Log gives at most limit events of a session after a number, and whether there
// are more by now.
func (r *Runner) Log(ctx context.Context, accountID, agentID, id string, after int64, limit int) (list []stoa.SessionEvent, more bool, err error) {
	err = r.read(ctx, accountID, agentID, id, func(tx *store.Tx, s stoa.Session) (err error) {
		list, err = tx.Events(ctx, id, after, limit)
		more = len(list) > 0 && list[len(list)-1].Seq < s.LastSeq
		return err
	})
	return list, more, err
}

// Events ranges over a session's log from any point, and waits for more. It ends
// by itself once the session has stopped and all of the log was given, unless
// Follow is set; when the session is deleted; or with ctx, whose error is the
// last thing yielded. Every event given is committed.
func (r *Runner) Events(ctx context.Context, req EventsRequest) iter.Seq2[stoa.SessionEvent, error] {
	return func(yield func(stoa.SessionEvent, error) bool) {
		sub := r.hub.subscribe(req.SessionID)
		defer sub.close()
		w := &watcher{r: r, sub: sub, req: req, after: req.After, yield: yield}
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

// watcher is one reader on its way through a log.
type watcher struct {
	r       *Runner
	sub     *subscription
	req     EventsRequest
	after   int64
	stopped bool // by the newest status that was given or read
	gone    bool // nobody ranges any more, or there is nothing left to range over
	yield   func(stoa.SessionEvent, error) bool
}

// catchUp yields what is there: from memory where the hub has it, so that many
// watchers of one session do not ask the database for the same rows.
func (w *watcher) catchUp(ctx context.Context, first bool) (caughtUp bool, err error) {
	if !first {
		if events, ok := w.sub.since(w.after); ok {
			return true, w.give(events)
		}
	}
	var events []stoa.SessionEvent
	var last int64
	var stopped bool
	err = w.r.read(ctx, w.req.AccountID, w.req.AgentID, w.req.SessionID, func(tx *store.Tx, s stoa.Session) (err error) {
		events, err = tx.Events(ctx, w.req.SessionID, w.after, eventBatch)
		last, stopped = s.LastSeq, s.Status.Stopped()
		return err
	})
	if err != nil {
		if code := stoa.CodeOf(err); !first && (code == stoa.CodeSessionNotFound || code == stoa.CodeAgentNotFound) {
			w.gone = true // deleted meanwhile
		}
		return false, err
	}
	if err := w.give(events); err != nil || w.gone {
		return false, err
	}
	if w.after < last {
		return false, nil
	}
	w.stopped = stopped
	return true, nil
}

func (w *watcher) give(events []stoa.SessionEvent) error {
	for _, e := range events {
		if s := statusOf(e); s != "" {
			w.stopped = s.Stopped()
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
	var beat <-chan time.Time
	if w.req.Beat > 0 {
		t := time.NewTicker(w.req.Beat)
		defer t.Stop()
		beat = t.C
	}
	for {
		select {
		case <-changed:
			return true
		case <-beat:
			if !w.yield(stoa.SessionEvent{}, nil) {
				return false
			}
		case <-ctx.Done():
			w.yield(stoa.SessionEvent{}, ctx.Err())
			return false
		}
	}
}
