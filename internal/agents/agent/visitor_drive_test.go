package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/session"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/sessiontest"
	"stoa/internal/testkit/storetest"
)

// The agent's settings determine the drive access of a visitor's session; other access is
// neither offered nor granted if the model tries it anyway.
func TestVisitorsUseTheDriveAsTheAgentSays(t *testing.T) {
	t.Parallel()
	var first stoa.Call
	var results []stoa.ToolResult
	calls := []stoa.ToolCall{
		{ID: "a", Name: "drive_read", Arguments: `{"path":"prices.md"}`},
		{ID: "b", Name: "drive_search", Arguments: `{"query":"teapot"}`},
		{ID: "c", Name: "drive_list", Arguments: `{}`},
		{ID: "d", Name: "drive_write", Arguments: `{"path":"prices.md","content":"A teapot costs 1."}`},
	}
	use := toolbox(&results, calls...)
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(ctx context.Context, m stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		if len(sessiontest.Results(call.Messages[len(call.Messages)-1])) == 0 {
			first = call
		}
		use(ctx, m, call, yield)
	}))
	r := h.Service()
	sessiontest.Run(t, r)
	own := func(*session.StartRequest) {}
	for _, tt := range []struct {
		name          string
		access        stoa.DriveAccess
		visitors      stoa.VisitorDrive
		who           func(*session.StartRequest)
		reads, writes bool
	}{
		{"not said", stoa.DriveReadWrite, "", visitor, true, false},
		{"read", stoa.DriveReadWrite, stoa.VisitorDriveRead, visitor, true, false},
		{"write", stoa.DriveReadWrite, stoa.VisitorDriveWrite, visitor, true, true},
		{"none", stoa.DriveReadWrite, stoa.VisitorDriveNone, visitor, false, false},
		{"none of a reader", stoa.DriveReadOnly, stoa.VisitorDriveNone, visitor, false, false},
		{"write of a reader", stoa.DriveReadOnly, stoa.VisitorDriveWrite, visitor, true, false},
		{"own", stoa.DriveReadWrite, stoa.VisitorDriveNone, own, true, true},
	} {
		a := h.Agent(func(a *stoa.Agent) { a.DriveAccess, a.VisitorDrive = tt.access, tt.visitors })
		h.File(a, "prices.md", "A teapot costs 40.")
		s := h.Until(r, h.Begin(r, a, "go", tt.who), stoa.SessionCompleted)
		var offered []string
		for _, tool := range first.Tools {
			if strings.HasPrefix(tool.Name, "drive_") {
				offered = append(offered, tool.Name)
			}
		}
		want := []string(nil)
		if tt.reads {
			want = []string{"drive_list", "drive_read", "drive_search"}
		}
		if tt.writes {
			want = append(want, "drive_write")
		}
		if diff := cmp.Diff(want, offered); diff != "" {
			t.Errorf("%s: the tools (-want +got):\n%s", tt.name, diff)
		}
		told := first.Instructions
		for _, m := range first.Messages {
			told += m.Text()
		}
		if strings.Contains(told, "teapot") != tt.reads || strings.Contains(told, "your drive") != tt.reads {
			t.Errorf("%s: the model is told %q", tt.name, told)
		}
		for i, res := range results {
			if allowed := tt.reads && i < 3 || tt.writes && i == 3; res.IsError == allowed || res.IsError && !strings.Contains(res.Content, "no tool of that name") {
				t.Errorf("%s: %s: %+v", tt.name, calls[i].Name, res)
			}
		}
		if got := strings.Contains(h.Log(r, s), "drive.written"); got != tt.writes {
			t.Errorf("%s: written: %v", tt.name, got)
		}
	}
}

// A session that an embed shows since its turn began has the access of visitors: the call is
// refused although the tool was offered.
func TestAShownSessionLosesTheDriveMidway(t *testing.T) {
	t.Parallel()
	var results []stoa.ToolResult
	var last stoa.Call
	var show func()
	use := toolbox(&results, stoa.ToolCall{ID: "a", Name: "drive_write", Arguments: `{"path":"prices.md","content":"A teapot costs 1."}`})
	h := sessiontest.Build(t, storetest.New(t), sessiontest.Script(func(ctx context.Context, m stoa.Model, call stoa.Call, yield func(*stoa.Event, error) bool) {
		if last = call; len(sessiontest.Results(call.Messages[len(call.Messages)-1])) == 0 {
			show()
		}
		use(ctx, m, call, yield)
	}))
	r := h.Service()
	sessiontest.Run(t, r)
	for _, visitors := range []stoa.VisitorDrive{stoa.VisitorDriveRead, stoa.VisitorDriveNone} {
		a := h.Agent(func(a *stoa.Agent) { a.DriveAccess, a.VisitorDrive = stoa.DriveReadWrite, visitors })
		h.File(a, "prices.md", "A teapot costs 40.")
		id := stoa.NewID("ses")
		show = func() {
			h.Write(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Setup().InsertEmbed(ctx, stoa.Embed{ID: stoa.NewID("emb"), AccountID: a.AccountID, AgentID: a.ID, Kind: stoa.EmbedSession, ChatID: id}, "", "")
				return err
			})
		}
		h.Until(r, h.Begin(r, a, "go", func(req *session.StartRequest) { req.ID = id }), stoa.SessionCompleted)
		if len(results) != 1 || !results[0].IsError {
			t.Errorf("%s: %+v", visitors, results)
		}
		told := last.Instructions
		for _, m := range last.Messages {
			told += m.Text()
		}
		if strings.Contains(told, "teapot") != (visitors == stoa.VisitorDriveRead) {
			t.Errorf("%s: the model is told %q", visitors, told)
		}
		p, _ := drive.ParsePath("prices.md")
		if f, err := h.Drives.Read(t.Context(), drive.Owner{AccountID: a.AccountID, AgentID: a.ID}, p, 1, 1); err != nil || f.Text != "A teapot costs 40." {
			t.Errorf("%s: the file has %q, %v", visitors, f.Text, err)
		}
	}
}
