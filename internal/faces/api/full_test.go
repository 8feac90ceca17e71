package api_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// TestAFullDiskIsSaidToBeFull fills the store and sends requests until no space is
// left. Rejected requests change nothing: the books still balance.
func TestAFullDiskIsSaidToBeFull(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the pages
	h := start(t, apitest.Config{})
	c := h.Client(t)
	var acme contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "a"}).JSON(&acme)
	keys, accounts := []string{}, []string{acme.ID}
	var people, invited []string
	for range 80 {
		people = append(people, h.NewMember(h.Account.ID, "viewer", "").PersonID)
		var i contract.InvitationWithLink
		c.Want(201, "POST", membersPath, object{"role": "viewer"}).JSON(&i)
		invited = append(invited, i.ID)
	}
	for i := range 180 {
		var k contract.KeyWithSecret
		c.Want(201, "POST", "/api/v1/keys", object{"name": "k", "scopes": []string{"responses"}}).JSON(&k)
		keys = append(keys, k.ID)
		if i >= 60 {
			continue
		}
		var a contract.AccountWithKey
		c.Want(201, "POST", "/api/v1/accounts", object{"name": "a"}).JSON(&a)
		accounts = append(accounts, a.ID)
	}
	var budgets []string
	for i := range 100 {
		budgets = append(budgets, newBudget(t, c, object{"scope": "end_user", "subject": fmt.Sprint(i), "period": "total", "limitMicro": 1}).ID)
	}
	err := h.Store.Write(context.Background(), func(tx *store.Tx) error { // no page more than there are
		return tx.Query(context.Background(), func(*sql.Rows) error { return nil }, "PRAGMA max_page_count = 1")
	})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 200)
	until := func(name string, ask func(i int) *apitest.Reply) {
		t.Helper()
		for i := range 300 {
			if r := ask(i); r.Status == 507 {
				if r.Error().Retryable != (r.Header.Get("Retry-After") != "") {
					t.Errorf("%s: a full disk is worth a retry only when the reply says when", name)
				}
				return
			}
		}
		t.Errorf("%s: the disk never became full", name)
	}
	until("createKey", func(int) *apitest.Reply { return c.Do("POST", "/api/v1/keys", object{"name": long}) })
	until("createAccount", func(int) *apitest.Reply { return c.Do("POST", "/api/v1/accounts", object{"name": long}) })
	until("createAccountKey", func(int) *apitest.Reply {
		return c.Do("POST", "/api/v1/accounts/"+acme.ID+"/keys", object{"name": long})
	})
	until("inviteMember", func(int) *apitest.Reply { return c.Do("POST", membersPath, object{"role": "viewer", "name": long}) })
	until("inviteAccountMember", func(int) *apitest.Reply {
		return c.Do("POST", "/api/v1/accounts/"+acme.ID+"/members", object{"role": "viewer", "name": long})
	})
	until("inviteAccount", func(int) *apitest.Reply {
		return c.Do("POST", "/api/v1/accounts/invitations", object{"accountName": long, "name": long})
	})
	until("createWithdrawal", func(i int) *apitest.Reply {
		return c.Do("POST", "/api/v1/accounts/"+acme.ID+"/withdrawals", object{"amountMicro": 1, "reason": long, "externalRef": fmt.Sprint("w", i)})
	})
	until("createSignInLink", func(i int) *apitest.Reply {
		return c.Do("POST", membersPath+"/"+people[i%len(people)]+"/link", nil)
	})
	until("renewInvitation", func(i int) *apitest.Reply {
		return c.Do("POST", invitationsPath+"/"+invited[i%len(invited)]+"/link", nil)
	})
	until("revokeInvitation", func(i int) *apitest.Reply { return c.Do("DELETE", invitationsPath+"/"+invited[i%len(invited)], nil) })
	until("updateMember", func(i int) *apitest.Reply {
		return c.Do("PATCH", membersPath+"/"+people[i%len(people)], object{"role": []string{"viewer", "member"}[i/len(people)%2]})
	})
	until("removeMember", func(i int) *apitest.Reply { return c.Do("DELETE", membersPath+"/"+people[i%len(people)], nil) })
	until("revokeKey", func(i int) *apitest.Reply { return c.Do("DELETE", "/api/v1/keys/"+keys[i%120], nil) })
	keys = keys[120:]
	until("rotateKey", func(i int) *apitest.Reply {
		return c.Do("POST", "/api/v1/keys/"+keys[i%len(keys)]+"/rotate", object{"overlapSeconds": 100})
	})
	until("createGrant", func(int) *apitest.Reply {
		return c.Do("POST", "/api/v1/accounts/"+acme.ID+"/grants", object{"amountMicro": 1, "reason": long})
	})
	until("updateKey", func(i int) *apitest.Reply {
		return c.Do("PATCH", "/api/v1/keys/"+keys[i%len(keys)], object{"name": long})
	})
	until("updateAccount", func(i int) *apitest.Reply {
		return c.Do("PATCH", "/api/v1/accounts/"+accounts[i%len(accounts)], object{"name": long})
	})
	until("updateBudget", func(i int) *apitest.Reply {
		return c.Do("PATCH", budgetsPath+"/"+budgets[i%50], object{"notifyAt": []int{91, 92, 93, 94, 95, 96, 97, 98}})
	})
	until("deleteBudget", func(i int) *apitest.Reply { return c.Do("DELETE", budgetsPath+"/"+budgets[50+i%50], nil) })
	until("createBudget", func(i int) *apitest.Reply {
		return c.Do("POST", budgetsPath, object{"scope": "end_user", "subject": fmt.Sprint(long, i), "period": "total", "limitMicro": 1})
	})
	until("createAccountBudget", func(i int) *apitest.Reply {
		return c.Do("POST", "/api/v1/accounts/"+acme.ID+"/budgets", object{"scope": "end_user", "subject": fmt.Sprint(long, i), "period": "total", "limitMicro": 1})
	})
	until("eraseEndUser", func(i int) *apitest.Reply { return c.Do("DELETE", "/api/v1/end-users/"+fmt.Sprint(long, i), nil) })
	until("deleteAccount", func(i int) *apitest.Reply { return c.Do("DELETE", "/api/v1/accounts/"+accounts[i%len(accounts)], nil) })
	until("createResponse", func(int) *apitest.Reply {
		return c.Do("POST", "/api/v1/responses", object{"model": "auto", "input": "say: hi", "user": long})
	})
	var books contract.Reconciliation
	c.Want(200, "GET", "/api/v1/usage/reconcile", nil).JSON(&books)
	if !books.Balanced || books.HeldMicro != 0 {
		t.Errorf("the books are %+v", books)
	}
}
