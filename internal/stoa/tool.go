package stoa

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"
)

// The types of the tools that something outside of the service carries out.
const (
	ToolClient     = "client"     // programs of the account
	ToolConnection = "connection" // the server of a connection
)

// An AgentTool is what an agent has of tools that something outside of the service
// carries out: one that programs carry out, or those of a connection. It is a part of
// the agent's version.
type AgentTool struct {
	Type           string // ToolClient or ToolConnection
	Name           string // this and what follows: of ToolClient alone
	Description    string
	Parameters     string // a JSON Schema
	Effects        Effects
	TimeoutSeconds int64  // that a call waits for its output
	OnTimeout      string // TimeoutTells or TimeoutFails
	Visitors       bool   // it is offered in chats of visitors as well
	Approval       string `json:",omitzero"` // ApprovalAlways or ApprovalNever; empty: never

	ConnectionID string     `json:",omitzero"` // this and what follows: of ToolConnection alone
	Allow        []string   `json:",omitzero"` // names of tools, as the server has them
	Stricter     []Stricter `json:",omitzero"`
}

// A Stricter setting of an allowed tool counts beside that of the review, where it is
// stricter. Empty members leave the review's.
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

// An OfferedTool is a tool as one turn offers it to its model.
type OfferedTool struct {
	AgentTool        // with the name, description, parameters and effects that count in the turn
	Remote    string // its name at the server of the connection
	Title     string // for people; empty: it has none
	SHA256    string // of the definition; see [AgentTool.Hash] for ToolClient
	Ask       *Ask   // a visitor has to confirm each call; nil: none has to
	OnUnknown string // of ToolConnection: UnknownTells or UnknownFails

	// IdempotencyArgument is the argument of a call that carries its id; empty: none does.
	// Parameters has it not, since the model does not choose it; Sent is the schema with it.
	IdempotencyArgument, Sent string
}

// An Ask is how visitors are asked about the calls of a tool.
type Ask struct {
	Title  string // of what is to be done
	Public []PublicField
}

// A PublicField is a member of a tool's arguments that a visitor may see.
type PublicField struct {
	Path []string // the names of the members that lead to it
	Name string   // for people
}

// A Confirmation is what a visitor is shown who has to confirm a call.
type Confirmation struct {
	Title  string       `json:"title"`
	Fields []ShownField `json:"fields"`
}

// A ShownField is a member of a call's arguments, as a visitor sees it.
type ShownField struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Cut   bool   `json:"cut,omitzero"` // the value is longer
}

// laxness orders effects: the higher, the less a repetition does.
var laxness = map[Effects]int{EffectsOnce: 0, EffectsIdempotent: 1, EffectsRead: 2}

// Laxer reports whether a claims that a repetition does less than b says.
func (a Effects) Laxer(b Effects) bool { return laxness[a] > laxness[b] }

// What happens to a turn when a call has got no output in time.
const (
	TimeoutTells = "tell_model"
	TimeoutFails = "fail"
)

// What happens to a turn when nobody knows whether a call was carried out.
const (
	UnknownTells = "tell_model"
	UnknownFails = "fail"
)

// Tool returns the definition that the model gets.
func (t AgentTool) Tool() Tool {
	return Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
}

// Hash returns the SHA-256 of the definition, as hexadecimal digits.
func (t AgentTool) Hash() string {
	return HashOf(t.Name + "\x00" + t.Description + "\x00" + t.Parameters)
}

// HashOf returns the SHA-256 of a text, as hexadecimal digits.
func HashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Effects is what may come of carrying out a call of a tool again.
type Effects string

// The classes of effects.
const (
	EffectsRead       Effects = "read"       // nothing: it may be repeated
	EffectsIdempotent Effects = "idempotent" // nothing, under the id of the call
	EffectsOnce       Effects = "once"       // its effect again: it is never repeated
)

// A Withheld tool is one of the agent's that a session does not offer to the model.
type Withheld struct {
	Tool   string `json:"tool"`
	Reason string `json:"reason"`
}

// Why a tool is withheld.
const (
	WithheldOnce    = "mode_once" // it would have to wait
	WithheldCaller  = "caller"    // whoever started the session wanted it so
	WithheldVisitor = "visitor"   // it is not for visitors

	WithheldUnapproved   = "not_approved"        // nobody has approved it
	WithheldChanged      = "changed"             // its definition is no longer the approved one
	WithheldMissing      = "missing"             // it is gone, or its connection is
	WithheldUnauthorized = "needs_authorization" // the server refuses the secret, or the secret cannot be read
	WithheldLimit        = "limit"               // there are too many, or their definitions are too long
	WithheldDisabled     = "disabled"            // its connection is switched off
)

// An ExternalCall is a call of an [AgentTool]. Its row exists before anything leaves
// the service, and its id is the key under which it is carried out.
type ExternalCall struct {
	ID                  string        `db:"id"`
	AccountID           string        `db:"account_id"`
	AgentID             string        `db:"agent_id"`
	SessionID           string        `db:"session_id"`
	Turn                int64         `db:"turn"`
	Step                int64         `db:"step"`
	Place               int           `db:"place"`   // in its step, from 0
	CallID              string        `db:"call_id"` // that the model has given it
	Type                string        `db:"type"`
	Tool                string        `db:"tool"`
	ConnectionID        string        `db:"connection_id"`        // of ToolConnection
	SecretID            string        `db:"secret_id"`            // that its newest request carried; empty: none
	Lost                int           `db:"lost"`                 // how many processes ended while they carried it out
	Title               string        `db:"title"`                // of the tool, for people; empty: it has none
	DefinitionSHA256    string        `db:"definition_sha256"`    // see [AgentTool.Hash]
	Arguments           string        `db:"arguments"`            // as they are sent: as the model wrote them, but for IdempotencyArgument
	IdempotencyArgument string        `db:"idempotency_argument"` // the argument that carries ID; empty: none does
	Effects             Effects       `db:"effects"`
	Status              CallStatus    `db:"status"`
	Outcome             CallOutcome   `db:"outcome"`  // empty until it is done
	InputID             string        `db:"input_id"` // that it waits or has waited for
	OnTimeout           string        `db:"on_timeout"`
	OnUnknown           string        `db:"on_unknown"` // of ToolConnection: UnknownTells, or UnknownFails; empty: it tells
	TimeoutSeconds      int64         `db:"timeout"`
	Attempts            int           `db:"attempts"`          // how often it was claimed to be carried out
	Result              string        `db:"result"`            // whole, or its beginning
	ResultBytes         int           `db:"result_bytes"`      // of the whole
	ErrorCode           Code          `db:"error_code"`        // of one that the service itself has answered
	LateOutput          *string       `db:"late_output"`       // that came when it was done already
	Resolution          string        `db:"resolution"`        // what a person has found out: done or not_done
	Note                string        `db:"note"`              // of the resolution
	ResolvedBy          string        `db:"resolved_by"`       // the id of the key
	Approval            string        `db:"approval"`          // ApprovalAlways or ApprovalNever; empty: never
	ApprovalInputID     string        `db:"approval_input_id"` // with which somebody was asked last
	Decision            Decision      `db:"decision"`
	DecidedBy           string        `db:"decided_by"` // the id of the key; empty for an expiry
	Comment             string        `db:"comment"`
	PreviousOutcome     CallOutcome   `db:"previous_outcome"` // OutcomeUnknown: it may have been carried out once already
	DecidedAt           time.Time     `db:"decided_at"`
	Confirmation        *Confirmation `db:"confirmation,optional"` // that a visitor has to give; nil: none has to
	ConfirmInputID      string        `db:"confirm_input_id"`      // with which a visitor was asked last
	Confirmed           Decision      `db:"confirmed"`             // of the visitor, which is never remembered
	ConfirmedBy         string        `db:"confirmed_by"`          // the id of the embed; empty for an expiry
	ConfirmedAt         time.Time     `db:"confirmed_at"`
	CreatedAt           time.Time     `db:"created_at"`
	ExpiresAt           time.Time     `db:"expires_at"`
	StartedAt           time.Time     `db:"started_at"` // when it was handed out first; zero: never
	FinishedAt          time.Time     `db:"finished_at"`
	ResolvedAt          time.Time     `db:"resolved_at"`
}

// A Decision is what was decided about a call that needs an approval.
type Decision string

// The decisions. An empty one is none yet.
const (
	DecisionApprove    Decision = "approve"
	DecisionReject     Decision = "reject"
	DecisionExpired    Decision = "expired"    // nobody decided in time, which is a rejection
	DecisionRemembered Decision = "remembered" // the tool was approved for the session before
)

// Approved reports whether a call may be carried out, as far as approvals go. An
// approval is of one call with its arguments and definition, which are its row's, and is
// used up once the call is [CallClaimed].
func (c *ExternalCall) Approved() bool {
	return c.Approval != ApprovalAlways || c.Status == CallPlanned && (c.Decision == DecisionApprove || c.Decision == DecisionRemembered)
}

// IsConfirmed reports whether a call may be carried out, as far as its visitor goes. A
// confirmation is of one call and used up like an approval; see [ExternalCall.Approved].
func (c *ExternalCall) IsConfirmed() bool {
	return c.Confirmation == nil || c.Status == CallPlanned && c.Confirmed == DecisionApprove
}

// Asks reports whether somebody is asked before the call is carried out.
func (c *ExternalCall) Asks() bool { return c.Approval == ApprovalAlways || c.Confirmation != nil }

// MayShare reports whether a call may be carried out while others of its step are: it
// only reads, and nobody is asked about it.
func (c *ExternalCall) MayShare() bool { return c.Effects == EffectsRead && !c.Asks() }

// FailsUnknown reports whether the turn of a call fails where nobody knows whether it was
// carried out.
func (c *ExternalCall) FailsUnknown() bool { return c.OnUnknown == UnknownFails }

// Open reports whether a call was handed out and has no outcome yet.
func (c *ExternalCall) Open() bool { return c.Status == CallWaiting || c.Status == CallClaimed }

// CallStatus is how far a call is.
type CallStatus string

// The statuses of a call, in their order.
const (
	CallPlanned CallStatus = "planned" // recorded with its step
	CallWaiting CallStatus = "waiting" // handed out; nobody has claimed it
	CallClaimed CallStatus = "started" // claimed
	CallDone    CallStatus = "done"    // it has an outcome
)

// CallOutcome is what came of a call.
type CallOutcome string

// The outcomes.
const (
	OutcomeOK        CallOutcome = "ok"
	OutcomeError     CallOutcome = "error"
	OutcomeUnknown   CallOutcome = "unknown"   // the server may have carried it out
	OutcomeDenied    CallOutcome = "denied"    // nobody has approved it
	OutcomeExpired   CallOutcome = "expired"   // no output came; it may have been done
	OutcomeCancelled CallOutcome = "cancelled" // its turn ended before
)
