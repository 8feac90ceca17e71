package stoa

// An Event is one item of a model's reply as it arrives. Events are small
// values in the order of the wire; which fields are set depends on Kind.
// Events are ranged over; see docs/decisions/0002-events-as-iterators.md.
type Event struct {
	Kind EventKind
	// More says that further events are already buffered, so a writer may wait
	// with its flush.
	More     bool
	Text     string   // Delta: a non-empty piece of the reply, whole code points
	Thinking int      // Thinking: bytes of reasoning received (its text is dropped)
	Usage    Usage    // Usage and Finished: all that is known so far (it replaces, never adds)
	HasUsage bool     // Finished: the vendor told the usage
	Stop     Stop     // Finished
	Call     ToolCall // ToolCall: complete
	State    State    // Finished: see [State]; empty where there is none
	Provider string   // Started
}

// EventKind says what an [Event] is.
type EventKind uint8

// The kinds. A reply is Started (given by upstream, not by a codec), then any
// of Usage, Thinking, Delta and ToolCall, then exactly one Finished; or an error in
// place of what is missing. A second Started means that an attempt failed
// before its first text and another begins: what came before counts no more.
const (
	Started    EventKind = iota + 1 // an upstream accepted the call
	UsageSoFar                      // the vendor told counts early
	Thinking                        // reasoning arrived
	Delta                           // text arrived
	Called                          // the model calls a tool
	Finished                        // the vendor said that the reply is complete
)

// Stop says why a reply ended.
type Stop string

// The reasons. An end without a reason is an error, never a Stop.
const (
	StopEnd           Stop = "end"            // the model was done
	StopLength        Stop = "length"         // a token limit was reached
	StopContentFilter Stop = "content_filter" // the vendor withheld the rest
	StopToolCalls     Stop = "tool_calls"     // the model waits for tool results
)
