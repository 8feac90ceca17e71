package api

import (
	"context"
	"fmt"
	"html"
	"net/http"

	"stoa/internal/agents/embed"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

func (s *Embeds) createEmbedTag(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.CreateEmbedTag]) (rest.Reply[contract.EmbedTag], error) {
	b, enabled := in.Body, true
	if v, err := b.Enabled.Get(); err == nil {
		enabled = v
	}
	made, err := s.embeds.CreateTag(ctx, tx, in.Caller, in.Params.ID, enabled, embed.TagRequest{
		Origins: orZero(b.AllowedOrigins), Greeting: orZero(b.Greeting), Theme: orZero(b.Theme), Accent: orZero(b.AccentColor),
		Position: orZero(b.Position), Language: orZero(b.Language), MaxCredits: stoa.Credits(orZero(b.MaxCreditsMicro)), ChatsPerDay: orZero(b.ChatsPerDay),
		Attachments: visitorAttachments(b.Attachments), Look: stoa.EmbedLook{Title: orZero(b.Title), Logo: orZero(b.Logo), Starters: orZero(b.Starters), Feedback: valueOr(b.Feedback, true), Contact: valueOr(b.Contact, false)},
	})
	if err == nil {
		err = keepCredentials(ctx, tx, in.Caller, made.ID, "", b.Credentials)
	}
	reply := rest.Created(agentPath(in.Params.ID)+"/embed-tags/"+made.ID, s.contractTag(made))
	reply.ETag = revisionETag(made.Revision)
	return reply, err
}

func (s *Embeds) listEmbedTags(ctx context.Context, in rest.Request[idAnd[contract.ListEmbedTagsParams], rest.None]) (rest.Reply[rest.Page[contract.EmbedTag]], error) {
	q, accountID := in.Params.Query, in.Caller.Account.ID
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "embed tags", accountID, in.Params.ID, q.Q)
	list, next, err := s.embeds.Tags(ctx, accountID, in.Params.ID, q.Q, p.Page)
	return rest.PageTo(p, list, next, err, s.contractTag)
}

func (s *Embeds) getEmbedTag(ctx context.Context, in rest.Request[byTagID, rest.None]) (rest.Reply[contract.EmbedTag], error) {
	t, err := s.embeds.Tag(ctx, in.Caller.Account.ID, in.Params.ID, in.Params.TagID)
	if err != nil {
		return rest.Reply[contract.EmbedTag]{}, err
	}
	out := s.contractTag(t)
	out.Credentials, err = s.ownCredentials(ctx, in.Caller, t.ID)
	return rest.Reply[contract.EmbedTag]{ETag: revisionETag(t.Revision), Body: out}, err
}

func (s *Embeds) updateEmbedTag(ctx context.Context, tx *store.Tx, in rest.Request[tagAnd[contract.UpdateEmbedTagParams], contract.UpdateEmbedTag]) (rest.Reply[contract.EmbedTag], error) {
	b := in.Body
	t, err := s.embeds.EditTag(ctx, tx, in.Caller, in.Params.ID, in.Params.TagID, func(t *stoa.EmbedTag, r *embed.TagRequest, enabled *bool) error {
		if err := ifCurrent(in.Params.Query.IfMatch, t.Revision); err != nil {
			return err
		}
		patch(&r.Origins, b.AllowedOrigins, same)
		patch(&r.Greeting, b.Greeting, same)
		patch(&r.Look.Title, b.Title, same)
		patch(&r.Look.Logo, b.Logo, same)
		patch(&r.Look.Starters, b.Starters, same)
		patchOr(&r.Look.Feedback, b.Feedback, true, same)
		patchOr(&r.Look.Contact, b.Contact, false, same)
		patch(&r.Theme, b.Theme, same)
		patch(&r.Accent, b.AccentColor, same)
		patch(&r.Position, b.Position, same)
		patch(&r.Language, b.Language, same)
		patch(&r.MaxCredits, b.MaxCreditsMicro, func(n int64) stoa.Credits { return stoa.Credits(n) })
		patch(&r.ChatsPerDay, b.ChatsPerDay, same)
		if b.Attachments.IsSpecified() {
			r.Attachments = visitorAttachments(b.Attachments)
		}
		if b.Enabled.IsSpecified() {
			v, err := b.Enabled.Get()
			*enabled = v || err != nil // because null means the default
		}
		return keepCredentials(ctx, tx, in.Caller, t.ID, "", b.Credentials)
	})
	return rest.Reply[contract.EmbedTag]{ETag: revisionETag(t.Revision), Body: s.contractTag(t)}, err
}

func (s *Embeds) deleteEmbedTag(ctx context.Context, tx *store.Tx, in rest.Request[tagAnd[contract.DeleteEmbedTagParams], rest.None]) (rest.Reply[rest.None], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	if q.IfMatch != "" {
		t, err := tx.Setup().EmbedTag(ctx, accountID, in.Params.ID, in.Params.TagID)
		if err == nil {
			err = ifCurrent(q.IfMatch, t.Revision)
		}
		if err != nil {
			return rest.NoContent(), err
		}
	}
	return rest.NoContent(), tx.Setup().DeleteEmbedTag(ctx, accountID, in.Params.ID, in.Params.TagID)
}

func (s *Embeds) contractTag(t embed.StoredTag) contract.EmbedTag {
	return contract.EmbedTag{
		ID: t.ID, Object: "embed_tag", AgentID: t.AgentID, Enabled: t.Disabled == "", DisabledReason: nullIfZero(t.Disabled),
		AllowedOrigins: t.Origins, Greeting: nullIfZero(t.Greeting), Theme: t.Theme, AccentColor: nullIfZero(t.Accent), Position: t.Position, Language: t.Language,
		MaxCreditsMicro: int64(t.MaxCredits), ChatsPerDay: t.ChatsPerDay, Attachments: contractVisitorAttachments(t.Attachments),
		Title: nullIfZero(t.Title), Logo: nullIfZero(t.Logo), LogoURL: nullIfZero(s.logoLink(t.Logo)), Starters: t.Starters, Feedback: t.Feedback, Contact: t.Contact,
		Snippet:    fmt.Sprintf(`<script src="%s" data-embed="%s" async></script>`, html.EscapeString(s.link("/embed.js")), t.ID),
		PreviewURL: s.link("/embed/" + t.ID), RefusedRequests: t.EmbedTag.Refused, RefusedOrigins: contractRefused(t.Refused),
		CreatedAt: contract.Time(t.CreatedAt), UpdatedAt: contract.Time(t.UpdatedAt),
	}
}

type byPublicTag struct {
	TagID string `path:"tagId"`
}

// tagRoute returns a route for pages with a script tag. They send no key, so h must check their
// origin. A page that the tag admits can read the reply.
func tagRoute[B, R any](e *Embeds, pattern string, h func(context.Context, rest.PublicRequest[byPublicTag, B]) (rest.Reply[R], error)) rest.Route {
	return rest.Custom(pattern, func(x *rest.Exchange, read func() (rest.Input[byPublicTag, B], error)) error {
		e.shareTagWith(x, x.HTTP, x.HTTP.PathValue("tagId"))
		in, err := read()
		if err != nil {
			return err
		}
		reply, err := h(x.Context(), rest.PublicRequest[byPublicTag, B]{Input: in})
		return rest.Answer(x, reply, err)
	})
}

// shareTagWith lets the page that sends a request about a script tag read the reply, if the tag
// admits it, and reports whether it does.
func (s *Embeds) shareTagWith(w http.ResponseWriter, r *http.Request, id string) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	from := s.pageFrom(r)
	if len(from.Origins) != 1 || !s.embeds.TagAdmits(r.Context(), id, from) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", from.Origins[0])
	h.Set("Access-Control-Expose-Headers", "x-request-id, Retry-After")
	return true
}

func (s *Embeds) getEmbedLauncher(ctx context.Context, in rest.PublicRequest[byPublicTag, rest.None]) (rest.Reply[contract.EmbedLauncher], error) {
	t, name, err := s.embeds.Launcher(ctx, in.Params.TagID, s.pageFrom(in.HTTP))
	return rest.Reply[contract.EmbedLauncher]{Body: contract.EmbedLauncher{
		ID: t.ID, Object: "embed.launcher", Agent: contract.EmbedAgent{Name: name},
		Theme: t.Theme, AccentColor: nullIfZero(t.Accent), Position: t.Position, Language: t.Language,
		Title: nullIfZero(t.Title), LogoURL: nullIfZero(s.logoLink(t.Logo)),
	}}, err
}

func (s *Embeds) createEmbedTicket(ctx context.Context, in rest.PublicRequest[byPublicTag, contract.CreateEmbedTicket]) (rest.Reply[contract.EmbedTicket], error) {
	t, err := s.embeds.Open(ctx, in.Params.TagID, orZero(in.Body.VisitorToken), s.pageFrom(in.HTTP))
	return rest.Reply[contract.EmbedTicket]{Body: contract.EmbedTicket{
		URL: s.link("/embed/" + t.EmbedID + "#t=" + t.Secret), VisitorToken: t.VisitorToken, VisitorExpiresAt: contract.Time(t.VisitorExpiresAt),
	}}, err
}
