// The console: a client of the public API that runs in the browser. This file contains
// the frame; each page has its own file in pages/.
import { Component, render } from "preact";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Api, type Problem, type Query } from "../lib/api";
import { parse } from "../lib/exact";
import { call, signedIn, type SignedIn } from "../lib/signin";
import type { Me } from "../lib/types";
import { pages, type Page } from "./pages";
import { Badge, Button } from "./parts/basic";
import { Dialog } from "./parts/dialog";
import { asProblem, Failure, Skeleton, useLoad } from "./parts/load";
import { Icon } from "./parts/icon";
import { CreditNotices } from "./parts/creditnotices";
import { InboxContext, useLiveInbox } from "./parts/inbox";
import { NoticesContext, useLiveNotices } from "./parts/notices";
import { MissingScope } from "./parts/missing";
import { Lost } from "./parts/subject";
import { commandKey, Palette, Shortcuts, useKeyboard } from "./parts/palette";
import { Rail, TopBar } from "./parts/shell";
import { sendNow, Toasts } from "./parts/toast";
import { isSession, PreviousContext, usePath, usePrevious } from "./parts/router";
import { ScopeContext, useKeptScope } from "./parts/scope";
import { accountOf, forget, mayWith, offeredKey, SessionContext, showAccount } from "./parts/session";
import { SignIn } from "./signin";

// An ExactApi keeps the text of the arguments of tool calls, which people approve.
class ExactApi extends Api {
  override async get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
    return parse(await (await this.raw("GET", path, { query, signal })).text());
  }
}

const root = document.getElementById("console")!;
const operations = new Set((root.dataset.operations ?? "").split(" "));

// tabs reports sign-ins and sign-outs to the other tabs of the console.
const tabs = new BroadcastChannel("stoa.session");

function Console() {
  const [offered, setOffered] = useState(offeredKey);
  const [said, setSaid] = useState<string>();
  const [leaving, setLeaving] = useState(false);
  const [failed, setFailed] = useState<Problem>(); // of signing out
  const who = useLoad(signedIn, []);
  const show = (next: SignedIn) => {
    if (!next.signedIn) forget();
    who.set(next);
  };
  // check reads the session again. refused is the account of a refused request; further
  // refusals are ignored during the check, and when signed out.
  const checking = useRef(false);
  const check = async (why: string, refused?: string) => {
    if (refused && checking.current) return;
    checking.current = true;
    setSaid(why);
    let next: SignedIn;
    try {
      next = await signedIn();
    } catch {
      next = { ...signedOut, signIn: who.data?.signIn ?? [] };
    }
    if (next.accounts.some((a) => a.id === refused)) next = { ...signedOut, signIn: next.signIn };
    checking.current = !next.signedIn;
    show(next);
  };
  useEffect(() => {
    tabs.onmessage = (event) => void check(event.data === "out" ? "You have signed out in another tab." : "");
  }, []);
  if (!who.data || leaving) {
    return (
      <main id="main" class="view">
        {who.problem ? <Failure problem={who.problem} retry={who.reload} /> : <Skeleton />}
      </main>
    );
  }
  if (failed) {
    return (
      <main id="main" class="view">
        <Failure problem={failed} retry={() => setFailed(undefined)} />
      </main>
    );
  }
  if (offered || !who.data.signedIn) {
    return (
      <SignIn
        said={said}
        offered={offered}
        providers={who.data.signIn}
        onSignedIn={(next) => {
          checking.current = false;
          setOffered("");
          setSaid(undefined);
          forget();
          who.set(next);
          tabs.postMessage("in");
        }}
      />
    );
  }
  const signOut = async () => {
    await sendNow();
    setLeaving(true);
    await new Promise((done) => setTimeout(done)); // until the page is gone, and its requests with it
    try {
      await call("DELETE", "/console/session");
      setSaid(undefined);
      show({ ...signedOut, signIn: who.data!.signIn });
      tabs.postMessage("out");
    } catch (error) {
      setFailed(asProblem(error));
    }
    setLeaving(false);
  };
  const account = accountOf(who.data).id;
  return <Inside key={(who.data.person?.id ?? who.data.keyId) + account} who={who.data} account={account} onRefused={(why) => void check(why, account)} onSignOut={signOut} />;
}

const signedOut: SignedIn = { signedIn: false, person: null, accounts: [], keyId: null, expiresAt: null, signIn: [] };

function Inside({ who, account, onRefused, onSignOut }: { who: SignedIn; account: string; onRefused: (why: string) => void; onSignOut: () => Promise<void> }) {
  const shown = useRef(true);
  useEffect(() => () => void (shown.current = false), []);
  const api = useMemo(() => new ExactApi({ account }, (why) => shown.current && onRefused(why)), []);
  const me = useLoad((signal) => api.get<Me>("/users/me", undefined, signal), []);
  const session = useMemo(
    () =>
      me.data && {
        api,
        me: me.data,
        who,
        refresh: me.reload,
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
            <SignOut onSignOut={onSignOut} />
          </p>
        )}
      </main>
    );
  }
  return (
    <SessionContext.Provider value={session}>
      <Frame me={session.me} who={who} onSignOut={onSignOut} />
      <Toasts />
    </SessionContext.Provider>
  );
}

function SignOut({ small, onSignOut }: { small?: boolean; onSignOut: () => Promise<void> }) {
  return (
    <Button small={small} icon={small ? "out" : undefined} onClick={() => void onSignOut()}>
      <span class="word">Sign out</span>
    </Button>
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

function Frame({ me, who, onSignOut }: { me: Me; who: SignedIn; onSignOut: () => Promise<void> }) {
  const { path, full, asked, leave } = usePath();
  const at = pageAt(path);
  const may = (page: Page) => !page.scope || mayWith(me.key.scopes, page.scope);
  const listed = pages.filter((p) => operations.has(p.needs) && may(p));
  // A session belongs to the page of all sessions, whatever its path.
  const current = (isSession(path) && listed.find((p) => p.path === "sessions")) || at?.page;
  const title = current?.title ?? "Page not found";
  const previous = usePrevious({ to: full, title });
  const [sheet, setSheet] = useState(false); // the rail of a phone is open
  const inbox = useLiveInbox();
  const notices = useLiveNotices(at?.page.path);
  const alerts = notices.data?.data.length ?? 0;
  const keyboard = useKeyboard();
  const scope = useKeptScope(mayWith(me.key.scopes, "operator:read"));
  useEffect(() => {
    document.title = (inbox.calls && `(${inbox.calls}) `) + title + " · Stoa console";
  }, [title, inbox.calls]);
  useEffect(() => scrollTo(0, 0), [title]);
  useEffect(() => setSheet(false), [path]);
  return (
    <div class="shell">
      <TopBar title={me.name} open={sheet} waiting={!!inbox.calls || alerts > 0} onMenu={() => setSheet(!sheet)} onFind={() => keyboard.show("palette")} />
      <Rail open={sheet} onClose={() => setSheet(false)}>
        <button type="button" class="seek" onClick={() => keyboard.show("palette")}>
          <Icon name="search" />
          <span class="word">Search</span> <kbd>{commandKey} K</kbd>
        </button>
        <nav aria-label="Console">
          {groups.map((group) => {
            const inside = listed.filter((p) => p.group === group);
            if (inside.length === 0) return null;
            return (
              <>
                {group && <p class="group">{group}</p>}
                {inside.map((p) => (
                  <a key={p.path} href={"#/" + p.path} title={p.title} aria-current={current === p ? "page" : undefined}>
                    <Icon name={p.icon} />
                    <span class="word">{p.title}</span>
                    {p.path === "" && alerts > 0 && (
                      <span class="badge failed count">
                        {alerts}
                        <span class="unseen"> need attention</span>
                      </span>
                    )}
                    {p.path === "tool-calls" && inbox.calls && (
                      <span class="badge waiting count">
                        {inbox.calls}
                        <span class="unseen"> waiting for approval</span>
                      </span>
                    )}
                  </a>
                ))}
              </>
            );
          })}
        </nav>
        <div class="who">
          {who.accounts.length > 1 ? (
            <select class="input" aria-label="Account" value={accountOf(who).id} onChange={(e) => showAccount(e.currentTarget.value)}>
              {who.accounts.map((a) => (
                <option key={a.id} value={a.id}>
                  {a.name}
                </option>
              ))}
            </select>
          ) : (
            <div class="account" title={me.name}>
              <b>{me.name}</b> <Badge meaning="accent">{me.plan.name}</Badge>
            </div>
          )}
          <div class="small muted cut">
            {who.person ? (
              who.person.name || who.person.email || who.person.id
            ) : (
              <>
                key <code>{me.key.hint}</code>
              </>
            )}
          </div>
          <SignOut small onSignOut={onSignOut} />
        </div>
      </Rail>
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
          <p>Your changes on this page are not saved and will be lost.</p>
        </Dialog>
      )}
      {keyboard.shown === "palette" && <Palette pages={listed} onClose={keyboard.close} onSignOut={() => void onSignOut()} />}
      {keyboard.shown === "keys" && <Shortcuts onClose={keyboard.close} />}
      <main id="main" class="view" key={at?.page.path} inert={sheet}>
        {at && spends.has(at.page.path) && <CreditNotices path={path} />}
        <div class="unseen" role="status">
          {inbox.calls && `Tool calls waiting for approval: ${inbox.calls}`}
        </div>
        <Boundary>
          <InboxContext.Provider value={inbox}>
            <NoticesContext.Provider value={notices.data ?? (notices.problem && { data: [] })}>
              <PreviousContext.Provider value={previous}>
                <ScopeContext.Provider value={scope}>{!at ? <Lost what="page" why="This address does not exist in the console." to="" back="overview" /> : may(at.page) ? <at.page.show rest={at.rest} /> : <MissingScope {...at.page} />}</ScopeContext.Provider>
              </PreviousContext.Provider>
            </NoticesContext.Provider>
          </InboxContext.Provider>
        </Boundary>
      </main>
    </div>
  );
}

const groups: Page["group"][] = ["", "Build", "Observe", "Account", "Operate"];

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
