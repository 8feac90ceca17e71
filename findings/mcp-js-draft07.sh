#!/usr/bin/env bash
# MCP says that a schema without $schema is JSON Schema 2020-12. The TypeScript SDK 1.32, still the one of most clients, reads the
# output schema of a tool as draft-07, also if $schema names 2020-12: it refuses a tuple that is right, because items: false
# means "no items at all" there, and accepts values that break prefixItems, dependentRequired and unevaluatedProperties. The client 2.4
# reads the same schemas as they are meant.
# Seen on 2026-11-30 with Node 20:
#   sdk: right tuple refused · wrong first item accepted · missing member accepted · unknown member accepted
#   client: right tuple accepted · wrong first item refused · missing member refused · unknown member refused
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

const of = (value) => ({ $schema: "https://json-schema.org/draft/2020-12/schema", type: "object", properties: { value } });
const tools = {
  "right tuple": [of({ type: "array", prefixItems: [{ type: "integer" }, { type: "string" }], items: false }), [1, "a"]],
  "wrong first item": [of({ type: "array", prefixItems: [{ type: "integer" }] }), ["a"]],
  "missing member": [of({ type: "object", dependentRequired: { card: ["address"] } }), { card: 1 }],
  "unknown member": [of({ type: "object", allOf: [{ properties: { a: {} } }], unevaluatedProperties: false }), { b: 1 }],
};
const server = createServer((req, res) => {
  let body = "";
  req.on("data", (piece) => (body += piece));
  req.on("end", () => {
    const m = req.method === "POST" ? JSON.parse(body) : {};
    const answers = {
      initialize: () => ({ protocolVersion: m.params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "tuples", version: "1" } }),
      "tools/list": () => ({ tools: Object.entries(tools).map(([name, [outputSchema]]) => ({ name, inputSchema: { type: "object" }, outputSchema })) }),
      "tools/call": () => {
        const structuredContent = { value: tools[m.params.name][1] };
        return { content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent };
      },
    };
    if (m.id === undefined) return res.writeHead(req.method === "POST" ? 202 : 405).end();
    res.setHeader("content-type", "application/json");
    const answer = answers[m.method];
    res.end(JSON.stringify({ jsonrpc: "2.0", id: m.id, ...(answer ? { result: answer() } : { error: { code: -32601, message: "unknown" } }) }));
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const url = new URL(`http://127.0.0.1:${server.address().port}/mcp`);
for (const [label, c, transport] of [
  ["sdk", new Client({ name: "c", version: "1" }), new StreamableHTTPClientTransport(url)],
  ["client", new next.Client({ name: "c", version: "1" }), new next.StreamableHTTPClientTransport(url)],
]) {
  await c.connect(transport);
  await c.listTools();
  const seen = [];
  for (const name of Object.keys(tools)) seen.push(name + " " + (await c.callTool({ name, arguments: {} }).then(() => "accepted", () => "refused")));
  console.log(`${label}: ${seen.join(" · ")}`);
  await c.close();
}
server.close();
server.closeAllConnections();
EOF
node try.mjs | tee seen
diff seen - <<'EOF'
sdk: right tuple refused · wrong first item accepted · missing member accepted · unknown member accepted
client: right tuple accepted · wrong first item refused · missing member refused · unknown member refused
EOF
echo "as stated, with @modelcontextprotocol/sdk $sdk and client $client"
