package api_test

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
)

func TestTheBooksOfAFewCalls(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	var ids []string
	var spent int64
	for _, model := range []string{"alpha-haiku-4-5", "alpha-sonnet-5", "auto"} {
		r := c.Want(200, "POST", "/api/v1/responses", object{"model": model, "input": "say: one two three", "user": "=cmd()"})
		var reply contract.Response
		r.JSON(&reply)
		ids = append(ids, reply.ID)
		cost, err := strconv.ParseInt(r.Header.Get("stoa-charge-micro"), 10, 64)
		if err != nil || cost <= 0 {
			t.Fatalf("the charge is %q", r.Header.Get("stoa-charge-micro"))
		}
		spent += cost
	}

	var credits contract.Credits
	c.Want(200, "GET", "/api/v1/credits", nil).JSON(&credits)
	if credits.SpentMicro != spent || credits.HeldMicro != 0 || credits.AvailableMicro != credits.GrantedMicro-spent {
		t.Errorf("the credits are %+v after %d were spent", credits, spent)
	}

	var receipt contract.Receipt
	c.Want(200, "GET", "/api/v1/receipts/"+ids[1], nil).JSON(&receipt)
	if receipt.Model.Requested != "alpha-sonnet-5" || receipt.Model.Served != "alpha-sonnet-5-5" || receipt.Model.FallbackReason.MustGet() != "alias" ||
		receipt.Status != "completed" || receipt.EndUser.MustGet() != "=cmd()" || receipt.KeyID == "" || receipt.TimeToFirstTokenMilliseconds.IsNull() {
		t.Errorf("the receipt is %+v", receipt)
	}
	p := receipt.Price
	want := (receipt.Usage.InputTokens*p.InputMicroPerMillion + receipt.Usage.OutputTokens*p.OutputMicroPerMillion + 999_999) / 1_000_000
	if receipt.CreditsMicro != want {
		t.Errorf("the receipt says %d, tokens and rates make %d", receipt.CreditsMicro, want)
	}

	var list page[contract.Receipt]
	c.Want(200, "GET", "/api/v1/receipts?limit=2", nil).JSON(&list)
	if len(list.Data) != 2 || !list.HasMore || list.Data[0].ID != ids[2] {
		t.Errorf("the first page is %+v", list)
	}
	c.Want(200, "GET", "/api/v1/receipts?limit=2&cursor="+*list.NextCursor, nil).JSON(&list)
	if len(list.Data) != 1 || list.HasMore || list.Data[0].ID != ids[0] {
		t.Errorf("the second page is %+v", list)
	}
	for filter, n := range map[string]int{
		"model=alpha-haiku-4-5": 1, "endUser=%3Dcmd()": 3, "endUser=nobody": 0, "keyId=" + receipt.KeyID: 3, "agentId=agt_x": 0,
		"spaceId=spc_x": 0, "sessionId=ses_x": 0, "from=2001-01-01T00:00:00Z": 3, "to=2001-01-01T00:00:00Z": 0,
	} {
		c.Want(200, "GET", "/api/v1/receipts?"+filter, nil).JSON(&list)
		if len(list.Data) != n {
			t.Errorf("%s finds %d receipts, want %d", filter, len(list.Data), n)
		}
	}

	var entries page[contract.LedgerEntry]
	c.Want(200, "GET", "/api/v1/credits/ledger", nil).JSON(&entries)
	var sum int64
	for _, e := range entries.Data {
		sum += e.AmountMicro
	}
	if len(entries.Data) != 4 || entries.Data[3].Type != "grant" || entries.Data[0].Type != "charge" || entries.Data[0].Ref.MustGet() != ids[2] || sum != credits.AvailableMicro {
		t.Errorf("the ledger is %+v, its sum %d", entries.Data, sum)
	}

	var books contract.Reconciliation
	c.Want(200, "GET", "/api/v1/usage/reconcile", nil).JSON(&books)
	if !books.Balanced || books.Charges != 3 || books.ChargesMicro != spent || books.ReceiptsMicro != spent || books.GrantedMicro != books.AvailableMicro+books.HeldMicro+spent {
		t.Errorf("the books are %+v", books)
	}
}

// TestReportsHaveALimitOfTime: what reads all the receipts of an account is ended
// when it takes too long, and says so.
func TestReportsHaveALimitOfTime(t *testing.T) {
	t.Parallel()
	c := start(t, apitest.Config{Server: func(s *api.Server) { s.Books.ReportTime = time.Nanosecond }}).Client(t)
	for _, path := range []string{"/api/v1/usage", "/api/v1/usage/reconcile"} {
		if e := c.WantError(stoa.CodeOverloaded, "GET", path, nil); !strings.Contains(e.Message, "shorter time") {
			t.Errorf("%s: %q", path, e.Message)
		}
	}
	c.Want(200, "GET", "/api/v1/receipts", nil)
}

func TestUsageIsSummedByGroups(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	for _, user := range []string{"ann", "bob", "ann", ""} {
		c.Want(200, "POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "say: hi", "user": user})
	}
	var report contract.UsageReport
	c.Want(200, "GET", "/api/v1/usage", nil).JSON(&report)
	if len(report.Data) != 1 || report.Data[0].Day != time.Now().UTC().Format(time.DateOnly) || report.Data[0].Calls != 4 || report.Totals.Calls != 4 {
		t.Errorf("by day it is %+v", report)
	}
	if report.Timezone != "UTC" {
		t.Errorf("the days are those of %q", report.Timezone)
	}
	kiritimati, err := time.LoadLocation("Pacific/Kiritimati") // 14 hours before UTC
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"timeZone=Pacific/Kiritimati", "timezone=Pacific/Kiritimati", "timezone=UTC&timeZone=Pacific/Kiritimati"} {
		c.Want(200, "GET", "/api/v1/usage?"+query, nil).JSON(&report)
		if len(report.Data) != 1 || report.Data[0].Day != time.Now().In(kiritimati).Format(time.DateOnly) || report.TimeZone != "Pacific/Kiritimati" || report.Timezone != report.TimeZone || report.From.Time().In(kiritimati).Hour() != 0 {
			t.Errorf("by day there it is %+v", report)
		}
	}
	c.Want(200, "GET", "/api/v1/usage?groupBy=endUser,model,agent", nil).JSON(&report)
	if len(report.Data) != 3 || !report.Data[0].EndUser.IsNull() || report.Data[1].EndUser.MustGet() != "ann" || report.Data[1].Calls != 2 ||
		report.Data[1].Model != "alpha-haiku-4-5" || !report.Data[1].AgentID.IsNull() {
		t.Errorf("by end user it is %+v", report.Data)
	}
	all := c.Want(200, "GET", "/api/v1/usage?groupBy=day,model,agent,space,key,session,endUser", nil)
	if !strings.Contains(string(all.Body), `"sessionId":null`) {
		t.Errorf("groups without a session should say null: %s", all.Body)
	}
	r := c.Want(200, "GET", "/api/v1/usage?groupBy=endUser&format=csv", nil)
	lines := strings.Split(strings.TrimSpace(string(r.Body)), "\n")
	if len(lines) != 4 || lines[0] != "endUser,calls,inputTokens,cachedInputTokens,outputTokens,totalTokens,creditsMicro,savedMicro" || !strings.HasPrefix(lines[2], "ann,2,") {
		t.Errorf("as CSV it is\n%s", r.Body)
	}
	c.Want(200, "GET", "/api/v1/usage?from=2001-01-01T00:00:00Z&to=2001-02-01T00:00:00Z", nil).JSON(&report)
	if len(report.Data) != 0 || report.Totals.Calls != 0 {
		t.Errorf("of another time it is %+v", report)
	}
}

// TestOperatorsSumTheUsageOfAllAccounts compares the usage of all accounts, steps of agents
// included, with what each account was charged.
func TestOperatorsSumTheUsageOfAllAccounts(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	owner := h.Client(t)
	var customer contract.AccountWithKey
	owner.Want(201, "POST", "/api/v1/accounts", object{"name": "=Acme", "grantMicro": 100_000_000}).JSON(&customer)
	c := h.ClientWith(t, customer.Key.Secret)
	c.Want(200, "POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "say: hi"})
	a := newAuthor(t, h, c, nil)
	_, path := a.begin(t, "say: hi", nil)
	a.until(t, path, "completed")
	owner.Want(200, "POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "say: hi"})
	spent := map[string]int64{}
	for id, client := range map[string]*apitest.Client{customer.ID: c, h.Account.ID: owner} {
		var report contract.UsageReport
		client.Want(200, "GET", "/api/v1/usage", nil).JSON(&report)
		spent[id] = report.Totals.CreditsMicro
	}
	var report contract.UsageReport
	owner.Want(200, "GET", "/api/v1/usage?accountId=*&groupBy=account", nil).JSON(&report)
	got := map[string]int64{}
	for _, row := range report.Data {
		got[row.AccountID] = row.CreditsMicro
	}
	if d := cmp.Diff(spent, got); d != "" || report.Totals.CreditsMicro != spent[customer.ID]+spent[h.Account.ID] {
		t.Errorf("by account (-want +got):\n%s%+v", d, report.Totals)
	}
	csv := string(owner.Want(200, "GET", "/api/v1/usage?accountId=*&groupBy=account,model&format=csv", nil).Body)
	if !strings.HasPrefix(csv, "accountId,accountName,model,calls,") || !strings.Contains(csv, customer.ID+",'=Acme,") {
		t.Errorf("as CSV it is\n%s", csv)
	}
	owner.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/usage?groupBy=account", nil)
	c.WantError(stoa.CodeScope, "GET", "/api/v1/usage?accountId=*&groupBy=account", nil)
}

func TestASpreadsheetRunsNothing(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	formulas := []string{"=HYPERLINK(1)", "+1", "-1", "@SUM(1)", "\t=1", "\n=1", " =1", "\u00a0=1", "\u200b=1", "\uff1d1", "\uff0b1", "\ufe661", " \uff201"}
	for _, user := range append(formulas, "ann", "a=b") {
		c.Want(200, "POST", "/api/v1/responses", object{"model": "auto", "input": "say: hi", "user": user})
	}
	r := c.Want(200, "GET", "/api/v1/usage?groupBy=endUser&format=csv", nil)
	rows, err := csv.NewReader(bytes.NewReader(r.Body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var cells []string
	for _, row := range rows[1:] {
		cells = append(cells, row[0])
	}
	for _, text := range formulas {
		if !slices.Contains(cells, "'"+text) {
			t.Errorf("%q is not plain text in %q", text, cells)
		}
	}
	for _, text := range []string{"ann", "a=b"} {
		if !slices.Contains(cells, text) {
			t.Errorf("%q is not as it was in %q", text, cells)
		}
	}
}

func TestAnotherAccountsReceiptsDoNotExist(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	var reply contract.Response
	h.Client(t).Want(200, "POST", "/api/v1/responses", hello).JSON(&reply)
	var acme contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", object{"name": "Acme"}).JSON(&acme)
	c := h.ClientWith(t, acme.Key.Secret)
	c.WantError(stoa.CodeNotFound, "GET", "/api/v1/receipts/"+reply.ID, nil)
	c.WantError(stoa.CodeQuota, "POST", "/api/v1/responses", hello)
	var list page[contract.Receipt]
	c.Want(200, "GET", "/api/v1/receipts", nil).JSON(&list)
	if len(list.Data) != 0 {
		t.Errorf("sees %d receipts", len(list.Data))
	}
}
