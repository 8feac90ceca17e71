// The key of the console: in sessionStorage, gone when the tab is closed, or in
// localStorage if the user ticked so. Never in a cookie; in an address only as the
// fragment of a link to sign in, which is removed at once and sent to nobody.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Api } from "../../lib/api";
import { keptKey, keyName } from "../../lib/key";
import type { Me } from "../../lib/types";

export const storedKey = keptKey;

// playgroundName is where the playground keeps its conversation for this tab.
export const playgroundName = "stoa-playground";

// storeKey keeps a key for this tab or, if remember is set, for this browser; null
// forgets it in both.
export function storeKey(key: string | null, remember = false): void {
  try {
    sessionStorage.removeItem(keyName);
    localStorage.removeItem(keyName);
    if (key === null) sessionStorage.removeItem(playgroundName); // it belongs to whoever signed out
    if (key !== null) (remember ? localStorage : sessionStorage).setItem(keyName, key);
  } catch {
    // Without storage the key lives as long as the page.
  }
}

// offeredKey takes the key of a link to sign in, #key=sk_…, out of the address.
// The form shows it and the user decides: a link must not sign anybody in to
// another's account by itself.
export function offeredKey(): string {
  const key = /^#key=(sk_[\x21-\x7e]{1,200})$/.exec(location.hash)?.[1];
  if (!key) return "";
  history.replaceState(null, "", location.pathname + location.search);
  return key;
}

export interface Session {
  api: Api;
  me: Me;
  refresh: () => void; // reads me again
  offers: (operation: string) => boolean; // the contract has it
  may: (scope: string) => boolean; // the key carries it
}

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error("a page was shown without a session");
  return session;
}

export const mayWith = (scopes: string[], scope: string): boolean => scopes.includes(scope) || (scope !== "operator" && scopes.includes("*"));
