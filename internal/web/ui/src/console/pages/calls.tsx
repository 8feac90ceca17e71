// The inbox of tool calls: what waits for approval, what waits for programs, and what
// came of calls.
import { useState } from "preact/hooks";
import { onceKey } from "../../lib/api";
import type { AgentToolCall, OpenInput, ToolDecision } from "../../lib/contract";
import { count } from "../../lib/format";
import { Badge, Button, Time } from "../parts/basic";
import { Approvals } from "../parts/approvals";
import { CallDialog, inDoubt, Outcome } from "../parts/call";
import { type GivenOutput, OpenCalls } from "../parts/calls";
import { Filters, Pick } from "../parts/filter";
import { useAction } from "../parts/form";
import { Empty, Failure } from "../parts/load";
import { Pages, useList } from "../parts/table";
import { toast } from "../parts/toast";
import { useFilter } from "../parts/router";
import { useSession } from "../parts/session";

const outcomes = ["ok", "error", "denied", "unknown", "expired", "cancelled"];

export function ToolCalls() {
  const { api, may } = useSession();
  const writes = may("sessions:write");
  const [filter, change] = useFilter();
  const approvals = useList<OpenInput>("/inputs", 20, undefined, { kind: "tool_approval" });
  const inputs = useList<OpenInput>("/inputs", 20);
  const calls = useList<AgentToolCall>("/tool-calls", 30, undefined, { outcome: filter.outcome || undefined });
  const [shown, setShown] = useState<string>();
  const { busy, problem, run } = useAction({ repeats: true });
  const reload = () => {
    approvals.first.reload();
    inputs.first.reload();
    calls.first.reload();
  };
  const answer = async (input: OpenInput, what: object, said: string) => {
    const body = { inputId: input.id, ...what };
    if (await run(() => api.raw("POST", `/api-agents/${input.agentId}/sessions/${input.sessionId}/input`, { body, headers: { "Idempotency-Key": onceKey() } }))) toast(said);
    reload(); // somebody else may have answered
  };
  const give = (input: OpenInput, output: GivenOutput) => answer(input, { outputs: [output] }, "The output is given");
  const decide = (input: OpenInput, decisions: ToolDecision[]) => answer(input, { decisions }, decisions[0]!.decision === "approve" ? "Approved" : "Rejected");
  const waiting = (list: typeof inputs) => list.rows.length > 0 && <Badge meaning="waiting">{count(list.rows.reduce((n, input) => n + input.calls.filter((c) => !c.decision && c.status !== "done").length, 0)) + (list.hasMore ? " or more" : "")}</Badge>;
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
        <Pages
          of={approvals}
          label="Waiting for approval"
          empty={
            <Empty title="Nothing to approve">
              <p>Calls of tools that a person has to approve are shown here, with what exactly would be sent.</p>
            </Empty>
          }
          columns={[
            { title: "Calls", show: (input) => <Approvals calls={input.calls} busy={busy} decide={(decisions) => void decide(input, decisions)} /> },
            { title: "Session", show: (input) => <a href={`#/agents/${input.agentId}/sessions/${input.sessionId}`}>open</a> },
            { title: "Since", show: (input) => <Time at={input.createdAt} /> },
          ]}
        />
      </section>
      <section class="panel" aria-labelledby="waiting">
        <header>
          <h2 id="waiting">Waiting for a program</h2>
          {waiting(inputs)}
        </header>
        <Pages
          of={inputs}
          label="Waiting for a program"
          empty={
            <Empty title="Nothing waits">
              <p>Calls of tools that your programs carry out are shown here until their outputs are given.</p>
            </Empty>
          }
          columns={[
            { title: "Calls", show: (input) => <OpenCalls calls={input.calls} claimedUntil={input.claimedUntil} busy={busy} give={writes ? (output) => void give(input, output) : undefined} /> },
            { title: "Session", show: (input) => <a href={`#/agents/${input.agentId}/sessions/${input.sessionId}`}>open</a> },
            { title: "Since", show: (input) => <Time at={input.createdAt} /> },
          ]}
        />
      </section>
      <section class="panel" aria-labelledby="called">
        <header>
          <h2 id="called">Calls</h2>
        </header>
        <Filters names={["outcome"]} filter={filter} change={change}>
          <Pick name="outcome" label="Outcome" filter={filter} change={change} choices={[{ id: "", title: "All" }, ...outcomes.map((o) => ({ id: o, title: o }))]} />
        </Filters>
        <Pages
          of={calls}
          label="Calls"
          onPick={(c) => setShown(c.id)}
          empty={
            filter.outcome ? (
              <Empty title="Nothing fits the filter" />
            ) : (
              <Empty title="No calls yet">
                <p>An agent gets tools in its settings.</p>
              </Empty>
            )
          }
          columns={[
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
            {
              title: "",
              show: (c) => (
                <Button small kind={inDoubt(c) && !c.resolution ? "plain" : "quiet"} onClick={() => setShown(c.id)}>
                  {inDoubt(c) && !c.resolution && writes ? "Resolve" : "Details"}
                </Button>
              ),
            },
          ]}
        />
      </section>
      {shown && <CallDialog key={shown} id={shown} onClose={() => setShown(undefined)} onChanged={calls.first.reload} />}
    </>
  );
}
