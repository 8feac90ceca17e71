// The inbox of tool calls: pending approvals, calls that wait for programs, and all calls with their
// outcomes.
import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import { isLeft, onceKey } from "../../lib/api";
import type { AgentToolCall, OpenInput, PendingToolCall, ToolDecision } from "../../lib/contract";
import { effectsWords } from "../../lib/connections";
import { exactText, membersOf, valueText, visible } from "../../lib/exact";
import { count } from "../../lib/format";
import { approveLater, Approvals, type Choosing, KeysHint, useHeld } from "../parts/approvals";
import { Filters, Text } from "../parts/filter";
import { EscapedText } from "../parts/escapedtext";
import { Badge, Button, Time } from "../parts/basic";
import { CallDialog, inDoubt, Outcome } from "../parts/call";
import { type GivenOutput, OpenCalls } from "../parts/calls";
import { useAction } from "../parts/form";
import { useInbox } from "../parts/inbox";
import { Empty, Failure, States, useLive } from "../parts/load";
import { useResource } from "../parts/resource";
import { PickOf, sources } from "../parts/picker";
import { useFilter } from "../parts/router";
import { useSession } from "../parts/session";
import { useList } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { toast } from "../parts/toast";

const outcomes = ["ok", "error", "denied", "unknown", "expired", "cancelled"];

const every = 15_000; // milliseconds between two reads of the lists

// Wants says who would do what: the agent, the tool and the beginning of its arguments, then for whom and since when.
function Wants({ of: input, call: c }: { of: OpenInput; call: PendingToolCall }) {
  return (
    <div class="wants">
      <p class="clamp">
        <a href={"#/agents/" + input.agentId}>
          <EscapedText text={visible(input.agentName)} />
        </a>{" "}
        wants to call{" "}
        <code>
          <EscapedText text={visible(c.tool)} />
        </code>{" "}
        <EscapedText text={visible(inShort(c))} />
      </p>
      <p class="small muted breaks">
        {input.externalUserId && `end user ${input.externalUserId} · `}
        <span class="roomy">asked </span>
        <Time at={input.createdAt} /> · {effectsWords[c.effects]}
        <span class="roomy">
          {" "}
          · expires <Time at={c.expiresAt} />
        </span>{" "}
        ·{" "}
        <a href={`#/agents/${input.agentId}/sessions/${input.sessionId}`}>Session</a>
      </p>
    </div>
  );
}

const shortest = 160; // characters of the arguments in the first line

// inShort returns the values of a call's arguments in one line, cut.
function inShort(c: PendingToolCall): string {
  const text = c.argumentsStart ?? membersOf(exactText(c.arguments)).map(([, json]) => valueText(json)).join(", ");
  return text.length > shortest ? text.slice(0, shortest).replace(/[\ud800-\udbff]$/, "") + "…" : text;
}

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
function Inputs({ of: inputs, hasMore, more, busy, show, empty, bare }: { bare?: boolean; of: OpenInput[]; hasMore: boolean; more: () => void; busy: boolean; show: (input: OpenInput) => ComponentChildren; empty: ComponentChildren }) {
  if (inputs.length === 0) return <>{empty}</>;
  return (
    <>
      <ul class={bare ? "inbox compact" : "inbox"}>
        {inputs.map((input) => (
          <li key={input.id}>
            {!bare && <Asker of={input} />}
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
    for (const list of [approvals, programs.first, found.first]) list.reload();
    setRound((n) => n + 1);
  };
  const send = (input: OpenInput, what: object) => api.raw("POST", `/api-agents/${input.agentId}/sessions/${input.sessionId}/input`, { body: { inputId: input.id, ...what }, headers: { "Idempotency-Key": onceKey() } });
  const answer = async (input: OpenInput, what: object, said: string) => {
    if (await run(() => send(input, what))) toast(said);
    else return reload(), false;
    reload(); // another user may have answered
    return true;
  };
  const give = (input: OpenInput, output: GivenOutput) => answer(input, { outputs: [output] }, "The output was sent");
  const decide = (input: OpenInput, decisions: ToolDecision[]) => answer(input, { decisions }, decisions[0]!.decision === "approve" ? "Approved" : "Rejected");
  // What is narrowed is another list than the one of the navigation, which counts all.
  const narrowed = narrowings.some((name) => filter[name]);
  const found = useList<OpenInput>(narrowed ? "/inputs" : undefined, 50, undefined, { kind: "tool_approval", agentId: filter.agentId, toolName: filter.toolName, externalUserId: filter.externalUserId });
  useLive(found.first, 5000, narrowed && found.pages === 1);
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
          <>
            {(narrowed || (approvals.data?.data.length ?? 0) > 1) && (
              <Filters names={narrowings} filter={filter} change={change}>
                {may("agents:read") && <PickOf name="agentId" label="Agent" source={sources.agents} fixed={[{ id: "", title: "All" }]} filter={filter} change={change} />}
                <Text name="toolName" label="Tool" filter={filter} change={change} />
                <Text name="externalUserId" label="End user" filter={filter} change={change} />
              </Filters>
            )}
            {narrowed ? (
              <States of={found.first}>{() => <ToDecide of={found.rows} hasMore={found.hasMore} more={found.next} loading={found.busy} narrowed busy={busy} decides={decides} decide={decide} answer={send} onDone={reload} />}</States>
            ) : (
              <States of={approvals}>{({ data, hasMore }) => <ToDecide of={data} hasMore={hasMore} more={inbox.more} loading={approvals.loading} busy={busy} decides={decides} decide={decide} answer={send} onDone={reload} />}</States>
            )}
          </>
        )}
      </section>
    </>
  );
}

const narrowings = ["agentId", "toolName", "externalUserId"];

interface Deciding {
  of: OpenInput[];
  hasMore: boolean;
  more: () => void;
  loading: boolean;
  narrowed?: boolean;
  busy: boolean;
  decides: boolean;
  decide: (input: OpenInput, decisions: ToolDecision[]) => Promise<boolean>;
  answer: (input: OpenInput, what: object) => Promise<unknown>;
  onDone: () => void;
}

// ToDecide lists calls that wait for a decision. Several can be selected and decided together: they are sent one input after
// the other, and what failed stays in the list.
function ToDecide({ of: inputs, hasMore, more, loading, narrowed, busy, decides, decide, answer, onDone }: Deciding) {
  const [chosen, setChosen] = useState<string[]>([]);
  const [progress, setProgress] = useState("");
  const last = useRef("");
  const free = useHeld();
  const rows = inputs.filter((input) => free(input.calls).length > 0);
  const ids = rows.flatMap((input) => free(input.calls).filter((c) => !c.decision).map((c) => c.callId));
  const picked = ids.filter((id) => chosen.includes(id));
  const choose = (id: string, on: boolean, range: boolean) => {
    const from = range ? ids.indexOf(last.current) : -1;
    const to = ids.indexOf(id);
    const meant = from < 0 ? [id] : ids.slice(Math.min(from, to), Math.max(from, to) + 1);
    last.current = id;
    setChosen((all) => (on ? [...new Set([...all, ...meant])] : all.filter((c) => !meant.includes(c))));
  };
  const send = async (decision: ToolDecision["decision"], of: string[]) => {
    const failed: string[] = [];
    let done = 0;
    const one = async (input: OpenInput) => {
      const mine = input.calls.map((c) => c.callId).filter((id) => of.includes(id));
      try {
        await answer(input, { decisions: mine.map((callId) => ({ callId, decision })) });
      } catch {
        failed.push(...mine);
      }
      done += mine.length;
      setProgress(`${count(done)} of ${count(of.length)} sent`);
    };
    const concerned = inputs.filter((input) => input.calls.some((c) => of.includes(c.callId)));
    if (isLeft()) await Promise.all(concerned.map(one)); // there is no time for one after the other
    else for (const input of concerned) await one(input);
    setProgress("");
    const word = decision === "approve" ? "approved" : "rejected";
    if (failed.length > 0) toast(`${count(of.length - failed.length)} of ${count(of.length)} calls ${word}; ${count(failed.length)} failed and stay in the list`, "failed");
    else toast(`${count(of.length)} ${of.length === 1 ? "call" : "calls"} ${word}`);
    onDone();
    return failed;
  };
  const decideAll = (decision: ToolDecision["decision"]) => {
    const of = picked;
    setChosen([]);
    if (decision === "reject") void send(decision, of);
    else approveLater(of, `${count(of.length)} ${of.length === 1 ? "call is" : "calls are"} approved in 5 seconds`, () => send(decision, of));
  };
  const choosing: Choosing = { chosen: picked, choose, decide: decideAll };
  return (
    <>
      {decides && ids.length > 1 && (
        <div class="pad row">
          <label class="check small">
            <input type="checkbox" checked={picked.length === ids.length} onChange={(e) => setChosen(e.currentTarget.checked ? ids : [])} /> Select all {count(ids.length)} shown
          </label>
        </div>
      )}
      <Inputs
        bare
        of={rows}
        hasMore={hasMore}
        more={more}
        busy={loading}
        show={(input) => <Approvals calls={input.calls} busy={busy} decide={(decisions) => decide(input, decisions)} asker={(c) => <Wants of={input} call={c} />} choosing={choosing} />}
        empty={
          narrowed ? (
            <Empty title="No matches" />
          ) : (
            <Empty title="Nothing to approve">
              <p>When an agent calls a tool that a person must approve, the call appears here with the agent, the end user and the exact arguments.</p>
            </Empty>
          )
        }
      />
      {(picked.length > 0 || progress) && (
        <div class="decide row" role="status">
          <span>{progress || `${count(picked.length)} ${picked.length === 1 ? "call" : "calls"} selected`}</span>
          {picked.length > 0 && (
            <div class="push row">
              <Button onClick={() => setChosen([])}>Clear</Button>
              <Button kind="danger" disabled={busy} onClick={() => decideAll("reject")}>
                Reject {count(picked.length)}
              </Button>
              <Button kind="main" disabled={busy} onClick={() => decideAll("approve")}>
                Approve {count(picked.length)}
              </Button>
            </div>
          )}
        </div>
      )}
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
