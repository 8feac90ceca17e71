// For operators: the settings of providers, prices and plans, the draft of changes, and the
// versions that were applied.
import { useState } from "preact/hooks";
import type { Config, ConfigCheck, ConfigDraft, ConfigItem, ConfigPrice, ConfigVersion, ConfigVersionList, ProviderTest } from "../../lib/contract";
import type { Api } from "../../lib/api";
import { credits, duration, of } from "../../lib/format";
import { Badge, Button, Id, Notice, Time } from "../parts/basic";
import { Diff } from "../parts/diff";
import { Dialog } from "../parts/dialog";
import { SelectField, TextField } from "../parts/fields";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { Failure, States, useLoad } from "../parts/load";
import { type Ends, useDialogs } from "../parts/resource";
import { Menu } from "../parts/menu";
import { useSession } from "../parts/session";
import { Table } from "../parts/table";
import { Tabs } from "../parts/tabs";

const draftPath = "/config/draft";

type Value = Record<string, unknown>;
type Rates = NonNullable<ConfigPrice>;
type Route = { provider: string; model?: string };

// A Document is the managed settings in the form of the configuration file.
interface Document {
  providers?: Value[];
  families?: Record<string, Route[]>;
  models?: Record<string, Value>;
  plans?: Record<string, Value>;
}

interface All {
  config: Config;
  draft: ConfigDraft;
  check?: ConfigCheck; // of a draft that exists
  versions: ConfigVersion[];
}

async function read(api: Api, signal: AbortSignal): Promise<All> {
  const [config, draft, versions] = await Promise.all([
    api.get<Config>("/config", undefined, signal),
    api.get<ConfigDraft>(draftPath, undefined, signal),
    api.get<ConfigVersionList>("/config/versions", { limit: 20 }, signal),
  ]);
  const check: ConfigCheck | undefined = draft.exists ? await (await api.raw("POST", draftPath + "/check", { signal })).json() : undefined;
  return { config, draft, check, versions: versions.data };
}

// edit changes the draft, unless another operator changed it in the meantime.
async function edit(api: Api, change: (doc: Document) => void) {
  const { data, etag } = await api.read<ConfigDraft>(draftPath);
  const doc = structuredClone(data.settings) as Document;
  change(doc);
  for (const [name, value] of Object.entries(doc)) if (Object.keys(value as object).length === 0) delete doc[name as keyof Document];
  await api.raw("PUT", draftPath, { body: { settings: doc }, headers: { "If-Match": etag } });
}

// Vendors shows the settings and the draft.
export function Vendors() {
  const { api } = useSession();
  const all = useLoad((signal) => read(api, signal), [api]);
  return <States of={all}>{(data) => <Settings of={data} reload={all.reload} />}</States>;
}

const added = "It is in the draft. Apply the draft to use it";

function Settings({ of: all, reload }: { of: All; reload: () => void }) {
  const { may } = useSession();
  const [tab, setTab] = useState("provider");
  const writes = may("operator");
  const dialogs = useDialogs<string, ConfigItem | ConfigVersion | undefined>(
    {
      provider: (ends, about) => <ProviderForm of={about as ConfigItem | undefined} {...ends} />,
      remove: (ends, about) => <RemoveProvider of={about as ConfigItem} {...ends} />,
      model: (ends, about) => <PriceForm of={about as ConfigItem} {...ends} />,
      plan: (ends, about) => <PlanForm of={about as ConfigItem | undefined} {...ends} />,
      review: (ends) => <Review of={all} {...ends} />,
      drop: (ends) => <Drop {...ends} />,
      restore: (ends, about) => <Restore of={about as ConfigVersion} {...ends} />,
    },
    reload,
  );
  const rows = all.config.data.filter((i) => i.kind === tab);
  const source = { title: "Source", show: (i: ConfigItem) => <Source of={i} /> };
  const actions = {
    title: "",
    show: (i: ConfigItem) =>
      writes &&
      (i.source === "managed" || i.source === "shipped") &&
      (tab === "provider" ? (
        <Menu
          label={"Actions for " + i.name}
          items={[
            { title: "Edit", onClick: () => dialogs.open(tab, i) },
            { title: "Remove", danger: true, onClick: () => dialogs.open("remove", i) },
          ]}
        />
      ) : (
        <Button small onClick={() => dialogs.open(tab, i)}>
          Edit
        </Button>
      )),
  };
  const name = { title: "Name", show: (i: ConfigItem) => <span class="breaks">{i.name}</span> };
  const create = { provider: "Add provider", plan: "Add plan" }[tab];
  return (
    <>
      {all.config.problem && (
        <Notice meaning="failed">
          <p>
            <b>The node that answers uses version {all.config.version}.</b> {all.config.problem}
          </p>
        </Notice>
      )}
      {all.check && (
        <Notice meaning={all.check.problems.length > 0 ? "failed" : "waiting"}>
          <p>
            <b>The draft is not in force.</b> {of(all.check.changes.length, "change")}
            {all.check.problems.length > 0 && <>, {of(all.check.problems.length, "problem")}</>}
            {all.draft.updatedAt && (
              <>
                , saved <Time at={all.draft.updatedAt} />
              </>
            )}
            .
          </p>
          {writes && (
            <div class="row">
              <Button kind="main" small onClick={() => dialogs.open("review", undefined)}>
                Review and apply
              </Button>
              <Button small onClick={() => dialogs.open("drop", undefined)}>
                Discard
              </Button>
            </div>
          )}
        </Notice>
      )}
      <section class="panel" aria-labelledby="settings">
        <header>
          <h2 id="settings">Settings</h2>
          {writes && create && (
            <div class="push">
              <Button kind="main" icon="plus" onClick={() => dialogs.open(tab, undefined)}>
                {create}
              </Button>
            </div>
          )}
        </header>
        <Tabs
          label="Settings"
          active={tab}
          onChange={setTab}
          tabs={[
            { id: "provider", title: "Providers" },
            { id: "model", title: "Prices" },
            { id: "plan", title: "Plans" },
            { id: "history", title: "History" },
          ]}
        />
        {tab === "provider" && rows.length === 0 && <p class="pad">No vendor is connected. The built-in sandbox answers.</p>}
        {tab === "provider" && rows.length > 0 && (
          <Table
            label="Settings of providers"
            rows={rows}
            columns={[
              name,
              { title: "Format", show: (i) => String(i.value.wire) },
              { title: "Server", show: (i) => <span class="breaks">{String(i.value.baseURL ?? "")}</span> },
              { title: "Key", show: (i) => (Array.isArray(i.value.keys) ? of(i.value.keys.length, "key") : i.value.apiKey ? "stored" : i.value.apiKeyEnv || i.value.apiKeyFile ? <code class="breaks">{String(i.value.apiKeyEnv ?? i.value.apiKeyFile)}</code> : <span class="muted">none</span>) },
              source,
              actions,
            ]}
          />
        )}
        {tab === "model" && (
          <Table
            label="Prices of models"
            rows={rows}
            columns={[
              name,
              { title: "Input", number: true, show: (i) => credits((i.value.price as Rates).input) },
              { title: "Cached input", number: true, show: (i) => credits((i.value.price as Rates).cachedInput) },
              { title: "Output", number: true, show: (i) => credits((i.value.price as Rates).output) },
              source,
              actions,
            ]}
          />
        )}
        {tab === "plan" && (
          <Table
            label="Plans"
            rows={rows}
            columns={[
              name,
              { title: "Gated models", show: (i) => (i.value.gatedModels ? "yes" : "no") },
              { title: "Requests a minute", number: true, show: (i) => limit(i.value.requestsPerMinute) },
              { title: "Sessions at once", number: true, show: (i) => limit(i.value.activeSessions) },
              source,
              actions,
            ]}
          />
        )}
        {tab === "history" && all.versions.length === 0 && <p class="pad">Nothing was changed here yet.</p>}
        {tab === "history" && all.versions.length > 0 && (
          <Table
            label="Versions of the settings"
            rows={all.versions}
            columns={[
              { title: "Version", number: true, show: (v) => v.version },
              { title: "Applied", keep: 1, show: (v) => <Time at={v.createdAt} /> },
              {
                title: "Changes",
                grows: true,
                show: (v) => (
                  <div>
                    <span class="breaks">{v.changes.join(", ")}</span>
                    {v.note && <div class="small muted breaks">{v.note}</div>}
                  </div>
                ),
              },
              { title: "By", show: (v) => <Id of={v.author} /> },
              {
                title: "",
                show: (v) =>
                  v.version === all.config.latestVersion ? (
                    <Badge meaning="ok">in force</Badge>
                  ) : (
                    writes && (
                      <Button small onClick={() => dialogs.open("restore", v)}>
                        Restore
                      </Button>
                    )
                  ),
              },
            ]}
          />
        )}
        <p class="pad small muted">
          {tab === "model" && "Credits per million tokens. Receipts keep the price at which a call began. "}
          What the configuration file or a variable sets is changed there: <a href="/docs/connect-a-vendor">Connect a vendor</a>.
        </p>
      </section>
      {dialogs.dialog}
    </>
  );
}

const limit = (n: unknown) => (n ? String(n) : <span class="muted">no limit</span>);

function Source({ of: i }: { of: ConfigItem }) {
  if (i.where) return <span class="breaks small">set in {i.where.replace(/:\d+$/, "")}</span>;
  return <span class="small muted">{i.source === "managed" ? "managed here" : "shipped"}</span>;
}

// kinds are the vendors of the form: the format, the family that they serve, and the address.
const kinds: Record<string, { words: string; wire: string; dialect?: string; family: string; url: string }> = {
  anthropic: { words: "Anthropic", wire: "messages", family: "alpha", url: "https://api.anthropic.com" },
  gemini: { words: "Google Gemini", wire: "gemini", family: "beta", url: "https://generativelanguage.googleapis.com" },
  openai: { words: "OpenAI", wire: "responses", family: "gamma", url: "https://api.openai.com/v1" },
  deepseek: { words: "DeepSeek", wire: "chat", dialect: "deepseek", family: "delta", url: "https://api.deepseek.com" },
  server: { words: "Server with OpenAI's chat format", wire: "chat", family: "", url: "" },
};

const kindOf = (v: Value) => Object.keys(kinds).find((k) => kinds[k]!.wire === v.wire && (v.wire !== "chat" || kinds[k]!.dialect === v.dialect)) ?? "server";

// ProviderForm adds a provider to the draft, with the family that it serves, or changes its address and its key.
function ProviderForm({ of: item, onDone, onClose }: { of?: ConfigItem } & Ends) {
  const { api } = useSession();
  const [kind, setKind] = useState(item ? kindOf(item.value) : "anthropic");
  const [name, setName] = useState(item?.name ?? "anthropic");
  const [url, setURL] = useState(String(item?.value.baseURL ?? ""));
  const [key, setKey] = useState("");
  const [serves, setServes] = useState("alpha");
  const [model, setModel] = useState("");
  const action = useAction();
  const of = kinds[kind]!;
  const choose = (next: string) => {
    setKind(next);
    setServes(kinds[next]!.family || "all");
    if (!item && (name === "" || kinds[name])) setName(next);
  };
  const submit = () =>
    action.run(async () => {
      await edit(api, (doc) => {
        const list = (doc.providers ??= []);
        let at = list.findIndex((p) => p.name === name.trim());
        if (!item && at >= 0) throw new Error(`There is a provider named ${name.trim()} in the draft. Choose another name.`);
        if (at < 0) at = list.push({ name: name.trim(), wire: of.wire }) - 1;
        const p = list[at]!;
        if (!item && of.dialect) p.dialect = of.dialect;
        if (url.trim()) p.baseURL = url.trim();
        else delete p.baseURL;
        if (key) p.apiKey = key;
        if (item) return;
        if (serves === "all") p.discover = true;
        else if (serves) (((doc.families ??= {})[serves] ??= []) as Route[]).push({ provider: name.trim(), ...(model.trim() && { model: model.trim() }) });
      });
      onDone(added);
    });
  const own = kind === "server";
  return (
    <FormDialog id="provider" title={item ? `Edit ${item.name}` : "Add a provider"} submit="Save to the draft" ready={name.trim() !== "" && (!own || url.trim() !== "")} action={action} onSubmit={submit} onClose={onClose}>
      {!item && <SelectField id="provider-kind" label="Vendor" options={Object.entries(kinds).map(([k, v]) => [k, v.words] as const)} value={kind} onChange={choose} />}
      {!item && <TextField id="provider-name" label="Name" hint="Small letters, digits, - and _. Receipts and requests show it." maxLength={64} value={name} onChange={setName} />}
      <TextField id="provider-url" label="Base URL" hint={own ? "Such as http://127.0.0.1:11434/v1." : `Leave it empty for ${of.url}.`} code maxLength={2000} value={url} onChange={setURL} />
      {!item?.value.keys && <TextField id="provider-key" label="Key" hint={item ? "Leave it empty to keep the stored key. Another server needs the key again." : "It is stored encrypted, sent to this server only, and never shown again."} type="password" autoComplete="off" code maxLength={4000} value={key} onChange={setKey} />}
      {!item && (
        <SelectField
          id="provider-serves"
          label="Serves"
          options={[...["alpha", "beta", "gamma", "delta"].map((f) => [f, `The ${f} models`] as const), ...(own ? ([["all", "All models of the server, by their names there"]] as const) : []), ["", "No model yet"] as const]}
          value={serves}
          onChange={setServes}
        />
      )}
      {!item && serves !== "all" && serves !== "" && serves !== of.family && <TextField id="provider-model" label="Model" hint="The name of the model at this server." maxLength={512} value={model} onChange={setModel} />}
    </FormDialog>
  );
}

function RemoveProvider({ of: item, ...ends }: { of: ConfigItem } & Ends) {
  const { api } = useSession();
  const work = () =>
    edit(api, (doc) => {
      doc.providers = (doc.providers ?? []).filter((p) => p.name !== item.name);
      for (const [family, routes] of Object.entries(doc.families ?? {})) {
        const left = routes.filter((r) => r.provider !== item.name);
        if (left.length > 0) doc.families![family] = left;
        else delete doc.families![family];
      }
    });
  return (
    <ConfirmAction title={`Remove ${item.name}?`} action="Remove it from the draft" work={work} said="It is removed from the draft. Apply the draft to stop its use" {...ends}>
      <p>Families that lead to it lose this provider. It serves until the draft is applied.</p>
    </ConfirmAction>
  );
}

const asCredits = (micro: number) => String(micro / 1e6);
const asMicro = (text: string) => Math.round(Number(text) * 1e6);

function PriceForm({ of: item, onDone, onClose }: { of: ConfigItem } & Ends) {
  const { api } = useSession();
  const now = item.value.price as Rates;
  const [input, setInput] = useState(asCredits(now.input));
  const [cached, setCached] = useState(asCredits(now.cachedInput));
  const [output, setOutput] = useState(asCredits(now.output));
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      await edit(api, (doc) => {
        const m = ((doc.models ??= {})[item.name] ??= {});
        m.price = { input: asMicro(input), cachedInput: asMicro(cached), output: asMicro(output) };
      });
      onDone(added);
    });
  const rate = { type: "number" as const, min: "0", step: "any" };
  return (
    <FormDialog id="price" title={`Price of ${item.name}`} submit="Save to the draft" ready={[input, cached, output].every((t) => t !== "" && Number(t) >= 0)} action={action} onSubmit={submit} onClose={onClose}>
      <TextField id="price-input" label="Input, in credits per million tokens" {...rate} value={input} onChange={setInput} />
      <TextField id="price-cached" label="Cached input" hint="Input that the vendor read from its cache." {...rate} value={cached} onChange={setCached} />
      <TextField id="price-output" label="Output" {...rate} value={output} onChange={setOutput} />
    </FormDialog>
  );
}

const planLimits: [string, string][] = [
  ["requestsPerMinute", "Requests a minute of a key"],
  ["requestsPerMinutePerAccount", "Requests a minute of all keys"],
  ["concurrentPerKey", "Calls at the same time of a key"],
  ["concurrentPerAccount", "Calls at the same time of all keys"],
  ["activeSessions", "Sessions that run at the same time"],
];

function PlanForm({ of: item, onDone, onClose }: { of?: ConfigItem } & Ends) {
  const { api } = useSession();
  const [id, setID] = useState(item?.name ?? "");
  const [name, setName] = useState(String(item?.value.name ?? ""));
  const [gated, setGated] = useState(item?.value.gatedModels ? "yes" : "no");
  const [limits, setLimits] = useState<Record<string, string>>(Object.fromEntries(planLimits.map(([l]) => [l, String(item?.value[l] ?? 0)])));
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      await edit(api, (doc) => {
        (doc.plans ??= {})[id.trim()] = { name: name.trim() || id.trim(), gatedModels: gated === "yes", ...Object.fromEntries(planLimits.map(([l]) => [l, Math.round(Number(limits[l]))])) };
      });
      onDone(added);
    });
  return (
    <FormDialog id="plan" title={item ? `Edit the plan ${item.name}` : "Add a plan"} submit="Save to the draft" ready={id.trim() !== ""} action={action} onSubmit={submit} onClose={onClose}>
      {!item && <TextField id="plan-id" label="Id" hint="Small letters, digits, - and _. Accounts have it." maxLength={64} value={id} onChange={setID} />}
      <TextField id="plan-name" label="Name" maxLength={200} value={name} onChange={setName} />
      <SelectField id="plan-gated" label="Gated models" options={[["no", "Not included"], ["yes", "Included"]]} value={gated} onChange={setGated} />
      {planLimits.map(([l, words]) => (
        <TextField key={l} id={"plan-" + l} label={words} hint="0: no limit." type="number" min="0" step="1" value={limits[l]!} onChange={(text) => setLimits({ ...limits, [l]: text })} />
      ))}
    </FormDialog>
  );
}

const lines = (v: unknown) => (v === null ? "" : JSON.stringify(v, null, 2));
const rates = (p: ConfigPrice | null) => (p ? `${credits(p.input)} / ${credits(p.output)}` : "–");

// Review shows what the draft changes, tests its providers, and applies it.
function Review({ of: all, onDone, onClose }: { of: All } & Ends) {
  const { api } = useSession();
  const check = all.check!;
  const [note, setNote] = useState("");
  const action = useAction();
  const apply = () =>
    action.run(async (once) => {
      const { etag } = await api.read<ConfigDraft>(draftPath);
      const reply = await api.raw("POST", draftPath + "/apply", { body: note.trim() ? { note: note.trim() } : {}, headers: { "Idempotency-Key": once, "If-Match": etag } });
      onDone(`Version ${((await reply.json()) as ConfigVersion).version} is applied`);
    });
  return (
    <Dialog
      title="Changes of the draft"
      wide
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button kind="main" disabled={action.busy || !check.ok} onClick={apply}>
            Apply
          </Button>
        </>
      }
    >
      {check.problems.length > 0 && (
        <Notice meaning="failed">
          <p>
            <b>The draft cannot be applied.</b>
          </p>
          <ul>
            {check.problems.map((p) => (
              <li class="breaks">
                {p.path && <code>{p.path}</code>} {p.message} {p.where && <span class="muted">({p.where})</span>}
              </li>
            ))}
          </ul>
        </Notice>
      )}
      {check.warnings.map((w) => (
        <Notice meaning="waiting">
          <p>{w}</p>
        </Notice>
      ))}
      {check.changes.length === 0 && <p>The draft does not differ from the settings in force.</p>}
      {check.changes.map((c) => (
        <section key={c.path} class="stack" aria-label={c.path}>
          <h3 class="breaks">{c.path}</h3>
          <Diff was={lines(c.before)} now={lines(c.after)} data />
          {c.path.startsWith("providers.") && c.after && check.problems.length === 0 && <TestDraft name={c.path.slice("providers.".length)} />}
        </section>
      ))}
      {check.prices.length > 0 && (
        <Table
          label="Prices that change"
          rows={check.prices}
          columns={[
            { title: "Model", show: (p) => <span class="breaks">{p.model}</span> },
            { title: "Input / output now", number: true, show: (p) => rates(p.before) },
            { title: "With the draft", number: true, show: (p) => rates(p.after) },
          ]}
        />
      )}
      <TextField id="apply-note" label="Note" hint="For the history." maxLength={500} value={note} onChange={setNote} />
      {action.problem && <Failure problem={action.problem} />}
    </Dialog>
  );
}

function TestDraft({ name }: { name: string }) {
  const { api } = useSession();
  const [test, setTest] = useState<ProviderTest>();
  const action = useAction({ repeats: true });
  const run = () => action.run(async () => setTest(await (await api.raw("POST", draftPath + "/test", { body: { provider: name } })).json()));
  return (
    <div class="stack" role="status">
      <div class="row">
        <Button small disabled={action.busy} onClick={run}>
          {action.busy ? "Testing" : `Test ${name}`}
        </Button>
      </div>
      {test && <Tested of={test} />}
      {action.problem && <Failure problem={action.problem} />}
    </div>
  );
}

// Tested shows the result of a test call.
export function Tested({ of: t }: { of: ProviderTest }) {
  return (
    <Notice meaning={t.ok ? "ok" : "failed"}>
      <p>
        <b>{t.ok ? "Healthy." : "The test failed."}</b> {t.text}
      </p>
      {t.model !== null && (
        <p class="small muted breaks">
          {t.model}, {of(t.attempts, "request")}, {duration(t.durationMilliseconds)}
          {t.status !== null && `, HTTP ${t.status}`}
          {t.errorCode !== null && <>, <code>{t.errorCode}</code></>}
        </p>
      )}
    </Notice>
  );
}

function Drop(ends: Ends) {
  const { api } = useSession();
  return (
    <ConfirmAction title="Discard the draft?" action="Discard the draft" work={() => api.remove(draftPath)} said="The draft is discarded" {...ends}>
      <p>All operators share it. The settings in force stay as they are.</p>
    </ConfirmAction>
  );
}

function Restore({ of: v, ...ends }: { of: ConfigVersion } & Ends) {
  const { api } = useSession();
  const action = useAction();
  const restore = () =>
    action.run(async (once) => {
      const made = await api.create<ConfigVersion>(`/config/versions/${v.version}/restore`, {}, once);
      ends.onDone(`Version ${made.version} has the settings of version ${v.version}`);
    });
  return (
    <Dialog
      title={`Restore version ${v.version}?`}
      onClose={ends.onClose}
      footer={
        <>
          <Button onClick={ends.onClose}>Cancel</Button>
          <Button kind="main" disabled={action.busy} onClick={restore}>
            Restore
          </Button>
        </>
      }
    >
      <p>Its settings become the next version, and are in force within about a second. The draft is discarded.</p>
      {action.problem && <Failure problem={action.problem} />}
    </Dialog>
  );
}
