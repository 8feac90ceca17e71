// The console: a client of the public API that runs in the browser. This file contains
// the frame; each page has its own file in pages/.
import { Component, render } from "preact";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Api } from "../lib/api";
import { scrollRowTo } from "../lib/scrollrow";
import type { Me } from "../lib/types";
import { pages, type Page } from "./pages";
import { Badge, Button } from "./parts/basic";
import { Dialog } from "./parts/dialog";
import { asProblem, Failure, Skeleton, useLoad } from "./parts/load";
import { Icon } from "./parts/icon";
import { CreditNotices } from "./parts/creditnotices";
import { InboxContext, useLiveInbox } from "./parts/inbox";
import { MissingScope } from "./parts/missing";
import { Lost } from "./parts/subject";
import { Toasts } from "./parts/toast";
import { usePath } from "./parts/router";
import { mayWith, offeredKey, SessionContext, storedKey, storeKey } from "./parts/session";
import { SignIn } from "./signin";

const root = document.getElementById("console")!;
const operations = new Set((root.dataset.operations ?? "").split(" "));

function Console() {
  const [offered, setOffered] = useState(offeredKey);
  const [key, setKey] = useState(() => (offered ? null : storedKey()));
  const [first, setFirst] = useState<Me>();
  const [said, setSaid] = useState<string>();
  const leave = (why?: string) => {
    storeKey(null);
    setKey(null);
    setFirst(undefined);
    setSaid(why);
  };
  if (!key) {
    return (
      <SignIn
        said={said}
        offered={offered}
        onKey={(given, me, remember) => {
          storeKey(given, remember);
          setOffered("");
          setFirst(me);
          setSaid(undefined);
          setKey(given);
        }}
      />
    );
  }
  return <Inside key={key} secret={key} first={first} onLeave={leave} />;
}

function Inside({ secret, first, onLeave }: { secret: string; first?: Me; onLeave: (why?: string) => void }) {
  const api = useMemo(() => new Api(secret, () => onLeave("The key is no longer valid. Sign in with another.")), [secret]);
  const [round, setRound] = useState(0);
  const me = useLoad((signal) => (first && round === 0 ? Promise.resolve(first) : api.get<Me>("/users/me", undefined, signal)), [api]);
  const session = useMemo(
    () =>
      me.data && {
        api,
        me: me.data,
        refresh: () => {
          setRound((n) => n + 1);
          me.reload();
        },
        offers: (operation: string) => operations.has(operation),
        may: (scope: string) => mayWith(me.data!.key.scopes, scope),
      },
    [me.data],
  );
  if (!session) {
    return (
      <main id="main" class="view">
        {me.problem ? <Failure problem={me.problem} retry={me.reload} /> : <Skeleton />}
        {me.problem && (
          <p class="row">
            <Button onClick={() => onLeave()}>Sign out</Button>
          </p>
        )}
      </main>
    );
  }
  return (
    <SessionContext.Provider value={session}>
      <Frame me={session.me} onLeave={onLeave} />
      <Toasts />
    </SessionContext.Provider>
  );
}

// pageAt returns the page of a path and the rest of the path.
function pageAt(path: string): { page: Page; rest: string } | undefined {
  const [head = "", ...rest] = path.split("/");
  const page = pages.find((p) => p.path === head && operations.has(p.needs));
  return page && { page, rest: rest.join("/") };
}

// spends contains the pages whose calls are charged.
const spends = new Set(["", "playground", "agents", "sessions", "credits"]);

function Frame({ me, onLeave }: { me: Me; onLeave: () => void }) {
  const { path, asked, leave } = usePath();
  const at = pageAt(path);
  const title = at?.page.title ?? "No such page";
  const may = (page: Page) => !page.scope || mayWith(me.key.scopes, page.scope);
  const list = useRef<HTMLElement>(null);
  const inbox = useLiveInbox();
  useEffect(() => {
    document.title = (inbox.calls && `(${inbox.calls}) `) + title + " · Stoa console";
  }, [title, inbox.calls]);
  useEffect(() => {
    scrollTo(0, 0);
    scrollRowTo(list.current, list.current?.querySelector("[aria-current]"));
  }, [title]);
  useEffect(() => {
    // "/" focuses the page's search, if it has one.
    const listen = (event: KeyboardEvent) => {
      const from = event.target as HTMLElement;
      const search = document.querySelector<HTMLInputElement>("main input[type=search]");
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || !search || from.matches("input, textarea, select")) return;
      event.preventDefault();
      search.focus();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  return (
    <div class="shell">
      <aside class="rail">
        <nav ref={list} aria-label="Console">
          {pages
            .filter((p) => operations.has(p.needs) && may(p))
            .map((p) => (
              <a key={p.path} href={"#/" + p.path} aria-current={at?.page === p ? "page" : undefined}>
                <Icon name={p.icon} />
                {p.title}
                {p.path === "tool-calls" && inbox.calls && (
                  <span class="badge waiting count">
                    {inbox.calls}
                    <span class="unseen"> waiting for approval</span>
                  </span>
                )}
              </a>
            ))}
        </nav>
        <div class="who">
          <div class="breaks">
            <b>{me.name}</b> <Badge meaning="accent">{me.plan.name}</Badge>
          </div>
          <div class="small muted">
            key <code>{me.key.hint}</code>
          </div>
          <Button small onClick={() => onLeave()}>
            Sign out
          </Button>
        </div>
      </aside>
      {asked !== undefined && (
        <Dialog
          title="Leave without saving?"
          onClose={() => leave(false)}
          footer={
            <>
              <Button onClick={() => leave(false)}>Stay</Button>
              <Button kind="danger" onClick={() => leave(true)}>
                Leave
              </Button>
            </>
          }
        >
          <p>What you changed on this page is not saved and will be lost.</p>
        </Dialog>
      )}
      <main id="main" class="view" key={at?.page.path}>
        {at && spends.has(at.page.path) && <CreditNotices path={path} />}
        <div class="unseen" role="status">
          {inbox.calls && `Tool calls waiting for approval: ${inbox.calls}`}
        </div>
        <Boundary>
          <InboxContext.Provider value={inbox}>{!at ? <Lost what="page" why="The console has no page at this address." to="" back="overview" /> : may(at.page) ? <at.page.show rest={at.rest} /> : <MissingScope {...at.page} />}</InboxContext.Provider>
        </Boundary>
      </main>
    </div>
  );
}

// A Boundary keeps the frame when a page throws an error.
class Boundary extends Component<{ children: ComponentChildren }, { error?: unknown }> {
  override state: { error?: unknown } = {};
  static override getDerivedStateFromError(error: unknown) {
    return { error };
  }
  override render() {
    if (this.state.error === undefined) return this.props.children;
    return <Failure problem={asProblem(this.state.error)} retry={() => this.setState({ error: undefined })} />;
  }
}

render(<Console />, root);
