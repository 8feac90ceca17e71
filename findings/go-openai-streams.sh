#!/usr/bin/env bash
# go-openai 1.43 (github.com/sashabaranov/go-openai) does not read two kinds of server-sent events that the standard allows and that OpenAI's own
# library for Go reads:
#   - More than 300 lines without data between two events, such as the comments by which services fill a pause: "stream has sent too many
#     empty messages". A comment with its empty line counts as two, so 150 of them end a stream that only waited.
#   - An event whose JSON is on two data lines: "unexpected end of JSON input".
# Seen on 2026-11-30 with Go 1.26, beside openai-go 3.99: what the end of the file has.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >main.go <<'EOF'
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	other "github.com/sashabaranov/go-openai"
)

func main() {
	ctx := context.Background()
	var stream string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, stream)
	}))
	chunk := func(text, between, reason string) string {
		return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m",` + between + `"choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":` + reason + "}]}\n\n"
	}
	end := chunk("lo", "", `"stop"`) + "data: [DONE]\n\n"
	for _, c := range [][2]string{
		{"149 comments", chunk("Hel", "", "null") + strings.Repeat(": wait\n\n", 149) + end},
		{"150 comments", chunk("Hel", "", "null") + strings.Repeat(": wait\n\n", 150) + end},
		{"two data lines", chunk("Hel", "\ndata: ", "null") + end},
	} {
		stream = c[1]
		client := openai.NewClient(option.WithAPIKey("k"), option.WithBaseURL(server.URL))
		s := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("x")}})
		text := ""
		for s.Next() {
			text += s.Current().Choices[0].Delta.Content
		}
		fmt.Printf("%s: openai-go %q, error %v\n", c[0], text, s.Err())
		cfg := other.DefaultConfig("k")
		cfg.BaseURL = server.URL
		o, err := other.NewClientWithConfig(cfg).CreateChatCompletionStream(ctx, other.ChatCompletionRequest{Model: "m", Messages: []other.ChatCompletionMessage{{Role: "user", Content: "x"}}})
		for text = ""; err == nil; {
			var next other.ChatCompletionStreamResponse
			if next, err = o.Recv(); err == nil {
				text += next.Choices[0].Delta.Content
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		fmt.Printf("%s: go-openai %q, error %v\n", c[0], text, err)
	}
}
EOF
cat >go.mod <<EOF
module example

go 1.26

require (
	github.com/openai/openai-go/v3 v3.99.0
	github.com/sashabaranov/go-openai v1.43.0
)
EOF
go mod tidy >log 2>&1 || { cat log; exit 1; }
go run . | tee seen
diff seen - <<'EOF'
149 comments: openai-go "Hello", error <nil>
149 comments: go-openai "Hello", error <nil>
150 comments: openai-go "Hello", error <nil>
150 comments: go-openai "Hel", error stream has sent too many empty messages
two data lines: openai-go "Hello", error <nil>
two data lines: go-openai "", error unexpected end of JSON input
EOF
echo "as stated, with go-openai 1.43.0"
