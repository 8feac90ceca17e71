package api_test

import (
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/storetest"
)

// TestAlertsAreForOperators: only keys with the scope operator create and see webhooks with the
// alerts of the service.
func TestAlertsAreForOperators(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	key, _ := h.NewKey(h.Account.ID, stoa.ScopeAll)
	plain := h.ClientWith(t, key)
	otherKey, _ := h.NewKey(storetest.Account(t, h.Store, 0).ID, stoa.ScopeAll, stoa.ScopeOperator)
	alerts := object{"scope": "service", "events": []string{"provider.down", "node.lost"}}
	plain.WantError(stoa.CodeScope, "POST", hooks, alerts)
	h.ClientWith(t, otherKey).WantError(stoa.CodeInvalidValue, "POST", hooks, alerts)
	w := newHook(t, c, alerts)
	if w.Scope != "service" {
		t.Errorf("%+v", w)
	}
	path := hooks + "/" + w.ID
	for _, bad := range []object{
		{"events": []string{"provider.down"}},
		{"scope": "account", "events": []string{"node.lost"}},
		{"scope": "service", "events": []string{"session.failed"}},
		{"scope": "service", "events": []string{"*"}, "spaceIds": []string{"spc_1"}},
		{"scope": "all", "events": []string{"*"}},
	} {
		c.WantError(stoa.CodeInvalidValue, "POST", hooks, bad)
	}
	c.WantError(stoa.CodeInvalidValue, "PATCH", path, object{"events": []string{"session.failed"}})
	c.WantError(stoa.CodeUnknownField, "PATCH", path, object{"scope": "account"})
	var d contract.Delivery
	c.Want(202, "POST", path+"/test", nil).JSON(&d)
	for _, hidden := range [][2]string{
		{"GET", ""},
		{"PATCH", ""},
		{"DELETE", ""},
		{"POST", "/test"},
		{"POST", "/rotate-secret"},
		{"POST", "/enable"},
		{"POST", "/recover"},
		{"GET", "/deliveries"},
		{"GET", "/deliveries/" + d.ID},
		{"POST", "/deliveries/" + d.ID + "/redeliver"},
	} {
		var body any
		switch {
		case hidden[0] == "PATCH" || hidden[1] == "/rotate-secret":
			body = object{}
		case hidden[1] == "/recover":
			body = object{"since": time.Now().Add(-time.Hour)}
		}
		plain.WantError(stoa.CodeWebhookNotFound, hidden[0], path+hidden[1], body)
	}
	var list page[contract.Webhook]
	if plain.Want(200, "GET", hooks, nil).JSON(&list); len(list.Data) != 0 {
		t.Errorf("%+v", list)
	}
	if c.Want(200, "GET", hooks, nil).JSON(&list); len(list.Data) != 1 {
		t.Errorf("%+v", list)
	}
	c.Want(200, "PATCH", path, object{"events": []string{"*"}})
	c.Want(204, "DELETE", path, nil)

	// A webhook ends with the scope of its key.
	secret, narrowed := h.NewKey(h.Account.ID, stoa.ScopeAll, stoa.ScopeOperator)
	w = newHook(t, h.ClientWith(t, secret), alerts)
	other := newHook(t, h.ClientWith(t, secret), object{})
	c.Want(200, "PATCH", "/api/v1/keys/"+narrowed.ID, object{"name": "same scopes"})
	for _, step := range []string{"enabled", "disabled"} {
		var got contract.Webhook
		if c.Want(200, "GET", hooks+"/"+w.ID, nil).JSON(&got); got.Status != step || step == "disabled" && orNone(got.DisabledReason) != stoa.WebhookDisabledScope {
			t.Errorf("%+v, want %s", got, step)
		}
		if c.Want(200, "GET", hooks+"/"+other.ID, nil).JSON(&got); got.Status != "enabled" {
			t.Errorf("%+v", got)
		}
		if err := h.Store.Write(t.Context(), func(tx *store.Tx) error { // as the role of a member changes
			k := narrowed
			k.Scopes = []string{stoa.ScopeAll}
			return tx.People().UpdateKey(t.Context(), k)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheDoctorSeesAlerts raises an alert, and a webhook fails.
func TestTheDoctorSeesAlerts(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	w := newHook(t, c, object{"url": "https://example.com"})
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		if _, _, err := tx.Operations().WebhookFailed(t.Context(), h.Account.ID, w.ID, tx.Now.Add(-6*time.Minute), false); err != nil {
			return err
		}
		return tx.Operations().RaiseAlert(t.Context(), "provider.down", "claude", object{"provider": "claude"}, tx.Now)
	}); err != nil {
		t.Fatal(err)
	}
	var d contract.Diagnosis
	c.Want(200, "GET", "/api/v1/doctor", nil).JSON(&d)
	found := 0
	for _, check := range d.Checks {
		switch check.Name {
		case "alerts":
			if found++; check.Status != "attention" || check.Count != 1 || orNone(check.Items[0].ID) != "claude" || check.Items[0].Detail != "provider.down" {
				t.Errorf("%+v", check)
			}
		case "webhooks":
			if found++; check.Status != "attention" || !strings.Contains(check.Summary, "1 webhook does not work") || orNone(check.Items[0].ID) != w.ID || check.Items[0].Detail != "it never worked" {
				t.Errorf("%+v", check)
			}
		}
	}
	if found != 2 {
		t.Errorf("%+v", d)
	}
}
