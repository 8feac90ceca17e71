package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	sessionLife  = 12 * time.Hour
	sessionIdle  = 2 * time.Hour
	sessionBytes = 32 // of randomness in a secret
	// maxSessions is the maximum number of sessions of a person or of a key.
	maxSessions = 20
)

// BeginSession stores a session of the console, of exactly one of PersonID and KeyID, and
// returns the secret for its cookie. Of more than 20 sessions of one owner the oldest end.
func (k *Keys) BeginSession(ctx context.Context, tx *store.Tx, s stoa.ConsoleSession) (secret string, err error) {
	var random [sessionBytes]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	secret = base64.RawURLEncoding.EncodeToString(random[:])
	s.Hash = Hash(secret)
	s.CreatedAt, s.SeenAt, s.ExpiresAt = tx.Now, tx.Now, tx.Now.Add(k.SessionLife)
	k.ForgetAfter(tx) // because an older session may end
	return secret, tx.People().InsertConsoleSession(ctx, s, maxSessions)
}

// VerifySession authenticates the secret of a session for an account: of a key, the account
// must be the key's; of a person, the membership in the account has the key. Every fault is
// CodeUnauthorized, except that a suspended account is CodeSuspended. With an error the caller
// contains the owner if it is known, only for the logs.
func (k *Keys) VerifySession(ctx context.Context, secret, accountID string) (stoa.Caller, stoa.ConsoleSession, error) {
	if !mayBeSession(secret) {
		return stoa.Caller{}, stoa.ConsoleSession{}, sessionEnded()
	}
	of := sha256.Sum256([]byte(secret))
	hash := sha256.Sum256(append(of[:], accountID...)) // because a person has an entry for each account
	e := k.cached(hash)
	if e == nil {
		of := of // only this copy escapes
		var err error
		e, err = k.load(ctx, hash, func(ctx context.Context, tx *store.Tx, e *known) (bool, error) {
			session, found, err := tx.People().ConsoleSession(ctx, hex.EncodeToString(of[:]))
			if err != nil || !found {
				return false, err
			}
			e.session = &session
			e.key, e.account, found, err = tx.People().KeyByConsoleSession(ctx, session, accountID)
			return found, err
		})
		if err != nil {
			return stoa.Caller{}, stoa.ConsoleSession{}, err
		}
		if e == nil {
			return stoa.Caller{}, stoa.ConsoleSession{}, sessionEnded()
		}
	}
	if !k.sessionInForce(*e.session, time.Unix(e.noted.Load()*60, 0)) {
		return stoa.Caller{Account: e.account, Key: e.key}, *e.session, sessionEnded()
	}
	c, err := k.admit(e)
	if stoa.CodeOf(err) == stoa.CodeUnauthorized {
		err = stoa.Errorf(stoa.CodeUnauthorized, "The key of this session was revoked or has expired. Sign in again.").Because(err)
	}
	return c, *e.session, err
}

// Session returns the session with a secret without counting a use. One that has ended is
// not found; its key may have ended.
func (k *Keys) Session(ctx context.Context, tx *store.Tx, secret string) (s stoa.ConsoleSession, found bool, err error) {
	if !mayBeSession(secret) {
		return s, false, nil
	}
	s, found, err = tx.People().ConsoleSession(ctx, Hash(secret))
	if err != nil || !found {
		return s, false, err
	}
	k.mu.Lock()
	seen := k.seen[s.Hash]
	k.mu.Unlock()
	return s, k.sessionInForce(s, seen), nil
}

// EndSession deletes the session with a secret, if there is one.
func (k *Keys) EndSession(ctx context.Context, tx *store.Tx, secret string) error {
	if !mayBeSession(secret) {
		return nil
	}
	k.ForgetAfter(tx)
	return tx.People().DeleteConsoleSession(ctx, Hash(secret))
}

// EndSessionsOf deletes the sessions of a person.
func (k *Keys) EndSessionsOf(ctx context.Context, tx *store.Tx, personID string) error {
	k.ForgetAfter(tx)
	return tx.People().DeleteConsoleSessionsOf(ctx, personID)
}

// sessionInForce reports whether a session that was last used at seen, or later if its row says
// so, has neither expired nor been idle for too long.
func (k *Keys) sessionInForce(s stoa.ConsoleSession, seen time.Time) bool {
	now := k.now()
	if seen.Before(s.SeenAt) {
		seen = s.SeenAt
	}
	return now.Before(s.ExpiresAt) && now.Before(seen.Add(k.SessionIdle))
}

func mayBeSession(secret string) bool {
	return len(secret) == base64.RawURLEncoding.EncodedLen(sessionBytes)
}

func sessionEnded() error {
	return stoa.Errorf(stoa.CodeUnauthorized, "The session of the console has ended, or it has no access to this account. Sign in again.")
}
