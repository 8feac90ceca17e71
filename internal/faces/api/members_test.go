package api_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"stoa/internal/base/auth"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/api"
	"stoa/internal/operate/member"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

const (
	membersPath     = "/api/v1/members"
	invitationsPath = "/api/v1/invitations"
)

// asMember returns a client that acts as a member: with the key of the member, to which it gives
// a secret.
func asMember(t *testing.T, h *apitest.Service, personID string) *apitest.Client {
	t.Helper()
	secret, spare := h.NewKey(h.Account.ID, "responses")
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		m, err := tx.People().Member(t.Context(), h.Account.ID, personID)
		if err != nil {
			return err
		}
		_, err = tx.Exec(t.Context(), `UPDATE keys SET hash = hash || '-' WHERE id = $1`, spare.ID)
		if err == nil {
			_, err = tx.Exec(t.Context(), `UPDATE keys SET hash = (SELECT substr(hash, 1, 64) FROM keys WHERE id = $1) WHERE id = $2`, spare.ID, m.KeyID)
		}
		h.Keys.ForgetAfter(tx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return h.ClientWith(t, secret)
}

func TestInvitations(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: func(s *api.Server) { s.PublicURL = "https://stoa.example.com" }})
	c := h.Client(t)
	var made contract.InvitationWithLink
	c.Want(201, "POST", membersPath, object{"role": "owner", "operatorRole": "admin", "name": "Ada"}).JSON(&made)
	token, ok := strings.CutPrefix(made.Link, "https://stoa.example.com/join#")
	if !ok || !strings.HasPrefix(token, "inv_") || made.Role != "owner" || orNone(made.OperatorRole) != "admin" || orNone(made.Name) != "Ada" {
		t.Errorf("the invitation is %+v", made)
	}
	var list contract.InvitationList
	body := c.Want(200, "GET", invitationsPath, nil)
	if body.JSON(&list); len(list.Data) != 1 || list.Data[0].ID != made.ID || strings.Contains(string(body.Body), token) {
		t.Errorf("the list is %s", body.Body)
	}
	for _, e := range auditLog(t, h, h.Account.ID) {
		if strings.Contains(e.After, token) {
			t.Errorf("the audit log has the token: %+v", e)
		}
	}
	if got := list.Data[0].CreatedByName; got == "" {
		t.Error("the list does not name the key that invited")
	}
	// A new link ends the earlier one.
	before := token
	c.Want(201, "POST", invitationsPath+"/"+made.ID+"/link", nil).JSON(&made)
	_, token, _ = strings.Cut(made.Link, "#")
	if err := accept(t, h, before); stoa.CodeOf(err) != stoa.CodeInvitationEnded || token == before || made.ID != list.Data[0].ID || orNone(made.Name) != "Ada" {
		t.Errorf("after a new link, %+v, the earlier one: %v", made, err)
	}
	for _, e := range auditLog(t, h, h.Account.ID) {
		if strings.Contains(e.After, token) {
			t.Errorf("the audit log has the new token: %+v", e)
		}
	}
	c.Want(204, "DELETE", invitationsPath+"/"+made.ID, nil)
	c.WantError(stoa.CodeNotFound, "DELETE", invitationsPath+"/"+made.ID, nil)
	c.WantError(stoa.CodeNotFound, "POST", invitationsPath+"/"+made.ID+"/link", nil)
	if err := accept(t, h, token); stoa.CodeOf(err) != stoa.CodeInvitationEnded {
		t.Errorf("a revoked invitation: %v", err)
	}
	c.Want(201, "POST", membersPath, object{"role": "viewer"}).JSON(&made)
	_, token, _ = strings.Cut(made.Link, "#")
	var all sync.WaitGroup
	var joined atomic.Int32
	for range 2 {
		all.Go(func() {
			if err := accept(t, h, token); err == nil {
				joined.Add(1)
			} else if stoa.CodeOf(err) != stoa.CodeInvitationEnded {
				t.Error(err)
			}
		})
	}
	if all.Wait(); joined.Load() != 1 {
		t.Errorf("%d have accepted one invitation", joined.Load())
	}
	c.WantError(stoa.CodeInvitationEnded, "DELETE", invitationsPath+"/"+made.ID, nil)
	c.WantError(stoa.CodeInvitationEnded, "POST", invitationsPath+"/"+made.ID+"/link", nil)
	if c.Want(200, "GET", invitationsPath, nil).JSON(&list); len(list.Data) != 0 {
		t.Errorf("an accepted invitation is open: %+v", list.Data)
	}
	var members contract.MemberList
	c.Want(200, "GET", membersPath, nil).JSON(&members)
	if m := members.Data[0]; len(members.Data) != 1 || m.Role != "viewer" || m.Source != "invited" || !m.Issuer.IsNull() {
		t.Errorf("the members are %+v", members.Data)
	}
	var keys contract.KeyList
	if c.Want(200, "GET", "/api/v1/keys", nil).JSON(&keys); len(keys.Data) != 1 {
		t.Errorf("the key of a member is listed: %+v", keys.Data)
	}
	c.WantError(stoa.CodeNotFound, "GET", "/api/v1/keys/"+members.Data[0].KeyID, nil)
	c.WantError(stoa.CodeNotFound, "DELETE", "/api/v1/keys/"+members.Data[0].KeyID, nil)

	// A new link and a revocation require what the invitation requires.
	secret, _ := h.NewKey(h.Account.ID, stoa.ScopeAccountRead, stoa.ScopeAccountWrite)
	narrow := h.ClientWith(t, secret)
	c.Want(201, "POST", membersPath, object{"role": "owner", "operatorRole": "admin"}).JSON(&made)
	narrow.WantError(stoa.CodeScope, "POST", invitationsPath+"/"+made.ID+"/link", nil)
	narrow.WantError(stoa.CodeScope, "DELETE", invitationsPath+"/"+made.ID, nil)
	c.Want(201, "POST", "/api/v1/accounts/invitations", object{"accountName": "Acme"}).JSON(&made)
	narrow.WantError(stoa.CodeScope, "POST", invitationsPath+"/"+made.ID+"/link", nil)
	narrow.WantError(stoa.CodeScope, "DELETE", invitationsPath+"/"+made.ID, nil)
	c.Want(201, "POST", invitationsPath+"/"+made.ID+"/link", nil)
	c.Want(204, "DELETE", invitationsPath+"/"+made.ID, nil)
}

// accept accepts an invitation as a new person.
func accept(t *testing.T, h *apitest.Service, token string) error {
	members := member.Members{Keys: h.Keys}
	return h.Store.Write(t.Context(), func(tx *store.Tx) error {
		i, _, err := members.Find(t.Context(), tx, token)
		if err != nil {
			return err
		}
		p, err := tx.People().PersonOf(t.Context(), stoa.Person{Name: i.Name})
		if err == nil {
			_, err = members.Accept(t.Context(), tx, auth.Hash(token), p)
		}
		return err
	})
}

func TestRolesHaveBounds(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	var customer contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "Customer"}).JSON(&customer)
	invite := "/api/v1/accounts/" + customer.ID + "/members"
	if e := c.WantError(stoa.CodeInvalidValue, "POST", invite, object{"role": "owner", "operatorRole": "support"}); e.Param == nil || *e.Param != "operatorRole" {
		t.Errorf("an operator role in another account: %+v", e)
	}
	c.Want(201, "POST", invite, object{"role": "owner"})
	c.WantError(stoa.CodeNotFound, "POST", "/api/v1/accounts/acc_none/members", object{"role": "owner"})
	c.WantError(stoa.CodeInvalidValue, "POST", invite, object{"role": "king"})

	owner := h.NewMember(h.Account.ID, "owner", "")
	admin := h.NewMember(h.Account.ID, "owner", "admin")
	as := asMember(t, h, owner.PersonID)
	as.Want(201, "POST", membersPath, object{"role": "owner"})
	for _, role := range stoa.OperatorRoles {
		if e := as.WantError(stoa.CodeScope, "POST", membersPath, object{"role": "viewer", "operatorRole": role}); *e.Param != "operatorRole" {
			t.Errorf("an owner gives %s: %+v", role, e)
		}
	}
	as.WantError(stoa.CodeScope, "PATCH", membersPath+"/"+owner.PersonID, object{"operatorRole": "admin"})
	as.WantError(stoa.CodeScope, "PATCH", membersPath+"/"+admin.PersonID, object{"operatorRole": nil})
	as.WantError(stoa.CodeScope, "DELETE", membersPath+"/"+admin.PersonID, nil)
	as.WantError(stoa.CodeScope, "POST", membersPath+"/"+admin.PersonID+"/link", nil)
	narrow, _ := h.NewKey(h.Account.ID, "account:write", "usage:read")
	if e := h.ClientWith(t, narrow).WantError(stoa.CodeScope, "POST", membersPath, object{"role": "viewer"}); *e.Param != "role" {
		t.Errorf("a narrow key gives a role: %+v", e)
	}
	// An operator for money may change the plan alone, and reads everything.
	billing := asMember(t, h, h.NewMember(h.Account.ID, "viewer", "billing").PersonID)
	account := "/api/v1/accounts/" + customer.ID
	billing.Want(200, "PATCH", account, object{"plan": "pro"})
	billing.Want(201, "POST", account+"/grants", object{"amountMicro": 5})
	billing.Want(201, "POST", invite, object{"role": "owner"})
	for name, value := range map[string]any{"name": "x", "email": "a@example.com", "suspended": true} {
		if e := billing.WantError(stoa.CodeScope, "PATCH", account, object{name: value}); *e.Param != name {
			t.Errorf("%s: %+v", name, e)
		}
	}
	// It invites the first owner of an account, and nobody who would share what an owner has, or what a
	// customer without one has made with a key.
	var handed contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "Handed"}).JSON(&handed)
	billing.Want(201, "POST", "/api/v1/accounts/"+handed.ID+"/members", object{"role": "owner"})
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error { return tx.People().TouchKey(t.Context(), handed.Key.ID, tx.Now) }); err != nil {
		t.Fatal(err)
	}
	billing.WantError(stoa.CodeScope, "POST", "/api/v1/accounts/"+handed.ID+"/members", object{"role": "owner"})
	var second contract.InvitationWithLink
	billing.Want(201, "POST", invite, object{"role": "owner"}).JSON(&second)
	h.NewMember(customer.ID, "owner", "")
	for _, role := range stoa.Roles {
		if e := billing.WantError(stoa.CodeScope, "POST", invite, object{"role": role}); *e.Param != "role" {
			t.Errorf("billing invites %s: %+v", role, e)
		}
	}
	if err := accept(t, h, strings.TrimPrefix(second.Link, h.URL+"/join#")); stoa.CodeOf(err) != stoa.CodeInvitationEnded {
		t.Errorf("an invitation of billing makes a second owner: %v", err)
	}
	c.Want(201, "POST", invite, object{"role": "owner"}).JSON(&second)
	if err := accept(t, h, strings.TrimPrefix(second.Link, h.URL+"/join#")); err != nil {
		t.Errorf("an invitation of admin: %v", err)
	}
	support := asMember(t, h, h.NewMember(h.Account.ID, "viewer", "support").PersonID)
	support.Want(200, "GET", "/api/v1/requests?accountId="+customer.ID, nil)
	support.WantError(stoa.CodeScope, "POST", account+"/grants", object{"amountMicro": 5})
	// A role of the operator can be given within the account of the operator only.
	c.Want(200, "PATCH", membersPath+"/"+owner.PersonID, object{"operatorRole": "support"})
	c.Want(200, "PATCH", membersPath+"/"+owner.PersonID, object{"operatorRole": nil})
	c.Want(200, "GET", membersPath+"?accountId="+customer.ID, nil)
	c.Want(200, "GET", invitationsPath+"?accountId="+customer.ID, nil)
	as.WantError(stoa.CodeScope, "GET", membersPath+"?accountId="+customer.ID, nil)
}

// TestTheLastOwnerStays lets two owners lower or remove each other concurrently.
func TestTheLastOwnerStays(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited})
	c := h.Client(t)
	one := h.NewMember(h.Account.ID, "owner", "")
	c.WantError(stoa.CodeLastOwner, "DELETE", membersPath+"/"+one.PersonID, nil)
	c.WantError(stoa.CodeLastOwner, "PATCH", membersPath+"/"+one.PersonID, object{"role": "member"})
	for i := range 4 {
		two := h.NewMember(h.Account.ID, "owner", "")
		var all sync.WaitGroup
		var refused atomic.Int32
		for n, m := range []store.MemberRow{one, two} {
			all.Go(func() {
				r := c.Do("PATCH", membersPath+"/"+m.PersonID, object{"role": "viewer"})
				if (i+n)%2 == 0 {
					r = c.Do("DELETE", membersPath+"/"+m.PersonID, nil)
				}
				if r.Status == 409 && r.Error().Code == string(stoa.CodeLastOwner) {
					refused.Add(1)
				}
			})
		}
		all.Wait()
		var list contract.MemberList
		c.Want(200, "GET", membersPath+"?limit=100", nil).JSON(&list)
		owners := slices.DeleteFunc(list.Data, func(m contract.Member) bool { return m.Role != "owner" })
		if len(owners) != 1 || refused.Load() == 0 {
			t.Fatalf("%d owners are left, and %d changes were refused", len(owners), refused.Load())
		}
		one.PersonID = owners[0].ID
	}
}

func TestMembersManageTheirOwnKeys(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	m := h.NewMember(h.Account.ID, "member", "")
	as := asMember(t, h, m.PersonID)
	var own, child contract.KeyWithSecret
	as.Want(201, "POST", "/api/v1/keys", object{"name": "mine", "scopes": []string{"responses", "keys:write"}}).JSON(&own)
	made := h.ClientWith(t, own.Secret)
	made.Want(201, "POST", "/api/v1/keys", object{"name": "child"}).JSON(&child)
	_, other := h.NewKey(h.Account.ID, "responses")
	var list contract.KeyList
	for who, c := range map[string]*apitest.Client{"the member": as, "a key of the member": made} {
		c.Want(200, "GET", "/api/v1/keys", nil).JSON(&list)
		if len(list.Data) != 2 || list.Data[0].ID != child.ID || list.Data[1].ID != own.ID || orNone(list.Data[0].MemberID) != m.PersonID {
			t.Errorf("%s sees the keys %+v", who, list.Data)
		}
		for _, request := range []struct {
			method, path string
			body         any
		}{{"GET", "", nil}, {"PATCH", "", object{"name": "x"}}, {"DELETE", "", nil}, {"POST", "/rotate", nil}} {
			c.WantError(stoa.CodeNotFound, request.method, "/api/v1/keys/"+other.ID+request.path, request.body)
		}
	}
	as.WantError(stoa.CodeScope, "POST", "/api/v1/keys", object{"name": "wide", "scopes": []string{"secrets:write"}})
	as.Want(200, "PATCH", "/api/v1/keys/"+child.ID, object{"name": "x"})
	var next contract.KeyWithSecret
	as.Want(201, "POST", "/api/v1/keys/"+own.ID+"/rotate", object{"overlapSeconds": 0}).JSON(&next)
	h.ClientWith(t, next.Secret).Want(200, "GET", "/api/v1/keys/"+child.ID, nil)
	c.Want(200, "GET", "/api/v1/keys?limit=100", nil).JSON(&list)
	if len(list.Data) < 5 {
		t.Errorf("an owner sees %d keys", len(list.Data))
	}
	// A call of the member is charged to the member's key.
	as.Want(200, "POST", responses, body{"model": "auto", "input": "say: x"})
	var receipts contract.ReceiptList
	c.Want(200, "GET", "/api/v1/receipts?keyId="+m.KeyID, nil).JSON(&receipts)
	if len(receipts.Data) != 1 {
		t.Errorf("the receipts are %+v", receipts.Data)
	}
}

func TestALoweredRoleNarrowsKeys(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	m := h.NewMember(h.Account.ID, "owner", "")
	h.NewMember(h.Account.ID, "owner", "")
	as := asMember(t, h, m.PersonID)
	var all, call contract.KeyWithSecret
	as.Want(201, "POST", "/api/v1/keys", object{"name": "all", "scopes": []string{"*"}}).JSON(&all)
	as.Want(201, "POST", "/api/v1/keys", object{"name": "call", "scopes": []string{"responses"}}).JSON(&call)
	h.Client(t).Want(200, "PATCH", membersPath+"/"+m.PersonID, object{"role": "viewer"})
	as.Want(200, "GET", "/api/v1/usage", nil)
	as.WantError(stoa.CodeScope, "GET", "/api/v1/keys", nil)
	h.ClientWith(t, all.Secret).Want(200, "GET", "/api/v1/usage", nil)
	h.ClientWith(t, all.Secret).WantError(stoa.CodeScope, "GET", "/api/v1/keys", nil)
	h.ClientWith(t, call.Secret).WantError(stoa.CodeUnauthorized, "GET", "/api/v1/users/me", nil)
	h.Client(t).Want(200, "PATCH", membersPath+"/"+m.PersonID, object{"role": "owner"})
	as.Want(200, "GET", "/api/v1/keys", nil)
	h.ClientWith(t, all.Secret).WantError(stoa.CodeScope, "GET", "/api/v1/keys", nil)
}

func TestARemovedMember(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep=", keep), func(t *testing.T) {
			t.Parallel()
			h := start(t, apitest.Config{})
			c := h.Client(t)
			m := h.NewMember(h.Account.ID, "member", "")
			as := asMember(t, h, m.PersonID)
			var key contract.KeyWithSecret
			as.Want(201, "POST", "/api/v1/keys", object{"name": "k"}).JSON(&key)
			made := h.ClientWith(t, key.Secret)
			tasks := map[string]string{} // by who created them
			for who, c := range map[string]*apitest.Client{"the member": as, "a key": made} {
				a := newAuthor(t, h, c, nil)
				task, _ := newTask(t, a, object{"schedule": object{"type": "interval", "everySeconds": 86400}})
				tasks[who] = a.agent + "/scheduled-tasks/" + task.ID
			}
			query := "?keys=keep"
			if !keep {
				query = ""
			}
			c.Want(204, "DELETE", membersPath+"/"+m.PersonID+query, nil)
			c.WantError(stoa.CodeNotFound, "GET", membersPath+"/"+m.PersonID, nil)
			c.WantError(stoa.CodeNotFound, "DELETE", membersPath+"/"+m.PersonID, nil)
			as.WantError(stoa.CodeUnauthorized, "GET", "/api/v1/users/me", nil)
			for who, path := range tasks {
				var task contract.ScheduledTask
				if c.Want(200, "GET", path, nil).JSON(&task); task.Enabled != keep {
					t.Errorf("the task of %s: enabled is %v", who, task.Enabled)
				}
			}
			if !keep {
				made.WantError(stoa.CodeUnauthorized, "GET", "/api/v1/users/me", nil)
				return
			}
			_, other := h.NewKey(h.Account.ID, "responses")
			made.Want(200, "GET", "/api/v1/keys/"+other.ID, nil) // the key belongs to the account
		})
	}
}

func TestSignInLinks(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	m := h.NewMember(h.Account.ID, "member", "")
	var first, second contract.SignInLink
	c.Want(201, "POST", membersPath+"/"+m.PersonID+"/link", nil).JSON(&first)
	c.Want(201, "POST", membersPath+"/"+m.PersonID+"/link", nil).JSON(&second)
	_, ended, _ := strings.Cut(first.Link, "/join#")
	if err := accept(t, h, ended); stoa.CodeOf(err) != stoa.CodeInvitationEnded {
		t.Errorf("an earlier link: %v", err)
	}
	_, token, _ := strings.Cut(second.Link, "/join#")
	if err := accept(t, h, token); err != nil {
		t.Error(err)
	}
	var members contract.MemberList
	if c.Want(200, "GET", membersPath, nil).JSON(&members); len(members.Data) != 1 || second.ID != m.PersonID {
		t.Errorf("a sign-in link makes a member: %+v", members.Data)
	}
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(t.Context(), `UPDATE people SET issuer = 'https://id.example.com' WHERE id = $1`, m.PersonID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c.WantError(stoa.CodeConflict, "POST", membersPath+"/"+m.PersonID+"/link", nil)
	for _, path := range []string{membersPath, "/api/v1/accounts/" + h.Account.ID + "/members"} {
		once := c.With("Idempotency-Key", path)
		once.Want(201, "POST", path, object{"role": "member"})
		once.WantError(stoa.CodeIdempotencyReused, "POST", path, object{"role": "viewer"})
	}
	c.WantError(stoa.CodeNotFound, "POST", membersPath+"/per_none/link", nil)
}

func TestMembersAndInvitationsAreLimited(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited})
	c := h.Client(t)
	for range store.MaxInvitations {
		c.Want(201, "POST", membersPath, object{"role": "viewer"})
	}
	c.WantError(stoa.CodeLimitReached, "POST", membersPath, object{"role": "viewer"})
	c.WantError(stoa.CodeLimitReached, "POST", "/api/v1/accounts/invitations", object{"accountName": "Acme"})
	c.WantError(stoa.CodeLimitReached, "POST", "/api/v1/accounts/"+h.Account.ID+"/members", object{"role": "viewer"})
	other := storetest.Account(t, h.Store, stoa.Credit).ID
	ctx := t.Context()
	err := h.Store.Write(ctx, func(tx *store.Tx) error {
		for range store.MaxMembers + 1 {
			p, err := tx.People().PersonOf(ctx, stoa.Person{})
			if err != nil {
				return err
			}
			if err := tx.People().InsertMember(ctx, stoa.Member{AccountID: other, PersonID: p.ID, Role: "viewer", Source: "invited"}); err != nil {
				return err
			}
		}
		return errors.New("more members than the limit")
	})
	if stoa.CodeOf(err) != stoa.CodeLimitReached {
		t.Error(err)
	}
}
