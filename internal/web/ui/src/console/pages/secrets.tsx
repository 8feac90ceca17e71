// Secrets of connections: their values are written, and never shown.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Connection, CreateSecret, Secret } from "../../lib/contract";
import type { List } from "../../lib/types";
import { Badge, Button, Field, Time } from "../parts/basic";
import { Confirm } from "../parts/dialog";
import { FormDialog, useAction } from "../parts/form";
import { Empty, Failure, useLoad } from "../parts/load";
import { Pages, useList } from "../parts/table";
import { toast } from "../parts/toast";
import { useSession } from "../session";

export function Secrets({ head }: { head: ComponentChildren }) {
  const { api, may } = useSession();
  const pages = useList<Secret>("/secrets", 20);
  const connections = useLoad((signal) => api.get<List<Connection>>("/connections", { limit: 100 }, signal), [api]);
  const [making, setMaking] = useState(false);
  const [setting, setSetting] = useState<Secret>();
  const [deleting, setDeleting] = useState<Secret>();
  const writes = may("secrets:write");
  const done = (said: string) => {
    setMaking(false);
    setSetting(undefined);
    setDeleting(undefined);
    toast(said);
    pages.first.reload();
  };
  return (
    <>
      {head}
      <section class="panel" aria-labelledby="secrets">
        <header>
          <h2 id="secrets">Secrets</h2>
          {writes && (
            <div class="push">
              <Button small icon="plus" onClick={() => setMaking(true)}>
                Store a secret
              </Button>
            </div>
          )}
        </header>
        <Pages
          of={pages}
          label="Secrets"
          empty={
            <Empty title="No secrets">
              <p>A secret is a value that requests to one server carry, such as a token. Nothing shows it again.</p>
            </Empty>
          }
          columns={[
            {
              title: "Name",
              show: (s) => (
                <>
                  <div class="breaks">
                    {s.name} {s.unreadable && <Badge meaning="failed">unreadable</Badge>}
                  </div>
                  {s.hint && <code class="small">…{s.hint}</code>}
                </>
              ),
            },
            {
              title: "Goes to",
              show: (s) => (
                <>
                  <div class="breaks">{s.origin}</div>
                  <div class="small muted">{sentAs(s)}</div>
                </>
              ),
            },
            {
              title: "Used by",
              show: (s) =>
                s.connectionIds.length === 0 ? (
                  <span class="muted">nothing</span>
                ) : (
                  <span class="breaks">
                    {s.connectionIds.map((id, i) => (
                      <>
                        {i > 0 && ", "}
                        <a href={"#/connections/" + id}>{connections.data?.data.find((c) => c.id === id)?.name ?? id}</a>
                      </>
                    ))}
                  </span>
                ),
            },
            { title: "Set", show: (s) => <Time at={s.updatedAt} /> },
            {
              title: "",
              show: (s) =>
                writes && (
                  <div class="row tight">
                    <Button small onClick={() => setSetting(s)}>
                      Replace
                    </Button>
                    <Button small kind="danger" onClick={() => setDeleting(s)}>
                      Delete
                    </Button>
                  </div>
                ),
            },
          ]}
        />
        {making && <SecretForm onClose={() => setMaking(false)} onDone={() => done("The secret is stored")} />}
        {setting && <Replace of={setting} onClose={() => setSetting(undefined)} onDone={() => done("The value is replaced")} />}
        {deleting && <Delete of={deleting} onClose={() => setDeleting(undefined)} onDone={() => done("The secret is deleted")} />}
      </section>
    </>
  );
}

// sentAs says how requests carry a secret.
function sentAs(s: Secret): string {
  switch (s.kind) {
    case "bearer":
      return "as Authorization: Bearer";
    case "basic":
      return "as Authorization: Basic";
    case "query":
      return `as the parameter ${s.parameterName}`;
    case "token":
      return "to a token endpoint alone";
    default:
      return `as ${s.headerName}`;
  }
}

const value = (set: (text: string) => void, text: string) => (
  <Field id="secret-value" label="Value" hint="Printable ASCII characters. Nobody sees it again.">
    <input id="secret-value" class="input" type="password" maxLength={8192} autocomplete="off" spellcheck={false} value={text} onInput={(e) => set(e.currentTarget.value)} aria-describedby="secret-value-hint" />
  </Field>
);

// SecretForm stores a secret; for a given origin where there is one.
export function SecretForm({ origin, name: offered = "", onDone, onClose }: { origin?: string; name?: string; onDone: (s: Secret) => void; onClose: () => void }) {
  const { api } = useSession();
  const [name, setName] = useState(offered);
  const [to, setTo] = useState(origin ?? "");
  const [kind, setKind] = useState<CreateSecret["kind"]>("bearer");
  const [header, setHeader] = useState("");
  const [text, setText] = useState("");
  const action = useAction();
  const submit = () =>
    action.run(async (once) => {
      const body: CreateSecret = { name: name.trim(), origin: to.trim(), kind, value: text };
      if (kind === "header") body.headerName = header.trim();
      onDone(await api.create<Secret>("/secrets", body, once));
    });
  return (
    <FormDialog id="secret-form" title="Store a secret" submit="Store it" ready={!!name.trim() && !!to.trim() && !!text && (kind !== "header" || !!header.trim())} action={action} onSubmit={submit} onClose={onClose}>
      <Field id="secret-name" label="Name" hint="So that you know it later.">
        <input id="secret-name" class="input" maxLength={200} value={name} onInput={(e) => setName(e.currentTarget.value)} aria-describedby="secret-name-hint" autofocus />
      </Field>
      <Field id="secret-origin" label="Goes to" hint="Scheme and host, such as https://mcp.example.com. It is sent nowhere else, ever.">
        <input id="secret-origin" class="input" maxLength={512} readOnly={!!origin} value={to} onInput={(e) => setTo(e.currentTarget.value)} aria-describedby="secret-origin-hint" />
      </Field>
      <Field id="secret-kind" label="Sent as">
        <select id="secret-kind" class="input" value={kind} onChange={(e) => setKind(e.currentTarget.value as CreateSecret["kind"])}>
          <option value="bearer">Authorization: Bearer …</option>
          <option value="header">Another header</option>
        </select>
      </Field>
      {kind === "header" && (
        <Field id="secret-header" label="Header">
          <input id="secret-header" class="input" maxLength={64} placeholder="X-Api-Key" value={header} onInput={(e) => setHeader(e.currentTarget.value)} />
        </Field>
      )}
      {value(setText, text)}
    </FormDialog>
  );
}

function Replace({ of: s, onDone, onClose }: { of: Secret; onDone: () => void; onClose: () => void }) {
  const { api } = useSession();
  const [text, setText] = useState("");
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      await api.raw("PUT", `/secrets/${s.id}/value`, { body: { value: text } });
      onDone();
    });
  return (
    <FormDialog id="replace-secret" title={`Replace "${s.name}"`} submit="Replace the value" ready={!!text} action={action} onSubmit={submit} onClose={onClose}>
      <p>The next request to {s.origin} carries the new value.</p>
      {value(setText, text)}
    </FormDialog>
  );
}

function Delete({ of: s, onDone, onClose }: { of: Secret; onDone: () => void; onClose: () => void }) {
  const { api } = useSession();
  const action = useAction({ repeats: true });
  const confirm = () =>
    action.run(async () => {
      await api.remove("/secrets/" + s.id);
      onDone();
    });
  return (
    <Confirm title={`Delete "${s.name}"?`} action="Delete it" busy={action.busy} onConfirm={confirm} onClose={onClose}>
      <p>The value is wiped. This cannot be undone.</p>
      {action.problem && <Failure problem={action.problem} />}
    </Confirm>
  );
}
