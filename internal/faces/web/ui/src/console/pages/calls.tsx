// The inbox of tool calls: pending approvals, calls that wait for programs, and all calls with their
// outcomes.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { onceKey } from "../../lib/api";
import type { AgentToolCall, OpenInput, ToolDecision } from "../../lib/contract";
import { exactText } from "../../lib/exact";
import { count } from "../../lib/format";
import { Approvals, KeysHint } from "../parts/approvals";
import { Badge, Button, Time } from "../parts/basic";
import { CallDialog, inDoubt, Outcome } from "../parts/call";
import { type GivenOutput, OpenCalls } from "../parts/calls";
import { useAction } from "../parts/form";
import { useInbox } from "../parts/inbox";
import { Empty, Failure, States, useLive } from "../parts/load";
import { useResource } from "../parts/resource";
import { sources } from "../parts/picker";
import { useFilter } from "../parts/router";
import { useSession } from "../parts/session";
import { useList } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { toast } from "../parts/toast";

const outcomes = ["ok", "error", "denied", "unknown", "expired", "cancelled"];

const every = 15_000; // milliseconds between two reads of the lists

// Asker shows which session an input belongs to, for whom it runs, and since when it waits.
function Asker({ of: input }: { of: OpenInput }) {
  return (
    <div class="asker">
      <a href={`#/agents/${input.agentId}/sessions/${input.sessionId}`} class="clamp">
        {input.sessionTitle ?? "Untitled session"}
      </a>
      <div class="small muted breaks">
        <a href={"#/agents/" + input.agentId}>{input.agentName}</a>
        {input.externalUserId && ` · end user ${input.externalUserId}`} · asked <Time at={input.createdAt} />
      </div>
    </div>
  );
}

// Inputs lists what waits, the oldest first, each with its asker.
function Inputs({ of: inputs, hasMore, more, busy, show, empty }: { of: OpenInput[]; hasMore: boolean; more: () => void; busy: boolean; show: (input: OpenInput) => ComponentChildren; empty: ComponentChildren }) {
  if (inputs.length === 0) return <>{empty}</>;
  return (
    <>
      <ul class="inbox">
        {inputs.map((input) => (
          <li key={input.id}>
            <Asker of={input} />
            {show(input)}
          </li>
        ))}
      </ul>
      {hasMore && (
        <div class="more">
          <Button onClick={more} disabled={busy}>
            Show more
          </Button>
        </div>
      )}
    </>
  );
}

export function ToolCalls() {
  const { api, may } = useSession();
  const writes = may("sessions:write");
  const decides = writes && may("approvals:write");
  const { busy, problem, run } = useAction({ repeats: true });
  const [filter, change] = useFilter();
  const [round, setRound] = useState(0); // of the list of all calls
  const inbox = useInbox();
  const approvals = inbox.inputs;
  const programs = useList<OpenInput>("/inputs", 20);
  // More pages that were read would be lost.
  useLive(programs.first, every, programs.pages === 1);
  const reload = () => {
    for (const list of [approvals, programs.first]) list.reload();
    setRound((n) => n + 1);
  };
  const answer = async (input: OpenInput, what: object, said: string) => {
    const body = { inputId: input.id, ...what };
    if (await run(() => api.raw("POST", `/api-agents/${input.agentId}/sessions/${input.sessionId}/input`, { body, headers: { "Idempotency-Key": onceKey() } }))) toast(said);
    reload(); // another user may have answered
  };
  const give = (input: OpenInput, output: GivenOutput) => answer(input, { outputs: [output] }, "The output was sent");
  const decide = (input: OpenInput, decisions: ToolDecision[]) => answer(input, { decisions }, decisions[0]!.decision === "approve" ? "Approved" : "Rejected");
  const forPrograms = programs.rows.reduce((n, input) => n + input.calls.filter((c) => c.status !== "done").length, 0);
  // The page begins with what waits, and stays there when it is done.
  const first = useRef<string | undefined>(undefined);
  if (!first.current && approvals.data && programs.first.data) first.current = inbox.calls === "" && forPrograms > 0 ? "programs" : "approvals";
  const shown = ["approvals", "programs", "all"].includes(filter.show ?? "") ? filter.show! : (first.current ?? "approvals");
  return (
    <>
      <header class="head">
        <h1>Tool calls</h1>
        <div class="push">
          <Button icon="again" onClick={reload}>
            Refresh
          </Button>
        </div>
      </header>
      {problem && <Failure problem={problem} />}
      <section class="panel" aria-label="Tool calls">
        <header>
          <Tabs
            label="Tool calls"
            active={shown}
            onChange={(show) => change({ show })}
            tabs={[
              { id: "approvals", title: "Approvals", mark: inbox.calls && <Badge meaning="waiting">{inbox.calls}</Badge> },
              { id: "programs", title: "Programs", mark: forPrograms > 0 && <Badge>{count(forPrograms) + (programs.hasMore ? "+" : "")}</Badge> },
              { id: "all", title: "All calls" },
            ]}
          />
          {shown === "approvals" && decides && inbox.calls && <KeysHint />}
        </header>
        {shown === "all" && <All round={round} />}
        {shown === "programs" && (
          <States of={programs.first}>
            {() => (
              <Inputs
                of={programs.rows}
                hasMore={programs.hasMore}
                more={programs.next}
                busy={programs.busy}
                show={(input) => <OpenCalls calls={input.calls} claimedUntil={input.claimedUntil} busy={busy} give={writes ? (output) => void give(input, output) : undefined} />}
                empty={
                  <Empty title="Nothing to do">
                    <p>Tool calls for your programs stay here until they have an output.</p>
                  </Empty>
                }
              />
            )}
          </States>
        )}
        {shown === "approvals" && (
          <States of={approvals}>
            {({ data, hasMore }) => (
              <Inputs
                of={data}
                hasMore={hasMore}
                more={inbox.more}
                busy={approvals.loading}
                show={(input) => <Approvals calls={input.calls} busy={busy} decide={(decisions) => void decide(input, decisions)} />}
                empty={
                  <Empty title="Nothing to approve">
                    <p>When an agent calls a tool that a person must approve, the call appears here with the agent, the end user and the exact arguments.</p>
                  </Empty>
                }
              />
            )}
          </States>
        )}
      </section>
    </>
  );
}

const doubtful = (c: AgentToolCall) => inDoubt(c) && !c.resolution;

// All lists the calls of all tools, the newest first.
function All({ round }: { round: number }) {
  const { may } = useSession();
  const writes = may("sessions:write");
  const [shown, setShown] = useState<AgentToolCall>();
  const calls = useResource<AgentToolCall>({
    path: "/tool-calls",
    limit: 30,
    changed: round,
    label: "Calls",
    filters: [...(may("agents:read") ? [{ name: "agentId", label: "Agent", source: sources.agents, fixed: [{ id: "", title: "All" }] }] : []), { name: "outcome", label: "Outcome", choices: [{ id: "", title: "All" }, ...outcomes.map((o) => ({ id: o, title: o }))] }],
    onPick: setShown,
    empty: { title: "No calls yet", text: "An agent gets tools in its settings." },
    nothing: "No matches",
    columns: [
      {
        title: "Tool",
        show: (c) => (
          <>
            <a href={`#/agents/${c.agentId}/sessions/${c.sessionId}`}>{c.tool}</a>
            {c.agentName && <div class="small muted">{c.agentName}</div>}
            <div class="small muted mono clamp">{exactText(c.arguments)}</div>
          </>
        ),
      },
      { title: "Outcome", keep: 2, show: (c) => <Outcome of={c} /> },
      { title: "Result", show: (c) => <span class="clamp">{c.resultText}</span> },
      { title: "Attempts", number: true, show: (c) => c.attempts },
      { title: "Made", keep: 1, show: (c) => <Time at={c.createdAt} /> },
    ],
    actions: [{ title: (c) => (doubtful(c) && writes ? "Resolve" : "Details"), kind: (c) => (doubtful(c) ? "plain" : "quiet"), run: setShown }],
  });
  useLive(calls.pages.first, every, calls.pages.rows.length === calls.pages.first.data?.data.length);
  return (
    <>
      {calls.list}
      {shown && <CallDialog key={shown.id} id={shown.id} onClose={() => setShown(undefined)} onChanged={calls.pages.first.reload} />}
    </>
  );
}
