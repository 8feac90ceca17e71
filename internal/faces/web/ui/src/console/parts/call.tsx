// One tool call: the request, the result, and the decision.
import { useState } from "preact/hooks";
import { effectsWords } from "../../lib/connections";
import type { AgentToolCall, PendingToolCall, ResolveToolCall } from "../../lib/contract";
import { exactText, indented, membersOf, valueText, visible } from "../../lib/exact";
import { duration, size } from "../../lib/format";
import { useSession } from "./session";
import { Badge, Button, Id, type Meaning, Notice, Time } from "./basic";
import { Dialog } from "./dialog";
import { TextField } from "./fields";
import { Facts } from "./facts";
import { FormDialog, useAction } from "./form";
import { States, useLoad } from "./load";
import { EscapedText } from "./escapedtext";
import { withFilter } from "./router";
import { toast } from "./toast";

// A ReadCall is a call with the stored text of its arguments.
interface ReadCall {
  call: AgentToolCall;
  text: string;
}

function useCall(id: string) {
  const { api } = useSession();
  return useLoad<ReadCall>(
    async (signal) => {
      const call = await api.get<AgentToolCall>("/tool-calls/" + id, undefined, signal);
      return { call, text: indented(exactText(call.arguments)) };
    },
    [api, id],
  );
}

const folded = 8192; // characters of arguments that are shown initially
const longest = 400; // characters of a value in a table

// Arguments shows the arguments of a call as a table of names and values. Long values are
// cut; the exact text is shown on demand. Arguments that a list leaves out are read.
export function Arguments({ of: c }: { of: PendingToolCall }) {
  if (c.argumentsStart === undefined) return <ArgumentTable text={indented(exactText(c.arguments))} tool={c.tool} />;
  return <ReadArguments of={c} />;
}

function ReadArguments({ of: c }: { of: PendingToolCall }) {
  const call = useCall(c.callId);
  return <States of={call}>{({ text }) => <ArgumentTable text={text} tool={c.tool} />}</States>;
}

function ArgumentTable({ text, tool }: { text: string; tool: string }) {
  const label = `Arguments of ${tool}`;
  const [all, setAll] = useState(false);
  const values = membersOf(text).map(([name, json]) => ({ name, text: valueText(json) }));
  return (
    <>
      {all ? (
        <Exact text={text} label={label} />
      ) : values.length > 0 ? (
        <table class="arguments" aria-label={label}>
          <tbody>
            {values.map((v) => (
              <tr>
                <th scope="row">
                  <EscapedText text={visible(v.name)} />
                </th>
                <td title={v.text.length > longest ? visible(v.text.slice(0, folded)) : undefined}>
                  <EscapedText text={visible(beginning(v.text, longest))} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="small muted">No arguments</p>
      )}
      {values.some((v) => v.text.length > longest) && (
        <div>
          <Button small onClick={() => setAll(!all)}>
            {all ? "Show less" : `Show all ${size(new Blob([text]).size)}`}
          </Button>
        </div>
      )}
    </>
  );
}

// beginning returns a text with at most the given number of characters and an ellipsis.
const beginning = (text: string, most: number): string => (text.length > most ? text.slice(0, most).replace(/[\ud800-\udbff]$/, "") + "…" : text);

const Exact = ({ text, label }: { text: string; label: string }) => (
  <pre class="io" tabIndex={0} aria-label={label}>
    <EscapedText text={visible(text)} />
  </pre>
);

function Text({ text, label }: { text: string; label: string }) {
  const [all, setAll] = useState(false);
  const long = text.length > folded;
  return (
    <>
      <Exact text={long && !all ? text.slice(0, folded) : text} label={label} />
      {long && (
        <div class="row">
          <Button small onClick={() => setAll(!all)}>
            {all ? "Fold" : `Show all ${size(new Blob([text]).size)}`}
          </Button>
          {!all && <span class="small muted">Only the beginning is shown.</span>}
        </div>
      )}
    </>
  );
}

const outcomes: Record<NonNullable<AgentToolCall["outcome"]>, Meaning> = { ok: "ok", error: "failed", denied: "refused", unknown: "warning", expired: "warning", cancelled: "none" };

// Outcome shows the outcome of a call, or its state.
export function Outcome({ of: c }: { of: AgentToolCall }) {
  return (
    <>
      <Badge meaning={c.outcome ? (outcomes[c.outcome] ?? "none") : "waiting"}>{c.outcome ?? c.status}</Badge>
      {c.resolution && <div class="small muted">{c.resolution.outcome === "done" ? "it was done" : "it was not done"}</div>}
    </>
  );
}

// inDoubt reports whether the outcome of a call is unknown.
export const inDoubt = (c: AgentToolCall): boolean => c.outcome === "unknown" || c.outcome === "expired";

const decisions: Record<NonNullable<AgentToolCall["approval"]>["decision"], string> = { approve: "approved", reject: "rejected", expired: "no decision in time", remembered: "approved for the session before" };

// CallFacts shows the details of a call.
export function CallFacts({ of: { call: c, text } }: { of: ReadCall }) {
  return (
    <>
      <Facts
        of={[
          ["Outcome", <Outcome of={c} />],
          c.needsConfirmation && ["Visitor", c.confirmation ? <>{{ approve: "confirmed", reject: "declined", expired: "did not answer in time" }[c.confirmation.decision]} <Time at={c.confirmation.at} /></> : "has not answered yet", "breaks"],
          (c.approval || c.needsApproval) && [
            "Decision",
            c.approval ? (
              <>
                {decisions[c.approval.decision]} <Time at={c.approval.at} />
                {c.approval.by && (
                  <>
                    {" "}
                    by <code>{c.approval.by}</code>
                  </>
                )}
                {c.approval.comment && <div>“{c.approval.comment}”</div>}
              </>
            ) : (
              "not yet"
            ),
            "breaks",
          ],
          c.sessionId && [
            "Session",
            <>
              <a href={"#/" + withFilter(`agents/${c.agentId}/sessions/${c.sessionId}`, { step: `${c.sessionId}.${c.turn}.${c.step}` })}>
                turn {c.turn}, model call {c.step}
              </a>
              , <Time at={c.createdAt} />
            </>,
          ],
          ["Effects", effectsWords[c.effects]],
          ["Attempts", c.attempts + (c.durationMs === null ? "" : `, ${duration(c.durationMs)}`)],
          c.errorCode && ["Error", <code>{c.errorCode}</code>],
          c.resolution && [
            "Resolved",
            <>
              {c.resolution.outcome === "done" ? "it was done" : "it was not done"}, <Time at={c.resolution.at} />
              {c.resolution.note && <div>“{c.resolution.note}”</div>}
            </>,
            "breaks",
          ],
          ["Id", <Id of={c.id} />],
        ]}
      />
      <h3>Arguments</h3>
      <Text text={text} label="Arguments" />
      {c.resultText !== null && (
        <>
          <h3>Result</h3>
          <pre class="io" tabIndex={0} aria-label="Result">
            <EscapedText text={visible(c.resultText)} />
          </pre>
        </>
      )}
      {c.lateOutput !== null && (
        <>
          <h3>Too late</h3>
          <pre class="io" tabIndex={0} aria-label="Late output">
            <EscapedText text={visible(c.lateOutput)} />
          </pre>
        </>
      )}
    </>
  );
}

// CallInLog shows the outcome of a call in a session's log.
export function CallInLog({ id }: { id: string }) {
  const [shown, setShown] = useState(false);
  return (
    <div>
      <Button small kind="quiet" onClick={() => setShown(true)}>
        Outcome, attempts, decision
      </Button>
      {shown && <CallDialog id={id} onClose={() => setShown(false)} />}
    </div>
  );
}

export function CallDialog({ id, onClose, onChanged }: { id: string; onClose: () => void; onChanged?: () => void }) {
  const { may } = useSession();
  const call = useCall(id);
  const [resolving, setResolving] = useState(false);
  const c = call.data?.call;
  if (resolving && c) {
    return (
      <Resolve
        of={c}
        onClose={() => setResolving(false)}
        onDone={() => {
          setResolving(false);
          call.reload();
          onChanged?.();
        }}
      />
    );
  }
  return (
    <Dialog
      title={c ? `Call of ${c.tool}` : "Call"}
      wide
      drawer
      onClose={onClose}
      footer={
        c &&
        inDoubt(c) &&
        may("sessions:write") && (
          <Button kind="main" onClick={() => setResolving(true)}>
            Resolve
          </Button>
        )
      }
    >
      <States of={call}>
        {(read) => (
          <>
            {inDoubt(read.call) && !read.call.resolution && (
              <Notice meaning="waiting">
                <p>
                  <b>It is unknown whether the call was executed.</b> Check where it would have had its effect, then record what you found.
                </p>
              </Notice>
            )}
            <CallFacts of={read} />
          </>
        )}
      </States>
    </Dialog>
  );
}

function Resolve({ of: c, onDone, onClose }: { of: AgentToolCall; onDone: () => void; onClose: () => void }) {
  const { api } = useSession();
  const [outcome, setOutcome] = useState<ResolveToolCall["outcome"]>();
  const [note, setNote] = useState("");
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      const body: ResolveToolCall = { outcome: outcome!, note: note.trim() || null };
      await api.raw("POST", `/tool-calls/${c.id}/resolve`, { body });
      toast("Noted");
      onDone();
    });
  return (
    <FormDialog id="resolve" title={`What happened to ${c.tool}?`} submit="Note it" ready={!!outcome} action={action} onSubmit={submit} onClose={onClose}>
      <p>It does not change the turn; later turns of the session receive it.</p>
      <fieldset class="plainset">
        <legend>I have checked</legend>
        <label class="check">
          <input type="radio" name="outcome" checked={outcome === "done"} onChange={() => setOutcome("done")} /> It was done
        </label>
        <label class="check">
          <input type="radio" name="outcome" checked={outcome === "not_done"} onChange={() => setOutcome("not_done")} /> It was not done
        </label>
      </fieldset>
      <TextField id="resolve-note" label="Note" hint="Optional." maxLength={2000} value={note} onChange={setNote} />
    </FormDialog>
  );
}
