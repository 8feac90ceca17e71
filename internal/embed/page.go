package embed

import (
	"context"
	"time"
	"unicode/utf8"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// Rates of visitors, beside the embed's own caps.
const (
	requestsPerMinute  = 300 // with one embed
	refusalsPerMinute  = 60  // of one embed that are counted
	messagesPerAgent   = 300 // a minute, of all its visitors
	messagesPerAddress = 60  // a minute, of the visitors of one agent at one address
)

// A Page is the page that sends a request, as the browser names it.
type Page struct {
	Origins []string // the values of the header Origin
	Site    string   // the header Sec-Fetch-Site
	Address string   // of the client; empty: unknown
}

// origin returns the page's origin; empty where the browser named none.
func (p Page) origin() string {
	if len(p.Origins) != 1 {
		return ""
	}
	return p.Origins[0]
}

// Authenticate returns the visitor of an Authorization header and checks that
// the page may use the token here: it is valid for one chat (chatID, where the
// path of the request names one) and for the pages of its embed.
//
// A refused page is noted for the owner and is CodeOriginNotAllowed; too many
// requests are CodeRateLimit; everything else that is wrong is CodeUnauthorized
// or CodeEmbedDisabled.
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
	if wait, ok := s.take(who.Embed.ID, requestsPerMinute); !ok {
		return who, stoa.Errorf(stoa.CodeRateLimit, "This chat may make %d requests in a minute and has made them. Try again in %d seconds.", requestsPerMinute, wait/time.Second).After(wait)
	}
	return who, nil
}

// StillValid reports whether a token that was valid for an embed still is, for
// streams that last. It is true while the store cannot be read.
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

// take counts something against a rate, unless rates are switched off.
func (s *Embeds) take(name string, perMinute int) (wait time.Duration, ok bool) {
	if s.cfg.RateLimited != nil && !s.cfg.RateLimited() {
		return 0, true
	}
	return s.rates.Take(name, perMinute, time.Now())
}

// ErrOrigin returns the error for a page that must not use an embed.
func ErrOrigin() error {
	return stoa.Errorf(stoa.CodeOriginNotAllowed, "This page may not show the agent. Its owner can list the page's origin when the embed is made: allowedOrigins.")
}

// allows reports whether a page may use the tokens of an embed: for an embed URL,
// the service's own chat page; for an embed session a listed origin, which
// browsers send with every request.
func (s *Embeds) allows(e stoa.Embed, page Page) bool {
	if e.Kind == stoa.EmbedURL {
		return s.isOwn(page)
	}
	return Lists(e.Origins, page.origin())
}

// isOwn reports whether a request comes from a page of the service, or from no
// page at all. The Host header is no evidence: the client writes it.
func (s *Embeds) isOwn(page Page) bool {
	if page.Site != "" && page.Site != "same-origin" {
		return false
	}
	return len(page.Origins) == 0 || len(page.Origins) == 1 && page.Origins[0] == s.own
}

// CheckExchange returns an error unless a page may exchange the ticket of an
// embed URL. A refused page is noted for the owner.
func (s *Embeds) CheckExchange(ctx context.Context, id string, page Page) error {
	if s.isOwn(page) {
		return nil
	}
	if stoa.IsID("emu", id) {
		found := false
		err := s.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
			_, found, err = tx.EmbedByID(ctx, id)
			return err
		})
		if err == nil && found {
			s.refuse(ctx, id, page)
		}
	}
	return ErrOrigin()
}

// MayRead returns the origin of a page that may read replies of a chat, or of
// any chat where chatID is empty: one that a valid embed session lists. It
// returns "" for any other page.
func (s *Embeds) MayRead(ctx context.Context, chatID string, page Page) (origin string) {
	patterns := Patterns(page.origin())
	if len(patterns) == 0 {
		return ""
	}
	found := false
	err := s.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		_, found, err = tx.EmbedListing(ctx, chatID, patterns)
		return err
	})
	if err != nil || !found {
		return ""
	}
	return page.origin()
}

// RefuseForChat notes for its owner that a page asked for a chat and is not
// listed.
func (s *Embeds) RefuseForChat(ctx context.Context, chatID string, page Page) {
	var id string
	var found bool
	err := s.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		id, found, err = tx.EmbedOfChat(ctx, chatID)
		return err
	})
	if err == nil && found {
		s.refuse(ctx, id, page)
	}
}

// refuse counts a refused page for the embed's owner. A failure to do so is
// logged and fails no request.
func (s *Embeds) refuse(ctx context.Context, embedID string, page Page) {
	if _, ok := s.rates.Take("refused by "+embedID, refusalsPerMinute, time.Now()); !ok {
		return
	}
	origin := "(none)"
	if len(page.Origins) > 0 {
		origin = page.Origins[0]
		if len(Patterns(origin)) == 0 || !utf8.ValidString(origin) {
			origin = "(not an origin)"
		}
	}
	err := s.cfg.Store.Write(ctx, func(tx *store.Tx) error { return tx.RefuseOrigin(ctx, embedID, origin) })
	if err != nil {
		s.cfg.Logger.Warn("a refused origin was not noted", "embed", embedID, "error", err)
	}
}
