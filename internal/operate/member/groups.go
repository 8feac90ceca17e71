package member

import (
	"context"
	"maps"
	"slices"
	"time"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// A Grant is a membership from a group of an identity provider. An empty AccountID means the account of the
// service's operator.
type Grant struct{ AccountID, Role, OperatorRole string }

// Synced contains the results of a synchronization that the caller must process.
type Synced struct {
	EndedKeys []store.Ref // keys with their accounts; the caller must end their objects
	Kept      []string    // accounts that keep the person as last owner against the grants; the caller logs them
}

// Sync changes the memberships of a person from groups to those of the grants, with the highest role in each
// account. Memberships by invitation stay unchanged. The last owner of an account stays an owner, because the account
// needs one, but keeps neither an operator role nor sessions, because the service has keys of an operator without
// the person. A grant for an unknown account is ignored.
func (m *Members) Sync(ctx context.Context, tx *store.Tx, p stoa.Person, grants []Grant) (s Synced, err error) {
	operators, err := tx.People().OwnerAccount(ctx)
	if err != nil {
		return s, err
	}
	want := map[string]Grant{}
	for _, g := range grants {
		if g.AccountID == "" {
			g.AccountID = operators
		}
		if g.AccountID != operators {
			g.OperatorRole = ""
		}
		w := want[g.AccountID]
		want[g.AccountID] = Grant{g.AccountID, higher(stoa.Roles, g.Role, w.Role), higher(stoa.OperatorRoles, g.OperatorRole, w.OperatorRole)}
	}
	have := map[string]stoa.Member{}
	memberships, err := tx.People().MembershipsOf(ctx, p.ID, MaxMemberships)
	if err != nil {
		return s, err
	}
	ids := slices.Collect(maps.Keys(want))
	for _, of := range memberships {
		have[of.AccountID] = of
		ids = append(ids, of.AccountID)
	}
	slices.Sort(ids) // sorted, so that two transactions lock them in the same order
	for _, id := range slices.Compact(ids) {
		of, is := have[id]
		g, wanted := want[id]
		switch {
		case is && of.Source != stoa.SourceGroup:
		case is:
			err = m.syncOne(ctx, tx, &s, of, g, wanted)
		default:
			err = m.joinByGroup(ctx, tx, p, g)
		}
		if err != nil {
			return s, err
		}
	}
	if len(s.EndedKeys) > 0 {
		err = m.forget(ctx, tx, p.ID)
	}
	return s, err
}

// syncOne changes or removes one membership from groups, and adds to s.
func (m *Members) syncOne(ctx context.Context, tx *store.Tx, s *Synced, of stoa.Member, g Grant, wanted bool) error {
	if err := tx.People().LockMembers(ctx, of.AccountID); err != nil {
		return err
	}
	var last error
	if g.Role != stoa.RoleOwner {
		if last = keepsOwner(ctx, tx, of); last != nil && stoa.CodeOf(last) != stoa.CodeLastOwner {
			return last
		}
	}
	if !wanted && last == nil {
		tx.AuditAutomatic(of.AccountID, "member.removed", of.PersonID, byGroups)
		keys, err := m.remove(ctx, tx, of, false)
		for _, key := range keys {
			s.EndedKeys = append(s.EndedKeys, store.Ref{AccountID: of.AccountID, ID: key})
		}
		return err
	}
	as := of
	as.Role, as.OperatorRole, as.KeptSince = g.Role, g.OperatorRole, time.Time{}
	if last != nil {
		s.Kept = append(s.Kept, of.AccountID)
		as.Role, as.KeptSince = of.Role, of.KeptSince
		if of.KeptSince.IsZero() {
			as.KeptSince = tx.Now
			tx.AuditAutomatic(of.AccountID, "member.kept", of.PersonID, byGroups)
		}
	}
	if of.Role != as.Role || of.OperatorRole != as.OperatorRole {
		tx.AuditAutomatic(of.AccountID, "member.changed", of.PersonID, byGroups)
	}
	lowered := of.OperatorRole != "" && of.OperatorRole != as.OperatorRole && higher(stoa.OperatorRoles, of.OperatorRole, as.OperatorRole) == of.OperatorRole
	if lowered || of.KeptSince.IsZero() && last != nil {
		if err := m.endOperator(ctx, tx, as); err != nil {
			return err
		}
	}
	return m.write(ctx, tx, as)
}

// endOperator ends the sessions of a person who has lost a role by groups, and the person's keys with rights in the
// service that the new roles lack.
func (m *Members) endOperator(ctx context.Context, tx *store.Tx, as stoa.Member) error {
	if err := m.Keys.EndSessionsOf(ctx, tx, as.PersonID); err != nil {
		return err
	}
	keys, err := tx.People().KeysOfMember(ctx, as.AccountID, as.PersonID)
	if err != nil {
		return err
	}
	has := stoa.Key{Scopes: stoa.ScopesOf(as.Role, as.OperatorRole)}
	for _, k := range keys {
		if k.Kind != "" || !slices.ContainsFunc(k.Scopes, func(scope string) bool { return stoa.OfService(scope) && !has.Has(scope) }) {
			continue
		}
		tx.AuditAutomatic(k.AccountID, "key.revoked", k.ID, byGroups)
		k.RevokedAt = tx.Now
		if err := tx.People().UpdateKey(ctx, k); err != nil {
			return err
		}
	}
	m.Keys.ForgetAfter(tx)
	return nil
}

func (m *Members) joinByGroup(ctx context.Context, tx *store.Tx, p stoa.Person, g Grant) error {
	_, err := tx.Books().Account(ctx, g.AccountID)
	if stoa.CodeOf(err) == stoa.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	tx.AuditAutomatic(g.AccountID, "member.added", p.ID, byGroups)
	return m.join(ctx, tx, p, stoa.Member{AccountID: g.AccountID, Role: g.Role, OperatorRole: g.OperatorRole, Source: stoa.SourceGroup})
}

// byGroups is the reason in the audit log for changes by groups.
const byGroups = "groups"
