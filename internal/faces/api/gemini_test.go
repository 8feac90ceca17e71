package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/faces/api"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
	"stoa/internal/testkit/storetest"
)

var geminiForms = []string{":generateContent", ":streamGenerateContent?alt=sse", ":streamGenerateContent"}

func geminiPath(model, form string) string { return "/api/v1/models/" + model + form }

// prompting is a call of Gemini's API with one text.
func prompting(text string, more body) body {
	return with(body{"contents": []body{{"role": "user", "parts": []body{{"text": text}}}}}, more)
}

// A generated is a reply of Gemini's API: all objects of a stream together.
type generated struct {
	text, thoughts, reason, model, id string
	parts                             []body // without thoughts, as a client sends them back
	calls                             []body
	usage                             body
	last                              body
}

func generatedOf(t *testing.T, r *apitest.Reply) (g generated) {
	t.Helper()
	all := []body{}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") && r.Body[0] == '[' {
		r.JSON(&all)
	} else {
		all = objects(t, r)
	}
	for _, v := range all {
		g.last = v
		if id, ok := v["responseId"].(string); ok {
			g.id, g.model = id, v["modelVersion"].(string)
		}
		if u, ok := v["usageMetadata"].(body); ok {
			g.usage = u
		}
		candidates, _ := v["candidates"].([]any)
		if len(candidates) == 0 {
			continue
		}
		c := candidates[0].(body)
		if reason, ok := c["finishReason"].(string); ok {
			g.reason = reason
		}
		content, _ := c["content"].(body)
		parts, _ := content["parts"].([]any)
		for _, p := range parts {
			part := p.(body)
			text, _ := part["text"].(string)
			if part["thought"] == true {
				g.thoughts += text
				continue
			}
			g.text += text
			g.parts = append(g.parts, part)
			if call, ok := part["functionCall"].(body); ok {
				g.calls = append(g.calls, call)
			}
		}
	}
	return g
}

func TestGeminiAnswersAndReplays(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	calls := 0
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
		for _, form := range geminiForms[:2] {
			c := h.Client(t).With("Idempotency-Key", model)
			path := geminiPath(model, form)
			first, again := c.Want(200, "POST", path, prompting("say: a b c ü", nil)), c.Want(200, "POST", path, prompting("say: a b c ü", nil))
			calls++
			one, two := generatedOf(t, first), generatedOf(t, again)
			if one.text != "a b c ü" || one.reason != "STOP" || one.model != model || one.usage["totalTokenCount"] == nil {
				t.Errorf("%s%s: %s", model, form, first.Body)
			}
			if again.Header.Get("Idempotency-Replayed") != "true" || two.text != one.text || two.id != one.id || fmt.Sprint(two.usage) != fmt.Sprint(one.usage) {
				t.Errorf("%s%s is replayed as %s, was %s", model, form, again.Body, first.Body)
			}
			var r contract.Receipt
			h.Client(t).Want(200, "GET", "/api/v1/receipts/"+one.id, nil).JSON(&r)
		}
		// Without alt=sse a stream is an array; its stored reply is that of the events.
		r := h.Client(t).With("Idempotency-Key", model).Want(200, "POST", geminiPath(model, geminiForms[2]), prompting("say: a b c ü", nil))
		if got := generatedOf(t, r); got.text != "a b c ü" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s as an array: %s", model, r.Body)
		}
	}
	if got := generatedOf(t, h.Client(t).Want(200, "POST", geminiPath("auto", geminiForms[2]), prompting("say: a b", nil))); got.text != "a b" {
		t.Errorf("an array: %+v", got)
	}
	if n := len(f.Served()); n != calls+1 {
		t.Errorf("%d calls reached the vendor, want %d", n, calls+1)
	}
	if n := len(receipts(t, h)); n != calls+1 {
		t.Errorf("%d receipts", n)
	}
	quiet(t, h)
}

func TestGeminiIsLikeResponses(t *testing.T) {
	t.Parallel()
	// What the vendor gets is the same to the byte.
	schema := body{"type": "object", "properties": body{"b": body{"type": "integer"}}}
	own := body{"type": "OBJECT", "properties": body{"b": body{"type": "INTEGER"}}}
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
		h, f := vendors(t, apitest.Config{})
		c := h.Client(t)
		c.Want(200, "POST", responses, body{
			"model": model, "stream": true, "max_output_tokens": 1000, "temperature": 0.5,
			"tools": []body{{"type": "function", "name": "f", "description": "d", "parameters": schema}, {"type": "function", "name": "g", "parameters": schema}},
			"input": []body{
				{"role": "system", "content": "Be brief."},
				{"role": "user", "content": "Hi"},
				{"role": "assistant", "content": "Well."},
				{"type": "function_call", "call_id": "gemini_call_0", "name": "f", "arguments": `{"a":2,"b":1}`},
				{"type": "function_call", "call_id": "gemini_call_1", "name": "g", "arguments": `{}`},
				{"type": "function_call_output", "call_id": "gemini_call_0", "output": "one"},
				{"type": "function_call_output", "call_id": "gemini_call_1", "output": `{"result":"two"}`},
				{"role": "user", "content": "say: x"},
			},
		})
		c.Want(200, "POST", geminiPath(model, geminiForms[1]), body{
			"systemInstruction": body{"parts": []body{{"text": "Be brief."}}},
			"generationConfig":  body{"maxOutputTokens": 1000, "temperature": 0.5},
			"tools":             []body{{"functionDeclarations": []body{{"name": "f", "description": "d", "parameters": own}, {"name": "g", "parametersJsonSchema": schema}}}},
			"contents": []body{
				{"role": "user", "parts": []body{{"text": "Hi"}}},
				{"role": "model", "parts": []body{{"text": "Well."}, {"functionCall": body{"name": "f", "args": body{"a": 2, "b": 1}}}, {"functionCall": body{"name": "g"}}}},
				{"role": "user", "parts": []body{{"functionResponse": body{"name": "f", "response": body{"output": "one"}}}, {"functionResponse": body{"name": "g", "response": body{"result": "two"}}}, {"text": "say: x"}}},
			},
		})
		if served := f.Served(); len(served) != 2 || string(served[1].Body) != string(served[0].Body) {
			t.Errorf("%s: got\n%s, want\n%s", model, served[len(served)-1].Body, served[0].Body)
		}
	}
}

// TestGeminiRunsTools makes a loop: thoughts, two calls, their results, a text.
func TestGeminiRunsTools(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	tools := body{
		"tools":            []body{{"functionDeclarations": []body{{"name": "f"}, {"name": "g"}}}, {"googleSearch": body{}}},
		"generationConfig": body{"thinkingConfig": body{"includeThoughts": true, "thinkingLevel": "HIGH"}, "maxOutputTokens": 20_000},
	}
	for _, model := range []string{"alpha-sonnet-5-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
		for _, form := range geminiForms {
			user := body{"role": "user", "parts": []body{{"text": "think: 60\ncall: f {\"a\":[1,\"x\"]}\ncall: g {}\nsay: done"}}}
			path := geminiPath(model, form)
			first := generatedOf(t, h.Client(t).Want(200, "POST", path, with(body{"contents": []body{user}}, tools)))
			if len(first.calls) != 2 || fmt.Sprint(first.calls[0]["args"]) != "map[a:[1 x]]" || first.calls[0]["id"] == first.calls[1]["id"] || first.reason != "STOP" {
				t.Fatalf("%s%s calls %v, %s", model, form, first.calls, first.reason)
			}
			results := []body{}
			for _, call := range first.calls {
				results = append(results, body{"functionResponse": body{"id": call["id"], "name": call["name"], "response": body{"output": "ok"}}})
			}
			second := h.Client(t).Want(200, "POST", path, with(body{"contents": []body{user, {"role": "model", "parts": first.parts}, {"role": "user", "parts": results}}}, tools))
			if got := generatedOf(t, second); got.text != "done" {
				t.Errorf("%s%s: %s", model, form, second.Body)
			}
			all := receipts(t, h)
			if names := all[0].Adjustments.Names(); strings.Join(names, ",") != "tools_left_out" {
				t.Errorf("%s%s: the receipt has %v", model, form, names)
			}
			if first.usage["thoughtsTokenCount"] == nil {
				t.Errorf("%s%s: the usage is %v", model, form, first.usage)
			}
			if !strings.Contains(fmt.Sprint(first.parts), "thoughtSignature") {
				t.Errorf("%s%s: not signed: %v", model, form, first.parts)
			}
		}
	}
	quiet(t, h)
}

// TestGeminiTakesACopiedSignature: Google's ADK for JavaScript (2.0) makes two steps of two calls that come in two chunks, and
// gives the signature of the first to the second.
func TestGeminiTakesACopiedSignature(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	tools := body{"tools": []body{{"functionDeclarations": []body{{"name": "f"}, {"name": "g"}}}}}
	for _, model := range []string{"alpha-sonnet-5-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
		path, contents := geminiPath(model, geminiForms[0]), []body{{"role": "user", "parts": []body{{"text": "think: 60\ncall: f {}\ncall: g {}\nsay: done"}}}}
		var signature any
		for _, p := range generatedOf(t, h.Client(t).Want(200, "POST", path, with(body{"contents": contents}, tools))).parts {
			if signature == nil {
				signature = p["thoughtSignature"]
			}
			if call, ok := p["functionCall"].(body); ok {
				p["thoughtSignature"] = signature
				result := body{"functionResponse": body{"id": call["id"], "name": call["name"], "response": body{"output": "ok"}}}
				contents = append(contents, body{"role": "model", "parts": []body{p}}, body{"role": "user", "parts": []body{result}})
			}
		}
		if got := generatedOf(t, h.Client(t).Want(200, "POST", path, with(body{"contents": contents}, tools))); signature == nil || got.text != "done" {
			t.Errorf("%s, with %v: %q", model, signature, got.text)
		}
	}
}

func TestGeminiSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, form := range geminiForms[:2] {
		h, f := vendors(t, apitest.Config{})
		c := h.Client(t)
		const input = "fault: hang-body after 3\ntokens: 10"
		path := geminiPath("alpha-haiku-4-5", form)
		stream := strings.HasPrefix(form, ":stream")
		disconnectFrom(t, h, f, path, "hangs", prompting(input, body{"stream": stream}))
		c.With("Idempotency-Key", "hangs").WantError(stoa.CodeIdempotencyRunning, "POST", path, prompting(input, body{"stream": stream}))
		for text, code := range map[string]stoa.Code{"fail: 529": stoa.CodeOverloaded, "fail: 500": stoa.CodeUpstream} {
			c.WantError(code, "POST", path, prompting(text, nil))
		}
		c.WantError(stoa.CodeModelNotFound, "POST", geminiPath("nope", form), prompting("x", nil))
		c.WantError(stoa.CodeInvalidJSON, "POST", path, "{")
		c.WantError(stoa.CodeInvalidJSON, "POST", path, "[]")
		c.WantError(stoa.CodeMissingParameter, "POST", path, body{})
		for member, call := range map[string]body{
			"generationConfig.temperature":                             prompting("x", body{"generationConfig": body{"temperature": 9}}),
			"generationConfig.stopSequences[0]":                        prompting("x", body{"generationConfig": body{"stopSequences": []any{""}}}),
			"cachedContent":                                            prompting("x", body{"cachedContent": "cachedContents/1"}),
			"tools[0].functionDeclarations[0].name":                    prompting("x", body{"tools": []body{{"functionDeclarations": []body{{"name": "a.b"}}}}}),
			"contents[0].parts[0].inlineData.data":                     {"contents": []body{{"parts": []body{{"inlineData": body{"mimeType": "image/png", "data": "AA=="}}}}}},
			"contents[0].parts[0].functionCall":                        {"contents": []body{{"role": "model", "parts": []body{{"functionCall": body{"name": "f"}}}}, {"parts": []body{{"text": "x"}}}}, "tools": []body{{"functionDeclarations": []body{{"name": "f"}}}}},
			"toolConfig.functionCallingConfig.allowedFunctionNames[0]": prompting("x", body{"tools": []body{{"functionDeclarations": []body{{"name": "f"}}}}, "toolConfig": body{"functionCallingConfig": body{"mode": "ANY", "allowedFunctionNames": []string{"h"}}}}),
			"generationConfig.thinkingConfig.thinkingLevel":            prompting("x", body{"generationConfig": body{"thinkingConfig": body{"thinkingLevel": "ALL"}}}),
		} {
			r := c.Want(400, "POST", path, call)
			if e := r.Error(); e.Param == nil || *e.Param != member || !strings.HasPrefix(e.Message, member+": ") || e.Type != "INVALID_ARGUMENT" {
				t.Errorf("%s: %s", member, r.Body)
			}
		}
		claimed := c.With("Idempotency-Key", "k")
		claimed.Want(200, "POST", path, prompting("say: x", nil))
		claimed.WantError(stoa.CodeIdempotencyReused, "POST", path, prompting("say: y", nil))
		var poor contract.AccountWithKey
		c.Want(201, "POST", "/api/v1/accounts", body{"name": "poor"}).JSON(&poor)
		h.ClientWith(t, poor.Key.Secret).WantError(stoa.CodeQuota, "POST", path, prompting("x", nil))
		if n := len(receipts(t, h)); n != 1 {
			t.Errorf("%d receipts, want that of the one reply", n)
		}
		h.Server.Stop() // it hangs for ever otherwise
		f.WaitEnded(t, 1)
	}
}

// TestGeminiEndsStreamsThatFail: both forms of a stream end with an error, and are free.
func TestGeminiEndsStreamsThatFail(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	for _, form := range geminiForms[1:] {
		r := h.Client(t).Want(200, "POST", geminiPath("alpha-haiku-4-5", form), prompting("tokens: 20\nfail: 500 after 3", nil))
		g := generatedOf(t, r)
		e, _ := g.last["error"].(body)
		if g.text == "" || e == nil || e["code"] != 500.0 || e["status"] != "INTERNAL" {
			t.Errorf("%s ends with %v", form, g.last)
		}
	}
	if n := len(receipts(t, h)); n != 0 {
		t.Errorf("%d receipts", n)
	}
}

func TestGeminiLeavesOutACallThatALimitCut(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	for _, model := range []string{"alpha-haiku-4-5", "gamma-6-luna", "delta-v4-flash"} {
		for _, form := range geminiForms {
			c := h.Client(t).With("Idempotency-Key", "cut")
			call := prompting("call: f {\"a\":1}\ncall: g {\"long\":\"value\"}\ncut-call: 6", body{"tools": []body{{"functionDeclarations": []body{{"name": "f"}, {"name": "g"}}}}})
			for range 2 {
				g := generatedOf(t, c.Want(200, "POST", geminiPath(model, form), call))
				if len(g.calls) != 1 || g.reason != "MAX_TOKENS" {
					t.Errorf("%s%s: %v, %s", model, form, g.calls, g.reason)
				}
			}
		}
	}
}

// TestGeminiKeepsConnectionsOpen: empty lines between events, and white space in an array.
func TestGeminiKeepsConnectionsOpen(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{Server: func(s *api.Server) { s.Calls.HeaderWait, s.Calls.KeepAlive = 20*time.Millisecond, 20*time.Millisecond }})
	tools := body{"tools": []body{{"functionDeclarations": []body{{"name": "f"}}}}}
	for form, silence := range map[string]string{geminiForms[1]: "\n\n\n", geminiForms[2]: "[\n"} {
		for _, text := range []string{"wait: 200ms\nsay: late", "slow: 100ms\ncall: f {\"a\":\"some long text that comes in pieces\"}"} {
			r := h.Client(t).Want(200, "POST", geminiPath("alpha-haiku-4-5", form), prompting(text, tools))
			if g := generatedOf(t, r); !strings.Contains("\n"+string(r.Body), silence) || g.reason != "STOP" {
				t.Errorf("%s: %q", form, r.Body)
			}
		}
	}
}

// TestGeminiJoinsTheChunksOfAChat has a history as Google's libraries for JavaScript and Go send it after a streamed reply:
// each chunk is a content of the model.
func TestGeminiJoinsTheChunksOfAChat(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	says := func(role string, parts ...body) body { return body{"role": role, "parts": parts} }
	text := func(s string) body { return body{"text": s} }
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
		h.Client(t).Want(200, "POST", geminiPath(model, geminiForms[0]), body{
			"contents": []body{
				says("user", text("one")), says("model", text("Hel")), says("model", text("lo, "), text("you")), says("model", text("")),
				says("user", text("two"), text("three")), says("model", text("I ")), says("model", text("look.")),
				says("model", body{"functionCall": body{"name": "f", "args": body{}}}), says("user", body{"functionResponse": body{"name": "f", "response": body{"output": "x"}}}),
				says("model", text("It")), says("model", text(" is x.")), says("user", text("say: fine")),
			},
			"tools": []body{{"functionDeclarations": []body{{"name": "f"}}}},
		})
		served := f.Served()
		sent := string(served[len(served)-1].Body)
		for _, want := range []string{`"Hello, you"`, `"I look."`, `"It is x."`} {
			if strings.Count(sent, want) != 1 || strings.Contains(sent, `"twothree"`) {
				t.Errorf("%s: not one %s in %s", model, want, sent)
			}
		}
	}
}

func TestGeminiNamesWhatItIgnores(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	h.Client(t).Want(200, "POST", geminiPath("beta-3.8-flash", geminiForms[0]), prompting("say: x", body{
		"generationConfig": body{"seed": 7, "presencePenalty": 0.5}, "labels": body{"a": "b"}, "safetySettings": []body{{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}},
	}))
	var r contract.Receipt
	h.Client(t).Want(200, "GET", "/api/v1/receipts/"+receipt(t, h).ID, nil).JSON(&r)
	if got := strings.Join(r.Ignored, " "); got != "generationConfig.presencePenalty generationConfig.seed labels safetySettings" {
		t.Errorf("ignored are %s", got)
	}
}

func TestGeminiTakesASchema(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	for model, want := range map[string]string{"alpha-haiku-4-5": `"output_config"`, "beta-3.8-flash": `"responseJsonSchema"`, "gamma-6.1-sol": `"json_schema"`} {
		h.Client(t).Want(200, "POST", geminiPath(model, geminiForms[0]), prompting("say: {\"city\":\"Oslo\"}", body{"generationConfig": body{
			"responseMimeType": "application/json",
			"responseSchema":   body{"type": "OBJECT", "properties": body{"city": body{"type": "STRING"}, "more": body{"type": "STRING", "nullable": true}}, "required": []string{"city"}},
		}}))
		served := f.Served()
		if sent := string(served[len(served)-1].Body); !strings.Contains(sent, want) || strings.Contains(sent, "OBJECT") {
			t.Errorf("%s: sent %s", model, sent)
		}
	}
}

// TestGeminiTakesTheKeyOfItsClients: never in the address, and nothing of it is kept.
func TestGeminiTakesTheKeyOfItsClients(t *testing.T) {
	t.Parallel()
	logs, logger := capture()
	h := start(t, apitest.Config{Logger: logger})
	for _, prefix := range []string{"/api/v1", "/api/v1beta"} {
		c := h.ClientWith(t, "").With("x-goog-api-key", h.Key)
		for _, form := range geminiForms {
			c.Want(200, "POST", prefix+"/models/auto"+form, prompting("say: x", nil))
		}
		c.Want(200, "POST", prefix+"/models/auto:countTokens", prompting("say: x", nil))
		c.Want(200, "GET", prefix+"/models", nil)
		c.With("x-goog-api-key", "sk_wrong").WantError(stoa.CodeUnauthorized, "POST", prefix+"/models/auto:countTokens", prompting("x", nil))
		for _, path := range []string{prefix + "/models/auto:generateContent?key=" + h.Key, prefix + "/models/auto:streamGenerateContent?alt=sse&key=" + h.Key} {
			if e := h.ClientWith(t, "").WantError(stoa.CodeUnauthorized, "POST", path, prompting("x", nil)); !strings.Contains(e.Message, "x-goog-api-key") || strings.Contains(e.Message, h.Key) {
				t.Errorf("%s", e.Message)
			}
		}
	}
	h.ClientWith(t, "").With("x-goog-api-key", h.Key).WantError(stoa.CodeUnauthorized, "GET", "/api/v1/users/me", nil)
	if text := logs.text(); strings.Contains(text, h.Key) || !strings.Contains(text, "/api/v1beta/models/auto:generateContent") {
		t.Errorf("the log is %s", text)
	}
}

func TestGeminiCountsAndLists(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	count := func(model string, call body) (n struct{ TotalTokens int64 }) {
		c.Want(200, "POST", geminiPath(model, ":countTokens"), call).JSON(&n)
		return n
	}
	call := prompting("Hi", body{"systemInstruction": body{"parts": []body{{"text": "Be brief."}}}})
	got := count("alpha-haiku-4-5", call)
	if asked := f.Served()[0]; got.TotalTokens != fakeup.Count(len(asked.Body)) || !strings.Contains(string(asked.Body), "Be brief.") {
		t.Errorf("counted %d, the vendor was asked %s", got.TotalTokens, asked.Body)
	}
	count("alpha-haiku-4-5", body{"generateContentRequest": call})
	if asked := f.Served()[1]; !strings.Contains(string(asked.Body), "Be brief.") {
		t.Errorf("of a whole call the vendor was asked %s", asked.Body)
	}
	if got := count("delta-v4-flash", call); got.TotalTokens < 1 || len(f.Served()) != 2 { // its vendor does not count
		t.Errorf("estimated %d", got.TotalTokens)
	}
	c.WantError(stoa.CodeModelNotFound, "POST", geminiPath("nope", ":countTokens"), call)
	var poor contract.AccountWithKey
	c.Want(201, "POST", "/api/v1/accounts", body{"name": "poor"}).JSON(&poor)
	h.ClientWith(t, poor.Key.Secret).WantError(stoa.CodeQuota, "POST", geminiPath("delta-v4-flash", ":countTokens"), body{"contents": []body{{"parts": []body{
		{"inlineData": body{"mimeType": "text/html", "data": "PGI+eDwvYj4="}},
	}}}})
	if n := len(receipts(t, h)); n != 0 {
		t.Errorf("counting was charged %d times", n)
	}

	var list contract.GeminiModelList
	c.Want(200, "GET", "/api/v1beta/models?pageSize=50", nil).JSON(&list)
	if len(list.Models) < 5 || list.Models[0].Name != "models/auto" || list.Models[1].InputTokenLimit == 0 {
		t.Errorf("the models are %+v", list)
	}
	var one contract.GeminiModelInfo
	c.With("x-goog-api-key", h.Key).Want(200, "GET", "/api/v1/models/beta-3.8-flash", nil).JSON(&one)
	if one.Name != "models/beta-3.8-flash" {
		t.Errorf("the model is %+v", one)
	}
	for _, path := range []string{"/api/v1beta/models/nope", "/api/v1beta/keys"} {
		if status, reply := plainly(t, h, "GET", path, ""); status != 404 || !strings.Contains(reply, `"status":"NOT_FOUND"`) {
			t.Errorf("%s: %d %s", path, status, reply)
		}
	}
	if r := c.Want(405, "POST", "/api/v1/models/auto", body{}); r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow is %s", r.Header.Get("Allow"))
	}
}

func TestGeminiHasTimeoutsAndFollowsTheDisk(t *testing.T) {
	t.Parallel()
	slow := fakeup.Start(t).Provider("messages")
	slow.Timeouts.FirstByte = 50 * time.Millisecond
	h := start(t, apitest.Config{Providers: []stoa.Provider{slow}, Families: map[string][]stoa.Route{"alpha": {{Provider: "messages"}}}})
	for _, form := range geminiForms[:2] {
		h.Client(t).WantError(stoa.CodeUpstreamTimeout, "POST", geminiPath("alpha-haiku-4-5", form), prompting("fault: hang", nil))
	}
	storetest.OnlySQLite(t) // it limits the pages
	if err := h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Get(t.Context(), "PRAGMA max_page_count = 1", nil, new(int))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	_ = h.Store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Setup().InsertSpace(t.Context(), stoa.Space{AccountID: h.Account.ID, Description: strings.Repeat("x", 100_000)})
		return err
	})
	for _, form := range geminiForms[:2] {
		h.Client(t).WantError(stoa.CodeStorageFull, "POST", geminiPath("alpha-haiku-4-5", form), prompting("hi", nil))
	}
}

// TestGeminiSaysWhatWasBlocked: without a part, clients look for promptFeedback.
func TestGeminiSaysWhatWasBlocked(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	for _, form := range geminiForms {
		for text, want := range map[string]string{"stop: content_filter\nsay:": `"promptFeedback":{"blockReason":"SAFETY"}`, "stop: content_filter\nsay: a b c": `"finishReason":"SAFETY"`} {
			r := h.Client(t).Want(200, "POST", geminiPath("beta-3.8-flash", form), prompting(text, nil))
			if !strings.Contains(string(r.Body), want) || strings.Contains(string(r.Body), "promptFeedback") != strings.Contains(want, "promptFeedback") {
				t.Errorf("%s: %s", form, r.Body)
			}
		}
	}
}

func TestGeminiIsOffWithoutItsSwitch(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Version1: true})
	for _, path := range []string{geminiPath("auto", geminiForms[0]), "/api/v1beta/models/auto:streamGenerateContent?alt=sse", "/api/v1beta/models/auto:countTokens"} {
		text, _ := json.Marshal(prompting("x", nil))
		if status, reply := plainly(t, h, "POST", path, string(text)); status != 400 || !strings.HasPrefix(reply, `{"error":{"code":400,"message":"This format is switched off: the operator can enable the extension \"gemini\"`) {
			t.Errorf("%s answers %d %s", path, status, reply)
		}
	}
	if status, reply := plainly(t, h, "GET", "/api/v1beta/models", ""); status != 404 || !strings.Contains(reply, "gemini") {
		t.Errorf("%d %s", status, reply)
	}
	// The pages answer a client whose base URL lacks /api.
	full := start(t, apitest.Config{})
	req, err := http.NewRequestWithContext(t.Context(), "POST", full.URL+"/v1beta/models/auto:generateContent", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != 404 || !strings.Contains(string(text), "followed by /api") {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

func TestGeminiNamesAnOperationThatIsNotOffered(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	for _, prefix := range []string{"/api/v1", "/api/v1beta"} {
		status, reply := plainly(t, h, "POST", prefix+"/models/beta-3.8-flash:embedContent", `{"content":{"parts":[{"text":"x"}]}}`)
		if status != 405 || !strings.Contains(reply, `The operation \"embedContent\" of models is not offered; generateContent,`) {
			t.Errorf("%s: %d %s", prefix, status, reply)
		}
	}
}
