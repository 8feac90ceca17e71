package session

import (
	"cmp"
	"context"

	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/models/catalog"
)

// A Draft is the message of a step while the step is running, and the part of it that readers
// have. Its zero value is a message that no reader has.
type Draft struct {
	Turn, Step int64
	MessageID  string
	Created    bool   // readers have the message
	Stale      bool   // readers may have text of an earlier attempt
	Offset     int    // characters written by this attempt
	Pending    string // text that Finish writes
	Rejected   bool   // its text does not fit the session's reply schema
	Text       string // of the message, if it is not that of the step
}

// BeginStep records that a step begins, and the parts of the drive in its prompt. It returns
// the draft of the step's message, which an earlier attempt may have begun.
func (t *Transition) BeginStep(number int64, model string, sources []stoa.Source) (Draft, error) {
	turn := t.Row.Turn.Number
	d := Draft{Turn: turn, Step: number}
	if t.Row.Fence > 1 { // because a claim before this one may have written text
		m, found, err := t.tx.Work().StepMessage(t.ctx, t.Row.ID, turn, number)
		if err != nil {
			return d, err
		}
		if found {
			d.MessageID, d.Created, d.Stale = m.ID, true, true
		}
	}
	id := stoa.StepID(t.Row.ID, turn, number)
	t.event(EventStepStarted, StepData{StepID: id, Turn: turn, Step: number, Model: model})
	t.sources(id, sources)
	return d, t.err
}

// AppendDelta commits a piece of a draft's text, preceded by the beginning of the message if
// it is the first. It returns the new draft. It fails with [ErrLost] if the lease does not
// hold. It locks the session's row only while it numbers its events.
func (s *Sessions) AppendDelta(ctx context.Context, l Lease, d Draft, text string) (Draft, error) {
	next := d
	err := s.store.Write(ctx, func(tx *store.Tx) error {
		next = d
		t := s.transition(ctx, tx, &store.SessionRow{Session: stoa.Session{ID: l.SessionID}})
		if !next.Created {
			m := next.message(l.SessionID)
			m.ID = stoa.NewID("msg")
			next.MessageID, next.Created = m.ID, true
			t.fencedEvent(l, EventMessageCreated, messageData(m, false))
			t.do(func() error {
				return tx.Work().InsertMessage(ctx, store.MessageRow{SessionMessage: m, FirstSeq: t.Row.LastSeq})
			})
		}
		t.fencedEvent(l, EventDelta, DeltaData{MessageID: next.MessageID, Offset: next.Offset, Text: text})
		next.Offset += runeCount(text)
		t.writeEvents()
		t.publish()
		return t.err
	})
	if err != nil {
		return d, err
	}
	return next, nil
}

// fencedEvent adds to the log without locking the session's row, since the statement that assigns
// the event's number also checks the lease.
func (t *Transition) fencedEvent(l Lease, typ string, data any) {
	t.do(func() error {
		seq, ok, err := t.tx.Work().NextSeq(t.ctx, l.AccountID, l.SessionID, l.Owner, l.Fence)
		if err == nil && !ok {
			err = ErrLost
		}
		t.Row.LastSeq = seq - 1
		return err
	})
	t.event(typ, data)
}

func (d *Draft) message(sessionID string) stoa.SessionMessage {
	return stoa.SessionMessage{
		ID: d.MessageID, SessionID: sessionID, Turn: d.Turn, Step: d.Step,
		Role: stoa.RoleAssistant, Kind: stoa.KindReply, Status: stoa.MessageInProgress,
	}
}

// RecordStep writes a step, its message and its cost. It must run after the charge in the same
// transaction, because the id of the step is the id of the charge.
func (t *Transition) RecordStep(d *Draft, st stoa.Step) {
	id := stoa.StepID(st.SessionID, st.Turn, st.Number)
	t.do(func() error { return t.tx.Work().InsertStep(t.ctx, st) })
	charge := t.spend(id)
	t.do(func() error {
		u := charge.Usage
		t.Row.Steps++
		t.Row.Strikes = 0
		t.Row.ModelServed, t.Row.Fallback = charge.Served, charge.Reason == catalog.ReasonPlan
		t.finishDraft(d, st)
		micro := int64(charge.Amount)
		t.event(EventStepDone, StepData{
			StepID: id, Turn: st.Turn, Step: st.Number, Model: charge.Served, Stop: string(st.Stop),
			Usage: &UsageData{u.InputTokens, u.OutputTokens, u.Total()}, CreditsMicro: &micro,
		})
		return t.err
	})
}

// finishDraft writes the rest of the step's text and completes its message. A
// step without a Stop was broken off: Finish closes its message with the turn's
// status.
func (t *Transition) finishDraft(d *Draft, st stoa.Step) {
	if st.Text == "" && !d.Created && (len(st.Calls) > 0 || st.Stop == "") {
		return // because only an answer may be empty
	}
	if d.MessageID == "" {
		d.MessageID = stoa.NewID("msg")
	}
	m := d.message(st.SessionID)
	if d.Text != "" {
		st.Text, d.Pending = d.Text, d.Text
	}
	m.Text = st.Text
	if len(st.Calls) > 0 || d.Rejected {
		m.Kind = stoa.KindComment
	}
	apart := m.Kind == stoa.KindComment && t.Row.ReplySchema != ""
	data := func(whole bool) MessageData {
		d := messageData(m, whole)
		d.Apart = apart
		return d
	}
	firstSeq := t.Row.LastSeq + 1
	if !d.Created {
		t.event(EventMessageCreated, data(false))
	}
	if d.Pending != "" || d.Stale && d.Offset == 0 {
		t.event(EventDelta, DeltaData{MessageID: m.ID, Offset: d.Offset, Text: d.Pending})
	}
	if st.Stop != "" {
		m.Status = stoa.MessageCompleted
		t.event(EventMessageDone, data(true))
	}
	t.do(func() error {
		switch {
		case !d.Created:
			return t.tx.Work().InsertMessage(t.ctx, store.MessageRow{SessionMessage: m, FirstSeq: firstSeq})
		case st.Stop != "":
			return t.tx.Work().UpdateMessage(t.ctx, m)
		}
		return nil
	})
}

// Reply ends the turn with the text of its last step.
func (t *Transition) Reply(d *Draft, st stoa.Step, reason string) {
	switch st.Stop {
	case stoa.StopLength:
		reason = reasonLength
	case stoa.StopContentFilter:
		if st.Text == "" {
			t.Fail(stoa.Failure{Code: codeFilter, Message: "The model's provider withheld the answer."})
			return
		}
		reason = reasonFilter
	}
	t.Row.ReplyID, t.Row.Reply = d.MessageID, cmp.Or(d.Text, st.Text)
	if st.Stop == "" {
		t.closeMessages(stoa.SessionCompleted)
	}
	t.end(stoa.SessionCompleted, reason)
}

// LeaveOut records that prompts contain the session only from a turn on, without the first
// steps of that turn.
func (t *Transition) LeaveOut(before, steps int64) {
	t.Row.ContextFrom, t.Row.ContextSteps = before, steps
	t.do(func() error { return t.tx.Work().SetContext(t.ctx, t.Row) })
}

// KeepView records the part of the drive that prompts contain; only the worker reads the text.
func (t *Transition) KeepView(text string) {
	t.do(func() error { return t.tx.Work().SetSessionView(t.ctx, t.Row.AccountID, t.Row.ID, text) })
}

// KeepTools records the definitions with which prompts begin, and what the model was told about them since. Empty definitions are stored
// already.
func (t *Transition) KeepTools(sha256, tools, view string) {
	t.do(func() error {
		return t.tx.Work().KeepTools(t.ctx, t.Row.AccountID, t.Row.AgentID, t.Row.ID, sha256, tools, view)
	})
}

// RecordCompaction writes a compaction and its cost. It must run after the charge in the same
// transaction, because it reads the charge.
func (t *Transition) RecordCompaction(c store.Compaction) {
	id := stoa.StepID(t.Row.ID, c.Turn, 0)
	t.do(func() error { return t.tx.Work().InsertCompaction(t.ctx, t.Row.ID, c) })
	charge := t.spend(id)
	t.Row.Compacted = c.Turn
	t.LeaveOut(c.From, c.Steps)
	t.event(EventCompacted, CompactedData{
		Turn: c.Turn, FromTurn: c.From, FromStep: c.Steps + 1, Used: c.Text != "", Text: c.Text, TokensBefore: c.TokensBefore, TokensAfter: c.After,
		ReceiptID: id, CreditsMicro: int64(charge.Amount),
	})
}

func (t *Transition) spend(id string) (charge store.Receipt) {
	t.do(func() (err error) {
		if charge, _, err = t.tx.Books().ChargeByID(t.ctx, id); err != nil {
			return err
		}
		t.Row.Usage.InputTokens += charge.Usage.InputTokens
		t.Row.Usage.OutputTokens += charge.Usage.OutputTokens
		t.Row.Spent += charge.Amount
		t.Row.Turn.Spent += charge.Amount
		return nil
	})
	return charge
}

// A ToolEffect is the effect of a tool call.
type ToolEffect struct {
	Result  stoa.ToolResult
	Sources []stoa.Source // Turn is not set
	Written *DriveData
	Memory  *stoa.MemoryNote   // to be written to the memory of the end user with the Result, which says what came of it
	Input   *stoa.Input        // question to the user; there is no Result yet
	Call    *stoa.ExternalCall // an external call, or one of the drive that needs an approval; otherwise nil
	Waits   string             // kind of the input for which the Call waits, without a Result
	// Remembered is what became of Memory, see [Transition.Remember].
	Remembered store.MemoryChange
	Ended      func(failed bool) // counts a call with a Memory, when it is recorded
	Done       bool              // the Call was carried out; otherwise the Result says why it was not
}

// Remember writes a note to the memory of the session's end user; an empty text deletes it. The returned error says why it was not
// written, for the model.
func (t *Transition) Remember(name, text string) (c store.MemoryChange, err error) {
	t.do(func() error {
		of, _ := t.Row.MemoryOwner()
		gone, erasedErr := t.tx.Work().MemoryIsErased(t.ctx, of, t.Row.CreatedAt)
		switch {
		case erasedErr != nil:
			return erasedErr
		case gone: // its cancellation is about to follow
			err = stoa.Errorf(stoa.CodeInvalidValue, "The data of this user is being erased.")
		default:
			c, err = t.tx.Work().PutMemoryNote(t.ctx, of, name, text)
		}
		if code := stoa.CodeOf(err); code == stoa.CodeInvalidValue || code == stoa.CodeLimitReached {
			return nil
		}
		return err
	})
	return c, err
}

// RecordTool records the effect of a step's call; place counts from 0. An effect
// with an Input stops the turn until its user answers.
func (t *Transition) RecordTool(step stoa.Step, place int, out ToolEffect) {
	id := stoa.StepID(step.SessionID, step.Turn, step.Number)
	switch c := out.Call; {
	case c == nil:
	case out.Done:
		c.StartedAt, c.Attempts = t.tx.Now, 1
		t.called(*c)
		t.drive(id, out)
		outcome := stoa.OutcomeOK
		if out.Result.IsError {
			outcome = stoa.OutcomeError
		}
		t.finishCall(c, outcome, out.Result.Content)
		return
	default:
		t.called(*c)
		c.ErrorCode = stoa.CodeInvalidValue
		t.finishCall(c, stoa.OutcomeError, out.Result.Content)
		return
	}
	call := step.Calls[place].Meant()
	t.event(EventToolCalled, ToolData{StepID: id, CallID: call.ID, Name: call.Name, Arguments: call.Arguments})
	if out.Input != nil {
		if !t.Row.CancelAt.IsZero() {
			t.Cancel()
			return
		}
		in := *out.Input
		in.Step = step.Number
		t.newInput(&in)
		t.message(stoa.SessionMessage{Turn: in.Turn, Step: in.Step, Role: stoa.RoleAssistant, Kind: stoa.KindQuestion, Status: stoa.MessageCompleted, Text: in.Prompt}, "")
		t.wait(in, "")
		return
	}
	t.do(func() error {
		return t.tx.Work().InsertStepResult(t.ctx, t.Row.ID, step.Turn, step.Number, place, out.Result)
	})
	t.drive(id, out)
	size := len(out.Result.Content)
	t.event(EventToolDone, ToolData{StepID: id, CallID: call.ID, Name: call.Name, IsError: &out.Result.IsError, Bytes: &size})
}

func (t *Transition) drive(stepID string, out ToolEffect) {
	t.sources(stepID, out.Sources)
	if out.Written != nil {
		t.event(EventDriveWritten, *out.Written)
	}
}

func (t *Transition) sources(stepID string, list []stoa.Source) {
	for i := range list {
		s := &list[i]
		s.Turn = t.Row.Turn.Number
		t.event(EventDriveRead, DriveData{StepID: stepID, Path: s.Path, SHA256: s.SHA256, FromLine: s.FromLine, ToLine: s.ToLine, Place: s.Place, Via: s.Via})
	}
	t.do(func() error { return t.tx.Work().InsertSources(t.ctx, t.Row.ID, list) })
}
