// Package member manages the people of an account: invitations, memberships and their roles, and
// the keys through which members act. It alone writes their rows, except the sessions of the
// console, which belong to package auth.
//
// It never checks how a person has signed in: package signin does. The functions of [Members] run in
// the transaction of their caller; [Mailer] sends links by mail in the background. Start at
// [Members.Invite] and [Members.Accept].
package member

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"stoa/internal/base/auth"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const (
	invitationLife = 7 * 24 * time.Hour
	linkLife       = 15 * time.Minute
	// MaxMemberships is the maximum number of a person's memberships that are read.
	MaxMemberships = 500
)

// Members manages members. It has no state.
type Members struct {
	Keys *auth.Keys
	// Create creates an account with the plan and the credits of an invitation; nil means that invitations create no
	// accounts.
	Create func(ctx context.Context, tx *store.Tx, i stoa.Invitation) (stoa.Account, error)
}

// Grants reports whether a key may give these roles. It needs each of their scopes, since it could otherwise
// create a member with more rights than its own. The error is CodeScope.
func Grants(by stoa.Key, role, operatorRole string) error {
	for _, of := range []struct{ param, role string }{{"role", role}, {"operatorRole", operatorRole}} {
		for _, scope := range stoa.ScopesOf(of.role, "") {
			if !by.MayGrant(scope) {
				return stoa.Errorf(stoa.CodeScope, "The role %q has the scope %q, which your key does not have. Use a key with it.", of.role, scope).At(of.param)
			}
		}
	}
	return nil
}

// checkOperator rejects an operator role outside of the operator's account.
func checkOperator(ctx context.Context, tx *store.Tx, accountID, operatorRole string) error {
	if operatorRole == "" {
		return nil
	}
	owner, err := tx.People().OwnerAccount(ctx)
	if err == nil && owner != accountID {
		err = stoa.Errorf(stoa.CodeInvalidValue, "Only members of the account of the service's operator can have an operator role. Omit it.").At("operatorRole")
	}
	return err
}

// Invite creates an invitation for 7 days and returns it with its token. It does not check the rights of the
// creating key; see [Grants].
func (m *Members) Invite(ctx context.Context, tx *store.Tx, i stoa.Invitation) (made stoa.Invitation, token string, err error) {
	if err := checkOperator(ctx, tx, i.AccountID, i.OperatorRole); err != nil {
		return i, "", err
	}
	token = auth.MintLink()
	i.PersonID, i.ExpiresAt = "", tx.Now.Add(invitationLife)
	made, err = tx.People().InsertInvitation(ctx, i, auth.Hash(token))
	return made, token, err
}

// Link creates a link with which a member signs in within 15 minutes, and ends earlier ones. by needs the
// member's scopes, because its holder could use the link. A member who signs in with an identity provider is CodeConflict.
func (m *Members) Link(ctx context.Context, tx *store.Tx, by stoa.Key, accountID, personID string) (i stoa.Invitation, token string, err error) {
	row, err := tx.People().Member(ctx, accountID, personID)
	if err != nil {
		return i, "", err
	}
	if err := Grants(by, row.Role, row.OperatorRole); err != nil {
		return i, "", err
	}
	if row.Person.Issuer != "" {
		return i, "", stoa.Errorf(stoa.CodeConflict, "The member signs in with the identity provider %s and needs no link.", row.Person.Issuer)
	}
	if err := tx.People().DeleteSignInLinks(ctx, accountID, personID); err != nil {
		return i, "", err
	}
	token = auth.MintLink()
	i, err = tx.People().InsertInvitation(ctx, stoa.Invitation{AccountID: accountID, PersonID: personID, MadeBy: by.ID, ExpiresAt: tx.Now.Add(linkLife)}, auth.Hash(token))
	return i, token, err
}

// invitation returns an open invitation that by may change. by needs the scopes of its roles, and
// [stoa.ScopeOperatorBilling] if it creates an account. An accepted or expired invitation is CodeInvitationEnded.
func (m *Members) invitation(ctx context.Context, tx *store.Tx, by stoa.Key, accountID, id string) (i stoa.Invitation, err error) {
	if i, err = tx.People().Invitation(ctx, accountID, id); err != nil {
		return i, err
	}
	if !open(i, tx.Now) {
		return i, ended()
	}
	if i.AccountName == "" {
		return i, Grants(by, i.Role, i.OperatorRole)
	}
	if !by.Has(stoa.ScopeOperatorBilling) {
		err = stoa.Errorf(stoa.CodeScope, "This invitation creates an account, which requires a key with the scope %q.", stoa.ScopeOperatorBilling)
	}
	return i, err
}

// Renew replaces the token of an open invitation, so that the old link ends, and extends it to 7 days from now. by
// needs the rights of the invitation.
func (m *Members) Renew(ctx context.Context, tx *store.Tx, by stoa.Key, accountID, id string) (i stoa.Invitation, token string, err error) {
	if i, err = m.invitation(ctx, tx, by, accountID, id); err != nil {
		return i, "", err
	}
	token = auth.MintLink()
	i.ExpiresAt = tx.Now.Add(invitationLife)
	return i, token, tx.People().RenewInvitation(ctx, i, auth.Hash(token))
}

// Revoke removes an open invitation. by needs the rights of the invitation.
func (m *Members) Revoke(ctx context.Context, tx *store.Tx, by stoa.Key, accountID, id string) error {
	if _, err := m.invitation(ctx, tx, by, accountID, id); err != nil {
		return err
	}
	return tx.People().DeleteInvitation(ctx, accountID, id)
}

func open(i stoa.Invitation, now time.Time) bool { return i.UsedAt.IsZero() && now.Before(i.ExpiresAt) }

func ended() error {
	return stoa.Errorf(stoa.CodeInvitationEnded, "This link was used, was revoked or has expired. Ask an owner of the account for a new one.")
}

// Find returns the open invitation or sign-in link with that token, and its account. The account has no id if the
// invitation creates it. Any other token is CodeInvitationEnded.
func (m *Members) Find(ctx context.Context, tx *store.Tx, token string) (i stoa.Invitation, a stoa.Account, err error) {
	found := false
	if strings.HasPrefix(token, auth.LinkPrefix) {
		i, found, err = tx.People().InvitationByHash(ctx, auth.Hash(token))
	}
	if err != nil {
		return i, a, err
	}
	if !found || !open(i, tx.Now) {
		return i, a, ended()
	}
	if i.AccountName != "" {
		return i, stoa.Account{Name: i.AccountName, Plan: i.Plan}, nil
	}
	a, err = tx.Books().Account(ctx, i.AccountID)
	return i, a, err
}

// Accept uses the link whose token has that hash. An invitation makes p a member of its account, which it creates
// if it names one; a sign-in link returns its member. A link that is used, expired or replaced is
// CodeInvitationEnded.
func (m *Members) Accept(ctx context.Context, tx *store.Tx, hash string, p stoa.Person) (store.MemberRow, error) {
	i, unused, err := tx.People().UseInvitation(ctx, hash)
	if err == nil && !unused {
		err = ended()
	}
	if err != nil {
		return store.MemberRow{}, err
	}
	if err := checkInviter(ctx, tx, i, p); err != nil {
		return store.MemberRow{}, err
	}
	if i.AccountName != "" {
		a, err := m.Create(ctx, tx, i)
		if err != nil {
			return store.MemberRow{}, err
		}
		tx.AuditAutomatic(a.ID, "account.created", a.ID, i.ID)
		i.AccountID = a.ID
	}
	if i.PersonID == "" {
		i.PersonID = p.ID
		if err := m.join(ctx, tx, p, stoa.Member{AccountID: i.AccountID, Role: i.Role, OperatorRole: i.OperatorRole, Source: stoa.SourceInvited}); err != nil {
			return store.MemberRow{}, err
		}
	}
	return tx.People().Member(ctx, i.AccountID, i.PersonID)
}

// checkInviter refuses an invitation that p has created, because nobody chooses the accounts that they belong to, and
// one of a key with billing rights only, if the account has an owner by now.
func checkInviter(ctx context.Context, tx *store.Tx, i stoa.Invitation, p stoa.Person) error {
	if i.PersonID != "" || i.MadeBy == "" {
		return nil
	}
	accountID, err := tx.People().AccountOfKey(ctx, i.MadeBy)
	if err != nil {
		return err
	}
	by, err := tx.People().Key(ctx, accountID, i.MadeBy)
	if err != nil {
		return err
	}
	if by.MemberID != "" && by.MemberID == p.ID {
		return stoa.Errorf(stoa.CodeScope, "You have created this invitation, so another person has to accept it.")
	}
	if i.AccountName != "" || accountID == i.AccountID || by.Has(stoa.ScopeOperator) {
		return nil
	}
	if err := tx.People().LockMembers(ctx, i.AccountID); err != nil {
		return err
	}
	owned, err := tx.People().HasOtherOwner(ctx, i.AccountID, "")
	if err == nil && owned {
		err = ended()
	}
	return err
}

// SignUp creates an account for a person who is not a member of any, and makes the person its owner. It grants the
// credits once for an identity, so that signing up again adds none. The person must be stored.
func (m *Members) SignUp(ctx context.Context, tx *store.Tx, p stoa.Person, plan string, grant stoa.Credits) error {
	if err := tx.People().LockMembers(ctx, p.ID); err != nil { // locked, so that two sign-ins of the person create one account
		return err
	}
	if has, err := tx.People().MembershipsOf(ctx, p.ID, 1); err != nil || len(has) > 0 {
		return err
	}
	identity := sha256.Sum256([]byte(p.Issuer + "\x00" + p.Subject))
	i := stoa.Invitation{ID: "sign_up:" + hex.EncodeToString(identity[:]), AccountName: cmp.Or(p.Name, p.Email, p.ID), Plan: plan, Grant: grant}
	var a stoa.Account
	create := func() (err error) {
		a, err = m.Create(ctx, tx, i)
		return err
	}
	err := tx.Savepoint(ctx, create)
	if stoa.CodeOf(err) == stoa.CodeConflict { // an earlier account of the person received the credits
		i.Grant = 0
		err = create()
	}
	if err != nil {
		return err
	}
	tx.AuditAutomatic(a.ID, "account.created", a.ID, "sign_up")
	return m.join(ctx, tx, p, stoa.Member{AccountID: a.ID, Role: stoa.RoleOwner, Source: stoa.SourceInvited})
}

// join makes a person a member of an account. An existing member keeps each higher role.
func (m *Members) join(ctx context.Context, tx *store.Tx, p stoa.Person, as stoa.Member) error {
	if err := tx.People().LockMembers(ctx, as.AccountID); err != nil {
		return err
	}
	switch row, err := tx.People().Member(ctx, as.AccountID, p.ID); {
	case err == nil:
		as.PersonID, as.KeyID = p.ID, row.KeyID
		as.Role, as.OperatorRole = higher(stoa.Roles, as.Role, row.Role), higher(stoa.OperatorRoles, as.OperatorRole, row.OperatorRole)
		return m.write(ctx, tx, as)
	case stoa.CodeOf(err) != stoa.CodeNotFound:
		return err
	}
	key, err := tx.People().InsertKey(ctx, stoa.Key{
		AccountID: as.AccountID, Name: cmp.Or(p.Name, p.Email, p.ID), Kind: stoa.KeyOfMember, MemberID: p.ID, SignedInAt: tx.Now, Scopes: stoa.ScopesOf(as.Role, as.OperatorRole),
	}, auth.Hash(auth.Mint()))
	if err != nil {
		return err
	}
	as.PersonID, as.KeyID = p.ID, key.ID
	return tx.People().InsertMember(ctx, as)
}

func higher(order []string, a, b string) string {
	for _, role := range order {
		if role == a || role == b {
			return role
		}
	}
	return ""
}

// A Change sets a member's roles; nil keeps them.
type Change struct{ Role, OperatorRole *string }

// Change sets the roles of a member. The key by needs the scopes of the old and the new roles. It takes effect
// immediately. The last owner of an account cannot lose that role: CodeLastOwner.
func (m *Members) Change(ctx context.Context, tx *store.Tx, by stoa.Key, accountID, personID string, c Change) (store.MemberRow, error) {
	if err := tx.People().LockMembers(ctx, accountID); err != nil {
		return store.MemberRow{}, err
	}
	row, err := tx.People().Member(ctx, accountID, personID)
	if err != nil {
		return row, err
	}
	if err := Grants(by, row.Role, row.OperatorRole); err != nil {
		return row, err
	}
	as := row.Member
	as.KeptSince = time.Time{}
	if as.Source = stoa.SourceInvited; c.Role != nil {
		as.Role = *c.Role
	}
	if c.OperatorRole != nil {
		as.OperatorRole = *c.OperatorRole
	}
	if err := Grants(by, as.Role, as.OperatorRole); err != nil {
		return row, err
	}
	if err := checkOperator(ctx, tx, accountID, as.OperatorRole); err != nil {
		return row, err
	}
	if as.Role != stoa.RoleOwner {
		if err := keepsOwner(ctx, tx, row.Member); err != nil {
			return row, err
		}
	}
	if err := m.write(ctx, tx, as); err != nil {
		return row, err
	}
	return tx.People().Member(ctx, accountID, personID)
}

// keepsOwner returns CodeLastOwner if m is the account's only owner. The members must be locked, because
// two owners could otherwise leave together.
func keepsOwner(ctx context.Context, tx *store.Tx, m stoa.Member) error {
	if m.Role != stoa.RoleOwner {
		return nil
	}
	other, err := tx.People().HasOtherOwner(ctx, m.AccountID, m.PersonID)
	if err == nil && !other {
		err = stoa.Errorf(stoa.CodeLastOwner, "This is the last owner of the account. Make another member an owner first.")
	}
	return err
}

// write stores the roles of a member, and limits the scopes of the member's keys.
func (m *Members) write(ctx context.Context, tx *store.Tx, as stoa.Member) error {
	if err := tx.People().UpdateMember(ctx, as); err != nil {
		return err
	}
	return m.limitKeys(ctx, tx, as)
}

// limitKeys gives the key through which a member acts the scopes of its roles, and removes scopes that the roles
// lack from the keys that the member created, so that no key has more rights than its member.
func (m *Members) limitKeys(ctx context.Context, tx *store.Tx, as stoa.Member) error {
	keys, err := tx.People().KeysOfMember(ctx, as.AccountID, as.PersonID)
	if err != nil {
		return err
	}
	scopes := stoa.ScopesOf(as.Role, as.OperatorRole)
	for _, k := range keys {
		before := k.Scopes
		if k.Scopes = scopes; k.Kind == "" {
			k.Scopes = stoa.Common(before, scopes)
		}
		if slices.Equal(slices.Sorted(slices.Values(k.Scopes)), slices.Sorted(slices.Values(before))) {
			continue
		}
		action := "key.narrowed"
		if len(k.Scopes) == 0 {
			action, k.Scopes, k.RevokedAt = "key.revoked", before, tx.Now
		}
		if k.Kind == "" {
			tx.AuditAutomatic(k.AccountID, action, k.ID, "role_changed")
		}
		if err := tx.People().UpdateKey(ctx, k); err != nil {
			return err
		}
		m.Keys.ForgetAfter(tx)
	}
	return nil
}

// Remove ends a membership. The key by needs the scopes of the member's roles. It returns the ids of the ended keys,
// whose objects the caller must end. With keep, the keys that the member created continue and belong to the account,
// and so do their objects. The last owner cannot be removed: CodeLastOwner.
func (m *Members) Remove(ctx context.Context, tx *store.Tx, by stoa.Key, accountID, personID string, keep bool) (endedKeys []string, err error) {
	if err := tx.People().LockMembers(ctx, accountID); err != nil {
		return nil, err
	}
	row, err := tx.People().Member(ctx, accountID, personID)
	if err != nil {
		return nil, err
	}
	if err := Grants(by, row.Role, row.OperatorRole); err != nil {
		return nil, err
	}
	if endedKeys, err = m.remove(ctx, tx, row.Member, keep); err != nil {
		return nil, err
	}
	return endedKeys, m.forget(ctx, tx, personID)
}

// forget ends the sessions of a person without memberships, and deletes the person, so that the name and address are
// not kept.
func (m *Members) forget(ctx context.Context, tx *store.Tx, personID string) error {
	left, err := tx.People().MembershipsOf(ctx, personID, 1)
	if err != nil || len(left) > 0 {
		return err
	}
	if err := m.Keys.EndSessionsOf(ctx, tx, personID); err != nil {
		return err
	}
	return tx.People().DeletePerson(ctx, personID)
}

func (m *Members) remove(ctx context.Context, tx *store.Tx, of stoa.Member, keep bool) (endedKeys []string, err error) {
	if err := keepsOwner(ctx, tx, of); err != nil {
		return nil, err
	}
	if keep {
		if err := tx.People().KeepMade(ctx, of.AccountID, of.KeyID, true); err != nil {
			return nil, err
		}
		if err := tx.People().GiveKeys(ctx, of.AccountID, of.PersonID); err != nil {
			return nil, err
		}
	}
	keys, err := tx.People().KeysOfMember(ctx, of.AccountID, of.PersonID)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		k.RevokedAt = tx.Now
		if k.Kind == "" {
			tx.AuditAutomatic(k.AccountID, "key.revoked", k.ID, "member_removed")
		} else {
			k.Name = of.PersonID // replaced, because it was the person's name or address
		}
		if err := tx.People().UpdateKey(ctx, k); err != nil {
			return nil, err
		}
		if !keep {
			if err := tx.People().SetEnding(ctx, k.AccountID, k.ID, store.KeyObjects{Made: true, Keys: true}); err != nil {
				return nil, err
			}
			endedKeys = append(endedKeys, k.ID)
		}
	}
	m.Keys.ForgetAfter(tx)
	return endedKeys, tx.People().DeleteMember(ctx, of.AccountID, of.PersonID)
}
