// Package agui encodes the events of a session as those of the Agent-User Interaction Protocol (AG-UI), version 1.0. It
// stores nothing and makes no calls.
//
// The official client refuses a stream that breaks the protocol's rules of order: every message, tool call and step that
// is opened must be closed before the run finishes, and nothing may be continued that is not open. An [Encoder] keeps them
// for any log of a session, including one in which a second worker repeats a step of the first.
//
// Start with [Encoder]; [Input] is the request.
package agui

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"stoa/internal/agents/session"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// Version is the version of the protocol.
const Version = "1.0"

// The types of events.
const (
	RunStarted       = "RUN_STARTED"
	RunFinished      = "RUN_FINISHED"
	RunError         = "RUN_ERROR"
	MessagesSnapshot = "MESSAGES_SNAPSHOT"
	StepStarted      = "STEP_STARTED"
	StepFinished     = "STEP_FINISHED"
	TextStart        = "TEXT_MESSAGE_START"
	TextContent      = "TEXT_MESSAGE_CONTENT"
	TextEnd          = "TEXT_MESSAGE_END"
	ToolStart        = "TOOL_CALL_START"
	ToolArgs         = "TOOL_CALL_ARGS"
	ToolEnd          = "TOOL_CALL_END"
	ToolResult       = "TOOL_CALL_RESULT"
)

// An Event is an event of the protocol. Only the fields of its type are set.
type Event struct {
	Type            string        `json:"type"`
	ThreadID        string        `json:"threadId,omitzero"`
	RunID           string        `json:"runId,omitzero"`
	ProtocolVersion string        `json:"protocolVersion,omitzero"`
	Messages        []jsonx.Value `json:"messages,omitzero"`
	StepName        string        `json:"stepName,omitzero"`
	MessageID       string        `json:"messageId,omitzero"`
	Role            string        `json:"role,omitzero"`
	ToolCallID      string        `json:"toolCallId,omitzero"`
	ToolCallName    string        `json:"toolCallName,omitzero"`
	ParentMessageID string        `json:"parentMessageId,omitzero"`
	Delta           string        `json:"delta,omitzero"`
	Content         string        `json:"content,omitzero"`
	Message         string        `json:"message,omitzero"` // of an error
	Code            string        `json:"code,omitzero"`
	Outcome         *Outcome      `json:"outcome,omitzero"`
	Usage           []Usage       `json:"usage,omitzero"`
}

// An Outcome says how a run finished: success, interrupt or cancelled.
type Outcome struct {
	Type               string      `json:"type"`
	PendingToolCallIDs []string    `json:"pendingToolCallIds,omitzero"`
	Interrupts         []Interrupt `json:"interrupts,omitzero"`
}

// An Interrupt is something that a run waits for.
type Interrupt struct {
	ID             string  `json:"id"`
	Reason         string  `json:"reason"` // question, choice or approval
	Message        string  `json:"message,omitzero"`
	ResponseSchema *Schema `json:"responseSchema,omitzero"` // of the payload that answers it; nil if it is decided elsewhere
	ExpiresAt      string  `json:"expiresAt,omitzero"`
}

// A Schema is the JSON Schema of an answer.
type Schema struct {
	Type string   `json:"type"`
	Enum []string `json:"enum,omitzero"`
}

// Usage counts the tokens of a run. All counts except the first three are parts of those.
type Usage struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	Total      int64 `json:"totalTokens"`
	Reasoning  int64 `json:"reasoningTokens"`
	Cached     int64 `json:"cachedInputTokens"`
	CacheWrite int64 `json:"cacheWriteInputTokens"`
}

// UsageOf returns the tokens of all model calls of a run as one entry, because a run can call several models.
func UsageOf(u stoa.Usage) []Usage {
	return []Usage{{u.InputTokens, u.OutputTokens, u.Total(), u.ReasoningTokens, u.CachedTokens, u.CacheWriteTokens}}
}

// An Encoder encodes the events of one run, in their order. Arguments is required if the log has external tool calls.
type Encoder struct {
	ThreadID, RunID string
	// Arguments returns the whole arguments of an external call, because its event can contain only their beginning.
	Arguments func(toolCallID string) (string, error)

	out     []Event
	step    string            // name of the open step
	open    bool              // the message shown is open
	message string            // id of the newest message in the session
	shown   string            // id under which the client has it
	sent    string            // text of it that the client has
	begun   map[string]int    // number of ids that a message has had
	parent  string            // message of the current step, if it has one
	calls   map[string]bool   // ids of the calls that have begun
	input   session.InputData // newest request for an input
	seq     int64             // number of the newest event
}

// Start returns the first event of the run.
func (e *Encoder) Start() Event {
	return Event{Type: RunStarted, ThreadID: e.ThreadID, RunID: e.RunID, ProtocolVersion: Version}
}

// Add returns the events for the next event of the session.
func (e *Encoder) Add(ev stoa.SessionEvent) (out []Event, err error) {
	read := func(into any) bool {
		err = jsonx.Unmarshal([]byte(ev.Data), into)
		return err == nil
	}
	e.seq = ev.Seq
	switch ev.Type {
	case session.EventStepStarted:
		if d := (session.StepData{}); read(&d) {
			e.endStep()
			e.step, e.parent = strconv.FormatInt(d.Step, 10), ""
			e.add(Event{Type: StepStarted, StepName: e.step})
		}
	case session.EventStepDone:
		e.endStep()
	case session.EventDelta:
		if d := (session.DeltaData{}); read(&d) {
			before := ""
			if d.MessageID == e.message {
				before = session.CutRunes(e.sent, d.Offset)
			}
			e.text(d.MessageID, before+d.Text, false)
		}
	case session.EventMessageCreated, session.EventMessageDone:
		if d := (session.MessageData{}); read(&d) && d.Role == string(stoa.RoleAssistant) && d.Text != nil {
			e.text(d.MessageID, *d.Text, true)
			e.endText()
		}
	case session.EventToolCalled:
		if d := (session.ToolData{}); read(&d) {
			err = e.call(d)
		}
	case session.EventToolDone:
		if d := (session.ToolData{}); read(&d) && e.calls[callID(d)] {
			e.result(d)
		}
	case session.EventInputRequested:
		e.input = session.InputData{}
		read(&e.input)
	}
	out, e.out = e.out, nil
	return out, err
}

func (e *Encoder) add(ev Event) { e.out = append(e.out, ev) }

// text shows the text of a message so far, or the whole text. Text that the client has cannot be taken back: if a second
// worker writes a message again in other words, the message ends and begins again under another id.
func (e *Encoder) text(id, text string, whole bool) {
	same := id == e.message
	switch {
	case text == "", same && text == e.sent, same && !whole && strings.HasPrefix(e.sent, text): // up to here in the same words
		return
	case same && strings.HasPrefix(text, e.sent):
		e.write(text[len(e.sent):])
	default:
		e.endText()
		if e.begun == nil {
			e.begun = map[string]int{}
		}
		e.begun[id]++
		e.message, e.shown = id, id
		if n := e.begun[id]; n > 1 {
			e.shown = fmt.Sprintf("%s-%d", id, n)
		}
		e.parent = e.shown
		e.write(text)
	}
	e.sent = text
}

func (e *Encoder) write(delta string) {
	if !e.open {
		e.add(Event{Type: TextStart, MessageID: e.shown, Role: "assistant"})
	}
	e.open = true
	e.add(Event{Type: TextContent, MessageID: e.shown, Delta: delta})
}

func (e *Encoder) endText() {
	if e.open {
		e.add(Event{Type: TextEnd, MessageID: e.shown})
	}
	e.open = false
}

func (e *Encoder) endStep() {
	e.endText()
	if e.step != "" {
		e.add(Event{Type: StepFinished, StepName: e.step})
	}
	e.step = ""
}

// call shows a call once: a repeated attempt has the id of the first, whose arguments the client already has, possibly
// from an earlier run. A question to the user is an interrupt instead.
func (e *Encoder) call(d session.ToolData) error {
	id := callID(d)
	if d.Name == session.AskTool || e.calls[id] {
		return nil
	}
	if e.calls == nil {
		e.calls = map[string]bool{}
	}
	e.calls[id] = true
	if d.Attempt > 1 {
		return nil
	}
	args := d.Arguments
	if d.ToolCallID != "" {
		all, err := e.Arguments(d.ToolCallID)
		if err != nil && stoa.CodeOf(err) != stoa.CodeToolCallNotFound { // because old calls are deleted
			return err
		}
		args = cmp.Or(all, args)
	}
	e.endText()
	e.add(Event{Type: ToolStart, ToolCallID: id, ToolCallName: d.Name, ParentMessageID: e.parent})
	if args != "" {
		e.add(Event{Type: ToolArgs, ToolCallID: id, Delta: args})
	}
	e.add(Event{Type: ToolEnd, ToolCallID: id})
	return nil
}

// result shows that a call is done. Events of a session do not contain results, which may be large or confidential.
func (e *Encoder) result(d session.ToolData) {
	var content struct {
		IsError bool `json:"isError"`
		Bytes   int  `json:"bytes"`
	}
	if d.IsError != nil {
		content.IsError = *d.IsError
	}
	if d.Bytes != nil {
		content.Bytes = *d.Bytes
	}
	text, _ := jsonx.Marshal(content) // ignored, because a struct of plain values is always JSON
	e.endText()
	e.add(Event{Type: ToolResult, MessageID: callID(d) + "-result", ToolCallID: callID(d), Content: string(text), Role: "tool"})
}

// callID returns an id that is unique in the thread. Ids that models give to their calls are not: some count from 0 in
// each reply, and the client adds the arguments of a known id to those that it has.
func callID(d session.ToolData) string {
	if d.ToolCallID != "" {
		return d.ToolCallID
	}
	return d.StepID + "." + d.CallID
}

// Finish returns the last events of a run whose session has stopped. approval says where the calls of an approval can be
// decided; it is used only if the session waits for one.
func (e *Encoder) Finish(x *session.Exchange, approval string, usage []Usage) []Event {
	e.endStep()
	end := Event{Type: RunFinished, ThreadID: e.ThreadID, RunID: e.RunID, Usage: usage, Outcome: &Outcome{Type: "success"}}
	in := &e.input
	switch {
	case x.Status == stoa.SessionFailed:
		end = Event{Type: RunError, Code: string(stoa.CodeInternal), Message: "The turn has failed.", Usage: usage}
		if f := x.Failure; f != nil {
			end.Code, end.Message = string(f.Code), f.Message
		}
	case x.Status == stoa.SessionCancelled:
		end.Outcome.Type = "cancelled"
	case x.Status != stoa.SessionWaiting:
	case in.Kind == stoa.InputToolCall:
		for _, c := range in.Calls {
			end.Outcome.PendingToolCallIDs = append(end.Outcome.PendingToolCallIDs, c.CallID)
		}
	default:
		i := Interrupt{ID: in.InputID, Reason: in.Kind, Message: in.Prompt, ExpiresAt: in.ExpiresAt}
		if in.Kind == stoa.InputToolApproval || in.Kind == stoa.InputToolConfirmation {
			i.ID, i.Reason, i.Message = ApprovalID(in.InputID, e.seq), "approval", strings.TrimSpace(in.Prompt+"\n"+approval)
		} else {
			i.ResponseSchema = &Schema{Type: "string", Enum: in.Options}
		}
		end.Outcome.Type, end.Outcome.Interrupts = "interrupt", []Interrupt{i}
	}
	e.add(end)
	return e.out
}

// Break returns the last events of a stream that ends before its run, because the client refuses a stream without an end.
func (e *Encoder) Break(err error) []Event {
	problem := stoa.AsError(err)
	e.endStep()
	e.add(Event{Type: RunError, Code: string(problem.Code), Message: problem.Message})
	return e.out
}

// ApprovalID returns the id of an interrupt for an approval. It contains the number of the event with which the session
// began to wait, because the run that resumes it follows the session from there: by then the approval may be decided.
func ApprovalID(inputID string, seq int64) string {
	return inputID + "." + strconv.FormatInt(seq, 10)
}

// ParseApprovalID reads an id that [ApprovalID] made. ok is false for any other id.
func ParseApprovalID(id string) (inputID string, seq int64, ok bool) {
	inputID, number, ok := strings.Cut(id, ".")
	seq, err := strconv.ParseInt(number, 10, 64)
	return inputID, seq, ok && err == nil && seq > 0
}
