#!/usr/bin/env bash
# langchaingo 0.1.14 does not read these streams of chat completions and of Messages, which the vendors' own Go clients read:
#   - Two calls whose arguments arrive in turn are mixed, although each piece has its index: the first call gets no arguments, the second
#     both, in broken JSON. There is no error.
#   - An error event in a chat stream is ignored: what came before it is returned as a reply, without an error.
#   - A delta of 70 KB ends both streams with "token too long", because lines are read by bufio.Scanner with its default limit.
#   - A block redacted_thinking, or the record of a web search, ends a stream of Messages with an error; the text after it is lost.
#   - A block of thinking is a choice of its own, so that Choices[0].Content of a reply with thinking is empty.
# Seen on 2026-11-30 with Go 1.26, beside openai-go 3.99 and anthropic-sdk-go 1.84: what the end of the file has.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	aoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/tmc/langchaingo/llms"
	lanthropic "github.com/tmc/langchaingo/llms/anthropic"
	lopenai "github.com/tmc/langchaingo/llms/openai"
)

func main() {
	ctx := context.Background()
	var stream string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, stream)
	}))
	brief := func(s string) string {
		if len(s) > 1000 {
			return fmt.Sprint(len(s), " bytes")
		}
		return s
	}
	show := func(r *llms.ContentResponse, err error) {
		if err != nil {
			at := strings.LastIndex(err.Error(), ": ")
			fmt.Println("  langchaingo", "error:", err.Error()[at+2:])
			return
		}
		fmt.Print("  langchaingo")
		for i, c := range r.Choices {
			fmt.Printf(" choice %d: %q", i, brief(c.Content))
			for _, t := range c.ToolCalls {
				fmt.Printf(" %s(%s)", t.FunctionCall.Name, t.FunctionCall.Arguments)
			}
		}
		fmt.Println()
	}
	ask := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "x")}
	streaming := llms.WithStreamingFunc(func(context.Context, []byte) error { return nil })
	chat := func(name string, deltas ...string) {
		fmt.Println("chat,", name)
		stream = ""
		for _, d := range deltas {
			if strings.HasPrefix(d, `{"error"`) {
				stream += "data: " + d + "\n\n"
				continue
			}
			delta, finish, _ := strings.Cut(d, " => ")
			if finish == "" {
				finish = "null"
			}
			stream += `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + "}]}\n\n"
		}
		stream += "data: [DONE]\n\n"
		c := openai.NewClient(option.WithAPIKey("k"), option.WithBaseURL(server.URL))
		s := c.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("x")}})
		var whole openai.ChatCompletionAccumulator
		for s.Next() {
			whole.AddChunk(s.Current())
		}
		m := whole.Choices[0].Message
		fmt.Printf("  openai-go %q", brief(m.Content))
		for _, t := range m.ToolCalls {
			fmt.Printf(" %s(%s)", t.Function.Name, t.Function.Arguments)
		}
		fmt.Println(" error:", s.Err() != nil)
		l, err := lopenai.New(lopenai.WithToken("k"), lopenai.WithBaseURL(server.URL), lopenai.WithModel("m"))
		if err != nil {
			panic(err)
		}
		r, err := l.GenerateContent(ctx, ask, streaming)
		show(r, err)
	}
	call := func(index int, id, name, args string) string {
		head := ""
		if id != "" {
			head = fmt.Sprintf(`"id":%q,"type":"function",`, id)
		}
		return fmt.Sprintf(`{"tool_calls":[{"index":%d,%s"function":{"name":%q,"arguments":%q}}]}`, index, head, name, args)
	}
	long := strings.Repeat("x", 70000)
	chat("two calls in turn", call(0, "a", "f", ""), call(1, "b", "g", ""), call(0, "", "", `{"x":`), call(1, "", "", `{"y":`), call(0, "", "", `1}`), call(1, "", "", `2}`), `{} => "tool_calls"`)
	chat("an error after a piece", `{"content":"Pay 1"}`, `{"error":{"message":"overloaded","type":"server_error"}}`)
	chat("70 KB at once", `{"content":"`+long+`"}`, `{} => "stop"`)

	messages := func(name, reason string, blocks ...string) {
		fmt.Println("messages,", name)
		event := func(kind string, rest any) string {
			b, _ := json.Marshal(rest)
			return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"," + string(b[1:]) + "\n\n"
		}
		stream = event("message_start", map[string]any{"message": json.RawMessage(`{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":7,"output_tokens":1}}`)})
		for i, b := range blocks {
			block, delta, _ := strings.Cut(b, " + ")
			stream += event("content_block_start", map[string]any{"index": i, "content_block": json.RawMessage(block)})
			if delta != "" {
				stream += event("content_block_delta", map[string]any{"index": i, "delta": json.RawMessage(delta)})
			}
			stream += event("content_block_stop", map[string]any{"index": i})
		}
		stream += event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason}, "usage": map[string]int{"output_tokens": 9}})
		stream += "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
		c := anthropic.NewClient(aoption.WithAPIKey("k"), aoption.WithBaseURL(server.URL))
		s := c.Messages.NewStreaming(ctx, anthropic.MessageNewParams{Model: "m", MaxTokens: 9, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("x"))}})
		var whole anthropic.Message
		for s.Next() {
			if err := whole.Accumulate(s.Current()); err != nil {
				panic(err)
			}
		}
		fmt.Print("  anthropic-sdk-go")
		for _, b := range whole.Content {
			fmt.Printf(" %s %q", b.Type, brief(b.Text))
		}
		fmt.Println(" error:", s.Err() != nil)
		l, err := lanthropic.New(lanthropic.WithToken("k"), lanthropic.WithBaseURL(server.URL), lanthropic.WithModel("m"))
		if err != nil {
			panic(err)
		}
		r, err := l.GenerateContent(ctx, ask, streaming)
		show(r, err)
	}
	text := func(s string) string { return `{"type":"text","text":""} + {"type":"text_delta","text":"` + s + `"}` }
	messages("redacted thinking", "end_turn", `{"type":"redacted_thinking","data":"eA=="}`, text("Hello"))
	messages("a web search", "end_turn", `{"type":"server_tool_use","id":"s","name":"web_search","input":{}} + {"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}`, `{"type":"web_search_tool_result","tool_use_id":"s","content":[]}`, text("Hello"))
	messages("thinking", "end_turn", `{"type":"thinking","thinking":"","signature":""} + {"type":"thinking_delta","thinking":"hm"}`, text("Hello"))
	messages("70 KB at once", "end_turn", text(long))
}
EOF
cat >go.mod <<EOF
module example

go 1.26

require (
	github.com/anthropics/anthropic-sdk-go v1.84.0
	github.com/openai/openai-go/v3 v3.99.0
	github.com/tmc/langchaingo v0.1.14
)
EOF
go mod tidy >log 2>&1 || { cat log; exit 1; }
go run . | tee seen
diff seen - <<'EOF'
chat, two calls in turn
  openai-go "" f({"x":1}) g({"y":2}) error: false
  langchaingo choice 0: "" f() g({"x":{"y":1}2})
chat, an error after a piece
  openai-go "Pay 1" error: true
  langchaingo choice 0: "Pay 1"
chat, 70 KB at once
  openai-go "70000 bytes" error: false
  langchaingo error: token too long
messages, redacted thinking
  anthropic-sdk-go redacted_thinking "" text "Hello" error: false
  langchaingo error: redacted_thinking
messages, a web search
  anthropic-sdk-go server_tool_use "" web_search_tool_result "" text "Hello" error: false
  langchaingo error: server_tool_use
messages, thinking
  anthropic-sdk-go thinking "" text "Hello" error: false
  langchaingo choice 0: "" choice 1: "Hello"
messages, 70 KB at once
  anthropic-sdk-go text "70000 bytes" error: false
  langchaingo error: token too long
EOF
echo "as stated, with langchaingo 0.1.14"
