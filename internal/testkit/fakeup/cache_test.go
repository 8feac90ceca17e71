package fakeup

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A cachedVendor is a fake with a cache and a clock that the test sets.
type cachedVendor struct {
	t    *testing.T
	h    *Handler
	wire string
	now  time.Time
}

// ask sends texts of the user, of which those that begin with * are marked, and returns the usage.
// members are added to the request.
func (v *cachedVendor) ask(members object, texts ...string) Usage {
	v.t.Helper()
	path, body := map[string]string{
		"messages": "/v1/messages", "responses": "/v1/responses", "gemini": "/v1beta/models/gemini-3.8-flash:generateContent", "deepseek": "/chat/completions",
	}[v.wire], object{}
	var parts []any
	for _, text := range texts {
		plain, marked := strings.CutPrefix(text, "*")
		part := object{"type": "text", "text": plain}
		switch {
		case v.wire == "gemini":
			part = object{"text": plain}
		case v.wire == "responses":
			part["type"] = "input_text"
			if marked {
				part["prompt_cache_breakpoint"] = object{"mode": "explicit"}
			}
		case marked:
			part["cache_control"] = object{"type": "ephemeral"}
		}
		parts = append(parts, part)
	}
	switch v.wire {
	case "messages":
		body = object{"model": "claude-haiku-4-5", "max_tokens": 10, "messages": []any{object{"role": "user", "content": parts}}}
	case "responses":
		body = object{"model": "gpt-6-luna", "input": []any{object{"role": "user", "content": parts}}}
	case "gemini":
		body = object{"contents": []any{object{"role": "user", "parts": parts}}}
	case "deepseek":
		var messages []any
		for _, text := range texts {
			messages = append(messages, object{"role": "user", "content": text})
		}
		body = object{"model": "deepseek-v4-flash", "messages": messages}
	}
	for k, m := range members {
		body[k] = m
	}
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(encode(body)))
	r.Header.Set("Authorization", "Bearer "+Key)
	r.Header.Set("X-Api-Key", Key)
	r.Header.Set("X-Goog-Api-Key", Key)
	r.Header.Set("Anthropic-Version", "2023-06-01")
	r.Header.Set("Content-Type", "application/json")
	v.h.ServeHTTP(httptest.NewRecorder(), r)
	all := v.h.Served()
	s := all[len(all)-1]
	if s.Status != http.StatusOK {
		v.t.Fatalf("%s: the vendor answered %d: %s", v.wire, s.Status, s.Refused)
	}
	return s.Usage
}

// TestCachesFollowTheirVendors checks the minimum, the life, the look-back and the separation of users
// of each vendor's cache.
func TestCachesFollowTheirVendors(t *testing.T) {
	t.Parallel()
	tokens := func(n int) string { return strings.Repeat("word", n) } // at least
	for _, test := range []struct {
		wire     string
		least    int
		life     time.Duration
		lookBack int    // 0: without a limit
		written  bool   // whether writes are counted
		user     string // the member that separates users
	}{
		{"messages", 1024, 5 * time.Minute, 20, true, ""},
		{"responses", 1024, 30 * time.Minute, 80, true, "prompt_cache_key"},
		{"gemini", 4096, 5 * time.Minute, 0, false, ""},
		{"deepseek", 64, time.Hour, 0, false, "user_id"},
	} {
		t.Run(test.wire, func(t *testing.T) {
			t.Parallel()
			v := &cachedVendor{t: t, wire: test.wire, now: time.Unix(1_800_000_000, 0)}
			v.h = NewHandler(Options{Cache: true, Now: func() time.Time { return v.now }})
			if u := v.ask(nil, "*"+tokens(test.least-40)); u.Written != 0 || v.ask(nil, "*"+tokens(test.least-40)).Cached != 0 {
				t.Errorf("a prompt below the minimum is cached: %+v", u)
			}
			text := "*" + tokens(test.least+40)
			if u := v.ask(nil, text); u.Cached != 0 || (u.Written == u.Input) != test.written {
				t.Errorf("the first call: %+v", u)
			}
			for range 3 { // each read renews it
				v.now = v.now.Add(test.life - time.Second)
				if u := v.ask(nil, text); u.Cached != u.Input || u.Written != 0 {
					t.Errorf("within its life: %+v", u)
				}
			}
			if test.user != "" {
				if u := v.ask(object{test.user: "b"}, text); u.Cached != 0 {
					t.Errorf("another user reads %+v", u)
				}
			}
			v.now = v.now.Add(test.life + time.Second)
			if u := v.ask(nil, text); u.Cached != 0 {
				t.Errorf("after its life: %+v", u)
			}
			if test.lookBack == 0 {
				return
			}
			next := func(n int, mark string) (texts []string) {
				texts = []string{strings.TrimPrefix(text, "*")}
				for i := range n {
					texts = append(texts, fmt.Sprint("part ", i, " of ", n, mark))
				}
				texts[n] = "*" + texts[n]
				return texts
			}
			if u := v.ask(nil, next(test.lookBack, "")...); u.Cached == 0 || u.Cached+u.Written != u.Input {
				t.Errorf("%d blocks after the entry: %+v", test.lookBack, u)
			}
			if u := v.ask(nil, next(test.lookBack+1, "x")...); u.Cached != 0 {
				t.Errorf("%d blocks after the entry: %+v", test.lookBack+1, u)
			}
		})
	}
}

// TestOpenAIWritesWhatItIsAskedTo checks the modes of OpenAI's cache.
func TestOpenAIWritesWhatItIsAskedTo(t *testing.T) {
	t.Parallel()
	v := &cachedVendor{t: t, wire: "responses", h: NewHandler(Options{Cache: true})}
	explicit := object{"prompt_cache_options": object{"mode": "explicit"}}
	long := strings.Repeat("word", 1100)
	if u := v.ask(explicit, "a "+long); u.Cached+u.Written != 0 {
		t.Errorf("explicit mode without breakpoints: %+v", u)
	}
	if u := v.ask(explicit, "*b "+long, "question"); u.Written == 0 || u.Written >= u.Input {
		t.Errorf("explicit mode with one: %+v", u)
	}
	if u := v.ask(nil, "b "+long, "other question"); u.Cached == 0 || u.Cached+u.Written != u.Input {
		t.Errorf("by default: %+v", u)
	}
}
