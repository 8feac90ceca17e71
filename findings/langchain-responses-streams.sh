#!/usr/bin/env bash
# LangChain's ChatOpenAI 1.6 reads one and the same reply of the Responses API in two ways. Streamed, a commentary and the final answer become one block
# of text, and the commentary gets the phase final_answer; it goes back to the model like that with the next turn. Whole, a call of a function without
# arguments ("") is an invalid call that no tool runs; streamed, it is a call with {}.
# Seen on 2026-11-30 with Node 20: the lines at the end.
set -euo pipefail
version=1.6.0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >log 2>&1
npm install --no-audit --no-fund "@langchain/openai@$version" @langchain/core@1 >>log 2>&1 || { cat log; exit 1; }
cat >try.mjs <<'EOF'
import { createServer } from "node:http";
import { ChatOpenAI } from "@langchain/openai";

const message = (id, phase, text) => ({ type: "message", id, role: "assistant", phase, status: "completed", content: [{ type: "output_text", text, annotations: [] }] });
let output;
const server = createServer((req, res) => {
  let body = "";
  req.on("data", (piece) => (body += piece));
  req.on("end", () => {
    const head = { id: "r", object: "response", created_at: 1, model: "m", tools: [], tool_choice: "auto", parallel_tool_calls: true, error: null, incomplete_details: null };
    const usage = { input_tokens: 1, input_tokens_details: { cached_tokens: 0 }, output_tokens: 1, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: 2 };
    const whole = { ...head, status: "completed", output, usage };
    if (!JSON.parse(body).stream) return res.setHeader("content-type", "application/json").end(JSON.stringify(whole));
    res.setHeader("content-type", "text/event-stream");
    const events = [{ type: "response.created", response: { ...head, status: "in_progress", output: [] } }];
    output.forEach((item, output_index) => {
      const empty = { ...item, status: "in_progress", ...(item.type === "message" ? { content: [] } : {}) };
      events.push({ type: "response.output_item.added", output_index, item: empty });
      const at = { item_id: item.id, output_index, content_index: 0 };
      for (const part of item.content ?? []) {
        events.push({ type: "response.content_part.added", ...at, part: { ...part, text: "" } }, { type: "response.output_text.delta", ...at, delta: part.text, logprobs: [] });
        events.push({ type: "response.output_text.done", ...at, text: part.text, logprobs: [] }, { type: "response.content_part.done", ...at, part });
      }
      if (item.type === "function_call") events.push({ type: "response.function_call_arguments.done", item_id: item.id, output_index, arguments: item.arguments, name: item.name });
      events.push({ type: "response.output_item.done", output_index, item });
    });
    events.push({ type: "response.completed", response: whole });
    events.forEach((event, sequence_number) => res.write(`event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`));
    res.end();
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const chat = new ChatOpenAI({ model: "m", apiKey: "none", useResponsesApi: true, configuration: { baseURL: `http://127.0.0.1:${server.address().port}/v1` }, maxRetries: 0 });
const shown = (r) => JSON.stringify(r.content.map((b) => [b.text, b.phase])) + " calls " + JSON.stringify(r.tool_calls.map((c) => c.args)) + " invalid " + r.invalid_tool_calls.length;
for (output of [
  [message("m1", "commentary", "I look it up."), message("m2", "final_answer", "It is 3.")],
  [{ type: "function_call", id: "f", call_id: "c", name: "now", arguments: "", status: "completed" }],
]) {
  console.log("whole:", shown(await chat.invoke("Hi")));
  let all;
  for await (const piece of await chat.stream("Hi")) all = all?.concat(piece) ?? piece;
  console.log("streamed:", shown(all));
}
process.exit(0);
EOF
node try.mjs | tee seen
diff seen - <<'EOF'
whole: [["I look it up.","commentary"],["It is 3.","final_answer"]] calls [] invalid 0
streamed: [["I look it up.It is 3.","final_answer"]] calls [] invalid 0
whole: [] calls [] invalid 1
streamed: [] calls [{}] invalid 0
EOF
echo "as stated, with @langchain/openai $version"
