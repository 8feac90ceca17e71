package stoa

// Adjustments are what was done to a call that could not be made as it was asked for,
// and what was found wrong with its reply. They are stored as these bits: a new one
// goes at the end.
type Adjustments uint16

// The adjustments, in the order of [Adjustments.Names].
const (
	ChoiceAsAuto     Adjustments = 1 << iota // a tool choice that forces a call was taken as auto
	StrictDropped                            // a tool whose schema was to be enforced was sent without that
	SchemaRewritten                          // a schema that is enforced was rewritten into what the vendor takes
	FormatInWords                            // the format was asked for in words, because the model has no form for it
	ReasoningUnread                          // sealed reasoning of the input could not be opened
	ReasoningLeftOut                         // reasoning of the input was not sent: another provider or model made it
	MediaEstimated                           // the usage was counted here, with images or files at what they take at most
	CallsDropped                             // tool calls that the caller did not want were left out of the reply, and paid for
	InvalidArguments                         // the arguments of a tool call are no JSON object
	InvalidJSON                              // JSON was asked for, and the text is none
	ToolsLeftOut                             // tools that are not functions were left out
)

var adjustmentNames = [...]string{
	"tool_choice_auto", "strict_dropped", "schema_rewritten", "format_in_words", "reasoning_unread", "reasoning_left_out",
	"media_estimated", "calls_dropped", "invalid_arguments", "invalid_json",
	"tools_left_out",
}

// Names returns the names of the adjustments, as receipts and the log have them; nil
// where there are none.
func (a Adjustments) Names() (names []string) {
	for i, name := range adjustmentNames {
		if a&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}
