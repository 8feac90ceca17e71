package api_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/seal"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

// A loop is a conversation in which a model calls the tool f in each round.
type loop struct {
	c     *apitest.Client
	model string
	more  body
	input []json.RawMessage // items, as they were sent and came
}

// round asks for a call of f and appends the reply and the result of the call.
func (l *loop) round(t *testing.T, prompt string) *apitest.Reply {
	t.Helper()
	say, _ := json.Marshal(body{"role": "user", "content": prompt})
	l.input = append(l.input, say)
	r := l.ask()
	var got struct{ Output []json.RawMessage }
	r.JSON(&got)
	l.input = append(l.input, got.Output...)
	for _, raw := range got.Output {
		var it contract.OutputItem
		if err := json.Unmarshal(raw, &it); err != nil {
			t.Fatal(err)
		}
		if it.Type == "function_call" {
			l.input = append(l.input, json.RawMessage(fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"done"}`, it.CallID)))
		}
	}
	return r
}

// ask makes the call as it stands.
func (l *loop) ask() *apitest.Reply {
	return l.c.Want(200, "POST", responses, with(body{"model": l.model, "input": l.input, "tools": []body{{"type": "function", "name": "f"}}}, l.more))
}

// lacking returns the input without the segment of reasoning with that number, counted
// from 1, or without any (0), and how many there were.
func (l *loop) lacking(number int) (input []json.RawMessage, n int) {
	for _, raw := range l.input {
		if strings.Contains(string(raw), `"type":"reasoning"`) {
			if n++; number == 0 || n == number {
				continue
			}
		}
		input = append(input, raw)
	}
	return input, n
}

func lastBody(f *fakeup.Server) string {
	served := f.Served()
	return string(served[len(served)-1].Body)
}

const thinkAndCall = "think: 60\ncall: f {\"a\":1}"

func TestALoopGoesOnWithoutItsReasoning(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	for model, want := range map[string]struct{ has, lacks string }{
		"alpha-sonnet-5-5": {`"tool_use"`, `"signature"`},
		"alpha-haiku-4-5":  {`"tool_use"`, `"thinking"`},
		"beta-3.8-flash":   {`"thoughtSignature":"skip_thought_signature_validator"`, `"thoughtSignature":"Y`},
		"gamma-6-luna":     {`"function_call_output"`, `"type":"reasoning"`},
		"delta-v4-flash":   {`"reasoning_content":""`, `hm, `},
	} {
		l := &loop{c: h.Client(t), model: model}
		l.round(t, thinkAndCall)
		l.ask()
		if whole := lastBody(f); model != "alpha-haiku-4-5" && strings.Contains(whole, want.has) && !strings.Contains(whole, want.lacks) {
			t.Errorf("%s: with its reasoning the vendor was sent %s", model, whole)
		}
		l.input, _ = l.lacking(0)
		l.ask()
		if sent := lastBody(f); !strings.Contains(sent, want.has) || strings.Contains(sent, want.lacks) {
			t.Errorf("%s: the vendor was sent %s", model, sent)
		}
	}
	quiet(t, h)
}

func TestReasoningBeforeAGapStaysBehind(t *testing.T) {
	t.Parallel()
	for dropped, want := range map[int]int{4: 3, 1: 2, 2: 1, 3: 2} {
		h, f := vendors(t, apitest.Config{})
		l := &loop{c: h.Client(t), model: "alpha-sonnet-5-5"}
		for range 3 {
			l.round(t, thinkAndCall)
		}
		kept, n := l.lacking(dropped)
		if n != 3 {
			t.Fatalf("%d items of reasoning came", n)
		}
		l.input = kept
		r := l.ask()
		if got := strings.Count(lastBody(f), `"signature":`); got != want {
			t.Errorf("without the segment %d the vendor was sent %d, want %d", dropped, got, want)
		}
		left := strings.Contains(adjustmentsOf(t, l.c, r), "reasoning_left_out")
		if left != (dropped == 2) {
			t.Errorf("without the segment %d the receipt says that some was left out: %v", dropped, left)
		}
	}
}

func TestReasoningIsNeitherShownNorLogged(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	h, f := vendorsAsking(t, apitest.Config{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, "always")
	for _, model := range []string{"alpha-sonnet-5-5", "beta-3.8-flash", "gamma-6-luna", "delta-v4-flash"} {
		for _, summary := range []bool{false, true} {
			l := &loop{c: h.Client(t), model: model}
			if summary {
				l.more = body{"reasoning": body{"summary": "auto"}}
			}
			shown := 0
			for range 2 {
				shown += strings.Count(string(l.round(t, thinkAndCall).Body), "hm, ")
			}
			if sealed := strings.Count(fmt.Sprintf("%s", l.input), `"encrypted_content":"stoa1.`); sealed != 2 {
				t.Errorf("%s: %d states were sealed", model, sealed)
			}
			if summarizes := summary && model != "delta-v4-flash" && model != "beta-3.8-flash"; (shown > 0) != summarizes { // not streamed, the fake of beta has no stream
				t.Errorf("%s, summary %v: reasoning is shown %d times", model, summary, shown)
			}
			l.ask()
			if strings.Contains(lastBody(f), "stoa1.") {
				t.Errorf("%s was sent a sealed state", model)
			}
		}
	}
	if text := log.text(); strings.Contains(text, "stoa1.") || strings.Contains(text, "hm, ") {
		t.Errorf("the log has reasoning: %s", text)
	}
}

func TestSealedReasoningIsEstimatedByItsTokens(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	box, err := seal.New([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	sealed := box.Seal(h.Account.ID, stoa.State{Wire: "chat", Model: "deepseek-v4-flash", Data: strings.Repeat("x", 1<<20-100), Tokens: 500})
	if sealed == "" {
		t.Fatal("it was not sealed")
	}
	var got struct {
		Tokens int64 `json:"input_tokens"`
	}
	h.Client(t).Want(200, "POST", countTokens, body{"model": "delta-v4-flash", "tools": []body{{"type": "function", "name": "f"}}, "input": []body{
		{"role": "user", "content": "Hi"},
		{"type": "reasoning", "summary": []body{}, "encrypted_content": sealed},
		{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
		{"type": "function_call_output", "call_id": "c", "output": "x"},
	}}).JSON(&got)
	if got.Tokens < 1000 || got.Tokens > 1100 { // 500 and 16 for the state, and 516 for the tool
		t.Errorf("it is estimated as %d tokens", got.Tokens)
	}
}

func TestOtherFormatsRunToolsAlike(t *testing.T) {
	t.Parallel()
	// What the vendor gets of a conversation with tools is the same to the byte too.
	schema := body{"type": "object", "properties": body{"b": body{"type": "integer"}}}
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
		h, f := vendors(t, apitest.Config{})
		c := h.Client(t)
		common := body{"model": model, "stream": true}
		c.Want(200, "POST", responses, with(body{
			"max_output_tokens": 1000, "tool_choice": "auto", "parallel_tool_calls": false,
			"tools": []body{{"type": "function", "name": "f", "description": "d", "parameters": schema}, {"type": "function", "name": "g", "parameters": schema}},
			"input": []body{
				{"role": "system", "content": "Be brief."},
				{"role": "user", "content": "Hi"},
				{"role": "assistant", "content": "Well."},
				{"type": "function_call", "call_id": "toolu_1", "name": "f", "arguments": `{"b":1,"a":2}`},
				{"type": "function_call", "call_id": "toolu_2", "name": "g", "arguments": `{}`},
				{"type": "function_call_output", "call_id": "toolu_1", "output": "one"},
				{"type": "function_call_output", "call_id": "toolu_2", "output": []body{{"type": "input_text", "text": "two"}}},
				{"role": "user", "content": "say: x"},
			},
		}, common))
		function := func(id, name, arguments string) body {
			return body{"id": id, "type": "function", "function": body{"name": name, "arguments": arguments}}
		}
		c.Want(200, "POST", "/api/v1/chat/completions", with(body{
			"max_completion_tokens": 1000, "tool_choice": "auto", "parallel_tool_calls": false,
			"tools": []body{{"type": "function", "function": body{"name": "f", "description": "d", "parameters": schema}}, {"type": "function", "function": body{"name": "g", "parameters": schema}}},
			"messages": []body{
				{"role": "system", "content": "Be brief."},
				{"role": "user", "content": "Hi"},
				{"role": "assistant", "content": "Well.", "tool_calls": []body{function("toolu_1", "f", `{"b":1,"a":2}`), function("toolu_2", "g", `{}`)}},
				{"role": "tool", "tool_call_id": "toolu_1", "content": "one"},
				{"role": "tool", "tool_call_id": "toolu_2", "content": []body{{"type": "text", "text": "two"}}},
				{"role": "user", "content": "say: x"},
			},
		}, common))
		c.Want(200, "POST", "/api/v1/messages", with(body{
			"max_tokens": 1000, "tool_choice": body{"type": "auto", "disable_parallel_tool_use": true}, "system": "Be brief.",
			"tools": []body{{"name": "f", "description": "d", "input_schema": schema}, {"name": "g", "input_schema": schema}},
			"messages": []body{
				{"role": "user", "content": "Hi"},
				{"role": "assistant", "content": []body{
					{"type": "text", "text": "Well."},
					{"type": "tool_use", "id": "toolu_1", "name": "f", "input": json.RawMessage(`{"b": 1, "a": 2}`)},
					{"type": "tool_use", "id": "toolu_2", "name": "g", "input": body{}},
				}},
				{"role": "user", "content": []body{
					{"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"},
					{"type": "tool_result", "tool_use_id": "toolu_2", "content": []body{{"type": "text", "text": "two"}}},
					{"type": "text", "text": "say: x"},
				}},
			},
		}, common))
		served := f.Served()
		if len(served) != 3 {
			t.Fatalf("%d calls", len(served))
		}
		for _, s := range served[1:] {
			if string(s.Body) != string(served[0].Body) {
				t.Errorf("%s: got\n%s, want\n%s", model, s.Body, served[0].Body)
			}
		}
	}
}

func TestAddressesStayFromCompatibleServers(t *testing.T) {
	t.Parallel()
	f := fakeup.Start(t)
	h := start(t, apitest.Config{
		Providers: []stoa.Provider{f.Provider("compatible")},
		Families:  map[string][]stoa.Route{"alpha": {{Provider: "compatible", Model: "llava", Override: &stoa.Traits{Vision: true, PDF: true}}}},
	})
	c := h.Client(t)
	const image, file = "https://example.com/a.png", "https://example.com/a.pdf"
	for _, tc := range []struct {
		path, param string
		call        body
	}{
		{responses, "input[0].content[1].image_url", seen("alpha-haiku-4-5", body{"type": "input_image", "image_url": image})},
		{responses, "input[0].content[1].file_url", seen("alpha-haiku-4-5", body{"type": "input_file", "file_url": file})},
		{"/api/v1/chat/completions", "messages[0].content[0].image_url.url", body{"model": "alpha-haiku-4-5", "messages": []body{
			{"role": "user", "content": []body{{"type": "image_url", "image_url": body{"url": image}}}},
		}}},
		{"/api/v1/messages", "messages[0].content[0].source", body{"model": "alpha-haiku-4-5", "max_tokens": 9, "messages": []body{
			{"role": "user", "content": []body{{"type": "image", "source": body{"type": "url", "url": image}}}},
		}}},
	} {
		if e := c.WantError(stoa.CodeUnsupportedValue, "POST", tc.path, tc.call); e.Param == nil || *e.Param != tc.param {
			t.Errorf("%s: %+v, want the param %s", tc.path, e, tc.param)
		}
	}
	if n := len(f.Served()); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
	c.Want(200, "POST", responses, seen("alpha-haiku-4-5", body{"type": "input_image", "image_url": picture(t)}))
	quiet(t, h)
}

func TestACutFormatIsIncomplete(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{Server: lenient})
	for _, model := range allWires {
		var r contract.Response
		h.Client(t).Want(200, "POST", responses, body{"model": model, "input": "stop: length\nsay: {\"a\":", "text": body{"format": body{"type": "json_schema", "name": "n", "schema": body{"type": "object"}}}}).JSON(&r)
		if r.Status != contract.ResponseIncomplete || r.OutputText() != `{"a":` {
			t.Errorf("%s: %s with %q", model, r.Status, r.OutputText())
		}
	}
	quiet(t, h)
}
