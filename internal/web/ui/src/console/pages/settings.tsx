// The settings of an agent, and beside them a conversation that tries them before they
// are saved.
import { useState } from "preact/hooks";
import type { Agent } from "../../lib/agents";
import type { AgentTool } from "../../lib/contract";
import type { List, Meta } from "../../lib/types";
import { AllowedTools } from "../parts/allowedtools";
import { Button, Field } from "../parts/basic";
import { Confirm } from "../parts/dialog";
import { useAction } from "../parts/form";
import { Failure, useLoad } from "../parts/load";
import { changedMetadata, MetadataFields, rowsOf } from "../parts/metadata";
import { ModelSelect } from "../parts/models";
import type { Tagged } from "../parts/subject";
import { toast } from "../parts/toast";
import { TestChat } from "../parts/testchat";
import { go, useUnsaved } from "../parts/router";
import { useSession } from "../parts/session";

// What a draft of an agent can differ in.
const drafted = ["instructions", "model", "driveAccess", "tools", "limits"];

// toolsIn reads the list of tools; undefined where the text is none.
function toolsIn(text: string): unknown[] | undefined {
  if (text.trim() === "") return [];
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list : undefined;
  } catch {
    return undefined;
  }
}

// sorted is a value as JSON whose members are in the order of their names: the service
// does not keep the order in which they are sent.
const sorted = (value: unknown): string => JSON.stringify(value, (_, v) => (v && typeof v === "object" && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1))) : v));

export function Settings({ agent, onSaved, onStale }: { agent: Tagged<Agent>; onSaved: (a: Tagged<Agent>) => void; onStale: () => void }) {
  const { api, may, offers } = useSession();
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  const was = agent.data;
  const [now, setNow] = useState({ name: was.name, description: was.description ?? "", instructions: was.instructions, model: was.model, driveAccess: was.driveAccess, visitorDrive: was.visitorDrive, embedEnabled: was.embedEnabled, externalId: was.externalId ?? "", spaceId: was.spaceId });
  const [limits, setLimits] = useState({ credits: was.limits.maxCreditsMicro === null ? "" : String(was.limits.maxCreditsMicro / 1e6), steps: String(was.limits.maxSteps ?? ""), seconds: String(was.limits.timeoutSeconds ?? "") });
  const [tools, setTools] = useState(() => (was.tools.length ? JSON.stringify(was.tools, null, 2) : ""));
  const [metadata, setMetadata] = useState(() => rowsOf(was.metadata));
  const spaces = useLoad((signal) => api.get<List<{ id: string; name: string }>>("/spaces", { limit: 100 }, signal), [api]);
  const { busy, problem, run } = useAction({ repeats: true });
  const [deleting, setDeleting] = useState(false);
  const writes = may("agents:write");
  const change = (part: Partial<typeof now>) => setNow({ ...now, ...part });
  const changed = { ...now, description: now.description.trim() === "" ? null : now.description, externalId: now.externalId.trim() === "" ? null : now.externalId.trim() };
  const body: Record<string, unknown> = Object.fromEntries(Object.entries(changed).filter(([name, value]) => value !== was[name as keyof Agent]));
  const asked = {
    maxCreditsMicro: limits.credits === "" ? null : Math.round(Number(limits.credits) * 1e6),
    maxSteps: limits.steps === "" ? null : Number(limits.steps),
    timeoutSeconds: limits.seconds === "" ? null : Number(limits.seconds),
  };
  if (Object.entries(asked).some(([name, value]) => value !== was.limits[name as keyof Agent["limits"]])) body.limits = asked;
  const listed = toolsIn(tools);
  if (listed && sorted(listed) !== sorted(was.tools)) body.tools = listed;
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
      <form class="body stack narrow" onSubmit={submit}>
        <fieldset class="plainset stack" disabled={!writes}>
          <Field id="name" label="Name">
            <input id="name" class="input" maxLength={200} value={now.name} onInput={(e) => change({ name: e.currentTarget.value })} />
          </Field>
          <Field id="description" label="Description">
            <input id="description" class="input" maxLength={2000} value={now.description} onInput={(e) => change({ description: e.currentTarget.value })} />
          </Field>
          <Field id="instructions" label="Instructions" hint="What it is told before every conversation. A change makes a new version; sessions that have begun keep theirs.">
            <textarea id="instructions" class="input" rows={10} value={now.instructions} onInput={(e) => change({ instructions: e.currentTarget.value })} aria-describedby="instructions-hint" />
          </Field>
          {meta.data && (
            <Field id="agent-model" label="Model">
              <ModelSelect id="agent-model" meta={meta.data} value={now.model} onChange={(model) => change({ model })} />
            </Field>
          )}
          <label class="check">
            <input type="checkbox" checked={now.driveAccess === "read_write"} onChange={(e) => change({ driveAccess: e.currentTarget.checked ? "read_write" : "read_only" })} /> It may write to its drive
          </label>
          <Field
            id="tools"
            label="Tools"
            problem={listed ? undefined : "This is no JSON list."}
            hint={
              <>
                A JSON list. Tools that your programs carry out are {"{type: \"client\", name, description, parameters}"}; <a href="/docs/tools">the guide</a> has an example. Those of connections are chosen below. Empty: none.
              </>
            }
          >
            <textarea id="tools" class="input mono" rows={tools ? 8 : 2} spellcheck={false} value={tools} onInput={(e) => setTools(e.currentTarget.value)} aria-describedby="tools-hint" aria-invalid={!listed} />
          </Field>
          {listed && offers("listConnections") && may("connections:read") && <AllowedTools spaceId={now.spaceId} tools={listed as AgentTool[]} onChange={(all) => setTools(all.length ? JSON.stringify(all, null, 2) : "")} />}
          <label class="check">
            <input type="checkbox" checked={now.embedEnabled} onChange={(e) => change({ embedEnabled: e.currentTarget.checked })} /> Allow embedding in web pages
          </label>
          {now.embedEnabled && (
            <Field id="visitor-drive" label="Its drive in those chats" hint="Every visitor's chat has the same files, and visitors may try to have it write.">
              <select id="visitor-drive" class="input" value={now.visitorDrive} onChange={(e) => change({ visitorDrive: e.currentTarget.value as Agent["visitorDrive"] })} aria-describedby="visitor-drive-hint">
                <option value="none">not used</option>
                <option value="read">read only</option>
                <option value="write">read, and written if it may write to its drive</option>
              </select>
            </Field>
          )}
          <fieldset class="plainset stack">
            <legend>Limits per turn</legend>
            <p class="small muted">
              Leave empty for the service default
              {meta.data && meta.data.limits.defaultTurnCreditsMicro > 0 && ` (${meta.data.limits.defaultTurnCreditsMicro / 1e6} credits)`}. If several limits apply, the lowest wins.
            </p>
            <div class="thirds">
              <Field id="max-credits" label="Credits">
                <input id="max-credits" class="input" type="number" min="0.000001" step="any" value={limits.credits} onInput={(e) => setLimits({ ...limits, credits: e.currentTarget.value })} />
              </Field>
              <Field id="max-steps" label="Model calls">
                <input id="max-steps" class="input" type="number" min={1} step={1} value={limits.steps} onInput={(e) => setLimits({ ...limits, steps: e.currentTarget.value })} />
              </Field>
              <Field id="max-seconds" label="Seconds">
                <input id="max-seconds" class="input" type="number" min={1} step={1} value={limits.seconds} onInput={(e) => setLimits({ ...limits, seconds: e.currentTarget.value })} />
              </Field>
            </div>
          </fieldset>
          <Field id="external-id" label="External id" hint="Your own id for it, unique in the account.">
            <input id="external-id" class="input" maxLength={128} value={now.externalId} onInput={(e) => change({ externalId: e.currentTarget.value })} aria-describedby="external-id-hint" />
          </Field>
          {spaces.data && spaces.data.data.length > 0 && (
            <Field id="agent-space" label="Space">
              <select id="agent-space" class="input" value={now.spaceId} onChange={(e) => change({ spaceId: e.currentTarget.value })}>
                {!spaces.data.data.some((s) => s.id === now.spaceId) && <option value={now.spaceId}>{now.spaceId}</option>}
                {spaces.data.data.map((s) => (
                  <option value={s.id}>{s.name}</option>
                ))}
              </select>
            </Field>
          )}
          <MetadataFields rows={metadata} onChange={setMetadata} />
        </fieldset>
        {problem && <Failure problem={problem} retry={problem.status === 412 ? onStale : undefined} />}
        {writes && (
          <div class="row">
            <Button kind="main" type="submit" disabled={busy || !dirty || !listed || !now.name.trim() || !now.instructions.trim()}>
              Save
            </Button>
            <div class="row push">
              {offers("duplicateAgent") && (
                <Button icon="copy" disabled={busy || dirty} onClick={duplicate}>
                  Duplicate
                </Button>
              )}
              <Button kind="danger" icon="trash" onClick={() => setDeleting(true)}>
                Delete
              </Button>
            </div>
          </div>
        )}
      </form>
      {deleting && (
        <Confirm title={`Delete "${was.name}"?`} action="Delete the agent" busy={busy} onConfirm={remove} onClose={() => setDeleting(false)}>
          <p>Its drive and its sessions go with it, schedules stop, and turns that run are cancelled. Receipts stay. This cannot be undone.</p>
        </Confirm>
      )}
    </section>
    {tries && <TestChat agentId={was.id} draft={draft} agent={{ spaceId: was.spaceId, tools: (listed as AgentTool[] | undefined) ?? was.tools }} />}
    </div>
  );
}
