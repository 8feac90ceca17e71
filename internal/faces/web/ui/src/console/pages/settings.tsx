// The settings of an agent, next to a test conversation with the unsaved settings.
import { useState } from "preact/hooks";
import type { Agent } from "../../lib/agents";
import type { AgentTool } from "../../lib/contract";
import type { Meta } from "../../lib/types";
import { Effects } from "../parts/effects";
import { ClientTools } from "../parts/clienttools";
import { AllowedTools } from "../parts/allowedtools";
import { ToolSearch } from "../parts/toolsearch";
import { Button, Field } from "../parts/basic";
import { Confirm } from "../parts/dialog";
import { AreaField, SelectField, TextField } from "../parts/fields";
import { useAction } from "../parts/form";
import { Failure, useLoad } from "../parts/load";
import { changedMetadata, MetadataFields, rowsOf } from "../parts/metadata";
import { Menu } from "../parts/menu";
import { ModelSelect } from "../parts/models";
import { PickerField, sources } from "../parts/picker";
import type { Tagged } from "../parts/subject";
import { toast } from "../parts/toast";
import { TestChat } from "../parts/testchat";
import { go, useUnsaved } from "../parts/router";
import { useSession } from "../parts/session";
import { useManySpaces } from "../parts/space";

// What an agent's access to its drive means in embedded chats.
const visitorDriveHints: Record<Agent["visitorDrive"], string> = {
  none: "Visitors learn nothing from its files.",
  read: "Visitors can learn everything in its files by asking. It writes nothing for them.",
  write: "Visitors can learn everything in its files, and have it replace files that other visitors' chats and you read.",
};

// The settings that a draft of an agent can change.
const drafted = ["instructions", "model", "driveAccess", "tools", "limits", "replySchema", "reasoning", "temperature", "toolSearch"];

// The settings of which a change makes a new version, in the order in which changes of them are
// shown.
export const versioned: Record<string, string> = {
  instructions: "Instructions", model: "Model", tools: "Tools", limits: "Limits", driveAccess: "Drive", visitorDrive: "Drive in embeds", timezone: "Time zone", compactAt: "Summarize at", tables: "Tables", memory: "Memory", replySchema: "Reply schema", skills: "Skills", reasoning: "Reasoning", temperature: "Temperature", toolSearch: "Tool search",
};

// toolsIn parses the list of tools; undefined if the text is not a list.
function toolsIn(text: string): unknown[] | undefined {
  if (text.trim() === "") return [];
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list : undefined;
  } catch {
    return undefined;
  }
}

// schemaIn parses a reply schema; undefined if the text is not an object.
function schemaIn(text: string): object | null | undefined {
  if (text.trim() === "") return null;
  try {
    const schema: unknown = JSON.parse(text);
    return schema && typeof schema === "object" && !Array.isArray(schema) ? schema : undefined;
  } catch {
    return undefined;
  }
}

type Effort = NonNullable<NonNullable<Agent["reasoning"]>["effort"]>;
const efforts: Effort[] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

// The protocols through which an agent can be offered besides its own API.
const protocols: [Agent["expose"][number], string][] = [
  ["responses", "Offer it as a model"],
  ["mcp", "Offer it as a tool of MCP clients"],
  ["agui", "Offer it to front ends that speak AG-UI"],
  ["skills", "Let clients of MCP read its skills"],
];

const textOf = (tools: AgentTool[]): string => (tools.length ? JSON.stringify(tools, null, 2) : "");

// Asks is a choice of whether a person approves what a tool of the service writes, which is an entry of the agent's tools.
function Asks({ name, tools, onChange, title }: { name: string; tools: AgentTool[]; onChange: (all: AgentTool[]) => void; title: string }) {
  const isIt = (t: AgentTool) => t?.type === "drive" && t.name === name;
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={tools.some((t) => isIt(t) && t.approval === "always")}
        onChange={(e) => onChange([...tools.filter((t) => !isIt(t)), ...(e.currentTarget.checked ? [{ type: "drive", name, approval: "always" } as AgentTool] : [])])}
      />{" "}
      {title}
    </label>
  );
}

// sorted returns a value as JSON with sorted members, because the service does not
// preserve their order.
const sorted = (value: unknown): string => JSON.stringify(value, (_, v) => (v && typeof v === "object" && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1))) : v));

export function Settings({ agent, onSaved, onStale }: { agent: Tagged<Agent>; onSaved: (a: Tagged<Agent>) => void; onStale: () => void }) {
  const { api, may, offers } = useSession();
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  const was = agent.data;
  const [now, setNow] = useState({ name: was.name, description: was.description ?? "", instructions: was.instructions, model: was.model, driveAccess: was.driveAccess, visitorDrive: was.visitorDrive, embedEnabled: was.embedEnabled, timezone: was.timezone, compactAt: was.compactAt, tables: was.tables, memory: was.memory, toolSearch: was.toolSearch, expose: was.expose, externalId: was.externalId ?? "", spaceId: was.spaceId });
  const [limits, setLimits] = useState({ credits: was.limits.maxCreditsMicro === null ? "" : String(was.limits.maxCreditsMicro / 1e6), steps: String(was.limits.maxSteps ?? ""), seconds: String(was.limits.timeoutSeconds ?? "") });
  const [tools, setTools] = useState(() => textOf(was.tools));
  const [schema, setSchema] = useState(() => (was.replySchema ? JSON.stringify(was.replySchema, null, 2) : ""));
  const [calls, setCalls] = useState({ effort: was.reasoning?.effort ?? "", temperature: String(was.temperature ?? "") });
  const [metadata, setMetadata] = useState(() => rowsOf(was.metadata));
  const many = useManySpaces();
  const { busy, problem, run } = useAction({ repeats: true });
  const [deleting, setDeleting] = useState(false);
  const writes = may("agents:write");
  const change = (part: Partial<typeof now>) => setNow({ ...now, ...part });
  const offer = (id: Agent["expose"][number], on: boolean) => change({ expose: on ? [...now.expose, id] : now.expose.filter((p) => p !== id && (id !== "mcp" || p !== "skills")) }); // skills are read only with mcp
  const changed = { ...now, description: now.description.trim() === "" ? null : now.description, externalId: now.externalId.trim() === "" ? null : now.externalId.trim(), expose: sorted([...now.expose].sort()) === sorted([...was.expose].sort()) ? was.expose : now.expose };
  const body: Record<string, unknown> = Object.fromEntries(Object.entries(changed).filter(([name, value]) => value !== was[name as keyof Agent]));
  const asked = {
    maxCreditsMicro: limits.credits === "" ? null : Math.round(Number(limits.credits) * 1e6),
    maxSteps: limits.steps === "" ? null : Number(limits.steps),
    timeoutSeconds: limits.seconds === "" ? null : Number(limits.seconds),
  };
  if (Object.entries(asked).some(([name, value]) => value !== was.limits[name as keyof Agent["limits"]])) body.limits = asked;
  const listed = toolsIn(tools);
  if (listed && sorted(listed) !== sorted(was.tools)) body.tools = listed;
  const replySchema = schemaIn(schema);
  if (replySchema !== undefined && sorted(replySchema) !== sorted(was.replySchema)) body.replySchema = replySchema;
  if (calls.effort !== (was.reasoning?.effort ?? "")) body.reasoning = calls.effort === "" ? null : { effort: calls.effort };
  if (calls.temperature !== String(was.temperature ?? "")) body.temperature = calls.temperature === "" ? null : Number(calls.temperature);
  const other = changedMetadata(was.metadata, metadata);
  if (other) body.metadata = other;
  const dirty = Object.keys(body).length > 0;
  useUnsaved(dirty && writes && !busy);
  const duplicate = () =>
    run(async (once) => {
      const made = await api.create<Agent>(`/api-agents/${was.id}/duplicate`, {}, once);
      toast(`"${made.name}" is made; its drive is empty`);
      go(`agents/${made.id}/settings`);
    });
  const submit = (event: Event) => {
    event.preventDefault();
    void run(async () => {
      onSaved(await api.patch<Agent>("/api-agents/" + was.id, body, agent.etag));
      toast("Saved");
    });
  };
  const remove = async () => {
    if (await run(() => api.remove("/api-agents/" + was.id))) {
      toast(`The agent "${was.name}" is deleted`);
      go("agents");
    } else setDeleting(false);
  };
  const draft = Object.fromEntries(Object.entries(body).filter(([name, value]) => drafted.includes(name) && value !== ""));
  const tries = offers("createSession") && may("sessions:write") && may("sessions:read");
  return (
    <div class={tries ? "beside" : ""}>
    <section class="panel">
      <form onSubmit={submit}>
        <div class="pad">
        <fieldset class="plainset stack form narrow" disabled={!writes}>
          <TextField id="name" label="Name" maxLength={200} value={now.name} onChange={(text) => change({ name: text })} />
          <TextField id="description" label="Description" maxLength={2000} value={now.description} onChange={(text) => change({ description: text })} />
          {meta.data && (
            <Field id="agent-model" label="Model">
              <ModelSelect id="agent-model" meta={meta.data} value={now.model} onChange={(model) => change({ model })} />
            </Field>
          )}
          <AreaField id="instructions" label="Instructions" hint="The system prompt of every session. A change creates a new version; existing sessions keep theirs." rows={10} value={now.instructions} onChange={(text) => change({ instructions: text })} />
          <h2>Drive and tools</h2>
          <label class="check">
            <input type="checkbox" checked={now.driveAccess === "read_write"} onChange={(e) => change({ driveAccess: e.currentTarget.checked ? "read_write" : "read_only" })} /> Can write to its drive
          </label>
          {now.driveAccess === "read_write" && listed && (
            <Asks name="drive_write" title="A person approves each file before it is written" tools={listed as AgentTool[]} onChange={(all) => setTools(textOf(all))} />
          )}
          {listed && <ClientTools tools={listed as AgentTool[]} onChange={(all) => setTools(textOf(all))} />}
          {listed && offers("listConnections") && may("connections:read") && <AllowedTools spaceId={now.spaceId} tools={listed as AgentTool[]} onChange={(all) => setTools(textOf(all))} />}
          {listed && ((listed as AgentTool[]).some((t) => t?.type !== "drive") || now.toolSearch) && <ToolSearch tools={listed as AgentTool[]} value={now.toolSearch} onChange={(toolSearch) => change({ toolSearch })} />}
          <details>
            <summary>Tools as JSON</summary>
            <Field
              id="tools"
              label="Tools as JSON"
              problem={listed ? undefined : "Not a JSON array."}
              hint={
                <>
                  All tools as a list; <a href="/docs/tools">the guide</a> has an example.
                </>
              }
            >
              <textarea id="tools" class="input mono" rows={tools ? 12 : 3} spellcheck={false} value={tools} onInput={(e) => setTools(e.currentTarget.value)} aria-describedby="tools-hint" aria-invalid={!listed} />
            </Field>
          </details>
          <h2>Memory</h2>
          <label class="check">
            <input type="checkbox" checked={now.memory === "user"} onChange={(e) => change({ memory: e.currentTarget.checked ? "user" : "none" })} /> Remember each end user between sessions
          </label>
          {now.memory === "user" && listed && <Asks name="memory_write" title="A person approves each note before it is written" tools={listed as AgentTool[]} onChange={(all) => setTools(textOf(all))} />}
          <p class="small muted">
            It keeps notes about users whom your programs name (<code>externalUserId</code>). The page of a session shows them. <a href="/docs/memory">The guide</a> says who is remembered.
          </p>
          <h2>Answers</h2>
          <div class="thirds">
            <SelectField id="effort" label="Reasoning" options={[["", "the model's own"], ...efforts.map((e): [string, string] => [e, e])]} value={calls.effort} onChange={(effort) => setCalls({ ...calls, effort })} />
            <TextField id="temperature" label="Temperature" placeholder="the model's own" type="number" min={0} max={2} step="any" value={calls.temperature} onChange={(temperature) => setCalls({ ...calls, temperature })} />
          </div>
          <details open={schema !== ""}>
            <summary>Reply schema</summary>
            <Field
              id="reply-schema"
              label="JSON Schema"
              problem={replySchema === undefined ? "Not a JSON object." : undefined}
              hint={
                <>
                  Each answer must fit it; empty for free text. <a href="/docs/agents#answers-by-a-schema">The guide</a> has an example.
                </>
              }
            >
              <textarea id="reply-schema" class="input mono" rows={schema ? 12 : 3} spellcheck={false} value={schema} onInput={(e) => setSchema(e.currentTarget.value)} aria-describedby="reply-schema-hint" aria-invalid={replySchema === undefined} />
            </Field>
          </details>
          <h2>Embedding</h2>
          <label class="check">
            <input type="checkbox" checked={now.embedEnabled} onChange={(e) => change({ embedEnabled: e.currentTarget.checked })} /> Allow embedding in web pages
          </label>
          {now.embedEnabled && (
            <SelectField
              id="visitor-drive"
              label="Drive in embedded chats"
              hint={visitorDriveHints[now.visitorDrive]}
              options={[
                ["none", "not used"],
                ["read", "read only"],
                ["write", "read, and write if the agent can write to its drive"],
              ]}
              value={now.visitorDrive}
              onChange={(visitorDrive) => change({ visitorDrive })}
            />
          )}
          <h2>Calls by programs</h2>
          {protocols.map(([id, title]) => (
            <label class="check">
              <input type="checkbox" checked={now.expose.includes(id)} disabled={id === "skills" && !now.expose.includes("mcp")} onChange={(e) => offer(id, e.currentTarget.checked)} /> {title}
            </label>
          ))}
          {now.expose.length > 0 && <p class="small muted">Programs see its name and its description, which is required. The tab Call has code and commands to copy.</p>}
          <h2 id="limits">Limits per turn</h2>
          <fieldset class="plainset stack" aria-labelledby="limits">
            <p class="small muted">
              Leave empty for the service default
              {meta.data && meta.data.limits.defaultTurnCreditsMicro > 0 && ` (${meta.data.limits.defaultTurnCreditsMicro / 1e6} credits)`}. If several limits apply, the lowest wins.
            </p>
            <div class="thirds">
              <TextField id="max-credits" label="Credits" placeholder={meta.data?.limits.defaultTurnCreditsMicro ? String(meta.data.limits.defaultTurnCreditsMicro / 1e6) : "unlimited"} type="number" min="0.000001" step="any" value={limits.credits} onChange={(text) => setLimits({ ...limits, credits: text })} />
              <TextField id="max-steps" label="Model calls" placeholder={meta.data && String(meta.data.limits.maxTurnSteps)} type="number" min={1} step={1} value={limits.steps} onChange={(text) => setLimits({ ...limits, steps: text })} />
              <TextField id="max-seconds" label="Seconds" placeholder={meta.data && String(meta.data.limits.maxTurnSeconds)} type="number" min={1} step={1} value={limits.seconds} onChange={(text) => setLimits({ ...limits, seconds: text })} />
            </div>
          </fieldset>
          <h2>Other settings</h2>
          <label class="check">
            <input type="checkbox" checked={now.tables} onChange={(e) => change({ tables: e.currentTarget.checked })} /> Query CSV and XLSX files with SQL
          </label>
          <TextField
            id="compact-at"
            label="Summarize above, in percent of the window"
            hint="When a session fills this part of its model's window, a model call replaces its beginning by a summary. 30 to 90; 0: never; empty: the service default."
            type="number"
            min={0}
            max={90}
            step={1}
            value={String(now.compactAt ?? "")}
            onChange={(text) => change({ compactAt: text === "" ? null : Number(text) })}
          />
          <TextField id="timezone" label="Time zone" hint="The zone of the times that the agent is given, such as Europe/Berlin. Schedules and visitors have their own." maxLength={64} value={now.timezone} onChange={(timezone) => change({ timezone })} />
          <TextField id="external-id" label="External id" hint="Your own id for it, unique in the account." maxLength={128} value={now.externalId} onChange={(text) => change({ externalId: text })} />
          {many && (
            <PickerField id="agent-space" label="Space" source={sources.spaces} value={now.spaceId} onChange={(spaceId) => change({ spaceId })} />
          )}
          <MetadataFields rows={metadata} onChange={setMetadata} />
        </fieldset>
        </div>
        {writes && (
          <div class="decide row">
            {problem && (
              <div class="whole">
                <Failure problem={problem} retry={problem.status === 412 ? onStale : undefined} />
              </div>
            )}
            <Button kind="main" type="submit" disabled={busy || !dirty || !listed || replySchema === undefined || !now.name.trim() || !now.instructions.trim()}>
              Save
            </Button>
            <span class="small muted">{dirty ? (Object.keys(versioned).some((name) => name in body) ? `Unsaved changes: saving makes version ${was.version + 1}` : "Unsaved changes") : "No unsaved changes"}</span>
            <div class="push">
              <Menu
                label="More actions for the agent"
                items={[
                  ...(offers("duplicateAgent") && !busy && !dirty ? [{ title: "Duplicate", onClick: () => void duplicate() }] : []),
                  { title: "Delete", danger: true, onClick: () => setDeleting(true) },
                ]}
              />
            </div>
          </div>
        )}
      </form>
      {deleting && (
        <Confirm title={`Delete "${was.name}"?`} action="Delete the agent" busy={busy} onConfirm={remove} onClose={() => setDeleting(false)}>
          <Effects of="agent" id={was.id} />
          <p>Its drive and sessions are deleted, its schedules stop, and running turns are cancelled. Receipts are kept. This cannot be undone.</p>
        </Confirm>
      )}
    </section>
    {tries && <TestChat agentId={was.id} draft={draft} agent={{ spaceId: was.spaceId, tools: (listed as AgentTool[] | undefined) ?? was.tools }} />}
    </div>
  );
}
