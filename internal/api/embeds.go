package api

import (
	"context"
	"net/http"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/auth"
	"stoa/internal/contract"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// What an embed has that says nothing else.
const (
	defaultChatLife          = time.Hour
	defaultTheme             = "auto"
	defaultMessagesPerMinute = 10
	defaultMaxMessages       = 50
	defaultMessageChars      = 4000
)

// Embeds that were made longer ago than embedsKept are removed, a few whenever
// one is made. They are over since a month at least.
const (
	embedsKept   = 32 * 24 * time.Hour
	embedsPurged = 20
)

func (s *Server) embeds() auth.Embeds { return auth.Embeds{Store: s.Store, Plans: s.Keys.Plan} }

// newEmbed reads what an owner wants.
func (s *Server) newEmbed(ctx context.Context, kind, agentID string, b *contract.CreateEmbed) (store.Embed, error) {
	prefix, life := "emu", s.Limits.EmbedURL
	if kind == store.EmbedSession {
		prefix, life = "ems", s.Limits.EmbedToken
	}
	if n, err := b.ExpiresInSeconds.Get(); err == nil {
		life = time.Duration(n) * time.Second
	}
	e := store.Embed{
		ID: stoa.NewID(prefix), AccountID: caller(ctx).Account.ID, AgentID: agentID, KeyID: caller(ctx).Key.ID, Kind: kind,
		ChatID: orZero(b.ChatSessionID), ExternalUserID: orZero(b.ExternalUserID), Greeting: orZero(b.Greeting), Theme: valueOr(b.Theme, defaultTheme),
		MessagesPerMinute: valueOr(b.MessagesPerMinute, defaultMessagesPerMinute), MaxMessages: valueOr(b.MaxMessages, defaultMaxMessages),
		MaxMessageChars: valueOr(b.MaxMessageChars, defaultMessageChars), MaxCredits: stoa.Credits(orZero(b.MaxCreditsMicro)),
		TokenLife: s.Limits.EmbedToken, ChatLife: defaultChatLife,
	}
	if n, err := b.ChatExpiresInSeconds.Get(); err == nil {
		e.ChatLife = time.Duration(n) * time.Second
	}
	var err error
	if e.Origins, err = auth.ParseOrigins(orZero(b.AllowedOrigins)); err != nil {
		return e, err
	}
	if kind == store.EmbedSession {
		e.TokenLife = life
	}
	e.ExpiresAt = time.Now().Add(life) // of an embed URL; see insertEmbed
	return e, nil
}

// insertEmbed stores an embed, with a chat of its own or one that it goes on
// with.
func (s *Server) insertEmbed(ctx context.Context, tx *store.Tx, e store.Embed, ticket string) (store.Embed, error) {
	if _, _, err := auth.Shown(ctx, tx, e.AccountID, e.AgentID); err != nil {
		return e, err
	}
	if e.Kind == store.EmbedSession {
		e.ExpiresAt, e.ChatExpiresAt = time.Time{}, tx.Now.Add(e.ChatLife)
	}
	if err := tx.PurgeEmbeds(ctx, tx.Now.Add(-embedsKept), embedsPurged); err != nil {
		return e, err
	}
	if err := s.joinChat(ctx, tx, &e); err != nil {
		return e, err
	}
	return tx.InsertEmbed(ctx, e, ticket)
}

func (s *Server) joinChat(ctx context.Context, tx *store.Tx, e *store.Embed) error {
	if e.ChatID == "" {
		e.ChatID = stoa.NewID("ses")
		return tx.InsertEmbedChat(ctx, e.AccountID, e.AgentID, e.ChatID, e.ExternalUserID)
	}
	user := ""
	row, err := tx.Session(ctx, e.AccountID, e.AgentID, e.ChatID)
	switch {
	case err == nil:
		user, e.SpentBefore = row.ExternalUserID, row.Spent
		if row.Mode != stoa.ModeChat {
			return stoa.Errorf(stoa.CodeInvalidValue, "A session of mode %q cannot be gone on with.", row.Mode).At("chatSessionId")
		}
	case stoa.CodeOf(err) == stoa.CodeSessionNotFound:
		reserved, begun, found, chatErr := tx.EmbedChat(ctx, e.AccountID, e.AgentID, e.ChatID)
		if chatErr != nil {
			return chatErr
		}
		if !found || begun {
			return stoa.AsError(err).At("chatSessionId")
		}
		user = reserved
	default:
		return err
	}
	if user != "" && e.ExternalUserID != "" && user != e.ExternalUserID {
		return stoa.Errorf(stoa.CodeInvalidValue, "This chat is another user's.").At("chatSessionId")
	}
	e.ExternalUserID = orElse(e.ExternalUserID, user)
	return nil
}

// CreateEmbedURL serves POST /api/v1/api-agents/{id}/embed-urls.
func (s *Server) CreateEmbedURL(ctx context.Context, in contract.CreateEmbedURLRequestObject) (contract.CreateEmbedURLResponseObject, error) {
	e, err := s.newEmbed(ctx, store.EmbedURL, in.ID, in.Body)
	if err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, true, contract.CreateEmbedURLResponseObject.VisitCreateEmbedURLResponse, func(tx *store.Tx) (contract.CreateEmbedURLResponseObject, error) {
		ticket := auth.MintTicket()
		made, err := s.insertEmbed(ctx, tx, e, auth.Hash(ticket))
		if err != nil {
			return nil, err
		}
		url := contractEmbedURL(made, nil, tx.Now)
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
	e, err := s.newEmbed(ctx, store.EmbedSession, in.ID, in.Body)
	if err != nil {
		return nil, err
	}
	return makeOnce(ctx, s, true, contract.CreateEmbedSessionResponseObject.VisitCreateEmbedSessionResponse, func(tx *store.Tx) (contract.CreateEmbedSessionResponseObject, error) {
		made, err := s.insertEmbed(ctx, tx, e, "")
		if err != nil {
			return nil, err
		}
		token, expires, err := s.embeds().NewToken(ctx, tx, made)
		return contract.CreateEmbedSession201JSONResponse{
			Headers: contract.CreateEmbedSession201ResponseHeaders{Location: agentPath(in.ID) + "/embed-sessions/" + made.ID},
			Body:    withToken(contractEmbedSession(made, nil, tx.Now), token, expires),
		}, err
	})
}

// RefreshEmbedSession serves POST …/embed-sessions/{embedId}/refresh.
func (s *Server) RefreshEmbedSession(ctx context.Context, in contract.RefreshEmbedSessionRequestObject) (contract.RefreshEmbedSessionResponseObject, error) {
	return makeOnce(ctx, s, true, contract.RefreshEmbedSessionResponseObject.VisitRefreshEmbedSessionResponse, func(tx *store.Tx) (contract.RefreshEmbedSessionResponseObject, error) {
		if _, _, err := auth.Shown(ctx, tx, caller(ctx).Account.ID, in.ID); err != nil {
			return nil, err
		}
		e, err := tx.Embed(ctx, caller(ctx).Account.ID, in.ID, store.EmbedSession, in.EmbedID)
		if err != nil {
			return nil, err
		}
		token, expires, err := s.embeds().NewToken(ctx, tx, e)
		if err != nil {
			return nil, err
		}
		refused, err := tx.Refusals(ctx, e.ID)
		return contract.RefreshEmbedSession200JSONResponse(withToken(contractEmbedSession(e, refused, tx.Now), token, expires)), err
	})
}

// ListEmbedURLs serves GET /api/v1/api-agents/{id}/embed-urls.
func (s *Server) ListEmbedURLs(ctx context.Context, in contract.ListEmbedURLsRequestObject) (contract.ListEmbedURLsResponseObject, error) {
	out := contract.ListEmbedURLs200JSONResponse{Data: []contract.EmbedURL{}}
	next, more, err := s.eachEmbed(ctx, in.ID, store.EmbedURL, in.Params.Limit, in.Params.Cursor, in.Params.Order, func(e store.Embed, refused []store.Refusal, now time.Time) {
		out.Data = append(out.Data, contractEmbedURL(e, refused, now))
	})
	out.NextCursor, out.HasMore = next, more
	return out, err
}

// ListEmbedSessions serves GET /api/v1/api-agents/{id}/embed-sessions.
func (s *Server) ListEmbedSessions(ctx context.Context, in contract.ListEmbedSessionsRequestObject) (contract.ListEmbedSessionsResponseObject, error) {
	out := contract.ListEmbedSessions200JSONResponse{Data: []contract.EmbedSession{}}
	next, more, err := s.eachEmbed(ctx, in.ID, store.EmbedSession, in.Params.Limit, in.Params.Cursor, in.Params.Order, func(e store.Embed, refused []store.Refusal, now time.Time) {
		out.Data = append(out.Data, contractEmbedSession(e, refused, now))
	})
	out.NextCursor, out.HasMore = next, more
	return out, err
}

func (s *Server) eachEmbed(ctx context.Context, agentID, kind string, limit int, cursor, order string, yield func(store.Embed, []store.Refusal, time.Time)) (next nullable.Nullable[string], more bool, err error) {
	accountID := caller(ctx).Account.ID
	next = nullable.NewNullNullable[string]()
	p, err := newPager(limit, cursor, order, "embeds", accountID, agentID, kind)
	if err != nil {
		return next, false, err
	}
	err = s.Store.Read(ctx, func(tx *store.Tx) error {
		if _, err := tx.Agent(ctx, accountID, agentID); err != nil {
			return err
		}
		var list []store.Embed
		if list, more, err = tx.Embeds(ctx, accountID, agentID, kind, p.page); err != nil {
			return err
		}
		for _, e := range list {
			refused, err := tx.Refusals(ctx, e.ID)
			if err != nil {
				return err
			}
			yield(e, refused, time.Now())
			next = p.next(more, e.CreatedAt, e.ID)
		}
		return nil
	})
	return next, more, err
}

// GetEmbedURL serves GET …/embed-urls/{embedId}.
func (s *Server) GetEmbedURL(ctx context.Context, in contract.GetEmbedURLRequestObject) (contract.GetEmbedURLResponseObject, error) {
	e, refused, err := s.embed(ctx, in.ID, store.EmbedURL, in.EmbedID)
	return contract.GetEmbedURL200JSONResponse(contractEmbedURL(e, refused, time.Now())), err
}

// GetEmbedSession serves GET …/embed-sessions/{embedId}.
func (s *Server) GetEmbedSession(ctx context.Context, in contract.GetEmbedSessionRequestObject) (contract.GetEmbedSessionResponseObject, error) {
	e, refused, err := s.embed(ctx, in.ID, store.EmbedSession, in.EmbedID)
	return contract.GetEmbedSession200JSONResponse(contractEmbedSession(e, refused, time.Now())), err
}

func (s *Server) embed(ctx context.Context, agentID, kind, id string) (e store.Embed, refused []store.Refusal, err error) {
	accountID := caller(ctx).Account.ID
	err = s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if _, err = tx.Agent(ctx, accountID, agentID); err != nil {
			return err
		}
		if e, err = tx.Embed(ctx, accountID, agentID, kind, id); err != nil {
			return err
		}
		refused, err = tx.Refusals(ctx, id)
		return err
	})
	return e, refused, err
}

// DeleteEmbedURL serves DELETE …/embed-urls/{embedId}.
func (s *Server) DeleteEmbedURL(ctx context.Context, in contract.DeleteEmbedURLRequestObject) (contract.DeleteEmbedURLResponseObject, error) {
	return contract.DeleteEmbedURL204Response{}, s.revokeEmbed(ctx, in.ID, store.EmbedURL, in.EmbedID)
}

// DeleteEmbedSession serves DELETE …/embed-sessions/{embedId}.
func (s *Server) DeleteEmbedSession(ctx context.Context, in contract.DeleteEmbedSessionRequestObject) (contract.DeleteEmbedSessionResponseObject, error) {
	return contract.DeleteEmbedSession204Response{}, s.revokeEmbed(ctx, in.ID, store.EmbedSession, in.EmbedID)
}

func (s *Server) revokeEmbed(ctx context.Context, agentID, kind, id string) error {
	return s.Store.Write(ctx, func(tx *store.Tx) error {
		return tx.RevokeEmbed(ctx, caller(ctx).Account.ID, agentID, kind, id)
	})
}

func embedStatus(e store.Embed, now time.Time) string {
	switch {
	case !e.RevokedAt.IsZero():
		return "revoked"
	case e.ChatExpiresAt.IsZero() && now.Before(e.ExpiresAt):
		return "pending"
	case now.Before(e.ChatExpiresAt):
		return "active"
	}
	return "expired"
}

func contractRefused(list []store.Refusal) []contract.RefusedOrigin {
	out := []contract.RefusedOrigin{}
	for _, r := range list {
		out = append(out, contract.RefusedOrigin{Origin: r.Origin, Times: r.Times, LastAt: contract.Time(r.LastAt)})
	}
	return out
}

func contractEmbedURL(e store.Embed, refused []store.Refusal, now time.Time) contract.EmbedURL {
	return contract.EmbedURL{
		ID: e.ID, Object: "embed_url", AgentID: e.AgentID, ChatSessionID: e.ChatID, Status: embedStatus(e, now),
		AllowedOrigins: e.Origins, ExternalUserID: unlessZero(e.ExternalUserID), Greeting: unlessZero(e.Greeting), Theme: e.Theme,
		MessagesPerMinute: e.MessagesPerMinute, MaxMessages: e.MaxMessages, MaxMessageChars: e.MaxMessageChars, MaxCreditsMicro: unlessZero(int64(e.MaxCredits)),
		MessagesSent: e.Messages, LastMessageAt: unlessNever(e.UsedAt), RefusedRequests: e.Refused, RefusedOrigins: contractRefused(refused),
		ExpiresAt: contract.Time(e.ExpiresAt), ExchangedAt: unlessNever(e.ExchangedAt), ChatExpiresAt: unlessNever(e.ChatExpiresAt),
		RevokedAt: unlessNever(e.RevokedAt), CreatedAt: contract.Time(e.CreatedAt),
	}
}

func contractEmbedSession(e store.Embed, refused []store.Refusal, now time.Time) contract.EmbedSession {
	return contract.EmbedSession{
		ID: e.ID, Object: "embed_session", AgentID: e.AgentID, ChatSessionID: e.ChatID, Status: embedStatus(e, now),
		AllowedOrigins: e.Origins, ExternalUserID: unlessZero(e.ExternalUserID), Greeting: unlessZero(e.Greeting), Theme: e.Theme,
		MessagesPerMinute: e.MessagesPerMinute, MaxMessages: e.MaxMessages, MaxMessageChars: e.MaxMessageChars, MaxCreditsMicro: unlessZero(int64(e.MaxCredits)),
		MessagesSent: e.Messages, LastMessageAt: unlessNever(e.UsedAt), RefusedRequests: e.Refused, RefusedOrigins: contractRefused(refused),
		ChatExpiresAt: unlessNever(e.ChatExpiresAt), RevokedAt: unlessNever(e.RevokedAt), CreatedAt: contract.Time(e.CreatedAt),
	}
}

func withToken(e contract.EmbedSession, token string, expires time.Time) contract.EmbedSessionWithToken {
	return contract.EmbedSessionWithToken{
		Token: token, ExpiresAt: contract.Time(expires),
		ID: e.ID, Object: e.Object, AgentID: e.AgentID, ChatSessionID: e.ChatSessionID, Status: e.Status,
		AllowedOrigins: e.AllowedOrigins, ExternalUserID: e.ExternalUserID, Greeting: e.Greeting, Theme: e.Theme,
		MessagesPerMinute: e.MessagesPerMinute, MaxMessages: e.MaxMessages, MaxMessageChars: e.MaxMessageChars, MaxCreditsMicro: e.MaxCreditsMicro,
		MessagesSent: e.MessagesSent, LastMessageAt: e.LastMessageAt, RefusedRequests: e.RefusedRequests, RefusedOrigins: e.RefusedOrigins,
		ChatExpiresAt: e.ChatExpiresAt, RevokedAt: e.RevokedAt, CreatedAt: e.CreatedAt,
	}
}

// EmbedPage tells of an embed URL which pages may frame its chat page, and its
// theme; found is false where there is none.
func (s *Server) EmbedPage(r *http.Request, id string) (origins []string, theme string, found bool, err error) {
	s.prepare()
	err = s.Store.Read(r.Context(), func(tx *store.Tx) error {
		e, there, err := tx.EmbedByID(r.Context(), id)
		origins, theme, found = e.Origins, e.Theme, there && e.Kind == store.EmbedURL
		return err
	})
	return origins, theme, found, err
}
