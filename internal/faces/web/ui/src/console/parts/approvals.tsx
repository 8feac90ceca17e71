// Tool calls to approve: the exact request, and the decision.
import { useRef, useState } from "preact/hooks";
import { effectsWords } from "../../lib/connections";
import type { PendingToolCall, ToolDecision } from "../../lib/contract";
import { visible } from "../../lib/exact";
import { ago, moment } from "../../lib/format";
import { useSession } from "./session";
import { Badge, Button, Notice } from "./basic";
import { Arguments } from "./call";
import { EscapedText } from "./escapedtext";

// KeysHint names the keys that decide about the call that has the focus.
export const KeysHint = () => (
  <p class="small muted keys">
    <kbd>Tab</kbd> to a call, <kbd>A</kbd> approves, <kbd>R</kbd> rejects
  </p>
);

export function Approvals({ calls, busy, decide }: { calls: PendingToolCall[]; busy: boolean; decide?: (decisions: ToolDecision[]) => void }) {
  const { may } = useSession();
  const allowed = decide && may("approvals:write") && may("sessions:write");
  const open = calls.filter((c) => !c.decision);
  return (
    <div class="stack approvals">
      {calls.map((c) => (
        <Call key={c.callId} of={c} busy={busy} decide={allowed ? decide : undefined} />
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

function Call({ of: c, busy, decide }: { of: PendingToolCall; busy: boolean; decide?: (decisions: ToolDecision[]) => void }) {
  const [comment, setComment] = useState("");
  const [remember, setRemember] = useState(false);
  const frame = useRef<HTMLDivElement>(null);
  const offered = decide && !c.decision;
  const say = (decision: ToolDecision["decision"]) => {
    const d: ToolDecision = { callId: c.callId, decision };
    if (comment.trim()) d.comment = comment.trim();
    if (remember && decision === "approve") d.remember = "session";
    decide!([d]);
  };
  const onKeyDown = (e: KeyboardEvent) => {
    const key = e.key.toLowerCase();
    if (!offered || busy || e.target !== e.currentTarget || e.repeat || e.ctrlKey || e.metaKey || e.altKey || (key !== "a" && key !== "r")) return;
    e.preventDefault();
    const all = [...document.querySelectorAll<HTMLElement>(".approval[tabindex]")];
    const at = all.indexOf(frame.current!);
    (all[at + 1] ?? all[at - 1])?.focus();
    say(key === "a" ? "approve" : "reject");
  };
  return (
    <div ref={frame} class="approval" role="group" aria-label={`Call of ${c.tool}`} tabIndex={offered ? 0 : undefined} aria-keyshortcuts={offered ? "A R" : undefined} onKeyDown={onKeyDown}>
      <div class="row says">
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
      </div>
      {c.previousOutcome === "unknown" && (
        <Notice meaning="waiting">
          <p>
            <b>This call may already have been executed.</b> The outcome of an earlier attempt is unknown. Check first: if you approve, it runs again.
          </p>
        </Notice>
      )}
      <Arguments of={c} />
      {offered && (
        <div class="row decision">
          <input class="input" aria-label="Comment" placeholder="Comment for the model if you reject" maxLength={2000} value={comment} onInput={(e) => setComment(e.currentTarget.value)} />
          <label class="check small">
            <input type="checkbox" checked={remember} onChange={(e) => setRemember(e.currentTarget.checked)} /> Approve this tool for the rest of the session
          </label>
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
