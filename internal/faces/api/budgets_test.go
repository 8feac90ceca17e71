package api_test

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

const budgetsPath = "/api/v1/budgets"

// newBudget creates a budget.
func newBudget(t *testing.T, c *apitest.Client, in object) (b contract.Budget) {
	t.Helper()
	c.Want(201, "POST", budgetsPath, in).JSON(&b)
	return b
}

// inEffect makes calls until a budget counts them for a number of subjects: on PostgreSQL it takes
// effect after two seconds.
func inEffect(t *testing.T, c *apitest.Client, b contract.Budget, subjects int, call func()) {
	t.Helper()
	for {
		call()
		var page page[contract.BudgetWindow]
		c.Want(200, "GET", budgetsPath+"/"+b.ID+"/windows", nil).JSON(&page)
		if len(page.Data) >= subjects {
			return
		}
	}
}

func TestALifeOfABudget(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	call := func(user string) *apitest.Reply {
		return c.Do("POST", "/api/v1/responses", object{"model": "auto", "input": "hi", "safety_identifier": user, "user": "other", "max_output_tokens": 300})
	}
	each := newBudget(t, c, object{"scope": "end_user", "subject": "*", "period": "month", "timeZone": "Europe/Vienna", "limitMicro": 1_000_000_000, "notifyAt": []int{100, 50}})
	if !each.SpentMicro.IsNull() || each.AtCap != "shorten" || each.TimeZone != "Europe/Vienna" || each.NotifyAt[0] != 50 || each.ResetsAt.IsNull() {
		t.Errorf("created %+v", each)
	}
	inEffect(t, c, each, 1, func() { call("ann") })
	var windows page[contract.BudgetWindow]
	c.Want(200, "GET", budgetsPath+"/"+each.ID+"/windows?limit=1", nil).JSON(&windows)
	w := windows.Data[0]
	if w.Subject.MustGet() != "ann" || w.SpentMicro == 0 || w.HeldMicro != 0 || w.LimitMicro != each.LimitMicro {
		t.Errorf("its window is %+v", w)
	}
	// A named budget begins with what its subject has spent.
	ann := newBudget(t, c, object{"scope": "end_user", "subject": "ann", "period": "month", "timeZone": "Europe/Vienna", "limitMicro": w.SpentMicro + 1, "atCap": "refuse"})
	if ann.SpentMicro.MustGet() != w.SpentMicro || ann.OpeningMicro.MustGet() != w.SpentMicro || ann.HeldMicro.MustGet() != 0 {
		t.Errorf("the named budget is %+v, the window %+v", ann, w)
	}
	var refused *apitest.Reply
	for refused == nil || refused.Status == 200 {
		refused = call("ann")
	}
	if e := refused.Error(); refused.Status != 429 || e.Code != "budget_exceeded" || e.Retryable || !strings.Contains(e.Message, ann.ID) || !strings.Contains(e.Message, "again at") {
		t.Errorf("beyond it: %d %+v", refused.Status, e)
	}
	if refused.Header.Get("x-should-retry") != "false" || refused.Header.Get("Retry-After") != "" {
		t.Errorf("x-should-retry %q, Retry-After %q", refused.Header.Get("x-should-retry"), refused.Header.Get("Retry-After"))
	}
	if r := call("bob"); r.Status != 200 {
		t.Errorf("another end user: %d", r.Status)
	}
	var b contract.Budget
	c.Want(200, "PATCH", budgetsPath+"/"+ann.ID, object{"limitMicro": 1_000_000_000, "atCap": nil, "notifyAt": []int{10}}).JSON(&b)
	if b.LimitMicro != 1_000_000_000 || b.AtCap != "shorten" || len(b.NotifyAt) != 1 {
		t.Errorf("changed to %+v", b)
	}
	if r := call("ann"); r.Status != 200 {
		t.Errorf("after the limit was raised: %d %s", r.Status, r.Body)
	}
	c.Want(200, "GET", budgetsPath+"/"+ann.ID, nil).JSON(&b)
	if b.SpentMicro.MustGet() <= b.OpeningMicro.MustGet() {
		t.Errorf("it has %+v", b)
	}
	var list page[contract.Budget]
	c.Want(200, "GET", budgetsPath, nil).JSON(&list)
	if len(list.Data) != 2 || list.Data[0].ID != ann.ID {
		t.Errorf("the list is %+v", list.Data)
	}
	c.Want(204, "DELETE", budgetsPath+"/"+ann.ID, nil)
	for _, method := range []string{"GET", "DELETE"} {
		c.WantError(stoa.CodeNotFound, method, budgetsPath+"/"+ann.ID, nil)
	}
	c.WantError(stoa.CodeNotFound, "PATCH", budgetsPath+"/"+ann.ID, object{})
	c.WantError(stoa.CodeNotFound, "GET", budgetsPath+"/"+ann.ID+"/windows", nil)
	for _, r := range receipts(t, h) {
		if r.EndUser != "ann" && r.EndUser != "bob" {
			t.Errorf("the receipt of a call names %q as its end user", r.EndUser)
		}
	}
}

func TestBudgetsAreChecked(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	whole := object{"scope": "account", "period": "day", "limitMicro": 5}
	with := func(changes object) object {
		b := object{"scope": "key", "subject": "*", "period": "day", "limitMicro": 5}
		for name, v := range changes {
			b[name] = v
		}
		return b
	}
	for name, test := range map[string]struct {
		body  object
		code  stoa.Code
		param string
	}{
		"another scope":             {with(object{"scope": "team"}), stoa.CodeInvalidValue, "scope"},
		"no limit":                  {object{"scope": "account", "period": "day"}, stoa.CodeMissingParameter, "limitMicro"},
		"a limit of 0":              {with(object{"limitMicro": 0}), stoa.CodeInvalidValue, "limitMicro"},
		"a subject of the account":  {with(object{"scope": "account"}), stoa.CodeInvalidValue, "subject"},
		"no subject":                {with(object{"subject": nil}), stoa.CodeMissingParameter, "subject"},
		"an unknown key":            {with(object{"subject": "key_none"}), stoa.CodeInvalidValue, "subject"},
		"an unknown agent":          {with(object{"scope": "agent", "subject": "agt_none"}), stoa.CodeInvalidValue, "subject"},
		"an unknown zone":           {with(object{"timeZone": "Europe/Atlantis"}), stoa.CodeInvalidTimezone, "timeZone"},
		"the zone of the machine":   {with(object{"timeZone": "Local"}), stoa.CodeInvalidTimezone, "timeZone"},
		"a mark beyond the limit":   {with(object{"notifyAt": []int{101}}), stoa.CodeInvalidValue, "notifyAt[0]"},
		"a member that is not ours": {with(object{"spentMicro": 1}), stoa.CodeUnknownField, "spentMicro"},
	} {
		if e := c.WantError(test.code, "POST", budgetsPath, test.body); deref(e.Param) != test.param {
			t.Errorf("%s: the param is %q, want %q", name, deref(e.Param), test.param)
		}
	}
	c.Want(201, "POST", budgetsPath, whole)
	c.WantError(stoa.CodeConflict, "POST", budgetsPath, whole)
	// Eight pairs of scope and period, and no more.
	for i, scope := range []string{"member", "key", "agent", "embed", "end_user", "key", "agent"} {
		period := "day"
		if i > 4 {
			period = "total"
		}
		c.Want(201, "POST", budgetsPath, with(object{"scope": scope, "period": period}))
	}
	if e := c.WantError(stoa.CodeLimitReached, "POST", budgetsPath, with(object{"period": "week"})); deref(e.Param) != "scope" {
		t.Errorf("the ninth pair: %+v", e)
	}
	for i := range stoa.MaxBudgets - 8 {
		c.Want(201, "POST", budgetsPath, with(object{"scope": "end_user", "subject": fmt.Sprint("user ", i)}))
	}
	c.WantError(stoa.CodeLimitReached, "POST", budgetsPath, with(object{"scope": "end_user", "subject": "one more"}))

	secret, _ := h.NewKey(h.Account.ID, stoa.ScopeAll, stoa.ScopeAccountRead)
	reader := h.ClientWith(t, secret)
	reader.Want(200, "GET", budgetsPath, nil)
	reader.WantError(stoa.CodeScope, "POST", budgetsPath, whole)
	secret, _ = h.NewKey(h.Account.ID, stoa.ScopeAll)
	h.ClientWith(t, secret).WantError(stoa.CodeScope, "GET", budgetsPath, nil)
}

// TestABudgetOfAnAgentEndsItsTurn: the turn can be retried when more may be spent.
func TestABudgetOfAnAgentEndsItsTurn(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	id := newAgent(t, h, h.Account.ID)
	b := newBudget(t, c, object{"scope": "agent", "subject": id, "period": "total", "limitMicro": 1})
	var e contract.ErrorBody
	for {
		r := c.Do("POST", "/api/v1/api-agents/"+id+"/sessions", object{"message": "hi", "mode": "once"})
		if r.Status == 429 {
			e = r.Error()
			break
		}
		if r.Status != 202 {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
	}
	if e.Code != string(stoa.CodeBudget) || !strings.Contains(e.Message, b.ID) {
		t.Errorf("refused with %+v", e)
	}
}

// A budget that an operator sets for a customer limits the customer's calls, and only operators change it.
func TestOperatorsSetBudgetsOfCustomers(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	operator := h.Client(t)
	var account contract.AccountWithKey
	operator.Want(201, "POST", "/api/v1/accounts", object{"name": "acme", "grantMicro": 100_000_000}).JSON(&account)
	path := "/api/v1/accounts/" + account.ID + "/budgets"
	var key contract.KeyWithSecret
	operator.Want(201, "POST", "/api/v1/accounts/"+account.ID+"/keys", object{"name": "theirs", "scopes": []string{"*", "account:read", "account:write"}}).JSON(&key)
	customer := h.ClientWith(t, key.Secret)
	var b contract.Budget
	operator.Want(201, "POST", path, object{"scope": "account", "period": "total", "limitMicro": 100, "atCap": "refuse"}).JSON(&b)
	operator.WantError(stoa.CodeConflict, "POST", path, object{"scope": "account", "period": "total", "limitMicro": 5})
	operator.WantError(stoa.CodeInvalidTimezone, "POST", path, object{"scope": "account", "period": "week", "limitMicro": 5, "timeZone": "Mars"})
	own := newBudget(t, customer, object{"scope": "account", "period": "day", "limitMicro": 50_000_000})
	if !b.SetByOperator || own.SetByOperator {
		t.Errorf("set by the operator: %+v, by the customer: %+v", b, own)
	}
	for r := customer.Do("POST", "/api/v1/responses", object{"model": "auto", "input": "hi"}); r.Status != 429; r = customer.Do("POST", "/api/v1/responses", object{"model": "auto", "input": "hi"}) {
	}
	for _, c := range []*apitest.Client{customer, operator} {
		var list page[contract.Budget]
		c.Want(200, "GET", map[bool]string{true: path, false: budgetsPath}[c == operator], nil).JSON(&list)
		if len(list.Data) != 2 || list.Data[1].ID != b.ID || !list.Data[1].SetByOperator {
			t.Errorf("the list has %+v", list.Data)
		}
		c.Want(200, "GET", budgetsPath+"/"+b.ID, nil)
		c.Want(200, "GET", budgetsPath+"/"+b.ID+"/windows", nil)
	}
	customer.WantError(stoa.CodeScope, "PATCH", budgetsPath+"/"+b.ID, object{"limitMicro": 1_000_000})
	customer.WantError(stoa.CodeScope, "DELETE", budgetsPath+"/"+b.ID, nil)
	customer.WantError(stoa.CodeScope, "POST", path, object{"scope": "account", "period": "week", "limitMicro": 1})
	customer.Want(200, "PATCH", budgetsPath+"/"+own.ID, object{"limitMicro": 1_000_000})
	operator.Want(200, "PATCH", budgetsPath+"/"+b.ID, object{"limitMicro": 2_000_000}).JSON(&b)
	if b.LimitMicro != 2_000_000 || !b.SetByOperator {
		t.Errorf("changed to %+v", b)
	}
	operator.Want(204, "DELETE", budgetsPath+"/"+b.ID, nil)
	operator.WantError(stoa.CodeNotFound, "DELETE", budgetsPath+"/"+b.ID, nil)
	operator.WantError(stoa.CodeNotFound, "GET", "/api/v1/accounts/"+stoa.NewID("acc")+"/budgets", nil)
	h.ClientWith(t, key.Secret).Want(204, "DELETE", budgetsPath+"/"+own.ID, nil)
}
