package api_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakestripe"
)

// A tenant is an account with an object of every kind.
type tenant struct {
	*apitest.Client
	visitor *apitest.Client   // with the token of an embed session
	ids     map[string]string // of an object, by the segment of the path before it
}

// newTenant creates an account with two objects of every kind, so that each list
// has a second page.
func newTenant(t *testing.T, h *apitest.Service, name string) tenant {
	t.Helper()
	var account contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", object{"name": name, "grantMicro": 100_000_000}).JSON(&account)
	var key contract.KeyWithSecret
	h.Client(t).Want(201, "POST", "/api/v1/accounts/"+account.ID+"/keys", object{"name": name, "scopes": []string{"*", "account:read", "account:write"}}).JSON(&key)
	c := h.ClientWith(t, key.Secret)
	made := tenant{Client: c, ids: map[string]string{"accounts": account.ID, "versions": "1"}}
	id := func(status int, collection, path string, body object) string {
		var out struct{ ID string }
		c.Want(status, "POST", path, body).JSON(&out)
		made.ids[collection] = out.ID
		return out.ID
	}
	for range 2 {
		hook := id(201, "webhooks", "/api/v1/webhooks", object{"events": []string{"*"}, "description": name})
		for range 2 {
			id(202, "deliveries", "/api/v1/webhooks/"+hook+"/test", nil)
		}
		made.ids["members"] = h.NewMember(account.ID, "owner", "").PersonID
		id(201, "invitations", "/api/v1/members", object{"role": "viewer", "name": name})
		id(201, "keys", "/api/v1/keys", object{"name": "spare", "scopes": []string{"usage:read"}})
		space := id(201, "spaces", "/api/v1/spaces", object{"name": name})
		id(201, "connections", "/api/v1/connections", object{"spaceId": space, "kind": "mcp", "name": name, "url": "https://mcp.example.com/mcp"})
		id(201, "secrets", "/api/v1/secrets", object{"name": name, "kind": "bearer", "value": "correct-horse-battery", "origin": "https://mcp.example.com"})
		for range 2 {
			id(201, "api-agents", "/api/v1/api-agents", object{"spaceId": space, "name": name, "instructions": "Be brief.", "description": name, "expose": []string{"responses", "mcp"}})
		}
		made.ids["agents"] = made.ids["api-agents"]
		id(200, "responses", "/api/v1/responses", object{"model": "agent/" + made.ids["api-agents"], "input": "say: " + name})
		id(200, "receipts", "/api/v1/responses", object{"model": "auto", "input": "say: " + name})
		made.ids["requests"] = c.Want(200, "POST", "/api/v1/responses", object{"model": "auto", "input": "say: " + name}).Header.Get("x-request-id")
	}
	if err := h.Requests.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := author{c, h, "/api/v1/api-agents/" + made.ids["api-agents"]}
	c.Want(200, "PATCH", a.agent, object{"instructions": "Be long.", "tools": []any{orderTool(nil)}})
	for _, file := range []string{"one.md", "two.md"} {
		a.file(file, name)
	}
	for _, user := range []string{name, "user-1042"} {
		for _, note := range []string{"one", "two"} {
			c.Want(200, "PUT", a.agent+"/memory/notes", object{"externalUserId": user, "name": note, "text": name})
		}
	}
	made.ids["skills"] = name + "-skill"
	a.importSkills(t, map[string]string{"SKILL.md": "---\nname: " + name + "-skill\ndescription: Does something.\n---\n"})
	a.reviewSkill(t, name+"-skill")
	for _, period := range []string{"month", "total"} {
		b := newBudget(t, c, object{"scope": "end_user", "subject": "*", "period": period, "limitMicro": 50_000_000})
		made.ids["budgets"] = b.ID
		inEffect(t, c, b, 2, func() {
			for _, user := range []string{name, "another"} {
				c.Want(200, "POST", "/api/v1/responses", object{"model": "auto", "input": "say: hi", "user": user})
			}
		})
	}
	made.ids["end-users"] = "nobody"
	for _, user := range []string{"nobody", "nobody-else"} {
		var e contract.Erasure
		c.Want(202, "DELETE", "/api/v1/end-users/"+user, nil).JSON(&e)
		made.ids["erasures"] = e.ID
	}
	for range 2 {
		id(201, "payments", "/api/v1/payments", object{"pack": "small"})
	}
	made.ids["statements"] = string(stoa.MonthOf(time.Now()))
	origin := "https://" + name + ".example"
	for range 2 {
		calls := "call: lookup_order {\"orderId\":\"1\"}\ncall: lookup_order {\"orderId\":\"2\"}\nsay: " + name
		_, waiting := a.begin(t, calls, nil)
		made.ids["inputs"] = orNone(a.until(t, waiting, "waiting_for_input").PendingInput).ID
		s, path := a.begin(t, calls, object{"attachments": []object{{"name": "a.txt", "content": name}, {"name": "b.txt", "content": name}}})
		var files contract.SessionAttachmentList
		c.Want(200, "GET", path+"/attachments", nil).JSON(&files)
		made.ids["attachments"] = files.Data[0].ID
		in := orNone(a.until(t, path, "waiting_for_input").PendingInput)
		made.ids["tool-calls"] = in.Calls[0].CallID
		c.Want(202, "POST", path+"/input", object{"inputId": in.ID, "outputs": []object{{"callId": in.Calls[0].CallID, "output": name}, {"callId": in.Calls[1].CallID, "output": name}}})
		a.until(t, path, "completed")
		c.Want(202, "POST", path+"/messages", object{"message": "say: " + name})
		a.until(t, path, "completed")
		var messages contract.MessageList
		c.Want(200, "GET", path+"/messages", nil).JSON(&messages)
		made.ids["messages"] = messages.Data[1].ID
		c.Want(200, "PUT", path+"/messages/"+made.ids["messages"]+"/feedback", object{"rating": "up", "comment": name})
		made.ids["sessions"], made.ids["steps"] = s.ID, stoa.StepID(s.ID, 1, 1)
		made.ids["models"], made.ids["providers"] = "auto", "sandbox" // no objects of a tenant, and the same for all
		task, _ := newTask(t, a, nil)
		made.ids["scheduled-tasks"] = task.ID
		for range 2 {
			c.Want(202, "POST", a.agent+"/scheduled-tasks/"+task.ID+"/run", nil)
		}
		made.ids["hooks"] = id(201, "hooks", a.agent+"/hooks", githubHook)
		set := id(201, "test-sets", a.agent+"/test-sets", testSet(name, object{"message": "say: " + name, "facts": []string{name}}))
		for range 2 {
			run := a.runTests(t, a.agent+"/test-sets/"+set, object{"maxCreditsMicro": 1_000_000})
			made.ids["runs"] = run.ID
		}
		id(201, "embed-urls", a.agent+"/embed-urls", object{"allowedOrigins": []string{origin}})
		made.ids["logos"] = id(201, "embed-logos", "/api/v1/embed-logos", object{"content": pngOf(8, 8, 0)})
		made.ids["tags"] = id(201, "embed-tags", a.agent+"/embed-tags", object{"allowedOrigins": []string{origin}})
		v := newVisit(t, a, object{"allowedOrigins": []string{origin}})
		made.visitor, made.ids["embed-sessions"], made.ids["chat-sessions"] = v.With("Origin", origin), v.embed.ID, v.embed.ChatSessionID
	}
	return made
}

// client returns the one whose requests the operation takes.
func (a tenant) client(op apitest.Operation) *apitest.Client {
	if op.VisitorOnly() {
		return a.visitor
	}
	return a.Client
}

// request returns a request of the operation about objects of the tenant.
func (a tenant) request(t *testing.T, op apitest.Operation) apitest.Request {
	r := op.SampleWith(func(parameter string) string {
		id, ok := a.ids[op.Collection(parameter)]
		if !ok {
			t.Fatalf("no tenant has one of %s: create one in newTenant", op.Collection(parameter))
		}
		return id
	})
	if body, ok := r.Body.(map[string]any); ok {
		body = maps.Clone(body)
		for name := range body {
			if collection := collectionOf(name, a.ids); collection != "" {
				body[name] = a.ids[collection]
			}
		}
		delete(body, "externalId") // or the second request of a kind is a conflict
		delete(body, "chatSessionId")
		r.Body = body
	}
	return r
}

// collectionOf returns the kind of object that a member such as spaceId names.
func collectionOf(member string, ids map[string]string) string {
	noun, ok := strings.CutSuffix(member, "Id")
	if !ok || noun == "external" || noun == "externalUser" {
		return ""
	}
	for _, collection := range slices.Sorted(maps.Keys(ids)) {
		if strings.HasSuffix(strings.ReplaceAll(collection, "-", "")+"$", strings.ToLower(noun)+"s$") {
			return collection
		}
	}
	return ""
}

// unknown returns an id of the same form that nothing has.
func unknown(id string) string {
	prefix, _, ok := strings.Cut(id, "_")
	if !ok {
		return "99999"
	}
	return stoa.NewID(prefix)
}

var volatile = regexp.MustCompile(`\b[a-z]{3,4}_[0-9A-Za-z_-]{16,}|\d{4}-\d\d-\d\dT[0-9:.]+Z|"(r|W/"r)?\d+"|#t=[\w-]+|sk_…?\w*|"hint":"[^"]*"|"(?:follow|next)Cursor":"[^"]*"|\d{10}`)

// gist returns what a reply says, without what differs between two equal
// requests: ids, times and secrets, and cursors, which have a check sum over the
// request.
func gist(r *apitest.Reply) string {
	var headers []string
	for name, values := range r.Header {
		if name != "X-Request-Id" && name != "Date" && name != "Content-Length" {
			headers = append(headers, name+": "+strings.Join(values, ", "))
		}
	}
	slices.Sort(headers)
	text := fmt.Sprintf("%d\n%s\n%s", r.Status, strings.Join(headers, "\n"), r.Body)
	return volatile.ReplaceAllString(text, "*")
}

// silent fails if a reply has a text of the victim.
func silent(t *testing.T, what string, r *apitest.Reply) {
	t.Helper()
	if strings.Contains(string(r.Body), "victim") {
		t.Errorf("%s: the reply has a text of another account: %.500s", what, r.Body)
	}
}

// same sends two requests and fails unless the replies say the same.
func same(t *testing.T, c *apitest.Client, what string, foreign, missing apitest.Request) {
	t.Helper()
	want, got := c.Send(missing), c.Send(foreign)
	silent(t, what, got)
	if diff := cmp.Diff(gist(want), gist(got)); diff != "" {
		t.Errorf("%s of another account differs from one that does not exist: %s %s (-missing +foreign)\n%s", what, foreign.Method, foreign.Path, diff)
	}
}

// TestTenantsNeverSeeEachOther takes every operation of the contract and puts
// another account's ids into its path, its query and its body: the reply must be
// the one for an id that does not exist, and the other account must stay as it
// is. An operation that is added is covered without a change here.
func TestTenantsNeverSeeEachOther(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited, Payments: fakestripe.New(t).Payments()})
	victim, other := newTenant(t, h, "victim"), newTenant(t, h, "other")
	before := victim.everything(t)
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		c := other.client(op)
		parameters := slices.DeleteFunc(op.PathParameters(), func(p string) bool {
			return slices.Contains([]string{"versions", "models", "providers", "statements", "logos"}, op.Collection(p)) // a number, names and months, which belong to no account, and public pictures
		})
		for subset := 1; subset < 1<<len(parameters); subset++ {
			with := func(replace func(string) string) apitest.Request {
				r := other.request(t, op)
				_, query, _ := strings.Cut(r.Path, "?")
				path, _, _ := strings.Cut(op.SampleWith(func(parameter string) string {
					collection := op.Collection(parameter)
					if i := slices.Index(parameters, parameter); i >= 0 && subset&(1<<i) != 0 {
						return replace(victim.ids[collection])
					}
					return other.ids[collection]
				}).Path, "?")
				r.Path = path + "?" + query
				return r
			}
			same(t, c, "an id in the path", with(func(id string) string { return id }), with(unknown))
		}
		for _, place := range op.Texts(other.request(t, op)) {
			collection := collectionOf(place.Name, victim.ids)
			switch {
			case collection != "":
				same(t, c, place.At, place.With(victim.ids[collection]), place.With(unknown(victim.ids[collection])))
			case op.Method == "GET":
				same(t, c, place.At, place.With(victim.ids["api-agents"]), place.With(unknown(victim.ids["api-agents"])))
			default: // a separate text; equal requests may differ by the effect of the first one
				silent(t, place.At, c.Send(place.With(victim.ids["spaces"])))
			}
		}
	})
	if diff := cmp.Diff(before, victim.everything(t)); diff != "" {
		t.Errorf("the other account has changed (-before +after):\n%s", diff)
	}
}

// everything reads all that the account has, by every operation that reads.
func (a tenant) everything(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, op := range apitest.Operations() {
		scope, _ := op.Extensions["x-scope"].(string)
		if op.Method == "GET" && !stoa.OfService(scope) && (op.Security == nil || op.VisitorOnly()) {
			r := a.client(op).Send(a.request(t, op))
			all[op.OperationID] = regexp.MustCompile(`"(lastUsedAt|requestId|checkedAt|from|to)":"[^"]*"`).ReplaceAllString(string(r.Body), "")
			if strings.Contains(op.OperationID, "EmbedTag") { // whose id is public: everybody can be refused
				all[op.OperationID] = regexp.MustCompile(`"refused(Requests|Origins)":(\d+|\[[^\]]*\])`).ReplaceAllString(all[op.OperationID], "")
			}
			if op.OperationID == "exportDrive" {
				all[op.OperationID] = fmt.Sprint(len(r.Body))
			}
		}
	}
	return all
}

// TestCursorsBelongToOneAccount takes every list of one account to its second
// page, and hands its cursor to another account.
func TestCursorsBelongToOneAccount(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited, Payments: fakestripe.New(t).Payments()})
	victim, other := newTenant(t, h, "victim"), newTenant(t, h, "other")
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		scope, _ := op.Extensions["x-scope"].(string)
		if op.OperationID == "getStatements" { // only the list of all accounts has pages
			return
		}
		if stoa.OfService(scope) || !slices.ContainsFunc(op.Texts(op.Sample("x")), func(p apitest.Text) bool { return p.Name == "cursor" }) {
			return
		}
		page := func(a tenant, cursor string) apitest.Request {
			r := a.request(t, op)
			r.Path += map[bool]string{true: "&", false: "?"}[strings.Contains(r.Path, "?")] + "limit=1&cursor=" + cursor
			if cursor == "" {
				r.Path = strings.TrimSuffix(r.Path, "&cursor=")
			}
			return r
		}
		var list struct{ NextCursor *string }
		victim.client(op).Send(page(victim, "")).JSON(&list)
		if list.NextCursor == nil {
			t.Fatal("the list has no second page: create another object in newTenant")
		}
		if r := victim.client(op).Send(page(victim, *list.NextCursor)); r.Status != 200 {
			t.Fatalf("the second page is %d %s", r.Status, r.Body)
		}
		if e := other.client(op).Send(page(other, *list.NextCursor)).Error(); e.Code != string(stoa.CodeInvalidCursor) {
			t.Errorf("the cursor of another account is %+v", e)
		}
		same(t, other.client(op), "a cursor", page(other, *list.NextCursor), page(other, (*list.NextCursor)[1:]+"A"))
	})
}

// TestIdempotencyKeysBelongToOneAccount repeats each request of one account with
// its Idempotency-Key from another account: the reply must be the one for a key
// that was never used.
func TestIdempotencyKeysBelongToOneAccount(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited, Payments: fakestripe.New(t).Payments()})
	victim, other := newTenant(t, h, "victim"), newTenant(t, h, "other")
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		keyed := slices.ContainsFunc(op.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.Name == "Idempotency-Key" })
		if !keyed {
			return
		}
		c := other.client(op)
		r := victim.request(t, op)
		for key, theirs := range map[string]apitest.Request{"same-": r, "own-": other.request(t, op)} {
			key += op.OperationID
			victim.client(op).With("Idempotency-Key", key).Send(r)
			got := c.With("Idempotency-Key", key).Send(theirs)
			silent(t, key, got)
			if got.Header.Get("Idempotency-Replayed") != "" || got.Status == 422 {
				t.Errorf("%s: %d %v %.200s", key, got.Status, got.Header, got.Body)
			}
		}
		if slices.ContainsFunc(op.PathParameters(), func(p string) bool { return op.Collection(p) != "models" }) { // they belong to no account
			missing := r
			missing.Path = op.SampleWith(func(p string) string { return unknown(victim.ids[op.Collection(p)]) }).Path
			same(t, c.With("Idempotency-Key", "same-"+op.OperationID), "an Idempotency-Key", r, missing)
		}
	})
}

// TestKeysOpenNothingElse sends every operation each secret that is not meant for
// it, with ids that exist and that do not: the refusal is the same.
func TestKeysOpenNothingElse(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: unlimited, Payments: fakestripe.New(t).Payments()})
	victim := newTenant(t, h, "victim")
	eachOperation(t, func(t *testing.T, op apitest.Operation) {
		if op.Security != nil && !op.VisitorOnly() {
			return // open to everybody
		}
		real := victim.request(t, op)
		missing := real
		missing.Path = op.SampleWith(func(p string) string { return unknown(victim.ids[op.Collection(p)]) }).Path
		refused := map[string]*apitest.Client{"no key": h.ClientWith(t, ""), "another key": h.ClientWith(t, "sk_00000000000000000000000000000000000000")}
		if op.VisitorOnly() {
			refused["an API key"] = victim.Client
		} else {
			refused["the token of an embed"] = victim.visitor
		}
		for what, c := range refused {
			if r := c.Send(real); r.Status != 401 {
				t.Errorf("%s: %d", what, r.Status)
			}
			same(t, c, what, real, missing)
		}
		scope, _ := op.Extensions["x-scope"].(string)
		if op.VisitorOnly() || scope == "" {
			return
		}
		scopes := slices.DeleteFunc(slices.Clone(stoa.Scopes), func(s string) bool { return s == scope })
		secret, _ := h.NewKey(victim.ids["accounts"], scopes...)
		if r := h.ClientWith(t, secret).Send(real); r.Error().Code != string(stoa.CodeScope) {
			t.Errorf("without %s: %d %s", scope, r.Status, r.Body)
		}
		same(t, h.ClientWith(t, secret), "no scope", real, missing)
	})
}
