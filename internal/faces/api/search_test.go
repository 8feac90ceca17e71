package api_test

import (
	"net/url"
	"slices"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// A foundObject is an object of a list; it has one of these names.
type foundObject struct {
	ID, Name, Title, Description string
}

// namesIn returns the names of the objects of a list that a text finds.
func namesIn(c *apitest.Client, path, text string) (names []string) {
	var list page[foundObject]
	c.Want(200, "GET", path+"?q="+url.QueryEscape(text), nil).JSON(&list)
	for _, one := range list.Data {
		names = append(names, one.Name+one.Title+one.Description)
	}
	return names
}

func TestListsAreSearched(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	var other contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "Zürich Museum", "plan": "free"}).JSON(&other)
	stranger := h.ClientWith(t, other.Key.Secret)
	for _, by := range []*apitest.Client{c, stranger} {
		var space contract.Space
		by.Want(201, "POST", "/api/v1/spaces", object{"name": "Музей", "externalId": "crm-" + other.ID}).JSON(&space)
		by.Want(201, "POST", "/api/v1/api-agents", object{"spaceId": space.ID, "name": "Museum guide", "instructions": "i"})
		by.Want(201, "POST", "/api/v1/api-agents", object{"spaceId": space.ID, "name": "Other", "instructions": "museum"})
		by.Want(201, "POST", "/api/v1/keys", object{"name": "Museum key"})
	}
	c.Want(201, "POST", "/api/v1/secrets", object{"kind": "bearer", "name": "museum-token", "origin": "https://museum.example", "value": "s3cret-value"})
	for _, s := range []struct {
		path, text string
		want       []string
	}{
		{"/api/v1/api-agents", "MUSEUM", []string{"Museum guide"}},
		{"/api/v1/spaces", "музей", []string{"Музей"}},
		{"/api/v1/spaces", "CRM-", []string{"Музей"}},
		{"/api/v1/keys", "museum", []string{"Museum key"}},
		{"/api/v1/secrets", "Museum.EXAMPLE", []string{"museum-token"}},
		{"/api/v1/accounts", "ZÜRICH", []string{"Zürich Museum"}},
		{"/api/v1/members", "nobody", nil},
		{"/api/v1/webhooks", "nothing", nil},
		{"/api/v1/connections", "nothing", nil},
		{"/api/v1/sessions", "nothing", nil},
	} {
		if got := namesIn(c, s.path, s.text); !slices.Equal(got, s.want) {
			t.Errorf("%s with %q: %q, want %q", s.path, s.text, got, s.want)
		}
		if e := c.WantError(stoa.CodeInvalidValue, "GET", s.path+"?q=", nil); *e.Param != "q" {
			t.Errorf("%s with an empty text: the error is about %q", s.path, *e.Param)
		}
	}
	// A cursor belongs to its search.
	var list page[foundObject]
	c.Want(200, "GET", "/api/v1/api-agents?q=e&limit=1", nil).JSON(&list)
	if !list.HasMore {
		t.Fatal("there is one page")
	}
	c.WantError(stoa.CodeInvalidCursor, "GET", "/api/v1/api-agents?q=x&limit=1&cursor="+*list.NextCursor, nil)
	c.Want(200, "GET", "/api/v1/api-agents?q=e&limit=1&cursor="+*list.NextCursor, nil)
	c.WantError(stoa.CodeInvalidCursor, "GET", "/api/v1/api-agents?q=e&limit=1&order=desc&cursor="+*list.NextCursor, nil)
	// The best match is first, unless the list is sorted.
	for _, name := range []string{"Guide", "Guide 2"} {
		c.Want(201, "POST", "/api/v1/api-agents", object{"spaceId": newSpace(t, c, object{"name": "s"}).ID, "name": name, "instructions": "i"})
	}
	for query, want := range map[string][]string{
		"guide": {"Guide", "Guide 2", "Museum guide"}, "guide&sort=created": {"Guide 2", "Guide", "Museum guide"}, "guide&order=asc": {"Museum guide", "Guide", "Guide 2"},
	} {
		c.Want(200, "GET", "/api/v1/api-agents?q="+query, nil).JSON(&list)
		var got []string
		for _, one := range list.Data {
			got = append(got, one.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestListsOfAnAgentAreSearched searches the schedules and the embeds of an agent, the budgets and the invitations.
func TestListsOfAnAgentAreSearched(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	c := h.Client(t)
	ids := func(path string) (list []string) {
		t.Helper()
		var p page[foundObject]
		c.Want(200, "GET", path, nil).JSON(&p)
		for _, one := range p.Data {
			list = append(list, one.ID)
		}
		return list
	}
	make := func(path string, body object) (id string) {
		t.Helper()
		var made foundObject
		c.Want(201, "POST", path, body).JSON(&made)
		return made.ID
	}
	space := make("/api/v1/spaces", object{"name": "Space"})
	agentID := make("/api/v1/api-agents", object{"spaceId": space, "name": "Museum guide", "instructions": "i"})
	agent := "/api/v1/api-agents/" + agentID
	daily := object{"type": "interval", "everySeconds": 86400}
	task := make(agent+"/scheduled-tasks", object{"name": "Täglich", "message": "Count the umbrellas", "schedule": daily})
	make(agent+"/scheduled-tasks", object{"name": "Other", "message": "m", "schedule": daily})
	link := make(agent+"/embed-urls", object{"allowedOrigins": []string{"https://shop.example"}, "externalUserId": "Ann"})
	make(agent+"/embed-urls", object{"allowedOrigins": []string{"https://other.example"}})
	token := make(agent+"/embed-sessions", object{"allowedOrigins": []string{"https://shop.example"}, "externalUserId": "Ann"})
	make(agent+"/embed-sessions", object{"allowedOrigins": []string{"https://other.example"}})
	tag := make(agent+"/embed-tags", object{"allowedOrigins": []string{"https://shop.example"}})
	make(agent+"/embed-tags", object{"allowedOrigins": []string{"https://other.example"}})
	hook := make(agent+"/hooks", object{"name": "Issues", "signature": object{"kind": "github"}})
	make(agent+"/hooks", object{"name": "Other", "signature": object{"kind": "github"}})
	tests := make(agent+"/test-sets", testSet("Refunds", object{"message": "m"}))
	make(agent+"/test-sets", testSet("Other", object{"message": "m"}))
	budget := make("/api/v1/budgets", object{"scope": "agent", "subject": agentID, "period": "total", "limitMicro": 5_000_000})
	make("/api/v1/budgets", object{"scope": "account", "period": "total", "limitMicro": 5_000_000})
	key := make("/api/v1/keys", object{"name": "Nightly jobs"})
	ofKey := make("/api/v1/budgets", object{"scope": "key", "subject": key, "period": "total", "limitMicro": 5_000_000})
	invited := make("/api/v1/members", object{"role": "viewer", "name": "Émile"})
	make("/api/v1/members", object{"role": "member", "name": "Other"})
	for _, s := range []struct{ path, text, want string }{
		{agent + "/scheduled-tasks", "TÄGLICH", task},
		{agent + "/scheduled-tasks", "umbrella", task},
		{"/api/v1/spaces/" + space + "/scheduled-tasks", "täg", task},
		{agent + "/embed-urls", "ann", link},
		{agent + "/embed-urls", "SHOP.example", link},
		{agent + "/embed-sessions", "ann", token},
		{agent + "/embed-tags", "shop", tag},
		{agent + "/embed-tags", tag, tag},
		{agent + "/hooks", "issue", hook},
		{agent + "/hooks", hook, hook},
		{agent + "/test-sets", "refund", tests},
		{agent + "/test-sets", tests, tests},
		{"/api/v1/budgets", "museum", budget},
		{"/api/v1/budgets", "nightly", ofKey},
		{"/api/v1/budgets", agentID, budget},
		{"/api/v1/invitations", "émile", invited},
		{"/api/v1/invitations", "viewer", invited},
	} {
		if got := ids(s.path + "?q=" + url.QueryEscape(s.text)); !slices.Equal(got, []string{s.want}) {
			t.Errorf("%s with %q: %q, want %q", s.path, s.text, got, s.want)
		}
		if got := ids(s.path + "?q=nothing"); len(got) != 0 {
			t.Errorf("%s with another text: %q", s.path, got)
		}
		if all := ids(s.path); len(all) < 2 {
			t.Errorf("%s without a text: %q", s.path, all)
		}
	}
}

func TestRepliesNameWhatTheyReferTo(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil)
	_, path := a.begin(t, "say: hello", object{"title": "Opening hours"})
	a.until(t, path, "completed")
	a.Want(200, "POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "say: hi"})
	var agent contract.Agent
	a.Want(200, "GET", a.agent, nil).JSON(&agent)
	var agents page[contract.Agent]
	a.Want(200, "GET", "/api/v1/api-agents", nil).JSON(&agents)
	if agents.Data[0].SpaceName == "" {
		t.Error("the agent has no name of its space")
	}
	var begun contract.Session
	a.Want(200, "GET", path, nil).JSON(&begun)
	for _, list := range []string{"/api/v1/api-agents", "/api/v1/spaces/" + agent.SpaceID + "/agents"} {
		a.Want(200, "GET", list, nil).JSON(&agents)
		if got := agents.Data[0].LastSessionAt; got != begun.CreatedAt {
			t.Errorf("%s: the newest session is of %s, not of %s", list, got, begun.CreatedAt)
		}
	}
	var idle contract.Agent
	a.Want(201, "POST", "/api/v1/api-agents", object{"spaceId": agent.SpaceID, "name": "Idle", "instructions": "Wait."}).JSON(&idle)
	var found page[contract.Agent]
	a.Want(200, "GET", "/api/v1/api-agents?q="+idle.ID, nil).JSON(&found)
	if got := found.Data[0].LastSessionAt; !got.Time().IsZero() {
		t.Errorf("an agent without sessions has one of %s", got)
	}
	for _, query := range []string{"", "?q=OPENING"} {
		var sessions page[contract.Session]
		a.Want(200, "GET", "/api/v1/sessions"+query, nil).JSON(&sessions)
		if len(sessions.Data) != 1 || sessions.Data[0].AgentName != agent.Name {
			t.Errorf("%q: the sessions are %+v", query, sessions.Data)
		}
	}
	var receipts page[contract.Receipt]
	a.Want(200, "GET", "/api/v1/receipts", nil).JSON(&receipts)
	if len(receipts.Data) != 2 || receipts.Data[1].AgentName != agent.Name || receipts.Data[0].AgentName != "" || receipts.Data[0].KeyName == "" {
		t.Errorf("the receipts are %+v", receipts.Data)
	}
	var receipt contract.Receipt
	a.Want(200, "GET", "/api/v1/receipts/"+receipts.Data[1].ID, nil).JSON(&receipt)
	if receipt.AgentName != agent.Name || receipt.KeyName != receipts.Data[1].KeyName {
		t.Errorf("the receipt is %+v", receipt)
	}
	a.Want(200, "GET", path+"/receipts", nil).JSON(&receipts)
	if len(receipts.Data) != 1 || receipts.Data[0].AgentName != agent.Name {
		t.Errorf("the receipts of the session are %+v", receipts.Data)
	}
	requests := requestsOf(t, h, a.Client, "")
	if len(requests) != 1 || requests[0].AccountName != h.Account.Name || requests[0].KeyName != receipts.Data[0].KeyName {
		t.Errorf("the requests are %+v", requests)
	}
	var usage contract.UsageReport
	a.Want(200, "GET", "/api/v1/usage?groupBy=agent,key,member", nil).JSON(&usage)
	if len(usage.Data) != 2 || usage.Data[1].AgentName != agent.Name || usage.Data[1].KeyName == "" || usage.Data[0].AgentName != "" || !usage.Data[1].MemberID.IsNull() {
		t.Errorf("the usage is %+v", usage.Data)
	}
	a.Want(200, "GET", "/api/v1/usage?groupBy=agent&accountId=*", nil).JSON(&usage)
	if len(usage.Data) != 2 || usage.Data[1].AgentName != agent.Name {
		t.Errorf("the usage of all accounts is %+v", usage.Data)
	}
}

func TestFilteredRowsHaveTotals(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	for _, user := range []string{"ann", "bob", "ann"} {
		c.Want(200, "POST", "/api/v1/responses", object{"model": "alpha-haiku-4-5", "input": "say: hi", "user": user})
	}
	c.Want(400, "POST", "/api/v1/responses", object{"model": "no-such-model", "input": "hi"})
	var list page[contract.Receipt]
	c.Want(200, "GET", "/api/v1/receipts?endUser=ann", nil).JSON(&list)
	var want int64
	for _, r := range list.Data {
		want += r.CreditsMicro
	}
	var sums contract.UsageSums
	c.Want(200, "GET", "/api/v1/receipts/summary?endUser=ann", nil).JSON(&sums)
	if sums.Calls != 2 || sums.CreditsMicro != want || want == 0 {
		t.Errorf("the sums are %+v, want %d", sums, want)
	}
	var books contract.Reconciliation
	c.Want(200, "GET", "/api/v1/usage/reconcile", nil).JSON(&books)
	c.Want(200, "GET", "/api/v1/receipts/summary", nil).JSON(&sums)
	if sums.Calls != books.Charges || sums.CreditsMicro != books.ChargesMicro {
		t.Errorf("the sums are %+v, the books %+v", sums, books)
	}

	rows := requestsOf(t, h, c, "")
	var summary contract.RequestSummary
	c.Want(200, "GET", "/api/v1/requests/summary?groupBy=model&interval=day&timezone=Asia/Kolkata", nil).JSON(&summary)
	if summary.Totals.Requests != int64(len(rows)) || summary.Totals.Errors != 1 || summary.Totals.CreditsMicro != books.ChargesMicro || !summary.Complete || summary.Totals.P95DurationMilliseconds.IsNull() {
		t.Errorf("the totals are %+v", summary)
	}
	if len(summary.Data) < 2 || summary.Data[0].From.IsNull() || summary.Data[0].Model.IsNull() {
		t.Errorf("the groups are %+v", summary.Data)
	}
	c.Want(200, "GET", "/api/v1/requests/summary?status=4xx&groupBy=account", nil).JSON(&summary)
	if summary.Totals.Requests != 1 || summary.Totals.Errors != 1 || !summary.Totals.MedianDurationMilliseconds.IsNull() || summary.Data[0].AccountName != h.Account.Name {
		t.Errorf("the errors are %+v", summary)
	}
	if e := c.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/requests/summary?timezone=Mars", nil); *e.Param != "timezone" {
		t.Errorf("the error is about %q", *e.Param)
	}

	var other contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", object{"name": "Acme", "plan": "free"}).JSON(&other)
	customer := h.ClientWith(t, other.Key.Secret)
	customer.Want(200, "GET", "/api/v1/receipts/summary", nil).JSON(&sums)
	customer.Want(200, "GET", "/api/v1/requests/summary", nil).JSON(&summary)
	if sums.Calls != 0 || summary.Totals.Requests != 0 {
		t.Errorf("another account has %+v and %+v", sums, summary.Totals)
	}
	customer.WantError(stoa.CodeScope, "GET", "/api/v1/requests/summary?accountId="+h.Account.ID, nil)
	customer.WantError(stoa.CodeScope, "GET", "/api/v1/requests/summary?accountId=*", nil)
}

func TestAgentsAndAccountsAreSorted(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), nil) // Helper
	for _, name := range []string{"Zoo", "Aquarium"} {
		newAuthor(t, h, a.Client, map[string]any{"name": name})
	}
	for query, want := range map[string][]string{
		"sort=name":            {"Aquarium", "Helper", "Zoo"},
		"sort=name&order=desc": {"Zoo", "Helper", "Aquarium"},
		"sort=created":         {"Aquarium", "Zoo", "Helper"},
		"order=asc":            {"Helper", "Zoo", "Aquarium"},
	} {
		var got []string
		for cursor := ""; ; {
			var list page[contract.Agent]
			a.Want(200, "GET", "/api/v1/api-agents?limit=1&"+query+cursor, nil).JSON(&list)
			got = append(got, list.Data[0].Name)
			if !list.HasMore {
				break
			}
			cursor = "&cursor=" + *list.NextCursor
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	a.Want(201, "POST", "/api/v1/accounts", object{"name": "AAA", "plan": "free"})
	var list page[contract.Account]
	a.Want(200, "GET", "/api/v1/accounts?sort=name", nil).JSON(&list)
	if len(list.Data) != 2 || list.Data[0].Name != "AAA" {
		t.Errorf("the accounts are %+v", list.Data)
	}
	if e := a.WantError(stoa.CodeInvalidValue, "GET", "/api/v1/accounts?sort=colour", nil); *e.Param != "sort" {
		t.Errorf("the error is about %q", *e.Param)
	}
}
