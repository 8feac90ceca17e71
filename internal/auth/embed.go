package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// tokenPrefix begins the token of an embed. It never begins a key, so that
// neither is looked up in the other's place.
const tokenPrefix = "est_"

// MintToken makes the token of an embed: est_ and 256 random bits.
func MintToken() string { return tokenPrefix + random() }

// MintTicket makes the ticket of an embed URL: 256 random bits.
func MintTicket() string { return random() }

func random() string {
	var b [32]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Embeds exchanges tickets and checks tokens. The zero value with its fields set
// is ready; it keeps nothing, so what is revoked is refused at once.
type Embeds struct {
	Store *store.Store
	Plans func(id string) stoa.Plan // see [New]
}

// An Embedded is who shows a token: an embed in force, and for whom its chat's
// work is done.
type Embedded struct {
	Embed     store.Embed
	Agent     stoa.Agent
	Caller    stoa.Caller
	ExpiresAt time.Time // of the token
}

func noToken() error {
	return stoa.Errorf(stoa.CodeUnauthorized, "The embed token is missing or not valid. Send it as: Authorization: Bearer est_…")
}

// Verify tells who shows this Authorization header. Whatever is wrong with it is
// the same CodeUnauthorized; an agent that may no longer be shown is
// CodeEmbedDisabled.
func (e Embeds) Verify(ctx context.Context, authorizationHeader string) (Embedded, error) {
	scheme, secret, ok := strings.Cut(strings.TrimSpace(authorizationHeader), " ")
	secret = strings.TrimLeft(secret, " ")
	if !ok || !strings.EqualFold(scheme, "bearer") || !strings.HasPrefix(secret, tokenPrefix) || len(secret) > maxSecret {
		return Embedded{}, noToken()
	}
	var who Embedded
	err := e.Store.Read(ctx, func(tx *store.Tx) error {
		id, expires, found, err := tx.EmbedToken(ctx, Hash(secret))
		if err != nil {
			return err
		}
		now := time.Now()
		if !found || !now.Before(expires) {
			return noToken()
		}
		who, err = e.inForce(ctx, tx, id, now)
		who.ExpiresAt = expires
		return err
	})
	return who, err
}

// inForce reads an embed with all that may end it.
func (e Embeds) inForce(ctx context.Context, tx *store.Tx, id string, now time.Time) (who Embedded, err error) {
	var found bool
	if who.Embed, found, err = tx.EmbedByID(ctx, id); err != nil {
		return who, err
	}
	if !found || !who.Embed.RevokedAt.IsZero() || !who.Embed.ChatExpiresAt.IsZero() && !now.Before(who.Embed.ChatExpiresAt) {
		return who, noToken()
	}
	who.Agent, who.Caller.Account, err = Shown(ctx, tx, who.Embed.AccountID, who.Embed.AgentID)
	if stoa.CodeOf(err) == stoa.CodeAgentNotFound {
		err = noToken()
	}
	// Receipts name the key that made the embed, and its daily cap holds.
	if err == nil {
		who.Caller.Key, err = tx.Key(ctx, who.Embed.AccountID, who.Embed.KeyID)
		if stoa.CodeOf(err) == stoa.CodeNotFound {
			who.Caller.Key, err = stoa.Key{ID: who.Embed.KeyID}, nil
		}
	}
	who.Caller.Plan = e.Plans(who.Caller.Account.Plan)
	return who, err
}

// Shown is an agent that may be shown in pages, and its account.
// CodeEmbedDisabled where its owner or the operator has switched that off.
func Shown(ctx context.Context, tx *store.Tx, accountID, agentID string) (stoa.Agent, stoa.Account, error) {
	agent, err := tx.Agent(ctx, accountID, agentID)
	if err != nil {
		return agent, stoa.Account{}, err
	}
	account, err := tx.Account(ctx, accountID)
	if err == nil && (!agent.EmbedEnabled || account.Suspended) {
		err = stoa.Errorf(stoa.CodeEmbedDisabled, "This agent is not shown in pages at the moment. Its owner can switch that on: embedEnabled.")
	}
	return agent, account, err
}

// NewToken makes another token of an embed whose chat has not ended.
func (Embeds) NewToken(ctx context.Context, tx *store.Tx, e store.Embed) (token string, expiresAt time.Time, err error) {
	if !tx.Now.Before(e.ChatExpiresAt) || !e.RevokedAt.IsZero() {
		return "", expiresAt, stoa.Errorf(stoa.CodeEmbedExpired, "The time of this chat is up. Make another embed for it.")
	}
	expiresAt = tx.Now.Add(e.TokenLife)
	if expiresAt.After(e.ChatExpiresAt) {
		expiresAt = e.ChatExpiresAt
	}
	token = MintToken()
	return token, expiresAt, tx.InsertEmbedToken(ctx, e.ID, Hash(token), expiresAt)
}

// Exchange takes an embed URL's ticket for its first token, once. An unknown
// embed and a wrong ticket are the same CodeUnauthorized; then it is
// CodeEmbedUsed, or CodeEmbedExpired.
func (e Embeds) Exchange(ctx context.Context, tx *store.Tx, id, ticket string) (who Embedded, token string, err error) {
	hash, err := tx.TicketOf(ctx, id)
	if err != nil {
		return who, "", err
	}
	sum := sha256.Sum256([]byte(ticket))
	if hash == "" || subtle.ConstantTimeCompare([]byte(hash), []byte(hex.EncodeToString(sum[:]))) != 1 {
		return who, "", stoa.Errorf(stoa.CodeUnauthorized, "This link is not valid. Ask the page that shows it for another one.")
	}
	embed, found, err := tx.LockEmbed(ctx, id)
	switch {
	case err != nil:
		return who, "", err
	case !found || !embed.RevokedAt.IsZero():
		return who, "", noToken()
	case !embed.ExchangedAt.IsZero():
		return who, "", stoa.Errorf(stoa.CodeEmbedUsed, "This link was used already; it works once. Ask the page that shows it for another one.")
	case !tx.Now.Before(embed.ExpiresAt):
		return who, "", stoa.Errorf(stoa.CodeEmbedExpired, "This link has expired. Ask the page that shows it for another one.")
	}
	if who, err = e.inForce(ctx, tx, id, tx.Now); err != nil {
		return who, "", err
	}
	who.Embed.ExchangedAt, who.Embed.ChatExpiresAt = tx.Now, tx.Now.Add(embed.ChatLife)
	if _, err = tx.ExchangeEmbed(ctx, id, who.Embed.ChatExpiresAt); err != nil {
		return who, "", err
	}
	token, who.ExpiresAt, err = e.NewToken(ctx, tx, who.Embed)
	return who, token, err
}

// minute is the time over which messages are counted.
const minute = time.Minute

// Send counts something that a visitor sends, or says with CodeEmbedLimit why it
// cannot be sent: too much in this minute, which passes, or too much at all.
// spent is what the chat has spent so far.
func (Embeds) Send(ctx context.Context, tx *store.Tx, id string, spent stoa.Credits) error {
	e, found, err := tx.LockEmbed(ctx, id)
	if err != nil {
		return err
	}
	if !found || !e.RevokedAt.IsZero() {
		return noToken()
	}
	if Exhausted(e, spent) {
		return stoa.Errorf(stoa.CodeEmbedLimit, "This chat has reached its limit. Nothing more can be sent.")
	}
	recent := e.Recent[:0:0]
	for _, t := range e.Recent {
		if tx.Now.Sub(t) < minute {
			recent = append(recent, t)
		}
	}
	if len(recent) >= e.MessagesPerMinute {
		wait := max(time.Second, minute-tx.Now.Sub(recent[len(recent)-e.MessagesPerMinute]))
		return stoa.Errorf(stoa.CodeEmbedLimit, "At most %d messages can be sent in a minute. Try again in %d seconds.", e.MessagesPerMinute, (wait+time.Second-1)/time.Second).After(wait)
	}
	return tx.SendUnderEmbed(ctx, e, append(recent, tx.Now))
}

// Exhausted reports whether nothing more can be sent under an embed, because of
// its messages or its credits.
func Exhausted(e store.Embed, spent stoa.Credits) bool {
	return e.Messages >= e.MaxMessages || e.MaxCredits > 0 && spent-e.SpentBefore >= e.MaxCredits
}
