// The key of the console: in sessionStorage, gone when the tab is closed, or in
// localStorage if the user ticked so. Never in a cookie; in an address only as the
// fragment of a sign-in link, which is removed immediately and never sent.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Api } from "../../lib/api";
import { keptKey, keyName } from "../../lib/key";
import type { Me } from "../../lib/types";

export const storedKey = keptKey;

// playgroundName is the storage key of the playground's conversation in this tab.
export const playgroundName = "stoa-playground";

// storeKey keeps a key for this tab or, if remember is set, for this browser; null
// forgets it in both.
export function storeKey(key: string | null, remember = false): void {
  try {
    sessionStorage.removeItem(keyName);
    localStorage.removeItem(keyName);
    if (key === null) sessionStorage.removeItem(playgroundName); // it belongs to the user who signed out
    if (key !== null) (remember ? localStorage : sessionStorage).setItem(keyName, key);
  } catch {
    // Without storage the key is kept until the page is closed.
  }
}

// offeredKey removes the key of a sign-in link, #key=sk_…, from the address and returns
// it. The form shows it and the user decides: a link must not sign a user in to another
// account automatically.
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

// mayWith follows the rules of the service: "*" includes neither "operator" nor
// "account:read" and "account:write", which "operator" includes.
export const mayWith = (scopes: string[], scope: string): boolean => scopes.includes(scope) || (scope.startsWith("account:") ? scopes.includes("operator") : scope !== "operator" && scopes.includes("*"));
