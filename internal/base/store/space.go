package store

import (
	"context"
	"strconv"
	"strings"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

var spaces = newTable[stoa.Space]("spaces")

// InsertSpace adds a space. An empty ID is filled in; times and revision are
// set. An external id that the account has used for a space is CodeConflict.
func (tx Setup) InsertSpace(ctx context.Context, s stoa.Space) (stoa.Space, error) {
	if err := tx.spaceQuota(ctx, s.AccountID); err != nil {
		return s, err
	}
	if s.ID == "" {
		s.ID = stoa.NewID("spc")
	}
	s.CreatedAt, s.UpdatedAt, s.Revision = tx.Now, tx.Now, 1
	n, err := spaces.insert(ctx, tx.Tx, &s, ` ON CONFLICT (account_id, external_id) DO NOTHING`)
	if err == nil && n == 0 {
		err = externalIDTaken("space", s.ExternalID)
	}
	return s, err
}

// DefaultSpace returns the account's default space and creates it if necessary, or returns
// CodeNotFound if the account does not exist.
func (tx Setup) DefaultSpace(ctx context.Context, accountID string) (stoa.Space, error) {
	var id string
	found, err := tx.Get(ctx, `SELECT default_space_id FROM accounts WHERE id = $1`+tx.ForUpdate(), []any{accountID}, &id)
	if err != nil {
		return stoa.Space{}, err
	}
	if !found {
		return stoa.Space{}, noAccount(accountID)
	}
	if id != "" {
		return tx.Space(ctx, accountID, id)
	}
	s, err := tx.InsertSpace(ctx, stoa.Space{AccountID: accountID, Name: "Default"})
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE accounts SET default_space_id = $2 WHERE id = $1`, accountID, s.ID)
	}
	return s, err
}

// Space returns an account's space, or CodeSpaceNotFound.
func (tx Setup) Space(ctx context.Context, accountID, id string) (stoa.Space, error) {
	return tx.space(ctx, accountID, id, "")
}

func (tx Setup) space(ctx context.Context, accountID, id, lock string) (stoa.Space, error) {
	missing := stoa.Errorf(stoa.CodeSpaceNotFound, "There is no such space.").At("spaceId")
	return spaces.one(ctx, tx.Tx, missing, `account_id = $1 AND id = $2`+lock, accountID, id)
}

// Spaces lists an account's spaces; an external id narrows it, and so does a text in the name, the
// description or the ids (see [Setup.Agents]).
func (tx Setup) Spaces(ctx context.Context, accountID, externalID, text string, p Page) ([]stoa.Space, Cursor, error) {
	args, cond := narrow([]any{accountID}, "external_id", externalID)
	return spaces.search(ctx, tx.Tx, p, filtered{from: `FROM spaces WHERE account_id = $1` + cond, args: args, search: textSearch{text, []string{"name", "description", "external_id", "id"}}})
}

// EditSpace lets fn change a space and writes name, description, external id and metadata. It locks
// the space while fn runs, so that fn can compare revisions. If fn fails, it returns the error and
// writes nothing.
func (tx Setup) EditSpace(ctx context.Context, accountID, id string, fn func(*stoa.Space) error) (stoa.Space, error) {
	s, err := tx.space(ctx, accountID, id, tx.ForUpdate())
	if err != nil {
		return s, err
	}
	s, err = spaces.edit(ctx, tx.Tx, accountID, id, s, fn)
	if db.IsUnique(err) {
		err = externalIDTaken("space", s.ExternalID)
	}
	return s, err
}

// DeleteSpace removes a space that has no agents, with its connections. Its agents must
// have been deleted before.
func (tx Setup) DeleteSpace(ctx context.Context, accountID, id string) error {
	if _, err := tx.Exec(ctx, `UPDATE accounts SET default_space_id = '' WHERE id = $1 AND default_space_id = $2`, accountID, id); err != nil {
		return err
	}
	if err := tx.deleteConnectionsOf(ctx, accountID, id); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM spaces WHERE account_id = $1 AND id = $2`, accountID, id)
	return err
}

// AgentsOf returns the ids of all agents of a space, or CodeSpaceNotFound, and locks the
// space against new ones until the commit.
func (tx Setup) AgentsOf(ctx context.Context, accountID, spaceID string, limit int) ([]string, error) {
	if _, err := tx.space(ctx, accountID, spaceID, tx.ForUpdate()); err != nil {
		return nil, err
	}
	return tx.texts(ctx, `SELECT id FROM agents WHERE account_id = $1 AND space_id = $2 AND deleted_at = 0 ORDER BY created_at, id LIMIT $3`, accountID, spaceID, limit)
}

func externalIDTaken(noun, id string) error {
	return stoa.Errorf(stoa.CodeConflict, "There is a %s with the external id %q already.", noun, id).At("externalId")
}

// orNull stores an absent text as NULL, because a unique index allows NULL repeatedly.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// narrow returns args and the SQL of equality conditions, from pairs of column and
// value, for the values that are not empty.
func narrow(args []any, pairs ...string) ([]any, string) {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		args = append(args, pairs[i+1])
		b.WriteString(" AND " + pairs[i] + " = $" + strconv.Itoa(len(args)))
	}
	return args, b.String()
}
