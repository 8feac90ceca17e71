package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stoa/internal/agents/mcp"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
)

// asTool are the settings of an agent that is a tool of MCP clients.
var asTool = map[string]any{"description": "Answers questions.", "expose": []string{"mcp"}}

// withKey adds a key to each request.
type withKey string

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// mcpClient connects the official client to an address of the service, in the newest revision or in an earlier one.
func mcpClient(t *testing.T, address, key, revision string, options *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, options)
	transport := &sdk.StreamableClientTransport{Endpoint: address, MaxRetries: -1, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: withKey(key)}}
	s, err := client.Connect(t.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatalf("connect with %s: %v", revision, err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// callTool calls a tool and returns its structured result, which the texts repeat.
func callTool(t *testing.T, s *sdk.ClientSession, name string, arguments map[string]any) (a mcp.Answer, r *sdk.CallToolResult) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("call %s: %v", name, err)
	}
	text, _ := json.Marshal(r.StructuredContent)
	if r.StructuredContent != nil {
		if err := json.Unmarshal(text, &a); err != nil {
			t.Fatalf("the result is %s: %v", text, err)
		}
		if said := saidBy(r); !strings.Contains(said, a.Reply) || !strings.Contains(said, "sessionId: "+a.SessionID) || !strings.Contains(said, "status: "+a.Status) {
			t.Errorf("the text %q does not say what %s does", said, text)
		}
	}
	return a, r
}

func saidBy(r *sdk.CallToolResult) string {
	var texts []string
	for _, c := range r.Content {
		if c, ok := c.(*sdk.TextContent); ok {
			texts = append(texts, c.Text)
		}
	}
	return strings.Join(texts, "\n")
}

var revisions = []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}

func TestAnAgentIsATool(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), map[string]any{"name": "Help desk", "description": "Answers questions.", "expose": []string{"mcp"}})
	a.file("docs/prices.md", "# Prices\n\nA ticket to the stoa costs seven drachmas.\n")
	newAuthor(t, h, a.Client, exposed) // not a tool
	id := a.agent[strings.LastIndex(a.agent, "/")+1:]
	for _, revision := range revisions {
		for _, address := range []string{h.URL + "/api/v1/mcp", h.URL + "/api/v1/mcp/agents/" + id} {
			s := mcpClient(t, address, h.Key, revision, nil)
			list, err := s.ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "Help_desk" || !list.Tools[0].Annotations.ReadOnlyHint {
				t.Fatalf("%s: the tools are %+v, %v", revision, list, err)
			}
			got, _ := callTool(t, s, "Help_desk", map[string]any{"message": "What does a ticket cost?"})
			if !strings.Contains(got.Reply, "seven drachmas") || got.Status != "completed" || !slices.Equal(got.Sources, []string{"docs/prices.md"}) {
				t.Errorf("%s: the answer is %+v", revision, got)
			}
			again, _ := callTool(t, s, "Help_desk", map[string]any{"sessionId": got.SessionID})
			if again.Reply != got.Reply || again.Status != got.Status {
				t.Errorf("%s: the same answer, again: %+v", revision, again)
			}
			next, _ := callTool(t, s, "Help_desk", map[string]any{"sessionId": got.SessionID, "message": "say: next"})
			if next.Reply != "next" || next.SessionID != got.SessionID {
				t.Errorf("%s: the next answer is %+v", revision, next)
			}
		}
	}
	var sessions contract.SessionList
	a.Want(200, "GET", a.agent+"/sessions?trigger=mcp&limit=100", nil).JSON(&sessions)
	if len(sessions.Data) != 2*len(revisions) {
		t.Errorf("%d sessions, want %d", len(sessions.Data), 2*len(revisions))
	}
}

// TestAToolAsksItsUser lets an agent ask. A client that shows forms answers in the same call; others get the question.
func TestAToolAsksItsUser(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	newAuthor(t, h, h.Client(t), asTool)
	for _, revision := range revisions {
		asked := ""
		s := mcpClient(t, h.URL+"/api/v1/mcp", h.Key, revision, &sdk.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				asked = r.Params.Message
				return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "Friday"}}, nil
			},
		})
		got, _ := callTool(t, s, "Helper", map[string]any{"message": "ask: Which day? | Monday | Friday"})
		if revision == revisions[0] {
			if !strings.HasPrefix(asked, "Which day?") || got.Status != "completed" || !strings.Contains(got.Reply, "Friday") {
				t.Errorf("%s: asked %q, and answered %+v", revision, asked, got)
			}
			continue
		}
		if asked != "" || got.Status != "waiting" || !strings.HasPrefix(got.Reply, "Which day?") {
			t.Errorf("%s: asked %q, and answered %+v", revision, asked, got)
		}
		got, _ = callTool(t, s, "Helper", map[string]any{"message": "Friday", "sessionId": got.SessionID})
		if got.Status != "completed" || !strings.Contains(got.Reply, "Friday") {
			t.Errorf("%s: after the answer: %+v", revision, got)
		}
	}
}

// TestAToolWorksLongerThanItsClientWaits returns before the end, and the next call returns the answer, once.
func TestAToolWorksLongerThanItsClientWaits(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Server: func(s *api.Server) { s.Sessions.ToolWait = 50 * time.Millisecond }})
	a := newAuthor(t, h, h.Client(t), asTool)
	s := mcpClient(t, h.URL+"/api/v1/mcp", h.Key, revisions[0], nil)
	got, _ := callTool(t, s, "Helper", map[string]any{"message": "wait: 1s\nsay: at last"})
	if got.Status != "working" || got.SessionID == "" {
		t.Fatalf("the first answer is %+v", got)
	}
	for got.Status == "working" {
		got, _ = callTool(t, s, "Helper", map[string]any{"sessionId": got.SessionID})
	}
	if got.Reply != "at last" || got.Status != "completed" {
		t.Errorf("the last answer is %+v", got)
	}
	var sessions contract.SessionList
	a.Want(200, "GET", a.agent+"/sessions", nil).JSON(&sessions)
	if len(sessions.Data) != 1 || sessions.Data[0].Turn.Number != 1 {
		t.Errorf("the sessions are %+v", sessions.Data)
	}
}

func TestACancelledCallOfAToolCancelsItsTurn(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), asTool)
	s := mcpClient(t, h.URL+"/api/v1/mcp", h.Key, revisions[0], nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "Helper", Arguments: map[string]any{"message": "wait: 10m"}})
		ended <- err
	}()
	var sessions contract.SessionList
	for len(sessions.Data) == 0 || sessions.Data[0].Status != "running" {
		a.Want(200, "GET", a.agent+"/sessions", nil).JSON(&sessions)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call that was cancelled succeeded")
	}
	a.until(t, a.agent+"/sessions/"+sessions.Data[0].ID, "cancelled")
}

func TestCallsOfToolsAreChecked(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	a := newAuthor(t, h, h.Client(t), asTool)
	s := mcpClient(t, h.URL+"/api/v1/mcp", h.Key, revisions[0], nil)
	for want, arguments := range map[string]map[string]any{
		"Send a \"message\"":              {},
		"The arguments must be an object": {"message": 7},
		"no such session":                 {"message": "x", "sessionId": "ses_none"},
	} {
		if _, r := callTool(t, s, "Helper", arguments); !r.IsError || !strings.Contains(saidBy(r), want) {
			t.Errorf("%v: %t %q, want %q", arguments, r.IsError, saidBy(r), want)
		}
	}
	if got, r := callTool(t, s, "Helper", map[string]any{"message": "fail: 400"}); !r.IsError || got.Status != "failed" || got.Reply == "" {
		t.Errorf("a turn that failed: %+v", got)
	}
	call := map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": map[string]any{}}
	for _, path := range []string{"/api/v1/mcp", "/api/v1/mcp/agents/" + a.agent[strings.LastIndex(a.agent, "/")+1:]} {
		a.Want(200, "POST", path, call)
		a.Want(202, "POST", path, map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	}
	a.WantError(stoa.CodeAgentNotFound, "POST", "/api/v1/mcp/agents/agt_none", call)
	h.ClientWith(t, foreignKey(t, h)).WantError(stoa.CodeAgentNotFound, "POST", "/api/v1/mcp/agents/"+a.agent[strings.LastIndex(a.agent, "/")+1:], call)
	other, _ := h.NewKeyLike(stoa.Key{AccountID: h.Account.ID, Scopes: []string{"sessions:write"}, Models: []string{"beta*"}})
	if list, err := mcpClient(t, h.URL+"/api/v1/mcp", other, revisions[0], nil).ListTools(t.Context(), nil); err != nil || len(list.Tools) != 0 {
		t.Errorf("the tools of a key for other models are %+v, %v", list, err)
	}
	none, _ := h.NewKey(h.Account.ID, "responses")
	h.ClientWith(t, none).WantError(stoa.CodeScope, "POST", "/api/v1/mcp", call)
}
