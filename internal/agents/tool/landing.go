package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"time"

	"stoa/internal/agents/oauth"
	"stoa/internal/agents/remote"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// A Landing is the outcome of an authorization, for the person who returns from it. Texts of
// servers and accounts are shortened and contain no invisible characters.
type Landing struct {
	Authorized   bool
	Cancelled    bool
	of           string // id of the authorization; empty if unknown
	Message      string
	Said         string // explanation of the authorization server; may be empty
	ConnectionID string
	Question     *Question // nil if the authorization is over
}

// A Question is shown to a person before the connection is authorized. It says for whom it is,
// because the person who opened the address may not be the one who began the authorization.
type Question struct {
	Token                          string // answers it, once
	Connection, Origin, SpaceName  string
	AccountID, AccountName, Issuer string
	SignIn, TokenFrom              string // the origins where the person signed in and that issues the token
	Scopes                         []string
	ExpiresAt                      time.Time
}

// Limits of the data that a person brings back.
const (
	maxCode = 4 << 10 // bytes
	maxSaid = 200     // characters of a server's text, and of a name
)

const beginAgain = " Start the authorization of the connection again."

// hashed returns the lookup key of an unguessable value. It includes the kind, so that a state is
// never accepted as an answer.
func hashed(kind, value string) string {
	sum := sha256.Sum256([]byte(kind + " " + value))
	return hex.EncodeToString(sum[:])
}

func shown(text string) string { return remote.Visible(remote.Cut(text, maxSaid)) }

// Land processes the answer of an authorization server that a person brings back. It consumes
// the state, regardless of the answer. A code is stored, encrypted, until the authorization
// expires. It is not sent before the person confirms, because otherwise an address that was sent
// to another person would lend that person's access to the sender's agents.
func (t *Tools) Land(ctx context.Context, answer url.Values) Landing {
	var out Landing
	err := t.taken(ctx, hashed("state", answer.Get("state")), func(tx *store.Tx, was store.OAuthState, c store.Connection) (err error) {
		if out, err = t.answered(ctx, tx, was, c, answer); err == nil && out.Question == nil {
			err = tellOwner(ctx, tx, c, out)
		}
		return err
	})
	return t.landed(ctx, out, err)
}

// Confirm processes a person's answer to a [Question]: connect, or discard the code. Only the
// first answer counts.
func (t *Tools) Confirm(ctx context.Context, token string, connect bool) Landing {
	var out Landing
	var c store.Connection
	var p plan
	err := t.taken(ctx, hashed("answer", token), func(_ *store.Tx, was store.OAuthState, now store.Connection) (err error) {
		c, out = now, Landing{ConnectionID: now.ID}
		if err := t.openJSON(stateRef(was.AccountID, was.Hash), was.Sealed, &p); err != nil {
			out.Message = "The authorization can no longer be decrypted." + beginAgain
		}
		return nil
	})
	if err == nil && out.Message != "" {
		t.tellFailure(ctx, c, out)
	}
	if err != nil || out.ConnectionID == "" || out.Message != "" {
		return t.landed(ctx, out, err)
	}
	if !connect {
		t.Logger.InfoContext(ctx, "the authorization of a connection was cancelled", "account", c.AccountID, "connection", c.ID)
		t.tellFailure(ctx, c, Landing{of: p.ID, Cancelled: true, Message: "The person who signed in cancelled the authorization."})
		return Landing{Cancelled: true, Message: "Nothing was connected, and the authorization was discarded. At " + shown(p.Issuer) + " you can also withdraw your permission. You can close this page."}
	}
	if err := t.exchange(ctx, c, p, p.Code); err != nil {
		t.Logger.WarnContext(ctx, "a connection was not authorized", "account", c.AccountID, "connection", c.ID, "error", err)
		out.of, out.Message = p.ID, stoa.AsError(refusedBy(err)).Message+beginAgain
		t.tellFailure(ctx, c, out)
		return out
	}
	t.Logger.InfoContext(ctx, "a connection was authorized", "account", c.AccountID, "connection", c.ID)
	out.Authorized, out.Message = true, "The connection "+c.Name+" is authorized. You can close this page."
	return out
}

// tellOwner records the outcome of an authorization and, on a connection that still needs
// authorization, the reason, because the person may return in a window or on a device that is
// not the owner's.
func tellOwner(ctx context.Context, tx *store.Tx, c store.Connection, out Landing) error {
	status, message := store.AuthorizationFailed, strings.TrimSuffix(out.Message, beginAgain)
	if out.Cancelled {
		status = store.AuthorizationCancelled
	}
	if out.Said != "" {
		message += " It says: " + out.Said
	}
	if err := tx.Setup().EndAuthorization(ctx, c.AccountID, c.ID, out.of, status, message); err != nil {
		return err
	}
	if c.Authorized && c.ErrorCode != NeedsAuthorization {
		return nil
	}
	_, err := tx.Setup().EditConnection(ctx, c.AccountID, c.ID, func(now *store.Connection) error {
		if !SameTarget(*now, c) || now.Authorized && now.ErrorCode != NeedsAuthorization {
			return nil
		}
		now.ErrorCode, now.ErrorMessage = NeedsAuthorization, message
		return nil
	})
	return err
}

// tellFailure is tellOwner in a separate transaction. The outcome of the authorization does
// not depend on it.
func (t *Tools) tellFailure(ctx context.Context, c store.Connection, out Landing) {
	if err := t.Store.Write(ctx, func(tx *store.Tx) error { return tellOwner(ctx, tx, c, out) }); err != nil && stoa.CodeOf(err) != stoa.CodeConnectionNotFound {
		t.Logger.ErrorContext(ctx, "an authorization could not be processed", "error", err)
	}
}

func (t *Tools) landed(ctx context.Context, out Landing, err error) Landing {
	if err != nil {
		t.Logger.ErrorContext(ctx, "an authorization could not be processed", "error", err)
		return Landing{Message: "Something went wrong on our side." + beginAgain}
	}
	if out.ConnectionID == "" {
		return Landing{Message: "This authorization has expired, was already used, or does not belong to this service." + beginAgain}
	}
	return out
}

// taken consumes an authorization by its hash and calls use with it and its connection, in
// one transaction. use is not called if it was used or has expired, or the connection is
// gone; an unknown hash writes nothing.
func (t *Tools) taken(ctx context.Context, hash string, use func(*store.Tx, store.OAuthState, store.Connection) error) error {
	known := false
	err := t.Store.Read(ctx, func(tx *store.Tx) (err error) { // so that an arbitrary request writes nothing
		known, err = tx.Setup().HasOAuthState(ctx, hash)
		return err
	})
	if err != nil || !known {
		return err
	}
	return t.Store.Write(ctx, func(tx *store.Tx) error {
		was, err := tx.Setup().TakeOAuthState(ctx, hash)
		if err != nil || was == nil {
			return err
		}
		c, err := tx.Setup().Connection(ctx, was.AccountID, was.ConnectionID)
		if stoa.CodeOf(err) == stoa.CodeConnectionNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		return use(tx, *was, c)
	})
}

// answered checks an answer, and stores its code until a person confirms it.
func (t *Tools) answered(ctx context.Context, tx *store.Tx, was store.OAuthState, c store.Connection, answer url.Values) (out Landing, err error) {
	out.ConnectionID = c.ID
	var p plan
	if err := t.openJSON(stateRef(was.AccountID, was.Hash), was.Sealed, &p); err != nil {
		out.Message = "The authorization can no longer be decrypted." + beginAgain
		return out, nil
	}
	out.of = p.ID
	if err := oauth.CheckIssuer(p.Issuer, p.SaysIssuer, answer); err != nil {
		out.Message = err.Error() + beginAgain
		return out, nil
	}
	if p.Code = answer.Get("code"); answer.Get("error") != "" || p.Code == "" || len(p.Code) > maxCode {
		out.Message, out.Said = "The authorization server did not authorize the connection."+beginAgain, shown(answer.Get("error"))
		if more := answer.Get("error_description"); more != "" && out.Said != "" {
			out.Said += ": " + shown(more)
		}
		return out, nil
	}
	q := Question{
		Token: random(), Connection: c.Name, Origin: shown(p.Origin), AccountID: c.AccountID, Issuer: shown(p.Issuer), SignIn: shown(p.SignIn), TokenFrom: shown(Origin(p.Endpoint, false)), ExpiresAt: was.ExpiresAt,
	}
	for _, s := range p.Scopes {
		q.Scopes = append(q.Scopes, shown(s))
	}
	account, err := tx.Books().Account(ctx, c.AccountID)
	if err != nil {
		return out, err
	}
	space, err := tx.Setup().Space(ctx, c.AccountID, c.SpaceID)
	if err != nil {
		return out, err
	}
	q.AccountName, q.SpaceName = shown(account.Name), shown(space.Name)
	was.Hash = hashed("answer", q.Token)
	if was.Sealed, err = t.sealJSON(stateRef(was.AccountID, was.Hash), p); err != nil {
		return out, err
	}
	out.Question = &q
	return out, tx.Setup().KeepOAuthAnswer(ctx, was)
}
