package responses

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
)

func TestRequestsOfRealClientsAreRead(t *testing.T) {
	t.Parallel()
	user := func(text string) stoa.Message { return stoa.TextMessage(stoa.RoleUser, text) }
	for name, c := range map[string]struct {
		body string
		want stoa.Call
	}{
		"a plain text": {
			`{"model":"auto","input":"hi"}`,
			stoa.Call{Messages: []stoa.Message{user("hi")}},
		},
		"typed parts, joined as they are": {
			`{"model":"auto","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b "},{"text":"c","type":"text"}]}]}`,
			stoa.Call{Messages: []stoa.Message{user("ab c")}},
		},
		"an echoed reply with nulls, and its reasoning": {
			`{"model":"auto","input":[{"role":"user","content":"q"},
			  {"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":null},
			  {"id":null,"status":null,"type":"message","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"a","annotations":[],"logprobs":[],"parsed":null}]},
			  {"role":"user","content":"q2"}]}`,
			stoa.Call{Messages: []stoa.Message{user("q"), stoa.TextMessage(stoa.RoleAssistant, "a"), user("q2")}},
		},
		"members of an item in any order": {
			`{"input":[{"content":[{"text":"t","type":"output_text"}],"role":"assistant","type":"message"},{"content":"u","role":"user"}],"model":"m"}`,
			stoa.Call{Messages: []stoa.Message{stoa.TextMessage(stoa.RoleAssistant, "t"), user("u")}},
		},
		"system and developer texts, a refusal, an empty turn": {
			`{"model":"m","instructions":"be","input":[{"role":"developer","content":"d"},{"role":"system","content":"s"},{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},{"role":"assistant","content":""},{"role":"user","content":[]}]}`,
			stoa.Call{Instructions: "be", Messages: []stoa.Message{
				stoa.TextMessage(stoa.RoleSystem, "d"), stoa.TextMessage(stoa.RoleSystem, "s"), stoa.TextMessage(stoa.RoleAssistant, "no"), stoa.TextMessage(stoa.RoleAssistant, ""), {Role: stoa.RoleUser},
			}},
		},
		"everything LlamaIndex sends": {
			`{"model":"m","input":"hi","reasoning":{},"include":null,"instructions":"","previous_response_id":null,"store":false,"metadata":{},"top_p":1,"truncation":null,"user":""}`,
			stoa.Call{Messages: []stoa.Message{user("hi")}, TopP: new(1.0)},
		},
		"everything Codex sends but its tools": {
			`{"model":"m","input":"hi","tools":[],"tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"summary":"auto","effort":"xhigh","context":{}},"store":false,"stream":true,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","client_metadata":{"a":[1,{}]},"text":{"verbosity":"low"}}`,
			stoa.Call{Messages: []stoa.Message{user("hi")}, Effort: "xhigh", Verbosity: "low"},
		},
		"every optional member null": {
			`{"model":"m","input":"hi","instructions":null,"stream":null,"stream_options":null,"store":null,"conversation":null,"prompt":null,"background":null,"tools":null,"tool_choice":null,"parallel_tool_calls":null,"max_tool_calls":null,"max_output_tokens":null,"temperature":null,"top_p":null,"presence_penalty":null,"frequency_penalty":null,"top_logprobs":null,"metadata":null,"text":null,"reasoning":null,"service_tier":null,"user":null,"safety_identifier":null,"prompt_cache_key":null}`,
			stoa.Call{Messages: []stoa.Message{user("hi")}},
		},
		"settings": {
			`{"model":"m","input":"hi","max_output_tokens":1,"temperature":0,"top_p":0.5,"text":{"format":{"type":"text"},"verbosity":null},"reasoning":{"effort":null}}`,
			stoa.Call{Messages: []stoa.Message{user("hi")}, MaxOutputTokens: 1, Temperature: new(0.0), TopP: new(0.5)},
		},
		"text that looks like a stream": {
			`{"model":"m","input":"data: x\r\n\r\nevent: y\u2028\ud83d\ude42"}`,
			stoa.Call{Messages: []stoa.Message{user("data: x\r\n\r\nevent: y\u2028🙂")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := Parse([]byte(c.body), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, req.call); diff != "" {
				t.Errorf("the call differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsNameTheRefusedMember(t *testing.T) {
	t.Parallel()
	with := func(member string) string { return `{"model":"m","input":"hi",` + member + `}` }
	item := func(item string) string { return `{"model":"m","input":[{"role":"user","content":"a"},` + item + `]}` }
	for _, c := range []struct {
		body  string
		code  stoa.Code
		param string
	}{
		{``, stoa.CodeInvalidJSON, ""},
		{`null`, stoa.CodeInvalidJSON, ""},
		{`[]`, stoa.CodeInvalidJSON, ""},
		{`"x"`, stoa.CodeInvalidJSON, ""},
		{`{"model":`, stoa.CodeInvalidJSON, ""},
		{`{"model":"m","input":"hi"}x`, stoa.CodeInvalidJSON, ""},
		{`{"model":"m","input":"hi"}{}`, stoa.CodeInvalidJSON, ""},
		{`{"model":"m","model":"m","input":"hi"}`, stoa.CodeInvalidJSON, ""},
		{"{\"model\":\"m\",\"input\":\"\xff\"}", stoa.CodeInvalidJSON, ""},
		{`{"model":"m","input":["a",]}`, stoa.CodeInvalidType, "input[0]"},
		{`{"model":"m","input":[{"role":"user","content":"a"},]}`, stoa.CodeInvalidJSON, ""},
		{`{"input":"hi"}`, stoa.CodeMissingParameter, "model"},
		{`{"model":null,"input":"hi"}`, stoa.CodeMissingParameter, "model"},
		{`{"model":"","input":"hi"}`, stoa.CodeInvalidValue, "model"},
		{`{"model":1,"input":"hi"}`, stoa.CodeInvalidType, "model"},
		{`{"model":"m"}`, stoa.CodeMissingParameter, "input"},
		{`{"model":"m","input":null}`, stoa.CodeMissingParameter, "input"},
		{`{"model":"m","input":""}`, stoa.CodeInvalidValue, "input"},
		{`{"model":"m","input":[]}`, stoa.CodeInvalidValue, "input"},
		{`{"model":"m","input":{}}`, stoa.CodeInvalidType, "input"},
		{`{"model":"m","input":[{"type":"reasoning"}]}`, stoa.CodeInvalidValue, "input"},
		{with(`"stream":"yes"`), stoa.CodeInvalidType, "stream"},
		{with(`"stream":1`), stoa.CodeInvalidType, "stream"},
		{with(`"stream_options":true`), stoa.CodeInvalidType, "stream_options"},
		{with(`"store":"no"`), stoa.CodeInvalidType, "store"},
		{with(`"background":true`), stoa.CodeUnsupported, "background"},
		{with(`"previous_response_id":"resp_1"`), stoa.CodeUnsupported, "previous_response_id"},
		{with(`"conversation":{"id":"c"}`), stoa.CodeUnsupported, "conversation"},
		{with(`"prompt":{"id":"p"}`), stoa.CodeUnsupported, "prompt"},
		{with(`"tools":[{"type":"function"}]`), stoa.CodeUnsupported, "tools"},
		{with(`"tools":{}`), stoa.CodeInvalidType, "tools"},
		{with(`"tool_choice":"required"`), stoa.CodeUnsupportedValue, "tool_choice"},
		{with(`"tool_choice":{"type":"function","name":"f"}`), stoa.CodeUnsupported, "tool_choice"},
		{with(`"max_output_tokens":0`), stoa.CodeInvalidValue, "max_output_tokens"},
		{with(`"max_output_tokens":-5`), stoa.CodeInvalidValue, "max_output_tokens"},
		{with(`"max_output_tokens":1.5`), stoa.CodeInvalidType, "max_output_tokens"},
		{with(`"max_output_tokens":"10"`), stoa.CodeInvalidType, "max_output_tokens"},
		{with(`"max_output_tokens":99999999999999999999`), stoa.CodeInvalidValue, "max_output_tokens"},
		{with(`"temperature":2.1`), stoa.CodeInvalidValue, "temperature"},
		{with(`"temperature":-0.1`), stoa.CodeInvalidValue, "temperature"},
		{with(`"temperature":1e999`), stoa.CodeInvalidValue, "temperature"},
		{with(`"temperature":"hot"`), stoa.CodeInvalidType, "temperature"},
		{with(`"top_p":1.01`), stoa.CodeInvalidValue, "top_p"},
		{with(`"presence_penalty":3`), stoa.CodeInvalidValue, "presence_penalty"},
		{with(`"top_logprobs":1`), stoa.CodeUnsupported, "top_logprobs"},
		{with(`"metadata":[]`), stoa.CodeInvalidType, "metadata"},
		{with(`"metadata":{"a":1}`), stoa.CodeInvalidType, "metadata.a"},
		{with(`"metadata":{"` + strings.Repeat("k", 65) + `":"v"}`), stoa.CodeInvalidValue, "metadata"},
		{with(`"metadata":{"k":"` + strings.Repeat("v", 513) + `"}`), stoa.CodeInvalidValue, "metadata.k"},
		{with(`"text":{"format":{"type":"json_object"}}`), stoa.CodeUnsupportedValue, "text.format.type"},
		{with(`"text":{"format":{"type":"json_schema","schema":{}}}`), stoa.CodeUnsupportedValue, "text.format.type"},
		{with(`"text":{"verbosity":"loud"}`), stoa.CodeInvalidValue, "text.verbosity"},
		{with(`"truncation":"middle"`), stoa.CodeInvalidValue, "truncation"},
		{with(`"reasoning":"high"`), stoa.CodeInvalidType, "reasoning"},
		{with(`"reasoning":{"effort":"huge"}`), stoa.CodeInvalidValue, "reasoning.effort"},
		{with(`"include":"x"`), stoa.CodeInvalidType, "include"},
		{with(`"include":[1]`), stoa.CodeInvalidType, "include[0]"},
		{with(`"user":5`), stoa.CodeInvalidType, "user"},
		{`{"model":"` + strings.Repeat("m", 129) + `","input":"hi"}`, stoa.CodeInvalidValue, "model"},
		{`{"model":"m\u0000","input":"hi"}`, stoa.CodeInvalidValue, "model"},
		{`{"model":"m","input":"a\u0000"}`, stoa.CodeInvalidValue, "input"},
		{with(`"instructions":"\u0000"`), stoa.CodeInvalidValue, "instructions"},
		{with(`"user":"\u0000"`), stoa.CodeInvalidValue, "user"},
		{with(`"user":"` + strings.Repeat("é", 513) + `"`), stoa.CodeInvalidValue, "user"},
		{with(`"safety_identifier":"` + strings.Repeat("x", 513) + `"`), stoa.CodeInvalidValue, "safety_identifier"},
		{with(`"prompt_cache_key":"` + strings.Repeat("x", 513) + `"`), stoa.CodeInvalidValue, "prompt_cache_key"},
		{with(`"service_tier":"` + strings.Repeat("x", 513) + `"`), stoa.CodeInvalidValue, "service_tier"},
		{with(`"include":["` + strings.Repeat("x", 513) + `"]`), stoa.CodeInvalidValue, "include[0]"},
		{with(`"include":["x"` + strings.Repeat(`,"x"`, 64) + `]`), stoa.CodeInvalidValue, "include"},
		{with(`"max_tool_calls":2147483648`), stoa.CodeInvalidValue, "max_tool_calls"},
		{with(`"metadata":{"a\u0000":"b"}`), stoa.CodeInvalidValue, "metadata"},
		{with(`"metadata":{"a":"\u0000"}`), stoa.CodeInvalidValue, "metadata.a"},
		{with(`"stream_options":{` + members(1001) + `}`), stoa.CodeInvalidValue, "stream_options"},
		{`{"model":"m","input":"hi",` + members(1000) + `}`, stoa.CodeInvalidValue, ""},
		{`{"model":"m","input":[{"role":"user","content":"a"}` + strings.Repeat(`,{"role":"user","content":"a"}`, 10_000) + `]}`, stoa.CodeInvalidValue, "input"},
		{item(`{"role":"user","content":"\u0000"}`), stoa.CodeInvalidValue, "input[1].content"},
		{item(`{"role":"user","content":[{"type":"input_text","text":"\u0000"}]}`), stoa.CodeInvalidValue, "input[1].content[0].text"},
		{item(`{"role":"user","content":[` + strings.Repeat(`{"type":"input_text","text":"x"},`, 10_000) + `{"type":"input_text","text":"x"}]}`), stoa.CodeInvalidValue, "input[1].content"},
		{item(`"text"`), stoa.CodeInvalidType, "input[1]"},
		{item(`{"content":"x"}`), stoa.CodeMissingParameter, "input[1].role"},
		{item(`{"role":"tool","content":"x"}`), stoa.CodeInvalidValue, "input[1].role"},
		{item(`{"role":"user"}`), stoa.CodeMissingParameter, "input[1].content"},
		{item(`{"role":"user","content":null}`), stoa.CodeMissingParameter, "input[1].content"},
		{item(`{"role":"user","content":7}`), stoa.CodeInvalidType, "input[1].content"},
		{item(`{"role":"user","content":["x"]}`), stoa.CodeInvalidType, "input[1].content[0]"},
		{item(`{"role":"user","content":[{"text":"x"}]}`), stoa.CodeMissingParameter, "input[1].content[0].type"},
		{item(`{"role":"user","content":[{"type":"input_text"}]}`), stoa.CodeMissingParameter, "input[1].content[0].text"},
		{item(`{"role":"user","content":[{"type":"input_text","text":3}]}`), stoa.CodeInvalidType, "input[1].content[0].text"},
		{item(`{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"u"}]}`), stoa.CodeUnsupportedValue, "input[1].content[1].type"},
		{item(`{"role":"user","content":[{"type":"input_file","file_id":"f"}]}`), stoa.CodeUnsupportedValue, "input[1].content[0].type"},
		{item(`{"type":"item_reference","id":"msg_1"}`), stoa.CodeUnsupportedValue, "input[1]"},
		{item(`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`), stoa.CodeUnsupportedValue, "input[1].type"},
		{item(`{"type":"function_call_output","call_id":"c","output":[{"type":"input_image"}]}`), stoa.CodeUnsupportedValue, "input[1].type"},
		{item(`{"type":"computer_call","content":[{"type":"input_image"}]}`), stoa.CodeUnsupportedValue, "input[1].type"},
	} {
		_, err := Parse([]byte(c.body), Options{})
		if err == nil {
			t.Errorf("%s is accepted", c.body)
			continue
		}
		e := stoa.AsError(err)
		if e.Code != c.code || e.Param != c.param || e.Message == "" {
			t.Errorf("%.120s\n got %s at %q: %s\nwant %s at %q", c.body, e.Code, e.Param, e.Message, c.code, c.param)
		}
	}
}

// members returns n members of a JSON object.
func members(n int) string {
	var b []byte
	for i := range n {
		b = fmt.Appendf(b, `"x%d":0,`, i)
	}
	return strings.TrimSuffix(string(b), ",")
}

func TestLimitsAreInclusive(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"model":"` + strings.Repeat("é", 128) + `","input":"hi","user":"` + strings.Repeat("é", 512) + `","include":["x"` + strings.Repeat(`,"x"`, 63) + `]}`,
		`{"model":"m","input":"hi",` + members(998) + `}`,
		`{"model":"m","max_output_tokens":2147483647,"input":[{"role":"user","content":"a"}` + strings.Repeat(`,{"role":"user","content":"a"}`, 9_999) + `]}`,
	} {
		if _, err := Parse([]byte(body), Options{}); err != nil {
			t.Errorf("%.60s: %v", body, err)
		}
	}
}

func TestMetadataHasItsLimits(t *testing.T) {
	t.Parallel()
	pairs := func(n int) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(`"k` + strings.Repeat("é", i) + `":"` + strings.Repeat("日", 512) + `"`)
		}
		return `{"model":"m","input":"hi","metadata":{` + b.String() + `}}`
	}
	if _, err := Parse([]byte(pairs(16)), Options{}); err != nil {
		t.Errorf("16 pairs are refused: %v", err)
	}
	if _, err := Parse([]byte(pairs(17)), Options{}); stoa.AsError(err).Param != "metadata" {
		t.Errorf("17 pairs: %v", err)
	}
}

func FuzzParseResponses(f *testing.F) {
	f.Add([]byte(`{"model":"auto","input":[{"role":"user","content":[{"type":"input_text","text":"a"}]}],"metadata":{"a":"b"},"reasoning":{"effort":"low"},"text":{"format":{"type":"text"}}}`))
	f.Add([]byte(`{"model":1e3,"input":[[]]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := Parse(body, Options{})
		if err != nil {
			if e := stoa.AsError(err); e.Code == stoa.CodeInternal {
				t.Fatalf("%q: a caller's mistake is called ours: %v", body, err)
			}
			return
		}
		if req.Model == "" || len(req.call.Messages) == 0 {
			t.Fatalf("%q is accepted without a model or a message", body)
		}
	})
}

func BenchmarkParseResponses(b *testing.B) {
	body := []byte(`{"model":"alpha-haiku-4-5","input":[{"role":"user","content":[{"type":"input_text","text":"` + strings.Repeat("word ", 200) + `"}]}],"stream":true,"store":false,"instructions":"Be brief.","max_output_tokens":300}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(body, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// An overlong name is refused without reading to its end: the body does not even contain the
// end.
func TestALongNameIsRefusedUnread(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"model", "user", "safety_identifier", "prompt_cache_key", "service_tier"} {
		for _, text := range []string{"u", `\"`, `\u00e9`, "é"} {
			_, err := Parse([]byte(`{"input":"hi","`+name+`" : "`+strings.Repeat(text, 7000)), Options{})
			if e := stoa.AsError(err); e.Code != stoa.CodeInvalidValue || e.Param != name {
				t.Errorf("%s of %q: %v", name, text, err)
			}
		}
	}
	// Every form is read up to the limit.
	for _, text := range []string{"u", "é", "🙂", `\"`, `\u00e9`, `\ud83d\ude42`} {
		req, err := Parse([]byte(`{"model":"m","user":"`+strings.Repeat(text, maxLabel)+`","input":"`+strings.Repeat("x", 10_000)+`"}`), Options{})
		if err != nil {
			t.Errorf("%d times %q: %v", maxLabel, text, err)
		} else if got := utf8.RuneCountInString(*req.echo.user); got != maxLabel {
			t.Errorf("%d times %q was read as %d characters", maxLabel, text, got)
		}
		_, err = Parse([]byte(`{"model":"m","user":"`+strings.Repeat(text, maxLabel+1)+`","input":"`+strings.Repeat("x", 10_000)+`"}`), Options{})
		if e := stoa.AsError(err); e.Code != stoa.CodeInvalidValue || e.Param != "user" {
			t.Errorf("%d times %q: %v", maxLabel+1, text, err)
		}
	}
}
