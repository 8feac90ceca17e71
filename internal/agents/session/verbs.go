package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"stoa/internal/agents/tool"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// A StartRequest describes a session to start. AgentID and Message are required.
type StartRequest struct {
	ID             string // empty means a new session
	AgentID        string
	Message        string
	Mode           stoa.SessionMode // empty means chat
	ExternalID     string
	ExternalUserID string
	Title          string // empty means the beginning of the message
	Metadata       map[string]string
	Limits         stoa.TurnLimits // only lower than the agent's, or zero
	Trigger        stoa.Trigger    // an empty type means api
	// Timezone is the IANA name of the zone in which the agent is told the time; empty or
	// unknown means the agent's.
	Timezone      string
	ScheduledFor  time.Time
	WithholdTools bool // do not offer tools of programs of the account
	// Credentials are the session's own secrets for connections. CredentialsOf is the id of
	// the task, script tag or link whose secrets it receives too.
	Credentials   tool.Credentials
	CredentialsOf string
	// Draft changes instructions, model, drive access or limits of the agent for this session
	// only; nil means no change. Start returns its error.
	Draft   func(*stoa.Agent) error
	Version int64  // of the agent; 0 means the newest
	Line    string // see [store.QueuedSession]
	// Uploads are the files of the message.
	Uploads Uploads
	// History are earlier messages that the caller reports: texts of the user and the assistant, the oldest first.
	History   []stoa.SessionMessage
	MaxOutput int64 // see [stoa.Turn]
	// ReplySchema is the schema of the session's answers, checked and in its shortest form; empty means that of the agent.
	ReplySchema string
}

// Start begins a session. Once tx has committed, the session is stored and will be run even
// if this process dies. Start does not check whether it can be paid (agent's
// Worker.CheckCredits does): a session that cannot be paid fails and says why.
//
// Start fails with [stoa.CodeAgentNotFound]; [stoa.CodeTooManySessions] if too many sessions
// of the account are queued; [stoa.CodeConflict] for an external id that is in use;
// [stoa.CodeInvalidMode] or [stoa.CodeInvalidValue].
func (s *Sessions) Start(ctx context.Context, tx *store.Tx, c stoa.Caller, req StartRequest) (stoa.Session, error) {
	if err := s.CheckMessage(req.Message); err != nil {
		return stoa.Session{}, err
	}
	if req.Mode == "" {
		req.Mode = stoa.ModeChat
	}
	if req.Mode != stoa.ModeChat && req.Mode != stoa.ModeOnce {
		return stoa.Session{}, stoa.Errorf(stoa.CodeInvalidMode, "The mode must be %q or %q.", stoa.ModeChat, stoa.ModeOnce).At("mode")
	}
	if req.Trigger.Type == "" {
		req.Trigger.Type = triggerAPI
	}
	if err := s.checkQueue(ctx, tx, c.Account.ID, req.Line); err != nil {
		return stoa.Session{}, err
	}
	agent, err := tx.Setup().AgentForShare(ctx, c.Account.ID, req.AgentID)
	if err != nil {
		return stoa.Session{}, err
	}
	if req.Version != 0 && req.Version != agent.Version {
		v, err := tx.Setup().AgentVersion(ctx, c.Account.ID, req.AgentID, req.Version)
		if err != nil {
			return stoa.Session{}, err
		}
		agent.AgentSettings, agent.Version = v.AgentSettings, v.Version
	}
	if req.Draft != nil {
		if err := req.Draft(&agent); err != nil {
			return stoa.Session{}, err
		}
		if err := tool.CheckTools(ctx, tx, agent.AccountID, agent.SpaceID, agent.AgentSettings); err != nil {
			if e, ok := errors.AsType[*stoa.Error](err); ok && e.Param != "" {
				err = e.At("draft." + e.Param)
			}
			return stoa.Session{}, err
		}
	}
	if err := takeCredentials(ctx, tx, agent, &req); err != nil {
		return stoa.Session{}, err
	}
	_, unavailable, err := tool.Offer(ctx, tx, AudienceOf(agent, req), agent.Tools, nil)
	if err != nil {
		return stoa.Session{}, err
	}
	if req.ID == "" {
		req.ID = stoa.NewID("ses")
	}
	if req.Title == "" {
		req.Title = titleOf(req.Message)
	}
	if req.Timezone == "" || CheckTimezone(req.Timezone) != nil {
		req.Timezone = agent.Timezone
	}
	req.Message = fill(req.Message, req.Timezone, req.ScheduledFor)
	row := &store.SessionRow{Session: stoa.Session{
		ID: req.ID, AccountID: c.Account.ID, SpaceID: agent.SpaceID, AgentID: agent.ID, KeyID: c.Key.ID,
		AgentVersion: agent.Version, Draft: req.Draft != nil, Mode: req.Mode, Status: stoa.SessionQueued, ModelAsked: agent.Model, Trigger: req.Trigger,
		ExternalID: req.ExternalID, ExternalUserID: req.ExternalUserID, Title: req.Title, Metadata: req.Metadata,
		Limits: s.TurnLimits(req.Limits, agent.Limits), Withheld: recorded(append(WithheldTools(agent, req), unavailable...)),
		ReplySchema: replySchema(req.ReplySchema, agent),
	}, Timezone: req.Timezone, Config: &agent.AgentSettings}
	t := s.transition(ctx, tx, row)
	message := stoa.NewID("msg")
	t.newTurn(message, 0)
	row.Turn.MaxOutput = req.MaxOutput
	t.event(EventCreated, CreatedData{SessionID: row.ID, AgentID: agent.ID, AgentVersion: agent.Version, Mode: string(row.Mode)})
	files, err := attach(ctx, tx, row.AccountID, row.AgentID, row.ID, req.Uploads)
	if err != nil {
		return stoa.Session{}, err
	}
	m := stoa.SessionMessage{ID: message, SessionID: row.ID, Turn: 1, Role: stoa.RoleUser, Kind: stoa.KindMessage, Status: stoa.MessageCompleted, Text: req.Message, Attachments: files, CreatedAt: tx.Now}
	firstSeq := row.LastSeq + 1
	t.event(EventMessageCreated, messageData(m, true))
	t.event(EventMessageDone, messageData(m, true))
	t.event(EventStatus, StatusData{Status: string(stoa.SessionQueued), Turn: 1})
	t.do(func() error { return tx.Work().InsertSession(ctx, row) })
	if len(req.Credentials) > 0 {
		t.do(func() error { return tx.Setup().SetOwnCredentials(ctx, row.AccountID, row.ID, req.Credentials) })
	}
	for _, h := range req.History {
		h.ID, h.SessionID, h.Kind, h.Status = stoa.NewID("msg"), row.ID, stoa.KindHistory, stoa.MessageCompleted
		t.do(func() error {
			return tx.Work().InsertMessage(ctx, store.MessageRow{SessionMessage: h, FirstSeq: firstSeq})
		})
	}
	t.do(func() error {
		return tx.Work().InsertMessage(ctx, store.MessageRow{SessionMessage: m, FirstSeq: firstSeq, Note: note(tx.Now, row.Timezone, req.ScheduledFor, req.Trigger.Type == stoa.TriggerHook)})
	})
	t.became.add(row.Status, "")
	err = t.saved()
	return row.Session, err
}

// maxTitle is the maximum length of a title made from a message, in characters.
const maxTitle = 80

func titleOf(message string) string {
	var b strings.Builder
	n := 0
	for word := range strings.FieldsSeq(message) {
		letters := utf8.RuneCountInString(word)
		switch {
		case n == 0 && letters > maxTitle:
			return string([]rune(word)[:maxTitle-1]) + "…"
		case n > 0 && n+1+letters >= maxTitle:
			return b.String() + "…"
		case n > 0:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += letters
	}
	return b.String()
}

// TurnLimits returns the lowest of each limit that is set, or the configured one. The
// configured cap of credits is a default, not a maximum: an agent or a session may set a
// higher one.
//
// The lowest limit of the service, the agent and the session counts, because otherwise anyone who
// may start sessions could spend what the agent's owner did not allow. It is stored with the
// session when it starts, so raising an agent's limit does not help sessions that have already
// started.
func (s *Sessions) TurnLimits(all ...stoa.TurnLimits) stoa.TurnLimits {
	l := stoa.TurnLimits{Timeout: s.limits.TurnTime, MaxSteps: s.limits.Steps}
	for _, o := range all {
		if o.MaxCredits > 0 && (l.MaxCredits == 0 || o.MaxCredits < l.MaxCredits) {
			l.MaxCredits = o.MaxCredits
		}
		if o.Timeout > 0 {
			l.Timeout = min(l.Timeout, o.Timeout)
		}
		if o.MaxSteps > 0 {
			l.MaxSteps = min(l.MaxSteps, o.MaxSteps)
		}
	}
	if l.MaxCredits == 0 {
		l.MaxCredits = s.limits.TurnCredits
	}
	return l
}

// CheckMessage checks that a message is not empty and not longer than the limit; otherwise
// the error is [stoa.CodeInvalidValue].
func (s *Sessions) CheckMessage(text string) error {
	if text == "" {
		return stoa.Errorf(stoa.CodeInvalidValue, "The message is empty.").At("message")
	}
	if n := utf8.RuneCountInString(text); n > s.limits.MessageChars {
		return stoa.Errorf(stoa.CodeInvalidValue, "The message has %d characters; the maximum is %d.", n, s.limits.MessageChars).At("message")
	}
	return nil
}

// checkQueue fails with [stoa.CodeTooManySessions] when the account may not queue another
// turn. Those of visitors are at most half of the queue, and those of one line of visitors a
// quarter. The limit may be slightly exceeded on PostgreSQL, because the count does not include
// concurrent commits.
func (s *Sessions) checkQueue(ctx context.Context, tx *store.Tx, accountID, line string) error {
	limits := []struct {
		of    store.QueueOf
		limit int
	}{{store.QueueOf{}, s.limits.Queued}}
	if line != "" {
		limits = append(limits, limits[0], limits[0])
		limits[1].of, limits[1].limit = store.QueueOf{Visitors: true}, max(s.limits.Queued/2, 1)
		limits[2].of, limits[2].limit = store.QueueOf{Line: line}, max(s.limits.Queued/4, 1)
	}
	for _, l := range limits {
		n, err := tx.Work().QueuedSessions(ctx, accountID, l.of, l.limit)
		if err != nil {
			return err
		}
		if n >= l.limit {
			return stoa.Errorf(stoa.CodeTooManySessions, "%d sessions of this account are already queued. Try again when some have finished.", n).After(10 * time.Second)
		}
	}
	return nil
}

// edit changes a session: fn receives its locked row, and reports whether there is anything
// to save. An empty agentID means any agent.
func (s *Sessions) edit(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID, id string, fn func(t *Transition) (changed bool, err error)) (stoa.Session, error) {
	if agentID != "" {
		if _, err := tx.Setup().AgentForShare(ctx, c.Account.ID, agentID); err != nil {
			return stoa.Session{}, err
		}
	}
	row, err := tx.Work().LockSession(ctx, c.Account.ID, agentID, id)
	if err != nil {
		return stoa.Session{}, err
	}
	t := s.transition(ctx, tx, &row)
	changed, err := fn(t)
	if err == nil {
		err = t.err
	}
	if err == nil && changed {
		err = t.Save()
	}
	return row.Session, err
}

// A SendRequest is a further message to a session.
type SendRequest struct {
	Message string
	Reject  bool // reject the message while the session is busy, instead of queueing it
	// ScheduledFor is the instant of a task's run.
	ScheduledFor time.Time
	EmbedID      string // a visitor's, who can only decide about the visitor's own call, or a hook's; empty means the account
	Hook         bool   // the message came through a hook
	Line         string
	Uploads      Uploads
	MaxOutput    int64 // see [stoa.Turn]; for a new turn
	// ReplySchema must be that of the session; empty means that any is right.
	ReplySchema string
	// EndUser must be that of a session with a memory; empty means that any is right.
	EndUser string
}

// Send adds a message to a chat, depending on its state:
//   - A stopped session starts a new turn with it.
//   - A session that waits for its user uses it as the answer.
//   - A session that waits for decisions about calls treats it as the refusal of all of them;
//     so does one that waits for its visitor, if the visitor sends it.
//   - Any other session queues it, or rejects it with [stoa.CodeSessionBusy].
//   - A session of mode once rejects it with [stoa.CodeSessionFinished].
//
// See [Sessions.Start] for the queue's limit.
func (s *Sessions) Send(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID, id string, req SendRequest) (stoa.Session, error) {
	if err := s.CheckMessage(req.Message); err != nil {
		return stoa.Session{}, err
	}
	return s.edit(ctx, tx, c, agentID, id, func(t *Transition) (bool, error) {
		row := t.Row
		req.Message = fill(req.Message, row.Timezone, req.ScheduledFor)
		if row.Mode == stoa.ModeOnce {
			return false, stoa.Errorf(stoa.CodeSessionFinished, "A session of mode \"once\" accepts no further messages. Start another session.")
		}
		if err := checkSchema(ctx, tx, row, req.ReplySchema); err != nil {
			return false, err
		}
		if err := checkEndUser(ctx, tx, row, req.EndUser); err != nil {
			return false, err
		}
		files, err := attach(ctx, tx, row.AccountID, row.AgentID, row.ID, req.Uploads)
		if err != nil {
			return false, err
		}
		message := stoa.SessionMessage{Role: stoa.RoleUser, Kind: stoa.KindMessage, Status: stoa.MessageCompleted, Text: req.Message, Attachments: files}
		waitsFor := func(kind string) bool { return row.Status == stoa.SessionWaiting && row.Pending.Kind == kind }
		decides := waitsFor(stoa.InputToolApproval) && req.EmbedID == "" || waitsFor(stoa.InputToolConfirmation) && req.EmbedID != ""
		switch {
		case len(files) > 0 && decides:
			return false, stoa.Errorf(stoa.CodeSessionBusy, "The session waits for a decision about calls, which a message refuses. Send the files with the next message.").At("attachments")
		case row.Status == stoa.SessionWaiting && !row.Pending.OfTools():
			t.answer(req.Message, false, files...)
		case decides:
			t.refuse(cmp.Or(req.EmbedID, c.Key.ID), req.Message)
		case !row.Status.Ended():
			if req.Reject {
				return false, stoa.Errorf(stoa.CodeSessionBusy, "The session is still busy with its last message. Wait until it stops, or send the message with onBusy \"enqueue\".").After(time.Second)
			}
			if row.QueuedMessages >= s.limits.QueuedMessages {
				return false, stoa.Errorf(stoa.CodeSessionBusy, "%d messages already wait in this session. Wait until it has processed some of them.", row.QueuedMessages).After(time.Second)
			}
			message.Status = stoa.MessageQueued
			t.message(message, note(tx.Now, row.Timezone, req.ScheduledFor, req.Hook))
			row.QueuedMessages++
		default:
			if err := s.checkQueue(ctx, tx, row.AccountID, req.Line); err != nil {
				return false, err
			}
			message.Turn = row.Turn.Number + 1
			m := t.message(message, note(tx.Now, row.Timezone, req.ScheduledFor, req.Hook))
			t.newTurn(m.ID, 0)
			row.Turn.MaxOutput = req.MaxOutput
			t.insertTurn()
			t.status(stoa.SessionQueued, "")
		}
		return true, nil
	})
}

// checkEndUser rejects the message of another end user than the one whose memory the session has.
func checkEndUser(ctx context.Context, tx *store.Tx, row *store.SessionRow, user string) error {
	if of, ok := row.MemoryOwner(); !ok || user == "" || user == of.UserID {
		return nil
	}
	c, err := tx.Work().SessionConfig(ctx, *row)
	if err == nil && c.CallSettings().Memory != "" {
		err = stoa.Errorf(stoa.CodeInvalidValue, "The session is one of another end user, of whom the agent remembers something. Begin a session for this one.").At("conversation")
	}
	return err
}

// An AnswerRequest answers an input: a question with Answer, a choice with
// Choice, an approval with Decision, calls of tools with Outputs, those that need an
// approval with Decisions or one Decision for all, one that a visitor has to confirm with
// Decision and EmbedID.
type AnswerRequest struct {
	EmbedID                  string // empty means the account
	InputID                  string
	Answer, Choice, Decision string
	Outputs                  []Output
	Decisions                []CallDecision
}

// Answer answers the open input of a session. A second answer is [stoa.CodeInputAnswered]; an
// input that is no longer open, or a session that does not wait, is [stoa.CodeNotWaiting].
// Outputs may cover some of the calls; repeating the output of a call is accepted and changes
// nothing, a different one is [stoa.CodeOutputGiven]. The same holds for decisions, where a
// different one is [stoa.CodeDecided]; they need a key with [ScopeApprovals].
func (s *Sessions) Answer(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID, id string, req AnswerRequest) (stoa.Session, error) {
	return s.edit(ctx, tx, c, agentID, id, func(t *Transition) (bool, error) {
		in, found, err := t.tx.Work().Input(ctx, id, req.InputID)
		if err != nil {
			return false, err
		}
		if !found {
			return false, stoa.Errorf(stoa.CodeNotFound, "This session has no such input.").At("inputId")
		}
		if in.Kind == stoa.InputToolApproval || in.Kind == stoa.InputToolConfirmation {
			return t.decisions(&in, c, req)
		}
		if in.Kind == stoa.InputToolCall {
			if req.Answer+req.Choice+req.Decision != "" || len(req.Decisions) > 0 {
				return false, stoa.Errorf(stoa.CodeInvalidValue, "An input of kind %q accepts only \"outputs\".", stoa.InputToolCall).At("outputs")
			}
			if len(req.Outputs) == 0 {
				return false, stoa.Errorf(stoa.CodeMissingParameter, "An input of kind %q requires \"outputs\".", stoa.InputToolCall).At("outputs")
			}
			return t.outputs(&in, req.Outputs)
		}
		if in.Status == stoa.InputAnswered {
			return false, stoa.Errorf(stoa.CodeInputAnswered, "This input was already answered.").At("inputId")
		}
		if t.Row.Pending == nil || t.Row.Pending.ID != in.ID {
			return false, stoa.Errorf(stoa.CodeNotWaiting, "The session no longer waits for this input: it was %s.", in.Status).At("inputId")
		}
		value, err := s.value(in, req)
		if err != nil {
			return false, err
		}
		t.answer(value, false)
		return true, nil
	})
}

func (s *Sessions) value(in stoa.Input, req AnswerRequest) (string, error) {
	if len(req.Outputs) > 0 {
		return "", stoa.Errorf(stoa.CodeInvalidValue, "An input of kind %q does not accept outputs.", in.Kind).At("outputs")
	}
	if len(req.Decisions) > 0 {
		return "", stoa.Errorf(stoa.CodeInvalidValue, "An input of kind %q does not accept decisions.", in.Kind).At("decisions")
	}
	given := map[string]string{"answer": req.Answer, "choice": req.Choice, "decision": req.Decision}
	want := map[string]string{stoa.InputQuestion: "answer", stoa.InputChoice: "choice", stoa.InputApproval: "decision"}[in.Kind]
	for _, name := range []string{"answer", "choice", "decision"} {
		if given[name] != "" && name != want {
			return "", stoa.Errorf(stoa.CodeInvalidValue, "An input of kind %q requires %q, not %q.", in.Kind, want, name).At(name)
		}
	}
	value := given[want]
	switch {
	case value == "":
		return "", stoa.Errorf(stoa.CodeMissingParameter, "An input of kind %q requires %q.", in.Kind, want).At(want)
	case in.Kind == stoa.InputChoice && !slices.Contains(in.Options, value):
		return "", stoa.Errorf(stoa.CodeInvalidValue, "The choice must be one of the options, exactly as written: %q.", in.Options).At(want)
	case in.Kind == stoa.InputApproval && value != "approve" && value != "reject":
		return "", stoa.Errorf(stoa.CodeInvalidValue, "The decision must be \"approve\" or \"reject\".").At(want)
	case utf8.RuneCountInString(value) > s.limits.MessageChars:
		return "", stoa.Errorf(stoa.CodeInvalidValue, "The answer is longer than %d characters.", s.limits.MessageChars).At(want)
	}
	return value, nil
}

// cancelWait is the longest wait of a cancellation for the worker, so that the reply usually shows
// the end.
const cancelWait = 2 * time.Second

// Cancel stops a session's turn: immediately if it does not run, otherwise as soon as its
// worker reacts, within five seconds. Partial text is kept; queued messages are dropped. A
// cancellation is durable, and does nothing to a stopped session.
func (s *Sessions) Cancel(ctx context.Context, c stoa.Caller, agentID, id string) (stoa.Session, error) {
	out, err := store.Write(ctx, s.store, func(tx *store.Tx) (stoa.Session, error) { return s.CancelIn(ctx, tx, c, agentID, id) })
	if err != nil || out.Status.Stopped() {
		return out, err
	}
	// The cancellation is stored. The wait only lets the reply show the end.
	if waited, err := s.Wait(ctx, c.Account.ID, agentID, id, cancelWait); err == nil {
		out = waited
	}
	return out, nil
}

// CancelIn is [Sessions.Cancel] as part of a transaction. It does not wait for the worker.
func (s *Sessions) CancelIn(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID, id string) (stoa.Session, error) {
	return s.edit(ctx, tx, c, agentID, id, func(t *Transition) (bool, error) { return t.cancel(""), nil })
}

// cancel applies a cancellation, and reports whether there was anything to cancel. It does not end
// a running turn, because its worker or the sweep does.
func (t *Transition) cancel(reason string) bool {
	switch {
	case t.Row.Status == stoa.SessionRunning:
		if t.Row.CancelAt.IsZero() {
			t.Row.CancelAt = t.tx.Now
			t.Row.DueAt = earlier(t.Row.DueAt, t.tx.Now.Add(sweepGrace))
		}
		id, stop := t.Row.ID, t.s.stop
		t.tx.AfterCommit(func() { stop(id, ErrCancelled) })
		return true
	case t.Row.Status == stoa.SessionQueued, t.Row.Status == stoa.SessionWaiting:
		t.finish(stoa.SessionCancelled, reason)
		return true
	}
	return false
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Retry repeats the last message of a failed or cancelled session as a new turn. A session in
// another status is [stoa.CodeSessionBusy] or [stoa.CodeSessionFinished]. A turn whose calls
// of tools may have changed something is [stoa.CodeTurnHadEffects] unless the caller has
// acknowledged that.
func (s *Sessions) Retry(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID, id string, acknowledged bool) (stoa.Session, error) {
	return s.edit(ctx, tx, c, agentID, id, func(t *Transition) (bool, error) {
		switch t.Row.Status {
		case stoa.SessionFailed, stoa.SessionCancelled:
		case stoa.SessionCompleted:
			return false, stoa.Errorf(stoa.CodeSessionFinished, "The session has completed: there is nothing to retry. Send a message instead.")
		default:
			return false, stoa.Errorf(stoa.CodeSessionBusy, "The session is %s. Cancel it first, or wait until it stops.", t.Row.Status)
		}
		if t.Row.ToolCalls > 0 && !acknowledged {
			had, err := t.tx.Work().HadEffects(ctx, id, t.Row.Turn.Number)
			if err == nil && had {
				err = stoa.Errorf(stoa.CodeTurnHadEffects, "The turn has called tools that may have changed something, and may call them again. Check the calls of the session; to retry the turn nevertheless, send \"acknowledgeEffects\": true.").At("acknowledgeEffects")
			}
			if err != nil {
				return false, err
			}
		}
		if err := s.checkQueue(ctx, t.tx, t.Row.AccountID, t.Row.Line); err != nil {
			return false, err
		}
		t.queueTurn(t.Row.Turn.MessageID, t.Row.Turn.Number)
		return true, nil
	})
}

// Upgrade moves a chat that has stopped to the newest version of its agent. It fails with
// [stoa.CodeSessionBusy] until it has stopped, and with [stoa.CodeSessionFinished] for a
// session of mode once.
func (s *Sessions) Upgrade(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID, id string) (stoa.Session, error) {
	agent, err := tx.Setup().AgentForShare(ctx, c.Account.ID, agentID)
	if err != nil {
		return stoa.Session{}, err
	}
	return s.edit(ctx, tx, c, agentID, id, func(t *Transition) (bool, error) {
		row := t.Row
		switch {
		case row.Mode == stoa.ModeOnce:
			return false, stoa.Errorf(stoa.CodeSessionFinished, "A session of mode \"once\" has one turn. Start another session.")
		case !row.Status.Ended():
			return false, stoa.Errorf(stoa.CodeSessionBusy, "The session is %s. Cancel it first, or wait until it stops.", row.Status)
		case row.AgentVersion == agent.Version && !row.Draft:
			return false, nil
		}
		byCaller := slices.ContainsFunc(row.Withheld, func(w stoa.Withheld) bool { return w.Reason == stoa.WithheldCaller })
		row.AgentVersion, row.Draft, row.ModelAsked = agent.Version, false, agent.Model
		row.Limits = s.TurnLimits(row.Limits, agent.Limits)
		if row.ReplySchema == "" || row.ReplySchema == stoa.AgentSchema {
			row.ReplySchema = replySchema("", agent)
		}
		row.Withheld = WithheldTools(agent, StartRequest{Mode: row.Mode, Trigger: row.Trigger, WithholdTools: byCaller})
		t.event(EventUpgraded, UpgradedData{AgentVersion: agent.Version})
		t.do(func() error { return tx.Work().UpgradeSession(ctx, row) })
		return true, nil
	})
}

// Edit lets fn change a session's title and metadata. Revisions must be compared in fn, since only
// its row is locked.
func (s *Sessions) Edit(ctx context.Context, c stoa.Caller, agentID, id string, fn func(*stoa.Session) error) (stoa.Session, error) {
	return store.Write(ctx, s.store, func(tx *store.Tx) (stoa.Session, error) {
		return s.edit(ctx, tx, c, agentID, id, func(t *Transition) (bool, error) {
			row := t.Row.Session
			if err := fn(&row); err != nil {
				return false, err
			}
			t.Row.Title, t.Row.Metadata = row.Title, row.Metadata
			return true, nil
		})
	})
}
