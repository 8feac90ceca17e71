package api

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oapi-codegen/nullable"

	"stoa/internal/agents/session"
	"stoa/internal/base/contract"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/gateway"
	"stoa/internal/models/responses"
)

// exposed returns the agent that the account offers through a protocol under a name or an id.
func exposed(ctx context.Context, tx *store.Tx, account, protocol, name string) (stoa.Agent, error) {
	list, err := tx.Setup().ExposedAgents(ctx, account, protocol, name)
	for _, a := range list {
		if a.ID == name || len(list) == 1 {
			return a, nil
		}
	}
	if err == nil && len(list) > 1 {
		err = stoa.Errorf(stoa.CodeModelNotFound, "%d agents have the name %q. Use an id instead, such as %q.", len(list), name, stoa.AgentModel+list[0].ID).At("model")
	}
	if err == nil {
		err = stoa.Errorf(stoa.CodeModelNotFound, "The account offers no agent %q. An agent is offered as a model with \"expose\": [\"responses\"]; GET /api/v1/models lists those.", name).At("model")
	}
	return stoa.Agent{}, err
}

// agentModels returns the names of the agents that the caller can use as models.
func (s *Calls) agentModels(ctx context.Context, c stoa.Caller) (names []string, err error) {
	if !c.Key.Has("responses") || !c.Key.Has("sessions:write") {
		return nil, nil
	}
	list, err := store.Read(ctx, s.Store, func(tx *store.Tx) ([]stoa.Agent, error) {
		return tx.Setup().ExposedAgents(ctx, c.Account.ID, stoa.ExposeResponses, "")
	})
	count := map[string]int{}
	for _, a := range list {
		count[a.Name]++
	}
	for _, a := range list {
		name := stoa.AgentModel + a.Name
		if count[a.Name] > 1 || utf8.RuneCountInString(name) > maxModelName {
			name = stoa.AgentModel + a.ID
		}
		if allowsAgent(c.Key, a) {
			names = append(names, name)
		}
	}
	return names, err
}

// allowsAgent reports whether a key's list of models has an agent, by its name or its id.
func allowsAgent(k stoa.Key, a stoa.Agent) bool {
	return k.AllowsModel(stoa.AgentModel+a.Name) || k.AllowsModel(stoa.AgentModel+a.ID)
}

// maxModelName is the maximum length of "model" in a request, in characters.
const maxModelName = 128

// A turnCall is a call of an agent as a model: an exchange with one of its sessions. It implements [responses.Source].
type turnCall struct {
	s     *Calls
	in    *rest.Request[rest.None, rest.None]
	w     http.ResponseWriter
	call  *responses.Call
	turn  *responses.Turn
	agent stoa.Agent
	claim *callClaim // nil without an Idempotency-Key

	exchange *session.Exchange
	charge   stoa.Charge // of the exchange, when it has ended
}

// agentCall prepares a call for the agent that its model names.
func (s *Calls) agentCall(w http.ResponseWriter, in *rest.Request[rest.None, rest.None], call *responses.Call, name string) (*turnCall, error) {
	ctx, c := in.HTTP.Context(), in.Caller
	if !c.Key.Has("sessions:write") {
		return nil, stoa.Errorf(stoa.CodeScope, "A call of an agent also requires the scope \"sessions:write\".")
	}
	turn, err := call.Request.Turn()
	if err != nil {
		return nil, err
	}
	if id := in.HTTP.Header.Get(rest.SessionHeader); id != "" {
		turn.Conversation = id
	}
	t := &turnCall{s: s, in: in, w: w, call: call, turn: turn}
	t.agent, err = store.Read(ctx, s.Store, func(tx *store.Tx) (stoa.Agent, error) {
		a, err := exposed(ctx, tx, c.Account.ID, stoa.ExposeResponses, name)
		if err == nil && !allowsAgent(c.Key, a) {
			err = gateway.ErrNotAllowed(c.Key)
		}
		if err != nil {
			return a, err
		}
		return tx.Setup().Agent(ctx, c.Account.ID, a.ID)
	})
	call.Agent = t.begin
	return t, err
}

// begin starts the turn, or finds the one that an earlier request with the Idempotency-Key began.
func (t *turnCall) begin(ctx context.Context) (responses.Source, string, error) {
	ctx = store.Promptly(ctx)
	if t.claim == nil || t.claim.ref == "" {
		if err := t.start(ctx); err != nil {
			return nil, "", err
		}
	} else if id, after, ok := parseResponseID(t.claim.ref); ok {
		t.exchange = &session.Exchange{AccountID: t.in.Caller.Account.ID, SessionID: id, After: after}
	}
	h := t.w.Header()
	h.Set(rest.SessionHeader, t.exchange.SessionID)
	if len(t.turn.Ignored) > 0 {
		h.Set("Stoa-Ignored", strings.Join(t.turn.Ignored, ", "))
	}
	t.call.ID = responseID(t.exchange.SessionID, t.exchange.After)
	t.in.Log.ResponseID = t.call.ID
	return t, t.exchange.SessionID, nil
}

// start starts a session, or sends the message to the one that the call continues, and records the exchange in the claim.
func (t *turnCall) start(ctx context.Context) error {
	c, ss := t.in.Caller, t.s.sessions
	uploads, err := ss.uploads(ctx, c, t.agent.ID, t.turn.Files)
	if err != nil {
		return renamed(err, inModelCall)
	}
	schema, err := session.ReadReplySchema([]byte(t.turn.Schema), "replySchema")
	if err != nil {
		return renamed(err, inModelCall)
	}
	req := session.StartRequest{
		AgentID: t.agent.ID, Message: t.turn.Message, ExternalUserID: t.turn.EndUser, Metadata: t.turn.Metadata, WithholdTools: true,
		Trigger: stoa.Trigger{Type: stoa.ExposeResponses}, Uploads: uploads, MaxOutput: t.turn.MaxOutput, ReplySchema: schema,
	}
	if t.turn.Conversation == "" {
		if err := checkMetadata(req.Metadata); err != nil {
			return err
		}
		if n := t.turn.Trim(store.MaxHistory, ss.Worker.HistoryBytes(t.agent.Model, c.Plan)); n > 0 {
			t.w.Header().Set("Stoa-History-Left-Out", strconv.Itoa(n))
		}
		req.History = t.turn.History
	}
	t.exchange, err = ss.beginExchange(ctx, c, req, t.turn.Conversation, func(tx *store.Tx, row stoa.Session) error {
		if t.claim == nil {
			return nil
		}
		return tx.SetClaimRef(ctx, t.claim.claim, responseID(row.ID, row.LastSeq))
	})
	if err != nil {
		return renamed(err, inModelCall)
	}
	if t.claim != nil {
		t.claim.ref = responseID(t.exchange.SessionID, t.exchange.After)
	}
	return nil
}

// beginExchange starts a session, or sends the message of req to the session that is named. also runs in the same
// transaction.
func (s *Sessions) beginExchange(ctx context.Context, c stoa.Caller, req session.StartRequest, sessionID string, also func(*store.Tx, stoa.Session) error) (*session.Exchange, error) {
	if sessionID == "" {
		if err := s.Worker.CheckCredits(ctx, c, req); err != nil {
			return nil, err
		}
	}
	row, err := store.Write(ctx, s.Store, func(tx *store.Tx) (row stoa.Session, err error) {
		if sessionID == "" {
			row, err = s.Sessions.Start(ctx, tx, c, req)
		} else {
			row, err = s.Sessions.Send(ctx, tx, c, req.AgentID, sessionID, session.SendRequest{Message: req.Message, Reject: true, Uploads: req.Uploads, MaxOutput: req.MaxOutput, ReplySchema: req.ReplySchema, EndUser: req.ExternalUserID})
		}
		if err == nil {
			err = also(tx, row)
		}
		return row, err
	})
	return &session.Exchange{AccountID: c.Account.ID, SessionID: row.ID, After: row.LastSeq, Status: stoa.SessionQueued}, err
}

// inModelCall are the names of the parts of a session in a model call.
var inModelCall = map[string]string{"message": "input", "attachments": "input", "replySchema": "text.format", "agentId": "model"}

// renamed returns an error about a session with the name of that part in another protocol.
func renamed(err error, names map[string]string) error {
	same := *stoa.AsError(err)
	part, _, _ := strings.Cut(same.Param, "[")
	if part == "replySchema" {
		same.Code = stoa.CodeUnsupportedValue
	}
	same.Param = cmp.Or(names[part], same.Param)
	return &same
}

// uploads stores the files of a message to an agent.
func (s *Sessions) uploads(ctx context.Context, c stoa.Caller, agentID string, files []*stoa.Media) (session.Uploads, error) {
	var list []contract.AddAttachment
	for i, f := range files {
		name := f.Name
		if name == "" {
			name = fmt.Sprintf("image-%d.%s", i+1, strings.TrimPrefix(f.Type, "image/"))
		}
		list = append(list, contract.AddAttachment{
			Name: nullable.NewNullableWithValue(name), Content: nullable.NewNullableWithValue(f.Base64), Encoding: nullable.NewNullableWithValue("base64"),
		})
	}
	return s.drive.uploads(ctx, c, agentID, nullable.NewNullableWithValue(list))
}

// background starts the turn and answers with its response object, which GET /api/v1/responses/{id} reads again.
func (t *turnCall) background() error {
	ctx := t.in.HTTP.Context()
	if t.call.Request.Stream {
		return stoa.Errorf(stoa.CodeUnsupportedValue, "A background reply is not streamed. Leave \"stream\" out, and read the reply with GET /api/v1/responses/{id}.").At("stream")
	}
	if _, _, err := t.begin(ctx); err != nil {
		return err
	}
	object := (&responses.Snapshot{
		ID: t.call.ID, Model: t.call.Request.Model, Session: t.exchange.SessionID, Created: time.Now(), Status: "queued", Background: true,
	}).Object(t.call.Request)
	if t.claim != nil {
		finish := t.claim.Finish(t.call.ID, object)
		if err := t.s.Store.Write(ctx, func(tx *store.Tx) error { return finish(ctx, tx) }); err != nil {
			return err
		}
		t.claim.Finished()
	}
	t.w.Header().Set("Content-Type", "application/json")
	_, _ = t.w.Write(object) // ignored, because the caller may have disconnected
	return nil
}

// Events implements [responses.Source].
func (t *turnCall) Events(ctx context.Context) iter.Seq2[*stoa.Event, error] {
	return func(yield func(*stoa.Event, error) bool) {
		if !yield(&stoa.Event{Kind: stoa.Started}, nil) {
			return
		}
		for text, err := range t.s.sessions.Sessions.Follow(ctx, t.exchange) {
			if err != nil || !yield(&stoa.Event{Kind: stoa.Delta, Text: text}, nil) {
				if err != nil {
					yield(nil, err)
				}
				return
			}
		}
		if err := t.end(context.WithoutCancel(ctx)); err != nil {
			yield(nil, err)
			return
		}
		if text := t.s.sessions.waits(t.exchange); text != "" && !yield(&stoa.Event{Kind: stoa.Delta, Text: text}, nil) {
			return
		}
		yield(&stoa.Event{Kind: stoa.Finished, Stop: stopOf(t.exchange), Usage: t.charge.Usage, HasUsage: true}, nil)
	}
}

// end reads the charges of an exchange that has ended, and returns the error of a turn that failed.
func (t *turnCall) end(ctx context.Context) error {
	x := t.exchange
	if err := t.sum(ctx); err != nil || x.Status != stoa.SessionFailed && x.Status != stoa.SessionCancelled {
		return err
	}
	if t.claim != nil {
		t.claim.failed = true
	}
	return turnError(x, t.charge.Amount > 0)
}

// sum reads the charges of the exchange so far.
func (t *turnCall) sum(ctx context.Context) (err error) {
	t.charge, err = t.s.sessions.Sessions.Charges(ctx, t.exchange)
	t.charge.ID, t.charge.Asked, t.charge.Served = t.call.ID, t.call.Request.Model, t.call.Request.Model
	return err
}

// stopOf returns the reason why the reply of an exchange ended.
func stopOf(x *session.Exchange) stoa.Stop {
	switch x.Reason {
	case "length":
		return stoa.StopLength
	case "content_filter":
		return stoa.StopContentFilter
	}
	return stoa.StopEnd
}

// waits returns the text that says what a session waits for, if it is not a question to the user.
func (s *Sessions) waits(x *session.Exchange) string {
	text := ""
	if x.Status == stoa.SessionWaiting && (x.Input == stoa.InputToolApproval || x.Input == stoa.InputToolConfirmation) {
		text = fmt.Sprintf("I need an approval before I can go on. It can be decided at %s. After that, continue the conversation %s.", s.decidedAt(), x.SessionID)
		if x.Text != "" {
			text = "\n\n" + text
		}
	}
	return text
}

// decidedAt returns the address of the page on which approvals are decided.
func (s *Sessions) decidedAt() string { return s.PublicURL + "/console#/tool-calls" }

// turnError returns the error of a turn that failed or was cancelled.
func turnError(x *session.Exchange, charged bool) error {
	e := stoa.Errorf(stoa.CodeSessionFinished, "The turn of the agent was cancelled.")
	if f := x.Failure; x.Status == stoa.SessionFailed && f != nil {
		code := f.Code
		if contract.Code(code).Code != code { // because clients do not know the codes of turns
			code = stoa.CodeUpstream
		}
		e = stoa.Errorf(code, "%s", f.Message)
	}
	if charged {
		e = e.AfterCharge()
	}
	return e
}

// Due implements [responses.Source].
func (t *turnCall) Due() stoa.Charge { return t.charge }

// Settle stores the reply under its Idempotency-Key. The steps of the turn are charged already.
func (t *turnCall) Settle(ctx context.Context, also ...func(context.Context, *store.Tx) error) (stoa.Charge, error) {
	if len(also) == 0 {
		return t.charge, nil
	}
	if t.claim != nil {
		t.claim.amount = t.charge.Amount
	}
	return t.charge, t.s.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		for _, fn := range also {
			if err := fn(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// Abandon cancels the turn, because its caller has disconnected.
func (t *turnCall) Abandon(ctx context.Context, _ ...func(context.Context, *store.Tx) error) (stoa.Charge, error) {
	ctx = context.WithoutCancel(ctx)
	ss, x := t.s.sessions.Sessions, t.exchange
	if _, err := ss.Cancel(ctx, t.in.Caller, t.agent.ID, x.SessionID); err != nil {
		return stoa.Charge{}, err
	}
	if t.claim != nil {
		t.claim.failed = true
	}
	got, err := ss.Read(ctx, x.AccountID, x.SessionID, x.After)
	if err != nil {
		return stoa.Charge{}, err
	}
	t.exchange = got
	if err := t.sum(ctx); err != nil || t.charge.Amount == 0 {
		return stoa.Charge{}, err
	}
	return t.charge, nil
}

// Pin implements [responses.Source].
func (t *turnCall) Pin() string { return t.call.Request.Model }

// Reason implements [responses.Source].
func (t *turnCall) Reason() string { return "" }

// Lowered implements [responses.Source].
func (t *turnCall) Lowered() bool { return false }

// Tried implements [responses.Source].
func (t *turnCall) Tried() (model, provider string, attempts int) {
	return t.call.Request.Model, "", 1
}

// Close implements [responses.Source].
func (t *turnCall) Close() {}

// responseID returns the id of the response to a message: it contains the session and the number of the message's last
// event, so that nothing has to be stored about it. The letter z is not part of ids.
func responseID(sessionID string, after int64) string {
	return "resp_" + strings.TrimPrefix(sessionID, "ses_") + "z" + strconv.FormatInt(after, 10)
}

func parseResponseID(id string) (sessionID string, after int64, ok bool) {
	rest, ok := strings.CutPrefix(id, "resp_")
	random, number, found := strings.Cut(rest, "z")
	after, err := strconv.ParseInt(number, 10, 64)
	return "ses_" + random, after, ok && found && err == nil && after > 0
}

// findExchange returns the exchange of a response, and the model that its caller named.
func (s *Calls) findExchange(ctx context.Context, c stoa.Caller, id string, scopes ...string) (x *session.Exchange, row stoa.Session, err error) {
	if !slices.ContainsFunc(scopes, c.Key.Has) {
		return nil, row, stoa.Errorf(stoa.CodeScope, "This request also requires the scope %q, because a reply of an agent belongs to a session.", scopes[0])
	}
	sessionID, after, ok := parseResponseID(id)
	row, err = s.sessions.Sessions.Find(ctx, c.Account.ID, sessionID)
	if err == nil && !ok || stoa.CodeOf(err) == stoa.CodeSessionNotFound || err == nil && after > row.LastSeq {
		return nil, row, stoa.Errorf(stoa.CodeNotFound, "There is no such response. Those of models are not stored; those of agents are kept with their session.").At("id")
	}
	if err != nil {
		return nil, row, err
	}
	x, err = s.sessions.Sessions.Read(ctx, c.Account.ID, sessionID, after)
	return x, row, err
}

// getResponse serves GET /api/v1/responses/{id}.
func (s *Calls) getResponse(w http.ResponseWriter, in *rest.Request[byID, rest.None]) error {
	ctx := in.HTTP.Context()
	x, row, err := s.findExchange(ctx, in.Caller, in.Params.ID, "sessions:read", "sessions:write")
	if err != nil {
		return err
	}
	return s.sendResponse(ctx, w, in.Params.ID, x, row)
}

// cancelResponse serves POST /api/v1/responses/{id}/cancel.
func (s *Calls) cancelResponse(w http.ResponseWriter, in *rest.Request[byID, rest.None]) error {
	ctx, ss := in.HTTP.Context(), s.sessions.Sessions
	x, row, err := s.findExchange(ctx, in.Caller, in.Params.ID, "sessions:write")
	if err == nil && !x.Ended() {
		if _, err = ss.Cancel(ctx, in.Caller, row.AgentID, row.ID); err == nil {
			x, err = ss.Read(ctx, x.AccountID, x.SessionID, x.After)
		}
	}
	if err != nil {
		return err
	}
	return s.sendResponse(ctx, w, in.Params.ID, x, row)
}

// sendResponse answers with the state of an exchange as a response object.
func (s *Calls) sendResponse(ctx context.Context, w http.ResponseWriter, id string, x *session.Exchange, row stoa.Session) error {
	agent, err := store.Read(ctx, s.Store, func(tx *store.Tx) (stoa.Agent, error) { return tx.Setup().Agent(ctx, row.AccountID, row.AgentID) })
	if err != nil {
		return err
	}
	out := responses.Snapshot{ID: id, Model: stoa.AgentModel + agent.Name, Session: x.SessionID, Created: row.Turn.CreatedAt, Completed: x.EndedAt, Background: true, Status: "in_progress", Text: x.Text}
	switch {
	case x.Status == stoa.SessionFailed:
		out.Status, out.Failure = "failed", cmp.Or(x.Failure, &stoa.Failure{Code: stoa.CodeUpstream})
	case x.Status == stoa.SessionCancelled:
		out.Status = "cancelled"
	case x.Ended():
		out.Status, out.Stop = "completed", stopOf(x)
		out.Text += s.sessions.waits(x)
	case x.Status == stoa.SessionQueued:
		out.Status = "queued"
	}
	charge, err := s.sessions.Sessions.Charges(ctx, x)
	if err != nil {
		return err
	}
	if x.Ended() {
		out.Usage = &charge.Usage
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set(rest.SessionHeader, x.SessionID)
	h.Set("Stoa-Charge-Micro", strconv.FormatInt(int64(charge.Amount), 10))
	_, _ = w.Write(out.Object(nil)) // ignored, because the caller may have disconnected
	return nil
}
