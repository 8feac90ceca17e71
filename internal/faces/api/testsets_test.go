package api_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
)

func testSet(name string, questions ...object) object {
	return object{"name": name, "questions": questions}
}

func newTestSet(t *testing.T, a author, questions ...object) (path string) {
	t.Helper()
	var set contract.TestSet
	r := a.Want(201, "POST", a.agent+"/test-sets", testSet("Refunds", questions...)).JSON(&set)
	if want := a.agent + "/test-sets/" + set.ID; r.Header.Get("Location") != want || set.QuestionCount != len(questions) || len(set.Questions) != len(questions) {
		t.Errorf("Location %q, want %q; the set is %+v", r.Header.Get("Location"), want, set)
	}
	return a.agent + "/test-sets/" + set.ID
}

// runTests runs a test set, and waits for the end of the run by following the list of the agent's sessions.
func (a author) runTests(t *testing.T, set string, body object) (run contract.TestRun) {
	t.Helper()
	a.Want(202, "POST", set+"/runs", body).JSON(&run)
	return a.untilTested(t, set+"/runs/"+run.ID)
}

func (a author) untilTested(t *testing.T, path string) (run contract.TestRun) {
	t.Helper()
	eventually(t, "the run goes on", func() bool {
		run = contract.TestRun{}
		a.Want(200, "GET", path, nil).JSON(&run)
		return run.Status != "running"
	})
	return run
}

// TestATestSetComparesADraft asks the questions of a set to the version in use and to a draft that has another tool, and judges each
// reply by its facts, its absent texts and its schema.
func TestATestSetComparesADraft(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, newCustomer(t, h), object{"limits": object{"maxCreditsMicro": 1_000_000}})
	call := "call: lookup_order {\"orderId\": \"7\"}\nsay: found"
	set := newTestSet(t, a,
		object{"message": "say: You have  THIRTY\u00a0days, ﬁne.", "facts": []string{"thirty days", "fine"}, "absent": []string{"fourteen"}},
		object{"message": "say: You have fourteen days.", "facts": []string{"thirty days"}, "absent": []string{"Fourteen"}},
		object{"message": `say: {"days": 30}`, "replySchema": object{"type": "object", "properties": object{"days": object{"type": "integer"}}, "required": []string{"days"}}},
		object{"message": `say: {"days": "many"}`, "replySchema": object{"type": "object", "properties": object{"days": object{"type": "integer"}}}},
		object{"message": "say: no JSON", "replySchema": object{"type": "object"}},
		object{"message": "ask: Which?"},
		object{"message": "fail: 400"},
		object{"message": call},
	)
	run := a.runTests(t, set, object{"draft": object{"tools": []any{orderTool(nil)}}, "maxCreditsMicro": 100_000_000})
	if run.Status != "completed" || !run.StatusReason.IsNull() || len(run.Results) != 8 || run.FinishedAt.IsNull() {
		t.Fatalf("the run is %+v", run)
	}
	type want struct{ verdict, reason string }
	for i, w := range [][2]want{
		{{"pass", ""}, {"pass", ""}},
		{{"fail", "misses: thirty days|contains: Fourteen"}, {"fail", "misses: thirty days|contains: Fourteen"}},
		{{"pass", ""}, {"pass", ""}},
		{{"fail", "the reply does not fit the schema"}, {"fail", "the reply does not fit the schema"}},
		{{"fail", "not a JSON object"}, {"fail", "not a JSON object"}},
		{{"error", "waits for an answer to its question: Which?"}, {"error", "waits for an answer to its question: Which?"}},
		{{"error", "invalid_prompt: "}, {"error", "invalid_prompt: "}},
		{{"pass", ""}, {"error", "because of the tool lookup_order"}},
	} {
		r := run.Results[i]
		for side, o := range []contract.TestOutcome{r.Current, orNone(r.Candidate)} {
			reasons := strings.Join(o.Reasons, "|")
			if o.Status != "done" || orNone(o.Verdict) != w[side].verdict || !strings.Contains(reasons, w[side].reason) || (w[side].verdict == "pass") != (reasons == "") {
				t.Errorf("question %d, side %d: %+v, want %v", i+1, side, o, w[side])
			}
			var s contract.Session
			a.Want(200, "GET", a.agent+"/sessions/"+orNone(o.SessionID), nil).JSON(&s)
			if s.Trigger.Type != "test" || orNone(s.Trigger.ID) != run.ID || s.Draft != (side == 1) || s.Status == "waiting_for_input" || orNone(s.Title) != "Refunds" {
				t.Errorf("question %d, side %d: the session is %+v", i+1, side, s)
			}
		}
	}
	if c := run.Current; c.Passed != 3 || c.Failed != 3 || c.Errors != 2 || c.Open != 0 || c.Draft || c.Version != 1 || c.CreditsMicro <= 0 {
		t.Errorf("the sums are %+v", c)
	}
	candidate, difference := orNone(run.Candidate), orNone(run.Difference)
	if candidate.Passed != 2 || candidate.Errors != 3 || !candidate.Draft || difference.Passed != -1 || difference.CreditsMicro != candidate.CreditsMicro-run.Current.CreditsMicro {
		t.Errorf("the candidate is %+v, the difference %+v", candidate, difference)
	}
	// The cost is what the receipts of the sessions say.
	spent := int64(0)
	for _, r := range run.Results {
		for _, o := range []contract.TestOutcome{r.Current, orNone(r.Candidate)} {
			var receipts contract.ReceiptList
			a.Want(200, "GET", a.agent+"/sessions/"+orNone(o.SessionID)+"/receipts", nil).JSON(&receipts)
			for _, receipt := range receipts.Data {
				spent += receipt.CreditsMicro
			}
		}
	}
	if spent != run.Current.CreditsMicro+candidate.CreditsMicro {
		t.Errorf("the receipts have %d, the run %d and %d", spent, run.Current.CreditsMicro, candidate.CreditsMicro)
	}
	var list contract.SessionList
	if a.Want(200, "GET", a.agent+"/sessions?trigger=test&limit=100", nil).JSON(&list); len(list.Data) != 16 {
		t.Errorf("the filter finds %d sessions", len(list.Data))
	}
	// Without its session a result has no texts.
	a.Want(204, "DELETE", a.agent+"/sessions/"+orNone(run.Results[1].Current.SessionID), nil)
	a.Want(200, "GET", set+"/runs/"+run.ID, nil).JSON(&run)
	if o := run.Results[1].Current; orNone(o.Verdict) != "fail" || !o.SessionID.IsNull() || !o.Reply.IsNull() || len(o.Reasons) != 0 || o.CreditsMicro == 0 {
		t.Errorf("without its session the result is %+v", o)
	}
}

func TestATestSetComparesVersions(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, newCustomer(t, h), nil)
	set := newTestSet(t, a, object{"message": "call: lookup_order {\"orderId\": \"7\"}\nsay: found"})
	a.Want(200, "PATCH", a.agent, object{"tools": []any{orderTool(nil)}})
	run := a.runTests(t, set, object{"version": 1, "maxCreditsMicro": 10_000_000})
	if c := orNone(run.Candidate); run.Current.Version != 2 || c.Version != 1 || c.Draft || run.Current.Errors != 1 || c.Passed != 1 || orNone(run.Difference).Passed != 1 {
		t.Errorf("the run is %+v", run)
	}
	run = a.runTests(t, set, object{"maxCreditsMicro": 10_000_000})
	if !run.Candidate.IsNull() || !run.Difference.IsNull() || !run.Results[0].Candidate.IsNull() || run.Current.Version != 2 {
		t.Errorf("without a candidate: %+v", run)
	}
	var runs contract.TestRunList
	a.Want(200, "GET", set+"/runs?limit=1", nil).JSON(&runs)
	if len(runs.Data) != 1 || runs.Data[0].ID != run.ID || !runs.HasMore || runs.Data[0].Results != nil || runs.Data[0].Current.Errors != 1 {
		t.Fatalf("the first page is %+v", runs)
	}
	a.Want(200, "GET", set+"/runs?limit=1&cursor="+url.QueryEscape(orNone(runs.NextCursor)), nil).JSON(&runs)
	if len(runs.Data) != 1 || runs.HasMore || orNone(runs.Data[0].Candidate).Passed != 1 {
		t.Errorf("the second page is %+v", runs)
	}
	for range store.TestRunsKept {
		a.runTests(t, set, object{"maxCreditsMicro": 10_000_000})
	}
	if a.Want(200, "GET", set+"/runs", nil).JSON(&runs); len(runs.Data) != store.TestRunsKept {
		t.Errorf("%d runs are kept", len(runs.Data))
	}
	a.WantError(stoa.CodeNotFound, "GET", set+"/runs/"+run.ID, nil)
}

// TestARunOfTestsStops stops runs by their credits, by a caller, by the end of the key and by the deletion of the set and the agent.
func TestARunOfTestsStops(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, newCustomer(t, h), nil)
	var many []object
	for i := range 40 {
		many = append(many, object{"message": fmt.Sprintf("say: %d %s", i, strings.Repeat("word ", 50))})
	}
	set := newTestSet(t, a, many...)
	probe := a.runTests(t, newTestSet(t, a, many[0]), object{"maxCreditsMicro": 100_000_000})
	most := probe.Current.CreditsMicro * 100
	for most > probe.Current.CreditsMicro*30 { // leave room for the hold of a call, not for all questions
		most -= probe.Current.CreditsMicro
	}
	run := a.runTests(t, set, object{"maxCreditsMicro": most})
	if spent := run.Current.CreditsMicro; run.Status != "stopped" && run.Current.Errors == 0 || spent > most {
		t.Errorf("with %d credits the run is %s for %q and spent %d: %+v", most, run.Status, orNone(run.StatusReason), spent, run.Current)
	}
	slow := newTestSet(t, a, object{"message": "wait: 60s\nsay: never"}, object{"message": "wait: 60s\nsay: never"}, object{"message": "wait: 60s"}, object{"message": "wait: 60s"}, object{"message": "wait: 60s"})
	begin := func(set string) (path string) {
		a.Want(202, "POST", set+"/runs", object{"maxCreditsMicro": 50_000_000}).JSON(&run)
		path = set + "/runs/" + run.ID
		eventually(t, "the run goes on", func() bool {
			a.Want(200, "GET", path, nil).JSON(&run)
			return run.Results[3].Current.Status == "running"
		})
		if run.Results[4].Current.Status != "pending" {
			t.Errorf("the fifth question is %s", run.Results[4].Current.Status)
		}
		return path
	}
	path := begin(slow)
	a.WantError(stoa.CodeLimitReached, "POST", slow+"/runs", object{"maxCreditsMicro": 1})
	a.Want(200, "POST", path+"/cancel", nil)
	a.Want(200, "POST", path+"/cancel", nil)
	if run = a.untilTested(t, path); run.Status != "cancelled" || orNone(run.StatusReason) != "cancelled" || run.Current.Errors != 4 || run.Current.Open != 1 || run.Results[4].Current.Status != "skipped" {
		t.Errorf("the cancelled run is %+v", run)
	}
	if a.Want(200, "POST", path+"/cancel", nil).JSON(&run); run.Status != "cancelled" {
		t.Errorf("again: %+v", run)
	}
	// A session that is deleted meanwhile is an error.
	path = begin(slow)
	session := orNone(run.Results[0].Current.SessionID)
	a.Want(204, "DELETE", a.agent+"/sessions/"+session, nil)
	eventually(t, "the run goes on", func() bool {
		a.Want(200, "GET", path, nil).JSON(&run)
		return orNone(run.Results[0].Current.Verdict) == "error"
	})
	second := orNone(run.Results[1].Current.SessionID)
	a.Want(204, "DELETE", slow, nil)
	a.until(t, a.agent+"/sessions/"+second, "cancelled")
	a.WantError(stoa.CodeNotFound, "GET", path, nil)
	a.WantError(stoa.CodeNotFound, "GET", slow, nil)
	// A run ends with its key.
	var key contract.KeyWithSecret
	a.Want(201, "POST", "/api/v1/keys", object{"name": "ci", "scopes": []string{"sessions:write"}}).JSON(&key)
	set = newTestSet(t, a, many...)
	ci := h.ClientWith(t, key.Secret)
	ci.WantError(stoa.CodeScope, "POST", set+"/runs", object{"draft": object{"instructions": "x"}, "maxCreditsMicro": 1})
	slow = newTestSet(t, a, object{"message": "wait: 60s"})
	ci.Want(202, "POST", slow+"/runs", object{"maxCreditsMicro": 50_000_000}).JSON(&run)
	a.Want(204, "DELETE", "/api/v1/keys/"+key.ID, nil)
	h.Tests.Wake()
	if run = a.untilTested(t, slow+"/runs/"+run.ID); run.Status != "stopped" || orNone(run.StatusReason) != "key_revoked" {
		t.Errorf("without its key the run is %+v", run)
	}
	a.Want(204, "DELETE", a.agent, nil)
	left := func() (n int) {
		err := h.Store.Read(t.Context(), func(tx *store.Tx) error {
			_, err := tx.Get(t.Context(), `SELECT (SELECT COUNT(*) FROM test_sets WHERE account_id = $1) + (SELECT COUNT(*) FROM test_runs WHERE account_id = $1) + (SELECT COUNT(*) FROM test_results WHERE account_id = $1)`, []any{accountOf(a.Client)}, &n)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	eventually(t, "the run goes on", func() bool { return left() == 0 })
}

// TestARunOfTestsGoesOn begins a run without workers, as before a restart, and ends it with others: each question has one session.
func TestARunOfTestsGoesOn(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Idle: true})
	a := newAuthor(t, h, newCustomer(t, h), nil)
	var questions []object
	for i := range 9 {
		questions = append(questions, object{"message": fmt.Sprint("say: ", i), "facts": []string{fmt.Sprint(i)}})
	}
	set := newTestSet(t, a, questions...)
	var run contract.TestRun
	a.Want(202, "POST", set+"/runs", object{"maxCreditsMicro": 50_000_000}).JSON(&run)
	for range 3 { // nothing but the rows remains between two of them
		if _, err := h.Tests.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var sessions contract.SessionList
	if a.Want(200, "GET", a.agent+"/sessions?trigger=test", nil).JSON(&sessions); len(sessions.Data) != 4 {
		t.Fatalf("%d sessions began at once", len(sessions.Data))
	}
	for _, part := range []func(context.Context) error{h.Worker.Run, h.Tests.Run} {
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- part(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
	}
	if run = a.untilTested(t, set+"/runs/"+run.ID); run.Status != "completed" || run.Current.Passed != 9 {
		t.Errorf("the run is %+v", run)
	}
	if a.Want(200, "GET", a.agent+"/sessions?trigger=test", nil).JSON(&sessions); len(sessions.Data) != 9 {
		t.Errorf("there are %d sessions", len(sessions.Data))
	}
}

func TestTestSetsAreChecked(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, newCustomer(t, h), nil)
	sets := a.agent + "/test-sets"
	for _, bad := range []struct {
		body  object
		code  stoa.Code
		param string
	}{
		{object{"name": "x"}, stoa.CodeMissingParameter, "questions"},
		{object{"name": "x", "questions": []object{}}, stoa.CodeInvalidValue, "questions"},
		{testSet(strings.Repeat("x", 300), object{"message": "m"}), stoa.CodeInvalidValue, "name"},
		{testSet("x", object{"message": strings.Repeat("ü", 5000)}), stoa.CodeInvalidValue, "questions[0].message"},
		{testSet("x", object{"message": "m"}, object{"message": "m", "facts": []string{""}}), stoa.CodeInvalidValue, "questions[1].facts[0]"},
		{testSet("x", object{"message": "m", "replySchema": object{"type": "string"}}), stoa.CodeInvalidSchema, "questions[0].replySchema"},
		{testSet("x", object{"message": "m", "other": 1}), stoa.CodeUnknownField, "questions[0].other"},
	} {
		if e := a.WantError(bad.code, "POST", sets, bad.body); deref(e.Param) != bad.param {
			t.Errorf("%s names %q, not %q", bad.code, deref(e.Param), bad.param)
		}
	}
	var large []object
	for range 40 {
		large = append(large, object{"message": strings.Repeat("x", 8000)})
	}
	a.WantError(stoa.CodeInvalidValue, "POST", sets, testSet("x", large...))
	set := newTestSet(t, a, object{"message": "m"})
	a.WantError(stoa.CodeInvalidValue, "PATCH", set, object{"questions": large})
	var got contract.TestSet
	tag := a.Want(200, "GET", set, nil).Header.Get("ETag")
	a.Want(200, "PATCH", set, object{"questions": []object{{"message": "n", "absent": []string{"x"}}}}).JSON(&got)
	if got.Name != "Refunds" || got.Questions[0].Message != "n" || orNone(got.Questions[0].Absent)[0] != "x" {
		t.Errorf("the set is %+v", got)
	}
	a.With("If-Match", tag).WantError(stoa.CodePrecondition, "PATCH", set, object{"name": "x"})
	a.With("If-Match", tag).WantError(stoa.CodePrecondition, "DELETE", set, nil)
	var list contract.TestSetList
	if a.Want(200, "GET", sets, nil).JSON(&list); len(list.Data) != 1 || list.Data[0].Questions != nil || list.Data[0].QuestionCount != 1 {
		t.Errorf("the list is %+v", list)
	}
	for _, bad := range []struct {
		body  object
		code  stoa.Code
		param string
	}{
		{object{}, stoa.CodeMissingParameter, "maxCreditsMicro"},
		{object{"maxCreditsMicro": 0}, stoa.CodeInvalidValue, "maxCreditsMicro"},
		{object{"maxCreditsMicro": 1, "version": 9}, stoa.CodeNotFound, "version"},
		{object{"maxCreditsMicro": 1, "version": 1, "draft": object{"instructions": "x"}}, stoa.CodeInvalidValue, "version"},
		{object{"maxCreditsMicro": 1, "draft": object{"model": "none"}}, stoa.CodeModelNotFound, "draft.model"},
		{object{"maxCreditsMicro": 1, "draft": object{"tools": []any{object{"type": "connection", "connectionId": "con_x", "allow": []string{"t"}}}}}, stoa.CodeConnectionNotFound, "draft.tools[0].connectionId"},
	} {
		if e := a.WantError(bad.code, "POST", set+"/runs", bad.body); deref(e.Param) != bad.param {
			t.Errorf("%s names %q, not %q", bad.code, deref(e.Param), bad.param)
		}
	}
	once := a.With("Idempotency-Key", "tests-1")
	once.Want(201, "POST", sets, testSet("x", object{"message": "m"}))
	once.WantError(stoa.CodeIdempotencyReused, "POST", sets, testSet("y", object{"message": "m"}))
	once.Want(202, "POST", set+"/runs", object{"maxCreditsMicro": 1})
	once.WantError(stoa.CodeIdempotencyReused, "POST", set+"/runs", object{"maxCreditsMicro": 2})
	other := newAuthor(t, h, a.Client, nil)
	for _, try := range [][2]string{{"GET", ""}, {"PATCH", ""}, {"DELETE", ""}, {"GET", "/runs"}, {"POST", "/runs"}, {"GET", "/runs/tsr_x"}, {"POST", "/runs/tsr_x/cancel"}} {
		body := object{}
		switch try {
		case [2]string{"PATCH", ""}:
			body = object{"name": "x"}
		case [2]string{"POST", "/runs"}:
			body = object{"maxCreditsMicro": 1}
		}
		a.WantError(stoa.CodeNotFound, try[0], strings.Replace(set, a.agent, other.agent, 1)+try[1], body)
	}
	for range store.MaxTestSets - 2 {
		a.Want(201, "POST", sets, testSet("x", object{"message": "m"}))
	}
	a.WantError(stoa.CodeLimitReached, "POST", sets, testSet("x", object{"message": "m"}))
}
