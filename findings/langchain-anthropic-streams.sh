#!/usr/bin/env bash
# LangChain's ChatAnthropic 1.5 makes another message of a streamed reply than of the same reply whole, and sends it back to the model like that. Redacted
# thinking, which has to go back unchanged, is lost; a thinking block without text, as with display "omitted", loses its member "thinking", which
# the API requires; a text behind a call stands before it; and the output tokens of message_start are added to the total of message_delta,
# so that each streamed reply counts more.
# Seen on 2026-11-30 with Node 20: the lines at the end.
set -euo pipefail
version=1.5.11
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >log 2>&1
npm install --no-audit --no-fund "@langchain/anthropic@$version" @langchain/core@1 >>log 2>&1 || { cat log; exit 1; }
cat >try.mjs <<'EOF'
import { createServer } from "node:http";
import { ChatAnthropic } from "@langchain/anthropic";

let content, asked;
const server = createServer((req, res) => {
  let body = "";
  req.on("data", (piece) => (body += piece));
  req.on("end", () => {
    asked = JSON.parse(body);
    const usage = { input_tokens: 3, output_tokens: 9 };
    const message = { id: "m", type: "message", role: "assistant", model: "c", content, stop_reason: "end_turn", stop_sequence: null, usage };
    if (!asked.stream) return res.setHeader("content-type", "application/json").end(JSON.stringify(message));
    res.setHeader("content-type", "text/event-stream");
    const send = (event) => res.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    send({ type: "message_start", message: { ...message, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } } });
    content.forEach((block, index) => {
      const begun = { text: { type: "text", text: "" }, thinking: { type: "thinking", thinking: "", signature: "" }, tool_use: { ...block, input: {} } };
      send({ type: "content_block_start", index, content_block: begun[block.type] ?? block });
      const delta = { text: { type: "text_delta", text: block.text }, thinking: { type: "signature_delta", signature: block.signature }, tool_use: { type: "input_json_delta", partial_json: JSON.stringify(block.input) } };
      if (delta[block.type]) send({ type: "content_block_delta", index, delta: delta[block.type] });
      send({ type: "content_block_stop", index });
    });
    send({ type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage });
    send({ type: "message_stop" });
    res.end();
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const chat = new ChatAnthropic({ model: "claude-x", apiKey: "none", anthropicApiUrl: `http://127.0.0.1:${server.address().port}`, maxRetries: 0, maxTokens: 100 });
const text = { type: "text", text: "hi" };
for (const [name, blocks] of [
  ["redacted", [{ type: "redacted_thinking", data: "zz" }, text]],
  ["omitted", [{ type: "thinking", thinking: "", signature: "c2ln" }, text]],
  ["call", [{ type: "tool_use", id: "t", name: "now", input: { a: 1 } }, text]],
]) {
  content = blocks;
  const whole = await chat.invoke("Hi");
  let streamed;
  for await (const piece of await chat.stream("Hi")) streamed = streamed?.concat(piece) ?? piece;
  content = [text];
  for (const [way, reply] of [["whole", whole], ["streamed", streamed]]) {
    await chat.invoke([["human", "Hi"], reply, ["human", "Go on"]]);
    const back = asked.messages[1].content;
    const shown = typeof back === "string" ? "text" : back.map((b) => b.type + (b.type === "thinking" && !("thinking" in b) ? " without its text" : "")).join(", ");
    console.log(`${name} ${way}: sends back ${shown}; ${reply.usage_metadata.output_tokens} output tokens`);
  }
}
process.exit(0);
EOF
node try.mjs | tee seen
diff seen - <<'EOF'
redacted whole: sends back redacted_thinking, text; 9 output tokens
redacted streamed: sends back text; 10 output tokens
omitted whole: sends back thinking, text; 9 output tokens
omitted streamed: sends back thinking without its text, text; 10 output tokens
call whole: sends back tool_use, text; 9 output tokens
call streamed: sends back text, tool_use; 10 output tokens
EOF
echo "as stated, with @langchain/anthropic $version"
