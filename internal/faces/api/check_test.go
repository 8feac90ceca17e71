package api_test

import (
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

func TestWholeNumbersMayBeWrittenInAnyWay(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	for text, want := range map[string]int64{"1e2": 100, "5.0": 5, "7": 7, "1000000000000000": 1e15} {
		var g contract.Grant
		h.Client(t).Want(201, "POST", "/api/v1/accounts/"+h.Account.ID+"/grants", `{"amountMicro":`+text+`}`).JSON(&g)
		if g.AmountMicro != want {
			t.Errorf("%s was taken as %d", text, g.AmountMicro)
		}
	}
}

func TestANulCharacterIsRefusedWhereverItIs(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	e := c.WantError(stoa.CodeInvalidValue, "POST", "/api/v1/accounts", "{\"name\":\"a\\u0000b\"}")
	if deref(e.Param) != "name" {
		t.Errorf("param is %q", deref(e.Param))
	}
	c.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/receipts?endUser=a%00b", nil)
	c.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/receipts?endUser=%ff", nil)
	c.WantError(stoa.CodeNotFound, "GET", "/api/v1/receipts/%00", nil)
	c.WantError(stoa.CodeNotFound, "GET", "/api/v1/keys/%ff", nil)
}

func TestTheMessageNamesTheMemberAndWhatItTakes(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	tests := []struct {
		body, param, message string
	}{
		{`{}`, "name", `"name" is missing.`},
		{`{"name":5}`, "name", `"name" must be a string.`},
		{`{"name":"x","scopes":["responses",3]}`, "scopes[1]", `"scopes[1]" must be one of responses, agents:read, agents:write, sessions:read, sessions:write, drive:read, drive:write, schedules:read, schedules:write, embeds:write, approvals:write, webhooks:read, webhooks:write, connections:read, connections:write, secrets:write, keys:write, usage:read, account:read, account:write, operator:read, operator:billing, operator, *.`},
		{`{"name":"x","scopes":[]}`, "scopes", `"scopes" must have at least 1 item.`},
		{`{"name":"x","requestsPerMinute":0}`, "requestsPerMinute", `"requestsPerMinute" must be at least 1.`},
		{`{"name":"x","requestsPerMinute":1.5}`, "requestsPerMinute", `"requestsPerMinute" must be an integer.`},
		{`{"name":"x","expiresAt":"soon"}`, "expiresAt", `"expiresAt" must be an RFC 3339 time such as 2026-11-20T12:00:00Z.`},
		{`{"name":"x","Name":"y"}`, "Name", `Unknown member "Name". The members are expiresAt, maxCreditsMicroPerDay, models, name, networks, requestsPerMinute, requireEndUser, scopes.`},
	}
	for _, test := range tests {
		e := h.Client(t).WantError(stoa.Code(c.Do("POST", "/api/v1/keys", test.body).Error().Code), "POST", "/api/v1/keys", test.body)
		if deref(e.Param) != test.param || e.Message != test.message {
			t.Errorf("%s: %q at %q", test.body, e.Message, deref(e.Param))
		}
	}
}
