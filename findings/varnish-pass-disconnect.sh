#!/usr/bin/env bash
# Varnish 7.1.1 (Debian 12): with `return (pass)` a client that disconnects while it waits for a whole reply is not
# noticed: the request to the server runs on until the server's first byte. With `return (pipe)` it is noticed. For calls
# that cost money this means that an abandoned call is paid to its end.
# Seen on 2026-11-28: pass: not noticed; pipe: noticed
# The program is taken from PATH or /usr/sbin (Debian: apt-get install varnish).
set -euo pipefail
export PATH=$PATH:/usr/sbin
temp=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$temp"' EXIT
cd "$temp"
command -v varnishd >/dev/null || { echo "skipped: varnishd is not installed"; exit 0; }
varnishd -V 2>&1 | sed -n 1p
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
for (const how of ["pass", "pipe"]) {
  const port = await free();
  writeFileSync(`${how}.vcl`, `vcl 4.1;\nbackend b { .host = "127.0.0.1"; .port = "${server.address().port}"; }\nsub vcl_recv { return (${how}); }\n`);
  const proxy = spawn("varnishd", ["-F", "-j", "none", "-n", `${process.cwd()}/${how}`, "-a", `127.0.0.1:${port}`, "-f", `${process.cwd()}/${how}.vcl`], { stdio: "ignore" });
  const ended = new Promise((done) => proxy.on("exit", done));
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
  seen.push(`${how}: ${(await Promise.race([gone, new Promise((done) => setTimeout(done, 5000, false))])) ? "noticed" : "not noticed"}`);
  proxy.kill();
  await ended;
}
console.log(seen.join("; "));
process.exit(0);
JS
seen=$(node run.mjs)
echo "$seen"
[[ $seen == "pass: not noticed; pipe: noticed" ]]
