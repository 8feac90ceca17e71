// One agent: its sessions, drive, schedules and embeds, its settings and earlier
// versions.
import { useEffect, useState } from "preact/hooks";
import type { Agent, AgentVersion } from "../../lib/agents";
import { diffLines } from "../../lib/diff";
import type { Meta } from "../../lib/types";
import { Badge, Button, Field, Time } from "../parts/basic";
import { Confirm } from "../parts/dialog";
import { useAction } from "../parts/form";
import { Empty, Failure, States, useLoad } from "../parts/load";
import { ModelSelect } from "../parts/models";
import { Pages, useList } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { toast } from "../parts/toast";
import { go, useUnsaved } from "../router";
import { useSession } from "../session";
import { DriveView } from "./drive";
import { EmbedsView } from "./embeds";
import { SessionView } from "./session";
import { SessionsView } from "./sessions";
import { TaskView } from "./task";
import { TasksView } from "./tasks";

interface Tagged {
  data: Agent;
  etag: string;
}

export function AgentPage({ id, view, rest }: { id: string; view: string; rest: string }) {
  const { api, offers, may } = useSession();
  const agent = useLoad((signal) => api.read<Agent>("/api-agents/" + id, signal), [api, id]);
  const tabs = [
    { id: "sessions", title: "Sessions", shown: offers("listSessions") },
    { id: "drive", title: "Drive", shown: offers("listDriveFiles") },
    { id: "tasks", title: "Schedules", shown: offers("listScheduledTasks") },
    { id: "embeds", title: "Embeds", shown: offers("listEmbedURLs") },
    { id: "settings", title: "Settings", shown: true },
    { id: "versions", title: "Versions", shown: offers("listAgentVersions") },
  ].filter((t) => t.shown);
  const active = tabs.some((t) => t.id === view) ? view : tabs[0]!.id;
  const name = agent.data?.data.name;
  const section = tabs.find((t) => t.id === active)!.title;
  useEffect(() => {
    if (!name) return;
    const before = document.title;
    document.title = `${name} · ${section} · Stoa console`;
    return () => void (document.title = before);
  }, [name, section]);
  if (agent.problem?.status === 404) {
    return (
      <div class="lost">
        <h1>There is no such agent</h1>
        <p>
          It was deleted, or belongs to another account. <a href="#/agents">Go to the agents.</a>
        </p>
      </div>
    );
  }
  return (
    <>
      <header class="head">
        <div>
          <p class="small muted">
            <a href="#/agents">Agents</a>
          </p>
          <h1>{agent.data?.data.name ?? "Agent"}</h1>
        </div>
        <span class="push mono muted breaks">{id}</span>
      </header>
      <Tabs label="Agent" tabs={tabs} active={active} onChange={(tab) => go(`agents/${id}/${tab}`)} />
      {active === "sessions" &&
        (!may("sessions:read") ? (
          <Lacking scope="sessions:read" />
        ) : rest ? (
          <SessionView key={rest} agentId={id} id={rest} />
        ) : (
          <SessionsView agentId={id} />
        ))}
      {active === "drive" && (may("drive:read") ? <DriveView agentId={id} folder={rest} /> : <Lacking scope="drive:read" />)}
      {active === "tasks" && (!may("schedules:read") ? <Lacking scope="schedules:read" /> : rest ? <TaskView key={rest} agentId={id} id={rest} /> : <TasksView agentId={id} />)}
      {active === "embeds" && (may("embeds:write") ? <States of={agent}>{(a) => <EmbedsView agentId={id} enabled={a.data.embedEnabled} shown={rest} />}</States> : <Lacking scope="embeds:write" />)}
      {active === "settings" && <States of={agent}>{(a) => <Settings key={a.etag} agent={a} onSaved={agent.set} onStale={agent.reload} />}</States>}
      {active === "versions" && <States of={agent}>{(a) => <Versions agent={a} onBack={agent.set} />}</States>}
    </>
  );
}

function Lacking({ scope }: { scope: string }) {
  return (
    <section class="panel">
      <Empty title="Not with this key">
        <p>
          It does not carry the scope <code>{scope}</code>.
        </p>
      </Empty>
    </section>
  );
}

function Settings({ agent, onSaved, onStale }: { agent: Tagged; onSaved: (a: Tagged) => void; onStale: () => void }) {
  const { api, may, offers } = useSession();
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  const was = agent.data;
  const [now, setNow] = useState({ name: was.name, description: was.description ?? "", instructions: was.instructions, model: was.model, driveAccess: was.driveAccess, embedEnabled: was.embedEnabled, externalId: was.externalId ?? "" });
  const [limits, setLimits] = useState({ credits: was.limits.maxCreditsMicro === null ? "" : String(was.limits.maxCreditsMicro / 1e6), steps: String(was.limits.maxSteps ?? ""), seconds: String(was.limits.timeoutSeconds ?? "") });
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
  return (
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
          <label class="check">
            <input type="checkbox" checked={now.embedEnabled} onChange={(e) => change({ embedEnabled: e.currentTarget.checked })} /> It may be shown in pages
          </label>
          <fieldset class="plainset stack">
            <legend>Limits of a turn</legend>
            <p class="small muted">Empty: those of the service. The lowest limit counts.</p>
            <div class="filters">
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
          <dl class="facts small">
            <dt>Space</dt>
            <dd class="mono breaks">{was.spaceId}</dd>
            {Object.entries(was.metadata).map(([name, value]) => (
              <>
                <dt class="breaks">{name}</dt>
                <dd class="breaks">{value}</dd>
              </>
            ))}
          </dl>
        </fieldset>
        {problem && <Failure problem={problem} retry={problem.status === 412 ? onStale : undefined} />}
        {writes && (
          <div class="row">
            <Button kind="main" type="submit" disabled={busy || !dirty || !now.name.trim() || !now.instructions.trim()}>
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
  );
}

function Versions({ agent, onBack }: { agent: Tagged; onBack: (a: Tagged) => void }) {
  const { api, may } = useSession();
  const path = "/api-agents/" + agent.data.id;
  const pages = useList<AgentVersion>(path + "/versions", 20, agent.etag);
  const { busy, problem, run } = useAction({ repeats: true });
  const back = (version: number) =>
    run(async (once) => {
      const reply = await api.raw("POST", path + "/rollback", { body: { version }, headers: { "If-Match": agent.etag, "Idempotency-Key": once } });
      onBack({ data: await reply.json(), etag: reply.headers.get("ETag") ?? "" });
      toast(`Back to version ${version}`);
    });
  return (
    <section class="panel">
      {problem && (
        <div class="pad">
          <Failure problem={problem} />
        </div>
      )}
      <Pages
        of={pages}
        label="Versions"
        empty={<Empty title="No versions" />}
        columns={[
          { title: "Version", show: (v) => <span class="nowrap">{v.version} {v.version === agent.data.version && <Badge meaning="accent">now</Badge>}</span> },
          { title: "Since", show: (v) => <Time at={v.createdAt} /> },
          { title: "Model", show: (v) => <span class="nowrap">{v.model}</span> },
          {
            title: "Instructions",
            show: (v) => (
              <details class="clip">
                <summary>{v.instructions.slice(0, 80)}{v.instructions.length > 80 && "…"}</summary>
                <Diff was={pages.rows.find((x) => x.version === v.version - 1)?.instructions} now={v.instructions} />
              </details>
            ),
          },
          {
            title: "",
            show: (v) =>
              may("agents:write") &&
              v.version !== agent.data.version && (
                <Button small disabled={busy} onClick={() => back(v.version)}>
                  Go back to it
                </Button>
              ),
          },
        ]}
      />
    </section>
  );
}

// Diff shows the lines of a text, and which are new or gone since the text before.
function Diff({ was, now }: { was?: string; now: string }) {
  if (was === undefined || was === now) return <p class="small">{now}</p>;
  return (
    <div class="diff small">
      {diffLines(was.split("\n"), now.split("\n")).map((l) => (
        <div class={l.kind}>
          <span class="unseen">{l.kind === "new" ? "Added: " : l.kind === "gone" ? "Removed: " : ""}</span>
          <span aria-hidden="true">{l.kind === "new" ? "+ " : l.kind === "gone" ? "- " : "  "}</span>
          {l.text}
        </div>
      ))}
    </div>
  );
}
