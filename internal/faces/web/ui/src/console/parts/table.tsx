import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Problem, Query } from "../../lib/api";
import { count } from "../../lib/format";
import type { List } from "../../lib/types";
import { useSession } from "./session";
import { Button } from "./basic";
import { Dialog } from "./dialog";
import { Download } from "./download";
import { Facts } from "./facts";
import { asProblem, Failure, type Loaded, States, useLive, useLoad } from "./load";

export interface Column<T> {
  title: string; // "" for the buttons of a row
  show: (row: T) => ComponentChildren;
  number?: boolean;
  named?: boolean; // a phone shows the title before the content, as it does for numbers
  keep?: number; // a column with a smaller number, or further to the right, is hidden first
  grows?: boolean; // takes the width that is left; without one, the first column does
  tall?: boolean; // may have several lines
  sort?: string; // the value of the API's parameter "sort" for it
}

// orderOf returns the query of an order: "asc" of creation, "spent", or "spent.asc".
export function orderOf(value: string | undefined): Query {
  if (!value) return {};
  const [sort, order] = value.split(".");
  return value === "asc" ? { order: "asc" } : { sort, order };
}

// A Sorting is the order of a list, as in the address, and what changes it.
export interface Sorting {
  order: string;
  change: (order: string) => void;
}

// next returns the order after a click on a head: downwards first, names upwards first, then the other way, then none.
function next(by: string, order: string): string {
  if (by === "created") return order === "" ? "asc" : "";
  return order === by ? by + (by === "name" ? ".desc" : ".asc") : order.startsWith(by + ".") ? "" : by;
}

// directionOf returns the direction in which a list is sorted by a column.
function directionOf(by: string, order: string): "ascending" | "descending" | "none" {
  if (by === "created") return order === "" ? "descending" : order === "asc" ? "ascending" : "none";
  const [sort, to] = order.split(".");
  if (sort !== by) return "none";
  return (to ?? (by === "name" ? "asc" : "desc")) === "asc" ? "ascending" : "descending";
}

// fit hides columns of a table, the least important first, until it is as wide as its box. It
// returns their number.
function fit(box: HTMLElement, columns: number): number {
  const table = box.firstElementChild as HTMLElement;
  for (let n = 0; ; n++) {
    table.dataset.drops = String(n);
    if (n === columns || box.scrollWidth <= box.clientWidth) return n;
  }
}

const limits = 9; // columns that can be hidden

// A Table has one line for each row. In a narrow window the less important columns are hidden,
// and a phone shows cards: each cell brings the title of its column. A click anywhere in a row,
// or Enter, calls onPick; without it, a row whose columns are hidden shows all in a drawer. Arrow
// keys move among the rows.
export function Table<T extends object>({ columns, rows, label, onPick, sorting }: { columns: Column<T>[]; rows: T[]; label: string; onPick?: (row: T) => void; sorting?: Sorting }) {
  const box = useRef<HTMLDivElement>(null);
  const [dropped, setDropped] = useState(0);
  const [at, setAt] = useState(0); // the row that Tab reaches
  const [open, setOpen] = useState<T>();
  const grows = Math.max(columns.findIndex((c) => c.grows), 0);
  const order = columns
    .map((c, i) => ({ i, keep: c.keep ?? 0, fixed: i === grows || i === 0 || c.title === "" }))
    .filter((c) => !c.fixed)
    .sort((a, b) => a.keep - b.keep || b.i - a.i)
    .slice(0, limits)
    .map((c) => c.i);
  const refit = () => {
    if (box.current) setDropped(fit(box.current, order.length));
  };
  useLayoutEffect(refit);
  useEffect(() => {
    const watch = new ResizeObserver(refit);
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, [order.length]);
  const pick = onPick ?? (dropped > 0 ? setOpen : undefined);
  const onClick = (event: MouseEvent, row: T) => {
    const from = event.target as HTMLElement;
    if (!from.closest("a, button, input, select, label, summary, textarea, [popover]") && !getSelection()?.toString()) pick!(row);
  };
  const onKeyDown = (event: KeyboardEvent, row: T) => {
    const from = event.target as HTMLElement;
    if (from !== event.currentTarget) return;
    const to = { ArrowDown: from.nextElementSibling, ArrowUp: from.previousElementSibling }[event.key];
    if (event.key === "Enter") pick!(row);
    else if (to) (to as HTMLElement).focus();
    else return;
    event.preventDefault();
  };
  // The whole of a text that is cut is shown on hover.
  const onMouseOver = (event: MouseEvent) => {
    const cell = (event.target as HTMLElement).closest("td");
    if (cell) cell.title = cell.scrollWidth > cell.clientWidth ? cell.innerText : "";
  };
  const look = (c: Column<T>, i: number) =>
    [c.number && "num", c.named && "named", i === grows && "grows", c.tall && "tall", c.title === "" && "acts", order.includes(i) && "drop" + (order.indexOf(i) + 1)].filter(Boolean).join(" ");
  return (
    <div class="scrolls" ref={box} tabIndex={pick ? undefined : 0} role="group" aria-label={label}>
      <table class="table">
        <thead>
          <tr>
            {columns.map((c, i) => (
              <th scope="col" class={look(c, i)} aria-sort={sorting && c.sort ? directionOf(c.sort, sorting.order) : undefined}>
                {sorting && c.sort ? (
                  <>
                    <button type="button" class="sorts" onClick={() => sorting.change(next(c.sort!, sorting.order))}>
                      {c.title}
                    </button>
                    <span class="unsorted">{c.title}</span>
                  </>
                ) : c.title ? (
                  c.title
                ) : (
                  <span class="unseen">Actions</span>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody onMouseOver={onMouseOver}>
          {rows.map((row, n) => (
            <tr
              key={"id" in row ? String(row.id) : n}
              class={pick ? "picks" : ""}
              tabIndex={pick ? (n === Math.min(at, rows.length - 1) ? 0 : -1) : undefined}
              onFocus={pick && (() => setAt(n))}
              onClick={pick && ((event) => onClick(event, row))}
              onKeyDown={pick && ((event) => onKeyDown(event, row))}
            >
              {columns.map((c, i) => (
                <td class={look(c, i)} data-title={c.title}>
                  {c.show(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {open && (
        <Dialog title={label} drawer onClose={() => setOpen(undefined)}>
          <Facts of={columns.filter((c) => c.title).map((c) => [c.title, c.show(open)])} />
        </Dialog>
      )}
    </div>
  );
}

// mostEmpty is the number of pages without a row that are loaded after each other; with a filter
// the server reads up to 2,000 rows for a page.
const mostEmpty = 50;

// useOlder loads further pages while a list has no rows, and returns the text that is shown
// meanwhile.
export function useOlder({ rows, pages, hasMore, busy, next }: { rows: number; pages: number; hasMore: boolean; busy: boolean; next: () => void }): ComponentChildren {
  const searching = rows === 0 && hasMore && pages < mostEmpty;
  useEffect(() => {
    if (searching && !busy) next();
  }, [searching, busy, pages]);
  return (
    <p class="pad" role="status">
      {searching ? "Searching older entries" : `No matches in the newest ${count(pages * 2000)} entries.`}
    </p>
  );
}

// usePages loads a list page by page.
function usePages<T>(load: (cursor: string | undefined, signal: AbortSignal) => Promise<List<T>>, inputs: readonly unknown[]) {
  const first = useLoad((signal) => load(undefined, signal), inputs);
  const [more, setMore] = useState<List<T>[]>([]);
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    setMore([]);
    setProblem(undefined);
  }, [first.data]);
  const last = more.at(-1) ?? first.data;
  const next = async () => {
    if (!last?.nextCursor || busy) return;
    setBusy(true);
    setProblem(undefined);
    try {
      const page = await load(last.nextCursor, new AbortController().signal);
      setMore((pages) => [...pages, page]);
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return { first, rows: [...(first.data?.data ?? []), ...more.flatMap((p) => p.data)], pages: more.length + 1, hasMore: last?.hasMore ?? false, next, busy, problem };
}

// useList loads a list of the API page by page, narrowed by a query; without a path
// it is empty.
export function useList<T>(path: string | undefined, limit: number, changed?: unknown, query?: Query) {
  const { api } = useSession();
  const pages = usePages<T>((cursor, signal) => (path ? api.get<List<T>>(path, { ...query, limit, cursor }, signal) : Promise.resolve({ data: [], nextCursor: null, hasMore: false })), [
    api,
    path,
    changed,
    JSON.stringify(query),
  ]);
  return { ...pages, path, query };
}

// useLiveList keeps a list current while it shows its first page alone.
export function useLiveList<T>(of: Listed<T>, when = true) {
  useLive(of.first, livePause, when && of.pages === 1);
}

type Listed<T> = ReturnType<typeof useList<T>>;

const livePause = 10_000; // milliseconds

// Pages shows a list page by page, and saves it as CSV. total reads the number of all rows, if the API
// provides it.
export function Pages<T extends object>(props: { of: Listed<T>; columns: Column<T>[]; label: string; empty: ComponentChildren; onPick?: (row: T) => void; total?: (page: List<T>) => number; sorting?: Sorting; csv?: false }) {
  const { of, columns, label, empty, onPick, total, sorting, csv } = props;
  const older = useOlder({ ...of, rows: of.rows.length, busy: of.busy || of.first.loading || !!of.problem });
  return (
    <States of={of.first as Loaded<List<T>>} lines={6}>
      {(page) =>
        of.rows.length === 0 && !of.hasMore ? (
          empty
        ) : (
          <>
            {of.rows.length === 0 ? older : <Table columns={columns} rows={of.rows} label={label} onPick={onPick} sorting={sorting} />}
            {of.problem && (
              <div class="pad">
                <Failure problem={of.problem} />
              </div>
            )}
            {(of.hasMore || (of.path && csv !== false && of.rows.length > 0)) && (
              <div class="more">
                {of.hasMore && total && (
                  <span class="small muted">
                    {count(of.rows.length)} of {count(total(page))}
                  </span>
                )}
                {of.hasMore && (
                  <Button onClick={of.next} disabled={of.busy}>
                    {of.busy ? "Loading" : "Show more"}
                  </Button>
                )}
                {of.path && csv !== false && of.rows.length > 0 && <Download small path={of.path} query={() => of.query ?? {}} name={label.toLowerCase().replaceAll(" ", "-") + ".csv"} />}
              </div>
            )}
          </>
        )
      }
    </States>
  );
}
