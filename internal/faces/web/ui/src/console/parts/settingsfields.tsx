// Fields for lists in the managed settings: the keys of a provider, the routes of a family or a model.
import type { ConfigPrice } from "../../lib/contract";
import { rulesInWords } from "../../lib/format";
import { Button } from "./basic";
import { SelectField, TextField } from "./fields";
import { Menu } from "./menu";
import { mask, orderOf, type Route, type Value } from "./settings";

// A Key is a row of the keys of a provider.
export interface Key {
  id: string;
  secret: string; // a new key
  weight: string;
  stored: boolean; // without a new key the stored one stays
}

export const keysOf = (v?: Value): Key[] =>
  Array.isArray(v?.keys) ? (v.keys as Value[]).map((k) => ({ id: String(k.id ?? ""), secret: "", weight: k.weight ? String(k.weight) : "", stored: !!k.secret })) : [];

export const keyValues = (keys: Key[]): Value[] => keys.map((k) => ({ id: k.id.trim(), secret: k.secret || (k.stored ? mask : ""), ...(k.weight && { weight: Math.round(Number(k.weight)) }) }));

// KeysFields edits the keys of a provider; none is ever shown.
export function KeysFields({ keys, at, onChange }: { keys: Key[]; at: (member: string) => string | undefined; onChange: (keys: Key[]) => void }) {
  const change = (i: number, part: Partial<Key>) => onChange(keys.with(i, { ...keys[i]!, ...part }));
  return (
    <fieldset class="plainset stack">
      <legend>Keys</legend>
      <p class="small muted">They share the calls in proportion to their weights. A conversation stays with its key while that answers. Keys are stored encrypted and never shown again.</p>
      {keys.map((k, i) => (
        <div class="setting-row" key={i}>
          <TextField id={`key-${i}-id`} label="Name" code maxLength={64} problem={at(`keys[${i}].id`)} value={k.id} onChange={(id) => change(i, { id })} />
          <TextField id={`key-${i}-secret`} label="Key" type="password" autoComplete="off" code maxLength={4000} placeholder={k.stored ? "Stored. Type to replace it" : ""} problem={at(`keys[${i}].secret`) ?? at(`keys[${i}]`)} value={k.secret} onChange={(secret) => change(i, { secret })} />
          <TextField id={`key-${i}-weight`} label="Weight" type="number" min="1" max="1000" step="1" placeholder="1" problem={at(`keys[${i}].weight`)} value={k.weight} onChange={(weight) => change(i, { weight })} />
          {keys.length > 1 && <Button small kind="quiet" icon="trash" label={`Remove the key ${k.id || i + 1}`} onClick={() => onChange(keys.toSpliced(i, 1))} />}
        </div>
      ))}
      <div>
        <Button small icon="plus" onClick={() => onChange([...keys, { id: keyName(keys), secret: "", weight: "", stored: false }])}>
          Add a key
        </Button>
      </div>
    </fieldset>
  );
}

// keyName returns the suggested name of the next key.
export function keyName(keys: Key[]): string {
  let n = keys.length + 1;
  while (keys.some((k) => k.id === "key-" + n)) n++;
  return "key-" + n;
}

// routeValues returns routes as the draft contains them.
export const routeValues = (routes: Route[]): Route[] =>
  routes.map(({ traits, ...r }) => {
    const efforts = ((traits?.efforts as string[]) ?? []).map((w) => w.trim()).filter(Boolean);
    return traits ? { ...r, traits: { ...traits, ...(traits.efforts !== undefined && { efforts }) } } : r;
  });

// RoutesFields edits routes in order. An empty list is possible.
export function RoutesFields({ id, routes, providers, at, onChange }: { id: string; routes: Route[]; providers: string[]; at: (member: string) => string | undefined; onChange: (routes: Route[]) => void }) {
  const change = (i: number, part: Partial<Route>) => {
    const next: Route = { ...routes[i]!, ...part };
    if (!next.model) delete next.model;
    if (!next.weight) delete next.weight;
    if (!next.traits) delete next.traits;
    onChange(routes.with(i, next));
  };
  return (
    <fieldset class="plainset stack">
      <legend>Providers, in order</legend>
      <p class="small muted">A call goes to the first one that can take it. Neighbours with a weight share the calls in proportion, and a conversation stays at one of them.</p>
      {routes.map((r, i) => (
        <div class="stack" key={i}>
          <div class="setting-row">
            <SelectField id={`${id}-${i}-provider`} label="Provider" options={[...new Set([r.provider, ...providers])].map((p) => [p, p] as const)} problem={at(`[${i}].provider`)} value={r.provider} onChange={(provider) => change(i, { provider })} />
            <TextField id={`${id}-${i}-model`} label="Model there" placeholder="The usual name" code maxLength={512} problem={at(`[${i}].model`)} value={r.model ?? ""} onChange={(model) => change(i, { model })} />
            <TextField id={`${id}-${i}-weight`} label="Weight" type="number" min="1" max="1000" step="1" placeholder="none" problem={at(`[${i}].weight`)} value={r.weight ? String(r.weight) : ""} onChange={(weight) => change(i, { weight: Math.round(Number(weight)) })} />
            <Menu label={`Actions for route ${i + 1}`} items={orderOf(routes, i, onChange)} />
          </div>
          <Abilities id={`${id}-${i}`} of={r.traits} at={(member) => at(`[${i}].traits.${member}`)} onChange={(traits) => change(i, { traits })} />
        </div>
      ))}
      {providers.length === 0 && <p class="small muted">Add a provider first.</p>}
      {providers.length > 0 && (
        <div>
          <Button small icon="plus" onClick={() => onChange([...routes, { provider: providers.find((p) => !routes.some((r) => r.provider === p)) ?? providers[0]! }])}>
            Add a provider
          </Button>
        </div>
      )}
    </fieldset>
  );
}

// Rules are the rules of a price, with the texts of its fields.
export interface Rules {
  tokens: string;
  input: string;
  output: string;
  zone: string;
  hours: { days: string; from: string; to: string; factor: string }[];
}

const text = (n?: number) => (n ? String(n) : "");

export const rulesOf = (p: Partial<Pick<NonNullable<ConfigPrice>, "above" | "hours">>): Rules => ({
  tokens: text(p.above?.tokens),
  input: text(p.above?.input),
  output: text(p.above?.output),
  zone: p.hours?.[0]?.zone ?? "",
  hours: (p.hours ?? []).map((h) => ({ days: (h.days ?? []).join(", "), from: h.from, to: h.to, factor: text(h.factor) })),
});

// ruleValues returns the rules as settings have them; a price without them is flat.
export function ruleValues(r: Rules): Value {
  const of: Value = {};
  if (r.tokens || r.input || r.output) of.above = { tokens: Math.round(Number(r.tokens)), input: Number(r.input || 1), output: Number(r.output || 1) };
  if (r.hours.length > 0) {
    of.hours = r.hours.map((h) => {
      const days = h.days.toLowerCase().split(/[\s,]+/).filter(Boolean);
      return { zone: r.zone.trim(), ...(days.length > 0 && { days }), from: h.from.trim(), to: h.to.trim(), factor: Number(h.factor) };
    });
  }
  return of;
}

// PriceRules edits the rules by which a vendor asks more or less for a whole call.
export function PriceRules({ of: r, at, onChange }: { of: Rules; at: (member: string) => string | undefined; onChange: (r: Rules) => void }) {
  const factor = { type: "number", min: "0", max: "10", step: "any" } as const;
  const hour = (i: number, part: Partial<Rules["hours"][number]>) => onChange({ ...r, hours: r.hours.with(i, { ...r.hours[i]!, ...part }) });
  // The problems of members before those of their hours, which would contain them.
  const members = [".above.tokens", ".above.input", ".above.output", ".hours[0].zone", ...r.hours.flatMap((_, i) => [".from", ".to", ".days", ".factor", ""].map((m) => `.hours[${i}]${m}`))];
  const wrong = members.filter((m) => at(m));
  return (
    <details open={wrong.length > 0}>
      <summary>Long prompts and hours: {rulesInWords(ruleValues(r)) || "none"}</summary>
      <div class="stack">
        <div class="setting-row rates">
          <TextField id="model-above" label="Above, in tokens" type="number" min="1" step="1" placeholder="never" problem={at(".above.tokens")} value={r.tokens} onChange={(tokens) => onChange({ ...r, tokens })} />
          <TextField id="model-above-input" label="Input ×" {...factor} placeholder="1" problem={at(".above.input")} value={r.input} onChange={(input) => onChange({ ...r, input })} />
          <TextField id="model-above-output" label="Output ×" {...factor} placeholder="1" problem={at(".above.output")} value={r.output} onChange={(output) => onChange({ ...r, output })} />
        </div>
        <p class="small muted">A call whose input has more tokens costs this many times as much, all of it.</p>
        {r.hours.length > 0 && <TextField id="model-zone" label="Time zone of the hours" placeholder="Asia/Shanghai" maxLength={64} problem={at(".hours[0].zone")} value={r.zone} onChange={(zone) => onChange({ ...r, zone })} />}
        {r.hours.map((h, i) => (
          <div class="setting-row" key={i}>
            <TextField id={`model-hours-${i}-from`} label="From" placeholder="09:00" maxLength={5} problem={at(`.hours[${i}].from`) ?? at(`.hours[${i}]`)} value={h.from} onChange={(from) => hour(i, { from })} />
            <TextField id={`model-hours-${i}-to`} label="To" placeholder="12:00" maxLength={5} problem={at(`.hours[${i}].to`)} value={h.to} onChange={(to) => hour(i, { to })} />
            <TextField id={`model-hours-${i}-days`} label="Days" placeholder="every day" maxLength={40} problem={at(`.hours[${i}].days`)} value={h.days} onChange={(days) => hour(i, { days })} />
            <TextField id={`model-hours-${i}-factor`} label="All rates ×" {...factor} problem={at(`.hours[${i}].factor`)} value={h.factor} onChange={(f) => hour(i, { factor: f })} />
            <Menu label={`Actions for hours ${i + 1}`} items={orderOf(r.hours, i, (hours) => onChange({ ...r, hours }))} />
          </div>
        ))}
        <div>
          <Button small icon="plus" onClick={() => onChange({ ...r, hours: [...r.hours, { days: "", from: "", to: "", factor: "" }] })}>
            Add hours
          </Button>
        </div>
      </div>
    </details>
  );
}

const flags: [string, string][] = [
  ["vision", "Images"],
  ["pdf", "PDF files"],
  ["strictTools", "Strict tools"],
  ["verbosity", "Verbosity"],
];

// Abilities edits the traits of a route: as known, or chosen. Traits without a field stay as they are.
function Abilities({ id, of, at, onChange }: { id: string; of?: Value; at: (member: string) => string | undefined; onChange: (traits?: Value) => void }) {
  const set = (part: Value) => onChange({ ...of, ...part });
  const words = of ? [...(of.noTools ? [] : ["tools"]), ...flags.filter(([f]) => of[f]).map(([, w]) => w.toLowerCase())].join(", ") || "text only" : "as known";
  return (
    <details class="small">
      <summary>What it can do: {words}</summary>
      <div class="stack">
        <label class="check">
          <input type="checkbox" checked={!!of} onChange={(e) => onChange(e.currentTarget.checked ? {} : undefined)} /> Choose, instead of what is known of the model
        </label>
        {of && (
          <>
            <div class="checks">
              <label class="check">
                <input type="checkbox" checked={!of.noTools} onChange={(e) => set({ noTools: !e.currentTarget.checked })} /> Tools
              </label>
              {flags.map(([flag, title]) => (
                <label class="check" key={flag}>
                  <input type="checkbox" checked={!!of[flag]} onChange={(e) => set({ [flag]: e.currentTarget.checked })} /> {title}
                </label>
              ))}
            </div>
            <div class="pair">
              <SelectField
                id={id + "-schema"}
                label="Replies as JSON"
                options={[["", "Usual for the format"], ["native", "With a schema"], ["json", "Without a schema"], ["none", "Not possible"]]}
                problem={at("schema")}
                value={String(of.schema ?? "")}
                onChange={(schema) => set({ schema })}
              />
              <TextField id={id + "-efforts"} label="Reasoning efforts" placeholder="low, medium, high" problem={at("efforts")} value={((of.efforts as string[]) ?? []).join(",")} onChange={(text) => set({ efforts: text.split(",") })} />
            </div>
          </>
        )}
      </div>
    </details>
  );
}
