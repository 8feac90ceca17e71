// One agent: its sessions, drive, schedules and embeds, its settings and earlier
// versions.
import { useState } from "preact/hooks";
import type { Agent, AgentVersion } from "../../lib/agents";
import type { Meta } from "../../lib/types";
import { Badge, Button, Field, Time } from "../parts/basic";
import { Confirm } from "../parts/dialog";
import { useAction } from "../parts/form";
import { Empty, Failure, States, useLoad } from "../parts/load";
import { ModelSelect } from "../parts/models";
import { Pages, useList } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { toast } from "../parts/toast";
import { go } from "../router";
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
  const { api, may } = useSession();
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  const was = agent.data;
  const [now, setNow] = useState({ name: was.name, description: was.description ?? "", instructions: was.instructions, model: was.model, driveAccess: was.driveAccess, embedEnabled: was.embedEnabled });
  const { busy, problem, run } = useAction({ repeats: true });
  const [deleting, setDeleting] = useState(false);
  const writes = may("agents:write");
  const change = (part: Partial<typeof now>) => setNow({ ...now, ...part });
  const changed = { ...now, description: now.description.trim() === "" ? null : now.description };
  const body = Object.fromEntries(Object.entries(changed).filter(([name, value]) => value !== was[name as keyof Agent]));
  const dirty = Object.keys(body).length > 0;
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
        </fieldset>
        {problem && <Failure problem={problem} retry={problem.status === 412 ? onStale : undefined} />}
        {writes && (
          <div class="row">
            <Button kind="main" type="submit" disabled={busy || !dirty || !now.name.trim() || !now.instructions.trim()}>
              Save
            </Button>
            <div class="push">
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
                <p class="small">{v.instructions}</p>
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
