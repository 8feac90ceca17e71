#!/usr/bin/env bash
# Google's libraries for Go (genai 1.77) and JavaScript (@google/genai 3.3) read the streams of Gemini's API otherwise than each other, and
# their chats forget turns that they have shown:
#   - A chunk without a content after the text, as for the finish reason or the usage alone, is shown by both, but the next request of the
#     chat has neither the question nor the answer. A content with a role and without parts does the same. There is no error.
#   - A thought signature in a last part with an empty text is sent back by JavaScript, and not by Go.
#   - Each chunk becomes a content of its own: an answer in three pieces is three turns of the model in the next request.
#   - A comment of server-sent events (a line that begins with a colon) is an error in Go and nothing in JavaScript. So is an event that
#     ends with \n\n after one that ends with \r\n\r\n.
# Seen on 2026-11-30 with Go 1.26 and Node 20: what the end of the file has.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
cat >cases.json <<'EOF'
[
  ["three pieces", "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Hel\"}]}}]}\n\ndata: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"lo\"}]}}]}\n\ndata: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"!\"}]},\"finishReason\":\"STOP\"}]}\n\n"],
  ["a reason alone", "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Hello\"}]}}]}\n\ndata: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n"],
  ["usage alone", "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Hello\"}]},\"finishReason\":\"STOP\"}]}\n\ndata: {\"usageMetadata\":{\"promptTokenCount\":1}}\n\n"],
  ["a role without parts", "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Hello\"}]}}]}\n\ndata: {\"candidates\":[{\"content\":{\"role\":\"model\"},\"finishReason\":\"STOP\"}]}\n\n"],
  ["a signature at the end", "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Hello\"}]}}]}\n\ndata: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"\",\"thoughtSignature\":\"U0lH\"}]},\"finishReason\":\"STOP\"}]}\n\n"],
  ["a comment", "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Hel\"}]}}]}\n\n: wait\n\ndata: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"lo\"}]},\"finishReason\":\"STOP\"}]}\n\n"],
  ["two line ends", "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"Hel\"}]}}]}\r\n\r\ndata: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"lo\"}]},\"finishReason\":\"STOP\"}]}\n\n"]
]
EOF
# Both send "one", show what they read, send "two", and print the contents of that request.
cat >main.go <<'EOF'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"google.golang.org/genai"
)

func main() {
	ctx := context.Background()
	text, _ := os.ReadFile("cases.json")
	var cases [][2]string
	if err := json.Unmarshal(text, &cases); err != nil {
		panic(err)
	}
	var stream string
	var sent []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, stream)
	}))
	for _, c := range cases {
		client, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: "k", Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: server.URL}})
		if err != nil {
			panic(err)
		}
		chat, _ := client.Chats.Create(ctx, "m", nil, nil)
		stream = c[1]
		shown, failed := "", ""
		send := func(text string) {
			for r, err := range chat.SendMessageStream(ctx, genai.Part{Text: text}) {
				if err != nil {
					failed = ", an error"
					return
				}
				shown += r.Text()
			}
		}
		send("one")
		was, why := shown, failed
		send("two")
		var body struct {
			Contents []struct {
				Role  string
				Parts []struct {
					Text             string
					ThoughtSignature string
				}
			}
		}
		if err := json.Unmarshal(sent, &body); err != nil {
			panic(err)
		}
		var turns []string
		for _, t := range body.Contents {
			turns = append(turns, fmt.Sprintf("%s %q%s", t.Role, t.Parts[0].Text, t.Parts[0].ThoughtSignature))
		}
		fmt.Printf("Go, %s: shown %q%s; then sent %s\n", c[0], was, why, strings.Join(turns, ", "))
	}
}
EOF
cat >main.mjs <<'EOF'
import { readFileSync } from "node:fs";
import http from "node:http";
import { GoogleGenAI } from "@google/genai";
let stream, sent;
const server = http.createServer((q, r) => {
  let body = "";
  q.on("data", (d) => (body += d)).on("end", () => { sent = JSON.parse(body); r.writeHead(200, { "content-type": "text/event-stream" }); r.end(stream); });
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
for (const [name, text] of JSON.parse(readFileSync("cases.json"))) {
  const chat = new GoogleGenAI({ apiKey: "k", httpOptions: { baseUrl: `http://127.0.0.1:${server.address().port}` } }).chats.create({ model: "m" });
  stream = text;
  let shown = "", failed = "";
  const send = async (message) => { try { for await (const r of await chat.sendMessageStream({ message })) shown += r.text ?? ""; } catch { failed = ", an error"; } };
  await send("one");
  const was = shown, why = failed;
  await send("two");
  const turns = sent.contents.map((t) => `${t.role} ${JSON.stringify(t.parts[0].text)}${t.parts[0].thoughtSignature ?? ""}`);
  console.log(`JavaScript, ${name}: shown ${JSON.stringify(was)}${why}; then sent ${turns.join(", ")}`);
}
server.close();
EOF
cat >go.mod <<'EOF'
module example

go 1.26

require google.golang.org/genai v1.77.0
EOF
npm install --silent --no-audit --no-fund @google/genai@3.3.0
go mod tidy >log 2>&1 || { cat log; exit 1; }
{ go run . && node main.mjs 2>/dev/null; } | tee seen
diff seen - <<'EOF'
Go, three pieces: shown "Hello!"; then sent user "one", model "Hel", model "lo", model "!", user "two"
Go, a reason alone: shown "Hello"; then sent user "two"
Go, usage alone: shown "Hello"; then sent user "two"
Go, a role without parts: shown "Hello"; then sent user "two"
Go, a signature at the end: shown "Hello"; then sent user "one", model "Hello", user "two"
Go, a comment: shown "Hel", an error; then sent user "two"
Go, two line ends: shown "", an error; then sent user "two"
JavaScript, three pieces: shown "Hello!"; then sent user "one", model "Hel", model "lo", model "!", user "two"
JavaScript, a reason alone: shown "Hello"; then sent user "two"
JavaScript, usage alone: shown "Hello"; then sent user "two"
JavaScript, a role without parts: shown "Hello"; then sent user "two"
JavaScript, a signature at the end: shown "Hello"; then sent user "one", model "Hello", model ""U0lH, user "two"
JavaScript, a comment: shown "Hello"; then sent user "one", model "Hel", model "lo", user "two"
JavaScript, two line ends: shown "Hello"; then sent user "one", model "Hel", model "lo", user "two"
EOF
echo "as stated, with genai 1.77.0 and @google/genai 3.3.0"
