package api_test

import (
	"fmt"
	"strings"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// ending starts a compatible server whose replies end with a word.
func ending(t *testing.T, name, text string, word *string) stoa.Provider {
	t.Helper()
	return chatVendor(t, name, func([]map[string]any) chatReply {
		return chatReply{[]string{fmt.Sprintf(`"content":%q`, text)}, *word, 20, 9}
	})
}

// TestWordsForAnEndReachTheCaller ends replies of a compatible server in each format.
func TestWordsForAnEndReachTheCaller(t *testing.T) {
	t.Parallel()
	word := ""
	logs, logger := capture()
	h := start(t, apitest.Config{
		Logger:    logger,
		Providers: []stoa.Provider{ending(t, "server", "Half of the ans", &word)},
		Families:  map[string][]stoa.Route{"delta": {{Provider: "server", Model: "glm"}}},
	})
	c := h.Client(t)
	for _, test := range []struct {
		word, adjusted string
		want           map[string]string
	}{
		{"model_context_window_exceeded", "", map[string]string{responses: `"reason":"max_output_tokens"`, "/api/v1/chat/completions": `"finish_reason":"length"`, "/api/v1/messages": `"stop_reason":"max_tokens"`}},
		{"sensitive", "", map[string]string{responses: `"reason":"content_filter"`, "/api/v1/chat/completions": `"finish_reason":"content_filter"`, "/api/v1/messages": `"stop_reason":"refusal"`}},
		{"eos", "", map[string]string{responses: `"status":"completed"`, "/api/v1/chat/completions": `"finish_reason":"stop"`, "/api/v1/messages": `"stop_reason":"end_turn"`}},
		{"brand_new", "end_unknown", map[string]string{responses: `"status":"completed"`, "/api/v1/chat/completions": `"finish_reason":"stop"`, "/api/v1/messages": `"stop_reason":"end_turn"`}},
	} {
		word = test.word
		for _, path := range allFormats {
			for _, stream := range []bool{false, true} {
				r := c.Want(200, "POST", path, callTools(path, "delta-v4-flash", "Go.", body{"stream": stream}))
				if !strings.Contains(string(r.Body), test.want[path]) {
					t.Errorf("%s at %s, stream %v: %s", word, path, stream, r.Body)
				}
				if got := strings.Join(receipts(t, h)[0].Adjustments.Names(), ","); got != test.adjusted {
					t.Errorf("%s at %s, stream %v: the receipt has %q", word, path, stream, got)
				}
			}
		}
	}
	word = "model_context_window_exceeded"
	a := newAuthor(t, h, c, object{"model": "delta-v4-flash"})
	_, path := a.begin(t, "Go.", nil)
	var s contract.Session
	if a.Want(200, "GET", path+"?waitSeconds=60", nil).JSON(&s); orNone(s.StatusReason) != "length" {
		t.Errorf("the session is %+v", s)
	}
	quiet(t, h)
	h.HTTP.Close()
	if n := strings.Count(logs.text(), "ends replies with an unknown reason"); n != 1 {
		t.Errorf("%d lines of the log have the unknown word, want 1", n)
	}
}

// TestAnErrorAsTheEndGoesElsewhere has two routes, of which the first ends with an error.
func TestAnErrorAsTheEndGoesElsewhere(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "Half of the ans"} {
		bad, good := "abort", "stop"
		h := start(t, apitest.Config{
			Providers: []stoa.Provider{ending(t, "bad", text, &bad), ending(t, "good", "Whole.", &good)},
			Families:  map[string][]stoa.Route{"delta": {{Provider: "bad", Model: "m"}, {Provider: "good", Model: "m"}}},
		})
		for _, stream := range []bool{false, true} {
			r := h.Client(t).Want(200, "POST", responses, body{"model": "delta-v4-flash", "input": "Go.", "stream": stream})
			failed := stream && text != "" // the caller has a part of the reply, and is told that it failed
			if got := string(r.Body); strings.Contains(got, "Whole.") == failed || strings.Contains(got, "response.failed") != failed {
				t.Errorf("after %q, stream %v: %s", text, stream, r.Body)
			}
		}
		quiet(t, h)
	}
}
