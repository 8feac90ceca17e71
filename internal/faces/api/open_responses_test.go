package api_test

import (
	"encoding/json"
	"slices"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// openMembers are the members that a response must have according to Open Responses.
var openMembers = []string{
	"id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id", "instructions", "output", "error", "tools",
	"tool_choice", "truncation", "parallel_tool_calls", "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning",
	"usage", "max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
}

// TestTheCasesOfOpenResponses makes calls like those of the compliance suite of Open Responses
// over HTTP, with models of all wires. A model that cannot do what a case needs says so.
func TestTheCasesOfOpenResponses(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	message := func(role string, content any) body { return body{"type": "message", "role": role, "content": content} }
	weather := []body{{"type": "function", "name": "get_weather", "description": "The weather at a place.", "parameters": body{
		"type": "object", "properties": body{"location": body{"type": "string", "description": "A city."}}, "required": []string{"location"},
	}}}
	const call = "call: get_weather {\"location\":\"San Francisco, CA\"}"
	cases := map[string]struct {
		input []body
		more  body
		item  string // that the output must have
	}{
		"text":   {[]body{message("user", "Say hello in three words.")}, nil, "message"},
		"system": {[]body{message("system", "You are a pirate."), message("user", "Say hello.")}, nil, "message"},
		"turns":  {[]body{message("user", "I am Ann."), message("assistant", "Hello Ann!"), message("user", "Who am I?")}, nil, "message"},
		"phases": {[]body{message("user", "I am Ann."), with(message("assistant", "I think."), body{"phase": "commentary"}), with(message("assistant", "Hello Ann!"), body{"phase": "final_answer"}), message("user", "Who am I?")}, nil, "message"},
		"tools":  {[]body{message("user", call)}, body{"tools": weather}, "function_call"},
		"image":  {[]body{message("user", []body{{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": picture(t)}})}, nil, "message"},
	}
	for _, model := range []string{"alpha-haiku-4-5", "alpha-sonnet-5-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
		for name, tc := range cases {
			for _, stream := range []bool{false, true} {
				b := with(body{"model": model, "input": tc.input, "stream": stream}, tc.more)
				if name == "image" && model == "delta-v4-flash" {
					if e := c.WantError(stoa.CodeUnsupportedValue, "POST", responses, b); e.Param == nil || *e.Param != "input[0].content[1].type" {
						t.Errorf("%s: an image is refused with %+v", model, e)
					}
					continue
				}
				r := c.Want(200, "POST", responses, b) // checked against the contract
				text := r.Body
				if stream {
					for _, v := range objects(t, r) {
						if v["type"] == "response.completed" {
							text, _ = json.Marshal(v["response"])
						}
					}
				}
				var members map[string]json.RawMessage
				var reply contract.Response
				if err := json.Unmarshal(text, &members); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(text, &reply); err != nil {
					t.Fatal(err)
				}
				for _, m := range openMembers {
					if _, ok := members[m]; !ok {
						t.Errorf("%s, %s: there is no %q in %s", model, name, m, text)
					}
				}
				if reply.Status != contract.ResponseCompleted || !slices.ContainsFunc(reply.Output, func(it contract.OutputItem) bool { return it.Type == tc.item }) {
					t.Errorf("%s, %s: the reply is %s", model, name, text)
				}
			}
		}
	}
	quiet(t, h)
}
