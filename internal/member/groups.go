package member

import (
	"context"
	"maps"
	"slices"

	"stoa/internal/stoa"
	"stoa/internal/store"
)

// A Grant is a membership that a group of an identity provider gives. An empty AccountID means
// the account of the service's operator.
type Grant struct{ AccountID, Role, OperatorRole string }

// Sync changes the memberships of a person that groups decide to those of the grants, the highest
// role of each account. Memberships by invitation stay as they are, and so does the last owner
// of an account. It returns the keys that ended, with their accounts: the caller ends what they
// created. A grant for an account that does not exist has no effect.
func (m *Members) Sync(ctx context.Context, tx *store.Tx, p stoa.Person, grants []Grant) (endedKeys []store.Ref, err error) {
	operators, err := tx.OwnerAccount(ctx)
	if err != nil {
		return nil, err
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
	memberships, err := tx.MembershipsOf(ctx, p.ID, MaxMemberships)
	if err != nil {
		return nil, err
	}
	ids := slices.Collect(maps.Keys(want))
	for _, of := range memberships {
		have[of.AccountID] = of
		ids = append(ids, of.AccountID)
	}
	slices.Sort(ids) // so that two transactions lock them in the same order
	for _, id := range slices.Compact(ids) {
		of, is := have[id]
		g, wanted := want[id]
		var keys []string
		switch {
		case is && of.Source != stoa.SourceGroup:
		case is:
			keys, err = m.syncOne(ctx, tx, of, g, wanted)
		default:
			err = m.joinByGroup(ctx, tx, p, g)
		}
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			endedKeys = append(endedKeys, store.Ref{AccountID: id, ID: key})
		}
	}
	if len(endedKeys) > 0 {
		err = m.forget(ctx, tx, p.ID)
	}
	return endedKeys, err
}

// syncOne changes or removes a membership that groups decide, and returns the keys that ended.
func (m *Members) syncOne(ctx context.Context, tx *store.Tx, of stoa.Member, g Grant, wanted bool) (endedKeys []string, err error) {
	if err := tx.LockMembers(ctx, of.AccountID); err != nil {
		return nil, err
	}
	if g.Role != stoa.RoleOwner {
		err := keepsOwner(ctx, tx, of)
		if stoa.CodeOf(err) == stoa.CodeLastOwner {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	if !wanted {
		tx.AuditAutomatic(of.AccountID, "member.removed", of.PersonID, byGroups)
		return m.remove(ctx, tx, of, false)
	}
	if of.Role != g.Role || of.OperatorRole != g.OperatorRole {
		tx.AuditAutomatic(of.AccountID, "member.changed", of.PersonID, byGroups)
		of.Role, of.OperatorRole = g.Role, g.OperatorRole
	}
	return nil, m.write(ctx, tx, of)
}

// joinByGroup makes a person a member, if the account exists.
func (m *Members) joinByGroup(ctx context.Context, tx *store.Tx, p stoa.Person, g Grant) error {
	_, err := tx.Account(ctx, g.AccountID)
	if stoa.CodeOf(err) == stoa.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	tx.AuditAutomatic(g.AccountID, "member.added", p.ID, byGroups)
	return m.join(ctx, tx, p, stoa.Member{AccountID: g.AccountID, Role: g.Role, OperatorRole: g.OperatorRole, Source: stoa.SourceGroup})
}

// byGroups is the reason, in the audit log, of changes by the groups of a person.
const byGroups = "groups"
