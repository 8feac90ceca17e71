package stoa

// Adjustments are the changes to a call that could not be made as requested, and the defects of
// its reply. Append new ones at the end, because databases store these bits.
type Adjustments uint32

// The adjustments, in the order of [Adjustments.Names].
const (
	ChoiceAsAuto      Adjustments = 1 << iota // a tool choice that forces a call was taken as auto
	StrictDropped                             // a tool whose schema was to be enforced was sent without that
	SchemaRewritten                           // an enforced schema was rewritten for the vendor
	FormatInWords                             // the format was requested in words, because the model does not support it
	ReasoningUnread                           // sealed reasoning of the input could not be opened
	ReasoningLeftOut                          // reasoning of the input was not sent, because another provider or model created it
	MediaEstimated                            // the usage was estimated, with the maximum for images or files
	CallsDropped                              // tool calls that the request does not allow were omitted from the reply, and charged
	InvalidArguments                          // the arguments of a tool call are not a JSON object
	InvalidJSON                               // JSON was requested, and the text is not JSON
	ToolsLeftOut                              // tools that are not functions were left out
	ReplyCut                                  // a limit of this service ended the reply, or its reader was too slow
	ReplyBroken                               // only in older receipts: the provider stalled after the first text
	MediaLeftOut                              // images or files in the outputs of tools were left out, because the model does not support them
	StopCutHere                               // the text was cut at a stop sequence by this service, and the provider ran to its end
	CacheMarksChanged                         // a mark of the caller for the cache was dropped, moved or shortened
	GrammarInWords                            // the grammar of a custom tool is part of its description, because the provider has no such tools
	ItemsLeftOut                              // items of the input that another service made, such as searches, were left out
	EndUnknown                                // the provider ended the reply with a reason that the service does not know; it counts as a normal end
	LimitSetHere                              // the reply ended at a limit of output tokens that the caller did not set
)

var adjustmentNames = [...]string{
	"tool_choice_auto", "strict_dropped", "schema_rewritten", "format_in_words", "reasoning_unread", "reasoning_left_out",
	"media_estimated", "calls_dropped", "invalid_arguments", "invalid_json",
	"tools_left_out", "reply_cut", "reply_broken", "media_left_out", "stop_cut_here", "cache_marks_changed", "grammar_in_words", "items_left_out",
	"end_unknown", "limit_set_here",
}

// Names returns the names of the adjustments for receipts and the log, or nil.
func (a Adjustments) Names() (names []string) {
	for i, name := range adjustmentNames {
		if a&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}
