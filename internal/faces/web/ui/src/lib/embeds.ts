// Embeds, and the code for the pages that show them.
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
  const chat = ${safe}; // from your server, a new one for each visit
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

// script returns the code that sends a message from a page with its own chat.
export function script(base: string, chatId: string): string {
  return `// token: what your server was given with this chat
await fetch("${base}/api/v1/embed/chat-sessions/${chatId}/messages", {
  method: "POST",
  headers: { Authorization: "Bearer " + token, "Content-Type": "application/json" },
  body: JSON.stringify({ message: "Hello" }),
});
`;
}

// A Server is the code that makes a link on a server, in one language.
export interface Server {
  id: string;
  title: string;
  text: string;
}

// phpValue returns a JSON value in PHP syntax.
function phpValue(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(phpValue).join(", ")}]`;
  if (value !== null && typeof value === "object") return `[${Object.entries(value).map(([name, v]) => `${phpValue(name)} => ${phpValue(v)}`).join(", ")}]`;
  return typeof value === "string" ? `'${value.replace(/[\\']/g, "\\$&")}'` : String(value);
}

// goText returns a text in Go syntax. The escapes are those of JSON, except one.
const goText = (text: string) => JSON.stringify(text).replaceAll("\\/", "/");

// servers returns the code that makes a link for each visit, by language. The key comes
// from the environment.
export function servers(base: string, agentId: string, body: unknown): Server[] {
  const address = `${base}/api/v1/api-agents/${agentId}/embed-urls`;
  const json = JSON.stringify(body);
  return [
    { id: "curl", title: "curl", text: link(base, agentId, body) },
    {
      id: "node",
      title: "Node",
      text: `const reply = await fetch(${JSON.stringify(address)}, {
  method: "POST",
  headers: { Authorization: "Bearer " + process.env.STOA_API_KEY, "Content-Type": "application/json" },
  body: JSON.stringify(${json}),
});
if (!reply.ok) throw new Error(await reply.text());
const { url } = await reply.json();
console.log(url);
`,
    },
    {
      id: "python",
      title: "Python",
      text: `import json, os, urllib.request

request = urllib.request.Request(
    ${JSON.stringify(address)},
    data=${JSON.stringify(json)}.encode(),
    headers={"Authorization": "Bearer " + os.environ["STOA_API_KEY"], "Content-Type": "application/json"},
)
with urllib.request.urlopen(request) as reply:
    print(json.load(reply)["url"])
`,
    },
    {
      id: "go",
      title: "Go",
      text: `package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
)

func main() {
	request, err := http.NewRequest("POST", ${goText(address)}, strings.NewReader(${goText(json)}))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("STOA_API_KEY"))
	request.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer reply.Body.Close()
	var link struct{ URL string }
	if err := json.NewDecoder(reply.Body).Decode(&link); err != nil || reply.StatusCode != 201 {
		log.Fatal(reply.Status, err)
	}
	fmt.Println(link.URL)
}
`,
    },
    {
      id: "php",
      title: "PHP",
      text: `<?php
$request = curl_init(${phpValue(address)});
curl_setopt_array($request, [
    CURLOPT_POST => true,
    CURLOPT_RETURNTRANSFER => true,
    CURLOPT_HTTPHEADER => ['Authorization: Bearer ' . getenv('STOA_API_KEY'), 'Content-Type: application/json'],
    CURLOPT_POSTFIELDS => json_encode(${phpValue(body)}),
]);
$reply = curl_exec($request);
if (curl_getinfo($request, CURLINFO_HTTP_CODE) !== 201) {
    throw new RuntimeException((string) $reply);
}
echo json_decode($reply)->url, "\\n";
`,
    },
  ];
}
