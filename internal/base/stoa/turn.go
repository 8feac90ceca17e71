package stoa

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Session is a conversation with an agent, consisting of turns. Its status is that of its
// newest turn.
type Session struct {
	ID, AccountID, SpaceID, AgentID string
	KeyID                           string // key that started it, which its receipts name
	AgentVersion                    int64  // pinned at the start
	Draft                           bool   // it uses its own configuration instead of AgentVersion
	Mode                            SessionMode
	Status                          SessionStatus
	Turn                            Turn
	Reply                           string // text of the newest finished answer
	ReplySchema                     string // its own JSON Schema of its answers, or [AgentSchema]; empty for free text
	Pending                         *Input // input that it waits for; nil unless waiting
	QueuedMessages                  int
	ModelAsked, ModelServed         string // ModelServed is that of the newest step; empty before
	Fallback                        bool   // another model serves because the plan does not include the requested one
	Usage                           Usage
	Steps                           int
	ToolCalls                       int        // number of calls that are executed outside of the service
	Withheld                        []Withheld // tools of the agent that are not offered
	Spent                           Credits
	LastSeq                         int64
	Trigger                         Trigger
	ExternalID, ExternalUserID      string
	Title                           string
	Metadata                        map[string]string
	Limits                          TurnLimits // effective limits of each turn
	Revision                        int64      // number of visible changes
	CreatedAt, UpdatedAt            time.Time
	StartedAt, FinishedAt           time.Time // first claim; newest stop. Zero: not yet
}

// AgentSchema is the ReplySchema of a session whose agent has one.
const AgentSchema = "agent"

// A Trigger is the origin of a session.
type Trigger struct {
	Type string // api, schedule, embed, hook, responses, mcp, agui or test
	ID   string // id of the task run, the embed, the hook or the run of a test set; empty for the others
}

// Exposed reports whether the session was started through a protocol that its agent is exposed through.
func (t Trigger) Exposed() bool {
	return slices.Contains([]string{ExposeResponses, ExposeMCP, ExposeAGUI}, t.Type)
}

// A Turn is one exchange of a session: a message of the user and everything the
// agent does until it stops.
type Turn struct {
	ID, SessionID string
	Number        int64 // from 1
	Status        SessionStatus
	Reason        string // the reason for this status, if it is not obvious
	Attempt       int    // number of claims by workers
	MessageID     string
	RetryOf       int64 // number of the turn that this one repeats, or 0
	Failure       *Failure
	Spent         Credits
	MaxOutput     int64 // maximum number of output tokens of each of its model calls; 0 means that of the model
	CreatedAt     time.Time
	StartedAt     time.Time // zero until then
	FinishedAt    time.Time // zero until then
	DeadlineAt    time.Time // zero before its first claim, and while it waits for input
}

// A Failure is the reason why a turn failed, as reported to its owner.
type Failure struct {
	Code      Code
	Message   string
	Retryable bool
}

// NoteStart begins the note that the service appends to a message to an agent.
const NoteStart = "[It is "

// LastStepNote is the note for the last step that a turn can take, so that the model answers
// instead of calling tools whose results it would never receive.
const LastStepNote = "[This is the last step of the turn. Answer now with what you know; no further tool is called.]"

// The begin and end of a note in which the service tells a model that tools have changed.
const (
	ToolsNote    = "[The tools of this conversation have changed, as the service reports:\n"
	ToolsNoteEnd = "End of the report on tools.]"
)

// WithoutNotes returns the text of a message without the notes of the service.
func WithoutNotes(text string) string {
	text = strings.TrimSuffix(withoutToolsNotes(text), LastStepNote)
	if note := strings.LastIndex(text, NoteStart); note >= 0 && strings.HasSuffix(text, "]") {
		text = strings.TrimSuffix(text[:note], "\n\n")
	}
	return text
}

// StandsAlone reports whether a text is only notes that are messages of their own.
func StandsAlone(text string) bool {
	return text != "" && strings.TrimSuffix(withoutToolsNotes(text), LastStepNote) == ""
}

func withoutToolsNotes(text string) string {
	for {
		before, rest, found := strings.Cut(text, ToolsNote)
		_, after, ends := strings.Cut(rest, ToolsNoteEnd)
		if !found || !ends {
			return text
		}
		text = before + after
	}
}

// A Step is one model call of a turn, with the results of the tools that it called. A recorded
// step is never executed again, because its call was charged and its tools may have had effects.
type Step struct {
	SessionID    string
	Turn, Number int64 // from 1
	Text         string
	Calls        []ToolCall
	Reasoning    []Segment     // segments in order; all created by one route, because they are of one reply
	Stop         Stop          // empty means that a cancellation or deadline ended the reply
	Results      []*ToolResult // as long as Calls; nil until they arrive
	Prefix       string        // hashes of the parts with which the call began, so that a broken prefix can be named; see [Broke]
	Problem      string        // why its text, an answer, does not fit the reply schema; empty if it does
	Sent         string        // how its call was made, for the worker, which can build it again; empty for steps of former releases
	View         string        // the files of the drive in its prompt, if they are not those of the step before; see Sent
	CreatedAt    time.Time
}

// A Segment is a segment of a step's reasoning that its vendor requires back in its place,
// or a change of the phase of its text; see [Part].
type Segment struct {
	State State  // state; without data for a phase
	Phase string // of the following text, if the state has no data
	Text  int    // offset in the step's text, in bytes
	Calls int    // number of the step's calls before it
}

// Message returns the step's reply in the form that is sent back. Texts and calls stay between the
// same segments of reasoning, because vendors require the segments in their place.
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

// Answers returns the results of a step. It must not be called while a call has no result.
func (s *Step) Answers() []ToolResult {
	var list []ToolResult
	for _, r := range s.Results {
		list = append(list, *r)
	}
	return list
}

// StepID returns the common id of a step, its charge and its receipt, so that a repeated charge is
// recognized.
func StepID(session string, turn, step int64) string {
	b := append([]byte(session), '.')
	b = append(strconv.AppendInt(b, turn, 10), '.')
	return string(strconv.AppendInt(b, step, 10))
}

// The kinds of a session's messages. Besides the user's messages there is at most one for each
// step and one for each input.
const (
	KindMessage  = "message"
	KindAnswer   = "answer" // of the user, to a question
	KindReply    = "reply"
	KindComment  = "comment" // of the agent, next to tool calls
	KindQuestion = "question"
	KindHistory  = "history" // before the session, as its caller reports it; of turn 0
)

// A SessionMessage is one message of a conversation.
type SessionMessage struct {
	ID, SessionID string
	Turn, Step    int64 // turn 0 means queued; step 0 means the user's
	Role          Role  // user or assistant
	Kind          string
	Status        MessageStatus
	Text          string
	Attachments   []Attachment // of a message of the user
	CreatedAt     time.Time
}

// A MessageStatus is the progress of a message.
type MessageStatus string

// The statuses of a message. A message that a turn broke off gets the turn's status.
const (
	MessageQueued     MessageStatus = "queued" // it waits until the running turn ends
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
	InputExpired   InputStatus = "expired" // its default, if any, became the answer
	InputCancelled InputStatus = "cancelled"
)

// The kinds of an [Input].
const (
	InputQuestion = "question"  // answered by any text
	InputChoice   = "choice"    // answered by one of its options
	InputApproval = "approval"  // answered by approve or reject
	InputToolCall = "tool_call" // answered by the outputs of its calls

	InputToolApproval     = "tool_approval"     // answered by decisions about its calls
	InputToolConfirmation = "tool_confirmation" // answered by the visitor's approve or reject
)

// InputKinds returns the kinds of inputs.
func InputKinds() []string {
	return []string{InputQuestion, InputChoice, InputApproval, InputToolCall, InputToolApproval, InputToolConfirmation}
}

// An Input is a question of an agent to its user, or a set of tool calls that the account's
// programs execute, people approve or a visitor confirms. The turn waits for it.
type Input struct {
	ID, SessionID string
	Turn, Step    int64
	CallID        string // tool call whose result is the answer
	Kind, Prompt  string
	Options       []string
	Default       *string // answer at the expiry; nil means that the turn fails instead
	Status        InputStatus
	Answer        string
	CreatedAt     time.Time
	ExpiresAt     time.Time
	AnsweredAt    time.Time

	// The following fields are for the kinds that concern only tools.
	AccountID, AgentID string // session's owner and agent
	AgentName          string // only of open inputs, like the next two fields
	SessionTitle       string
	ExternalUserID     string
	Calls              []ExternalCall
	ClaimID            string    // claim of the executor that works on it
	ClaimedUntil       time.Time // zero if unclaimed
}

// OfTools reports whether an input is about tool calls and not a question to the user.
func (in *Input) OfTools() bool { return in.OfOwner() || in.Kind == InputToolConfirmation }

// OfOwner reports whether an input is for the account's programs or operators, and must not
// be shown to the session's user. It returns false for nil.
func (in *Input) OfOwner() bool {
	return in != nil && (in.Kind == InputToolCall || in.Kind == InputToolApproval)
}

// A SessionEvent is one entry in a session's log. Seq has no gaps, so that a reader notices a
// missing event.
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
	Place            string // position in a document, such as "p. 12–13"; may be empty
	Via              string // context, read or search
}

// LineRange formats a range of lines: "3", "3-5", or "" if first is 0.
func LineRange(first, last int64) string {
	switch {
	case first == 0:
		return ""
	case first == last:
		return strconv.FormatInt(first, 10)
	}
	return strconv.FormatInt(first, 10) + "-" + strconv.FormatInt(last, 10)
}
