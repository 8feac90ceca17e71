package api_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stoa/internal/agents/session"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

var githubHook = object{"name": "Issues", "signature": object{"kind": "github"}}

const slackSecret = "8f742231b10e8888abcd99yyyzzz85a5"

// A testHook is a hook, and a client of the service that sends to it.
type testHook struct {
	author
	contract.HookWithSecret
	path, to string
	sender   *apitest.Client
}

func newSignedHook(t *testing.T, a author, body object) testHook {
	t.Helper()
	h := testHook{author: a, sender: a.h.ClientWith(t, "").With("X-Forwarded-For", "203.0.113.9")}
	given := maps.Clone(githubHook)
	for k, v := range body {
		given[k] = v
	}
	r := a.Want(201, "POST", a.agent+"/hooks", given).JSON(&h.HookWithSecret)
	if h.path = a.agent + "/hooks/" + h.ID; r.Header.Get("Location") != h.path {
		t.Errorf("it is at %q", r.Header.Get("Location"))
	}
	if h.to = "/api/v1/hooks/" + h.ID; h.URL != a.h.URL+h.to {
		t.Errorf("its address is %q", h.URL)
	}
	return h
}

func macOf(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// github is a sender that signs a body as GitHub does, with the id of a delivery.
func (h testHook) github(delivery, body string) *apitest.Client {
	return h.sender.With("X-Hub-Signature-256", "sha256="+macOf(h.Secret, body)).With("X-GitHub-Delivery", delivery)
}

func (h testHook) slack(body string, at time.Time) *apitest.Client {
	seconds := strconv.FormatInt(at.Unix(), 10)
	return h.sender.With("X-Slack-Request-Timestamp", seconds).With("X-Slack-Signature", "v0="+macOf(slackSecret, "v0:"+seconds+":"+body))
}

func hookReceipt(t *testing.T, r *apitest.Reply) (got contract.HookReceipt) {
	t.Helper()
	r.JSON(&got)
	return got
}

// sessions returns the sessions that hooks of the agent have started.
func (h testHook) sessions(t *testing.T) []contract.Session {
	t.Helper()
	var list contract.SessionList
	h.Want(200, "GET", h.agent+"/sessions?trigger=hook&order=asc", nil).JSON(&list)
	return list.Data
}

func TestAHookIsKept(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	hook := newSignedHook(t, a, nil)
	if !hook.Enabled || hook.TurnsPerDay != 200 || hook.Mode != "once" || hook.Message != "" || !strings.HasPrefix(hook.Secret, "whsec_") || len(hook.Networks) != 0 {
		t.Errorf("it is %+v", hook.HookWithSecret)
	}
	var read contract.Hook
	more := object{
		"name": "Orders", "message": "/text", "externalId": "/order/id", "externalUserId": "/customer", "eventId": "X-Event-Id", "mode": "chat", "networks": []string{"203.0.113.0/24"},
		"turnsPerDay": 5, "maxCreditsMicroPerTurn": 7, "enabled": false,
	}
	r := a.Want(200, "PATCH", hook.path, more).JSON(&read)
	if read.Name != "Orders" || read.Message != "/text" || orNone(read.ExternalID) != "/order/id" || orNone(read.ExternalUserID) != "/customer" || orNone(read.EventID) != "X-Event-Id" || read.Mode != "chat" ||
		strings.Join(read.Networks, " ") != "203.0.113.0/24" || read.TurnsPerDay != 5 || orNone(read.MaxCreditsMicroPerTurn) != 7 || read.Enabled || orNone(read.DisabledReason) != "user" {
		t.Errorf("it is %+v", read)
	}
	if got := a.Want(200, "GET", hook.path, nil).JSON(&read); got.Header.Get("ETag") != r.Header.Get("ETag") || strings.Contains(string(got.Body), "whsec_") {
		t.Errorf("%v %s", got.Header, got.Body)
	}
	a.With("If-Match", `"r1"`).WantError(stoa.CodePrecondition, "PATCH", hook.path, object{"name": "x"})
	a.With("If-Match", `"r1"`).WantError(stoa.CodePrecondition, "DELETE", hook.path, nil)
	none := object{"message": nil, "externalId": nil, "externalUserId": nil, "eventId": nil, "mode": nil, "networks": nil, "turnsPerDay": nil, "maxCreditsMicroPerTurn": nil, "enabled": nil}
	a.Want(200, "PATCH", hook.path, none).JSON(&read)
	if read.Message != "" || !read.ExternalID.IsNull() || !read.EventID.IsNull() || read.Mode != "once" || len(read.Networks) != 0 || read.TurnsPerDay != 200 || !read.MaxCreditsMicroPerTurn.IsNull() || !read.Enabled {
		t.Errorf("with the defaults it is %+v", read)
	}
	for param, body := range map[string]object{
		"signature":           {"signature": object{"kind": "github", "algorithm": "sha512"}},
		"message":             {"message": "text"},
		"externalUserId":      {"externalUserId": "/a~2"},
		"eventId":             {"eventId": "event_id"},
		"networks[1]":         {"networks": []string{"203.0.113.0/24", "203.0.113.7/24"}},
		"secret":              {"signature": object{"kind": "standard"}, "secret": "not-a-standard-secret"},
		"mode":                {"mode": "once", "externalId": "/id"},
		"turnsPerDay":         {"turnsPerDay": 0},
		"signature.algorithm": {"signature": object{"kind": "hmac", "header": "X-Sum", "algorithm": "sha1"}},
		"name":                {"name": strings.Repeat("n", 201)},
	} {
		given := object{"name": "x", "signature": object{"kind": "github"}}
		for k, v := range body {
			given[k] = v
		}
		if e := a.WantError(stoa.CodeInvalidValue, "POST", a.agent+"/hooks", given); e.Param == nil || *e.Param != param {
			t.Errorf("%s: it names %+v", param, e)
		}
	}
	for param, signature := range map[string]object{"signature.header": {"kind": "hmac"}, "secret": {"kind": "slack"}} {
		if e := a.WantError(stoa.CodeMissingParameter, "POST", a.agent+"/hooks", object{"name": "x", "signature": signature}); e.Param == nil || *e.Param != param {
			t.Errorf("%s: it names %+v", param, e)
		}
	}
	sum := newSignedHook(t, a, object{"signature": object{"kind": "hmac", "header": "X-Sum", "prefix": "sum="}})
	if s := sum.Signature; orNone(s.Algorithm) != "sha256" || orNone(s.Encoding) != "hex" || orNone(s.Prefix) != "sum=" || orNone(s.Header) != "X-Sum" {
		t.Errorf("the signature is %+v", s)
	}
	var list contract.HookList
	a.Want(200, "GET", a.agent+"/hooks?limit=1", nil).JSON(&list)
	if len(list.Data) != 1 || list.Data[0].ID != sum.ID || !list.HasMore {
		t.Fatalf("the first page is %+v", list)
	}
	a.Want(200, "GET", a.agent+"/hooks?limit=1&cursor="+url.QueryEscape(orNone(list.NextCursor)), nil).JSON(&list)
	if len(list.Data) != 1 || list.Data[0].ID != hook.ID || list.HasMore {
		t.Errorf("the second page is %+v", list)
	}
	a.Want(200, "GET", a.agent+"/hooks?q=orders", nil).JSON(&list)
	if len(list.Data) != 1 || list.Data[0].ID != hook.ID {
		t.Errorf("the search finds %+v", list)
	}
	for _, try := range [][2]string{{"GET", ""}, {"PATCH", ""}, {"DELETE", ""}, {"POST", "/rotate-secret"}} {
		a.WantError(stoa.CodeNotFound, try[0], a.agent+"/hooks/hok_x"+try[1], object{})
		other := newAuthor(t, h, h.Client(t), nil)
		a.WantError(stoa.CodeNotFound, try[0], other.agent+"/hooks/"+hook.ID+try[1], object{})
	}
	a.Want(204, "DELETE", hook.path, nil)
	a.WantError(stoa.CodeNotFound, "GET", hook.path, nil)
	for range store.MaxHooks - 1 {
		newSignedHook(t, a, nil)
	}
	a.WantError(stoa.CodeLimitReached, "POST", a.agent+"/hooks", object{"name": "x", "signature": object{"kind": "github"}})
	var meta contract.Meta
	if a.Want(200, "GET", "/api/v1/meta", nil).JSON(&meta); meta.Limits.MaxHooks != store.MaxHooks {
		t.Errorf("published: %d", meta.Limits.MaxHooks)
	}
	a.Want(204, "DELETE", a.agent, nil) // with its hooks
	newSignedHook(t, newAuthor(t, h, h.Client(t), nil), nil)
}

func TestAnEventStartsATurn(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), object{"name": "Guide"})
	hook := newSignedHook(t, a, object{"message": "/issue/body", "externalId": "/issue/number", "externalUserId": "/sender/login"})
	const body = `{"issue": {"number": 7, "body": "say: <first> & ü"}, "sender": {"login": "ada"}}`
	got := hookReceipt(t, hook.github("d-1", body).Want(200, "POST", hook.to, body))
	id := orNone(got.SessionID)
	if got.Duplicate || !stoa.IsID("ses", id) || !got.Challenge.IsNull() || got.Text != "" {
		t.Errorf("the receipt is %+v", got)
	}
	s := a.until(t, a.agent+"/sessions/"+id, "completed")
	if s.Trigger.Type != "hook" || orNone(s.Trigger.ID) != hook.ID || orNone(s.ExternalID) != hook.ID+":7" || orNone(s.ExternalUserID) != "ada" || s.Mode != "chat" || orNone(s.Title) != "Issues" ||
		orNone(s.Reply) != "<first> & ü" {
		t.Errorf("the session is %+v", s)
	}
	var receipts contract.ReceiptList
	a.Want(200, "GET", a.agent+"/sessions/"+id+"/receipts", nil).JSON(&receipts)
	if len(receipts.Data) != 1 || orNone(receipts.Data[0].EmbedID) != hook.ID || orNone(receipts.Data[0].EndUser) != "ada" {
		t.Errorf("the receipts are %+v", receipts.Data)
	}
	note := func() (text string) {
		if err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Get(t.Context(), `SELECT note FROM messages WHERE session_id = $1 AND role = 'user' ORDER BY first_seq DESC LIMIT 1`, []any{id}, &text)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return text
	}
	if !strings.Contains(note(), "came through a hook") {
		t.Errorf("the model is told %q", note())
	}
	// The same event again, and another one of the same issue.
	if got = hookReceipt(t, hook.github("d-1", body).Want(200, "POST", hook.to, body)); !got.Duplicate || !got.SessionID.IsNull() {
		t.Errorf("again: %+v", got)
	}
	const next = `{"issue": {"number": "7", "body": "say: second"}, "sender": {"login": "ada"}}`
	if got = hookReceipt(t, hook.github("d-2", next).Want(200, "POST", hook.to, next)); orNone(got.SessionID) != id || got.Duplicate {
		t.Errorf("the next event: %+v", got)
	}
	if s = a.until(t, a.agent+"/sessions/"+id, "completed"); s.Turn.Number != 2 || orNone(s.Reply) != "second" || !strings.Contains(note(), "came through a hook") {
		t.Errorf("the session is %+v", s)
	}
	a.Want(202, "POST", a.agent+"/sessions/"+id+"/messages", object{"message": "say: mine"})
	if a.until(t, a.agent+"/sessions/"+id, "completed"); strings.Contains(note(), "came through a hook") {
		t.Errorf("of the owner's message the model is told %q", note())
	}
	// Another hook has other sessions for the same id, and an owner's session is never continued.
	other := newSignedHook(t, a, object{"externalId": "/issue/number"})
	if got = hookReceipt(t, other.github("d-1", body).Want(200, "POST", other.to, body)); got.Duplicate || orNone(got.SessionID) == id {
		t.Errorf("another hook: %+v", got)
	}
	a.begin(t, "say: own", object{"externalId": other.ID + ":8"})
	taken := strings.ReplaceAll(body, "7", "8")
	other.github("d-3", taken).WantError(stoa.CodeConflict, "POST", other.to, taken)
	capped := newSignedHook(t, a, object{"maxCreditsMicroPerTurn": 1})
	got = hookReceipt(t, capped.github("d-1", body).Want(200, "POST", capped.to, body))
	if s = a.until(t, a.agent+"/sessions/"+orNone(got.SessionID), "failed"); orNone(s.Error).Code != "credit_limit_reached" {
		t.Errorf("with a cap it is %+v", s.Error)
	}
	// A deleted session begins again.
	a.Want(204, "DELETE", a.agent+"/sessions/"+id, nil)
	if got = hookReceipt(t, hook.github("d-4", body).Want(200, "POST", hook.to, body)); orNone(got.SessionID) == "" || orNone(got.SessionID) == id {
		t.Errorf("after the deletion: %+v", got)
	}
	if list := hook.sessions(t); len(list) != 3 {
		t.Errorf("%d sessions", len(list))
	}
}

// TestAnEventStartsOneTurn sends one event five times concurrently, on PostgreSQL to two nodes. One of
// the requests starts a turn.
func TestAnEventStartsOneTurn(t *testing.T) {
	t.Parallel()
	home := storetest.New(t)
	h := start(t, apitest.Config{Idle: true, Home: &home})
	nodes := []*apitest.Service{h}
	if home.Config.PostgresURL != "" {
		nodes = append(nodes, start(t, apitest.Config{Idle: true, Home: &home}))
	}
	a := newAuthor(t, h, h.Client(t), nil)
	hook := newSignedHook(t, a, object{"externalId": "/thread"})
	for event := range 4 {
		body := fmt.Sprintf(`{"thread": "t", "event": %d}`, event)
		sender := hook.github(fmt.Sprint("d-", event), body)
		var all sync.WaitGroup
		results := make([]contract.HookReceipt, 5)
		for i := range results {
			to := *sender
			to.URL = nodes[i%len(nodes)].URL
			all.Go(func() {
				r, err := to.Try(t.Context(), "POST", hook.to, body)
				if err != nil || r.Status != 200 {
					t.Errorf("%v: %+v", err, r)
					return
				}
				r.JSON(&results[i])
			})
		}
		all.Wait()
		began := 0
		for _, r := range results {
			if !r.Duplicate {
				began++
			}
		}
		if began != 1 {
			t.Errorf("event %d started %d turns: %+v", event, began, results)
		}
	}
	list := hook.sessions(t)
	if len(list) != 1 || list[0].QueuedMessages != 3 {
		t.Errorf("the sessions are %+v", list)
	}
}

// TestAFailedEventCanBeRetried lets requests fail after their event was recorded. The row must not
// stay, because the sender's retry would do nothing.
func TestAFailedEventCanBeRetried(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Sessions: func(c *session.Config) { c.Limits.Queued, c.Limits.QueuedMessages = 8, 1 }})
	a := newAuthor(t, h, h.Client(t), nil)
	hook := newSignedHook(t, a, object{"externalId": "/t", "turnsPerDay": 4})
	send := func(event, thread string) *apitest.Reply {
		body := `{"t": "` + thread + `"}`
		return hook.github(event, body).Do("POST", hook.to, body)
	}
	want := func(what string, r *apitest.Reply, status int, code stoa.Code) {
		t.Helper()
		if r.Status != status || status != 200 && r.Error().Code != string(code) || status != 200 && r.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %s", what, r.Status, r.Header, r.Body)
		}
	}
	want("the first", send("1", "a"), 200, "")
	want("one waits", send("2", "a"), 200, "")
	want("the queue of the session is full", send("3", "a"), 409, stoa.CodeSessionBusy)
	want("another session", send("3", "b"), 200, "")
	want("a hook has a quarter of the queue", send("4", "c"), 429, stoa.CodeTooManySessions)
	want("one waits there too", send("4", "b"), 200, "")
	want("its turns of the day are used up", send("5", "b"), 429, stoa.CodeRateLimit)
	want("a repetition is none", send("4", "b"), 200, "")
	later := func(past time.Duration) {
		err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Exec(t.Context(), `UPDATE hook_events SET created_at = created_at - $1`, past.Microseconds())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	later(25 * time.Hour)
	a.Want(200, "POST", a.agent+"/sessions/"+hook.sessions(t)[1].ID+"/cancel", nil)
	want("a day later", send("5", "b"), 200, "")
	if r := hookReceipt(t, send("1", "a")); !r.Duplicate {
		t.Errorf("an event of the day before: %+v", r)
	}
	purge := func() (n int64) {
		err := h.Store.Write(t.Context(), func(tx *store.Tx) (err error) {
			n, err = tx.Work().PurgeHookEvents(t.Context(), 100)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := purge(); n != 0 {
		t.Errorf("%d events are purged within seven days", n)
	}
	later(6 * 24 * time.Hour)
	if n := purge(); n != 4 {
		t.Errorf("%d events are purged, want the four of the first day", n)
	}
}

// TestAGuessLearnsNothing compares the answers to requests that must not be accepted.
func TestAGuessLearnsNothing(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	hook := newSignedHook(t, a, nil)
	const body = `{"a": 1}`
	answer := func(what string, c *apitest.Client, to string) {
		t.Helper()
		e := c.WantError(stoa.CodeUnauthorized, "POST", to, body)
		want := c.WantError(stoa.CodeUnauthorized, "POST", "/api/v1/hooks/"+stoa.NewID("hok"), body)
		if e.RequestID, want.RequestID = "", ""; e != want {
			t.Errorf("%s: %+v, want %+v", what, e, want)
		}
	}
	good := hook.github("1", body)
	answer("a wrong signature", hook.sender.With("X-Hub-Signature-256", "sha256="+macOf("guess", body)), hook.to)
	answer("no signature", hook.sender, hook.to)
	answer("not an id", hook.sender, "/api/v1/hooks/x")
	a.Want(200, "PATCH", hook.path, object{"enabled": false})
	answer("disabled", good, hook.to)
	a.Want(200, "PATCH", hook.path, object{"enabled": true, "networks": []string{"198.51.100.0/24"}})
	answer("another network", good, hook.to)
	a.Want(200, "PATCH", hook.path, object{"networks": []string{"198.51.100.0/24", "203.0.113.9/32"}})
	good.Want(200, "POST", hook.to, body)

	operator := h.Client(t)
	var made contract.AccountWithKey
	operator.Want(201, "POST", "/api/v1/accounts", object{"name": "Acme", "grantMicro": 5_000_000}).JSON(&made)
	account := made.ID
	secret, key := h.NewKey(account, "agents:read", "agents:write", "schedules:read", "schedules:write", "keys:write")
	theirs := newSignedHook(t, newAuthor(t, h, h.ClientWith(t, secret), nil), nil)
	good = theirs.github("1", body)
	operator.Want(200, "PATCH", "/api/v1/accounts/"+account, object{"suspended": true})
	answer("a suspended account", good, theirs.to)
	operator.Want(200, "PATCH", "/api/v1/accounts/"+account, object{"suspended": false})
	good.Want(200, "POST", theirs.to, body)
	operator.Want(204, "DELETE", "/api/v1/keys/"+key.ID, nil)
	answer("a revoked key", theirs.github("2", body), theirs.to)
	again, _ := h.NewKey(account, "agents:read", "schedules:read", "schedules:write")
	var read contract.Hook
	if h.ClientWith(t, again).Want(200, "GET", theirs.path, nil).JSON(&read); read.Enabled || orNone(read.DisabledReason) != "key_revoked" {
		t.Errorf("it is %+v", read)
	}
	h.ClientWith(t, again).Want(200, "PATCH", theirs.path, object{"enabled": true})
	theirs.github("2", body).Want(200, "POST", theirs.to, body)
}

func TestASecretIsRotated(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, h.Client(t), nil)
	hook := newSignedHook(t, a, nil)
	var now contract.HookWithSecret
	a.Want(201, "POST", hook.path+"/rotate-secret", object{"overlapSeconds": 3600}).JSON(&now)
	if now.Secret == hook.Secret || now.PreviousEndsAt.IsNull() {
		t.Errorf("it is %+v", now)
	}
	hook.github("1", `{"a": 1}`).Want(200, "POST", hook.to, `{"a": 1}`)
	former := hook
	hook.Secret = now.Secret
	hook.github("2", `{"a": 2}`).Want(200, "POST", hook.to, `{"a": 2}`)
	a.Want(201, "POST", hook.path+"/rotate-secret", object{"overlapSeconds": 0, "secret": "chosen-by-the-sender"}).JSON(&now)
	former.github("3", `{"a": 3}`).WantError(stoa.CodeUnauthorized, "POST", hook.to, `{"a": 3}`)
	hook.github("3", `{"a": 3}`).WantError(stoa.CodeUnauthorized, "POST", hook.to, `{"a": 3}`)
	hook.Secret = "chosen-by-the-sender"
	hook.github("3", `{"a": 3}`).Want(200, "POST", hook.to, `{"a": 3}`)
	slack := newSignedHook(t, a, object{"signature": object{"kind": "slack"}, "secret": slackSecret})
	if e := a.WantError(stoa.CodeMissingParameter, "POST", slack.path+"/rotate-secret", object{}); e.Param == nil || *e.Param != "secret" {
		t.Errorf("it names %+v", e)
	}
	var entries contract.AuditList
	a.Want(200, "GET", "/api/v1/audit?object="+hook.ID, nil).JSON(&entries)
	text := fmt.Sprint(entries.Data)
	if len(entries.Data) != 3 || strings.Contains(text, now.Secret) || strings.Contains(text, former.Secret) {
		t.Errorf("the audit log has %s", text)
	}
}

func TestStandardWebhooksAreAccepted(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	hook := newSignedHook(t, newAuthor(t, h, h.Client(t), nil), object{"signature": object{"kind": "standard"}})
	w, err := standardwebhooks.NewWebhook(hook.Secret)
	if err != nil {
		t.Fatal(err)
	}
	send := func(id string, at time.Time, body string) *apitest.Client {
		sig, err := w.Sign(id, at, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return hook.sender.With("webhook-id", id).With("webhook-timestamp", strconv.FormatInt(at.Unix(), 10)).With("webhook-signature", sig)
	}
	if got := hookReceipt(t, send("msg_1", time.Now(), `{"a":1}`).Want(200, "POST", hook.to, `{"a":1}`)); got.Duplicate {
		t.Errorf("%+v", got)
	}
	if got := hookReceipt(t, send("msg_1", time.Now(), `{"a":2}`).Want(200, "POST", hook.to, `{"a":2}`)); !got.Duplicate {
		t.Errorf("the same id: %+v", got)
	}
	send("msg_2", time.Now().Add(-6*time.Minute), `{}`).WantError(stoa.CodeUnauthorized, "POST", hook.to, `{}`)
}

func TestSlackTalksToAnAgent(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	hook := newSignedHook(t, a, object{"signature": object{"kind": "slack"}, "secret": slackSecret, "message": "/event", "externalId": "/event/channel", "externalUserId": "/event/user"})
	const challenge = `{"token": "x", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P", "type": "url_verification"}`
	if got := hookReceipt(t, hook.slack(challenge, time.Now()).Want(200, "POST", hook.to, challenge)); orNone(got.Challenge) != "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P" || !got.SessionID.IsNull() {
		t.Errorf("the challenge: %+v", got)
	}
	hook.sender.WantError(stoa.CodeUnauthorized, "POST", hook.to, challenge)
	const mention = `{"type": "event_callback", "event_id": "Ev0PV52K21", "event": {"type": "app_mention", "user": "U061F7AUR", "text": "say: <@U0LAN0Z89> hello", "channel": "C061EG9SL"}}`
	got := hookReceipt(t, hook.slack(mention, time.Now()).Want(200, "POST", hook.to, mention))
	retry := hook.slack(mention, time.Now()).With("X-Slack-Retry-Num", "1")
	if again := hookReceipt(t, retry.Want(200, "POST", hook.to, mention)); !again.Duplicate {
		t.Errorf("a retry: %+v", again)
	}
	hook.slack(mention, time.Now().Add(-6*time.Minute)).WantError(stoa.CodeUnauthorized, "POST", hook.to, mention)
	s := a.until(t, a.agent+"/sessions/"+orNone(got.SessionID), "completed")
	if orNone(s.ExternalUserID) != "U061F7AUR" || orNone(s.ExternalID) != hook.ID+":C061EG9SL" {
		t.Errorf("the session is %+v", s)
	}
	var messages contract.MessageList
	a.Want(200, "GET", a.agent+"/sessions/"+s.ID+"/messages?order=asc", nil).JSON(&messages)
	if want := `{"channel":"C061EG9SL","text":"say: <@U0LAN0Z89> hello","type":"app_mention","user":"U061F7AUR"}`; messages.Data[0].Text != want {
		t.Errorf("the message is %s", messages.Data[0].Text)
	}
	// Slash commands are forms.
	command := newSignedHook(t, a, object{"signature": object{"kind": "slack"}, "secret": slackSecret, "message": "/text", "externalUserId": "/user_id"})
	form := url.Values{"command": {"/ask"}, "text": {"say: what & why?"}, "user_id": {"U2"}, "trigger_id": {"1.2"}}.Encode()
	asForm := command.slack(form, time.Now()).With("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	if got = hookReceipt(t, asForm.Want(200, "POST", command.to, form)); got.Text == "" {
		t.Errorf("a command: %+v", got)
	}
	if s = a.until(t, a.agent+"/sessions/"+orNone(got.SessionID), "completed"); orNone(s.Reply) != "what & why?" || orNone(s.ExternalUserID) != "U2" {
		t.Errorf("the session is %+v", s)
	}
	if got = hookReceipt(t, asForm.Want(200, "POST", command.to, form)); !got.Duplicate { // by its body
		t.Errorf("the same form: %+v", got)
	}
}

func TestABodyThatAHookCannotReadIsRefused(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Sessions: func(c *session.Config) { c.Limits.MessageChars = 100 }})
	a := newAuthor(t, h, h.Client(t), nil)
	hook := newSignedHook(t, a, object{"message": "/m", "externalId": "/x/0/id", "externalUserId": "/u", "eventId": "/e"})
	for _, try := range []struct {
		body  string
		code  stoa.Code
		param string
	}{
		{``, stoa.CodeInvalidJSON, ""},
		{`[1]`, stoa.CodeInvalidJSON, ""},
		{`{"m": "a", "m": "b"}`, stoa.CodeInvalidJSON, ""},
		{`{"m": "\xff"}`, stoa.CodeInvalidJSON, ""},
		{`{"x": [{"id": 1}], "u": "u", "e": 1}`, stoa.CodeMissingParameter, "/m"},
		{`{"m": null, "x": [{"id": 1}], "u": "u", "e": 1}`, stoa.CodeMissingParameter, "/m"},
		{`{"m": "", "x": [{"id": 1}], "u": "u", "e": 1}`, stoa.CodeInvalidValue, "/m"},
		{`{"m": "` + strings.Repeat("a", 101) + `", "x": [{"id": 1}], "u": "u", "e": 1}`, stoa.CodeInvalidValue, "/m"},
		{`{"m": "a\u0000", "x": [{"id": 1}], "u": "u", "e": 1}`, stoa.CodeInvalidValue, "/m"},
		{`{"m": "a", "x": [], "u": "u", "e": 1}`, stoa.CodeMissingParameter, "/x/0/id"},
		{`{"m": "a", "x": [{"id": {}}], "u": "u", "e": 1}`, stoa.CodeMissingParameter, "/x/0/id"},
		{`{"m": "a", "x": [{"id": "` + strings.Repeat("i", 98) + `"}], "u": "u", "e": 1}`, stoa.CodeInvalidValue, "/x/0/id"},
		{`{"m": "a", "x": [{"id": 1}], "u": "` + strings.Repeat("u", 129) + `", "e": 1}`, stoa.CodeInvalidValue, "/u"},
		{`{"m": "a", "x": [{"id": 1}], "u": "u"}`, stoa.CodeMissingParameter, "/e"},
	} {
		body := strings.ReplaceAll(try.body, `\xff`, "\xff")
		e := hook.github("1", body).WantError(try.code, "POST", hook.to, body)
		if param := e.Param; try.param == "" && param != nil || try.param != "" && (param == nil || *param != try.param) {
			t.Errorf("%.60q: it names %+v", body, e)
		}
		hook.sender.WantError(stoa.CodeUnauthorized, "POST", hook.to, body) // only after the signature
	}
	const fine = `{"m": {"b": [1.50, "<é>"]}, "x": [{"id": 1}], "u": "u", "e": 1}`
	got := hookReceipt(t, hook.github("1", fine).Want(200, "POST", hook.to, fine))
	var messages contract.MessageList
	a.Want(200, "GET", a.agent+"/sessions/"+orNone(got.SessionID)+"/messages", nil).JSON(&messages)
	if messages.Data[0].Text != `{"b":[1.50,"<é>"]}` {
		t.Errorf("the message is %s", messages.Data[0].Text)
	}
	if got = hookReceipt(t, hook.github("2", fine).Want(200, "POST", hook.to, fine)); !got.Duplicate { // by the member
		t.Errorf("the same event: %+v", got)
	}
	ping := `{"zen": "Design for failure."}`
	if got = hookReceipt(t, hook.github("3", ping).With("X-GitHub-Event", "ping").Want(200, "POST", hook.to, ping)); !got.SessionID.IsNull() || got.Duplicate {
		t.Errorf("a ping: %+v", got)
	}
	whole := newSignedHook(t, a, nil)
	if got = hookReceipt(t, whole.github("", ping).Want(200, "POST", whole.to, ping)); got.Duplicate {
		t.Errorf("the first body: %+v", got)
	}
	if got = hookReceipt(t, whole.github("", ping).Want(200, "POST", whole.to, ping)); !got.Duplicate {
		t.Errorf("the same body: %+v", got)
	}
	a.Want(200, "GET", a.agent+"/sessions/"+whole.sessions(t)[1].ID+"/messages", nil).JSON(&messages)
	if messages.Data[0].Text != ping {
		t.Errorf("the message is %q", messages.Data[0].Text)
	}
	form := newSignedHook(t, a, object{"message": "/m"})
	form.github("1", "m=%zz").With("Content-Type", "application/x-www-form-urlencoded").WantError(stoa.CodeInvalidJSON, "POST", form.to, "m=%zz")
	big := `{"m": "` + strings.Repeat("a", 256<<10) + `"}`
	hook.github("4", big).WantError(stoa.CodeTooLarge, "POST", hook.to, big)
	hook.github("5", fine).With("Content-Encoding", "gzip").WantError(stoa.CodeMediaType, "POST", hook.to, fine)
}

// TestAHooksToolsAreThoseOfVisitors lets an agent with tools of both kinds answer an event.
func TestAHooksToolsAreThoseOfVisitors(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	tool := func(name, visitors string) object {
		return orderTool(object{"name": name, "effects": "read", "visitors": visitors})
	}
	a := newAuthor(t, h, h.Client(t), object{"tools": []object{tool("mine", "no"), tool("everyones", "yes")}})
	hook := newSignedHook(t, a, object{"mode": "chat"})
	const body = `{"a": 1}`
	got := hookReceipt(t, hook.github("1", body).Want(200, "POST", hook.to, body))
	var s contract.Session
	a.Want(200, "GET", a.agent+"/sessions/"+orNone(got.SessionID), nil).JSON(&s)
	if len(s.ToolsWithheld) != 1 || s.ToolsWithheld[0].Tool != "mine" || s.ToolsWithheld[0].Reason != "visitor" {
		t.Errorf("withheld are %+v", s.ToolsWithheld)
	}
}

func TestRequestsOfAHookAreLimited(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Server: func(s *api.Server) { s.RateLimited = nil }})
	a := newAuthor(t, h, h.Client(t), nil)
	for _, to := range []string{newSignedHook(t, a, nil).to, "/api/v1/hooks/" + stoa.NewID("hok")} {
		c := h.ClientWith(t, "").With("X-Forwarded-For", "203.0.113.9")
		for range 300 {
			c.WantError(stoa.CodeUnauthorized, "POST", to, `{}`)
		}
		if r := c.Do("POST", to, `{}`); r.Status != 429 || r.Header.Get("Retry-After") == "" { // although the signature is wrong
			t.Errorf("%s: %d %s", to, r.Status, r.Body)
		}
		c = c.With("X-Forwarded-For", "198.51.100.7") // another address of the 600 requests
		for range 300 {
			c.WantError(stoa.CodeUnauthorized, "POST", to, `{}`)
		}
		c.With("X-Forwarded-For", "192.0.2.1").WantError(stoa.CodeRateLimit, "POST", to, `{}`)
	}
}

// TestAFullDiskIsToldToSendersToo fills the store and then tries every write of hooks.
func TestAFullDiskIsToldToSendersToo(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the pages
	h := start(t, apitest.Config{Idle: true, Server: unlimited})
	a := newAuthor(t, h, h.Client(t), nil)
	long := "/" + strings.Repeat("x", 900)
	settings := object{"message": long, "externalId": long, "externalUserId": long, "eventId": long}
	var signed []testHook
	for range 50 {
		signed = append(signed, newSignedHook(t, a, settings))
	}
	receives := newSignedHook(t, newAuthor(t, h, h.Client(t), nil), object{"turnsPerDay": 1000})
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error { // no page more than there are
		return tx.Query(t.Context(), func(*sql.Rows) error { return nil }, "PRAGMA max_page_count = 1")
	})
	if err != nil {
		t.Fatal(err)
	}
	settings["name"], settings["signature"] = "x", githubHook["signature"]
	for _, test := range []struct {
		operation string
		ask       func(i int) *apitest.Reply
	}{
		{"createHook", func(int) *apitest.Reply { return a.Do("POST", a.agent+"/hooks", settings) }},
		{"receiveHook", func(i int) *apitest.Reply {
			body := fmt.Sprintf(`{"text": "%s", "n": %d}`, long, i)
			return receives.github("", body).Do("POST", receives.to, body)
		}},
		{"updateHook", func(i int) *apitest.Reply {
			return a.Do("PATCH", signed[i%5].path, object{"message": fmt.Sprint(long, i)})
		}},
		{"rotateHookSecret", func(i int) *apitest.Reply { return a.Do("POST", signed[i%5].path+"/rotate-secret", nil) }},
		{"deleteHook", func(i int) *apitest.Reply { return a.Do("DELETE", signed[5+i].path, nil) }},
	} {
		t.Run(test.operation, func(t *testing.T) {
			for i := range 45 {
				if r := test.ask(i); r.Status == 507 {
					return
				}
			}
			t.Error("the disk never became full")
		})
	}
	if err := h.Store.Close(); err != nil {
		t.Fatal(err)
	}
	receives.sender.WantError(stoa.CodeInternal, "POST", receives.to, `{}`)
}

func TestAHookNeedsAKeyForSecrets(t *testing.T) {
	t.Parallel()
	v, err := vault.Open(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, apitest.Config{Idle: true, Vault: v})
	a := newAuthor(t, h, h.Client(t), nil)
	a.WantError(stoa.CodeSecretsKeyMissing, "POST", a.agent+"/hooks", githubHook)
	var made stoa.Hook
	err = h.Store.Write(t.Context(), func(tx *store.Tx) (err error) { // as after a restore without the key
		made, err = tx.Work().InsertHook(t.Context(), stoa.Hook{
			ID: stoa.NewID("hok"), AccountID: h.Account.ID, AgentID: strings.TrimPrefix(a.agent, "/api/v1/api-agents/"), Name: "x",
			Signature: stoa.HookSignature{Kind: stoa.SignedGitHub}, Mode: stoa.ModeOnce, TurnsPerDay: 1, Sealed: "stoa2.file-1.AAAA",
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	a.WantError(stoa.CodeSecretsKeyMissing, "POST", a.agent+"/hooks/"+made.ID+"/rotate-secret", nil)
	h.ClientWith(t, "").With("X-Hub-Signature-256", "sha256="+macOf("", `{}`)).WantError(stoa.CodeUnauthorized, "POST", "/api/v1/hooks/"+made.ID, `{}`)
}
