package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/testkit/apitest"
)

// vendorTools are OpenAI's tools that the caller runs: as declared, the arguments with which a model
// calls each, the members of the item that the caller reads, and its answer.
var vendorTools = []struct {
	tool, name, arguments, item, members, output, text string
}{
	{
		`{"type":"apply_patch"}`, "apply_patch", `{"type":"create_file","path":"a.txt","diff":"+a"}`,
		"apply_patch_call", `"operation":{"type":"create_file","path":"a.txt","diff":"+a"}`, `"status":"completed","output":"made it"`, "made it",
	},
	{
		`{"type":"shell","environment":{"type":"local"}}`, "shell", `{"commands":["ls"],"timeout_ms":5}`,
		"shell_call", `"action":{"commands":["ls"],"timeout_ms":5`, `"output":[{"stdout":"made it","stderr":"","outcome":{"type":"exit","exit_code":0}}]`, "made it",
	},
	{`{"type":"local_shell"}`, "local_shell", `{"command":["ls"]}`, "local_shell_call", `"action":{"command":["ls"]`, `"output":"made it"`, "made it"},
	{
		`{"type":"computer"}`, "computer", `{"actions":[{"type":"screenshot"}]}`,
		"computer_call", `"actions":[{"type":"screenshot"}]`, `"output":{"type":"computer_screenshot","image_url":"` + dot + `"}`, "iVBORw0KGgo",
	},
	{
		`{"type":"computer_use_preview","display_width":800,"display_height":600,"environment":"linux"}`, "computer", `{"action":{"type":"wait"}}`,
		"computer_call", `"action":{"type":"wait"}`, `"output":{"type":"computer_screenshot","image_url":"` + dot + `"}`, "iVBORw0KGgo",
	},
	{
		`{"type":"tool_search","execution":"client","description":"Finds.","parameters":{"type":"object","properties":{"goal":{"type":"string"}}}}`, "tool_search", `{"goal":"x"}`,
		"tool_search_call", `"arguments":{"goal":"x"}`, `"execution":"client","tools":[{"type":"function","name":"found","parameters":{"type":"object","properties":{}}}]`, `"found"`,
	},
}

// dot is a picture of one pixel.
const dot = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// TestVendorToolsThatTheCallerRuns makes a loop with each of OpenAI's tools, with models of all
// wires, whole and streamed: its own vendor gets the tool, the call and the output as they are, the
// others a function, and the caller always reads the item of the tool.
func TestVendorToolsThatTheCallerRuns(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
		native := model == "gamma-6-luna"
		for i, v := range vendorTools {
			if v.item == "computer_call" && model == "delta-v4-flash" {
				v.text = "this model cannot see images" // a note replaces it
			}
			for _, stream := range []bool{false, true} {
				at := fmt.Sprintf("%s %s stream %v", model, v.tool, stream)
				ask := body{"model": model, "stream": stream, "input": "call: " + v.name + " " + v.arguments, "tools": []json.RawMessage{json.RawMessage(v.tool)}}
				c := h.Client(t).With("Idempotency-Key", fmt.Sprintf("%s-%d-%v", model, i, stream))
				r := c.Want(200, "POST", responses, ask)
				if sent := lastBody(f); strings.Contains(sent, `"tools":[`+v.tool+`]`) != native {
					t.Errorf("%s: the vendor was sent %s", at, sent)
				}
				item := vendorItem(t, r, v.item)
				if item == "" || !strings.Contains(item, v.members) || native != strings.Contains(item, `"created_by":"model"`) {
					t.Errorf("%s: the reply is %s", at, r.Body)
					continue
				}
				if again := c.Want(200, "POST", responses, ask); vendorItem(t, again, v.item) != item {
					t.Errorf("%s: replayed, the reply is %s", at, again.Body)
				}
				if got := adjustmentsOf(t, h.Client(t), r); got != "" {
					t.Errorf("%s: the receipt has %s", at, got)
				}
				var made struct {
					ID     string `json:"id"`
					CallID string `json:"call_id"`
				}
				if err := json.Unmarshal([]byte(item), &made); err != nil {
					t.Fatal(err)
				}
				answer := `{"type":"` + strings.Replace(v.item+"_output", "search_call_output", "search_output", 1) + `","call_id":"` + made.CallID + `",` + v.output + `}`
				ask["input"] = []json.RawMessage{json.RawMessage(`{"role":"user","content":` + quote(ask["input"].(string)) + `}`), json.RawMessage(item), json.RawMessage(answer)}
				h.Client(t).Want(200, "POST", responses, ask)
				sent := lastBody(f)
				if !strings.Contains(sent, v.text) || strings.Contains(sent, `"type":"`+v.item+`"`) != native || !strings.Contains(sent, made.CallID) {
					t.Errorf("%s: then the vendor was sent %s", at, sent)
				}
			}
		}
	}
	quiet(t, h)
}

// vendorItem returns the item of that type in a reply, as sent.
func vendorItem(t *testing.T, r *apitest.Reply, kind string) string {
	t.Helper()
	var reply struct {
		Output []json.RawMessage `json:"output"`
	}
	text := r.Body
	if n := len(r.Events); n > 0 {
		at := strings.LastIndex(string(r.Body), `"output":[{`)
		if at < 0 {
			return ""
		}
		text = []byte("{" + string(r.Body)[at:])
		if err := json.NewDecoder(strings.NewReader(string(text[len(`{"output":`):]))).Decode(&reply.Output); err != nil {
			t.Fatal(err)
		}
	} else if err := json.Unmarshal(text, &reply); err != nil {
		t.Fatal(err)
	}
	for _, item := range reply.Output {
		if strings.Contains(string(item), `"type":"`+kind+`"`) {
			return string(item)
		}
	}
	return ""
}

// TestVendorToolsAreChosen forces a call of such a tool, in both forms of a choice.
func TestVendorToolsAreChosen(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	for _, choice := range []string{`{"type":"shell"}`, `{"type":"allowed_tools","mode":"auto","tools":[{"type":"shell"}]}`} {
		for model, want := range map[string]string{"gamma-6-luna": choice, "delta-v4-flash": `"name":"shell"`} {
			var r contract.Response
			h.Client(t).Want(200, "POST", responses, json.RawMessage(`{"model":"`+model+`","reasoning":{"effort":"none"},"input":"call: shell {\"commands\":[]}","tools":[{"type":"shell"},{"type":"apply_patch"}],"tool_choice":`+choice+`}`)).JSON(&r)
			if last := r.Output[len(r.Output)-1]; last.Type != "shell_call" || !strings.Contains(lastBody(f), want) {
				t.Errorf("%s %s: %+v, the vendor was sent %s", model, choice, last, lastBody(f))
			}
		}
	}
}

// TestCallsOfVendorToolsThatAreCut has arguments that are no object, and a call that a limit cuts.
func TestCallsOfVendorToolsThatAreCut(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	for _, stream := range []bool{false, true} {
		ask := body{"model": "delta-v4-flash", "stream": stream, "input": "call: shell {a}", "tools": []body{{"type": "shell"}}}
		r := h.Client(t).Want(200, "POST", responses, ask)
		if item := vendorItem(t, r, "shell_call"); !strings.Contains(item, `"unreadable"`) || !strings.Contains(item, `"commands":[]`) || adjustmentsOf(t, h.Client(t), r) != "invalid_arguments" {
			t.Errorf("a call without arguments is %s", r.Body)
		}
		ask["input"] = "cut-call: 9\ncall: shell {\"commands\":[\"ls\"]}"
		r = h.Client(t).Want(200, "POST", responses, ask)
		if item := vendorItem(t, r, "shell_call"); item != "" || !strings.Contains(string(r.Body), `"incomplete"`) || adjustmentsOf(t, h.Client(t), r) != "calls_dropped" {
			t.Errorf("a call that was cut is %s", r.Body)
		}
	}
}

// TestDeferredToolsAreFound has a tool that is declared but deferred, with a search of the caller,
// with one of the vendor and without one.
func TestDeferredToolsAreFound(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	const g = `{"type":"function","name":"g","defer_loading":true,"parameters":{"type":"object","properties":{}}}`
	found := `,{"type":"tool_search_call","execution":"client","call_id":"c1","arguments":{"query":"g"}},{"type":"tool_search_output","execution":"client","call_id":"c1","tools":[` + g + `,{"type":"custom","name":"p"}]}`
	for _, c := range []struct {
		model, tools, items, call string
		deferred                  bool
		adjusted                  string
	}{
		{"gamma-6-luna", `{"type":"tool_search","execution":"client"}`, "", "g", true, ""},
		{"gamma-6-luna", `{"type":"tool_search"}`, "", "g", false, "tools_left_out"},
		{"gamma-6-luna", `{"type":"function","name":"f"}`, "", "g", false, ""},
		{"gamma-6-luna", `{"type":"tool_search","execution":"client"}`, found, "p", true, ""},
		{"alpha-haiku-4-5", `{"type":"tool_search","execution":"client"}`, found, "p", false, ""},
		{"alpha-haiku-4-5", `{"type":"tool_search"}`, "", "g", false, "tools_left_out"},
	} {
		r := h.Client(t).Want(200, "POST", responses, json.RawMessage(`{"model":"`+c.model+`","input":[{"role":"user","content":"hi"}`+c.items+`,{"role":"user","content":"rounds: 9\ncall: `+c.call+` {\"input\":\"x\"}"}],"tools":[`+g+`,`+c.tools+`]}`))
		if sent := lastBody(f); !strings.Contains(string(r.Body), `"name":"`+c.call+`"`) || strings.Contains(sent, `"defer_loading":true`) != c.deferred || adjustmentsOf(t, h.Client(t), r) != c.adjusted {
			t.Errorf("%+v: the vendor was sent %s\nand the reply is %s", c, sent, r.Body)
		}
	}
}

// TestHistoriesOfVendorToolsStay: what the caller ran stays, what the vendor ran is left out, and an
// unknown item is refused, since it could be the conversation.
func TestHistoriesOfVendorToolsStay(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
		r := h.Client(t).Want(200, "POST", responses, json.RawMessage(`{"model":"`+model+`","input":[{"role":"user","content":"hi"},
			{"type":"shell_call","id":"sh_1","call_id":"mine","status":"completed","action":{"commands":["run-mine"]}},{"type":"shell_call_output","call_id":"mine","output":[{"stdout":"out-mine"}]},
			{"type":"local_shell_call","id":"lsh_1","call_id":"other","status":"completed","action":{"type":"exec","command":["run-local"],"env":{}}},{"type":"local_shell_call_output","id":"lsh_1","output":"out-local"},
			{"type":"apply_patch_call","call_id":"p1","status":"completed","operation":{"type":"delete_file","path":"patched \\u0000"}},{"type":"apply_patch_call_output","call_id":"p1","status":"failed"},
			{"type":"shell_call","id":"sh_2","call_id":"theirs","status":"completed","environment":{"type":"container_reference","container_id":"c"},"action":{"commands":["run-theirs"]}},{"type":"shell_call_output","call_id":"theirs","output":[{"stdout":"out-theirs"}]},
			{"type":"web_search_call","id":"ws"},{"role":"user","content":"more"}],"tools":[{"type":"shell"}]}`))
		sent := lastBody(f)
		for _, want := range []string{"run-mine", "out-mine", "run-local", "out-local", "patched", "failed"} {
			if !strings.Contains(sent, want) {
				t.Errorf("%s: the vendor was sent %s\nwithout %s", model, sent, want)
			}
		}
		if strings.Contains(sent, "theirs") || adjustmentsOf(t, h.Client(t), r) != "items_left_out" {
			t.Errorf("%s: the vendor was sent %s", model, sent)
		}
	}
	for _, c := range []struct{ items, param, says string }{
		{`{"type":"brand_new_call","call_id":"x"}`, "input[1].type", "other items are not"},
		{`{"type":"shell_call","call_id":"x"}`, "input[1].action", "missing"},
		{`{"type":"shell_call","call_id":"x","action":{"commands":["\u0000"]}}`, "input[1]", "NUL"},
		{`{"type":"shell_call","action":{}}`, "input[1].call_id", "missing"},
		{`{"type":"shell_call","call_id":7,"action":{}}`, "input[1].call_id", "must be a string"},
		{`{"type":"shell_call","call_id":"","action":{}}`, "input[1].call_id", "is empty"},
		{`{"type":"shell_call","call_id":"` + strings.Repeat("x", 513) + `","action":{}}`, "input[1].call_id", "512"},
		{`{"type":"shell_call","call_id":"x","action":{}}`, "input[1].call_id", "no output"},
		{`{"type":"shell_call_output","call_id":"x","output":[]}`, "input[1].call_id", "No tool call"},
		{`{"type":"shell_call","call_id":"x","action":{}},{"type":"shell_call_output","call_id":"x"}`, "input[2].output", "missing"},
		{`{"type":"computer_call","call_id":"x","actions":[]},{"type":"computer_call_output","call_id":"x","output":{"type":"computer_screenshot","file_id":"f"}}`, "input[2].output.file_id", "not stored"},
		{`{"type":"computer_call","call_id":"x","actions":[]},{"type":"computer_call_output","call_id":"x","output":"x"}`, "input[2].output", "computer_screenshot"},
	} {
		var e struct {
			Error struct{ Message, Param string }
		}
		h.Client(t).Want(400, "POST", responses, json.RawMessage(`{"model":"gamma-6-luna","input":[{"role":"user","content":"hi"},`+c.items+`]}`)).JSON(&e)
		if e.Error.Param != c.param || !strings.Contains(e.Error.Message, c.says) {
			t.Errorf("%s: %+v", c.items, e.Error)
		}
	}
}

// TestAnthropicsToolsThatTheCallerRuns makes a loop with each of Anthropic's tools in the format
// Messages: its own vendor gets the tool with the version it needs, the others a function.
func TestAnthropicsToolsThatTheCallerRuns(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	for _, v := range []struct{ tool, name, arguments, beta string }{
		{`{"type":"bash_20250124","name":"bash"}`, "bash", `{"command":"ls"}`, ""},
		{`{"type":"text_editor_20250728","name":"str_replace_based_edit_tool","max_characters":900}`, "str_replace_based_edit_tool", `{"command":"view","path":"/a"}`, ""},
		{`{"type":"memory_20250818","name":"memory"}`, "memory", `{"command":"view","path":"/memories"}`, ""},
		{`{"type":"computer_20251124","name":"computer","display_width_px":800,"display_height_px":600}`, "computer", `{"action":"screenshot"}`, "computer-use-2025-11-24"},
	} {
		for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
			for _, stream := range []bool{false, true} {
				declared := strings.TrimSuffix(v.tool, "}") + `,"allowed_callers":["direct"],"cache_control":{"type":"ephemeral"},"defer_loading":false}`
				ask := body{"model": model, "max_tokens": 900, "stream": stream, "messages": []body{{"role": "user", "content": "call: " + v.name + " " + v.arguments}}, "tools": []json.RawMessage{json.RawMessage(declared)}}
				r := h.Client(t).Want(200, "POST", "/api/v1/messages", ask)
				served := f.Served()
				sent := served[len(served)-1]
				native := model == "alpha-haiku-4-5"
				if got := string(sent.Body); strings.Contains(got, strings.TrimSuffix(v.tool, "}")+`,"allowed_callers":["direct"]`) != native || !native != strings.Contains(got, `"description"`) {
					t.Errorf("%s %s: the vendor was sent %s", model, v.tool, got)
				}
				if got := sent.Header.Get("Anthropic-Beta"); native && got != v.beta {
					t.Errorf("%s %s: the versions are %q", model, v.tool, got)
				}
				if text := string(r.Body); !strings.Contains(text, `"type":"tool_use"`) || !strings.Contains(text, `"name":"`+v.name+`"`) {
					t.Errorf("%s %s: the reply is %s", model, v.tool, text)
				}
			}
		}
	}
	// Of a date that no vendor has yet: the vendor decides.
	if h.Client(t).Want(200, "POST", "/api/v1/messages", json.RawMessage(`{"model":"alpha-haiku-4-5","max_tokens":9,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"bash_20991231","name":"bash"}]}`)); !strings.Contains(lastBody(f), "bash_20991231") {
		t.Errorf("the vendor was sent %s", lastBody(f))
	}
	quiet(t, h)
}
