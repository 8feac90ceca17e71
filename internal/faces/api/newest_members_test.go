package api_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/testkit/apitest"
)

// newestMembers are the top-level members of requests in the newest public types of both vendors.
// Take the lists from a newer version of a package, and add a row below for each new member.
var newestMembers = []struct{ source, path, members string }{
	{
		"openai 7.59.0, ResponseCreateParamsBase", responses,
		"access_programs background background_options context_management conversation image include input instructions max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user",
	},
	{
		"openai 7.59.0, ChatCompletionCreateParamsBase", chatPath,
		"messages model audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens metadata modalities moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options",
	},
	{
		"@anthropic-ai/sdk 1.14.0, beta MessageCreateParamsBase without its headers (betas, user_profile_id, workspace_id)", messagesPath,
		"max_tokens messages model billing_policy cache_control compaction container context_management diagnostics fallback_credit_token fallbacks inference_geo mcp_servers metadata output_config output_format service_tier speed stop_sequences stream system thinking thread tool_choice tools",
	},
}

const chatPath, messagesPath = "/api/v1/chat/completions", "/api/v1/messages"

// Outcomes of members besides the code of an error.
const (
	served  = "served"  // it has its effect with every model, or is checked and repeated
	ignored = "ignored" // the receipt names it
	// Other outcomes begin with "passed to" and the wire of the vendor; elsewhere it is ignored.
	toOpenAI, toAnthropic = "passed to responses", "passed to messages"
)

// A memberCase is a member with a value that its vendor accepts, and what happens to it. A case may
// be about a member inside of one, or about another value.
type memberCase struct{ path, member, value, outcome string }

var memberCases = []memberCase{
	{responses, "access_programs", `{"cyber":"standard"}`, ignored},
	{responses, "background", `true`, "unsupported_parameter"},
	{responses, "background_options", `{"completion_window":"2h"}`, ignored},
	{responses, "context_management", `[{"type":"compaction","compact_threshold":1000}]`, ignored},
	{responses, "conversation", `"conv_1"`, "unsupported_parameter"},
	{responses, "image", `{"context_compression":"auto"}`, ignored},
	{responses, "include", `["reasoning.encrypted_content"]`, served},
	{responses, "input", `"say: x"`, served},
	{responses, "instructions", `"s"`, served},
	{responses, "max_output_tokens", `99`, served},
	{responses, "max_tool_calls", `3`, ignored},
	{responses, "metadata", `{"a":"b"}`, served},
	{responses, "model", `"gamma-6-luna"`, served},
	{responses, "moderation", `{"model":"omni"}`, ignored},
	{responses, "moderation", `{"model":"omni","policy":{"input":{"mode":"block"}}}`, "unsupported_parameter"},
	{responses, "parallel_tool_calls", `false`, served},
	{responses, "previous_response_id", `"resp_1"`, "unsupported_parameter"},
	{responses, "prompt", `{"id":"pmpt_1"}`, "unsupported_parameter"},
	{responses, "prompt_cache_key", `"k"`, served},
	{responses, "prompt_cache_options", `{"mode":"explicit"}`, served},
	{responses, "prompt_cache_options", `{"prewarm":true}`, "unsupported_parameter"},
	{responses, "prompt_cache_retention", `"24h"`, ignored},
	{responses, "reasoning", `{"effort":"low","summary":"auto"}`, served},
	{responses, "reasoning.context", `"all_turns"`, toOpenAI},
	{responses, "reasoning.mode", `"pro"`, toOpenAI},
	{responses, "reasoning.generate_summary", `"auto"`, ignored},
	{responses, "safety_identifier", `"u"`, served},
	{responses, "service_tier", `"flex"`, ignored},
	{responses, "store", `true`, ignored},
	{responses, "stream", `true`, served},
	{responses, "stream_options.include_obfuscation", `false`, ignored},
	{responses, "stream_options", `{}`, served},
	{responses, "temperature", `1`, served},
	{responses, "text", `{"format":{"type":"text"},"verbosity":"low"}`, served},
	{responses, "tool_choice", `"auto"`, served},
	{responses, "tools", `[{"type":"function","name":"f","parameters":{},"strict":false,"allowed_callers":["direct"]}]`, served},
	{responses, "tools[0].output_schema", `[{"type":"function","name":"f","output_schema":{"type":"object"}}]`, ignored},
	{responses, "tools[0].allowed_callers", `[{"type":"function","name":"f","allowed_callers":["programmatic"]}]`, "unsupported_parameter"},
	{responses, "tools[0].async", `[{"type":"function","name":"f","async":true}]`, ignored},
	{responses, "top_logprobs", `2`, "unsupported_parameter"},
	{responses, "top_p", `1`, served},
	{responses, "truncation", `"auto"`, ignored},
	{responses, "user", `"u"`, served},

	{chatPath, "messages", `[{"role":"user","content":"say: x"}]`, served},
	{chatPath, "model", `"gamma-6-luna"`, served},
	{chatPath, "audio", `{"format":"wav","voice":"alloy"}`, "unsupported_parameter"},
	{chatPath, "frequency_penalty", `1`, ignored},
	{chatPath, "function_call", `"auto"`, "unsupported_parameter"},
	{chatPath, "functions", `[{"name":"f"}]`, "unsupported_parameter"},
	{chatPath, "logit_bias", `{"1":1}`, "unsupported_parameter"},
	{chatPath, "logprobs", `true`, "unsupported_parameter"},
	{chatPath, "max_completion_tokens", `99`, served},
	{chatPath, "max_tokens", `99`, served},
	{chatPath, "metadata", `{"a":"b"}`, served},
	{chatPath, "modalities", `["text"]`, served},
	{chatPath, "moderation", `{"model":"omni"}`, ignored},
	{chatPath, "moderation", `{"model":"omni","policy":{"output":{"mode":"block"}}}`, "unsupported_parameter"},
	{chatPath, "n", `1`, served},
	{chatPath, "n", `2`, "unsupported_parameter"},
	{chatPath, "parallel_tool_calls", `false`, served},
	{chatPath, "prediction", `{"type":"content","content":"x"}`, "unsupported_parameter"},
	{chatPath, "presence_penalty", `1`, ignored},
	{chatPath, "prompt_cache_key", `"k"`, served},
	{chatPath, "prompt_cache_options", `{"mode":"explicit"}`, served},
	{chatPath, "prompt_cache_options", `{"prewarm":true}`, "unsupported_parameter"},
	{chatPath, "prompt_cache_retention", `"24h"`, ignored},
	{chatPath, "reasoning_effort", `"low"`, served},
	{chatPath, "response_format", `{"type":"text"}`, served},
	{chatPath, "safety_identifier", `"u"`, served},
	{chatPath, "seed", `1`, ignored},
	{chatPath, "service_tier", `"flex"`, ignored},
	{chatPath, "stop", `"y"`, served},
	{chatPath, "store", `true`, ignored},
	{chatPath, "stream", `true`, served},
	{chatPath, "stream_options", `{"include_usage":true}`, served},
	{chatPath, "stream_options.include_obfuscation", `false`, ignored},
	{chatPath, "temperature", `1`, served},
	{chatPath, "tool_choice", `"auto"`, served},
	{chatPath, "tools", `[{"type":"function","function":{"name":"f"}}]`, served},
	{chatPath, "top_logprobs", `2`, "unsupported_parameter"},
	{chatPath, "top_p", `1`, served},
	{chatPath, "user", `"u"`, served},
	{chatPath, "verbosity", `"low"`, served},
	{chatPath, "web_search_options", `{}`, "unsupported_parameter"},

	{messagesPath, "max_tokens", `99`, served},
	{messagesPath, "messages", `[{"role":"user","content":[{"type":"search_result","title":"t","source":"s","content":[{"type":"text","text":"x"}]}]}]`, served},
	{messagesPath, "model", `"alpha-haiku-4-5"`, served},
	{messagesPath, "billing_policy", `{"type":"billing_policy"}`, ignored},
	{messagesPath, "cache_control", `{"type":"ephemeral"}`, served},
	{messagesPath, "compaction", `{"type":"summarize"}`, "unsupported_parameter"},
	{messagesPath, "container", `"c"`, "unsupported_value"},
	{messagesPath, "context_management", `{"edits":[{"type":"clear_tool_uses_20250919"}]}`, toAnthropic},
	{messagesPath, "context_management", `{"edits":[{"type":"compact_20260112"}]}`, "unsupported_value"},
	{messagesPath, "diagnostics", `{"previous_message_id":"m"}`, ignored},
	{messagesPath, "fallback_credit_token", `"t"`, ignored},
	{messagesPath, "fallbacks", `"default"`, ignored},
	{messagesPath, "inference_geo", `"global"`, served},
	{messagesPath, "inference_geo", `"eu"`, "unsupported_parameter"},
	{messagesPath, "mcp_servers", `[{"type":"url","name":"m","url":"https://a.b"}]`, "unsupported_value"},
	{messagesPath, "metadata", `{"user_id":"u"}`, served},
	{messagesPath, "output_config", `{"effort":"low"}`, served},
	{messagesPath, "output_format", `{"type":"json_schema","schema":{"type":"object","properties":{},"additionalProperties":false}}`, served},
	{messagesPath, "service_tier", `"standard_only"`, served},
	{messagesPath, "speed", `"fast"`, ignored},
	{messagesPath, "stop_sequences", `["y"]`, served},
	{messagesPath, "stream", `true`, served},
	{messagesPath, "system", `"s"`, served},
	{messagesPath, "thinking", `{"type":"disabled"}`, served},
	{messagesPath, "thread", `{"type":"create"}`, "unsupported_parameter"},
	{messagesPath, "tool_choice", `{"type":"auto"}`, served},
	{messagesPath, "tools", `[{"name":"f","input_schema":{"type":"object"},"allowed_callers":["direct"],"defer_loading":true}]`, served},
}

// request returns the request of a case, which has nothing else that is not required.
func (m memberCase) request(model string) body {
	ask := body{"model": model}
	switch m.path {
	case responses:
		ask["input"] = "say: x"
	case messagesPath:
		ask["max_tokens"] = 99
		fallthrough
	default:
		ask["messages"] = []body{{"role": "user", "content": "say: x"}}
	}
	name, inner, nested := strings.Cut(m.member, ".")
	switch name, _, list := strings.Cut(name, "["); {
	case m.member == "model":
	case nested && !list:
		ask[name] = body{inner: json.RawMessage(m.value)}
	default:
		ask[name] = json.RawMessage(m.value)
	}
	return ask
}

// TestEveryMemberOfTheNewestTypes sends each member alone, with a valid value. What becomes of it is
// stated here and, unless it has its effect, in docs/divergences.md.
func TestEveryMemberOfTheNewestTypes(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	page, err := os.ReadFile("../../../docs/divergences.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range newestMembers {
		for name := range strings.FieldsSeq(list.members) {
			if !slices.ContainsFunc(memberCases, func(m memberCase) bool { return m.path == list.path && m.member == name }) {
				t.Errorf("%s has %q, which has no row here", list.source, name)
			}
		}
	}
	formats := map[string]string{responses: "Responses", chatPath: "chat", messagesPath: "Messages"}
	indexes := regexp.MustCompile(`\[\d+\]`)
	for _, m := range memberCases {
		model := "gamma-6-luna"
		if m.path == messagesPath {
			model = "alpha-haiku-4-5"
		}
		name := indexes.ReplaceAllString(m.member, "[]")
		row := regexp.MustCompile("(?m)^\\| [^|]*`" + regexp.QuoteMeta(name) + "`[^|]*\\| [^|]*" + formats[m.path] + "[^|]*\\| " + map[string]string{ignored: "ignored", toOpenAI: "passed", toAnthropic: "passed"}[m.outcome])
		if m.outcome != served && !row.Match(page) {
			t.Errorf("docs/divergences.md has no row for %s of %s: %s", name, formats[m.path], m.outcome)
		}
		reply := c.Do("POST", m.path, m.request(model))
		if code := string(reply.Error().Code); m.outcome != code && (code != "" || strings.HasPrefix(m.outcome, "unsupported")) {
			t.Errorf("%s of %s with %s: %d %s, want %s", m.member, m.path, m.value, reply.Status, reply.Body, m.outcome)
			continue
		}
		if strings.HasPrefix(m.outcome, "unsupported") {
			continue
		}
		sent := lastBody(f)
		switch got := slices.Contains(ignoredBy(t, c, reply), m.member); {
		case got != (m.outcome == ignored):
			t.Errorf("%s of %s with %s: named as ignored is %v, want %s", m.member, m.path, m.value, got, m.outcome)
		case m.outcome == toOpenAI || m.outcome == toAnthropic:
			if _, inner, nested := strings.Cut(m.member, "."); !strings.Contains(sent, `"`+inner+`":`+m.value) && nested || !nested && !strings.Contains(sent, `"`+m.member+`":`+m.value) {
				t.Errorf("%s of %s is not passed: %s", m.member, m.path, sent)
			}
			if elsewhere := c.Want(200, "POST", m.path, m.request("delta-v4-flash")); !slices.Contains(ignoredBy(t, c, elsewhere), m.member) {
				t.Errorf("%s of %s is not named where it has no effect", m.member, m.path)
			}
		}
	}
	for member, want := range map[string]string{"cache_control": `"text":"say: x","cache_control":{"type":"ephemeral"}`, "context_management": "context-management-2025-06-27"} {
		i := slices.IndexFunc(memberCases, func(m memberCase) bool { return m.path == messagesPath && m.member == member })
		c.Want(200, "POST", messagesPath, memberCases[i].request("alpha-haiku-4-5"))
		if last := f.Served()[len(f.Served())-1]; !strings.Contains(string(last.Body)+last.Header.Get("Anthropic-Beta"), want) {
			t.Errorf("%s: the vendor was sent %s with %v", member, last.Body, last.Header)
		}
	}
	quiet(t, h)
}

// ignoredBy returns the members that the receipt of a reply names as ignored.
func ignoredBy(t *testing.T, c *apitest.Client, r *apitest.Reply) []string {
	t.Helper()
	id := regexp.MustCompile(`"id":"(?:resp_|msg_|chatcmpl_)([a-z0-9]+)"`).FindStringSubmatch(string(r.Body))
	if id == nil {
		t.Fatalf("the reply has no id: %s", r.Body)
	}
	var got contract.Receipt
	c.Want(200, "GET", "/api/v1/receipts/resp_"+id[1], nil).JSON(&got)
	return got.Ignored
}
