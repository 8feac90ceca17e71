// Addresses inside the console are the part after "#": they work with any
// server, and the browser's buttons move among them.
import { useEffect, useMemo, useState } from "preact/hooks";

const read = () => location.hash.replace(/^#\/?/, "");

// usePath returns the current address, without its "#/" and its query.
export const usePath = (): string => useAddress().split("?")[0]!;

function useAddress(): string {
  const [path, setPath] = useState(read);
  useEffect(() => {
    const listen = () => setPath(read());
    addEventListener("hashchange", listen);
    return () => removeEventListener("hashchange", listen);
  }, []);
  return path;
}

export const go = (path: string): void => void (location.hash = "#/" + path);

export type Filter = Record<string, string>;

// useFilter returns what follows the "?" of the address, and what changes it:
// members given as "" are taken out. The browser's list of pages stays as it is, and
// a link to the address shows the same.
export function useFilter(): [Filter, (change: Filter) => void] {
  const query = useAddress().split("?")[1] ?? "";
  const filter = useMemo(() => Object.fromEntries(new URLSearchParams(query)), [query]);
  const change = (by: Filter) => {
    const [path] = read().split("?");
    location.replace("#/" + withFilter(path!, { ...Object.fromEntries(new URLSearchParams(read().split("?")[1] ?? "")), ...by }));
  };
  return [filter, change];
}

// withFilter is the address of a page with a filter.
export function withFilter(path: string, filter: Filter): string {
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== "")).toString();
  return path + (query ? "?" + query : "");
}
