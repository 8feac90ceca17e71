package fakeup

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stoa/internal/testkit/shape"
)

// recordedReplies are the recordings of vendors by their files, and the requests to which the fake replies like
// them: the model, the orders. Their differences are on purpose for a reason.
var recordedReplies = map[string]struct {
	model, orders string
	extra         string // members of the request
	onPurpose     map[string]string
}{
	"messages/text.json":                                 {model: "claude-sonnet-4-5", orders: "say: Hello, you"},
	"messages/text.chunks.txt":                           {model: "claude-sonnet-4-5", orders: "say: Hello, you"},
	"messages/refusal.json":                              {model: "claude-fable-5", orders: "stop: content_filter\nempty", onPurpose: map[string]string{`.*\.stop_sequence comes where .*`: "the other recordings have the details behind it"}},
	"messages/refusal.chunks.txt":                        {model: "claude-fable-5", orders: "stop: content_filter\nempty"},
	"messages/claude-opus-5-reasoning-high.1.json":       {model: "claude-opus-5", orders: "think: 100\nsay: Hello, you"},
	"messages/clear-thinking.1.chunks.txt":               {model: "claude-sonnet-4-5", orders: "think: 100\nsay: Hello, you", onPurpose: map[string]string{`.*\.context_management .*`: "the recorded request asked for it, the service does not"}},
	"messages/json-other-tool.1.chunks.txt":              {model: "claude-haiku-4-5", orders: "call: f {\"a\":1}"},
	"messages/tool-no-args.chunks.txt":                   {model: "claude-sonnet-4-5", orders: "call: f {}\nsay: Hello, you"},
	"chat/openai-text.json":                              {model: "gpt-4.1-nano", orders: "say: Hello, you"},
	"chat/openai-text.chunks.txt":                        {model: "gpt-4.1-nano", orders: "say: Hello, you"},
	"chat/deepseek-text.json":                            {model: "deepseek-chat", orders: "say: Hello, you"},
	"chat/deepseek-reasoning.chunks.txt":                 {model: "deepseek-reasoner", orders: "think: 100\nsay: Hello, you"},
	"chat/deepseek-tool-call.chunks.txt":                 {model: "deepseek-reasoner", orders: "think: 100\ncall: f {\"a\":1}"},
	"chat/reasoning-model-legacy-parameter-error.json":   {model: "gpt-5", extra: `,"max_tokens":100`},
	"gemini/text.chunks.txt":                             {model: "gemini-3-pro-preview", orders: "think: 100\nsay: Hello, you"},
	"gemini/reasoning-gemini3.chunks.txt":                {model: "gemini-3-pro-preview", orders: "think: 100\nsay: Hello, you"},
	"gemini/reasoning-gemini3.json":                      {model: "gemini-3-pro-preview", orders: "think: 100\nsay: Hello, you"},
	"gemini/tool-call-gemini3.chunks.txt":                {model: "gemini-3-pro-preview", orders: "think: 100\ncall: f {\"location\":\"here\"}"},
	"responses/phase.1.json":                             {model: "gpt-5.3-codex", orders: "phase: commentary\nsay: Hello, you"},
	"responses/phase.1.chunks.txt":                       {model: "gpt-5.3-codex", orders: "phase: commentary\nsay: Hello, you", onPurpose: map[string]string{`.*events is .*`: "the recording has a second message"}},
	"responses/reasoning-encrypted-content.1.chunks.txt": {model: "gpt-5.1-codex-max", orders: "think: 100\ncall: f {\"a\":1}", onPurpose: map[string]string{`.*\.response\.(reasoning\.summary|tools\[\]) .*`: "the fake does not repeat the settings of a request"}},
	"responses/error.1.chunks.txt":                       {model: "gpt-5-nano", orders: "fault: error-in-stream"},
	"responses/error.1.json":                             {model: "gpt-5-nano", orders: "fail: 429"},
	"responses/reasoning-model-temperature-error.json":   {model: "gpt-5-nano", extra: `,"temperature":1`},
}

// TestRecordedVendors compares the fake with replies of vendors in the folder STOA_VENDOR_STREAMS.
func TestRecordedVendors(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("STOA_VENDOR_STREAMS")
	if dir == "" {
		t.Skip("STOA_VENDOR_STREAMS is not set: no recorded replies to compare with")
	}
	vendor := Start(t)
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*.*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings in %s (%v)", dir, err)
	}
	for _, path := range paths {
		name := filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
		c, known := recordedReplies[name]
		if !known { // arguments in pieces, for example, which the service does not request of Gemini
			t.Logf("%s is compared with nothing", name)
			continue
		}
		wire, _, _ := strings.Cut(name, "/")
		stream := strings.HasSuffix(path, ".txt")
		recorded, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			// One of the forms that the fake takes in turn must be that of the recording.
			var fewest []string
			for turn := range turns {
				fake := send(t, vendor, wire, c.model, c.orders, c.extra, stream)
				head, _, _ := strings.Cut(fake.Text, "\n\n") // the recording is of a body
				real := shape.Reply{Text: head + "\n\n" + framed(wire, string(recorded), stream)}
				if found := shape.Unexpected([]shape.Reply{real}, []shape.Reply{fake}, c.onPurpose); turn == 0 || len(found) < len(fewest) {
					fewest = found
				}
			}
			for _, d := range fewest {
				t.Error(strings.TrimPrefix(d, ": "))
			}
		})
	}
}

// turns is a multiple of the numbers of forms that the fake takes in turn.
const turns = 6

// framed returns a recorded body with the frames that the recording leaves out.
func framed(wire, body string, stream bool) string {
	if !stream {
		return body
	}
	var out strings.Builder
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if strings.Contains(line, `"type":"response.created"`) && out.Len() > 0 {
			break // of another call
		}
		var event struct{ Type string }
		if _ = json.Unmarshal([]byte(line), &event); wire == "messages" || wire == "responses" {
			fmt.Fprintf(&out, "event: %s\n", event.Type)
		}
		fmt.Fprintf(&out, "data: %s\n\n", line)
	}
	if wire == "chat" {
		out.WriteString("data: [DONE]\n\n")
	}
	return out.String()
}

// send sends a request in a format.
func send(t *testing.T, vendor *Server, wire, model, orders, extra string, stream bool) shape.Reply {
	quoted, _ := json.Marshal(orders)
	tools := strings.HasPrefix(orders, "call:") || strings.Contains(orders, "\ncall:")
	path, body := "/v1/"+wire, ""
	const parameters = `{"type":"object","properties":{"a":{"type":"string"}}}`
	switch wire {
	case "messages":
		body = `"max_tokens":1000,"messages":[{"role":"user","content":PROMPT}]`
		if tools {
			body += `,"tools":[{"name":"f","input_schema":` + parameters + `}]`
		}
	case "chat":
		path, body = "/v1/chat/completions", `"messages":[{"role":"user","content":PROMPT}]`
		if stream {
			body += `,"stream_options":{"include_usage":true}`
		}
		if tools {
			body += `,"tools":[{"type":"function","function":{"name":"f","parameters":` + parameters + `}}]`
		}
	case "responses":
		body = `"input":[{"role":"user","content":PROMPT}]`
		if tools {
			body += `,"tools":[{"type":"function","name":"f","parameters":` + parameters + `}]`
		}
	case "gemini":
		path, body = "/v1beta/models/"+model+":generateContent", `"contents":[{"role":"user","parts":[{"text":PROMPT}]}]`
		if stream {
			path = "/v1beta/models/" + model + ":streamGenerateContent?alt=sse"
		}
		if tools {
			body += `,"tools":[{"functionDeclarations":[{"name":"f","parameters":` + parameters + `}]}]`
		}
	}
	if wire != "gemini" {
		body += fmt.Sprintf(`,"model":%q,"stream":%t`, model, stream)
	}
	body = "{" + strings.Replace(body, "PROMPT", string(quoted), 1) + extra + "}"
	req, err := http.NewRequest(http.MethodPost, vendor.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"X-Api-Key": Key, "Anthropic-Version": "2023-06-01", "Authorization": "Bearer " + Key, "X-Goog-Api-Key": Key} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return shape.HTTP(t, "", res)
}
