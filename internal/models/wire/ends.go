package wire

import (
	"strings"

	"stoa/internal/base/stoa"
)

// An ending is the meaning of a word for the end of a reply.
type ending uint8

const (
	endUnknown ending = iota // counts as finished
	endFinished
	endLimit  // of the output or of the context
	endFilter // of the content
	endCalls
	endError // of the provider: free, because the reply is not complete, and nobody can have caused it on purpose
)

// endings are the words for the end of a reply in chat completions and in Messages, from the sources
// of their servers. Both formats share the table, because proxies pass the words of one on in the
// other. See docs/decisions/0009-a-reply-ends-only-with-an-explicit-end.md.
var endings = map[string]ending{
	"stop":          endFinished, // OpenAI and nearly all others
	"end_turn":      endFinished, // Anthropic
	"stop_sequence": endFinished, // Anthropic, text-generation-inference
	"pause_turn":    endFinished, // Anthropic
	"eos":           endFinished, // Together
	"eos_token":     endFinished, // text-generation-inference
	"complete":      endFinished, // Cohere
	"load":          endFinished, // Ollama: the input was empty
	"unload":        endFinished, // Ollama

	"length":                        endLimit, // OpenAI and nearly all others
	"max_tokens":                    endLimit, // Anthropic
	"model_length":                  endLimit, // Mistral
	"model_context_window_exceeded": endLimit, // Anthropic, Z.ai
	"repetition":                    endLimit, // vLLM: the model repeated itself without end

	"content_filter":       endFilter, // OpenAI, DeepSeek, OpenRouter
	"refusal":              endFilter, // Anthropic
	"sensitive":            endFilter, // Z.ai
	"guardrail_intervened": endFilter, // Bedrock behind LiteLLM
	"content_filtered":     endFilter, // Bedrock behind LiteLLM

	"tool_calls":    endCalls, // OpenAI and nearly all others
	"function_call": endCalls, // OpenAI, Groq
	"tool_use":      endCalls, // Anthropic
	"tool_call":     endCalls, // Cohere

	"error":                        endError, // vLLM, Mistral, OpenRouter
	"abort":                        endError, // vLLM, SGLang
	"network_error":                endError, // Z.ai
	"insufficient_system_resource": endError, // DeepSeek
}

// stopOf returns the meaning of the word with which the provider ended the reply. A word that the
// table lacks is a normal end, because the provider has declared the reply complete, and it is
// reported to [Want]. An error before any output may be repeated elsewhere; after some output the
// reply is broken.
func (r *reply) stopOf(word string) (stoa.Stop, error) {
	switch endings[strings.ToLower(word)] {
	case endLimit:
		return stoa.StopLength, nil
	case endFilter:
		return stoa.StopContentFilter, nil
	case endCalls:
		return stoa.StopToolCalls, nil
	case endError:
		switch {
		case r.text > 0 || r.calls > 0:
			return "", broken("the reply ended with the reason " + word)
		case word == "insufficient_system_resource":
			return "", streamError([]byte(`{"error":{"type":"overloaded_error","message":"insufficient_system_resource"}}`))
		}
		f := broken("the reply ended with the reason " + word)
		f.Err.Message = "The model's provider failed. Try again."
		return "", f
	case endUnknown:
		if r.want.Unknown != nil {
			r.want.Unknown(bounded(word))
		}
	}
	return stoa.StopEnd, nil
}
