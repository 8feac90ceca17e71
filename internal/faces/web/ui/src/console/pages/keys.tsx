// The account's keys: create, edit, rotate, revoke. A secret is shown once.
import { useState } from "preact/hooks";
import type { CreateKey, UpdateKey } from "../../lib/contract";
import { count, inputTime, local, utcDay } from "../../lib/format";
import type { Key, KeyWithSecret, UsageReport } from "../../lib/types";
import { Effects } from "../parts/effects";
import { Amount, Badge, type Meaning, Notice, Time } from "../parts/basic";
import { SelectField, TextField } from "../parts/fields";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { useLoad } from "../parts/load";
import { type Ends, useResource } from "../parts/resource";
import { KeySecret } from "../parts/secret";
import { useSession } from "../parts/session";
import { useSpent } from "../parts/spark";
import type { Column } from "../parts/table";

const states: Record<Key["status"], Meaning> = { active: "ok", expired: "warning", revoked: "failed" };

export function Keys() {
  const { api, may, offers } = useSession();
  const revoked = useRevoked();
  const reads = may("usage:read") && offers("getUsage");
  const made = (ends: Ends) => (key: KeyWithSecret) => ends.onNext(({ onClose }) => <KeySecret of={key} onClose={onClose} />);
  const spent = useSpent<Key>("key");
  const left = (k: Key) => k.status !== "revoked";
  const { pages, head, list, dialog } = useResource<Key>({
    path: "/keys",
    limit: 50,
    label: "Keys",
    query: revoked.query,
    search: { name: "q", label: "Name or id" },
    nothing: "No matching keys",
    heads: true,
    empty: revoked.empty,
    aside: revoked.choice,
    create: { title: "Create key", dialog: (ends) => <MakeKey onClose={ends.onClose} onDone={made(ends)} /> },
    columns: [
      ...keyColumns,
      ...spent,
      ...(reads
        ? [
            {
              title: "Spent today",
              keep: 2,
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
    ],
    actions: [
      { title: "Changes", kind: "quiet", when: () => may("account:read") && offers("listAudit"), run: (k) => location.assign("#/audit?actor=" + k.id) },
      { title: "Edit", when: left, dialog: (ends, k) => <Edit of={k} {...ends} /> },
      { title: "Rotate", when: (k) => k.status === "active", dialog: (ends, k) => <Rotate of={k} onClose={ends.onClose} onDone={made(ends)} /> },
      { title: "Revoke", kind: "danger", when: left, dialog: (ends, k) => <Revoke of={k} {...ends} /> },
    ],
  });
  const today = useLoad((signal) => (reads ? api.get<UsageReport>("/usage", { from: utcDay(0) + "T00:00:00Z", groupBy: "key" }, signal) : Promise.resolve(undefined)), [api, pages.first.data]);
  return (
    <>
      <header class="head">
        <h1>Keys</h1>
        {head}
      </header>
      <section class="panel">{list}</section>
      {dialog}
    </>
  );
}

// useRevoked leaves revoked keys out of a list until they are chosen.
export function useRevoked() {
  const [all, setAll] = useState(false);
  return {
    query: { unrevoked: all ? undefined : "true" },
    empty: { title: all ? "No keys" : "No keys in use" },
    choice: (
      <label class="check">
        <input type="checkbox" checked={all} onChange={(e) => setAll(e.currentTarget.checked)} /> Show revoked
      </label>
    ),
  };
}

// keyColumns show the properties and permissions of a key.
export const keyColumns: Column<Key>[] = [
  {
    title: "Name",
    show: (k) => (
      <div>
        <div class="breaks">
          {k.name} <Mine id={k.id} /> {k.status !== "active" && <Badge meaning={states[k.status]}>{k.status}</Badge>}
          {k.status === "active" && k.pausesAt && k.pausesAt <= new Date().toISOString() && <Badge meaning="waiting">paused until its member signs in</Badge>}
        </div>
        {k.status === "active" && k.revokedAt && (
          <div class="small muted">
            ends <Time at={k.revokedAt} />
          </div>
        )}
      </div>
    ),
  },
  { title: "Key", keep: 2, show: (k) => <code class="nowrap">{k.hint}</code> },
  { title: "Scopes", show: (k) => <span class="small">{scopesInWords(k.scopes)}</span> },
  { title: "Limits", show: (k) => <span class="small">{limits(k)}</span> },
  { title: "Created", sort: "created", named: true, show: (k) => <time dateTime={k.createdAt} title={local(k.createdAt)} class="nowrap">{k.createdAt.slice(0, 10)}</time> },
  { title: "Last used", sort: "used", keep: 1, named: true, show: (k) => (k.lastUsedAt ? <Time at={k.lastUsedAt} /> : <span class="muted">never</span>) },
];

function Mine({ id }: { id: string }) {
  const { me } = useSession();
  return id === me.key.id ? <Badge meaning="accent">this one</Badge> : null;
}

function limits(k: Key): string {
  const out = [];
  if (k.requestsPerMinute !== null) out.push(`${count(k.requestsPerMinute)} a minute`);
  if (k.maxCreditsMicroPerDay !== null) out.push(`${count(k.maxCreditsMicroPerDay / 1e6)} credits a day`);
  if (k.models !== null) out.push(k.models.join(", "));
  if (k.networks !== null) out.push(`from ${k.networks.join(", ")}`);
  if (k.requireEndUser) out.push("end user required");
  if (k.expiresAt !== null) out.push(`until ${k.expiresAt.slice(0, 10)}`);
  return out.join(", ") || "Plan default";
}

type Scope = NonNullable<CreateKey["scopes"]>[number];

// scopeWords contains the descriptions of scopes, in the order of the form.
const scopeWords: Partial<Record<Scope, string>> = {
  responses: "call models",
  "agents:read": "read agents",
  "agents:write": "create and change agents",
  "sessions:read": "read sessions",
  "sessions:write": "start and steer sessions",
  "drive:read": "read files",
  "drive:write": "change files",
  "schedules:read": "read schedules and hooks",
  "schedules:write": "change schedules and hooks",
  "embeds:write": "embed chats",
  "approvals:write": "approve calls of tools",
  "webhooks:read": "read webhooks and their deliveries",
  "webhooks:write": "create and change webhooks",
  "connections:read": "read connections",
  "connections:write": "connect servers, review and try their tools",
  "secrets:write": "store secrets",
  "keys:write": "manage keys",
  "usage:read": "read usage, receipts and requests",
  "account:read": "read members, budgets and the audit log",
  "account:write": "manage members and budgets",
  "operator:read": "read the service and all accounts",
  "operator:billing": "grant credits, change plans, invite to all accounts",
  operator: "run the service",
  "*": "everything except running the service",
};

// scopesInWords describes the scopes of a key.
function scopesInWords(scopes: string[]): string {
  if (scopes.includes("*") && scopes.includes("operator")) return "everything, including running the service";
  return scopes.map((scope) => scopeWords[scope as Scope] ?? scope).join(", ");
}

const offered = Object.keys(scopeWords).filter((scope) => scope !== "operator" && scope !== "*") as Scope[];

const presets: { id: string; title: string; scopes: Scope[] }[] = [
  { id: "call", title: "Call models", scopes: ["responses"] },
  { id: "run", title: "Run agents", scopes: ["agents:read", "sessions:read", "sessions:write", "drive:read"] },
  { id: "usage", title: "Read usage", scopes: ["usage:read"] },
  { id: "all", title: "Everything except running the service", scopes: ["*"] },
  { id: "custom", title: "Choose scopes", scopes: [] },
];

// useLimits holds the limits of a key: the fields and their values.
function useLimits(k?: Key) {
  const [perMinute, setPerMinute] = useState(k?.requestsPerMinute?.toString() ?? "");
  const [perDay, setPerDay] = useState(k?.maxCreditsMicroPerDay ? String(k.maxCreditsMicroPerDay / 1e6) : "");
  const [expires, setExpires] = useState(k?.expiresAt ? inputTime(k.expiresAt) : "");
  const [models, setModels] = useState(k?.models?.join(", ") ?? "");
  const [networks, setNetworks] = useState(k?.networks?.join(", ") ?? "");
  const [endUser, setEndUser] = useState(k?.requireEndUser ?? false);
  const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);
  return {
    values: {
      models: words(models),
      networks: words(networks),
      requireEndUser: endUser,
      requestsPerMinute: perMinute ? Number(perMinute) : null,
      maxCreditsMicroPerDay: perDay ? Math.round(Number(perDay) * 1e6) : null,
      expiresAt: expires ? new Date(expires).toISOString() : null,
    },
    fields: (
      <>
        <TextField id="key-expires" label="Expires" hint={`Leave empty for no expiry. Time zone: ${Intl.DateTimeFormat().resolvedOptions().timeZone}`} type="datetime-local" value={expires} onChange={setExpires} />
        <TextField id="key-rate" label="Requests per minute" placeholder="limit of the plan" type="number" min={1} step={1} value={perMinute} onChange={setPerMinute} />
        <TextField id="key-day" label="Credits per day" hint="Days are those of UTC." placeholder="no cap" type="number" min="0.000001" step="any" value={perDay} onChange={setPerDay} />
        <TextField id="key-models" label="Models" hint="Ids or patterns such as alpha-*, separated by commas." placeholder="all" code value={models} onChange={setModels} />
        <TextField id="key-networks" label="Networks" hint="Address ranges such as 203.0.113.0/24, separated by commas." placeholder="all" code value={networks} onChange={setNetworks} />
        <label class="check">
          <input type="checkbox" checked={endUser} onChange={(e) => setEndUser(e.currentTarget.checked)} /> Refuse calls that name no end user
        </label>
      </>
    ),
  };
}

// MakeKey creates a key of the own account or, at another path, of another one.
export function MakeKey({ path = "/keys", onDone, onClose }: { path?: string; onDone: (made: KeyWithSecret) => void; onClose: () => void }) {
  const { api, me, may } = useSession();
  const others = path !== "/keys"; // an operator can grant every permission of that account
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
      <TextField id="key-name" label="Name" hint="Where it will be used, so that you know it later." maxLength={200} value={name} onChange={setName} autofocus />
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
              .filter((scope) => (others && !scope.startsWith("operator")) || may(scope))
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

function Edit({ of, onDone, onClose }: { of: Key } & Ends) {
  const { api } = useSession();
  const [name, setName] = useState(of.name);
  const limits = useLimits(of);
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      const { expiresAt: _, ...kept } = limits.values;
      const body: UpdateKey = { name: name.trim(), ...kept };
      // A past time is rejected, so an unchanged one is not sent.
      if (limits.values.expiresAt !== (of.expiresAt && new Date(inputTime(of.expiresAt)).toISOString())) body.expiresAt = limits.values.expiresAt;
      await api.patch("/keys/" + of.id, body);
      onDone(`The key "${name.trim()}" is changed`);
    });
  return (
    <FormDialog id="edit-key" title={`Edit "${of.name}"`} submit="Save" ready={!!name.trim()} action={action} onSubmit={submit} onClose={onClose}>
      <TextField id="key-name" label="Name" maxLength={200} value={name} onChange={setName} autofocus />
      {limits.fields}
    </FormDialog>
  );
}

const overlaps: [number, string][] = [
  [0, "stops immediately"],
  [3600, "lives for another hour"],
  [86_400, "lives for another day"],
  [604_800, "lives for another week"],
];

function Rotate({ of, onDone, onClose }: { of: Key; onDone: (made: KeyWithSecret) => void; onClose: () => void }) {
  const { api } = useSession();
  const [overlap, setOverlap] = useState(3600);
  const action = useAction();
  const submit = () => action.run(async (once) => onDone(await api.create<KeyWithSecret>(`/keys/${of.id}/rotate`, { overlapSeconds: overlap }, once)));
  return (
    <FormDialog id="rotate-key" title={`Rotate "${of.name}"`} submit="Create the new key" action={action} onSubmit={submit} onClose={onClose}>
      <p>A new key is created with the same name, scopes and limits. What the old key created continues.</p>
      <SelectField id="overlap" label="The old key" options={overlaps} value={overlap} onChange={setOverlap} />
    </FormDialog>
  );
}

export function Revoke({ of, ...ends }: { of: Key } & Ends) {
  const { api, me, may, offers } = useSession();
  const [pause, setPause] = useState(false);
  return (
    <ConfirmAction title={`Revoke "${of.name}"?`} action="Revoke the key" work={() => api.remove(`/keys/${of.id}?pauseChanged=${pause}`)} said={`The key "${of.name}" is revoked`} {...ends}>
      <p>
        Programs that use <code>{of.hint}</code> are refused from now on. Replies that run are finished. This cannot be undone.
      </p>
      <p>The embeds, script tags, hooks, webhooks and tasks that it created end with it.</p>
      <Effects of="key" id={of.id} />
      <label class="check">
        <input type="checkbox" checked={pause} onChange={(e) => setPause(e.currentTarget.checked)} /> Also pause the tasks, webhooks, script tags and connections that it changed
      </label>
      {may("account:read") && offers("listAudit") && (
        <p>
          <a href={"#/audit?actor=" + of.id}>See every change of this key</a>
        </p>
      )}
      {of.id === me.key.id && <Notice meaning="waiting">It is the key you are signed in with: you will be signed out.</Notice>}
    </ConfirmAction>
  );
}
