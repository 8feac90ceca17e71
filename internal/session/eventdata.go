package session

import (
	"time"

	"stoa/internal/jsonx"
	"stoa/internal/stoa"
)

// The types of events. What each carries is the struct beside it, as JSON.
const (
	EventCreated        = "session.created"   // [CreatedData]
	EventStatus         = "session.status"    // [StatusData]
	EventTurnStarted    = "turn.started"      // [TurnData]
	EventTurnRecovered  = "turn.recovered"    // [TurnData]
	EventMessageCreated = "message.created"   // [MessageData]
	EventDelta          = "message.delta"     // [DeltaData]
	EventMessageDone    = "message.completed" // [MessageData]
	EventStepStarted    = "step.started"      // [StepData]
	EventStepDone       = "step.completed"    // [StepData]
	EventToolCalled     = "tool.called"       // [ToolData]
	EventToolDone       = "tool.completed"    // [ToolData]
	EventDriveRead      = "drive.read"        // [DriveData]
	EventDriveWritten   = "drive.written"     // [DriveData]
	EventInputRequested = "input.requested"   // [InputData]
	EventInputAnswered  = "input.answered"    // [InputData]
	EventInputExpired   = "input.expired"     // [InputData]
	EventToolsWithheld  = "tools.withheld"    // [WithheldData]
	EventError          = "error"             // [ErrorData]
)

// CreatedData is what session.created carries.
type CreatedData struct {
	SessionID    string `json:"sessionId"`
	AgentID      string `json:"agentId"`
	AgentVersion int64  `json:"agentVersion"`
	Mode         string `json:"mode"`
}

// StatusData is what session.status carries.
type StatusData struct {
	Status       string `json:"status"`
	StatusReason string `json:"statusReason,omitzero"`
	Turn         int64  `json:"turn"`
}

// TurnData is what turn.started and turn.recovered carry.
type TurnData struct {
	TurnID     string `json:"turnId"`
	Turn       int64  `json:"turn"`
	Attempt    int    `json:"attempt"`
	DeadlineAt string `json:"deadlineAt"`
}

// MessageData is what message.created and message.completed carry. Text is
// there once the message is whole.
type MessageData struct {
	MessageID string  `json:"messageId"`
	Role      string  `json:"role"`
	Kind      string  `json:"kind"`
	Status    string  `json:"status"`
	Turn      int64   `json:"turn"`
	Text      *string `json:"text,omitzero"`
}

// DeltaData is what message.delta carries. Offset counts characters (Unicode
// code points) from the start of the message; a reader who has joined more than
// that cuts back to it first.
type DeltaData struct {
	MessageID string `json:"messageId"`
	Offset    int    `json:"offset"`
	Text      string `json:"text"`
}

// StepData is what step.started and step.completed carry; usage and credits
// only the latter.
type StepData struct {
	StepID       string     `json:"stepId"`
	Turn         int64      `json:"turn"`
	Step         int64      `json:"step"`
	Model        string     `json:"model"`
	Stop         string     `json:"stop,omitzero"`
	Usage        *UsageData `json:"usage,omitzero"`
	CreditsMicro *int64     `json:"creditsMicro,omitzero"`
}

// UsageData counts tokens.
type UsageData struct {
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	TotalTokens  int64 `json:"totalTokens"`
}

// ToolData is what tool.called and tool.completed carry: arguments and effects the
// former, what came of the call the latter. ToolCallID is that of a call which is
// carried out outside of the service.
type ToolData struct {
	StepID    string `json:"stepId"`
	CallID    string `json:"callId"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitzero"` // as the model wrote them; of an external call at most 4 KiB
	IsError   *bool  `json:"isError,omitzero"`
	Bytes     *int   `json:"bytes,omitzero"` // of the answer

	ToolCallID   string `json:"toolCallId,omitzero"`
	ConnectionID string `json:"connectionId,omitzero"`
	Attempt      int    `json:"attempt,omitzero"`
	Effects      string `json:"effects,omitzero"`
	Outcome      string `json:"outcome,omitzero"`
	DurationMS   *int64 `json:"durationMs,omitzero"` // since it was handed out
}

// WithheldData is what tools.withheld carries.
type WithheldData struct {
	Turn  int64           `json:"turn"`
	Tools []stoa.Withheld `json:"tools"`
}

// CallData is a call in the event of an input.
type CallData struct {
	CallID    string `json:"callId"`
	Tool      string `json:"tool"`
	Effects   string `json:"effects"`
	ExpiresAt string `json:"expiresAt"`
}

func callData(calls []stoa.ExternalCall) (list []CallData) {
	for _, c := range calls {
		list = append(list, CallData{CallID: c.ID, Tool: c.Tool, Effects: string(c.Effects), ExpiresAt: timeText(c.ExpiresAt)})
	}
	return list
}

// DriveData is what drive.read and drive.written carry.
type DriveData struct {
	StepID   string `json:"stepId"`
	Path     string `json:"path"`
	SHA256   string `json:"sha256"`
	FromLine int64  `json:"fromLine,omitzero"`
	ToLine   int64  `json:"toLine,omitzero"`
	Via      string `json:"via,omitzero"`     // context, read or search
	Outcome  string `json:"outcome,omitzero"` // created, replaced or unchanged
}

// InputData is what the events of an input carry.
type InputData struct {
	InputID      string     `json:"inputId"`
	Kind         string     `json:"kind"`
	Turn         int64      `json:"turn"`
	Prompt       string     `json:"prompt,omitzero"`
	Options      []string   `json:"options,omitempty"`
	DefaultValue *string    `json:"defaultValue,omitzero"`
	ExpiresAt    string     `json:"expiresAt,omitzero"`
	Answer       *string    `json:"answer,omitzero"`
	DefaultUsed  bool       `json:"defaultUsed,omitzero"`
	Calls        []CallData `json:"calls,omitempty"`

	Confirmation *ConfirmationData `json:"confirmation,omitzero"` // of a call that a visitor has to confirm
}

// ConfirmationData is what a visitor is shown who has to confirm a call.
type ConfirmationData struct {
	stoa.Confirmation
	PreviousOutcome string `json:"previousOutcome,omitzero"` // unknown: it may have been carried out already
}

// ConfirmationOf returns what a visitor is shown of the call that an input is about; nil:
// the input is of another kind, or its call is asked about with another one by now.
func ConfirmationOf(in *stoa.Input) *ConfirmationData {
	if in == nil || in.Kind != stoa.InputToolConfirmation || len(in.Calls) != 1 || in.Calls[0].Confirmation == nil {
		return nil
	}
	return &ConfirmationData{*in.Calls[0].Confirmation, string(in.Calls[0].PreviousOutcome)}
}

// ErrorData is what error carries.
type ErrorData struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	Turn      int64  `json:"turn"`
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func messageData(m stoa.SessionMessage, whole bool) MessageData {
	d := MessageData{MessageID: m.ID, Role: string(m.Role), Kind: m.Kind, Status: string(m.Status), Turn: m.Turn}
	if whole {
		d.Text = &m.Text
	}
	return d
}

// statusOf reads the status, and its reason, out of a session.status event.
func statusOf(e stoa.SessionEvent) (status stoa.SessionStatus, reason string) {
	var d StatusData
	if e.Type != EventStatus || jsonx.Unmarshal([]byte(e.Data), &d) != nil {
		return "", ""
	}
	return stoa.SessionStatus(d.Status), d.StatusReason
}

// joinDeltas puts a message's text together as a reader would.
func joinDeltas(events []stoa.SessionEvent, messageID string) string {
	var text []byte
	runes := 0
	for _, e := range events {
		var d DeltaData
		if e.Type != EventDelta || jsonx.Unmarshal([]byte(e.Data), &d) != nil || d.MessageID != messageID {
			continue
		}
		if d.Offset < runes {
			text = text[:byteOffset(text, d.Offset)]
			runes = d.Offset
		}
		text = append(text, d.Text...)
		runes += runeCount(d.Text)
	}
	return string(text)
}
