// For operators: whether pages show this account or all customers, kept in the browser.
import { createContext } from "preact";
import { useContext, useState } from "preact/hooks";
import { useSession } from "./session";
import { Tabs } from "./tabs";

const name = "stoa.scope"; // the storage key

export interface Scope {
  all: boolean;
  accountId?: string; // "*" for all customers, as the API's parameter
  words: string;
  label: (title: string, all?: boolean) => string; // a title with the scope, for operators; all is that of the pages unless it is given
  set: (all: boolean) => void;
}

const words = { all: "all customers", own: "this account" };

export const ScopeContext = createContext<Scope>({ all: false, words: words.own, label: (title) => title, set: () => {} });

// useScope returns the scope of the pages. Operators begin with all customers.
export const useScope = (): Scope => useContext(ScopeContext);

// useKeptScope keeps the scope for [ScopeContext].
export function useKeptScope(operates: boolean): Scope {
  const [all, setAll] = useState(() => {
    try {
      return localStorage.getItem(name) !== "own";
    } catch {
      return true;
    }
  });
  const set = (all: boolean) => {
    setAll(all);
    try {
      localStorage.setItem(name, all ? "all" : "own");
    } catch {
      // The choice ends with the page.
    }
  };
  const shown = operates && all;
  const label = (title: string, of = shown) => (operates ? `${title}, ${of ? words.all : words.own}` : title);
  return { all: shown, accountId: shown ? "*" : undefined, words: shown ? words.all : words.own, label, set };
}

// ScopeSwitch is in the head of the pages that have a scope. onChange resets what a page has chosen itself.
export function ScopeSwitch({ onChange }: { onChange?: () => void }) {
  const { may } = useSession();
  const scope = useScope();
  if (!may("operator:read")) return null;
  const change = (id: string) => {
    onChange?.();
    scope.set(id === "all");
  };
  return (
    <div class="scope">
      <Tabs
        label="Whose numbers"
        tabs={[
          { id: "own", title: "This account" },
          { id: "all", title: "All customers" },
        ]}
        active={scope.all ? "all" : "own"}
        onChange={change}
      />
    </div>
  );
}
