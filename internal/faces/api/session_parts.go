package api

import (
	"context"
	"math"
	"net/http"

	"stoa/internal/agents/agent"
	"stoa/internal/agents/session"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

func (s *Sessions) listTurns(ctx context.Context, in rest.Request[sessionAnd[contract.ListTurnsParams], rest.None]) (rest.Reply[rest.Page[contract.Turn]], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, orElse(q.Order, "asc"), "turns", accountID, in.Params.ID, in.Params.SessionID)
	list, more, err := s.Sessions.Turns(ctx, accountID, in.Params.ID, in.Params.SessionID, p.Number(), p.Page.Limit, !p.Page.Asc)
	return rest.PageOf(p, list, more, err, contractTurn, func(t stoa.Turn) store.Cursor { return rest.Numbered(t.Number) })
}

func contractTurn(t stoa.Turn) contract.Turn {
	return contract.Turn{
		ID: t.ID, Number: t.Number, Status: string(t.Status), StatusReason: nullIfZero(t.Reason), Attempt: t.Attempt,
		MessageID: t.MessageID, RetryOf: nullIfZero(t.RetryOf), Error: contractFailure(t.Failure), CreditsMicro: int64(t.Spent),
		CreatedAt: contract.Time(t.CreatedAt), StartedAt: nullIfNever(t.StartedAt), FinishedAt: nullIfNever(t.FinishedAt), DeadlineAt: nullIfNever(t.DeadlineAt),
	}
}

func (s *Sessions) listMessages(ctx context.Context, in rest.Request[sessionAnd[contract.ListMessagesParams], rest.None]) (rest.Reply[rest.Page[contract.Message]], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, orElse(q.Order, "asc"), "messages", accountID, in.Params.ID, in.Params.SessionID)
	list, more, err := s.Sessions.Messages(ctx, accountID, in.Params.ID, in.Params.SessionID, p.Number(), p.Page.Limit, !p.Page.Asc)
	if err != nil {
		return rest.Reply[rest.Page[contract.Message]]{}, err
	}
	byTurn, ratings := map[int64][]contract.Source{}, map[string][]contract.MessageFeedback{}
	if first, last := turnsOf(list); last > 0 {
		rated, err := s.Sessions.Feedback(ctx, accountID, in.Params.ID, in.Params.SessionID, first, last)
		if err != nil {
			return rest.Reply[rest.Page[contract.Message]]{}, err
		}
		for _, r := range rated {
			ratings[r.MessageID] = append(ratings[r.MessageID], contractFeedback(r))
		}
		sources, err := s.Sessions.Sources(ctx, accountID, in.Params.ID, in.Params.SessionID, first, last, maxSources)
		if err != nil {
			return rest.Reply[rest.Page[contract.Message]]{}, err
		}
		for _, src := range sources {
			byTurn[src.Turn] = append(byTurn[src.Turn], contractSource(src))
		}
	}
	return rest.PageOf(p, list, more, err, func(m store.MessageRow) contract.Message {
		message := contract.Message{
			ID: m.ID, Turn: nullIfZero(m.Turn), Role: string(m.Role), Kind: m.Kind, Status: string(m.Status), Text: m.Text,
			Sources: []contract.Source{}, Attachments: contractAttachments(m.Attachments), CreatedAt: contract.Time(m.CreatedAt),
			Feedback: ratings[m.ID],
		}
		if m.Kind == stoa.KindReply {
			message.Sources = append(message.Sources, byTurn[m.Turn]...)
		}
		return message
	}, func(m store.MessageRow) store.Cursor { return rest.Numbered(m.Place) })
}

// turnsOf returns the first and the last turn of the replies in a list; 0 without replies.
func turnsOf(list []store.MessageRow) (first, last int64) {
	for _, m := range list {
		if m.Kind != stoa.KindReply || m.Turn == 0 {
			continue
		}
		if first == 0 || m.Turn < first {
			first = m.Turn
		}
		last = max(last, m.Turn)
	}
	return first, last
}

type getStepParams struct {
	bySessionID
	StepID string `path:"stepId"`
}

// maxStepInput is the maximum length of a text of a step's input, in bytes.
const maxStepInput = 64 << 10

func (s *Sessions) getStep(ctx context.Context, in rest.Request[getStepParams, rest.None]) (rest.Reply[contract.SessionStep], error) {
	q := in.Params
	st, err := s.Sessions.Step(ctx, in.Caller.Account.ID, q.ID, q.SessionID, q.StepID)
	if err != nil {
		return rest.Reply[contract.SessionStep]{}, err
	}
	out := contract.SessionStep{
		ID: q.StepID, Turn: st.Turn, Step: st.Number, Text: st.Text, ReasoningSegments: len(st.Reasoning), Stop: nullIfZero(string(st.Stop)),
		CreatedAt: contract.Time(st.CreatedAt), Input: []contract.StepInput{}, Calls: []contract.StepCall{}, Receipt: nullIfNil(st.Receipt, contractReceipt),
	}
	add := func(role, text string, r stoa.ToolResult) {
		cut := session.Cut(text, maxStepInput)
		out.Input = append(out.Input, contract.StepInput{
			Role: role, Text: cut, Truncated: len(cut) < len(text), CallID: nullIfZero(r.CallID), Name: nullIfZero(r.Name), IsError: r.IsError,
		})
	}
	if st.Number == 1 {
		add("user", st.Message, stoa.ToolResult{})
	}
	for _, r := range st.Results {
		add("tool", r.Content, r)
	}
	request, err := s.Worker.Sent(ctx, in.Caller.Account.ID, q.ID, q.SessionID, st.Turn, st.Number)
	if err != nil {
		return rest.Reply[contract.SessionStep]{}, err
	}
	if request != nil && st.Receipt != nil {
		request.Scale(st.Receipt.Usage.InputTokens, st.Receipt.Usage.CachedTokens)
	}
	out.Request = nullIfNil(request, contractStepRequest)
	for _, c := range st.Calls {
		c = c.Meant()
		out.Calls = append(out.Calls, contract.StepCall{CallID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	return rest.Reply[contract.SessionStep]{Body: out}, nil
}

func contractStepRequest(r agent.Request) contract.StepRequest {
	out := contract.StepRequest{Exact: r.Exact, Differs: append([]string{}, r.Differs...), Note: nullIfZero(r.Note), Parts: []contract.RequestPart{}}
	for _, p := range r.Parts {
		part := contract.RequestPart{
			Kind: p.Kind, Role: p.Role, Type: p.Type, Turn: nullIfZero(p.Turn), Step: nullIfZero(p.Step), New: p.New, Name: nullIfZero(p.Name), CallID: nullIfZero(p.CallID),
			IsError: p.IsError, Text: p.Text, Truncated: p.Truncated, Missing: p.Missing, Files: []contract.RequestFile{}, Tokens: p.Tokens, CachedTokens: p.Cached,
		}
		for _, f := range p.Files {
			part.Files = append(part.Files, contract.RequestFile{Path: f.Path, Sha256: f.SHA256, Lines: nullIfZero(f.Lines)})
		}
		out.Parts = append(out.Parts, part)
	}
	return out
}

func (s *Sessions) listSessionReceipts(ctx context.Context, in rest.Request[sessionAnd[contract.ListSessionReceiptsParams], rest.None]) (rest.Reply[rest.Page[contract.Receipt]], error) {
	accountID, q := in.Caller.Account.ID, in.Params.Query
	p := rest.NewPager(q.Limit, q.Cursor, q.Order, "session receipts", accountID, in.Params.ID, in.Params.SessionID)
	n := namesOf(accountID)
	list, more, err := s.Sessions.Receipts(ctx, accountID, in.Params.ID, in.Params.SessionID, p.Page)
	for _, r := range list {
		n.addOfReceipt(r)
	}
	return rest.PageOf(p, list, more, n.load(ctx, s.Store, err), n.receipt, func(r store.Receipt) store.Cursor { return store.Cursor{At: r.CreatedAt, ID: r.ID} })
}

// maxSources limits the sources in a list and in a page of messages, because every list of a reply needs a maximum.
const maxSources = 10_000

func (s *Sessions) listSessionSources(ctx context.Context, in rest.Request[sessionAnd[contract.ListSessionSourcesParams], rest.None]) (rest.Reply[contract.SourceList], error) {
	first, last := in.Params.Query.Turn, in.Params.Query.Turn
	if in.Params.Query.Turn == 0 {
		last = math.MaxInt64
	}
	list, err := s.Sessions.Sources(ctx, in.Caller.Account.ID, in.Params.ID, in.Params.SessionID, first, last, maxSources)
	out := contract.SourceList{Data: []contract.Source{}}
	for _, src := range list {
		out.Data = append(out.Data, contractSource(src))
	}
	return rest.Reply[contract.SourceList]{Body: out}, err
}

func contractSource(s stoa.Source) contract.Source {
	return contract.Source{
		Turn: s.Turn, Path: s.Path, Sha256: s.SHA256, FromLine: nullIfZero(s.FromLine), ToLine: nullIfZero(s.ToLine),
		Place: nullIfZero(s.Place), Via: s.Via,
	}
}

func (s *Sessions) exportSession(w http.ResponseWriter, in *rest.Request[sessionAnd[contract.ExportSessionParams], rest.None]) error {
	ctx, q := in.HTTP.Context(), in.Params.Query
	// A missing session must be reported before the reply begins, because the status cannot change afterwards.
	row, err := s.Sessions.Get(ctx, in.Caller.Account.ID, in.Params.ID, in.Params.SessionID)
	if err != nil {
		return err
	}
	format, media, name := session.ExportJSONL, "application/jsonl", row.ID+".jsonl"
	if q.Format == session.ExportMarkdown {
		format, media, name = session.ExportMarkdown, "text/markdown; charset=utf-8", row.ID+".md"
	}
	attach(w.Header(), name)
	w.Header().Set("Content-Type", media)
	err = s.Sessions.Export(ctx, row.AccountID, row.AgentID, row.ID, format, w)
	if err != nil && ctx.Err() != nil {
		return stoa.ErrClientGone
	}
	return err
}
