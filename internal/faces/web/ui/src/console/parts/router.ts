// Addresses inside the console are the part after "#": they work with any
// server, and the browser's buttons move among them.
import { createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

const read = () => location.hash.replace(/^#\/?/, "");

// unsaved counts the forms with work that is not saved.
let unsaved = 0;

// useUnsaved asks the user before unsaved work is lost: the console asks for its own
// addresses, the browser for other pages.
export function useUnsaved(dirty: boolean): void {
  // Not after the next paint: a click may happen before it.
  useLayoutEffect(() => {
    if (!dirty) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    unsaved++;
    addEventListener("beforeunload", ask);
    return () => {
      unsaved--;
      removeEventListener("beforeunload", ask);
    };
  }, [dirty]);
}

// useTitle names the window while the component is shown, unless the name is empty.
export function useTitle(name: string | false | null | undefined): void {
  useEffect(() => {
    if (!name) return;
    const before = document.title;
    document.title = `${name} · Stoa console`;
    return () => void (document.title = before);
  }, [name]);
}

export interface Address {
  path: string; // without its "#/" and its query
  full: string; // without its "#/"
  asked?: string; // the address that the user opens while there is unsaved work
  leave: (really: boolean) => void;
}

// usePath returns the current address.
export function usePath(): Address {
  const [shown, setShown] = useState(read);
  const [asked, setAsked] = useState<string>();
  useEffect(() => {
    const listen = () => {
      const to = read();
      if (unsaved > 0 && to !== shown) {
        history.replaceState(null, "", "#/" + shown);
        setAsked(to);
      } else setShown(to);
    };
    addEventListener("hashchange", listen);
    return () => removeEventListener("hashchange", listen);
  }, [shown]);
  const leave = (really: boolean) => {
    setAsked(undefined);
    if (!really || asked === undefined) return;
    history.pushState(null, "", "#/" + asked);
    setShown(asked);
  };
  return { path: shown.split("?")[0]!, full: shown, asked, leave };
}

interface Place {
  to: string; // without its "#/"
  title: string;
}

export const PreviousContext = createContext<Place | undefined>(undefined);

// usePrevious returns the page that was shown before the current one in this tab.
export function usePrevious(now: Place): Place | undefined {
  const places = useRef<{ now: Place; before?: Place }>({ now });
  if (places.current.now.to !== now.to) places.current = { now, before: places.current.now };
  return places.current.before;
}

const sessionPath = /^agents\/[^/]+\/sessions\/[^/]+$/;

// isSession reports whether a path is that of one session.
export const isSession = (path: string): boolean => sessionPath.test(path.split("?")[0]!);

// useWayBack returns the page from which the user came to a session: a list with its filters, for
// example.
export function useWayBack(): Place {
  const before = useContext(PreviousContext);
  const [place] = useState(before && !isSession(before.to) ? before : { to: "sessions", title: "Sessions" });
  return place;
}

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

// useFilter returns the query of the address, and a function that changes it: members
// set to "" are removed. The browser's history is unchanged, and a link to the address
// shows the same.
export function useFilter(): [Filter, (change: Filter) => void] {
  const query = useAddress().split("?")[1] ?? "";
  const filter = useMemo(() => Object.fromEntries(new URLSearchParams(query)), [query]);
  const change = (by: Filter) => {
    const [path] = read().split("?");
    location.replace("#/" + withFilter(path!, { ...Object.fromEntries(new URLSearchParams(read().split("?")[1] ?? "")), ...by }));
  };
  return [filter, change];
}

// withFilter returns the address of a page with a filter.
export function withFilter(path: string, filter: Filter): string {
  const query = new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== "")).toString();
  return path + (query ? "?" + query : "");
}
