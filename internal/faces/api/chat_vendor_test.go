package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"stoa/internal/base/stoa"
)

// A chatReply is a reply of a vendor of the chat format.
type chatReply struct {
	message       []string // members of the assistant's message; a stream has a delta for each
	finish        string
	input, output int // tokens
}

// chatVendor starts a vendor of the chat format, and returns it as the provider of this name. It answers
// streamed or whole, as the request asks.
func chatVendor(t *testing.T, name string, answer func(messages []map[string]any) chatReply) stoa.Provider {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Stream   bool
			Messages []map[string]any
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		reply := answer(asked.Messages)
		end := fmt.Sprintf(`"finish_reason":%q}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, reply.finish, reply.input, reply.output, reply.input+reply.output)
		if !asked.Stream {
			fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"role":"assistant",%s},%s`, strings.Join(reply.message, ","), end)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, delta := range reply.message {
			fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{%s}}]}`+"\n\n", delta)
		}
		fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{},%s`+"\n\ndata: [DONE]\n\n", end)
	}))
	t.Cleanup(s.Close)
	return stoa.Provider{Name: name, Wire: "chat", BaseURL: s.URL, APIKey: "x"}
}
