// For operators: the managed settings, with the draft of changes and the versions that were applied.
import { useEffect } from "preact/hooks";
import type { ConfigPrice, ConfigVersion } from "../../lib/contract";
import { credits, of, rulesInWords } from "../../lib/format";
import { Badge, Button, Id, Notice, Time } from "../parts/basic";
import { States, useLoad } from "../parts/load";
import { Menu } from "../parts/menu";
import { useDialogs } from "../parts/resource";
import { useFilter } from "../parts/router";
import { useSession } from "../parts/session";
import { type All, type Kind, readSettings, type Route, type Setting, settingsOf } from "../parts/settings";
import { type Column, Table } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { Drop, Restore, Review } from "./vendordraft";
import { AliasForm, AutoForm, familiesOf, FamilyForm, ModelForm, PlanForm, ProviderForm, Remove, Switch } from "./vendorforms";

// Vendors shows the settings and the draft.
export function Vendors() {
  const { api } = useSession();
  const all = useLoad((signal) => readSettings(api, signal), [api]);
  return <States of={all}>{(data) => <Settings of={data} reload={all.reload} />}</States>;
}

const tabs: { id: Kind | "history"; title: string; create?: string }[] = [
  { id: "provider", title: "Providers", create: "Add provider" },
  { id: "family", title: "Routes", create: "Add family" },
  { id: "model", title: "Models and prices", create: "Add model" },
  { id: "alias", title: "Names", create: "Add alias" },
  { id: "plan", title: "Plans", create: "Add plan" },
  { id: "history", title: "History" },
];

const forms = { provider: ProviderForm, family: FamilyForm, model: ModelForm, alias: AliasForm, auto: AutoForm, plan: PlanForm };

function Settings({ of: all, reload }: { of: All; reload: () => void }) {
  const { may } = useSession();
  const [filter, change] = useFilter();
  const shown = tabs.find((t) => t.id === filter.settings) ?? tabs[0]!;
  const tab = shown.id;
  const writes = may("operator");
  const dialogs = useDialogs<"form" | "remove" | "switch" | "review" | "drop" | "restore", { kind: Kind; of?: Setting } | ConfigVersion | undefined>(
    {
      form: (ends, about) => {
        const { kind, of } = about as { kind: Kind; of?: Setting };
        const Form = forms[kind];
        return <Form all={all} of={of} {...ends} />;
      },
      remove: (ends, about) => <Remove of={(about as { of: Setting }).of} {...ends} />,
      switch: (ends, about) => <Switch of={(about as { of: Setting }).of} {...ends} />,
      review: (ends) => <Review of={all} {...ends} />,
      drop: (ends) => <Drop {...ends} />,
      restore: (ends, about) => <Restore of={about as ConfigVersion} {...ends} />,
    },
    reload,
  );
  const edit = (s: Setting) => dialogs.open("form", { kind: s.kind, of: s });
  const source: Column<Setting> = { title: "Source", keep: 3, show: (s) => <Source of={s} /> };
  const name: Column<Setting> = { title: "Name", show: (s) => <Name of={s} /> };
  const actions: Column<Setting> = {
    title: "",
    show: (s) => {
      if (!writes || (s.fixed && !s.draft)) return null;
      if (s.fixed) return <Menu label={"Actions for " + s.name} items={[{ title: "Remove the managed one", danger: true, onClick: () => dialogs.open("remove", { kind: s.kind, of: s }) }]} />;
      if (!s.draft)
        return (
          s.change !== "removed" && (
            <Button small onClick={() => edit(s)}>
              Edit
            </Button>
          )
        );
      return (
        <Menu
          label={"Actions for " + s.name}
          items={[
            { title: "Edit", onClick: () => edit(s) },
            ...(s.kind === "provider" ? [{ title: s.value.disabled ? "Enable" : "Disable", onClick: () => dialogs.open("switch", { kind: s.kind, of: s }) }] : []),
            { title: s.item?.source === "shipped" || shipped(s) ? "Reset" : "Remove", danger: true, onClick: () => dialogs.open("remove", { kind: s.kind, of: s }) },
          ]}
        />
      );
    },
  };
  const table = (label: string, rows: Setting[], columns: Column<Setting>[]) => <Table label={label} rows={rows} columns={[name, ...columns, source, actions]} />;
  const price = (title: string, rate: "input" | "cachedInput" | "output"): Column<Setting> => ({
    title,
    number: true,
    show: (s) => {
      const p = s.value.price as Partial<NonNullable<ConfigPrice>> | undefined;
      return p ? credits(p[rate] ?? p.input ?? 0) : <span class="muted">–</span>;
    },
  });
  // The palette opens the form for a provider by an address.
  useEffect(() => {
    if (!filter.new || !writes) return;
    change({ new: "" });
    dialogs.open("form", { kind: "provider" });
  }, [filter.new]);
  const rows = tab === "history" ? [] : tab === "family" ? families(all) : settingsOf(all, tab);
  const auto = settingsOf(all, "auto")[0];
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
          {writes && shown.create && (
            <div class="push">
              <Button kind="main" icon="plus" onClick={() => dialogs.open("form", { kind: tab as Kind })}>
                {shown.create}
              </Button>
            </div>
          )}
        </header>
        <Tabs label="Settings" active={tab} onChange={(id) => change({ settings: id })} tabs={tabs} />
        {tab === "provider" && rows.length === 0 && <p class="pad">No vendor is connected. The built-in sandbox answers.</p>}
        {tab === "provider" &&
          rows.length > 0 &&
          table("Settings of providers", rows, [
            { title: "Format", show: (s) => String(s.value.wire) },
            { title: "Server", show: (s) => <span class="breaks">{String(s.value.baseURL ?? "")}</span> },
            { title: "Keys", keep: 1, show: (s) => <Keys of={s} /> },
            { title: "State", keep: 2, show: (s) => (s.value.disabled ? <Badge>disabled</Badge> : <span class="muted">enabled</span>) },
          ])}
        {tab === "family" && table("Routes of families", rows, [{ title: "Providers", tall: true, keep: 4, show: (s) => <Routes of={s.value.routes as Route[]} /> }])}
        {tab === "model" &&
          table("Prices of models", rows, [
            price("Input", "input"),
            price("Cached input", "cachedInput"),
            price("Output", "output"),
            { title: "Rules", tall: true, keep: 1, show: (s) => rulesInWords((s.value.price ?? {}) as Partial<NonNullable<ConfigPrice>>) || <span class="muted">–</span> },
            { title: "Providers", show: (s) => (s.draft?.routes ? "of its own" : <span class="muted">{String(s.value.family ?? "")}</span>) },
          ])}
        {tab === "alias" && (
          <>
            <div class="pad row">
              <span class="breaks">
                <code>auto</code> chooses {auto ? (auto.value.models as string[]).join(", then ") : "from the shipped list"}. {auto && <Source of={auto} />}
              </span>
              {writes && !auto?.fixed && (
                <span class="push">
                  <Button small onClick={() => dialogs.open("form", { kind: "auto", of: auto })}>
                    Change
                  </Button>
                </span>
              )}
            </div>
            {rows.length === 0 ? (
              <p class="pad">An alias lets clients keep their names of models, such as gpt-4o.</p>
            ) : (
              table("Aliases", rows, [{ title: "Model", keep: 1, show: (s) => <span class="breaks">{String(s.value.model)}</span> }])
            )}
          </>
        )}
        {tab === "plan" &&
          table("Settings of plans", rows, [
            { title: "Gated models", named: true, show: (s) => (s.value.gatedModels ? "yes" : "no") },
            { title: "Requests a minute", number: true, show: (s) => limit(s.value.requestsPerMinute) },
            { title: "Concurrent sessions", number: true, show: (s) => limit(s.value.activeSessions) },
            { title: "Credits a month", number: true, show: (s) => (s.value.includedMicro ? credits(Number(s.value.includedMicro)) : <span class="muted">–</span>) },
          ])}
        {tab === "history" && all.versions.length === 0 && <p class="pad">Nothing was changed here yet.</p>}
        {tab === "history" && all.versions.length > 0 && <History of={all} restore={writes ? (v) => dialogs.open("restore", v) : undefined} />}
        <p class="pad small muted">
          {tab === "model" && "Credits per million tokens. Receipts keep the price at which a call began. "}
          What the configuration file or a variable sets is changed there: <a href="/docs/connect-a-vendor">Connect a vendor</a>.
        </p>
      </section>
      {dialogs.dialog}
    </>
  );
}

// Name is the name of a setting; a plan has one besides its id, by which the file and the API name it.
function Name({ of: s }: { of: Setting }) {
  const name = s.kind === "plan" && String(s.value.name || s.name);
  if (!name || name === s.name) return <span class="breaks">{s.name}</span>;
  return (
    <div>
      <span class="breaks">{name}</span> <div class="small muted mono">{s.name}</div>
    </div>
  );
}

// shipped reports whether the shipped list has a setting of that name.
const shipped = (s: Setting) => (s.kind === "plan" ? ["free", "pro"].includes(s.name) : s.kind === "model" && !!s.item && !s.draft?.family);

// families returns the families with routes, and those of models without any.
function families(all: All): Setting[] {
  const list = settingsOf(all, "family");
  const more = familiesOf(all).filter((name) => !list.some((f) => f.name === name));
  return [...list, ...more.map((name): Setting => ({ kind: "family", name, value: {}, fixed: false, problems: [] }))];
}

const limit = (n: unknown) => (n ? String(n) : <span class="muted">no limit</span>);

function Keys({ of: s }: { of: Setting }) {
  const v = s.value;
  if (Array.isArray(v.keys)) return <>{of(v.keys.length, "key")}</>;
  if (v.apiKey) return <>stored</>;
  if (v.apiKeyEnv || v.apiKeyFile) return <code class="breaks">{String(v.apiKeyEnv ?? v.apiKeyFile)}</code>;
  return <span class="muted">none</span>;
}

function Routes({ of: routes }: { of?: Route[] }) {
  if (!routes?.length) return <span class="muted">no provider</span>;
  return (
    <span class="breaks">
      {routes.map((r, i) => (
        <>
          {i > 0 && (r.weight && routes[i - 1]!.weight ? " and " : ", then ")}
          {r.provider}
          {r.model && <span class="muted"> as {r.model}</span>}
          {r.weight ? <b> {Math.round((100 * r.weight) / shared(routes, i))} %</b> : ""}
        </>
      ))}
    </span>
  );
}

// shared returns the sum of the weights of the neighbours that share calls with a route.
function shared(routes: Route[], i: number): number {
  let from = i;
  while (routes[from - 1]?.weight) from--;
  let sum = 0;
  for (let at = from; routes[at]?.weight; at++) sum += routes[at]!.weight!;
  return sum;
}

function Source({ of: s }: { of: Setting }) {
  if (s.item?.where)
    return (
      <span class="breaks small">
        set in {s.item.where.replace(/:\d+$/, "")}
        {s.draft && "; the managed one has no effect"}
      </span>
    );
  if (s.problems.length > 0) return <Badge meaning="failed">{of(s.problems.length, "problem")} in the draft</Badge>;
  if (s.change) return <Badge meaning="waiting">{s.change} in the draft</Badge>;
  return <span class="small muted">{s.draft || s.item?.source === "managed" ? "managed here" : s.item ? "shipped" : ""}</span>;
}

function History({ of: all, restore }: { of: All; restore?: (v: ConfigVersion) => void }) {
  return (
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
        { title: "By", show: (v) => (v.authorName ? <span class="breaks" title={v.author}>{v.authorName}</span> : <Id of={v.author} />) },
        {
          title: "",
          show: (v) =>
            v.version === all.config.latestVersion ? (
              <Badge meaning="ok">in force</Badge>
            ) : (
              restore && (
                <Button small onClick={() => restore(v)}>
                  Restore
                </Button>
              )
            ),
        },
      ]}
    />
  );
}
