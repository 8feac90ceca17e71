package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/agents/session"
	"stoa/internal/agents/tool"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/schema"
)

const (
	defaultToolTime   = 3600    // seconds
	maxShownArguments = 8 << 10 // bytes of a call that waits for its approval, because every read of its session contains them
	inputWaits        = 20      // concurrent requests of an account that wait for inputs
	visitorsYes       = "yes"
	visitorsNo        = "no"
	reservedSeparator = "__" // between the name of a server and that of its tool
)

func agentTools(list []contract.SetAgentTool) ([]stoa.AgentTool, error) {
	if len(list) > tool.MaxOffered {
		return nil, stoa.Errorf(stoa.CodeTooManyTools, "The agent has %d tools; the maximum is %d.", len(list), tool.MaxOffered).At("tools")
	}
	var tools []stoa.AgentTool
	seen := map[string]bool{}
	for i, t := range list {
		at := fmt.Sprintf("tools[%d].", i)
		if t.Type == stoa.ToolDrive {
			made, err := driveTool(t, at)
			if err == nil && seen[made.Name] {
				err = stoa.Errorf(stoa.CodeInvalidValue, "There are two tools with the name %q.", made.Name).At(at + "name")
			}
			if err != nil {
				return nil, err
			}
			seen[made.Name] = true
			tools = append(tools, made)
			continue
		}
		if t.Type == stoa.ToolConnection {
			made, err := connectionTools(t, at)
			if err == nil && seen[made.ConnectionID] {
				err = stoa.Errorf(stoa.CodeInvalidValue, "There are two entries for the connection. List all of its tools in one entry.").At(at + "connectionId")
			}
			if err != nil {
				return nil, err
			}
			seen[made.ConnectionID] = true
			tools = append(tools, made)
			continue
		}
		if err := clientMembers(t, at); err != nil {
			return nil, err
		}
		made := stoa.AgentTool{
			Type: t.Type, Name: t.Name, Description: t.Description, Parameters: string(t.Parameters),
			Effects: stoa.Effects(valueOr(t.Effects, string(stoa.EffectsOnce))), TimeoutSeconds: valueOr(t.TimeoutSeconds, defaultToolTime),
			OnTimeout: valueOr(t.OnTimeout, stoa.TimeoutTells), Visitors: orZero(t.Visitors) == visitorsYes,
		}
		if orZero(t.Approval) == stoa.ApprovalAlways {
			made.Approval = stoa.ApprovalAlways
		}
		switch {
		case isReserved(t.Name):
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "The name %q is reserved. Names must not begin with drive_ or agent_, contain __, or be ask_user or tool_result_read.", t.Name).At(at + "name")
		case seen[t.Name]:
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "There are two tools with the name %q.", t.Name).At(at + "name")
		case made.Visitors && made.Effects != stoa.EffectsRead:
			return nil, stoa.Errorf(stoa.CodeInvalidValue, "Only a tool with the effects %q can be offered to visitors: it acts with your authority.", stoa.EffectsRead).At(at + "visitors")
		}
		if _, err := schema.ReadParameters(made.Parameters); err != nil {
			return nil, stoa.Errorf(stoa.CodeInvalidSchema, "The parameters of %q are not supported: %v.", t.Name, err).At(at + "parameters")
		}
		seen[t.Name] = true
		tools = append(tools, made)
	}
	return tools, nil
}

func clientMembers(t contract.SetAgentTool, at string) error {
	switch {
	case t.Name == "":
		return missingMember(at + "name")
	case t.Description == "":
		return missingMember(at + "description")
	case len(t.Parameters) == 0:
		return missingMember(at + "parameters")
	}
	return onlyMembers(t, at, "name", "description", "parameters", "effects", "timeoutSeconds", "onTimeout", "visitors", "approval")
}

func missingMember(at string) error {
	return stoa.Errorf(stoa.CodeMissingParameter, "A tool of this type must have the member %q.", at).At(at)
}

func driveTool(t contract.SetAgentTool, at string) (out stoa.AgentTool, err error) {
	switch {
	case t.Name == "":
		return out, missingMember(at + "name")
	case t.Name != stoa.DriveWrite && t.Name != stoa.MemoryWrite:
		return out, stoa.Errorf(stoa.CodeInvalidValue, "A tool of the type %q must have the name %q or %q. What the agent reads is limited by \"driveAccess\" and \"visitorDrive\".", stoa.ToolDrive, stoa.DriveWrite, stoa.MemoryWrite).At(at + "name")
	}
	out = stoa.AgentTool{Type: t.Type, Name: t.Name, Approval: orZero(t.Approval)}
	if out.Approval == "" {
		return out, missingMember(at + "approval")
	}
	return out, onlyMembers(t, at, "name", "approval")
}

func onlyMembers(t contract.SetAgentTool, at string, of ...string) error {
	for _, m := range []struct {
		name string
		set  bool
	}{
		{"name", t.Name != ""},
		{"description", t.Description != ""},
		{"parameters", len(t.Parameters) > 0},
		{"effects", !t.Effects.IsNull() && t.Effects.IsSpecified()},
		{"timeoutSeconds", !t.TimeoutSeconds.IsNull() && t.TimeoutSeconds.IsSpecified()},
		{"onTimeout", !t.OnTimeout.IsNull() && t.OnTimeout.IsSpecified()},
		{"visitors", !t.Visitors.IsNull() && t.Visitors.IsSpecified()},
		{"approval", !t.Approval.IsNull() && t.Approval.IsSpecified()},
		{"connectionId", t.ConnectionID != ""},
		{"allow", len(t.Allow) > 0},
		{"stricter", len(t.Stricter) > 0},
	} {
		if m.set && !slices.Contains(of, m.name) {
			return stoa.Errorf(stoa.CodeInvalidValue, "A tool of the type %q does not have this member.", t.Type).At(at + m.name)
		}
	}
	return nil
}

func connectionTools(t contract.SetAgentTool, at string) (out stoa.AgentTool, err error) {
	switch {
	case t.ConnectionID == "":
		return out, missingMember(at + "connectionId")
	case len(t.Allow) == 0:
		return out, missingMember(at + "allow")
	}
	if err := onlyMembers(t, at, "connectionId", "allow", "stricter"); err != nil {
		return out, err
	}
	out = stoa.AgentTool{Type: t.Type, ConnectionID: t.ConnectionID, Allow: t.Allow}
	for j, name := range t.Allow {
		if slices.Contains(t.Allow[:j], name) {
			return out, stoa.Errorf(stoa.CodeInvalidValue, "The tool is listed twice.").At(fmt.Sprintf("%sallow[%d]", at, j))
		}
	}
	for j, s := range t.Stricter {
		here := fmt.Sprintf("%sstricter[%d].", at, j)
		switch {
		case !slices.Contains(t.Allow, s.Name):
			return out, stoa.Errorf(stoa.CodeInvalidValue, "The tool is not in \"allow\".").At(here + "name")
		case slices.ContainsFunc(out.Stricter, func(o stoa.Stricter) bool { return o.Name == s.Name }):
			return out, stoa.Errorf(stoa.CodeInvalidValue, "The tool is listed twice.").At(here + "name")
		}
		out.Stricter = append(out.Stricter, stoa.Stricter{Name: s.Name, Approval: s.Approval, Effects: stoa.Effects(s.Effects), OnUnknown: s.OnUnknown})
	}
	return out, nil
}

func contractConnectionTools(t stoa.AgentTool) contract.AgentTool {
	out := contract.AgentTool{Type: t.Type, ConnectionID: t.ConnectionID, Allow: t.Allow}
	for _, s := range t.Stricter {
		out.Stricter = append(out.Stricter, contract.StricterTool{Name: s.Name, Approval: s.Approval, Effects: string(s.Effects), OnUnknown: s.OnUnknown})
	}
	return out
}

// isReserved reports whether a name is reserved for current or future tools of the
// service.
func isReserved(name string) bool {
	return strings.HasPrefix(name, "drive_") || strings.HasPrefix(name, "agent_") || name == session.AskTool || name == "tool_result_read" ||
		strings.Contains(name, reservedSeparator)
}

func contractTools(tools []stoa.AgentTool) []contract.AgentTool {
	out := []contract.AgentTool{}
	for _, t := range tools {
		switch t.Type {
		case stoa.ToolConnection:
			out = append(out, contractConnectionTools(t))
			continue
		case stoa.ToolDrive:
			out = append(out, contract.AgentTool{Type: t.Type, Name: t.Name, Approval: t.Approval})
			continue
		}
		visitors := visitorsNo
		if t.Visitors {
			visitors = visitorsYes
		}
		out = append(out, contract.AgentTool{
			Type: t.Type, Name: t.Name, Description: t.Description, Parameters: json.RawMessage(t.Parameters), Effects: string(t.Effects),
			TimeoutSeconds: t.TimeoutSeconds, OnTimeout: t.OnTimeout, Visitors: visitors, Approval: cmp.Or(t.Approval, stoa.ApprovalNever),
		})
	}
	return out
}

func contractWithheld(list []stoa.Withheld) (tools []contract.WithheldTool, skills []string) {
	tools, skills = []contract.WithheldTool{}, []string{}
	for _, w := range list {
		if w.Skill != "" {
			skills = append(skills, w.Skill)
			continue
		}
		tools = append(tools, contract.WithheldTool{Tool: w.Tool, Reason: w.Reason})
	}
	return tools, skills
}

// outputText returns an output as the text for the model. It unquotes a string; other JSON is unchanged.
func outputText(output nullable.Nullable[contract.ToolOutputValue]) string {
	raw, err := output.Get()
	if err != nil {
		return "null"
	}
	var text string
	if jsonx.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// pendingCalls returns the calls of an input. It truncates long arguments of calls that people must approve.
func pendingCalls(in stoa.Input) []contract.PendingToolCall {
	out := []contract.PendingToolCall{}
	for _, c := range in.Calls {
		p := contract.PendingToolCall{
			CallID: c.ID, Tool: c.Tool, Title: c.Title, ConnectionID: c.ConnectionID, Arguments: json.RawMessage(cmp.Or(strings.TrimSpace(c.Arguments), "{}")),
			Effects: string(c.Effects), Status: string(c.Status), ExpiresAt: contract.Time(c.ExpiresAt), PreviousOutcome: string(c.PreviousOutcome),
		}
		if in.Kind != stoa.InputToolCall {
			if in.Kind == stoa.InputToolApproval {
				p.Decision = string(c.Decision)
			}
			if c.ExpiresAt.IsZero() { // because it was approved
				p.ExpiresAt = contract.Time(in.ExpiresAt)
			}
			if len(p.Arguments) > maxShownArguments {
				p.Arguments, p.ArgumentsStart = json.RawMessage("{}"), session.Cut(c.Arguments, maxShownArguments)
			}
		}
		out = append(out, p)
	}
	return out
}

func contractCall(c stoa.ExternalCall) contract.AgentToolCall {
	arguments := json.RawMessage(c.Arguments)
	if !jsonx.Valid(arguments) {
		arguments = jsonx.AppendString(nil, c.Arguments)
	}
	out := contract.AgentToolCall{
		ID: c.ID, Object: "tool_call", ConnectionID: nullIfZero(c.ConnectionID), SecretID: nullIfZero(c.SecretID), AgentID: c.AgentID, SessionID: c.SessionID, Turn: c.Turn, Step: c.Step, Place: c.Place, Tool: c.Tool, Title: nullIfZero(c.Title), Type: c.Type,
		DefinitionSha256: c.DefinitionSHA256, Status: string(c.Status), Outcome: nullIfZero(string(c.Outcome)), Effects: string(c.Effects),
		InputID: nullIfZero(c.InputID), Attempts: c.Attempts, Arguments: arguments, ResultText: nullUnless(c.Status == stoa.CallDone, c.Result), ResultBytes: c.ResultBytes,
		IsError: c.Status == stoa.CallDone && c.Outcome != stoa.OutcomeOK, ErrorCode: nullIfZero(string(c.ErrorCode)), LateOutput: nullIfNil(c.LateOutput, same),
		NeedsConfirmation: c.Confirmation != nil, NeedsApproval: c.Approval == stoa.ApprovalAlways, ApprovalInputID: nullIfZero(c.ApprovalInputID), PreviousOutcome: nullIfZero(string(c.PreviousOutcome)),
		Approval:   nullUnless(c.Decision != "", contract.ToolCallApproval{Decision: string(c.Decision), By: nullIfZero(c.DecidedBy), At: contract.Time(c.DecidedAt), Comment: nullIfZero(c.Comment)}),
		Resolution: nullUnless(c.Resolution != "", contract.ToolCallResolution{Outcome: c.Resolution, Note: nullIfZero(c.Note), By: c.ResolvedBy, At: contract.Time(c.ResolvedAt)}),
		CreatedAt:  contract.Time(c.CreatedAt), StartedAt: nullIfNever(c.StartedAt),
		FinishedAt: nullIfNever(c.FinishedAt), DurationMs: nullUnless(c.Status == stoa.CallDone && !c.StartedAt.IsZero(), max(c.FinishedAt.Sub(c.StartedAt).Milliseconds(), 0)), ExpiresAt: nullIfNever(c.ExpiresAt),
	}
	if c.Confirmed != "" {
		out.Confirmation = contract.ToolCallConfirmation{Decision: string(c.Confirmed), EmbedID: nullIfZero(c.ConfirmedBy), At: contract.Time(c.ConfirmedAt)}
	}
	if c.SessionID == "" { // because the position of the row is unique
		out.Turn, out.Step, out.Place = 0, 0, 0
	}
	return out
}

func (s *Sessions) listSessionToolCalls(ctx context.Context, in rest.Request[sessionAnd[contract.ListSessionToolCallsParams], rest.None]) (rest.Reply[rest.Page[contract.AgentToolCall]], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "session tool calls", accountID, in.Params.ID, in.Params.SessionID)
	list, more, err := s.Sessions.SessionCalls(ctx, accountID, in.Params.ID, in.Params.SessionID, p.Page)
	return rest.PageOf(p, list, more, err, contractCall, func(c stoa.ExternalCall) store.Cursor { return store.Cursor{At: c.CreatedAt, ID: c.ID} })
}

func (s *Sessions) listToolCalls(ctx context.Context, in rest.Request[contract.ListToolCallsParams, rest.None]) (rest.Reply[rest.Page[contract.AgentToolCall]], error) {
	accountID, q := in.Caller.Account.ID, in.Params
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "tool calls", accountID, q.Status, q.Outcome, q.AgentID)
	filter := store.CallFilter{AgentID: q.AgentID, Status: stoa.CallStatus(q.Status), Outcome: stoa.CallOutcome(q.Outcome)}
	n := namesOf(accountID)
	return rest.ReadPageTo(ctx, s.Store, p, func(tx *store.Tx) ([]stoa.ExternalCall, store.Cursor, error) {
		list, next, err := tx.Work().ToolCalls(ctx, accountID, filter, p.Page)
		for _, c := range list {
			n.add(store.NamedAgents, c.AgentID)
		}
		return list, next, n.read(ctx, tx, err)
	}, func(c stoa.ExternalCall) contract.AgentToolCall {
		out := contractCall(c)
		out.AgentName = n.of(store.NamedAgents, c.AgentID)
		return out
	})
}

func (s *Sessions) getToolCall(ctx context.Context, tx *store.Tx, in rest.Request[byID, rest.None]) (rest.Reply[contract.AgentToolCall], error) {
	call, err := tx.Work().ToolCall(ctx, in.Caller.Account.ID, in.Params.ID)
	return rest.Reply[contract.AgentToolCall]{Body: contractCall(call)}, err
}

func (s *Sessions) resolveToolCall(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.ResolveToolCall]) (rest.Reply[contract.AgentToolCall], error) {
	call, err := s.Sessions.ResolveCall(ctx, tx, in.Caller, in.Params.ID, in.Body.Outcome, orZero(in.Body.Note))
	return rest.Reply[contract.AgentToolCall]{Body: contractCall(call)}, err
}

func (s *Sessions) listInputs(_ context.Context, in rest.Request[contract.ListInputsParams, rest.None]) (rest.Reply[rest.Page[contract.OpenInput]], error) {
	accountID, q := in.Caller.Account.ID, in.Params
	p := rest.NewPager(q.Limit, q.Cursor, orElse(q.Order, "asc"), "inputs", accountID, q.Kind, q.AgentID, q.ToolName, q.ExternalUserID, fmt.Sprint(q.Unclaimed))
	if p.Err != nil {
		return rest.Reply[rest.Page[contract.OpenInput]]{}, p.Err
	}
	if q.WaitSeconds > 0 {
		slot := "inputs " + accountID
		if !s.limits.streams.Enter(slot, inputWaits) {
			return rest.Reply[rest.Page[contract.OpenInput]]{}, stoa.Errorf(stoa.CodeRateLimit, "The limit of %d waiting requests of this account is reached. Use fewer, or omit waitSeconds.", inputWaits).After(time.Second)
		}
		defer s.limits.streams.Leave(slot)
	}
	waiting, done := s.UntilDrain(in.HTTP.Context())
	defer done()
	list, next, err := s.Sessions.OpenInputs(waiting, accountID, store.InputFilter{Kind: q.Kind, AgentID: q.AgentID, Tool: q.ToolName, EndUser: q.ExternalUserID, Unclaimed: q.Unclaimed}, p.Page, time.Duration(q.WaitSeconds)*time.Second)
	return rest.PageTo(p, list, next, err, func(in stoa.Input) contract.OpenInput {
		in.ClaimID = "" // only the claimer receives it, because it proves the claim
		return contractOpenInput(in)
	})
}

func (s *Sessions) claimInput(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.ClaimInput]) (rest.Reply[contract.OpenInput], error) {
	input, err := s.Sessions.ClaimInput(ctx, tx, in.Caller, session.ClaimRequest{
		InputID: in.Params.ID, Lease: time.Duration(in.Body.LeaseSeconds) * time.Second, ClaimID: orZero(in.Body.ClaimID),
	})
	return rest.Reply[contract.OpenInput]{Body: contractOpenInput(input)}, err
}

func contractOpenInput(in stoa.Input) contract.OpenInput {
	return contract.OpenInput{
		ID: in.ID, Object: "input", Kind: in.Kind, AgentID: in.AgentID, AgentName: in.AgentName, SessionID: in.SessionID, SessionTitle: nullIfZero(in.SessionTitle),
		ExternalUserID: nullIfZero(in.ExternalUserID), Turn: in.Turn, Prompt: in.Prompt, Calls: pendingCalls(in),
		ClaimID: nullIfZero(in.ClaimID), ClaimedUntil: nullIfNever(in.ClaimedUntil), CreatedAt: contract.Time(in.CreatedAt), ExpiresAt: contract.Time(in.ExpiresAt),
	}
}
