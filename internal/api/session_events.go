package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stoa/internal/contract"
	"stoa/internal/rest"
	"stoa/internal/session"
	"stoa/internal/sse"
	"stoa/internal/stoa"
)

const (
	defaultEventPage = 100
	// heartbeat is the default of [Server.Heartbeat].
	heartbeat = 10 * time.Second
	// watchEvery is how often a stream checks whether it may go on: whether the
	// service drains, and whether its key, verified as for a new request, is in force.
	// A key's row is read again at the latest after half a second by one of those who
	// verify it, whatever node changed it, so a stream ends within a second of its
	// key's revocation. Measured: 500 idle streams take 3 % of one core. A registry of
	// open streams by key was rejected: it is right on one node only. It would be
	// wrong if idle streams showed up in a profile.
	watchEvery = 250 * time.Millisecond
)

type listSessionEventsParams struct {
	bySessionID
	contract.ListSessionEventsParams
}

// listSessionEvents serves GET …/sessions/{sessionId}/events, as JSON or as a
// stream.
func (s *Server) listSessionEvents(w http.ResponseWriter, in *rest.Request[listSessionEventsParams, rest.None]) error {
	ctx, q, c := in.HTTP.Context(), in.Params, in.Caller
	if in.HTTP.Method != http.MethodGet || !wantsStream(in.HTTP.Header.Values("Accept")) {
		list, more, err := s.Sessions.Log(ctx, c.Account.ID, q.ID, q.SessionID, q.After, cmp.Or(q.Limit, defaultEventPage))
		if err != nil {
			return err
		}
		sendEvents(w, list, q.After, more, nil)
		return nil
	}
	// Whether there is such a session is told before the stream begins.
	row, err := s.Sessions.Get(ctx, c.Account.ID, q.ID, q.SessionID)
	if err != nil {
		return err
	}
	after := q.After
	if q.LastEventID != nil {
		after = *q.LastEventID
	}
	authorization := in.HTTP.Header.Get("Authorization")
	stream := &sessionStream{
		ctx: ctx, s: s, slot: c.Key.Root(), most: s.Limits.EventStreamsPerKey,
		account: c.Account.ID, mostOfAccount: s.Limits.EventStreamsPerAccount,
		mayWatch: func() bool { return s.keyMayWatch(ctx, authorization) },
		req: session.EventsRequest{
			AccountID: c.Account.ID, AgentID: q.ID, SessionID: q.SessionID,
			After: min(after, row.LastSeq), Follow: q.Follow, Heartbeat: watchEvery,
		},
	}
	return stream.serve(w)
}

// wantsStream reports whether Accept names server-sent events.
func wantsStream(accept []string) bool {
	for item := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, params, _ := strings.Cut(item, ";")
		if strings.EqualFold(strings.TrimSpace(media), "text/event-stream") {
			quality, weighed := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
			q, err := strconv.ParseFloat(quality, 64)
			return !weighed || err != nil || q > 0
		}
	}
	return false
}

// sendEvents answers with a page of events, those after a number. only leaves
// events out; nil: none.
func sendEvents(w http.ResponseWriter, list []stoa.SessionEvent, after int64, more bool, only func(*stoa.SessionEvent) bool) {
	last, empty := after, true
	b := []byte(`{"data":[`)
	for _, e := range list {
		last = e.Seq
		if only != nil && !only(&e) {
			continue
		}
		if !empty {
			b = append(b, ',')
		}
		empty = false
		b = appendEvent(b, e)
	}
	b = append(b, `],"lastSeq":`...)
	b = strconv.AppendInt(b, last, 10)
	b = append(b, `,"hasMore":`...)
	b = strconv.AppendBool(b, more)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, "}\n"...)) // a caller who left needs no answer
}

// appendEvent writes an event as JSON on one line: what it is, then what it
// carries.
func appendEvent(b []byte, e stoa.SessionEvent) []byte {
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, e.Seq, 10)
	b = append(b, `,"type":"`...)
	b = append(b, e.Type...)
	b = append(b, `","createdAt":"`...)
	b = append(b, contract.Time(e.At).String()...)
	b = append(b, '"')
	if len(e.Data) > len("{}") {
		b = append(b, ',')
		return append(b, e.Data[1:]...)
	}
	return append(b, '}')
}

// A sessionStream writes a session's events as they come.
type sessionStream struct {
	ctx           context.Context
	s             *Server
	req           session.EventsRequest
	slot          string // whose streams are counted
	most          int    // of them, at a time
	account       string // under which the streams of the account are counted
	mostOfAccount int
	// mayWatch reports whether whoever reads may go on.
	mayWatch func() bool
	only     func(*stoa.SessionEvent) bool // leaves events out; nil: none
	first    func() bool                   // runs before the first event and reports whether there may be any; nil: there may

	w        http.ResponseWriter
	rc       *http.ResponseController
	buf      []byte
	wrote    time.Time // when anything was sent
	watched  time.Time // when it was found that it may go on
	deadline time.Time
}

// serve writes the reply until the log has ended, the
// caller has left, or the stream must not go on.
func (e *sessionStream) serve(w http.ResponseWriter) error {
	leave, err := e.s.enterStream(e.slot, e.most, e.account, e.mostOfAccount)
	if err != nil {
		return err
	}
	defer leave()
	e.w, e.rc = w, http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	e.watched = time.Now()
	if err := e.send(); err != nil { // the headers go out before there is an event
		return rest.ErrClientGone
	}
	if e.first != nil && !e.first() {
		return nil
	}
	for ev, err := range e.s.Sessions.Events(e.ctx, e.req) {
		switch {
		case errors.Is(err, context.Canceled):
			return rest.ErrClientGone
		case err != nil:
			return err
		}
		now := time.Now()
		if ev.Seq > 0 {
			if e.only == nil || e.only(&ev) {
				e.event(ev)
			}
		} else if now.Sub(e.wrote) >= cmp.Or(e.s.Heartbeat, heartbeat) {
			e.buf = sse.AppendComment(e.buf, "keepalive")
		}
		if len(e.buf) > 0 {
			if err := e.send(); err != nil {
				return rest.ErrClientGone
			}
		}
		if now.Sub(e.watched) >= watchEvery {
			if !e.mayGoOn() {
				return nil // the caller resumes where it is let
			}
			e.watched = now
		}
	}
	return nil
}

func (e *sessionStream) event(ev stoa.SessionEvent) {
	e.buf = sse.AppendHead(sse.AppendID(e.buf, ev.Seq), ev.Type)
	e.buf = sse.AppendEnd(appendEvent(e.buf, ev))
}

// send passes on what is there. A caller who accepts nothing for a minute counts
// as gone.
func (e *sessionStream) send() error {
	e.wrote = time.Now()
	if e.deadline.Sub(e.wrote) < writeTimeout/2 {
		e.deadline = e.wrote.Add(writeTimeout)
		_ = e.rc.SetWriteDeadline(e.deadline) // where the connection has none, TCP's own limits hold
	}
	_, err := e.w.Write(e.buf)
	e.buf = e.buf[:0]
	if err == nil {
		err = e.rc.Flush()
	}
	return err
}

// mayGoOn reports whether whoever reads may go on and the service is not about to
// stop.
func (e *sessionStream) mayGoOn() bool {
	return !e.s.IsDraining() && e.mayWatch()
}

// beat sends a comment.
func (e *sessionStream) beat() error {
	e.buf = sse.AppendComment(e.buf, "keepalive")
	return e.send()
}

// keyMayWatch reports whether the key of a stream is still in force.
func (s *Server) keyMayWatch(ctx context.Context, authorization string) bool {
	c, err := s.Keys.Verify(ctx, authorization)
	switch stoa.CodeOf(err) {
	case "":
		return c.Key.Has("sessions:read")
	case stoa.CodeUnauthorized, stoa.CodeSuspended:
		return false
	}
	return true // the store cannot tell at the moment
}
