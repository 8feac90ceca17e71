package api_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

type object = map[string]any

// page is a list of anything.
type page[T any] struct {
	Data       []T
	NextCursor *string
	HasMore    bool
}

func TestAnOperatorRunsCustomers(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	operator := h.Client(t)
	var acme contract.AccountWithKey
	r := operator.Want(201, "POST", "/api/v1/accounts", object{"name": "Acme", "email": "a@acme.example", "plan": "free", "grantMicro": 5_000_000})
	r.JSON(&acme)
	if r.Header.Get("Location") != "/api/v1/accounts/"+acme.ID || acme.Plan != "free" || acme.Credits.AvailableMicro != 5_000_000 {
		t.Errorf("made %+v at %s", acme, r.Header.Get("Location"))
	}
	customer := h.ClientWith(t, acme.Key.Secret)
	var me contract.User
	customer.Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	if me.ID != acme.ID || me.Plan.ID != "free" || me.Plan.GatedModels || me.Credits.AvailableMicro != 5_000_000 {
		t.Errorf("the customer is %+v", me)
	}
	// The plan changes at once, and with it what a gated model is answered by.
	gated := object{"model": "alpha-opus-5-5", "input": "say: hi"}
	var reply contract.Response
	customer.Want(200, "POST", "/api/v1/responses", gated).JSON(&reply)
	if reply.Model == "alpha-opus-5-5" {
		t.Error("a gated model served an account on free")
	}
	operator.Want(200, "PATCH", "/api/v1/accounts/"+acme.ID, object{"plan": "pro", "email": nil, "name": "Acme & Sons"})
	customer.Want(200, "POST", "/api/v1/responses", gated).JSON(&reply)
	if reply.Model != "alpha-opus-5-5" {
		t.Errorf("%s served an account on pro", reply.Model)
	}
	var account contract.AccountWithCredits
	operator.Want(200, "GET", "/api/v1/accounts/"+acme.ID, nil).JSON(&account)
	if account.Name != "Acme & Sons" || !account.Email.IsNull() || account.Credits.SpentMicro == 0 {
		t.Errorf("the account is %+v", account)
	}
	var key contract.KeyWithSecret
	operator.Want(201, "POST", "/api/v1/accounts/"+acme.ID+"/keys", object{"name": "second"}).JSON(&key)
	h.ClientWith(t, key.Secret).Want(200, "GET", "/api/v1/users/me", nil).JSON(&me)
	if me.ID != acme.ID {
		t.Errorf("the new key is of %s", me.ID)
	}
	h.ClientWith(t, key.Secret).WantError(stoa.CodeScope, "GET", "/api/v1/accounts", nil)
}

func TestWhatAnOperatorMayNot(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	tests := []struct {
		name, method, path string
		body               any
		want               stoa.Code
		param              string
	}{
		{"a plan that is not there", "POST", "/api/v1/accounts", object{"name": "x", "plan": "gold"}, stoa.CodeInvalidValue, "plan"},
		{"no name", "POST", "/api/v1/accounts", object{}, stoa.CodeMissingParameter, "name"},
		{"a null name", "POST", "/api/v1/accounts", object{"name": nil}, stoa.CodeMissingParameter, "name"},
		{"an empty name", "POST", "/api/v1/accounts", object{"name": ""}, stoa.CodeInvalidValue, "name"},
		{"a number for a name", "POST", "/api/v1/accounts", object{"name": 1}, stoa.CodeInvalidType, "name"},
		{"no address", "POST", "/api/v1/accounts", object{"name": "x", "email": "nobody"}, stoa.CodeInvalidValue, "email"},
		{"a fraction of a micro-credit", "POST", "/api/v1/accounts", `{"name":"x","grantMicro":1.5}`, stoa.CodeInvalidType, "grantMicro"},
		{"suspending oneself", "PATCH", "/api/v1/accounts/" + h.Account.ID, object{"suspended": true}, stoa.CodeInvalidValue, "suspended"},
		{"an account that is not there", "GET", "/api/v1/accounts/acc_none", nil, stoa.CodeNotFound, ""},
		{"a change of one", "PATCH", "/api/v1/accounts/acc_none", object{"name": "x"}, stoa.CodeNotFound, ""},
		{"a grant to one", "POST", "/api/v1/accounts/acc_none/grants", object{"amountMicro": 1}, stoa.CodeNotFound, ""},
		{"a key for one", "POST", "/api/v1/accounts/acc_none/keys", object{"name": "x"}, stoa.CodeNotFound, ""},
		{"a grant of nothing", "POST", "/api/v1/accounts/" + h.Account.ID + "/grants", object{"amountMicro": 0}, stoa.CodeInvalidValue, "amountMicro"},
		{"a grant below zero", "POST", "/api/v1/accounts/" + h.Account.ID + "/grants", object{"amountMicro": -1}, stoa.CodeInvalidValue, "amountMicro"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := c.WantError(test.want, test.method, test.path, test.body)
			if got := deref(e.Param); got != test.param {
				t.Errorf("param is %q, want %q: %s", got, test.param, e.Message)
			}
		})
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestAnExternalReferenceIsGrantedOnce(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	path := "/api/v1/accounts/" + h.Account.ID + "/grants"
	var first, second contract.Grant
	c.Want(201, "POST", path, object{"amountMicro": 7, "externalRef": "pay_1", "reason": "top-up"}).JSON(&first)
	c.Want(200, "POST", path, object{"amountMicro": 7, "externalRef": "pay_1"}).JSON(&second)
	if first.ID != second.ID {
		t.Errorf("granted twice: %s and %s", first.ID, second.ID)
	}
	c.WantError(stoa.CodeConflict, "POST", path, object{"amountMicro": 8, "externalRef": "pay_1"})
	var credits contract.Credits
	c.Want(200, "GET", "/api/v1/credits", nil).JSON(&credits)
	if want := int64(100*stoa.Credit) + 7; credits.GrantedMicro != want {
		t.Errorf("granted %d in all, want %d", credits.GrantedMicro, want)
	}
}

func TestAListIsReadPageByPage(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	for range 5 {
		c.Want(201, "POST", "/api/v1/accounts", object{"name": "one"})
	}
	for _, order := range []string{"asc", "desc"} {
		seen := map[string]bool{}
		var last contract.Account
		path := "/api/v1/accounts?limit=2&order=" + order
		for cursor := ""; ; {
			var p page[contract.Account]
			c.Want(200, "GET", path+cursor, nil).JSON(&p)
			for _, a := range p.Data {
				was, is := last.CreatedAt.Time(), a.CreatedAt.Time()
				if seen[a.ID] || last.ID != "" && (order == "asc" && is.Before(was) || order == "desc" && is.After(was)) {
					t.Errorf("%+v comes after %+v in the order %s", a, last, order)
				}
				seen[a.ID], last = true, a
			}
			if (p.NextCursor != nil) != p.HasMore {
				t.Fatalf("nextCursor and hasMore differ: %+v", p)
			}
			if !p.HasMore {
				break
			}
			cursor = "&cursor=" + *p.NextCursor
		}
		if len(seen) != 6 {
			t.Errorf("saw %d accounts, want 6", len(seen))
		}
	}
}

func TestACursorFitsOneListAlone(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "one"})
	var p page[contract.Account]
	c.Want(200, "GET", "/api/v1/accounts?limit=1", nil).JSON(&p)
	cursor := *p.NextCursor
	c.Want(200, "GET", "/api/v1/accounts?order=desc&cursor="+cursor, nil)
	for _, path := range []string{
		"/api/v1/accounts?order=asc&cursor=" + cursor,
		"/api/v1/accounts?cursor=x" + cursor,
		"/api/v1/accounts?cursor=" + cursor[:len(cursor)-2],
		"/api/v1/accounts?cursor=!",
		"/api/v1/keys?cursor=" + cursor,
		"/api/v1/credits/ledger?cursor=" + cursor,
		"/api/v1/receipts?cursor=" + cursor,
	} {
		c.WantError(stoa.CodeInvalidCursor, "GET", path, nil)
	}
	for path, param := range map[string]string{
		"/api/v1/accounts?limit=0":                                        "limit",
		"/api/v1/accounts?limit=101":                                      "limit",
		"/api/v1/accounts?limit=x":                                        "limit",
		"/api/v1/accounts?limit=1&limit=2":                                "limit",
		"/api/v1/accounts?order=up":                                       "order",
		"/api/v1/keys?limit=0":                                            "limit",
		"/api/v1/receipts?from=yesterday":                                 "from",
		"/api/v1/usage?groupBy=colour":                                    "groupBy",
		"/api/v1/usage?groupBy=day,day":                                   "groupBy",
		"/api/v1/usage?format=xml":                                        "format",
		"/api/v1/usage?groupBy=day&timezone=Nowhere/Nope":                 "timezone",
		"/api/v1/usage?groupBy=day&timeZone=Nowhere/Nope&timezone=UTC":    "timeZone",
		"/api/v1/usage?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z": "from",
	} {
		r := c.Want(400, "GET", path, nil)
		if got := deref(r.Error().Param); got != param {
			t.Errorf("%s: param is %q, want %q: %s", path, got, param, r.Error().Message)
		}
	}
}

func TestCreatingUnderAnIdempotencyKeyHappensOnce(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t).With("Idempotency-Key", "order-1")
	_, key := h.NewKey(h.Account.ID, "responses")
	paths := map[string]object{
		"/api/v1/keys/" + key.ID + "/rotate":           {"overlapSeconds": 5},
		"/api/v1/accounts":                             {"name": "Acme"},
		"/api/v1/accounts/invitations":                 {"accountName": "Acme", "name": "Ada"},
		"/api/v1/keys":                                 {"name": "one", "scopes": []string{"responses"}},
		"/api/v1/accounts/" + h.Account.ID + "/keys":   {"name": "one"},
		"/api/v1/accounts/" + h.Account.ID + "/grants": {"amountMicro": 5},
	}
	for path, body := range paths {
		first := c.Want(201, "POST", path, body)
		again := c.Want(201, "POST", path, body)
		if string(first.Body) != string(again.Body) || first.Header.Get("Location") != again.Header.Get("Location") {
			t.Errorf("%s: the answers differ:\n%s%s", path, first.Body, again.Body)
		}
		if first.Header.Get("Idempotency-Replayed") != "" || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: only the second answer is a replay", path)
		}
		other := maps.Clone(body)
		for name := range body {
			switch name {
			case "name":
				other[name] = "other"
			case "amountMicro", "overlapSeconds":
				other[name] = 6
			}
		}
		c.WantError(stoa.CodeIdempotencyReused, "POST", path, other)
	}
}

func TestAReplayOfASecretNeedsTheSameKey(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	other, _ := h.NewKey(h.Account.ID, stoa.ScopeAll)
	body := object{"name": "one", "scopes": []string{"responses"}}
	h.Client(t).With("Idempotency-Key", "k").Want(201, "POST", "/api/v1/keys", body)
	h.ClientWith(t, other).With("Idempotency-Key", "k").WantError(stoa.CodeIdempotencyReused, "POST", "/api/v1/keys", body)
}

func TestAFailureIsNotRemembered(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t).With("Idempotency-Key", "k")
	path := "/api/v1/accounts/" + h.Account.ID + "/grants"
	h.Client(t).Want(201, "POST", path, object{"amountMicro": 1, "externalRef": "r"})
	c.WantError(stoa.CodeConflict, "POST", path, object{"amountMicro": 2, "externalRef": "r"})
	c.Want(201, "POST", path, object{"amountMicro": 2, "externalRef": "r2"})
}

func TestAnIdempotencyKeyHasAForm(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	for _, key := range []string{"with space", strings.Repeat("x", 256), "\u00e4"} {
		e := h.Client(t).With("Idempotency-Key", key).WantError(stoa.CodeInvalidValue, "POST", "/api/v1/accounts", object{"name": "x"})
		if deref(e.Param) != "Idempotency-Key" {
			t.Errorf("param is %q", deref(e.Param))
		}
	}
}

// listed are the accounts that the operator finds with a query, on all pages of two.
func listed(t *testing.T, c *apitest.Client, query string) (all []contract.Account) {
	t.Helper()
	for cursor := ""; ; {
		var p page[contract.Account]
		c.Want(200, "GET", "/api/v1/accounts?limit=2&"+query+cursor, nil).JSON(&p)
		all = append(all, p.Data...)
		if p.NextCursor == nil {
			return all
		}
		cursor = "&cursor=" + *p.NextCursor
	}
}

func TestAccountsAreListedWithTheirMoney(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	ids := map[string]string{h.Account.ID: "first"}
	for _, a := range []object{
		{"name": "Acme 100%", "email": "billing@acme.example", "grantMicro": 5_000_000},
		{"name": "Broke Inc"},
		{"name": "acme_two", "grantMicro": 40_000_000},
	} {
		var made contract.AccountWithKey
		c.Want(201, "POST", "/api/v1/accounts", a).JSON(&made)
		ids[made.ID] = made.Name
		if made.Name == "Acme 100%" {
			for range 2 {
				h.ClientWith(t, made.Key.Secret).Want(200, "POST", "/api/v1/responses", hello)
			}
		}
	}
	if err := h.Keys.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"":                                 "acme_two, Broke Inc, Acme 100%, first",
		"order=asc":                        "first, Acme 100%, Broke Inc, acme_two",
		"q=ACME":                           "acme_two, Acme 100%",
		"q=0%25":                           "Acme 100%",
		"q=e_t":                            "acme_two",
		"q=BILLING@acme":                   "Acme 100%",
		"q=" + h.Account.ID:                "first",
		"q=" + h.Account.ID[4:]:            "first",
		"q=nobody":                         "",
		"unspentBelowMicro=5000000":        "Broke Inc, Acme 100%",
		"unspentBelowMicro=1":              "Broke Inc",
		"unspentBelowMicro=5000000&q=acme": "Acme 100%",
	} {
		var names []string
		for _, a := range listed(t, c, query) {
			names = append(names, ids[a.ID])
		}
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("%q lists %s, want %s", query, got, want)
		}
	}
	for _, a := range listed(t, c, "") {
		var one contract.AccountWithCredits
		c.Want(200, "GET", "/api/v1/accounts/"+a.ID, nil).JSON(&one)
		if a.Credits != one.Credits || a.SpentLast30DaysMicro != one.SpentLast30DaysMicro || a.LastUsedAt.IsNull() != one.LastUsedAt.IsNull() {
			t.Errorf("listed as %+v, by itself %+v", a, one)
		}
		used := ids[a.ID] == "first" || ids[a.ID] == "Acme 100%"
		if a.SpentLast30DaysMicro != a.Credits.SpentMicro || (a.Credits.SpentMicro > 0) != (ids[a.ID] == "Acme 100%") || a.LastUsedAt.IsNull() == used {
			t.Errorf("%s is listed as %+v", ids[a.ID], a)
		}
		var sum int64
		for _, day := range a.SpentByDayMicro {
			sum += day
		}
		if len(a.SpentByDayMicro) != 30 || sum != a.SpentLast30DaysMicro {
			t.Errorf("%s spent %d by day: %v", ids[a.ID], sum, a.SpentByDayMicro)
		}
	}
	var first page[contract.Account]
	c.Want(200, "GET", "/api/v1/accounts?limit=1&q=acme", nil).JSON(&first)
	c.WantError(stoa.CodeInvalidCursor, "GET", "/api/v1/accounts?limit=1&q=acm&cursor="+*first.NextCursor, nil)
	e := c.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/accounts?unspentBelowMicro=0", nil)
	if deref(e.Param) != "unspentBelowMicro" {
		t.Errorf("param %q", deref(e.Param))
	}
}

func TestAnOperatorReadsBooksOfOthers(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	var acme contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "Acme", "grantMicro": 5_000_000}).JSON(&acme)
	customer := h.ClientWith(t, acme.Key.Secret)
	customer.Want(200, "POST", "/api/v1/responses", hello)
	for _, list := range []string{"/api/v1/keys", "/api/v1/credits/ledger", "/api/v1/usage"} {
		of := list + "?accountId=" + acme.ID
		seen, own := c.Want(200, "GET", of, nil), customer.Want(200, "GET", list, nil)
		if list == "/api/v1/usage" { // both say when they were asked
			var a, b contract.UsageReport
			seen.JSON(&a)
			own.JSON(&b)
			if a.Totals != b.Totals || a.Totals.Calls != 1 {
				t.Errorf("the operator sees the usage %+v, the account %+v", a.Totals, b.Totals)
			}
		} else {
			var a, b page[map[string]any]
			seen.JSON(&a)
			own.JSON(&b)
			if len(a.Data) == 0 || len(a.Data) != len(b.Data) || a.Data[0]["id"] != b.Data[0]["id"] {
				t.Errorf("%s: the operator sees %v, the account %v", list, a.Data, b.Data)
			}
		}
		customer.Want(200, "GET", of, nil)
		if e := customer.WantError(stoa.CodeScope, "GET", list+"?accountId="+h.Account.ID, nil); deref(e.Param) != "accountId" {
			t.Errorf("%s: param %q", list, deref(e.Param))
		}
		customer.WantError(stoa.CodeScope, "GET", list+"?accountId=*", nil)
		if e := c.WantError(stoa.CodeInvalidValue, "GET", list+"?accountId=acc_none", nil); deref(e.Param) != "accountId" {
			t.Errorf("%s: param %q", list, deref(e.Param))
		}
	}
}

func TestAWithdrawalIsMadeOnce(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	var acme contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "Acme", "grantMicro": 1_000_000}).JSON(&acme)
	h.ClientWith(t, acme.Key.Secret).Want(200, "POST", "/api/v1/responses", object{"model": "auto", "input": "hi"})
	path := "/api/v1/accounts/" + acme.ID + "/withdrawals"
	var first, second contract.Withdrawal
	c.Want(201, "POST", path, object{"amountMicro": 1_500_000, "externalRef": "refund_1", "reason": "refund"}).JSON(&first)
	c.Want(200, "POST", path, object{"amountMicro": 1_500_000, "externalRef": "refund_1"}).JSON(&second)
	if first.ID != second.ID || first.OwedMicro != second.OwedMicro || first.TakenMicro+first.OwedMicro != 1_500_000 || first.OwedMicro <= 500_000 {
		t.Errorf("withdrew %+v, then %+v", first, second)
	}
	c.WantError(stoa.CodeConflict, "POST", path, object{"amountMicro": 1, "externalRef": "refund_1"})
	c.WantError(stoa.CodeNotFound, "POST", "/api/v1/accounts/acc_none/withdrawals", object{"amountMicro": 1, "externalRef": "x"})
	if e := c.WantError(stoa.CodeMissingParameter, "POST", path, object{"amountMicro": 1}); deref(e.Param) != "externalRef" {
		t.Errorf("without a reference: %+v", e)
	}
	var account contract.AccountWithCredits
	c.Want(200, "GET", "/api/v1/accounts/"+acme.ID, nil).JSON(&account)
	if account.Credits.AvailableMicro != 0 || account.Credits.OwedMicro != first.OwedMicro {
		t.Errorf("the account has %+v", account.Credits)
	}
	c.Want(201, "POST", "/api/v1/accounts/"+acme.ID+"/grants", object{"amountMicro": 2_000_000})
	account = contract.AccountWithCredits{}
	c.Want(200, "GET", "/api/v1/accounts/"+acme.ID, nil).JSON(&account)
	if account.Credits.AvailableMicro != 2_000_000-first.OwedMicro || account.Credits.OwedMicro != 0 {
		t.Errorf("after a grant it has %+v", account.Credits)
	}
	var log page[contract.AuditEntry]
	c.Want(200, "GET", "/api/v1/audit?accountId="+acme.ID+"&action=createWithdrawal", nil).JSON(&log)
	if len(log.Data) != 1 {
		t.Errorf("the audit log has %+v", log.Data)
	}
	var list page[contract.Statement]
	c.Want(200, "GET", statementsPath+string(stoa.MonthOf(time.Now()))+"?accountId="+acme.ID, nil).JSON(&list)
	if s := list.Data[0]; s.WithdrawnMicro != 1_500_000 || len(s.Withdrawals) != 2 || s.ClosingMicro != account.Credits.AvailableMicro {
		t.Errorf("the statement is %+v", s)
	}
}

// TestAPlanGrantsItsCredits creates an account with included credits, and gives another one such a plan.
func TestAPlanGrantsItsCredits(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Plans: []stoa.Plan{{ID: "free", Name: "Free"}, {ID: "team", Name: "Team", Included: 3_000_000}}})
	c := h.Client(t)
	var team, free contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "Team", "plan": "team", "grantMicro": 1_000_000}).JSON(&team)
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "Free"}).JSON(&free)
	if team.Credits.AvailableMicro != 4_000_000 || free.Credits.AvailableMicro != 0 {
		t.Errorf("created with %+v and %+v", team.Credits, free.Credits)
	}
	var account contract.AccountWithCredits
	for range 2 {
		c.Want(200, "PATCH", "/api/v1/accounts/"+free.ID, object{"plan": "team"}).JSON(&account)
		if account.Credits.AvailableMicro != 3_000_000 {
			t.Errorf("with the plan: %+v", account.Credits)
		}
		c.Want(200, "PATCH", "/api/v1/accounts/"+free.ID, object{"plan": "free"})
	}
	var meta contract.Meta
	c.Want(200, "GET", "/api/v1/meta", nil).JSON(&meta)
	for _, p := range meta.Plans {
		if (p.IncludedMicro == 3_000_000) != (p.ID == "team") {
			t.Errorf("published %+v", p)
		}
	}
	var ledger page[contract.LedgerEntry]
	c.Want(200, "GET", "/api/v1/credits/ledger?accountId="+free.ID, nil).JSON(&ledger)
	if len(ledger.Data) != 1 || !strings.HasPrefix(ledger.Data[0].Ref.MustGet(), "plan:"+free.ID+":20") {
		t.Errorf("the ledger is %+v", ledger.Data)
	}
}
