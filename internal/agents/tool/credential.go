package tool

import (
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"stoa/internal/agents/remote"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Credentials are a session's own secrets: ids of secrets by ids of connections. Nil means
// that the request does not belong to a session.
type Credentials map[string]string

// sendsOwn reports whether a session has its own secret for a connection, which is then sent
// instead of the connection's.
func sendsOwn(c store.Connection, own Credentials) bool {
	return c.PerSession != store.PerSessionOff && own[c.ID] != ""
}

// secretOf returns the id of the secret that requests of a connection send; empty for none,
// or for a token.
func secretOf(c store.Connection, own Credentials) string {
	switch {
	case sendsOwn(c, own):
		return own[c.ID]
	case c.PerSession == store.PerSessionRequired && own != nil || c.OAuth != nil:
		return ""
	}
	return c.SecretID
}

// credential returns the credential for a request of a connection: the session's own secret,
// or else the connection's. It must not be stored, because the next request uses a new value.
func (t *Tools) credential(ctx context.Context, c store.Connection, own Credentials) (remote.Credential, error) {
	none := remote.Credential{}
	id := secretOf(c, own)
	switch {
	case id != "":
	case c.PerSession == store.PerSessionRequired && own != nil:
		return none, withheld("The connection requires a secret of the session, and the session does not have one.", nil)
	case c.OAuth != nil:
		return t.token(ctx, c, "")
	default:
		return none, nil
	}
	s, err := store.Read(ctx, t.Store, func(tx *store.Tx) (store.Secret, error) { return tx.Setup().Secret(ctx, c.AccountID, id) })
	if err != nil {
		return none, err
	}
	if s.Origin != Origin(c.URL, false) { // cannot happen
		return none, stoa.Errorf(stoa.CodeSecretOrigin, "The secret is for another origin.")
	}
	if s.Expired(time.Now()) {
		return none, withheld("The secret has expired. Set another value.", nil)
	}
	value, err := t.Vault.Open(ref(s), s.Sealed)
	if err != nil {
		t.unread(ctx, c, err)
		return none, stoa.Errorf(stoa.CodeSecretsKeyMissing, "The secret of the connection can no longer be decrypted. Set its value again.").Because(err)
	}
	if !s.UsedLately(time.Now()) {
		if err := t.Store.Write(ctx, func(tx *store.Tx) error { return tx.Setup().UseSecret(ctx, c.AccountID, id) }); err != nil {
			return none, err
		}
	}
	return sent(s, string(value)), nil
}

func (t *Tools) unread(ctx context.Context, c store.Connection, err error) {
	t.logger().ErrorContext(ctx, "a secret cannot be read", "account", c.AccountID, "connection", c.ID, "error", err)
}

func withheld(message string, cause error) *remote.Error {
	return &remote.Error{Class: remote.NotSent, Message: message, Unauthorized: true, Err: cause}
}

// An unasked is a server that is not called because its credential is missing.
type unasked struct{ err *remote.Error }

// Catalog returns the reason.
func (u unasked) Catalog(context.Context) (*remote.Catalog, error) { return nil, u.err }

// Call returns the reason.
func (u unasked) Call(context.Context, remote.Call) (*remote.Result, error) { return nil, u.err }

// CheckCredentials checks whether a session, or its creator, may have these secrets: each
// must be for the origin of a connection that accepts secrets of sessions, and for the
// external user if it is bound to one. The error names the member at fault.
func CheckCredentials(ctx context.Context, tx *store.Tx, accountID, externalUserID string, own Credentials) error {
	for _, id := range slices.Sorted(maps.Keys(own)) {
		at := "credentials." + short(id)
		c, err := tx.Setup().LocateConnection(ctx, accountID, id)
		switch {
		case err != nil:
			return err
		case c == nil:
			return stoa.Errorf(stoa.CodeConnectionNotFound, "There is no such connection.").At(at)
		case c.PerSession == store.PerSessionOff:
			return stoa.Errorf(stoa.CodeInvalidValue, "The connection %s does not accept secrets of sessions. Set its credentialsPerSession first.", c.Name).At(at)
		}
		s, err := tx.Setup().Secret(ctx, accountID, own[id])
		if e, ok := errors.AsType[*stoa.Error](err); ok {
			return e.At(at)
		}
		switch {
		case err != nil:
			return err
		case s.Kind == store.SecretToken:
			return stoa.Errorf(stoa.CodeInvalidValue, "A secret of the kind %q can only be used for OAuth.", s.Kind).At(at)
		case s.Origin != Origin(c.URL, false):
			return stoa.Errorf(stoa.CodeSecretOrigin, "The secret is for %s, but the connection has another origin.", s.Origin).At(at)
		case s.ExternalUserID != "" && s.ExternalUserID != externalUserID:
			return stoa.Errorf(stoa.CodeSecretOrigin, "The secret is for another external user.").At(at)
		case s.SpaceID != "" && s.SpaceID != c.SpaceID:
			return stoa.Errorf(stoa.CodeSecretOrigin, "The secret is for another space.").At(at)
		}
	}
	return nil
}

func sent(s store.Secret, value string) remote.Credential {
	switch s.Kind {
	case store.SecretBearer:
		return remote.Credential{Header: "Authorization", Value: "Bearer " + value}
	case store.SecretBasic:
		_, password, _ := strings.Cut(value, ":")
		return remote.Credential{Header: "Authorization", Value: "Basic " + base64.StdEncoding.EncodeToString([]byte(value)), Parts: []string{value, password}}
	case store.SecretQuery:
		return remote.Credential{Query: s.HeaderName, Value: value}
	}
	return remote.Credential{Header: s.HeaderName, Value: value}
}
