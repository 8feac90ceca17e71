package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
)

// lenient has calls that a model cannot make as they were asked for made otherwise.
func lenient(s *api.Server) {
	s.Calls.ExtensionOptions.Tools.Forced = "auto"
	s.Calls.ExtensionOptions.Formats.BestEffort = true
}

// adjustmentsOf returns what the receipt of a reply says was done.
func adjustmentsOf(t *testing.T, c *apitest.Client, r *apitest.Reply) string {
	t.Helper()
	_, id, _ := strings.Cut(string(r.Body), `"id":"resp_`)
	id, _, _ = strings.Cut("resp_"+id, `"`)
	var got contract.Receipt
	raw := c.Want(200, "GET", "/api/v1/receipts/"+id, nil)
	raw.JSON(&got)
	if has := strings.Contains(string(raw.Body), `"adjustments"`); has != (got.Adjustments != nil) {
		t.Errorf("the receipt is %s", raw.Body)
	}
	return strings.Join(got.Adjustments, ",")
}

func TestReceiptsSayWhatWasDone(t *testing.T) {
	t.Parallel()
	logs, logger := capture()
	h, _ := vendors(t, apitest.Config{Server: lenient, Logger: logger})
	c := h.Client(t)
	strict := func(schema string) body {
		return body{"tools": []body{{"type": "function", "name": "f", "strict": true, "parameters": json.RawMessage(schema)}}}
	}
	const closed = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	format := func(schema string, strict bool) body {
		return body{"text": body{"format": body{"type": "json_schema", "name": "n", "strict": strict, "schema": json.RawMessage(schema)}}}
	}
	tools := body{"tools": []body{{"type": "function", "name": "f"}, {"type": "function", "name": "g"}}}
	either := body{"tools": []body{{"type": "function", "name": "f", "parameters": json.RawMessage(`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}`)}}}
	for name, tc := range map[string]struct {
		model, input string
		more         body
		want         string
	}{
		"a plain call":                              {"alpha-sonnet-5-5", "Hi", nil, ""},
		"tools that are as asked":                   {"alpha-sonnet-5-5", "call: f {}\ncall: g {}", tools, ""},
		"a tool of a vendor":                        {"alpha-sonnet-5-5", "call: f {}", body{"tools": []body{{"type": "web_search"}, {"type": "function", "name": "f"}}}, "tools_left_out"},
		"a forced choice":                           {"alpha-sonnet-5-5", "call: f {}", with(body{"tool_choice": "required"}, tools), "tool_choice_auto"},
		"a schema that fits":                        {"gamma-6-luna", "say: x", strict(closed), ""},
		"a schema that is open":                     {"gamma-6-luna", "say: x", strict(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`), "schema_rewritten"},
		"a schema that cannot fit":                  {"alpha-sonnet-5-5", "say: x", strict(`{"type":"object","properties":{"a":{"type":"string","minLength":3}},"required":["a"],"additionalProperties":false}`), "strict_dropped"},
		"a schema in the description":               {"alpha-sonnet-5-5", "say: x", either, "schema_rewritten"},
		"a schema in the description, for Gemini":   {"beta-3.8-flash", "say: x", either, "schema_rewritten"},
		"a schema in the description, for OpenAI":   {"gamma-6-luna", "say: x", either, "schema_rewritten"},
		"a schema in the description, for DeepSeek": {"delta-v4-flash", "say: x", either, "schema_rewritten"},
		"a model without strict":                    {"delta-v4-flash", "say: x", strict(closed), "strict_dropped"},
		"a format that fits":                        {"gamma-6-luna", `say: {"a":"b"}`, format(closed, true), ""},
		"a format that does not":                    {"alpha-haiku-4-5", `say: {"a":"b"}`, format(`{"type":"object","properties":{"a":{"type":"string","minLength":3}},"required":["a"],"additionalProperties":false}`, false), "schema_rewritten"},
		"a format in words":                         {"delta-v4-flash", `say: {"a":"b"}`, format(closed, true), "format_in_words"},
		"an object in words":                        {"alpha-haiku-4-5", `say: {"a":"b"}`, body{"text": body{"format": body{"type": "json_object"}}}, "format_in_words"},
		"no JSON":                                   {"gamma-6-luna", "say: ```json\n{}\n```", format(closed, true), "invalid_json"},
		"half of the JSON":                          {"gamma-6-luna", "stop: length\nsay: {\"a\":", format(closed, true), ""},
		"a second call":                             {"delta-v4-flash", "call: f {}\ncall: g {}", with(body{"parallel_tool_calls": false}, tools), "calls_dropped"},
		"arguments that are broken":                 {"delta-v4-flash", "call: f {a}\ncall: g {}", tools, "invalid_arguments"},
		"sealed by another": {"alpha-sonnet-5-5", "", with(body{"input": []body{
			{"role": "user", "content": "say: x"},
			{"type": "reasoning", "summary": []body{}, "encrypted_content": "stoa1.AAAA"},
			{"role": "assistant", "content": "y"},
			{"role": "user", "content": "say: z"},
		}}, tools), "reasoning_unread"},
		"an image": {"gamma-6-luna", "", body{"input": seen("", body{"type": "input_image", "image_url": picture(t)})["input"]}, ""},
		"an image that nobody counted": {"gamma-6-luna", "", body{"input": []body{{"role": "user", "content": []body{
			{"type": "input_text", "text": "usage: none\nsay: x"}, {"type": "input_image", "image_url": picture(t)},
		}}}}, "media_estimated"},
	} {
		for _, stream := range []bool{false, true} {
			r := c.Want(200, "POST", responses, with(body{"model": tc.model, "input": tc.input, "stream": stream}, tc.more))
			if echoed := strings.Contains(string(r.Body), `"tool_choice":"auto"`); !echoed {
				t.Errorf("%s: the choice is not repeated as auto in %s", name, r.Body)
			}
			if got := adjustmentsOf(t, c, r); got != tc.want {
				t.Errorf("%s: the receipt says %q, want %q; %s", name, got, tc.want, r.Body)
			}
		}
	}
	quiet(t, h)
	h.HTTP.Close() // the lines are written after the replies
	if n := strings.Count(logs.text(), "adjustments=tool_choice_auto"); n != 2 {
		t.Errorf("%d lines of the log tell of a forced choice, want 2", n)
	}
}

func TestReasoningIsLeftOutElsewhere(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	ask := func(model string, input ...json.RawMessage) *apitest.Reply {
		return c.Want(200, "POST", responses, body{"model": model, "input": input, "tools": []body{{"type": "function", "name": "f"}}})
	}
	user := json.RawMessage(`{"role":"user","content":"think: 60\ncall: f {}"}`)
	var first struct{ Output []json.RawMessage }
	r := ask("alpha-sonnet-5-5", user)
	r.JSON(&first)
	var call struct {
		ID string `json:"call_id"`
	}
	if err := json.Unmarshal(first.Output[len(first.Output)-1], &call); err != nil || len(first.Output) != 2 {
		t.Fatalf("%v, the reply is %s", err, r.Body)
	}
	input := append([]json.RawMessage{user}, first.Output...)
	input = append(input, json.RawMessage(fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"x"}`, call.ID)))
	if got := adjustmentsOf(t, c, ask("alpha-sonnet-5-5", input...)); got != "" {
		t.Errorf("where it was made, the receipt says %q", got)
	}
	if got := adjustmentsOf(t, c, ask("gamma-6-luna", input...)); got != "reasoning_left_out" {
		t.Errorf("elsewhere the receipt says %q", got)
	}
	var all struct{ Data []contract.Receipt }
	c.Want(200, "GET", "/api/v1/receipts", nil).JSON(&all)
	if n := slices.IndexFunc(all.Data, func(r contract.Receipt) bool { return r.Model.Served == "gamma-6-luna" }); n < 0 || !slices.Equal(all.Data[n].Adjustments, stoa.ReasoningLeftOut.Names()) {
		t.Errorf("the list has %+v", all.Data)
	}
	quiet(t, h)
}
