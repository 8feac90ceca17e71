package fakeup

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A counter is a vendor's counter of tokens.
type counter struct {
	wire  string
	path  string   // suffix of its address
	key   string   // the header with the API key
	known []string // the members that it accepts
}

// counters are the token counters of all vendors that have one.
var counters = []counter{
	{"messages", "/v1/messages/count_tokens", "X-Api-Key", []string{"model", "messages", "system", "thinking", "tool_choice", "tools", "output_config", "cache_control"}},
	{"responses", "/v1/responses/input_tokens", "Authorization", []string{"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning", "truncation", "conversation", "previous_response_id"}},
	{"gemini", ":countTokens", "X-Goog-Api-Key", []string{"generateContentRequest", "contents"}},
}

// Count returns the count for a request of the given number of bytes.
func Count(bytes int) int64 { return int64(bytes/3) + 7 }

// count answers a request to a counter, and reports whether it was one. It refuses members
// that the vendor does not accept, and follows the orders "fail:" and "fault: hang" anywhere
// in the request.
func (h *Handler) count(w http.ResponseWriter, r *http.Request) bool {
	i := slices.IndexFunc(counters, func(c counter) bool { return strings.HasSuffix(r.URL.Path, c.path) })
	if i < 0 || r.Method != http.MethodPost {
		return false
	}
	c := counters[i]
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return true
	}
	s := &Served{ID: "count", Wire: c.wire + " count", Header: r.Header.Clone(), Body: text, StartedAt: time.Now()}
	h.update(func() { h.served = append(h.served, s) })
	defer func() { h.update(func() { s.EndedAt = time.Now() }) }()
	answer := func(status int, body any) bool {
		h.update(func() { s.Status = status })
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(encode(body))
		return true
	}
	var body object
	_ = json.Unmarshal(text, &body)
	if key := strings.TrimPrefix(r.Header.Get(c.key), "Bearer "); key != h.opts.Key {
		return answer(401, object{"error": object{"type": "authentication_error", "message": "invalid key"}})
	}
	for name := range body {
		if !slices.Contains(c.known, name) {
			h.update(func() { s.Refused = name })
			return answer(400, object{"error": object{"type": "invalid_request_error", "message": name + ": Extra inputs are not permitted"}})
		}
	}
	switch {
	case bytes.Contains(text, []byte("fault: hang")):
		<-r.Context().Done()
		return true
	case bytes.Contains(text, []byte("fail: 500")):
		return answer(500, object{"error": object{"type": "api_error", "message": "Internal server error"}})
	case c.wire == "gemini":
		inner, _ := body["generateContentRequest"].(object)
		if model, _ := inner["model"].(string); !strings.Contains(r.URL.Path, "/"+model+":") {
			return answer(400, object{"error": object{"code": 400, "message": "generateContentRequest.model must be the model of the URL", "status": "INVALID_ARGUMENT"}})
		}
		return answer(200, object{"totalTokens": Count(len(text))})
	}
	return answer(200, object{"object": "response.input_tokens", "input_tokens": Count(len(text))})
}
