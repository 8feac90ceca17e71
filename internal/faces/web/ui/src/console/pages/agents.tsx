// The agents: a list, and below "#/agents/ID" one of them with its drive and
// sessions.
import { useState } from "preact/hooks";
import type { Agent } from "../../lib/agents";
import type { List, Meta } from "../../lib/types";
import { templates } from "../../lib/templates";
import { Field, Time } from "../parts/basic";
import { AreaField, SelectField, TextField } from "../parts/fields";
import { FormDialog, useAction } from "../parts/form";
import { useLoad } from "../parts/load";
import { ModelSelect } from "../parts/models";
import { PickerField, sources } from "../parts/picker";
import { useResource } from "../parts/resource";
import { go } from "../parts/router";
import { useSession } from "../parts/session";
import { useManySpaces } from "../parts/space";
import { useSpent } from "../parts/spark";
import { AgentPage } from "./agent";

export function Agents({ rest }: { rest: string }) {
  const [id = "", view = "", ...more] = rest.split("/");
  if (id) return <AgentPage key={id} id={id} view={view} rest={more.map(decodeURIComponent).join("/")} />;
  return <AllAgents />;
}

function AllAgents() {
  const { may } = useSession();
  const many = useManySpaces();
  const spent = useSpent<Agent>("agent");
  const { head, list, dialog } = useResource<Agent>({
    path: "/api-agents",
    limit: 50,
    label: "Agents",
    search: { name: "q", label: "Name, description or id" },
    filters: many ? [{ name: "spaceId", label: "Space", source: sources.spaces, fixed: [{ id: "", title: "All" }] }] : [],
    nothing: "No such agents",
    onPick: (a) => go("agents/" + a.id),
    create: may("agents:write") && { title: "Create agent", dialog: ({ onClose }) => <MakeAgent onClose={onClose} /> },
    empty: { title: "No agents yet", text: "An agent is instructions, a model and a drive of files. Sessions with it run here and keep their history." },
    columns: [
      {
        title: "Name",
        sort: "name",
        show: (a) => (
          <>
            <a href={"#/agents/" + a.id}>{a.name}</a>
            {a.description && <div class="small muted">{a.description}</div>}
          </>
        ),
      },
      { title: "Model", show: (a) => <span class="nowrap">{a.model}</span> },
      ...(many ? [{ title: "Space", show: (a: Agent) => a.spaceName ?? <span class="mono">{a.spaceId}</span> }] : []),
      ...spent,
      { title: "Drive", named: true, show: (a) => <span class="nowrap">{a.driveAccess === "read_write" ? "reads and writes" : "reads"}</span> },
      {
        title: "Last session",
        sort: "used",
        named: true,
        show: (a) => (a.lastSessionAt ? <a href={`#/agents/${a.id}/sessions`}><Time at={a.lastSessionAt} /></a> : <span class="muted">never</span>),
      },
      { title: "Version", number: true, show: (a) => a.version },
      { title: "Changed", named: true, show: (a) => <Time at={a.updatedAt} /> },
    ],
  });
  return (
    <>
      <header class="head">
        <h1>Agents</h1>
        {head}
      </header>
      <section class="panel">{list}</section>
      {dialog}
    </>
  );
}

function MakeAgent({ onClose }: { onClose: () => void }) {
  const { api, me } = useSession();
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  const spaces = useLoad((signal) => api.get<List<{ id: string; name: string }>>("/spaces", { limit: 2 }, signal), [api]);
  const [name, setName] = useState("");
  const [instructions, setInstructions] = useState("");
  const [template, setTemplate] = useState("");
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
      <SelectField
        id="agent-template"
        label="Start from"
        options={[["", "an empty page"], ...templates.map((t) => [t.id, t.title] as [string, string])]}
        value={template}
        hint={templates.find((t) => t.id === template)?.hint}
        onChange={(id) => {
          const of = templates.find((t) => t.id === id);
          const was = templates.find((t) => t.id === template);
          setTemplate(id);
          if (!name || name === was?.name) setName(of?.name ?? "");
          if (!instructions || instructions === was?.instructions) setInstructions(of?.instructions ?? "");
        }}
      />
      <TextField id="agent-name" label="Name" maxLength={200} value={name} onChange={setName} autofocus />
      {meta.data && (
        <Field id="agent-model" label="Model">
          <ModelSelect id="agent-model" meta={meta.data} value={model} onChange={setModel} />
        </Field>
      )}
      <AreaField id="agent-instructions" label="Instructions" hint="The system prompt of every session." rows={6} value={instructions} onChange={setInstructions} />
      {spaces.data && spaces.data.data.length > 1 && <PickerField id="agent-space" label="Space" source={sources.spaces} value={spaceId} onChange={setSpace} />}
    </FormDialog>
  );
}
