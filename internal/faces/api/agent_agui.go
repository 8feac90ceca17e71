package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"stoa/internal/agents/agui"
	"stoa/internal/agents/session"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/rest"
	"stoa/internal/base/sse"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/responses"
)

// An agentRun is a run of an agent in the Agent-User Interaction Protocol: an exchange with a session, whose external id is
// that of the thread.
type agentRun struct {
	s     *Sessions
	w     http.ResponseWriter
	r     *http.Request
	c     stoa.Caller
	in    *agui.Input
	agent stoa.Agent

	attached bool // an earlier request has begun it
	leftOut  int  // earlier messages that the history of a new session does not contain
	exchange *session.Exchange
}

// runAgent serves POST /api/v1/api-agents/{id}/ag-ui.
func (s *Sessions) runAgent(w http.ResponseWriter, in *rest.Request[byID, rest.None]) error {
	body, err := s.ReadBody(w, in.HTTP)
	if err != nil {
		return err
	}
	input, err := rest.InTurn(s.Base, w, body, func(body []byte) (*agui.Input, error) {
		checked, err := rest.CheckBody(w, body)
		if err != nil {
			return nil, err
		}
		return agui.Read(checked)
	})
	if err != nil {
		return err
	}
	c := in.Caller
	leave, err := s.enterStream(c.Key.Root(), s.Limits.EventStreamsPerKey, c.Account.ID, s.Limits.EventStreamsPerAccount)
	if err != nil {
		return err
	}
	defer leave()
	run := &agentRun{s: s, w: w, r: in.HTTP, c: c, in: input}
	if err := run.begin(in.HTTP.Context(), in.Params.ID); err != nil {
		return err
	}
	return run.serve(in.HTTP.Context())
}

// begin starts the turn of the run, or finds the one that an earlier request has started. The claim on the run and the
// turn are one transaction, so that there is at most one turn, whatever fails.
func (r *agentRun) begin(ctx context.Context, agentID string) error {
	account := r.c.Account.ID
	known := false
	err := r.s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if r.agent, err = tx.Setup().Agent(ctx, account, agentID); err == nil {
			_, known, err = tx.Work().SessionWithExternalID(ctx, account, r.in.ThreadID)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !slices.Contains(r.agent.Expose, stoa.ExposeAGUI) || !allowsAgent(r.c.Key, r.agent) {
		return stoa.Errorf(stoa.CodeAgentNotFound, "The agent is not offered to front ends. An agent is offered with \"expose\": [\"agui\"]; a key with a list of models must name it.").At("id")
	}
	if err := r.checkTools(); err != nil {
		return err
	}
	req, message := r.request(ctx)
	if message == nil && !known {
		message = r.s.Worker.CheckCredits(ctx, r.c, req)
	}
	key := store.IdempotencyKey{AccountID: account, Method: http.MethodPost, Path: r.r.URL.Path, Key: rest.BodyHash(fmt.Appendf(nil, "%q %q", r.in.ThreadID, r.in.RunID))}
	ref, err := store.Write(ctx, r.s.Store, func(tx *store.Tx) (string, error) {
		claim, earlier, claimed, err := tx.ClaimKey(ctx, key, "") // without a hash, because a client that attaches sends what it has of the run
		if err != nil || !claimed {
			r.attached = true
			return earlier.Ref, err
		}
		r.attached = false
		x, err := r.start(ctx, tx, req, message)
		if err != nil {
			return "", renamed(err, inRun)
		}
		ref := responseID(x.SessionID, x.After)
		return ref, tx.FinishClaim(ctx, claim, store.Reply{Ref: ref, Status: http.StatusOK})
	})
	if err != nil {
		return err
	}
	if r.leftOut > 0 && !known && !r.attached {
		r.w.Header().Set("Stoa-History-Left-Out", strconv.Itoa(r.leftOut))
	}
	id, after, _ := parseResponseID(ref)
	r.exchange = &session.Exchange{AccountID: account, SessionID: id, After: after, Status: stoa.SessionQueued}
	return nil
}

// checkTools checks that the front end's tools are client tools of the agent.
func (r *agentRun) checkTools() error {
	for i, t := range r.in.Tools {
		if !slices.ContainsFunc(r.agent.Tools, func(own stoa.AgentTool) bool { return own.Type == stoa.ToolClient && own.Name == t.Name }) {
			return stoa.Errorf(stoa.CodeInvalidValue, "The agent has no client tool %q. Add it to the \"tools\" of the agent, in the console or with PATCH /api/v1/api-agents/{id}.", t.Name).At(fmt.Sprintf("tools[%d].name", i))
		}
	}
	return nil
}

// request returns the request for a new session; the message also serves for a known one. Its error counts only if the
// run is new: a client that attaches may send the beginning of the answer as its last message.
func (r *agentRun) request(ctx context.Context) (req session.StartRequest, err error) {
	req = session.StartRequest{AgentID: r.agent.ID, ExternalID: r.in.ThreadID, WithholdTools: len(r.in.Tools) == 0, Trigger: stoa.Trigger{Type: stoa.ExposeAGUI}}
	if len(r.in.Resume) > 0 || r.in.Role() == "tool" {
		return req, nil
	}
	m, err := r.in.Message()
	if err != nil {
		return req, err
	}
	req.Message = m.Text
	turn := responses.Turn{History: m.History}
	r.leftOut = turn.Trim(store.MaxHistory, r.s.Worker.HistoryBytes(r.agent.Model, r.c.Plan))
	req.History = turn.History
	req.Uploads, err = r.s.uploads(ctx, r.c, r.agent.ID, m.Files)
	return req, err
}

// start starts a session, or continues the one of the thread. message is the error of the message, if it has one.
func (r *agentRun) start(ctx context.Context, tx *store.Tx, req session.StartRequest, message error) (*session.Exchange, error) {
	ss := r.s.Sessions
	row, known, err := tx.Work().SessionWithExternalID(ctx, r.c.Account.ID, r.in.ThreadID)
	began := func(s stoa.Session, err error) (*session.Exchange, error) {
		return &session.Exchange{SessionID: s.ID, After: s.LastSeq}, err
	}
	switch {
	case err != nil:
		return nil, err
	case message != nil:
		return nil, message
	case !known && req.Message == "":
		return nil, stoa.Errorf(stoa.CodeSessionNotFound, "The thread is unknown. Begin it with a message of the user.").At("threadId")
	case !known:
		return began(ss.Start(ctx, tx, r.c, req))
	case row.AgentID != r.agent.ID:
		return nil, stoa.Errorf(stoa.CodeConflict, "The thread belongs to a session of another agent. Use another id.").At("threadId")
	case len(r.in.Tools) > 0 && slices.ContainsFunc(row.Withheld, func(w stoa.Withheld) bool { return w.Reason == stoa.WithheldCaller }):
		return nil, stoa.Errorf(stoa.CodeInvalidValue, "The thread began without tools and cannot get them later. Begin another one.").At("tools")
	case req.Message != "":
		return began(ss.Send(ctx, tx, r.c, r.agent.ID, row.ID, session.SendRequest{Message: req.Message, Reject: true, Uploads: req.Uploads}))
	case len(r.in.Resume) > 0:
		return r.resume(ctx, tx, row.Session)
	}
	answer, err := r.outputs(row.Session)
	if err != nil {
		return nil, err
	}
	return began(ss.Answer(ctx, tx, r.c, r.agent.ID, row.ID, answer))
}

// outputs returns the outputs of the pending calls. All are required, because the protocol has no event for a run that
// waits for the rest.
func (r *agentRun) outputs(row stoa.Session) (out session.AnswerRequest, err error) {
	in := row.Pending
	if in == nil || in.Kind != stoa.InputToolCall {
		return out, stoa.Errorf(stoa.CodeNotWaiting, "The session does not wait for outputs of tool calls.").At("messages")
	}
	out.InputID = in.ID
	for _, c := range in.Calls {
		if !c.Open() {
			continue
		}
		text, isError, ok, err := r.in.Output(c.ID)
		if err != nil {
			return out, err
		}
		if !ok {
			return out, stoa.Errorf(stoa.CodeInvalidValue, "The call %s of %q has no output. Send the outputs of all pending calls together.", c.ID, c.Tool).At("messages")
		}
		out.Outputs = append(out.Outputs, session.Output{CallID: c.ID, Text: text, IsError: isError})
	}
	return out, nil
}

// resume answers the interrupt of the last run, or cancels its turn.
func (r *agentRun) resume(ctx context.Context, tx *store.Tx, row stoa.Session) (*session.Exchange, error) {
	resume := r.in.Resume[0]
	input, seq, approval := agui.ParseApprovalID(resume.InterruptID)
	if !approval {
		input = resume.InterruptID
	}
	in, found, err := tx.Work().Input(ctx, row.ID, input)
	x := &session.Exchange{SessionID: row.ID, After: row.LastSeq}
	switch {
	case err != nil:
		return nil, err
	case !found || seq > row.LastSeq:
		return nil, stoa.Errorf(stoa.CodeNotFound, "The thread has no such interrupt.").At("inputId")
	case resume.Status == "cancelled":
		_, err := r.s.Sessions.CancelIn(ctx, tx, r.c, r.agent.ID, row.ID)
		return x, err
	case approval: // which others decide; the run has the events since the session began to wait
		if len(resume.Payload) > 0 && string(resume.Payload) != "null" {
			return nil, stoa.Errorf(stoa.CodeUnsupportedValue, "The approval is decided at %s, or with a key that has the scope %q. Resume it without a payload; the run waits for the decision.", r.s.decidedAt(), session.ScopeApprovals).At("resume[0].payload")
		}
		x.After = seq
		return x, nil
	}
	req := session.AnswerRequest{InputID: input}
	answer, err := resume.Answer()
	if err != nil {
		return nil, err
	}
	switch in.Kind {
	case stoa.InputChoice:
		req.Choice = answer
	case stoa.InputApproval:
		req.Decision = answer
	default:
		req.Answer = answer
	}
	row, err = r.s.Sessions.Answer(ctx, tx, r.c, r.agent.ID, row.ID, req)
	x.After = row.LastSeq
	return x, err
}

// inRun are the names of the parts of a session in a run.
var inRun = map[string]string{
	"message": "messages", "attachments": "messages", "outputs": "messages", "externalId": "threadId", "agentId": "id",
	"inputId": "resume[0].interruptId", "answer": "resume[0].payload", "choice": "resume[0].payload", "decision": "resume[0].payload",
}

// errRunGoesOn ends a stream when the service stops.
var errRunGoesOn = stoa.Errorf(stoa.CodeOverloaded, "The service is stopping; the turn of the agent continues. Run again with the same runId to attach to it.")

// serve streams the events of the run.
func (r *agentRun) serve(ctx context.Context) error {
	x := r.exchange
	row, err := r.s.Sessions.Find(ctx, x.AccountID, x.SessionID)
	if err != nil {
		return err
	}
	e := r.encoder(ctx)
	first := []agui.Event{e.Start()}
	if r.attached {
		produced, err := r.produced(ctx)
		if err != nil {
			return err
		}
		first = append(first, agui.Event{Type: agui.MessagesSnapshot, Messages: r.in.Without(produced)})
	}
	h := r.w.Header()
	h.Set(rest.SessionHeader, x.SessionID)
	if ignored := r.in.Ignored(); len(ignored) > 0 {
		h.Set("Stoa-Ignored", strings.Join(ignored, ", "))
	}
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	out := &sessionStream{s: r.s, w: r.w, rc: http.NewResponseController(r.w), watched: time.Now(), mayWatch: func() bool { return r.s.mayWatch(r.r, "sessions:write") }}
	if row.LastSeq == x.After && row.Status.Ended() { // it cancelled a turn that had ended already
		x.Status = stoa.SessionCancelled
		return sendRun(out, append(first, r.end(ctx, e)...))
	}
	if err := sendRun(out, first); err != nil {
		return err
	}
	r.in, first = nil, nil // because a stream can be long, and its request large
	for ev, err := range r.s.Sessions.Events(ctx, session.EventsRequest{AccountID: x.AccountID, SessionID: x.SessionID, After: x.After, Follow: true, Heartbeat: watchEvery}) {
		var events []agui.Event
		if err == nil && ev.Seq > 0 {
			events, err = addEvent(e, x, ev)
		}
		if err == nil && !x.Status.Stopped() {
			err = r.mayGoOn(out)
		}
		switch {
		case errors.Is(err, context.Canceled):
			return stoa.ErrClientGone
		case err != nil:
			return sendRun(out, append(events, e.Break(err)...))
		case x.Status.Stopped():
			return sendRun(out, append(events, r.end(ctx, e)...))
		case len(events) > 0:
			err = sendRun(out, events)
		case time.Since(out.wrote) >= cmp.Or(r.s.Heartbeat, heartbeat):
			err = out.beat()
		}
		if err != nil {
			return stoa.ErrClientGone
		}
	}
	return sendRun(out, e.Break(stoa.Errorf(stoa.CodeSessionNotFound, "The session was deleted.")))
}

// mayGoOn checks at intervals whether the stream may continue.
func (r *agentRun) mayGoOn(out *sessionStream) error {
	now := time.Now()
	if now.Sub(out.watched) < watchEvery {
		return nil
	}
	out.watched = now
	switch {
	case r.s.IsDraining():
		return errRunGoesOn
	case !out.mayWatch():
		return stoa.Errorf(stoa.CodeUnauthorized, "The key is no longer valid. The turn of the agent continues.")
	}
	return nil
}

func (r *agentRun) encoder(ctx context.Context) *agui.Encoder {
	return &agui.Encoder{ThreadID: r.in.ThreadID, RunID: r.in.RunID, Arguments: func(id string) (string, error) {
		call, err := store.Read(ctx, r.s.Store, func(tx *store.Tx) (stoa.ExternalCall, error) { return tx.Work().ToolCall(ctx, r.c.Account.ID, id) })
		return call.Arguments, err
	}}
}

func addEvent(e *agui.Encoder, x *session.Exchange, ev stoa.SessionEvent) ([]agui.Event, error) {
	if _, err := x.Add(ev); err != nil {
		return nil, err
	}
	return e.Add(ev)
}

// produced returns the ids of the messages of the run so far.
func (r *agentRun) produced(ctx context.Context) (map[string]bool, error) {
	x := *r.exchange
	e := r.encoder(ctx)
	ids := map[string]bool{}
	for after, more := x.After, true; more && !x.Status.Stopped(); {
		list, rest, err := r.s.Sessions.Log(ctx, x.AccountID, "", x.SessionID, after, defaultEventPage)
		if err != nil {
			return nil, err
		}
		more = rest
		for _, ev := range list {
			events, err := addEvent(e, &x, ev)
			if err != nil {
				return nil, err
			}
			for _, out := range events {
				ids[out.MessageID], ids[out.ToolCallID] = true, true // the client gives a call without a message one with the call's id
			}
			if after = ev.Seq; x.Status.Stopped() {
				break
			}
		}
	}
	delete(ids, "")
	return ids, nil
}

// end returns the last events of a run whose session has stopped.
func (r *agentRun) end(ctx context.Context, e *agui.Encoder) []agui.Event {
	charge, err := r.s.Sessions.Charges(ctx, r.exchange)
	if err != nil {
		return e.Break(err)
	}
	return e.Finish(r.exchange, fmt.Sprintf("It can be decided at %s.", r.s.decidedAt()), agui.UsageOf(charge.Usage))
}

// sendRun writes events of a run.
func sendRun(out *sessionStream, events []agui.Event) error {
	for _, ev := range events {
		text, err := jsonx.Marshal(ev)
		if err != nil {
			return err
		}
		out.buf = sse.AppendEnd(append(sse.AppendHead(out.buf, ""), text...))
	}
	if err := out.send(); err != nil {
		return stoa.ErrClientGone
	}
	return nil
}
