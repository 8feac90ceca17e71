package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"stoa/internal/contract"
	"stoa/internal/jsonx"
	"stoa/internal/session"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// embedWatch is how often a visitor's stream looks whether it may still go on.
const embedWatch = 700 * time.Millisecond

// ListEmbedEvents serves GET …/chat-sessions/{chatId}/events, as JSON or as a
// stream.
func (s *Server) ListEmbedEvents(ctx context.Context, in contract.ListEmbedEventsRequestObject) (contract.ListEmbedEventsResponseObject, error) {
	who, q := embedded(ctx), in.Params
	e := who.Embed
	begun, last, err := s.chatBegun(ctx, e)
	if err != nil {
		return nil, err
	}
	if r := LogFields(ctx).request; r.Method != http.MethodGet || !wantsStream(r.Header.Values("Accept")) {
		limit := q.Limit
		if limit == 0 {
			limit = defaultEventPage
		}
		page := embedPage{after: q.After}
		if begun {
			page.list, page.more, err = s.Sessions.Log(ctx, e.AccountID, e.AgentID, e.ChatID, q.After, limit)
		}
		return page, err
	}
	after := q.After
	if q.LastEventID != nil {
		after = *q.LastEventID
	}
	if begun {
		after = min(after, last)
	} else {
		after = 0
	}
	stream := &sessionStream{
		ctx: ctx, s: s, caller: who.Caller, slot: e.ID, most: embedStreams, only: visible,
		req: session.EventsRequest{AccountID: e.AccountID, AgentID: e.AgentID, SessionID: e.ChatID, After: after, Follow: q.Follow, Heartbeat: watchEvery},
	}
	looked := time.Now()
	stream.mayWatch = func() bool {
		if time.Since(looked) < embedWatch {
			return true
		}
		looked = time.Now()
		return s.visitorMayWatch(ctx, e.ID)
	}
	if !begun {
		stream.first = func() bool { return q.Follow && s.awaitChat(ctx, stream, e) }
	}
	return embedStream{stream}, nil
}

// An embedStream is a session's stream under another name.
type embedStream struct{ *sessionStream }

// VisitListEmbedEventsResponse writes the reply.
func (e embedStream) VisitListEmbedEventsResponse(w http.ResponseWriter) error {
	return e.VisitListSessionEventsResponse(w)
}

// chatBegun reports whether a chat has a session, and the number of its newest
// event.
func (s *Server) chatBegun(ctx context.Context, e store.Embed) (begun bool, last int64, err error) {
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		row, err := chatSession(ctx, tx, e)
		if begun = row != nil; begun {
			last = row.LastSeq
		}
		return err
	})
	return begun, last, err
}

// awaitChat waits for the first message of a chat.
func (s *Server) awaitChat(ctx context.Context, stream *sessionStream, e store.Embed) bool {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
		begun, _, err := s.chatBegun(ctx, e)
		if begun || err != nil {
			return begun
		}
		if time.Since(stream.wrote) >= heartbeat && stream.beat() != nil {
			return false
		}
		if !stream.mayGoOn() {
			return false
		}
	}
}

// visitorMayWatch reports whether the token of a stream is still in force.
func (s *Server) visitorMayWatch(ctx context.Context, embedID string) bool {
	who, err := s.embeds().Verify(ctx, LogFields(ctx).request.Header.Get("Authorization"))
	switch stoa.CodeOf(err) {
	case "":
		return who.Embed.ID == embedID
	case stoa.CodeUnauthorized, stoa.CodeEmbedDisabled:
		return false
	}
	return true // the store cannot tell at the moment
}

// visible reports whether a visitor may see an event, and takes out of it what is
// the owner's business. What is not named here stays inside.
func visible(e *stoa.SessionEvent) bool {
	switch e.Type {
	case session.EventMessageCreated, session.EventMessageDone, session.EventDelta,
		session.EventInputRequested, session.EventInputAnswered, session.EventInputExpired:
		return true
	case session.EventStatus:
		var d session.StatusData
		if jsonx.Unmarshal([]byte(e.Data), &d) != nil {
			return false
		}
		d.StatusReason = ""
		return rewrite(e, d)
	case session.EventError:
		var d session.ErrorData
		if jsonx.Unmarshal([]byte(e.Data), &d) != nil {
			return false
		}
		var safe visitorError
		safe.Turn = d.Turn
		safe.Message, safe.Retryable = toVisitor(stoa.Code(d.Code), d.Retryable)
		return rewrite(e, safe)
	}
	return false
}

// A visitorError is what an error carries for a visitor.
type visitorError struct {
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	Turn      int64  `json:"turn"`
}

func rewrite(e *stoa.SessionEvent, data any) bool {
	text, err := jsonx.Marshal(data)
	e.Data = string(text)
	return err == nil
}

// An embedPage is a page of events that a visitor may see.
type embedPage struct {
	list  []stoa.SessionEvent
	after int64
	more  bool
}

// VisitListEmbedEventsResponse writes the reply.
func (p embedPage) VisitListEmbedEventsResponse(w http.ResponseWriter) error {
	last := p.after
	b := []byte(`{"data":[`)
	empty := true
	for _, e := range p.list {
		last = e.Seq
		if !visible(&e) {
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
	b = strconv.AppendBool(b, p.more)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, "}\n"...)) // a caller who left needs no answer
	return nil
}
