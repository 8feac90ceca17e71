package embed

import (
	"context"
	"time"
	"unicode/utf8"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Rates of visitors. They exist in addition to the embed's own caps, because a page may create an embed
// for everyone.
const (
	requestsPerMinute  = 300 // requests with one embed
	refusalsPerMinute  = 60  // recorded refusals of one embed, so that refusing does not cost more than allowing
	messagesPerLine    = 300 // messages per minute of all visitors of a script tag, or of an agent's other embeds
	messagesPerAddress = 60  // messages per minute of these from one address
)

// A Page identifies the page that sends a request, according to the browser.
type Page struct {
	Origins []string // the values of the header Origin
	Site    string   // the header Sec-Fetch-Site
	Address string   // address of the client; empty if unknown
}

func (p Page) origin() string {
	if len(p.Origins) != 1 {
		return ""
	}
	return p.Origins[0]
}

// Authenticate returns the visitor of an Authorization header and checks that the page may
// use the token here: it must be valid for one chat (chatID, if the path of the request names
// one) and for the pages of its embed.
//
// A refused page is recorded for the owner and is CodeOriginNotAllowed; too many requests are
// CodeRateLimit; every other fault is CodeUnauthorized or CodeEmbedDisabled.
func (s *Embeds) Authenticate(ctx context.Context, authorization, chatID string, page Page) (Visitor, error) {
	who, err := s.verify(ctx, authorization)
	if err != nil {
		return who, err
	}
	who.address = page.Address
	if chatID != "" && chatID != who.Embed.ChatID {
		return who, errToken()
	}
	if !s.allows(who.Embed, page) {
		s.refuse(ctx, who.Embed.ID, page)
		return who, ErrOrigin()
	}
	if wait, ok := s.allow(who.Embed.ID, requestsPerMinute); !ok {
		return who, stoa.Errorf(stoa.CodeRateLimit, "This chat can make %d requests per minute and has reached that limit. Try again in %d seconds.", requestsPerMinute, wait/time.Second).After(wait)
	}
	return who, nil
}

// StillValid reports whether a token that was valid for an embed still is, because a stream may outlive
// it. It returns true while the store cannot be read, so that a short failure ends no stream.
func (s *Embeds) StillValid(ctx context.Context, authorization, embedID string) bool {
	who, err := s.verify(ctx, authorization)
	switch stoa.CodeOf(err) {
	case "":
		return who.Embed.ID == embedID
	case stoa.CodeUnauthorized, stoa.CodeEmbedDisabled:
		return false
	}
	return true
}

func (s *Embeds) allow(name string, perMinute int) (wait time.Duration, ok bool) {
	if s.cfg.RateLimited != nil && !s.cfg.RateLimited() {
		return 0, true
	}
	return s.rates.Allow(name, perMinute, time.Now())
}

// ErrOrigin returns the error for a page that must not use an embed.
func ErrOrigin() error {
	return stoa.Errorf(stoa.CodeOriginNotAllowed, "This page cannot show the agent. Its owner can list the page's origin when creating the embed: allowedOrigins.")
}

// allows reports whether a page may use the tokens of an embed: for an embed URL, the service's own
// chat page; for an embed session a listed origin, because browsers send it with every request.
func (s *Embeds) allows(e stoa.Embed, page Page) bool {
	if e.Kind == stoa.EmbedURL {
		return s.isOwn(page)
	}
	return Lists(e.Origins, page.origin())
}

// isOwn reports whether a request comes from a page of the service, or from no page at all.
// The Host header is not evidence, because the client writes it.
func (s *Embeds) isOwn(page Page) bool {
	if page.Site != "" && page.Site != "same-origin" {
		return false
	}
	return len(page.Origins) == 0 || len(page.Origins) == 1 && page.Origins[0] == s.own
}

// CheckExchange returns an error unless a page may exchange the ticket of an embed URL. A
// refused page is recorded for the owner.
func (s *Embeds) CheckExchange(ctx context.Context, id string, page Page) error {
	if s.isOwn(page) {
		return nil
	}
	if stoa.IsID("emu", id) {
		found := false
		err := s.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
			_, found, err = tx.Setup().EmbedByID(ctx, id)
			return err
		})
		if err == nil && found {
			s.refuse(ctx, id, page)
		}
	}
	return ErrOrigin()
}

// MayRead returns the page's origin if it may read replies of a chat (of any chat if chatID
// is empty), that is, if a valid embed session lists it. Otherwise it returns "".
func (s *Embeds) MayRead(ctx context.Context, chatID string, page Page) (origin string) {
	patterns := Patterns(page.origin())
	if len(patterns) == 0 {
		return ""
	}
	found := false
	err := s.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		_, found, err = tx.Setup().EmbedListing(ctx, chatID, patterns)
		return err
	})
	if err != nil || !found {
		return ""
	}
	return page.origin()
}

// RefuseForChat records for the owner that a page that is not listed requested a chat.
func (s *Embeds) RefuseForChat(ctx context.Context, chatID string, page Page) {
	var id string
	var found bool
	err := s.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		id, found, err = tx.Setup().EmbedOfChat(ctx, chatID)
		return err
	})
	if err == nil && found {
		s.refuse(ctx, id, page)
	}
}

// refuse counts a refused page for the embed's owner. It only logs a failure, since the request is
// refused anyway.
func (s *Embeds) refuse(ctx context.Context, embedID string, page Page) {
	if _, ok := s.rates.Allow("refused by "+embedID, refusalsPerMinute, time.Now()); !ok {
		return
	}
	origin := "(none)"
	if len(page.Origins) > 0 {
		origin = page.Origins[0]
		if len(Patterns(origin)) == 0 || !utf8.ValidString(origin) {
			origin = "(not an origin)"
		}
	}
	err := s.cfg.Store.Write(ctx, func(tx *store.Tx) error { return tx.Setup().RefuseOrigin(ctx, embedID, origin) })
	if err != nil {
		s.cfg.Logger.Warn("a refused origin could not be recorded", "embed", embedID, "error", err)
	}
}
