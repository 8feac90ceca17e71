package responses

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/jsonx"
	"stoa/internal/base/media"
	"stoa/internal/base/stoa"
)

// otherOptions enable everything that a request of another format can have.
var otherOptions = Options{
	Tools: true, Formats: true, Images: true, Files: true, Documents: true, ForeignTools: true, ImageURL: media.Pass, FileURL: media.Pass,
	Open: func(sealed string) (stoa.State, bool) { return stoa.State{Wire: "messages", Data: sealed}, true },
}

// readsLike compares the request that body becomes with the one of want, which is in the Responses
// format and may have stop and top_k. A request that is refused must be refused alike.
func readsLike(t *testing.T, parse func([]byte, Options) (*Request, error), body, want string) {
	t.Helper()
	o := otherOptions
	o.translated = true
	expected, refused := Parse([]byte(strings.Replace(want, `"input":[]`, `"input":[{"role":"user","content":"q"}]`, 1)), o)
	body = strings.Replace(body, `"messages":[]`, `"messages":[{"role":"user","content":"q"}]`, 1)
	got, err := parse([]byte(strings.Replace(body, `"contents":[]`, `"contents":[{"parts":[{"text":"q"}]}]`, 1)), otherOptions)
	if (err == nil) != (refused == nil) {
		t.Fatalf("got %v, want %v", err, refused)
	}
	if err != nil {
		if a, b := stoa.AsError(err), stoa.AsError(refused); a.Code != b.Code || a.Message != b.Message {
			t.Fatalf("got %v, want %v", err, refused)
		}
		return
	}
	if got.Model != expected.Model || got.Stream != expected.Stream || got.Strict != expected.Strict {
		t.Errorf("got model %q, stream %v, strict %v; want %q, %v, %v", got.Model, got.Stream, got.Strict, expected.Model, expected.Stream, expected.Strict)
	}
	if got.adjusted != expected.adjusted || got.unread != expected.unread {
		t.Errorf("%v and %d unread, want %v and %d", got.adjusted.Names(), got.unread, expected.adjusted.Names(), expected.unread)
	}
	if len(got.media) != len(expected.media) {
		t.Errorf("%d images and files, want %d", len(got.media), len(expected.media))
	}
	if diff := cmp.Diff(expected.call, got.call); diff != "" {
		t.Errorf("the call (-want +got):\n%s", diff)
	}
	unexported := cmp.AllowUnexported(echo{}, echoTool{}, wanted{})
	if diff := cmp.Diff(expected.echo, got.echo, unexported); diff != "" {
		t.Errorf("what the reply repeats (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(expected.wanted, got.wanted, unexported); diff != "" {
		t.Errorf("what the reply needs (-want +got):\n%s", diff)
	}
}

func TestAChatRequestIsRead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, body, want string }{
		{
			"a question", `{"model":"auto","messages":[{"role":"user","content":"Hi"}]}`,
			`{"model":"auto","input":[{"type":"message","role":"user","content":"Hi"}]}`,
		},
		{
			"settings", `{"model":"auto","temperature":0.5,"top_p":1,"stream":true,"max_tokens":9,"reasoning_effort":"low","verbosity":"high","user":"u","metadata":{"a":"b"},"n":1,"stop":"x","logit_bias":{ },"logprobs":false,"modalities":["text"],"seed":7,"strict_model":true,"messages":[]}`,
			`{"model":"auto","temperature":0.5,"top_p":1,"stream":true,"metadata":{"a":"b"},"user":"u","strict_model":true,"max_output_tokens":9,"text":{"verbosity":"high"},"reasoning":{"effort":"low"},"stop":["x"],"input":[]}`,
		},
		{
			"the newer limit", `{"model":"a","max_tokens":9,"max_completion_tokens":8,"messages":[]}`,
			`{"model":"a","max_output_tokens":8,"input":[]}`,
		},
		{
			"null is absent", `{"model":"a","max_tokens":null,"stop":null,"tools":null,"tool_choice":null,"response_format":null,"stream_options":null,"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}]}`,
			`{"model":"a","input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]}`,
		},
		{
			"tools of other kinds", `{"model":"a","tools":[{"type":"custom","custom":{"name":"n","description":"d","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"x"}}}},{"type":"x","x":[]}],"tool_choice":{"type":"custom","custom":{"name":"n"}},"messages":[]}`,
			`{"model":"a","tools":[{"type":"custom","name":"n","description":"d","format":{"type":"grammar","syntax":"lark","definition":"x"}},{"type":"x"}],"tool_choice":{"type":"custom","name":"n"},"input":[]}`,
		},
		{
			"tools", `{"model":"a","tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"z":1,"a":2},"strict":true}},{"type":"custom","custom":{"name":"p"}}],"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false,"messages":[]}`,
			`{"model":"a","parallel_tool_calls":false,"tools":[{"type":"function","name":"f","description":"d","parameters":{"z":1,"a":2},"strict":true},{"type":"custom","name":"p"}],"tool_choice":{"type":"function","name":"f"},"input":[]}`,
		},
		{
			"allowed tools", `{"model":"a","tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}},"messages":[]}`,
			`{"model":"a","tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]},"input":[]}`,
		},
		{
			"a schema", `{"model":"a","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}},"messages":[]}`,
			`{"model":"a","text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}},"input":[]}`,
		},
		{
			"parts", `{"model":"a","messages":[{"role":"user","content":[{"type":"text","text":"See"},{"type":"image_url","image_url":{"url":"https://a.b/c.png","detail":"low"}},{"type":"file","file":{"filename":"f.pdf","file_data":"data:application/pdf;base64,JVBERi0="}}]}]}`,
			`{"model":"a","input":[{"type":"message","role":"user","content":[{"type":"text","text":"See"},{"type":"input_image","image_url":"https://a.b/c.png","detail":"low"},{"type":"input_file","file_data":"data:application/pdf;base64,JVBERi0=","filename":"f.pdf"}]}]}`,
		},
		{
			"a tool loop", `{"model":"a","messages":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"x","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}],"reasoning_details":[{"type":"reasoning.encrypted","format":"stoa","data":"stoa1.AA","id":"c1"},{"data":"stoa1.BB","id":"c2"},{"data":"other"},"x"]},{"role":"tool","tool_call_id":"c1","content":"1"},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"2"}]}]}`,
			`{"model":"a","input":[{"type":"message","role":"system","content":"s"},{"type":"message","role":"user","content":"u"},{"type":"reasoning","summary":[],"encrypted_content":"stoa1.AA"},{"type":"message","role":"assistant","content":"x"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"reasoning","summary":[],"encrypted_content":"stoa1.BB"},{"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"1"},{"type":"function_call_output","call_id":"c2","output":[{"type":"text","text":"2"}]}]}`,
		},
		{
			"state at the calls", `{"model":"a","messages":[{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"stoa1.AA stoa1.BB"}}},{"id":"c2","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"foreign"}}}]},{"role":"tool","tool_call_id":"c1","content":"1"},{"role":"tool","tool_call_id":"c2","content":"2"}]}`,
			`{"model":"a","input":[{"type":"reasoning","summary":[],"encrypted_content":"stoa1.AA"},{"type":"reasoning","summary":[],"encrypted_content":"stoa1.BB"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"1"},{"type":"function_call_output","call_id":"c2","output":"2"}]}`,
		},
		{
			"a call of a custom tool", `{"model":"a","messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"custom","custom":{"name":"p","input":"x"}}]},{"role":"tool","tool_call_id":"1","content":"y"}]}`,
			`{"model":"a","input":[{"type":"custom_tool_call","call_id":"1","name":"p","input":"x"},{"type":"function_call_output","call_id":"1","output":"y"}]}`,
		},
		{
			"a refusal", `{"model":"a","messages":[{"role":"assistant","content":null,"refusal":"No."}]}`,
			`{"model":"a","input":[{"type":"message","role":"assistant","content":"No."}]}`,
		},
		{
			"a reply without text", `{"model":"a","messages":[{"role":"assistant","content":null,"tool_calls":[]}]}`,
			`{"model":"a","input":[{"type":"message","role":"assistant","content":""}]}`,
		},
		{
			"a part that no format has", `{"model":"a","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{}}]}]}`,
			`{"model":"a","input":[{"type":"message","role":"user","content":[{"type":"input_audio","input_audio":{}}]}]}`,
		},
		{"no JSON object", `[1]`, `[1]`},
		{"no JSON", `{"a":`, `{"a":`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			readsLike(t, ParseChat, tc.body, tc.want)
		})
	}
	got, err := ParseChat([]byte(`{"model":"a","stream_options":{"include_usage":true},"messages":[{"role":"user","content":"q"}]}`), otherOptions)
	if err != nil || !got.format.(*chatMaker).usage {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAMessagesRequestIsRead(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, body, want string }{
		{
			"a question", `{"model":"auto","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`,
			`{"model":"auto","max_output_tokens":9,"input":[{"type":"message","role":"user","content":"Hi"}]}`,
		},
		{
			"settings", `{"model":"a","max_tokens":9,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}},{"type":"text","text":"t"}],"temperature":1,"top_p":0.5,"metadata":{"user_id":"u"},"stream":true,"top_k":3,"stop_sequences":["x","y"],"mcp_servers":[],"service_tier":"auto","context_management":{"edits":[]},"messages":[]}`,
			`{"model":"a","temperature":1,"top_p":0.5,"top_k":3,"stream":true,"context_management":{"edits":[]},"stop":["x","y"],"max_output_tokens":9,"user":"u","input":[{"type":"message","role":"system","content":[{"type":"input_text","text":"s","cache_control":{"type":"ephemeral"}},{"type":"input_text","text":"t"}]},{"role":"user","content":"q"}]}`,
		},
		{
			"tools", `{"model":"a","max_tokens":9,"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"strict":true,"cache_control":{}},{"type":"custom","name":"g"},{"type":"bash_20250124","name":"bash"}],"tool_choice":{"type":"any","disable_parallel_tool_use":true},"messages":[]}`,
			`{"model":"a","max_output_tokens":9,"tools":[{"type":"function","name":"f","description":"d","strict":true,"cache_control":{},"parameters":{"type":"object"}},{"type":"function","name":"g"},{"type":"bash_20250124","name":"bash"}],"tool_choice":"required","parallel_tool_calls":false,"input":[]}`,
		},
		{
			"servers of the vendor", `{"model":"a","max_tokens":9,"mcp_servers":[{"type":"url","url":"https://x","name":"docs"},{}],"container":"c","tools":[{"name":"f"}],"messages":[]}`,
			`{"model":"a","max_output_tokens":9,"tools":[{"type":"function","name":"f"},{"type":"mcp_servers","name":"docs"},{"type":"mcp_servers"},{"type":"container"}],"input":[]}`,
		},
		{
			"tools that the vendor has run", `{"model":"a","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"mcp_tool_use"},{"type":"mcp_tool_result"},{"type":"text","text":"y"}]}]}`,
			`{"model":"a","max_output_tokens":9,"input":[{"type":"message","role":"assistant","content":[{"type":"input_text","text":"x"}]},{"type":"server_tool_use"},{"type":"web_search_tool_result"},{"type":"mcp_tool_use"},{"type":"mcp_tool_result"},{"type":"message","role":"assistant","content":[{"type":"input_text","text":"y"}]}]}`,
		},
		{
			"one tool", `{"model":"a","max_tokens":9,"tools":[{"name":"f"}],"tool_choice":{"type":"tool","name":"f"},"messages":[]}`,
			`{"model":"a","max_output_tokens":9,"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f"},"input":[]}`,
		},
		{
			"thinking off", `{"model":"a","max_tokens":9,"thinking":{"type":"disabled"},"output_config":{"effort":"high"},"messages":[]}`,
			`{"model":"a","max_output_tokens":9,"reasoning":{"effort":"none"},"input":[]}`,
		},
		{
			"a budget", `{"model":"a","max_tokens":9,"thinking":{"type":"enabled","budget_tokens":16383},"messages":[]}`,
			`{"model":"a","max_output_tokens":9,"reasoning":{"effort":"medium"},"input":[]}`,
		},
		{
			"effort and summary", `{"model":"a","max_tokens":9,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"high","format":{"type":"json_schema","schema":{"type":"object"}}},"messages":[]}`,
			`{"model":"a","max_output_tokens":9,"reasoning":{"effort":"high","summary":"auto"},"text":{"format":{"name":"reply","strict":true,"type":"json_schema","schema":{"type":"object"}}},"input":[]}`,
		},
		{
			"a tool loop", `{"model":"a","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"stoa1.AA"},{"type":"text","text":"x"},{"type":"text","text":"y"},{"type":"tool_use","id":"c1","name":"f","input":{"b": 1, "a":[ 2 ]}},{"type":"thinking","thinking":"","signature":"foreign"},{"type":"redacted_thinking","data":"stoa1.BB"},{"type":"tool_use","id":"c2","name":"g"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"1","is_error":true},{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"2"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}}]},{"type":"text","text":"go on"}]}]}`,
			`{"model":"a","max_output_tokens":9,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"u"}]},{"type":"reasoning","summary":[],"encrypted_content":"stoa1.AA"},{"type":"message","role":"assistant","content":[{"type":"input_text","text":"x"},{"type":"input_text","text":"y"}]},{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"b\":1,\"a\":[2]}"},{"type":"reasoning","summary":[],"encrypted_content":"stoa1.BB"},{"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},{"type":"function_call_output","call_id":"c1","is_error":true,"output":"1"},{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"2"},{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}]},{"type":"message","role":"user","content":[{"type":"input_text","text":"go on"}]}]}`,
		},
		{
			"documents", `{"model":"a","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"ü"},"citations":{"enabled":false}},{"type":"document","source":{"type":"url","url":"https://a.b/c.pdf"}},{"type":"search_result","title":"T","source":"https://a.b","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"cache_control":{"type":"ephemeral"}}]}]}`,
			`{"model":"a","max_output_tokens":9,"input":[{"type":"message","role":"user","content":[{"type":"input_file","filename":"T","file_data":"data:text/plain;base64,w7w="},{"type":"input_file","file_url":"https://a.b/c.pdf"},{"type":"input_text","text":"T\nhttps://a.b\none\ntwo","cache_control":{"type":"ephemeral"}}]}]}`,
		},
		{
			"a tool that was found", `{"model":"a","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"s"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"tool_reference","tool_name":"f"}]}]}]}`,
			`{"model":"a","max_output_tokens":9,"input":[{"type":"function_call","call_id":"c","name":"s","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"The tool \"f\" can be called."}]}]}`,
		},
		{
			"no blocks", `{"model":"a","max_tokens":9,"messages":[{"role":"user","content":[]}]}`,
			`{"model":"a","max_output_tokens":9,"input":[{"type":"message","role":"user","content":""}]}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			readsLike(t, ParseMessages, tc.body, tc.want)
		})
	}
	if _, err := ParseMessagesCount([]byte(`{"model":"a","messages":[{"role":"user","content":"q"}]}`), otherOptions); err != nil {
		t.Errorf("a count needs no limit: %v", err)
	}
}

// TestIgnoredMembersOfOtherFormatsAreListed has members without an effect in every place, next to those that
// clients repeat from replies.
func TestIgnoredMembersOfOtherFormatsAreListed(t *testing.T) {
	t.Parallel()
	chat := `{"model":"a","service_tier":"flex","seed":1,"n":1,"logprobs":false,"max_tokens":1,"max_completion_tokens":2,"absent":null,
		"stream_options":{"include_usage":true,"obfuscate":1},"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"x":1}},
		"tools":[{"type":"function","function":{"name":"f","y":1}},{"type":"custom","custom":{"name":"p","format":{"type":"text","z":1}}},{"type":"web_search","sites":[]}],
		"tool_choice":{"type":"function","function":{"name":"f"},"v":1},
		"messages":[{"role":"user","name":"Ann","content":[{"type":"image_url","image_url":{"url":"https://a.b/c.png","w":1},"q":1}]},
			{"role":"assistant","content":"x","annotations":[],"reasoning_content":"r","tool_calls":[{"id":"1","index":0,"type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{}}]},
			{"role":"tool","name":"f","tool_call_id":"1","content":"y"}]}`
	got, err := ParseChat([]byte(chat), otherOptions)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"service_tier", "stream_options.obfuscate", "tools[0].function.y", "tools[1].custom.format.z", "tool_choice.v", "response_format.json_schema.x",
		"messages[0].content[0].image_url.w", "messages[0].content[0].q", "messages[0].name", "messages[1].reasoning_content", "seed", "max_tokens",
	}
	if diff := cmp.Diff(want, got.ignored.paths); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	messages := `{"model":"a","max_tokens":1,"context_management":{},"service_tier":"standard_only","speed":"fast","metadata":{"user_id":"u","x":1},
		"thinking":{"type":"adaptive","y":1},"output_config":{"effort":"low","task_budget":{}},"system":[{"type":"text","text":"s","z":1}],
		"tools":[{"name":"f","eager_input_streaming":true},{"type":"bash_20250124","name":"bash","max":1}],"tool_choice":{"type":"auto","v":1},
		"messages":[{"role":"user","content":[{"type":"text","text":"t","w":1},{"type":"document","context":"c","source":{"type":"text","data":"d","q":1}}]},
			{"role":"assistant","id":"m","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"t","citations":[]},{"type":"tool_use","id":"1","name":"f","input":{},"caller":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x","u":1}]}]}`
	got, err = ParseMessages([]byte(messages), otherOptions)
	if err != nil {
		t.Fatal(err)
	}
	want = []string{
		"metadata.x", "tools[0].eager_input_streaming", "tool_choice.v", "thinking.y", "output_config.task_budget", "system[0].z",
		"messages[0].content[0].w", "messages[0].content[1].source.q", "messages[0].content[1].context", "messages[2].content[0].u",
		"speed",
	}
	if diff := cmp.Diff(want, got.ignored.paths); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestRefusedMembersAreNamed(t *testing.T) {
	t.Parallel()
	chat := func(b []byte) error { _, err := ParseChat(b, otherOptions); return err }
	messages := func(b []byte) error { _, err := ParseMessages(b, otherOptions); return err }
	for _, tc := range []struct {
		translate   func([]byte) error
		body, param string
		code        stoa.Code
	}{
		{messages, `{"max_tokens":1,"messages":[],"mcp_servers":{}}`, "mcp_servers", stoa.CodeInvalidType},
		{messages, `{"max_tokens":1,"messages":[],"mcp_servers":[1]}`, "mcp_servers[0]", stoa.CodeInvalidType},
		{messages, `{"max_tokens":1,"messages":[],"mcp_servers":[{"name":1}]}`, "mcp_servers[0].name", stoa.CodeInvalidType},
		{chat, `{"messages":[],"n":2}`, "n", stoa.CodeUnsupported},
		{chat, `{"messages":[],"logprobs":true}`, "logprobs", stoa.CodeUnsupported},
		{chat, `{"messages":[],"logit_bias":{"1":2}}`, "logit_bias", stoa.CodeUnsupported},
		{chat, `{"messages":[],"functions":[]}`, "functions", stoa.CodeUnsupported},
		{chat, `{"messages":[],"audio":{}}`, "audio", stoa.CodeUnsupported},
		{chat, `{"messages":[],"modalities":["text","audio"]}`, "modalities[1]", stoa.CodeUnsupportedValue},
		{chat, `{}`, "messages", stoa.CodeMissingParameter},
		{chat, `{"messages":{}}`, "messages", stoa.CodeInvalidType},
		{chat, `{"messages":[1]}`, "messages[0]", stoa.CodeInvalidType},
		{chat, `{"messages":[{"content":"x"}]}`, "messages[0].role", stoa.CodeMissingParameter},
		{chat, `{"messages":[{"role":"wizard","content":"x"}]}`, "messages[0].role", stoa.CodeInvalidValue},
		{chat, `{"messages":[{"role":"function","content":"x"}]}`, "messages[0].role", stoa.CodeUnsupportedValue},
		{chat, `{"messages":[{"role":"user"}]}`, "messages[0].content", stoa.CodeMissingParameter},
		{chat, `{"messages":[{"role":"assistant"}]}`, "messages[0].content", stoa.CodeMissingParameter},
		{chat, `{"messages":[{"role":"user","content":["x"]}]}`, "messages[0].content[0]", stoa.CodeInvalidType},
		{chat, `{"messages":[{"role":"assistant","tool_calls":[{"type":"x"}]}]}`, "messages[0].tool_calls[0].type", stoa.CodeUnsupportedValue},
		{chat, `{"messages":[{"role":"assistant","tool_calls":[{"type":"custom"}]}]}`, "messages[0].tool_calls[0].custom", stoa.CodeMissingParameter},
		{chat, `{"messages":[],"tools":[{"type":"custom"}]}`, "tools[0].custom", stoa.CodeMissingParameter},
		{chat, `{"messages":[],"tools":[{"type":"custom","custom":{"name":"n","format":1}}]}`, "tools[0].custom.format", stoa.CodeInvalidType},
		{chat, `{"messages":[],"tools":[{"type":"custom","custom":{"name":"n","format":{"type":"grammar","grammar":1}}}]}`, "tools[0].custom.format.grammar", stoa.CodeInvalidType},
		{chat, `{"messages":[],"tools":[{"type":"function"}]}`, "tools[0].function", stoa.CodeMissingParameter},
		{chat, `{"messages":[],"tool_choice":{"type":"function","name":"f"}}`, "tool_choice.function", stoa.CodeMissingParameter},
		{chat, `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function"}]}]}`, "messages[0].tool_calls[0].function", stoa.CodeMissingParameter},
		{chat, `{"messages":[],"stream_options":{"include_usage":1}}`, "stream_options.include_usage", stoa.CodeInvalidType},
		{messages, `{"messages":[]}`, "max_tokens", stoa.CodeMissingParameter},
		{messages, `{"max_tokens":1,"messages":[],"thinking":{"type":"deep"}}`, "thinking.type", stoa.CodeInvalidValue},
		{messages, `{"max_tokens":1,"messages":[],"thinking":{"type":"enabled"}}`, "thinking.budget_tokens", stoa.CodeInvalidValue},
		{messages, `{"max_tokens":1,"messages":[],"tool_choice":{"type":"some"}}`, "tool_choice.type", stoa.CodeInvalidValue},
		{messages, `{"max_tokens":1,"messages":[],"system":[{"type":"image"}]}`, "system[0].type", stoa.CodeUnsupportedValue},
		{messages, `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"x"},"citations":{"enabled":true}}]}]}`, "messages[0].content[0].citations.enabled", stoa.CodeUnsupported},
		{messages, `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"x"}}]}]}`, "messages[0].content[0].source.type", stoa.CodeUnsupportedValue},
		{messages, `{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":"{}"}]}]}`, "messages[0].content[0].input", stoa.CodeInvalidType},
		{messages, `{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]}]}`, "messages[0].content[0].type", stoa.CodeInvalidValue},
		{messages, `{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"c"}]}]}`, "messages[0].content[0].type", stoa.CodeInvalidValue},
		{messages, `{"max_tokens":1,"messages":[{"role":"tool","content":"x"}]}`, "messages[0].role", stoa.CodeInvalidValue},
	} {
		err := tc.translate([]byte(tc.body))
		if e := stoa.AsError(err); err == nil || e.Code != tc.code || e.Param != tc.param {
			t.Errorf("%s: got %v at %q, want %s at %q", tc.body, err, e.Param, tc.code, tc.param)
		}
	}
}

func TestWrongShapesNameTheirPlace(t *testing.T) {
	t.Parallel()
	many := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+",", n), ",") }
	var members []string
	for i := range maxMembers + 1 {
		members = append(members, fmt.Sprintf(`"m%d":1`, i))
	}
	chat := func(b []byte) error { _, err := ParseChat(b, otherOptions); return err }
	messages := func(b []byte) error { _, err := ParseMessagesCount(b, otherOptions); return err }
	const first = "messages[0].content[0]"
	for _, tc := range []struct {
		translate   func([]byte) error
		body, param string
		code        stoa.Code
	}{
		{chat, `{"stream_options":1}`, "stream_options", stoa.CodeInvalidType},
		{chat, `{"modalities":"text"}`, "modalities", stoa.CodeInvalidType},
		{chat, `{"tools":{}}`, "tools", stoa.CodeInvalidType},
		{chat, `{"tools":[1]}`, "tools[0]", stoa.CodeInvalidType},
		{chat, `{"tools":[{"type":"function","function":"f"}]}`, "tools[0].function", stoa.CodeInvalidType},
		{chat, `{"tool_choice":{"type":"function","function":"f"}}`, "tool_choice.function", stoa.CodeInvalidType},
		{chat, `{"tool_choice":{"allowed_tools":[]}}`, "tool_choice.allowed_tools", stoa.CodeInvalidType},
		{chat, `{"tool_choice":{"allowed_tools":{"tools":{}}}}`, "tool_choice.allowed_tools.tools", stoa.CodeInvalidType},
		{chat, `{"tool_choice":{"allowed_tools":{"tools":["f"]}}}`, "tool_choice.allowed_tools.tools[0]", stoa.CodeInvalidType},
		{chat, `{"tool_choice":{"allowed_tools":{"tools":[{"type":"function","function":1}]}}}`, "tool_choice.allowed_tools.tools[0].function", stoa.CodeInvalidType},
		{chat, `{"response_format":"json_object"}`, "response_format", stoa.CodeInvalidType},
		{chat, `{"response_format":{"type":"json_schema","json_schema":1}}`, "response_format.json_schema", stoa.CodeInvalidType},
		{chat, `{"messages":[{"role":1}]}`, "messages[0].role", stoa.CodeInvalidType},
		{chat, `{"messages":[{"role":"user","content":[{"type":1}]}]}`, first + ".type", stoa.CodeInvalidType},
		{chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":"https://a.b/c.png"}]}]}`, first + ".image_url", stoa.CodeInvalidType},
		{chat, `{"messages":[{"role":"user","content":[{"type":"file","file":[]}]}]}`, first + ".file", stoa.CodeInvalidType},
		{chat, `{"messages":[{"role":"assistant","tool_calls":{}}]}`, "messages[0].tool_calls", stoa.CodeInvalidType},
		{chat, `{"messages":[{"role":"assistant","tool_calls":[1]}]}`, "messages[0].tool_calls[0]", stoa.CodeInvalidType},
		{chat, `{"messages":[{"role":"assistant","tool_calls":[{"type":1}]}]}`, "messages[0].tool_calls[0].type", stoa.CodeInvalidType},
		{chat, `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}},{"id":1}]}]}`, "messages[0].tool_calls[1].id", stoa.CodeInvalidType},
		{chat, `{"messages":[` + many(maxItems+1, "1") + `]}`, "messages", stoa.CodeInvalidValue},
		{chat, `{"messages":[{` + strings.Join(members, ",") + `}]}`, "messages[0]", stoa.CodeInvalidValue},
		{messages, `{"metadata":1}`, "metadata", stoa.CodeInvalidType},
		{messages, `{"system":["x"],"messages":[]}`, "system[0]", stoa.CodeInvalidType},
		{messages, `{"system":[{"type":"text","text":1}],"messages":[]}`, "system[0].text", stoa.CodeInvalidType},
		{messages, `{"tools":[1]}`, "tools[0]", stoa.CodeInvalidType},
		{messages, `{"tool_choice":"auto"}`, "tool_choice", stoa.CodeInvalidType},
		{messages, `{"tool_choice":{"type":"auto","disable_parallel_tool_use":1}}`, "tool_choice.disable_parallel_tool_use", stoa.CodeInvalidType},
		{messages, `{"thinking":true}`, "thinking", stoa.CodeInvalidType},
		{messages, `{"thinking":{"type":"adaptive","display":1}}`, "thinking.display", stoa.CodeInvalidType},
		{messages, `{"output_config":[]}`, "output_config", stoa.CodeInvalidType},
		{messages, `{"output_config":{"format":1}}`, "output_config.format", stoa.CodeInvalidType},
		{messages, `{"messages":[1]}`, "messages[0]", stoa.CodeInvalidType},
		{messages, `{"messages":[{"role":"user"}]}`, "messages[0].content", stoa.CodeMissingParameter},
		{messages, `{"messages":[{"content":"x"}]}`, "messages[0].role", stoa.CodeMissingParameter},
		{messages, `{"messages":[{"role":"user","content":["x"]}]}`, first, stoa.CodeInvalidType},
		{messages, `{"messages":[{"role":"user","content":[{"type":1}]}]}`, first + ".type", stoa.CodeInvalidType},
		{messages, `{"messages":[{"role":"user","content":[{"type":"image"}]}]}`, first + ".source", stoa.CodeMissingParameter},
		{messages, `{"messages":[{"role":"user","content":[{"type":"image","source":"x"}]}]}`, first + ".source", stoa.CodeInvalidType},
		{messages, `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":1}}]}]}`, first + ".source.media_type", stoa.CodeInvalidType},
		{messages, `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":1}}]}]}`, first + ".source.data", stoa.CodeInvalidType},
		{messages, `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":1}}]}]}`, first + ".source.url", stoa.CodeInvalidType},
		{messages, `{"messages":[{"role":"user","content":[{"type":"document","citations":1}]}]}`, first + ".citations", stoa.CodeInvalidType},
		{messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":["x"]}]}]}`, first + ".content[0]", stoa.CodeInvalidType},
	} {
		err := tc.translate([]byte(tc.body))
		if e := stoa.AsError(err); err == nil || e.Code != tc.code || e.Param != tc.param {
			t.Errorf("%.200s: got %v at %q, want %s at %q", tc.body, err, e.Param, tc.code, tc.param)
		}
	}
}

func TestErrorsNameTheClientsMember(t *testing.T) {
	t.Parallel()
	// A request is whole except for one member.
	chat := func(members, messages string) func() error {
		return func() error {
			_, err := ParseChat([]byte(`{"model":"a",`+members+`"messages":[{"role":"user","content":"q"}`+messages+`]}`), otherOptions)
			return err
		}
	}
	messages := func(members, messages string) func() error {
		return func() error {
			_, err := ParseMessages([]byte(`{"model":"a","max_tokens":9,`+members+`"messages":[{"role":"user","content":"q"}`+messages+`]}`), otherOptions)
			return err
		}
	}
	of := func(parse func([]byte, Options) (*Request, error), body string) func() error {
		return func() error { _, err := parse([]byte(body), otherOptions); return err }
	}
	for _, tc := range []struct {
		err     func() error
		to, has string
	}{
		{chat(`"max_tokens":0,`, ``), "max_tokens", `"max_tokens" must be`},
		{chat(`"stop":"",`, ``), "stop", `"stop" is empty`},
		{of(ParseChat, `{"model":"a","messages":[]}`), "messages", `"messages" has no message`},
		{of(ParseChat, `{"messages":[{"role":"user","content":"q"}]}`), "model", `"model" is missing`},
		{chat(`"tools":[{"type":"function","function":{"name":"a b"}}],`, ``), "tools[0].function.name", ``},
		{chat(`"tools":[{"type":1,"function":{"name":"f"}}],`, ``), "tools[0].type", `"tools[0].type" must be`},
		{chat(`"response_format":{"type":"json_schema","json_schema":{"schema":1}},`, ``), "response_format.json_schema.schema", `"response_format.json_schema.schema" must be`},
		{chat(`"response_format":{"type":"x"},`, ``), "response_format.type", `"response_format.type" must be`},
		{chat(``, `,{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}`), "messages[1].content[0].image_url.url", ``},
		{chat(``, `,{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://a.b/c.png"}}]}`), "messages[1].content[0].type", ``},
		{chat(``, `,{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":1}}]}`), "messages[1].tool_calls[0].function.arguments", `"messages[1].tool_calls[0].function.arguments" must be`},
		{chat(``, `,{"role":"assistant","tool_calls":[{"id":"","type":"function","function":{"name":"f","arguments":"{}"}}]}`), "messages[1].tool_calls[0].id", `"messages[1].tool_calls[0].id" is empty`},
		{chat(``, `,{"role":"tool","tool_call_id":"d","content":"x"}`), "messages[1].tool_call_id", ``},
		{of(ParseMessages, `{"model":"a","max_tokens":0,"messages":[{"role":"user","content":"q"}]}`), "max_tokens", `"max_tokens" must be`},
		{messages(`"stop_sequences":["x",""],`, ``), "stop_sequences[1]", `"stop_sequences[1]" is empty`},
		{messages(`"tools":[{"name":"f","input_schema":1}],`, ``), "tools[0].input_schema", `"tools[0].input_schema" must be`},
		{messages(``, `,{"role":"user","content":[{"type":"text","text":"x"},{"type":"image","source":{"type":"url","url":"x"}}]}`), "messages[1].content[1].source", ``},
		{messages(``, `,{"role":"assistant","content":[{"type":"text","text":1}]}`), "messages[1].content[0].text", `"messages[1].content[0].text" must be`},
		{messages(``, `,{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"","name":"f","input":{}}]}`), "messages[1].content[1].id", `"messages[1].content[1].id" is empty`},
	} {
		err := tc.err()
		if e := stoa.AsError(err); err == nil || e.Param != tc.to || !strings.HasPrefix(e.Message, tc.has) {
			t.Errorf("got %v at %q; want %q at %q", err, e.Param, tc.has, tc.to)
		}
	}
}

func TestABodyIsNotChanged(t *testing.T) {
	t.Parallel()
	const sent = `{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"b": 1, "a":[ 2 ]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]}]}`
	body := []byte(sent)
	if _, err := ParseMessages(body, otherOptions); err != nil || string(body) != sent {
		t.Errorf("%v, the body is now %s", err, body)
	}
}

func FuzzParseOtherFormats(f *testing.F) {
	f.Add([]byte(`{"model":"a","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}]}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","tool_calls":[{"id":"c","extra_content":{"google":{"thought_signature":"stoa1.\"A"}}}]}],"tools":[{"function":{}}]}`))
	f.Add([]byte(`{"max_tokens":1,"system":[],"output_config":{"effort":1,"format":{}},"messages":[{"role":"user","content":[{"type":"tool_result"},{"type":"tool_use","input":[1]}]}]}`))
	f.Add([]byte(`{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT"}}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, parse := range map[string]func([]byte, Options) (*Request, error){"chat": ParseChat, "messages": ParseMessagesCount, "gemini": ParseGemini("m", false, false)} {
			req, err := parse(body, otherOptions)
			if err != nil && stoa.CodeOf(err) == stoa.CodeInternal {
				t.Errorf("%s: a caller's mistake in %q is called ours: %v", name, body, err)
			}
			if err == nil && !jsonx.Valid(body) {
				t.Errorf("%s: %q is accepted", name, body)
			}
			if err == nil && (req.Model == "" || len(req.call.Messages) == 0) {
				t.Errorf("%s: %q is accepted without a model or a message", name, body)
			}
		}
	})
}

func TestErrorsSpeakOfTheClientsMember(t *testing.T) {
	t.Parallel()
	chat, err := ParseChat([]byte(`{"model":"a","max_tokens":5,"messages":[{"role":"user","content":"x"}]}`), otherOptions)
	if err != nil {
		t.Fatal(err)
	}
	for param, texts := range map[string][2]string{
		"max_output_tokens": {`Raise max_output_tokens to 16 or more.`, `Raise max_tokens to 16 or more.`},
		"input":             {`The input is too long.`, `The input is too long.`},
	} {
		if got := chat.own(stoa.Errorf(stoa.CodeInvalidValue, "%s", texts[0]).At(param)); stoa.AsError(got).Message != texts[1] {
			t.Errorf("%s becomes %s", texts[0], stoa.AsError(got).Message)
		}
	}
	_, err = ParseChat([]byte(`{"model":"a","messages":[{"role":"tool","content":"x"}]}`), otherOptions)
	if got := stoa.AsError(err).Message; err == nil || got != `"messages[0].tool_call_id" is missing.` {
		t.Errorf("a result without an id: %s", got)
	}
}
