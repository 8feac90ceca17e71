// Resources of the API as pages show them: a list that the server searches, sorts and
// filters, its table, what can be done with a row, and the dialogs for it. A page declares
// all that; what the list operation does not offer, it leaves out. Start with Resource.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Query } from "../../lib/api";
import type { List } from "../../lib/types";
import { Button } from "./basic";
import { type Choice, Filters, Pick, Text } from "./filter";
import { Empty } from "./load";
import { Menu } from "./menu";
import { PickOf, type Source } from "./picker";
import { useFilter } from "./router";
import { type Column, orderOf, Pages, useList, useLiveList } from "./table";
import { toast } from "./toast";

type Dialog = (ends: Ends) => ComponentChildren;

// Ends contains the ways to end a dialog.
export interface Ends {
  onClose: () => void;
  onDone: (said?: string) => void; // closes the dialog, shows a note and reloads the data
  onNext: (dialog: Dialog) => void; // reloads the data and shows another dialog
}

// useDialogs returns functions that open one of several dialogs, and the open one.
export function useDialogs<K extends PropertyKey, A = void>(dialogs: Record<K, (ends: Ends, about: A) => ComponentChildren>, reload: () => void) {
  const [open, setOpen] = useState<{ name: K; about: A } | { next: Dialog }>();
  // A deletion that waited may end after another dialog was opened.
  const onClose = () => setOpen((now) => (now === open ? undefined : now));
  const ends: Ends = {
    onClose,
    onDone: (said) => {
      onClose();
      if (said) toast(said);
      reload();
    },
    onNext: (next) => {
      setOpen({ next });
      reload();
    },
  };
  return {
    open: (name: K, about: A) => setOpen({ name, about }),
    show: (next: Dialog) => setOpen({ next }),
    dialog: open && ("next" in open ? open.next(ends) : dialogs[open.name](ends, open.about)),
  };
}

// An Action is a button or an entry of the menu in each row. It opens a dialog or runs at
// once.
export interface Action<T> {
  title: string | ((row: T) => ComponentChildren);
  kind?: "danger" | "quiet" | ((row: T) => "plain" | "quiet");
  when?: (row: T) => boolean;
  dialog?: (ends: Ends, row: T) => ComponentChildren;
  run?: (row: T, reload: () => void) => void;
}

// A Narrowing is a filter, a search or an order: its name in the address of the page, and
// the parameter of the list operation that it sets; without param, the one of that name.
interface Narrowing {
  name: string;
  label: string;
  param?: (value: string) => Query;
}

// orders returns the choices of an order by the columns that have one, for windows without heads.
const orders = <T,>(columns: Column<T>[]): Choice[] => [
  { id: "", title: "Newest first" },
  { id: "asc", title: "Oldest first" },
  ...columns.flatMap(({ sort, title, show, number }) =>
    !sort || !show || sort === "created" ? [] : sort === "name" ? [{ id: "name", title: "By name" }, { id: "name.desc", title: "By name, from Z" }] : [{ id: sort, title: `${title}, ${number ? "largest" : "latest"} first` }, { id: sort + ".asc", title: `${title}, ${number ? "smallest" : "earliest"} first` }],
  ),
];

interface Nothing {
  title: string;
  text?: ComponentChildren;
}

export interface Resource<T> {
  live?: boolean; // the list is kept current
  path: string | undefined; // of the list operation; undefined: nothing is read
  query?: Query; // the fixed query
  limit: number; // rows of one page
  changed?: unknown; // the list is read again when it changes
  label: string;
  columns: Column<T>[] | ((show: (dialog: Dialog) => void) => Column<T>[]); // a cell may show a dialog
  empty: Nothing; // the replacement of the table
  nothing?: string; // the title if no row matches the filters
  search?: Narrowing;
  few?: number; // with fewer rows there is no filter [1]
  filters?: (Narrowing & ({ choices: Choice[] } | { source: Source; fixed: Choice[] }))[];
  total?: (page: List<T>) => number; // the number of rows on all pages
  onPick?: (row: T) => void;
  actions?: Action<T>[];
  heads?: true; // the order is only at the heads of the columns
  sortName?: string; // of the order in the address; by default "order"
  lead?: T[] | "loading"; // rows before those of the list, such as invitations before members
  onReload?: () => void; // reads them again
  aside?: ComponentChildren; // in the head of the list, before the button that makes another
  create?: { title: string; look?: "plain" | "small"; disabled?: boolean; dialog: Dialog } | false;
}

// useResource returns the parts of a list: pages contains the rows, head what belongs into the
// head of the list (the button for a new object, and the search if there is no other filter), list
// the table with its filters, and dialog the open dialog.
export function useResource<T extends object>(r: Resource<T>) {
  const [filter, change] = useFilter();
  const plainColumns = typeof r.columns === "function" ? r.columns(() => undefined) : r.columns;
  const sorts = plainColumns.some((c) => c.sort) ? [{ name: r.sortName ?? "order", label: "Order", choices: orders(plainColumns), param: orderOf }] : [];
  const narrowings = [...(r.search ? [r.search] : []), ...(r.filters ?? []), ...sorts];
  const names = narrowings.map((n) => n.name);
  const asked = narrowings.flatMap((n) => (filter[n.name] ? [n.param?.(filter[n.name]!) ?? { [n.name]: filter[n.name] }] : []));
  const pages = useList<T>(r.path, r.limit, r.changed, Object.assign({}, r.query, ...asked));
  useLiveList(pages, r.live ?? false);
  const lead = r.lead ?? [];
  const reload = () => {
    pages.first.reload();
    r.onReload?.();
  };
  const actions = r.actions ?? [];
  const { open, show, dialog } = useDialogs<number, T | undefined>([...actions.map((a) => (ends: Ends, row?: T) => a.dialog?.(ends, row!)), (ends: Ends) => r.create && r.create.dialog(ends)], reload);
  // The palette opens the form for a new object by an address.
  useEffect(() => {
    if (!filter.new || !r.create) return;
    change({ new: "" });
    open(actions.length, undefined);
  }, [filter.new, !r.create]);
  // One action is a button. Several, and those that destroy, are in a menu.
  const buttons: Column<T> = {
    title: "",
    show: (row) => {
      const all = actions.map((a, i) => ({ ...a, onClick: () => (a.run ? a.run(row, reload) : open(i, row)) })).filter((a) => a.when?.(row) ?? true);
      const named = all.map((a) => ({ title: typeof a.title === "function" ? a.title(row) : a.title, danger: a.kind === "danger", onClick: a.onClick }));
      if (all.length === 0) return null;
      if (actions.length > 1 || all[0]!.kind === "danger") return <Menu label={"Actions" + ("name" in row && row.name ? " for " + row.name : "")} items={named} />;
      const kind = all[0]!.kind;
      return (
        <Button small kind={typeof kind === "function" ? kind(row) : kind} onClick={named[0]!.onClick}>
          {named[0]!.title}
        </Button>
      );
    },
  };
  const columns = typeof r.columns === "function" ? r.columns(show) : r.columns;
  const shared = { filter, change };
  const bare = asked.length === 0 && !pages.hasMore && !!pages.first.data && lead !== "loading" && pages.rows.length + lead.length < (r.few ?? 1); // nothing to narrow
  const alone = r.search && names.length - (r.heads ? sorts.length : 0) === 1 ? r.search : undefined; // it needs no bar of its own
  const none = asked.length > 0 && r.nothing ? { title: r.nothing } : r.empty;
  return {
    pages,
    dialog,
    head: (r.aside || alone || r.create) && (
      <div class="push row">
        {r.aside}
        {alone && !bare && (
          <search class="alone">
            <Text name={alone.name} label={alone.label} kind="search" soon bare {...shared} />
          </search>
        )}
        {r.create && (
          <Button kind={r.create.look ? "plain" : "main"} small={r.create.look === "small"} icon="plus" disabled={r.create.disabled} onClick={() => open(actions.length, undefined)}>
            {r.create.title}
          </Button>
        )}
      </div>
    ),
    list: (
      <>
        {names.length > 0 && !alone && !bare && (
          <Filters names={names} {...shared}>
            {r.search && <Text name={r.search.name} label={r.search.label} kind="search" soon {...shared} />}
            {[...(r.filters ?? []), ...(r.heads ? [] : sorts)].map((f) =>
              "source" in f ? (
                <PickOf key={f.name} name={f.name} label={f.label} source={f.source} fixed={f.fixed} {...shared} />
              ) : (
                <Pick key={f.name} name={f.name} label={f.label} choices={f.choices} {...shared} />
              ),
            )}
          </Filters>
        )}
        <Pages
          of={lead === "loading" ? { ...pages, first: { ...pages.first, data: undefined, loading: true } } : { ...pages, rows: [...lead, ...pages.rows] }}
          label={r.label}
          columns={actions.length > 0 ? [...columns, buttons] : columns}
          onPick={r.onPick}
          total={r.total}
          sorting={sorts[0] && { order: filter[sorts[0].name] ?? "", change: (order) => change({ [sorts[0]!.name]: order }) }}
          empty={<Empty title={none.title}>{none.text && <p>{none.text}</p>}</Empty>}
        />
      </>
    ),
  };
}

interface Framed<T> extends Resource<T> {
  title: string;
  children?: ComponentChildren; // between the head and the list
}

// ResourcePage is a page of the console that has one list.
export function ResourcePage<T extends object>({ title, children, ...resource }: Framed<T>) {
  const { head, list, dialog } = useResource(resource);
  return (
    <>
      <header class="head">
        <h1>{title}</h1>
        {head}
      </header>
      {children}
      <section class="panel" aria-label={resource.label}>
        {list}
      </section>
      {dialog}
    </>
  );
}

// ResourcePanel is a list among other things of a page.
export function ResourcePanel<T extends object>({ title, children, ...resource }: Framed<T>) {
  const { head, list, dialog } = useResource(resource);
  const id = "panel-" + title.toLowerCase().replaceAll(" ", "-");
  return (
    <>
      <section class="panel" aria-labelledby={id}>
        <header>
          <h2 id={id}>{title}</h2>
          {children}
          {head}
        </header>
        {list}
      </section>
      {dialog}
    </>
  );
}
