#!/usr/bin/env bash
# HAProxy 2.6.12 (Debian 12): a client that disconnects while it waits for a whole reply is noticed only if `option
# abortonclose` stands in `defaults`. In the backend alone, where its documentation places it, the server's request runs
# on: the side of the client reads the option of the frontend. For calls that cost money this means that an abandoned
# call is paid to its end.
# Seen on 2026-11-28: in the backend: not noticed; in defaults: noticed
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
import net from "node:net";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
const free = () => new Promise((done) => { const s = net.createServer().listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => done(port)); }); });
let noticed, arrived;
// The server never answers; its socket ends when the proxy closes it.
const server = http.createServer((req, res) => { req.resume(); arrived(); res.on("close", () => noticed(true)); });
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const seen = [];
for (const [place, defaults, backend] of [["in the backend", "", "option abortonclose"], ["in defaults", "option abortonclose", ""]]) {
  const port = await free();
  writeFileSync("cfg", `defaults\n  mode http\n  ${defaults}\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m\nfrontend f\n  bind 127.0.0.1:${port}\n  default_backend b\nbackend b\n  ${backend}\n  server s 127.0.0.1:${server.address().port}\n`);
  const proxy = spawn("haproxy", ["-db", "-f", "cfg"], { stdio: "ignore" });
  const came = new Promise((done) => { arrived = done; });
  const gone = new Promise((done) => { noticed = done; });
  let request;
  for (;;) { // until the proxy listens
    request = http.request({ port, host: "127.0.0.1", method: "POST" });
    const failed = new Promise((done) => request.on("error", () => done("failed")));
    request.end("{}");
    if ((await Promise.race([came, failed])) !== "failed") break;
  }
  request.destroy();
  seen.push(`${place}: ${(await Promise.race([gone, new Promise((done) => setTimeout(done, 5000, false))])) ? "noticed" : "not noticed"}`);
  proxy.kill();
}
console.log(seen.join("; "));
process.exit(0);
JS
seen=$(node run.mjs)
echo "$seen"
[[ $seen == "in the backend: not noticed; in defaults: noticed" ]]
