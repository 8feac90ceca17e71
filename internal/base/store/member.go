package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"stoa/internal/base/db"
	"stoa/internal/base/stoa"
)

// Limits of an account.
const (
	MaxMembers     = 500
	MaxInvitations = 100 // open ones
)

var (
	people      = newTable[stoa.Person]("people")
	members     = newTable[stoa.Member]("members")
	invitations = newTable[stoa.Invitation]("invitations")
)

// A MemberRow is a member with the data that lists show.
type MemberRow struct {
	stoa.Member
	Person   stoa.Person
	LastUsed time.Time // last use of the member's key, to within a minute; zero means never
}

func fromMembers(cond string) string {
	return `FROM (SELECT ` + members.columnsOf("m.") + `, p.issuer, p.subject, p.email, p.name, COALESCE(k.last_used_at, 0) AS last_used_at, m.person_id AS id
		FROM members m JOIN people p ON p.id = m.person_id LEFT JOIN keys k ON k.id = m.key_id WHERE ` + cond + `) v WHERE 1 = 1`
}

func scanMember(rows *sql.Rows) (m MemberRow, err error) {
	var used int64
	p := &m.Person
	err = rows.Scan(append(members.dest(&m.Member), &p.Issuer, &p.Subject, &p.Email, &p.Name, &used, &p.ID)...)
	m.LastUsed = db.Time(used)
	return m, err
}

// LockMembers makes other transactions that change the members of the account wait until this one
// ends, because two of them could otherwise remove the last two owners.
func (tx People) LockMembers(ctx context.Context, accountID string) error {
	return tx.lockText(ctx, "members "+accountID)
}

// OwnerAccount returns the id of the account of the service's operator, which is the oldest one;
// empty in a new store.
func (tx People) OwnerAccount(ctx context.Context) (id string, err error) {
	_, err = tx.Get(ctx, `SELECT id FROM accounts ORDER BY created_at, id LIMIT 1`, nil, &id)
	return id, err
}

// PersonOf returns the person with that issuer and subject, and creates it if there is none. It
// stores the given email and name. Without an issuer the person is new.
func (tx People) PersonOf(ctx context.Context, p stoa.Person) (stoa.Person, error) {
	p.ID, p.CreatedAt = stoa.NewID("per"), tx.Now
	if p.Issuer == "" {
		p.Subject = p.ID
	}
	if _, err := people.insert(ctx, tx.Tx, &p, ` ON CONFLICT (issuer, subject) DO UPDATE SET email = EXCLUDED.email, name = EXCLUDED.name`); err != nil {
		return p, err
	}
	return people.one(ctx, tx.Tx, noMember(p.ID), `issuer = $1 AND subject = $2`, p.Issuer, p.Subject)
}

// DeletePerson removes a person without memberships.
func (tx People) DeletePerson(ctx context.Context, id string) error {
	_, err := tx.Exec(ctx, `DELETE FROM people WHERE id = $1`, id)
	return err
}

// InsertMember adds a member, whose key must exist. An account with [MaxMembers] is
// CodeLimitReached.
func (tx People) InsertMember(ctx context.Context, m stoa.Member) error {
	if err := tx.within(ctx, MaxMembers, "", m.AccountID, m.AccountID, "members in this account", `members WHERE account_id = $2`); err != nil {
		return err
	}
	m.CreatedAt = tx.Now
	_, err := members.insert(ctx, tx.Tx, &m, "")
	return err
}

// Member returns the member of an account with that person's id, or CodeNotFound.
func (tx People) Member(ctx context.Context, accountID, personID string) (MemberRow, error) {
	m, found, err := first(ctx, tx.Tx, scanMember, `SELECT * `+fromMembers(`m.account_id = $1 AND m.person_id = $2`), accountID, personID)
	if err == nil && !found {
		err = noMember(personID)
	}
	return m, err
}

func noMember(id string) error { return stoa.Errorf(stoa.CodeNotFound, "There is no member %q.", id) }

// Members lists the members of an account; a text in the name, the email address or the id
// narrows it (see [Setup.Agents]).
func (tx People) Members(ctx context.Context, accountID, text string, p Page) ([]MemberRow, Cursor, error) {
	f := filtered{from: fromMembers(`m.account_id = $1`), args: []any{accountID}, search: textSearch{text, []string{"name", "email", "id"}}}
	return filteredPage(ctx, tx.Tx, p, f, scanMember, func(m MemberRow) Cursor { return Cursor{At: m.CreatedAt, ID: m.PersonID} }, `SELECT * FROM (`, `) x`)
}

// HasVerifiedEmail reports whether an identity provider has verified an address of mail, in
// whichever case, for a member of the account.
func (tx People) HasVerifiedEmail(ctx context.Context, accountID, email string) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM members m JOIN people p ON p.id = m.person_id WHERE m.account_id = $1 AND p.issuer <> '' AND lower(p.email) = lower($2) LIMIT 1`, []any{accountID, email}, &one)
}

// MembershipsOf returns the memberships of a person, at most limit.
func (tx People) MembershipsOf(ctx context.Context, personID string, limit int) ([]stoa.Member, error) {
	return list(ctx, tx.Tx, members.scan, `SELECT `+members.columns+` FROM members WHERE person_id = $1 LIMIT $2`, personID, limit)
}

// HasOtherOwner reports whether the account has another owner than that person.
func (tx People) HasOtherOwner(ctx context.Context, accountID, personID string) (bool, error) {
	var one int
	return tx.Get(ctx, `SELECT 1 FROM members WHERE account_id = $1 AND role = $2 AND person_id <> $3 LIMIT 1`, []any{accountID, stoa.RoleOwner, personID}, &one)
}

// IsUsed reports whether somebody uses the account: it has an owner, or a key that has made a request.
func (tx People) IsUsed(ctx context.Context, accountID string) (bool, error) {
	if owned, err := tx.HasOtherOwner(ctx, accountID, ""); err != nil || owned {
		return owned, err
	}
	var one int
	return tx.Get(ctx, `SELECT 1 FROM keys WHERE account_id = $1 AND last_used_at > 0 LIMIT 1`, []any{accountID}, &one)
}

// UpdateMember writes the roles, the source and KeptSince of a member.
func (tx People) UpdateMember(ctx context.Context, m stoa.Member) error {
	_, err := members.change(ctx, tx.Tx, &m, `role operator_role source kept_since`, `account_id = $1 AND person_id = $2`, m.AccountID, m.PersonID)
	return err
}

// DeleteMember removes a member, and the links with which the person signs in.
func (tx People) DeleteMember(ctx context.Context, accountID, personID string) error {
	if err := tx.DeleteSignInLinks(ctx, accountID, personID); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `DELETE FROM members WHERE account_id = $1 AND person_id = $2`, accountID, personID)
	return err
}

// KeysOfMember returns the keys in force of a member of an account, with that through which the
// member acts.
func (tx People) KeysOfMember(ctx context.Context, accountID, personID string) ([]stoa.Key, error) {
	return list(ctx, tx.Tx, keys.scan, `SELECT `+keys.columns+` FROM keys WHERE account_id = $1 AND member_id = $2 AND (revoked_at = 0 OR revoked_at > $3) AND (expires_at = 0 OR expires_at > $3)`,
		accountID, personID, db.Micros(tx.Now))
}

// GiveKeys makes the keys that a member created belong to the account.
func (tx People) GiveKeys(ctx context.Context, accountID, personID string) error {
	_, err := tx.Exec(ctx, `UPDATE keys SET member_id = '', signed_in_at = 0 WHERE account_id = $1 AND member_id = $2 AND kind = ''`, accountID, personID)
	return err
}

// SignedIn records that a person has signed in, with all keys that the person has as a member.
func (tx People) SignedIn(ctx context.Context, personID string) error {
	_, err := tx.Exec(ctx, `UPDATE keys SET signed_in_at = $2 WHERE member_id = $1 AND member_id <> '' AND signed_in_at < $2`, personID, db.Micros(tx.Now))
	return err
}

// InsertInvitation adds an invitation or a sign-in link, whose token has that hash. An account
// with [MaxInvitations] open invitations is CodeLimitReached.
func (tx People) InsertInvitation(ctx context.Context, i stoa.Invitation, hash string) (stoa.Invitation, error) {
	i.ID, i.CreatedAt = stoa.NewID("inv"), tx.Now
	if i.PersonID == "" {
		err := tx.within(ctx, MaxInvitations, "", i.AccountID, i.AccountID, "open invitations to this account", `invitations WHERE account_id = $2 AND `+openInvitation("$3"), db.Micros(tx.Now))
		if err != nil {
			return i, err
		}
	}
	_, err := invitations.insert(ctx, tx.Tx, &i, "", "hash", hash)
	return i, err
}

// openInvitation is the condition for invitations that can be accepted at a time, the named
// parameter.
func openInvitation(now string) string {
	return strings.ReplaceAll(`person_id = '' AND used_at = 0 AND expires_at > now`, "now", now)
}

// Invitations lists the open invitations to an account. A text in the name, the address, the account that it creates, the
// roles or the id narrows it (see [Setup.Agents]).
func (tx People) Invitations(ctx context.Context, accountID, text string, p Page) ([]stoa.Invitation, Cursor, error) {
	return invitations.search(ctx, tx.Tx, p, filtered{
		from: `FROM invitations WHERE account_id = $1 AND ` + openInvitation("$2"), args: []any{accountID, db.Micros(tx.Now)},
		search: textSearch{text, []string{"name", "email", "account_name", "role", "operator_role", "id"}},
	})
}

// Invitation returns an invitation to an account, or CodeNotFound.
func (tx People) Invitation(ctx context.Context, accountID, id string) (stoa.Invitation, error) {
	return invitations.one(ctx, tx.Tx, stoa.Errorf(stoa.CodeNotFound, "There is no invitation %q.", id), `account_id = $1 AND id = $2 AND person_id = ''`, accountID, id)
}

// InvitationByHash returns the invitation or sign-in link whose token has that hash.
func (tx People) InvitationByHash(ctx context.Context, hash string) (stoa.Invitation, bool, error) {
	return invitations.first(ctx, tx.Tx, `hash = $1`, hash)
}

// UseInvitation marks the open invitation or sign-in link whose token has that hash as used, and
// returns it; false if there is none. It finds the row by the hash, because a renewal replaces that
// but not the id.
func (tx People) UseInvitation(ctx context.Context, hash string) (i stoa.Invitation, unused bool, err error) {
	return first(ctx, tx.Tx, invitations.scan, `UPDATE invitations SET used_at = $2 WHERE hash = $1 AND used_at = 0 AND expires_at > $2 RETURNING `+invitations.columns, hash, db.Micros(tx.Now))
}

// maxSignInStates is the maximum number of used states of sign-ins that are stored.
const maxSignInStates = 10_000

// UseSignInState marks the state of a sign-in, which ends at a time, as used, and reports whether it was not
// used before. Beyond [maxSignInStates] the oldest are forgotten.
func (tx People) UseSignInState(ctx context.Context, state string, expiresAt time.Time) (bool, error) {
	for _, q := range []string{
		`DELETE FROM sign_in_states WHERE expires_at < $1`,
		`DELETE FROM sign_in_states WHERE expires_at <= (SELECT expires_at FROM sign_in_states WHERE expires_at >= $1 ORDER BY expires_at DESC LIMIT 1 OFFSET ` + strconv.Itoa(maxSignInStates-1) + `)`,
	} {
		if _, err := tx.Exec(ctx, q, db.Micros(tx.Now)); err != nil {
			return false, err
		}
	}
	n, err := tx.Exec(ctx, `INSERT INTO sign_in_states (state, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING`, state, db.Micros(expiresAt))
	return n > 0, err
}

// RenewInvitation gives an invitation to an account another token, by its hash, and another end.
func (tx People) RenewInvitation(ctx context.Context, i stoa.Invitation, hash string) error {
	_, err := tx.Exec(ctx, `UPDATE invitations SET hash = $3, expires_at = $4 WHERE account_id = $1 AND id = $2`, i.AccountID, i.ID, hash, db.Micros(i.ExpiresAt))
	return err
}

// DeleteInvitation removes an invitation.
func (tx People) DeleteInvitation(ctx context.Context, accountID, id string) error {
	_, err := tx.Exec(ctx, `DELETE FROM invitations WHERE account_id = $1 AND id = $2`, accountID, id)
	return err
}

// DeleteSignInLinks removes the links with which a member signs in.
func (tx People) DeleteSignInLinks(ctx context.Context, accountID, personID string) error {
	_, err := tx.Exec(ctx, `DELETE FROM invitations WHERE account_id = $1 AND person_id = $2`, accountID, personID)
	return err
}

// invitationKept is the time for which an expired invitation is kept, so that its link and its
// revocation are answered with a reason.
const invitationKept = 30 * 24 * time.Hour

// PurgeInvitations removes up to limit invitations that expired long ago, and returns their
// number.
func (tx People) PurgeInvitations(ctx context.Context, limit int) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM invitations WHERE id IN (SELECT id FROM invitations WHERE expires_at < $1 LIMIT $2)`, db.Micros(tx.Now.Add(-invitationKept)), limit)
}
