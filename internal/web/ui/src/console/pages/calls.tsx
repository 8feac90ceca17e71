// What waits for programs, and what they have done.
import { onceKey } from "../../lib/api";
import type { AgentToolCall, OpenInput } from "../../lib/contract";
import { count } from "../../lib/format";
import { Badge, Button, Time } from "../parts/basic";
import { type GivenOutput, OpenCalls } from "../parts/calls";
import { useAction } from "../parts/form";
import { Empty, Failure } from "../parts/load";
import { MissingScope } from "../parts/missing";
import { Pages, useList } from "../parts/table";
import { toast } from "../parts/toast";
import { useSession } from "../session";

export function ToolCalls() {
  const { api, may } = useSession();
  const allowed = may("sessions:read");
  const writes = may("sessions:write");
  const inputs = useList<OpenInput>(allowed ? "/inputs" : undefined, 20);
  const calls = useList<AgentToolCall>(allowed ? "/tool-calls" : undefined, 30);
  const { busy, problem, run } = useAction({ repeats: true });
  const reload = () => {
    inputs.first.reload();
    calls.first.reload();
  };
  const give = async (input: OpenInput, output: GivenOutput) => {
    const body = { inputId: input.id, outputs: [output] };
    if (await run(() => api.raw("POST", `/api-agents/${input.agentId}/sessions/${input.sessionId}/input`, { body, headers: { "Idempotency-Key": onceKey() } }))) {
      toast("The output is given");
      reload();
    }
  };
  const head = (
    <header class="head">
      <h1>Tool calls</h1>
      {allowed && (
        <div class="push">
          <Button small icon="again" onClick={reload}>
            Refresh
          </Button>
        </div>
      )}
    </header>
  );
  if (!allowed) {
    return (
      <>
        {head}
        <MissingScope scope="sessions:read" what="see tool calls" />
      </>
    );
  }
  return (
    <>
      {head}
      <section class="panel" aria-labelledby="waiting">
        <header>
          <h2 id="waiting">Waiting for a program</h2>
          {inputs.rows.length > 0 && <Badge meaning="waiting">{count(inputs.rows.length) + (inputs.hasMore ? " or more" : "")}</Badge>}
        </header>
        {problem && <Failure problem={problem} />}
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
        <Pages
          of={calls}
          label="Calls"
          empty={
            <Empty title="No calls yet">
              <p>An agent gets tools in its settings.</p>
            </Empty>
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
            { title: "Outcome", show: (c) => <Badge meaning={c.outcome === "ok" ? "ok" : c.status === "done" ? "failed" : "waiting"}>{c.outcome ?? c.status}</Badge> },
            { title: "Result", show: (c) => <span class="clamp">{c.resultText}</span> },
            { title: "Attempts", number: true, show: (c) => c.attempts },
            { title: "Made", show: (c) => <Time at={c.createdAt} /> },
          ]}
        />
      </section>
    </>
  );
}
