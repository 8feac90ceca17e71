package responses

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
)

var foreignIgnored = Options{Tools: true, ForeignTools: true}

// TestMalformedToolsAndItemsAreNamed has the forms of custom tools, namespaces and added tools,
// their calls and the items of other services.
func TestMalformedToolsAndItemsAreNamed(t *testing.T) {
	t.Parallel()
	const (
		f     = `{"type":"function","name":"f"}`
		p     = `{"type":"custom","name":"p"}`
		q     = `{"role":"user","content":"q"}`
		user  = `"input":[` + q + `]`
		begin = `"tools":[` + f + `],"input":[` + q + `,`
	)
	many := func(n int) string { return `"tools":[` + manyTools(n) + `]` }
	for body, c := range map[string]struct {
		code  stoa.Code
		param string
	}{
		user + `,"tools":[{"type":"custom"}]`:                                                                                     {stoa.CodeMissingParameter, "tools[0].name"},
		user + `,"tools":[{"type":"custom","name":"a b"}]`:                                                                        {stoa.CodeInvalidValue, "tools[0].name"},
		user + `,"tools":[` + p + `,` + p + `]`:                                                                                   {stoa.CodeInvalidValue, "tools[1].name"},
		user + `,"tools":[{"type":"custom","name":"p","format":1}]`:                                                               {stoa.CodeInvalidType, "tools[0].format"},
		user + `,"tools":[{"type":"custom","name":"p","format":{}}]`:                                                              {stoa.CodeMissingParameter, "tools[0].format.type"},
		user + `,"tools":[{"type":"custom","name":"p","format":{"type":"x"}}]`:                                                    {stoa.CodeInvalidValue, "tools[0].format.type"},
		user + `,"tools":[{"type":"custom","name":"p","format":{"type":"grammar"}}]`:                                              {stoa.CodeMissingParameter, "tools[0].format.syntax"},
		user + `,"tools":[{"type":"custom","name":"p","format":{"type":"grammar","syntax":"bnf"}}]`:                               {stoa.CodeInvalidValue, "tools[0].format.syntax"},
		user + `,"tools":[{"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark"}}]`:                              {stoa.CodeMissingParameter, "tools[0].format.definition"},
		user + `,"tools":[{"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark","definition":1}}]`:               {stoa.CodeInvalidType, "tools[0].format.definition"},
		user + `,"tools":[{"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark","definition":""}}]`:              {stoa.CodeInvalidValue, "tools[0].format.definition"},
		user + `,"tools":[{"type":"namespace","tools":[]}]`:                                                                       {stoa.CodeMissingParameter, "tools[0].name"},
		user + `,"tools":[{"type":"namespace","name":"","tools":[]}]`:                                                             {stoa.CodeInvalidValue, "tools[0].name"},
		user + `,"tools":[{"type":"namespace","name":"n"}]`:                                                                       {stoa.CodeMissingParameter, "tools[0].tools"},
		user + `,"tools":[{"type":"namespace","name":"n","tools":1}]`:                                                             {stoa.CodeInvalidType, "tools[0].tools"},
		user + `,"tools":[{"type":"namespace","name":"n","tools":[1]}]`:                                                           {stoa.CodeInvalidType, "tools[0].tools[0]"},
		user + `,"tools":[{"type":"namespace","name":"n","tools":[{"name":"x"}]}]`:                                                {stoa.CodeMissingParameter, "tools[0].tools[0].type"},
		user + `,"tools":[{"type":"namespace","name":"n","tools":[` + f + `,` + f + `]}]`:                                         {stoa.CodeInvalidValue, "tools[0].tools[1].name"},
		user + `,"tools":[{"type":"function","name":"n__f"},{"type":"namespace","name":"n","tools":[` + f + `]}]`:                 {stoa.CodeInvalidValue, "tools[1].tools[0].name"},
		user + `,"tools":[{"type":"namespace","name":"n","tools":[{"type":"namespace","name":"m","tools":[]}]}]`:                  {stoa.CodeUnsupportedValue, "tools[0].tools[0].type"},
		user + `,"tools":[{"type":"namespace","name":"n","tools":[` + manyTools(100) + `]},` + manyTools(29) + `]`:                {stoa.CodeInvalidValue, "tools"},
		`"input":[` + q + `,{"type":"additional_tools","role":"developer"}]`:                                                      {stoa.CodeMissingParameter, "input[1].tools"},
		`"input":[` + q + `,{"type":"additional_tools","tools":1}]`:                                                               {stoa.CodeInvalidType, "input[1].tools"},
		`"input":[` + q + `,{"type":"additional_tools","tools":[{"type":"custom"}]}]`:                                             {stoa.CodeMissingParameter, "input[1].tools[0].name"},
		`"input":[` + q + `,{"type":"additional_tools","tools":[` + f + `,` + f + `]}]`:                                           {stoa.CodeInvalidValue, "input[1].tools[1].name"},
		`"input":[` + q + `,{"type":"additional_tools","tools":[` + f + `]}],"tools":[` + f + `]`:                                 {stoa.CodeInvalidValue, "input[1].tools"},
		`"input":[` + q + `,{"type":"additional_tools","tools":[{"type":"custom","name":"p"}]}],` + many(128):                     {stoa.CodeInvalidValue, "input[1].tools"},
		`"input":[{"type":"additional_tools","tools":[` + f + `]}]`:                                                               {stoa.CodeInvalidValue, "input"},
		`"input":[` + q + `,{"type":"additional_tools","tools":[{"type":"web_search"}]}]`:                                         {stoa.CodeUnsupportedValue, "input[1].tools[0].type"},
		begin + `{"type":"custom_tool_call","call_id":"1","name":"p"}]`:                                                           {stoa.CodeMissingParameter, "input[1].input"},
		begin + `{"type":"custom_tool_call","call_id":"1","name":"p","input":{}}]`:                                                {stoa.CodeInvalidType, "input[1].input"},
		begin + `{"type":"custom_tool_call","call_id":"1","name":"p","input":"x"}]`:                                               {stoa.CodeInvalidValue, "input[1].call_id"},
		begin + `{"type":"custom_tool_call","call_id":"1","namespace":1,"name":"p","input":"x"}]`:                                 {stoa.CodeInvalidType, "input[1].namespace"},
		begin + `{"type":"custom_tool_call_output","call_id":"1","output":"x"}]`:                                                  {stoa.CodeInvalidValue, "input[1].call_id"},
		begin + `{"type":"custom_tool_call_output","call_id":"1"}]`:                                                               {stoa.CodeMissingParameter, "input[1].output"},
		begin + `{"type":"item_reference","id":"msg_1"}]`:                                                                         {stoa.CodeUnsupportedValue, "input[1]"},
		begin + `{"type":"compaction","encrypted_content":"x"}]`:                                                                  {stoa.CodeUnsupportedValue, "input[1].type"},
		begin + `{"type":"mesage","role":"user","content":"x"}]`:                                                                  {stoa.CodeUnsupportedValue, "input[1].type"},
		`"input":[{"type":"web_search_call"}]`:                                                                                    {stoa.CodeInvalidValue, "input"},
		user + `,"tools":[` + p + `],"tool_choice":{"type":"function","name":"p"}`:                                                {stoa.CodeInvalidValue, "tool_choice.name"},
		user + `,"tools":[` + f + `],"tool_choice":{"type":"custom","name":"f"}`:                                                  {stoa.CodeInvalidValue, "tool_choice.name"},
		user + `,"tools":[` + f + `],"tool_choice":{"type":"custom"}`:                                                             {stoa.CodeMissingParameter, "tool_choice.name"},
		user + `,"tools":[` + f + `],"tool_choice":{"type":"function","name":"f","namespace":"n"}`:                                {stoa.CodeInvalidValue, "tool_choice.name"},
		user + `,"tools":[` + f + `],"tool_choice":{"type":"function","name":"f","namespace":1}`:                                  {stoa.CodeInvalidType, "tool_choice.namespace"},
		user + `,"tools":[` + f + `],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"custom","name":"f"}]}`: {stoa.CodeInvalidValue, "tool_choice.tools[0].name"},
	} {
		_, err := Parse([]byte(`{"model":"m",`+body+`}`), foreignIgnored)
		if e := stoa.AsError(err); err == nil || e.Code != c.code || e.Param != c.param {
			t.Errorf("%.200s\n got %v at %q\nwant %s at %q", body, err, e.Param, c.code, c.param)
		}
	}
	_, err := Parse([]byte(`{"model":"m","input":[{"role":"user","content":"q"},{"type":"web_search_call"}]}`), Options{Tools: true})
	if e := stoa.AsError(err); e.Code != stoa.CodeUnsupportedValue || e.Param != "input[1].type" {
		t.Errorf("an item of another service, where they are refused: %v at %q", err, e.Param)
	}
}

// TestItemsOfOthersAreLeftOut has the items of other services and of clients between others.
func TestItemsOfOthersAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		"web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call",
		"mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "tool_search_call", "tool_search_output", // of a search of the vendor
		"server_tool_use", "web_search_tool_result", "mcp_tool_use", "mcp_tool_result",
	} {
		body := `{"model":"m","tools":[{"type":"function","name":"f"}],"input":[{"role":"user","content":"a"},
			{"type":"` + kind + `","id":"x","output":[{"type":"odd"}],"content":7,"action":{},"call_id":"1"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`
		req, err := Parse([]byte(body), foreignIgnored)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if got := outline(req.call.Messages); got != "u[a] a[b] u[c]" || req.adjusted != stoa.ItemsLeftOut || len(req.ignored.paths) > 0 {
			t.Errorf("%s: %s, %v, %v", kind, got, req.adjusted.Names(), req.ignored.paths)
		}
	}
}

// TestARequestToCompactIsRefused: the vendor would answer the conversation instead, and the call be charged.
func TestARequestToCompactIsRefused(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte(`{"model":"m","input":[{"role":"user","content":"a"},{"type":"compaction_trigger"}]}`), foreignIgnored)
	if e := stoa.AsError(err); e.Code != stoa.CodeUnsupportedValue || e.Param != "input[1].type" || !strings.Contains(e.Message, "\"compact\"") || !strings.Contains(e.Message, "Codex") {
		t.Errorf("%v at %q", err, e.Param)
	}
}

// TestLaterToolsReplaceAddedOnes sends the same tools in two items, in other words.
func TestLaterToolsReplaceAddedOnes(t *testing.T) {
	t.Parallel()
	add := func(text string) string {
		return `{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"f","description":"` + text + `"},{"type":"web_search"}]}`
	}
	req, err := Parse([]byte(`{"model":"m","input":[`+add("one")+`,{"role":"user","content":"q"},`+add("two")+`],"tools":[{"type":"function","name":"g"}]}`), foreignIgnored)
	if err != nil {
		t.Fatal(err)
	}
	tools := req.call.Tools
	if len(tools) != 2 || tools[0].Name != "g" || tools[1].Description != "two" || len(req.echo.tools) != 1 || req.adjusted != stoa.ToolsLeftOut {
		t.Errorf("%+v %+v %v", tools, req.echo.tools, req.adjusted.Names())
	}
	if m := req.call.Messages; len(m) != 3 || len(m[0].Tools) != 1 || m[2].Tools[0].Description != "two" {
		t.Errorf("%+v", m)
	}
}

func TestNamesOfNamespacesAreFlat(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"", "f", "f"},
		{"n", "f", "n__f"},
		{"mcp__docs__", "f", "mcp__docs____f"},
		{strings.Repeat("n", 61), "f", strings.Repeat("n", 61) + "__f"},
	} {
		if got := stoa.FlatName(c[0], c[1]); got != c[2] {
			t.Errorf("%q %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
	seen := map[string]bool{}
	for _, namespace := range []string{strings.Repeat("n", 62), strings.Repeat("n", 500), "a b", "é", "a.b"} {
		for _, name := range []string{"f", strings.Repeat("f", 64), "a b", ""} {
			flat := stoa.FlatName(namespace, name)
			if !stoa.IsName(flat) || seen[flat] {
				t.Errorf("%q %q: %q", namespace, name, flat)
			}
			seen[flat] = true
		}
	}
}

// TestInputsAreCheckedByRegularExpressions includes expressions that are not checked.
func TestInputsAreCheckedByRegularExpressions(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		syntax, pattern, input string
		fits                   bool
	}{
		{"regex", `a+|b`, "aa", true},
		{"regex", `a+|b`, "ab", false},
		{"regex", `^a$`, "a", true},
		{"regex", `.*`, "a\nb", false},
		{"regex", `(?s).*`, "a\nb", true},
		{"regex", `(?<=a)b`, "x", true},                        // Go does not support it
		{"regex", `(`, "x", true},                              // not valid
		{"regex", strings.Repeat(".{1000}", 200), large, true}, // too large
		{"regex", strings.Repeat("a", 3000), "x", true},        // too long
		{"lark", `start: "a"`, "x", true},
	} {
		format, _ := json.Marshal(map[string]string{"type": "grammar", "syntax": c.syntax, "definition": c.pattern})
		if got := fitsFormat(string(format), c.input); got != c.fits {
			t.Errorf("%.40s with %.10q: %v", c.pattern, c.input, got)
		}
	}
}

// TestIgnoredMembersAreListed has members without an effect in every place.
func TestIgnoredMembersAreListed(t *testing.T) {
	t.Parallel()
	body := `{"model":"m","client_metadata":{"a":1},"store":true,"truncation":"auto","presence_penalty":0.5,"frequency_penalty":0,"service_tier":"priority",
		"stream_options":{"include_obfuscation":false},"include":["reasoning.encrypted_content","web_search_call.action.sources"],"reasoning":{"effort":"low","context":"x"},
		"text":{"verbosity":"low","style":1},"max_tool_calls":3,"absent":null,"safety_identifier":"s",
		"tools":[{"type":"function","name":"f","eager":true},{"type":"function","name":"g","eager":true},{"type":"web_search","filters":{}}],
		"tool_choice":{"type":"function","name":"f","x":1},
		"input":[{"role":"user","content":[{"type":"input_text","text":"q","odd":1}],"id":"m","status":"completed"},{"role":"user","content":"r","weird":1,"eager":1},{"role":"user","content":"r","weird":1},
			{"type":"web_search_call","action":{}}]}`
	req, err := Parse([]byte(body), foreignIgnored)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"client_metadata", "store", "truncation", "presence_penalty", "service_tier", "stream_options.include_obfuscation", "include[1]",
		"text.style", "max_tool_calls", "tools[0].eager", "tool_choice.x", "input[0].content[0].odd", "input[1].weird", "input[1].eager",
	}
	if diff := cmp.Diff(want, req.ignored.paths); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	openAI := stoa.Route{Wire: "responses", Traits: stoa.Traits{CustomTools: true, Efforts: []string{"low"}}}
	if own, others := req.ignoredOn(openAI), req.ignoredOn(stoa.Route{Wire: "gemini"}); strings.Contains(own, "reasoning.context") || !strings.HasSuffix(others, "\nreasoning.context") {
		t.Errorf("a setting of one vendor is ignored there: %q, elsewhere: %q", own, others)
	}
	if req, err := Parse([]byte(strings.ReplaceAll(body, `"input":[`, `"extra":1,"more":1,"input":[`)), foreignIgnored); err != nil || len(req.ignored.paths) != maxIgnored {
		t.Errorf("%v %q", err, req.ignored.paths)
	}
	plain, err := Parse([]byte(`{"model":"m","input":"q","odd":1}`), Options{})
	if err != nil || plain.ignored.paths != nil {
		t.Errorf("without extensions: %v %q", err, plain.ignored.paths)
	}
	odd, err := Parse([]byte(`{"model":"m","input":[{"role":"user","content":"q","my secret":1}],"a\nb":1,"`+strings.Repeat("x", 65)+`":1}`), foreignIgnored)
	if err != nil || strings.Join(odd.ignored.paths, " ") != "input[0].* *" {
		t.Errorf("%v %q", err, odd.ignored.paths)
	}
}

// TestServersOfAVendorAreLeftOut has what Anthropic runs, next to a function or alone.
func TestServersOfAVendorAreLeftOut(t *testing.T) {
	t.Parallel()
	const head = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"server_tool_use","id":"s"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}],`
	const plain = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}],`
	const f = `"tools":[{"name":"f"},{"type":"web_search_20250305","name":"web_search"}]`
	req, err := ParseMessages([]byte(head+f+`,"mcp_servers":[{"name":"docs"}],"container":"x","speed":"fast"}`), foreignIgnored)
	if err != nil {
		t.Fatal(err)
	}
	if got := outline(req.call.Messages); got != "u[a] a[b] u[c]" || len(req.call.Tools) != 1 || req.adjusted != stoa.ToolsLeftOut|stoa.ItemsLeftOut || strings.Join(req.ignored.paths, " ") != "speed" {
		t.Errorf("%s %+v %v %q", got, req.call.Tools, req.adjusted.Names(), req.ignored.paths)
	}
	for _, c := range []struct {
		head, more string
		o          Options
		code       stoa.Code
		param      string
	}{
		{plain, `"mcp_servers":[{"name":"docs"}]`, foreignIgnored, stoa.CodeUnsupportedValue, "mcp_servers"},
		{plain, `"container":{"id":"x"}`, foreignIgnored, stoa.CodeUnsupportedValue, "container"},
		{plain, `"mcp_servers":[{"name":"docs"}]`, Options{}, stoa.CodeUnsupported, "mcp_servers"},
		{plain, `"container":"x"`, Options{}, stoa.CodeUnsupported, "container"},
		{plain, f + `,"container":"x"`, Options{Tools: true}, stoa.CodeUnsupportedValue, "tools[1].type"},
		{plain, `"tools":[{"name":"f"}],"container":"x"`, Options{Tools: true}, stoa.CodeUnsupportedValue, "container"},
		{plain, f + `,"tool_choice":{"type":"tool","name":"web_search"}`, foreignIgnored, stoa.CodeUnsupportedValue, "tool_choice.name"},
		{head, `"tools":[{"name":"f"}]`, Options{Tools: true}, stoa.CodeUnsupportedValue, "messages[1].content[0].type"},
	} {
		_, err := ParseMessages([]byte(c.head+c.more+"}"), c.o)
		if e := stoa.AsError(err); err == nil || e.Code != c.code || e.Param != c.param {
			t.Errorf("%s: %v at %q, want %s at %q", c.more, err, e.Param, c.code, c.param)
		}
	}
	chat, err := ParseChat([]byte(`{"model":"m","seed":1,"service_tier":"flex","tools":[{"type":"function","function":{"name":"f","x":1}},{"type":"web_search"}],"messages":[{"role":"user","content":[{"type":"text","text":"q","odd":1}]}]}`), foreignIgnored)
	if err != nil || strings.Join(chat.ignored.paths, " ") != "service_tier messages[0].content[0].odd tools[0].function.x seed" {
		t.Errorf("%v %q", err, chat.ignored.paths)
	}
}

// FuzzParseTools parses tools and items of all forms: what is accepted can be echoed, and its
// tools have distinct names that vendors accept.
func FuzzParseTools(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","input":[{"type":"additional_tools","role":"developer","tools":[{"type":"custom","name":"p","format":{"type":"grammar","syntax":"regex","definition":"a"}}]},{"role":"user","content":"q"},{"type":"custom_tool_call","call_id":"1","name":"p","input":"a"},{"type":"custom_tool_call_output","call_id":"1","output":"b"}],"tools":[{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"f","parameters":{"a":1}},{"type":"x"}]},{"type":"web_search"}],"tool_choice":{"type":"function","namespace":"n","name":"f"}}`,
		`{"model":"m","input":[{"type":"web_search_call"},{"type":"function_call","namespace":"n","call_id":"1","name":"f","arguments":"{"},{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"b"}]}],"tools":[{"tools":[{}],"format":[],"name":"n","type":"function"}]}`,
		`{"model":"m","input":"q","tools":[{"type":"namespace","name":"é","tools":[{"type":"custom","name":"f","format":{"type":"text"}}]}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"custom","namespace":"é","name":"f"}]}}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := Parse(body, foreignIgnored)
		if err != nil {
			if e := stoa.AsError(err); e.Code == stoa.CodeInternal {
				t.Fatalf("%q: a caller's mistake is called ours: %v", body, err)
			}
			return
		}
		names := map[string]bool{}
		for _, tool := range req.call.Tools {
			if names[tool.Name] || !stoa.IsName(tool.Name) || !json.Valid([]byte(tool.Parameters)) {
				t.Fatalf("%q has the tool %+v", body, tool)
			}
			names[tool.Name] = true
		}
		if echo := appendTools([]byte{'['}, req.echo.tools, &enforced{}); !json.Valid(append(echo, ']')) || len(req.call.Tools) > maxTools || len(req.ignored.paths) > maxIgnored {
			t.Fatalf("%q is echoed as %s", body, echo)
		}
		if choice := req.echo.toolChoice; choice != "" && !json.Valid([]byte(choice)) {
			t.Fatalf("%q: the choice is echoed as %s", body, choice)
		}
	})
}
