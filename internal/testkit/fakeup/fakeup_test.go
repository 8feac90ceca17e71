package fakeup

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paths and bodies of the simplest request of each wire; %s is the prompt.
var simple = map[string]struct{ path, auth, body, whole string }{
	"messages":  {"/v1/messages", "X-Api-Key", `{"model":"claude-haiku-4-5","max_tokens":99,"stream":true,"messages":[{"role":"user","content":%q}]}`, `"stream":true`},
	"gemini":    {"/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse", "X-Goog-Api-Key", `{"contents":[{"role":"user","parts":[{"text":%q}]}]}`, ""},
	"responses": {"/v1/responses", "Authorization", `{"model":"gpt-6-luna","stream":true,"input":[{"role":"user","content":%q}]}`, `"stream":true`},
	"chat":      {"/v1/chat/completions", "Authorization", `{"model":"gpt-6-luna","stream":true,"messages":[{"role":"user","content":%q}]}`, `"stream":true`},
}

func post(t *testing.T, s *Server, path, auth, key, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if auth == "Authorization" {
		key = "Bearer " + key
	}
	r.Header.Set(auth, key)
	r.Header.Set("Anthropic-Version", "2023-06-01")
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

func TestServesStreamedAndWhole(t *testing.T) {
	t.Parallel()
	for name, w := range simple {
		t.Run(name, func(t *testing.T) {
			s := Start(t)
			body := fmt.Sprintf(w.body, "say: one two")
			status, text := post(t, s, w.path, w.auth, Key, body)
			if status != 200 || !strings.Contains(text, "data: ") || !strings.Contains(text, `" two"`) {
				t.Errorf("streamed: %d %s", status, text)
			}
			path := strings.Replace(w.path, "streamGenerateContent?alt=sse", "generateContent", 1)
			status, text = post(t, s, path, w.auth, Key, strings.Replace(body, w.whole, `"stream":false`, min(len(w.whole), 1)))
			if status != 200 || strings.Contains(text, "data: ") || !strings.Contains(text, `"one two"`) {
				t.Errorf("whole: %d %s", status, text)
			}
			for _, b := range s.WaitEnded(t, 2) {
				if b.Wire != name || !b.Completed || !b.UsageSent && name != "chat" || b.Usage.Output != 2 || b.Deltas != 2 || b.Prompt != "say: one two" {
					t.Errorf("recorded: %+v", b)
				}
			}
		})
	}
}

func TestRejectsWhatItsVendorRejects(t *testing.T) {
	t.Parallel()
	const user = `{"role":"user","content":"hi"}`
	const chatTool = `{"type":"function","function":{"name":"f"}}`
	const messagesTool = `{"name":"f","input_schema":{"type":"object"}}`
	tests := []struct{ name, wire, path, body, want string }{
		{"no JSON", "messages", "", `{`, "invalid_request_error"},
		{"no max_tokens", "messages", "", `{"model":"claude-haiku-4-5","messages":[` + user + `]}`, "max_tokens: Field required"},
		{"an unknown role", "messages", "", `{"model":"m","max_tokens":9,"messages":[{"role":"system","content":"x"}]}`, "role"},
		{"no alternation", "messages", "", `{"model":"m","max_tokens":9,"messages":[` + user + "," + user + `]}`, "alternate"},
		{"an empty text", "messages", "", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":""}]}`, "non-empty"},
		{"sampling on a newer model", "messages", "", `{"model":"claude-opus-5-5","max_tokens":9,"temperature":1,"messages":[` + user + `]}`, "temperature"},
		{"both samplings", "messages", "", `{"model":"claude-haiku-4-5","max_tokens":9,"temperature":1,"top_p":1,"messages":[` + user + `]}`, "cannot both"},
		{"a prefill on a newer model", "messages", "", `{"model":"claude-opus-5-5","max_tokens":9,"messages":[` + user + `,{"role":"assistant","content":"x"}]}`, "prefill"},
		{"an unknown member", "messages", "", `{"model":"m","max_tokens":9,"verbosity":1,"messages":[` + user + `]}`, "Extra inputs"},
		{"a tool result without a call", "messages", "", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}`, "tool_use_id"},
		{"a level too low", "gemini", "/v1beta/models/gemini-3.7-flash:generateContent", `{"contents":[{"role":"user","parts":[{"text":"x"}]}],"generationConfig":{"thinkingConfig":{"thinkingLevel":"MINIMAL"}}}`, "MINIMAL"},
		{"level and budget", "gemini", "", `{"contents":[{"role":"user","parts":[{"text":"x"}]}],"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW","thinkingBudget":5}}}`, "only set one"},
		{"a wrong role", "gemini", "", `{"contents":[{"role":"assistant","parts":[{"text":"x"}]}]}`, "valid role"},
		{"no contents", "gemini", "", `{"contents":[]}`, "not specified"},
		{"sampling on a reasoning model", "responses", "", `{"model":"gpt-6-luna","temperature":1,"input":"x"}`, "Unsupported parameter: 'temperature'"},
		{"too few tokens", "responses", "", `{"model":"gpt-6-luna","max_output_tokens":5,"input":"x"}`, ">= 16"},
		{"a wrong part", "responses", "", `{"model":"gpt-6-luna","input":[{"role":"assistant","content":[{"type":"input_text","text":"x"}]}]}`, "output_text"},
		{"the old limit", "chat", "", `{"model":"gpt-6-luna","max_tokens":5,"messages":[` + user + `]}`, "max_completion_tokens"},
		{"a role of another vendor", "chat", "/chat/completions", `{"model":"deepseek-v4-pro","messages":[{"role":"developer","content":"x"}]}`, "unknown variant"},
		{"an unknown tool choice", "chat", "", `{"model":"gpt-6-luna","tools":[` + chatTool + `],"tool_choice":{"type":"function","function":{"name":"g"}},"messages":[` + user + `]}`, "not in tools"},
		{"a choice while thinking", "chat", "/chat/completions", `{"model":"deepseek-v4-pro","tools":[` + chatTool + `],"tool_choice":"auto","messages":[` + user + `]}`, "Thinking mode"},
		{"reasoning that was dropped", "chat", "/chat/completions", `{"model":"deepseek-v4-pro","messages":[` + user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"call_x_thought40","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_x_thought40","content":"x"}]}`, "reasoning_content"},
		{"reasoning that was altered", "chat", "/chat/completions", `{"model":"deepseek-v4-pro","messages":[` + user + `,{"role":"assistant","content":null,"reasoning_content":"ah","tool_calls":[{"id":"call_x_thought40","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_x_thought40","content":"x"}]}`, "reasoning_content"},
		{"results in another order", "chat", "", `{"model":"m","messages":[` + user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"b","content":"x"},{"role":"tool","tool_call_id":"a","content":"x"}]}`, "order"},
		{"an image in a result", "chat", "", `{"model":"m","messages":[` + user + `,{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, "content type"},
		{"a schema of another vendor", "chat", "/chat/completions", `{"model":"deepseek-v4-pro","response_format":{"type":"json_schema"},"messages":[` + user + `]}`, "unavailable"},
		{"JSON that nobody mentions", "chat", "/chat/completions", `{"model":"deepseek-v4-pro","response_format":{"type":"json_object"},"messages":[` + user + `]}`, "json"},
		{"a strict schema with a hole", "chat", "", `{"model":"gpt-6-luna","response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object","properties":{}}}},"messages":[` + user + `]}`, "additionalProperties"},
		{"a strict tool with optional members", "responses", "", `{"model":"gpt-6-luna","tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{}},"additionalProperties":false}}],"input":"x"}`, "Missing 'a'"},
		{"a choice of an unknown tool", "responses", "", `{"model":"gpt-6-luna","tools":[{"type":"function","name":"f","parameters":{}}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"}]},"input":"x"}`, "not found"},
		{"a long id of a call", "responses", "", `{"model":"gpt-6-luna","input":[{"type":"function_call","call_id":"` + strings.Repeat("x", 65) + `","name":"f","arguments":"{}"}]}`, "too long"},
		{"reasoning of somebody else", "responses", "", `{"model":"gpt-6-luna","input":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"other"},{"role":"user","content":"x"}]}`, "could not be verified"},
		{"a forced call of a newer model", "messages", "", `{"model":"claude-opus-5-5","max_tokens":9,"tools":[` + messagesTool + `],"tool_choice":{"type":"any"},"messages":[` + user + `]}`, "not supported for this model"},
		{"calls without tools", "messages", "", `{"model":"m","max_tokens":9,"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}]}`, "must define tools"},
		{"an id with a colon", "messages", "", `{"model":"m","max_tokens":9,"tools":[` + messagesTool + `],"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"f:0","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"f:0","content":"x"}]}]}`, "should match pattern"},
		{"the same id twice", "messages", "", `{"model":"m","max_tokens":9,"tools":[` + messagesTool + `],"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}]}`, "must be unique"},
		{"a signature of somebody else", "messages", "", `{"model":"claude-opus-5-5","max_tokens":9,"messages":[` + user + `,{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"x"},{"type":"text","text":"y"}]},` + user + `]}`, "Invalid `signature`"},
		{"the order to drop without its header", "messages", "", `{"model":"claude-opus-5-5","max_tokens":9,"thinking":{"type":"adaptive","block_binding":{"prefix_mismatch_behavior":"drop_block"}},"messages":[` + user + `]}`, "block_binding"},
		{"lengths in a strict tool", "messages", "", `{"model":"m","max_tokens":9,"tools":[{"name":"f","strict":true,"input_schema":{"type":"object","properties":{"a":{"type":"string","maxLength":3}},"additionalProperties":false}}],"messages":[` + user + `]}`, "maxLength"},
		{"a choice at the root of a schema", "messages", "", `{"model":"m","max_tokens":9,"tools":[{"name":"f","input_schema":{"type":"object","anyOf":[{}]}}],"messages":[` + user + `]}`, "top level"},
		{"a keyword that is unknown", "gemini", "", `{"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"object","$schema":"x"}}]}],"contents":[{"role":"user","parts":[{"text":"x"}]}]}`, "$schema"},
		{"names without the mode for them", "gemini", "", `{"tools":[{"functionDeclarations":[{"name":"f"}]}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO","allowedFunctionNames":["f"]}},"contents":[{"role":"user","parts":[{"text":"x"}]}]}`, "allowed_function_names"},
		{"a call without its signature", "gemini", "", `{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`, "thought_signature"},
		{"an answer to nothing", "chat", "", `{"model":"m","messages":[{"role":"tool","tool_call_id":"x","content":"x"}]}`, "role 'tool'"},
	}
	s := Start(t)
	for _, tt := range tests {
		t.Run(tt.wire+" "+tt.name, func(t *testing.T) {
			w := simple[tt.wire]
			if tt.path == "" {
				tt.path = w.path
			}
			if status, text := post(t, s, tt.path, w.auth, Key, tt.body); status != 400 || !strings.Contains(text, tt.want) {
				t.Errorf("got %d %s", status, text)
			}
		})
	}
	for name, w := range simple {
		want := 401
		if name == "gemini" {
			want = 400
		}
		if status, text := post(t, s, w.path, w.auth, "wrong", fmt.Sprintf(w.body, "hi")); status != want {
			t.Errorf("%s answers a wrong key with %d %s", name, status, text)
		}
	}
}

func TestParseOrders(t *testing.T) {
	t.Parallel()
	o := ParseOrders("mark: a\nfault: reset after 3\nflaky: 2\nretry-after: 1\nfail: 500\ncached: 7\nsay: fault: hang\nflaky: 9")
	if o.Fault != FaultReset || o.FaultAfter != 3 || o.Flaky != 2 || o.RetryAfter != "1" || o.Fail != 500 || o.Cached != 7 || o.Say != "fault: hang\nflaky: 9" {
		t.Errorf("got %+v", o)
	}
	if again := o.attempt(3); again.Fault != "" || again.Fail != 0 {
		t.Errorf("the third attempt still fails: %+v", again)
	}
	if o := ParseOrders("flaky: 1").attempt(1); o.Fail != 529 {
		t.Errorf("flaky alone does not fail: %+v", o)
	}
	if o := ParseOrders("what is a fault: nobody knows"); o.Rest == "" || o.Fault != "" {
		t.Errorf("a sentence was taken for an order: %+v", o)
	}
}

func TestNullVendorServesAtOnce(t *testing.T) {
	t.Parallel()
	s := Start(t, Options{Null: 50})
	for name, w := range simple {
		if status, text := post(t, s, w.path, w.auth, "any", "{}"); status != 200 || strings.Count(text, " word") < 50 {
			t.Errorf("%s: %d %d", name, status, strings.Count(text, " word"))
		}
	}
}
