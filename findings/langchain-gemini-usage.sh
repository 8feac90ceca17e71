#!/usr/bin/env bash
# LangChain's ChatGoogleGenerativeAI (@langchain/google-genai 2.3) counts a streamed reply of Gemini's API wrongly. The vendor repeats its usage
# with every chunk; the library takes the last of the counts of input and output, and adds the cached tokens of all chunks up: a prompt of 100
# tokens of which 40 were cached has 120 cached ones after three chunks, so that its price is negative for whoever subtracts them. Tokens of
# thoughts are in the total and in no part, also in a whole reply: 100 + 10 = 140. AI SDK's provider (@ai-sdk/google 4.0) has 40 of each.
# Seen on 2026-11-30 with Node 20: what the end of the file has.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --legacy-peer-deps @langchain/google-genai@2.3.2 @langchain/core@1.4.0 @ai-sdk/google@4.0.121 ai@7.0.173 zod@4.6.7
cat >main.mjs <<'EOF'
import http from "node:http";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { ChatGoogleGenerativeAI } from "@langchain/google-genai";
import { generateText, streamText } from "ai";
const piece = (text, visible, end) => ({
  candidates: [{ content: { role: "model", parts: [{ text }] }, index: 0, ...(end && { finishReason: "STOP" }) }],
  usageMetadata: { promptTokenCount: 100, cachedContentTokenCount: 40, candidatesTokenCount: visible, thoughtsTokenCount: 30, totalTokenCount: 130 + visible },
});
const chunks = [piece("Hel", 2), piece("lo ", 5), piece("you", 10, true)];
const server = http.createServer((q, r) => {
  q.resume().on("end", () => {
    const streamed = q.url.includes("stream");
    r.writeHead(200, { "content-type": streamed ? "text/event-stream" : "application/json" });
    r.end(streamed ? chunks.map((c) => `data: ${JSON.stringify(c)}\r\n\r\n`).join("") : JSON.stringify(piece("Hello you", 10, true)));
  });
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const base = `http://127.0.0.1:${server.address().port}`;
const show = (name, input, cached, output, total) => console.log(`${name}: input ${input}, of which cached ${cached}, output ${output}, total ${total}`);
const chat = new ChatGoogleGenerativeAI({ model: "gemini-3-flash", apiKey: "k", baseUrl: base });
const lang = (name, u) => show(`LangChain, ${name}`, u.input_tokens, u.input_token_details.cache_read, u.output_tokens, u.total_tokens);
lang("whole", (await chat.invoke("x")).usage_metadata);
let all;
for await (const c of await chat.stream("x")) all = all ? all.concat(c) : c;
lang("streamed", all.usage_metadata);
const model = createGoogleGenerativeAI({ apiKey: "k", baseURL: base + "/v1beta" })("gemini-3-flash");
const sdk = (name, u) => show(`AI SDK, ${name}`, u.inputTokens, u.inputTokenDetails.cacheReadTokens, u.outputTokens, u.totalTokens);
sdk("whole", (await generateText({ model, prompt: "x" })).usage);
const stream = streamText({ model, prompt: "x" });
for await (const _ of stream.textStream);
sdk("streamed", await stream.usage);
server.close();
EOF
node main.mjs 2>/dev/null | tee seen
diff seen - <<'EOF'
LangChain, whole: input 100, of which cached 40, output 10, total 140
LangChain, streamed: input 100, of which cached 120, output 10, total 140
AI SDK, whole: input 100, of which cached 40, output 40, total 140
AI SDK, streamed: input 100, of which cached 40, output 40, total 140
EOF
echo "as stated, with @langchain/google-genai 2.3.2 and @ai-sdk/google 4.0.121"
