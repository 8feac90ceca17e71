package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/agents/session"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// pollAfter is the Retry-After of a queued session, in seconds.
const pollAfter = 1

func (s *Sessions) startRequest(in rest.Request[byID, contract.CreateSession]) (session.StartRequest, error) {
	b := in.Body
	req := session.StartRequest{
		AgentID: in.Params.ID, Message: b.Message, Mode: stoa.SessionMode(orZero(b.Mode)), ExternalID: orZero(b.ExternalID),
		ExternalUserID: orZero(b.ExternalUserID), Title: orZero(b.Title), Metadata: orZero(b.Metadata),
		WithholdTools: orZero(b.ClientTools) == "withhold",
	}
	if err := checkCredentialScope(in.Caller, b.Credentials); err != nil {
		return req, err
	}
	req.Credentials = orZero(b.Credentials)
	if err := s.agents.mergeLimits(&req.Limits, b.Limits); err != nil {
		return req, err
	}
	var err error
	if req.ReplySchema, err = session.ReadReplySchema(orZero(b.ReplySchema), "replySchema"); err != nil {
		return req, err
	}
	if req.Draft, err = s.draftOf(in.Caller, b.Draft); err != nil {
		return req, err
	}
	return req, checkMetadata(req.Metadata)
}

// draftOf returns the change of a draft; nil without one.
func (s *Sessions) draftOf(c stoa.Caller, n nullable.Nullable[contract.AgentDraft]) (func(*stoa.Agent) error, error) {
	draft, err := n.Get()
	if err != nil {
		return nil, nil
	}
	if !c.Key.Has("agents:write") {
		return nil, stoa.Errorf(stoa.CodeScope, "\"draft\" also requires the scope \"agents:write\", because it is a configuration of the agent. Omit \"draft\", or use another key.").At("draft")
	}
	return func(a *stoa.Agent) error {
		set := extend[contract.UpdateAgent](draft)
		err := s.agents.patchAgent(a, &set)
		if e := (*stoa.Error)(nil); errors.As(err, &e) {
			return e.At("draft." + e.Param)
		}
		return err
	}, nil
}

type sessionStart struct {
	req     session.StartRequest
	credits error
}

// beforeSession checks the credits before the transaction, because the check cannot run inside one. Its error is returned
// inside, so that a request that was answered before receives that answer.
func (s *Sessions) beforeSession(ctx context.Context, in rest.Request[byID, contract.CreateSession]) (sessionStart, error) {
	req, err := s.startRequest(in)
	if err != nil {
		return sessionStart{}, err
	}
	credits := s.Worker.CheckCredits(ctx, in.Caller, req)
	if credits == nil {
		if req.Uploads, err = s.drive.uploads(ctx, in.Caller, in.Params.ID, in.Body.Attachments); err != nil {
			return sessionStart{}, err
		}
	}
	return sessionStart{req, credits}, nil
}

func (s *Sessions) createSession(ctx context.Context, tx *store.Tx, in rest.Request[byID, contract.CreateSession], start sessionStart) (rest.Reply[contract.Session], error) {
	if start.credits != nil {
		return rest.Reply[contract.Session]{}, start.credits
	}
	session, err := s.Sessions.Start(ctx, tx, in.Caller, start.req)
	reply := acceptedSession(session)
	reply.Location = agentPath(in.Params.ID) + "/sessions/" + session.ID
	return reply, err
}

func acceptedSession(session stoa.Session) rest.Reply[contract.Session] {
	return rest.Reply[contract.Session]{Status: http.StatusAccepted, RetryAfter: pollAfter, Body: contractSession(session)}
}

func (s *Sessions) listSessions(ctx context.Context, in rest.Request[idAnd[contract.ListSessionsParams], rest.None]) (rest.Reply[rest.Page[contract.Session]], error) {
	q := in.Params.Query
	return s.sessionPage(ctx, in.Caller, in.Caller.Account.ID, "sessions", store.SessionFilter{
		AgentID: in.Params.ID, Status: stoa.SessionStatus(q.Status), TriggerType: q.Trigger, Feedback: q.Feedback, ExternalUserID: q.ExternalUserID, ExternalID: q.ExternalID, Text: q.Q,
	}, q.Limit, q.Cursor, string(q.Sort), string(q.Order))
}

func (s *Sessions) listAllSessions(ctx context.Context, in rest.Request[contract.ListAllSessionsParams, rest.None]) (rest.Reply[rest.Page[contract.Session]], error) {
	q := in.Params
	accountID := ""
	if q.AccountID != allAccounts || !in.Caller.Key.Has(stoa.ScopeOperatorRead) {
		var err error
		if accountID, err = s.requestedAccount(ctx, in.Caller, q.AccountID); err != nil {
			return rest.Reply[rest.Page[contract.Session]]{}, err
		}
	}
	return s.sessionPage(ctx, in.Caller, accountID, "allSessions", store.SessionFilter{
		AgentID: q.AgentID, Status: stoa.SessionStatus(q.Status), TriggerType: q.Trigger, Feedback: q.Feedback, ExternalUserID: q.ExternalUserID, ExternalID: q.ExternalID, Text: q.Q,
		All: accountID == "", NoTexts: accountID != in.Caller.Account.ID,
	}, q.Limit, q.Cursor, string(q.Sort), string(q.Order))
}

// sessionPage returns a page of sessions; list names the list that a cursor belongs to. Those of other accounts than the
// caller's have no texts.
func (s *Sessions) sessionPage(ctx context.Context, c stoa.Caller, accountID, list string, f store.SessionFilter, limit int, cursor, sort, order string) (rest.Reply[rest.Page[contract.Session]], error) {
	p := rest.NewSortedPager(limit, cursor, sort, order, list, accountID, f.AgentID, string(f.Status), f.TriggerType, f.ExternalUserID, f.ExternalID, f.Text, f.Feedback)
	n := namesOf(accountID)
	rows, next, err := s.Sessions.List(ctx, accountID, f, p.Page)
	for _, r := range rows {
		n.add(store.NamedAgents, r.AgentID)
		if r.AccountID != c.Account.ID {
			n.add(store.NamedAccounts, r.AccountID)
		}
	}
	return rest.PageTo(p, rows, next, n.load(ctx, s.Store, err), func(session stoa.Session) contract.Session {
		foreign := session.AccountID != c.Account.ID
		if foreign {
			session.Title, session.Reply, session.ReplySchema, session.Pending, session.Metadata = "", "", "", nil, nil
			if session.Turn.Failure != nil {
				session.Turn.Failure = &stoa.Failure{Code: session.Turn.Failure.Code, Retryable: session.Turn.Failure.Retryable}
			}
		}
		out := contractSession(session)
		out.AgentName = n.of(store.NamedAgents, session.AgentID)
		if foreign {
			out.Reply = nullable.NewNullNullable[string]()
			out.AccountID, out.AccountName = session.AccountID, n.of(store.NamedAccounts, session.AccountID)
		}
		return out
	})
}

func (s *Sessions) findSession(ctx context.Context, in rest.Request[byID, rest.None]) (rest.Reply[contract.Session], error) {
	session, err := s.Sessions.Find(ctx, in.Caller.Account.ID, in.Params.ID)
	return rest.Reply[contract.Session]{ETag: revisionETag(session.Revision), Body: contractSession(session)}, err
}

func (s *Sessions) getSession(ctx context.Context, in rest.Request[sessionAnd[contract.GetSessionParams], rest.None]) (rest.Reply[contract.Session], error) {
	q := in.Params.Query
	session, err := s.waitForSession(ctx, in)
	if err != nil {
		return rest.Reply[contract.Session]{}, err
	}
	out := contractSession(session)
	out.Credentials, err = s.ownCredentials(ctx, in.Caller, session.ID)
	return unlessCurrent(q.IfNoneMatch, revisionTag(session.Revision), out), err
}

// waitForSession returns a session; a caller can wait for its end.
func (s *Sessions) waitForSession(ctx context.Context, in rest.Request[sessionAnd[contract.GetSessionParams], rest.None]) (stoa.Session, error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	if q.WaitSeconds <= 0 {
		return s.Sessions.Get(ctx, accountID, in.Params.ID, in.Params.SessionID)
	}
	leave, err := s.enterStream(in.Caller.Key.Root(), s.Limits.EventStreamsPerKey, accountID, s.Limits.EventStreamsPerAccount)
	if err != nil {
		return stoa.Session{}, err
	}
	defer leave()
	waiting, done := s.UntilDrain(in.HTTP.Context())
	defer done()
	return s.Sessions.Wait(waiting, accountID, in.Params.ID, in.Params.SessionID, time.Duration(q.WaitSeconds)*time.Second)
}

func (s *Sessions) updateSession(ctx context.Context, in rest.Request[sessionAnd[contract.UpdateSessionParams], contract.UpdateSession]) (rest.Reply[contract.Session], error) {
	session, err := s.Sessions.Edit(ctx, in.Caller, in.Params.ID, in.Params.SessionID, func(session *stoa.Session) error {
		if err := ifCurrent(in.Params.Query.IfMatch, session.Revision); err != nil {
			return err
		}
		patch(&session.Title, in.Body.Title, same)
		return mergeMetadata(&session.Metadata, in.Body.Metadata)
	})
	return rest.Reply[contract.Session]{ETag: revisionETag(session.Revision), Body: contractSession(session)}, err
}

func (s *Sessions) deleteSession(ctx context.Context, in rest.Request[bySessionID, rest.None]) (rest.Reply[rest.None], error) {
	return rest.NoContent(), s.Sessions.Delete(ctx, in.Caller, in.Params.ID, in.Params.SessionID)
}

// beforeMessage stores the files of a message before the transaction, because a transaction cannot do that.
func (s *Sessions) beforeMessage(ctx context.Context, in rest.Request[bySessionID, contract.SendMessage]) (session.Uploads, error) {
	return s.drive.uploads(ctx, in.Caller, in.Params.ID, in.Body.Attachments)
}

func (s *Sessions) sendMessage(ctx context.Context, tx *store.Tx, in rest.Request[bySessionID, contract.SendMessage], uploads session.Uploads) (rest.Reply[contract.Session], error) {
	req := session.SendRequest{Message: in.Body.Message, Reject: orZero(in.Body.OnBusy) == "reject", Uploads: uploads}
	session, err := s.Sessions.Send(ctx, tx, in.Caller, in.Params.ID, in.Params.SessionID, req)
	return acceptedSession(session), err
}

// beforeAnswer stores outputs that arrive too late, because the transaction of the request fails and stores nothing.
func (s *Sessions) beforeAnswer(ctx context.Context, in rest.Request[bySessionID, contract.AnswerInput]) (session.AnswerRequest, error) {
	req := answerRequest(in.Body)
	if len(req.Outputs) == 0 {
		return req, nil
	}
	return req, s.Sessions.KeepLate(ctx, in.Caller.Account.ID, in.Params.ID, in.Params.SessionID, req)
}

func (s *Sessions) answerInput(ctx context.Context, tx *store.Tx, in rest.Request[bySessionID, contract.AnswerInput], req session.AnswerRequest) (rest.Reply[contract.Session], error) {
	session, err := s.Sessions.Answer(ctx, tx, in.Caller, in.Params.ID, in.Params.SessionID, req)
	return acceptedSession(session), err
}

func answerRequest(b contract.AnswerInput) session.AnswerRequest {
	req := session.AnswerRequest{InputID: b.InputID, Answer: orZero(b.Answer), Choice: orZero(b.Choice), Decision: orZero(b.Decision)}
	for _, o := range orZero(b.Outputs) {
		req.Outputs = append(req.Outputs, session.Output{CallID: o.CallID, Text: outputText(o.Output), IsError: orZero(o.IsError)})
	}
	for _, d := range orZero(b.Decisions) {
		req.Decisions = append(req.Decisions, session.CallDecision{CallID: d.CallID, Decision: stoa.Decision(d.Decision), Comment: orZero(d.Comment), Remember: orZero(d.Remember)})
	}
	return req
}

func (s *Sessions) cancelSession(ctx context.Context, in rest.Request[bySessionID, rest.None]) (rest.Reply[contract.Session], error) {
	session, err := s.Sessions.Cancel(ctx, in.Caller, in.Params.ID, in.Params.SessionID)
	if session.Status.Stopped() {
		return rest.Reply[contract.Session]{Body: contractSession(session)}, err
	}
	return acceptedSession(session), err
}

func (s *Sessions) upgradeSession(ctx context.Context, tx *store.Tx, in rest.Request[bySessionID, rest.None]) (rest.Reply[contract.Session], error) {
	session, err := s.Sessions.Upgrade(ctx, tx, in.Caller, in.Params.ID, in.Params.SessionID)
	return rest.Reply[contract.Session]{Body: contractSession(session)}, err
}

func (s *Sessions) retrySession(ctx context.Context, tx *store.Tx, in rest.Request[bySessionID, contract.RetrySession]) (rest.Reply[contract.Session], error) {
	session, err := s.Sessions.Retry(ctx, tx, in.Caller, in.Params.ID, in.Params.SessionID, orZero(in.Body.AcknowledgeEffects))
	return acceptedSession(session), err
}

func contractSession(s stoa.Session) contract.Session {
	reply := nullIfZero(s.Reply)
	if s.Status == stoa.SessionCompleted { // because an answer may be empty
		reply = nullable.NewNullableWithValue(s.Reply)
	}
	t := s.Turn
	tools, skills := contractWithheld(s.Withheld)
	return contract.Session{
		ID: s.ID, Object: "session", AgentID: s.AgentID, SpaceID: s.SpaceID, AgentVersion: s.AgentVersion, Draft: s.Draft,
		Mode: string(s.Mode), Status: string(s.Status), StatusReason: nullIfZero(t.Reason), Reply: reply, ReplyJSON: nullIfEmpty(contract.ReplyValue(session.ReplyJSON(s))),
		PendingInput: contractInput(s.Pending), Error: contractFailure(t.Failure),
		Turn: contract.SessionTurn{
			ID: t.ID, Number: t.Number, Attempt: t.Attempt,
			StartedAt: nullIfNever(t.StartedAt), FinishedAt: nullIfNever(t.FinishedAt), DeadlineAt: nullIfNever(t.DeadlineAt),
		},
		QueuedMessages: s.QueuedMessages,
		Model:          contract.SessionModel{Requested: s.ModelAsked, Served: nullIfZero(s.ModelServed), Fallback: s.Fallback},
		Usage: contract.SessionUsage{
			InputTokens: s.Usage.InputTokens, OutputTokens: s.Usage.OutputTokens, TotalTokens: s.Usage.Total(),
			Steps: s.Steps, ToolCalls: s.ToolCalls, CreditsMicro: int64(s.Spent),
		},
		ToolsWithheld: tools, SkillsWithheld: skills,
		LastEventSeq: s.LastSeq, Trigger: contract.SessionTrigger{Type: s.Trigger.Type, ID: nullIfZero(s.Trigger.ID)},
		ExternalID: nullIfZero(s.ExternalID), ExternalUserID: nullIfZero(s.ExternalUserID), Title: nullIfZero(s.Title),
		Metadata: contractMetadata(s.Metadata), CreatedAt: contract.Time(s.CreatedAt), UpdatedAt: contract.Time(s.UpdatedAt),
		StartedAt: nullIfNever(s.StartedAt), FinishedAt: nullIfNever(s.FinishedAt),
	}
}

func contractInput(in *stoa.Input) nullable.Nullable[contract.PendingInput] {
	if in == nil {
		return nullable.NewNullNullable[contract.PendingInput]()
	}
	out := contract.PendingInput{
		ID: in.ID, Kind: in.Kind, Prompt: in.Prompt, Options: append([]string{}, in.Options...),
		DefaultValue: nullIfNil(in.Default, same), ExpiresAt: contract.Time(in.ExpiresAt),
	}
	if in.OfTools() {
		out.Calls, out.ClaimedUntil = pendingCalls(*in), contract.Time(in.ClaimedUntil)
		out.Confirmation = contractConfirmation(session.ConfirmationOf(in))
	}
	return nullable.NewNullableWithValue(out)
}

func contractFailure(f *stoa.Failure) nullable.Nullable[contract.SessionFailure] {
	return nullIfNil(f, func(f stoa.Failure) contract.SessionFailure {
		return contract.SessionFailure{Code: string(f.Code), Message: f.Message, Retryable: f.Retryable}
	})
}
