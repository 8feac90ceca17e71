#!/usr/bin/env bash
# OpenAI Agents 0.20 loses all tools of an MCP server that has a tool "orders.get" and a tool "orders_get": it writes dots as underscores, and
# then complains of duplicate names "across MCP servers", although there is one server and both names are valid. With one of the two, the
# tools are there, and the model knows "orders.get" by the other name.
# Seen on 2026-11-30 with Node 20:
#   orders.get: orders_get · both: Duplicate tool names found across MCP servers: orders_get
set -euo pipefail
version=0.20.0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >log 2>&1
npm install --no-audit --no-fund "@openai/agents@$version" zod@4 >>log 2>&1 || { cat log; exit 1; }
cat >try.mjs <<'EOF'
import { createServer } from "node:http";
import { MCPServerStreamableHttp, getAllMcpTools } from "@openai/agents";

let names;
const server = createServer((req, res) => {
  let body = "";
  req.on("data", (piece) => (body += piece));
  req.on("end", () => {
    const m = req.method === "POST" ? JSON.parse(body) : {};
    const answers = {
      initialize: () => ({ protocolVersion: m.params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "shop", version: "1" } }),
      "tools/list": () => ({ tools: names.map((name) => ({ name, inputSchema: { type: "object", properties: {} } })) }),
    };
    if (m.id === undefined) return res.writeHead(req.method === "POST" ? 202 : 405).end();
    res.setHeader("content-type", "application/json");
    const answer = answers[m.method];
    res.end(JSON.stringify({ jsonrpc: "2.0", id: m.id, ...(answer ? { result: answer() } : { error: { code: -32601, message: "unknown" } }) }));
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
for (names of [["orders.get"], ["orders.get", "orders_get"]]) {
  const shop = new MCPServerStreamableHttp({ url: `http://127.0.0.1:${server.address().port}/mcp` });
  await shop.connect();
  console.log(names.join(" and ") + ": " + (await getAllMcpTools({ mcpServers: [shop] }).then((tools) => tools.map((t) => t.name).join(" "), (e) => e.message)));
  await shop.close();
}
process.exit(0);
EOF
node try.mjs | tee seen
diff seen - <<'EOF'
orders.get: orders_get
orders.get and orders_get: Duplicate tool names found across MCP servers: orders_get
EOF
echo "as stated, with @openai/agents $version"
