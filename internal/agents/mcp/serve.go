package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"stoa/internal/base/jsonx"
)

// An AgentTool is an agent that [Serve] offers as a tool.
type AgentTool struct {
	Name        string // letters, digits, _ and -; at most 64
	Title       string
	Description string
	ReadOnly    bool // the agent has no tools that change something
	// Ask sends a message to the agent and waits until it stops, but at most for the wait of the caller. An error is that of the
	// request, with a message for the caller.
	Ask func(context.Context, Question) (Answer, error)
}

// A Question is a call of the tool.
type Question struct {
	Message   string // empty means to wait for the answer to an earlier one
	SessionID string // empty means a new session
}

// An Answer is the result of a call.
type Answer struct {
	Reply     string   `json:"reply"`
	SessionID string   `json:"sessionId"`
	Status    string   `json:"status"` // completed, working, waiting, failed or cancelled
	Sources   []string `json:"sources"`
	// ReplyJSON is the value of the reply of an agent with a reply schema.
	ReplyJSON jsonx.Value `json:"replyJson,omitempty"`

	Choices []string `json:"-"` // of the question that the agent asks
	Asks    bool     `json:"-"` // the reply is a question that the caller's user can answer
}

const (
	// progressEvery is the interval between two notifications of progress.
	progressEvery = 10 * time.Second
	// answerKey is the name of the answer in a form for the user.
	answerKey = "answer"
)

var (
	questionSchema = json.RawMessage(`{"type":"object","properties":{` +
		`"message":{"type":"string","description":"The message to the agent. Leave it out to wait for the answer to an earlier message."},` +
		`"sessionId":{"type":"string","description":"The session to continue, from an earlier result. Leave it out to begin a new one."}},` +
		`"additionalProperties":false}`) // without anyOf, because vendors of models refuse it in the schema of a tool
	answerSchema = json.RawMessage(`{"type":"object","properties":{"reply":{"type":"string"},"sessionId":{"type":"string"},` +
		`"status":{"type":"string","enum":["completed","working","waiting","failed","cancelled"]},"sources":{"type":"array","items":{"type":"string"}},` +
		`"replyJson":{"type":"object","description":"The value of the reply, if the agent replies by a schema."}},` +
		`"required":["reply","sessionId","status","sources"]}`)
)

// Serve answers a request of the Model Context Protocol with the tools, and with skills that clients can read. It has no sessions: each request is complete, in the
// revision 2026-07-28 and in the earlier ones that the SDK speaks. trusted means that the Host header is
// known to be right; otherwise requests from this machine must name it.
//
// The requestState of a question to the client's user is the id of its session in plain text, because it permits nothing
// that the caller's key does not.
func Serve(w http.ResponseWriter, r *http.Request, version string, trusted bool, tools []AgentTool, skills []SkillsOf) error {
	capabilities := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}
	if len(skills) > 0 {
		capabilities.Resources = &sdk.ResourceCapabilities{}
		capabilities.AddExtension(skillsExtension, map[string]any{})
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "stoa", Title: "Stoa", Version: version}, &sdk.ServerOptions{
		Instructions: "Each tool is an agent that keeps a session. Send sessionId with the next message to continue a conversation. If status is \"working\", call again with the sessionId and without a message.",
		Capabilities: capabilities,
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" }, // because the tools depend on the key
	})
	server.AddReceivingMiddleware(answerable)
	for _, t := range tools {
		server.AddTool(&sdk.Tool{
			Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: questionSchema, OutputSchema: answerSchema,
			Annotations: &sdk.ToolAnnotations{Title: t.Title, ReadOnlyHint: t.ReadOnly, OpenWorldHint: new(!t.ReadOnly)},
		}, t.call)
	}
	if len(skills) > 0 {
		if err := addSkills(server, skills); err != nil {
			return err
		}
	}
	sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, DisableLocalhostProtection: trusted,
	}).ServeHTTP(w, r)
	return nil
}

// answerable drops data of an error that is not JSON, because the SDK closes the connection instead of answering: it quotes a URI that
// it does not know as a string of Go.
func answerable(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		out, err := next(ctx, method, req)
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && !json.Valid(wire.Data) {
			wire.Data = nil
		}
		return out, err
	}
}

func (t AgentTool) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	q, refused := questionOf(req.Params)
	if refused != "" {
		return refusal(refused), nil
	}
	if token := req.Params.GetProgressToken(); token != nil {
		working, stop := context.WithCancel(ctx)
		defer stop()
		go report(working, req.Session, token)
	}
	a, err := t.Ask(ctx, q)
	if err != nil {
		return refusal(err.Error()), nil
	}
	if a.Asks && elicits(req.Session) {
		return &sdk.CallToolResult{
			RequestState:  a.SessionID,
			InputRequests: sdk.InputRequestMap{answerKey: &sdk.ElicitParams{Mode: "form", Message: a.Reply, RequestedSchema: formOf(a.Choices)}},
		}, nil
	}
	return a.result(), nil
}

func refusal(text string) *sdk.CallToolResult {
	r := said(text)
	r.IsError = true
	return r
}

// questionOf reads the arguments of a call, or the answer of the client's user. refused says what is wrong with them; it is
// empty if they are valid.
func questionOf(params *sdk.CallToolParamsRaw) (q Question, refused string) {
	if session := params.RequestState; session != "" {
		q.SessionID, q.Message = session, "I do not want to answer."
		if r, ok := params.InputResponses[answerKey].(*sdk.ElicitResult); ok && r.Action == "accept" {
			if text, ok := r.Content[answerKey].(string); ok && text != "" {
				q.Message = text
			}
		}
		return q, ""
	}
	var in struct {
		Message   string `json:"message"`
		SessionID string `json:"sessionId"`
	}
	if args := params.Arguments; len(args) > 0 && jsonx.Unmarshal(args, &in) != nil {
		return q, "The arguments must be an object with the texts \"message\" and \"sessionId\"."
	}
	if in.Message == "" && in.SessionID == "" {
		return q, "Send a \"message\", or the \"sessionId\" of an earlier one."
	}
	q.Message, q.SessionID = in.Message, in.SessionID
	return q, ""
}

// report notifies the client of progress until ctx ends.
func report(ctx context.Context, session *sdk.ServerSession, token any) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for n := 1.0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: n, Message: "The agent is working."}) // ignored, because the result follows anyway
		}
	}
}

// elicits reports whether the client shows forms to its user between two requests.
func elicits(session *sdk.ServerSession) bool {
	p := session.InitializeParams()
	return p != nil && p.ProtocolVersion >= "2026-07-28" && p.Capabilities != nil && p.Capabilities.Elicitation != nil
}

func formOf(choices []string) map[string]any {
	field := map[string]any{"type": "string", "title": "Answer"}
	if len(choices) > 0 {
		field["enum"] = choices
	}
	return map[string]any{"type": "object", "properties": map[string]any{answerKey: field}, "required": []string{answerKey}}
}

// result returns the answer as a text and as an object, which say the same.
func (a Answer) result() *sdk.CallToolResult {
	if a.Sources == nil {
		a.Sources = []string{}
	}
	notes := "sessionId: " + a.SessionID + "\nstatus: " + a.Status
	if len(a.Sources) > 0 {
		notes += "\nsources: " + strings.Join(a.Sources, "; ")
	}
	return &sdk.CallToolResult{
		Content:           []sdk.Content{&sdk.TextContent{Text: a.Reply}, &sdk.TextContent{Text: notes}},
		StructuredContent: a, IsError: a.Status == "failed" || a.Status == "cancelled",
	}
}
