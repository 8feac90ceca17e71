import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Problem, Query } from "../../lib/api";
import { count } from "../../lib/format";
import type { List } from "../../lib/types";
import { useSession } from "./session";
import { Button } from "./basic";
import { asProblem, Failure, type Loaded, States, useLoad } from "./load";

export interface Column<T> {
  title: string;
  show: (row: T) => ComponentChildren;
  number?: boolean;
}

// A Table is a list of cards on a narrow window: each cell brings the title of its
// column. A click anywhere in a row calls onPick; for the keyboard a cell has a
// button that does the same.
export function Table<T extends object>({ columns, rows, label, onPick }: { columns: Column<T>[]; rows: T[]; label: string; onPick?: (row: T) => void }) {
  const pick = (event: MouseEvent, row: T) => {
    const from = event.target as HTMLElement;
    if (!from.closest("a, button, input, select, label") && !getSelection()?.toString()) onPick!(row);
  };
  return (
    <div class="scrolls" tabIndex={0} role="group" aria-label={label}>
      <table class="table">
        <thead>
          <tr>
            {columns.map((c) => (
              <th scope="col" class={c.number ? "num" : ""}>
                {c.title ? c.title : <span class="unseen">Actions</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={"id" in row ? String(row.id) : i} class={onPick ? "picks" : ""} onClick={onPick && ((event) => pick(event, row))}>
              {columns.map((c) => (
                <td class={c.number ? "num" : ""} data-title={c.title}>
                  {c.show(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
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
  return usePages<T>((cursor, signal) => (path ? api.get<List<T>>(path, { ...query, limit, cursor }, signal) : Promise.resolve({ data: [], nextCursor: null, hasMore: false })), [
    api,
    path,
    changed,
    JSON.stringify(query),
  ]);
}

// Pages shows a list page by page. total reads the number of all rows, if the API
// provides it.
export function Pages<T extends object>(props: { of: ReturnType<typeof usePages<T>>; columns: Column<T>[]; label: string; empty: ComponentChildren; onPick?: (row: T) => void; total?: (page: List<T>) => number }) {
  const { of, columns, label, empty, onPick, total } = props;
  const older = useOlder({ ...of, rows: of.rows.length, busy: of.busy || of.first.loading || !!of.problem });
  return (
    <States of={of.first as Loaded<List<T>>} lines={6}>
      {(page) =>
        of.rows.length === 0 && !of.hasMore ? (
          empty
        ) : (
          <>
            {of.rows.length === 0 ? older : <Table columns={columns} rows={of.rows} label={label} onPick={onPick} />}
            {of.problem && (
              <div class="pad">
                <Failure problem={of.problem} />
              </div>
            )}
            {of.hasMore && (
              <div class="more">
                {total && (
                  <span class="small muted">
                    {count(of.rows.length)} of {count(total(page))}
                  </span>
                )}
                <Button onClick={of.next} disabled={of.busy}>
                  {of.busy ? "Loading" : "Show more"}
                </Button>
              </div>
            )}
          </>
        )
      }
    </States>
  );
}
