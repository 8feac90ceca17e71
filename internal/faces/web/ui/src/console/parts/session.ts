// The session of the console. Its secret is in a cookie that scripts cannot read; a key is
// never stored. In an address a key is only the fragment of a sign-in link, which is removed
// immediately and never sent.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Api } from "../../lib/api";
import type { SignedIn } from "../../lib/signin";
import type { Me } from "../../lib/types";

// playgroundName is the storage key of the playground's conversation in this tab.
export const playgroundName = "stoa-playground";

const accountName = "stoa.account"; // the storage key of the account of this tab

// accountOf returns the account that this tab shows: the one chosen before, or the first.
export function accountOf(who: SignedIn): SignedIn["accounts"][number] {
  let chosen: string | null = null;
  try {
    chosen = sessionStorage.getItem(accountName);
  } catch {
    // Without storage a tab always begins with the first account.
  }
  return who.accounts.find((a) => a.id === chosen) ?? who.accounts[0]!;
}

// chooseAccount keeps the account that this tab shows.
export function chooseAccount(id: string): void {
  forget();
  try {
    sessionStorage.setItem(accountName, id);
  } catch {
    // The tab shows the first account.
  }
}

// showAccount loads the console again, with another account in this tab.
export function showAccount(id: string): void {
  chooseAccount(id);
  history.replaceState(null, "", location.pathname);
  location.reload();
}

// forget removes the data of an account from this tab.
export function forget(): void {
  try {
    sessionStorage.removeItem(playgroundName);
    sessionStorage.removeItem(accountName);
    // Earlier versions stored the key there.
    sessionStorage.removeItem("stoa.key");
    localStorage.removeItem("stoa.key");
  } catch {
    // There is no storage.
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
  who: SignedIn;
  refresh: () => void; // reads me again
  offers: (operation: string) => boolean; // the contract has it
  may: (scope: string) => boolean; // the key or the role has it
}

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error("a page was shown without a session");
  return session;
}

// ofOperator are the scopes that "*" does not include, but "operator" does.
const ofOperator = ["account:read", "account:write", "operator:read", "operator:billing"];

// mayWith follows the rules of the service.
export const mayWith = (scopes: string[], scope: string): boolean => scopes.includes(scope) || (ofOperator.includes(scope) ? scopes.includes("operator") : scope !== "operator" && scopes.includes("*"));
