package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"time"

	"stoa/internal/oauth"
	"stoa/internal/remote"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// A Landing is what came of an authorization, for the person who comes back from it.
// Texts of servers and accounts are cut, and have no characters that cannot be seen.
type Landing struct {
	Authorized   bool
	Cancelled    bool
	of           string // the id of the authorization; empty: it cannot be read
	Message      string
	Said         string    // by the authorization server; empty: nothing
	ConnectionID string    // empty: it is not known
	Question     *Question // that [Tools.Confirm] answers; nil: the authorization is over
}

// A Question is what a person is asked before the connection is authorized. Whoever
// opened the address may not be who made it, and so sees here for whom it is.
type Question struct {
	Token                          string // that answers it, once
	Connection, Origin, SpaceName  string
	AccountID, AccountName, Issuer string
	Scopes                         []string
	ExpiresAt                      time.Time
}

// Limits of what a person brings back.
const (
	maxCode = 4 << 10 // bytes
	maxSaid = 200     // characters of a server's text, and of a name
)

const beginAgain = " Begin again with the authorization of the connection."

// hashed returns what a value that nobody can guess is found by. One of a kind is never
// taken for one of another.
func hashed(kind, value string) string {
	sum := sha256.Sum256([]byte(kind + " " + value))
	return hex.EncodeToString(sum[:])
}

func shown(text string) string { return remote.Visible(remote.Cut(text, maxSaid)) }

// Land takes the answer of an authorization server that a person brings back. The state
// is used up by it, whatever it says. A code is kept, encrypted, until the time of the
// authorization is over; it is sent nowhere before the person says so.
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

// Confirm takes what a person says to a [Question]: connect, or else forget the code.
// Either counts once.
func (t *Tools) Confirm(ctx context.Context, token string, connect bool) Landing {
	var out Landing
	var c store.Connection
	var p plan
	err := t.taken(ctx, hashed("answer", token), func(_ *store.Tx, was store.OAuthState, now store.Connection) (err error) {
		c, out = now, Landing{ConnectionID: now.ID}
		if err := t.openJSON(stateRef(was.AccountID, was.Hash), was.Sealed, &p); err != nil {
			out.Message = "The authorization cannot be read any more." + beginAgain
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
		t.tellFailure(ctx, c, Landing{of: p.ID, Cancelled: true, Message: "Whoever signed in cancelled the authorization."})
		return Landing{Cancelled: true, Message: "Nothing was connected, and what you brought back is forgotten. At " + shown(p.Issuer) + " you can take your permission back, too. You can close this page."}
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

// tellOwner writes down what came of an authorization, and at a connection that needs
// authorization why it still does, as people come back in another window than the
// owner's, or on another device.
func tellOwner(ctx context.Context, tx *store.Tx, c store.Connection, out Landing) error {
	status, message := store.AuthorizationFailed, strings.TrimSuffix(out.Message, beginAgain)
	if out.Cancelled {
		status = store.AuthorizationCancelled
	}
	if out.Said != "" {
		message += " It says: " + out.Said
	}
	if err := tx.EndAuthorization(ctx, c.AccountID, c.ID, out.of, status, message); err != nil {
		return err
	}
	if c.Authorized && c.ErrorCode != NeedsAuthorization {
		return nil
	}
	_, err := tx.EditConnection(ctx, c.AccountID, c.ID, func(now *store.Connection) error {
		if !SameTarget(*now, c) || now.Authorized && now.ErrorCode != NeedsAuthorization {
			return nil
		}
		now.ErrorCode, now.ErrorMessage = NeedsAuthorization, message
		return nil
	})
	return err
}

// tellFailure is tellOwner in a transaction of its own. What came of the authorization
// does not depend on it.
func (t *Tools) tellFailure(ctx context.Context, c store.Connection, out Landing) {
	if err := t.Store.Write(ctx, func(tx *store.Tx) error { return tellOwner(ctx, tx, c, out) }); err != nil && stoa.CodeOf(err) != stoa.CodeConnectionNotFound {
		t.Logger.ErrorContext(ctx, "an authorization could not be taken", "error", err)
	}
}

// landed returns what a person reads of what was taken.
func (t *Tools) landed(ctx context.Context, out Landing, err error) Landing {
	if err != nil {
		t.Logger.ErrorContext(ctx, "an authorization could not be taken", "error", err)
		return Landing{Message: "Something went wrong on our side." + beginAgain}
	}
	if out.ConnectionID == "" {
		return Landing{Message: "This authorization is over, was used already, or is none of this service." + beginAgain}
	}
	return out
}

// taken takes an authorization by its hash and hands it to use, with its connection, in
// one transaction. use is not called where it was used, or is over, or the connection is
// gone; nothing is written where it never was.
func (t *Tools) taken(ctx context.Context, hash string, use func(*store.Tx, store.OAuthState, store.Connection) error) error {
	known := false
	err := t.Store.Read(ctx, func(tx *store.Tx) (err error) { // so that what anybody sends writes nothing
		known, err = tx.HasOAuthState(ctx, hash)
		return err
	})
	if err != nil || !known {
		return err
	}
	return t.Store.Write(ctx, func(tx *store.Tx) error {
		was, err := tx.TakeOAuthState(ctx, hash)
		if err != nil || was == nil {
			return err
		}
		c, err := tx.Connection(ctx, was.AccountID, was.ConnectionID)
		if stoa.CodeOf(err) == stoa.CodeConnectionNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		return use(tx, *was, c)
	})
}

// answered checks an answer, and keeps its code for who confirms it.
func (t *Tools) answered(ctx context.Context, tx *store.Tx, was store.OAuthState, c store.Connection, answer url.Values) (out Landing, err error) {
	out.ConnectionID = c.ID
	var p plan
	if err := t.openJSON(stateRef(was.AccountID, was.Hash), was.Sealed, &p); err != nil {
		out.Message = "The authorization cannot be read any more." + beginAgain
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
		Token: random(), Connection: c.Name, Origin: shown(p.Origin), AccountID: c.AccountID, Issuer: shown(p.Issuer), ExpiresAt: was.ExpiresAt,
	}
	for _, s := range p.Scopes {
		q.Scopes = append(q.Scopes, shown(s))
	}
	account, err := tx.Account(ctx, c.AccountID)
	if err != nil {
		return out, err
	}
	space, err := tx.Space(ctx, c.AccountID, c.SpaceID)
	if err != nil {
		return out, err
	}
	q.AccountName, q.SpaceName = shown(account.Name), shown(space.Name)
	was.Hash = hashed("answer", q.Token)
	if was.Sealed, err = t.sealJSON(stateRef(was.AccountID, was.Hash), p); err != nil {
		return out, err
	}
	out.Question = &q
	return out, tx.KeepOAuthAnswer(ctx, was)
}
