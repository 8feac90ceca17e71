// Embeds, and what goes into the page that shows one.
import type { EmbedSession, EmbedSessionWithToken, EmbedURL, EmbedURLWithLink } from "./contract";

export type Embed = EmbedURL | EmbedSession;

// A NewEmbed is a link with its address or an embed session with its token.
export type NewEmbed = Embed & Partial<Pick<EmbedURLWithLink, "url">> & Partial<Pick<EmbedSessionWithToken, "token">> & Pick<EmbedURLWithLink, "expiresAt">;

// frame returns the HTML that shows the chat page and sends it the first
// message.
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

// link returns the request that creates a link, for the server that has the
// key.
export function link(base: string, agentId: string, body: unknown): string {
  return [
    `curl "${base}/api/v1/api-agents/${agentId}/embed-urls"`,
    `  --header "Authorization: Bearer $STOA_API_KEY"`,
    `  --json '${JSON.stringify(body).replaceAll("'", `'\\''`)}'`,
  ].join(" \\\n");
}

// script returns the code that sends a message from a page with a chat of its
// own.
export function script(base: string, chatId: string): string {
  return `// token: what your server was given with this chat
await fetch("${base}/api/v1/embed/chat-sessions/${chatId}/messages", {
  method: "POST",
  headers: { Authorization: "Bearer " + token, "Content-Type": "application/json" },
  body: JSON.stringify({ message: "Hello" }),
});
`;
}
