package embed

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"time"

	"stoa/internal/base/auth"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	// tokenPrefix is the prefix of every token. No API key begins with it, so that neither is ever looked
	// up as the other.
	tokenPrefix = "est_"
	maxToken    = 200 // bytes; longer tokens are not looked up
)

// mintTicket returns the ticket of an embed URL: 256 random bits.
func mintTicket() string {
	var b [32]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// A Token admits its bearer to the chat of one embed. Only its hash is stored, so that a copy of the
// database admits no one.
type Token struct {
	Secret    string
	ExpiresAt time.Time
}

// A Visitor is the bearer of a valid token.
type Visitor struct {
	Embed     stoa.Embed
	Agent     stoa.Agent
	Caller    stoa.Caller // the account and key that pay for the chat
	ExpiresAt time.Time   // end of the token

	address string // address of the client; empty if unknown
}

func errToken() error {
	return stoa.Errorf(stoa.CodeUnauthorized, "The embed token is missing or not valid. Send it as: Authorization: Bearer est_…")
}

// verify returns the visitor of an Authorization header. All faults of the token are the same
// CodeUnauthorized, so that a guess learns nothing; an agent that must not be shown any more is
// CodeEmbedDisabled.
func (s *Embeds) verify(ctx context.Context, authorization string) (Visitor, error) {
	scheme, secret, ok := strings.Cut(strings.TrimSpace(authorization), " ")
	secret = strings.TrimLeft(secret, " ")
	if !ok || !strings.EqualFold(scheme, "bearer") || !strings.HasPrefix(secret, tokenPrefix) || len(secret) > maxToken {
		return Visitor{}, errToken()
	}
	var who Visitor
	err := s.cfg.Store.Read(store.Promptly(ctx), func(tx *store.Tx) error {
		id, expires, found, err := tx.Setup().EmbedToken(ctx, auth.Hash(secret))
		if err != nil {
			return err
		}
		now := time.Now()
		if !found || !now.Before(expires) {
			return errToken()
		}
		who, err = s.valid(ctx, tx, id, now)
		who.ExpiresAt = expires
		return err
	})
	return who, err
}

// valid returns the visitor of an embed that has not ended: neither by its owner nor by the end of the
// key that created it, unless that key was rotated, because its successor stands for it.
func (s *Embeds) valid(ctx context.Context, tx *store.Tx, id string, now time.Time) (who Visitor, err error) {
	var found bool
	if who.Embed, found, err = tx.Setup().EmbedByID(ctx, id); err != nil {
		return who, err
	}
	if !found || !who.Embed.RevokedAt.IsZero() || !who.Embed.ChatExpiresAt.IsZero() && !now.Before(who.Embed.ChatExpiresAt) {
		return who, errToken()
	}
	if err = s.followTag(ctx, tx, &who.Embed); err != nil {
		return who, err
	}
	who.Agent, who.Caller.Account, err = embeddable(ctx, tx, who.Embed.AccountID, who.Embed.AgentID)
	if stoa.CodeOf(err) == stoa.CodeAgentNotFound {
		err = errToken()
	}
	if err != nil {
		return who, err
	}
	if ended, err := auth.EndsWithKey(ctx, tx, who.Embed.AccountID, who.Embed.KeyID, now); err != nil || ended {
		return who, cmp.Or(err, errToken())
	}
	// The caller needs the key that created the embed, because receipts name it and its daily cap applies.
	if who.Caller.Key, err = tx.People().Key(ctx, who.Embed.AccountID, who.Embed.KeyID); err != nil {
		return who, err
	}
	who.Caller.Plan = s.cfg.Plans(who.Caller.Account.Plan)
	return who, err
}

// followTag applies the current settings of a script tag to an embed that the tag created.
// The embed ends with the tag, and is disabled while the tag is.
func (s *Embeds) followTag(ctx context.Context, tx *store.Tx, e *stoa.Embed) error {
	if e.TagID == "" {
		return nil
	}
	t, found, err := tx.Setup().EmbedTagByID(ctx, e.TagID)
	switch {
	case err != nil:
		return err
	case !found:
		return errToken()
	case t.Disabled != "":
		return errTagDisabled()
	}
	e.Origins, e.Greeting, e.Theme, e.Attachments, e.EmbedLook = t.Origins, t.Greeting, t.Theme, t.Attachments, t.EmbedLook
	return nil
}

// embeddable returns an agent and its account if the agent may be shown in pages. It is
// CodeEmbedDisabled if its owner has switched that off or the account is suspended.
func embeddable(ctx context.Context, tx *store.Tx, accountID, agentID string) (stoa.Agent, stoa.Account, error) {
	agent, err := tx.Setup().Agent(ctx, accountID, agentID)
	if err != nil {
		return agent, stoa.Account{}, err
	}
	account, err := tx.Books().Account(ctx, accountID)
	if err == nil && (!agent.EmbedEnabled || account.Suspended) {
		err = stoa.Errorf(stoa.CodeEmbedDisabled, "This agent is not shown in pages at the moment. Its owner can switch that on: embedEnabled.")
	}
	return agent, account, err
}

// newToken stores another token of an embed whose chat has not ended.
func newToken(ctx context.Context, tx *store.Tx, e stoa.Embed) (Token, error) {
	if !tx.Now.Before(e.ChatExpiresAt) || !e.RevokedAt.IsZero() {
		return Token{}, stoa.Errorf(stoa.CodeEmbedExpired, "The time of this chat is over. Create another embed for it.")
	}
	t := Token{Secret: tokenPrefix + mintTicket(), ExpiresAt: tx.Now.Add(e.TokenLife)}
	if t.ExpiresAt.After(e.ChatExpiresAt) {
		t.ExpiresAt = e.ChatExpiresAt
	}
	return t, tx.Setup().InsertEmbedToken(ctx, e.ID, auth.Hash(t.Secret), t.ExpiresAt)
}

func errTicketUsed() error {
	return stoa.Errorf(stoa.CodeEmbedUsed, "This link was already used; it works once. Ask the page that shows it for another one.")
}

func errTicketExpired() error {
	return stoa.Errorf(stoa.CodeEmbedExpired, "This link has expired. Ask the page that shows it for another one.")
}

// Renew returns another token for a visitor.
func (s *Embeds) Renew(ctx context.Context, tx *store.Tx, who Visitor) (Token, error) {
	e, found, err := tx.Setup().LockEmbed(ctx, who.Embed.ID)
	if err != nil {
		return Token{}, err
	}
	if !found || !e.RevokedAt.IsZero() {
		return Token{}, stoa.Errorf(stoa.CodeUnauthorized, "The embed token is no longer valid.")
	}
	return newToken(ctx, tx, e)
}

// Exchange exchanges the ticket of an embed URL for its first token, once. An unknown embed and a wrong
// ticket are the same CodeUnauthorized, so that a guess learns nothing; a used ticket is CodeEmbedUsed,
// an expired one CodeEmbedExpired.
func (s *Embeds) Exchange(ctx context.Context, tx *store.Tx, id, ticket string) (who Visitor, t Token, err error) {
	want, err := tx.Setup().TicketOf(ctx, id)
	if err != nil {
		return who, t, err
	}
	if want == "" {
		var found bool
		if who, t, found, err = s.exchangeOfTag(ctx, tx, id, ticket); found || err != nil {
			return who, t, err
		}
	}
	if want == "" || subtle.ConstantTimeCompare([]byte(want), []byte(auth.Hash(ticket))) != 1 {
		return who, t, stoa.Errorf(stoa.CodeUnauthorized, "This link is not valid. Ask the page that shows it for another one.")
	}
	embed, found, err := tx.Setup().LockEmbed(ctx, id)
	switch {
	case err != nil:
		return who, t, err
	case !found || !embed.RevokedAt.IsZero():
		return who, t, errToken()
	case !embed.ExchangedAt.IsZero():
		return who, t, errTicketUsed()
	case !tx.Now.Before(embed.ExpiresAt):
		return who, t, errTicketExpired()
	}
	if who, err = s.valid(ctx, tx, id, tx.Now); err != nil {
		return who, t, err
	}
	who.Embed.ExchangedAt, who.Embed.ChatExpiresAt = tx.Now, tx.Now.Add(embed.ChatLife)
	if _, err = tx.Setup().ExchangeEmbed(ctx, id, who.Embed.ChatExpiresAt); err != nil {
		return who, t, err
	}
	t, err = newToken(ctx, tx, who.Embed)
	who.ExpiresAt = t.ExpiresAt
	return who, t, err
}
