package fakeup

import (
	"cmp"
	"slices"
	"strings"
)

// An order has the members of a vendor's objects in their order. Objects with the member with, or with this value
// of it ("object=x"), have an order of their own, the first that fits.
type order []kind

type kind struct {
	with string
	rank map[string]int
}

// newOrder returns an order of pairs: with, and names.
func newOrder(pairs ...string) (all order) {
	for i := 0; i < len(pairs); i += 2 {
		rank := map[string]int{}
		for _, name := range strings.Fields(pairs[i+1]) {
			rank[name] = len(rank) - 1000 // others follow, by name
		}
		all = append(all, kind{pairs[i], rank})
	}
	return all
}

// The orders, as recorded from the vendors.
var (
	messagesOrder = newOrder(
		"model", "model id type role content stop_reason stop_sequence stop_details usage",
		"", `type index message content_block delta id name input text thinking signature partial_json stop_reason stop_sequence stop_details category explanation recommended_model usage
			input_tokens cache_creation_input_tokens cache_read_input_tokens cache_creation ephemeral_5m_input_tokens ephemeral_1h_input_tokens output_tokens output_tokens_details service_tier inference_geo error request_id`,
	)
	chatOrder = newOrder(
		"object=chat.completion", "id object created model choices usage service_tier system_fingerprint",
		"", `index id object created model service_tier system_fingerprint choices delta message logprobs finish_reason role content refusal reasoning_content annotations tool_calls type function name arguments param code
			usage obfuscation prompt_tokens completion_tokens total_tokens prompt_tokens_details completion_tokens_details cached_tokens reasoning_tokens audio_tokens accepted_prediction_tokens rejected_prediction_tokens
			prompt_cache_hit_tokens prompt_cache_miss_tokens`,
	)
	geminiOrder = newOrder(
		"", `candidates usageMetadata modelVersion responseId content parts text thought functionCall thoughtSignature role finishReason index id name args
			promptTokenCount cachedContentTokenCount candidatesTokenCount totalTokenCount promptTokensDetails thoughtsTokenCount modality tokenCount error code message status details`,
	)
	responsesOrder = newOrder(
		"object", `id object created_at status background error incomplete_details instructions max_output_tokens max_tool_calls model output parallel_tool_calls previous_response_id prompt_cache_key prompt_cache_retention
			reasoning safety_identifier service_tier store temperature text tool_choice tools top_logprobs top_p truncation usage user metadata`,
		"sequence_number", "type sequence_number item_id output_index content_index summary_index item part delta text arguments name logprobs obfuscation response error",
		"annotations", "type annotations logprobs text",
		"", `effort id type status encrypted_content summary arguments content phase role call_id name namespace input code message param text
			input_tokens input_tokens_details output_tokens output_tokens_details total_tokens`,
	)
	// shortOrder is that of the short replies of the same vendor; see [plan.short].
	shortOrder = append(newOrder(
		"object", "id object created_at status model output service_tier usage",
		"sequence_number", "type content_index delta item item_id logprobs output_index part response sequence_number text",
	), responsesOrder[2:]...)
	shortWholeOrder = append(newOrder("object", "id object created_at status model output usage service_tier"), shortOrder[1:]...)
)

// of returns the order of an object.
func (all order) of(o object) map[string]int {
	for _, e := range all {
		name, want, hasValue := strings.Cut(e.with, "=")
		if value, found := o[name]; name == "" || found && (!hasValue || value == want) {
			return e.rank
		}
	}
	return nil
}

// encode returns a value with its members in the order.
func (all order) encode(v any) []byte { return all.append(nil, v) }

func (all order) append(out []byte, v any) []byte {
	switch v := v.(type) {
	case object:
		names, rank := make([]string, 0, len(v)), all.of(v)
		for name := range v {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), cmp.Compare(a, b)) })
		out = append(out, '{')
		for i, name := range names {
			if i > 0 {
				out = append(out, ',')
			}
			out = all.append(append(append(out, encode(name)...), ':'), v[name])
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for i, e := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = all.append(out, e)
		}
		return append(out, ']')
	default:
		return append(out, encode(v)...)
	}
}
