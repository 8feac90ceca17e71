// A field that selects one object of a list of any length: the server searches it. Start with
// PickerField in a form, and PickOf among the filters of a list.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Api, Query } from "../../lib/api";
import type { List } from "../../lib/types";
import { Field } from "./basic";
import { type Choice, filterClass } from "./filter";
import { useLoad } from "./load";
import type { Filter } from "./router";
import { useSession } from "./session";

// A Source is a list of objects with names that the server searches.
export interface Source {
  path: string; // of the list; an object is at this path, a slash and its id
  query?: Query;
}

export const sources = {
  agents: { path: "/api-agents" },
  accounts: { path: "/accounts" },
  keys: { path: "/keys" },
  spaces: { path: "/spaces" },
  connections: { path: "/connections" },
} satisfies Record<string, Source>;

interface Named {
  id: string;
  name: string;
  email?: string | null;
  hint?: string;
}

const shown = 20; // objects in the list of a picker
const mostPages = 50; // that one search reads; each is of 2,000 objects
const pause = 200; // milliseconds between the last letter and the search

// find returns the first objects with a text, at most limit, and whether there are more.
export async function find<T>(api: Api, { path, query }: Source, text: string, limit: number, signal: AbortSignal): Promise<{ rows: T[]; more: boolean }> {
  const rows: T[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < mostPages; page++) {
    const list: List<T> = await api.get<List<T>>(path, { ...query, q: text || undefined, limit, cursor }, signal);
    rows.push(...list.data);
    cursor = list.nextCursor ?? undefined;
    if (!cursor || rows.length >= limit) break;
  }
  return { rows: rows.slice(0, limit), more: !!cursor || rows.length > limit };
}

// useName returns the name of an object; until it is loaded, and if there is none, its id.
export function useName(source: Source | undefined, id: string): string {
  const { api } = useSession();
  const one = useLoad((signal) => (source && id ? api.get<Named>(source.path + "/" + encodeURIComponent(id), undefined, signal).catch(() => undefined) : Promise.resolve(undefined)), [api, source?.path, id]);
  return one.data?.id === id ? one.data.name : id;
}

const sleep = (signal: AbortSignal) => new Promise((done) => (setTimeout(done, pause), signal.addEventListener("abort", done)));

interface Picks {
  id: string;
  label: string;
  source: Source;
  value: string; // an id; empty means none
  onChange: (id: string, name: string) => void;
  fixed?: Choice[]; // choices before the objects
  describedBy?: string;
}

// Picker is the field without a label. The arrow keys move in its list, Enter selects, and Escape
// closes it.
export function Picker({ id, label, source, value, onChange, fixed = [], describedBy }: Picks) {
  const { api } = useSession();
  const [text, setText] = useState<string>(); // that is searched; undefined while the list is closed
  const [active, setActive] = useState(0);
  const names = useRef(new Map<string, string>());
  const known = fixed.find((c) => c.id === value)?.title ?? names.current.get(value);
  const name = useName(known === undefined ? source : undefined, value);
  const title = known ?? name;
  const open = text !== undefined;
  const found = useLoad(
    async (signal) => {
      if (text === undefined) return undefined;
      if (text) await sleep(signal);
      return { text, ...(await find<Named>(api, source, text.trim(), shown, signal)) };
    },
    [api, source.path, JSON.stringify(source.query), text],
  );
  const current = open && found.data?.text === text ? found.data : undefined;
  const options: (Choice & { detail?: string })[] = [
    ...fixed.filter((c) => c.title.toLowerCase().includes((text ?? "").trim().toLowerCase())),
    ...(current?.rows ?? []).map((r) => ({ id: r.id, title: r.name, detail: r.email ?? r.hint })),
  ];
  const at = Math.min(active, options.length - 1);
  useEffect(() => {
    if (open) document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: "nearest" });
  }, [open, at]);
  const show = () => (setText(""), setActive(0));
  const close = () => setText(undefined);
  const select = (option?: Choice) => {
    close();
    if (!option) return;
    names.current.set(option.id, option.title);
    if (option.id !== value) onChange(option.id, option.title);
  };
  const press = (e: KeyboardEvent) => {
    if (e.isComposing) return;
    switch (e.key) {
      case "ArrowDown":
      case "ArrowUp":
        e.preventDefault();
        if (!open) show();
        else if (options.length > 0) setActive((at + (e.key === "ArrowDown" ? 1 : -1) + options.length) % options.length);
        break;
      case "Enter":
        if (!open) break;
        e.preventDefault();
        if (current || !text) select(options[at]);
        break;
      case "Escape":
        if (!open) break;
        e.preventDefault();
        e.stopPropagation();
        close();
    }
  };
  return (
    <div class="picker">
      <input
        id={id}
        class="input"
        type="text"
        role="combobox"
        aria-label={label}
        aria-autocomplete="list"
        aria-expanded={open}
        aria-controls={open ? id + "-list" : undefined}
        aria-activedescendant={open && options.length > 0 ? `${id}-${at}` : undefined}
        aria-describedby={describedBy}
        data-value={value}
        autocomplete="off"
        spellcheck={false}
        maxLength={128}
        placeholder={title}
        value={text ?? title}
        onClick={() => !open && show()}
        onBeforeInput={(e) => {
          if (!open) e.currentTarget.value = ""; // letters replace the name of the selected object
        }}
        onInput={(e) => (setText(e.currentTarget.value), setActive(0))}
        onKeyDown={press}
        onBlur={close}
      />
      {open && (
        <div class="options" onMouseDown={(e) => e.preventDefault()} onClick={(e) => e.preventDefault()}>
          <ul role="listbox" id={id + "-list"} aria-label={label}>
            {options.map((o, i) => (
              <li key={o.id} role="option" id={`${id}-${i}`} aria-selected={i === at} onClick={() => select(o)}>
                {o.title}
                {o.detail && <div class="small muted breaks">{o.detail}</div>}
              </li>
            ))}
          </ul>
          <p class="small muted" role="status">
            {found.problem ? found.problem.message : !current ? "Searching" : options.length === 0 ? "No matches" : current.more ? `The first ${shown}. Type to search all.` : ""}
          </p>
        </div>
      )}
    </div>
  );
}

// PickerField is a Picker with a label, for forms.
export function PickerField({ hint, problem, ...picks }: Picks & { hint?: ComponentChildren; problem?: string }) {
  return (
    <Field id={picks.id} label={picks.label} hint={hint} problem={problem}>
      <Picker {...picks} describedBy={hint ? picks.id + "-hint" : undefined} />
    </Field>
  );
}

// PickOf is a Picker among the filters of a list; see Pick.
export function PickOf({ name, label, source, filter, change, fixed = [{ id: "", title: "Any" }] }: { name: string; label: string; source: Source; filter: Filter; change: (by: Filter) => void; fixed?: Choice[] }) {
  return (
    <label class={filterClass(filter[name])}>
      <span class="small muted">{label}</span>
      <Picker id={"filter-" + name} label={label} source={source} value={filter[name] ?? ""} onChange={(id) => change({ [name]: id })} fixed={fixed} />
    </label>
  );
}

// PickerList selects several objects, up to most.
export function PickerList({ id, label, source, value, onChange, most }: { id: string; label: string; source: Source; value: string[]; onChange: (ids: string[]) => void; most: number }) {
  return (
    <>
      {value.length > 0 && (
        <ul class="picked">
          {value.map((one) => (
            <li key={one}>
              <PickedName source={source} id={one} />
              <button type="button" class="link small" onClick={() => onChange(value.filter((x) => x !== one))}>
                Remove<span class="unseen"> <PickedName source={source} id={one} /></span>
              </button>
            </li>
          ))}
        </ul>
      )}
      {value.length < most && <Picker key={value.join()} id={id} label={label} source={source} value="" onChange={(one) => one && !value.includes(one) && onChange([...value, one])} fixed={[{ id: "", title: "Add" }]} />}
    </>
  );
}

// PickedName is the name of an object, or its id if it has none.
export function PickedName({ source, id }: { source: Source; id: string }) {
  return <span class="breaks">{useName(source, id)}</span>;
}
