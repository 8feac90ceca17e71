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

// Download saves a list of the API as CSV, with its filter: all its pages, up to
// 10,000 rows.
export function Download<T>({ path, query, name, columns }: { path: string; query: () => Query; name: string; columns: [string, (row: T) => string | number | boolean | null][] }) {
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
      saveFile(new Blob([csv([columns.map(([title]) => title), ...rows.slice(0, most).map((row) => columns.map(([, show]) => show(row)))])], { type: "text/csv" }), name);
      toast(more || rows.length > most ? `The first ${most.toLocaleString("en")} rows are saved; there are more. Choose a shorter time for the rest.` : `${rows.length.toLocaleString("en")} rows are saved`);
    } catch (error) {
      toast("Nothing was saved: " + asProblem(error).message, "failed");
    } finally {
      setGot(undefined);
    }
  };
  return (
    <Button icon="download" disabled={got !== undefined} onClick={save}>
      {got === undefined ? "CSV" : `${got.toLocaleString("en")} rows`}
    </Button>
  );
}
