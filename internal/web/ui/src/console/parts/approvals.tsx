// Tool calls to approve: the exact request, and the decision.
import { useState } from "preact/hooks";
import { effectsWords } from "../../lib/connections";
import type { PendingToolCall, ToolDecision } from "../../lib/contract";
import { visible } from "../../lib/exact";
import { moment } from "../../lib/format";
import { useSession } from "./session";
import { Badge, Button, Notice } from "./basic";
import { TextField } from "./fields";
import { Arguments } from "./call";
import { EscapedText } from "./escapedtext";

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
        <div class="row">
          <Button disabled={busy} onClick={() => decide!(open.map((c) => ({ callId: c.callId, decision: "reject" })))}>
            Reject all {String(open.length)}
          </Button>
          <Button disabled={busy} onClick={() => decide!(open.map((c) => ({ callId: c.callId, decision: "approve" })))}>
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
  const id = "comment-" + c.callId;
  const say = (decision: ToolDecision["decision"]) => {
    const d: ToolDecision = { callId: c.callId, decision };
    if (comment.trim()) d.comment = comment.trim();
    if (remember && decision === "approve") d.remember = "session";
    decide!([d]);
  };
  return (
    <div class="stack approval">
      <div class="row">
        <b class="mono breaks">
          <EscapedText text={visible(c.tool)} />
        </b>
        {c.title && (
          <span class="breaks">
            <EscapedText text={visible(c.title)} />
          </span>
        )}
        {c.decision ? <Badge meaning={c.decision === "approve" ? "ok" : "failed"}>{decided[c.decision]}</Badge> : <Badge meaning="waiting">waiting</Badge>}
        <span class="small muted">
          {effectsWords[c.effects]}; until {moment(c.expiresAt)}
        </span>
      </div>
      {c.previousOutcome === "unknown" && (
        <Notice meaning="waiting">
          <p>
            <b>It may have been done already.</b> Nobody knows what came of an earlier attempt. Look first: an approval has it done again.
          </p>
        </Notice>
      )}
      <Arguments callId={c.callId} of={c.tool} />
      {decide && !c.decision && (
        <>
          <TextField id={id} label="Comment" hint="The model is told why, if you reject it. May be empty." maxLength={2000} value={comment} onChange={setComment} />
          <div class="row">
            <label class="check">
              <input type="checkbox" checked={remember} onChange={(e) => setRemember(e.currentTarget.checked)} /> Approve this tool for the rest of the session
            </label>
            <div class="push row">
              <Button kind="danger" disabled={busy} onClick={() => say("reject")}>
                Reject
              </Button>
              <Button kind="main" disabled={busy} onClick={() => say("approve")}>
                Approve
              </Button>
            </div>
          </div>
        </>
      )}
    </div>
  );
}
