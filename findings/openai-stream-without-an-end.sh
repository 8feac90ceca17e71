#!/usr/bin/env bash
# openai 7.59.0 (npm): a stream of the Responses API that ends cleanly before `response.completed` is not an error.
# `for await` ends in silence, and finalResponse() resolves with the status in_progress and no usage; `response.failed`
# is not an error either. Only an event `error` throws. A proxy that closes a stream in the middle therefore looks like
# a finished reply, so that a server should send an event `error` before it gives up.
# Seen on 2026-11-28 with Node 20.20.2:
#   clean end: no error, status in_progress; response.failed: no error, status failed; error: APIError
set -euo pipefail
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
cd "$temp"
npm install --silent --no-audit --no-fund openai@7.59.0
cat >run.mjs <<'JS'
import http from "node:http";
import OpenAI from "openai";
const response = (status) => ({ id: "resp_1", object: "response", created_at: 1, status, model: "m", output: [], usage: null });
const begin = [
  { type: "response.created", response: response("in_progress") },
  { type: "response.output_item.added", output_index: 0, item: { id: "msg_1", type: "message", role: "assistant", status: "in_progress", content: [] } },
  { type: "response.content_part.added", item_id: "msg_1", output_index: 0, content_index: 0, part: { type: "output_text", text: "", annotations: [] } },
  { type: "response.output_text.delta", item_id: "msg_1", output_index: 0, content_index: 0, delta: "Half of" },
];
const ends = {
  "clean end": [],
  "response.failed": [{ type: "response.failed", response: { ...response("failed"), error: { code: "server_error", message: "It failed." } } }],
  error: [{ type: "error", code: "server_error", message: "It failed.", param: null }],
};
const server = http.createServer((req, res) => {
  res.writeHead(200, { "content-type": "text/event-stream" });
  const events = [...begin, ...ends[decodeURIComponent(req.url.split("/")[1])]];
  events.forEach((e, n) => res.write(`event: ${e.type}\ndata: ${JSON.stringify({ ...e, sequence_number: n })}\n\n`));
  res.end();
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const seen = [];
for (const name of Object.keys(ends)) {
  const client = new OpenAI({ apiKey: "k", maxRetries: 0, baseURL: `http://127.0.0.1:${server.address().port}/${encodeURIComponent(name)}` });
  try {
    const stream = client.responses.stream({ model: "m", input: "hi" });
    for await (const _ of stream);
    seen.push(`${name}: no error, status ${(await stream.finalResponse()).status}`);
  } catch (e) {
    seen.push(`${name}: ${e.constructor.name}`);
  }
}
console.log(seen.join("; "));
server.close();
JS
seen=$(node run.mjs)
echo "$seen"
[[ $seen == "clean end: no error, status in_progress; response.failed: no error, status failed; error: APIError" ]]
