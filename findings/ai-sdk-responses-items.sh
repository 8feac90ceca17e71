#!/usr/bin/env bash
# AI SDK 7 with its provider for OpenAI 4.0.118: generateText refuses a whole reply of the Responses API ("Invalid JSON response") if its output has an item
# of a type that the provider does not know, six of them in the types of OpenAI's own client 7.59, whatever else the reply says. streamText takes the
# same reply and leaves the item out. So a server that adds an item breaks the one and not the other.
# Seen on 2026-11-30 with Node 20 and 22: the lines at the end.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >log 2>&1
npm install --no-audit --no-fund ai@7.0.173 @ai-sdk/openai@4.0.118 zod@4 >>log 2>&1 || { cat log; exit 1; }
cat >try.mjs <<'EOF'
import { createServer } from "node:http";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText } from "ai";

const items = [
  { type: "compaction", id: "i", encrypted_content: "zz" },
  { type: "additional_tools", id: "i", role: "developer", tools: [] },
  { type: "function_call_output", id: "i", call_id: "c", output: "x", status: "completed" },
  { type: "custom_tool_call_output", id: "i", call_id: "c", output: "x", status: "completed" },
  { type: "mcp_approval_response", id: "i", approval_request_id: "a", approve: true },
  { type: "apply_patch_call_output", id: "i", call_id: "c", status: "completed" },
  { type: "local_shell_call_output", id: "i", output: "x", status: "completed" },
];
const message = { type: "message", id: "m", role: "assistant", status: "completed", content: [{ type: "output_text", text: "hello", annotations: [] }] };
let item;
const server = createServer((req, res) => {
  let body = "";
  req.on("data", (piece) => (body += piece));
  req.on("end", () => {
    const head = { id: "r", object: "response", created_at: 1, model: "m", tools: [], tool_choice: "auto", parallel_tool_calls: true, error: null, incomplete_details: null };
    const usage = { input_tokens: 1, input_tokens_details: { cached_tokens: 0 }, output_tokens: 1, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 2 };
    const whole = { ...head, status: "completed", output: [item, message], usage };
    if (!JSON.parse(body).stream) return res.setHeader("content-type", "application/json").end(JSON.stringify(whole));
    res.setHeader("content-type", "text/event-stream");
    const at = { item_id: "m", output_index: 1, content_index: 0 };
    [
      { type: "response.created", response: { ...head, status: "in_progress", output: [] } },
      { type: "response.output_item.added", output_index: 0, item },
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.output_item.added", output_index: 1, item: { ...message, status: "in_progress", content: [] } },
      { type: "response.content_part.added", ...at, part: { type: "output_text", text: "", annotations: [] } },
      { type: "response.output_text.delta", ...at, delta: "hello", logprobs: [] },
      { type: "response.output_text.done", ...at, text: "hello", logprobs: [] },
      { type: "response.content_part.done", ...at, part: message.content[0] },
      { type: "response.output_item.done", output_index: 1, item: message },
      { type: "response.completed", response: whole },
    ].forEach((event, sequence_number) => res.write(`event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`));
    res.end();
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const model = createOpenAI({ baseURL: `http://127.0.0.1:${server.address().port}/v1`, apiKey: "none" }).responses("gpt-5");
for (item of items) {
  const asked = { model, prompt: "Hi", maxRetries: 0 };
  const whole = await generateText(asked).then((r) => r.text, (e) => e.message);
  const streamed = await streamText({ ...asked, onError() {} }).text;
  console.log(`${item.type}: generateText ${whole}, streamText ${streamed}`);
}
process.exit(0);
EOF
node try.mjs | tee seen
diff seen - <<'EOF'
compaction: generateText hello, streamText hello
additional_tools: generateText Invalid JSON response, streamText hello
function_call_output: generateText Invalid JSON response, streamText hello
custom_tool_call_output: generateText Invalid JSON response, streamText hello
mcp_approval_response: generateText Invalid JSON response, streamText hello
apply_patch_call_output: generateText Invalid JSON response, streamText hello
local_shell_call_output: generateText Invalid JSON response, streamText hello
EOF
echo "as stated, with ai 7.0.173 and @ai-sdk/openai 4.0.118"
