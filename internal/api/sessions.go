package api

import (
	"context"
	"time"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/contract"
	"stoa/internal/session"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// pollAfter is when a session that was just queued is worth a look, in seconds.
const pollAfter = 1

// CreateSession serves POST /api/v1/api-agents/{id}/sessions.
func (s *Server) CreateSession(ctx context.Context, in contract.CreateSessionRequestObject) (contract.CreateSessionResponseObject, error) {
	c, b := caller(ctx), in.Body
	req := session.StartRequest{
		AgentID: in.ID, Message: b.Message, Mode: stoa.SessionMode(orZero(b.Mode)), ExternalID: orZero(b.ExternalID),
		ExternalUserID: orZero(b.ExternalUserID), Title: orZero(b.Title), Metadata: orZero(b.Metadata),
	}
	err := s.mergeLimits(&req.Limits, b.Limits)
	if err == nil {
		err = checkMetadata(req.Metadata)
	}
	if err != nil {
		return nil, err
	}
	// Credits are looked at outside of the transaction. What is wrong is told
	// inside, where it is known whether the request was answered before.
	broke := s.Worker.CheckCredits(ctx, c, req)
	return makeOnce(ctx, s, false, contract.CreateSessionResponseObject.VisitCreateSessionResponse, func(tx *store.Tx) (contract.CreateSessionResponseObject, error) {
		if broke != nil {
			return nil, broke
		}
		session, err := s.Sessions.Start(ctx, tx, c, req)
		return contract.CreateSession202JSONResponse{
			Headers: contract.CreateSession202ResponseHeaders{Location: agentPath(in.ID) + "/sessions/" + session.ID, RetryAfter: pollAfter},
			Body:    contractSession(session),
		}, err
	})
}

// ListSessions serves GET /api/v1/api-agents/{id}/sessions.
func (s *Server) ListSessions(ctx context.Context, in contract.ListSessionsRequestObject) (contract.ListSessionsResponseObject, error) {
	accountID, q := caller(ctx).Account.ID, in.Params
	p, err := newPager(q.Limit, q.Cursor, q.Order, "sessions", accountID, in.ID, q.Status, q.Trigger, q.ExternalUserID, q.ExternalID)
	if err != nil {
		return nil, err
	}
	list, more, err := s.Sessions.List(ctx, accountID, store.SessionFilter{
		AgentID: in.ID, Status: stoa.SessionStatus(q.Status), TriggerType: q.Trigger, ExternalUserID: q.ExternalUserID, ExternalID: q.ExternalID,
	}, p.page)
	if err != nil {
		return nil, err
	}
	out := contract.ListSessions200JSONResponse{Data: []contract.Session{}, HasMore: more, NextCursor: noCursor()}
	for _, session := range list {
		out.Data = append(out.Data, contractSession(session))
		out.NextCursor = p.next(more, session.CreatedAt, session.ID)
	}
	return out, nil
}

// GetSession serves GET /api/v1/api-agents/{id}/sessions/{sessionId}.
func (s *Server) GetSession(ctx context.Context, in contract.GetSessionRequestObject) (contract.GetSessionResponseObject, error) {
	accountID := caller(ctx).Account.ID
	var session stoa.Session
	var err error
	if in.Params.WaitSeconds > 0 {
		waiting, done := s.untilDrain(ctx)
		defer done()
		session, err = s.Sessions.Wait(waiting, accountID, in.ID, in.SessionID, time.Duration(in.Params.WaitSeconds)*time.Second)
	} else {
		session, err = s.Sessions.Get(ctx, accountID, in.ID, in.SessionID)
	}
	if err != nil {
		return nil, err
	}
	etag := revisionETag(session.Revision)
	if hasTag(in.Params.IfNoneMatch, revisionTag(session.Revision)) {
		return contract.GetSession304Response{Headers: contract.GetSession304ResponseHeaders{ETag: etag}}, nil
	}
	return contract.GetSession200JSONResponse{Headers: contract.GetSession200ResponseHeaders{ETag: etag}, Body: contractSession(session)}, nil
}

// UpdateSession serves PATCH /api/v1/api-agents/{id}/sessions/{sessionId}.
func (s *Server) UpdateSession(ctx context.Context, in contract.UpdateSessionRequestObject) (contract.UpdateSessionResponseObject, error) {
	session, err := s.Sessions.Edit(ctx, caller(ctx), in.ID, in.SessionID, func(session *stoa.Session) error {
		if err := ifCurrent(in.Params.IfMatch, session.Revision); err != nil {
			return err
		}
		patch(&session.Title, in.Body.Title, same)
		return mergeMetadata(&session.Metadata, in.Body.Metadata)
	})
	if err != nil {
		return nil, err
	}
	return contract.UpdateSession200JSONResponse{
		Headers: contract.UpdateSession200ResponseHeaders{ETag: revisionETag(session.Revision)}, Body: contractSession(session),
	}, nil
}

// DeleteSession serves DELETE /api/v1/api-agents/{id}/sessions/{sessionId}.
func (s *Server) DeleteSession(ctx context.Context, in contract.DeleteSessionRequestObject) (contract.DeleteSessionResponseObject, error) {
	return contract.DeleteSession204Response{}, s.Sessions.Delete(ctx, caller(ctx), in.ID, in.SessionID)
}

// SendMessage serves POST …/sessions/{sessionId}/messages.
func (s *Server) SendMessage(ctx context.Context, in contract.SendMessageRequestObject) (contract.SendMessageResponseObject, error) {
	req := session.SendRequest{Message: in.Body.Message, Reject: orZero(in.Body.OnBusy) == "reject"}
	return makeOnce(ctx, s, false, contract.SendMessageResponseObject.VisitSendMessageResponse, func(tx *store.Tx) (contract.SendMessageResponseObject, error) {
		session, err := s.Sessions.Send(ctx, tx, caller(ctx), in.ID, in.SessionID, req)
		return contract.SendMessage202JSONResponse{
			Headers: contract.SendMessage202ResponseHeaders{RetryAfter: pollAfter}, Body: contractSession(session),
		}, err
	})
}

// AnswerInput serves POST …/sessions/{sessionId}/input.
func (s *Server) AnswerInput(ctx context.Context, in contract.AnswerInputRequestObject) (contract.AnswerInputResponseObject, error) {
	req := session.AnswerRequest{
		InputID: in.Body.InputID, Answer: orZero(in.Body.Answer), Choice: orZero(in.Body.Choice), Decision: orZero(in.Body.Decision),
	}
	return makeOnce(ctx, s, false, contract.AnswerInputResponseObject.VisitAnswerInputResponse, func(tx *store.Tx) (contract.AnswerInputResponseObject, error) {
		session, err := s.Sessions.Answer(ctx, tx, caller(ctx), in.ID, in.SessionID, req)
		return contract.AnswerInput202JSONResponse{
			Headers: contract.AnswerInput202ResponseHeaders{RetryAfter: pollAfter}, Body: contractSession(session),
		}, err
	})
}

// CancelSession serves POST …/sessions/{sessionId}/cancel.
func (s *Server) CancelSession(ctx context.Context, in contract.CancelSessionRequestObject) (contract.CancelSessionResponseObject, error) {
	session, err := s.Sessions.Cancel(ctx, caller(ctx), in.ID, in.SessionID)
	if err != nil {
		return nil, err
	}
	if session.Status.Stopped() {
		return contract.CancelSession200JSONResponse(contractSession(session)), nil
	}
	return contract.CancelSession202JSONResponse{
		Headers: contract.CancelSession202ResponseHeaders{RetryAfter: pollAfter}, Body: contractSession(session),
	}, nil
}

// RetrySession serves POST …/sessions/{sessionId}/retry.
func (s *Server) RetrySession(ctx context.Context, in contract.RetrySessionRequestObject) (contract.RetrySessionResponseObject, error) {
	return makeOnce(ctx, s, false, contract.RetrySessionResponseObject.VisitRetrySessionResponse, func(tx *store.Tx) (contract.RetrySessionResponseObject, error) {
		session, err := s.Sessions.Retry(ctx, tx, caller(ctx), in.ID, in.SessionID)
		return contract.RetrySession202JSONResponse{
			Headers: contract.RetrySession202ResponseHeaders{RetryAfter: pollAfter}, Body: contractSession(session),
		}, err
	})
}

func contractSession(s stoa.Session) contract.Session {
	reply := unlessZero(s.Reply)
	if s.Status == stoa.SessionCompleted { // an answer may be empty
		reply = nullable.NewNullableWithValue(s.Reply)
	}
	t := s.Turn
	return contract.Session{
		ID: s.ID, Object: "session", AgentID: s.AgentID, SpaceID: s.SpaceID, AgentVersion: s.AgentVersion,
		Mode: string(s.Mode), Status: string(s.Status), StatusReason: unlessZero(t.Reason), Reply: reply,
		PendingInput: contractInput(s.Pending), Error: contractFailure(t.Failure),
		Turn: contract.SessionTurn{
			ID: t.ID, Number: t.Number, Attempt: t.Attempt,
			StartedAt: unlessNever(t.StartedAt), FinishedAt: unlessNever(t.FinishedAt), DeadlineAt: unlessNever(t.DeadlineAt),
		},
		QueuedMessages: s.QueuedMessages,
		Model:          contract.SessionModel{Requested: s.ModelAsked, Served: unlessZero(s.ModelServed), Fallback: s.Fallback},
		Usage: contract.SessionUsage{
			InputTokens: s.Usage.InputTokens, OutputTokens: s.Usage.OutputTokens, TotalTokens: s.Usage.Total(),
			Steps: s.Steps, CreditsMicro: int64(s.Spent),
		},
		LastEventSeq: s.LastSeq, Trigger: contract.SessionTrigger{Type: s.Trigger.Type, ID: unlessZero(s.Trigger.ID)},
		ExternalID: unlessZero(s.ExternalID), ExternalUserID: unlessZero(s.ExternalUserID), Title: unlessZero(s.Title),
		Metadata: contractMetadata(s.Metadata), CreatedAt: contract.Time(s.CreatedAt), UpdatedAt: contract.Time(s.UpdatedAt),
		StartedAt: unlessNever(s.StartedAt), FinishedAt: unlessNever(s.FinishedAt),
	}
}

func contractInput(in *stoa.Input) nullable.Nullable[contract.PendingInput] {
	if in == nil {
		return nullable.NewNullNullable[contract.PendingInput]()
	}
	out := contract.PendingInput{
		ID: in.ID, Kind: in.Kind, Prompt: in.Prompt, Options: append([]string{}, in.Options...),
		DefaultValue: nullable.NewNullNullable[string](), ExpiresAt: contract.Time(in.ExpiresAt),
	}
	if in.Default != nil {
		out.DefaultValue = nullable.NewNullableWithValue(*in.Default)
	}
	return nullable.NewNullableWithValue(out)
}

func contractFailure(f *stoa.Failure) nullable.Nullable[contract.SessionFailure] {
	if f == nil {
		return nullable.NewNullNullable[contract.SessionFailure]()
	}
	return nullable.NewNullableWithValue(contract.SessionFailure{Code: string(f.Code), Message: f.Message, Retryable: f.Retryable})
}
