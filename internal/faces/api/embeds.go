package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"stoa/internal/agents/embed"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

func (s *Embeds) prepareEmbed(kind stoa.EmbedKind, in rest.Request[byID, contract.CreateEmbed]) (stoa.Embed, error) {
	b := in.Body
	return s.embeds.Prepare(in.Caller, kind, in.Params.ID, embed.Request{
		Origins: orZero(b.AllowedOrigins), ChatID: orZero(b.ChatSessionID), ExternalUserID: orZero(b.ExternalUserID),
		Greeting: orZero(b.Greeting), Theme: orZero(b.Theme),
		MessagesPerMinute: orZero(b.MessagesPerMinute), MaxMessages: orZero(b.MaxMessages), MaxMessageChars: orZero(b.MaxMessageChars),
		MaxCredits:  stoa.Credits(orZero(b.MaxCreditsMicro)),
		Life:        time.Duration(orZero(b.ExpiresInSeconds)) * time.Second,
		ChatLife:    time.Duration(orZero(b.ChatExpiresInSeconds)) * time.Second,
		Attachments: visitorAttachments(b.Attachments),
		Look:        stoa.EmbedLook{Title: orZero(b.Title), Logo: orZero(b.Logo), Starters: orZero(b.Starters), Feedback: valueOr(b.Feedback, true), Contact: valueOr(b.Contact, false)},
	})
}

func (s *Embeds) createEmbedURL(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.CreateEmbed]) (rest.Reply[contract.EmbedURLWithLink], error) {
	e, err := s.prepareEmbed(stoa.EmbedURL, in)
	if err != nil {
		return rest.Reply[contract.EmbedURLWithLink]{}, err
	}
	made, ticket, err := s.embeds.CreateURL(ctx, tx, e)
	if err == nil {
		err = keepCredentials(ctx, tx, in.Caller, made.ID, e.ExternalUserID, in.Body.Credentials)
	}
	body := extend[contract.EmbedURLWithLink](contractEmbedURL(embed.Stored{Embed: made}, tx.Now))
	body.URL = s.link("/embed/" + made.ID + "#t=" + ticket)
	reply := rest.Created(agentPath(in.Params.ID)+"/embed-urls/"+made.ID, body)
	reply.Secret = true
	return reply, err
}

func (s *Embeds) createEmbedSession(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.CreateEmbed]) (rest.Reply[contract.EmbedSessionWithToken], error) {
	e, err := s.prepareEmbed(stoa.EmbedSession, in)
	if err != nil {
		return rest.Reply[contract.EmbedSessionWithToken]{}, err
	}
	made, token, err := s.embeds.CreateSession(ctx, tx, e)
	if err == nil {
		err = keepCredentials(ctx, tx, in.Caller, made.ID, e.ExternalUserID, in.Body.Credentials)
	}
	reply := rest.Created(agentPath(in.Params.ID)+"/embed-sessions/"+made.ID, withToken(contractEmbedSession(embed.Stored{Embed: made}, tx.Now), token))
	reply.Secret = true
	return reply, err
}

func (s *Embeds) refreshEmbedSession(ctx context.Context, tx *store.Tx, in rest.Request[byEmbedID, rest.None]) (rest.Reply[contract.EmbedSessionWithToken], error) {
	e, token, err := s.embeds.Refresh(ctx, tx, in.Caller.Account.ID, in.Params.ID, in.Params.EmbedID)
	return rest.Reply[contract.EmbedSessionWithToken]{Body: withToken(contractEmbedSession(e, tx.Now), token), Secret: true}, err
}

func (s *Embeds) listEmbedURLs(ctx context.Context, in rest.Request[idAnd[contract.ListEmbedURLsParams], rest.None]) (rest.Reply[rest.Page[contract.EmbedURL]], error) {
	q := in.Params.Query
	return listEmbeds(ctx, s, in.Caller, in.Params.ID, stoa.EmbedURL, q.Q, q.Limit, q.Cursor, q.Order, contractEmbedURL)
}

func (s *Embeds) listEmbedSessions(ctx context.Context, in rest.Request[idAnd[contract.ListEmbedSessionsParams], rest.None]) (rest.Reply[rest.Page[contract.EmbedSession]], error) {
	q := in.Params.Query
	return listEmbeds(ctx, s, in.Caller, in.Params.ID, stoa.EmbedSession, q.Q, q.Limit, q.Cursor, q.Order, contractEmbedSession)
}

func listEmbeds[Item any](ctx context.Context, s *Embeds, c stoa.Caller, agentID string, kind stoa.EmbedKind, text string, limit int, cursor, order string, item func(embed.Stored, time.Time) Item) (rest.Reply[rest.Page[Item]], error) {
	p := rest.NewPager(limit, cursor, order, "embeds", c.Account.ID, agentID, string(kind), text)
	now := time.Now()
	list, next, err := s.embeds.List(ctx, c.Account.ID, agentID, kind, text, p.Page)
	return rest.PageTo(p, list, next, err, func(e embed.Stored) Item { return item(e, now) })
}

func (s *Embeds) getEmbedURL(ctx context.Context, in rest.Request[byEmbedID, rest.None]) (rest.Reply[contract.EmbedURL], error) {
	e, err := s.embeds.Get(ctx, in.Caller.Account.ID, in.Params.ID, stoa.EmbedURL, in.Params.EmbedID)
	if err != nil {
		return rest.Reply[contract.EmbedURL]{}, err
	}
	out := contractEmbedURL(e, time.Now())
	out.Credentials, err = s.ownCredentials(ctx, in.Caller, e.ID)
	return rest.Reply[contract.EmbedURL]{Body: out}, err
}

func (s *Embeds) getEmbedSession(ctx context.Context, in rest.Request[byEmbedID, rest.None]) (rest.Reply[contract.EmbedSession], error) {
	e, err := s.embeds.Get(ctx, in.Caller.Account.ID, in.Params.ID, stoa.EmbedSession, in.Params.EmbedID)
	if err != nil {
		return rest.Reply[contract.EmbedSession]{}, err
	}
	out := contractEmbedSession(e, time.Now())
	out.Credentials, err = s.ownCredentials(ctx, in.Caller, e.ID)
	return rest.Reply[contract.EmbedSession]{Body: out}, err
}

func (s *Embeds) deleteEmbedURL(ctx context.Context, in rest.Request[byEmbedID, rest.None]) (rest.Reply[rest.None], error) {
	return rest.NoContent(), s.embeds.Revoke(ctx, in.Caller.Account.ID, in.Params.ID, stoa.EmbedURL, in.Params.EmbedID)
}

func (s *Embeds) deleteEmbedSession(ctx context.Context, in rest.Request[byEmbedID, rest.None]) (rest.Reply[rest.None], error) {
	return rest.NoContent(), s.embeds.Revoke(ctx, in.Caller.Account.ID, in.Params.ID, stoa.EmbedSession, in.Params.EmbedID)
}

func contractRefused(list []store.Refusal) []contract.RefusedOrigin {
	out := []contract.RefusedOrigin{}
	for _, r := range list {
		out = append(out, contract.RefusedOrigin{Origin: r.Origin, Times: r.Times, LastAt: contract.Time(r.LastAt)})
	}
	return out
}

func contractEmbedURL(e embed.Stored, now time.Time) contract.EmbedURL {
	c := extend[contract.EmbedURL](contractEmbedSession(e, now))
	c.Object, c.TagID, c.ExpiresAt, c.ExchangedAt = "embed_url", e.TagID, contract.Time(e.ExpiresAt), nullIfNever(e.ExchangedAt)
	return c
}

func contractEmbedSession(e embed.Stored, now time.Time) contract.EmbedSession {
	return contract.EmbedSession{
		ID: e.ID, Object: "embed_session", AgentID: e.AgentID, ChatSessionID: e.ChatID, Status: e.Status(now),
		AllowedOrigins: e.Origins, ExternalUserID: nullIfZero(e.ExternalUserID), Greeting: nullIfZero(e.Greeting), Theme: e.Theme, Attachments: contractVisitorAttachments(e.Attachments),
		Title: nullIfZero(e.Title), Logo: nullIfZero(e.Logo), Starters: e.Starters, Feedback: e.Feedback, Contact: e.Contact,
		MessagesPerMinute: e.MessagesPerMinute, MaxMessages: e.MaxMessages, MaxMessageChars: e.MaxMessageChars, MaxCreditsMicro: nullIfZero(int64(e.MaxCredits)),
		MessagesSent: e.Messages, LastMessageAt: nullIfNever(e.UsedAt), RefusedRequests: e.Embed.Refused, RefusedOrigins: contractRefused(e.Refused),
		ChatExpiresAt: nullIfNever(e.ChatExpiresAt), RevokedAt: nullIfNever(e.RevokedAt), CreatedAt: contract.Time(e.CreatedAt),
	}
}

func withToken(e contract.EmbedSession, t embed.Token) contract.EmbedSessionWithToken {
	c := extend[contract.EmbedSessionWithToken](e)
	c.Token, c.ExpiresAt = t.Secret, contract.Time(t.ExpiresAt)
	return c
}

// EmbedPage returns the data for the chat page of an embed URL; found is false if it
// does not exist.
func (s *Embeds) EmbedPage(r *http.Request, id string) (v embed.PageView, found bool, err error) {
	v, found, err = s.embeds.Page(r.Context(), id)
	v.Logo = s.logoLink(v.Logo)
	return v, found, err
}

func (s *Embeds) logoLink(id string) string {
	if id == "" {
		return ""
	}
	return s.link(embedPrefix + "/logos/" + id)
}

func (s *Embeds) contractLogo(l stoa.EmbedLogo) contract.EmbedLogo {
	return contract.EmbedLogo{
		ID: l.ID, Object: "embed_logo", MimeType: l.MimeType, Size: int(l.Bytes), Width: int(l.Width), Height: int(l.Height),
		URL: s.logoLink(l.ID), CreatedAt: contract.Time(l.CreatedAt),
	}
}

func (s *Embeds) createEmbedLogo(ctx context.Context, tx *store.Tx, in rest.Request[rest.None, contract.CreateEmbedLogo]) (rest.Reply[contract.EmbedLogo], error) {
	l, err := s.embeds.CreateLogo(ctx, tx, in.Caller.Account.ID, in.Body.Content)
	return rest.Created("/api/v1/embed-logos/"+l.ID, s.contractLogo(l)), err
}

func (s *Embeds) listEmbedLogos(ctx context.Context, in rest.Request[contract.ListEmbedLogosParams, rest.None]) (rest.Reply[rest.Page[contract.EmbedLogo]], error) {
	q, accountID := in.Params, in.Caller.Account.ID
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "embed logos", accountID)
	list, more, err := s.embeds.Logos(ctx, accountID, p.Page)
	return rest.PageOf(p, list, more, err, s.contractLogo, func(l stoa.EmbedLogo) store.Cursor { return store.Cursor{At: l.CreatedAt, ID: l.ID} })
}

func (s *Embeds) deleteEmbedLogo(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[rest.None], error) {
	return rest.NoContent(), tx.Setup().DeleteEmbedLogo(ctx, in.Caller.Account.ID, in.Params.ID)
}

type byLogoID struct {
	LogoID string `path:"logoId"`
}

// getEmbedLogo serves GET /api/v1/embed/logos/{logoId}. Pages of any site may show it, but only as a picture.
func (s *Embeds) getEmbedLogo(x *rest.Exchange, read func() (rest.Input[byLogoID, rest.None], error)) error {
	in, err := read()
	if err != nil {
		return err
	}
	mimeType, data, err := s.embeds.Logo(x.Context(), in.Params.LogoID, s.ClientAddress(x.HTTP))
	if err != nil {
		return err
	}
	h := x.Header()
	h.Set("Content-Type", mimeType)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	x.WriteHeader(http.StatusOK)
	if x.HTTP.Method != http.MethodHead {
		_, err = x.Write(data)
	}
	return err
}
