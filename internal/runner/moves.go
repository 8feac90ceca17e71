package runner

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
	"stoa/internal/store"
)

// Why a session has the status it has, where that is not obvious.
const (
	reasonAnswered   = "answered"    // queued: its input was answered
	reasonRetrying   = "retrying"    // queued: a passing failure
	reasonLost       = "worker_lost" // queued or failed: its worker was gone
	reasonHandedBack = "handed_back" // queued: its worker stops
	reasonLength     = "length"      // completed: a token limit cut the answer
	reasonFilter     = "content_filter"
	reasonDeleted    = "agent_deleted"
)

// Codes of failed turns that no HTTP reply carries.
const (
	codeQueueTimeout stoa.Code = "queue_timeout"
	codeTurnTimeout  stoa.Code = "turn_timeout"
	codeStepLimit    stoa.Code = "step_limit_reached"
	codeCreditLimit  stoa.Code = "credit_limit_reached"
	codeInputExpired stoa.Code = "input_expired"
	codeWorkerLost   stoa.Code = "worker_lost"
	codeFilter       stoa.Code = "content_filter"
)

// sweepGrace is what a worker has to notice a deadline or a cancel before the
// sweep acts without it.
const sweepGrace = 5 * time.Second

// A change is what one transaction does to one session. Its methods write at
// once and remember the first error; save writes the row. It is made anew
// whenever its transaction runs again.
type change struct {
	r      *Runner
	ctx    context.Context
	tx     *store.Tx
	row    *store.SessionRow
	events []stoa.SessionEvent
	err    error
}

func (r *Runner) change(ctx context.Context, tx *store.Tx, row *store.SessionRow) *change {
	return &change{r: r, ctx: ctx, tx: tx, row: row}
}

// do runs fn unless something has failed before.
func (c *change) do(fn func() error) {
	if c.err == nil {
		c.err = fn()
	}
}

// event adds to the log.
func (c *change) event(typ string, data any) {
	c.do(func() error {
		text, err := jsonx.Marshal(data)
		if err != nil {
			return err
		}
		c.row.LastSeq++
		e := stoa.SessionEvent{Seq: c.row.LastSeq, Type: typ, At: c.tx.Now, Data: string(text)}
		c.events = append(c.events, e)
		return c.tx.InsertEvents(c.ctx, c.row.ID, []stoa.SessionEvent{e})
	})
}

// save writes the row and makes the change known once it is committed.
func (c *change) save() error {
	c.do(func() error { return c.tx.SaveSession(c.ctx, c.row) })
	if c.err != nil {
		return c.err
	}
	id, events, soon := c.row.ID, c.events, c.row.DueAt
	if c.row.Status == stoa.SessionQueued {
		soon = earlier(soon, c.row.WakeAt)
	}
	c.tx.AfterCommit(func() {
		c.r.hub.publish(id, events)
		c.r.expect(soon)
	})
	return nil
}

// status moves session and turn.
func (c *change) status(next stoa.SessionStatus, reason string) {
	c.do(func() error {
		if !c.row.Status.CanBecome(next) {
			return fmt.Errorf("runner: %s cannot go from %s to %s", c.row.ID, c.row.Status, next)
		}
		return nil
	})
	c.row.Status, c.row.Turn.Status, c.row.Turn.Reason = next, next, reason
	if next != stoa.SessionRunning {
		c.row.Owner = ""
	}
	c.event(EventStatus, StatusData{Status: string(next), StatusReason: reason, Turn: c.row.Turn.Number})
	if c.row.Trigger.Type == stoa.TriggerSchedule {
		c.do(func() error {
			c.tx.AfterCommit(c.r.tell)
			return c.tx.TurnOfRun(c.ctx, c.row.Session)
		})
	}
}

// message adds a whole message of this turn, or one that is queued.
func (c *change) message(m stoa.SessionMessage) stoa.SessionMessage {
	m.ID, m.SessionID, m.CreatedAt = stoa.NewID("msg"), c.row.ID, c.tx.Now
	c.do(func() error {
		return c.tx.InsertMessage(c.ctx, store.MessageRow{SessionMessage: m, FirstSeq: c.row.LastSeq + 1})
	})
	c.event(EventMessageCreated, messageData(m, true))
	if m.Status == "completed" {
		c.event(EventMessageDone, messageData(m, true))
	}
	return m
}

// newTurn queues a turn for a message. The session is new, or stopped.
func (c *change) newTurn(messageID string, retryOf int64) {
	c.row.Turn = stoa.Turn{
		ID: stoa.NewID("trn"), SessionID: c.row.ID, Number: c.row.Turn.Number + 1, Status: stoa.SessionQueued,
		MessageID: messageID, RetryOf: retryOf, CreatedAt: c.tx.Now,
	}
	c.row.Pending, c.row.CancelAt, c.row.FinishedAt, c.row.Strikes = nil, time.Time{}, time.Time{}, 0
	c.row.WakeAt, c.row.DueAt = c.tx.Now, c.tx.Now.Add(c.r.cfg.Limits.QueueTime)
}

// queueTurn is newTurn of a session that exists.
func (c *change) queueTurn(messageID string, retryOf int64) {
	c.newTurn(messageID, retryOf)
	c.do(func() error { return c.tx.InsertTurn(c.ctx, c.row.Turn) })
	c.status(stoa.SessionQueued, "")
}

// claim gives the session to a runner.
func (c *change) claim(owner string) {
	t := &c.row.Turn
	why := t.Reason
	c.status(stoa.SessionRunning, "")
	c.row.Owner = owner
	c.row.Fence++
	if why != reasonAnswered && why != reasonHandedBack {
		t.Attempt++
	}
	first := t.StartedAt.IsZero()
	if first {
		t.StartedAt = c.tx.Now
	}
	if c.row.StartedAt.IsZero() {
		c.row.StartedAt = c.tx.Now
	}
	if t.DeadlineAt.IsZero() {
		t.DeadlineAt = c.tx.Now.Add(c.row.Limits.Timeout)
	}
	c.row.DueAt = t.DeadlineAt.Add(sweepGrace)
	data := TurnData{TurnID: t.ID, Turn: t.Number, Attempt: t.Attempt, DeadlineAt: timeText(t.DeadlineAt)}
	if first {
		c.event(EventTurnStarted, data)
	} else if why != reasonAnswered {
		c.event(EventTurnRecovered, data)
	}
}

// requeue gives the session back to the queue.
func (c *change) requeue(reason string, after time.Duration) {
	c.status(stoa.SessionQueued, reason)
	c.row.WakeAt, c.row.DueAt = c.tx.Now.Add(after), c.row.Turn.DeadlineAt
	if c.row.DueAt.IsZero() {
		c.row.DueAt = c.tx.Now.Add(c.r.cfg.Limits.QueueTime)
	}
}

// How many attempts in a row may end without a finished step. A failure that
// comes back is the turn's own; a process that dies takes down whoever is in it,
// so that counts against a turn only when it happens again and again.
const (
	strikesFailed = 3
	strikesLost   = 5
)

// strike requeues after an attempt that made no progress, or gives up after so
// many.
func (c *change) strike(most int, reason string, after time.Duration, failure stoa.Failure) {
	c.row.Strikes++
	if c.row.Strikes >= most {
		c.fail(failure)
		return
	}
	c.requeue(reason, after)
}

func (c *change) fail(f stoa.Failure) {
	c.event(EventError, ErrorData{Code: string(f.Code), Message: f.Message, Retryable: f.Retryable, Turn: c.row.Turn.Number})
	c.row.Turn.Failure = &f
	c.finish(stoa.SessionFailed, string(f.Code))
}

// finish stops the turn for good, and starts the next one if a message waits.
func (c *change) finish(status stoa.SessionStatus, reason string) {
	c.closeMessages(status)
	if in := c.row.Pending; in != nil && in.Status == "pending" {
		in.Status = "cancelled"
		c.do(func() error { return c.tx.UpdateInput(c.ctx, *in) })
	}
	c.row.Pending = nil
	c.row.Turn.FinishedAt, c.row.FinishedAt = c.tx.Now, c.tx.Now
	c.row.DueAt, c.row.CancelAt, c.row.Strikes = time.Time{}, time.Time{}, 0
	c.status(status, reason)
	if c.row.QueuedMessages == 0 || c.err != nil {
		return
	}
	var waiting []store.MessageRow
	c.do(func() (err error) {
		waiting, err = c.tx.QueuedMessages(c.ctx, c.row.ID)
		return err
	})
	if status == stoa.SessionCancelled { // who stops a session does not want it to go on
		for _, m := range waiting {
			m.Status = "cancelled"
			c.do(func() error { return c.tx.UpdateMessage(c.ctx, m.SessionMessage) })
			c.event(EventMessageDone, messageData(m.SessionMessage, true))
		}
		c.row.QueuedMessages = 0
		return
	}
	if len(waiting) == 0 {
		c.row.QueuedMessages = 0
		return
	}
	c.row.QueuedMessages = len(waiting) - 1
	m := waiting[0].SessionMessage
	c.do(func() error { return c.tx.UpdateTurn(c.ctx, c.row.Turn) })
	c.newTurn(m.ID, 0)
	m.Turn, m.Status = c.row.Turn.Number, "completed"
	c.do(func() error { return c.tx.UpdateMessage(c.ctx, m) })
	c.do(func() error { return c.tx.PlaceMessageLast(c.ctx, c.row.ID, m.ID) })
	c.do(func() error { return c.tx.InsertTurn(c.ctx, c.row.Turn) })
	c.event(EventMessageDone, messageData(m, true))
	c.status(stoa.SessionQueued, "")
}

// closeMessages ends what the turn was still writing, with the text that
// readers have seen of it.
func (c *change) closeMessages(status stoa.SessionStatus) {
	var open []store.MessageRow
	c.do(func() (err error) {
		open, err = c.tx.OpenMessages(c.ctx, c.row.ID, c.row.Turn.Number)
		return err
	})
	for _, m := range open {
		c.do(func() error {
			deltas, err := c.tx.Deltas(c.ctx, c.row.ID, m.FirstSeq)
			if err != nil {
				return err
			}
			m.Text, m.Status = joinDeltas(deltas, m.ID), string(status)
			return c.tx.UpdateMessage(c.ctx, m.SessionMessage)
		})
		c.event(EventMessageDone, messageData(m.SessionMessage, true))
	}
}

// ask stops the turn until its user has answered.
func (c *change) ask(in stoa.Input) {
	in.ID, in.SessionID, in.Turn, in.Status = stoa.NewID("inp"), c.row.ID, c.row.Turn.Number, "pending"
	in.CreatedAt, in.ExpiresAt = c.tx.Now, c.tx.Now.Add(c.r.cfg.Limits.InputTime)
	c.do(func() error { return c.tx.InsertInput(c.ctx, in) })
	c.message(stoa.SessionMessage{Turn: in.Turn, Step: in.Step, Role: stoa.RoleAssistant, Kind: stoa.KindQuestion, Status: "completed", Text: in.Prompt})
	c.event(EventInputRequested, InputData{InputID: in.ID, Kind: in.Kind, Turn: in.Turn, Prompt: in.Prompt, Options: in.Options, DefaultValue: in.Default, ExpiresAt: timeText(in.ExpiresAt)})
	c.row.Pending = &in
	c.row.DueAt, c.row.Turn.DeadlineAt, c.row.Strikes = in.ExpiresAt, time.Time{}, 0
	c.status(stoa.SessionWaiting, "")
}

// answer gives the turn what it waits for.
func (c *change) answer(value string, byDefault bool) {
	in := c.row.Pending
	in.Answer, in.Status, in.AnsweredAt = value, "answered", c.tx.Now
	if byDefault {
		in.Status = "expired"
		c.event(EventInputExpired, InputData{InputID: in.ID, Kind: in.Kind, Turn: in.Turn, Answer: &value, DefaultUsed: true})
	}
	c.do(func() error { return c.tx.UpdateInput(c.ctx, *in) })
	c.do(func() error {
		steps, err := c.tx.Steps(c.ctx, c.row.ID, in.Turn)
		if err != nil {
			return err
		}
		place, err := placeOf(steps, in.Step, in.CallID)
		if err != nil {
			return err
		}
		result, err := askResult(*in, byDefault)
		if err != nil {
			return err
		}
		return c.tx.InsertStepResult(c.ctx, c.row.ID, in.Turn, in.Step, place, result)
	})
	if !byDefault {
		c.message(stoa.SessionMessage{Turn: in.Turn, Role: stoa.RoleUser, Kind: stoa.KindAnswer, Status: "completed", Text: value})
		c.event(EventInputAnswered, InputData{InputID: in.ID, Kind: in.Kind, Turn: in.Turn, Answer: &value})
	}
	c.row.Pending = nil
	c.row.WakeAt, c.row.DueAt = c.tx.Now, c.tx.Now.Add(c.r.cfg.Limits.QueueTime)
	c.status(stoa.SessionQueued, reasonAnswered)
}

// placeOf finds the place of a call in its step.
func placeOf(steps []stoa.Step, step int64, callID string) (int, error) {
	for _, s := range steps {
		if s.Number != step {
			continue
		}
		// Calls are answered in order, so the one that waits is the first without
		// an answer; ids of vendors are not always unique.
		if n := len(s.Results); n < len(s.Calls) && s.Calls[n].ID == callID {
			return n, nil
		}
	}
	return 0, fmt.Errorf("runner: no open call %q in step %d", callID, step)
}

// lost takes a turn back from a worker that is gone. The row is running.
func (c *change) lost() {
	switch t := c.row.Turn; {
	case !c.row.CancelAt.IsZero():
		c.finish(stoa.SessionCancelled, "")
	case !t.DeadlineAt.IsZero() && !c.tx.Now.Before(t.DeadlineAt):
		c.timeout()
	default:
		c.strike(strikesLost, reasonLost, 0, stoa.Failure{Code: codeWorkerLost, Message: "The worker of this turn was lost several times without a step being finished.", Retryable: true})
	}
}

func (c *change) timeout() {
	c.fail(stoa.Failure{Code: codeTurnTimeout, Message: "The turn took longer than it may. Retry it, ask for less at once, or raise the limit of its time.", Retryable: true})
}

// due does what the sweep has to when the row's time has come.
func (c *change) due() {
	switch c.row.Status {
	case stoa.SessionQueued:
		if c.row.Turn.DeadlineAt.IsZero() {
			c.fail(stoa.Failure{Code: codeQueueTimeout, Message: "The turn waited too long for its place in the queue.", Retryable: true})
		} else {
			c.timeout()
		}
	case stoa.SessionRunning:
		if c.row.CancelAt.IsZero() {
			c.timeout()
		} else {
			c.finish(stoa.SessionCancelled, "")
		}
	case stoa.SessionWaiting:
		in := c.row.Pending
		if in.Default != nil {
			c.answer(*in.Default, true)
			return
		}
		in.Status = "expired"
		c.do(func() error { return c.tx.UpdateInput(c.ctx, *in) })
		c.event(EventInputExpired, InputData{InputID: in.ID, Kind: in.Kind, Turn: in.Turn})
		c.fail(stoa.Failure{Code: codeInputExpired, Message: "The agent's question was not answered in time.", Retryable: true})
	default:
		c.row.DueAt = time.Time{}
	}
}

func runeCount[T ~string | ~[]byte](s T) int { return utf8.RuneCountInString(string(s)) }

// byteOffset is where a text's character of that number begins.
func byteOffset(text []byte, runes int) int {
	at := 0
	for range runes {
		_, n := utf8.DecodeRune(text[at:])
		at += n
	}
	return at
}
