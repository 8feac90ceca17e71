package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// Each way in which an exchange can end, for each class of effects: the outcome of the call,
// and the number of requests to its server. No two calls of the same kind follow each other,
// so that no breaker opens.
func TestWhatComesOfAnExchange(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), callers(&results, func(message string) []stoa.ToolCall {
		f := strings.Fields(message)
		return []stoa.ToolCall{{ID: "1", Name: f[0] + "__" + f[1], Arguments: fmt.Sprintf(`{"order":%q}`, strings.Join(f[2:], " "))}}
	}))
	f := fakemcp.Start(t)
	type row struct{ order, read, put, act string }
	const unknown, failed = "unknown 1", "error 3"
	cases := []row{
		{"500", failed, "unknown 3", unknown},
		{"503", failed, "unknown 3", unknown},
		{"408", failed, "unknown 3", unknown},
		{"reset", failed, "unknown 3", unknown},
		{"truncated", failed, "unknown 3", unknown},
		{"no reply", failed, "unknown 3", unknown},
		{"wrong id", failed, "unknown 3", unknown},
		{"html", failed, "unknown 3", unknown},
		{"large", "ok 1", "ok 1", "ok 1"}, // its beginning
		{"gzip", failed, "unknown 3", unknown},
		{"-32603", failed, "unknown 3", unknown},
		{"0", failed, "unknown 3", unknown},
		{"307", "error 1", "error 1", unknown},
		{"400", "error 1", "error 1", "error 1"},
		{"403", "error 1", "error 1", "error 1"},
		{"404", "error 1", "error 1", "error 1"},
		{"422", "error 1", "error 1", "error 1"},
		{"-32602", "error 1", "error 1", "error 1"},
		{"-32601", "error 1", "error 1", "error 1"},
		{"429", "error 2", "error 2", "error 2"}, // Retry-After is honoured, once
		{"error", "error 1", "error 1", "error 1"},
		{"block", "ok 1", "ok 1", "ok 1"},
		{"schema", "ok 1", "ok 1", "ok 1"},
		{"int64", "ok 1", "ok 1", "ok 1"},
	}
	r := h.Service()
	sessiontest.Run(t, r)
	type begun struct {
		name, want string
		s          stoa.Session
	}
	var all []begun
	for n, c := range cases {
		name := fmt.Sprintf("c%d", n)
		a := h.Agent(using(connect(h, f, name)))
		for tool, want := range map[string]string{fakemcp.Read: c.read, fakemcp.Put: c.put, fakemcp.Act: c.act} {
			if testing.Short() && strings.HasSuffix(want, " 3") && n > 1 {
				continue // these wait for pauses
			}
			of, at := a, name
			if strings.HasSuffix(want, " 3") { // it opens the breaker of its connection
				at = name + tool
				of = h.Agent(using(connect(h, f, at)))
			}
			all = append(all, begun{c.order + " " + tool, want, h.Begin(r, of, at+" "+tool+" "+c.order)})
		}
	}
	for _, b := range all {
		h.Until(r, b.s, stoa.SessionCompleted)
		rows := callsOf(h, r, b.s)
		if len(rows) == 0 {
			t.Fatalf("%s: no call\n%s", b.name, h.Log(r, b.s))
		}
		row := rows[0]
		if got := fmt.Sprint(row.Outcome, " ", row.Attempts); got != b.want {
			t.Errorf("%s is %q (%s), want %q", b.name, got, row.Result, b.want)
		}
	}
	if len(f.Visits()) > 0 {
		t.Errorf("%q were asked for", f.Visits())
	}
	for _, c := range f.Calls() {
		if c.Header.Get("Idempotency-Key") != "" || c.ID == "" {
			t.Errorf("%+v", c)
		}
	}
}

// A call that was not sent is sent once more, and then becomes an error; a call that waits
// too long becomes unknown.
func TestAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), one(&results))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	slow := connect(h, f, "slow", func(c *store.Connection) { c.Limits.TimeoutSeconds = 1 })
	a, r := h.Agent(using(c, slow)), h.Service()
	sessiontest.Run(t, r)
	f.Next("tools/call", "hang")
	s := h.Begin(r, a, `act {}`)
	f.Await(func(calls []fakemcp.Call) bool { return len(calls) == 1 })
	f.Stop()
	h.Until(r, s, stoa.SessionCompleted)
	if row := callsOf(h, r, s)[0]; row.Outcome != stoa.OutcomeUnknown {
		t.Errorf("a server that ended in a call: %+v", row)
	}
	s = h.Begin(r, a, `act {}`)
	h.Until(r, s, stoa.SessionCompleted)
	if row := callsOf(h, r, s)[0]; row.Outcome != stoa.OutcomeError || row.Attempts != 2 || !strings.Contains(row.Result, "not made") {
		t.Errorf("a server that is not there: %+v", row)
	}
	// Three consecutive failures of two tools: the server is not called for a while.
	for _, message := range []string{`act {}`, `read {}`, `put {}`} {
		s = h.Begin(r, a, message)
		h.Until(r, s, stoa.SessionCompleted)
	}
	if row := callsOf(h, r, s)[0]; row.Attempts != 0 || !strings.Contains(row.Result, "not available at the moment") || h.Tools.Broken() != 1 {
		t.Errorf("after three failures: %+v", row)
	}
}

func TestARefusedSecretIsWrittenDown(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), one(&results))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	a, r := h.Agent(using(c)), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, `read {"order":"401"}`), stoa.SessionCompleted)
	if row := callsOf(h, r, s)[0]; row.Outcome != stoa.OutcomeError || row.Attempts != 1 {
		t.Errorf("%+v", row)
	}
	s = h.Until(r, h.Begin(r, a, `read {}`), stoa.SessionCompleted)
	if len(s.Withheld) != 4 || s.Withheld[0].Reason != stoa.WithheldUnauthorized || len(f.Calls()) != 1 {
		t.Errorf("withheld are %+v after %d calls", s.Withheld, len(f.Calls()))
	}
	if _, err := h.Tools.Refresh(t.Context(), h.Account.ID, c.ID); err != nil {
		t.Fatal(err)
	}
	if s = h.Until(r, h.Begin(r, a, `read {}`), stoa.SessionCompleted); len(s.Withheld) != 0 || len(f.Calls()) != 2 {
		t.Errorf("withheld are %+v after %d calls", s.Withheld, len(f.Calls()))
	}
}

// A definition that changes during a turn is refused by the turn.
func TestARunningTurnRefusesWhatHasChanged(t *testing.T) {
	t.Parallel()
	var results told
	begun, goOn := make(chan struct{}), make(chan struct{})
	script := one(&results)
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(ctx context.Context, m stoa.Model, c stoa.Call, yield func(*stoa.Event, error) bool) {
		if len(sessiontest.Results(c.Messages[len(c.Messages)-1])) == 0 {
			close(begun)
			<-goOn
		}
		script(ctx, m, c, yield)
	}))
	f := fakemcp.Start(t)
	c := connect(h, f, "far")
	a, r := h.Agent(using(c)), h.Service()
	sessiontest.Run(t, r)
	s := h.Begin(r, a, `act {}`)
	<-begun
	f.Change("Acts.", "Acts otherwise.")
	if _, err := h.Tools.Refresh(t.Context(), h.Account.ID, c.ID); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	h.Until(r, s, stoa.SessionCompleted)
	if row := callsOf(h, r, s)[0]; row.ErrorCode != stoa.CodeToolChanged || row.Attempts != 0 || len(f.Calls()) != 0 {
		t.Errorf("the call is %+v after %d requests", row, len(f.Calls()))
	}
}

// Up to four read-only calls run at the same time; a session of the older era belongs to one
// turn.
func TestReadsGoTogetherInOneSession(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), callers(&results, func(string) (list []stoa.ToolCall) {
		for i := range 5 {
			list = append(list, call(fmt.Sprint(i), fakemcp.Read, `{"order":"hold"}`))
		}
		return append(list, call("a", fakemcp.Act, `{}`), call("b", fakemcp.Act, `{}`))
	}))
	f := fakemcp.Start(t, fakemcp.Options{Legacy: true})
	a, r := h.Agent(using(connect(h, f, "far"))), h.Service()
	stop := sessiontest.Run(t, r)
	opened, _ := f.Sessions()
	one, two := h.Begin(r, a, "one"), h.Begin(r, a, "two")
	f.Await(func(calls []fakemcp.Call) bool { return len(calls) == 8 })
	f.Release()
	h.Until(r, one, stoa.SessionCompleted)
	h.Until(r, two, stoa.SessionCompleted)
	stop()
	now, open := f.Sessions()
	if now-opened != 2 || open != 0 {
		t.Errorf("%d sessions were opened, %d are open", now-opened, open)
	}
	of := map[string]string{}
	for _, c := range f.Calls() {
		of[c.ID] = c.Session
	}
	sessions := map[string]bool{}
	for _, s := range []stoa.Session{one, two} {
		mine := map[string]bool{}
		for _, row := range callsOf(h, r, s) {
			if row.Outcome != stoa.OutcomeOK {
				t.Errorf("%+v", row)
			}
			mine[of[row.ID]] = true
		}
		for id := range mine {
			if sessions[id] {
				t.Errorf("the session %q is that of two", id)
			}
			sessions[id] = true
		}
		if len(mine) != 1 {
			t.Errorf("%d sessions at the server for one turn", len(mine))
		}
	}
	if got := results.of("one"); len(got) != 7 || slices.ContainsFunc(got, func(r stoa.ToolResult) bool { return r.IsError }) {
		t.Errorf("%+v", got)
	}
}

// A dropped session is opened again, and the call made once.
func TestAForgottenSessionIsOpenedAgain(t *testing.T) {
	t.Parallel()
	var results told
	h := sessiontest.Build(t, storetest.New(t), callers(&results, func(string) []stoa.ToolCall {
		return []stoa.ToolCall{call("1", fakemcp.Read, `{"order":"restart"}`), call("2", fakemcp.Act, `{}`)}
	}))
	f := fakemcp.Start(t, fakemcp.Options{Legacy: true})
	a, r := h.Agent(using(connect(h, f, "far"))), h.Service()
	sessiontest.Run(t, r)
	f.Next("tools/call", "restart", "", "")
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionCompleted)
	if rows := callsOf(h, r, s); rows[1].Outcome != stoa.OutcomeOK || rows[1].Attempts != 1 || f.Effects(rows[1].ID) != 1 {
		t.Errorf("%+v", rows)
	}
}

// A result that is too long is shown in part, and the rest can be read.
func TestALongResultIsReadOn(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 3000 {
		lines = append(lines, fmt.Sprintf("line %d of the result", i+1))
	}
	var got []string
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(_ context.Context, _ stoa.Model, c stoa.Call, yield func(*stoa.Event, error) bool) {
		last := c.Messages[len(c.Messages)-1]
		offered := slices.ContainsFunc(c.Tools, func(t stoa.Tool) bool { return t.Name == "tool_result_read" })
		switch {
		case len(sessiontest.Results(last)) == 0:
			if !offered { // the tools of a session stay the same, for the vendor's cache
				t.Error("tool_result_read is not offered from the first step on")
			}
			sessiontest.Say(yield, "", call("1", fakemcp.Echo, `{"text":"x"}`))
		case len(got) < 2:
			got = append(got, sessiontest.Results(last)[0].Content)
			_, id, _ := strings.Cut(sessiontest.Results(last)[0].Content, `callId "`)
			id, _, _ = strings.Cut(id, `"`)
			if !offered {
				t.Error("tool_result_read is not offered")
			}
			sessiontest.Say(yield, "", stoa.ToolCall{ID: "2", Name: "tool_result_read", Arguments: fmt.Sprintf(`{"callId":%q,"fromLine":2999}`, id)})
		default:
			got = append(got, sessiontest.Results(last)[0].Content)
			sessiontest.Say(yield, "done")
		}
	}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		result := `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
		switch m.Method {
		case "tools/list":
			result = `{"resultType":"complete","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			text, _ := json.Marshal(strings.Join(lines, "\n"))
			result = `{"content":[{"type":"text","text":` + string(text) + `}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	defer server.Close()
	a, r := h.Agent(using(connect(h, &fakemcp.Server{URL: server.URL}, "far"))), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionCompleted)
	if len(got) != 3 || len(got[0]) > session.ShownOutput || !strings.Contains(got[0], "\nline 1 of the result\n") || !strings.Contains(got[0], " of 3000, begin ") || strings.Contains(got[0], "line 3000 of") {
		t.Fatalf("the model was shown %d bytes: %.300q", len(got[0]), got[0])
	}
	if !strings.Contains(got[1], "lines 2999 to 3000 of 3000") || !strings.Contains(got[1], "line 3000 of the result") || strings.Contains(got[1], "The rest") {
		t.Errorf("the rest is %q", got[1])
	}
	if !strings.Contains(got[2], "no result of such a call") {
		t.Errorf("of another call: %q", got[2])
	}
	if row := callsOf(h, r, s)[0]; row.ResultBytes != len(strings.Join(lines, "\n")) {
		t.Errorf("%d bytes are kept", row.ResultBytes)
	}
	checkSent(t, h, r, s, nil)
}
