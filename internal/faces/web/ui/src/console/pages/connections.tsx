// Connections: servers with tools, and the secrets that they require.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { counted, type Kind, kindWords, originOf } from "../../lib/connections";
import type { Connection, CreateConnection } from "../../lib/contract";
import { useAccess } from "../parts/access";
import { Time } from "../parts/basic";
import { useConnectionFields } from "../parts/connectionfields";
import { ConnectionState } from "../parts/connectionstate";
import { Facts } from "../parts/facts";
import { SelectField, TextField } from "../parts/fields";
import { FormDialog, useAction } from "../parts/form";
import { useResource } from "../parts/resource";
import { go } from "../parts/router";
import { useSession } from "../parts/session";
import { SpaceField } from "../parts/space";
import { Tabs } from "../parts/tabs";
import { ConnectionPage } from "./connection";
import { Secrets } from "./secrets";

export function Connections({ rest }: { rest: string }) {
  if (rest && rest !== "secrets") return <ConnectionPage key={rest} id={rest} />;
  return rest === "secrets" ? <Secrets head={<Head rest={rest} />} /> : <Servers />;
}

function Head({ rest, children }: { rest: string; children?: ComponentChildren }) {
  return (
    <>
      <header class="head">
        <h1>Connections</h1>
        {children}
      </header>
      <Tabs
        label="Part"
        tabs={[
          { id: "", title: "Servers" },
          { id: "secrets", title: "Secrets" },
        ]}
        active={rest}
        onChange={(id) => go(id ? "connections/" + id : "connections")}
      />
    </>
  );
}

function Servers() {
  const { may } = useSession();
  const { head, list, dialog } = useResource<Connection>({
    path: "/connections",
    limit: 20,
    label: "Connections",
    search: { name: "q", label: "Name or address" },
    nothing: "No matching connections",
    onPick: (c) => go("connections/" + c.id),
    create: may("connections:write") && { title: "Connect a server", dialog: ({ onClose }) => <Add onClose={onClose} /> },
    empty: {
      title: "No server is connected",
      text: (
        <>
          A connection is a server that has tools. You review each of its tools before an agent may call it. <a href="/docs/connections">The guide</a> begins with a small server to try.
        </>
      ),
    },
    columns: [
      {
        title: "Server",
        show: (c) => (
          <>
            <a href={"#/connections/" + c.id}>{c.name}</a>
            <div class="small muted breaks">{c.url}</div>
            {c.lastError && c.status !== "ready" && <div class="small reason">{c.lastError.message}</div>}
          </>
        ),
      },
      { title: "State", keep: 2, show: (c) => <ConnectionState of={c} /> },
      { title: "Tools", show: (c) => <span class="small">{counted(c)}</span> },
      { title: "Checked", show: (c) => (c.lastCheckedAt ? <Time at={c.lastCheckedAt} /> : <span class="muted">never</span>) },
    ],
  });
  return (
    <>
      <Head rest="">{head}</Head>
      <section class="panel">{list}</section>
      {dialog}
    </>
  );
}

// Preview shows what an agent and the server see of a connection.
function Preview({ name, url, way }: { name: string; url: string; way: string }) {
  return (
    <Facts
      of={[
        ["Tools", <code class="breaks">{name || "name"}__…</code>],
        ["Sent to", <span class="breaks">{originOf(url) || "the server's origin"}</span>],
        ["With", way === "none" ? "no secret" : way === "oauth" ? "the token of your sign-in" : "the stored secret"],
        ["Then", "you review each tool before an agent can call it"],
      ]}
    />
  );
}

// Add creates a connection and refreshes its tools immediately. The result or the error
// is on the page of the connection.
function Add({ onClose }: { onClose: () => void }) {
  const { api } = useSession();
  const [kind, setKind] = useState<Kind>("mcp");
  const [name, setName] = useState("");
  const [spaceId, setSpaceId] = useState("");
  const place = useConnectionFields(kind);
  const access = useAccess({ origin: originOf(place.body.url ?? ""), name: name.trim() });
  const action = useAction();
  const submit = () =>
    action.run(async (once) => {
      const body: CreateConnection = { kind, name: name.trim(), ...place.body, auth: access.auth };
      if (spaceId) body.spaceId = spaceId;
      const made = await api.create<Connection>("/connections", body, once);
      // Requests are not possible before the authorization.
      if (made.status !== "needs_authorization") await api.raw("POST", `/connections/${made.id}/refresh`).catch(() => undefined);
      go("connections/" + made.id);
    });
  const wrong = action.problem?.param === "name" ? action.problem.message : undefined;
  if (access.storing) return access.storing;
  return (
    <FormDialog id="connect" title="Connect a server" wide submit="Connect it" ready={place.ready && access.ready && !!name.trim()} action={action} preview={<Preview name={name.trim()} url={place.body.url ?? ""} way={access.auth.type} />} shown={!!wrong} onSubmit={submit} onClose={onClose}>
      <SelectField id="connection-kind" label="What it is" options={Object.entries(kindWords) as [Kind, string][]} value={kind} onChange={setKind} />
      {place.fields}
      <TextField id="connection-name" label="Name" hint="A lower-case letter, then up to 23 lower-case letters and digits. It is part of the tools' names and cannot be changed later." problem={wrong} maxLength={24} value={name} onChange={setName} />
      {access.fields}
      <SpaceField id="connection-space" hint="Agents of this space can use its tools." none="The default space" value={spaceId} onChange={setSpaceId} />
    </FormDialog>
  );
}
