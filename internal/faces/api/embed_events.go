package api

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"stoa/internal/agents/embed"
	"stoa/internal/agents/session"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
)

const (
	embedWatch   = 700 * time.Millisecond // interval of the checks of a stream's token
	embedStreams = 10                     // concurrent streams of one embed
	tagStreams   = 3                      // maximum for one embed of a script tag; one before its first message
)

func (s *Embeds) listEmbedEvents(w http.ResponseWriter, in VisitorRequest[chatAnd[contract.ListEmbedEventsParams], rest.None]) error {
	ctx, e, q := in.HTTP.Context(), in.Visitor.Embed, in.Params.Query
	begun, last, err := s.embeds.Begun(ctx, e)
	if err != nil {
		return err
	}
	if in.HTTP.Method != http.MethodGet || !wantsStream(in.HTTP.Header.Values("Accept")) {
		var list []stoa.SessionEvent
		var more bool
		if begun {
			if list, more, err = s.sessions.Sessions.Log(ctx, e.AccountID, e.AgentID, e.ChatID, q.After, cmp.Or(q.Limit, defaultEventPage)); err != nil {
				return err
			}
		}
		sendEvents(w, list, q.After, more, embed.Visible)
		return nil
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
		ctx: ctx, s: s.sessions, slot: e.ID, most: embedStreams,
		account: "visitors " + e.AccountID, mostOfAccount: s.Limits.VisitorStreamsPerAccount, only: embed.Visible,
		req: session.EventsRequest{AccountID: e.AccountID, AgentID: e.AgentID, SessionID: e.ChatID, After: after, Follow: q.Follow, ThroughTools: true, Heartbeat: watchEvery},
	}
	authorization := in.HTTP.Header.Get("Authorization")
	checked := time.Now()
	stream.mayWatch = func() bool {
		if time.Since(checked) < embedWatch {
			return true
		}
		checked = time.Now()
		return s.embeds.StillValid(ctx, authorization, e.ID)
	}
	begins := func() {}
	if e.TagID != "" {
		if stream.most = tagStreams; !begun {
			stream.most = 1
		}
		var leave func()
		if begins, leave, err = s.enterTagStream(e, !begun); err != nil {
			return err
		}
		defer leave()
	}
	if !begun {
		stream.first = func() bool {
			defer begins()
			return q.Follow && s.awaitChat(ctx, stream, e)
		}
	}
	return stream.serve(w)
}

func (s *Embeds) awaitChat(ctx context.Context, stream *sessionStream, e stoa.Embed) bool {
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
		if time.Since(stream.wrote) >= cmp.Or(s.sessions.Heartbeat, heartbeat) && stream.beat() != nil {
			return false
		}
		if !stream.mayGoOn() {
			return false
		}
	}
}
