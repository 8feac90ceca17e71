// The agents: a list, and below "#/agents/ID" one of them with its drive and
// sessions.
import { useState } from "preact/hooks";
import type { Agent } from "../../lib/agents";
import type { List, Meta } from "../../lib/types";
import { Button, Field, Time } from "../parts/basic";
import { FormDialog, useAction } from "../parts/form";
import { Empty, useLoad } from "../parts/load";
import { ModelSelect } from "../parts/models";
import { Pages, useList } from "../parts/table";
import { go } from "../parts/router";
import { useSession } from "../parts/session";
import { AgentPage } from "./agent";

export function Agents({ rest }: { rest: string }) {
  const [id = "", view = "", ...more] = rest.split("/");
  if (id) return <AgentPage key={id} id={id} view={view} rest={more.map(decodeURIComponent).join("/")} />;
  return <AllAgents />;
}

function AllAgents() {
  const { may } = useSession();
  const { api } = useSession();
  const [words, setWords] = useState("");
  const [space, setSpace] = useState("");
  const spaces = useLoad((signal) => api.get<List<{ id: string; name: string }>>("/spaces", { limit: 100 }, signal), [api]);
  const names = new Map(spaces.data?.data.map((s) => [s.id, s.name]));
  const all = useList<Agent>("/api-agents" + (space ? "?spaceId=" + encodeURIComponent(space) : ""), 100);
  const sought = words.trim().toLowerCase();
  const pages = { ...all, rows: all.rows.filter((a) => !sought || [a.name, a.description, a.externalId, a.id].some((t) => t?.toLowerCase().includes(sought))) };
  const [making, setMaking] = useState(false);
  const writes = may("agents:write");
  const button = writes && (
    <Button kind="main" icon="plus" onClick={() => setMaking(true)}>
      Create agent
    </Button>
  );
  return (
    <>
      <header class="head">
        <h1>Agents</h1>
        <div class="push">{button}</div>
      </header>
      <div class="filters">
        <Field id="agent-search" label="Search">
          <input id="agent-search" class="input" type="search" placeholder="Name, description or id" value={words} onInput={(e) => setWords(e.currentTarget.value)} />
        </Field>
        {names.size > 1 && (
          <Field id="agent-in" label="Space">
            <select id="agent-in" class="input" value={space} onChange={(e) => setSpace(e.currentTarget.value)}>
              <option value="">All</option>
              {[...names].map(([id, name]) => (
                <option value={id}>{name}</option>
              ))}
            </select>
          </Field>
        )}
      </div>
      <section class="panel">
        <Pages
          of={pages}
          label="Agents"
          empty={
            sought || space ? (
              <Empty title="No such agents">
                <p>None fits the search.</p>
              </Empty>
            ) : (
            <Empty title="No agents yet">
              <p>An agent is instructions, a model and a drive of files. Sessions with it run here and keep their history.</p>
            </Empty>
            )
          }
          columns={[
            {
              title: "Name",
              show: (a) => (
                <>
                  <a href={"#/agents/" + a.id}>{a.name}</a>
                  {a.description && <div class="small muted">{a.description}</div>}
                </>
              ),
            },
            { title: "Model", show: (a) => <span class="nowrap">{a.model}</span> },
            ...(names.size > 1 ? [{ title: "Space", show: (a: Agent) => names.get(a.spaceId) ?? <span class="mono">{a.spaceId}</span> }] : []),
            { title: "Drive", show: (a) => <span class="nowrap">{a.driveAccess === "read_write" ? "reads and writes" : "reads"}</span> },
            { title: "Version", number: true, show: (a) => a.version },
            { title: "Changed", show: (a) => <Time at={a.updatedAt} /> },
          ]}
        />
      </section>
      {making && <MakeAgent onClose={() => setMaking(false)} />}
    </>
  );
}

function MakeAgent({ onClose }: { onClose: () => void }) {
  const { api, me } = useSession();
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  const spaces = useLoad((signal) => api.get<List<{ id: string; name: string }>>("/spaces", { limit: 100 }, signal), [api]);
  const [name, setName] = useState("");
  const [instructions, setInstructions] = useState("");
  const [model, setModel] = useState("auto");
  const [space, setSpace] = useState(me.defaultSpaceId ?? "");
  const action = useAction();
  const spaceId = space || spaces.data?.data[0]?.id || "";
  const submit = () =>
    action.run(async (once) => {
      const made = await api.create<Agent>("/api-agents", { spaceId, name: name.trim(), instructions, model }, once);
      go("agents/" + made.id);
    });
  return (
    <FormDialog id="make-agent" title="Create agent" submit="Create the agent" ready={!!(name.trim() && instructions.trim() && spaceId)} action={action} onSubmit={submit} onClose={onClose}>
      <Field id="agent-name" label="Name">
        <input id="agent-name" class="input" maxLength={200} value={name} onInput={(e) => setName(e.currentTarget.value)} autofocus />
      </Field>
      <Field id="agent-instructions" label="Instructions" hint="What it is told before every conversation.">
        <textarea id="agent-instructions" class="input" rows={6} value={instructions} onInput={(e) => setInstructions(e.currentTarget.value)} aria-describedby="agent-instructions-hint" />
      </Field>
      {meta.data && (
        <Field id="agent-model" label="Model">
          <ModelSelect id="agent-model" meta={meta.data} value={model} onChange={setModel} />
        </Field>
      )}
      {spaces.data && spaces.data.data.length > 1 && (
        <Field id="agent-space" label="Space">
          <select id="agent-space" class="input" value={spaceId} onChange={(e) => setSpace(e.currentTarget.value)}>
            {spaces.data.data.map((s) => (
              <option value={s.id}>{s.name}</option>
            ))}
          </select>
        </Field>
      )}
    </FormDialog>
  );
}
