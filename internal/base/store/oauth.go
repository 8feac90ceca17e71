package store

import (
	"context"
	"database/sql"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// MaxStates is the maximum number of pending authorizations of an account, because abandoned ones stay
// until they expire.
const MaxStates = 100

// Tokens are the OAuth tokens of a connection. They are encrypted, and bound to issuer and
// resource.
type Tokens struct {
	AccountID    string    `db:"account_id"`
	ConnectionID string    `db:"id"`
	Issuer       string    `db:"issuer"`
	Resource     string    `db:"resource"`
	Sealed       string    `db:"sealed"`
	Version      int64     `db:"version"`    // number of replacements
	ExpiresAt    time.Time `db:"expires_at"` // end of the access token; zero if unknown
	RefreshedAt  time.Time `db:"refreshed_at"`
	Lease        string    `db:"lease"` // the current refresher; may be empty
	LeaseUntil   time.Time `db:"lease_until"`
	Refusals     int64     `db:"refusals"` // number of consecutive refusals of a refresh without a readable reason
}

var (
	tokens         = newTable[Tokens]("connection_tokens")
	authorizations = newTable[Authorization]("authorizations")
	oauthClients   = newTable[OAuthClient]("oauth_clients")
	oauthStates    = newTable[OAuthState]("oauth_states")
)

// Tokens returns the tokens of a connection, or nil.
func (tx Setup) Tokens(ctx context.Context, accountID, connectionID string) (*Tokens, error) {
	return tokens.find(ctx, tx.Tx, `account_id = $1 AND id = $2`, accountID, connectionID)
}

// IdleTokens returns tokens of all accounts that were not refreshed since an instant,
// the oldest first.
func (tx Setup) IdleTokens(ctx context.Context, since time.Time, limit int) ([]Tokens, error) {
	return list(ctx, tx.Tx, tokens.scan, `SELECT `+tokens.columns+` FROM connection_tokens WHERE refreshed_at < $1 ORDER BY refreshed_at, id LIMIT $2`, db.Micros(since), limit)
}

// LeaseTokens lets one caller refresh the tokens of a version until an instant, because a server
// may accept a refresh token only once. It reports whether no other caller does.
func (tx Setup) LeaseTokens(ctx context.Context, t Tokens, lease string, until time.Time) (bool, error) {
	n, err := tx.Exec(ctx, `UPDATE connection_tokens SET lease = $4, lease_until = $5 WHERE account_id = $1 AND id = $2 AND version = $3 AND lease_until < $6`,
		t.AccountID, t.ConnectionID, t.Version, lease, db.Micros(until), db.Micros(tx.Now))
	return n > 0, err
}

// ReleaseTokens ends a lease without new tokens: the attempt counts as a refresh of unused
// tokens. Refusals of t are kept.
func (tx Setup) ReleaseTokens(ctx context.Context, t Tokens, lease string) error {
	_, err := tx.Exec(ctx, `UPDATE connection_tokens SET lease = '', lease_until = 0, refreshed_at = $4, refusals = $5 WHERE account_id = $1 AND id = $2 AND lease = $3`,
		t.AccountID, t.ConnectionID, lease, db.Micros(tx.Now), t.Refusals)
	return err
}

// SpoilTokens records that the access token of a version is not valid any more, although its server named
// a later time.
func (tx Setup) SpoilTokens(ctx context.Context, t Tokens) error {
	_, err := tx.Exec(ctx, `UPDATE connection_tokens SET expires_at = 1 WHERE account_id = $1 AND id = $2 AND version = $3`, t.AccountID, t.ConnectionID, t.Version)
	return err
}

// ReplaceTokens writes refreshed tokens and ends the lease. It reports whether the lease still existed.
func (tx Setup) ReplaceTokens(ctx context.Context, t Tokens, lease string) (bool, error) {
	t = t.refreshed(tx.Now)
	n, err := tokens.change(ctx, tx.Tx, &t, `sealed version expires_at refreshed_at lease lease_until refusals`,
		`account_id = $1 AND id = $2 AND lease = $3`, t.AccountID, t.ConnectionID, lease)
	return n > 0, err
}

// PutTokens writes tokens, replacing existing ones.
func (tx Setup) PutTokens(ctx context.Context, t Tokens) error {
	t = t.refreshed(tx.Now)
	_, err := tokens.insert(ctx, tx.Tx, &t, ` ON CONFLICT (id) DO UPDATE SET `+tokens.excluded())
	return err
}

func (t Tokens) refreshed(at time.Time) Tokens {
	t.RefreshedAt, t.Lease, t.LeaseUntil, t.Refusals = at, "", time.Time{}, 0
	return t
}

// DropTokens removes refused tokens, unless they were replaced in the meantime. It reports whether it did.
func (tx Setup) DropTokens(ctx context.Context, t Tokens) (bool, error) {
	n, err := tx.Exec(ctx, `DELETE FROM connection_tokens WHERE account_id = $1 AND id = $2 AND version = $3`, t.AccountID, t.ConnectionID, t.Version)
	return n > 0, err
}

// ForgetTokens removes the tokens of a connection, and authorizations of it that have
// begun.
func (tx Setup) ForgetTokens(ctx context.Context, accountID, connectionID string) error {
	if _, err := tx.Exec(ctx, `DELETE FROM oauth_states WHERE account_id = $1 AND connection_id = $2`, accountID, connectionID); err != nil {
		return err
	}
	if err := tx.EndAuthorization(ctx, accountID, connectionID, "", AuthorizationCancelled, "The connection was deauthorized meanwhile."); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM connection_tokens WHERE account_id = $1 AND id = $2`, accountID, connectionID)
	return err
}

// An Authorization is the outcome of an authorization of a connection by a person.
type Authorization struct {
	ID        string    `db:"id"`
	Status    string    `db:"status"`  // such as AuthorizationPending
	Message   string    `db:"message"` // the reason for its outcome; empty if it is pending or successful
	StartedAt time.Time `db:"started_at"`
	EndedAt   time.Time `db:"ended_at"` // zero while pending
}

// The statuses of an authorization.
const (
	AuthorizationPending   = "pending"
	AuthorizationDone      = "authorized"
	AuthorizationCancelled = "cancelled"
	AuthorizationFailed    = "failed"
)

// AuthorizationTime is the maximum duration of an authorization by a person.
const AuthorizationTime = 10 * time.Minute

// BeginAuthorization records the start of an authorization of a connection, replacing the
// previous one.
func (tx Setup) BeginAuthorization(ctx context.Context, accountID, connectionID, id string) error {
	a := Authorization{ID: id, Status: AuthorizationPending, StartedAt: tx.Now}
	_, err := authorizations.insert(ctx, tx.Tx, &a, ` ON CONFLICT (connection_id) DO UPDATE SET `+authorizations.excluded(), "connection_id", connectionID, "account_id", accountID)
	return err
}

// EndAuthorization records the outcome of a pending authorization if it is the newest one
// of its connection; an empty id means the newest one.
func (tx Setup) EndAuthorization(ctx context.Context, accountID, connectionID, id, status, message string) error {
	_, err := tx.Exec(ctx, `UPDATE authorizations SET status = $4, message = $5, ended_at = $6
		WHERE account_id = $1 AND connection_id = $2 AND (id = $3 OR $3 = '') AND ended_at = 0`, accountID, connectionID, id, status, message, db.Micros(tx.Now))
	return err
}

// Authorization returns the newest authorization of a connection; nil if none.
// One whose time is over has failed.
func (tx Setup) Authorization(ctx context.Context, accountID, connectionID string) (*Authorization, error) {
	a, err := authorizations.find(ctx, tx.Tx, `account_id = $1 AND connection_id = $2`, accountID, connectionID)
	if a == nil || err != nil {
		return nil, err
	}
	if ends := a.StartedAt.Add(AuthorizationTime); a.Status == AuthorizationPending && !tx.Now.Before(ends) {
		a.Status, a.Message, a.EndedAt = AuthorizationFailed, "No one authorized the connection in time.", ends
	}
	return a, nil
}

// An OAuthClient is a client that was registered with an authorization server by itself.
type OAuthClient struct {
	ID          string `db:"id"`
	AccountID   string `db:"account_id"`
	Issuer      string `db:"issuer"`
	RedirectURI string `db:"redirect_uri"`
	Sealed      string `db:"sealed"`
	Version     int64  `db:"version"`
}

// OAuthClient returns the client of an account at an issuer, or nil.
func (tx Setup) OAuthClient(ctx context.Context, accountID, issuer, redirectURI string) (*OAuthClient, error) {
	return oauthClients.find(ctx, tx.Tx, `account_id = $1 AND issuer = $2 AND redirect_uri = $3`, accountID, issuer, redirectURI)
}

// PutOAuthClient stores a client, replacing the account's existing one at the issuer.
func (tx Setup) PutOAuthClient(ctx context.Context, c OAuthClient) error {
	if err := tx.DropOAuthClient(ctx, c.AccountID, c.Issuer, c.RedirectURI); err != nil {
		return err
	}
	_, err := oauthClients.insert(ctx, tx.Tx, &c, ` ON CONFLICT (account_id, issuer, redirect_uri) DO NOTHING`, "created_at", db.Micros(tx.Now))
	return err
}

// DropOAuthClient forgets the client of an account at an issuer.
func (tx Setup) DropOAuthClient(ctx context.Context, accountID, issuer, redirectURI string) error {
	_, err := tx.Exec(ctx, `DELETE FROM oauth_clients WHERE account_id = $1 AND issuer = $2 AND redirect_uri = $3`, accountID, issuer, redirectURI)
	return err
}

// An OAuthState is a pending authorization. Once it was answered, Hash is that of the token
// that confirms it.
type OAuthState struct {
	Hash         string    `db:"id"`
	AccountID    string    `db:"account_id"`
	ConnectionID string    `db:"connection_id"`
	Sealed       string    `db:"sealed"`
	ExpiresAt    time.Time `db:"expires_at"`
}

// InsertOAuthState keeps an authorization that begins. Those that are over are removed.
func (tx Setup) InsertOAuthState(ctx context.Context, s OAuthState) error {
	if err := tx.SweepOAuthStates(ctx); err != nil {
		return err
	}
	if err := tx.within(ctx, MaxStates, "", s.AccountID, s.AccountID, "authorizations that have begun", `oauth_states WHERE account_id = $2`); err != nil {
		return err
	}
	return tx.KeepOAuthAnswer(ctx, s)
}

// KeepOAuthAnswer stores an authorization again with its answer and under another hash, until a person
// confirms it.
func (tx Setup) KeepOAuthAnswer(ctx context.Context, s OAuthState) error {
	_, err := oauthStates.insert(ctx, tx.Tx, &s, "")
	return err
}

// SweepOAuthStates removes expired authorizations of all accounts, with their unconfirmed
// codes.
func (tx Setup) SweepOAuthStates(ctx context.Context) error {
	_, err := tx.Exec(ctx, `DELETE FROM oauth_states WHERE expires_at <= $1`, db.Micros(tx.Now))
	return err
}

// HasOAuthState reports whether an authorization has begun, and was not taken.
func (tx Setup) HasOAuthState(ctx context.Context, hash string) (bool, error) {
	var id string
	return tx.Get(ctx, `SELECT id FROM oauth_states WHERE id = $1`, []any{hash}, &id)
}

// TakeOAuthState returns a pending authorization and removes it, so that it is used once. It returns nil
// if none exists or it has expired.
func (tx Setup) TakeOAuthState(ctx context.Context, hash string) (*OAuthState, error) {
	s, err := oauthStates.find(ctx, tx.Tx, `id = $1`+tx.ForUpdate(), hash)
	if s == nil || err != nil {
		return nil, err
	}
	n, err := tx.Exec(ctx, `DELETE FROM oauth_states WHERE id = $1`, hash)
	if err != nil || n == 0 || !tx.Now.Before(s.ExpiresAt) {
		return nil, err
	}
	return s, nil
}

// MaxOwnCredentials is the maximum number of a session's own secrets.
const MaxOwnCredentials = 50

// OwnCredentials returns the own secrets of a session, or of an object that creates
// sessions: ids of secrets by connection id.
func (tx Setup) OwnCredentials(ctx context.Context, accountID, ownerID string) (map[string]string, error) {
	var all map[string]string
	err := tx.Query(ctx, func(rows *sql.Rows) error {
		var connection, secret string
		err := rows.Scan(&connection, &secret)
		if all == nil {
			all = map[string]string{}
		}
		all[connection] = secret
		return err
	}, `SELECT connection_id, secret_id FROM own_credentials WHERE account_id = $1 AND owner_id = $2 ORDER BY connection_id LIMIT $3`, accountID, ownerID, MaxOwnCredentials)
	return all, err
}

// SetOwnCredentials replaces the own secrets of a session, or of an object that creates
// sessions.
func (tx Setup) SetOwnCredentials(ctx context.Context, accountID, ownerID string, own map[string]string) error {
	if _, err := tx.Exec(ctx, `DELETE FROM own_credentials WHERE account_id = $1 AND owner_id = $2`, accountID, ownerID); err != nil {
		return err
	}
	if len(own) > MaxOwnCredentials {
		return stoa.Errorf(stoa.CodeInvalidValue, "At most %d credentials are accepted.", MaxOwnCredentials).At("credentials")
	}
	for connection, secret := range own {
		if _, err := tx.Exec(ctx, `INSERT INTO own_credentials (account_id, owner_id, connection_id, secret_id) VALUES ($1, $2, $3, $4)`, accountID, ownerID, connection, secret); err != nil {
			return err
		}
	}
	return nil
}
