#!/usr/bin/env bash
# Templates of resources in MCP are those of RFC 6570. The TypeScript server 2.4 finds a resource with {?tag,limit} only if the address has all
# members of the query, in that order: it does not match what its own class expands from {tag}, and says that the resource is not found. Three examples
# of the RFC expand to something else: {?list*}, {var:3} and {;empty}.
# Seen on 2026-11-30 with Node 20:
#   notes://list?tag=a&limit=1 read, notes://list?limit=1&tag=a, notes://list?tag=a and notes://list not found
set -euo pipefail
version=2.4.0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >log 2>&1
npm install --no-audit --no-fund "@modelcontextprotocol/server@$version" "@modelcontextprotocol/client@$version" >>log 2>&1 || { cat log; exit 1; }
cat >try.mjs <<'EOF'
import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { McpServer, ResourceTemplate, UriTemplate } from "@modelcontextprotocol/server";

const template = "notes://list{?tag,limit}";
const server = new McpServer({ name: "notes", version: "1" });
server.registerResource("notes", new ResourceTemplate(template, { list: undefined }), {}, (uri) => ({ contents: [{ uri: uri.href, text: "a note" }] }));
const client = new Client({ name: "c", version: "1" });
const [here, there] = InMemoryTransport.createLinkedPair();
await Promise.all([server.connect(there), client.connect(here)]);
for (const uri of ["notes://list?tag=a&limit=1", "notes://list?limit=1&tag=a", new UriTemplate(template).expand({ tag: "a" }), new UriTemplate(template).expand({})]) {
  console.log(uri + ": " + (await client.readResource({ uri }).then(() => "read", (e) => e.message)));
}
// The examples of RFC 6570, sections 2.4.1, 3.2.7 and 3.2.8.
const variables = { var: "value", list: ["red", "green", "blue"], empty: "" };
for (const [text, right] of [["{var:3}", "val"], ["{?list*}", "?list=red&list=green&list=blue"], ["{;empty}", ";empty"]]) {
  console.log(`${text}: ${JSON.stringify(new UriTemplate(text).expand(variables))}, in the RFC ${JSON.stringify(right)}`);
}
await client.close();
EOF
node try.mjs | tee seen
diff seen - <<'EOF'
notes://list?tag=a&limit=1: read
notes://list?limit=1&tag=a: Resource not found: notes://list?limit=1&tag=a
notes://list?tag=a: Resource not found: notes://list?tag=a
notes://list: Resource not found: notes://list
{var:3}: "", in the RFC "val"
{?list*}: "?list=red,green,blue", in the RFC "?list=red&list=green&list=blue"
{;empty}: "", in the RFC ";empty"
EOF
echo "as stated, with @modelcontextprotocol/server $version"
