package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/testkit/apitest"
)

// patchTool and agentsTool are tools as Codex declares them.
const (
	patchTool = `{"type":"custom","name":"apply_patch","description":"Edits files.","format":{"type":"grammar","syntax":"lark","definition":"start: \"*** Begin\""}}`
	spawnTool = `{"type":"function","name":"spawn","description":"Starts one.","parameters":{"type":"object","properties":{"a":{"type":"integer"}}},"strict":false}`
	agents    = `{"type":"namespace","name":"agents","description":"Sub-agents.","tools":[` + spawnTool + `,{"type":"custom","name":"tell"}]}`
)

// codexCalls orders calls of these tools, by the names that vendors without namespaces get.
const codexCalls = "call: apply_patch {\"input\":\"*** Begin\\n\\\"é\\\"\"}\ncall: agents__spawn {\"a\":1}\ncall: agents__tell {\"input\":\"\"}"

// codexWant are the calls of a reply, as Codex reads them.
var codexWant = []string{
	`custom_tool_call||apply_patch||*** Begin` + "\n" + `"é"`,
	`function_call|agents|spawn|{"a":1}|`,
	`custom_tool_call|agents|tell||`,
}

func callsIn(r *contract.Response) (all []string, ids []string) {
	for _, it := range r.Output {
		if it.CallID != "" {
			all = append(all, strings.Join([]string{it.Type, it.Namespace, it.Name, it.Arguments, it.Input}, "|"))
			ids = append(ids, it.CallID)
		}
	}
	return all, ids
}

// TestCustomToolsAndNamespacesAreCalled makes a loop as Codex does with models of all wires,
// whole and streamed: OpenAI's vendor gets the tools as they are, the others functions, and the
// caller reads the same.
func TestCustomToolsAndNamespacesAreCalled(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	for model, want := range map[string]struct{ first, next []string }{
		"alpha-sonnet-5-5": {[]string{`"name":"apply_patch"`, `"name":"agents__spawn"`, `Lark grammar`}, []string{`"input":{"input":"*** Begin\n\"é\""}`}},
		"beta-3.8-flash":   {[]string{`"name":"agents__tell"`, `Lark grammar`}, []string{`"args":{"input":"*** Begin\n\"é\""}`}},
		"delta-v4-flash":   {[]string{`"name":"agents__spawn"`, `Lark grammar`, `Sub-agents.`}, []string{`"arguments":"{\"input\":\"*** Begin\\n\\\"é\\\"\"}"`}},
		"gamma-6-luna": {
			[]string{`{"type":"custom","name":"apply_patch","description":"Edits files.","format":{"type":"grammar","syntax":"lark"`, `{"type":"namespace","name":"agents","description":"Sub-agents.","tools":[{"type":"function","name":"spawn","description":"Starts one."`},
			[]string{`{"type":"custom_tool_call","call_id":"call_`, `"name":"apply_patch","input":"*** Begin\n\"é\""}`, `"namespace":"agents","name":"spawn","arguments":"{\"a\":1}"`, `{"type":"custom_tool_call_output"`},
		},
	} {
		for _, more := range []string{"", `,"stream":true`} {
			tools := `,"tools":[` + patchTool + `,` + agents + `,{"type":"web_search"}]`
			r := c.Want(200, "POST", responses, json.RawMessage(`{"model":"`+model+`","input":`+quote(codexCalls)+tools+more+`}`))
			first := lastBody(f)
			var reply contract.Response
			if more == "" {
				r.JSON(&reply)
			} else {
				reply = *r.Events[len(r.Events)-1].Response
			}
			calls, ids := callsIn(&reply)
			if !slices.Equal(calls, codexWant) {
				t.Errorf("%s%s: the calls are %q", model, more, calls)
				continue
			}
			adjusted := "tools_left_out"
			if model != "gamma-6-luna" {
				adjusted += ",grammar_in_words"
			}
			if got := adjustmentsOf(t, c, r); got != adjusted {
				t.Errorf("%s%s: the receipt says %q, want %q", model, more, got, adjusted)
			}
			if echo := `"tools":[` + patchTool + `,{"type":"namespace","name":"agents","description":"Sub-agents.","tools":[{"type":"function","name":"spawn","description":"Starts one."`; !strings.Contains(string(r.Body), echo) {
				t.Errorf("%s%s: the reply is %s", model, more, r.Body)
			}
			items, _ := json.Marshal(reply.Output)
			items = []byte(strings.ReplaceAll(string(items), `"name":"tell"`, `"name":"tell","input":""`)) // the type has no empty one
			input := `[{"role":"user","content":` + quote(codexCalls) + `},` + string(items[1:len(items)-1])
			for i, id := range ids {
				kind := "custom_tool_call_output"
				if i == 1 {
					kind = "function_call_output"
				}
				input += `,{"type":"` + kind + `","call_id":"` + id + `","output":"done ` + id + `"}`
			}
			c.Want(200, "POST", responses, json.RawMessage(`{"model":"`+model+`","input":`+input+`]`+tools+more+`}`))
			next := lastBody(f)
			for _, w := range want.first {
				if !strings.Contains(first, w) || !strings.Contains(next, w) {
					t.Errorf("%s%s: the vendor was sent %s\nand %s\nwithout %s", model, more, first, next, w)
				}
			}
			for _, w := range append(want.next, "done "+ids[2]) {
				if !strings.Contains(next, w) {
					t.Errorf("%s%s: the vendor was sent %s\nwithout %s", model, more, next, w)
				}
			}
			if strings.Contains(first, "web_search") {
				t.Errorf("%s: the vendor was sent %s", model, first)
			}
		}
	}
	quiet(t, h)
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// TestItemsAddTools has tools in an item of the input, as newer models of Codex do.
func TestItemsAddTools(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	for model, want := range map[string]string{
		"alpha-haiku-4-5": `"tools":[{"name":"f",`,
		"gamma-6-luna":    `{"type":"additional_tools","role":"developer","tools":[{"type":"custom","name":"apply_patch","description":"Edits files.","format":`,
	} {
		for _, tools := range []string{"", `,"tools":[{"type":"function","name":"f"}]`} {
			var r contract.Response
			c.Want(200, "POST", responses, json.RawMessage(`{"model":"`+model+`","input":[{"type":"additional_tools","role":"developer","tools":[`+patchTool+`,`+agents+`]},
				{"role":"user","content":`+quote(codexCalls)+`}]`+tools+`}`)).JSON(&r)
			if calls, _ := callsIn(&r); !slices.Equal(calls, codexWant) {
				t.Errorf("%s: the calls are %q", model, calls)
			}
			if sent := lastBody(f); !strings.Contains(sent, want) && tools != "" {
				t.Errorf("%s: the vendor was sent %s", model, sent)
			}
		}
	}
}

// TestInputsThatAreNone has models that call a custom tool in their own way.
func TestInputsThatAreNone(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	c := h.Client(t)
	for call, want := range map[string]struct{ input, adjusted string }{
		`{"patch":"x"}`:  {`{"patch":"x"}`, "invalid_arguments"},
		`{"input":1}`:    {`{"input":1}`, "invalid_arguments"},
		`{a}`:            {`{a}`, "invalid_arguments"},
		`{"input":"ab"}`: {"ab", "invalid_arguments"},
		`{"input":"aa"}`: {"aa", ""},
	} {
		for _, stream := range []bool{false, true} {
			r := c.Want(200, "POST", responses, body{"model": "delta-v4-flash", "stream": stream, "input": "call: p " + call, "tools": []body{
				{"type": "custom", "name": "p", "format": body{"type": "grammar", "syntax": "regex", "definition": "a+"}},
			}})
			adjusted := "grammar_in_words"
			if want.adjusted != "" {
				adjusted = want.adjusted + "," + adjusted
			}
			if got := adjustmentsOf(t, c, r); got != adjusted || !strings.Contains(string(r.Body), `"input":`+quote(want.input)+`}`) {
				t.Errorf("%s: the receipt says %q, the reply is %s", call, got, r.Body)
			}
		}
	}
	// A limit cuts a call off.
	for _, model := range []string{"gamma-6-luna", "delta-v4-flash"} {
		for _, stream := range []bool{false, true} {
			r := c.Want(200, "POST", responses, body{"model": model, "stream": stream, "input": "cut-call: 15\ncall: p {\"input\":\"abcdefgh\"}", "tools": []body{{"type": "custom", "name": "p"}}})
			cut := strings.Contains(string(r.Body), `"type":"custom_tool_call","status":"incomplete"`) && strings.Contains(string(r.Body), `"name":"p","input":""}`)
			if cut != stream || !stream && strings.Contains(string(r.Body), `"custom_tool_call"`) {
				t.Errorf("%s: a call that was cut off is %s", model, r.Body)
			}
		}
	}
}

// TestChatHasCustomTools makes a loop in the form of chat completions, whole, streamed and
// replayed.
func TestChatHasCustomTools(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	const chat = "/api/v1/chat/completions"
	tools := json.RawMessage(`[{"type":"custom","custom":{"name":"p","description":"Edits.","format":{"type":"grammar","grammar":{"syntax":"regex","definition":"a+"}}}}]`)
	for _, model := range []string{"alpha-haiku-4-5", "gamma-6-luna"} {
		for _, stream := range []bool{false, true} {
			c := h.Client(t).With("Idempotency-Key", model+map[bool]string{true: "-stream"}[stream])
			ask := body{"model": model, "stream": stream, "messages": []body{{"role": "user", "content": "call: p {\"input\":\"aa\"}"}}, "tools": tools, "tool_choice": body{"type": "custom", "custom": body{"name": "p"}}}
			r := c.Want(200, "POST", chat, ask)
			input, id := "", ""
			for _, v := range objects(t, r) {
				for _, choice := range v["choices"].([]any) {
					of := choice.(body)["message"]
					if of == nil {
						of = choice.(body)["delta"]
					}
					list, _ := of.(body)["tool_calls"].([]any)
					for _, call := range list {
						custom := call.(body)["custom"].(body)
						input += custom["input"].(string)
						if custom["name"] == "p" {
							id = call.(body)["id"].(string)
						}
					}
				}
			}
			if input != "aa" || id == "" || !strings.Contains(string(r.Body), `"finish_reason":"tool_calls"`) || strings.Contains(string(r.Body), `"function"`) {
				t.Errorf("%s: the reply is %s", model, r.Body)
			}
			if again := c.Want(200, "POST", chat, ask); !strings.Contains(string(again.Body), `"custom":{"name":"p","input":`) {
				t.Errorf("%s: replayed, it is %s", model, again.Body)
			}
			h.Client(t).Want(200, "POST", chat, body{"model": model, "tools": tools, "messages": []body{
				{"role": "user", "content": "call: p {\"input\":\"aa\"}"},
				{"role": "assistant", "content": nil, "tool_calls": []body{{"id": id, "type": "custom", "custom": body{"name": "p", "input": "aa"}}}},
				{"role": "tool", "tool_call_id": id, "content": "done"},
			}})
			if sent := lastBody(f); !strings.Contains(sent, "done") || strings.Contains(sent, `custom_tool_call_output`) != (model == "gamma-6-luna") {
				t.Errorf("%s: the vendor was sent %s", model, sent)
			}
		}
	}
}
