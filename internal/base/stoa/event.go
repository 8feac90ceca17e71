package stoa

// An Event is one item of a model's reply as it arrives, in the order of the wire; Kind
// determines which fields are set. An iterator passes each event as a pointer that is valid
// until the next one is requested: copy an event to keep it. See
// docs/decisions/0002-stream-events-with-iterators.md.
type Event struct {
	Kind EventKind
	// More reports whether further events are already buffered, so that a writer
	// need not flush yet.
	More     bool
	Text     string   // Delta, Refusal, Summary, CallDelta: a non-empty piece, whole code points; Phased: the phase; Finished: the stop sequence that ended the text, if the provider reported one
	Thinking int      // Thinking: bytes of reasoning received, because its text is dropped
	Usage    Usage    // UsageSoFar, Finished and Delta with HasUsage: the counts so far (they replace earlier ones)
	HasUsage bool     // Finished: the provider reported the usage; Delta: it reported counts with the text
	Stop     Stop     // Finished
	Other    string   // Finished: kind of the output, if the reply has only output that is neither text nor a call
	Call     ToolCall // Called: complete; CallStarted: its id and name
	State    State    // Reasoned: the segment's state. Phased: a state without data
	Provider string   // Started
}

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events. A reply is Started (sent by package upstream, not by a codec), then
// any of the others, then exactly one Finished; an error replaces the missing rest. A
// second Started means that an attempt failed before its first text and another one begins:
// earlier events are void.
//
// Each tool call is CallStarted, at least one CallDelta and Called, with no other item
// before Called; a call that its vendor could not parse is only Called. The pieces of
// CallDelta together are the arguments of Called. A call that a token limit cut off has no
// Called before Finished. Reasoned is sent for each segment of reasoning that has data
// to send back, after its Summary pieces, which are sent only if the call requests them
// ([Call.Summary]). Phased is sent if the following texts have another phase than the
// previous ones (see [Part]). If the call has a format, Refusal replaces Delta if the
// vendor marks a refusal.
const (
	Started    EventKind = iota + 1 // an upstream accepted the call
	UsageSoFar                      // the provider reported counts before the end
	Thinking
	Delta
	Called   // the model calls a tool; the name is empty if its vendor could not read the call
	Finished // the provider reported the end of the reply
	CallStarted
	CallDelta // a piece of its arguments arrived
	Summary   // a piece of a summary of the reasoning arrived
	Reasoned
	Refusal
	Phased // the vendor states the purpose of the following texts
)

// Stop is the reason for the end of a reply.
type Stop string

// The reasons. An end without a reason is an error, never a Stop, because the reply may be cut.
const (
	StopEnd           Stop = "end"
	StopLength        Stop = "length"
	StopContentFilter Stop = "content_filter" // the provider withheld the rest
	StopToolCalls     Stop = "tool_calls"     // the model waits for tool results
	StopCallsDropped  Stop = "calls_dropped"  // the provider withheld tool calls that it could not read or does not allow
)

// Cuts reports whether the reply lacks a part: its status is incomplete.
func (s Stop) Cuts() bool {
	return s == StopLength || s == StopContentFilter || s == StopCallsDropped
}
