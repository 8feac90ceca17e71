package runner

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"stoa/internal/gateway"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// A StartRequest is a session as somebody wants it. AgentID and Message are
// required.
type StartRequest struct {
	ID             string // of the session; empty: a new one
	AgentID        string
	Message        string
	Mode           stoa.SessionMode // empty: chat
	ExternalID     string
	ExternalUserID string
	Title          string
	Metadata       map[string]string
	Limits         stoa.TurnLimits // lower than the agent's, or zero
	Trigger        stoa.Trigger    // empty type: api
}

// Start begins a session. When it returns, the session is stored and will be
// run, whatever happens to this process; what also does committed with it.
//
// It fails with [stoa.CodeAgentNotFound]; [stoa.CodeQuota] (or the key's budget)
// when the credits cannot cover the first step; [stoa.CodeTooManySessions] when
// too many of the account's are queued; [stoa.CodeConflict] for an external id
// that is taken; [stoa.CodeInvalidValue].
func (r *Runner) Start(ctx context.Context, c stoa.Caller, req StartRequest, more ...also) (stoa.Session, error) {
	if err := r.Affordable(ctx, c, req); err != nil {
		return stoa.Session{}, err
	}
	return r.write(ctx, more, func(tx *store.Tx) (stoa.Session, error) { return r.StartIn(ctx, tx, c, req) })
}

// StartIn is [Runner.Start] as part of a transaction, without the look at the
// credits ([Runner.Affordable]): a session that cannot be paid will fail, with
// its reason.
func (r *Runner) StartIn(ctx context.Context, tx *store.Tx, c stoa.Caller, req StartRequest) (stoa.Session, error) {
	if err := r.checkMessage(req.Message); err != nil {
		return stoa.Session{}, err
	}
	if req.Mode == "" {
		req.Mode = stoa.ModeChat
	}
	if req.Mode != stoa.ModeChat && req.Mode != stoa.ModeOnce {
		return stoa.Session{}, stoa.Errorf(stoa.CodeInvalidMode, "The mode is %q or %q.", stoa.ModeChat, stoa.ModeOnce).At("mode")
	}
	if req.Trigger.Type == "" {
		req.Trigger.Type = "api"
	}
	if err := r.room(ctx, tx, c.Account.ID); err != nil {
		return stoa.Session{}, err
	}
	agent, err := tx.AgentForShare(ctx, c.Account.ID, req.AgentID)
	if err != nil {
		return stoa.Session{}, err
	}
	if req.ID == "" {
		req.ID = stoa.NewID("ses")
	}
	row := &store.SessionRow{Session: stoa.Session{
		ID: req.ID, AccountID: c.Account.ID, SpaceID: agent.SpaceID, AgentID: agent.ID, KeyID: c.Key.ID,
		AgentVersion: agent.Version, Mode: req.Mode, Status: stoa.SessionQueued, ModelAsked: agent.Model, Trigger: req.Trigger,
		ExternalID: req.ExternalID, ExternalUserID: req.ExternalUserID, Title: req.Title, Metadata: req.Metadata,
		Limits: r.limits(req.Limits, agent.Limits),
	}}
	ch := r.change(ctx, tx, row)
	message := stoa.NewID("msg")
	ch.newTurn(message, 0)
	ch.do(func() error { return tx.InsertSession(ctx, row) })
	ch.event(EventCreated, CreatedData{SessionID: row.ID, AgentID: agent.ID, AgentVersion: agent.Version, Mode: string(row.Mode)})
	m := stoa.SessionMessage{ID: message, SessionID: row.ID, Turn: 1, Role: stoa.RoleUser, Kind: stoa.KindMessage, Status: "completed", Text: req.Message, CreatedAt: tx.Now}
	ch.do(func() error {
		return tx.InsertMessage(ctx, store.MessageRow{SessionMessage: m, FirstSeq: row.LastSeq + 1})
	})
	ch.event(EventMessageCreated, messageData(m, true))
	ch.event(EventMessageDone, messageData(m, true))
	ch.event(EventStatus, StatusData{Status: string(stoa.SessionQueued), Turn: 1})
	err = ch.save()
	return row.Session, err
}

// limits are the lowest of what is set.
func (r *Runner) limits(all ...stoa.TurnLimits) stoa.TurnLimits {
	l := stoa.TurnLimits{Timeout: r.cfg.Limits.TurnTime, MaxSteps: r.cfg.Limits.Steps}
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
	return l
}

func (r *Runner) checkMessage(text string) error {
	if text == "" {
		return stoa.Errorf(stoa.CodeInvalidValue, "The message is empty.").At("message")
	}
	if n := utf8.RuneCountInString(text); n > r.cfg.Limits.MessageChars {
		return stoa.Errorf(stoa.CodeInvalidValue, "The message has %d characters; at most %d are taken.", n, r.cfg.Limits.MessageChars).At("message")
	}
	return nil
}

// room reports whether the account may queue another turn. On PostgreSQL the
// count may be late by what commits at this moment; the limit is no promise.
func (r *Runner) room(ctx context.Context, tx *store.Tx, accountID string) error {
	limit := r.cfg.Limits.Queued
	n, err := tx.QueuedSessions(ctx, accountID, limit)
	if err == nil && n >= limit {
		err = stoa.Errorf(stoa.CodeTooManySessions, "%d sessions of this account wait to be run already. Try again when some have finished.", n).After(10 * time.Second)
	}
	return err
}

// Affordable reports whether the credits cover the first step of such a session:
// it takes the hold that the step will take, and gives it back.
func (r *Runner) Affordable(ctx context.Context, c stoa.Caller, req StartRequest) error {
	var agent stoa.Agent
	err := r.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		agent, err = tx.Agent(ctx, c.Account.ID, req.AgentID)
		return err
	})
	if err != nil {
		return err
	}
	mode := req.Mode
	if mode == "" {
		mode = stoa.ModeChat
	}
	p := prompt{
		instructions: agent.Instructions, model: agent.Model, mode: mode, access: agent.DriveAccess,
		message: req.Message,
	}
	if err := r.learn(ctx, &p, c.Account.ID, agent.ID); err != nil {
		return err
	}
	stream, err := r.cfg.Gateway.Respond(ctx, c, gateway.Request{
		ID: "ses", Model: agent.Model, Call: r.call(&p, c.Plan),
		MaxCredits: r.limits(req.Limits, agent.Limits).MaxCredits,
	})
	if err != nil {
		if code := stoa.CodeOf(err); code == stoa.CodeQuota || code == stoa.CodeKeyBudget {
			return err
		}
		return nil // what is wrong beside that, the session's turn will tell
	}
	stream.Close()
	return nil
}

// write runs a verb in a transaction of its own.
func (r *Runner) write(ctx context.Context, more []also, fn func(tx *store.Tx) (stoa.Session, error)) (stoa.Session, error) {
	var out stoa.Session
	err := r.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		if out, err = fn(tx); err != nil {
			return err
		}
		for _, a := range more {
			if err := a(ctx, tx, out); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return stoa.Session{}, err
	}
	return out, nil
}

// edit is write for a session that exists: fn sees its locked row. Whether there
// was anything to save, fn says.
func (r *Runner) edit(ctx context.Context, c stoa.Caller, agentID, id string, more []also, fn func(ch *change) (changed bool, err error)) (stoa.Session, error) {
	return r.write(ctx, more, func(tx *store.Tx) (stoa.Session, error) {
		return r.editIn(ctx, tx, c, agentID, id, fn)
	})
}

func (r *Runner) editIn(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID, id string, fn func(ch *change) (changed bool, err error)) (stoa.Session, error) {
	if agentID != "" {
		if _, err := tx.AgentForShare(ctx, c.Account.ID, agentID); err != nil {
			return stoa.Session{}, err
		}
	}
	row, err := tx.LockSession(ctx, c.Account.ID, agentID, id)
	if err != nil {
		return stoa.Session{}, err
	}
	ch := r.change(ctx, tx, &row)
	changed, err := fn(ch)
	if err == nil {
		err = ch.err
	}
	if err == nil && changed {
		err = ch.save()
	}
	return row.Session, err
}

// A SendRequest is a further message to a session.
type SendRequest struct {
	Message string
	Reject  bool // while the session is busy: refuse, instead of queueing the message
}

// Send gives a chat another message. A stopped session takes it up as a new
// turn; a waiting one takes it as the answer; a busy one queues it, or refuses
// with [stoa.CodeSessionBusy]. A session of mode once takes none
// ([stoa.CodeSessionFinished]). See [Runner.Start] for also and the queue's limit.
func (r *Runner) Send(ctx context.Context, c stoa.Caller, agentID, id string, req SendRequest, more ...also) (stoa.Session, error) {
	return r.write(ctx, more, func(tx *store.Tx) (stoa.Session, error) { return r.SendIn(ctx, tx, c, agentID, id, req) })
}

// SendIn is [Runner.Send] as part of a transaction.
func (r *Runner) SendIn(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID, id string, req SendRequest) (stoa.Session, error) {
	if err := r.checkMessage(req.Message); err != nil {
		return stoa.Session{}, err
	}
	return r.editIn(ctx, tx, c, agentID, id, func(ch *change) (bool, error) {
		row := ch.row
		if row.Mode == stoa.ModeOnce {
			return false, stoa.Errorf(stoa.CodeSessionFinished, "A session of mode \"once\" takes no further message. Start another session.")
		}
		message := stoa.SessionMessage{Role: stoa.RoleUser, Kind: stoa.KindMessage, Status: "completed", Text: req.Message}
		switch {
		case row.Status == stoa.SessionWaiting:
			ch.answer(req.Message, false)
		case !row.Status.Stopped():
			if req.Reject {
				return false, stoa.Errorf(stoa.CodeSessionBusy, "The session is still busy with its last message. Wait until it stops, or send the message with onBusy \"enqueue\".").After(time.Second)
			}
			if row.QueuedMessages >= ch.r.cfg.Limits.QueuedMessages {
				return false, stoa.Errorf(stoa.CodeSessionBusy, "%d messages wait in this session already. Wait until it has taken some of them up.", row.QueuedMessages).After(time.Second)
			}
			message.Status = "queued"
			ch.message(message)
			row.QueuedMessages++
		default:
			if err := r.room(ctx, tx, row.AccountID); err != nil {
				return false, err
			}
			message.Turn = row.Turn.Number + 1
			m := ch.message(message)
			ch.queueTurn(m.ID, 0)
		}
		return true, nil
	})
}

// An AnswerRequest answers an input: a question with Answer, a choice with
// Choice, an approval with Decision.
type AnswerRequest struct {
	InputID                  string
	Answer, Choice, Decision string
}

// Answer answers what a session waits for. A second answer is
// [stoa.CodeInputAnswered]; an input that no longer counts, or a session that
// does not wait, is [stoa.CodeNotWaiting].
func (r *Runner) Answer(ctx context.Context, c stoa.Caller, agentID, id string, req AnswerRequest, more ...also) (stoa.Session, error) {
	return r.write(ctx, more, func(tx *store.Tx) (stoa.Session, error) { return r.AnswerIn(ctx, tx, c, agentID, id, req) })
}

// AnswerIn is [Runner.Answer] as part of a transaction.
func (r *Runner) AnswerIn(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID, id string, req AnswerRequest) (stoa.Session, error) {
	return r.editIn(ctx, tx, c, agentID, id, func(ch *change) (bool, error) {
		in, found, err := ch.tx.Input(ctx, id, req.InputID)
		if err != nil {
			return false, err
		}
		if !found {
			return false, stoa.Errorf(stoa.CodeNotFound, "This session has no such input.").At("inputId")
		}
		if in.Status == "answered" {
			return false, stoa.Errorf(stoa.CodeInputAnswered, "This input was answered already.").At("inputId")
		}
		if ch.row.Pending == nil || ch.row.Pending.ID != in.ID {
			return false, stoa.Errorf(stoa.CodeNotWaiting, "The session does not wait for this input any more: it was %s.", in.Status).At("inputId")
		}
		value, err := r.value(in, req)
		if err != nil {
			return false, err
		}
		ch.answer(value, false)
		return true, nil
	})
}

// value is the answer to an input, if it fits its kind.
func (r *Runner) value(in stoa.Input, req AnswerRequest) (string, error) {
	given := map[string]string{"answer": req.Answer, "choice": req.Choice, "decision": req.Decision}
	want := map[string]string{stoa.InputQuestion: "answer", stoa.InputChoice: "choice", stoa.InputApproval: "decision"}[in.Kind]
	for _, name := range []string{"answer", "choice", "decision"} {
		if given[name] != "" && name != want {
			return "", stoa.Errorf(stoa.CodeInvalidValue, "An input of kind %q takes %q, not %q.", in.Kind, want, name).At(name)
		}
	}
	value := given[want]
	switch {
	case value == "":
		return "", stoa.Errorf(stoa.CodeMissingParameter, "An input of kind %q takes %q.", in.Kind, want).At(want)
	case in.Kind == stoa.InputChoice && !slices.Contains(in.Options, value):
		return "", stoa.Errorf(stoa.CodeInvalidValue, "The choice must be one of the options, as they are written: %q.", in.Options).At(want)
	case in.Kind == stoa.InputApproval && value != "approve" && value != "reject":
		return "", stoa.Errorf(stoa.CodeInvalidValue, "The decision is \"approve\" or \"reject\".").At(want)
	case utf8.RuneCountInString(value) > r.cfg.Limits.MessageChars:
		return "", stoa.Errorf(stoa.CodeInvalidValue, "The answer is longer than %d characters.", r.cfg.Limits.MessageChars).At(want)
	}
	return value, nil
}

// cancelWait is how long a cancel waits for the worker to stop, so that whoever
// asked usually sees the end.
const cancelWait = 2 * time.Second

// Cancel stops a session's turn: at once where nothing runs, otherwise as soon as
// its worker sees it, within five seconds. Partial text is kept; messages that
// are queued are dropped. It is durable, and does nothing to a stopped session.
func (r *Runner) Cancel(ctx context.Context, c stoa.Caller, agentID, id string, more ...also) (stoa.Session, error) {
	s, err := r.edit(ctx, c, agentID, id, more, func(ch *change) (bool, error) { return ch.cancel(""), nil })
	if err != nil || s.Status.Stopped() {
		return s, err
	}
	// Stored. What follows only makes the answer nicer.
	if waited, err := r.Wait(ctx, c.Account.ID, agentID, id, cancelWait); err == nil {
		s = waited
	}
	return s, nil
}

// cancel does what a cancel has to, and reports whether that was anything.
func (c *change) cancel(reason string) bool {
	switch {
	case c.row.Status == stoa.SessionRunning:
		if c.row.CancelAt.IsZero() {
			c.row.CancelAt = c.tx.Now
			c.row.DueAt = earlier(c.row.DueAt, c.tx.Now.Add(sweepGrace))
		}
		id, r := c.row.ID, c.r
		c.tx.AfterCommit(func() { r.stop(id, errCancelled) })
		return true
	case c.row.Status == stoa.SessionQueued, c.row.Status == stoa.SessionWaiting:
		c.finish(stoa.SessionCancelled, reason)
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

// Retry does the last message of a failed or cancelled session again, as a new
// turn. A session in another status is [stoa.CodeSessionBusy] or
// [stoa.CodeSessionFinished].
func (r *Runner) Retry(ctx context.Context, c stoa.Caller, agentID, id string, more ...also) (stoa.Session, error) {
	return r.write(ctx, more, func(tx *store.Tx) (stoa.Session, error) { return r.RetryIn(ctx, tx, c, agentID, id) })
}

// RetryIn is [Runner.Retry] as part of a transaction.
func (r *Runner) RetryIn(ctx context.Context, tx *store.Tx, c stoa.Caller, agentID, id string) (stoa.Session, error) {
	return r.editIn(ctx, tx, c, agentID, id, func(ch *change) (bool, error) {
		switch ch.row.Status {
		case stoa.SessionFailed, stoa.SessionCancelled:
		case stoa.SessionCompleted:
			return false, stoa.Errorf(stoa.CodeSessionFinished, "The session has completed: there is nothing to do again. Send a message instead.")
		default:
			return false, stoa.Errorf(stoa.CodeSessionBusy, "The session is %s. Cancel it first, or wait until it stops.", ch.row.Status)
		}
		if err := r.room(ctx, ch.tx, ch.row.AccountID); err != nil {
			return false, err
		}
		ch.queueTurn(ch.row.Turn.MessageID, ch.row.Turn.Number)
		return true, nil
	})
}

// Edit has fn change a session's title and metadata. What fn sees cannot change
// meanwhile, so that is the place to compare revisions.
func (r *Runner) Edit(ctx context.Context, c stoa.Caller, agentID, id string, fn func(*stoa.Session) error, more ...also) (stoa.Session, error) {
	return r.edit(ctx, c, agentID, id, more, func(ch *change) (bool, error) {
		s := ch.row.Session
		if err := fn(&s); err != nil {
			return false, err
		}
		ch.row.Title, ch.row.Metadata = s.Title, s.Metadata
		return true, nil
	})
}
