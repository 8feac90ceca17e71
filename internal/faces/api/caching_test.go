package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
	"stoa/internal/testkit/fakeup"
)

// marked counts the marks for the cache in the newest request of a vendor.
func marked(f *fakeup.Server) int {
	all := f.Served()
	return bytes.Count(all[len(all)-1].Body, []byte(`"cache_control"`))
}

// TestOneOffsAreNotMarked makes calls that share nothing, then the same instructions three
// times: they are read in full, written to the cache and read from it.
func TestOneOffsAreNotMarked(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	for i := range 20 {
		c.Want(200, "POST", responses, body{"model": "alpha-haiku-4-5", "instructions": fmt.Sprint("Be brief ", i), "input": "say: x"})
		if n := marked(f); n != 0 {
			t.Errorf("call %d has %d marks", i, n)
		}
	}
	long := strings.Repeat("Answer politely. ", 400)
	want := []string{"full", "written", "read"}
	for i := range want {
		c.Want(200, "POST", responses, body{"model": "alpha-haiku-4-5", "instructions": long, "input": fmt.Sprint("say: x", i)})
		all := f.Served()
		u := all[len(all)-1].Usage
		got := "full"
		if u.Written > 0 {
			got = "written"
		}
		if u.Cached > 0 {
			got = "read"
		}
		if got != want[i] {
			t.Errorf("call %d with the same instructions: %s (%+v), want %s", i+1, got, u, want[i])
		}
	}
	other := h.ClientWith(t, newCustomer(t, h).Key) // another account has not sent them
	other.Want(200, "POST", responses, body{"model": "alpha-haiku-4-5", "instructions": long, "input": "say: x"})
	if n := marked(f); n != 0 {
		t.Errorf("the call of another account has %d marks", n)
	}
}

// TestMarksOfCallersReachTheVendor sends cache_control in the format Messages and breakpoints
// in the others: they arrive in their places, none is added, and too many are reduced.
func TestMarksOfCallersReachTheVendor(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	long := strings.Repeat("A paragraph of a document. ", 300)
	short, hour := body{"type": "ephemeral"}, body{"type": "ephemeral", "ttl": "1h"}
	text := func(s string, control any) body { return body{"type": "text", "text": s, "cache_control": control} }
	last := func() (v struct {
		System []struct {
			Control any `json:"cache_control"`
		}
		Tools []struct {
			Control any `json:"cache_control"`
		}
		Messages []struct {
			Content []struct {
				Control any `json:"cache_control"`
			}
		}
	},
	) {
		all := f.Served()
		if err := json.Unmarshal(all[len(all)-1].Body, &v); err != nil {
			t.Fatal(err, string(all[len(all)-1].Body))
		}
		return v
	}
	c.Want(200, "POST", "/api/v1/messages", body{
		"model": "alpha-haiku-4-5", "max_tokens": 100,
		"system":   []body{text("x-anthropic-billing-header: cc_version=1;", nil), text("Be brief.", hour)},
		"messages": []body{{"role": "user", "content": []body{text(long, short), {"type": "text", "text": "say: x"}}}},
	})
	v := last()
	if len(v.System) != 1 || fmt.Sprint(v.System[0].Control) != "map[ttl:1h type:ephemeral]" || fmt.Sprint(v.Messages[0].Content[0].Control) != "map[type:ephemeral]" || v.Messages[0].Content[1].Control != nil {
		t.Errorf("the marks are %+v", v)
	}
	all := f.Served()
	if u := all[len(all)-1].Usage; u.Written == 0 || u.Long == 0 && u.Written < 1000 {
		t.Errorf("the vendor wrote %+v", u)
	}
	c.Want(200, "POST", "/api/v1/chat/completions", body{
		"model": "alpha-haiku-4-5", "messages": []body{{"role": "user", "content": []body{text(long, short), {"type": "text", "text": "say: x"}}}},
	})
	if v = last(); fmt.Sprint(v.Messages[0].Content[0].Control) != "map[type:ephemeral]" || marked(f) != 1 {
		t.Errorf("of a chat completion: %+v", v)
	}
	var parts []body
	for i := range 6 {
		parts = append(parts, body{"type": "input_text", "text": fmt.Sprint("say: x", i), "prompt_cache_breakpoint": body{"mode": "explicit"}})
	}
	c.Want(200, "POST", responses, body{"model": "alpha-haiku-4-5", "instructions": "Be brief.", "input": []body{{"role": "user", "content": parts}}})
	if v = last(); marked(f) != 4 || v.Messages[0].Content[1].Control != nil || v.Messages[0].Content[2].Control == nil {
		t.Errorf("of six marks %d are left: %+v", marked(f), v)
	}
	// A long mark after a short one, which the vendor refuses, becomes short.
	c.Want(200, "POST", "/api/v1/messages", body{
		"model": "alpha-haiku-4-5", "max_tokens": 100, "system": []body{text("Be brief.", short)},
		"messages": []body{{"role": "user", "content": []body{text("say: x", hour)}}},
	})
	if v = last(); fmt.Sprint(v.Messages[0].Content[0].Control) != "map[type:ephemeral]" {
		t.Errorf("a long mark after a short one: %+v", v)
	}
	for _, s := range f.Served() {
		if s.Refused != "" {
			t.Errorf("the vendor refused %s", s.Refused)
		}
	}
}

// TestReceiptsSayWhoMarked makes calls whose input is marked by the caller, by the service or not at all, and
// calls whose marks cannot be sent as they are.
func TestReceiptsSayWhoMarked(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	parts := func(n int, ttl string) []body {
		var list []body
		for range n {
			mark := body{"mode": "explicit"}
			if ttl != "" {
				mark["ttl"] = ttl
			}
			list = append(list, body{"type": "input_text", "text": "say: x", "prompt_cache_breakpoint": mark})
		}
		return append(list, body{"type": "input_text", "text": "say: y"})
	}
	user := func(content any) []body { return []body{{"role": "user", "content": content}} }
	tool := func(name string, marked bool) body {
		v := body{"type": "function", "name": name, "parameters": body{"type": "object"}}
		if marked {
			v["cache_control"] = body{"type": "ephemeral"}
		}
		return v
	}
	for _, test := range []struct {
		name, marks string
		changed     bool
		call        body
	}{
		{"one call", "none", false, body{"model": "alpha-haiku-4-5", "input": "say: x"}},
		{"a conversation", "stoa", false, body{"model": "alpha-haiku-4-5", "input": []body{{"role": "user", "content": "say: x"}, {"role": "assistant", "content": "x"}, {"role": "user", "content": "say: y"}}}},
		{"a caller's marks", "caller", false, body{"model": "alpha-haiku-4-5", "input": user(parts(2, ""))}},
		{"a long mark", "caller", false, body{"model": "alpha-haiku-4-5", "input": user(parts(1, "1h"))}},
		{"too many marks", "caller", true, body{"model": "alpha-haiku-4-5", "input": user(parts(5, ""))}},
		{"the last tool", "caller", false, body{"model": "alpha-haiku-4-5", "input": "say: x", "tools": []body{tool("a", false), tool("b", true)}}},
		{"the first tool", "caller", true, body{"model": "alpha-haiku-4-5", "input": "say: x", "tools": []body{tool("a", true), tool("b", false)}}},
		{"the last system text", "caller", false, body{"model": "alpha-haiku-4-5", "input": append([]body{{"role": "developer", "content": parts(1, "")[:1]}}, user("say: x")...)}},
		{"an earlier system text", "caller", false, body{"model": "alpha-haiku-4-5", "input": append([]body{{"role": "developer", "content": parts(1, "")}}, user("say: x")...)}},
		{"one call of OpenAI", "vendor", false, body{"model": "gamma-6-luna", "input": "say: x"}},
		{"a caller's marks for OpenAI", "caller", false, body{"model": "gamma-6-luna", "input": user(parts(2, ""))}},
		{"a long mark for OpenAI", "caller", true, body{"model": "gamma-6-luna", "input": user(parts(1, "1h"))}},
		{"only marked input at OpenAI", "none", false, body{"model": "gamma-6-luna", "input": "say: x", "prompt_cache_options": body{"mode": "explicit"}}},
		{"the default mode of OpenAI", "vendor", false, body{"model": "gamma-6-luna", "input": "say: x", "prompt_cache_options": body{"mode": "implicit", "ttl": "30m"}}},
		{"a vendor that caches by itself", "vendor", false, body{"model": "beta-3.8-flash", "input": "say: x"}},
		{"marks for a vendor without marks", "vendor", true, body{"model": "delta-v4-flash", "input": user(parts(1, ""))}},
	} {
		test.call["instructions"] = "For " + test.name // seen once
		if strings.Contains(test.name, "system") {
			delete(test.call, "instructions")
		}
		var reply struct{ ID string }
		c.Want(200, "POST", responses, test.call).JSON(&reply)
		var r contract.Receipt
		c.Want(200, "GET", "/api/v1/receipts/"+reply.ID, nil).JSON(&r)
		if marks, changed := orNone(r.Cache.Marks), slices.Contains(r.Adjustments, "cache_marks_changed"); marks != test.marks || changed != test.changed {
			t.Errorf("%s: marks %q, changed %v; want %q, %v: %s", test.name, marks, changed, test.marks, test.changed, f.Served()[len(f.Served())-1].Body)
		}
	}
}

// TestOpenAICachesWhatIsSentAgain makes calls that share nothing, a conversation, and calls with the
// same instructions: by default OpenAI writes each prompt, and frugally only what may be read.
func TestOpenAICachesWhatIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, caching := range []string{"auto", "frugal"} {
		f := fakeup.Start(t, fakeup.Options{Cache: true})
		p := f.Provider("responses")
		p.Caching = caching
		h := start(t, apitest.Config{Providers: []stoa.Provider{p}, Families: map[string][]stoa.Route{"gamma": {{Provider: p.Name}}}})
		c := h.Client(t)
		frugal := caching == "frugal"
		long := func(s string) string { return strings.Repeat(s+" is a subject. ", 500) }
		usage := func(instructions string, input any) fakeup.Usage {
			c.Want(200, "POST", responses, body{"model": "gamma-6-luna", "instructions": instructions, "input": input})
			all := f.Served()
			if s := all[len(all)-1]; s.Refused != "" {
				t.Errorf("%s: the vendor refused %s", caching, s.Refused)
			}
			return all[len(all)-1].Usage
		}
		if u := usage("Be brief.", long("Tea")); u.Cached != 0 || (u.Written == 0) != frugal {
			t.Errorf("%s: of one call %+v", caching, u)
		}
		talk := []body{{"role": "user", "content": long("Coffee")}, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And?"}}
		first := usage("Be kind.", talk)
		second := usage("Be kind.", append(talk, body{"role": "assistant", "content": "So."}, body{"role": "user", "content": "Why?"}))
		if first.Written == 0 || second.Cached < first.Written {
			t.Errorf("%s: of a conversation %+v, then %+v", caching, first, second)
		}
		instructions := long("Water")
		usage(instructions, "say: a")
		written, read := usage(instructions, long("Milk")), usage(instructions, long("Juice"))
		if read.Cached < 1024 || frugal && (written.Written == 0 || read.Written != 0) || !frugal && (written.Written == 0 || read.Written == 0) {
			t.Errorf("%s: of the same instructions %+v, then %+v", caching, written, read)
		}
	}
}

// TestCacheKeysDifferBetweenAccounts sends the same prompt_cache_key for two accounts, to OpenAI and to
// DeepSeek.
func TestCacheKeysDifferBetweenAccounts(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	model := "gamma-6.1-sol"
	sent := func(c *apitest.Client, key string) string {
		c.Want(200, "POST", responses, body{"model": model, "input": "say: x", "prompt_cache_key": key})
		var v struct {
			Key    string `json:"prompt_cache_key"`
			UserID string `json:"user_id"`
		}
		all := f.Served()
		if err := json.Unmarshal(all[len(all)-1].Body, &v); err != nil {
			t.Fatal(err)
		}
		if model == "delta-v4-flash" {
			return v.UserID
		}
		return v.Key
	}
	first, other := h.Client(t), h.ClientWith(t, newCustomer(t, h).Key)
	for _, model = range []string{"gamma-6.1-sol", "delta-v4-flash"} {
		a, b, again, none := sent(first, "k"), sent(other, "k"), sent(first, "k"), sent(first, "")
		if a == "" || a == b || a != again || none != "" || len(a) > 64 || a != stoa.CacheKey(h.Account.ID, "k") {
			t.Errorf("%s: the keys are %q, %q, %q and %q", model, a, b, again, none)
		}
	}
}

// TestASystemTextIsReadUpToItsMark sends the system blocks of Claude Code in two sessions: an
// attribution that changes with every request, a marked text that stays, and one of the session.
// The second session reads the text that stays.
func TestASystemTextIsReadUpToItsMark(t *testing.T) {
	t.Parallel()
	h, f := vendors(t, apitest.Config{})
	c := h.Client(t)
	stays := strings.Repeat("You are a coding agent. ", 1000)
	for i, of := range []string{"one", "one", "two"} {
		c.Want(200, "POST", "/api/v1/messages", body{
			"model": "alpha-haiku-4-5", "max_tokens": 100,
			"system": []body{
				{"type": "text", "text": fmt.Sprint("x-anthropic-billing-header: cc_version=1; cch=", i)},
				{"type": "text", "text": stays, "cache_control": body{"type": "ephemeral"}},
				{"type": "text", "text": "The folder of session " + of},
			},
			"messages": []body{{"role": "user", "content": fmt.Sprint("say: x", i)}},
		})
		all := f.Served()
		last := all[len(all)-1]
		if last.Refused != "" || strings.Contains(string(last.Body), "billing-header") || !strings.Contains(string(last.Body), `"text":"\n\nThe folder of session `+of) {
			t.Errorf("the vendor was sent %s (%s)", last.Body, last.Refused)
		}
		if u := last.Usage; (u.Cached > 0) != (i > 0) || (u.Written > 0) != (i == 0) {
			t.Errorf("request %d read %d and wrote %d", i, u.Cached, u.Written)
		}
	}
	// Models of other vendors get the text as before.
	c.Want(200, "POST", "/api/v1/messages", body{
		"model": "delta-v4-flash", "max_tokens": 100, "messages": []body{{"role": "user", "content": "say: x"}},
		"system": []body{{"type": "text", "text": "a", "cache_control": body{"type": "ephemeral"}}, {"type": "text", "text": "b"}},
	})
	if sent := lastBody(f); !strings.Contains(sent, `"content":"a\n\nb"`) {
		t.Errorf("the vendor was sent %s", sent)
	}
}
