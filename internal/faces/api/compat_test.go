package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"stoa/internal/base/config"
	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
	"stoa/internal/testkit/storetest"
)

// otherFormats are the operations that call a model in other formats.
var otherFormats = []struct {
	path string
	call func(model, text string, more body) body
	text func(t *testing.T, r *apitest.Reply) string // of a reply, whole or streamed
}{
	{
		"/api/v1/chat/completions",
		func(model, text string, more body) body {
			return with(body{"model": model, "messages": []body{{"role": "user", "content": text}}}, more)
		},
		func(t *testing.T, r *apitest.Reply) (text string) {
			for _, v := range objects(t, r) {
				for _, c := range v["choices"].([]any) {
					of := c.(body)["message"]
					if of == nil {
						of = c.(body)["delta"]
					}
					if s, ok := of.(body)["content"].(string); ok {
						text += s
					}
				}
			}
			return text
		},
	},
	{
		"/api/v1/messages",
		func(model, text string, more body) body {
			return with(body{"model": model, "max_tokens": 1000, "messages": []body{{"role": "user", "content": text}}}, more)
		},
		func(t *testing.T, r *apitest.Reply) (text string) {
			for _, v := range objects(t, r) {
				if list, ok := v["content"].([]any); ok {
					for _, b := range list {
						text += b.(body)["text"].(string)
					}
				}
				if d, ok := v["delta"].(body); ok && d["text"] != nil {
					text += d["text"].(string)
				}
			}
			return text
		},
	},
}

func with(b, more body) body {
	for name, value := range more {
		b[name] = value
	}
	return b
}

// objects returns the object of a whole reply, or those of the events of a stream.
func objects(t *testing.T, r *apitest.Reply) (all []body) {
	t.Helper()
	lines := []string{string(r.Body)}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		lines = nil
		for line := range strings.SplitSeq(string(r.Body), "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]" {
				lines = append(lines, data)
			}
		}
	}
	for _, line := range lines {
		var v body
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, v)
	}
	return all
}

func TestOtherFormatsAnswerAndReplay(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	calls := 0
	for _, format := range otherFormats {
		for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
			for _, stream := range []bool{false, true} {
				c := h.Client(t).With("Idempotency-Key", fmt.Sprint(model, stream))
				call := format.call(model, "say: a b c ü", body{"stream": stream})
				first, again := c.Want(200, "POST", format.path, call), c.Want(200, "POST", format.path, call)
				calls++
				if got := format.text(t, first); got != "a b c ü" {
					t.Errorf("%s %s: the text is %q in %s", format.path, model, got, first.Body)
				}
				if got := format.text(t, again); got != "a b c ü" || again.Header.Get("Idempotency-Replayed") != "true" {
					t.Errorf("%s %s: replayed (%q) is %q", format.path, model, again.Header.Get("Idempotency-Replayed"), got)
				}
				if !stream && string(first.Body) != string(again.Body) {
					t.Errorf("first %s\nagain %s", first.Body, again.Body)
				}
				one, two := objects(t, first), objects(t, again)
				id := func(v body) any {
					if m, ok := v["message"].(body); ok {
						return m["id"]
					}
					return v["id"]
				}
				if id(one[0]) != id(two[0]) || id(one[0]) == nil {
					t.Errorf("%s: the ids are %v and %v", format.path, id(one[0]), id(two[0]))
				}
				usage := func(v body) string { b, _ := json.Marshal(v["usage"]); return string(b) }
				if a, b := usage(one[len(one)-1]), usage(two[len(two)-1]); a != b {
					t.Errorf("%s: the usage is %s, then %s", format.path, a, b)
				}
			}
		}
	}
	if n := len(f.Served()); n != calls {
		t.Errorf("%d calls reached the vendor, want %d", n, calls)
	}
	if n := len(receipts(t, h)); n != calls {
		t.Errorf("%d receipts, want %d", n, calls)
	}
	quiet(t, h)
}

func TestOtherFormatsAreLikeResponses(t *testing.T) {
	t.Parallel()
	// What the vendor gets is the same to the byte, whichever format the caller speaks.
	for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
		h, f := vendors(t, apitest.Config{})
		c := h.Client(t)
		c.Want(200, "POST", responses, body{"model": model, "max_output_tokens": 1000, "temperature": 0.5, "stream": true, "input": []body{
			{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "say: x"},
		}})
		c.Want(200, "POST", "/api/v1/chat/completions", body{"model": model, "max_completion_tokens": 1000, "temperature": 0.5, "stream": true, "messages": []body{
			{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "say: x"},
		}})
		c.Want(200, "POST", "/api/v1/messages", body{"model": model, "max_tokens": 1000, "temperature": 0.5, "stream": true, "system": "Be brief.", "messages": []body{
			{"role": "user", "content": "Hi"}, {"role": "assistant", "content": []body{{"type": "text", "text": "Yes?"}}}, {"role": "user", "content": "say: x"},
		}})
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

func TestOtherFormatsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, format := range otherFormats {
		h, f := vendors(t, apitest.Config{})
		c := h.Client(t)
		// A call under a key runs once.
		const input = "fault: hang-body after 3\ntokens: 10"
		disconnectFrom(t, h, f, format.path, "hangs", format.call("alpha-haiku-4-5", input, body{"stream": true}))
		c.With("Idempotency-Key", "hangs").WantError(stoa.CodeIdempotencyRunning, "POST", format.path, format.call("alpha-haiku-4-5", input, body{"stream": true}))
		for _, tc := range []struct {
			code stoa.Code
			text string
			more body
		}{
			{stoa.CodeOverloaded, "fail: 529", nil},
			{stoa.CodeUpstream, "fail: 500", nil},
			{stoa.CodeModelNotFound, "x", body{"model": "nope"}},
			{stoa.CodeInvalidType, "x", body{"stream": 1}},
			{stoa.CodeMissingParameter, "x", body{"messages": nil}},
		} {
			c.WantError(tc.code, "POST", format.path, format.call("alpha-haiku-4-5", tc.text, tc.more))
		}
		c.WantError(stoa.CodeInvalidJSON, "POST", format.path, "{")
		c.WantError(stoa.CodeInvalidJSON, "POST", format.path, "[]")
		e := c.WantError(stoa.CodeInvalidValue, "POST", format.path, format.call("auto", "x", body{"temperature": 9}))
		if e.Param == nil || *e.Param != "temperature" {
			t.Errorf("%s: the error is %+v", format.path, e)
		}
		claimed := c.With("Idempotency-Key", "k")
		claimed.Want(200, "POST", format.path, format.call("auto", "say: x", nil))
		claimed.WantError(stoa.CodeIdempotencyReused, "POST", format.path, format.call("auto", "say: y", nil))
		var poor contract.AccountWithKey
		c.Want(201, "POST", "/api/v1/accounts", body{"name": "poor"}).JSON(&poor)
		h.ClientWith(t, poor.Key.Secret).WantError(stoa.CodeQuota, "POST", format.path, format.call("auto", "x", nil))
		// A failure after the first text ends the stream, and is free.
		r := c.Want(200, "POST", format.path, format.call("alpha-haiku-4-5", "tokens: 20\nfail: 500 after 3", body{"stream": true}))
		all := objects(t, r)
		if all[len(all)-1]["error"] == nil {
			t.Errorf("%s: the stream ends with %v", format.path, all[len(all)-1])
		}
		if n := len(receipts(t, h)); n != 1 {
			t.Errorf("%s: %d receipts, want that of the one reply", format.path, n)
		}
		h.Server.Stop() // it hangs for ever otherwise
		f.WaitEnded(t, 1)
	}
}

func TestOtherFormatsHaveTimeouts(t *testing.T) {
	t.Parallel()
	slow := fakeup.Start(t).Provider("messages")
	slow.Timeouts.FirstByte = 50 * time.Millisecond
	h := start(t, apitest.Config{Providers: []stoa.Provider{slow}, Families: map[string][]stoa.Route{"alpha": {{Provider: "messages"}}}})
	for _, format := range otherFormats {
		h.Client(t).WantError(stoa.CodeUpstreamTimeout, "POST", format.path, format.call("alpha-haiku-4-5", "fault: hang", nil))
	}
	h.Client(t).WantError(stoa.CodeUpstreamTimeout, "POST", compactPath, body{"model": "alpha-haiku-4-5", "input": "fault: hang\n"})
}

func TestOtherFormatsFollowTheDisk(t *testing.T) {
	t.Parallel()
	storetest.OnlySQLite(t) // it limits the pages
	h := start(t, apitest.Config{})
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
	for _, format := range otherFormats {
		h.Client(t).WantError(stoa.CodeStorageFull, "POST", format.path, format.call("auto", "hi", nil))
	}
	h.Client(t).WantError(stoa.CodeStorageFull, "POST", compactPath, body{"model": "auto", "input": "hi"})
}

func TestMessagesTakesTheKeyOfItsClients(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	c := h.ClientWith(t, "").With("X-Api-Key", h.Key).With("anthropic-version", "2023-06-01")
	c.Want(200, "POST", "/api/v1/messages", otherFormats[1].call("auto", "say: x", nil))
	c.WantError(stoa.CodeUnauthorized, "POST", "/api/v1/chat/completions", otherFormats[0].call("auto", "say: x", nil))
}

func TestAChatStreamEndsWithItsUsage(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{})
	r := h.Client(t).Want(200, "POST", "/api/v1/chat/completions", otherFormats[0].call("auto", "say: x", body{"stream": true, "stream_options": body{"include_usage": true}}))
	all := objects(t, r)
	last := all[len(all)-1]
	if len(last["choices"].([]any)) != 0 || last["usage"].(body)["completion_tokens"].(float64) < 1 {
		t.Errorf("the last chunk is %v", last)
	}
	// All formats are in the request log.
	h.Client(t).Want(200, "POST", "/api/v1/messages", otherFormats[1].call("auto", "say: x", nil))
}

func TestOtherFormatsAreOffWithoutTheirSwitch(t *testing.T) {
	t.Parallel()
	h := start(t, apitest.Config{Version1: true})
	for _, format := range otherFormats {
		text, _ := json.Marshal(format.call("auto", "x", nil))
		if status, reply := plainly(t, h, "POST", format.path, string(text)); status != 400 || !strings.Contains(reply, `"code":"unsupported_parameter"`) {
			t.Errorf("%s answers %d %s", format.path, status, reply)
		}
	}
}

func TestMessagesAreCounted(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	count := func(call body) (n struct {
		Tokens int64 `json:"input_tokens"`
	},
	) {
		c.Want(200, "POST", "/api/v1/messages/count_tokens", call).JSON(&n)
		return n
	}
	call := body{"model": "alpha-haiku-4-5", "system": "Be brief.", "messages": []body{{"role": "user", "content": "Hi"}}}
	got := count(call)
	if asked := f.Served()[0]; got.Tokens != fakeup.Count(len(asked.Body)) || !strings.Contains(string(asked.Body), "Be brief.") {
		t.Errorf("counted %d, the vendor was asked %s", got.Tokens, asked.Body)
	}
	call["model"] = "delta-v4-flash" // its vendor does not count
	if got := count(call); got.Tokens < 1 || len(f.Served()) != 1 {
		t.Errorf("estimated %d, %d calls", got.Tokens, len(f.Served()))
	}
	if n := len(receipts(t, h)); n != 0 {
		t.Errorf("counting was charged %d times", n)
	}
	c.WantError(stoa.CodeModelNotFound, "POST", "/api/v1/messages/count_tokens", body{"model": "nope", "messages": call["messages"]})
	h.ClientWith(t, "").With("X-Api-Key", h.Key).Want(200, "POST", "/api/v1/messages/count_tokens", call)
}

func TestAFailedToolIsToldAsOne(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	tools := []body{{"name": "f", "input_schema": body{"type": "object"}}}
	h.Client(t).Want(200, "POST", "/api/v1/messages", body{"model": "alpha-haiku-4-5", "max_tokens": 100, "tools": tools, "messages": []body{
		{"role": "user", "content": "say: x"},
		{"role": "assistant", "content": []body{{"type": "tool_use", "id": "toolu_1", "name": "f", "input": body{"b": 1, "a": 2}}}},
		{"role": "user", "content": []body{{"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such file", "is_error": true}}},
	}})
	asked := string(f.Served()[0].Body)
	for _, want := range []string{`"is_error":true`, `"input":{"a":2,"b":1}`, `"tool_use_id":"toolu_1"`} {
		if !strings.Contains(asked, want) {
			t.Errorf("the vendor was asked without %s: %s", want, asked)
		}
	}
	e := h.Client(t).WantError(stoa.CodeInvalidType, "POST", responses, body{"model": "auto", "tools": []body{{"type": "function", "name": "f"}}, "input": []body{
		{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
		{"type": "function_call_output", "call_id": "c", "output": "x", "is_error": "yes"},
	}})
	if e.Param == nil || *e.Param != "input[1].is_error" {
		t.Errorf("the error is %+v", e)
	}
}

// TestStopSequencesEndTheText has every provider write more than the caller wants. Those with
// the wire responses have no stop sequences, so the text is cut here, and the charge is what
// the vendor counted.
func TestStopSequencesEndTheText(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	for _, format := range otherFormats {
		chat := strings.HasSuffix(format.path, "completions")
		name := map[bool]string{true: "stop", false: "stop_sequences"}[chat]
		for _, model := range []string{"alpha-haiku-4-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
			for _, stream := range []bool{false, true} {
				c := h.Client(t).With("Idempotency-Key", fmt.Sprint(model, stream))
				call := format.call(model, "say: one two\nEND of it", body{"stream": stream, name: []string{"no", "wo\nEN"}})
				first, again := c.Want(200, "POST", format.path, call), c.Want(200, "POST", format.path, call)
				for _, r := range []*apitest.Reply{first, again} {
					if got := format.text(t, r); got != "one t" {
						t.Errorf("%s %s: the text is %q in %s", format.path, model, got, r.Body)
					}
					want := `"finish_reason":"stop"`
					switch {
					case !chat && (model[0] == 'a' || model[0] == 'g'): // Gemini and DeepSeek do not say what ended the text
						want = `"stop_reason":"stop_sequence","stop_sequence":"wo\nEN"`
					case !chat:
						want = `"stop_reason":"end_turn","stop_sequence":null`
					}
					if !strings.Contains(string(r.Body), want) {
						t.Errorf("%s %s: no %s in %s", format.path, model, want, r.Body)
					}
				}
				all := receipts(t, h)
				want := ""
				if model[0] == 'g' {
					want = "stop_cut_here"
				}
				if got := strings.Join(all[0].Adjustments.Names(), ","); got != want {
					t.Errorf("%s %s: the receipt has %q, want %q", format.path, model, got, want)
				}
				told := f.WaitEnded(t, 1)
				if got, want := all[0].Usage.OutputTokens, told[len(told)-1].Usage.Output; got != want || all[0].Estimated {
					t.Errorf("%s %s: %d tokens are charged, the vendor counted %d", format.path, model, got, want)
				}
			}
		}
	}
}

// TestTopKReachesThoseThatHaveIt sends a setting that two of four vendors have, and one of
// their models refuses.
func TestTopKReachesThoseThatHaveIt(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	format := otherFormats[1]
	for model, want := range map[string]string{
		"alpha-haiku-4-5": `"top_k":40`, "beta-3.8-flash": `"topK":40`,
		"alpha-opus-5-5": "", "gamma-6.1-sol": "", "delta-v4-flash": "",
	} {
		h.Client(t).Want(200, "POST", format.path, format.call(model, "say: x", body{"top_k": 40}))
		served := f.Served()
		sent := string(served[len(served)-1].Body)
		if got := strings.Contains(sent, "op_k") || strings.Contains(sent, "opK"); got != (want != "") || !strings.Contains(sent, want) {
			t.Errorf("%s: sent %s", model, sent)
		}
	}
	h.Client(t).WantError(stoa.CodeInvalidType, "POST", format.path, format.call("auto", "x", body{"top_k": "many"}))
}

// TestNoCreditsCanBe402: some clients repeat each 429. Only chat completions that credits or budgets refuse change.
func TestNoCreditsCanBe402(t *testing.T) {
	t.Parallel()
	file := config.Defaults()
	file.ExtensionOptions.ChatCompletions.NoCredits = 402
	h := start(t, apitest.Config{File: &file})
	var poor contract.AccountWithKey
	h.Client(t).Want(201, "POST", "/api/v1/accounts", body{"name": "poor"}).JSON(&poor)
	secret, _ := h.NewKey(h.Account.ID, stoa.ScopeAll, stoa.ScopeAccountWrite)
	capped := h.ClientWith(t, secret)
	newBudget(t, capped, object{"scope": "account", "period": "day", "limitMicro": 1})
	for capped.Do("POST", responses, body{"model": "alpha-haiku-4-5", "input": "x"}).Status != 429 { // on PostgreSQL it takes effect after two seconds
	}
	for path, status := range map[string]int{"/api/v1/chat/completions": 402, responses: 429, "/api/v1/messages": 402} {
		for code, c := range map[string]*apitest.Client{"insufficient_quota": h.ClientWith(t, poor.Key.Secret), "budget_exceeded": capped} {
			for _, stream := range []bool{true, false} {
				call := body{"model": "alpha-haiku-4-5", "max_tokens": 100, "stream": stream, "messages": []body{{"role": "user", "content": "x"}}}
				if path == responses {
					call = body{"model": "alpha-haiku-4-5", "stream": stream, "input": "x"}
				}
				if e := c.Want(status, "POST", path, call).Error(); e.Code != code {
					t.Errorf("%s: %+v", path, e)
				}
			}
		}
	}
}

func TestMessagesCountsThinking(t *testing.T) {
	t.Parallel()
	h, _ := vendors(t, apitest.Config{})
	for _, model := range []string{"alpha-sonnet-5-5", "beta-3.8-flash", "gamma-6.1-sol", "delta-v4-flash"} {
		for _, stream := range []bool{false, true} {
			r := h.Client(t).Want(200, "POST", messagesPath, body{
				"model": model, "max_tokens": 9000, "stream": stream, "thinking": body{"type": "enabled", "budget_tokens": 2000}, "messages": []body{{"role": "user", "content": "think: 60\nsay: x"}},
			})
			n := receipts(t, h)[0].Usage.ReasoningTokens
			if want := fmt.Sprintf(`"output_tokens_details":{"thinking_tokens":%d}`, n); n == 0 || strings.Count(string(r.Body), want) != 1 {
				t.Errorf("%s, stream %v: not one %s in %s", model, stream, want, r.Body)
			}
		}
	}
	if r := h.Client(t).Want(200, "POST", messagesPath, body{"model": "alpha-haiku-4-5", "max_tokens": 9, "messages": []body{{"role": "user", "content": "say: x"}}}); strings.Contains(string(r.Body), "output_tokens_details") {
		t.Errorf("without thinking: %s", r.Body)
	}
}
