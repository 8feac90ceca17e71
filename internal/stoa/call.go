package stoa

import "strings"

// A Call is one model call, independent of the format of any provider.
type Call struct {
	Instructions    string    // system text that comes before every message
	Messages        []Message // in order
	Tools           []Tool    // of agents only; the public endpoint never sets them
	MaxOutputTokens int64     // reasoning included; 0: the default of the wire
	Temperature     *float64  // 0 to 2; nil: not set
	TopP            *float64  // 0 to 1; nil: not set
	Effort          string    // none, minimal, low, medium, high, xhigh, max; empty: not set
	Verbosity       string    // low, medium, high; empty: not set

	// What follows is about the call and never sent to a vendor.
	Account      string // the account's id
	LimitDefault bool   // MaxOutputTokens is Stoa's default: a wire may leave it to the vendor
	Buffered     bool   // nobody sees the reply before Finished: it may begin again after its first text
	Whole        bool   // the vendor is asked for the reply in one piece instead of a stream
	Trail        *Trail // is told where the call is tried; nil: nothing is
}

// A Trail is where a call was tried.
type Trail struct {
	Provider string // of the route that was taken last
	Attempts int    // requests to providers
}

// Forget drops the input of a call that will not be made again: it may be megabytes,
// and its reply may take minutes.
func (c *Call) Forget() { c.Instructions, c.Messages, c.Tools = "", nil, nil }

// A Role is the author of a message.
type Role string

// The roles of a message. RoleSystem also stands for "developer".
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// A Message is one message of a call's input.
type Message struct {
	Role    Role
	Text    string
	Calls   []ToolCall   // an assistant's, after its text
	Results []ToolResult // a user's, before its text: answers to the calls of the message before
	State   State        // an assistant's: what its provider wants back unchanged
}

// A Tool is a function that an agent's model may call.
type Tool struct {
	Name        string
	Description string
	Parameters  string // a JSON Schema, as text
}

// A ToolCall is a tool invocation requested by the model.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // JSON as written by the model; it may be invalid
}

// A ToolResult answers the call with that ID.
type ToolResult struct {
	CallID  string
	Name    string
	Content string
	IsError bool
}

// State is data that a provider expects back unchanged with its own message
// (signed thinking, encrypted reasoning). It is opaque, belongs to one wire and
// one upstream model, and is dropped for any other.
// See docs/decisions/0007-reply-state-is-the-providers-own-message.md.
type State struct {
	Wire  string
	Model string
	Data  string
}

// System returns the whole system text of the call: the instructions, then every
// system message in order, joined by blank lines.
func (c Call) System() string {
	var parts []string
	if c.Instructions != "" {
		parts = append(parts, c.Instructions)
	}
	for _, m := range c.Messages {
		if m.Role == RoleSystem && m.Text != "" {
			parts = append(parts, m.Text)
		}
	}
	return strings.Join(parts, "\n\n")
}

// EstimateInput returns the estimated number of input tokens of the call.
func (c Call) EstimateInput() int64 {
	var bytes, messages int
	if c.Instructions != "" {
		bytes, messages = len(c.Instructions), 1
	}
	for _, m := range c.Messages {
		messages++
		bytes += len(m.Text) + len(m.State.Data)
		for _, t := range m.Calls {
			bytes += len(t.Name) + len(t.Arguments)
		}
		for _, r := range m.Results {
			bytes += len(r.Content)
		}
	}
	for _, t := range c.Tools {
		bytes += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return EstimateTokens(bytes) + int64(messages)*TokensPerMessage
}
