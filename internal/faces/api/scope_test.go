package api_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestOneNumberOfCalls makes calls of the operator and of customers, steps of agents and calls that fail, and compares the
// number of calls of all accounts in each report: charged calls, with the steps.
func TestOneNumberOfCalls(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	op := newAuthor(t, h, h.Client(t), nil)
	var acme contract.AccountWithKey
	op.Want(201, "POST", "/api/v1/accounts", object{"name": "Acme", "grantMicro": 5_000_000}).JSON(&acme)
	customer := newAuthor(t, h, h.ClientWith(t, acme.Key.Secret), nil)
	for _, c := range []*apitest.Client{op.Client, customer.Client, customer.Client} {
		c.Want(200, "POST", responses, object{"model": "beta-3.8-flash", "input": "hi"})
		c.Want(400, "POST", responses, object{"model": "unknown", "input": "hi"})
	}
	for _, a := range []author{op, customer} {
		_, path := a.begin(t, "say: hello", object{"title": "A secret title"})
		a.until(t, path, "completed")
	}
	const own, all = 2, 5
	month := string(stoa.MonthOf(time.Now()))
	calls := func(query string) (n int64) {
		var u contract.UsageReport
		op.Want(200, "GET", "/api/v1/usage"+query, nil).JSON(&u)
		for _, row := range u.Data {
			n += row.Calls
		}
		if n != u.Totals.Calls {
			t.Errorf("usage %s has %d calls in its rows and %d in all", query, n, u.Totals.Calls)
		}
		return n
	}
	for _, by := range []string{"day", "model", "key", "agent", "account", "provider", "day,model"} {
		if n := calls("?accountId=*&groupBy=" + by); n != all {
			t.Errorf("usage by %s has %d calls, want %d", by, n, all)
		}
	}
	day := "&from=" + time.Now().Add(-24*time.Hour).UTC().Format(time.RFC3339)
	if n := calls("?accountId=*" + day); n != all {
		t.Errorf("the last 24 hours have %d calls, want %d", n, all)
	}
	if n := calls(""); n != own {
		t.Errorf("the operator made %d calls, want %d", n, own)
	}
	var list contract.StatementList
	op.Want(200, "GET", statementsPath+month+"?accountId=*&sort=charged&charges=with", nil).JSON(&list)
	sum, rows := int64(0), int64(0)
	for _, c := range list.Totals {
		sum += c.Calls
	}
	for _, s := range list.Data {
		for _, c := range s.Charges {
			rows += c.Calls
		}
	}
	if sum != all || rows != all {
		t.Errorf("the statements have %d calls in all and %d in the rows, want %d", sum, rows, all)
	}

	// Failed requests are in the log alone, and steps of agents are not in it.
	if err := h.Requests.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var log contract.RequestSummary
	op.Want(200, "GET", "/api/v1/requests/summary?accountId=*", nil).JSON(&log)
	if log.Totals.Requests != 6 || log.Totals.Errors != 3 {
		t.Errorf("the log has %d requests with %d errors, want 6 with 3", log.Totals.Requests, log.Totals.Errors)
	}
}

// TestOperatorsListWhatAllAccountsHave reads the sessions and the changes of all accounts: sessions without texts, and neither
// for customers.
func TestOperatorsListWhatAllAccountsHave(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	op := newAuthor(t, h, h.Client(t), nil)
	var acme contract.AccountWithKey
	op.Want(201, "POST", "/api/v1/accounts", object{"name": "Acme", "grantMicro": 5_000_000}).JSON(&acme)
	customer := newAuthor(t, h, h.ClientWith(t, acme.Key.Secret), nil)
	mine, path := op.begin(t, "say: mine", object{"title": "My title"})
	op.until(t, path, "completed")
	theirs, path := customer.begin(t, "ask: Which secret colour?", object{"title": "A secret title", "metadata": object{"note": "secret"}})
	customer.until(t, path, "waiting_for_input")

	for _, query := range []string{"?accountId=*", "?accountId=*&sort=spent", "?accountId=*&sort=updated&order=asc", "?accountId=" + acme.ID} {
		reply := op.Want(200, "GET", "/api/v1/sessions"+query, nil)
		if strings.Contains(string(reply.Body), "secret") {
			t.Errorf("%s shows a text of a customer: %s", query, reply.Body)
		}
		var list contract.SessionList
		reply.JSON(&list)
		ids := sessionIDs(list)
		slices.Sort(ids)
		want := []string{mine.ID, theirs.ID}
		if query == "?accountId="+acme.ID {
			want = want[1:]
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%s lists %q, want %q", query, ids, want)
		}
		for _, s := range list.Data {
			if (s.ID == theirs.ID) != (s.AccountName == "Acme") || (s.ID == mine.ID) != (orNone(s.Title) == "My title") {
				t.Errorf("%s lists %+v", query, s)
			}
		}
	}
	var found contract.SessionList
	op.Want(200, "GET", "/api/v1/sessions?accountId=*&q=secret", nil).JSON(&found)
	if len(found.Data) != 0 {
		t.Errorf("a text of a customer is found: %q", sessionIDs(found))
	}

	names := map[string]bool{}
	var seqs []string
	for cursor := ""; ; {
		var list contract.AuditList
		op.Want(200, "GET", "/api/v1/audit?accountId=*&limit=3"+cursor, nil).JSON(&list)
		for i, e := range list.Data {
			names[e.AccountName] = true
			seqs = append(seqs, e.Hash)
			if i > 0 && e.At.Time().After(list.Data[i-1].At.Time()) {
				t.Error("the changes are not in order")
			}
		}
		if !list.HasMore {
			break
		}
		cursor = "&cursor=" + orNone(list.NextCursor)
	}
	n := len(seqs)
	slices.Sort(seqs)
	if len(slices.Compact(seqs)) != n || !names["Acme"] || len(names) < 2 {
		t.Errorf("%d entries of %v, some twice", n, names)
	}
	var one contract.AuditList
	op.Want(200, "GET", "/api/v1/audit?accountId=*&action=createAccount&order=asc", nil).JSON(&one)
	if len(one.Data) != 1 || one.Data[0].Object != acme.ID {
		t.Errorf("the accounts that were created: %+v", one.Data)
	}
	for _, path := range []string{"/api/v1/sessions", "/api/v1/audit"} {
		customer.WantError(stoa.CodeScope, "GET", path+"?accountId=*", nil)
		customer.WantError(stoa.CodeScope, "GET", path+"?accountId="+h.Account.ID, nil)
	}
}

// TestStatementsBeginWithTheLargest lists the statements by what was charged, and the accounts without charges apart.
func TestStatementsBeginWithTheLargest(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	op := h.Client(t)
	month := string(stoa.MonthOf(time.Now()))
	var want []string
	for i := range 5 {
		var a contract.AccountWithKey
		op.Want(201, "POST", "/api/v1/accounts", object{"name": "n", "grantMicro": 5_000_000}).JSON(&a)
		for range i {
			h.ClientWith(t, a.Key.Secret).Want(200, "POST", responses, object{"model": "beta-3.8-flash", "input": "hi"})
		}
		if i > 0 {
			want = append([]string{a.ID}, want...)
		}
	}
	pages := func(query string) (ids []string, uncharged int64) {
		for cursor := ""; ; {
			var list contract.StatementList
			op.Want(200, "GET", statementsPath+month+"?accountId=*&limit=2&sort=charged"+query+cursor, nil).JSON(&list)
			for _, s := range list.Data {
				ids = append(ids, s.AccountID)
			}
			uncharged += list.Uncharged
			if !list.HasMore {
				return ids, uncharged
			}
			cursor = "&cursor=" + orNone(list.NextCursor)
		}
	}
	with, uncharged := pages("&charges=with")
	without, _ := pages("&charges=without")
	if !slices.Equal(with, want) || uncharged != 2 || len(without) != 2 { // the operator's, and the first
		t.Errorf("%q are charged, want %q; %d are not, listed %q", with, want, uncharged, without)
	}
	if e := op.WantError(stoa.CodeInvalidValue, "GET", statementsPath+month+"?accountId=*&charges=with", nil); *e.Param != "charges" {
		t.Errorf("the error is about %q", *e.Param)
	}
	csv := op.Want(200, "GET", statementsPath+month+"?accountId=*&sort=charged&format=csv", nil)
	if first := strings.Split(string(csv.Body), "\n")[1]; !strings.Contains(first, want[0]) {
		t.Errorf("the CSV begins with %s", first)
	}
}
