// Commands for hooks, to copy.
import type { Hook } from "./contract";

// testOf returns a command that sends a signed request.
export function testOf(hook: Hook) {
  const { kind, header, algorithm, encoding, prefix } = hook.signature;
  const hash = `openssl dgst -${algorithm ?? "sha256"}`;
  const hex = `| ${hash} -r -hmac "$SECRET" | cut -d" " -f1`;
  const lines: Record<Hook["signature"]["kind"], string[]> = {
    standard: [
      "key=$(printf %s \"${SECRET#whsec_}\" | base64 -d | od -An -tx1 | tr -d ' \\n')",
      'id=test-$(date +%s) at=$(date +%s)',
      `sig=$(printf %s "$id.$at.$body" | ${hash} -mac HMAC -macopt "hexkey:$key" -binary | base64)`,
      `curl -sS ${hook.url} -H "webhook-id: $id" -H "webhook-timestamp: $at" -H "webhook-signature: v1,$sig" -d "$body"`,
    ],
    github: [`sig=$(printf %s "$body" ${hex})`, `curl -sS ${hook.url} -H "X-Hub-Signature-256: sha256=$sig" -d "$body"`],
    slack: ["at=$(date +%s)", `sig=$(printf %s "v0:$at:$body" ${hex})`, `curl -sS ${hook.url} -H "X-Slack-Request-Timestamp: $at" -H "X-Slack-Signature: v0=$sig" -d "$body"`],
    hmac: [
      `sig=$(printf %s "$body" ${encoding === "base64" ? `| ${hash} -hmac "$SECRET" -binary | base64 -w0` : hex})`,
      `curl -sS ${hook.url} -H "${header}: ${prefix ?? ""}$sig" -d "$body"`,
    ],
  };
  return [`SECRET=…`, `body='{"text": "Hello"}'`, ...lines[kind].map((l) => l.replace(' -d "$body"', ' -H "Content-Type: application/json" -d "$body"'))].join("\n");
}
