#!/usr/bin/env bash
# The client of AG-UI 1.0 adds the text of a message that it has to the text that it has: a server that sends a run again from its
# beginning, with the same ids, doubles each text and the arguments of each tool call. No rule of the protocol that the client
# checks is broken, and it warns of nothing. A snapshot without the messages of the run has to come first.
# Seen on 2026-11-29 with Node 20:
#   first run: Hello · run again: HelloHello · with a snapshot: Hello
set -euo pipefail
client=1.0.0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >log 2>&1
npm install --no-audit --no-fund "@ag-ui/client@$client" >>log 2>&1 || { cat log; exit 1; }
cat >try.mjs <<'EOF'
import { createServer } from "node:http";
import { HttpAgent } from "@ag-ui/client";

const said = [
  { type: "TEXT_MESSAGE_START", messageId: "m1", role: "assistant" },
  { type: "TEXT_MESSAGE_CONTENT", messageId: "m1", delta: "Hello" },
  { type: "TEXT_MESSAGE_END", messageId: "m1" },
];
let before = [];
const server = createServer((req, res) => {
  let body = "";
  req.on("data", (piece) => (body += piece));
  req.on("end", () => {
    const { threadId, runId } = JSON.parse(body);
    res.setHeader("Content-Type", "text/event-stream");
    for (const e of [{ type: "RUN_STARTED", threadId, runId }, ...before, ...said, { type: "RUN_FINISHED", threadId, runId }]) res.write(`data: ${JSON.stringify(e)}\n\n`);
    res.end();
  });
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const warnings = [];
console.warn = (...args) => warnings.push(args.join(" "));
const agent = new HttpAgent({ url: `http://127.0.0.1:${server.address().port}/` });
const asked = { id: "u1", role: "user", content: "Hi" };
agent.addMessage(asked);
const shown = () => agent.messages.filter((m) => m.role === "assistant").map((m) => m.content).join("|");
await agent.runAgent({ runId: "r1" });
console.log("first run:", shown());
await agent.runAgent({ runId: "r1" });
console.log("run again:", shown());
before = [{ type: "MESSAGES_SNAPSHOT", messages: [asked] }];
await agent.runAgent({ runId: "r1" });
console.log("with a snapshot:", shown());
console.log("warnings:", warnings.length);
server.close();
EOF
node try.mjs | tee seen
diff seen - <<'EOF'
first run: Hello
run again: HelloHello
with a snapshot: Hello
warnings: 0
EOF
echo "as stated, with @ag-ui/client $client"
