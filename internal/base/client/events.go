package client

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
)

// A SessionEvent is one event of a session's log.
type SessionEvent struct {
	Seq  int64
	Type string
	Raw  jsonx.Value // whole object
}

// SessionPath returns the path of a session below the API.
func SessionPath(agentID, sessionID string) string {
	return "/api-agents/" + url.PathEscape(agentID) + "/sessions/" + url.PathEscape(sessionID)
}

// Events ranges over the log of a session after a sequence number (0 means from the first event) until the
// session has stopped; with follow it continues after that. It resumes a broken connection where it broke. Five
// consecutive attempts without an event end the range with an error, so that it cannot loop for ever.
func (c *Client) Events(ctx context.Context, agentID, sessionID string, after int64, follow bool) iter.Seq2[SessionEvent, error] {
	return func(yield func(SessionEvent, error) bool) {
		w := &watch{c: c, path: SessionPath(agentID, sessionID), after: after, follow: follow, yield: yield}
		for failures := 0; ; {
			from := w.after
			done, err := w.connect(ctx)
			if done {
				return
			}
			if ctx.Err() != nil {
				yield(SessionEvent{}, ctx.Err())
				return
			}
			if err == nil && !follow {
				if ended, failed := w.ended(ctx); ended {
					return
				} else if failed != nil {
					err = failed
				}
			}
			if refused, ok := errors.AsType[*Error](err); ok && !refused.Retryable {
				yield(SessionEvent{}, err)
				return
			}
			if failures++; w.after > from {
				failures = 1
			}
			if failures > 5 {
				if err == nil {
					err = ErrCutOff
				}
				yield(SessionEvent{}, err)
				return
			}
			timer := time.NewTimer(time.Duration(failures*failures) * 100 * time.Millisecond)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
			}
		}
	}
}

type watch struct {
	c       *Client
	path    string
	after   int64
	follow  bool
	stopped bool // the last known status is final
	yield   func(SessionEvent, error) bool
}

// connect reads one connection to its end. done reports that the consumer stopped, or that no event can
// follow.
func (w *watch) connect(ctx context.Context) (done bool, err error) {
	r := Request{
		Path: w.path + "/events", Query: url.Values{"after": {strconv.FormatInt(w.after, 10)}},
		Header: http.Header{"Accept": {"text/event-stream"}},
	}
	if w.follow {
		r.Query.Set("follow", "true")
	}
	res, err := w.c.Do(ctx, r)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	for events := sse.NewReader(res.Body, maxBody); ; {
		in, err := events.Next()
		if err == io.EOF {
			return w.stopped && !w.follow && !events.Leftover(), nil
		}
		if err != nil {
			return false, &networkError{w.c.base, err}
		}
		var head struct {
			Seq    int64              `json:"seq"`
			Type   string             `json:"type"`
			Status stoa.SessionStatus `json:"status"`
		}
		if err := jsonx.Unmarshal(in.Data, &head); err != nil {
			return false, w.c.notThisAPI(w.path + "/events")
		}
		if head.Seq <= w.after {
			continue
		}
		w.after = head.Seq
		if head.Type == "session.status" {
			w.stopped = head.Status.Stopped()
		}
		if !w.yield(SessionEvent{Seq: head.Seq, Type: head.Type, Raw: jsonx.Value(in.Data).Clone()}, nil) {
			return true, nil
		}
	}
}

// ended reports whether the session has stopped and its log was read to the end.
func (w *watch) ended(ctx context.Context) (bool, error) {
	var s struct {
		Status       stoa.SessionStatus `json:"status"`
		LastEventSeq int64              `json:"lastEventSeq"`
	}
	if _, err := w.c.JSON(ctx, http.MethodGet, w.path, nil, nil, &s); err != nil {
		return false, err
	}
	return s.Status.Stopped() && s.LastEventSeq <= w.after, nil
}
