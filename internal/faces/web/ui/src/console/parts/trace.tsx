// A session's log as a tree: turns contain model calls, which contain tool calls. All
// content is shown as text.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Session, SessionEvent } from "../../lib/agents";
import { count, duration, moment, of as plural, size } from "../../lib/format";
import { Amount, Badge, type Meaning } from "./basic";
import { CallInLog } from "./call";
import { asProblem } from "./load";
import { ModelCall, pretty } from "./modelcall";
import { Picture } from "./picture";
import { EscapedText } from "./escapedtext";
import { withFilter } from "./router";
import { useSession } from "./session";
import { statusLook } from "./status";
import { WithheldTools } from "./withheldtools";

interface Row {
  id: string;
  at: string;
  until?: string;
  meaning?: Meaning;
  title: ComponentChildren;
  detail?: ComponentChildren;
  reads?: SessionEvent[]; // consecutive, as one row
  call?: { id: string; arguments: string; name: string; row?: string; done?: SessionEvent };
  step?: { id: string; done?: SessionEvent; model: string; number: number };
  rows: Row[];
}

interface Turn {
  number: number;
  at: string;
  until: string;
  steps: number;
  credits: number;
  rows: Row[];
}

// turnsOf groups a log. An event without a turn belongs to the last one.
export function turnsOf(events: SessionEvent[]): Turn[] {
  const turns: Turn[] = [];
  const steps = new Map<string, Row>();
  const calls = new Map<string, Row>();
  const turnAt = (e: SessionEvent): Turn => {
    let turn = turns.at(-1);
    if (!turn || (e.turn ?? 0) > turn.number) turns.push((turn = { number: e.turn || 1, at: e.createdAt, until: e.createdAt, steps: 0, credits: 0, rows: [] }));
    return turn;
  };
  for (const e of events) {
    const turn = turnAt(e);
    turn.until = e.createdAt;
    let rows = turn.rows;
    if (e.stepId) {
      let step = steps.get(e.stepId);
      if (!step) {
        step = { id: e.stepId, at: e.createdAt, title: "", step: { id: e.stepId, model: "", number: steps.size + 1 }, rows: [] };
        steps.set(e.stepId, step);
        turn.rows.push(step);
      }
      if (e.type === "step.started" || e.type === "step.completed") {
        step.step = { ...step.step!, model: e.model ?? "", number: e.step ?? step.step!.number, done: e.type === "step.completed" ? e : undefined };
        if (e.type === "step.completed") {
          step.until = e.createdAt;
          turn.steps++;
          turn.credits += e.creditsMicro ?? 0;
        }
        continue;
      }
      rows = step.rows;
    }
    const last = rows.at(-1);
    if (e.type === "drive.read") {
      if (last?.reads) last.reads.push(e);
      else rows.push({ id: String(e.seq), at: e.createdAt, title: "", reads: [e], rows: [] });
    } else if (e.type === "tool.called") {
      const row: Row = { id: String(e.seq), at: e.createdAt, meaning: "info", title: "", call: { id: e.callId ?? "", name: e.name ?? "", arguments: e.arguments ?? "", row: e.toolCallId }, rows: [] };
      calls.set(e.stepId + " " + e.callId, row);
      rows.push(row);
    } else if (e.type === "tool.completed") {
      let row = calls.get(e.stepId + " " + e.callId);
      if (!row) {
        // It was never called, for example because it was not approved.
        row = { id: String(e.seq), at: e.createdAt, title: "", call: { id: e.callId ?? "", name: e.name ?? "", arguments: "", row: e.toolCallId }, rows: [] };
        rows.push(row);
      }
      if (row.call) {
        row.call.done = e;
        row.until = e.createdAt;
        row.meaning = e.outcome && e.outcome !== "ok" && e.outcome !== "error" ? "warning" : e.isError ? "failed" : "ok";
      }
    } else {
      const row = plain(e);
      if (row) rows.push({ id: String(e.seq), at: e.createdAt, rows: [], ...row });
    }
  }
  return turns;
}

// plain returns an event with its own row; undefined for events that are shown
// elsewhere, and for unknown types.
function plain(e: SessionEvent): Pick<Row, "title" | "detail" | "meaning"> | undefined {
  switch (e.type) {
    case "session.created":
      return { title: "Session created" };
    case "session.upgraded":
      return { title: `Moved to version ${e.agentVersion} of the agent` };
    case "person.requested":
      return { meaning: "waiting", title: "The visitor asks for a person" };
    case "session.compacted":
      return e.used
        ? { title: `The beginning was summarized: ${(e.tokensAfter ?? 0).toLocaleString("en")} tokens instead of ${(e.tokensBefore ?? 0).toLocaleString("en")}`, detail: e.text }
        : { title: "The summary was not used; the oldest turns are left out" };
    case "reply.rejected":
      return { meaning: "warning", title: "The answer does not fit the reply schema", detail: e.problem };
    case "session.status": {
      // A turn that starts is shown by its first model call.
      if (e.status === "running" || (e.status === "queued" && !e.statusReason)) return undefined;
      const [meaning, word] = statusLook(e.status as Session["status"]);
      return { meaning, title: word[0]!.toUpperCase() + word.slice(1), detail: e.statusReason };
    }
    case "turn.recovered":
      return { meaning: "warning", title: `Turn ${e.turn} started again`, detail: `attempt ${e.attempt}` };
    case "drive.written":
      return { meaning: "ok", title: `Wrote to the drive: ${e.outcome ?? "done"}`, detail: e.path };
    case "input.requested":
      return { meaning: "waiting", title: e.kind === "tool_call" ? "Waits for a program" : e.kind === "tool_approval" ? "Waits for an approval" : e.kind === "tool_confirmation" ? "Waits for the visitor" : "Asked the user", detail: e.prompt };
    case "input.answered":
      if (e.kind === "tool_call") return { meaning: "ok", title: "The outputs were given" };
      if (e.kind === "tool_approval") return { meaning: "ok", title: "Decided" };
      if (e.kind === "tool_confirmation") return { meaning: "ok", title: "The visitor decided" };
      return { meaning: "ok", title: e.defaultUsed ? "The default answer was used" : "Answered", detail: e.answer };
    case "input.expired":
      return { meaning: "failed", title: "No one answered in time" };
    case "tools.withheld":
      return { meaning: "warning", title: "Tools are withheld", detail: e.tools && <WithheldTools of={e.tools} /> };
    case "error":
      return { meaning: "failed", title: e.message ?? "Failed", detail: <code>{e.code}</code> };
  }
  return undefined;
}

const since = (from: string, to: string) => Math.max(0, new Date(to).getTime() - new Date(from).getTime());

// An At shows how long a row took, with a bar on the scale of the turn, or else its time from the
// start of the turn. The exact time is its title.
function At({ from, at, until, whole }: { from: string; at: string; until?: string; whole: number }) {
  return (
    <time dateTime={at} title={moment(at)} class="nowrap">
      {until && since(at, until) > 0 ? <b>{duration(since(at, until))}</b> : "+" + duration(since(from, at))}
      {until && whole > 0 && (
        <svg class="span" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
          <rect x={Math.min(99, (100 * since(from, at)) / whole)} width={Math.max(1, (100 * since(at, until)) / whole)} height="1" />
        </svg>
      )}
    </time>
  );
}

// A Result is the answer of a tool. It shows an image only while the file is unchanged.
export interface Result {
  text: string;
  image?: { path: string; blob?: Blob };
}

// ResultOf reads the answer of a tool; undefined before the answer.
export type ResultOf = (stepId: string, callId: string) => Promise<Result | undefined>;

// Of identifies the session whose model calls can be opened.
export interface Of {
  path: string;
  agentId: string;
  version?: number; // of the agent; undefined for a draft
  opened?: string; // the id of the model call that is open initially
  messageOf: (turn: number) => string | undefined; // of the user
}

// Trace opens the last turn, or the one with the model call that is opened.
export function Trace({ of, turns, resultOf, running }: { of: Of; turns: Turn[]; resultOf: ResultOf; running: boolean }) {
  const first = turns.findIndex((t) => t.rows.some((r) => r.step && r.id === of.opened));
  const shown = first < 0 ? turns.length - 1 : first;
  return (
    <div class="trace">
      {turns.map((t, i) => (
        <details key={t.number} open={i === shown}>
          <summary>
            <b>Turn {t.number}</b>{" "}
            <span class="small muted">
              {plural(t.steps, "model call")}, <Amount of={t.credits} /> credits{running && i === turns.length - 1 ? "" : ", " + duration(since(t.at, t.until)) + " from its message to its end"}
            </span>
          </summary>
          {!(running && i === turns.length - 1) && (
            <p class="scale small muted" aria-hidden="true">
              <span>0</span>
              <span>{duration(since(t.at, t.until))}</span>
            </p>
          )}
          <Rows of={t.rows} session={of} from={t.at} whole={since(t.at, t.until)} resultOf={resultOf} />
        </details>
      ))}
    </div>
  );
}

function Rows({ of, session, from, whole, resultOf }: { of: Row[]; session: Of; from: string; whole: number; resultOf: ResultOf }) {
  return (
    <ol class="timeline">
      {of.map((r) => (
        <li key={r.id} class={r.step ? (r.step.done ? "ok" : "info") : (r.meaning ?? "")}>
          <At from={from} at={r.at} until={r.until} whole={whole} />
          {r.step ? <Step row={r} of={session} /> : r.reads ? <Reads of={r.reads} /> : r.call ? <Call row={r} resultOf={resultOf} /> : <div>{r.title}</div>}
          {r.detail && <div class="small muted breaks">{r.detail}</div>}
          {r.rows.length > 0 && <Rows of={r.rows} session={session} from={from} whole={whole} resultOf={resultOf} />}
        </li>
      ))}
    </ol>
  );
}

function Step({ row, of: { messageOf, ...of } }: { row: Row; of: Of }) {
  const { done, model, number } = row.step!;
  return (
    <div>
      <div>
        Model call {number} <span class="small muted">{model}</span>
      </div>
      {done && (
        <div class="small muted">
          {done.usage && `${count(done.usage.inputTokens)} in, ${count(done.usage.outputTokens)} out`}
          {done.creditsMicro !== undefined && (
            <>
              {" · "}
              <Charged id={row.step!.id} credits={done.creditsMicro} />
            </>
          )}
        </div>
      )}
      {done && <ModelCall {...of} id={row.step!.id} message={messageOf(Number(row.step!.id.split(".")[1]))} />}
    </div>
  );
}

// Charged shows the cost of a model call, with a link to its receipt, which has the same id.
function Charged({ id, credits }: { id: string; credits: number }) {
  const { may } = useSession();
  const shown = (
    <>
      <Amount of={credits} /> credits
    </>
  );
  if (credits === 0 || !may("usage:read")) return shown;
  return (
    <a href={"#/" + withFilter("credits", { id })} title="Open the receipt">
      {shown}
    </a>
  );
}

export const lines = (e: SessionEvent): string =>
  e.place ? `, ${e.place}` : e.fromLine ? `, lines ${e.fromLine} to ${e.toLine ?? e.fromLine}` : "";

function Reads({ of }: { of: SessionEvent[] }) {
  if (of.length === 1) {
    return (
      <div>
        Read from the drive
        <div class="small muted breaks">
          {of[0]!.path}
          {lines(of[0]!)}
        </div>
      </div>
    );
  }
  return (
    <details>
      <summary>Read {plural(of.length, "file")}</summary>
      <ul class="small muted plainlist">
        {of.map((e) => (
          <li class="breaks">
            {e.path}
            {lines(e)}
          </li>
        ))}
      </ul>
    </details>
  );
}

function Call({ row, resultOf }: { row: Row; resultOf: ResultOf }) {
  const { call } = row;
  const [result, setResult] = useState<Result>();
  const { done } = call!;
  const open = (shown: boolean) => {
    if (!shown || result !== undefined || !done) return;
    resultOf(done.stepId ?? "", call!.id).then(
      (got) => setResult(got ?? { text: "No result is stored." }),
      (error) => setResult({ text: asProblem(error).message }),
    );
  };
  return (
    <details onToggle={(e) => open(e.currentTarget.open)}>
      <summary>
        <code>{call!.name}</code> {done?.outcome && done.outcome !== "ok" && done.outcome !== "error" ? <Badge meaning="warning">{done.outcome}</Badge> : done?.isError && <Badge meaning="failed">failed</Badge>}
        {done && !done.isError && done.bytes !== undefined && <span class="small muted">{size(done.bytes)}</span>}
      </summary>
      {call!.row && <CallInLog id={call!.row} />}
      {(call!.arguments || !call!.row) && <p class="small muted">Arguments</p>}
      <pre class="io" tabIndex={0}>
        {call!.arguments ? <EscapedText text={pretty(call!.arguments)} /> : "none"}
      </pre>
      {done && (
        <>
          <p class="small muted">Result</p>
          <pre class="io" tabIndex={0}>
            {result === undefined ? "Loading" : <EscapedText text={pretty(result.text)} />}
          </pre>
          {result?.image?.blob && <Picture of={result.image.blob} name={result.image.path} />}
          {result?.image && !result.image.blob && <p class="small muted">This version of the image is no longer there.</p>}
        </>
      )}
    </details>
  );
}
