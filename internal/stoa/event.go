package stoa

// An Event is one item of the reply of a model as it arrives. Events are small
// values in the order of the wire; which fields are set depends on Kind. They
// are passed as an iterator; see docs/decisions/0002-events-as-iterators.md.
type Event struct {
	Kind EventKind
	// More reports whether further events are already buffered, so that a writer
	// need not flush yet. It is exact.
	More     bool
	Text     string   // Delta: a non-empty piece of the reply, whole code points
	Thinking int      // Thinking: bytes of reasoning received (its text is dropped)
	Usage    Usage    // UsageSoFar and Finished: the counts so far (they replace earlier ones)
	HasUsage bool     // Finished: the provider reported the usage
	Stop     Stop     // Finished
	Call     ToolCall // Called: complete
	State    State    // Finished: see [State]; empty if there is none
	Provider string   // Started
}

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds. A reply is Started (sent by package upstream, not by a codec), then
// any of UsageSoFar, Thinking, Delta and Called, then exactly one Finished; or an
// error in place of what is missing. A second Started means that an attempt
// failed before its first text and another begins: earlier events are void.
const (
	Started    EventKind = iota + 1 // an upstream accepted the call
	UsageSoFar                      // the provider reported counts before the end
	Thinking                        // reasoning arrived
	Delta                           // text arrived
	Called                          // the model calls a tool
	Finished                        // the provider reported the end of the reply
)

// Stop is the reason for the end of a reply.
type Stop string

// The reasons. An end without a reason is an error, never a Stop.
const (
	StopEnd           Stop = "end"            // the model ended its reply
	StopLength        Stop = "length"         // a token limit was reached
	StopContentFilter Stop = "content_filter" // the provider withheld the rest
	StopToolCalls     Stop = "tool_calls"     // the model waits for tool results
)
