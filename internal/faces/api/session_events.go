package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
)

const (
	defaultEventPage = 100
	// heartbeat is the default of [Sessions.Heartbeat].
	heartbeat = 10 * time.Second
	// watchEvery is the interval at which a stream checks whether it may continue: the service must not
	// drain, and its key must still be valid, as for a new request. A stream ends within a second after
	// its key is revoked, because a verifier reads a key's row again after at most half a second,
	// regardless of the node that changed it. Measured: 500 idle streams take 3 % of one core. A registry
	// of open streams by key was rejected, because it works on a single node only. Reconsider this if idle
	// streams show up in a profile.
	watchEvery = 250 * time.Millisecond
)

func (s *Sessions) listSessionEvents(w http.ResponseWriter, in *rest.Request[sessionAnd[contract.ListSessionEventsParams], rest.None]) error {
	ctx, q, c := in.HTTP.Context(), in.Params.Query, in.Caller
	if in.HTTP.Method != http.MethodGet || !wantsStream(in.HTTP.Header.Values("Accept")) {
		list, more, err := s.Sessions.Log(ctx, c.Account.ID, in.Params.ID, in.Params.SessionID, q.After, cmp.Or(q.Limit, defaultEventPage))
		if err != nil {
			return err
		}
		sendEvents(w, list, q.After, more, nil)
		return nil
	}
	// A missing session must be reported before the stream begins, because the status cannot change afterwards.
	row, err := s.Sessions.Get(ctx, c.Account.ID, in.Params.ID, in.Params.SessionID)
	if err != nil {
		return err
	}
	after := q.After
	if q.LastEventID != nil {
		after = *q.LastEventID
	}
	r := in.HTTP // so that the stream does not keep the rest of the request
	stream := &sessionStream{
		ctx: ctx, s: s, slot: c.Key.Root(), most: s.Limits.EventStreamsPerKey,
		account: c.Account.ID, mostOfAccount: s.Limits.EventStreamsPerAccount,
		mayWatch: func() bool { return s.mayWatch(r, "sessions:read") },
		req: session.EventsRequest{
			AccountID: c.Account.ID, AgentID: in.Params.ID, SessionID: in.Params.SessionID,
			After: min(after, row.LastSeq), Follow: q.Follow, Heartbeat: watchEvery,
		},
	}
	return stream.serve(w)
}

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

// sendEvents answers with a page of the events after a number. only filters events; nil
// means all.
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
	_, _ = w.Write(append(b, "}\n"...)) // ignored, because the caller may have disconnected
}

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

type sessionStream struct {
	ctx           context.Context
	s             *Sessions
	req           session.EventsRequest
	slot          string // the key of the streams counter
	most          int    // the maximum number of streams
	account       string // the account's key of the streams counter
	mostOfAccount int
	// mayWatch reports whether the reader is still authorized.
	mayWatch func() bool
	only     func(*stoa.SessionEvent) bool // nil means all
	first    func() bool                   // runs before the first event and reports whether there may be events; nil means true

	w        http.ResponseWriter
	rc       *http.ResponseController
	buf      []byte
	wrote    time.Time
	watched  time.Time // time of the last authorization check
	deadline time.Time
}

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
	if err := e.send(); err != nil { // because the headers are sent before the first event
		return stoa.ErrClientGone
	}
	if e.first != nil && !e.first() {
		return nil
	}
	for ev, err := range e.s.Sessions.Events(e.ctx, e.req) {
		switch {
		case errors.Is(err, context.Canceled):
			return stoa.ErrClientGone
		case err != nil:
			return err
		}
		now := time.Now()
		if ev.Seq > 0 {
			if e.only == nil || e.only(&ev) {
				e.buf = sse.AppendHead(sse.AppendID(e.buf, ev.Seq), ev.Type)
				e.buf = sse.AppendEnd(appendEvent(e.buf, ev))
			}
		} else if now.Sub(e.wrote) >= cmp.Or(e.s.Heartbeat, heartbeat) {
			e.buf = sse.AppendComment(e.buf, "keepalive")
		}
		if len(e.buf) > 0 {
			if err := e.send(); err != nil {
				return stoa.ErrClientGone
			}
		}
		if now.Sub(e.watched) >= watchEvery {
			if !e.mayGoOn() {
				return nil // because the caller can resume on another node
			}
			e.watched = now
		}
	}
	return nil
}

// send flushes the buffer. A caller who accepts nothing for a minute counts as
// disconnected.
func (e *sessionStream) send() error {
	e.wrote = time.Now()
	if e.deadline.Sub(e.wrote) < writeTimeout/2 {
		e.deadline = e.wrote.Add(writeTimeout)
		_ = e.rc.SetWriteDeadline(e.deadline) // if the connection has no deadlines, TCP's own limits apply
	}
	_, err := e.w.Write(e.buf)
	e.buf = e.buf[:0]
	if err == nil {
		err = e.rc.Flush()
	}
	return err
}

func (e *sessionStream) mayGoOn() bool {
	return !e.s.IsDraining() && e.mayWatch()
}

func (e *sessionStream) beat() error {
	e.buf = sse.AppendComment(e.buf, "keepalive")
	return e.send()
}

func (s *Sessions) mayWatch(r *http.Request, scope string) bool {
	c, err := s.Verify(r)
	switch stoa.CodeOf(err) {
	case "":
		return c.Key.Has(scope)
	case stoa.CodeUnauthorized, stoa.CodeSuspended:
		return false
	}
	return true // because the store is temporarily unavailable
}
