package stoa

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// ToolClient is the type of the tools that programs of the account carry out.
const ToolClient = "client"

// An AgentTool is a tool of an agent that something outside of the service carries
// out. It is a part of the agent's version.
type AgentTool struct {
	Type           string // ToolClient
	Name           string
	Description    string
	Parameters     string // a JSON Schema
	Effects        Effects
	TimeoutSeconds int64  // that a call waits for its output
	OnTimeout      string // TimeoutTells or TimeoutFails
	Visitors       bool   // it is offered in chats of visitors as well
}

// What happens to a turn when a call has got no output in time.
const (
	TimeoutTells = "tell_model"
	TimeoutFails = "fail"
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
)

// An ExternalCall is a call of an [AgentTool]. Its row exists before anything leaves
// the service, and its id is the key under which it is carried out.
type ExternalCall struct {
	ID, AccountID, AgentID, SessionID string
	Turn, Step                        int64
	Place                             int    // in its step, from 0
	CallID                            string // that the model has given it
	Type, Tool                        string
	DefinitionSHA256                  string // see [AgentTool.Hash]
	Arguments                         string // as the model wrote them
	Effects                           Effects
	Status                            CallStatus
	Outcome                           CallOutcome // empty until it is done
	InputID                           string      // that it waits or has waited for
	OnTimeout                         string
	TimeoutSeconds                    int64
	Attempts                          int     // how often it was claimed to be carried out
	Result                            string  // whole, or its beginning
	ResultBytes                       int     // of the whole
	ErrorCode                         Code    // of one that the service itself has answered
	LateOutput                        *string // that came when it was done already
	Resolution                        string  // what a person has found out: done or not_done
	Note, ResolvedBy                  string  // of the resolution; the id of the key
	CreatedAt, ExpiresAt              time.Time
	StartedAt                         time.Time // when it was handed out first; zero: never
	FinishedAt, ResolvedAt            time.Time
}

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
	OutcomeExpired   CallOutcome = "expired"   // no output came; it may have been done
	OutcomeCancelled CallOutcome = "cancelled" // its turn ended before
)
