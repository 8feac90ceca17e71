// Embeds, as the pages read them, and what goes into the page that shows one.

export interface Embed {
  id: string;
  object: "embed_url" | "embed_session";
  chatSessionId: string;
  status: "pending" | "active" | "expired" | "revoked";
  allowedOrigins: string[];
  externalUserId: string | null;
  messagesSent: number;
  maxMessages: number;
  maxCreditsMicro: number | null;
  lastMessageAt: string | null;
  refusedRequests: number;
  refusedOrigins: { origin: string; times: number; lastAt: string }[];
  chatExpiresAt: string | null;
  revokedAt: string | null;
  createdAt: string;
}

export interface NewEmbed extends Embed {
  url?: string; // of a link
  token?: string; // of an embed session
  expiresAt: string;
}

// frame shows the chat page, and speaks to it first, as it expects.
export function frame(url: string): string {
  const safe = JSON.stringify(url).replaceAll("<", "\\u003c");
  return `<iframe id="stoa-chat" title="Chat" width="400" height="600"></iframe>
<script>
  const chat = ${safe}; // from your server, anew for each visit
  const frame = document.getElementById("stoa-chat");
  frame.addEventListener("load", () => frame.contentWindow.postMessage({ type: "stoa.init" }, new URL(chat).origin));
  frame.src = chat;
</script>
`;
}

// link makes a link per visit, on the server that has the key.
export function link(base: string, agentId: string, body: unknown): string {
  return [
    `curl "${base}/api/v1/api-agents/${agentId}/embed-urls"`,
    `  --header "Authorization: Bearer $STOA_API_KEY"`,
    `  --json '${JSON.stringify(body).replaceAll("'", `'\\''`)}'`,
  ].join(" \\\n");
}

// script sends a message from a page that shows the chat itself.
export function script(base: string, chatId: string): string {
  return `// token: what your server was given with this chat
await fetch("${base}/api/v1/embed/chat-sessions/${chatId}/messages", {
  method: "POST",
  headers: { Authorization: "Bearer " + token, "Content-Type": "application/json" },
  body: JSON.stringify({ message: "Hello" }),
});
`;
}
