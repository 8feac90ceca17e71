// The account's keys: create, edit, rotate, revoke. A secret is shown once.
import { useState } from "preact/hooks";
import type { CreateKey, UpdateKey } from "../../lib/contract";
import { count, inputTime, local, utcDay } from "../../lib/format";
import type { Key, KeyWithSecret, UsageReport } from "../../lib/types";
import { Amount, Badge, Button, Field, type Meaning, Notice, Time } from "../parts/basic";
import { Confirm } from "../parts/dialog";
import { FormDialog, useAction } from "../parts/form";
import { Empty, Failure, useLoad } from "../parts/load";
import { MissingScope } from "../parts/missing";
import { KeySecret } from "../parts/secret";
import { type Column, Pages, useList } from "../parts/table";
import { toast } from "../parts/toast";
import { useSession } from "../session";

const states: Record<Key["status"], Meaning> = { active: "ok", expired: "waiting", revoked: "failed" };

export function Keys() {
  const { api, me, may, offers } = useSession();
  const pages = useList<Key>(may("keys:write") ? "/keys" : undefined, 50);
  const reads = may("usage:read") && offers("getUsage");
  const today = useLoad((signal) => (reads ? api.get<UsageReport>("/usage", { from: utcDay(0) + "T00:00:00Z", groupBy: "key" }, signal) : Promise.resolve(undefined)), [api, pages.first.data]);
  const [all, setAll] = useState(false);
  const [making, setMaking] = useState(false);
  const [shown, setShown] = useState<KeyWithSecret>();
  const [editing, setEditing] = useState<Key>();
  const [rotating, setRotating] = useState<Key>();
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
    setEditing(undefined);
    setRotating(undefined);
    setRevoking(undefined);
    if (made) setShown(made);
    pages.first.reload();
  };
  const revoked = pages.rows.filter((k) => k.status === "revoked").length;
  return (
    <>
      <header class="head">
        <h1>Keys</h1>
        <div class="push row">
          <label class="check">
            <input type="checkbox" checked={all} onChange={(e) => setAll(e.currentTarget.checked)} /> Show revoked{revoked > 0 && ` (${revoked})`}
          </label>
          <Button kind="main" icon="plus" onClick={() => setMaking(true)}>
            Create key
          </Button>
        </div>
      </header>
      <section class="panel">
        <Pages
          of={{ ...pages, rows: all ? pages.rows : pages.rows.filter((k) => k.status !== "revoked") }}
          label="Keys"
          empty={<Empty title={revoked > 0 ? "All keys are revoked" : "No keys"} />}
          columns={[
            ...keyColumns,
            ...(reads
              ? [
                  {
                    title: "Spent today",
                    number: true,
                    show: (k: Key) => (
                      <div>
                        <Amount of={today.data?.data.find((r) => r.keyId === k.id)?.creditsMicro ?? 0} as="column" />
                        {k.maxCreditsMicroPerDay !== null && <div class="small muted">of {count(k.maxCreditsMicroPerDay / 1e6)}</div>}
                      </div>
                    ),
                  },
                ]
              : []),
            {
              title: "",
              show: (k) =>
                k.status !== "revoked" && (
                  <div class="row tight">
                    <Button small onClick={() => setEditing(k)}>
                      Edit
                    </Button>
                    {k.status === "active" && (
                      <Button small onClick={() => setRotating(k)}>
                        Rotate
                      </Button>
                    )}
                    <Button small kind="danger" onClick={() => setRevoking(k)}>
                      Revoke
                    </Button>
                  </div>
                ),
            },
          ]}
        />
      </section>
      {making && <MakeKey onDone={done} onClose={() => setMaking(false)} />}
      {editing && <Edit of={editing} onDone={done} onClose={() => setEditing(undefined)} />}
      {rotating && <Rotate of={rotating} onDone={done} onClose={() => setRotating(undefined)} />}
      {revoking && <Revoke of={revoking} mine={revoking.id === me.key.id} onDone={done} onClose={() => setRevoking(undefined)} />}
      {shown && <KeySecret of={shown} onClose={() => setShown(undefined)} />}
    </>
  );
}

// keyColumns show what a key is and may do.
export const keyColumns: Column<Key>[] = [
  {
    title: "Name",
    show: (k) => (
      <div>
        <div class="breaks">
          {k.name} <Mine id={k.id} /> {k.status !== "active" && <Badge meaning={states[k.status]}>{k.status}</Badge>}
        </div>
        <code class="nowrap">{k.hint}</code>
        {k.status === "active" && k.revokedAt && (
          <div class="small muted">
            ends <Time at={k.revokedAt} />
          </div>
        )}
      </div>
    ),
  },
  { title: "Scopes", show: (k) => <span class="small">{k.scopes.map((scope) => scopeWords[scope as Scope] ?? scope).join(", ")}</span> },
  { title: "Limits", show: (k) => <span class="small">{limits(k)}</span> },
  { title: "Created", show: (k) => <time dateTime={k.createdAt} title={local(k.createdAt)} class="nowrap">{k.createdAt.slice(0, 10)}</time> },
  { title: "Last used", show: (k) => (k.lastUsedAt ? <Time at={k.lastUsedAt} /> : <span class="muted">never</span>) },
];

function Mine({ id }: { id: string }) {
  const { me } = useSession();
  return id === me.key.id ? <Badge meaning="accent">this one</Badge> : null;
}

function limits(k: Key): string {
  const out = [];
  if (k.requestsPerMinute !== null) out.push(`${count(k.requestsPerMinute)} a minute`);
  if (k.maxCreditsMicroPerDay !== null) out.push(`${count(k.maxCreditsMicroPerDay / 1e6)} credits a day`);
  if (k.expiresAt !== null) out.push(`until ${k.expiresAt.slice(0, 10)}`);
  return out.join(", ") || "Plan default";
}

type Scope = NonNullable<CreateKey["scopes"]>[number];

// scopeWords are the scopes in words; the order is that of the form.
const scopeWords: Partial<Record<Scope, string>> = {
  responses: "call models",
  "agents:read": "read agents",
  "agents:write": "create and change agents",
  "sessions:read": "read sessions",
  "sessions:write": "start and steer sessions",
  "drive:read": "read files",
  "drive:write": "change files",
  "schedules:read": "read schedules",
  "schedules:write": "change schedules",
  "embeds:write": "embed chats",
  "approvals:write": "approve calls of tools",
  "webhooks:read": "read webhooks and what was sent to them",
  "webhooks:write": "make and change webhooks",
  "connections:read": "read connections",
  "connections:write": "connect servers, review and try their tools",
  "secrets:write": "store secrets",
  "keys:write": "manage keys",
  "usage:read": "read usage, receipts and requests",
  operator: "run the service",
  "*": "everything but running the service",
};

const offered = Object.keys(scopeWords).filter((scope) => scope !== "operator" && scope !== "*") as Scope[];

const presets: { id: string; title: string; scopes: Scope[] }[] = [
  { id: "call", title: "Call models", scopes: ["responses"] },
  { id: "run", title: "Run agents", scopes: ["agents:read", "sessions:read", "sessions:write", "drive:read"] },
  { id: "usage", title: "Read usage", scopes: ["usage:read"] },
  { id: "all", title: "Everything but running the service", scopes: ["*"] },
  { id: "custom", title: "Choose scopes", scopes: [] },
];

// useLimits holds how far a key may go: its fields, and what they say.
function useLimits(k?: Key) {
  const [perMinute, setPerMinute] = useState(k?.requestsPerMinute?.toString() ?? "");
  const [perDay, setPerDay] = useState(k?.maxCreditsMicroPerDay ? String(k.maxCreditsMicroPerDay / 1e6) : "");
  const [expires, setExpires] = useState(k?.expiresAt ? inputTime(k.expiresAt) : "");
  return {
    values: {
      requestsPerMinute: perMinute ? Number(perMinute) : null,
      maxCreditsMicroPerDay: perDay ? Math.round(Number(perDay) * 1e6) : null,
      expiresAt: expires ? new Date(expires).toISOString() : null,
    },
    fields: (
      <>
        <Field id="key-expires" label="Expires" hint={`Leave empty for no expiry. Time zone: ${Intl.DateTimeFormat().resolvedOptions().timeZone}`}>
          <input id="key-expires" class="input" type="datetime-local" value={expires} onInput={(e) => setExpires(e.currentTarget.value)} aria-describedby="key-expires-hint" />
        </Field>
        <Field id="key-rate" label="Requests per minute" hint="Empty: the plan's limit.">
          <input id="key-rate" class="input" type="number" min={1} step={1} value={perMinute} onInput={(e) => setPerMinute(e.currentTarget.value)} aria-describedby="key-rate-hint" />
        </Field>
        <Field id="key-day" label="Credits per day" hint="Empty: no cap. Days are those of UTC.">
          <input id="key-day" class="input" type="number" min="0.000001" step="any" value={perDay} onInput={(e) => setPerDay(e.currentTarget.value)} aria-describedby="key-day-hint" />
        </Field>
      </>
    ),
  };
}

// MakeKey makes a key of the own account or, at another path, of another one.
export function MakeKey({ path = "/keys", onDone, onClose }: { path?: string; onDone: (made: KeyWithSecret) => void; onClose: () => void }) {
  const { api, me, may } = useSession();
  const others = path !== "/keys"; // an operator hands out whatever that account may do
  const possible = presets.filter((p) => others || p.id === "custom" || (p.scopes.includes("*") ? me.key.scopes.includes("*") : p.scopes.every((scope) => may(scope))));
  const [name, setName] = useState("");
  const [preset, setPreset] = useState(possible[0]!.id);
  const [custom, setCustom] = useState<Scope[]>([]);
  const limits = useLimits();
  const action = useAction();
  const scopes = preset === "custom" ? custom : presets.find((p) => p.id === preset)!.scopes;
  const toggle = (scope: Scope) => setCustom((s) => (s.includes(scope) ? s.filter((x) => x !== scope) : [...s, scope]));
  const submit = () => action.run(async (once) => onDone(await api.create<KeyWithSecret>(path, { name: name.trim(), scopes, ...limits.values } satisfies CreateKey, once)));
  return (
    <FormDialog id="make-key" title="Create key" submit="Create the key" ready={!!name.trim() && scopes.length > 0} action={action} onSubmit={submit} onClose={onClose}>
      <Field id="key-name" label="Name" hint="Where it will be used, so that you know it later.">
        <input id="key-name" class="input" maxLength={200} value={name} onInput={(e) => setName(e.currentTarget.value)} aria-describedby="key-name-hint" autofocus />
      </Field>
      <fieldset class="plainset">
        <legend>Scopes</legend>
        {possible.map((p) => (
          <label class="check">
            <input type="radio" name="preset" value={p.id} checked={preset === p.id} onChange={() => setPreset(p.id)} />
            <span>
              {p.title}
              {p.id !== "custom" && !p.scopes.includes("*") && <span class="small muted"> {p.scopes.join(", ")}</span>}
            </span>
          </label>
        ))}
        {preset === "custom" && (
          <div class="checks">
            {offered
              .filter((scope) => others || may(scope))
              .map((scope) => (
                <label class="check">
                  <input type="checkbox" checked={custom.includes(scope)} onChange={() => toggle(scope)} />
                  <span>
                    {scopeWords[scope]} <code>{scope}</code>
                  </span>
                </label>
              ))}
          </div>
        )}
      </fieldset>
      {limits.fields}
    </FormDialog>
  );
}

function Edit({ of, onDone, onClose }: { of: Key; onDone: () => void; onClose: () => void }) {
  const { api } = useSession();
  const [name, setName] = useState(of.name);
  const limits = useLimits(of);
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      const body: UpdateKey = { name: name.trim(), requestsPerMinute: limits.values.requestsPerMinute, maxCreditsMicroPerDay: limits.values.maxCreditsMicroPerDay };
      // A time that has passed is refused, so one that was left as it is stays out.
      if (limits.values.expiresAt !== (of.expiresAt && new Date(inputTime(of.expiresAt)).toISOString())) body.expiresAt = limits.values.expiresAt;
      await api.patch("/keys/" + of.id, body);
      toast(`The key "${name.trim()}" is changed`);
      onDone();
    });
  return (
    <FormDialog id="edit-key" title={`Edit "${of.name}"`} submit="Save" ready={!!name.trim()} action={action} onSubmit={submit} onClose={onClose}>
      <Field id="key-name" label="Name">
        <input id="key-name" class="input" maxLength={200} value={name} onInput={(e) => setName(e.currentTarget.value)} autofocus />
      </Field>
      {limits.fields}
    </FormDialog>
  );
}

const overlaps = [
  { seconds: 0, title: "stops at once" },
  { seconds: 3600, title: "lives for another hour" },
  { seconds: 86_400, title: "lives for another day" },
  { seconds: 604_800, title: "lives for another week" },
];

function Rotate({ of, onDone, onClose }: { of: Key; onDone: (made: KeyWithSecret) => void; onClose: () => void }) {
  const { api } = useSession();
  const [overlap, setOverlap] = useState(3600);
  const action = useAction();
  const submit = () => action.run(async (once) => onDone(await api.create<KeyWithSecret>(`/keys/${of.id}/rotate`, { overlapSeconds: overlap }, once)));
  return (
    <FormDialog id="rotate-key" title={`Rotate "${of.name}"`} submit="Create the new key" action={action} onSubmit={submit} onClose={onClose}>
      <p>A new key is created with the same name, scopes and limits.</p>
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

export function Revoke({ of, mine, onDone, onClose }: { of: Key; mine: boolean; onDone: () => void; onClose: () => void }) {
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
