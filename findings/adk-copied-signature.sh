#!/usr/bin/env bash
# Google's ADK for JavaScript 2.0 gives a thought signature to calls that the vendor did not sign, and with StreamingMode.SSE it makes two
# steps of two parallel calls if they come in two chunks: the model has then asked for the second city after it had the first result. Each
# step has the signature of the first call. @google/genai 3.3, with which it speaks to the vendor, sends the calls as they came.
# Seen on 2026-11-30 with Node 20: what the end of the file has.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --legacy-peer-deps @google/adk@2.0.0 @google/genai@3.3.0 zod@4.6.7
cat >main.mjs <<'EOF'
import http from "node:http";
import { GoogleGenAI } from "@google/genai";
import { FunctionTool, Gemini, InMemoryRunner, LlmAgent, StreamingMode } from "@google/adk";
import { z } from "zod";
const chunk = (parts, reason) => `data: ${JSON.stringify({ candidates: [{ content: { role: "model", parts }, ...(reason && { finishReason: reason }) }] })}\n\n`;
const call = (city) => ({ functionCall: { name: "weather", args: { city } } });
const first = { thoughtSignature: "U0lH", ...call("Oslo") };
const chunks = { "in one chunk": chunk([first, call("Rome")], "STOP"), "in two chunks": chunk([first]) + chunk([call("Rome")]) + chunk([{ text: "" }], "STOP") };
let reply, sent;
const server = http.createServer((q, r) => {
  let body = "";
  q.on("data", (d) => (body += d)).on("end", () => {
    sent.push(JSON.parse(body).contents);
    r.writeHead(200, { "content-type": "text/event-stream" });
    r.end(sent.length === 1 ? chunks[reply] : chunk([{ text: "Both are sunny." }], "STOP"));
  });
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const baseUrl = `http://127.0.0.1:${server.address().port}`;
process.env.GOOGLE_GEMINI_BASE_URL = baseUrl;
const brief = (contents) => contents.map((c) => `${c.role}(${c.parts.map((p) => p.functionCall ? `call ${p.functionCall.args.city}${p.thoughtSignature ? " signed" : ""}` : p.functionResponse ? "result" : p.text).join(", ")})`).join(" ");
for (reply of Object.keys(chunks)) {
  sent = [];
  const tool = { tool: async () => ({ functionDeclarations: [{ name: "weather" }] }), callTool: async (calls) => calls.map((c) => ({ functionResponse: { name: c.name, response: { output: "sunny" } } })) };
  const stream = await new GoogleGenAI({ apiKey: "k" }).models.generateContentStream({ model: "m", contents: "x", config: { tools: [tool] } });
  for await (const _ of stream);
  console.log(`@google/genai, ${reply}: ${sent.length} requests, the last: ${brief(sent.at(-1))}`);
}
for (reply of Object.keys(chunks)) {
  sent = [];
  const weather = new FunctionTool({ name: "weather", description: "w", parameters: z.object({ city: z.string() }), execute: async () => "sunny" });
  const runner = new InMemoryRunner({ appName: "a", agent: new LlmAgent({ name: "a", model: new Gemini({ model: "gemini-3-flash", apiKey: "k" }), tools: [weather] }) });
  const session = await runner.sessionService.createSession({ appName: "a", userId: "u" });
  for await (const _ of runner.runAsync({ userId: "u", sessionId: session.id, newMessage: { role: "user", parts: [{ text: "x" }] }, runConfig: { streamingMode: StreamingMode.SSE } }));
  console.log(`@google/adk, ${reply}: ${sent.length} requests, the last: ${brief(sent.at(-1))}`);
}
server.close();
EOF
node main.mjs 2>/dev/null | grep "^@" | tee seen
diff seen - <<'EOF'
@google/genai, in one chunk: 2 requests, the last: user(x) model(call Oslo signed, call Rome) user(result, result)
@google/genai, in two chunks: 2 requests, the last: user(x) model(call Oslo signed) model(call Rome) model() user(result, result)
@google/adk, in one chunk: 2 requests, the last: user(x) model(call Oslo signed, call Rome signed) user(result, result)
@google/adk, in two chunks: 2 requests, the last: user(x) model(call Oslo signed) user(result) model(call Rome signed) user(result)
EOF
echo "as stated, with @google/adk 2.0.0 and @google/genai 3.3.0"
