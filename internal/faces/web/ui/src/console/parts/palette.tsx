// The palette finds pages, actions and objects by name; with "?" the keyboard shortcuts are
// listed. Both work without a mouse.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Dialog } from "./dialog";
import { Icon, type IconName } from "./icon";
import { find } from "./picker";
import { go, withFilter } from "./router";
import { type Session, showAccount, useSession } from "./session";

export const commandKey = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl";

const pause = 150; // milliseconds after the last letter before the server is searched
const hits = 5; // objects of a kind

type Shown = "palette" | "keys" | undefined;

// useKeyboard opens the palette with Ctrl-K, the list of shortcuts with "?", and focuses the
// search of the page with "/".
export function useKeyboard() {
  const [shown, setShown] = useState<Shown>();
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const from = event.target as HTMLElement;
      if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey) {
        event.preventDefault();
        if (!document.querySelector("dialog[open]")) setShown("palette");
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || from.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
      const search = document.querySelector<HTMLInputElement>("main input[type=search]");
      if (event.key === "?") setShown("keys");
      else if (event.key === "/" && search) search.focus();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  return { shown, show: (what: Shown) => setShown(what), close: () => setShown(undefined) };
}

interface Entry {
  title: string;
  kind: string;
  icon: IconName;
  to: string; // an address of the console
  run?: () => void; // instead of going there
  words?: string; // other words for the title
  typed?: boolean; // shown only if its words are typed
}

const creates = "new create add make";

// actions are what can be begun from anywhere: the title of the button, other words for it, the address, the scope and
// the operation that they need.
const actions: { title: string; words: string; to: string; scope: string; needs: string }[] = [
  { title: "Create agent", words: creates + " assistant bot", to: "agents?new=1", scope: "agents:write", needs: "createAgent" },
  { title: "Create key", words: creates + " api token secret", to: "keys?new=1", scope: "keys:write", needs: "createKey" },
  { title: "Create budget", words: creates + " limit cap", to: "budgets?new=1", scope: "account:write", needs: "createBudget" },
  { title: "Add a webhook", words: creates + " notification alert event", to: "webhooks?new=1", scope: "webhooks:write", needs: "createWebhook" },
  { title: "Connect a server", words: creates + " connection mcp tool openapi", to: "connections?new=1", scope: "connections:write", needs: "createConnection" },
  { title: "Add provider", words: creates + " vendor model connect openai anthropic gemini ollama", to: "providers?new=1", scope: "operator", needs: "setConfigDraft" },
  { title: "Create account", words: creates + " customer", to: "accounts?new=1", scope: "operator", needs: "createAccount" },
  { title: "Invite a member", words: creates + " person user colleague", to: "members?new=1", scope: "account:write", needs: "inviteMember" },
];

// Pages are also found by what people call them elsewhere.
const otherWords: Record<string, string> = {
  "": "dashboard home",
  usage: "analytics statistics cost spend",
  requests: "logs calls errors",
  "tool-calls": "approvals approve inbox",
  credits: "balance ledger receipts payments top up billing refund",
  invoices: "invoices statements bills billing month",
  budgets: "limits caps",
  keys: "api tokens secrets rotate revoke",
  members: "users team people roles",
  audit: "history changes log",
  accounts: "customers tenants organizations refund withdraw suspend erase gdpr",
  providers: "vendors models prices plans routes settings",
  nodes: "servers cluster health",
  playground: "chat try test prompt",
  connections: "tools mcp integrations secrets",
  feedback: "ratings thumbs reviews",
  sessions: "conversations chats runs threads erase gdpr",
};

// rank says how well an entry matches what was typed, as the search of the server does: 0 is best, undefined is not at all.
function rank(e: Entry, typed: string): number | undefined {
  const title = e.title.toLowerCase();
  if (title === typed) return 0;
  if (title.startsWith(typed)) return 1;
  const words = typed.split(/\s+/);
  const all = [title, e.kind.toLowerCase(), e.words ?? ""].join(" ");
  const begins = (text: string) => words.every((w) => text.split(/[^\p{L}\p{N}]+/u).some((word) => word.startsWith(w)));
  if (begins(title)) return 2;
  if (begins(all)) return 3;
  return words.every((w) => all.includes(w)) ? 4 : undefined;
}

interface Found {
  id: string;
  name?: string;
  title?: string; // of a session
  agentId?: string;
}

// searched are the lists that the server searches with the parameter q.
const searched: { path: string; kind: string; icon: IconName; scope: string; needs: string; to: (o: Found) => string }[] = [
  { path: "/api-agents", kind: "Agent", icon: "agents", scope: "agents:read", needs: "listAgents", to: (o) => "agents/" + o.id },
  { path: "/sessions", kind: "Session", icon: "sessions", scope: "sessions:read", needs: "listAllSessions", to: (o) => `agents/${o.agentId}/sessions/${o.id}` },
  { path: "/connections", kind: "Connection", icon: "connections", scope: "connections:read", needs: "listConnections", to: (o) => "connections/" + o.id },
  { path: "/accounts", kind: "Account", icon: "accounts", scope: "operator:read", needs: "listAccounts", to: (o) => "accounts/" + o.id },
  { path: "/keys", kind: "Key", icon: "keys", scope: "keys:write", needs: "listKeys", to: (o) => withFilter("keys", { q: o.name ?? o.id }) },
  { path: "/members", kind: "Member", icon: "members", scope: "account:read", needs: "listMembers", to: (o) => withFilter("members", { q: o.name || o.id }) },
];

const isId = /^(req|resp)_[0-9a-z]{20,}$/i;

// useFound returns the objects that the server finds for a text.
function useFound(words: string, session: Session): Entry[] {
  const [found, setFound] = useState<(Entry[] | undefined)[]>([]); // by kind, in the order of searched
  useEffect(() => {
    setFound([]);
    if (words.length < 2) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      for (const [i, s] of searched.entries()) {
        if (!session.may(s.scope) || !session.offers(s.needs)) continue;
        find<Found>(session.api, s, words, hits, stop.signal).then(
          ({ rows, more }) => {
            const entries: Entry[] = rows.map((o) => ({ title: o.name || o.title || o.id, kind: s.kind, icon: s.icon, to: s.to(o) }));
            if (more) entries.push({ title: `All with “${words}”`, kind: s.kind + "s", icon: s.icon, to: withFilter(s.to({ id: "" }).split(/[/?]/)[0]!, { q: words }) });
            setFound((old) => Object.assign([...old], { [i]: entries }));
          },
          () => {}, // the pages are still found
        );
      }
    }, pause);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [words]);
  return found.flatMap((list) => list ?? []);
}

// A Palette offers the pages of the navigation and the actions that the key or the role may
// use.
export function Palette({ pages, onClose, onSignOut }: { pages: { path: string; title: string; icon: IconName; group: string }[]; onClose: () => void; onSignOut: () => void }) {
  const session = useSession();
  const id = useId();
  const list = useRef<HTMLUListElement>(null);
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const words = typed.trim().toLowerCase();
  const fixed: Entry[] = [
    ...pages.map((p) => ({ title: p.title, kind: p.group ? p.group : "Page", icon: p.icon, to: p.path, words: otherWords[p.path] })),
    ...(session.who.accounts.length > 1 ? session.who.accounts.map((a) => ({ title: a.name, kind: "Switch account", icon: "accounts" as const, to: a.id, run: () => showAccount(a.id) })) : []),
    ...actions.filter((a) => session.may(a.scope) && session.offers(a.needs)).map((a) => ({ ...a, kind: "Action", icon: "plus" as const })),
    { title: "Light or dark", kind: "Action", icon: "overview", to: "theme", words: "theme mode appearance", typed: true, run: () => document.querySelector<HTMLElement>("[data-theme-switch]")?.click() },
    { title: "Sign out", kind: "Action", icon: "out", to: "sign-out", words: "log out logout leave", typed: true, run: onSignOut },
    ...[
      { title: "Guides", to: "/docs", words: "documentation help manual" },
      { title: "API reference", to: "/docs/api-openapi", words: "openapi endpoints documentation" },
      { title: "Explorer", to: "/api/v1/doc", words: "try api swagger" },
    ].map((d) => ({ ...d, kind: "Documentation", icon: "file" as const, typed: true, run: () => location.assign(d.to) })),
  ];
  const guides: Entry[] = words.length < 2 ? [] : [{ title: `Guides about “${words}”`, kind: "Documentation", icon: "file", to: "guides", run: () => location.assign("/docs?q=" + encodeURIComponent(words)) }];
  const ranked = words ? fixed.flatMap((e) => ((at) => (at === undefined ? [] : [{ e, at }]))(rank(e, words))).sort((a, b) => a.at - b.at).map(({ e }) => e) : fixed.filter((e) => !e.typed);
  const entries = [
    ...(isId.test(words) ? [{ title: "Request " + words, kind: "Request", icon: "requests" as const, to: withFilter("requests", { id: words }) }] : []),
    ...ranked,
    ...useFound(words, session),
    ...guides,
  ];
  const active = Math.min(at, entries.length - 1);
  useEffect(() => list.current?.children[active]?.scrollIntoView({ block: "nearest" }), [active]);
  const open = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    if (entry.run) entry.run();
    else go(entry.to);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter") open(entries[active]);
    else if (step && entries.length > 0) setAt((active + step + entries.length) % entries.length);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Search" bare onClose={onClose}>
      <div class="palette">
        <div class="seek-in">
          <Icon name="search" />
          <input
            type="text"
            role="combobox"
            aria-label="Search pages, actions and objects"
            aria-expanded="true"
            aria-controls={id}
            aria-autocomplete="list"
            aria-activedescendant={entries.length > 0 ? id + active : undefined}
            placeholder="Pages, actions, names or ids"
            autocomplete="off"
            spellcheck={false}
            autofocus
            value={typed}
            onInput={(event) => {
              setTyped(event.currentTarget.value);
              setAt(0);
            }}
            onKeyDown={onKeyDown}
          />
          <kbd>Esc</kbd>
        </div>
        <ul ref={list} id={id} role="listbox" aria-label="Results">
          {entries.map((e, i) => (
            <li id={id + i} key={e.to + e.title} role="option" aria-selected={i === active} onMouseMove={() => setAt(i)} onClick={() => open(e)}>
              <Icon name={e.icon} />
              <span class="cut">{e.title}</span>
              <span class="kind">{e.kind}</span>
            </li>
          ))}
        </ul>
        {entries.length === guides.length && words && <p class="pad muted">No page, action or object has this name{guides.length > 0 ? "; the guides may say more" : ""}.</p>}
      </div>
    </Dialog>
  );
}

const shortcuts: [keys: string[], what: string][] = [
  [[commandKey, "K"], "Search pages, actions and objects"],
  [["/"], "Search this page"],
  [["↑", "↓"], "Move among the rows of a table"],
  [["Enter"], "Open the row"],
  [["A"], "Approve the selected tool call"],
  [["R"], "Reject the selected tool call"],
  [[commandKey, "Enter"], "Playground: send, or ask the last question again"],
  [["Esc"], "Close, or stop a reply"],
  [["?"], "Show these shortcuts"],
];

export function Shortcuts({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl class="facts shortcuts">
        {shortcuts.map(([keys, what]) => (
          <>
            <dt>
              {keys.map((key) => (
                <kbd>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
    </Dialog>
  );
}
