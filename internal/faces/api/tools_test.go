package api_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/testkit/apitest"
)

const weatherTool = `{"type":"function","name":"get_weather","description":"Of a city.","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}`

// toolCall is a model call with tools; input is JSON, more are further members.
func toolCall(input, more string) json.RawMessage {
	return json.RawMessage(`{"model":"auto","tools":[` + weatherTool + `,{"type":"function","name":"now","parameters":null,"cache_control":{"type":"x"}}],"input":` + input + more + `}`)
}

func TestToolsAreCalledInBothForms(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	ask := `"call: get_weather {\"city\":\"Oslo\"}\ncall: now {}"`
	var whole contract.Response
	c.Want(200, "POST", responses, toolCall(ask, "")).JSON(&whole)
	stream := c.Want(200, "POST", responses, toolCall(ask, `,"stream":true`))
	streamed := stream.Events[len(stream.Events)-1].Response
	for _, r := range []*contract.Response{&whole, streamed} {
		if len(r.Output) != 2 || r.Status != "completed" {
			t.Fatalf("%s with %+v", r.Status, r.Output)
		}
		first, second := r.Output[0], r.Output[1]
		if first.Type != "function_call" || first.Name != "get_weather" || first.Arguments != `{"city":"Oslo"}` || first.Status != "completed" || first.CallID == "" {
			t.Errorf("the first item is %+v", first)
		}
		if second.Name != "now" || second.Arguments != "{}" || second.CallID == first.CallID || second.ID == first.ID {
			t.Errorf("the second item is %+v", second)
		}
		if r.ToolChoice != "auto" || !r.ParallelToolCalls || len(r.Tools) != 2 || r.Tools[1].Parameters != nil || r.Tools[1].Description != nil || *r.Tools[0].Description != "Of a city." {
			t.Errorf("what is repeated: %v %v %+v", r.ToolChoice, r.ParallelToolCalls, r.Tools)
		}
	}
	// The loop goes on with what the tools returned, in whatever order it is sent.
	items, _ := json.Marshal(whole.Output)
	next := `[{"role":"user","content":` + ask + `},` + string(items[1:len(items)-1]) + `,
		{"type":"function_call_output","call_id":"` + whole.Output[1].CallID + `","output":[{"type":"input_text","text":"noon"}]},
		{"role":"user","content":""},
		{"type":"function_call_output","call_id":"` + whole.Output[0].CallID + `","output":"4 degrees"}]`
	if text := c.Want(200, "POST", responses, toolCall(next, `,"stream":true`)).Text(); !strings.Contains(text, "4 degrees") {
		t.Errorf("the sandbox saw %q", text)
	}
	if n := len(receipts(t, h)); n != 3 {
		t.Errorf("%d charges", n)
	}
}

func TestOneCallIsKeptWhereOneIsWanted(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	var r contract.Response
	h.Client(t).Want(200, "POST", responses, toolCall(`"call: now {}\ncall: get_weather {}"`, `,"parallel_tool_calls":false`)).JSON(&r)
	if len(r.Output) != 1 || r.Output[0].Name != "now" || r.ParallelToolCalls {
		t.Errorf("%+v", r.Output)
	}
}

func TestCallsOutsideTheChoiceAreNotSent(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.Client(t)
	only := func(name string) string {
		return `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"` + name + `"}]}`
	}
	var r contract.Response
	c.Want(200, "POST", responses, toolCall(`"call: now {}\ncall: get_weather {}"`, only("get_weather"))).JSON(&r)
	if len(r.Output) != 1 || r.Output[0].Name != "get_weather" {
		t.Errorf("%+v", r.Output)
	}
	if choice, _ := json.Marshal(r.ToolChoice); string(choice) != `{"mode":"auto","tools":[{"name":"get_weather","type":"function"}],"type":"allowed_tools"}` {
		t.Errorf("the choice is repeated as %s", choice)
	}
}

func TestToolsReplayedWithTheirIDs(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	for _, more := range []string{"", `,"stream":true`} {
		c := h.Client(t).With("Idempotency-Key", "k"+fmt.Sprint(len(more)))
		body := toolCall(`"think: 40\ncall: get_weather {\"city\":\"Oslo\"}\ncall: now {}"`, more)
		first := c.Want(200, "POST", responses, body)
		again := c.Want(200, "POST", responses, body)
		if again.Header.Get("Idempotency-Replayed") != "true" || !strings.Contains(string(again.Body), `"encrypted_content":"stoa1.`) {
			t.Errorf("it was not replayed: %s", again.Body)
		}
		if more == "" {
			if string(first.Body) != string(again.Body) {
				t.Errorf("%s\n%s", first.Body, again.Body)
			}
			continue
		}
		last := func(r *apitest.Reply) string {
			text, _ := json.Marshal(r.Events[len(r.Events)-1].Response)
			return string(text)
		}
		if last(first) != last(again) {
			t.Errorf("%s\n%s", last(first), last(again))
		}
	}
	if n := len(receipts(t, h)); n != 2 {
		t.Errorf("%d charges", n)
	}
}

func TestFormatsAreRepeated(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	for sent, want := range map[string]string{
		`{"type":"json_object"}`: `{"type":"json_object"}`,
		`{"type":"json_schema"}`: `{"type":"json_object"}`,
		`{"type":"json_schema","name":"n","schema":{"type": "object"},"strict":true}`: `{"type":"json_schema","name":"n","description":null,"schema":{"type":"object"},"strict":true}`,
	} {
		r := h.Client(t).Want(200, "POST", responses, json.RawMessage(`{"model":"auto","input":"say: {}","text":{"format":`+sent+`}}`))
		if !strings.Contains(string(r.Body), `"text":{"format":`+want+`}`) || r.Text() != "{}" {
			t.Errorf("%s is answered with %s", sent, r.Body)
		}
	}
	var r contract.Response
	h.Client(t).Want(200, "POST", responses, json.RawMessage(`{"model":"auto","input":"empty","text":{"format":{"type":"json_object"}}}`)).JSON(&r)
	if len(r.Output) != 0 {
		t.Errorf("a reply without text has %+v", r.Output)
	}
}

func TestVersion1HasNoTools(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Version1: true})
	for body, param := range map[string]string{
		string(toolCall(`"hi"`, "")):                                                         `"param":"tools"`,
		`{"model":"auto","input":"hi","tool_choice":"required"}`:                             `"param":"tool_choice"`,
		`{"model":"auto","input":"hi","text":{"format":{"type":"json_object"}}}`:             `"param":"text.format.type"`,
		`{"model":"auto","input":[{"type":"function_call","call_id":1}]}`:                    `"param":"input[0].type"`,
		`{"model":"auto","input":[{"type":"function_call_output","output":[{"type":"x"}]}]}`: `"param":"input[0].type"`,
	} {
		if status, text := plainly(t, h, "POST", responses, body); status != 400 || !strings.Contains(text, param) {
			t.Errorf("%s\nis answered with %d %s", body, status, text)
		}
	}
	for _, body := range []string{
		`{"model":"auto","input":"say: a","tools":[],"tool_choice":"none","include":["reasoning.encrypted_content"],"reasoning":{"summary":7}}`,
		`{"model":"auto","input":[{"role":"user","content":"say: a"},{"type":"reasoning","encrypted_content":7}]}`,
	} {
		if status, text := plainly(t, h, "POST", responses, body); status != 200 || !strings.Contains(text, `"text":"a"`) {
			t.Errorf("%s\nis answered with %d %s", body, status, text)
		}
	}
	text := string(contract.For().JSON())
	for _, word := range []string{"function_call", "json_schema", "encrypted_content", "x-extension", "x-otherwise"} {
		if strings.Contains(text, word) && word != "json_schema" {
			t.Errorf("the contract of version 1 has %q", word)
		}
	}
	if slices.Contains(h.Server.Extensions.Names(), "tools") {
		t.Error("the extension is on")
	}
}
