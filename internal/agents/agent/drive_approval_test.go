package agent_test

import (
	"strings"
	"testing"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// asksToWrite lets an agent write to its drive after a person has approved each call.
func asksToWrite(a *stoa.Agent) {
	a.DriveAccess, a.VisitorDrive = stoa.DriveReadWrite, stoa.VisitorDriveWrite
	a.Tools = []stoa.AgentTool{{Type: stoa.ToolDrive, Name: stoa.DriveWrite, Approval: stoa.ApprovalAlways}}
}

func write(id, path, content string) stoa.ToolCall {
	return stoa.ToolCall{ID: id, Name: "drive_write", Arguments: `{"path":"` + path + `","content":"` + content + `"}`}
}

// fileOf returns the text of a file of an agent's drive; empty if the file does not exist.
func fileOf(h *sessiontest.Fixture, a stoa.Agent, path string) string {
	h.T.Helper()
	p, err := drive.ParsePath(path)
	if err != nil {
		h.T.Fatal(err)
	}
	lines, err := h.Drives.Read(h.T.Context(), drive.Owner{AccountID: a.AccountID, AgentID: a.ID}, p, 1, 9)
	if err != nil && stoa.CodeOf(err) != stoa.CodeFileNotFound {
		h.T.Fatal(err)
	}
	return lines.Text
}

func TestWritesWaitForTheirApproval(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results,
		write("1", "a.md", "one"), write("2", "b.md", "two"), stoa.ToolCall{ID: "3", Name: "drive_write", Arguments: `{"path":"c.md"}`},
		stoa.ToolCall{ID: "4", Name: "drive_list", Arguments: `{}`}))
	r := h.Service()
	sessiontest.Run(t, r)
	for name, who := range map[string]func(*session.StartRequest){"the account's": func(*session.StartRequest) {}, "a visitor's": visitor} {
		a := h.Agent(asksToWrite)
		s := h.Until(r, h.Begin(r, a, "go", who), stoa.SessionWaiting)
		in := s.Pending
		if in.Kind != stoa.InputToolApproval || len(in.Calls) != 2 || in.Calls[0].Type != stoa.ToolDrive || in.Calls[0].Tool != "drive_write" {
			t.Fatalf("%s waits for %+v", name, in)
		}
		if text := fileOf(h, a, "a.md"); text != "" {
			t.Errorf("%s: before the decision the file has %q", name, text)
		}
		if _, err := decide(h, r, s, decision(in.Calls[0], stoa.DecisionApprove), decision(in.Calls[1], stoa.DecisionReject)); err != nil {
			t.Fatal(err)
		}
		done := h.Until(r, s, stoa.SessionCompleted)
		if one, two := fileOf(h, a, "a.md"), fileOf(h, a, "b.md"); one != "one" || two != "" {
			t.Errorf("%s: the files have %q and %q", name, one, two)
		}
		if len(results) != 4 || results[0].IsError || !strings.Contains(results[1].Content, "Not approved") || !results[2].IsError || !strings.Contains(results[3].Content, "a.md") {
			t.Errorf("%s: the model received %+v", name, results)
		}
		calls := callsOf(h, r, s)
		if len(calls) != 3 || calls[0].Outcome != stoa.OutcomeOK || calls[0].DecidedBy != "key_a" || calls[1].Outcome != stoa.OutcomeDenied || calls[2].Outcome != stoa.OutcomeError {
			t.Errorf("%s: the calls are %+v", name, calls)
		}
		if n := strings.Count(h.Log(r, s), "drive.written"); n != 1 {
			t.Errorf("%s: %d writes are in the log", name, n)
		}
		h.CheckBooks(r, done)
	}
}

// A session that cannot wait does not offer the tool.
func TestWritesToApproveAreNotForOnce(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, write("1", "a.md", "one")))
	a, r := h.Agent(asksToWrite), h.Service()
	h.File(a, "read.md", "some text")
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go", func(req *session.StartRequest) { req.Mode = stoa.ModeOnce }), stoa.SessionCompleted)
	if len(s.Withheld) != 1 || s.Withheld[0] != (stoa.Withheld{Tool: "drive_write", Reason: stoa.WithheldOnce}) {
		t.Errorf("withheld are %+v", s.Withheld)
	}
	if len(results) != 1 || !results[0].IsError || fileOf(h, a, "a.md") != "" {
		t.Errorf("the model received %+v", results)
	}
}

// More calls than a step may plan are refused, not carried out without an approval.
func TestNoWriteEscapesItsApproval(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	var calls []stoa.ToolCall
	for i := range session.CallsPerStep + 1 {
		n := string(rune('a' + i))
		calls = append(calls, write(n, n+".md", "text"))
	}
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, calls...))
	a, r := h.Agent(asksToWrite), h.Service()
	sessiontest.Run(t, r)
	s := h.Until(r, h.Begin(r, a, "go"), stoa.SessionWaiting)
	if _, err := r.Answer(t.Context(), approver(h, "a"), a.ID, s.ID, session.AnswerRequest{InputID: s.Pending.ID, Decision: "reject"}); err != nil {
		t.Fatal(err)
	}
	h.Until(r, s, stoa.SessionCompleted)
	if last := results[len(results)-1]; len(results) != len(calls) || !last.IsError || !strings.Contains(last.Content, "At most 16") {
		t.Errorf("the model received %+v", last)
	}
	for _, c := range calls {
		if text := fileOf(h, a, c.ID+".md"); text != "" {
			t.Errorf("%s.md has %q", c.ID, text)
		}
	}
}

// Names that begin with a dot configure programs where a drive is copied to, so an agent
// cannot write them, and no person has to decide about them.
func TestAgentsWriteNoNamesWithADot(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	h := sessiontest.Build(t, storetest.New(t), toolbox(&results, write("1", ".git/config", "x"), write("2", "a/.envrc", "x"), write("3", "a.b/c", "x")))
	r := h.Service()
	sessiontest.Run(t, r)
	for _, change := range []func(*stoa.Agent){asksToWrite, func(a *stoa.Agent) { a.DriveAccess = stoa.DriveReadWrite }} {
		a := h.Agent(change)
		s := h.Begin(r, a, "go")
		if len(a.Tools) > 0 {
			if s = h.Until(r, s, stoa.SessionWaiting); len(s.Pending.Calls) != 1 || s.Pending.Calls[0].CallID != "3" {
				t.Fatalf("it waits for %+v", s.Pending)
			}
			if _, err := decide(h, r, s, decision(s.Pending.Calls[0], stoa.DecisionApprove)); err != nil {
				t.Fatal(err)
			}
		}
		h.Until(r, s, stoa.SessionCompleted)
		for i, res := range results {
			if dotted := i < 2; res.IsError != dotted || dotted && !strings.Contains(res.Content, "begin with a dot") {
				t.Errorf("call %d: %+v", i+1, res)
			}
		}
		if fileOf(h, a, ".git/config") != "" || fileOf(h, a, "a/.envrc") != "" || fileOf(h, a, "a.b/c") != "x" {
			t.Error("the drive has other files")
		}
	}
}
