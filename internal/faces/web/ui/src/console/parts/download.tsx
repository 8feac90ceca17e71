import { useState } from "preact/hooks";
import type { Query } from "../../lib/api";
import { csv } from "../../lib/csv";
import { saveFile } from "../../lib/save";
import type { List } from "../../lib/types";
import { useSession } from "./session";
import { Button } from "./basic";
import { asProblem } from "./load";
import { toast } from "./toast";

export const most = 10_000; // rows of a file

type Cell = string | number | boolean | null;

// flat returns the members of an object by their paths: "model.served". Lists are joined, or JSON if they contain objects.
function flat(row: object, into = new Map<string, Cell>(), before = ""): Map<string, Cell> {
  for (const [name, value] of Object.entries(row) as [string, unknown][]) {
    const path = before + name;
    if (Array.isArray(value)) into.set(path, value.some((v) => typeof v === "object") ? JSON.stringify(value) : value.join(" "));
    else if (typeof value === "object" && value !== null) flat(value, into, path + ".");
    else into.set(path, (value ?? null) as Cell);
  }
  return into;
}

// table returns rows with the members of all of them as columns.
function table(rows: object[]): (string | number | boolean | null | undefined)[][] {
  const cells = rows.map((row) => flat(row));
  const names = [...new Set(cells.flatMap((c) => [...c.keys()]))];
  return [names, ...cells.map((c) => names.map((name) => c.get(name)))];
}

// Download saves a list of the API as CSV, with its filter: all its pages, up to
// 10,000 rows. Without columns it has all members of the rows.
export function Download<T extends object>({ path, query, name, columns, small }: { path: string; query: () => Query; name: string; columns?: [string, (row: T) => Cell][]; small?: boolean }) {
  const { api } = useSession();
  const [got, setGot] = useState<number>();
  const save = async () => {
    setGot(0);
    try {
      const asked = query();
      const rows: T[] = [];
      let cursor: string | undefined;
      let more = true;
      for (let page = 0; more && rows.length < most && page < most; page++) {
        const list: List<T> = await api.get<List<T>>(path, { ...asked, limit: 100, cursor });
        rows.push(...list.data);
        setGot(rows.length);
        cursor = list.nextCursor ?? undefined;
        more = list.hasMore;
      }
      const saved = rows.slice(0, most);
      saveFile(new Blob([csv(columns ? [columns.map(([title]) => title), ...saved.map((row) => columns.map(([, show]) => show(row)))] : table(saved))], { type: "text/csv" }), name);
      toast(more || rows.length > most ? `The first ${most.toLocaleString("en")} rows are saved; there are more. Choose a shorter time for the rest.` : `${rows.length.toLocaleString("en")} rows are saved`);
    } catch (error) {
      toast("Nothing was saved: " + asProblem(error).message, "failed");
    } finally {
      setGot(undefined);
    }
  };
  return (
    <Button icon="download" kind={small ? "quiet" : "plain"} small={small} disabled={got !== undefined} onClick={save} hint={`All rows that match, up to ${most.toLocaleString("en")}`}>
      {got === undefined ? "CSV" : `${got.toLocaleString("en")} rows`}
    </Button>
  );
}
