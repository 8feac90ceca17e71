// The inbox of tool calls: pending approvals, calls that wait for programs, and
// outcomes.
import { useState } from "preact/hooks";
import { onceKey } from "../../lib/api";
import type { AgentToolCall, OpenInput, ToolDecision } from "../../lib/contract";
import { count } from "../../lib/format";
import { Approvals } from "../parts/approvals";
import { Badge, Button, Time } from "../parts/basic";
import { CallDialog, inDoubt, Outcome } from "../parts/call";
import { type GivenOutput, OpenCalls } from "../parts/calls";
import { useAction } from "../parts/form";
import { Failure } from "../parts/load";
import { useResource } from "../parts/resource";
import { useSession } from "../parts/session";
import type { Column } from "../parts/table";
import { toast } from "../parts/toast";

const outcomes = ["ok", "error", "denied", "unknown", "expired", "cancelled"];

const since: Column<OpenInput>[] = [
  { title: "Session", show: (input) => <a href={`#/agents/${input.agentId}/sessions/${input.sessionId}`}>open</a> },
  { title: "Since", show: (input) => <Time at={input.createdAt} /> },
];

export function ToolCalls() {
  const { api, may } = useSession();
  const writes = may("sessions:write");
  const { busy, problem, run } = useAction({ repeats: true });
  const approvals = useResource<OpenInput>({
    path: "/inputs",
    query: { kind: "tool_approval" },
    limit: 20,
    label: "Waiting for approval",
    empty: { title: "Nothing to approve", text: "Calls of tools that a person has to approve are shown here, with what exactly would be sent." },
    columns: [{ title: "Calls", show: (input) => <Approvals calls={input.calls} busy={busy} decide={(decisions) => void decide(input, decisions)} /> }, ...since],
  });
  const inputs = useResource<OpenInput>({
    path: "/inputs",
    limit: 20,
    label: "Waiting for a program",
    empty: { title: "Nothing waits", text: "Calls of tools that your programs carry out are shown here until their outputs are given." },
    columns: [{ title: "Calls", show: (input) => <OpenCalls calls={input.calls} claimedUntil={input.claimedUntil} busy={busy} give={writes ? (output) => void give(input, output) : undefined} /> }, ...since],
  });
  const doubtful = (c: AgentToolCall) => inDoubt(c) && !c.resolution;
  const [shown, setShown] = useState<AgentToolCall>();
  const calls = useResource<AgentToolCall>({
    path: "/tool-calls",
    limit: 30,
    label: "Calls",
    filters: [{ name: "outcome", label: "Outcome", choices: [{ id: "", title: "All" }, ...outcomes.map((o) => ({ id: o, title: o }))] }],
    onPick: setShown,
    empty: { title: "No calls yet", text: "An agent gets tools in its settings." },
    nothing: "Nothing fits the filter",
    columns: [
      {
        title: "Tool",
        show: (c) => (
          <>
            <a href={`#/agents/${c.agentId}/sessions/${c.sessionId}`}>{c.tool}</a>
            <div class="small muted mono clamp">{JSON.stringify(c.arguments)}</div>
          </>
        ),
      },
      { title: "Outcome", show: (c) => <Outcome of={c} /> },
      { title: "Result", show: (c) => <span class="clamp">{c.resultText}</span> },
      { title: "Attempts", number: true, show: (c) => c.attempts },
      { title: "Made", show: (c) => <Time at={c.createdAt} /> },
    ],
    actions: [{ title: (c) => (doubtful(c) && writes ? "Resolve" : "Details"), kind: (c) => (doubtful(c) ? "plain" : "quiet"), run: setShown }],
  });
  const reload = () => {
    for (const list of [approvals, inputs, calls]) list.pages.first.reload();
  };
  const answer = async (input: OpenInput, what: object, said: string) => {
    const body = { inputId: input.id, ...what };
    if (await run(() => api.raw("POST", `/api-agents/${input.agentId}/sessions/${input.sessionId}/input`, { body, headers: { "Idempotency-Key": onceKey() } }))) toast(said);
    reload(); // another user may have answered
  };
  const give = (input: OpenInput, output: GivenOutput) => answer(input, { outputs: [output] }, "The output is given");
  const decide = (input: OpenInput, decisions: ToolDecision[]) => answer(input, { decisions }, decisions[0]!.decision === "approve" ? "Approved" : "Rejected");
  const waiting = ({ pages }: typeof inputs) => pages.rows.length > 0 && <Badge meaning="waiting">{count(pages.rows.reduce((n, input) => n + input.calls.filter((c) => !c.decision && c.status !== "done").length, 0)) + (pages.hasMore ? " or more" : "")}</Badge>;
  return (
    <>
      <header class="head">
        <h1>Tool calls</h1>
        <div class="push">
          <Button small icon="again" onClick={reload}>
            Refresh
          </Button>
        </div>
      </header>
      {problem && <Failure problem={problem} />}
      <section class="panel" aria-labelledby="approvals">
        <header>
          <h2 id="approvals">Waiting for approval</h2>
          {waiting(approvals)}
        </header>
        {approvals.list}
      </section>
      <section class="panel" aria-labelledby="waiting">
        <header>
          <h2 id="waiting">Waiting for a program</h2>
          {waiting(inputs)}
        </header>
        {inputs.list}
      </section>
      <section class="panel" aria-labelledby="called">
        <header>
          <h2 id="called">Calls</h2>
        </header>
        {calls.list}
      </section>
      {shown && <CallDialog key={shown.id} id={shown.id} onClose={() => setShown(undefined)} onChanged={calls.pages.first.reload} />}
    </>
  );
}
