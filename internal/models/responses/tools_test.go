package responses

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stoa/internal/base/stoa"
)

// parsed parses a request with tools f and g and the given input.
func parsed(input, more string) (*Request, error) {
	return Parse([]byte(`{"model":"m","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}],"input":`+input+more+`}`), Options{
		Tools: true, Formats: true,
		Open: func(s string) (stoa.State, bool) {
			data, ok := strings.CutPrefix(s, "ours:")
			return stoa.State{Wire: "w", Model: "m", Provider: "p", Data: data}, ok
		},
	})
}

// outline returns a conversation as one line.
func outline(messages []stoa.Message) string {
	var all []string
	for _, m := range messages {
		var parts []string
		for _, p := range m.Parts {
			switch p.Kind {
			case stoa.PartText:
				parts = append(parts, p.Text)
			case stoa.PartReasoning:
				parts = append(parts, "("+p.State.Data+")")
			case stoa.PartCall:
				parts = append(parts, p.Call.Name+"#"+p.Call.ID)
			case stoa.PartResult:
				parts = append(parts, p.Result.Name+"#"+p.Result.CallID+"="+p.Result.Content+textOf(p.Result.Parts))
			}
		}
		all = append(all, string(m.Role)[:1]+"["+strings.Join(parts, " ")+"]")
	}
	return strings.Join(all, " ")
}

func TestItemsBecomeTurns(t *testing.T) {
	t.Parallel()
	call := func(name, id string) string {
		return `{"type":"function_call","id":null,"call_id":"` + id + `","name":"` + name + `","arguments":"{}"}`
	}
	out := func(id, text string) string {
		return `{"type":"function_call_output","call_id":"` + id + `","output":"` + text + `"}`
	}
	const (
		user   = `{"role":"user","content":"q"}`
		system = `{"role":"developer","content":"d"}`
		said   = `{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":""}]}`
		ours   = `{"type":"reasoning","summary":[],"encrypted_content":"ours:r"}`
		theirs = `{"type":"reasoning","encrypted_content":"gAAAA","content":null}`
	)
	for name, c := range map[string]struct {
		items []string
		want  string
	}{
		"one turn":                     {[]string{user, ours, call("f", "1"), said, call("g", "2"), out("2", "y"), out("1", "x")}, "u[q] a[(r) a f#1 g#2] u[f#1=x g#2=y]"},
		"texts and systems between":    {[]string{user, call("f", "1"), system, user, out("1", "x"), user}, "u[q] a[f#1] u[f#1=x q] s[d] u[q]"},
		"an id twice":                  {[]string{user, call("f", "1"), out("1", "x"), call("g", "1"), out("1", "y")}, "u[q] a[f#1] u[f#1=x] a[g#1] u[g#1=y]"},
		"a result behind another turn": {[]string{call("f", "1"), call("g", "2"), out("1", "x"), said, out("2", "y")}, "a[f#1 g#2] u[f#1=x g#2=y] a[a]"},
		"a call that was cut off":      {[]string{user, ours, `{"type":"function_call","call_id":"1","name":"f","arguments":"{","status":"incomplete"}`, user}, "u[q] u[q]"},
		"reasoning of another service": {[]string{user, theirs, call("f", "1"), out("1", "")}, "u[q] a[() f#1] u[f#1=]"},
		"parts in a result": {
			[]string{call("f", "1"), `{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"x"},{"type":"input_text","text":"y"}]}`},
			"a[f#1] u[f#1=xy]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := parsed("["+strings.Join(c.items, ",")+"]", "")
			if err != nil {
				t.Fatal(err)
			}
			if got := outline(req.call.Messages); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
	req, err := parsed("["+user+","+theirs+","+said+"]", "")
	if err != nil || req.unread != 1 || !req.call.Stateful || req.call.Messages[1].Parts[1].Phase != "commentary" {
		t.Errorf("%v %+v", err, req)
	}
}

func TestAPlainRequestStaysPlain(t *testing.T) {
	t.Parallel()
	body := []byte(`{"model":"m","tools":[],"tool_choice":"none","parallel_tool_calls":false,"input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},
		{"type":"reasoning","summary":[]},{"role":"assistant","phase":"x","content":"c"},{"role":"user","content":"d"}],"text":{"format":{"type":"text"}}}`)
	was, err := Parse(body, Options{})
	if err != nil {
		t.Fatal(err)
	}
	is, err := Parse(body, Options{Tools: true, Formats: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(was.call, is.call); diff != "" {
		t.Errorf("with extensions the call differs:\n%s", diff)
	}
}

func TestErrorsOfToolsNameTheMember(t *testing.T) {
	t.Parallel()
	user := `{"role":"user","content":"q"},`
	for _, c := range []struct {
		input, more string
		code        stoa.Code
		param       string
	}{
		{`[` + user + `{"type":"function_call_output","call_id":"1","output":"x"}]`, "", stoa.CodeInvalidValue, "input[1].call_id"},
		{`[` + user + `{"type":"function_call","call_id":"1","name":"f","arguments":"{}"}]`, "", stoa.CodeInvalidValue, "input[1].call_id"},
		{`[{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"x"},{"type":"function_call_output","call_id":"1","output":"x"}]`, "", stoa.CodeInvalidValue, "input[2].call_id"},
		{`[{"type":"function_call_output","call_id":"1","output":"x"},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"}]`, "", stoa.CodeInvalidValue, "input[0].call_id"},
		{`[{"type":"function_call","call_id":"","name":"f","arguments":"{}"}]`, "", stoa.CodeInvalidValue, "input[0].call_id"},
		{`[{"type":"function_call","call_id":"` + strings.Repeat("x", 513) + `","name":"f","arguments":"{}"}]`, "", stoa.CodeInvalidValue, "input[0].call_id"},
		{`[{"type":"function_call","call_id":"1","name":"f","arguments":{}}]`, "", stoa.CodeInvalidType, "input[0].arguments"},
		{`[{"type":"function_call","call_id":"1","arguments":"{}"}]`, "", stoa.CodeMissingParameter, "input[0].name"},
		{`[{"type":"function_call","call_id":"1","name":" ","arguments":"{}"}]`, "", stoa.CodeInvalidValue, "input[0].name"},
		{`[{"type":"reasoning","encrypted_content":"` + strings.Repeat("x", 1_468_007) + `"}]`, "", stoa.CodeInvalidValue, "input[0].encrypted_content"},
		{`[` + strings.Repeat(`{"type":"reasoning"},`, 2000) + `{"type":"reasoning"}]`, "", stoa.CodeInvalidValue, "input[2000].encrypted_content"},
		{`[{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"` + strings.Repeat("x", 10<<20+1) + `"}]`, "", stoa.CodeInvalidValue, "input[1].output"},
		{`[{"type":"custom_tool_call"}]`, "", stoa.CodeMissingParameter, "input[0].call_id"},
		{`[{"type":"compaction"}]`, "", stoa.CodeUnsupportedValue, "input[0].type"},
		{`"q"`, `,"tool_choice":{"type":"function","name":"h"}`, stoa.CodeInvalidValue, "tool_choice.name"},
		{`"q"`, `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"},{"type":"function","name":"h"}]}`, stoa.CodeInvalidValue, "tool_choice.tools[1].name"},
		{`"q"`, `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}`, stoa.CodeInvalidValue, "tool_choice.tools"},
		{`"q"`, `,"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"f"}]}`, stoa.CodeMissingParameter, "tool_choice.mode"},
		{`"q"`, `,"tool_choice":{"type":"web_search"}`, stoa.CodeUnsupportedValue, "tool_choice.type"},
		{`"q"`, `,"tool_choice":"any"`, stoa.CodeInvalidValue, "tool_choice"},
		{`"q"`, `,"text":{"format":{"type":"grammar"}}`, stoa.CodeInvalidValue, "text.format.type"},
		{`"q"`, `,"text":{"format":{"type":"json_schema","name":"a.b","schema":{}}}`, stoa.CodeInvalidValue, "text.format.name"},
		{`"q"`, `,"text":{"format":{"type":"json_schema","name":"a"}}`, stoa.CodeMissingParameter, "text.format.schema"},
		{`"q"`, `,"text":{"format":{"type":"json_schema","name":"a","schema":[]}}`, stoa.CodeInvalidType, "text.format.schema"},
	} {
		_, err := parsed(c.input, c.more)
		if e := stoa.AsError(err); err == nil || e.Code != c.code || e.Param != c.param {
			t.Errorf("%.100s %s\n got %v\nwant %s at %q", c.input, c.more, err, c.code, c.param)
		}
	}
	for tools, c := range map[string]struct {
		code  stoa.Code
		param string
	}{
		`{"type":"web_search"}`:            {stoa.CodeUnsupportedValue, "tools[0].type"},
		`{"type":"x","name":1}`:            {stoa.CodeUnsupportedValue, "tools[0].type"},
		`{"name":"f"}`:                     {stoa.CodeMissingParameter, "tools[0].type"},
		`{"type":"function"}`:              {stoa.CodeMissingParameter, "tools[0].name"},
		`{"type":"function","name":""}`:    {stoa.CodeInvalidValue, "tools[0].name"},
		`{"type":"function","name":"a.b"}`: {stoa.CodeInvalidValue, "tools[0].name"},
		`{"type":"function","name":"` + strings.Repeat("x", 65) + `"}`:                        {stoa.CodeInvalidValue, "tools[0].name"},
		`{"type":"function","name":"f"},{"type":"function","name":"f"}`:                       {stoa.CodeInvalidValue, "tools[1].name"},
		`{"type":"function","name":"f","parameters":[]}`:                                      {stoa.CodeInvalidType, "tools[0].parameters"},
		`{"type":"function","name":"f","parameters":{"type":"string"}}`:                       {stoa.CodeInvalidType, "tools[0].parameters"},
		`{"type":"function","name":"f","defer_loading":1}`:                                    {stoa.CodeInvalidType, "tools[0].defer_loading"},
		`{"type":"function","name":"f","allowed_callers":["direct","programmatic"]}`:          {stoa.CodeUnsupported, "tools[0].allowed_callers"},
		`{"type":"function","name":"f","description":"` + strings.Repeat("x", 512<<10) + `"}`: {stoa.CodeInvalidValue, "tools"},
		manyTools(129): {stoa.CodeInvalidValue, "tools"},
	} {
		_, err := Parse([]byte(`{"model":"m","input":"q","tools":[`+tools+`]}`), Options{Tools: true})
		if e := stoa.AsError(err); err == nil || e.Code != c.code || e.Param != c.param {
			t.Errorf("%.100s\n got %v\nwant %s at %q", tools, err, c.code, c.param)
		}
	}
	if _, err := Parse([]byte(`{"model":"m","input":"q","tool_choice":"required"}`), Options{Tools: true}); stoa.AsError(err).Param != "tool_choice" {
		t.Errorf("required without tools: %v", err)
	}
	req, err := Parse([]byte(`{"model":"m","input":"q","tools":[{"type":"web_search"},{"type":"function","name":"`+strings.Repeat("x", 64)+`","defer_loading":true}]}`), Options{Tools: true, ForeignTools: true})
	if err != nil || len(req.call.Tools) != 1 || len(req.echo.tools) != 1 {
		t.Errorf("tools of other kinds are not left out: %v", err)
	}
}

// TestForeignToolsAreRefusedByName sends tools that are not functions: none of them is
// silently left out if a call could need it.
func TestForeignToolsAreRefusedByName(t *testing.T) {
	t.Parallel()
	const f = `{"type":"function","name":"f"}`
	ignore := Options{Tools: true, ForeignTools: true}
	for _, c := range []struct {
		options     Options
		tools, more string
		code        stoa.Code
		param, says string
	}{
		{Options{Tools: true}, f + `,{"type":"namespace","name":"multi_agent_v1","tools":[{"type":"mcp","name":"x"}]}`, "", stoa.CodeUnsupportedValue, "tools[1].tools[0].type", `"mcp" "x"`},
		{Options{Tools: true}, `{"type":"mcp","server_label":"x"}`, "", stoa.CodeUnsupportedValue, "tools[0].type", "extensionOptions.tools.foreign"},
		{Options{Tools: true}, `{"type":"` + strings.Repeat("x", 99) + `"}`, "", stoa.CodeUnsupportedValue, "tools[0].type", `"` + strings.Repeat("x", 64) + `…"`},
		{ignore, `{"type":"web_search_20250305","name":"web_search"}`, "", stoa.CodeUnsupportedValue, "tools[0].type", `"web_search_20250305" "web_search"`},
		{ignore, `{"type":"web_search"},{"type":"mcp"}`, `,"tool_choice":"none"`, stoa.CodeUnsupportedValue, "tools[0].type", `"web_search"`},
		{ignore, f + `,{"type":"web_search"}`, `,"tool_choice":{"type":"web_search"}`, stoa.CodeUnsupportedValue, "tool_choice.type", `"web_search"`},
		{ignore, f + `,{"type":"mcp","name":"docs"}`, `,"tool_choice":{"type":"mcp","name":"docs"}`, stoa.CodeUnsupportedValue, "tool_choice.type", `"mcp" "docs"`},
		{ignore, f + `,{"type":"web_search_20250305","name":"web_search"}`, `,"tool_choice":{"type":"function","name":"web_search"}`, stoa.CodeUnsupportedValue, "tool_choice.name", `"web_search_20250305" "web_search"`},
		{ignore, f + `,{"type":"web_search"}`, `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"web_search"}]}`, stoa.CodeInvalidValue, "tool_choice.tools", "names no function"},
		{ignore, `{"type":"shell","environment":{"type":"container_auto"}}`, "", stoa.CodeUnsupportedValue, "tools[0].type", `"shell"`},
		{ignore, `{"type":"tool_search"}`, "", stoa.CodeUnsupportedValue, "tools[0].type", `"tool_search"`},
	} {
		_, err := Parse([]byte(`{"model":"m","input":"q","tools":[`+c.tools+`]`+c.more+`}`), c.options)
		if e := stoa.AsError(err); err == nil || e.Code != c.code || e.Param != c.param || !strings.Contains(e.Message, c.says) {
			t.Errorf("%.100s %s\n got %v at %q\nwant %s at %q with %s", c.tools, c.more, err, e.Param, c.code, c.param, c.says)
		}
	}
}

// TestForeignToolsAreLeftOut checks which tools remain, and which choice among them.
func TestForeignToolsAreLeftOut(t *testing.T) {
	t.Parallel()
	for _, choice := range []string{`"auto"`, `"required"`, `{"type":"function","name":"f"}`, `{"type":"allowed_tools","mode":"required","tools":[{"type":"web_search"},{"type":"function","name":"f"}]}`} {
		req, err := Parse([]byte(`{"model":"m","input":"q","tool_choice":`+choice+`,"tools":[{"type":"web_search"},{"type":"function","name":"f"},{"type":"tool_search"},{"type":"shell","environment":{"type":"container_reference","container_id":"c"}}]}`), Options{Tools: true, ForeignTools: true})
		if err != nil {
			t.Fatal(choice, err)
		}
		if req.adjusted != stoa.ToolsLeftOut || len(req.call.Tools) != 1 || len(req.echo.tools) != 1 || strings.Contains(req.echo.toolChoice, "web_search") {
			t.Errorf("%s: %v %+v %+v %s", choice, req.adjusted.Names(), req.call.Tools, req.echo.tools, req.echo.toolChoice)
		}
	}
	req, err := Parse([]byte(`{"model":"m","input":"q","tools":[{"type":"function","name":"f"}]}`), Options{Tools: true, ForeignTools: true})
	if err != nil || req.adjusted != 0 {
		t.Errorf("nothing was left out: %v", err)
	}
}

func manyTools(n int) string {
	var all []string
	for i := range n {
		all = append(all, `{"type":"function","name":"f`+strings.Repeat("x", i%60)+string(rune('a'+i/60))+`"}`)
	}
	return strings.Join(all, ",")
}

func TestResultsMayBeEmptyOrLong(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 10 << 20} {
		req, err := parsed(`[{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"`+strings.Repeat("x", n)+`"}]`, "")
		if err != nil {
			t.Fatal(err)
		}
		m := req.call.Messages
		if got := m[len(m)-1].Parts[0]; got.Kind != stoa.PartResult || len(got.Result.Content) != n {
			t.Errorf("%d characters become %d", n, len(got.Result.Content))
		}
	}
}

// TestLongCallIDsAreTaken has a conversation of another client, whose ids of calls are
// longer than any vendor takes: they are mapped on the way to the vendor.
func TestLongCallIDsAreTaken(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("x", 512)
	body := `{"model":"m","tools":[{"type":"function","name":"f"}],"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"` + id +
		`","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"` + id + `","output":"1"}]}`
	if _, err := Parse([]byte(body), Options{Tools: true}); err != nil {
		t.Error(err)
	}
}
