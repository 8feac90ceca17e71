// Connections: the servers that have tools, and the secrets that they want.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { counted, type Kind, kindWords, originOf } from "../../lib/connections";
import type { Connection, CreateConnection } from "../../lib/contract";
import { useAccess } from "../parts/access";
import { Badge, Button, Field, type Meaning, Time } from "../parts/basic";
import { FormDialog, useAction } from "../parts/form";
import { Empty } from "../parts/load";
import { MissingScope } from "../parts/missing";
import { usePlace } from "../parts/place";
import { SpaceField } from "../parts/space";
import { Pages, useList } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { go } from "../router";
import { useSession } from "../session";
import { ConnectionPage } from "./connection";
import { Secrets } from "./secrets";

export function Connections({ rest }: { rest: string }) {
  const { may } = useSession();
  if (!may("connections:read")) {
    return (
      <>
        <header class="head">
          <h1>Connections</h1>
        </header>
        <MissingScope scope="connections:read" what="see connections" />
      </>
    );
  }
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
  const pages = useList<Connection>("/connections", 20);
  const [adding, setAdding] = useState(false);
  return (
    <>
      <Head rest="">
        {may("connections:write") && (
          <div class="push">
            <Button kind="main" icon="plus" onClick={() => setAdding(true)}>
              Connect a server
            </Button>
          </div>
        )}
      </Head>
      <section class="panel">
        <Pages
          of={pages}
          label="Connections"
          onPick={(c) => go("connections/" + c.id)}
          empty={
            <Empty title="No server is connected">
              <p>
                A connection is a server that has tools. You review each of its tools before an agent may call it. <a href="/docs/connections">The guide</a> begins with a small server to try.
              </p>
            </Empty>
          }
          columns={[
            {
              title: "Server",
              show: (c) => (
                <>
                  <a href={"#/connections/" + c.id}>{c.name}</a>
                  <div class="small muted breaks">{c.url}</div>
                </>
              ),
            },
            { title: "State", show: (c) => <ConnectionState of={c} /> },
            { title: "Tools", show: (c) => <span class="small">{counted(c)}</span> },
            { title: "Asked", show: (c) => (c.lastCheckedAt ? <Time at={c.lastCheckedAt} /> : <span class="muted">never</span>) },
          ]}
        />
      </section>
      {adding && <Add onClose={() => setAdding(false)} />}
    </>
  );
}

const states: Record<string, [Meaning, string]> = {
  unchecked: ["info", "not asked yet"],
  ready: ["ok", "ready"],
  review_needed: ["waiting", "review needed"],
  needs_authorization: ["failed", "needs authorization"],
  unreachable: ["failed", "not reached"],
  disabled: ["none", "switched off"],
};

export function ConnectionState({ of: c }: { of: Connection }) {
  const [meaning, word] = states[c.status] ?? ["none", c.status];
  return <Badge meaning={meaning}>{word}</Badge>;
}

// Add makes a connection and asks its server at once. What the server says, or why it
// says nothing, is on the page of the connection.
function Add({ onClose }: { onClose: () => void }) {
  const { api } = useSession();
  const [kind, setKind] = useState<Kind>("mcp");
  const [name, setName] = useState("");
  const [spaceId, setSpaceId] = useState("");
  const place = usePlace(kind);
  const access = useAccess({ origin: originOf(place.body.url ?? ""), name: name.trim() });
  const action = useAction();
  const submit = () =>
    action.run(async (once) => {
      const body: CreateConnection = { kind, name: name.trim(), ...place.body, auth: access.auth };
      if (spaceId) body.spaceId = spaceId;
      const made = await api.create<Connection>("/connections", body, once);
      // Before somebody has signed in there is nothing to ask with.
      if (made.status !== "needs_authorization") await api.raw("POST", `/connections/${made.id}/refresh`).catch(() => undefined);
      go("connections/" + made.id);
    });
  const wrong = action.problem?.param === "name" ? action.problem.message : undefined;
  if (access.storing) return access.storing;
  return (
    <FormDialog id="connect" title="Connect a server" wide submit="Connect it" ready={place.ready && access.ready && !!name.trim()} action={action} shown={!!wrong} onSubmit={submit} onClose={onClose}>
      <Field id="connection-kind" label="What it is">
        <select id="connection-kind" class="input" value={kind} onChange={(e) => setKind(e.currentTarget.value as Kind)}>
          {Object.entries(kindWords).map(([value, words]) => (
            <option value={value}>{words}</option>
          ))}
        </select>
      </Field>
      {place.fields}
      <Field id="connection-name" label="Name" hint="A small letter, then up to 23 small letters and digits. Models know the tools by it, so it stays." problem={wrong}>
        <input id="connection-name" class="input" maxLength={24} value={name} onInput={(e) => setName(e.currentTarget.value)} aria-describedby="connection-name-hint" aria-invalid={wrong ? "true" : undefined} />
      </Field>
      {access.fields}
      <SpaceField id="connection-space" hint="Agents of this space can use its tools." none="The default space" value={spaceId} onChange={setSpaceId} />
    </FormDialog>
  );
}
