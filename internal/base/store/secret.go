package store

import (
	"context"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// MaxSecrets is the maximum number of secrets of an account.
const MaxSecrets = 500

var secrets = newTable[Secret]("secrets")

// InsertSecret adds a secret, whose value is sealed. Times are set.
func (tx Setup) InsertSecret(ctx context.Context, s Secret) (Secret, error) {
	if err := tx.within(ctx, MaxSecrets, "", s.AccountID, s.AccountID, "secrets in this account", `secrets WHERE account_id = $2 AND deleted_at = 0`); err != nil {
		return s, err
	}
	if s.SpaceID != "" {
		if _, err := tx.space(ctx, s.AccountID, s.SpaceID, tx.ForShare()); err != nil {
			return s, err
		}
	}
	s.CreatedAt, s.UpdatedAt = tx.Now, tx.Now
	_, err := secrets.insert(ctx, tx.Tx, &s, "")
	return s, err
}

// Secret returns an account's secret, or CodeSecretNotFound.
func (tx Setup) Secret(ctx context.Context, accountID, id string) (Secret, error) {
	return tx.secret(ctx, accountID, id, "")
}

// SecretForShare is [Setup.Secret], and keeps the secret from being changed or deleted
// until the commit.
func (tx Setup) SecretForShare(ctx context.Context, accountID, id string) (Secret, error) {
	return tx.secret(ctx, accountID, id, tx.ForShare())
}

func (tx Setup) secret(ctx context.Context, accountID, id, lock string) (Secret, error) {
	s, err := tx.anySecret(ctx, accountID, id, lock)
	if err == nil && !s.DeletedAt.IsZero() {
		err = noSecret()
	}
	return s, err
}

func noSecret() error {
	return stoa.Errorf(stoa.CodeSecretNotFound, "There is no such secret.").At("secretId")
}

// AnySecret returns an account's secret, also a deleted one, because calls still name it.
func (tx Setup) AnySecret(ctx context.Context, accountID, id string) (Secret, error) {
	return tx.anySecret(ctx, accountID, id, "")
}

func (tx Setup) anySecret(ctx context.Context, accountID, id, lock string) (Secret, error) {
	return secrets.one(ctx, tx.Tx, noSecret(), `account_id = $1 AND id = $2`+lock, accountID, id)
}

// Secrets lists an account's secrets; a text in the name, the origin or the id narrows it (see
// [Setup.Agents]).
func (tx Setup) Secrets(ctx context.Context, accountID, text string, p Page) ([]Secret, Cursor, error) {
	return secrets.search(ctx, tx.Tx, p, filtered{from: `FROM secrets WHERE account_id = $1 AND deleted_at = 0`, args: []any{accountID}, search: textSearch{text, []string{"name", "origin", "id"}}})
}

// SetSecret lets fn set a new value of a secret. The secret is locked while fn runs, and
// already has its next version.
func (tx Setup) SetSecret(ctx context.Context, accountID, id string, fn func(*Secret) error) (Secret, error) {
	s, err := tx.secret(ctx, accountID, id, tx.ForUpdate())
	if err != nil {
		return s, err
	}
	s.Version++
	s.UpdatedAt = tx.Now
	if err := fn(&s); err != nil {
		return s, err
	}
	err = secrets.update(ctx, tx.Tx, accountID, id, &s)
	return s, err
}

// DeleteSecret removes a secret that no connection uses. It fails with CodeSecretNotFound if neither
// the secret nor its remainder exists. It removes the value immediately. The rest of the row stays
// until [Setup.PurgeSecrets], because a call names the secret of its newest request, and its readers
// must be able to look it up.
func (tx Setup) DeleteSecret(ctx context.Context, accountID, id string) error {
	if s, err := tx.anySecret(ctx, accountID, id, tx.ForUpdate()); err != nil || !s.DeletedAt.IsZero() {
		return err
	}
	users, err := tx.SecretUsers(ctx, accountID, id, 5)
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return stoa.Errorf(stoa.CodeSecretInUse, "Connections use the secret, such as %s. Give them another one first.", users[0].ConnectionID)
	}
	return tx.wipeSecrets(ctx, `id = $2`, accountID, id)
}

// wipeSecrets removes secrets of an account, but only the value of those that calls name; see
// [Setup.DeleteSecret].
func (tx Setup) wipeSecrets(ctx context.Context, which string, args ...any) error {
	if _, err := tx.Exec(ctx, `DELETE FROM secrets WHERE account_id = $1 AND `+which+` AND deleted_at = 0 AND NOT EXISTS (SELECT 1 FROM tool_calls c
		WHERE c.account_id = secrets.account_id AND c.secret_id = secrets.id AND c.secret_id <> '')`, args...); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE secrets SET sealed = '', hint = '', deleted_at = $3 WHERE account_id = $1 AND `+which+` AND deleted_at = 0`, append(args, db.Micros(tx.Now))...)
	return err
}

// PurgeSecrets removes up to limit rows of deleted secrets that no call names any more. It
// returns their number.
func (tx Setup) PurgeSecrets(ctx context.Context, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM secrets WHERE id IN (SELECT s.id FROM secrets s WHERE s.deleted_at > 0 AND NOT EXISTS (SELECT 1 FROM tool_calls c
		WHERE c.account_id = s.account_id AND c.secret_id = s.id AND c.secret_id <> '') ORDER BY s.deleted_at, s.id LIMIT $1)`, limit)
}

// A SecretUser is a connection that uses a secret: with its requests, or as the secret
// of its OAuth client.
type SecretUser struct {
	ConnectionID string
	Client       bool
}

// SecretUsers returns at most limit connections that use a secret: first those that send
// it.
func (tx Setup) SecretUsers(ctx context.Context, accountID, id string, limit int) ([]SecretUser, error) {
	var all []SecretUser
	for client, query := range []string{
		`SELECT id FROM connections WHERE account_id = $1 AND secret_id = $2 AND secret_id <> '' ORDER BY id LIMIT $3`,
		`SELECT id FROM connections WHERE account_id = $1 AND client_secret_id = $2 AND client_secret_id <> '' ORDER BY id LIMIT $3`,
	} {
		ids, err := tx.texts(ctx, query, accountID, id, limit-len(all))
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			all = append(all, SecretUser{ConnectionID: id, Client: client == 1})
		}
	}
	return all, nil
}

// usedExact is the precision of [Secret.LastUsedAt], so that a busy connection does not cause a write
// for each call.
const usedExact = time.Minute

// UsedLately reports whether a use at an instant need not be recorded.
func (s Secret) UsedLately(now time.Time) bool { return now.Sub(s.LastUsedAt) < usedExact }

// UseSecret records that a secret is used now.
func (tx Setup) UseSecret(ctx context.Context, accountID, id string) error {
	_, err := tx.Exec(ctx, `UPDATE secrets SET last_used_at = $3 WHERE account_id = $1 AND id = $2 AND last_used_at < $4`,
		accountID, id, db.Micros(tx.Now), db.Micros(tx.Now.Add(-usedExact)))
	return err
}
