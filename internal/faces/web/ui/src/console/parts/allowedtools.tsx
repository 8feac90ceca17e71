// The tools of connections that an agent can call: the approved ones, each allowed by
// name, with optional settings that are stricter than the review.
import { useState } from "preact/hooks";
import { approvalWords } from "../../lib/connections";
import type { AgentTool, Connection, ConnectionTool, ConnectionToolList, StricterTool } from "../../lib/contract";
import type { List } from "../../lib/types";
import { useSession } from "./session";
import { Badge, Button } from "./basic";
import { States, useLoad } from "./load";
import { EscapedText } from "./escapedtext";

export function AllowedTools({ spaceId, tools, onChange }: { spaceId: string; tools: AgentTool[]; onChange: (tools: AgentTool[]) => void }) {
  const { api } = useSession();
  const connections = useLoad((signal) => api.get<List<Connection>>("/connections", { spaceId, limit: 100 }, signal), [api, spaceId]);
  if (connections.data?.data.length === 0) return null;
  return (
    <fieldset class="plainset stack">
      <legend>Tools of connections</legend>
      <States of={connections}>
        {(list) =>
          list.data.map((c) => (
            <Of
              key={c.id}
              of={c}
              entry={tools.find((t) => t.type === "connection" && t.connectionId === c.id)}
              onChange={(entry) => onChange([...tools.filter((t) => t.connectionId !== c.id), ...(entry.allow!.length > 0 ? [entry] : [])])}
            />
          ))
        }
      </States>
    </fieldset>
  );
}

function Of({ of: c, entry, onChange }: { of: Connection; entry?: AgentTool; onChange: (entry: AgentTool) => void }) {
  const { api } = useSession();
  const list = useLoad((signal) => api.get<ConnectionToolList>(`/connections/${c.id}/tools`, undefined, signal), [api, c.id]);
  const allow = entry?.allow ?? [];
  const stricter = entry?.stricter ?? [];
  const [opens] = useState(allow.length > 0 && allow.length <= 30);
  const set = (allow: string[], kept = stricter) => onChange({ type: "connection", connectionId: c.id, allow, stricter: kept.filter((s) => allow.includes(s.name)) });
  // be sets the stricter settings of one tool; undefined removes them.
  const be = (t: ConnectionTool, change: Partial<StricterTool>) => {
    const { name, ...rest } = { ...stricter.find((s) => s.name === t.name), ...change, name: t.name };
    const said = Object.entries(rest).filter(([, value]) => value !== undefined);
    set(allow, [...stricter.filter((s) => s.name !== t.name), ...(said.length > 0 ? [{ name, ...Object.fromEntries(said) }] : [])]);
  };
  return (
    <details open={opens}>
      <summary>
        {c.name}{" "}
        <span class="small muted">
          {allow.length} of {c.toolCounts.approved} allowed
        </span>{" "}
        {!c.enabled && <Badge meaning="none">switched off</Badge>}
      </summary>
      <States of={list}>
        {({ data }) => {
          const offered = data.filter((t) => t.state === "approved" || allow.includes(t.name));
          if (offered.length === 0) {
            return (
              <p class="small">
                None of its tools is approved. <a href={"#/connections/" + c.id}>Review them.</a>
              </p>
            );
          }
          const others = offered.filter((t) => !allow.includes(t.name)).map((t) => t.name);
          const all = others.length > 1 && (
            <div>
              <Button onClick={() => set([...allow, ...others])}>Allow all {offered.length}</Button>
            </div>
          );
          return [all, ...offered.map((t) => (
            <div key={t.name}>
              <label class="check">
                <input type="checkbox" checked={allow.includes(t.name)} onChange={(e) => set(e.currentTarget.checked ? [...allow, t.name] : allow.filter((n) => n !== t.name))} />
                <span class="breaks">
                  <code>
                    <EscapedText text={t.name} />
                  </code>{" "}
                  {t.state !== "approved" && (
                    <>
                      <Badge meaning="warning">withheld: {t.state}</Badge> <a href={"#/connections/" + c.id}>look</a>{" "}
                    </>
                  )}
                  <span class="small muted">{t.approval && approvalWords[t.approval]}</span>
                </span>
              </label>
              {allow.includes(t.name) && t.approval === "never" && (
                <label class="check small">
                  <input type="checkbox" checked={stricter.some((s) => s.name === t.name && s.approval === "always")} onChange={(e) => be(t, { approval: e.currentTarget.checked ? "always" : undefined })} /> Ask before each call of {t.name}
                </label>
              )}
              {allow.includes(t.name) && t.onUnknown === "tell_model" && (
                <label class="check small">
                  <input type="checkbox" checked={stricter.some((s) => s.name === t.name && s.onUnknown === "fail")} onChange={(e) => be(t, { onUnknown: e.currentTarget.checked ? "fail" : undefined })} /> End the turn as failed if the outcome of a {t.name} call is unknown
                </label>
              )}
            </div>
          ))];
        }}
      </States>
    </details>
  );
}
