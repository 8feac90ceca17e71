// The account's keys: make, replace, revoke. A secret is shown once.
import { useState } from "preact/hooks";
import type { CreateKey } from "../../lib/contract";
import { count } from "../../lib/format";
import type { Key, KeyWithSecret } from "../../lib/types";
import { Badge, Button, Field, type Meaning, Notice, Time } from "../parts/basic";
import { Confirm } from "../parts/dialog";
import { FormDialog, useAction } from "../parts/form";
import { Empty, Failure } from "../parts/load";
import { MissingScope } from "../parts/missing";
import { Secret } from "../parts/secret";
import { Pages, useList } from "../parts/table";
import { toast } from "../parts/toast";
import { useSession } from "../session";

const states: Record<Key["status"], Meaning> = { active: "ok", expired: "waiting", revoked: "failed" };

export function Keys() {
  const { me, may } = useSession();
  const pages = useList<Key>(may("keys:write") ? "/keys" : undefined, 50);
  const [making, setMaking] = useState(false);
  const [shown, setShown] = useState<KeyWithSecret>();
  const [replacing, setReplacing] = useState<Key>();
  const [revoking, setRevoking] = useState<Key>();
  if (!may("keys:write")) {
    return (
      <>
        <header class="head">
          <h1>Keys</h1>
        </header>
        <MissingScope scope="keys:write" what="look after keys" />
      </>
    );
  }
  const done = (made?: KeyWithSecret) => {
    setMaking(false);
    setReplacing(undefined);
    setRevoking(undefined);
    if (made) setShown(made);
    pages.first.reload();
  };
  return (
    <>
      <header class="head">
        <h1>Keys</h1>
        <div class="push">
          <Button kind="main" icon="plus" onClick={() => setMaking(true)}>
            Make a key
          </Button>
        </div>
      </header>
      <section class="panel">
        <Pages
          of={pages}
          label="Keys"
          empty={<Empty title="No keys" />}
          columns={[
            {
              title: "Name",
              show: (k) => (
                <>
                  <div>
                    {k.name} {k.id === me.key.id && <Badge meaning="accent">this one</Badge>}
                  </div>
                  <code class="nowrap">{k.hint}</code>
                </>
              ),
            },
            {
              title: "State",
              show: (k) => (
                <>
                  <Badge meaning={states[k.status]}>{k.status}</Badge>
                  {k.status === "active" && k.revokedAt && (
                    <div class="small muted">
                      ends <Time at={k.revokedAt} />
                    </div>
                  )}
                </>
              ),
            },
            { title: "May", show: (k) => <span class="small">{k.scopes.join(", ")}</span> },
            { title: "Limits", show: (k) => <span class="small">{limits(k)}</span> },
            { title: "Last used", show: (k) => (k.lastUsedAt ? <Time at={k.lastUsedAt} /> : <span class="muted">never</span>) },
            {
              title: "",
              show: (k) =>
                k.status === "active" && (
                  <div class="row tight">
                    <Button small onClick={() => setReplacing(k)}>
                      Replace
                    </Button>
                    <Button small kind="danger" onClick={() => setRevoking(k)}>
                      Revoke
                    </Button>
                  </div>
                ),
            },
          ]}
        />
      </section>
      {making && <Make onDone={done} onClose={() => setMaking(false)} />}
      {replacing && <Replace of={replacing} onDone={done} onClose={() => setReplacing(undefined)} />}
      {revoking && <Revoke of={revoking} mine={revoking.id === me.key.id} onDone={done} onClose={() => setRevoking(undefined)} />}
      {shown && <Secret of={shown} onClose={() => setShown(undefined)} />}
    </>
  );
}

function limits(k: Key): string {
  const out = [];
  if (k.requestsPerMinute !== null) out.push(`${count(k.requestsPerMinute)} a minute`);
  if (k.maxCreditsMicroPerDay !== null) out.push(`${count(k.maxCreditsMicroPerDay / 1e6)} credits a day`);
  if (k.expiresAt !== null) out.push(`until ${k.expiresAt.slice(0, 10)}`);
  return out.join(", ") || "those of the plan";
}

type Scope = NonNullable<CreateKey["scopes"]>[number];

const offered: Scope[] = ["responses", "agents:read", "agents:write", "sessions:read", "sessions:write", "drive:read", "drive:write", "schedules:read", "schedules:write", "embeds:write", "keys:write", "usage:read"];

function Make({ onDone, onClose }: { onDone: (made: KeyWithSecret) => void; onClose: () => void }) {
  const { api, me, may } = useSession();
  const all = me.key.scopes.includes("*");
  const [name, setName] = useState("");
  const [every, setEvery] = useState(all);
  const [scopes, setScopes] = useState<Scope[]>(["responses"]);
  const [perMinute, setPerMinute] = useState("");
  const [perDay, setPerDay] = useState("");
  const action = useAction();
  const toggle = (scope: Scope) => {
    setScopes((s) => (s.includes(scope) ? s.filter((x) => x !== scope) : [...s, scope]));
  };
  const submit = () =>
    action.run(async (once) => {
      const body: CreateKey = { name: name.trim(), scopes: every ? ["*"] : scopes };
      if (perMinute) body.requestsPerMinute = Number(perMinute);
      if (perDay) body.maxCreditsMicroPerDay = Math.round(Number(perDay) * 1e6);
      onDone(await api.create<KeyWithSecret>("/keys", body, once));
    });
  return (
    <FormDialog id="make-key" title="Make a key" submit="Make the key" ready={!!name.trim() && (every || scopes.length > 0)} action={action} onSubmit={submit} onClose={onClose}>
      <Field id="key-name" label="Name" hint="Where it will be used, so that you know it later.">
        <input id="key-name" class="input" maxLength={200} value={name} onInput={(e) => setName(e.currentTarget.value)} aria-describedby="key-name-hint" autofocus />
      </Field>
      <fieldset class="plainset">
        <legend>It may do</legend>
        {all && (
          <label class="check">
            <input type="checkbox" checked={every} onChange={(e) => setEvery(e.currentTarget.checked)} /> everything this key may, but run the service
          </label>
        )}
        {!every && (
          <div class="checks">
            {offered
              .filter((scope) => may(scope))
              .map((scope) => (
                <label class="check">
                  <input type="checkbox" checked={scopes.includes(scope)} onChange={() => toggle(scope)} /> <code>{scope}</code>
                </label>
              ))}
          </div>
        )}
      </fieldset>
      <Field id="key-rate" label="Requests per minute" hint="Empty: the plan's limit.">
        <input id="key-rate" class="input" type="number" min={1} step={1} value={perMinute} onInput={(e) => setPerMinute(e.currentTarget.value)} aria-describedby="key-rate-hint" />
      </Field>
      <Field id="key-day" label="Credits per day" hint="Empty: no cap. Days are those of UTC.">
        <input id="key-day" class="input" type="number" min="0.000001" step="any" value={perDay} onInput={(e) => setPerDay(e.currentTarget.value)} aria-describedby="key-day-hint" />
      </Field>
    </FormDialog>
  );
}

const overlaps = [
  { seconds: 0, title: "stops at once" },
  { seconds: 3600, title: "lives for another hour" },
  { seconds: 86_400, title: "lives for another day" },
  { seconds: 604_800, title: "lives for another week" },
];

function Replace({ of, onDone, onClose }: { of: Key; onDone: (made: KeyWithSecret) => void; onClose: () => void }) {
  const { api } = useSession();
  const [overlap, setOverlap] = useState(3600);
  const action = useAction();
  const submit = () => action.run(async (once) => onDone(await api.create<KeyWithSecret>(`/keys/${of.id}/rotate`, { overlapSeconds: overlap }, once)));
  return (
    <FormDialog id="replace-key" title={`Replace "${of.name}"`} submit="Make the new key" action={action} onSubmit={submit} onClose={onClose}>
      <p>A new key is made with the same name, scopes and limits.</p>
      <Field id="overlap" label="The old key">
        <select id="overlap" class="input" value={overlap} onChange={(e) => setOverlap(Number(e.currentTarget.value))}>
          {overlaps.map((o) => (
            <option value={o.seconds}>{o.title}</option>
          ))}
        </select>
      </Field>
    </FormDialog>
  );
}

function Revoke({ of, mine, onDone, onClose }: { of: Key; mine: boolean; onDone: () => void; onClose: () => void }) {
  const { api } = useSession();
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      await api.remove("/keys/" + of.id);
      toast(`The key "${of.name}" is revoked`);
      onDone();
    });
  return (
    <Confirm title={`Revoke "${of.name}"?`} action="Revoke the key" busy={action.busy} onConfirm={submit} onClose={onClose}>
      <p>
        Programs that use <code>{of.hint}</code> are refused from now on. Replies that run are finished. This cannot be undone.
      </p>
      {mine && <Notice meaning="waiting">It is the key you are signed in with: you will be signed out.</Notice>}
      {action.problem && <Failure problem={action.problem} />}
    </Confirm>
  );
}
