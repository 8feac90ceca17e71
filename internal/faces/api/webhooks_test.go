package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"stoa/internal/agents/webhook"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/base/vault"
	"stoa/internal/testkit/apitest"
)

const hooks = "/api/v1/webhooks"

// newHook makes a webhook.
func newHook(t *testing.T, c *apitest.Client, body object) (w contract.WebhookWithSecret) {
	t.Helper()
	if body["events"] == nil {
		body["events"] = []string{"*"}
	}
	r := c.Want(201, "POST", hooks, body).JSON(&w)
	if r.Header.Get("Location") != hooks+"/"+w.ID || r.Header.Get("ETag") != `"r1"` || !strings.HasPrefix(w.Secret, "whsec_") || !stoa.IsID("whk", w.ID) {
		t.Errorf("%v %+v", r.Header, w)
	}
	return w
}

// catcher is a receiver that hands over what it gets.
func catcher(t *testing.T) (address string, got <-chan *http.Request) {
	t.Helper()
	c := make(chan *http.Request, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		c <- r
	}))
	t.Cleanup(server.Close)
	return server.URL, c
}

// verified returns the body of a request whose signature is right.
func verified(t *testing.T, secret string, r *http.Request) string {
	t.Helper()
	body, _ := io.ReadAll(r.Body)
	w, err := standardwebhooks.NewWebhook(secret)
	if err == nil {
		err = w.Verify(body, r.Header)
	}
	if err != nil {
		t.Errorf("%v: %s", err, body)
	}
	return string(body)
}

var toLoopback = []string{"127.0.0.0/8"}

func TestAWebhookIsKept(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Server: unlimited})
	c := h.Client(t)
	made := newHook(t, c, object{"url": "https://example.com/x", "events": []string{"session.failed", "session.completed", "session.failed"}})
	path := hooks + "/" + made.ID
	var w contract.Webhook
	r := c.Want(200, "GET", path, nil).JSON(&w)
	if w.Status != "enabled" || orNone(w.URL) != "https://example.com/x" || strings.Join(w.Events, " ") != "session.completed session.failed" || len(w.SpaceIds) != 0 ||
		w.CreditsLowMicro != 10_000_000 || strings.Contains(string(r.Body), "whsec") {
		t.Errorf("%s", r.Body)
	}
	var space contract.Space
	c.Want(201, "POST", "/api/v1/spaces", object{"name": "s"}).JSON(&space)
	r = c.Want(200, "PATCH", path, object{"events": []string{"*"}, "spaceIds": []string{space.ID}, "description": "d", "creditsLowMicro": 5, "enabled": false, "url": nil}).JSON(&w)
	if w.Status != "disabled" || orNone(w.DisabledReason) != "user" || !w.URL.IsNull() || w.Events[0] != "*" || w.SpaceIds[0] != space.ID || orNone(w.Description) != "d" || w.CreditsLowMicro != 5 || r.Header.Get("ETag") != `"r2"` {
		t.Errorf("%s", r.Body)
	}
	c.Want(204, "DELETE", "/api/v1/spaces/"+space.ID, nil)
	c.Want(200, "PATCH", path, object{"description": nil, "creditsLowMicro": nil}).JSON(&w) // a deleted space does not matter
	if !w.Description.IsNull() || w.CreditsLowMicro != 10_000_000 || w.Status != "disabled" {
		t.Errorf("%+v", w)
	}
	c.Want(200, "PATCH", path, object{"spaceIds": nil, "enabled": true}).JSON(&w)
	if len(w.SpaceIds) != 0 || w.Status != "enabled" {
		t.Errorf("%+v", w)
	}
	c.With("If-Match", `"r1"`).WantError(stoa.CodePrecondition, "PATCH", path, object{"description": "x"})
	c.With("If-Match", `"r1"`).WantError(stoa.CodePrecondition, "DELETE", path, nil)
	for _, try := range [][2]string{{"POST", hooks}, {"PATCH", path}} {
		for _, wrong := range []struct {
			code  stoa.Code
			param string
			body  object
		}{
			{stoa.CodeInvalidValue, "events", object{"events": []string{"*", "session.failed"}}},
			{stoa.CodeInvalidValue, "events[0]", object{"events": []string{"session.begun"}}},
			{stoa.CodeInvalidValue, "events", object{"events": []string{}}},
			{stoa.CodeUnknownField, "secret", object{"secret": "whsec_mine"}},
			{stoa.CodeSpaceNotFound, "", object{"spaceIds": []string{"spc_x"}}},
			{stoa.CodeInvalidURL, "url", object{"url": "ftp://example.com"}},
			{stoa.CodeInvalidURL, "url", object{"url": "https://user:pw@example.com"}},
			{stoa.CodeInvalidURL, "url", object{"url": ""}},
			{stoa.CodeAddressNotAllowed, "url", object{"url": "http://example.com"}},
			{stoa.CodeAddressNotAllowed, "url", object{"url": "https://localhost/x"}},
			{stoa.CodeAddressNotAllowed, "url", object{"url": "https://[::ffff:10.0.0.1]/x"}},
			{stoa.CodeAddressNotAllowed, "url", object{"url": h.URL}},
		} {
			if wrong.body["events"] == nil {
				wrong.body["events"] = []string{"*"}
			}
			if e := c.WantError(wrong.code, try[0], try[1], wrong.body); wrong.param != "" && (e.Param == nil || *e.Param != wrong.param) {
				t.Errorf("%s %v: %+v", try[0], wrong.body, e)
			}
		}
	}
	c.WantError(stoa.CodeInvalidValue, "PATCH", path, object{"events": nil})
	c.WantError(stoa.CodeMissingParameter, "POST", hooks, object{})
	for _, missing := range [][2]string{
		{"GET", ""}, {"PATCH", ""}, {"POST", "/test"}, {"POST", "/rotate-secret"}, {"POST", "/enable"}, {"POST", "/recover"}, {"GET", "/deliveries"}, {"GET", "/deliveries/dlv_x"}, {"POST", "/deliveries/dlv_x/redeliver"},
	} {
		var body any
		switch {
		case missing[0] == "PATCH":
			body = object{}
		case missing[1] == "/recover":
			body = object{"since": "2026-11-20T00:00:00Z"}
		}
		c.WantError(stoa.CodeWebhookNotFound, missing[0], hooks+"/whk_x"+missing[1], body)
	}
	c.WantError(stoa.CodeDeliveryNotFound, "GET", path+"/deliveries/dlv_x", nil)
	c.WantError(stoa.CodeDeliveryNotFound, "POST", path+"/deliveries/dlv_x/redeliver", nil)
	c.Want(204, "DELETE", path, nil)
	c.WantError(stoa.CodeWebhookNotFound, "DELETE", path, nil)
	c.WantError(stoa.CodeWebhookNotFound, "GET", path, nil)
}

func TestASecretIsShownOnce(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Server: unlimited})
	c := h.Client(t)
	once := c.With("Idempotency-Key", "hook")
	body := object{"url": "https://example.com", "events": []string{"*"}}
	var first, again contract.WebhookWithSecret
	once.Want(201, "POST", hooks, body).JSON(&first)
	if once.Want(201, "POST", hooks, body).JSON(&again); again.Secret != first.Secret || again.ID != first.ID {
		t.Errorf("the repeated request made %+v", again)
	}
	once.WantError(stoa.CodeIdempotencyReused, "POST", hooks, object{"events": []string{"*"}})
	rotate := c.With("Idempotency-Key", "rotate")
	var second contract.WebhookWithSecret
	rotate.Want(201, "POST", hooks+"/"+first.ID+"/rotate-secret", object{"overlapSeconds": 60}).JSON(&second)
	if second.Secret == first.Secret || second.PreviousEndsAt.IsNull() {
		t.Errorf("%+v", second)
	}
	rotate.Want(201, "POST", hooks+"/"+first.ID+"/rotate-secret", object{"overlapSeconds": 60}).JSON(&again)
	if again.Secret != second.Secret {
		t.Error("a repeated rotation made another secret")
	}
	c.WantError(stoa.CodeInvalidValue, "POST", hooks+"/"+first.ID+"/rotate-secret", object{"overlapSeconds": 604801})
	for _, path := range []string{hooks, hooks + "/" + first.ID} {
		if r := c.Want(200, "GET", path, nil); strings.Contains(string(r.Body), "whsec_") {
			t.Errorf("%s: %s", path, r.Body)
		}
	}
	err := h.Store.Read(t.Context(), func(tx *store.Tx) error { // and it is in no row as it is
		rows, err := tx.SealedRows(t.Context(), "webhooks", "", 10)
		for _, row := range rows {
			if strings.Contains(row.Sealed, "whsec") || strings.Contains(row.Sealed, strings.TrimPrefix(second.Secret, "whsec_")) {
				t.Errorf("it is stored: %s", row.Sealed)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAccountsHaveTwentyWebhooks(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Server: unlimited})
	c := h.Client(t)
	var meta contract.Meta
	c.Want(200, "GET", "/api/v1/meta", nil).JSON(&meta)
	var last contract.WebhookWithSecret
	for range meta.Limits.MaxWebhooks {
		last = newHook(t, c, object{})
	}
	c.WantError(stoa.CodeLimitReached, "POST", hooks, object{"events": []string{"*"}})
	var list page[contract.Webhook]
	c.Want(200, "GET", hooks+"?limit=7", nil).JSON(&list)
	if len(list.Data) != 7 || list.Data[0].ID != last.ID || !list.HasMore {
		t.Errorf("%+v", list)
	}
	seen := 7
	for list.HasMore {
		c.Want(200, "GET", hooks+"?limit=7&cursor="+*list.NextCursor, nil).JSON(&list)
		seen += len(list.Data)
	}
	if seen != store.MaxWebhooks {
		t.Errorf("%d are listed", seen)
	}
	c.WantError(stoa.CodeInvalidCursor, "GET", hooks+"?cursor=x", nil)
	c.WantError(stoa.CodeInvalidValue, "GET", hooks+"?limit=0", nil)
}

func TestASessionsEndIsSent(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Allow: toLoopback, Server: unlimited})
	a := newAuthor(t, h, h.Client(t), nil)
	address, got := catcher(t)
	w := newHook(t, a.Client, object{"url": address, "events": []string{"session.completed", "session.waiting_for_input", "session.cancelled", "scheduled_task.run_finished"}})
	s, path := a.begin(t, "say: hello", nil)
	a.until(t, path, "completed")
	r := <-got
	body := verified(t, w.Secret, r)
	if !strings.Contains(body, `"type":"session.completed"`) || !strings.Contains(body, s.ID) || !strings.Contains(body, `"turn":1`) || strings.Contains(body, "hello") {
		t.Errorf("%s", body)
	}
	a.Want(202, "POST", path+"/messages", object{"message": "ask: which one?"})
	a.until(t, path, "waiting_for_input")
	if body := verified(t, w.Secret, <-got); !strings.Contains(body, `"type":"session.waiting_for_input"`) || !strings.Contains(body, `"pendingInput":{"id":"inp_`) || strings.Contains(body, "which") {
		t.Errorf("%s", body)
	}
	a.Want(200, "POST", path+"/cancel", nil)
	if body := verified(t, w.Secret, <-got); !strings.Contains(body, `"type":"session.cancelled"`) {
		t.Errorf("%s", body)
	}
	task, _ := newTask(t, a, nil)
	a.Want(202, "POST", a.agent+"/scheduled-tasks/"+task.ID+"/run", nil)
	for seen := map[string]bool{}; !seen["session.completed"] || !seen["scheduled_task.run_finished"]; {
		body := verified(t, w.Secret, <-got)
		for _, kind := range []string{"session.completed", "scheduled_task.run_finished"} {
			if strings.Contains(body, `"type":"`+kind+`"`) {
				if seen[kind] {
					t.Errorf("twice: %s", body)
				}
				seen[kind] = true
			}
		}
	}
}

// delivery waits until a delivery is no longer pending.
func delivery(t *testing.T, c *apitest.Client, path string) (d contract.Delivery) {
	t.Helper()
	for range 2000 {
		c.Want(200, "GET", path, nil).JSON(&d)
		if d.Status != "pending" {
			return d
		}
	}
	t.Fatalf("it is %+v", d)
	return d
}

func TestADeliveryIsFollowed(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Allow: toLoopback, Server: unlimited})
	c := h.Client(t)
	address, got := catcher(t)
	w := newHook(t, c, object{"url": address, "events": []string{"session.failed"}})
	path := hooks + "/" + w.ID
	var d contract.Delivery
	r := c.With("Idempotency-Key", "test").Want(202, "POST", path+"/test", nil).JSON(&d)
	if d.Type != "webhook.test" || d.Status != "pending" || r.Header.Get("Location") != path+"/deliveries/"+d.ID || d.NextAttemptAt.IsNull() {
		t.Errorf("%+v", d)
	}
	verified(t, w.Secret, <-got)
	d = delivery(t, c, path+"/deliveries/"+d.ID)
	if d.Status != "delivered" || len(d.Attempts) != 1 || orNone(d.Attempts[0].Status) != 200 || !d.Attempts[0].Error.IsNull() || d.FinishedAt.IsNull() || !d.NextAttemptAt.IsNull() || !strings.Contains(d.Body, d.EventID) {
		t.Errorf("%+v", d)
	}
	c.Want(202, "POST", path+"/deliveries/"+d.ID+"/redeliver", nil)
	if again := <-got; again.Header.Get("webhook-id") != d.EventID {
		t.Errorf("%v", again.Header)
	}
	var list page[contract.DeliverySummary]
	c.Want(200, "GET", path+"/deliveries?type=webhook.test", nil).JSON(&list)
	if len(list.Data) != 1 || list.Data[0].ID != d.ID {
		t.Errorf("%+v", list)
	}
	c.Want(200, "GET", path+"/deliveries?status=failed", nil).JSON(&list)
	if len(list.Data) != 0 {
		t.Errorf("%+v", list)
	}
	c.WantError(stoa.CodeInvalidValue, "GET", path+"/deliveries?status=lost", nil)
}

func TestADisabledWebhookHoldsAndRecovers(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Allow: toLoopback, Server: unlimited})
	c := h.Client(t)
	address, got := catcher(t)
	w := newHook(t, c, object{"url": address, "enabled": false})
	path := hooks + "/" + w.ID
	emit(t, h)
	var list page[contract.DeliverySummary]
	c.Want(200, "GET", path+"/deliveries?status=held", nil).JSON(&list)
	if len(list.Data) != 1 || !list.Data[0].NextAttemptAt.IsNull() {
		t.Fatalf("%+v", list)
	}
	held := path + "/deliveries/" + list.Data[0].ID
	since := object{"since": "2026-01-01T00:00:00Z"}
	c.WantError(stoa.CodeWebhookDisabled, "POST", path+"/recover", since)
	c.WantError(stoa.CodeWebhookDisabled, "POST", held+"/redeliver", nil)
	var on contract.Webhook
	if c.Want(200, "POST", path+"/enable", nil).JSON(&on); on.Status != "enabled" {
		t.Errorf("%+v", on)
	}
	c.WantError(stoa.CodeInvalidValue, "POST", path+"/recover", object{"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"})
	var done contract.WebhookRecovery
	if c.Want(200, "POST", path+"/recover", object{"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}).JSON(&done); done.Recovered != 0 {
		t.Errorf("of another time: %+v", done)
	}
	if c.Want(200, "POST", path+"/recover", since).JSON(&done); done.Recovered != 1 {
		t.Errorf("%+v", done)
	}
	verified(t, w.Secret, <-got)
	none := newHook(t, c, object{}) // without an address
	emit(t, h)
	c.WantError(stoa.CodeWebhookDisabled, "POST", hooks+"/"+none.ID+"/recover", since)
}

// emit has something happen in the owner's account.
func emit(t *testing.T, h *apitest.Service) {
	t.Helper()
	err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		return webhook.Emit(context.Background(), tx, webhook.Event{AccountID: h.Account.ID, Type: webhook.SessionFailed})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAWebhookEndsWithItsKey(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true, Server: unlimited})
	owner := h.Client(t)
	secret, key := h.NewKey(h.Account.ID, stoa.ScopeAll)
	w := newHook(t, h.ClientWith(t, secret), object{})
	owner.Want(204, "DELETE", "/api/v1/keys/"+key.ID, nil)
	var got contract.Webhook
	if owner.Want(200, "GET", hooks+"/"+w.ID, nil).JSON(&got); got.Status != "disabled" || orNone(got.DisabledReason) != "key_revoked" {
		t.Errorf("%+v", got)
	}
	owner.Want(200, "POST", hooks+"/"+w.ID+"/enable", nil).JSON(&got)
	if got.Status != "enabled" {
		t.Errorf("%+v", got)
	}
}

func TestWithoutAKeyForSecrets(t *testing.T) {
	t.Parallel()
	v, err := vault.Open(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, apitest.Config{Idle: true, Server: unlimited, Vault: v})
	c := h.Client(t)
	if e := c.WantError(stoa.CodeSecretsKeyMissing, "POST", hooks, object{"events": []string{"*"}}); !strings.Contains(e.Message, "docs/configuration.md") {
		t.Errorf("the message names no page: %s", e.Message)
	}
	var d contract.Diagnosis
	c.Want(200, "GET", "/api/v1/doctor", nil).JSON(&d)
	if i := slices.IndexFunc(d.Checks, func(c contract.DiagnosisCheck) bool { return c.Name == "secrets" }); d.Checks[i].Status != "attention" || !strings.Contains(d.Checks[i].Summary, "set secrets.keys") {
		t.Errorf("%+v", d.Checks[i])
	}
	var w stoa.Webhook
	err = h.Store.Write(t.Context(), func(tx *store.Tx) (err error) { // as after a restore without the key
		w, err = tx.Operations().InsertWebhook(t.Context(), stoa.Webhook{AccountID: h.Account.ID, URL: "https://example.com", Events: []string{"*"}, Sealed: "stoa2.file-1.AAAA"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	emit(t, h)
	var got contract.Webhook
	if c.Want(200, "GET", hooks+"/"+w.ID, nil).JSON(&got); got.Status != "secret_unreadable" {
		t.Errorf("%+v", got)
	}
	var list page[contract.DeliverySummary]
	if c.Want(200, "GET", hooks+"/"+w.ID+"/deliveries", nil).JSON(&list); len(list.Data) != 1 || list.Data[0].Status != "held" {
		t.Errorf("%+v", list)
	}
	c.WantError(stoa.CodeSecretsKeyMissing, "POST", hooks+"/"+w.ID+"/rotate-secret", nil)
}
