#!/usr/bin/env bash
# The TypeScript clients of MCP keep the compiled output schema of a tool by its $id. When a server changes the schema and leaves the $id as
# it is, a client that has read the new list still checks results by the old schema, and refuses results that the list describes. Without
# $id it checks by the new one.
# Seen on 2026-11-30 with Node 20, for both clients:
#   without $id: number accepted, then string accepted · with $id: number accepted, then string refused: data/amount must be number
set -euo pipefail
sdk=1.32.2 client=2.4.0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >log 2>&1
npm install --no-audit --no-fund "@modelcontextprotocol/sdk@$sdk" "@modelcontextprotocol/client@$client" >>log 2>&1 || { cat log; exit 1; }
cat >try.mjs <<'EOF'
import { createServer } from "node:http";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as next from "@modelcontextprotocol/client";

let outputSchema, structuredContent;
const server = createServer((req, res) => {
  let body = "";
  req.on("data", (piece) => (body += piece));
  req.on("end", () => {
    const m = req.method === "POST" ? JSON.parse(body) : {};
    const answers = {
      initialize: () => ({ protocolVersion: m.params.protocolVersion, capabilities: { tools: { listChanged: true } }, serverInfo: { name: "prices", version: "1" } }),
      "tools/list": () => ({ tools: [{ name: "price", inputSchema: { type: "object" }, outputSchema }] }),
      "tools/call": () => ({ content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent }),
    };
    if (m.id === undefined) return res.writeHead(req.method === "POST" ? 202 : 405).end();
    res.setHeader("content-type", "application/json");
    const answer = answers[m.method];
    res.end(JSON.stringify({ jsonrpc: "2.0", id: m.id, ...(answer ? { result: answer() } : { error: { code: -32601, message: "unknown" } }) }));
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const url = new URL(`http://127.0.0.1:${server.address().port}/mcp`);
for (const [label, make] of [
  ["sdk", () => [new Client({ name: "c", version: "1" }), new StreamableHTTPClientTransport(url)]],
  ["client", () => [new next.Client({ name: "c", version: "1" }), new next.StreamableHTTPClientTransport(url)]],
]) {
  for (const $id of [undefined, "https://example.com/price.json"]) {
    const [c, transport] = make();
    await c.connect(transport);
    const seen = [];
    for (const [type, amount] of [["number", 2], ["string", "1.50"]]) {
      outputSchema = { $id, type: "object", properties: { amount: { type } }, required: ["amount"] };
      structuredContent = { amount };
      const listed = (await c.listTools()).tools[0].outputSchema.properties.amount.type;
      seen.push(listed + " " + (await c.callTool({ name: "price", arguments: {} }).then(() => "accepted", (e) => "refused: " + e.message.split("schema: ").pop())));
    }
    console.log(`${label} ${$id ? "with" : "without"} $id: ${seen.join(", then ")}`);
    await c.close();
  }
}
server.close();
server.closeAllConnections();
EOF
node try.mjs | tee seen
diff seen - <<'EOF'
sdk without $id: number accepted, then string accepted
sdk with $id: number accepted, then string refused: data/amount must be number
client without $id: number accepted, then string accepted
client with $id: number accepted, then string refused: data/amount must be number
EOF
echo "as stated, with @modelcontextprotocol/sdk $sdk and client $client"
