package api_test

import (
	"encoding/csv"
	"strconv"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

const statementsPath = "/api/v1/statements/"

// TestAStatementIsTheLedger compares the statement of the running month, as JSON and as CSV, with the
// ledger and the balance.
func TestAStatementIsTheLedger(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	operator := h.Client(t)
	month := string(stoa.MonthOf(time.Now()))
	var acme contract.AccountWithKey
	operator.Want(201, "POST", "/api/v1/accounts", object{"name": "=Acme", "grantMicro": 5_000_000}).JSON(&acme)
	customer := h.ClientWith(t, acme.Key.Secret)
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "beta-3.8-flash"} {
		customer.Want(200, "POST", responses, object{"model": model, "input": "hi"})
	}
	operator.Want(200, "POST", responses, object{"model": "beta-3.8-flash", "input": "hi"})

	var list page[contract.Statement]
	customer.Want(200, "GET", statementsPath+month, nil).JSON(&list)
	s := list.Data[0]
	var sum, calls int64
	for _, c := range s.Charges {
		sum, calls = sum+c.AmountMicro, calls+c.Calls
		if c.Day == "" || c.OutputTokens == 0 || c.Model == "" {
			t.Errorf("a charge is %+v", c)
		}
	}
	var credits contract.Credits
	customer.Want(200, "GET", "/api/v1/credits", nil).JSON(&credits)
	if s.AccountID != acme.ID || s.Final || s.OpeningMicro != 0 || s.GrantedMicro != 5_000_000 || s.ChargedMicro != sum || calls != 3 || len(s.Charges) != 2 ||
		s.ClosingMicro != credits.AvailableMicro || s.ChargedMicro != credits.SpentMicro || s.ClosingMicro != 5_000_000-sum || len(s.Grants) != 1 || s.Grants[0].Kind != "grant" {
		t.Errorf("the statement is %+v, the credits %+v", s, credits)
	}

	// Operators read it too, and those of all accounts.
	operator.Want(200, "GET", statementsPath+month+"?accountId="+acme.ID, nil).JSON(&list)
	if list.Data[0].ClosingMicro != s.ClosingMicro {
		t.Errorf("the operator sees %+v", list.Data[0])
	}
	// A withdrawal, as after a refund, changes balances and no charge; the charges of all statements are
	// those of the usage report.
	operator.Want(201, "POST", "/api/v1/accounts/"+acme.ID+"/withdrawals", object{"amountMicro": 1_000_000, "externalRef": "refund-1"})
	customer.Want(200, "GET", statementsPath+month, nil).JSON(&list)
	if got := list.Data[0]; got.WithdrawnMicro != 1_000_000 || got.ClosingMicro != s.ClosingMicro-1_000_000 || got.ChargedMicro != sum {
		t.Errorf("after the withdrawal: %+v", got)
	}
	var usage contract.UsageReport
	operator.Want(200, "GET", "/api/v1/usage?accountId=*&groupBy=model&from="+s.From.String()+"&to="+s.To.String(), nil).JSON(&usage)
	var first contract.StatementList
	operator.Want(200, "GET", statementsPath+month+"?accountId=*", nil).JSON(&first)
	var charged, inTotals int64
	for _, one := range first.Data {
		charged += one.ChargedMicro
	}
	for i, c := range first.Totals {
		inTotals += c.AmountMicro
		if u := usage.Data[i]; c.Model != u.Model || c.AmountMicro != u.CreditsMicro || c.Calls != u.Calls || c.InputTokens != u.InputTokens || c.OutputTokens != u.OutputTokens {
			t.Errorf("the statements have %+v, the usage %+v", c, u)
		}
	}
	if charged == 0 || charged != inTotals || charged != usage.Totals.CreditsMicro || len(first.Totals) != len(usage.Data) {
		t.Errorf("the statements charge %d, their totals are %+v, the usage is %+v", charged, first.Totals, usage.Totals)
	}
	seen := 0
	for next := ""; ; {
		var all page[contract.Statement]
		operator.Want(200, "GET", statementsPath+month+"?accountId=*&limit=1"+next, nil).JSON(&all)
		for _, one := range all.Data {
			if seen++; one.AccountID == acme.ID && (one.ChargedMicro != sum || len(one.Charges) != 2 || one.Charges[0].Day != "") {
				t.Errorf("of all: %+v", one)
			}
		}
		if !all.HasMore {
			break
		}
		next = "&cursor=" + *all.NextCursor
	}
	if seen != 2 {
		t.Errorf("there are %d statements", seen)
	}
	for path, accounts := range map[string]int{"?format=csv": 1, "?format=csv&accountId=*": 2} {
		rows, err := csv.NewReader(strings.NewReader(string(operator.Want(200, "GET", statementsPath+month+path, nil).Body))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var balance int64
		closed := 0
		for _, row := range rows[1:] {
			if n, _ := strconv.ParseInt(row[10], 10, 64); row[3] != "closing" {
				balance += n
			} else if closed++; n != balance {
				t.Errorf("%s closes with %d, its lines add up to %d", row[1], n, balance)
			} else {
				balance = 0
			}
			if row[1] == acme.ID && row[2] != "'=Acme" {
				t.Errorf("a cell is %q", row[2])
			}
		}
		if closed != accounts {
			t.Errorf("%s has %d accounts", path, closed)
		}
	}

	// A month before the account has nothing; others and the future are errors.
	customer.Want(200, "GET", statementsPath+month, nil).JSON(&list)
	customer.WantError(stoa.CodeScope, "GET", statementsPath+month+"?accountId="+h.Account.ID, nil)
	customer.WantError(stoa.CodeScope, "GET", statementsPath+month+"?accountId=*", nil)
	customer.WantError(stoa.CodeNotFound, "GET", statementsPath+"1999-01", nil)
	for _, m := range []string{"2999-01", "2026-13", "november"} {
		customer.WantError(stoa.CodeNotFound, "GET", statementsPath+m, nil)
	}

	// A deleted account stays in the statements, whose lines are the totals, and not in the list of accounts.
	operator.Want(202, "DELETE", "/api/v1/accounts/"+acme.ID, nil)
	for query, want := range map[string]int{"": 2, "&sort=charged": 2, "&sort=charged&charges=with": 2, "&sort=charged&charges=without": 0} {
		if operator.Want(200, "GET", statementsPath+month+"?accountId=*"+query, nil).JSON(&list); len(list.Data) != want {
			t.Errorf("%s: %d statements after the deletion", query, len(list.Data))
		}
	}
	for _, order := range []string{"", "?sort=balance", "?sort=spent", "?sort=name"} {
		var accounts page[contract.Account]
		if operator.Want(200, "GET", "/api/v1/accounts"+order, nil).JSON(&accounts); len(accounts.Data) != 1 {
			t.Errorf("%s: %d accounts after the deletion", order, len(accounts.Data))
		}
	}
}
