// Two sessions of an agent side by side: their figures, and turn by turn what was asked, done and answered.
import type { ComponentChildren } from "preact";
import type { Session, SessionEvent, SessionMessage } from "../../lib/agents";
import { count, duration, of as plural } from "../../lib/format";
import type { SessionEventList } from "../../lib/contract";
import type { List } from "../../lib/types";
import { Amount } from "../parts/basic";
import { States, useLoad } from "../parts/load";
import { ReplyText } from "../parts/reply";
import { Status } from "../parts/status";
import { useSession } from "../parts/session";

interface Run {
  session: Session;
  messages: SessionMessage[];
  events: SessionEvent[];
}

// maxPages limits what is read of a session.
const maxPages = 20;

export function Comparison({ agentId, ids }: { agentId: string; ids: [string, string] }) {
  const { api } = useSession();
  const base = `/api-agents/${agentId}/sessions/`;
  const read = async (id: string, signal: AbortSignal): Promise<Run> => {
    const messages: SessionMessage[] = [];
    for (let cursor: string | undefined, page = 0; page < maxPages; page++) {
      const got = await api.get<List<SessionMessage>>(base + id + "/messages", { limit: 100, cursor }, signal);
      messages.push(...got.data);
      if (!(cursor = got.nextCursor ?? undefined)) break;
    }
    const events: SessionEvent[] = [];
    for (let page = 0; page < maxPages; page++) {
      const got = await api.get<SessionEventList>(base + id + "/events", { limit: 1000, after: events.at(-1)?.seq }, signal);
      events.push(...got.data);
      if (!got.hasMore) break;
    }
    const session = await api.get<Session>(base + id, undefined, signal);
    return { session, messages, events };
  };
  const runs = useLoad((signal) => Promise.all(ids.map((id) => read(id, signal))), [api, agentId, ...ids]);
  return (
    <section class="panel" aria-label="Comparison of two sessions">
      <States of={runs}>{(two) => <Sides agentId={agentId} of={two} />}</States>
    </section>
  );
}

// turnOf returns the turn in the id of a step.
const turnOf = (stepId = "") => Number(stepId.split(".")[1]);

function Sides({ agentId, of: runs }: { agentId: string; of: Run[] }) {
  const turns = Math.max(...runs.map((r) => Math.max(r.session.turn.number, ...r.messages.map((m) => m.turn ?? 0))));
  // A row is quiet if both sessions have the same value; the second of two numbers has the change.
  const row = (title: string, value: (r: Run) => string | number, show: (r: Run) => ComponentChildren = value) => {
    const [a, b] = runs.map(value);
    const change = typeof a === "number" && typeof b === "number" && a > 0 && a !== b && `${b > a ? "+" : "−"}${Math.round((100 * Math.abs(b - a)) / a)} %`;
    return (
      <tr class={a === b ? "same" : ""}>
        <th scope="row">{title}</th>
        {runs.map((r, i) => (
          <td>
            {show(r)} {i === 1 && change && <span class="small muted nowrap">{change}</span>}
          </td>
        ))}
      </tr>
    );
  };
  const of = (r: Run, turn: number, role: string) => r.messages.filter((m) => m.turn === turn && m.role === role);
  const said = (r: Run, turn: number, role: string) => of(r, turn, role).map((m) => m.text).join("\n");
  const took = ({ session: { turn } }: Run) => (turn.startedAt && turn.finishedAt ? new Date(turn.finishedAt).getTime() - new Date(turn.startedAt).getTime() : 0);
  return (
    <table class="compare">
      <thead>
        <tr>
          <td />
          {runs.map((r) => (
            <th scope="col">
              <a href={`#/agents/${agentId}/sessions/${r.session.id}`}>{r.session.title || r.session.id}</a>
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {row("Status", (r) => r.session.status, (r) => <Status of={r.session.status} />)}
        {row("Version", (r) => (r.session.draft ? "draft" : String(r.session.agentVersion)))}
        {row("Model", (r) => r.session.model.served ?? r.session.model.requested)}
        {row("Model calls", (r) => r.session.usage.steps)}
        {row("Tokens in", (r) => r.session.usage.inputTokens, (r) => count(r.session.usage.inputTokens))}
        {row("Tokens out", (r) => r.session.usage.outputTokens, (r) => count(r.session.usage.outputTokens))}
        {row("Credits", (r) => r.session.usage.creditsMicro, (r) => <Amount of={r.session.usage.creditsMicro} as="ledger" />)}
        {row("Last turn took", took, (r) => took(r) > 0 && duration(took(r)))}
        {Array.from({ length: turns }, (_, i) => i + 1).map((turn) => (
          <>
            {row(`${turn}. Question`, (r) => said(r, turn, "user"), (r) => of(r, turn, "user").map((m) => <p class="said">{m.text}</p>))}
            {row(`${turn}. Tools`, (r) => {
              const called = r.events.filter((e) => e.type === "tool.called" && turnOf(e.stepId) === turn).map((e) => e.name ?? "");
              const names = [...new Set(called)];
              return called.length === 0 ? "" : `${plural(called.length, "call")}: ${names.map((n) => `${n}${called.filter((c) => c === n).length > 1 ? " × " + called.filter((c) => c === n).length : ""}`).join(", ")}`;
            })}
            {row(`${turn}. Answer`, (r) => said(r, turn, "assistant"), (r) => of(r, turn, "assistant").map((m) => <ReplyText text={m.text} streaming={false} />))}
          </>
        ))}
      </tbody>
    </table>
  );
}
