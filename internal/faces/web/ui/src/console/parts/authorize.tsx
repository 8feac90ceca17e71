// The sign-in of a connection at its authorization server, in another tab. The address is
// read before it is opened.
import { useEffect, useRef, useState } from "preact/hooks";
import type { AuthorizationStart, Connection } from "../../lib/contract";
import { moment } from "../../lib/format";
import { useSession } from "./session";
import { Badge, Button, Notice } from "./basic";
import { Dialog } from "./dialog";
import { Failure, States, useLoad } from "./load";

const pause = 2000; // polling interval in milliseconds

// opens reports whether an address can be opened: https, or this machine.
export function opens(address: string): boolean {
  try {
    const { protocol, hostname } = new URL(address);
    return protocol === "https:" || (protocol === "http:" && (hostname === "localhost" || hostname === "[::1]" || /^127(\.\d+){3}$/.test(hostname)));
  } catch {
    return false;
  }
}

// Address shows a complete address with its origin highlighted.
function Address({ of: address }: { of: string }) {
  let origin = "";
  try {
    origin = new URL(address).origin;
  } catch {
    // Then it is all text.
  }
  const at = address.startsWith(origin) ? origin.length : 0;
  return (
    <p class="mono breaks address" tabIndex={0} role="group" aria-label="Address">
      <strong>{address.slice(0, at)}</strong>
      {address.slice(at)}
    </p>
  );
}

// SignIn starts an authorization and waits for its outcome.
export function SignIn({ path, of: c, onDone, onClose }: { path: string; of: Connection; onDone: () => void; onClose: () => void }) {
  const { api } = useSession();
  const [round, setRound] = useState(0);
  const begun = useLoad(async (signal) => (await (await api.raw("POST", path + "/authorize", { signal })).json()) as AuthorizationStart, [api, path, round]);
  return (
    <Dialog title={`Sign in to "${c.name}"`} wide onClose={onClose}>
      {begun.problem ? (
        <Failure problem={begun.problem} retry={begun.reload} />
      ) : (
        <States of={begun} lines={3}>
          {(start) => (
            <Waiting
              key={start.authorizeUrl}
              path={path}
              start={start}
              onDone={onDone}
              onAgain={() => setRound(round + 1)}
            />
          )}
        </States>
      )}
    </Dialog>
  );
}

function Waiting({ path, start, onDone, onAgain }: { path: string; start: AuthorizationStart; onDone: () => void; onAgain: () => void }) {
  const { api } = useSession();
  const [opened, setOpened] = useState(false);
  const [failed, setFailed] = useState<string>();
  const [over, setOver] = useState(false);
  const done = useRef(onDone);
  done.current = onDone;
  useEffect(() => {
    const stop = new AbortController();
    const ends = new Date(start.expiresAt).getTime();
    let tag: string | undefined; // of the connection at the start
    let timer = 0;
    const look = async () => {
      clearTimeout(timer);
      try {
        const { data: now, etag } = await api.read<Connection>(path, stop.signal);
        if (stop.signal.aborted) return;
        if (now.status !== "needs_authorization") {
          stop.abort();
          return done.current();
        }
        // The failure is stored in the connection, which changes with it.
        setFailed((was) => (tag !== undefined && tag !== etag ? now.lastError?.message : was));
        tag ??= etag;
      } catch {
        // It is asked again.
      }
      if (stop.signal.aborted) return;
      if (Date.now() >= ends) setOver(true);
      else timer = setTimeout(look, pause);
    };
    const back = () => document.visibilityState === "visible" && void look();
    document.addEventListener("visibilitychange", back);
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", back);
    };
  }, [api, path, start]);
  const again = (
    <div class="row">
      <Button small kind="main" onClick={onAgain}>
        Begin again
      </Button>
    </div>
  );
  if (failed) {
    return (
      <Notice meaning="failed">
        <p>
          <b>Not authorized.</b>
        </p>
        <p class="breaks">{failed}</p>
        {again}
      </Notice>
    );
  }
  if (over) {
    return (
      <Notice meaning="waiting">
        <p>
          <b>The sign-in has timed out.</b> No one authorized the connection by {moment(start.expiresAt)}.
        </p>
        {again}
      </Notice>
    );
  }
  const safe = opens(start.authorizeUrl);
  return (
    <>
      <p>Opens in a new tab. Sign in only if you trust this address: agents will act with your access.</p>
      <Address of={start.authorizeUrl} />
      {start.tokenOrigin && start.tokenOrigin !== start.signInOrigin && <p class="small breaks">The access token comes from {start.tokenOrigin}.</p>}
      {safe ? (
        <div class="row">
          <a class="button main" href={start.authorizeUrl} target="_blank" rel="noopener noreferrer" onClick={() => setOpened(true)}>
            Open it
          </a>
          <span class="small muted">Until {moment(start.expiresAt)}.</span>
        </div>
      ) : (
        <Notice meaning="failed">
          <p>
            <b>Not opened here.</b> It is not https, and not on this machine.
          </p>
        </Notice>
      )}
      {opened && (
        <p role="status">
          <Badge meaning="waiting">waiting</Badge> Sign in there, and connect on the page that follows. This page sees it by itself.
        </p>
      )}
    </>
  );
}
