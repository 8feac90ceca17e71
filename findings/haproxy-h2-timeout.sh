#!/usr/bin/env bash
# HAProxy 2.6.12 (Debian 12): when `timeout server` cuts a reply whose length is not known, a client of HTTP/2 sees a
# clean end: END_STREAM, code 0. A client of HTTP/1.1 sees that the last chunk is missing. So a cut stream looks like a
# finished one behind h2, unless the format itself has an end (such as an event that says that it is the last).
# Seen on 2026-11-28: h1: aborted; h2: ended, code 0
# The program is taken from PATH or /usr/sbin (Debian: apt-get install haproxy).
set -euo pipefail
export PATH=$PATH:/usr/sbin
temp=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$temp"' EXIT
cd "$temp"
command -v haproxy >/dev/null || { echo "skipped: haproxy is not installed"; exit 0; }
haproxy -v 2>&1 | sed -n 1p
cat >run.mjs <<'JS'
import http from "node:http";
import http2 from "node:http2";
import net from "node:net";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
const free = () => new Promise((done) => { const s = net.createServer().listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => done(port)); }); });
// The server begins a reply and never ends it.
const server = http.createServer((_, res) => { res.writeHead(200, { "content-type": "text/event-stream" }); res.write("data: half\n\n"); });
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const [h1, h2] = [await free(), await free()];
writeFileSync("cfg", `defaults\n  mode http\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1s\nfrontend f\n  bind 127.0.0.1:${h1}\n  bind 127.0.0.1:${h2} proto h2\n  default_backend b\nbackend b\n  server s 127.0.0.1:${server.address().port}\n`);
const proxy = spawn("haproxy", ["-db", "-f", "cfg"], { stdio: "ignore" });
for (let up = false; !up;) { // until the proxy listens
  up = await new Promise((done) => net.connect(h2, "127.0.0.1").on("connect", function () { this.destroy(); done(true); }).on("error", () => done(false)));
}
const first = await new Promise((done) => http.get({ port: h1, host: "127.0.0.1" }, (res) => { res.resume(); res.on("aborted", () => done("aborted")); res.on("end", () => done("ended")); res.on("error", () => {}); }));
const session = http2.connect(`http://127.0.0.1:${h2}`);
const stream = session.request({ ":path": "/" });
let ended = "not ended";
stream.on("end", () => { ended = "ended"; }).on("error", (e) => { ended = e.code; }).resume();
await new Promise((done) => stream.on("close", done));
console.log(`h1: ${first}; h2: ${ended}, code ${stream.rstCode}`);
proxy.kill();
process.exit(0);
JS
seen=$(node run.mjs)
echo "$seen"
[[ $seen == "h1: aborted; h2: ended, code 0" ]]
