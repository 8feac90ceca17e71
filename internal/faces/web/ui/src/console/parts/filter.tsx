// Filters of a page, kept in its address.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Filter } from "./router";
import { Button } from "./basic";

export interface Choice {
  id: string; // "" means no filter
  title: string;
}

interface Shared {
  name: string; // of the member of the filter
  label: string;
  filter: Filter;
  change: (by: Filter) => void;
}

// Filters is the bar above a list; its button removes all filters. It shows the first six, or
// two of more than three on a phone, and those that are set; the others on request.
export function Filters({ names, filter, change, children }: { names: string[]; filter: Filter; change: (by: Filter) => void; children: ComponentChildren }) {
  const set = names.filter((name) => filter[name]).length;
  const [all, setAll] = useState(false);
  return (
    <search class={"filters" + (all ? " all" : "")}>
      {children}
      <span class="rest">
        <Button expanded={all} onClick={() => setAll(!all)}>{all ? "Fewer filters" : "All filters"}</Button>
      </span>
      {set > 0 && (
        <Button kind="quiet" onClick={() => change(Object.fromEntries(names.map((name) => [name, ""])))}>
          Clear filters
        </Button>
      )}
    </search>
  );
}

// filterClass returns the class of a filter with a value, which is "" if it is not set.
export const filterClass = (value: string | undefined) => (value ? "filter set" : "filter");

export function Pick({ name, label, filter, change, choices }: Shared & { choices: Choice[] }) {
  const value = filter[name] ?? "";
  return (
    <label class={filterClass(value)}>
      <span class="small muted">{label}</span>
      <select class="input" id={"filter-" + name} value={value} onChange={(e) => change({ [name]: e.currentTarget.value })}>
        {!choices.some((c) => c.id === value) && <option value={value}>{value}</option>}
        {choices.map((c) => (
          <option value={c.id}>{c.title}</option>
        ))}
      </select>
    </label>
  );
}

const pause = 300; // milliseconds after the last letter until a search begins

// Text is a text filter. It applies when Enter is pressed or the field loses focus, with soon
// also while the user types. bare shows the label in the empty field instead of above it.
export function Text({ name, label, filter, change, offers, kind = "text", soon, bare }: Shared & { offers?: string[]; kind?: "text" | "search"; soon?: boolean; bare?: boolean }) {
  const value = filter[name] ?? "";
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const done = (text: string) => text.trim() !== value && change({ [name]: text.trim() });
  useEffect(() => {
    if (!soon || typed.trim() === value) return;
    const timer = setTimeout(() => done(typed), pause);
    return () => clearTimeout(timer);
  }, [typed]);
  return (
    <label class={filterClass(value)}>
      <span class={bare ? "unseen" : "small muted"}>{label}</span>
      <input
        class="input"
        id={"filter-" + name}
        type={kind}
        placeholder={bare ? label : undefined}
        maxLength={128}
        autocomplete="off"
        spellcheck={false}
        value={typed}
        list={offers && "offers-" + name}
        onInput={(e) => setTyped(e.currentTarget.value)}
        onBlur={(e) => done(e.currentTarget.value)}
        onChange={(e) => done(e.currentTarget.value)}
        onKeyDown={(e) => e.key === "Enter" && done(e.currentTarget.value)}
      />
      {offers && (
        <datalist id={"offers-" + name}>
          {offers.map((o) => (
            <option value={o} />
          ))}
        </datalist>
      )}
    </label>
  );
}

const hour = 3_600_000;

const ranges: (Choice & { milliseconds?: number })[] = [
  { id: "1h", title: "Last hour", milliseconds: hour },
  { id: "24h", title: "Last 24 hours", milliseconds: 24 * hour },
  { id: "7d", title: "Last 7 days", milliseconds: 7 * 24 * hour },
  { id: "30d", title: "Last 30 days", milliseconds: 30 * 24 * hour },
  { id: "custom", title: "From … to …" },
];

// Range is a filter by time: the members range, from and to, the latter two in local
// time.
export function Range({ filter, change, any }: { filter: Filter; change: (by: Filter) => void; any?: string }) {
  return (
    <>
      <Pick name="range" label="Time" filter={filter} change={change} choices={any === undefined ? ranges : [{ id: "", title: any }, ...ranges]} />
      {filter.range === "custom" &&
        (["from", "to"] as const).map((name) => (
          <label class="filter set">
            <span class="small muted">{name === "from" ? "From" : "To"}</span>
            <input class="input" id={"filter-" + name} type="datetime-local" value={filter[name] ?? ""} onChange={(e) => change({ [name]: e.currentTarget.value })} />
          </label>
        ))}
    </>
  );
}

// spanOf returns the time range of a filter. Open ends are absent.
export function spanOf(filter: Filter, now = Date.now()): { from?: string; to?: string } {
  const instant = (local?: string) => {
    const at = local ? new Date(local) : undefined;
    return at && !Number.isNaN(at.getTime()) ? at.toISOString() : undefined;
  };
  if (filter.range === "custom") return { from: instant(filter.from), to: instant(filter.to) };
  const length = ranges.find((r) => r.id === filter.range)?.milliseconds;
  return length ? { from: new Date(now - length).toISOString() } : {};
}
