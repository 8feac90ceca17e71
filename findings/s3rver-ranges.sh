#!/usr/bin/env bash
# s3rver 3.7.1 (npm), a fake of S3 for tests: a range of one byte returns the whole object, and a
# suffix range returns bytes from the beginning. RFC 9110, 14.1.2, and S3 return one byte, and the last bytes.
# A client that reads by `bytes=0-0` or `bytes=-N` passes its tests against S3 and fails here, or the reverse.
# Seen on 2026-11-28 with Node 20.20.2:
#   bytes=0-0 -> 26 bytes, bytes=-10 -> abcdefghijk, bytes=2-4 -> cde
set -euo pipefail
temp=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$temp"' EXIT
cd "$temp"
npm install --silent --no-audit --no-fund s3rver@3.7.1
cat >run.mjs <<'JS'
import S3rver from "s3rver";
const { server } = { server: new S3rver({ port: 0, address: "127.0.0.1", silent: true, directory: "objects", configureBuckets: [{ name: "b" }], allowMismatchedSignatures: true }) };
server.run((error, at) => console.log(error ?? at.port));
JS
mkdir objects
node run.mjs >port 2>log &
server=$!
until [[ -s port ]]; do kill -0 "$server"; done
cat >ask.mjs <<'JS'
const at = `http://127.0.0.1:${process.argv[2]}/b/letters`;
await fetch(at, { method: "PUT", body: "abcdefghijklmnopqrstuvwxyz" });
const read = async (range) => (await fetch(at, { headers: { range } })).text();
console.log(`bytes=0-0 -> ${(await read("bytes=0-0")).length} bytes, bytes=-10 -> ${await read("bytes=-10")}, bytes=2-4 -> ${await read("bytes=2-4")}`);
JS
seen=$(node ask.mjs "$(head -n 1 port)")
echo "$seen"
[[ $seen == "bytes=0-0 -> 26 bytes, bytes=-10 -> abcdefghijk, bytes=2-4 -> cde" ]]
