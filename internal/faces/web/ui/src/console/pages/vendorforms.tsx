// The forms of the managed settings. Each changes the draft.
import { useState } from "preact/hooks";
import type { ConfigPrice } from "../../lib/contract";
import { Button } from "../parts/basic";
import { SelectField, TextField } from "../parts/fields";
import { ConfirmAction, FormDialog } from "../parts/form";
import type { Ends } from "../parts/resource";
import { Menu } from "../parts/menu";
import { useSession } from "../parts/session";
import { type All, type Document, edit, orderOf, Rest, type Route, type Setting, settingsOf, useDraftForm, type Value } from "../parts/settings";
import { type Key, keyName, KeysFields, keysOf, keyValues, PriceRules, RoutesFields, routeValues, rulesOf, ruleValues } from "../parts/settingsfields";

type Rates = NonNullable<ConfigPrice>;

// A Form is a dialog for a setting, or for a new one.
export interface Form extends Ends {
  all: All;
  of?: Setting;
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

const shippedFamilies = ["alpha", "beta", "gamma", "delta"];

// familiesOf returns the names of all families: those with providers, and those of models.
export const familiesOf = (all: All): string[] => [...new Set([...shippedFamilies, ...settingsOf(all, "family").map((f) => f.name), ...settingsOf(all, "model").map((m) => String(m.value.family ?? ""))])].filter(Boolean);

const namesOf = (all: All, kind: "provider" | "model") => settingsOf(all, kind).flatMap((s) => (s.change === "removed" ? [] : [s.name]));

// freeName returns a name that no provider has.
function freeName(all: All, name: string): string {
  const taken = namesOf(all, "provider");
  for (let n = 1; ; n++) {
    const one = n === 1 ? name : `${name}-${n}`;
    if (!taken.includes(one)) return one;
  }
}

// ProviderForm adds a provider with the family that it serves, or changes its address, keys and limit.
export function ProviderForm({ all, of: setting, ...ends }: Form) {
  const was = setting?.value;
  const [kind, setKind] = useState(was ? kindOf(was) : "anthropic");
  const [name, setName] = useState(setting?.name ?? freeName(all, "anthropic"));
  const [url, setURL] = useState(String(was?.baseURL ?? ""));
  const [key, setKey] = useState("");
  const [keys, setKeys] = useState<Key[]>(keysOf(was));
  const [most, setMost] = useState(was?.maxInFlight ? String(was.maxInFlight) : "");
  const fixed = settingsOf(all, "family").filter((f) => f.fixed);
  const open = shippedFamilies.filter((f) => !fixed.some((x) => x.name === f));
  const suited = (family: string) => (open.includes(family) ? family : "");
  const [serves, setServes] = useState(suited("alpha"));
  const [model, setModel] = useState("");
  const form = useDraftForm(setting, ends);
  const of = kinds[kind]!;
  const choose = (next: string) => {
    setKind(next);
    setServes(kinds[next]!.family ? suited(kinds[next]!.family) : "all");
    if (!setting && (name === "" || Object.keys(kinds).some((k) => name.startsWith(k)))) setName(freeName(all, next));
  };
  const several = () => {
    const first: Key = { id: "key-1", secret: key, weight: "", stored: !!was?.apiKey };
    setKeys([first, { id: keyName([first]), secret: "", weight: "", stored: false }]);
  };
  const submit = () =>
    form.save((doc) => {
      const list = (doc.providers ??= []);
      let at = list.findIndex((p) => p.name === (form.name ?? name.trim()));
      if (!form.name && at >= 0) throw new Error(`There is a provider named ${name.trim()} in the draft. Choose another name.`);
      if (at < 0) at = list.push({ name: name.trim(), wire: of.wire }) - 1;
      const p = list[at]!;
      if (!setting) {
        p.name = name.trim();
        p.wire = of.wire;
        if (of.dialect) p.dialect = of.dialect;
        else delete p.dialect;
      }
      if (url.trim()) p.baseURL = url.trim();
      else delete p.baseURL;
      if (most && Number(most) > 0) p.maxInFlight = Math.round(Number(most));
      else delete p.maxInFlight;
      if (keys.length > 0) {
        delete p.apiKey;
        p.keys = keyValues(keys);
      } else if (key) p.apiKey = key;
      if (!setting) {
        if (form.name) unroute(doc, form.name);
        if (serves === "all") p.discover = true;
        else delete p.discover;
        if (serves && serves !== "all") ((doc.families ??= {})[serves] ??= []).push({ provider: name.trim(), ...(model.trim() && { model: model.trim() }) });
      }
      return ["provider", name.trim()];
    });
  const own = kind === "server";
  const missing = !name.trim() ? "It needs a name." : own && !url.trim() ? "It needs the address of the server." : keys.some((k) => !k.id.trim() || !(k.secret || k.stored)) ? "Each key needs an id and its text." : undefined;
  return (
    <FormDialog id="provider" wide={keys.length > 0} title={setting ? `Edit ${setting.name}` : "Add a provider"} submit="Save to the draft" missing={missing} action={form.action} onSubmit={submit} onClose={form.onClose}>
      {!setting && <SelectField id="provider-kind" label="Vendor" options={Object.entries(kinds).map(([k, v]) => [k, v.words] as const)} value={kind} onChange={choose} />}
      {!setting && <TextField id="provider-name" label="Name" hint="Lower-case letters, digits, - and _. Shown in receipts and requests." maxLength={64} problem={form.at("name")} value={name} onChange={setName} />}
      <TextField id="provider-url" label="Base URL" hint={own ? "Such as http://127.0.0.1:11434/v1." : `Leave it empty for ${of.url}.`} code maxLength={2000} problem={form.at("baseURL")} value={url} onChange={setURL} />
      {keys.length > 0 ? (
        <KeysFields keys={keys} at={form.at} onChange={setKeys} />
      ) : (
        <>
          <TextField
            id="provider-key"
            label="Key"
            hint={setting ? "Leave it empty to keep the stored key. Another server needs the key again." : "It is stored encrypted, sent to this server only, and never shown again."}
            type="password"
            autoComplete="off"
            code
            maxLength={4000}
            problem={form.at("apiKey")}
            value={key}
            onChange={setKey}
          />
          <div>
            <Button small icon="plus" onClick={several}>
              Use several keys
            </Button>
          </div>
        </>
      )}
      {!setting && (
        <SelectField
          id="provider-serves"
          label="Serves"
          options={[...open.map((f) => [f, `The ${f} models`] as const), ...(own ? ([["all", "All models of the server, by their names there"]] as const) : []), ["", "No model yet"] as const]}
          hint={fixed.length > 0 ? `The configuration sets ${fixed.map((f) => `${f.name} (${f.item!.where})`).join(", ")}.` : "As the last provider of the family. Change order and weights under Routes."}
          value={serves}
          onChange={setServes}
        />
      )}
      {!setting && serves !== "all" && serves !== "" && serves !== of.family && <TextField id="provider-model" label="Model" hint="The name of the model at this server." maxLength={512} value={model} onChange={setModel} />}
      {setting && <TextField id="provider-most" label="Calls at the same time" hint="Further calls go to the next provider. Empty: 16,384." type="number" min="1" step="1" problem={form.at("maxInFlight")} value={most} onChange={setMost} />}
      <Rest of={form} />
    </FormDialog>
  );
}

// unroute removes the routes to a provider.
function unroute(doc: Document, provider: string) {
  const without = (routes: Route[]) => routes.filter((r) => r.provider !== provider);
  for (const [family, routes] of Object.entries(doc.families ?? {})) {
    doc.families![family] = without(routes);
    if (doc.families![family]!.length === 0) delete doc.families![family];
  }
  for (const m of Object.values(doc.models ?? {})) {
    if (!Array.isArray(m.routes)) continue;
    m.routes = without(m.routes as Route[]);
    if ((m.routes as Route[]).length === 0) delete m.routes;
  }
}

// remove takes a setting out of the draft, and the routes to a provider with it.
function remove(doc: Document, of: Pick<Setting, "kind" | "name">) {
  switch (of.kind) {
    case "provider":
      doc.providers = (doc.providers ?? []).filter((p) => p.name !== of.name);
      unroute(doc, of.name);
      return;
    case "alias":
      doc.aliases = (doc.aliases ?? []).filter((a) => a.match !== of.name);
      return;
    case "auto":
      delete doc.auto;
      return;
    case "family":
      delete doc.families?.[of.name];
      return;
    case "model":
      delete doc.models?.[of.name];
      return;
    case "plan":
      delete doc.plans?.[of.name];
  }
}

const effects: Record<Setting["kind"], string> = {
  provider: "Families and models that lead to it lose this provider. If it serves now, it does so until the draft is applied.",
  family: "Its models have no provider without these routes.",
  model: "A model of your own is no longer offered. A shipped model has its shipped price and limits again.",
  alias: "Requests with such a name are rejected, unless another rule matches.",
  auto: "auto chooses from the shipped list again.",
  plan: "A shipped plan has its shipped limits again. The draft cannot be applied while an account has a plan that does not exist.",
};

// Remove takes a setting out of the draft.
export function Remove({ of: setting, ...ends }: Ends & { of: Setting }) {
  const { api } = useSession();
  return (
    <ConfirmAction title={`Remove ${setting.name}?`} action="Remove it from the draft" work={() => edit(api, (doc) => remove(doc, setting))} said="It is removed from the draft. Apply the draft to stop its use" {...ends}>
      <p>{effects[setting.kind]}</p>
    </ConfirmAction>
  );
}

// Switch disables a provider, or enables it again.
export function Switch({ of: setting, ...ends }: Ends & { of: Setting }) {
  const { api } = useSession();
  const off = !!setting.value.disabled;
  const work = () =>
    edit(api, (doc) => {
      const p = doc.providers?.find((one) => one.name === setting.name);
      if (!p) throw new Error(`The draft has no provider named ${setting.name}.`);
      if (off) delete p.disabled;
      else p.disabled = true;
    });
  return (
    <ConfirmAction title={`${off ? "Enable" : "Disable"} ${setting.name}?`} action={off ? "Enable it in the draft" : "Disable it in the draft"} work={work} said={added(off)} {...ends}>
      <p>{off ? "Its routes get calls again when the draft is applied." : "Its settings, keys and routes stay. When the draft is applied, its models use their other providers; a model without another one is unavailable."}</p>
    </ConfirmAction>
  );
}

const added = (enabled: boolean) => `It is ${enabled ? "enabled" : "disabled"} in the draft. Apply the draft to use it`;

// FamilyForm sets the providers of a family.
export function FamilyForm({ all, of: setting, ...ends }: Form) {
  const [name, setName] = useState(setting?.name ?? "");
  const [routes, setRoutes] = useState<Route[]>((setting?.value.routes as Route[]) ?? []);
  const form = useDraftForm(setting, ends);
  const submit = () =>
    form.save((doc) => {
      if (form.name) delete doc.families?.[form.name];
      (doc.families ??= {})[name.trim()] = routeValues(routes);
      return ["family", name.trim()];
    });
  return (
    <FormDialog id="family" wide title={setting ? `Routes of the ${setting.name} models` : "Add a family"} submit="Save to the draft" missing={!name.trim() ? "It needs a name." : routes.length === 0 ? "It needs a provider." : undefined} action={form.action} onSubmit={submit} onClose={form.onClose}>
      {!setting && <TextField id="family-name" label="Name" hint="Any word. Models of your own belong to a family." maxLength={64} value={name} onChange={setName} />}
      <RoutesFields id="family" routes={routes} providers={namesOf(all, "provider")} at={form.at} onChange={setRoutes} />
      <Rest of={form} />
    </FormDialog>
  );
}

// AliasForm adds a name for a model, or changes it.
export function AliasForm({ all, of: setting, ...ends }: Form) {
  const [match, setMatch] = useState(setting?.name ?? "");
  const models = ["auto", ...namesOf(all, "model")];
  const [model, setModel] = useState(String(setting?.value.model ?? models[1] ?? "auto"));
  const form = useDraftForm(setting, ends);
  const submit = () =>
    form.save((doc) => {
      const list = (doc.aliases ??= []);
      const rule = { match: match.trim(), model };
      const at = list.findIndex((a) => a.match === (form.name ?? rule.match));
      if (!form.name && at >= 0) throw new Error(`There is an alias ${rule.match} in the draft.`);
      if (at < 0) list.push(rule);
      else list[at] = rule;
      return ["alias", rule.match];
    });
  return (
    <FormDialog id="alias" title={setting ? `Edit the alias ${setting.name}` : "Add an alias"} submit="Save to the draft" missing={!match.trim() ? "It needs a name to match." : undefined} action={form.action} onSubmit={submit} onClose={form.onClose}>
      <TextField id="alias-match" label="Name" hint="As clients send it, such as gpt-4o. A * stands for any characters." code maxLength={128} problem={form.at("match")} value={match} onChange={setMatch} autofocus />
      <SelectField id="alias-model" label="Model" options={[...new Set([model, ...models])].map((m) => [m, m] as const)} problem={form.at("model")} value={model} onChange={setModel} />
      <Rest of={form} />
    </FormDialog>
  );
}

// AutoForm sets the models that "auto" may choose.
export function AutoForm({ all, of: setting, ...ends }: Form) {
  const models = settingsOf(all, "model").filter((m) => !m.value.gated && m.change !== "removed").map((m) => m.name);
  const [list, setList] = useState<string[]>((setting?.value.models as string[]) ?? []);
  const form = useDraftForm(setting, ends);
  const left = models.filter((m) => !list.includes(m));
  const submit = () =>
    form.save((doc) => {
      if (list.length > 0) doc.auto = list;
      else delete doc.auto;
      return ["auto", "auto"];
    });
  return (
    <FormDialog id="auto" title="Models of auto" submit="Save to the draft" action={form.action} onSubmit={submit} onClose={form.onClose}>
      <p class="small muted">auto uses the first one that is available. An empty list is the shipped one.</p>
      {list.map((id, i) => (
        <div class="setting-row" key={i}>
          <SelectField id={`auto-${i}`} label={`${i + 1}.`} options={[id, ...left].map((m) => [m, m] as const)} problem={form.at(`[${i}]`)} value={id} onChange={(m) => setList(list.with(i, m))} />
          <Menu label={`Actions for ${id}`} items={orderOf(list, i, setList)} />
        </div>
      ))}
      {left.length > 0 && (
        <div>
          <Button small icon="plus" onClick={() => setList([...list, left[0]!])}>
            Add a model
          </Button>
        </div>
      )}
      <Rest of={form} />
    </FormDialog>
  );
}

const asCredits = (micro: unknown) => (typeof micro === "number" ? String(micro / 1e6) : "");
const asMicro = (text: string) => Math.round(Number(text) * 1e6);
const tokens = ["contextTokens", "maxOutput", "defaultOutput"] as const;
const rates = ["input", "cachedInput", "output", "cacheWrite", "cacheWriteLong"] as const;

// ModelForm adds a model, or changes the price, the limits and the routes of one. Values that are not
// changed stay those of the shipped list.
export function ModelForm({ all, of: setting, ...ends }: Form) {
  const was = setting?.value ?? {};
  const own = setting?.draft;
  const price = (was.price ?? {}) as Partial<Rates>;
  const set = (own?.price ?? {}) as Partial<Rates>; // the rates of cache writes in force may be computed ones
  const before: Record<string, string> = {
    input: asCredits(price.input), cachedInput: asCredits(price.cachedInput), output: asCredits(price.output), cacheWrite: asCredits(set.cacheWrite), cacheWriteLong: asCredits(set.cacheWriteLong),
    ...Object.fromEntries(tokens.map((t) => [t, was[t] ? String(was[t]) : ""])),
    gated: was.gated ? "yes" : "no", family: String(was.family ?? "local"), aliases: ((own?.aliases as string[]) ?? []).join(", "),
  };
  const [id, setID] = useState(setting?.name ?? "");
  const [now, setNow] = useState(before);
  const [routes, setRoutes] = useState<Route[]>((own?.routes as Route[]) ?? []);
  const rulesBefore = rulesOf(price);
  const [rules, setRules] = useState(rulesBefore);
  const form = useDraftForm(setting, ends);
  const differs = (...names: string[]) => names.some((n) => now[n] !== before[n]);
  const submit = () =>
    form.save((doc) => {
      if (form.name && form.name !== id.trim()) remove(doc, { kind: "model", name: form.name });
      const m = ((doc.models ??= {})[id.trim()] ??= {});
      const put = (name: string, v: unknown, is: boolean) => {
        if (is) m[name] = v;
        else delete m[name];
      };
      if (!setting || differs("family")) m.family = now.family!.trim();
      if (!setting || differs(...rates) || JSON.stringify(rules) !== JSON.stringify(rulesBefore)) {
        m.price = { ...Object.fromEntries(rates.filter((r) => now[r] !== "").map((r) => [r, asMicro(now[r]!)])), ...ruleValues(rules) };
      }
      for (const t of tokens) if (differs(t)) put(t, Math.round(Number(now[t])), now[t] !== "");
      if (differs("gated")) m.gated = now.gated === "yes";
      if (differs("aliases")) {
        const names = now.aliases!.split(",").map((a) => a.trim()).filter(Boolean);
        put("aliases", names, names.length > 0);
      }
      put("routes", routeValues(routes), routes.length > 0);
      if (Object.keys(m).length === 0) delete doc.models[id.trim()];
      return ["model", id.trim()];
    });
  const field = (name: string, label: string, more: { hint?: string; type?: "number"; step?: string; problem?: string; placeholder?: string } = {}) => (
    <TextField id={"model-" + name} label={label} min="0" {...more} value={now[name]!} onChange={(text) => setNow({ ...now, [name]: text })} />
  );
  const rate = (name: string, label: string, more: { hint?: string; problem?: string; placeholder?: string } = {}) => field(name, label, { type: "number", step: "any", problem: form.at("price." + name), ...more });
  const count = (name: string, label: string, hint?: string) => field(name, label, { type: "number", step: "1", problem: form.at(name), hint });
  const paid = ["input", "cachedInput", "output"].every((r) => (now[r] !== "" || r === "cachedInput") && Number(now[r]) >= 0);
  return (
    <FormDialog id="model" wide title={setting ? setting.name : "Add a model"} submit="Save to the draft" missing={!id.trim() ? "It needs an identifier." : !paid ? "It needs a price." : undefined} action={form.action} onSubmit={submit} onClose={form.onClose}>
      {!setting && <TextField id="model-id" label="Name" hint="As clients request it. Letters, digits and . _ : / -" code maxLength={128} value={id} onChange={setID} autofocus />}
      {!setting && (
        <SelectField
          id="model-family"
          label="Family"
          options={[...new Set(["local", ...familiesOf(all)])].map((f) => [f, f] as const)}
          hint="Models of a family share its routes."
          problem={form.at("family")}
          value={now.family!}
          onChange={(family) => setNow({ ...now, family })}
        />
      )}
      <div class="setting-row rates">
        {rate("input", "Input")}
        {rate("cachedInput", "Cached input", { placeholder: "as input" })}
        {rate("output", "Output")}
      </div>
      <p class="small muted">Credits per million tokens. 0 is free. Cached input was read from the vendor's cache.</p>
      <PriceRules of={rules} at={(m) => form.at("price" + m)} onChange={setRules} />
      <RoutesFields id="model" routes={routes} providers={namesOf(all, "provider")} at={(m) => form.at("routes" + m)} onChange={setRoutes} />
      {routes.length === 0 && <p class="small muted">Without entries here, it uses the providers of the family {now.family}.</p>}
      <details open={[...tokens, "price.cacheWrite", "price.cacheWriteLong", "gated", "aliases"].some((m) => form.at(m) !== undefined)}>
        <summary>Limits, names and cache prices</summary>
        <div class="stack">
          <div class="setting-row rates">
            {count("contextTokens", "Context, in tokens")}
            {count("maxOutput", "Longest reply")}
            {count("defaultOutput", "Usual reply limit")}
          </div>
          <div class="setting-row rates">
            {rate("cacheWrite", "Cache writes", { placeholder: "by the vendor" })}
            {rate("cacheWriteLong", "Long cache writes", { placeholder: "by the vendor" })}
            <SelectField id="model-gated" label="Plans" options={[["no", "All plans"], ["yes", "Plans with gated models"]]} problem={form.at("gated")} value={now.gated!} onChange={(gated) => setNow({ ...now, gated })} />
          </div>
          {field("aliases", "Further names", { hint: "Separated by commas.", problem: form.at("aliases") })}
        </div>
      </details>
      <Rest of={form} />
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

// PlanForm adds a plan, or changes its limits.
export function PlanForm({ of: setting, all: _, ...ends }: Form) {
  const was = setting?.value ?? {};
  const [id, setID] = useState(setting?.name ?? "");
  const [name, setName] = useState(String(was.name ?? ""));
  const [gated, setGated] = useState(was.gatedModels ? "yes" : "no");
  const [included, setIncluded] = useState(was.includedMicro ? asCredits(was.includedMicro) : "");
  const [limits, setLimits] = useState<Record<string, string>>(Object.fromEntries(planLimits.map(([l]) => [l, String(was[l] ?? 0)])));
  const form = useDraftForm(setting, ends);
  const submit = () =>
    form.save((doc) => {
      if (form.name && form.name !== id.trim()) remove(doc, { kind: "plan", name: form.name });
      const plan = ((doc.plans ??= {})[id.trim()] ??= {});
      Object.assign(plan, { name: name.trim() || id.trim(), gatedModels: gated === "yes" }, Object.fromEntries(planLimits.map(([l]) => [l, Math.round(Number(limits[l]))])));
      if (Number(included) > 0) Object.assign(plan, { includedMicro: asMicro(included), renewal: "month" });
      else if (was.includedMicro) plan.includedMicro = 0;
      return ["plan", id.trim()];
    });
  return (
    <FormDialog id="plan" title={setting ? `Edit the plan ${setting.name}` : "Add a plan"} submit="Save to the draft" missing={!id.trim() ? "It needs an identifier." : undefined} action={form.action} onSubmit={submit} onClose={form.onClose}>
      {!setting && <TextField id="plan-id" label="Id" hint="Lower-case letters, digits, - and _. It cannot be changed later." maxLength={64} value={id} onChange={setID} />}
      <TextField id="plan-name" label="Name" maxLength={200} problem={form.at("name")} value={name} onChange={setName} />
      <SelectField id="plan-gated" label="Gated models" options={[["no", "Not included"], ["yes", "Included"]]} value={gated} onChange={setGated} />
      <TextField id="plan-included" label="Credits of each month" hint="They are spent first; the rest ends with the month." type="number" min="0" step="any" placeholder="0" problem={form.at("includedMicro") ?? form.at("renewal")} value={included} onChange={setIncluded} />
      {planLimits.map(([l, words]) => (
        <TextField key={l} id={"plan-" + l} label={words} hint="0: no limit." type="number" min="0" step="1" problem={form.at(l)} value={limits[l]!} onChange={(text) => setLimits({ ...limits, [l]: text })} />
      ))}
      <Rest of={form} />
    </FormDialog>
  );
}
