// Tool calls that wait for a program: their arguments, and a form to enter their
// outputs.
import { useState } from "preact/hooks";
import type { PendingToolCall } from "../../lib/contract";
import { moment } from "../../lib/format";
import { Badge, Button } from "./basic";
import { AreaField } from "./fields";
import { Arguments } from "./call";

export interface GivenOutput {
  callId: string;
  output: string;
  isError: boolean;
}

export function OpenCalls({ calls, claimedUntil, busy, give }: { calls: PendingToolCall[]; claimedUntil?: string | null; busy: boolean; give?: (output: GivenOutput) => void }) {
  const claimed = claimedUntil && new Date(claimedUntil) > new Date();
  return (
    <div class="stack">
      {claimed && <p class="small muted">A program works on this until {moment(claimedUntil)}.</p>}
      {calls.map((c) => (
        <OpenCall key={c.callId} call={c} busy={busy} give={give} />
      ))}
    </div>
  );
}

function OpenCall({ call: c, busy, give }: { call: PendingToolCall; busy: boolean; give?: (output: GivenOutput) => void }) {
  const [output, setOutput] = useState("");
  const [failed, setFailed] = useState(false);
  const id = "output-" + c.callId;
  return (
    <form
      class="stack"
      onSubmit={(e) => {
        e.preventDefault();
        give?.({ callId: c.callId, output, isError: failed });
      }}
    >
      <div>
        <b>{c.tool}</b> <Badge meaning={c.status === "done" ? "ok" : "waiting"}>{c.status === "started" ? "claimed" : c.status}</Badge> <span class="small muted">until {moment(c.expiresAt)}</span>
      </div>
      <Arguments of={c} />
      {give && c.status !== "done" && (
        <>
          <AreaField id={id} label="Output" hint="The result for the model, as data." rows={2} maxLength={262144} value={output} onChange={setOutput} />
          <div class="row">
            <label class="check">
              <input type="checkbox" checked={failed} onChange={(e) => setFailed(e.currentTarget.checked)} /> It failed
            </label>
            <div class="push">
              <Button kind="main" type="submit" disabled={busy || !output}>
                Send the output
              </Button>
            </div>
          </div>
        </>
      )}
    </form>
  );
}
