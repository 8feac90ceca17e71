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

// notices returns the types of the notices for a client, and the list.
func notices(t *testing.T, c *apitest.Client) (types string, list contract.NoticeList) {
	t.Helper()
	c.Want(200, "GET", "/api/v1/notices", nil).JSON(&list)
	var all []string
	for _, n := range list.Data {
		all = append(all, n.Type)
	}
	return strings.Join(all, " "), list
}

// TestNotices shows an open alert, a webhook that fails and a budget that has reached a mark to
// those who may see them.
func TestNotices(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	if got, _ := notices(t, c); got != "" {
		t.Errorf("nothing has happened: %s", got)
	}
	w := newHook(t, c, object{"url": "https://example.com", "events": []string{"session.failed"}, "description": strings.Repeat("ö", 2000)})
	customer := storetest.Account(t, h.Store, 0)
	b := newBudget(t, c, object{"scope": "end_user", "subject": "*", "period": "month", "limitMicro": 5_000_000, "notifyAt": []int{1}})
	call := func(words int) {
		c.Want(200, "POST", "/api/v1/responses", object{"model": "auto", "input": strings.Repeat("hi ", words), "user": "ann", "max_output_tokens": 300})
	}
	inEffect(t, c, b, 1, func() { call(1) })
	for {
		if got, _ := notices(t, c); got == "budget.threshold" {
			break
		}
		call(5000)
	}
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.Work().InsertTask(t.Context(), stoa.ScheduledTask{
			AccountID: h.Account.ID, AgentID: "agt_1", KeyID: "key_1", Name: "Every morning", Mode: stoa.ModeOnce, Failures: 2, Enabled: true,
			Schedule: stoa.Schedule{Type: stoa.ScheduleInterval, Every: time.Hour}, SessionPolicy: "new", MissedPolicy: "skip", OverlapPolicy: "skip",
		}); err != nil {
			return err
		}
		if _, _, err := tx.Operations().WebhookFailed(t.Context(), h.Account.ID, w.ID, tx.Now.Add(-6*time.Minute), false); err != nil {
			return err
		}
		if err := tx.Operations().RaiseAlert(t.Context(), "provider.down", "claude", object{}, tx.Now); err != nil {
			return err
		}
		return tx.Operations().RaiseAlert(t.Context(), "account.balance_low", customer.ID, object{}, tx.Now.Add(-time.Minute))
	}); err != nil {
		t.Fatal(err)
	}
	got, list := notices(t, c)
	if got != "provider.down account.balance_low webhook.failing schedule.failing budget.threshold" {
		t.Fatalf("%+v", list)
	}
	for i, want := range []struct{ scope, path, message string }{
		{"service", "providers", "A provider does not answer: claude"},
		{"service", "accounts/" + customer.ID, "A customer is low on credits: " + customer.Name},
		{"account", "webhooks/" + w.ID, "A webhook fails: öö"},
		{"account", "agents/agt_1/tasks/", "A schedule fails: Every morning"},
		{"account", "budgets", "A budget is used up to "},
	} {
		if n := list.Data[i]; n.Scope != want.scope || !strings.HasPrefix(n.ConsolePath, want.path) || !strings.HasPrefix(n.Message, want.message) || n.Since.IsNull() {
			t.Errorf("%+v, want %+v", n, want)
		}
	}
	if !strings.HasSuffix(list.Data[4].Message, ": end_user ann") {
		t.Error(list.Data[4].Message)
	}
	for want, scopes := range map[string][]string{
		"": {"agents:read"}, "webhook.failing schedule.failing": {stoa.ScopeAll}, "schedule.failing": {"schedules:read"}, "budget.threshold": {stoa.ScopeAccountRead}, "provider.down account.balance_low": {stoa.ScopeOperatorRead},
	} {
		key, _ := h.NewKey(h.Account.ID, scopes...)
		if got, _ := notices(t, h.ClientWith(t, key)); got != want {
			t.Errorf("with %v: %q, want %q", scopes, got, want)
		}
	}
	key, _ := h.NewKey(customer.ID, stoa.ScopeAll, stoa.ScopeAccountRead)
	if got, _ := notices(t, h.ClientWith(t, key)); got != "" {
		t.Errorf("a customer sees %q", got)
	}
	c.Want(200, "PATCH", budgetsPath+"/"+b.ID, object{"limitMicro": 1_000_000_000})
	if got, _ := notices(t, c); got != "provider.down account.balance_low webhook.failing schedule.failing" {
		t.Errorf("with a higher limit: %s", got)
	}
	c.Want(200, "PATCH", "/api/v1/accounts/"+customer.ID, object{"suspended": true})
	h.ClientWith(t, key).WantError(stoa.CodeSuspended, "GET", "/api/v1/notices", nil)
}
