package api

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"stoa/internal/agents/drive"
	"stoa/internal/agents/mcp"
	"stoa/internal/agents/session"
	"stoa/internal/agents/skill"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// toolWait is the default of [Sessions.ToolWait].
const toolWait = 50 * time.Second

// serveMCP serves POST /api/v1/mcp: the agents that the key can use are tools.
func (s *Sessions) serveMCP(w http.ResponseWriter, in *rest.Request[rest.None, rest.None]) error {
	return s.answerMCP(w, in.HTTP, in.Caller, "")
}

// serveAgentMCP serves POST /api/v1/mcp/agents/{id}, with one agent.
func (s *Sessions) serveAgentMCP(w http.ResponseWriter, in *rest.Request[byID, rest.None]) error {
	return s.answerMCP(w, in.HTTP, in.Caller, in.Params.ID)
}

func (s *Sessions) answerMCP(w http.ResponseWriter, r *http.Request, c stoa.Caller, agentID string) error {
	body, err := s.ReadBody(w, r)
	if err != nil {
		return err
	}
	var message map[string]jsonx.Value
	switch err := jsonx.Unmarshal(body, &message); {
	case err != nil: // also for a batch of the revision 2025-03-26, whose calls no limit of requests would count
		return stoa.Errorf(stoa.CodeInvalidJSON, "The body must be one message of JSON-RPC.")
	case len(message) > maxMessageMembers:
		return stoa.Errorf(stoa.CodeInvalidValue, "A message can have at most %d members.", maxMessageMembers)
	}
	list, err := store.Read(r.Context(), s.Store, func(tx *store.Tx) ([]stoa.Agent, error) {
		return tx.Setup().ExposedAgents(r.Context(), c.Account.ID, stoa.ExposeMCP, agentID)
	})
	if err != nil {
		return err
	}
	var tools []mcp.AgentTool
	var skills []mcp.SkillsOf
	seen := map[string]bool{}
	for _, a := range list {
		if agentID != "" && a.ID != agentID || !allowsAgent(c.Key, a) {
			continue
		}
		name := toolName(a)
		if seen[name] {
			name = toolName(stoa.Agent{Name: a.ID})
		}
		seen[name] = true
		if used := a.CallSettings().Skills; len(used) > 0 && slices.Contains(a.Expose, stoa.ExposeSkills) {
			who := drive.Owner{AccountID: a.AccountID, AgentID: a.ID}
			skills = append(skills, mcp.SkillsOf{Agent: name, List: func(ctx context.Context) ([]mcp.AgentSkill, error) { return s.servedSkills(ctx, who, used) }})
		}
		tools = append(tools, mcp.AgentTool{
			Name: name, Title: a.Name, Description: a.Description, ReadOnly: len(a.Tools) == 0 && a.DriveAccess != stoa.DriveReadWrite,
			Ask: func(ctx context.Context, q mcp.Question) (mcp.Answer, error) { return s.ask(ctx, c, a.ID, q) },
		})
	}
	if agentID != "" && len(tools) == 0 {
		return stoa.Errorf(stoa.CodeAgentNotFound, "There is no such agent, or it is not offered as a tool. An agent is offered with \"expose\": [\"mcp\"].").At("id")
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if r.Header.Get("Accept") == "" {
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	public, err := url.Parse(s.PublicURL)
	plain := &plainErrors{ResponseWriter: w}
	if err := mcp.Serve(plain, r, s.version, err == nil && public.Host != "" && public.Host == r.Host, tools, skills); err != nil {
		return err
	}
	return plain.refused()
}

// servedSkills returns the skills of an agent that its new sessions get, as they were reviewed.
func (s *Sessions) servedSkills(ctx context.Context, who drive.Owner, used []stoa.Skill) (list []mcp.AgentSkill, err error) {
	active, err := skill.Active(ctx, s.drive.Drives, who, used)
	if err != nil {
		return nil, err
	}
	read := func(ctx context.Context, f stoa.SkillFile) ([]byte, error) {
		content, ok, err := s.drive.Drives.Stored(ctx, who, f.SHA256, skill.MaxBytes)
		if err == nil && !ok {
			err = errors.New("the file was changed at this moment")
		}
		return content, err
	}
	for _, one := range active {
		for _, f := range one.Files {
			if f.Path == skill.Main {
				text, err := read(ctx, f)
				if err != nil {
					return nil, err
				}
				list = append(list, mcp.AgentSkill{Name: one.Name, Front: skill.Read(one.Name, text).Front, Files: one.Files, Read: read})
			}
		}
	}
	return list, nil
}

const maxMessageMembers = 100

var notInToolName = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// toolName returns a name that all clients accept.
func toolName(a stoa.Agent) string {
	name := strings.Trim(notInToolName.ReplaceAllString(a.Name, "_"), "_")
	if name == "" {
		name = a.ID
	}
	return name[:min(len(name), stoa.MaxName)]
}

// plainErrors keeps the plain texts with which the SDK refuses a request, for the envelope of errors.
type plainErrors struct {
	http.ResponseWriter
	code stoa.Code // empty if the request is not refused so
	text []byte
}

func (p *plainErrors) WriteHeader(status int) {
	if status < 400 || !strings.HasPrefix(p.Header().Get("Content-Type"), "text/plain") {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	p.code = cmp.Or(map[int]stoa.Code{http.StatusForbidden: stoa.CodeOriginNotAllowed, http.StatusUnsupportedMediaType: stoa.CodeMediaType, http.StatusRequestEntityTooLarge: stoa.CodeTooLarge}[status], stoa.CodeInvalidValue)
	p.Header().Del("Content-Type")
}

func (p *plainErrors) Write(b []byte) (int, error) {
	if p.code == "" {
		return p.ResponseWriter.Write(b)
	}
	p.text = append(p.text, b...)
	return len(b), nil
}

func (p *plainErrors) refused() error {
	if p.code == "" {
		return nil
	}
	return stoa.Errorf(p.code, "%s.", strings.TrimSpace(string(p.text)))
}

// Unwrap is for [http.ResponseController].
func (p *plainErrors) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// ask sends a message of an MCP client to an agent and waits for the answer.
func (s *Sessions) ask(ctx context.Context, c stoa.Caller, agentID string, q mcp.Question) (mcp.Answer, error) {
	leave, err := s.enterStream(c.Key.Root(), s.Limits.EventStreamsPerKey, c.Account.ID, s.Limits.EventStreamsPerAccount)
	if err != nil {
		return mcp.Answer{}, toolError(err)
	}
	defer leave()
	var x *session.Exchange
	if q.Message == "" {
		x, err = s.Sessions.LastExchange(ctx, c.Account.ID, agentID, q.SessionID)
	} else {
		req := session.StartRequest{AgentID: agentID, Message: q.Message, WithholdTools: true, Trigger: stoa.Trigger{Type: stoa.ExposeMCP}}
		x, err = s.beginExchange(ctx, c, req, q.SessionID, func(*store.Tx, stoa.Session) error { return nil })
	}
	if err != nil {
		return mcp.Answer{}, toolError(err)
	}
	waiting, done := s.UntilDrain(ctx)
	defer done()
	waiting, cancel := context.WithTimeout(waiting, cmp.Or(s.ToolWait, toolWait))
	defer cancel()
	for _, err := range s.Sessions.Follow(waiting, x) {
		if err != nil && waiting.Err() == nil {
			return mcp.Answer{}, toolError(err)
		}
	}
	if ctx.Err() != nil && !x.Ended() { // the caller has cancelled the request
		_, err := s.Sessions.Cancel(context.WithoutCancel(ctx), c, agentID, x.SessionID)
		return mcp.Answer{}, err
	}
	a := s.answer(x)
	if x.Status == stoa.SessionCompleted {
		row, err := s.Sessions.Find(ctx, x.AccountID, x.SessionID)
		if err != nil {
			return a, toolError(err)
		}
		if row.ReplySchema != "" {
			a.ReplyJSON = jsonx.ObjectIn(a.Reply) // not that of the row, which may have answered another message since
		}
	}
	return a, nil
}

// answer returns an exchange as the result of a tool.
func (s *Sessions) answer(x *session.Exchange) mcp.Answer {
	a := mcp.Answer{Reply: x.Text + s.waits(x), SessionID: x.SessionID, Sources: x.Sources, Choices: x.Choices}
	switch {
	case !x.Ended():
		a.Status, a.Reply = "working", "The agent is still working. Call this tool again with the sessionId and without a message."
	case x.Status == stoa.SessionWaiting:
		a.Status, a.Asks = "waiting", x.Input == stoa.InputQuestion || x.Input == stoa.InputChoice
	case x.Status == stoa.SessionFailed && x.Failure != nil:
		a.Status, a.Reply = "failed", x.Failure.Message
	default:
		a.Status = string(x.Status)
	}
	return a
}

// toolError returns an error whose text is for the caller.
func toolError(err error) error { return errors.New(stoa.AsError(err).Message) }
