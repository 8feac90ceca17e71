// The ways to call an agent from a program.
import { useState } from "preact/hooks";
import type { Agent } from "../../lib/agents";
import { curl, go, javascript, python } from "../../lib/snippets";
import { Code } from "./code";
import { Empty } from "./load";
import { Tabs } from "./tabs";

const kinds = [
  { id: "curl", title: "curl" },
  { id: "python", title: "Python" },
  { id: "javascript", title: "JavaScript" },
  { id: "go", title: "Go" },
];

const inQuotes = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

// CallAgent shows code and commands that call an agent through the protocols that it is offered through.
export function CallAgent({ agent }: { agent: Agent }) {
  const [kind, setKind] = useState("curl");
  if (agent.expose.length === 0) {
    return (
      <section class="panel">
        <Empty title="Not offered yet">
          <p>
            Offer this agent as a model, for any client of a model API, as a tool of MCP clients, or to front ends that speak AG-UI: in its <a href={`#/agents/${agent.id}/settings`}>settings</a>, or with <code>stoa agents expose {agent.id} --as responses,mcp</code>.
          </p>
        </Empty>
      </section>
    );
  }
  const write = { curl, go, javascript, python }[kind]!;
  const model = "agent/" + agent.name;
  const server = `${location.origin}/api/v1/mcp/agents/${agent.id}`;
  const name = agent.name.replace(/[^A-Za-z0-9_-]+/g, "-");
  return (
    <section class="panel">
      <div class="pad stack">
        <p class="muted">
          The key needs the {agent.expose.includes("responses") ? <>scopes <code>responses</code> and </> : "scope "}<code>sessions:write</code>. Put it into <code>STOA_API_KEY</code>.
        </p>
        {agent.expose.includes("responses") && (
          <>
            <h2>As a model</h2>
            <p>
              Its name is <code>{model}</code> in <code>/responses</code>, <code>/chat/completions</code> and <code>/messages</code>. Each call is a session; to continue one, send its id from the header <code>stoa-session</code> as <code>conversation</code>.
            </p>
            <Tabs label="Language" tabs={kinds} active={kind} onChange={setKind} />
            <Code text={write({ model, input: [{ role: "user", content: "Hello" }] }, location.origin)} />
          </>
        )}
        {agent.expose.includes("mcp") && (
          <>
            <h2>As a tool of MCP clients</h2>
            <p>
              The address is <code>{server}</code>; <code>{location.origin}/api/v1/mcp</code> has all agents that the key can use.{agent.expose.includes("skills") && <> Clients that know <code>io.modelcontextprotocol/skills</code> can read its skills there.</>}
            </p>
            <Code title="Claude Code" text={`claude mcp add --transport http ${name} ${server} --header "Authorization: Bearer $STOA_API_KEY"`} />
            <Code title="Codex" text={`codex mcp add ${name} --url ${server} --bearer-token-env-var STOA_API_KEY`} />
            <Code title="Cursor, .cursor/mcp.json" text={JSON.stringify({ mcpServers: { [name]: { url: server, headers: { Authorization: "Bearer ${env:STOA_API_KEY}" } } } }, null, 2)} />
          </>
        )}
        {agent.expose.includes("agui") && (
          <>
            <h2>In a front end (AG-UI)</h2>
            <p>
              Put the key into your server, not into a page: a key has all agents of the account.
            </p>
            <Code
              title="JavaScript, with @ag-ui/client"
              text={`import { HttpAgent } from "@ag-ui/client";

const agent = new HttpAgent({
  url: "${location.origin}/api/v1/api-agents/${agent.id}/ag-ui",
  headers: { Authorization: "Bearer " + process.env.STOA_API_KEY },
});
agent.addMessage({ id: crypto.randomUUID(), role: "user", content: "Hello" });
const { newMessages } = await agent.runAgent();
console.log(newMessages.at(-1).content);`}
            />
          </>
        )}
        <h2>In its own API</h2>
        <Code
          text={`curl "${location.origin}/api/v1/api-agents/${agent.id}/sessions" \\
  --header "Authorization: Bearer $STOA_API_KEY" \\
  --json ${inQuotes(JSON.stringify({ message: "Hello" }))}`}
        />
      </div>
    </section>
  );
}
