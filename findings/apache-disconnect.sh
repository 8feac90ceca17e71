#!/usr/bin/env bash
# Apache 2.4.71 (Debian 12), mod_proxy_http: a client that disconnects is noticed only when Apache writes to it. While the
# server is silent, the request to it runs on (until ProxyTimeout). When the server sends a line each second, the
# disconnect is noticed within a few of them. For calls that cost money this means that an abandoned call is paid to its
# end.
# Seen on 2026-11-28: a silent server: not noticed; a server that writes: noticed
# The program is taken from PATH or /usr/sbin (Debian: apt-get install apache2-bin), its modules from /usr/lib/apache2.
set -euo pipefail
export PATH=$PATH:/usr/sbin
temp=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$temp"' EXIT
cd "$temp"
command -v apache2 >/dev/null || { echo "skipped: apache2 is not installed"; exit 0; }
apache2 -v 2>&1 | sed -n 1p
cat >run.mjs <<'JS'
import http from "node:http";
import net from "node:net";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
const free = () => new Promise((done) => { const s = net.createServer().listen(0, "127.0.0.1", () => { const { port } = s.address(); s.close(() => done(port)); }); });
let noticed, arrived, writes;
// The server never ends its reply; its socket ends when the proxy closes it.
const server = http.createServer((req, res) => {
  req.resume();
  const timer = writes && setInterval(() => res.write("a line\n"), 1000);
  if (writes) res.writeHead(200, { "content-type": "text/event-stream" });
  if (writes) res.write("begins\n");
  arrived();
  res.on("close", () => { clearInterval(timer); noticed(true); });
});
await new Promise((done) => server.listen(0, "127.0.0.1", done));
const modules = ["mpm_event", "authz_core", "proxy", "proxy_http"].map((m) => `LoadModule ${m}_module /usr/lib/apache2/modules/mod_${m}.so\n`).join("");
const seen = [];
for (const what of ["a silent server", "a server that writes"]) {
  writes = what === "a server that writes";
  const port = await free();
  writeFileSync("config", `${modules}ServerName localhost\nUser www-data\nGroup www-data\nServerRoot ${process.cwd()}\nDefaultRuntimeDir ${process.cwd()}\nPidFile pid\nErrorLog ${process.cwd()}/log\nListen 127.0.0.1:${port}\nProxyPass / http://127.0.0.1:${server.address().port}/\n`);
  const proxy = spawn("apache2", ["-D", "FOREGROUND", "-f", `${process.cwd()}/config`], { stdio: "ignore" });
  const ended = new Promise((done) => proxy.on("exit", done));
  const came = new Promise((done) => { arrived = done; });
  const gone = new Promise((done) => { noticed = done; });
  let request;
  for (;;) { // until the proxy listens
    request = http.request({ port, host: "127.0.0.1", method: "POST" });
    const begun = new Promise((done) => request.on("response", done));
    const failed = new Promise((done) => request.on("error", () => done("failed")));
    request.end("{}");
    if ((await Promise.race([writes ? begun : came, failed])) !== "failed") break;
  }
  request.destroy();
  seen.push(`${what}: ${(await Promise.race([gone, new Promise((done) => setTimeout(done, 20000, false))])) ? "noticed" : "not noticed"}`);
  server.closeAllConnections(); // Apache waits for its requests
  proxy.kill();
  await ended;
}
console.log(seen.join("; "));
process.exit(0);
JS
seen=$(node run.mjs)
echo "$seen"
[[ $seen == "a silent server: not noticed; a server that writes: noticed" ]]
