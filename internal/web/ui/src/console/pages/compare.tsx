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
  const row = (title: string, show: (r: Run) => ComponentChildren) => (
    <tr>
      <th scope="row">{title}</th>
      {runs.map((r) => (
        <td>{show(r)}</td>
      ))}
    </tr>
  );
  const of = (r: Run, turn: number, role: string) => r.messages.filter((m) => m.turn === turn && m.role === role);
  const took = ({ session: { turn } }: Run) => (turn.startedAt && turn.finishedAt ? duration(new Date(turn.finishedAt).getTime() - new Date(turn.startedAt).getTime()) : "");
  return (
    <div class="scrolls" tabIndex={0} role="group" aria-label="Both sessions">
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
          {row("Status", (r) => <Status of={r.session.status} />)}
          {row("Version", (r) => (r.session.draft ? "draft" : r.session.agentVersion))}
          {row("Model", (r) => r.session.model.served ?? r.session.model.requested)}
          {row("Model calls", (r) => r.session.usage.steps)}
          {row("Tokens", (r) => `${count(r.session.usage.inputTokens)} in, ${count(r.session.usage.outputTokens)} out`)}
          {row("Credits", (r) => <Amount of={r.session.usage.creditsMicro} as="exact" />)}
          {row("Last turn took", took)}
          {Array.from({ length: turns }, (_, i) => i + 1).map((turn) => (
            <>
              {row(`${turn}. Question`, (r) => of(r, turn, "user").map((m) => <p class="said">{m.text}</p>))}
              {row(`${turn}. Tools`, (r) => {
                const called = r.events.filter((e) => e.type === "tool.called" && turnOf(e.stepId) === turn).map((e) => e.name ?? "");
                const names = [...new Set(called)];
                return called.length > 0 && `${plural(called.length, "call")}: ${names.map((n) => `${n}${called.filter((c) => c === n).length > 1 ? " × " + called.filter((c) => c === n).length : ""}`).join(", ")}`;
              })}
              {row(`${turn}. Answer`, (r) => of(r, turn, "assistant").map((m) => <ReplyText text={m.text} streaming={false} />))}
            </>
          ))}
        </tbody>
      </table>
    </div>
  );
}
