package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"stoa/internal/contract"
	"stoa/internal/embed"
	"stoa/internal/session"
	"stoa/internal/stoa"
)

const (
	embedWatch   = 700 * time.Millisecond // between two checks of a stream's token
	embedStreams = 10                     // of one embed, at a time
)

// ListEmbedEvents serves GET …/chat-sessions/{chatId}/events, as JSON or as a
// stream.
func (s *Server) ListEmbedEvents(ctx context.Context, in contract.ListEmbedEventsRequestObject) (contract.ListEmbedEventsResponseObject, error) {
	who, q := embedded(ctx), in.Params
	e := who.Embed
	begun, last, err := s.embeds.Begun(ctx, e)
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
		ctx: ctx, s: s, caller: who.Caller, slot: e.ID, most: embedStreams, only: embed.Visible,
		req: session.EventsRequest{AccountID: e.AccountID, AgentID: e.AgentID, SessionID: e.ChatID, After: after, Follow: q.Follow, Heartbeat: watchEvery},
	}
	looked := time.Now()
	stream.mayWatch = func() bool {
		if time.Since(looked) < embedWatch {
			return true
		}
		looked = time.Now()
		return s.embeds.StillValid(ctx, LogFields(ctx).request.Header.Get("Authorization"), e.ID)
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

// awaitChat waits for the first message of a chat.
func (s *Server) awaitChat(ctx context.Context, stream *sessionStream, e stoa.Embed) bool {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
		begun, _, err := s.embeds.Begun(ctx, e)
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
		if !embed.Visible(&e) {
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
