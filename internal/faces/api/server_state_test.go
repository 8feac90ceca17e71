package api_test

import (
	"fmt"
	"sync"
	"testing"

	"stoa/internal/base/contract"
	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// A chatServer is a compatible server that thinks, calls a tool, and then answers. It records the
// messages of its requests.
type chatServer struct {
	stoa.Provider
	member string // of the reasoning; empty: it sends none
	id     string // of the call
	tool   string

	mu   sync.Mutex
	seen [][]map[string]any
}

func startChatServer(t *testing.T, member, id, tool string) *chatServer {
	s := &chatServer{member: member, id: id, tool: tool}
	s.Provider = chatVendor(t, "server", s.answer)
	s.Dialect = "compatible"
	return s
}

func (s *chatServer) answer(messages []map[string]any) chatReply {
	s.mu.Lock()
	s.seen = append(s.seen, messages)
	s.mu.Unlock()
	var message []string
	if s.member != "" {
		message = append(message, fmt.Sprintf(`"%s":"I should look."`, s.member))
	}
	if messages[len(messages)-1]["role"] == "tool" {
		return chatReply{append(message, `"content":"Done."`), "stop", 20, 9}
	}
	call := fmt.Sprintf(`"content":"Look.","tool_calls":[{"index":0,"id":%q,"type":"function","function":{"name":%q,"arguments":"{}"}}]`, s.id, s.tool)
	return chatReply{append(message, call), "tool_calls", 20, 9}
}

// last returns the messages of the last request.
func (s *chatServer) last() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[len(s.seen)-1]
}

// service returns a service with this server behind delta-v4-flash.
func (s *chatServer) service(t *testing.T, traits *stoa.Traits) *apitest.Service {
	return start(t, apitest.Config{
		Providers: []stoa.Provider{s.Provider},
		Families:  map[string][]stoa.Route{"delta": {{Provider: "server", Model: "kimi", Override: traits}}},
	})
}

// followUp returns the messages, or the items, of the next call in one of the formats: the reply as
// it came, and the output of its call.
func followUp(t *testing.T, path string, r *apitest.Reply) []any {
	t.Helper()
	all := objects(t, r)
	last := all[len(all)-1]
	switch path {
	case responses:
		if whole, ok := last["response"].(map[string]any); ok {
			last = whole
		}
		next := last["output"].([]any)
		for _, it := range next {
			if call := it.(map[string]any); call["type"] == "function_call" {
				next = append(next, body{"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"})
			}
		}
		return next
	case "/api/v1/messages":
		content, _ := last["content"].([]any)
		for _, ev := range all {
			switch ev["type"] {
			case "content_block_start":
				content = append(content, ev["content_block"])
			case "content_block_delta":
				block, delta := content[len(content)-1].(map[string]any), ev["delta"].(map[string]any)
				for _, name := range []string{"text", "thinking", "signature"} {
					if piece, ok := delta[name].(string); ok {
						block[name] = block[name].(string) + piece
					}
				}
			}
		}
		id := content[len(content)-1].(map[string]any)["id"]
		return []any{body{"role": "assistant", "content": content}, body{"role": "user", "content": []any{body{"type": "tool_result", "tool_use_id": id, "content": "sunny"}}}}
	}
	message := body{"role": "assistant", "content": ""}
	var calls, details []any
	for _, chunk := range all {
		list, _ := chunk["choices"].([]any)
		if len(list) == 0 {
			continue
		}
		choice := list[0].(map[string]any)
		part, ok := choice["message"].(map[string]any)
		if !ok {
			part = choice["delta"].(map[string]any)
		}
		if text, ok := part["content"].(string); ok {
			message["content"] = message["content"].(string) + text
		}
		more, _ := part["reasoning_details"].([]any)
		details = append(details, more...)
		pieces, _ := part["tool_calls"].([]any)
		for _, piece := range pieces {
			function := piece.(map[string]any)["function"].(map[string]any)
			if function["name"] == nil {
				was := calls[len(calls)-1].(map[string]any)["function"].(map[string]any)
				was["arguments"] = was["arguments"].(string) + function["arguments"].(string)
			} else {
				calls = append(calls, piece)
			}
		}
	}
	if message["tool_calls"] = calls; details != nil {
		message["reasoning_details"] = details
	}
	return []any{message, body{"role": "tool", "tool_call_id": calls[0].(map[string]any)["id"], "content": "sunny"}}
}

// TestReasoningGoesBackToTheServerThatSentIt makes two calls in each format.
func TestReasoningGoesBackToTheServerThatSentIt(t *testing.T) {
	t.Parallel()
	for _, member := range []string{"reasoning_content", "reasoning", ""} {
		t.Run(member, func(t *testing.T) {
			t.Parallel()
			s := startChatServer(t, member, "call_1", "f")
			h := s.service(t, nil)
			for _, path := range allFormats {
				for _, stream := range []bool{false, true} {
					first := h.Client(t).Want(200, "POST", path, callTools(path, "delta-v4-flash", "Weather?", body{"stream": stream}))
					next := callTools(path, "delta-v4-flash", "Weather?", body{"stream": stream})
					list := append([]any{body{"role": "user", "content": "Weather?"}}, followUp(t, path, first)...)
					if path == responses {
						next["input"] = list
					} else {
						next["messages"] = list
					}
					h.Client(t).Want(200, "POST", path, next)
					checkReasoning(t, fmt.Sprintf("%s, stream %v", path, stream), s)
				}
			}
			quiet(t, h)
		})
	}
}

// checkReasoning checks that the last request has the reasoning where it belongs.
func checkReasoning(t *testing.T, name string, s *chatServer) {
	t.Helper()
	n := 0
	for _, m := range s.last() {
		for _, member := range []string{"reasoning_content", "reasoning"} {
			if m[member] != nil && (m["role"] != "assistant" || member != s.member || m[member] != "I should look.") {
				t.Errorf("%s: a message is %v", name, m)
			}
		}
		if m["role"] == "assistant" {
			if n++; (m[s.member] != nil) != (s.member != "") || m["tool_calls"] == nil {
				t.Errorf("%s: the assistant's message is %v", name, m)
			}
		}
	}
	if n != 1 {
		t.Errorf("%s: the server received %v", name, s.last())
	}
}

func TestASessionSendsReasoningBack(t *testing.T) {
	t.Parallel()
	for _, member := range []string{"reasoning_content", "reasoning", ""} {
		s := startChatServer(t, member, "call_1", "drive_list")
		h := s.service(t, nil)
		a := newAuthor(t, h, h.Client(t), object{"model": "delta-v4-flash"})
		_, path := a.begin(t, "Which files are there?", nil)
		var got contract.Session
		a.Want(200, "GET", path+"?waitSeconds=60", nil).JSON(&got)
		if got.Status != "completed" {
			t.Errorf("%s: the session is %s", member, got.Status)
		}
		checkReasoning(t, "a session", s)
		quiet(t, h)
	}
}
