package api

import (
	"context"
	"net/http"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/contract"
	"stoa/internal/embed"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// prepareEmbed checks what an owner asks for.
func (s *Server) prepareEmbed(ctx context.Context, kind stoa.EmbedKind, agentID string, b *contract.CreateEmbed) (stoa.Embed, error) {
	return s.embeds.Prepare(caller(ctx), kind, agentID, embed.Request{
		Origins: orZero(b.AllowedOrigins), ChatID: orZero(b.ChatSessionID), ExternalUserID: orZero(b.ExternalUserID),
		Greeting: orZero(b.Greeting), Theme: orZero(b.Theme),
		MessagesPerMinute: orZero(b.MessagesPerMinute), MaxMessages: orZero(b.MaxMessages), MaxMessageChars: orZero(b.MaxMessageChars),
		MaxCredits: stoa.Credits(orZero(b.MaxCreditsMicro)),
		Life:       time.Duration(orZero(b.ExpiresInSeconds)) * time.Second,
		ChatLife:   time.Duration(orZero(b.ChatExpiresInSeconds)) * time.Second,
	})
}

// CreateEmbedURL serves POST /api/v1/api-agents/{id}/embed-urls.
func (s *Server) CreateEmbedURL(ctx context.Context, in contract.CreateEmbedURLRequestObject) (contract.CreateEmbedURLResponseObject, error) {
	e, err := s.prepareEmbed(ctx, stoa.EmbedURL, in.ID, in.Body)
	if err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, true, contract.CreateEmbedURLResponseObject.VisitCreateEmbedURLResponse, func(tx *store.Tx) (contract.CreateEmbedURLResponseObject, error) {
		made, ticket, err := s.embeds.CreateURL(ctx, tx, e)
		if err != nil {
			return nil, err
		}
		url := contractEmbedURL(embed.Stored{Embed: made}, tx.Now)
		return contract.CreateEmbedURL201JSONResponse{
			Headers: contract.CreateEmbedURL201ResponseHeaders{Location: agentPath(in.ID) + "/embed-urls/" + made.ID},
			Body: contract.EmbedURLWithLink{
				URL: s.link("/embed/" + made.ID + "#t=" + ticket),
				ID:  url.ID, Object: url.Object, AgentID: url.AgentID, ChatSessionID: url.ChatSessionID, Status: url.Status,
				AllowedOrigins: url.AllowedOrigins, ExternalUserID: url.ExternalUserID, Greeting: url.Greeting, Theme: url.Theme,
				MessagesPerMinute: url.MessagesPerMinute, MaxMessages: url.MaxMessages, MaxMessageChars: url.MaxMessageChars, MaxCreditsMicro: url.MaxCreditsMicro,
				MessagesSent: url.MessagesSent, LastMessageAt: url.LastMessageAt, RefusedRequests: url.RefusedRequests, RefusedOrigins: url.RefusedOrigins,
				ExpiresAt: url.ExpiresAt, ExchangedAt: url.ExchangedAt, ChatExpiresAt: url.ChatExpiresAt, RevokedAt: url.RevokedAt, CreatedAt: url.CreatedAt,
			},
		}, nil
	})
}

// CreateEmbedSession serves POST /api/v1/api-agents/{id}/embed-sessions.
func (s *Server) CreateEmbedSession(ctx context.Context, in contract.CreateEmbedSessionRequestObject) (contract.CreateEmbedSessionResponseObject, error) {
	e, err := s.prepareEmbed(ctx, stoa.EmbedSession, in.ID, in.Body)
	if err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, true, contract.CreateEmbedSessionResponseObject.VisitCreateEmbedSessionResponse, func(tx *store.Tx) (contract.CreateEmbedSessionResponseObject, error) {
		made, token, err := s.embeds.CreateSession(ctx, tx, e)
		return contract.CreateEmbedSession201JSONResponse{
			Headers: contract.CreateEmbedSession201ResponseHeaders{Location: agentPath(in.ID) + "/embed-sessions/" + made.ID},
			Body:    withToken(contractEmbedSession(embed.Stored{Embed: made}, tx.Now), token),
		}, err
	})
}

// RefreshEmbedSession serves POST …/embed-sessions/{embedId}/refresh.
func (s *Server) RefreshEmbedSession(ctx context.Context, in contract.RefreshEmbedSessionRequestObject) (contract.RefreshEmbedSessionResponseObject, error) {
	return makeOnce(ctx, s, true, contract.RefreshEmbedSessionResponseObject.VisitRefreshEmbedSessionResponse, func(tx *store.Tx) (contract.RefreshEmbedSessionResponseObject, error) {
		e, token, err := s.embeds.Refresh(ctx, tx, caller(ctx).Account.ID, in.ID, in.EmbedID)
		return contract.RefreshEmbedSession200JSONResponse(withToken(contractEmbedSession(e, tx.Now), token)), err
	})
}

// ListEmbedURLs serves GET /api/v1/api-agents/{id}/embed-urls.
func (s *Server) ListEmbedURLs(ctx context.Context, in contract.ListEmbedURLsRequestObject) (contract.ListEmbedURLsResponseObject, error) {
	out := contract.ListEmbedURLs200JSONResponse{Data: []contract.EmbedURL{}}
	next, more, err := s.eachEmbed(ctx, in.ID, stoa.EmbedURL, in.Params.Limit, in.Params.Cursor, in.Params.Order, func(e embed.Stored, now time.Time) {
		out.Data = append(out.Data, contractEmbedURL(e, now))
	})
	out.NextCursor, out.HasMore = next, more
	return out, err
}

// ListEmbedSessions serves GET /api/v1/api-agents/{id}/embed-sessions.
func (s *Server) ListEmbedSessions(ctx context.Context, in contract.ListEmbedSessionsRequestObject) (contract.ListEmbedSessionsResponseObject, error) {
	out := contract.ListEmbedSessions200JSONResponse{Data: []contract.EmbedSession{}}
	next, more, err := s.eachEmbed(ctx, in.ID, stoa.EmbedSession, in.Params.Limit, in.Params.Cursor, in.Params.Order, func(e embed.Stored, now time.Time) {
		out.Data = append(out.Data, contractEmbedSession(e, now))
	})
	out.NextCursor, out.HasMore = next, more
	return out, err
}

func (s *Server) eachEmbed(ctx context.Context, agentID string, kind stoa.EmbedKind, limit int, cursor, order string, yield func(embed.Stored, time.Time)) (next nullable.Nullable[string], more bool, err error) {
	accountID := caller(ctx).Account.ID
	next = nullable.NewNullNullable[string]()
	p, err := newPager(limit, cursor, order, "embeds", accountID, agentID, string(kind))
	if err != nil {
		return next, false, err
	}
	list, more, err := s.embeds.List(ctx, accountID, agentID, kind, p.page)
	for _, e := range list {
		yield(e, time.Now())
		next = p.next(more, e.CreatedAt, e.ID)
	}
	return next, more, err
}

// GetEmbedURL serves GET …/embed-urls/{embedId}.
func (s *Server) GetEmbedURL(ctx context.Context, in contract.GetEmbedURLRequestObject) (contract.GetEmbedURLResponseObject, error) {
	e, err := s.embeds.Get(ctx, caller(ctx).Account.ID, in.ID, stoa.EmbedURL, in.EmbedID)
	return contract.GetEmbedURL200JSONResponse(contractEmbedURL(e, time.Now())), err
}

// GetEmbedSession serves GET …/embed-sessions/{embedId}.
func (s *Server) GetEmbedSession(ctx context.Context, in contract.GetEmbedSessionRequestObject) (contract.GetEmbedSessionResponseObject, error) {
	e, err := s.embeds.Get(ctx, caller(ctx).Account.ID, in.ID, stoa.EmbedSession, in.EmbedID)
	return contract.GetEmbedSession200JSONResponse(contractEmbedSession(e, time.Now())), err
}

// DeleteEmbedURL serves DELETE …/embed-urls/{embedId}.
func (s *Server) DeleteEmbedURL(ctx context.Context, in contract.DeleteEmbedURLRequestObject) (contract.DeleteEmbedURLResponseObject, error) {
	return contract.DeleteEmbedURL204Response{}, s.embeds.Revoke(ctx, caller(ctx).Account.ID, in.ID, stoa.EmbedURL, in.EmbedID)
}

// DeleteEmbedSession serves DELETE …/embed-sessions/{embedId}.
func (s *Server) DeleteEmbedSession(ctx context.Context, in contract.DeleteEmbedSessionRequestObject) (contract.DeleteEmbedSessionResponseObject, error) {
	return contract.DeleteEmbedSession204Response{}, s.embeds.Revoke(ctx, caller(ctx).Account.ID, in.ID, stoa.EmbedSession, in.EmbedID)
}

func contractRefused(list []store.Refusal) []contract.RefusedOrigin {
	out := []contract.RefusedOrigin{}
	for _, r := range list {
		out = append(out, contract.RefusedOrigin{Origin: r.Origin, Times: r.Times, LastAt: contract.Time(r.LastAt)})
	}
	return out
}

func contractEmbedURL(e embed.Stored, now time.Time) contract.EmbedURL {
	return contract.EmbedURL{
		ID: e.ID, Object: "embed_url", AgentID: e.AgentID, ChatSessionID: e.ChatID, Status: e.Status(now),
		AllowedOrigins: e.Origins, ExternalUserID: unlessZero(e.ExternalUserID), Greeting: unlessZero(e.Greeting), Theme: e.Theme,
		MessagesPerMinute: e.MessagesPerMinute, MaxMessages: e.MaxMessages, MaxMessageChars: e.MaxMessageChars, MaxCreditsMicro: unlessZero(int64(e.MaxCredits)),
		MessagesSent: e.Messages, LastMessageAt: unlessNever(e.UsedAt), RefusedRequests: e.Embed.Refused, RefusedOrigins: contractRefused(e.Refused),
		ExpiresAt: contract.Time(e.ExpiresAt), ExchangedAt: unlessNever(e.ExchangedAt), ChatExpiresAt: unlessNever(e.ChatExpiresAt),
		RevokedAt: unlessNever(e.RevokedAt), CreatedAt: contract.Time(e.CreatedAt),
	}
}

func contractEmbedSession(e embed.Stored, now time.Time) contract.EmbedSession {
	return contract.EmbedSession{
		ID: e.ID, Object: "embed_session", AgentID: e.AgentID, ChatSessionID: e.ChatID, Status: e.Status(now),
		AllowedOrigins: e.Origins, ExternalUserID: unlessZero(e.ExternalUserID), Greeting: unlessZero(e.Greeting), Theme: e.Theme,
		MessagesPerMinute: e.MessagesPerMinute, MaxMessages: e.MaxMessages, MaxMessageChars: e.MaxMessageChars, MaxCreditsMicro: unlessZero(int64(e.MaxCredits)),
		MessagesSent: e.Messages, LastMessageAt: unlessNever(e.UsedAt), RefusedRequests: e.Embed.Refused, RefusedOrigins: contractRefused(e.Refused),
		ChatExpiresAt: unlessNever(e.ChatExpiresAt), RevokedAt: unlessNever(e.RevokedAt), CreatedAt: contract.Time(e.CreatedAt),
	}
}

func withToken(e contract.EmbedSession, t embed.Token) contract.EmbedSessionWithToken {
	return contract.EmbedSessionWithToken{
		Token: t.Secret, ExpiresAt: contract.Time(t.ExpiresAt),
		ID: e.ID, Object: e.Object, AgentID: e.AgentID, ChatSessionID: e.ChatSessionID, Status: e.Status,
		AllowedOrigins: e.AllowedOrigins, ExternalUserID: e.ExternalUserID, Greeting: e.Greeting, Theme: e.Theme,
		MessagesPerMinute: e.MessagesPerMinute, MaxMessages: e.MaxMessages, MaxMessageChars: e.MaxMessageChars, MaxCreditsMicro: e.MaxCreditsMicro,
		MessagesSent: e.MessagesSent, LastMessageAt: e.LastMessageAt, RefusedRequests: e.RefusedRequests, RefusedOrigins: e.RefusedOrigins,
		ChatExpiresAt: e.ChatExpiresAt, RevokedAt: e.RevokedAt, CreatedAt: e.CreatedAt,
	}
}

// EmbedPage returns which pages may frame the chat page of an embed URL, and its
// theme; found is false where there is none.
func (s *Server) EmbedPage(r *http.Request, id string) (origins []string, theme string, found bool, err error) {
	s.prepare()
	return s.embeds.Page(r.Context(), id)
}
