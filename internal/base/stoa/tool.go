package stoa

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
)

// The types of the tools of an agent, by their executor.
const (
	ToolClient     = "client"     // programs of the account
	ToolConnection = "connection" // server of a connection
	ToolDrive      = "drive"      // the service itself; its entry contains only an approval
)

// DriveWrite is the name of the built-in tool that writes to an agent's drive.
const DriveWrite = "drive_write"

// Names of the built-in tools of an agent that searches its tools.
const (
	FindTool = "tool_find"
	CallTool = "tool_call" // calls a tool that FindTool has returned
)

// An AgentTool is a tool of an agent: one that programs run, the tools of a connection, or
// the approval that drive_write needs. It is part of the agent's version.
type AgentTool struct {
	Type           string // ToolClient, ToolConnection or ToolDrive
	Name           string // name of the function; this and the following fields except Approval are only for ToolClient
	Description    string
	Parameters     string
	Effects        Effects
	TimeoutSeconds int64  // wait for the output of a call
	OnTimeout      string // TimeoutTells or TimeoutFails
	Visitors       bool   // visitors' chats offer it, too
	Approval       string `json:",omitzero"` // ApprovalAlways or ApprovalNever; empty means never

	ConnectionID string     `json:",omitzero"` // connection of its tools; this and the following fields are only for ToolConnection
	Allow        []string   `json:",omitzero"` // names of tools at the server
	Stricter     []Stricter `json:",omitzero"`
}

// A Stricter setting of an allowed tool applies if it is stricter than the review, so that an
// agent can never weaken the review. Empty fields leave the review's.
type Stricter struct {
	Name     string
	Approval string  `json:",omitzero"` // ApprovalAlways or ApprovalNever
	Effects  Effects `json:",omitzero"`

	OnUnknown string `json:",omitzero"` // UnknownTells or UnknownFails
}

// Whether a person is to approve each call of a tool.
const (
	ApprovalAlways = "always"
	ApprovalNever  = "never"
)

// Equal reports whether two tools are the same in everything.
func (t AgentTool) Equal(o AgentTool) bool {
	return t.Type == o.Type && t.Name == o.Name && t.Description == o.Description && t.Parameters == o.Parameters && t.Effects == o.Effects &&
		t.TimeoutSeconds == o.TimeoutSeconds && t.OnTimeout == o.OnTimeout && t.Visitors == o.Visitors && t.ConnectionID == o.ConnectionID &&
		slices.Equal(t.Allow, o.Allow) && slices.Equal(t.Stricter, o.Stricter) && t.Approval == o.Approval
}

// An OfferedTool is a tool in the form in which one turn offers it to its model.
type OfferedTool struct {
	AgentTool        // with the name, description, parameters and effects of this turn
	Remote    string // name at the connection's server
	Title     string // for people; may be empty
	SHA256    string // hash of the definition; see [AgentTool.Hash] for ToolClient
	Ask       *Ask   // question to the visitor about each call; nil if the call needs none
	OnUnknown string // UnknownTells or UnknownFails; only for ToolConnection

	// IdempotencyArgument is the argument that contains the id of a call; it may be empty.
	// Parameters omits it, because the model must not choose it; Sent is the schema with it.
	IdempotencyArgument, Sent string
}

// An Ask defines the question to visitors about the calls of a tool.
type Ask struct {
	Title  string
	Public []PublicField
}

// A PublicField is an argument of a tool that a visitor may see.
type PublicField struct {
	Path []string // names of the members that lead to it
	Name string
}

// A Confirmation is the data shown to a visitor who has to confirm a call.
type Confirmation struct {
	Title  string       `json:"title"`
	Fields []ShownField `json:"fields"`
}

// A ShownField is an argument of a call in the form shown to a visitor.
type ShownField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Cut   bool   `json:"cut,omitzero"` // Value is shortened
}

// laxness orders effects: a higher value means that a repetition does less.
var laxness = map[Effects]int{EffectsOnce: 0, EffectsIdempotent: 1, EffectsRead: 2}

// Laxer reports whether a claims a smaller effect of a repetition than b.
func (a Effects) Laxer(b Effects) bool { return laxness[a] > laxness[b] }

// The consequences for a turn if a call has no output in time.
const (
	TimeoutTells = "tell_model"
	TimeoutFails = "fail"
)

// The consequences for a turn if it is unknown whether a call was executed.
const (
	UnknownTells = "tell_model"
	UnknownFails = "fail"
)

// Tool returns the definition that the model receives.
func (t AgentTool) Tool() Tool {
	return Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
}

// Hash returns the SHA-256 of the definition in hex, so that a changed definition is noticed.
func (t AgentTool) Hash() string {
	return HashOf(t.Name + "\x00" + t.Description + "\x00" + t.Parameters)
}

// Meant returns the call of a tool for which a call stands that goes through [CallTool], with the id of the latter. It returns other calls as
// they are.
func (c ToolCall) Meant() ToolCall {
	if !c.Through {
		return c
	}
	return c.Named()
}

// Named returns the call of a tool that the arguments of a call of [CallTool] name. It returns a call that names none as it is.
func (c ToolCall) Named() ToolCall {
	var in struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal([]byte(c.Arguments), &in) != nil || in.Name == "" || in.Name == CallTool {
		return c
	}
	var text string
	if json.Unmarshal(in.Arguments, &text) == nil && (text == "" || json.Valid([]byte(text))) { // because some models write an object as a text
		in.Arguments = json.RawMessage(text)
	}
	c.Name, c.Arguments = in.Name, string(in.Arguments)
	return c
}

// Guards reports whether each call of a tool of the service, which is [DriveWrite] or [MemoryWrite], needs an approval.
func (t AgentTool) Guards(name string) bool {
	return t.Type == ToolDrive && t.Name == name && t.Approval == ApprovalAlways
}

// HashOf returns the SHA-256 of a text in hex.
func HashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Effects is the possible effect of executing a tool call again.
type Effects string

// The classes of effects.
const (
	EffectsRead       Effects = "read"       // nothing, so that it may be repeated
	EffectsIdempotent Effects = "idempotent" // nothing under the id of the same call
	EffectsOnce       Effects = "once"       // another effect, so that it is never repeated
)

// A Withheld tool or skill is one of the agent that a session does not offer to the model.
type Withheld struct {
	Tool   string `json:"tool"`
	Reason string `json:"reason"`
	Skill  string `json:"skill,omitempty"` // instead of Tool
}

// The reasons why a tool is withheld.
const (
	WithheldOnce    = "mode_once" // its call would have to wait, and a once session cannot
	WithheldCaller  = "caller"    // the creator of the session requested it
	WithheldVisitor = "visitor"

	WithheldUnapproved   = "not_approved"
	WithheldChanged      = "changed"             // its definition differs from the approved one
	WithheldMissing      = "missing"             // it or its connection no longer exists
	WithheldUnauthorized = "needs_authorization" // the server refuses the secret, or the secret cannot be read
	WithheldLimit        = "limit"               // there are too many tools, or their definitions are too long
	WithheldDisabled     = "disabled"            // its connection is switched off
)

// An ExternalCall is a call of an [AgentTool]. Its row exists before anything leaves the service,
// since a process that dies after sending could not report the call otherwise. See
// docs/decisions/0046-record-a-tool-call-before-it-runs.md.
type ExternalCall struct {
	ID                  string        `db:"id"`
	AccountID           string        `db:"account_id"`
	AgentID             string        `db:"agent_id"`
	SessionID           string        `db:"session_id"`
	Turn                int64         `db:"turn"`
	Step                int64         `db:"step"`
	Place               int           `db:"place"`   // index in its step, from 0
	CallID              string        `db:"call_id"` // id from the model
	Type                string        `db:"type"`
	Tool                string        `db:"tool"`
	ConnectionID        string        `db:"connection_id"`        // only for ToolConnection
	SecretID            string        `db:"secret_id"`            // secret of the latest request; may be empty
	Lost                int           `db:"lost"`                 // number of processes that ended while they executed it
	Title               string        `db:"title"`                // tool's title for people; may be empty
	DefinitionSHA256    string        `db:"definition_sha256"`    // see [AgentTool.Hash]
	Arguments           string        `db:"arguments"`            // arguments as sent: the model's, except IdempotencyArgument
	IdempotencyArgument string        `db:"idempotency_argument"` // the argument that contains ID; may be empty
	Effects             Effects       `db:"effects"`
	Status              CallStatus    `db:"status"`
	Outcome             CallOutcome   `db:"outcome"`  // empty until it is done
	InputID             string        `db:"input_id"` // input that it waits or waited for
	OnTimeout           string        `db:"on_timeout"`
	OnUnknown           string        `db:"on_unknown"` // UnknownTells or UnknownFails, only for ToolConnection; empty means UnknownTells
	TimeoutSeconds      int64         `db:"timeout"`
	Attempts            int           `db:"attempts"`
	Result              string        `db:"result"`       // whole, or its beginning
	ResultBytes         int           `db:"result_bytes"` // length of the whole result
	ErrorCode           Code          `db:"error_code"`   // code of an answer that the service itself gave
	LateOutput          *string       `db:"late_output"`  // an output that arrived too late
	Resolution          string        `db:"resolution"`   // person's finding: done or not_done
	Note                string        `db:"note"`
	ResolvedBy          string        `db:"resolved_by"`       // id of the key
	Approval            string        `db:"approval"`          // ApprovalAlways or ApprovalNever; empty means never
	ApprovalInputID     string        `db:"approval_input_id"` // latest request for an approval
	Decision            Decision      `db:"decision"`
	DecidedBy           string        `db:"decided_by"` // id of the key; empty for an expiry
	Comment             string        `db:"comment"`
	PreviousOutcome     CallOutcome   `db:"previous_outcome"` // OutcomeUnknown: it may have been carried out once already
	DecidedAt           time.Time     `db:"decided_at"`
	Confirmation        *Confirmation `db:"confirmation,optional"` // question to a visitor; nil if not needed
	ConfirmInputID      string        `db:"confirm_input_id"`      // latest question to the visitor
	Confirmed           Decision      `db:"confirmed"`             // visitor's decision, which is never remembered
	ConfirmedBy         string        `db:"confirmed_by"`          // id of the embed; empty for an expiry
	ConfirmedAt         time.Time     `db:"confirmed_at"`
	CreatedAt           time.Time     `db:"created_at"`
	ExpiresAt           time.Time     `db:"expires_at"`
	StartedAt           time.Time     `db:"started_at"` // first hand-out; zero means never
	FinishedAt          time.Time     `db:"finished_at"`
	ResolvedAt          time.Time     `db:"resolved_at"`
}

// A Decision is the result of an approval or a confirmation of a call.
type Decision string

// The decisions. An empty one means undecided.
const (
	DecisionApprove    Decision = "approve"
	DecisionReject     Decision = "reject"
	DecisionExpired    Decision = "expired"    // no decision in time, which counts as a rejection
	DecisionRemembered Decision = "remembered" // an earlier approval of the tool for the session
)

// Approved reports whether the call needs no approval or has one. An approval covers one call
// with the arguments and definition in its row. It is used up once the call is [CallClaimed], so
// that no repetition runs without another approval.
func (c *ExternalCall) Approved() bool {
	return c.Approval != ApprovalAlways || c.Status == CallPlanned && (c.Decision == DecisionApprove || c.Decision == DecisionRemembered)
}

// IsConfirmed reports whether the call needs no confirmation by its visitor or has one. A
// confirmation covers one call and is used up like an approval; see
// [ExternalCall.Approved].
func (c *ExternalCall) IsConfirmed() bool {
	return c.Confirmation == nil || c.Status == CallPlanned && c.Confirmed == DecisionApprove
}

// Asks reports whether the call needs an approval or a confirmation before it is executed.
func (c *ExternalCall) Asks() bool { return c.Approval == ApprovalAlways || c.Confirmation != nil }

// MayShare reports whether a call may run concurrently with others of its step, because it only
// reads and needs neither approval nor confirmation.
func (c *ExternalCall) MayShare() bool { return c.Effects == EffectsRead && !c.Asks() }

// FailsUnknown reports whether the turn fails if nobody knows whether the call was executed.
func (c *ExternalCall) FailsUnknown() bool { return c.OnUnknown == UnknownFails }

// Open reports whether a call was handed out and has no outcome yet.
func (c *ExternalCall) Open() bool { return c.Status == CallWaiting || c.Status == CallClaimed }

// CallStatus is the progress of a call.
type CallStatus string

// The statuses of a call, in their order.
const (
	CallPlanned CallStatus = "planned" // recorded with its step
	CallWaiting CallStatus = "waiting"
	CallClaimed CallStatus = "started"
	CallDone    CallStatus = "done"
)

// CallOutcome is the outcome of a call.
type CallOutcome string

// The outcomes.
const (
	OutcomeOK        CallOutcome = "ok"
	OutcomeError     CallOutcome = "error"
	OutcomeUnknown   CallOutcome = "unknown" // the server may have carried it out
	OutcomeDenied    CallOutcome = "denied"
	OutcomeExpired   CallOutcome = "expired" // no output arrived, so that it may or may not have been executed
	OutcomeCancelled CallOutcome = "cancelled"
)
