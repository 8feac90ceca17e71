package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"stoa/internal/base/stoa"
	"stoa/internal/testkit/apitest"
)

// TestCallIDsFitTheServer sends a history with ids from elsewhere, in each format, to a server like
// Mistral's: with its trait, and without it, when the service learns from the refusal.
func TestCallIDsFitTheServer(t *testing.T) {
	t.Parallel()
	fits := regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
	for name, traits := range map[string]*stoa.Traits{"by its trait": {CallIDs: "nine"}, "learned": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var ids [][]string // of the accepted requests
			refused := 0
			vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, _ := io.ReadAll(r.Body)
				var asked struct {
					Messages []struct {
						Calls []struct{ ID string } `json:"tool_calls"`
						For   string                `json:"tool_call_id"`
					}
				}
				_ = json.Unmarshal(data, &asked)
				var list []string
				for _, m := range asked.Messages {
					for _, c := range m.Calls {
						list = append(list, c.ID)
					}
					if m.For != "" {
						list = append(list, m.For)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for _, id := range list {
					if !fits.MatchString(id) {
						refused++
						w.WriteHeader(400)
						fmt.Fprintf(w, `{"object":"error","message":"Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.","type":"invalid_request_message_order","code":"3230"}`, id)
						return
					}
				}
				ids = append(ids, list)
				fmt.Fprint(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"Sunny."},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":2,"total_tokens":22}}`)
			}))
			t.Cleanup(vendor.Close)
			h := start(t, apitest.Config{
				Providers: []stoa.Provider{{Name: "server", Wire: "chat", BaseURL: vendor.URL, APIKey: "x"}},
				Families:  map[string][]stoa.Route{"delta": {{Provider: "server", Model: "mistral-large", Override: traits}}},
			})
			const first, second, own = "call_PTLP8xhu3uwZk4l3nlnrrJha", "call_PTLP8xhu3uwZk4l3nlnrrJhb", "D681PevKs"
			for _, path := range allFormats {
				var list []any
				add := func(items ...any) { list = append(list, items...) }
				add(body{"role": "user", "content": "Weather?"})
				for _, id := range []string{first, second, own} {
					switch path {
					case responses:
						add(body{"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}, body{"type": "function_call_output", "call_id": id, "output": "sunny"})
					case "/api/v1/messages":
						add(body{"role": "assistant", "content": []body{{"type": "tool_use", "id": id, "name": "f", "input": body{}}}},
							body{"role": "user", "content": []body{{"type": "tool_result", "tool_use_id": id, "content": "sunny"}}})
					default:
						add(body{"role": "assistant", "content": nil, "tool_calls": []body{{"id": id, "type": "function", "function": body{"name": "f", "arguments": "{}"}}}},
							body{"role": "tool", "tool_call_id": id, "content": "sunny"})
					}
				}
				call := callTools(path, "delta-v4-flash", "", body{"stream": false})
				if path == responses {
					call["input"] = list
				} else {
					call["messages"] = list
				}
				h.Client(t).Want(200, "POST", path, call)
				got := ids[len(ids)-1]
				if len(got) != 6 || got[0] != got[1] || got[2] != got[3] || got[4] != own || got[5] != own || got[0] == got[2] || strings.Contains(got[0], "_") {
					t.Errorf("%s: the server received the ids %q", path, got)
				}
			}
			if want := map[bool]int{true: 0, false: 1}[traits != nil]; refused != want {
				t.Errorf("%d requests were refused, want %d", refused, want)
			}
			quiet(t, h)
		})
	}
}
