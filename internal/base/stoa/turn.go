package stoa

import (
	"strconv"
	"strings"
	"time"
)

// A Session is a conversation with an agent, consisting of turns. Its status is that of its
// newest turn.
type Session struct {
	ID, AccountID, SpaceID, AgentID string
	KeyID                           string // the key that started it; its receipts name it
	AgentVersion                    int64  // pinned at the start
	Draft                           bool   // runs with its own configuration instead of that version
	Mode                            SessionMode
	Status                          SessionStatus
	Turn                            Turn   // the newest
	Reply                           string // text of the newest finished answer
	Pending                         *Input // the input that it waits for; nil unless waiting
	QueuedMessages                  int
	ModelAsked, ModelServed         string // served: of the newest step; empty before
	Fallback                        bool   // another model serves because the plan does not include the requested one
	Usage                           Usage  // of all turns
	Steps                           int
	ToolCalls                       int        // of tools that are carried out outside of the service
	Withheld                        []Withheld // tools of the agent that it does not offer
	Spent                           Credits
	LastSeq                         int64 // of its newest event
	Trigger                         Trigger
	ExternalID, ExternalUserID      string
	Title                           string
	Metadata                        map[string]string
	Limits                          TurnLimits // of each turn, as they are in force
	Revision                        int64      // counts the visible changes
	CreatedAt, UpdatedAt            time.Time
	StartedAt, FinishedAt           time.Time // first claim; newest stop. Zero: not yet
}

// A Trigger is the origin of a session.
type Trigger struct {
	Type string // api, schedule or embed
	ID   string // of the task run or the embed; empty for api
}

// A Turn is one exchange of a session: a message of the user and everything the
// agent does until it stops.
type Turn struct {
	ID, SessionID string
	Number        int64 // from 1
	Status        SessionStatus
	Reason        string // the reason for this status, if it is not obvious
	Attempt       int    // number of claims by workers
	MessageID     string // the user's
	RetryOf       int64  // number of the turn that this one repeats, or 0
	Failure       *Failure
	Spent         Credits
	CreatedAt     time.Time
	StartedAt     time.Time // zero until then
	FinishedAt    time.Time // zero until then
	DeadlineAt    time.Time // zero before its first claim, and while it waits for input
}

// A Failure is the reason why a turn failed, as reported to its owner.
type Failure struct {
	Code      Code
	Message   string
	Retryable bool // a retry may succeed
}

// NoteStart begins the note that the service puts after the text of a message to an agent.
const NoteStart = "[It is "

// LastStepNote is what the model is told in the last step that a turn can take.
const LastStepNote = "[This is the last step of the turn. Answer now with what you know; no further tool is called.]"

// WithoutNotes returns the text of a message without the notes of the service at its end.
func WithoutNotes(text string) string {
	text = strings.TrimSuffix(text, LastStepNote)
	if note := strings.LastIndex(text, NoteStart); note >= 0 && strings.HasSuffix(text, "]") {
		text = strings.TrimSuffix(text[:note], "\n\n")
	}
	return text
}

// A Step is one model call of a turn, with the answers of the tools it called.
// A recorded step is never executed again.
type Step struct {
	SessionID    string
	Turn, Number int64 // from 1
	Text         string
	Calls        []ToolCall
	Reasoning    []Segment     // in order; of one reply, so all by one route
	Stop         Stop          // empty means broken off by a cancel or deadline
	Results      []*ToolResult // as long as Calls; nil until they arrive
	Prefix       string        // hashes of the parts with which the call began
	CreatedAt    time.Time
}

// A Segment is a segment of a step's reasoning that its vendor requires back in its place,
// or a change of the phase of its text; see [Part].
type Segment struct {
	State State  // of a phase without data
	Phase string // of the following text, if the state has no data
	Text  int    // bytes of the step's text before it
	Calls int    // calls of the step before it
}

// Message returns the step's reply in the form that is sent back: between two segments of
// reasoning its texts and then its calls, as described at [Part].
func (s *Step) Message() Message {
	m := Message{Role: RoleAssistant}
	text, calls, phase := 0, 0, ""
	upTo := func(t, c int) {
		t, c = min(max(t, text), len(s.Text)), min(max(c, calls), len(s.Calls))
		if t > text {
			m.Parts = append(m.Parts, Part{Kind: PartText, Text: s.Text[text:t], Phase: phase})
		}
		for i := range s.Calls[calls:c] {
			m.Parts = append(m.Parts, Part{Kind: PartCall, Call: &s.Calls[calls+i]})
		}
		text, calls = t, c
	}
	for _, r := range s.Reasoning {
		upTo(r.Text, r.Calls)
		if r.State.Data == "" {
			phase = r.Phase
			continue
		}
		m.Parts = append(m.Parts, Part{Kind: PartReasoning, State: r.State})
	}
	upTo(len(s.Text), len(s.Calls))
	return m
}

// Open returns the place of the first call without a result, and whether there is one.
func (s *Step) Open() (place int, open bool) {
	for i := range s.Calls {
		if i >= len(s.Results) || s.Results[i] == nil {
			return i, true
		}
	}
	return 0, false
}

// Answers returns the results of a step whose calls all have one.
func (s *Step) Answers() []ToolResult {
	var list []ToolResult
	for _, r := range s.Results {
		list = append(list, *r)
	}
	return list
}

// StepID returns the id of a step, of its charge and of its receipt.
func StepID(session string, turn, step int64) string {
	b := append([]byte(session), '.')
	b = append(strconv.AppendInt(b, turn, 10), '.')
	return string(strconv.AppendInt(b, step, 10))
}

// The kinds of a session's messages. Besides the user's own there is at most one
// message per step and one per input.
const (
	KindMessage  = "message"  // of the user
	KindAnswer   = "answer"   // of the user, to a question
	KindReply    = "reply"    // of the agent: its answer
	KindComment  = "comment"  // of the agent, next to tool calls
	KindQuestion = "question" // of the agent
)

// A SessionMessage is one message of a conversation.
type SessionMessage struct {
	ID, SessionID string
	Turn, Step    int64  // turn 0 means queued; step 0 means the user's
	Role          Role   // user or assistant
	Kind          string // see the kinds
	Status        MessageStatus
	Text          string
	Attachments   []Attachment // of a message of the user
	CreatedAt     time.Time
}

// A MessageStatus is the progress of a message.
type MessageStatus string

// The statuses of a message. One that a turn broke off has the turn's status.
const (
	MessageQueued     MessageStatus = "queued" // waits for the turn that runs
	MessageInProgress MessageStatus = "in_progress"
	MessageCompleted  MessageStatus = "completed"
	MessageCancelled  MessageStatus = "cancelled"
	MessageFailed     MessageStatus = "failed"
)

// An InputStatus says whether an input is still open.
type InputStatus string

// The statuses of an input.
const (
	InputPending   InputStatus = "pending"
	InputAnswered  InputStatus = "answered"
	InputExpired   InputStatus = "expired"   // its default, if any, was used
	InputCancelled InputStatus = "cancelled" // its turn ended before
)

// The kinds of an [Input].
const (
	InputQuestion = "question"  // any text answers it
	InputChoice   = "choice"    // one of its options answers it
	InputApproval = "approval"  // approve or reject answers it
	InputToolCall = "tool_call" // the outputs of its calls answer it

	InputToolApproval     = "tool_approval"     // decisions about its calls answer it
	InputToolConfirmation = "tool_confirmation" // approve or reject of the visitor answers it
)

// InputKinds returns the kinds of inputs.
func InputKinds() []string {
	return []string{InputQuestion, InputChoice, InputApproval, InputToolCall, InputToolApproval, InputToolConfirmation}
}

// An Input is a question of an agent to its user, or calls of tools that programs of
// the account carry out, people approve or a visitor confirms. The turn waits for it.
type Input struct {
	ID, SessionID string
	Turn, Step    int64
	CallID        string // of the tool call that the answer is the result of
	Kind, Prompt  string
	Options       []string
	Default       *string // the answer when it expires; nil means the turn fails then
	Status        InputStatus
	Answer        string
	CreatedAt     time.Time
	ExpiresAt     time.Time
	AnsweredAt    time.Time

	// Of the kinds that concern only tools.
	AccountID, AgentID string // of the session
	AgentName          string // only of open inputs, like the next two
	SessionTitle       string
	ExternalUserID     string
	Calls              []ExternalCall
	ClaimID            string    // of the executor that works on it
	ClaimedUntil       time.Time // zero if unclaimed
}

// OfTools reports whether an input is about calls of tools: it is not a question of the
// agent to its user.
func (in *Input) OfTools() bool { return in.OfOwner() || in.Kind == InputToolConfirmation }

// OfOwner reports whether an input is for programs or operators of the account, and not
// for the user of the session. A nil input is for none of them.
func (in *Input) OfOwner() bool {
	return in != nil && (in.Kind == InputToolCall || in.Kind == InputToolApproval)
}

// A SessionEvent is one line of a session's log. Seq has no gaps.
type SessionEvent struct {
	Seq  int64
	Type string
	At   time.Time
	Data string // a JSON object
}

// A Source is a passage of a file that an answer may be based on. Lines count
// from 1; 0 to 0 is the whole file.
type Source struct {
	Turn             int64
	Path, SHA256     string
	FromLine, ToLine int64
	Place            string // in a document, such as "p. 12–13"; may be empty
	Via              string // context, read or search
}

// LineRange writes a range of lines: "3", "3-5", or "" where first is 0.
func LineRange(first, last int64) string {
	switch {
	case first == 0:
		return ""
	case first == last:
		return strconv.FormatInt(first, 10)
	}
	return strconv.FormatInt(first, 10) + "-" + strconv.FormatInt(last, 10)
}
