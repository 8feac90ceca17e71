package session

import (
	"time"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/stoa"
)

// The types of events. The data of each is the struct named next to it, as JSON.
const (
	EventCreated        = "session.created"   // [CreatedData]
	EventUpgraded       = "session.upgraded"  // [UpgradedData]
	EventCompacted      = "session.compacted" // [CompactedData]
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
	EventRejected       = "reply.rejected"    // [RejectedData]
	EventError          = "error"             // [ErrorData]

	EventPersonRequested = "person.requested" // [PersonData]
)

// CreatedData is the data of session.created.
type CreatedData struct {
	SessionID    string `json:"sessionId"`
	AgentID      string `json:"agentId"`
	AgentVersion int64  `json:"agentVersion"`
	Mode         string `json:"mode"`
}

// UpgradedData is the data of session.upgraded.
type UpgradedData struct {
	AgentVersion int64 `json:"agentVersion"`
}

// CompactedData is the data of session.compacted: the text replaces everything before a step of
// a turn in later prompts. It is empty, and Used is false, if the summary was not used.
type CompactedData struct {
	Turn         int64  `json:"turn"` // turn of the call
	FromTurn     int64  `json:"fromTurn"`
	FromStep     int64  `json:"fromStep"`
	Used         bool   `json:"used"`
	Text         string `json:"text"`
	TokensBefore int64  `json:"tokensBefore"` // estimated input of the next step
	TokensAfter  int64  `json:"tokensAfter"`
	ReceiptID    string `json:"receiptId"`
	CreditsMicro int64  `json:"creditsMicro"`
}

// RejectedData is the data of reply.rejected.
type RejectedData struct {
	StepID  string `json:"stepId"`
	Turn    int64  `json:"turn"`
	Step    int64  `json:"step"`
	Problem string `json:"problem"`
}

// StatusData is the data of session.status.
type StatusData struct {
	Status       string `json:"status"`
	StatusReason string `json:"statusReason,omitzero"`
	Turn         int64  `json:"turn"`
}

// TurnData is the data of turn.started and turn.recovered.
type TurnData struct {
	TurnID     string `json:"turnId"`
	Turn       int64  `json:"turn"`
	Attempt    int    `json:"attempt"`
	DeadlineAt string `json:"deadlineAt"`
}

// MessageData is the data of message.created and message.completed. Text is set once the
// message is complete.
type MessageData struct {
	MessageID   string           `json:"messageId"`
	Role        string           `json:"role"`
	Kind        string           `json:"kind"`
	Apart       bool             `json:"apart,omitzero"` // its text is not part of the answer, because the session has a reply schema
	Status      string           `json:"status"`
	Turn        int64            `json:"turn"`
	Text        *string          `json:"text,omitzero"`
	Attachments []AttachmentData `json:"attachments,omitempty"`
}

// AttachmentData is a file of a message.
type AttachmentData struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	MimeType string `json:"mimeType"`
	Size     int64  `json:"size"`
	SHA256   string `json:"sha256"`
}

// AttachmentsData returns the files of a message.
func AttachmentsData(files []stoa.Attachment) (list []AttachmentData) {
	for _, f := range files {
		list = append(list, AttachmentData{f.ID, f.Name, f.MimeType, f.Size, f.SHA256})
	}
	return list
}

// DeltaData is the data of message.delta. Offset counts characters (Unicode code points) from
// the start of the message; a reader that has more text first truncates it to Offset.
type DeltaData struct {
	MessageID string `json:"messageId"`
	Offset    int    `json:"offset"`
	Text      string `json:"text"`
}

// StepData is the data of step.started and step.completed; only the latter has usage and
// credits.
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

// ToolData is the data of tool.called, with arguments and effects, and of tool.completed,
// with the outcome. ToolCallID is set for external calls.
type ToolData struct {
	StepID    string `json:"stepId"`
	CallID    string `json:"callId"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitzero"` // as the model wrote them; at most 4 KiB for an external call
	IsError   *bool  `json:"isError,omitzero"`
	Bytes     *int   `json:"bytes,omitzero"` // size of the result

	ToolCallID   string `json:"toolCallId,omitzero"`
	ConnectionID string `json:"connectionId,omitzero"`
	Attempt      int    `json:"attempt,omitzero"`
	Effects      string `json:"effects,omitzero"`
	Outcome      string `json:"outcome,omitzero"`
	DurationMS   *int64 `json:"durationMs,omitzero"` // since it was handed out
}

// WithheldData is the data of tools.withheld.
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

// DriveData is the data of drive.read and drive.written.
type DriveData struct {
	StepID   string `json:"stepId"`
	Path     string `json:"path"`
	SHA256   string `json:"sha256"`
	FromLine int64  `json:"fromLine,omitzero"`
	ToLine   int64  `json:"toLine,omitzero"`
	Place    string `json:"place,omitzero"`   // for example "p. 12–13"
	Via      string `json:"via,omitzero"`     // context, read or search
	Outcome  string `json:"outcome,omitzero"` // created, replaced or unchanged
}

// InputData is the data of the events of an input.
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

// ConfirmationData is the data shown to a visitor who has to confirm a call.
type ConfirmationData struct {
	stoa.Confirmation
	PreviousOutcome string `json:"previousOutcome,omitzero"` // unknown: it may have been carried out already
}

// ConfirmationOf returns the data shown to the visitor about the call of an input; nil if the
// input is of another kind or a newer input is about that call.
func ConfirmationOf(in *stoa.Input) *ConfirmationData {
	if in == nil || in.Kind != stoa.InputToolConfirmation || len(in.Calls) != 1 || in.Calls[0].Confirmation == nil {
		return nil
	}
	return &ConfirmationData{*in.Calls[0].Confirmation, string(in.Calls[0].PreviousOutcome)}
}

// ErrorData is the data of error.
type ErrorData struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	Turn      int64  `json:"turn"`
}

// PersonData is the data of person.requested.
type PersonData struct {
	Turn int64 `json:"turn"`
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func messageData(m stoa.SessionMessage, whole bool) MessageData {
	d := MessageData{MessageID: m.ID, Role: string(m.Role), Kind: m.Kind, Status: string(m.Status), Turn: m.Turn}
	if whole {
		d.Text = &m.Text
		d.Attachments = AttachmentsData(m.Attachments)
	}
	return d
}

func statusOf(e stoa.SessionEvent) (status stoa.SessionStatus, reason string) {
	var d StatusData
	if e.Type != EventStatus || jsonx.Unmarshal([]byte(e.Data), &d) != nil {
		return "", ""
	}
	return stoa.SessionStatus(d.Status), d.StatusReason
}

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
