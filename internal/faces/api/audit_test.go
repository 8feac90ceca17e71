package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"stoa/internal/base/audit"
	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// auditLog returns all audit rows of a chain.
func auditLog(t *testing.T, h *apitest.Service, account string) (rows []audit.Entry) {
	t.Helper()
	if err := h.Store.Read(t.Context(), func(tx *store.Tx) (err error) {
		_, rows, err = tx.People().AuditRows(t.Context(), account, 0, 10_000)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestEveryChangeHasARule: each operation that is not a GET is recorded or exempt.
func TestEveryChangeHasARule(t *testing.T) {
	t.Parallel()
	rules, exempt := (&api.Server{}).AuditRules()
	routes := api.RoutesForTest()
	for pattern := range routes {
		_, is := rules[pattern]
		reason, not := exempt[pattern]
		switch {
		case strings.HasPrefix(pattern, "GET "):
			if is || not {
				t.Errorf("%s reads, and has a rule of the audit log", pattern)
			}
		case is == not, not && reason == "":
			t.Errorf("%s must be recorded in the audit log, or be exempt with a reason", pattern)
		}
	}
	for pattern := range rules {
		if _, ok := routes[pattern]; !ok {
			t.Errorf("%s has a rule and no route", pattern)
		}
	}
	for pattern := range exempt {
		if _, ok := routes[pattern]; !ok {
			t.Errorf("%s is exempt and has no route", pattern)
		}
	}
}

// TestEveryChangeIsAudited makes each change that the audit log records, and expects one row.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	s := newOAuth(t, nil)
	h, c := s.harness, s.Client
	server := newToolServer(t, readTool)
	account := h.Account.ID
	seen := map[string]bool{}
	// step makes a request and expects its one row in the chain of an account. It returns
	// the id of the object.
	step := func(in, action string, status int, method, path string, body any) string {
		t.Helper()
		var before int64
		if rows := auditLog(t, h, in); len(rows) > 0 {
			before = rows[len(rows)-1].Seq
		}
		r := c.Want(status, method, path, body)
		var rows []audit.Entry
		for _, e := range auditLog(t, h, in) {
			if e.Seq > before && e.Actor != audit.Service {
				rows = append(rows, e)
			}
		}
		if len(rows) != 1 {
			t.Fatalf("%s %s has %d rows: %+v", method, path, len(rows), rows)
		}
		e := rows[0]
		seen[action] = true
		if e.Action != action || e.RequestID != r.Header.Get("x-request-id") || e.Object == "" || !strings.HasPrefix(e.Actor, "key_") || e.Address != "" {
			t.Errorf("%s %s is recorded as %+v", method, path, e)
		}
		if deleted := method == "DELETE" && !strings.Contains(path, "/keys/") && !strings.Contains(path, "/embed-urls/") && !strings.Contains(path, "/embed-sessions/") && !strings.Contains(path, "/skills/"); (e.After == "") != deleted || !json.Valid([]byte(e.After)) && !deleted {
			t.Errorf("%s %s: after is %q", method, path, e.After)
		}
		if e.Before != "" && (!json.Valid([]byte(e.Before)) || e.Before == e.After) {
			t.Errorf("%s %s: %q becomes %q", method, path, e.Before, e.After)
		}
		return e.Object
	}
	do := func(action string, status int, method, path string, body any) string {
		t.Helper()
		return step(account, action, status, method, path, body)
	}
	const v1 = "/api/v1"

	other := "acc_" // an operator's changes are in the chain of the account
	var made contract.AccountWithKey
	c.Want(201, "POST", v1+"/accounts", object{"name": "Customer"}).JSON(&made)
	other = made.ID
	if rows := auditLog(t, h, other); len(rows) != 1 || rows[0].Action != "createAccount" || rows[0].Object != other || strings.Contains(rows[0].After, made.Key.Secret) {
		t.Errorf("a new account has the rows %+v", rows)
	}
	seen["createAccount"] = true
	step(other, "updateAccount", 200, "PATCH", v1+"/accounts/"+other, object{"name": "Renamed"})
	step(other, "createGrant", 201, "POST", v1+"/accounts/"+other+"/grants", object{"amountMicro": 5})
	step(other, "createWithdrawal", 201, "POST", v1+"/accounts/"+other+"/withdrawals", object{"amountMicro": 2, "externalRef": "w"})
	key := step(other, "createAccountKey", 201, "POST", v1+"/accounts/"+other+"/keys", object{"name": "k"})
	step(other, "updateKey", 200, "PATCH", v1+"/keys/"+key, object{"name": "l"})
	theirs := step(other, "createAccountBudget", 201, "POST", v1+"/accounts/"+other+"/budgets", object{"scope": "account", "period": "total", "limitMicro": 5})
	step(other, "updateBudget", 200, "PATCH", v1+"/budgets/"+theirs, object{"limitMicro": 6})
	step(other, "deleteBudget", 204, "DELETE", v1+"/budgets/"+theirs, nil)

	key = do("createKey", 201, "POST", v1+"/keys", object{"name": "k", "scopes": []string{"responses"}})
	do("rotateKey", 201, "POST", v1+"/keys/"+key+"/rotate", object{"overlapSeconds": 3600})
	do("revokeKey", 204, "DELETE", v1+"/keys/"+key, nil)
	budget := do("createBudget", 201, "POST", v1+"/budgets", object{"scope": "account", "period": "total", "limitMicro": 5_000_000_000})
	do("updateBudget", 200, "PATCH", v1+"/budgets/"+budget, object{"limitMicro": 6_000_000_000})
	do("deleteBudget", 204, "DELETE", v1+"/budgets/"+budget, nil)

	do("createPayment", 201, "POST", v1+"/payments", object{"pack": "small"})

	person := h.NewMember(account, "owner", "").PersonID
	h.NewMember(account, "owner", "")
	invitation := do("inviteMember", 201, "POST", v1+"/members", object{"role": "viewer"})
	do("renewInvitation", 201, "POST", v1+"/invitations/"+invitation+"/link", nil)
	do("revokeInvitation", 204, "DELETE", v1+"/invitations/"+invitation, nil)
	do("inviteAccount", 201, "POST", v1+"/accounts/invitations", object{"accountName": "New"})
	step(other, "inviteAccountMember", 201, "POST", v1+"/accounts/"+other+"/members", object{"role": "owner"})
	do("createSignInLink", 201, "POST", v1+"/members/"+person+"/link", nil)
	do("updateMember", 200, "PATCH", v1+"/members/"+person, object{"role": "member"})
	do("removeMember", 204, "DELETE", v1+"/members/"+person, nil)

	space := do("createSpace", 201, "POST", v1+"/spaces", object{"name": "s"})
	do("updateSpace", 200, "PATCH", v1+"/spaces/"+space, object{"name": "t"})
	do("deleteSpace", 204, "DELETE", v1+"/spaces/"+space, nil)

	secret := do("createSecret", 201, "POST", v1+"/secrets", object{"name": "key", "kind": "bearer", "value": "correct-horse", "origin": server.url})
	do("setSecretValue", 200, "PUT", v1+"/secrets/"+secret+"/value", object{"value": "battery-staple"})
	do("deleteSecret", 204, "DELETE", v1+"/secrets/"+secret, nil)

	connection := v1 + "/connections/" + do("createConnection", 201, "POST", v1+"/connections", object{"kind": "mcp", "name": "shop", "url": server.url})
	do("updateConnection", 200, "PATCH", connection, object{"headers": object{"X-Team": "docs"}})
	c.Want(200, "POST", connection+"/refresh", nil)
	var tools contract.ConnectionToolList
	c.Want(200, "GET", connection+"/tools", nil).JSON(&tools)
	do("reviewConnectionTools", 200, "POST", connection+"/tools/review", object{"tools": []object{
		{"name": tools.Data[0].Name, "sha256": tools.Data[0].Sha256, "decision": "approve", "approval": "never", "effects": "read"},
	}})
	do("deleteConnection", 204, "DELETE", connection, nil)
	do("authorizeConnection", 200, "POST", s.path+"/authorize", nil)
	do("deauthorizeConnection", 200, "POST", s.path+"/deauthorize", nil)

	var me contract.User
	c.Want(200, "GET", v1+"/users/me", nil).JSON(&me)
	id := do("createAgent", 201, "POST", v1+"/api-agents", object{"name": "Helper", "instructions": "Help.", "spaceId": orNone(me.DefaultSpaceID), "tools": []any{approvedTool(nil)}})
	agent := v1 + "/api-agents/" + id
	do("updateAgent", 200, "PATCH", agent, object{"instructions": "Be brief."})
	do("rollbackAgent", 200, "POST", agent+"/rollback", object{"version": 1})
	skilled := author{c, h, agent}
	skilled.file("skills/a/SKILL.md", "---\nname: a\ndescription: b\n---\n")
	do("reviewSkill", 200, "PUT", agent+"/skills/a", object{"digest": orNone(skilled.skill(t, "a").Digest)})
	served := start(t, apitest.Config{})
	teacher := newAuthor(t, served, served.Client(t), map[string]any{"description": "Answers.", "expose": []string{"mcp", "skills"}})
	teacher.importSkills(t, map[string]string{"SKILL.md": "---\nname: taught\ndescription: b\n---\n"})
	teacher.reviewSkill(t, "taught")
	var credential contract.Secret
	c.Want(201, "POST", v1+"/secrets", object{"name": "teacher", "kind": "bearer", "value": served.Key, "origin": served.URL}).JSON(&credential)
	var lesson contract.Connection
	c.Want(201, "POST", v1+"/connections", object{"kind": "mcp", "name": "teacher", "url": served.URL + "/api/v1/mcp", "auth": object{"type": "secret", "secretId": credential.ID}}).JSON(&lesson)
	do("importServerSkills", 200, "POST", agent+"/skills", object{"connectionId": lesson.ID})
	do("removeSkill", 204, "DELETE", agent+"/skills/a", nil)
	do("duplicateAgent", 201, "POST", agent+"/duplicate", nil)

	task := agent + "/scheduled-tasks/" + do("createScheduledTask", 201, "POST", agent+"/scheduled-tasks", object{"name": "t", "message": "m", "schedule": object{"type": "interval", "everySeconds": 86400}})
	do("updateScheduledTask", 200, "PATCH", task, object{"message": "n"})
	do("pauseScheduledTask", 200, "POST", task+"/pause", nil)
	do("resumeScheduledTask", 200, "POST", task+"/resume", nil)
	do("deleteScheduledTask", 204, "DELETE", task, nil)

	hook := hooks + "/" + do("createWebhook", 201, "POST", hooks, object{"events": []string{"*"}, "url": "https://example.com/secret-path"})
	do("updateWebhook", 200, "PATCH", hook, object{"url": "https://example.com/other-path", "enabled": false})
	do("enableWebhook", 200, "POST", hook+"/enable", nil)
	do("rotateWebhookSecret", 201, "POST", hook+"/rotate-secret", object{})
	do("deleteWebhook", 204, "DELETE", hook, nil)

	allowed := object{"allowedOrigins": []string{"https://www.example.com"}}
	url := do("createEmbedURL", 201, "POST", agent+"/embed-urls", allowed)
	do("deleteEmbedURL", 204, "DELETE", agent+"/embed-urls/"+url, nil)
	session := do("createEmbedSession", 201, "POST", agent+"/embed-sessions", allowed)
	do("refreshEmbedSession", 200, "POST", agent+"/embed-sessions/"+session+"/refresh", nil)
	do("deleteEmbedSession", 204, "DELETE", agent+"/embed-sessions/"+session, nil)
	tag := do("createEmbedTag", 201, "POST", agent+"/embed-tags", allowed)
	do("updateEmbedTag", 200, "PATCH", agent+"/embed-tags/"+tag, object{"allowedOrigins": []string{"https://two.example.com"}})
	do("deleteEmbedTag", 204, "DELETE", agent+"/embed-tags/"+tag, nil)
	signed := do("createHook", 201, "POST", agent+"/hooks", githubHook)
	do("updateHook", 200, "PATCH", agent+"/hooks/"+signed, object{"enabled": false})
	do("rotateHookSecret", 201, "POST", agent+"/hooks/"+signed+"/rotate-secret", nil)
	do("deleteHook", 204, "DELETE", agent+"/hooks/"+signed, nil)
	tests := do("createTestSet", 201, "POST", agent+"/test-sets", testSet("Refunds", object{"message": "m"}))
	do("updateTestSet", 200, "PATCH", agent+"/test-sets/"+tests, object{"name": "Returns"})
	do("deleteTestSet", 204, "DELETE", agent+"/test-sets/"+tests, nil)
	logo := do("createEmbedLogo", 201, "POST", "/api/v1/embed-logos", object{"content": pngOf(8, 8, 0)})
	do("deleteEmbedLogo", 204, "DELETE", "/api/v1/embed-logos/"+logo, nil)

	a := author{c, h, agent}
	_, path := a.begin(t, `call: lookup_order {"orderId":"A-1"}`, nil)
	in := orNone(a.until(t, path, "waiting_for_input").PendingInput)
	do("answerInput", 202, "POST", path+"/input", object{"inputId": in.ID, "decision": "approve"})
	before := len(auditLog(t, h, account))
	in = orNone(a.until(t, path, "waiting_for_input").PendingInput)
	c.Want(202, "POST", path+"/input", object{"inputId": in.ID, "outputs": []object{{"callId": in.Calls[0].CallID, "output": "found"}}})
	a.until(t, path, "completed")
	if rows := auditLog(t, h, account); len(rows) != before {
		t.Errorf("the output of a call is recorded: %+v", rows[before:])
	}
	do("resolveToolCall", 200, "POST", v1+"/tool-calls/"+in.Calls[0].CallID+"/resolve", object{"outcome": "done"})
	do("deleteSession", 204, "DELETE", path, nil)
	do("deleteAgent", 204, "DELETE", agent, nil)

	provider := object{"name": "gpu", "wire": "chat", "baseURL": "https://gpu.example.com/v1", "apiKey": "correct-horse"}
	for _, settings := range []object{{"providers": []object{provider}}, {"plans": object{"team": object{}}}} {
		c.Want(200, "PUT", configPath+"/draft", object{"settings": settings})
		step(audit.Service, "applyConfigDraft", 201, "POST", configPath+"/draft/apply", nil)
	}
	step(audit.Service, "restoreConfigVersion", 201, "POST", configPath+"/versions/1/restore", nil)
	step(other, "deleteAccount", 202, "DELETE", v1+"/accounts/"+other, nil)

	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	rules, _ := h.Server.AuditRules()
	for pattern := range rules {
		method, path, _ := strings.Cut(pattern, " ")
		if op := doc.Paths.Value(path).GetOperation(method); !seen[op.OperationID] {
			t.Errorf("%s is not tested", op.OperationID)
		}
	}
}

// TestNothingIsAuditedWithoutAChange: requests that are refused, repeated, rolled back or that
// change nothing have no row, and neither has a model call.
func TestNothingIsAuditedWithoutAChange(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	same := c.With("Idempotency-Key", "one")
	made := same.Want(201, "POST", hooks, object{"events": []string{"*"}}).Body
	var w contract.Webhook
	if err := json.Unmarshal(made, &w); err != nil {
		t.Fatal(err)
	}
	if rows := auditLog(t, h, h.Account.ID); len(rows) != 1 {
		t.Fatalf("the rows are %+v", rows)
	}
	same.Want(201, "POST", hooks, object{"events": []string{"*"}})
	weak, _ := h.NewKey(h.Account.ID, "webhooks:read")
	h.ClientWith(t, weak).WantError(stoa.CodeScope, "DELETE", hooks+"/"+w.ID, nil)
	outside, _ := h.NewKey(storetest.Account(t, h.Store, stoa.Credit).ID, "*")
	h.ClientWith(t, outside).Want(404, "DELETE", hooks+"/"+w.ID, nil)
	c.Want(400, "PATCH", hooks+"/"+w.ID, object{"events": []string{"*", "credits.low"}})
	c.With("If-Match", `"r9"`).Want(412, "DELETE", hooks+"/"+w.ID, nil)
	c.Want(404, "POST", hooks, object{"events": []string{"*"}, "spaceIds": []string{"spc_none"}})
	c.Want(200, "POST", responses, body{"model": "auto", "input": "say: x"})
	if rows := auditLog(t, h, h.Account.ID); len(rows) != 1 {
		t.Errorf("the rows are %+v", rows)
	}
}

// TestChangesOfAnObjectFollowEachOther changes a webhook concurrently: each entry begins with the
// state in which the one before has left it. It also stores the addresses of clients.
func TestChangesOfAnObjectFollowEachOther(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Server: func(s *api.Server) {
		unlimited(s)
		s.RequestLog = func() *config.RequestLog { return &config.RequestLog{Addresses: true} }
	}})
	c := h.Client(t).With("X-Forwarded-For", "203.0.113.7")
	hook := hooks + "/" + newHook(t, c, object{}).ID
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() { c.Want(200, "PATCH", hook, object{"description": fmt.Sprint(i)}) })
	}
	all.Wait()
	rows := auditLog(t, h, h.Account.ID)
	if len(rows) != 17 {
		t.Fatalf("there are %d rows", len(rows))
	}
	description := func(text string) string {
		var w contract.Webhook
		if err := json.Unmarshal([]byte(text), &w); err != nil {
			t.Error(err)
		}
		return orNone(w.Description)
	}
	for i, e := range rows[1:] {
		if before, was := description(e.Before), description(rows[i].After); before != was || e.Address != "203.0.113.7" {
			t.Errorf("entry %d begins with %q, and the one before ended with %q: %+v", e.Seq, before, was, e)
		}
	}
}

// TestAutomaticEndsAreAudited revokes a key with all that it created.
func TestAutomaticEndsAreAudited(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	secret, key := h.NewKey(h.Account.ID, "*")
	a := newAuthor(t, h, h.ClientWith(t, secret), nil)
	ends := map[string]string{} // the action by the object
	make := func(action, path string, body object) {
		var made struct{ ID string }
		a.Want(201, "POST", path, body).JSON(&made)
		ends[made.ID] = action
	}
	allowed := object{"allowedOrigins": []string{"https://www.example.com"}}
	make("webhook.disabled", hooks, object{"events": []string{"*"}})
	make("embed.revoked", a.agent+"/embed-urls", allowed)
	make("embed_tag.disabled", a.agent+"/embed-tags", allowed)
	make("hook.disabled", a.agent+"/hooks", githubHook)
	make("scheduled_task.paused", a.agent+"/scheduled-tasks", object{"name": "t", "message": "m", "schedule": object{"type": "interval", "everySeconds": 86400}})
	make("key.revoked", "/api/v1/keys", object{"name": "child"})
	before := len(auditLog(t, h, h.Account.ID))
	h.Client(t).Want(204, "DELETE", "/api/v1/keys/"+key.ID+"?revokeMade=all", nil)
	rows := auditLog(t, h, h.Account.ID)[before:]
	if rows[0].Action != "revokeKey" || rows[0].Object != key.ID || rows[0].Actor == audit.Service {
		t.Errorf("the first row is %+v", rows[0])
	}
	for _, e := range rows[1:] {
		if ends[e.Object] != e.Action || e.Actor != audit.Service || !json.Valid([]byte(e.After)) {
			t.Errorf("%+v", e)
		}
		delete(ends, e.Object)
	}
	if len(ends) > 0 {
		t.Errorf("no rows of %v", ends)
	}
}

// TestTheAuditLogIsRead lists, exports and verifies a log.
func TestTheAuditLogIsRead(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	for i := range 5 {
		c.Want(201, "POST", "/api/v1/spaces", object{"name": fmt.Sprint(i)})
	}
	hook := newHook(t, c, object{})
	c.Want(200, "PATCH", hooks+"/"+hook.ID, object{"description": "d"})
	var list contract.AuditList
	get := func(query string) []contract.AuditEntry {
		t.Helper()
		list = contract.AuditList{} // the rows of earlier ones are still used
		c.Want(200, "GET", "/api/v1/audit"+query, nil).JSON(&list)
		return list.Data
	}
	all := get("")
	if len(all) != 7 || all[0].Action != "updateWebhook" || all[0].Seq != 7 || all[0].Object != hook.ID || !strings.Contains(orNone(all[0].After), `"description":"d"`) || !all[1].Before.IsNull() {
		t.Fatalf("the log is %+v", all)
	}
	for query, want := range map[string]int{
		"?object=" + hook.ID: 2, "?action=createSpace": 5, "?actor=" + all[0].Actor: 7, "?actor=key_none": 0, "?object=" + hook.ID + "&action=updateWebhook": 1,
		"?from=2020-01-01T00:00:00Z": 7, "?from=2120-01-01T00:00:00Z": 0, "?to=2020-01-01T00:00:00Z": 0, "?to=2120-01-01T00:00:00Z": 7,
		"?from=" + all[6].At.String() + "&to=" + all[0].At.String() + "&action=createSpace&actor=" + all[0].Actor: 5,
		"?accountId=service": 0,
	} {
		if got := get(query); len(got) > want || len(got) < want && !strings.Contains(query, "&to=") {
			t.Errorf("%s lists %d rows, want %d", query, len(got), want)
		}
	}
	actions := func(query string) (out []string) {
		t.Helper()
		var l contract.AuditActionList
		c.Want(200, "GET", "/api/v1/audit/actions"+query, nil).JSON(&l)
		for _, a := range l.Data {
			out = append(out, a.Action)
		}
		return out
	}
	if got := actions(""); !slices.Equal(got, []string{"createSpace", "createWebhook", "updateWebhook"}) {
		t.Errorf("the actions are %q", got)
	}
	if got := actions("?accountId=service"); len(got) > 0 {
		t.Errorf("the actions of the service are %q", got)
	}
	for _, order := range []string{"asc", "desc"} {
		for _, filter := range []string{"", "&action=createSpace", "&action=createSpace&actor=" + all[0].Actor} {
			var seqs []int64
			for cursor := ""; ; {
				for _, e := range get("?limit=2&order=" + order + filter + cursor) {
					seqs = append(seqs, e.Seq)
				}
				if !list.HasMore {
					break
				}
				cursor = "&cursor=" + orNone(list.NextCursor)
			}
			want := []int64{1, 2, 3, 4, 5, 6, 7}
			if filter != "" {
				want = want[:5]
			}
			if order == "desc" {
				slices.Reverse(want)
			}
			if !slices.Equal(seqs, want) {
				t.Errorf("%s %s lists %v, want %v", order, filter, seqs, want)
			}
		}
	}
	export := c.Want(200, "GET", "/api/v1/audit/export", nil).Body
	v, err := audit.Verify(bytes.NewReader(export), all[3].Hash)
	if err != nil || v.First != 1 || v.Last != 7 || v.Hash != all[0].Hash || v.AccountID != h.Account.ID {
		t.Errorf("the export is %+v, %v", v, err)
	}
	rest := c.Want(200, "GET", "/api/v1/audit/export?after=5", nil).Body
	if v, err = audit.Verify(bytes.NewReader(rest), ""); err != nil || v.First != 6 || v.Last != 7 || !v.Purged {
		t.Errorf("the rest is %+v, %v", v, err)
	}
	c.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/audit/export?after=9", nil)
	c.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/audit?accountId=acc_none", nil)

	customer := storetest.Account(t, h.Store, stoa.Credit).ID
	star, _ := h.NewKey(customer, "*")
	h.ClientWith(t, star).WantError(stoa.CodeScope, "GET", "/api/v1/audit", nil)
	h.ClientWith(t, star).WantError(stoa.CodeScope, "GET", "/api/v1/audit/export", nil)
	h.ClientWith(t, star).WantError(stoa.CodeScope, "POST", "/api/v1/keys", object{"name": "k", "scopes": []string{"account:read"}})
	reader, _ := h.NewKey(customer, "account:read")
	h.ClientWith(t, reader).Want(200, "GET", "/api/v1/audit", nil)
	h.ClientWith(t, reader).WantError(stoa.CodeScope, "GET", "/api/v1/audit?accountId=service", nil)
	h.ClientWith(t, reader).WantError(stoa.CodeScope, "GET", "/api/v1/audit/export?accountId="+h.Account.ID, nil)
	c.Want(200, "GET", "/api/v1/audit?accountId="+customer, nil)
}

// TestSecretsAreNotAudited plants secrets in every place where a request can carry one.
func TestSecretsAreNotAudited(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Allow: toLoopback})
	c := h.Client(t)
	const planted = "pl4nted-s3cret"
	var made contract.KeyWithSecret
	c.Want(201, "POST", "/api/v1/keys", object{"name": "k"}).JSON(&made)
	hook := newHook(t, c, object{"url": "https://hooks.example.com/" + planted + "?token=" + planted})
	var rotated contract.WebhookWithSecret
	c.Want(201, "POST", hooks+"/"+hook.ID+"/rotate-secret", object{}).JSON(&rotated)
	var secret contract.Secret
	c.Want(201, "POST", "/api/v1/secrets", object{"name": "key", "kind": "bearer", "value": planted, "origin": "https://mcp.example.com"}).JSON(&secret)
	c.Want(200, "PUT", "/api/v1/secrets/"+secret.ID+"/value", object{"value": planted + "2"})
	c.Want(201, "POST", "/api/v1/connections", object{
		"kind": "mcp", "name": "notes", "url": "https://mcp.example.com/" + planted, "headers": object{"X-Team": planted}, "auth": object{"type": "secret", "secretId": secret.ID},
	})
	a := newAuthor(t, h, c, object{"metadata": object{"apiKey": planted}})
	var url contract.EmbedURLWithLink
	a.Want(201, "POST", a.agent+"/embed-urls", object{"allowedOrigins": []string{"https://www.example.com"}}).JSON(&url)
	var token contract.EmbedSessionWithToken
	a.Want(201, "POST", a.agent+"/embed-sessions", object{"allowedOrigins": []string{"https://www.example.com"}}).JSON(&token)
	var account contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "n"}).JSON(&account)
	_, ticket, _ := strings.Cut(url.URL, "#t=")
	var texts strings.Builder
	for _, id := range []string{h.Account.ID, account.ID} {
		for _, e := range auditLog(t, h, id) {
			fmt.Fprintf(&texts, "%+v\n", e)
		}
	}
	for _, s := range []string{planted, made.Secret, hook.Secret, rotated.Secret, token.Token, ticket, account.Key.Secret} {
		if len(s) < 10 {
			t.Errorf("%q is not a secret", s)
		}
		if strings.Contains(texts.String(), s) {
			t.Errorf("the audit log contains %q", s)
		}
	}
	for _, s := range []string{`"url":"https://hooks.example.com/(masked)#`, `"secretId":"` + secret.ID} {
		if !strings.Contains(texts.String(), s) {
			t.Errorf("the audit log does not contain %q:\n%s", s, texts.String())
		}
	}
}

// TestTheAuditLogHasNoPeople: neither the log nor the keys have the name of a person, so that a
// removed person is forgotten and the log stays valid.
func TestTheAuditLogHasNoPeople(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	const planted = "ada.viewer"
	customer := accountOf(newCustomer(t, h))
	for _, path := range []string{membersPath, "/api/v1/accounts/" + customer + "/members"} {
		c.Want(201, "POST", path, object{"role": "viewer", "name": planted})
	}
	var invited contract.InvitationWithLink
	c.Want(201, "POST", membersPath, object{"role": "viewer", "name": planted}).JSON(&invited)
	c.Want(204, "DELETE", "/api/v1/invitations/"+invited.ID, nil)
	m := h.NewMember(h.Account.ID, "viewer", "")
	c.Want(200, "PATCH", membersPath+"/"+m.PersonID, object{"role": "member"})
	c.Want(201, "POST", membersPath+"/"+m.PersonID+"/link", nil)
	c.Want(204, "DELETE", membersPath+"/"+m.PersonID, nil)
	entries := append(auditLog(t, h, h.Account.ID), auditLog(t, h, customer)...)
	if len(entries) < 7 {
		t.Errorf("%d entries", len(entries))
	}
	if text := fmt.Sprintf("%+v", entries); strings.Contains(text, planted) {
		t.Errorf("the audit log contains the name:\n%s", text)
	}
	if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
		k, err := tx.People().Key(t.Context(), h.Account.ID, m.KeyID)
		if k.Name != m.PersonID {
			t.Errorf("the key of a removed member is named %q", k.Name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestMembersOfChangesAreMasked: each text of a change whose name suggests a secret is in one of
// the lists of package audit.
func TestMembersOfChangesAreMasked(t *testing.T) {
	t.Parallel()
	doc, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	known := append([]string{}, audit.Masked...)
	known = append(known, audit.Shown...)
	used := map[string]bool{}
	visited := map[*openapi3.Schema]bool{}
	var visit func(at string, s *openapi3.Schema)
	visit = func(at string, s *openapi3.Schema) {
		if s == nil || visited[s] {
			return
		}
		visited[s] = true
		for name, p := range s.Properties {
			if p.Value.Type.Is("string") || p.Value.Type.Is("object") || p.Value.Type.Is("array") {
				if used[name] = true; audit.Suspect(name) && !slices.Contains(known, name) {
					t.Errorf("%s.%s: add it to audit.Masked, or to audit.Shown if it never contains a secret", at, name)
				}
			}
			visit(at+"."+name, p.Value)
		}
		for _, more := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf) {
			visit(at, more.Value)
		}
		if s.Items != nil {
			visit(at, s.Items.Value)
		}
	}
	rules, _ := (&api.Server{}).AuditRules()
	for pattern := range rules {
		method, path, _ := strings.Cut(pattern, " ")
		op := doc.Paths.Value(path).GetOperation(method)
		if op.RequestBody != nil {
			visit(op.OperationID, op.RequestBody.Value.Content["application/json"].Schema.Value)
		}
		for _, r := range op.Responses.Map() {
			if media := r.Value.Content["application/json"]; media != nil {
				visit(op.OperationID, media.Schema.Value)
			}
		}
	}
	for _, name := range known {
		if !used[name] {
			t.Errorf("no change has the member %q: remove it from audit.Masked or audit.Shown", name)
		}
	}
}
