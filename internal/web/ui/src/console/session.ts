// The key of this tab, in sessionStorage: removed when the tab is closed, never
// in a cookie or an address.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Api } from "../lib/api";
import type { Me } from "../lib/types";

const name = "stoa.key";

export function storedKey(): string | null {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

export function storeKey(key: string | null): void {
  try {
    if (key === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, key);
  } catch {
    // Without storage the key lives as long as the page.
  }
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
