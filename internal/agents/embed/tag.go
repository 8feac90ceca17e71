package embed

import (
	"cmp"
	"context"
	"net/netip"
	"strings"
	"time"

	"stoa/internal/base/auth"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Defaults and limits of script tags.
const (
	defaultChatsPerDay = 200
	defaultPosition    = "right"
	defaultLanguage    = "auto"

	visitorLife     = 30 * 24 * time.Hour // time within which a visitor's chat can be opened again; shorter than keptFor, because the embed must exist
	tagChatLife     = 24 * time.Hour      // time from each opening of a chat to its end
	chatsCountedFor = 24 * time.Hour
	networkShare    = 10          // divisor of a tag's chats per day, and of its requests per minute, for one network, so that none uses up the tag
	tooManyChats    = time.Minute // Retry-After at the limit of chats

	launchersPerMinute  = 3000 // requests for the appearance of a tag, because its id is public
	launchersPerAddress = 120  // requests for the appearance from one address
	ticketsPerMinute    = 300  // tickets of a tag, each of which may store an embed
	ticketsPerAddress   = 20   // tickets from one address

	visitorPrefix   = "evt_"
	maxVisitorToken = 200                    // longer tokens are not looked up
	ownSite         = "same-origin"          // Sec-Fetch-Site of the service's own pages
	codeCreditLimit = "credit_limit_reached" // the rest of a cap does not pay for an answer
)

// A TagRequest describes a script tag. Origins is required; zero fields mean the default.
type TagRequest struct {
	Origins            []string // see [ParseOrigins]
	Greeting, Theme    string
	Accent             string
	Position, Language string
	MaxCredits         stoa.Credits
	ChatsPerDay        int
	Attachments        *stoa.VisitorAttachments // nil means that a visitor may attach nothing
	Look               stoa.EmbedLook
}

func (r TagRequest) apply(t *stoa.EmbedTag) (err error) {
	t.Greeting, t.Theme, t.Accent = r.Greeting, cmp.Or(r.Theme, defaultTheme), strings.ToLower(r.Accent)
	t.Position, t.Language = cmp.Or(r.Position, defaultPosition), cmp.Or(r.Language, defaultLanguage)
	t.MaxCredits, t.ChatsPerDay = cmp.Or(r.MaxCredits, DefaultMaxCredits), cmp.Or(r.ChatsPerDay, defaultChatsPerDay)
	t.Attachments = r.Attachments
	if t.EmbedLook, err = tidy(r.Look, defaultMessageChars); err != nil {
		return err
	}
	t.Origins, err = ParseOrigins(r.Origins)
	return err
}

// A StoredTag is a script tag in its owner's view.
type StoredTag struct {
	stoa.EmbedTag
	Refused []store.Refusal // refused origins that are not listed, latest first
}

// CreateTag stores a script tag of the caller's agent.
func (s *Embeds) CreateTag(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID string, enabled bool, r TagRequest) (out StoredTag, err error) {
	t := stoa.EmbedTag{AccountID: c.Account.ID, AgentID: agentID, KeyID: c.Key.ID}
	if !enabled {
		t.Disabled = store.TagDisabledByUser
	}
	if err = r.apply(&t); err != nil {
		return out, err
	}
	if _, _, err = embeddable(ctx, tx, t.AccountID, agentID); err != nil {
		return out, err
	}
	if err = checkLogo(ctx, tx, t.AccountID, t.EmbedLook); err != nil {
		return out, err
	}
	out.EmbedTag, err = tx.Setup().InsertEmbedTag(ctx, t)
	return out, err
}

// EditTag lets change modify a script tag's settings and whether it is enabled. A tag that is
// enabled again belongs to the caller's key.
func (s *Embeds) EditTag(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID, id string, change func(t *stoa.EmbedTag, r *TagRequest, enabled *bool) error) (out StoredTag, err error) {
	if _, err = tx.Setup().Agent(ctx, c.Account.ID, agentID); err != nil {
		return out, err
	}
	out.EmbedTag, err = tx.Setup().EditEmbedTag(ctx, c.Account.ID, agentID, id, func(t *stoa.EmbedTag) error {
		r, was := TagRequest{
			Origins: t.Origins, Attachments: t.Attachments, Greeting: t.Greeting, Theme: t.Theme, Accent: t.Accent, Position: t.Position, Language: t.Language,
			MaxCredits: t.MaxCredits, ChatsPerDay: t.ChatsPerDay, Look: t.EmbedLook,
		}, t.Disabled == ""
		enabled := was
		if err := change(t, &r, &enabled); err != nil {
			return err
		}
		switch {
		case enabled && !was:
			t.Disabled, t.KeyID = "", c.Key.ID
		case !enabled && was:
			t.Disabled = store.TagDisabledByUser
		}
		if err := r.apply(t); err != nil {
			return err
		}
		return checkLogo(ctx, tx, t.AccountID, t.EmbedLook)
	})
	if err == nil {
		out.Refused, err = tx.Setup().Refusals(ctx, id)
	}
	return out, err
}

// Tag returns a script tag of an account's agent.
func (s *Embeds) Tag(ctx context.Context, accountID, agentID, id string) (out StoredTag, err error) {
	err = s.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if _, err = tx.Setup().Agent(ctx, accountID, agentID); err != nil {
			return err
		}
		if out.EmbedTag, err = tx.Setup().EmbedTag(ctx, accountID, agentID, id); err != nil {
			return err
		}
		out.Refused, err = tx.Setup().Refusals(ctx, id)
		return err
	})
	return out, err
}

// Tags returns a page of the script tags of an agent.
func (s *Embeds) Tags(ctx context.Context, accountID, agentID, text string, p store.Page) (list []StoredTag, next store.Cursor, err error) {
	err = s.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		list = nil
		if _, err := tx.Setup().Agent(ctx, accountID, agentID); err != nil {
			return err
		}
		var tags []stoa.EmbedTag
		if tags, next, err = tx.Setup().EmbedTags(ctx, accountID, agentID, text, p); err != nil {
			return err
		}
		for _, t := range tags {
			var refused []store.Refusal
			if t.Refused > 0 {
				if refused, err = tx.Setup().Refusals(ctx, t.ID); err != nil {
					return err
				}
			}
			list = append(list, StoredTag{t, refused})
		}
		return nil
	})
	return list, next, err
}

// admits reports whether a page may use a script tag: a listed page, or one of the service's
// own, such as the preview.
func (s *Embeds) admits(t stoa.EmbedTag, page Page) bool {
	origin := page.origin()
	if page.Site == ownSite || s.own != "" && origin == s.own {
		return true
	}
	return Lists(t.Origins, origin)
}

// TagAdmits reports whether the page of a request may read replies about a script tag.
func (s *Embeds) TagAdmits(ctx context.Context, id string, page Page) bool {
	t, found, err := s.tag(ctx, id)
	return err == nil && found && s.admits(t, page)
}

func (s *Embeds) tag(ctx context.Context, id string) (t stoa.EmbedTag, found bool, err error) {
	if !stoa.IsID("pub", id) {
		return t, false, nil
	}
	err = s.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		t, found, err = tx.Setup().EmbedTagByID(ctx, id)
		return err
	})
	return t, found, err
}

// RefuseForTag records for the owner that a page that is not listed requested a script tag.
func (s *Embeds) RefuseForTag(ctx context.Context, id string, page Page) {
	if _, found, err := s.tag(ctx, id); err == nil && found {
		s.refuse(ctx, id, page)
	}
}

// checkTag returns a script tag that the page of a request may use now. It records a refused page for
// the owner, and returns the same error as for a missing tag.
func (s *Embeds) checkTag(ctx context.Context, id string, page Page, what string, perMinute, perAddress int) (stoa.EmbedTag, error) {
	if !stoa.IsID("pub", id) {
		return stoa.EmbedTag{}, stoa.Errorf(stoa.CodeNotFound, "This is not the id of a script tag; they begin with pub_.").At("tagId")
	}
	t, found, err := s.tag(ctx, id)
	if err != nil {
		return t, err
	}
	if !found || !s.admits(t, page) {
		if found {
			s.refuse(ctx, id, page)
		}
		return t, stoa.Errorf(stoa.CodeOriginNotAllowed, "This page cannot show the agent, or the script tag does not exist. Its owner can list the page's origin: allowedOrigins.")
	}
	if page.Address != "" {
		if wait, ok := s.allow(what+" of "+id+" from "+page.Address, perAddress); !ok {
			return t, errTagBusy(wait)
		}
	}
	// The network has a limit too, because another address in the same one costs nothing.
	if network := networkOf(id, page.Address); network != "" {
		if wait, ok := s.allow(what+" from network "+network, perMinute/networkShare); !ok {
			return t, errTagBusy(wait)
		}
	}
	if wait, ok := s.allow(what+" of "+id, perMinute); !ok {
		return t, errTagBusy(wait)
	}
	return t, nil
}

func errTagBusy(wait time.Duration) error {
	return stoa.Errorf(stoa.CodeRateLimit, "There are too many requests for this script tag. Try again in %d seconds.", wait/time.Second).After(wait)
}

func errTagDisabled() error {
	return stoa.Errorf(stoa.CodeEmbedDisabled, "This agent is not shown in pages at the moment. Its owner has disabled the script tag, or the agent's embeds.")
}

// tagInForce returns the agent of a script tag that is not disabled by its owner or by the
// end of its key.
func tagInForce(ctx context.Context, tx *store.Tx, t stoa.EmbedTag) (stoa.Agent, error) {
	agent, _, err := embeddable(ctx, tx, t.AccountID, t.AgentID)
	if stoa.CodeOf(err) == stoa.CodeAgentNotFound || stoa.CodeOf(err) == stoa.CodeEmbedDisabled || err == nil && t.Disabled != "" {
		return agent, errTagDisabled()
	}
	if err != nil {
		return agent, err
	}
	ended, err := auth.EndsWithKey(ctx, tx, t.AccountID, t.KeyID, tx.Now)
	if err == nil && ended {
		err = errTagDisabled()
	}
	return agent, err
}

// Launcher returns the appearance of a script tag on a page, and the name of its agent.
func (s *Embeds) Launcher(ctx context.Context, id string, page Page) (t stoa.EmbedTag, agentName string, err error) {
	if t, err = s.checkTag(ctx, id, page, "launchers", launchersPerMinute, launchersPerAddress); err != nil {
		return t, "", err
	}
	err = s.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		agent, err := tagInForce(ctx, tx, t)
		agentName = agent.Name
		return err
	})
	return t, agentName, err
}

// A Ticket opens the chat of a visitor once.
type Ticket struct {
	EmbedID, Secret  string
	VisitorToken     string // secret that opens the chat again
	VisitorExpiresAt time.Time
}

// Open returns a ticket for a visitor of a page with a script tag: for the chat of the
// visitor's token, if that can continue, otherwise for a new one.
func (s *Embeds) Open(ctx context.Context, id, visitorToken string, page Page) (out Ticket, err error) {
	t, err := s.checkTag(ctx, id, page, "tickets", ticketsPerMinute, ticketsPerAddress)
	if err != nil {
		return out, err
	}
	return store.Write(ctx, s.cfg.Store, func(tx *store.Tx) (Ticket, error) { return s.open(ctx, tx, t, visitorToken, page.Address) })
}

func (s *Embeds) open(ctx context.Context, tx *store.Tx, t stoa.EmbedTag, visitorToken, address string) (out Ticket, err error) {
	if _, err := tagInForce(ctx, tx, t); err != nil {
		return out, err
	}
	e, goesOn, err := chatOf(ctx, tx, t, visitorToken)
	if err != nil {
		return out, err
	}
	if !goesOn {
		visitorToken = visitorPrefix + mintTicket()
		if e, err = s.insertTagChat(ctx, tx, t, visitorToken, address); err != nil {
			return out, err
		}
	}
	out = Ticket{EmbedID: e.ID, Secret: mintTicket(), VisitorToken: visitorToken, VisitorExpiresAt: e.CreatedAt.Add(visitorLife)}
	return out, tx.Setup().InsertEmbedTicket(ctx, e.ID, auth.Hash(out.Secret), tx.Now.Add(s.cfg.TicketLife))
}

// chatOf returns the embed of a visitor's chat; goesOn is false if none exists or nothing
// more can be sent in it.
func chatOf(ctx context.Context, tx *store.Tx, t stoa.EmbedTag, visitorToken string) (e stoa.Embed, goesOn bool, err error) {
	if !strings.HasPrefix(visitorToken, visitorPrefix) || len(visitorToken) > maxVisitorToken {
		return e, false, nil
	}
	e, found, err := tx.Setup().EmbedOfVisitor(ctx, t.ID, auth.Hash(visitorToken))
	if err != nil || !found || !e.RevokedAt.IsZero() || !tx.Now.Before(e.CreatedAt.Add(visitorLife)) {
		return e, false, err
	}
	ended, err := auth.EndsWithKey(ctx, tx, e.AccountID, e.KeyID, tx.Now)
	if err != nil || ended {
		return e, false, err
	}
	row, err := begun(ctx, tx, e)
	if stoa.CodeOf(err) == stoa.CodeSessionNotFound { // its owner has deleted it
		return e, false, nil
	}
	if err != nil {
		return e, false, err
	}
	failed := row != nil && row.Turn.Failure != nil && row.Turn.Failure.Code == codeCreditLimit
	return e, !exhausted(e, row) && !failed, nil
}

// insertTagChat stores an embed for a new chat. The chat counts from its first message.
func (s *Embeds) insertTagChat(ctx context.Context, tx *store.Tx, t stoa.EmbedTag, visitorToken, address string) (stoa.Embed, error) {
	if err := tx.Setup().PurgeSilentChats(ctx, t.ID, tx.Now.Add(-s.cfg.TicketLife), purgedAtOne); err != nil {
		return stoa.Embed{}, err
	}
	if err := mayBegin(ctx, tx, t, networkOf(t.ID, address)); err != nil {
		return stoa.Embed{}, err
	}
	return s.insert(ctx, tx, stoa.Embed{
		ID: stoa.NewID("emu"), AccountID: t.AccountID, AgentID: t.AgentID, KeyID: t.KeyID, TagID: t.ID, Kind: stoa.EmbedURL,
		Origins: t.Origins, Greeting: t.Greeting, Theme: t.Theme, Attachments: t.Attachments,
		MessagesPerMinute: defaultMessagesPerMinute, MaxMessages: defaultMaxMessages, MaxMessageChars: defaultMessageChars, MaxCredits: t.MaxCredits,
		TokenLife: s.cfg.TokenLife, ChatLife: tagChatLife, ExpiresAt: tx.Now.Add(s.cfg.TicketLife),
	}, "", auth.Hash(visitorToken))
}

// beginTagChat counts the first message in a visitor's chat, unless its tag has reached its
// limit of chats.
func (s *Embeds) beginTagChat(ctx context.Context, tx *store.Tx, who Visitor) error {
	t, found, err := tx.Setup().EmbedTagByID(ctx, who.Embed.TagID)
	if err == nil && !found {
		err = errToken()
	}
	if err != nil {
		return err
	}
	network := networkOf(t.ID, who.address)
	if err := mayBegin(ctx, tx, t, network); err != nil {
		return err
	}
	err = tx.Setup().BeginTagChat(ctx, who.Embed, network)
	if stoa.CodeOf(err) == stoa.CodeLimitReached { // the agent's limit, which a visitor cannot change
		err = errTooManyChats("")
	}
	return err
}

// mayBegin returns an error if a script tag has reached its limit of chats within a day, or a
// network its share of it.
func mayBegin(ctx context.Context, tx *store.Tx, t stoa.EmbedTag, network string) error {
	since := tx.Now.Add(-chatsCountedFor)
	if n, err := tx.Setup().ChatsBegunBy(ctx, t.ID, "", since, t.ChatsPerDay); err != nil || n >= t.ChatsPerDay {
		return cmp.Or(err, errTooManyChats(""))
	}
	if network == "" {
		return nil
	}
	share := max(t.ChatsPerDay/networkShare, 1)
	n, err := tx.Setup().ChatsBegunBy(ctx, t.ID, network, since, share)
	if err == nil && n >= share {
		err = errTooManyChats(" from your network")
	}
	return err
}

func errTooManyChats(where string) error {
	return stoa.Errorf(stoa.CodeEmbedLimit, "No more chats can begin today%s. Try again later.", where).After(tooManyChats)
}

// networkOf returns a hash of an id, that of a script tag or an account, and the network of an address or
// IPv6 prefix: the first 24 bits of IPv4, 48 of IPv6. It is empty for other texts. It is a hash, because
// the embed stores it and must not show who the visitor is.
func networkOf(ownerID, address string) string {
	address, _, _ = strings.Cut(address, "/")
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	bits := 24
	if ip = ip.Unmap(); ip.Is6() {
		bits = 48
	}
	network, _ := ip.WithZone("").Prefix(bits) // both lengths are valid for their addresses
	return auth.Hash(ownerID + " " + network.String())[:32]
}

// exchangeOfTag exchanges a ticket of a script tag for a token. found is false if the ticket
// does not exist.
func (s *Embeds) exchangeOfTag(ctx context.Context, tx *store.Tx, id, ticket string) (who Visitor, t Token, found bool, err error) {
	hash := auth.Hash(ticket)
	expires, used, found, err := tx.Setup().EmbedTicket(ctx, id, hash)
	if err != nil || !found {
		return who, t, found, err
	}
	if used {
		return who, t, true, errTicketUsed()
	}
	if !tx.Now.Before(expires) {
		return who, t, true, errTicketExpired()
	}
	e, there, err := tx.Setup().LockEmbed(ctx, id)
	if err == nil && !there {
		err = errToken()
	}
	if err != nil {
		return who, t, true, err
	}
	if err = tx.Setup().UseEmbedTicket(ctx, id, hash, tx.Now.Add(e.ChatLife)); err != nil {
		return who, t, true, err
	}
	if who, err = s.valid(ctx, tx, id, tx.Now); err != nil {
		return who, t, true, err
	}
	t, err = newToken(ctx, tx, who.Embed)
	who.ExpiresAt = t.ExpiresAt
	return who, t, true, err
}
