#!/usr/bin/env bash
# What a model gets to see of a valid MCP result depends on the framework. A result with structuredContent and no content (a copy as text is only
# a SHOULD of the protocol) is nothing for the models of AI SDK, LangChain and OpenAI Agents; Mastra gives the value. AI SDK and OpenAI Agents do
# not tell the model that a result is an error. LangChain gives the value twice, as JSON in JSON, if a server sends it in both.
# Seen on 2026-11-30 with Node 20: the table at the end.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >log 2>&1
npm install --no-audit --no-fund @ai-sdk/mcp@2.0.99 @langchain/mcp-adapters@1.1.4 @langchain/core@1 @openai/agents@0.20.0 @mastra/mcp@2.0.0 zod@4 >>log 2>&1 || { cat log; exit 1; }
cat >try.mjs <<'EOF'
import { createServer } from "node:http";
import { createMCPClient } from "@ai-sdk/mcp";
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { MCPServerStreamableHttp, getAllMcpTools } from "@openai/agents";
import { MCPClient } from "@mastra/mcp";

const value = { stock: 3 };
const results = {
  structured: { content: [], structuredContent: value },
  both: { content: [{ type: "text", text: JSON.stringify(value) }], structuredContent: value },
  error: { isError: true, content: [{ type: "text", text: "sold out" }] },
};
const server = createServer((req, res) => {
  let body = "";
  req.on("data", (piece) => (body += piece));
  req.on("end", () => {
    const m = req.method === "POST" ? JSON.parse(body) : {};
    const answers = {
      initialize: () => ({ protocolVersion: m.params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "stock", version: "1" } }),
      "tools/list": () => ({ tools: Object.keys(results).map((name) => ({ name, inputSchema: { type: "object", properties: {} } })) }),
      "tools/call": () => results[m.params.name],
    };
    if (m.id === undefined) return res.writeHead(req.method === "POST" ? 202 : 405).end();
    res.setHeader("content-type", "application/json");
    const answer = answers[m.method];
    res.end(JSON.stringify({ jsonrpc: "2.0", id: m.id, ...(answer ? { result: answer() } : { error: { code: -32601, message: "unknown" } }) }));
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const url = `http://127.0.0.1:${server.address().port}/mcp`;
console.error = () => {};
const said = (label, name, got) => process.stdout.write(`${label} ${name}: ${got}\n`);
const json = JSON.stringify;

const ai = await createMCPClient({ transport: { type: "http", url } });
const aiTools = await ai.tools();
const chain = new MultiServerMCPClient({ mcpServers: { stock: { url, transport: "http" } } });
const chainTools = await chain.getTools();
const openai = new MCPServerStreamableHttp({ url });
await openai.connect();
const openaiTools = await getAllMcpTools({ mcpServers: [openai] });
const mastra = new MCPClient({ servers: { stock: { url: new URL(url) } } });
const mastraTools = await mastra.listTools();
for (const name of Object.keys(results)) {
  const output = await aiTools[name].execute({}, { toolCallId: "1", messages: [] });
  said("AI SDK", name, json((await aiTools[name].toModelOutput({ output, toolCallId: "1", input: {} })).value));
  said("LangChain", name, await chainTools.find((t) => t.name === name).invoke({ type: "tool_call", id: "1", name, args: {} }).then((m) => json(m.content), () => "raises"));
  said("OpenAI Agents", name, json(await openaiTools.find((t) => t.name === name).invoke({ context: {} }, "{}", {})));
  said("Mastra", name, await mastraTools["stock_" + name].execute({}, {}).then(json, () => "raises"));
}
process.exit(0);
EOF
node try.mjs 2>errors | grep -E "^(AI SDK|LangChain|OpenAI Agents|Mastra) (structured|both|error): " | tee seen || cat errors
diff seen - <<'EOF'
AI SDK structured: []
LangChain structured: []
OpenAI Agents structured: []
Mastra structured: {"stock":3}
AI SDK both: [{"type":"text","text":"{\"stock\":3}"}]
LangChain both: "{\"type\":\"text\",\"text\":\"{\\\"stock\\\":3}\",\"structuredContent\":{\"stock\":3}}"
OpenAI Agents both: {"type":"text","text":"{\"stock\":3}"}
Mastra both: {"stock":3}
AI SDK error: [{"type":"text","text":"sold out"}]
LangChain error: raises
OpenAI Agents error: {"type":"text","text":"sold out"}
Mastra error: raises
EOF
echo "as stated, with @ai-sdk/mcp 2.0.99, @langchain/mcp-adapters 1.1.4, @openai/agents 0.20.0, @mastra/mcp 2.0.0"
