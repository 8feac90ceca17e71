package session

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"stoa/internal/agents/webhook"
	"stoa/internal/base/cluster"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

// Reasons for a status, if they are not obvious.
const (
	reasonAnswered   = "answered"    // queued: its input was answered
	reasonRetrying   = "retrying"    // queued: a transient failure
	reasonLost       = "worker_lost" // queued or failed: its worker was gone
	reasonHandedBack = "handed_back" // queued: its worker shuts down
	reasonLength     = "length"      // completed: a token limit cut the answer
	reasonFilter     = "content_filter"
	reasonDeleted    = "agent_deleted"

	// ReasonTool is the reason of a session that waits for outputs of tools, not for its
	// user.
	ReasonTool = "waiting_for_tool"

	// ReasonApproval is the reason of a session that waits for people to decide about calls
	// of tools.
	ReasonApproval = "waiting_for_approval"

	// ReasonVisitor is the reason of a session whose visitor has to confirm a call of a tool.
	ReasonVisitor = "waiting_for_visitor"
)

// Codes of failed turns that do not occur in HTTP replies.
const (
	codeQueueTimeout stoa.Code = "queue_timeout"
	codeTurnTimeout  stoa.Code = "turn_timeout"
	CodeStepLimit    stoa.Code = "step_limit_reached"
	CodeCreditLimit  stoa.Code = "credit_limit_reached"
	codeInputExpired stoa.Code = "input_expired"
	codeWorkerLost   stoa.Code = "worker_lost"
	codeFilter       stoa.Code = "content_filter"
	codeToolTimeout  stoa.Code = "tool_timeout"
	codeToolUnknown  stoa.Code = "tool_outcome_unknown"
	codeToolLimit    stoa.Code = "tool_limit_reached"
	codeTooManyWaits stoa.Code = "too_many_waits"
)

// sweepGrace delays the end of a turn by the sweep, so that its worker can react to a deadline or
// a cancellation first.
const sweepGrace = 5 * time.Second

// A Transition is the change that one transaction makes to one session: a change of its
// status, and the events that report it. Its methods write immediately and keep the first
// error, which [Transition.Save] returns; Save must always be called. Create a new Transition if
// the transaction runs again, because this one keeps the state of the failed run.
type Transition struct {
	Row *store.SessionRow // must not be changed outside of this package

	s      *Sessions
	ctx    context.Context
	tx     *store.Tx
	events []stoa.SessionEvent
	stored int // number of events written
	turn   stoa.Turn
	became moves
	err    error
}

func (s *Sessions) transition(ctx context.Context, tx *store.Tx, row *store.SessionRow) *Transition {
	return &Transition{Row: row, s: s, ctx: ctx, tx: tx, turn: row.Turn}
}

// do runs fn unless an earlier operation has failed.
func (t *Transition) do(fn func() error) {
	if t.err == nil {
		t.err = fn()
	}
}

func (t *Transition) event(typ string, data any) {
	t.do(func() error {
		text, err := jsonx.Marshal(data)
		if err != nil {
			return err
		}
		t.Row.LastSeq++
		t.events = append(t.events, stoa.SessionEvent{Seq: t.Row.LastSeq, Type: typ, At: t.tx.Now, Data: string(text)})
		return nil
	})
}

func (t *Transition) writeEvents() {
	t.do(func() error {
		rest := t.events[t.stored:]
		t.stored = len(t.events)
		return t.tx.Work().InsertEvents(t.ctx, t.Row.ID, rest)
	})
}

// Save writes the row and the events, which are published after the commit. It writes the
// turn if it has changed.
func (t *Transition) Save() error {
	t.do(func() error {
		if t.Row.Turn == t.turn {
			return t.tx.Work().SaveSessionRow(t.ctx, t.Row)
		}
		return t.tx.Work().SaveSession(t.ctx, t.Row)
	})
	return t.saved()
}

func (t *Transition) saved() error {
	t.writeEvents()
	if t.err != nil {
		return t.err
	}
	due := t.Row.DueAt
	if t.Row.Status == stoa.SessionQueued {
		due = earlier(due, t.Row.WakeAt)
	}
	s, became := t.s, t.became
	t.tx.AfterCommit(func() {
		s.alarm.WakeAt(due)
		for _, to := range became.to[:became.n] {
			s.metrics.Became(to, became.failure)
		}
	})
	t.publish()
	return nil
}

// moves are the statuses that a transition has brought a session to. There may be several,
// because a turn ends and its session is queued for the next message.
type moves struct {
	n       int
	to      [4]stoa.SessionStatus
	failure stoa.Code
}

func (m *moves) add(to stoa.SessionStatus, reason string) {
	if m.n < len(m.to) {
		m.to[m.n] = to
		m.n++
	}
	if to == stoa.SessionFailed {
		m.failure = stoa.Code(reason)
	}
}

func (t *Transition) insertTurn() {
	t.do(func() error { return t.tx.Work().InsertTurn(t.ctx, t.Row.Turn) })
	t.turn = t.Row.Turn
}

func (t *Transition) publish() {
	s, id, events := t.s, t.Row.ID, t.events
	t.tx.AfterCommit(func() {
		s.hub.publish(id, events)
		if len(events) > 0 && s.store.HasPeers() {
			s.store.Hint(cluster.HintSession, id, strconv.FormatInt(events[len(events)-1].Seq, 10))
		}
	})
}

func (t *Transition) status(next stoa.SessionStatus, reason string) {
	t.do(func() error {
		if !t.Row.Status.CanBecome(next) {
			return fmt.Errorf("session: %s cannot go from %s to %s", t.Row.ID, t.Row.Status, next)
		}
		return nil
	})
	t.Row.Status, t.Row.Turn.Status, t.Row.Turn.Reason = next, next, reason
	t.became.add(next, reason)
	if next != stoa.SessionRunning {
		t.Row.Owner = ""
	}
	t.event(EventStatus, StatusData{Status: string(next), StatusReason: reason, Turn: t.Row.Turn.Number})
	if next.Stopped() {
		t.do(func() error { return webhook.SessionStopped(t.ctx, t.tx, t.Row.Session) })
	}
	if t.Row.Trigger.Type == stoa.TriggerTest && next.Stopped() {
		tests := t.s.tests
		t.tx.AfterCommit(func() { signal(tests) })
	}
	if t.Row.Trigger.Type == stoa.TriggerSchedule {
		t.do(func() error {
			t.tx.AfterCommit(t.s.runChanged)
			return t.tx.Work().TurnOfRun(t.ctx, t.Row.Session)
		})
	}
}

func (t *Transition) message(m stoa.SessionMessage, note string) stoa.SessionMessage {
	m.ID, m.SessionID, m.CreatedAt = stoa.NewID("msg"), t.Row.ID, t.tx.Now
	t.do(func() error {
		return t.tx.Work().InsertMessage(t.ctx, store.MessageRow{SessionMessage: m, FirstSeq: t.Row.LastSeq + 1, Note: note})
	})
	t.event(EventMessageCreated, messageData(m, true))
	if m.Status == stoa.MessageCompleted {
		t.event(EventMessageDone, messageData(m, true))
	}
	return m
}

// newTurn queues a turn for a message. The session is new or has stopped.
func (t *Transition) newTurn(messageID string, retryOf int64) {
	t.Row.Turn = stoa.Turn{
		ID: stoa.NewID("trn"), SessionID: t.Row.ID, Number: t.Row.Turn.Number + 1, Status: stoa.SessionQueued,
		MessageID: messageID, RetryOf: retryOf, CreatedAt: t.tx.Now,
	}
	t.Row.Pending, t.Row.CancelAt, t.Row.FinishedAt, t.Row.Strikes = nil, time.Time{}, time.Time{}, 0
	t.Row.WakeAt, t.Row.DueAt = t.tx.Now, t.tx.Now.Add(t.s.limits.QueueTime)
}

func (t *Transition) queueTurn(messageID string, retryOf int64) {
	t.newTurn(messageID, retryOf)
	t.insertTurn()
	t.status(stoa.SessionQueued, "")
}

// claim assigns the session to a worker. Continuing after an answer or a hand-back is not a
// new attempt.
func (t *Transition) claim(owner string) {
	turn := &t.Row.Turn
	why := turn.Reason
	t.status(stoa.SessionRunning, "")
	t.Row.Owner = owner
	t.Row.Fence++
	if why != reasonAnswered && why != reasonHandedBack {
		turn.Attempt++
	}
	first := turn.StartedAt.IsZero()
	if first {
		turn.StartedAt = t.tx.Now
	}
	if t.Row.StartedAt.IsZero() {
		t.Row.StartedAt = t.tx.Now
	}
	if turn.DeadlineAt.IsZero() {
		turn.DeadlineAt = t.tx.Now.Add(t.Row.Limits.Timeout)
	}
	t.Row.DueAt = turn.DeadlineAt.Add(sweepGrace)
	data := TurnData{TurnID: turn.ID, Turn: turn.Number, Attempt: turn.Attempt, DeadlineAt: timeText(turn.DeadlineAt)}
	if first {
		t.event(EventTurnStarted, data)
	} else if why != reasonAnswered {
		t.event(EventTurnRecovered, data)
	}
}

func (t *Transition) requeue(reason string, after time.Duration) {
	t.status(stoa.SessionQueued, reason)
	t.Row.WakeAt, t.Row.DueAt = t.tx.Now.Add(after), t.Row.Turn.DeadlineAt
	if t.Row.DueAt.IsZero() {
		t.Row.DueAt = t.tx.Now.Add(t.s.limits.QueueTime)
	}
}

// HandBack returns the session to the queue because its worker shuts down. It does not count
// as an attempt.
func (t *Transition) HandBack() { t.requeue(reasonHandedBack, 0) }

// The maximum numbers of consecutive attempts without a finished step. A lost worker has a higher
// one, because a dying process stops all its turns, whereas a repeated failure is the fault of the
// turn.
const (
	strikesFailed = 3
	strikesLost   = 5
)

// Strike requeues the session after a failure that may be transient. After too many
// consecutive failures without a finished step, the turn fails.
func (t *Transition) Strike(after time.Duration, f stoa.Failure) {
	t.strike(strikesFailed, reasonRetrying, after, f)
}

func (t *Transition) strike(most int, reason string, after time.Duration, f stoa.Failure) {
	t.Row.Strikes++
	if t.Row.Strikes >= most {
		t.Fail(f)
		return
	}
	t.requeue(reason, after)
}

// Fail ends the turn with a failure. If that leaves a call whose outcome is unknown and whose
// tool requires it, the failure is about that call.
func (t *Transition) Fail(f stoa.Failure) {
	f = t.failureWith(f)
	t.event(EventError, ErrorData{Code: string(f.Code), Message: f.Message, Retryable: f.Retryable, Turn: t.Row.Turn.Number})
	t.Row.Turn.Failure = &f
	t.finish(stoa.SessionFailed, string(f.Code))
}

// Cancel ends the turn as cancelled and drops waiting messages.
func (t *Transition) Cancel() { t.finish(stoa.SessionCancelled, "") }

// Timeout ends the turn because its time is over.
func (t *Transition) Timeout() {
	t.Fail(stoa.Failure{Code: codeTurnTimeout, Message: "The turn reached its time limit. Retry it, split the task into smaller ones, or raise the limit.", Retryable: true})
}

func (t *Transition) finish(status stoa.SessionStatus, reason string) {
	t.closeMessages(status)
	t.end(status, reason)
}

// end is finish for a turn whose messages are complete.
func (t *Transition) end(status stoa.SessionStatus, reason string) {
	t.cancelCalls()
	if in := t.Row.Pending; in != nil && in.Status == stoa.InputPending {
		in.Status = stoa.InputCancelled
		t.do(func() error { return t.tx.Work().UpdateInput(t.ctx, *in) })
	}
	t.Row.Pending = nil
	t.Row.Turn.FinishedAt, t.Row.FinishedAt = t.tx.Now, t.tx.Now
	t.Row.DueAt, t.Row.CancelAt, t.Row.Strikes = time.Time{}, time.Time{}, 0
	t.status(status, reason)
	if t.Row.QueuedMessages > 0 && t.err == nil {
		t.takeUp(status)
	}
}

// takeUp begins a turn with the first waiting message. After a cancellation it drops them
// all, because a caller who stops a session does not expect it to continue.
func (t *Transition) takeUp(status stoa.SessionStatus) {
	var waiting []store.MessageRow
	t.do(func() (err error) {
		waiting, err = t.tx.Work().QueuedMessages(t.ctx, t.Row.ID)
		return err
	})
	if status == stoa.SessionCancelled {
		for _, m := range waiting {
			m.Status = stoa.MessageCancelled
			t.do(func() error { return t.tx.Work().UpdateMessage(t.ctx, m.SessionMessage) })
			t.event(EventMessageDone, messageData(m.SessionMessage, true))
		}
		waiting = nil
	}
	if len(waiting) == 0 {
		t.Row.QueuedMessages = 0
		return
	}
	t.Row.QueuedMessages = len(waiting) - 1
	m := waiting[0].SessionMessage
	t.do(func() error { return t.tx.Work().UpdateTurn(t.ctx, t.Row.Turn) })
	t.newTurn(m.ID, 0)
	m.Turn, m.Status = t.Row.Turn.Number, stoa.MessageCompleted
	t.do(func() error { return t.tx.Work().UpdateMessage(t.ctx, m) })
	t.do(func() error { return t.tx.Work().PlaceMessageLast(t.ctx, t.Row.ID, m.ID) })
	t.insertTurn()
	t.event(EventMessageDone, messageData(m, true))
	t.status(stoa.SessionQueued, "")
}

// closeMessages ends the unfinished messages of the turn with the text that readers have.
func (t *Transition) closeMessages(status stoa.SessionStatus) {
	var open []store.MessageRow
	t.do(func() (err error) {
		open, err = t.tx.Work().OpenMessages(t.ctx, t.Row.ID, t.Row.Turn.Number)
		return err
	})
	if len(open) > 0 {
		t.writeEvents() // because a delta may be among them
	}
	for _, m := range open {
		t.do(func() error {
			deltas, err := t.tx.Work().Deltas(t.ctx, t.Row.ID, m.FirstSeq)
			if err != nil {
				return err
			}
			m.Text, m.Status = joinDeltas(deltas, m.ID), stoa.MessageStatus(status)
			return t.tx.Work().UpdateMessage(t.ctx, m.SessionMessage)
		})
		t.event(EventMessageDone, messageData(m.SessionMessage, true))
	}
}

func (t *Transition) newInput(in *stoa.Input) {
	in.ID, in.SessionID, in.Turn, in.Status = stoa.NewID("inp"), t.Row.ID, t.Row.Turn.Number, stoa.InputPending
	in.CreatedAt, in.ExpiresAt = t.tx.Now, t.tx.Now.Add(t.s.limits.InputTime)
}

// wait stops the turn for an input. The wait does not count towards the turn's time.
func (t *Transition) wait(in stoa.Input, reason string) {
	t.do(func() error { return t.tx.Work().InsertInput(t.ctx, in) })
	t.event(EventInputRequested, InputData{
		InputID: in.ID, Kind: in.Kind, Turn: in.Turn, Prompt: in.Prompt, Options: in.Options, DefaultValue: in.Default, ExpiresAt: timeText(in.ExpiresAt),
		Calls: callData(in.Calls), Confirmation: ConfirmationOf(&in),
	})
	t.Row.Pending = &in
	t.Row.DueAt, t.Row.Turn.DeadlineAt, t.Row.Strikes = in.ExpiresAt, time.Time{}, 0
	t.status(stoa.SessionWaiting, reason)
}

func (t *Transition) resume() {
	t.Row.Pending = nil
	t.Row.WakeAt, t.Row.DueAt = t.tx.Now, t.tx.Now.Add(t.s.limits.QueueTime)
	t.status(stoa.SessionQueued, reasonAnswered)
}

func (t *Transition) answer(value string, byDefault bool, files ...stoa.Attachment) {
	in := t.Row.Pending
	in.Answer, in.Status, in.AnsweredAt = value, stoa.InputAnswered, t.tx.Now
	if byDefault {
		in.Status = stoa.InputExpired
		t.event(EventInputExpired, InputData{InputID: in.ID, Kind: in.Kind, Turn: in.Turn, Answer: &value, DefaultUsed: true})
	}
	t.do(func() error { return t.tx.Work().UpdateInput(t.ctx, *in) })
	t.do(func() error {
		steps, err := t.tx.Work().Steps(t.ctx, t.Row.ID, in.Turn)
		if err != nil {
			return err
		}
		place, err := placeOf(steps, in.Step, in.CallID)
		if err != nil {
			return err
		}
		told := *in
		var b strings.Builder
		for _, f := range files {
			fmt.Fprintf(&b, "\n[attached file %q: %s, %d bytes; read it with drive_read and attached: true]", f.Name, f.MimeType, f.Size)
		}
		told.Answer += b.String()
		var content struct {
			Answer string `json:"answer"`
			Note   string `json:"note,omitzero"`
		}
		content.Answer = told.Answer
		if byDefault {
			content.Note = "The user did not answer in time; this is your default answer."
		}
		text, err := jsonx.Marshal(content)
		result := stoa.ToolResult{CallID: told.CallID, Name: AskTool, Content: string(text)}
		if err != nil {
			return err
		}
		return t.tx.Work().InsertStepResult(t.ctx, t.Row.ID, in.Turn, in.Step, place, result)
	})
	if !byDefault {
		t.message(stoa.SessionMessage{Turn: in.Turn, Role: stoa.RoleUser, Kind: stoa.KindAnswer, Status: stoa.MessageCompleted, Text: value, Attachments: files}, "")
		t.event(EventInputAnswered, InputData{InputID: in.ID, Kind: in.Kind, Turn: in.Turn, Answer: &value})
	}
	t.resume()
}

func placeOf(steps []stoa.Step, step int64, callID string) (int, error) {
	for _, s := range steps {
		if s.Number != step {
			continue
		}
		// The waiting call is the first without an answer, since calls are answered in order. Its id alone
		// is not enough because vendors do not always use unique ids.
		if place, open := s.Open(); open && s.Calls[place].ID == callID {
			return place, nil
		}
	}
	return 0, fmt.Errorf("session: no open call %q in step %d", callID, step)
}

// Lost requeues a running turn of a worker that is gone.
func (t *Transition) Lost() {
	switch turn := t.Row.Turn; {
	case !t.Row.CancelAt.IsZero():
		t.Cancel()
	case !turn.DeadlineAt.IsZero() && !t.tx.Now.Before(turn.DeadlineAt):
		t.Timeout()
	default:
		t.strike(strikesLost, reasonLost, 0, stoa.Failure{Code: codeWorkerLost, Message: "The worker of this turn was lost several times without a step being finished.", Retryable: true})
	}
}

// Postpone lets the sweep examine a running session again later, because its worker ends its turn.
func (t *Transition) Postpone() { t.Row.DueAt = t.tx.Now.Add(postponed) }

const postponed = time.Minute

// Due ends a session that has waited in the queue, run, or waited for an answer too long. It
// reports whether the row was due.
func (t *Transition) Due() bool {
	if t.Row.DueAt.IsZero() || t.Row.DueAt.After(t.tx.Now) {
		return false
	}
	switch t.Row.Status {
	case stoa.SessionQueued:
		if t.Row.Turn.DeadlineAt.IsZero() {
			t.Fail(stoa.Failure{Code: codeQueueTimeout, Message: "The turn waited too long for its place in the queue.", Retryable: true})
		} else {
			t.Timeout()
		}
	case stoa.SessionRunning:
		if t.Row.CancelAt.IsZero() {
			t.Timeout()
		} else {
			t.Cancel()
		}
	case stoa.SessionWaiting:
		t.expire()
	default:
		t.Row.DueAt = time.Time{}
	}
	return true
}

// expire ends the wait for an answer: with the default, or as a failure.
func (t *Transition) expire() {
	in := t.Row.Pending
	if in.OfTools() {
		t.expireCalls()
		return
	}
	if in.Default != nil {
		t.answer(*in.Default, true)
		return
	}
	in.Status = stoa.InputExpired
	t.do(func() error { return t.tx.Work().UpdateInput(t.ctx, *in) })
	t.event(EventInputExpired, InputData{InputID: in.ID, Kind: in.Kind, Turn: in.Turn})
	t.Fail(stoa.Failure{Code: codeInputExpired, Message: "The agent's question was not answered in time.", Retryable: true})
}

// AskTool is the name of the tool with which a model asks its user. The answer
// is recorded as the result of that call.
const AskTool = "ask_user"

func runeCount[T ~string | ~[]byte](s T) int { return utf8.RuneCountInString(string(s)) }

func byteOffset(text []byte, runes int) int {
	at := 0
	for range runes {
		_, n := utf8.DecodeRune(text[at:])
		at += n
	}
	return at
}
