package api

import (
	"context"
	"net/http"

	"stoa/internal/contract"
	"stoa/internal/session"
	"stoa/internal/stoa"
)

// ListTurns serves GET …/sessions/{sessionId}/turns.
func (s *Server) ListTurns(ctx context.Context, in contract.ListTurnsRequestObject) (contract.ListTurnsResponseObject, error) {
	accountID, q := caller(ctx).Account.ID, in.Params
	p, err := newPager(q.Limit, q.Cursor, orElse(q.Order, "asc"), "turns", accountID, in.ID, in.SessionID)
	if err != nil {
		return nil, err
	}
	list, more, err := s.Sessions.Turns(ctx, accountID, in.ID, in.SessionID, p.number(), p.page.Limit, !p.page.Asc)
	if err != nil {
		return nil, err
	}
	out := contract.ListTurns200JSONResponse{Data: []contract.Turn{}, HasMore: more, NextCursor: noCursor()}
	for _, t := range list {
		out.Data = append(out.Data, contract.Turn{
			ID: t.ID, Number: t.Number, Status: string(t.Status), StatusReason: unlessZero(t.Reason), Attempt: t.Attempt,
			MessageID: t.MessageID, RetryOf: unlessZero(t.RetryOf), Error: contractFailure(t.Failure), CreditsMicro: int64(t.Spent),
			CreatedAt: contract.Time(t.CreatedAt), StartedAt: unlessNever(t.StartedAt), FinishedAt: unlessNever(t.FinishedAt), DeadlineAt: unlessNever(t.DeadlineAt),
		})
		out.NextCursor = p.nextNumber(more, t.Number)
	}
	return out, nil
}

// ListMessages serves GET …/sessions/{sessionId}/messages.
func (s *Server) ListMessages(ctx context.Context, in contract.ListMessagesRequestObject) (contract.ListMessagesResponseObject, error) {
	accountID, q := caller(ctx).Account.ID, in.Params
	p, err := newPager(q.Limit, q.Cursor, orElse(q.Order, "asc"), "messages", accountID, in.ID, in.SessionID)
	if err != nil {
		return nil, err
	}
	list, more, err := s.Sessions.Messages(ctx, accountID, in.ID, in.SessionID, p.number(), p.page.Limit, !p.page.Asc)
	if err != nil {
		return nil, err
	}
	sources, err := s.Sessions.Sources(ctx, accountID, in.ID, in.SessionID, 0)
	if err != nil {
		return nil, err
	}
	byTurn := map[int64][]contract.Source{}
	for _, src := range sources {
		byTurn[src.Turn] = append(byTurn[src.Turn], contractSource(src))
	}
	out := contract.ListMessages200JSONResponse{Data: []contract.Message{}, HasMore: more, NextCursor: noCursor()}
	for _, m := range list {
		message := contract.Message{
			ID: m.ID, Turn: unlessZero(m.Turn), Role: string(m.Role), Kind: m.Kind, Status: string(m.Status), Text: m.Text,
			Sources: []contract.Source{}, CreatedAt: contract.Time(m.CreatedAt),
		}
		if m.Kind == stoa.KindReply {
			message.Sources = append(message.Sources, byTurn[m.Turn]...)
		}
		out.Data = append(out.Data, message)
		out.NextCursor = p.nextNumber(more, m.Place)
	}
	return out, nil
}

// ListSessionReceipts serves GET …/sessions/{sessionId}/receipts.
func (s *Server) ListSessionReceipts(ctx context.Context, in contract.ListSessionReceiptsRequestObject) (contract.ListSessionReceiptsResponseObject, error) {
	accountID, q := caller(ctx).Account.ID, in.Params
	p, err := newPager(q.Limit, q.Cursor, q.Order, "session receipts", accountID, in.ID, in.SessionID)
	if err != nil {
		return nil, err
	}
	list, more, err := s.Sessions.Receipts(ctx, accountID, in.ID, in.SessionID, p.page)
	if err != nil {
		return nil, err
	}
	out := contract.ListSessionReceipts200JSONResponse{Data: []contract.Receipt{}, HasMore: more, NextCursor: noCursor()}
	for _, r := range list {
		out.Data = append(out.Data, contractReceipt(r))
		out.NextCursor = p.next(more, r.CreatedAt, r.ID)
	}
	return out, nil
}

// ListSessionSources serves GET …/sessions/{sessionId}/sources.
func (s *Server) ListSessionSources(ctx context.Context, in contract.ListSessionSourcesRequestObject) (contract.ListSessionSourcesResponseObject, error) {
	list, err := s.Sessions.Sources(ctx, caller(ctx).Account.ID, in.ID, in.SessionID, in.Params.Turn)
	if err != nil {
		return nil, err
	}
	out := contract.ListSessionSources200JSONResponse{Data: []contract.Source{}}
	for _, src := range list {
		out.Data = append(out.Data, contractSource(src))
	}
	return out, nil
}

func contractSource(s stoa.Source) contract.Source {
	return contract.Source{
		Turn: s.Turn, Path: s.Path, Sha256: s.SHA256, FromLine: unlessZero(s.FromLine), ToLine: unlessZero(s.ToLine), Via: s.Via,
	}
}

// ExportSession serves GET …/sessions/{sessionId}/export.
func (s *Server) ExportSession(ctx context.Context, in contract.ExportSessionRequestObject) (contract.ExportSessionResponseObject, error) {
	// Whether there is such a session is told before the reply begins.
	row, err := s.Sessions.Get(ctx, caller(ctx).Account.ID, in.ID, in.SessionID)
	return sessionExport{ctx: ctx, s: s, session: row, format: orElse(in.Params.Format, session.ExportJSONL)}, err
}

// A sessionExport is written piece by piece.
type sessionExport struct {
	ctx     context.Context
	s       *Server
	session stoa.Session
	format  string
}

// VisitExportSessionResponse writes the reply.
func (e sessionExport) VisitExportSessionResponse(w http.ResponseWriter) error {
	media, name := "application/jsonl", e.session.ID+".jsonl"
	if e.format == session.ExportMarkdown {
		media, name = "text/markdown; charset=utf-8", e.session.ID+".md"
	}
	attach(w.Header(), name)
	w.Header().Set("Content-Type", media)
	err := e.s.Sessions.Export(e.ctx, e.session.AccountID, e.session.AgentID, e.session.ID, e.format, w)
	if err != nil && e.ctx.Err() != nil {
		return errClientGone
	}
	return err
}
