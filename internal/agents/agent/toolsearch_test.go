package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"stoa/internal/agents/httptool"
	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/fakemcp"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// crowd adds tools to a fake, so that it has n, and returns the names of all.
func crowd(f *fakemcp.Server, n int) []string {
	names, list := []string{fakemcp.Read, fakemcp.Put, fakemcp.Act, fakemcp.Echo}, fakemcp.Tools()
	for i := len(list); i < n; i++ {
		names = append(names, fmt.Sprint("archive_", i))
		list = append(list, fmt.Sprintf(`{"name":"archive_%d","description":"Lists folder %d of the archive.","inputSchema":{"type":"object","properties":{"folder":{"type":"string"}}},"annotations":{"readOnlyHint":true}}`, i, i))
	}
	f.SetTools(list...)
	return names
}

// searching gives an agent tools of a connection, which it searches.
func searching(c store.Connection, names []string) func(*stoa.Agent) {
	return func(a *stoa.Agent) {
		a.Tools = append(a.Tools, stoa.AgentTool{Type: stoa.ToolConnection, ConnectionID: c.ID, Allow: names})
		c := a.CallSettings()
		c.ToolSearch = true
		a.SetCallSettings(c)
	}
}

// A talk is a session whose model calls in each turn the tool that the message names, with the arguments after it.
type talk struct {
	*sessiontest.Fixture
	r     *sessiontest.Service
	s     stoa.Session
	calls []stoa.Call // in order
	notes []string    // about tools, of the newest call
	said  string      // result of the newest call
}

func newTalk(t *testing.T, home storetest.Database) *talk {
	k := &talk{}
	k.Fixture = sessiontest.Build(t, home, sessiontest.Script(func(ctx context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		k.calls, k.notes = append(k.calls, call), toolNotes(ctx)
		last := call.Messages[len(call.Messages)-1]
		if results := sessiontest.Results(last); len(results) > 0 {
			k.said = results[0].Content
			sessiontest.Say(yield, "done")
			return
		}
		if name, arguments, ok := strings.Cut(last.Text(), " "); ok {
			sessiontest.Say(yield, "", stoa.ToolCall{ID: fmt.Sprint("c", len(k.calls)), Name: name, Arguments: arguments})
			return
		}
		sessiontest.Say(yield, "hello")
	}))
	return k
}

// begin starts the session of an agent, in the one service of the talk: another that takes the session would not tell this one of its end.
func (k *talk) begin(t *testing.T, a stoa.Agent) {
	if k.r == nil {
		k.r = k.Service()
		sessiontest.Run(t, k.r)
	}
	k.s = k.Until(k.r, k.Begin(k.r, a, "hello"), stoa.SessionCompleted)
}

// turn runs a turn until the session has a status, and returns the result of its call.
func (k *talk) turn(message string, want stoa.SessionStatus) string {
	k.T.Helper()
	k.said = ""
	if _, err := k.r.Send(k.T.Context(), k.Caller(), k.s.AgentID, k.s.ID, session.SendRequest{Message: message}); err != nil {
		k.T.Fatal(err)
	}
	k.s = k.Until(k.r, k.s, want)
	return k.said
}

func (k *talk) ask(message string) string {
	k.T.Helper()
	return k.turn(message, stoa.SessionCompleted)
}

// found returns the names of the tools in a result of tool_find, the best first, and how many have definitions.
func found(t *testing.T, result string) (names []string, whole int) {
	t.Helper()
	var out struct {
		Tools []struct {
			Name       string          `json:"name"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"tools"`
	}
	if err := json.Unmarshal([]byte(result), &out); err != nil {
		t.Fatalf("%v: %s", err, result)
	}
	for _, one := range out.Tools {
		names = append(names, one.Name)
		if len(one.Parameters) > 0 {
			whole++
		}
	}
	return names, whole
}

// TestToolsAreFoundAndCalled finds a tool and calls it in each way that a model may try.
func TestToolsAreFoundAndCalled(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		k := newTalk(t, home)
		f := fakemcp.Start(t)
		names := crowd(f, 40)
		c := connect(k.Fixture, f, "far")
		k.begin(t, k.Agent(searching(c, names[:39])))
		var offered []string
		for _, tool := range k.calls[0].Tools {
			offered = append(offered, tool.Name)
		}
		if want := []string{stoa.FindTool, stoa.CallTool, "tool_result_read"}; !slices.Equal(slices.DeleteFunc(offered, func(n string) bool { return n == session.AskTool }), want) {
			t.Errorf("the model is offered %q", offered)
		}
		if names, whole := found(t, k.ask(`tool_find {"query":"list folder 17 of the archive"}`)); names[0] != "far__archive_17" || len(names) != 8 || whole != 3 {
			t.Errorf("found %q, %d with definitions", names, whole)
		}
		if names, whole := found(t, k.ask(`tool_find {"query":"far__act"}`)); !slices.Equal(names, []string{"far__act"}) || whole != 1 {
			t.Errorf("by its name: %q", names)
		}
		if names, _ := found(t, k.ask(`tool_find {"query":"qwxzv"}`)); len(names) != 0 || !strings.Contains(k.said, "Nothing was found") {
			t.Errorf("nothing: %s", k.said)
		}
		for _, d := range []struct {
			message, says string
			key           string // of the call that arrives
		}{
			{`tool_call {"name":"far__act","arguments":{"key":"a"}}`, "done act", "a"},
			{`tool_call {"name":"far__put","arguments":{"key":"never found"}}`, "done put", "never found"},
			{`far__put {"key":"by its own name"}`, "done put", "by its own name"},
			{`tool_call {"name":"far__act","arguments":"{\"key\":\"text\"}"}`, "done act", "text"},
			{`tool_call {"name":"far__read"}`, "done read", ""},
			{`tool_call {"name":"far__act","arguments":{"key":7}}`, "do not fit the tool's parameters", "-"},
			{`tool_call {"name":"far__act","arguments":"key"}`, "do not fit the tool's parameters", "-"},
			{`tool_call {"name":"far__act","arguments":"{\"key\":\"a\u0000\"}"}`, "do not fit the tool's parameters", "-"}, // a NUL, which is not JSON
			{`tool_call {"name":"far__nothing","arguments":{}}`, `There is no tool of the name "far__nothing"; nothing was done. Find tools with tool_find.`, "-"},
			{`tool_call {"name":"far__archive_39","arguments":{}}`, "There is no tool of the name", "-"},
			{`tool_call {"name":"tool_find","arguments":{"query":"x"}}`, "tool_find is called by its name, not with tool_call; nothing was done.", "-"},
			{`tool_call {"arguments":{}}`, "are the name of a tool and its arguments; nothing was done.", "-"},
			{`tool_call {"name":"tool_call","arguments":{}}`, "nothing was done.", "-"},
			{`tool_call nothing`, "nothing was done.", "-"},
			{`tool_find {"words":"x"}`, "a member that it does not know", "-"},
		} {
			before := f.Calls()
			said := k.ask(d.message)
			calls := f.Calls()[len(before):]
			if !strings.Contains(said, d.says) {
				t.Errorf("%s answers %q", d.message, said)
			}
			if d.key == "-" && len(calls) != 0 || d.key != "-" && (len(calls) != 1 || calls[0].Key != d.key) {
				t.Errorf("%s: the server gets %+v", d.message, calls)
			}
		}
		for i, call := range k.calls {
			if !gocmp.Equal(call.Tools, k.calls[0].Tools) {
				t.Fatalf("call %d has other tools than the first", i+1)
			}
		}
		for _, m := range k.calls[len(k.calls)-1].Messages { // a vendor gets the names that its model wrote
			for _, p := range m.Parts {
				if p.Kind == stoa.PartResult && p.Result.Name == "far__act" {
					t.Errorf("a result has the name of a tool that the model did not call: %+v", p.Result)
				}
			}
		}
		rows := callsOf(k.Fixture, k.r, k.s)
		var tools []string
		for _, row := range rows {
			tools = append(tools, row.Tool)
			if row.Tool == "far__act" && row.ConnectionID != c.ID {
				t.Errorf("%+v", row)
			}
		}
		if want := []string{"far__act", "far__put", "far__put", "far__act", "far__read", "far__act", "far__act", "far__act"}; !slices.Equal(tools, want) || rows[0].Arguments != `{"key":"a"}` {
			t.Errorf("the calls are %q, the first with %s", tools, rows[0].Arguments)
		}
		if log := k.Log(k.r, k.s); !strings.Contains(log, `"name":"far__act","arguments":"{\"key\":\"a\"}"`) || strings.Count(log, `"name":"tool_call"`) != 2*6 { // of the six calls that call nothing
			t.Errorf("the log is\n%s", log)
		}
		checkSent(t, k.Fixture, k.r, k.s, nil)
		k.CheckBooks(k.r, k.s)
	})
}

// TestFewToolsAreNotSearched compares an agent that may search with one that may not, at both sides of the limits.
func TestFewToolsAreNotSearched(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tools  int
		text   string
		search bool
	}{
		"few": {30, "", false}, "many": {31, "", true}, "long": {20, strings.Repeat("a long text ", 160), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newTalk(t, storetest.New(t))
			f := fakemcp.Start(t)
			names := crowd(f, tt.tools)
			f.Change("of the archive.", "of the archive. "+tt.text)
			c := connect(k.Fixture, f, "far")
			k.begin(t, k.Agent(searching(c, names)))
			k.begin(t, k.Agent(searching(c, names), func(a *stoa.Agent) { a.Calls = nil }))
			if same := gocmp.Equal(k.calls[0].Tools, k.calls[1].Tools); same == tt.search || len(k.calls[1].Tools) < tt.tools {
				t.Errorf("%d tools with the search, %d without", len(k.calls[0].Tools), len(k.calls[1].Tools))
			}
		})
	}
}

// TestWhatTheServiceWritesIsListed has an agent that searches, remembers, and asks a person before it writes: the tools of the service are in each
// request.
func TestWhatTheServiceWritesIsListed(t *testing.T) {
	t.Parallel()
	k := newTalk(t, storetest.New(t))
	f := fakemcp.Start(t)
	names := crowd(f, 40)
	a := k.Agent(searching(connect(k.Fixture, f, "far"), names), remembers, func(a *stoa.Agent) {
		a.DriveAccess = stoa.DriveReadWrite
		for _, name := range []string{stoa.DriveWrite, stoa.MemoryWrite} {
			a.Tools = append(a.Tools, stoa.AgentTool{Type: stoa.ToolDrive, Name: name, Approval: stoa.ApprovalAlways})
		}
	})
	k.r = k.Service()
	sessiontest.Run(t, k.r)
	k.s = k.Until(k.r, k.Begin(k.r, a, "hello", of("ada")), stoa.SessionCompleted)
	k.ask(`tool_find {"query":"archive"}`)
	for i, c := range k.calls {
		for _, name := range []string{stoa.DriveWrite, stoa.MemoryWrite, stoa.FindTool} {
			if !slices.ContainsFunc(c.Tools, func(t stoa.Tool) bool { return t.Name == name }) {
				t.Errorf("call %d has no %s", i+1, name)
			}
		}
		if !gocmp.Equal(c.Tools, k.calls[0].Tools) {
			t.Errorf("call %d begins with other tools than the first", i+1)
		}
	}
}

// TestASessionBeginsToSearch moves a session to a version whose model searches, and another to one whose model does not.
func TestASessionBeginsToSearch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		k := newTalk(t, home)
		f := fakemcp.Start(t)
		names := crowd(f, 40)
		c := connect(k.Fixture, f, "far")
		a := k.Agent(searching(c, names), func(a *stoa.Agent) { a.Calls = nil })
		k.begin(t, a)
		for _, search := range []bool{true, false, true} {
			k.Write(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Setup().EditAgent(ctx, k.Account.ID, a.ID, func(a *stoa.Agent) error {
					a.SetCallSettings(stoa.CallSettings{ToolSearch: search})
					return nil
				})
				if err == nil {
					_, err = k.r.Upgrade(ctx, tx, k.Caller(), a.ID, k.s.ID)
				}
				return err
			})
			if said := k.ask(`far__act {"key":"a"}`); !strings.Contains(said, "done act") {
				t.Errorf("searches %v: %s", search, said)
			}
			if search {
				k.ask(`tool_find {"query":"far__read"}`)
			}
			if offered := k.calls[len(k.calls)-1].Tools; search != (len(offered) < 10) || search != slices.ContainsFunc(offered, func(t stoa.Tool) bool { return t.Name == stoa.FindTool }) {
				t.Errorf("searches %v: %d tools are offered", search, len(offered))
			}
			if len(k.notes) != 0 {
				t.Errorf("searches %v: the notes are %q", search, k.notes)
			}
		}
		checkSent(t, k.Fixture, k.r, k.s, nil)
	})
}

// TestFoundToolsNeedTheirApproval waits for a person as if the model had called the tool itself.
func TestFoundToolsNeedTheirApproval(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		k := newTalk(t, home)
		f := fakemcp.Start(t)
		names := crowd(f, 40)
		c := connect(k.Fixture, f, "far")
		approve(k.Fixture, c, stoa.ApprovalAlways)
		k.begin(t, k.Agent(searching(c, names)))
		for decision, want := range map[string]int{"reject": 0, "approve": 1} {
			before := len(f.Calls())
			k.turn(`tool_call {"name":"far__act","arguments":{"key":"`+decision+`"}}`, stoa.SessionWaiting)
			in := k.s.Pending
			if in.Kind != stoa.InputToolApproval || len(in.Calls) != 1 || in.Calls[0].Tool != "far__act" || in.Calls[0].Arguments != `{"key":"`+decision+`"}` || in.Calls[0].ConnectionID != c.ID {
				t.Fatalf("it waits for %+v", in)
			}
			decideAll(k.Fixture, k.r, k.s, decision)
			k.s = k.Until(k.r, k.s, stoa.SessionCompleted)
			if n := len(f.Calls()) - before; n != want {
				t.Errorf("%s: %d calls arrive", decision, n)
			}
		}
		k.turn(`tool_call {"name":"far__act","arguments":{"key":7}}`, stoa.SessionCompleted)
		if !strings.Contains(k.said, "do not fit") {
			t.Errorf("wrong arguments answer %q", k.said)
		}
		once := k.Until(k.r, k.Begin(k.r, k.Agent(searching(c, names)), `tool_find {"query":"act"}`, func(q *session.StartRequest) { q.Mode = stoa.ModeOnce }), stoa.SessionCompleted)
		if len(once.Withheld) != 40 || strings.Contains(k.said, "far__") {
			t.Errorf("a session that cannot wait withholds %d tools and finds %s", len(once.Withheld), k.said)
		}
		k.CheckBooks(k.r, k.s)
	})
}

// TestFoundToolsMayChange withholds, changes and approves tools after the model has found them.
func TestFoundToolsMayChange(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		k := newTalk(t, home)
		f := fakemcp.Start(t)
		names := crowd(f, 40)
		c := connect(k.Fixture, f, "far")
		k.begin(t, k.Agent(searching(c, names)))
		k.ask(`tool_find {"query":"far__read"}`)
		const read = `tool_call {"name":"far__read","arguments":{"key":"a"}}`
		step := func(what, message, says string, notes ...string) {
			t.Helper()
			if said := k.ask(message); !strings.Contains(said, says) {
				t.Errorf("%s: %q", what, said)
			}
			if len(k.notes) != len(notes) {
				t.Fatalf("%s: the notes are %q", what, k.notes)
			}
			for i, text := range notes {
				if !strings.Contains(k.notes[i], text) || strings.Contains(k.notes[i], "archive_9") {
					t.Errorf("%s: note %d is %q", what, i+1, k.notes[i])
				}
			}
		}
		step("as found", read, "done read")
		redefine(k.Fixture, f, c, "Reads.", "Reads anew.")
		const unapproved = "far__read: The definition of the tool has changed, and the new one is not approved."
		step("changed", read, "not approved. Nothing was done", unapproved)
		if k.ask(`tool_find {"query":"far__read"}`); strings.Contains(k.said, `"parameters"`) && strings.Contains(k.said, `"far__read"`) {
			t.Errorf("a withheld tool is found: %s", k.said)
		}
		approve(k.Fixture, c, stoa.ApprovalNever)
		step("approved", read, "done read", unapproved, "far__read: It is available, and its definition may have changed: find it again by its name.")
		step("found again", `tool_find {"query":"far__read"}`, "Reads anew.", unapproved, "find it again")
		step("nothing new", read, "done read", unapproved, "find it again")
		enable(k.Fixture, c, false)
		step("switched off", read, "switched off", unapproved, "find it again", "far__read: The connection of the tool is switched off.")
		step("nothing to find", `tool_find {"query":"read"}`, "Nothing was found", unapproved, "find it again", "switched off")
		for i, call := range k.calls {
			if !gocmp.Equal(call.Tools, k.calls[0].Tools) {
				t.Fatalf("call %d has other tools than the first", i+1)
			}
		}
		checkSent(t, k.Fixture, k.r, k.s, nil)
	})
}

// TestFoundToolsAreCalledOnceThroughKills loses the worker while a call is at its server.
func TestFoundToolsAreCalledOnceThroughKills(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, home storetest.Database) {
		var results told
		h := sessiontest.Build(t, home, callers(&results, func(string) []stoa.ToolCall {
			through := func(id, name, arguments string) stoa.ToolCall {
				return stoa.ToolCall{ID: id, Name: stoa.CallTool, Arguments: `{"name":"far__` + name + `","arguments":` + arguments + `}`}
			}
			return []stoa.ToolCall{through("1", fakemcp.Act, `{"key":"a"}`), {ID: "2", Name: stoa.FindTool, Arguments: `{"query":"put"}`}, through("3", fakemcp.Put, `{"key":"b","order":"hold"}`), through("4", fakemcp.Act, `{"key":"c"}`)}
		}))
		f := fakemcp.Start(t)
		names := crowd(f, 40)
		a := h.Agent(searching(connect(h, f, "far"), names))
		first, second := h.Service(shared), h.Service(shared)
		stop := sessiontest.Run(t, first)
		s := h.Begin(first, a, "go")
		calledTimes(f, fakemcp.Put, 1)
		h.Write(endRunners)
		sessiontest.Run(t, second)
		calledTimes(f, fakemcp.Put, 2)
		f.Release()
		got := h.Until(second, s, stoa.SessionCompleted)
		stop()
		if want := "map[a:1 b:1 c:1]"; fmt.Sprint(f.EffectsByKey()) != want || len(results.of("go")) != 4 {
			t.Errorf("effects are %v, results %+v", f.EffectsByKey(), results.of("go"))
		}
		h.CheckBooks(second, got)
	})
}

// TestToolsOfProgramsAreSearched finds tools that a program runs. The program receives the tool's own name and arguments.
func TestToolsOfProgramsAreSearched(t *testing.T) {
	t.Parallel()
	k := newTalk(t, storetest.New(t))
	k.begin(t, k.Agent(func(a *stoa.Agent) {
		for i := range 40 {
			a.Tools = append(a.Tools, stoa.AgentTool{Type: stoa.ToolClient, Name: fmt.Sprint("shelf", i), Description: fmt.Sprintf("Opens shelf %d.", i), Parameters: `{"type":"object","properties":{"key":{"type":"string"}}}`, Effects: stoa.EffectsRead, OnTimeout: stoa.TimeoutTells, TimeoutSeconds: 60})
		}
		a.SetCallSettings(stoa.CallSettings{ToolSearch: true})
	}))
	if names, _ := found(t, k.ask(`tool_find {"query":"open shelf 12"}`)); names[0] != "shelf12" {
		t.Errorf("found %q", names)
	}
	k.turn(`tool_call {"name":"shelf12","arguments":{"key":"a"}}`, stoa.SessionWaiting)
	if in := k.s.Pending; in.Kind != stoa.InputToolCall || len(in.Calls) != 1 || in.Calls[0].Tool != "shelf12" || in.Calls[0].Arguments != `{"key":"a"}` {
		t.Errorf("it waits for %+v", in)
	}
}

// TestManyParametersAreFoundInOrder gives each tool more parameters than a search reads. It reads the first ones by name, always the same.
func TestManyParametersAreFoundInOrder(t *testing.T) {
	t.Parallel()
	var results told
	words := strings.Fields("lemon melon papaya quince raisin sorrel tomato walnut")
	h := sessiontest.Build(t, storetest.New(t), callers(&results, func(string) (calls []stoa.ToolCall) {
		for _, word := range words {
			calls = append(calls, stoa.ToolCall{ID: word, Name: stoa.FindTool, Arguments: `{"query":"` + word + `"}`})
		}
		return calls
	}))
	a := h.Agent(func(a *stoa.Agent) {
		for i := range 40 {
			parameters := map[string]any{"aa_" + words[i%len(words)]: map[string]any{"type": "string"}}
			for j := range 260 {
				parameters[fmt.Sprint("zz", j)] = map[string]any{"type": "string"}
			}
			text, _ := json.Marshal(map[string]any{"type": "object", "properties": parameters})
			a.Tools = append(a.Tools, stoa.AgentTool{Type: stoa.ToolClient, Name: fmt.Sprint("shelf", i), Description: "Opens a shelf.", Parameters: string(text), Effects: stoa.EffectsRead, OnTimeout: stoa.TimeoutTells, TimeoutSeconds: 60})
		}
		a.SetCallSettings(stoa.CallSettings{ToolSearch: true})
	})
	r := h.Service()
	sessiontest.Run(t, r)
	h.Until(r, h.Begin(r, a, "go"), stoa.SessionCompleted)
	for i, result := range results.of("go") {
		if names, _ := found(t, result.Content); len(names) != 5 {
			t.Errorf("%s finds %q", words[i], names)
		}
	}
}

// TestFoundToolsOutliveASummary summarizes a session with the results of tool_find in it: the tools can be called and found again.
func TestFoundToolsOutliveASummary(t *testing.T) {
	t.Parallel()
	var said []string
	n := onNarrow(t, "The user wants things.", func(_ context.Context, _ stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		last := call.Messages[len(call.Messages)-1]
		if results := sessiontest.Results(last); len(results) > 0 {
			said = append(said, results[0].Content)
			sessiontest.Say(yield, strings.Repeat("This was done and noted. ", 30))
			return
		}
		name, arguments, _ := strings.Cut(last.Text(), " ")
		sessiontest.Say(yield, "", stoa.ToolCall{ID: fmt.Sprint("c", len(said)), Name: name, Arguments: arguments})
	})
	f := fakemcp.Start(t)
	names := crowd(f, 40)
	c := connect(n.Fixture, f, "far")
	r := n.Service(func(c *sessiontest.Config) { c.CompactAt = 70 })
	sessiontest.Run(t, r)
	s := n.Until(r, n.Begin(r, n.Agent(searching(c, names), func(a *stoa.Agent) { a.Model = narrowModel }), `tool_find {"query":"far__act"}`), stoa.SessionCompleted)
	summaries := func() (count int) {
		for _, call := range n.calls {
			if summarized(call) {
				count++
			}
		}
		return count
	}
	for turn := 0; summaries() < 2 && turn < 60; turn++ {
		message := []string{`tool_find {"query":"list the archive"}`, `tool_call {"name":"far__act","arguments":{"key":"a"}}`, `tool_find {"query":"far__read"}`, `tool_call {"name":"far__read","arguments":{}}`}[turn%4]
		if _, err := r.Send(t.Context(), n.Caller(), s.AgentID, s.ID, session.SendRequest{Message: message}); err != nil {
			t.Fatal(err)
		}
		s = n.Until(r, s, stoa.SessionCompleted)
		want := []string{`"tools":[{"name":"far__archive_`, "done act", `"tools":[{"name":"far__read"`, "done read"}[turn%4]
		if got := said[len(said)-1]; !strings.Contains(got, want) {
			t.Fatalf("turn %d: %s", turn, got)
		}
	}
	if summaries() < 2 {
		t.Fatalf("it was summarized %d times", summaries())
	}
	for i, call := range n.calls {
		if len(call.Tools) > 0 && !gocmp.Equal(call.Tools, n.calls[0].Tools) {
			t.Errorf("call %d has other tools than the first", i+1)
		}
	}
	n.CheckBooks(r, s)
}

// catalogOf adds a connection to an API with an OpenAPI document, as a customer does, approves its operations, and returns their names.
func catalogOf(h *sessiontest.Fixture, name, url, document string) (c store.Connection, names []string) {
	h.T.Helper()
	c = store.Connection{AccountID: h.Account.ID, SpaceID: h.Space(), Kind: store.KindOpenAPI, Name: name, URL: url, OnChange: store.OnChangeBlock, Limits: store.DefaultConnectionLimits}
	h.Write(func(ctx context.Context, tx *store.Tx) (err error) {
		if c, err = tx.Setup().InsertConnection(ctx, c); err != nil {
			return err
		}
		return tx.Setup().SetConnectionSource(ctx, c.AccountID, c.ID, document)
	})
	if _, err := h.Tools.Refresh(h.T.Context(), h.Account.ID, c.ID); err != nil {
		h.T.Fatal(err)
	}
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Setup().ConnectionTools(ctx, c.AccountID, c.ID)
		var decisions []tool.Decision
		for _, row := range rows {
			if row.State != store.ToolInvalid {
				decisions = append(decisions, tool.Decision{Name: row.Name, SHA256: row.SHA256, Approve: true, Approval: stoa.ApprovalNever, Effects: "once"})
				names = append(names, row.Name)
			}
		}
		for part := range slices.Chunk(decisions, 100) {
			if err == nil {
				err = tool.Review(ctx, tx, c.AccountID, c.ID, part)
			}
		}
		return err
	})
	return c, names
}

// elsewhere is the address of an API that no test calls.
const elsewhere = "https://api.example.com"

// things returns a document of an API with six operations for each of n things.
func things(n int) string {
	var b strings.Builder
	for i := range n {
		body := `"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"name":{"type":"string","description":"What people call it."},"owner":{"type":"string","description":"The id of the person who is responsible for it."},"amount":{"type":"integer","description":"In cents."}}}}}}`
		one := fmt.Sprintf(`"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"},"description":"The id of thing %d."}]`, i)
		fmt.Fprintf(&b, `"/things%[1]d":{"get":{"operationId":"listThings%[1]d","summary":"List things of the kind %[1]d","parameters":[{"name":"limit","in":"query","schema":{"type":"integer"},"description":"At most as many."}]},"post":{"operationId":"createThing%[1]d","summary":"Create a thing of the kind %[1]d",%[2]s}},`+
			`"/things%[1]d/{id}":{%[3]s,"get":{"operationId":"getThing%[1]d","summary":"Get a thing of the kind %[1]d"},"put":{"operationId":"replaceThing%[1]d","summary":"Replace a thing of the kind %[1]d",%[2]s},"delete":{"operationId":"deleteThing%[1]d","summary":"Delete a thing of the kind %[1]d"}},`+
			`"/things%[1]d/{id}/archive":{%[3]s,"post":{"operationId":"archiveThing%[1]d","summary":"Archive a thing of the kind %[1]d"}},`, i, body, one)
	}
	return `{"openapi":"3.1.0","paths":{` + strings.TrimSuffix(b.String(), ",") + `}}`
}

// TestATurnDoesNotPayForAllTools takes ten steps, of which nine find tools and call one, and compares their input with that of the definitions
// of all tools in each step.
func TestATurnDoesNotPayForAllTools(t *testing.T) {
	t.Parallel()
	for name, orders := range map[string]string{
		"things": "call: tool_find {\"query\":\"archive thing 7\"}\ncall: tool_call {\"name\":\"things__archiveThing7\",\"arguments\":{\"id\":\"a\"}}",
		"github": "call: tool_find {\"query\":\"create issue comment\"}\ncall: tool_call {\"name\":\"github__issues_create-comment\",\"arguments\":{\"owner\":\"a\",\"repo\":\"b\",\"issue_number\":7,\"body\":{\"body\":\"Fixed.\"}}}",
		"stripe": "call: tool_find {\"query\":\"refund charge\"}\ncall: tool_call {\"name\":\"stripe__PostRefunds\",\"arguments\":{\"body\":{\"charge\":\"ch_1\"}}}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document := things(50)
			if name != "things" {
				document = realDocument(t, name)
			}
			h, vendor := onVendor(t, "messages")
			site := shop(t, false)
			c, names := catalogOf(h, name, site.url, document)
			a := h.Agent(searching(c, names), func(a *stoa.Agent) { a.Model, a.Limits.MaxSteps = "alpha-sonnet-5-5", 10 })
			r := h.Service()
			sessiontest.Run(t, r)
			s := h.Until(r, h.Begin(r, a, "rounds: 9\n"+orders+"\nsay: done"), stoa.SessionCompleted)
			checkAccepted(t, vendor)
			checkPrefixes(t, vendor.Served())
			if asked, _ := site.seen(); asked != 9 {
				t.Fatalf("the server gets %d calls\n%s", asked, h.Log(r, s))
			}
			input, all := int64(0), int64(0)
			for _, served := range vendor.Served() {
				input += served.Usage.Input
			}
			h.Write(func(ctx context.Context, tx *store.Tx) error {
				offered, _, err := tool.Offer(ctx, tx, tool.Audience{AccountID: a.AccountID, SpaceID: a.SpaceID, Search: true}, a.Tools, nil)
				for _, one := range offered {
					all += stoa.EstimateTokens(len(one.Name) + len(one.Description) + len(one.Parameters))
				}
				return err
			})
			t.Logf("%d tools of %d tokens: ten steps have an input of %d tokens, %.3f of ten times all definitions", len(names), all, input, float64(input)/float64(10*all))
			if len(vendor.Served()) != 10 || 4*input > 10*all {
				t.Errorf("%d steps with an input of %d tokens, and the definitions have %d", len(vendor.Served()), input, all)
			}
		})
	}
}

// githubTags select the operations of GitHub's document whose tools the agent has. A connection has at most 500.
var githubTags = []string{"repos", "issues", "pulls", "activity", "gists", "users", "search", "reactions", "git", "checks"}

// realDocument returns a public document: github or stripe. The test is skipped without the folder that nightly checks fill.
func realDocument(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("STOA_TEST_DOCUMENTS")
	if dir == "" {
		t.Skip("STOA_TEST_DOCUMENTS is not set; .ci/check nightly fetches the documents")
	}
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if name != "github" {
		return string(text)
	}
	reduced, err := httptool.Reduce(t.Context(), string(text), httptool.Filter{Tags: githubTags})
	if err != nil {
		t.Fatal(err)
	}
	return reduced
}

// tasksOf reads lines of a document, operations separated by |, and a task.
func tasksOf(t *testing.T, path string) (list [][3]string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if parts := strings.Split(strings.TrimSpace(line), "\t"); len(parts) == 3 {
			list = append(list, [3]string(parts))
		}
	}
	return list
}

// TestTheRightToolIsFound has an agent with the operations of two public documents, and finds the tools for tasks in people's words. Of these
// 100 tasks, 95 find the right tool among the first three. The weights of the ranking were chosen with them. Of 40 other tasks, in words that
// the documents avoid ("throw out Bob's outdated review"), which nobody had read before the ranking was final, 26 did.
func TestTheRightToolIsFound(t *testing.T) {
	t.Parallel()
	github, stripe := realDocument(t, "github"), realDocument(t, "stripe")
	tasks := tasksOf(t, "testdata/toolsearch.tsv")
	var results told
	h := sessiontest.Build(t, storetest.New(t), callers(&results, func(string) (calls []stoa.ToolCall) {
		for i, task := range tasks {
			query, _ := json.Marshal(map[string]string{"query": task[2]})
			calls = append(calls, stoa.ToolCall{ID: fmt.Sprint("c", i), Name: stoa.FindTool, Arguments: string(query)})
		}
		return calls
	}))
	first, names := catalogOf(h, "github", elsewhere, github)
	second, more := catalogOf(h, "stripe", elsewhere, stripe)
	a := h.Agent(searching(first, names), searching(second, more))
	h.Write(func(ctx context.Context, tx *store.Tx) error {
		return tool.CheckTools(ctx, tx, a.AccountID, a.SpaceID, a.AgentSettings)
	})
	r := h.Service()
	sessiontest.Run(t, r)
	h.Until(r, h.Begin(r, a, "go"), stoa.SessionCompleted)
	right := 0
	for i, result := range results.of("go") {
		task := tasks[i]
		got, _ := found(t, result.Content)
		got = got[:min(len(got), 3)]
		if slices.ContainsFunc(strings.Split(task[1], "|"), func(operation string) bool {
			return slices.ContainsFunc(got, func(name string) bool {
				return strings.TrimPrefix(name, task[0]+"__") == strings.ReplaceAll(operation, "/", "_")
			})
		}) {
			right++
			continue
		}
		t.Logf("%q finds %q", task[2], got)
	}
	t.Logf("%d of %d tasks find the right one of %d tools", right, len(tasks), len(names)+len(more))
	if len(tasks) != 100 || 10*right < 9*len(tasks) {
		t.Errorf("%d of %d tasks", right, len(tasks))
	}
}
