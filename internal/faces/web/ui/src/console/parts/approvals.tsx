// Tool calls to approve: the exact request, and the decision.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { effectsWords } from "../../lib/connections";
import type { PendingToolCall, ToolDecision } from "../../lib/contract";
import { visible } from "../../lib/exact";
import { ago, moment } from "../../lib/format";
import { useSession } from "./session";
import { Badge, Button, Notice } from "./basic";
import { Arguments } from "./call";
import { EscapedText } from "./escapedtext";
import { later } from "./toast";

// KeysHint names the keys that decide about the call that has the focus.
export const KeysHint = () => (
  <p class="small muted keys">
    <kbd>Tab</kbd> to a call, <kbd>X</kbd> selects, <kbd>A</kbd> approves, <kbd>R</kbd> rejects
  </p>
);

// held are the calls whose approval waits five seconds for an Undo, or was sent a moment ago. They are not shown
// as undecided.
const held = new Set<string>();
const watchers = new Set<() => void>();
const changed = () => watchers.forEach((w) => w());

// useHeld returns the calls of a list that are not held.
export function useHeld(): <C extends PendingToolCall>(calls: C[]) => C[] {
  const [, again] = useState(0);
  useEffect(() => {
    const watch = () => again((n) => n + 1);
    watchers.add(watch);
    return () => void watchers.delete(watch);
  }, []);
  return (calls) => calls.filter((c) => c.decision || !held.has(c.callId));
}

// approveLater holds approved calls for five seconds, then sends them. send returns the calls that it could not decide.
export function approveLater(ids: string[], said: string, send: () => Promise<string[]>): void {
  const release = (of: string[]) => {
    for (const id of of) held.delete(id);
    changed();
  };
  for (const id of ids) held.add(id);
  changed();
  later(said, () => send().then(release), () => release(ids));
}

// Choosing is the selection of calls in a list.
export interface Choosing {
  chosen: string[];
  choose: (id: string, on: boolean, range: boolean) => void;
  decide: (decision: ToolDecision["decision"]) => void; // about all that are chosen
}

// Approvals shows the calls of an input. decide sends decisions, and reports whether it succeeded. In a list of several
// inputs, asker is the beginning of each call, and choosing their selection.
export function Approvals({ calls: all, busy, decide: sendDecisions, asker, choosing }: { calls: PendingToolCall[]; busy: boolean; decide?: (decisions: ToolDecision[]) => Promise<boolean>; asker?: (c: PendingToolCall) => ComponentChildren; choosing?: Choosing }) {
  const { may } = useSession();
  const calls = useHeld()(all);
  const decide =
    sendDecisions &&
    ((decisions: ToolDecision[]) => {
      const ids = decisions.map((d) => d.callId);
      if (decisions[0]!.decision === "reject") void sendDecisions(decisions);
      else approveLater(ids, ids.length === 1 ? `"${all.find((c) => c.callId === ids[0])?.tool}" is approved in 5 seconds` : `${ids.length} calls are approved in 5 seconds`, async () => ((await sendDecisions(decisions)) ? [] : ids));
    });
  const allowed = decide && may("approvals:write") && may("sessions:write");
  const open = calls.filter((c) => !c.decision);
  return (
    <div class="stack approvals">
      {calls.map((c) => (
        <Call key={c.callId} of={c} busy={busy} decide={allowed ? decide : undefined} asker={asker?.(c)} choosing={allowed ? choosing : undefined} />
      ))}
      {!allowed && decide && (
        <p class="small muted">
          To decide, a key needs the scopes <code>approvals:write</code> and <code>sessions:write</code>.
        </p>
      )}
      {allowed && open.length > 1 && (
        <div class="row decision">
          <Button small disabled={busy} onClick={() => decide!(open.map((c) => ({ callId: c.callId, decision: "reject" })))}>
            Reject all {String(open.length)}
          </Button>
          <Button small disabled={busy} onClick={() => decide!(open.map((c) => ({ callId: c.callId, decision: "approve" })))}>
            Approve all {String(open.length)}
          </Button>
        </div>
      )}
    </div>
  );
}

const decided: Record<NonNullable<PendingToolCall["decision"]>, string> = { approve: "approved", reject: "rejected", expired: "expired" };

const narrow = "(max-width: 600px)";

function Call({ of: c, busy, decide, asker, choosing }: { of: PendingToolCall; busy: boolean; decide?: (decisions: ToolDecision[]) => void; asker?: ComponentChildren; choosing?: Choosing }) {
  const [comment, setComment] = useState("");
  const [remember, setRemember] = useState(false);
  const frame = useRef<HTMLDivElement>(null);
  const offered = decide && !c.decision;
  const chosen = choosing?.chosen.includes(c.callId) ?? false;
  const [open, setOpen] = useState(() => !asker || !matchMedia(narrow).matches); // a phone shows a list of calls in few lines
  const say = (decision: ToolDecision["decision"]) => {
    const d: ToolDecision = { callId: c.callId, decision };
    if (comment.trim()) d.comment = comment.trim();
    if (remember && decision === "approve") d.remember = "session";
    decide!([d]);
  };
  const onKeyDown = (e: KeyboardEvent) => {
    const key = e.key.toLowerCase();
    if (!offered || busy || (e.target !== e.currentTarget && !(e.target as HTMLElement).matches(".asked > input")) || e.repeat || e.ctrlKey || e.metaKey || e.altKey || (key !== "a" && key !== "r" && !(key === "x" && choosing))) return;
    e.preventDefault();
    if (key === "x") return choosing!.choose(c.callId, !chosen, false);
    if (choosing && choosing.chosen.length > 0) return choosing.decide(key === "a" ? "approve" : "reject");
    const all = [...document.querySelectorAll<HTMLElement>(".approval[tabindex]")];
    const at = all.indexOf(frame.current!);
    (all[at + 1] ?? all[at - 1])?.focus();
    say(key === "a" ? "approve" : "reject");
  };
  return (
    <div ref={frame} class={"approval" + (chosen ? " chosen" : "")} role="group" aria-label={`Call of ${c.tool}`} tabIndex={offered ? 0 : undefined} aria-keyshortcuts={offered ? (choosing ? "X A R" : "A R") : undefined} onKeyDown={onKeyDown}>
      {asker && (
        <div class="row asked">
          {choosing && offered && (
            <input type="checkbox" aria-label={`Select the call of ${c.tool}`} checked={chosen} onClick={(e) => choosing.choose(c.callId, e.currentTarget.checked, e.shiftKey)} />
          )}
          {asker}
        </div>
      )}
      {!asker && <div class="row says">
        <b class="mono breaks">
          <EscapedText text={visible(c.tool)} />
        </b>
        {c.title && (
          <span class="small breaks">
            <EscapedText text={visible(c.title)} />
          </span>
        )}
        {c.decision && <Badge meaning={c.decision === "approve" ? "ok" : "failed"}>{decided[c.decision]}</Badge>}
        <span class="small muted push">
          {effectsWords[c.effects]} · expires <time dateTime={c.expiresAt} title={moment(c.expiresAt)}>{ago(c.expiresAt)}</time>
        </span>
      </div>}
      {asker && c.decision && <Badge meaning={c.decision === "approve" ? "ok" : "failed"}>{decided[c.decision]}</Badge>}
      {c.previousOutcome === "unknown" && (
        <Notice meaning="waiting">
          <p>
            <b>This call may already have been executed.</b> The outcome of an earlier attempt is unknown. Check first: if you approve, it runs again.
          </p>
        </Notice>
      )}
      {asker && (
        <button type="button" class="quiet button small unfolds" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Hide arguments" : "Arguments and comment"}
        </button>
      )}
      {open && <Arguments of={c} />}
      {offered && (
        <div class="row decision">
          {open && <><input class="input" aria-label="Comment" placeholder="Comment for the model if you reject" maxLength={2000} value={comment} onInput={(e) => setComment(e.currentTarget.value)} />
          <label class="check small">
            <input type="checkbox" checked={remember} onChange={(e) => setRemember(e.currentTarget.checked)} /> Approve this tool for the rest of the session
          </label></>}
          <div class="push row">
            <Button small disabled={busy} onClick={() => say("reject")}>
              Reject
            </Button>
            <Button small kind="main" disabled={busy} onClick={() => say("approve")}>
              Approve
            </Button>
          </div>
        </div>
      )}
    </div>
  );
}
