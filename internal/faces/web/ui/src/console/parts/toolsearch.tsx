// The switch with which an agent's model searches its tools, and what the definitions of its tools take from each model call.
import type { AgentTool, ConnectionToolList } from "../../lib/contract";
import { useSession } from "./session";
import { useLoad } from "./load";

// Limits of the service: with more tools or tokens, an agent that may search its tools does.
const searchAbove = { tools: 30, tokens: 8000 };

// The approximate tokens of the definitions of tool_find and tool_call.
const searchTokens = 300;

export function ToolSearch({ tools, value, onChange }: { tools: AgentTool[]; value: boolean; onChange: (on: boolean) => void }) {
  const { api } = useSession();
  const own = tools.filter((t) => t?.type === "client");
  const entries = tools.filter((t) => t?.type === "connection" && t.connectionId);
  const ids = entries.map((t) => t.connectionId).join();
  const lists = useLoad((signal) => Promise.all(ids ? ids.split(",").map((id) => api.get<ConnectionToolList>(`/connections/${id}/tools`, undefined, signal)) : []), [api, ids]);
  let count = own.length;
  let tokens = own.reduce((sum, t) => sum + Math.ceil(JSON.stringify([t.name, t.description, t.parameters]).length / 4), 0);
  lists.data?.forEach((list, i) => {
    for (const t of list.data) {
      if (entries[i]?.allow?.includes(t.name)) {
        count++;
        tokens += t.definitionTokens;
      }
    }
  });
  const searches = count > searchAbove.tools || tokens > searchAbove.tokens;
  const size = `${count} ${count === 1 ? "tool" : "tools"} of about ${tokens.toLocaleString("en")} tokens`;
  return (
    <div>
      <label class="check">
        <input type="checkbox" checked={value} onChange={(e) => onChange(e.currentTarget.checked)} aria-describedby="tool-search-hint" /> Search the tools instead of sending all of them
      </label>
      <p id="tool-search-hint" class="small muted">
        {!lists.data
          ? ""
          : !searches
            ? `${size}: all are sent with each model call. The search begins above ${searchAbove.tools} tools or ${searchAbove.tokens.toLocaleString("en")} tokens.`
            : value
              ? `${size}. Each model call has about ${searchTokens} tokens instead, and what the model finds.`
              : `${size} are sent with each model call; with the search, about ${searchTokens}, and what the model finds.`}{" "}
        <a href="/docs/connections#many-tools">How it works</a>
      </p>
    </div>
  );
}
