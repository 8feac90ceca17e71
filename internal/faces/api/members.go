package api

import (
	"context"
	"net/http"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/operate/member"
)

func (s *People) inviteMember(ctx context.Context, tx *store.Tx, in rest.Request[rest.None, contract.InviteMember]) (rest.Reply[contract.InvitationWithLink], error) {
	return s.invite(ctx, tx, in.Caller, in.Caller.Account.ID, in.Body)
}

func (s *People) inviteAccountMember(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.InviteMember]) (rest.Reply[contract.InvitationWithLink], error) {
	if _, err := tx.Books().LiveAccount(ctx, in.Params.ID); err != nil {
		return rest.Reply[contract.InvitationWithLink]{}, err
	}
	return s.invite(ctx, tx, in.Caller, in.Params.ID, in.Body)
}

// invite creates an invitation. In the account of the caller's key, the key needs the scopes of
// the role, and everywhere those of an operator role. A key that is limited to billing invites only
// where nobody is yet, because it must not reach what members of other accounts do.
func (s *People) invite(ctx context.Context, tx *store.Tx, by stoa.Caller, accountID string, b contract.InviteMember) (rest.Reply[contract.InvitationWithLink], error) {
	var reply rest.Reply[contract.InvitationWithLink]
	operatorRole, role := orZero(b.OperatorRole), b.Role
	if accountID != by.Account.ID {
		role = ""
	}
	if err := member.Grants(by.Key, role, operatorRole); err != nil {
		return reply, err
	}
	if accountID != by.Account.ID && !by.Key.Has(stoa.ScopeOperator) {
		if used, err := tx.People().IsUsed(ctx, accountID); err != nil {
			return reply, err
		} else if used {
			return reply, stoa.Errorf(stoa.CodeScope, "This account has an owner or a key that is in use. To invite people to it, use a key with the scope %q.", stoa.ScopeOperator).At("role")
		}
	}
	return s.makeInvitation(ctx, tx, by, stoa.Invitation{AccountID: accountID, Role: b.Role, OperatorRole: operatorRole, Name: orZero(b.Name), Email: orZero(b.Email)})
}

func (s *People) makeInvitation(ctx context.Context, tx *store.Tx, by stoa.Caller, i stoa.Invitation) (rest.Reply[contract.InvitationWithLink], error) {
	if i.Email != "" && !stoa.IsEmail(i.Email) {
		return rest.Reply[contract.InvitationWithLink]{}, stoa.Errorf(stoa.CodeInvalidValue, "This is not an email address. Send one such as ada@example.com, without a name.").At("email")
	}
	i.MadeBy = by.Key.ID
	i, token, err := s.members.Invite(ctx, tx, i)
	return s.withLink(ctx, tx, by, i, token, err)
}

func (s *People) withLink(ctx context.Context, tx *store.Tx, by stoa.Caller, i stoa.Invitation, token string, err error) (rest.Reply[contract.InvitationWithLink], error) {
	body := extend[contract.InvitationWithLink](contractInvitation(i))
	body.Link = s.joinLink(token)
	if err == nil {
		body.Mailed, body.NotMailed, err = s.mailLink(ctx, tx, by, i.Email, token)
	}
	return rest.Reply[contract.InvitationWithLink]{Status: http.StatusCreated, Body: body, Secret: true}, err
}

func (s *People) mailLink(ctx context.Context, tx *store.Tx, by stoa.Caller, to, token string) (mailed bool, reason string, err error) {
	if to == "" {
		return false, "", nil
	}
	reason, err = s.Mailer.Queue(ctx, tx, by.Account.ID, to, token)
	return err == nil && reason == "", reason, err
}

func (s *People) inviteAccount(ctx context.Context, tx *store.Tx, in rest.Request[rest.None, contract.InviteAccount]) (rest.Reply[contract.InvitationWithLink], error) {
	b, plan := in.Body, orElse(orZero(in.Body.Plan), defaultPlan)
	if err := s.checkPlanExists(plan); err != nil {
		return rest.Reply[contract.InvitationWithLink]{}, err
	}
	return s.makeInvitation(ctx, tx, in.Caller, stoa.Invitation{
		AccountID: in.Caller.Account.ID, Role: stoa.RoleOwner, Name: orZero(b.Name), Email: orZero(b.Email),
		AccountName: b.AccountName, Plan: plan, Grant: stoa.Credits(orZero(b.GrantMicro)),
	})
}

// CreateInvited creates the account of an invitation that is accepted.
func (s *People) CreateInvited(ctx context.Context, tx *store.Tx, i stoa.Invitation) (stoa.Account, error) {
	return s.newAccount(ctx, tx, stoa.Account{Name: i.AccountName, Plan: i.Plan}, i.Grant, i.ID)
}

// joinLink returns the link with a token. The token is in the fragment, because browsers do not send it, so that neither
// logs nor programs that open links receive it.
func (s *People) joinLink(token string) string { return s.PublicURL + "/join#" + token }

func (s *People) listMembers(ctx context.Context, in rest.Request[contract.ListMembersParams, rest.None]) (rest.Reply[rest.Page[contract.Member]], error) {
	accountID, err := s.requestedAccount(ctx, in.Caller, in.Params.AccountID)
	if err != nil {
		return rest.Reply[rest.Page[contract.Member]]{}, err
	}
	p := rest.NewPager(in.Params.Limit, in.Params.Cursor, in.Params.Order, "members", accountID, in.Params.Q)
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]store.MemberRow, store.Cursor, error) {
		return tx.People().Members(ctx, accountID, in.Params.Q, p.Page)
	}, contractMember)
}

func (s *People) getMember(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.Member], error) {
	m, err := tx.People().Member(ctx, in.Caller.Account.ID, in.Params.ID)
	return rest.Reply[contract.Member]{Body: contractMember(m)}, err
}

func (s *People) updateMember(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.UpdateMember]) (rest.Reply[contract.Member], error) {
	var c member.Change
	if in.Body.Role != "" {
		c.Role = &in.Body.Role
	}
	if in.Body.OperatorRole.IsSpecified() {
		c.OperatorRole = new(orZero(in.Body.OperatorRole))
	}
	m, err := s.members.Change(ctx, tx, in.Caller.Key, in.Caller.Account.ID, in.Params.ID, c)
	return rest.Reply[contract.Member]{Body: contractMember(m)}, err
}

func (s *People) removeMember(ctx context.Context, in rest.Request[idAnd[contract.RemoveMemberParams], rest.None]) (rest.Reply[rest.None], error) {
	accountID := in.Caller.Account.ID
	keys, err := store.Write(ctx, s.Store, func(tx *store.Tx) ([]string, error) {
		return s.members.Remove(ctx, tx, in.Caller.Key, accountID, in.Params.ID, in.Params.Query.Keys == "keep")
	})
	for _, id := range keys {
		if err == nil {
			err = s.EndObjects(ctx, accountID, id)
		}
	}
	return rest.NoContent(), err
}

func (s *People) createSignInLink(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.SignInLink], error) {
	accountID := in.Caller.Account.ID
	i, token, err := s.members.Link(ctx, tx, in.Caller.Key, accountID, in.Params.ID)
	body := contract.SignInLink{ID: in.Params.ID, Link: s.joinLink(token), ExpiresAt: contract.Time(i.ExpiresAt)}
	if err == nil {
		var m store.MemberRow
		if m, err = tx.People().Member(ctx, accountID, in.Params.ID); err == nil {
			body.Mailed, body.NotMailed, err = s.mailLink(ctx, tx, in.Caller, m.Person.Email, token)
		}
	}
	return rest.Reply[contract.SignInLink]{Status: http.StatusCreated, Secret: true, Body: body}, err
}

func (s *People) listInvitations(ctx context.Context, in rest.Request[contract.ListInvitationsParams, rest.None]) (rest.Reply[rest.Page[contract.Invitation]], error) {
	accountID, err := s.requestedAccount(ctx, in.Caller, in.Params.AccountID)
	if err != nil {
		return rest.Reply[rest.Page[contract.Invitation]]{}, err
	}
	p := rest.NewPager(in.Params.Limit, in.Params.Cursor, in.Params.Order, "invitations", accountID, in.Params.Q)
	n := namesOf(accountID)
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.Invitation, store.Cursor, error) {
		list, next, err := tx.People().Invitations(ctx, accountID, in.Params.Q, p.Page)
		for _, i := range list {
			n.add(store.NamedKeys, i.MadeBy)
		}
		return list, next, n.read(ctx, tx, err)
	}, func(i stoa.Invitation) contract.Invitation {
		out := contractInvitation(i)
		out.CreatedByName = n.of(store.NamedKeys, i.MadeBy)
		return out
	})
}

func (s *People) renewInvitation(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.InvitationWithLink], error) {
	i, token, err := s.members.Renew(ctx, tx, in.Caller.Key, in.Caller.Account.ID, in.Params.ID)
	return s.withLink(ctx, tx, in.Caller, i, token, err)
}

func (s *People) revokeInvitation(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[rest.None], error) {
	return rest.NoContent(), s.members.Revoke(ctx, tx, in.Caller.Key, in.Caller.Account.ID, in.Params.ID)
}

func contractMember(m store.MemberRow) contract.Member {
	return contract.Member{
		ID: m.PersonID, Name: nullIfZero(m.Person.Name), Email: nullIfZero(m.Person.Email), Issuer: nullIfZero(m.Person.Issuer),
		Role: m.Role, OperatorRole: nullIfZero(m.OperatorRole), Source: m.Source, KeyID: m.KeyID,
		LastUsedAt: nullIfNever(m.LastUsed), CreatedAt: contract.Time(m.CreatedAt),
	}
}

// auditedMember returns the members that the audit log keeps: a person is an id there, so that the log can outlive the person's removal.
func auditedMember(m store.MemberRow) any {
	m.Person, m.LastUsed = stoa.Person{}, time.Time{}
	return contractMember(m)
}

func contractInvitation(i stoa.Invitation) contract.Invitation {
	return contract.Invitation{
		ID: i.ID, Name: nullIfZero(i.Name), Email: nullIfZero(i.Email), Role: i.Role, OperatorRole: nullIfZero(i.OperatorRole), CreatedBy: nullIfZero(i.MadeBy),
		CreatedAt: contract.Time(i.CreatedAt), ExpiresAt: contract.Time(i.ExpiresAt),
		AccountName: i.AccountName, Plan: i.Plan, GrantMicro: int64(i.Grant),
	}
}
