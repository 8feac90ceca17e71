// Package embed implements the rules of embeds. An embed is the permission to show an agent
// in a page, for one chat: the package mints and checks tokens, decides which pages may use
// one, counts what visitors send against the embed's caps, and decides which parts of a chat
// a visitor may see.
//
// It reads no HTTP requests and writes no replies; package api does. The effect of a message
// on the chat's session is up to package session. Start at [Embeds.CreateURL],
// [Embeds.Authenticate] and [Embeds.Say].
//
// # Chats
//
// A token is for one chat, and the chat has an id as soon as the embed is created. The embed
// reserves the session's id; the session begins, under that id, in the transaction of the
// first message. Until then a visitor sees an empty chat whose status is completed, and its
// owner sees no session. A reserved id is used once: a chat whose session was deleted cannot
// be opened again. A session without a turn was rejected, since every reader of sessions
// would have to handle it, and every page that is opened and closed would leave an empty one
// in its owner's list. Reconsider this if owners often look up a session by its id and find
// none.
//
// # Tokens
//
// Each request with a token reads its row, the embed, the agent and the account: one read
// transaction, no cache, and a stream repeats that every 700 ms. So revocation, the agent's
// switch, its deletion and the account's suspension take effect on any node without messages
// between them. Keys are cached for a second, but a leaked token is in a visitor's hands, and
// the person who revokes it expects an immediate effect. A refresh creates another token and
// leaves the old one until it expires, within minutes, so that a page whose refresh got lost
// is not cut off. Signed tokens without rows were rejected, since they cannot be revoked
// immediately. Reconsider this if reads of tokens become a noticeable load next to those of
// sessions.
//
// # Caps
//
// Messages, answers and retries count alike, against the embed's limit per minute, its total,
// and the agent's limit for all its visitors: an agent that asks makes its visitor answer,
// and free answers would bypass every cap. The minute is exact: the times of the last minute
// are in the embed's row, which the counting transaction locks. A request that fails for
// another reason is not counted. The cap on credits is a cap of the session: each step may
// use the rest, so that the last answer is cut and the cap holds; it stays with the session
// until another embed sets its own. Reconsider this if chats often end in the middle of a
// question.
//
// # Origins
//
// The token of an embed session is for its owner's pages, that of a link for Stoa's own page
// in a frame. The first requires a listed Origin. A request without one is refused, although
// a program could forge it: the rule excludes tokens that were copied into another page. The
// second must come from Stoa's own origin (the public URL, never the Host header) or have no
// Origin, and Sec-Fetch-Site, if a browser sends it, must agree. A wildcard has the same
// meaning as in frame-ancestors: hosts below, at any depth; * and origins without TLS, except
// those of this machine, are refused. A preflight has no token: it is answered according to
// the chat's valid embeds, and for /embed/refresh, which names no chat, according to all of
// them, since the request itself is checked. Refused origins are recorded for the owner,
// sixty per minute and twenty names for each embed, so that refusing does not cost more than
// allowing.
//
// # Script tags
//
// A tag is a public id for pages without a server. Its launcher, a script in the owner's
// page, requests a ticket from there, so that the request has the page's Origin: the service
// can refuse the wrong ones and report them to the owner. The ticket opens the chat page as
// that of a link does; the rest is the same. Each visitor has one embed, so that its counters
// and the cap of credits survive reloads; opening it again creates another ticket, and a hash
// of the visitor's token finds the embed. The token is in the storage of the owner's page:
// the storage of a frame of another site is partitioned, and some browsers delete it with the
// tab. Anyone who can run a script in that page can read the chat, as with an embed session.
// The id proves nothing and a program can forge an Origin, so the caps protect the owner:
// credits of a chat, chats per day, requests of an address. A chat counts from its first
// message, and a network begins at most a tenth of a day's chats, so tickets use up no limit.
// A chat page that requests its own ticket was rejected: the service would receive its own origin. So was a page of the service
// without the check, because every link to it would be an open chat. The preview is such a
// page and counts against the caps. Reconsider this if owners reach the caps because of other
// programs.
//
// # The chat page
//
// A page in a frame cannot determine the page that embeds it, and any page can read a message
// to *. So the embedding page sends the first message. If its origin is one of the embed's,
// the chat keeps that origin and exchanges messages with no other; frame-ancestors has
// already excluded other pages, so this is a second check. The chat sends states and sizes,
// never text. The ticket is in the URL's fragment, is removed from the address before
// anything else happens, and works once; the token is in sessionStorage, so that it survives
// a reload but not the closing of the tab. No cookie, no inline script; Markdown becomes
// elements from a short list of harmless ones, without images. A token in the query (logs,
// Referer), cookies (third-party rules) and messages with the chat's text were rejected.
// Browsers without sessionStorage in frames need a new link after a reload.
package embed

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"stoa/internal/agents/session"
	"stoa/internal/base/auth"
	"stoa/internal/base/ratelimit"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// A Config contains the parameters of [New]. All fields without a remark are required.
type Config struct {
	Store    *store.Store
	Sessions *session.Sessions
	Plans    func(id string) stoa.Plan
	Logger   *slog.Logger

	PublicURL   string        // address of the service; empty means that no page counts as its own by its origin
	TicketLife  time.Duration // default lifetime of an embed URL's ticket
	TokenLife   time.Duration // default lifetime of a token
	RateLimited func() bool   // reports whether rates are enforced; nil means that they are
}

// Embeds creates and checks embeds. Its only state is rates, so that a revoked embed is refused
// immediately. It is safe for use by several goroutines.
type Embeds struct {
	cfg   Config
	own   string // the service's own origin; empty if unknown
	rates ratelimit.Rates
}

// Rates returns the rate counters of visitors, which all nodes of a service share.
func (s *Embeds) Rates() *ratelimit.Rates { return &s.rates }

// New returns the embeds of a service.
func New(cfg Config) *Embeds { return &Embeds{cfg: cfg, own: originOf(cfg.PublicURL)} }

// originOf returns the origin of a URL in the spelling of browsers.
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "https":
		host = strings.TrimSuffix(host, ":443")
	case "http":
		host = strings.TrimSuffix(host, ":80")
	}
	return u.Scheme + "://" + host
}

// Defaults of an embed.
const (
	defaultChatLife          = time.Hour
	defaultTheme             = "auto"
	defaultMessagesPerMinute = 10
	defaultMaxMessages       = 50
	defaultMessageChars      = 4000
	DefaultMaxCredits        = 5 * stoa.Credit // a chat whose embed does not set a cap
)

// Embeds are deleted some time after their creation, which is longer than their maximum validity. Each
// creation deletes a few, so that no request deletes many.
const (
	keptFor     = 32 * 24 * time.Hour
	purgedAtOne = 20
)

// A Request describes an embed to create. Origins is required; zero fields mean the default.
type Request struct {
	Origins           []string // see [ParseOrigins]
	ChatID            string   // an earlier chat to continue
	ExternalUserID    string
	Greeting, Theme   string
	MessagesPerMinute int
	MaxMessages       int
	MaxMessageChars   int
	MaxCredits        stoa.Credits
	Life              time.Duration            // lifetime of the ticket or of each token
	ChatLife          time.Duration            // time from the first token to the end of all tokens
	Attachments       *stoa.VisitorAttachments // nil means that a visitor may attach nothing
	Look              stoa.EmbedLook
}

// Attachments returns the files that visitors may attach; zero values mean the default.
func Attachments(maxFiles int, maxBytes int64, types []string) *stoa.VisitorAttachments {
	if len(types) == 0 {
		types = []string{stoa.AttachImage, stoa.AttachPDF, stoa.AttachText}
	}
	return &stoa.VisitorAttachments{MaxFiles: cmp.Or(maxFiles, 5), MaxBytes: cmp.Or(maxBytes, 10<<20), Types: types}
}

// Prepare checks a request and returns the embed that [Embeds.CreateURL] or
// [Embeds.CreateSession] stores. Errors name the member.
func (s *Embeds) Prepare(c stoa.Caller, kind stoa.EmbedKind, agentID string, r Request) (stoa.Embed, error) {
	prefix, life := "emu", cmp.Or(r.Life, s.cfg.TicketLife)
	if kind == stoa.EmbedSession {
		prefix, life = "ems", cmp.Or(r.Life, s.cfg.TokenLife)
	}
	e := stoa.Embed{
		ID: stoa.NewID(prefix), AccountID: c.Account.ID, AgentID: agentID, KeyID: c.Key.ID, Kind: kind,
		ChatID: r.ChatID, ExternalUserID: r.ExternalUserID, Greeting: r.Greeting, Theme: cmp.Or(r.Theme, defaultTheme),
		MessagesPerMinute: cmp.Or(r.MessagesPerMinute, defaultMessagesPerMinute), MaxMessages: cmp.Or(r.MaxMessages, defaultMaxMessages),
		MaxMessageChars: cmp.Or(r.MaxMessageChars, defaultMessageChars), MaxCredits: cmp.Or(r.MaxCredits, DefaultMaxCredits),
		TokenLife: s.cfg.TokenLife, ChatLife: cmp.Or(r.ChatLife, defaultChatLife), Attachments: r.Attachments,
	}
	var err error
	if e.EmbedLook, err = tidy(r.Look, e.MaxMessageChars); err != nil {
		return e, err
	}
	if e.Origins, err = ParseOrigins(r.Origins); err != nil {
		return e, err
	}
	if kind == stoa.EmbedSession {
		e.TokenLife = life
	}
	e.ExpiresAt = time.Now().Add(life) // applies to an embed URL; see insert
	return e, nil
}

// CreateURL stores a prepared embed of kind URL and returns it with the ticket of
// its link, which is not stored.
func (s *Embeds) CreateURL(ctx context.Context, tx *store.Tx, e stoa.Embed) (made stoa.Embed, ticket string, err error) {
	ticket = mintTicket()
	made, err = s.insert(ctx, tx, e, auth.Hash(ticket), "")
	return made, ticket, err
}

// CreateSession stores a prepared embed of kind session and returns it with its
// first token.
func (s *Embeds) CreateSession(ctx context.Context, tx *store.Tx, e stoa.Embed) (made stoa.Embed, t Token, err error) {
	if made, err = s.insert(ctx, tx, e, "", ""); err != nil {
		return made, t, err
	}
	t, err = newToken(ctx, tx, made)
	return made, t, err
}

func (s *Embeds) insert(ctx context.Context, tx *store.Tx, e stoa.Embed, ticket, visitor string) (stoa.Embed, error) {
	if _, _, err := embeddable(ctx, tx, e.AccountID, e.AgentID); err != nil {
		return e, err
	}
	if e.Kind == stoa.EmbedSession {
		e.ExpiresAt, e.ChatExpiresAt = time.Time{}, tx.Now.Add(e.ChatLife)
	}
	if err := tx.Setup().PurgeEmbeds(ctx, tx.Now.Add(-keptFor), purgedAtOne); err != nil {
		return e, err
	}
	if err := checkLogo(ctx, tx, e.AccountID, e.EmbedLook); err != nil {
		return e, err
	}
	if err := joinChat(ctx, tx, &e); err != nil {
		return e, err
	}
	return tx.Setup().InsertEmbed(ctx, e, ticket, visitor)
}

// joinChat sets the embed's chat: a new one, or the one that its owner named. That must be a chat of the
// agent and of the same user, because the visitor reads it. A session that was not started by an embed
// requires a key with sessions:write, because a token reads and writes it.
func joinChat(ctx context.Context, tx *store.Tx, e *stoa.Embed) error {
	if e.ChatID == "" {
		e.ChatID = stoa.NewID("ses")
		return tx.Setup().InsertEmbedChat(ctx, e.AccountID, e.AgentID, e.ChatID, e.ExternalUserID)
	}
	user := ""
	row, err := tx.Work().Session(ctx, e.AccountID, e.AgentID, e.ChatID)
	switch {
	case err == nil:
		user, e.SpentBefore = row.ExternalUserID, row.Spent
		if row.Trigger.Type != "embed" {
			key, err := tx.People().Key(ctx, e.AccountID, e.KeyID)
			if err != nil {
				return err
			}
			if !key.Has("sessions:write") {
				return stoa.Errorf(stoa.CodeScope, "This session was not started by an embed. To show it in a page, the key also needs the scope \"sessions:write\".").At("chatSessionId")
			}
		}
		if row.Mode != stoa.ModeChat {
			return stoa.Errorf(stoa.CodeInvalidValue, "A session of mode %q cannot be continued.", row.Mode).At("chatSessionId")
		}
	case stoa.CodeOf(err) == stoa.CodeSessionNotFound:
		if err := tx.Setup().NameEmbedChat(ctx, e.AccountID, e.AgentID, e.ChatID, e.ExternalUserID); err != nil {
			return err
		}
		reserved, begun, found, chatErr := tx.Setup().EmbedChat(ctx, e.AccountID, e.AgentID, e.ChatID)
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
		return stoa.Errorf(stoa.CodeInvalidValue, "This chat belongs to another user.").At("chatSessionId")
	}
	e.ExternalUserID = cmp.Or(e.ExternalUserID, user)
	return nil
}

// Refresh returns an embed session with another token.
func (s *Embeds) Refresh(ctx context.Context, tx *store.Tx, accountID, agentID, id string) (out Stored, t Token, err error) {
	if _, _, err = embeddable(ctx, tx, accountID, agentID); err != nil {
		return out, t, err
	}
	if out.Embed, err = tx.Setup().Embed(ctx, accountID, agentID, stoa.EmbedSession, id); err != nil {
		return out, t, err
	}
	if t, err = newToken(ctx, tx, out.Embed); err != nil {
		return out, t, err
	}
	out.Refused, err = tx.Setup().Refusals(ctx, id)
	return out, t, err
}

// A Stored is an embed in its owner's view.
type Stored struct {
	stoa.Embed
	Refused []store.Refusal // refused origins that are not listed, latest first
}

// Get returns an embed of an account's agent.
func (s *Embeds) Get(ctx context.Context, accountID, agentID string, kind stoa.EmbedKind, id string) (out Stored, err error) {
	err = s.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if _, err = tx.Setup().Agent(ctx, accountID, agentID); err != nil {
			return err
		}
		if out.Embed, err = tx.Setup().Embed(ctx, accountID, agentID, kind, id); err != nil {
			return err
		}
		out.Refused, err = tx.Setup().Refusals(ctx, id)
		return err
	})
	return out, err
}

// List returns a page of the embeds of one kind, including ended ones.
func (s *Embeds) List(ctx context.Context, accountID, agentID string, kind stoa.EmbedKind, text string, p store.Page) (list []Stored, next store.Cursor, err error) {
	err = s.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		list = nil
		if _, err := tx.Setup().Agent(ctx, accountID, agentID); err != nil {
			return err
		}
		var embeds []stoa.Embed
		if embeds, next, err = tx.Setup().Embeds(ctx, accountID, agentID, kind, text, p); err != nil {
			return err
		}
		for _, e := range embeds {
			var refused []store.Refusal
			if e.Refused > 0 { // since most embeds have none, and each lookup is a round trip
				if refused, err = tx.Setup().Refusals(ctx, e.ID); err != nil {
					return err
				}
			}
			list = append(list, Stored{e, refused})
		}
		return nil
	})
	return list, next, err
}

// Revoke ends an embed and its tokens; [stoa.CodeNotFound] if it does not exist.
func (s *Embeds) Revoke(ctx context.Context, accountID, agentID string, kind stoa.EmbedKind, id string) error {
	return s.cfg.Store.Write(ctx, func(tx *store.Tx) error { return tx.Setup().RevokeEmbed(ctx, accountID, agentID, kind, id) })
}

// A PageView contains the data that the chat page needs before its ticket is exchanged.
type PageView struct {
	Origins       []string // origins that may frame it
	Theme, Accent string
	Logo          string // id of the logo, or its address for package web; empty if none
	OfTag         bool   // a script tag created it, so that the service's own preview may frame it too
}

// Page returns the data for the chat page of an embed URL; found is false if it does not
// exist.
func (s *Embeds) Page(ctx context.Context, id string) (v PageView, found bool, err error) {
	err = s.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		e, there, err := tx.Setup().EmbedByID(ctx, id)
		v, found = PageView{Origins: e.Origins, Theme: e.Theme, Logo: e.Logo, OfTag: e.TagID != ""}, there && e.Kind == stoa.EmbedURL
		if err != nil || !v.OfTag {
			return err
		}
		t, there, err := tx.Setup().EmbedTagByID(ctx, e.TagID)
		if v.Origins, v.Theme, v.Accent, v.Logo = t.Origins, t.Theme, t.Accent, t.Logo; !there {
			found = false
		}
		return err
	})
	return v, found, err
}
