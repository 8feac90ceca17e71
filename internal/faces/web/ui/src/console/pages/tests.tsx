// Test sets of the agent: questions with what the replies must be like, and runs that compare the version in use with a candidate.
import { useState } from "preact/hooks";
import type { AgentVersion, CreateTestSet, RunTestSet, TestOutcome, TestQuestion, TestRun, TestSet, TestSetList, TestSide } from "../../lib/contract";
import type { Agent } from "../../lib/agents";
import { credits, duration, of } from "../../lib/format";
import { Amount, Badge, Button, type Meaning, Notice, Time } from "../parts/basic";
import { AreaField, SelectField, TextField } from "../parts/fields";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { Empty, Failure, States, useLive, useLoad } from "../parts/load";
import { type Ends, ResourcePanel } from "../parts/resource";
import { go } from "../parts/router";
import { useSession } from "../parts/session";
import { Pages, Table, useList } from "../parts/table";

export function TestsView({ agent, rest }: { agent: Agent; rest: string }) {
  const { api, may } = useSession();
  const [set, run] = rest.split("/");
  const path = `/api-agents/${agent.id}/test-sets`;
  if (set) return <SetView agent={agent} path={path} id={set} run={run} />;
  const writes = may("agents:write");
  return (
    <ResourcePanel<TestSet>
      title="Test sets"
      path={path}
      limit={20}
      label="Test sets"
      search={{ name: "q", label: "Name" }}
      nothing="No such test sets"
      create={writes && { title: "Create test set", dialog: (ends) => <SetForm path={path} onClose={ends.onClose} onDone={(made) => go(`agents/${agent.id}/tests/${made.id}`)} /> }}
      empty={{
        title: "No test sets yet",
        text: (
          <>
            A test set asks this agent questions and judges the replies, so that you see what a change improves, breaks and costs. <a href="/docs/test-sets">The guide</a> has an example.
          </>
        ),
      }}
      columns={() => [
        { title: "Test set", show: (s) => <a href={`#/agents/${agent.id}/tests/${s.id}`}>{s.name}</a> },
        { title: "Questions", show: (s) => s.questionCount },
        { title: "Changed", show: (s) => <Time at={s.updatedAt} /> },
      ]}
      actions={
        writes
          ? [
              {
                title: "Delete",
                kind: "danger" as const,
                dialog: (ends: Ends, s: TestSet) => (
                  <ConfirmAction title="Delete this test set?" action="Delete it" work={() => api.remove(`${path}/${s.id}`)} said="It is deleted" {...ends}>
                    <p>Its runs are deleted too. Their sessions are kept.</p>
                  </ConfirmAction>
                ),
              },
            ]
          : []
      }
    />
  );
}

function SetView({ agent, path, id, run }: { agent: Agent; path: string; id: string; run?: string }) {
  const { api, may } = useSession();
  const set = useLoad((signal) => api.get<TestSet>(`${path}/${id}`, undefined, signal), [api, path, id]);
  const [shown, setShown] = useState<"edit" | "run">();
  const here = `agents/${agent.id}/tests/${id}`;
  const close = () => setShown(undefined);
  return (
    <States of={set}>
      {(s) => (
        <>
          <p class="row">
            <a href={`#/agents/${agent.id}/tests`}>Test sets</a>
            <strong>{s.name}</strong>
            <span class="muted">{of(s.questionCount, "question")}</span>
            <span class="push row">
              {may("agents:write") && <Button onClick={() => setShown("edit")}>Edit</Button>}
              {may("sessions:write") && (
                <Button kind="main" onClick={() => setShown("run")}>
                  Run
                </Button>
              )}
            </span>
          </p>
          {run ? <RunView path={`${path}/${id}/runs/${run}`} agentId={agent.id} back={here} /> : may("sessions:read") && <Runs path={`${path}/${id}/runs`} here={here} />}
          {shown === "edit" && (
            <SetForm
              path={path}
              set={s}
              onClose={close}
              onDone={() => {
                close();
                set.reload();
              }}
            />
          )}
          {shown === "run" && <RunForm agent={agent} path={`${path}/${id}/runs`} onClose={close} onDone={(made) => (close(), go(`${here}/${made.id}`))} />}
        </>
      )}
    </States>
  );
}

function Runs({ path, here }: { path: string; here: string }) {
  const runs = useList<TestRun>(path, 20);
  return (
    <Pages
      of={runs}
      label="Runs"
      empty={<Empty title="No runs yet">A run asks all questions, and shows the verdicts and the cost.</Empty>}
      columns={[
        { title: "Run", show: (r) => <a href={`#/${here}/${r.id}`}><Time at={r.createdAt} /></a> },
        { title: "State", show: (r) => <RunState of={r} /> },
        { title: "In use", show: (r) => <Passed of={r.current} /> },
        { title: "Candidate", show: (r) => (r.candidate ? <Passed of={r.candidate} /> : "none") },
        { title: "Credits", number: true, show: (r) => <Amount of={r.current.creditsMicro + (r.candidate?.creditsMicro ?? 0)} as="column" /> },
      ]}
    />
  );
}

const states: Record<string, Meaning> = { running: "waiting", completed: "ok", stopped: "failed", cancelled: "none" };
const reasons: Record<string, string> = { credits: "its credits do not cover the next question", key_revoked: "its key was revoked", account_suspended: "the account is suspended", cancelled: "cancelled" };

function RunState({ of: run }: { of: TestRun }) {
  return <Badge meaning={states[run.status] ?? "none"}>{run.status}</Badge>;
}

const sideName = (s: TestSide) => (s.draft ? "Draft" : `Version ${s.version}`);

function Passed({ of: side }: { of: TestSide }) {
  return (
    <span class="nowrap">
      {side.passed} of {side.questions} <span class="muted">{sideName(side)}</span>
    </span>
  );
}

function RunView({ path, agentId, back }: { path: string; agentId: string; back: string }) {
  const { api, may } = useSession();
  const run = useLoad((signal) => api.get<TestRun>(path, undefined, signal), [api, path]);
  useLive(run, 2000, run.data?.status === "running");
  const action = useAction({ repeats: true });
  const cancel = () =>
    action.run(async () => {
      await api.raw("POST", path + "/cancel");
      run.reload();
    });
  return (
    <States of={run}>
      {(r) => (
        <>
          <p class="row">
            <a class="button" href={`#/${back}`}>
              All runs
            </a>
            <RunState of={r} />
            {r.status === "running" && may("sessions:write") && (
              <Button disabled={action.busy || r.statusReason === "cancelled"} onClick={cancel}>
                Cancel
              </Button>
            )}
          </p>
          {r.status === "stopped" && r.statusReason && <Notice meaning="failed">The run stopped: {reasons[r.statusReason] ?? r.statusReason}.</Notice>}
          {action.problem && <Failure problem={action.problem} />}
          <Sums run={r} />
          <ol class="tested">
            {r.results?.map((q) => (
              <li class="panel" key={q.question}>
                <strong>
                  {q.question}. {q.message}
                </strong>
                <div class="sides">
                  <Outcome side={r.current} of={q.current} agentId={agentId} />
                  {r.candidate && q.candidate && <Outcome side={r.candidate} of={q.candidate} agentId={agentId} />}
                </div>
              </li>
            ))}
          </ol>
        </>
      )}
    </States>
  );
}

function Sums({ run }: { run: TestRun }) {
  const signed = (n: number, text: string) => (n > 0 ? "+" : n < 0 ? "−" : "±") + text;
  const d = run.difference;
  return (
    <section class="panel" aria-label="Sums">
      <Table
        label="Sums"
        rows={run.candidate ? [run.current, run.candidate] : [run.current]}
        columns={[
          { title: "Side", show: (s) => sideName(s) },
          { title: "Passed", show: (s) => `${s.passed} of ${s.questions}` },
          { title: "Failed", show: (s) => `${s.failed} failed` },
          { title: "Errors", show: (s) => of(s.errors, "error") },
          { title: "Credits", show: (s) => <>{credits(s.creditsMicro)}{d && s === run.candidate && <span class="muted"> ({signed(d.creditsMicro, credits(Math.abs(d.creditsMicro)))})</span>}</> },
          { title: "Duration", show: (s) => <>{duration(s.milliseconds)}{d && s === run.candidate && <span class="muted"> ({signed(d.milliseconds, duration(Math.abs(d.milliseconds)))})</span>}</> },
        ]}
      />
    </section>
  );
}

const verdicts: Record<string, [Meaning, string]> = { pass: ["ok", "pass"], fail: ["failed", "fail"], error: ["refused", "error"] };

function Outcome({ side, of: o, agentId }: { side: TestSide; of: TestOutcome; agentId: string }) {
  const [meaning, words] = verdicts[o.verdict ?? ""] ?? ["none", o.status];
  return (
    <div>
      <div class="row small">
        <span class="muted">{sideName(side)}</span> <Badge meaning={meaning}>{words}</Badge> {o.sessionId && <a href={`#/agents/${agentId}/sessions/${o.sessionId}`}>Session</a>}
      </div>
      {o.reasons.map((reason) => (
        <p class="small" key={reason}>
          {reason}
        </p>
      ))}
      {o.reply && <p class="small muted">{o.reply}</p>}
    </div>
  );
}

// RunForm begins a run: on the version in use alone, or beside a draft or another version.
function RunForm({ agent, path, onClose, onDone }: { agent: Agent; path: string; onClose: () => void; onDone: (made: TestRun) => void }) {
  const { api, may } = useSession();
  const versions = useList<AgentVersion>(`/api-agents/${agent.id}/versions`, 20);
  const [against, setAgainst] = useState("none");
  const [instructions, setInstructions] = useState(agent.instructions);
  const [model, setModel] = useState(agent.model);
  const [cap, setCap] = useState("10");
  const action = useAction();
  const options: [string, string][] = [["none", "nothing: only the version in use"]];
  if (may("agents:write")) options.push(["draft", "other settings (draft)"]);
  for (const v of versions.rows) if (v.version !== agent.version) options.push([String(v.version), `version ${v.version}`]);
  const submit = () =>
    action.run(async (once) => {
      const body: RunTestSet = { maxCreditsMicro: Math.round(Number(cap) * 1e6) };
      if (against === "draft") body.draft = { instructions, model };
      else if (against !== "none") body.version = Number(against);
      onDone(await api.create<TestRun>(path, body, once));
    });
  return (
    <FormDialog id="test-run" title="Run the questions" submit="Run" ready={Number(cap) > 0 && (against !== "draft" || !!instructions.trim())} action={action} onSubmit={submit} onClose={onClose}>
      <p>Each question is a session, charged like any other, and the tools of the agent are really called.</p>
      <SelectField id="test-against" label={`Compare version ${agent.version} with`} value={against} onChange={setAgainst} options={options} />
      {against === "draft" && <AreaField id="test-instructions" label="Instructions of the draft" rows={6} value={instructions} onChange={setInstructions} />}
      {against === "draft" && <TextField id="test-model" label="Model of the draft" code value={model} onChange={setModel} />}
      <TextField id="test-cap" label="Credits of the run, at most" type="number" min="0.000001" step="any" value={cap} onChange={setCap} />
    </FormDialog>
  );
}

interface Row {
  key: number;
  message: string;
  facts: string; // one in a line
  absent: string;
  schema: string;
}

const lines = (text: string) => text.split("\n").map((line) => line.trim()).filter(Boolean);

let rows = 0;
const rowOf = (q?: TestQuestion): Row => ({ key: rows++, message: q?.message ?? "", facts: q?.facts?.join("\n") ?? "", absent: q?.absent?.join("\n") ?? "", schema: q?.replySchema ? JSON.stringify(q.replySchema) : "" });

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function SetForm({ path, set, onClose, onDone }: { path: string; set?: TestSet; onClose: () => void; onDone: (made: TestSet) => void }) {
  const { api } = useSession();
  const [name, setName] = useState(set?.name ?? "");
  const [list, setList] = useState<Row[]>(() => set?.questions?.map(rowOf) ?? [rowOf()]);
  const action = useAction();
  const change = (key: number, part: Partial<Row>) => setList(list.map((row) => (row.key === key ? { ...row, ...part } : row)));
  const wrong = list.find((row) => row.schema.trim() && parsed(row.schema) === undefined);
  const submit = () =>
    action.run(async (once) => {
      const questions = list.map((row): TestQuestion => ({
        message: row.message,
        ...(lines(row.facts).length > 0 && { facts: lines(row.facts) }),
        ...(lines(row.absent).length > 0 && { absent: lines(row.absent) }),
        ...(row.schema.trim() && { replySchema: parsed(row.schema) as Record<string, unknown> }),
      }));
      const body = { name: name.trim(), questions } satisfies CreateTestSet;
      onDone(set ? (await api.patch<TestSet>(`${path}/${set.id}`, body)).data : await api.create<TestSet>(path, body, once));
    });
  return (
    <FormDialog
      id="test-set"
      wide
      title={set ? `Change "${set.name}"` : "Create test set"}
      submit={set ? "Save" : "Create the test set"}
      ready={!!name.trim() && list.every((row) => row.message.trim()) && !wrong}
      missing={wrong && "A schema is not JSON."}
      action={action}
      onSubmit={submit}
      onClose={onClose}
    >
      <TextField id="test-name" label="Name" maxLength={200} value={name} onChange={setName} autofocus={!set} />
      {list.map((row, i) => (
        <fieldset class="plainset stack" key={row.key}>
          <legend>Question {i + 1}</legend>
          <AreaField id={`test-message-${row.key}`} label="Message" rows={2} value={row.message} onChange={(message) => change(row.key, { message })} />
          <AreaField id={`test-facts-${row.key}`} label="The reply must contain" hint="One text in a line." rows={2} value={row.facts} onChange={(facts) => change(row.key, { facts })} />
          <AreaField id={`test-absent-${row.key}`} label="The reply must not contain" hint="One text in a line." rows={1} value={row.absent} onChange={(absent) => change(row.key, { absent })} />
          <AreaField id={`test-schema-${row.key}`} label="JSON Schema of the reply" rows={1} code value={row.schema} onChange={(schema) => change(row.key, { schema })} />
          {list.length > 1 && <div><Button onClick={() => setList(list.filter((other) => other !== row))}>Remove question {i + 1}</Button></div>}
        </fieldset>
      ))}
      <div><Button disabled={list.length >= 200} onClick={() => setList([...list, rowOf()])}>Add a question</Button></div>
    </FormDialog>
  );
}

// AddToTestSet adds a message to a test set as a question; what its reply must be like is written there.
export function AddToTestSet({ agentId, message, onClose, onDone }: { agentId: string; message: string; onClose: () => void; onDone: () => void }) {
  const { api } = useSession();
  const path = `/api-agents/${agentId}/test-sets`;
  const sets = useLoad((signal) => api.get<TestSetList>(path, { limit: 100 }, signal), [api, path]);
  const [chosen, setChosen] = useState("");
  const [name, setName] = useState("");
  const action = useAction();
  const submit = () =>
    action.run(async (once) => {
      if (!chosen) await api.create(path, { name: name.trim(), questions: [{ message }] } satisfies CreateTestSet, once);
      else {
        const { data, etag } = await api.read<TestSet>(`${path}/${chosen}`);
        await api.patch(`${path}/${chosen}`, { questions: [...(data.questions ?? []), { message }] }, etag);
      }
      onDone();
    });
  return (
    <FormDialog id="test-add" title="Add to a test set" submit="Add the question" ready={!!sets.data && (!!chosen || !!name.trim())} action={action} onSubmit={submit} onClose={onClose}>
      <p>The first message becomes a question. Remove personal data from it, and add what its reply must contain, under Tests.</p>
      <SelectField id="test-set-of" label="Test set" value={chosen} onChange={setChosen} options={[["", "a new one"], ...(sets.data?.data ?? []).map((s): [string, string] => [s.id, s.name])]} />
      {!chosen && <TextField id="test-new" label="Name" maxLength={200} value={name} onChange={setName} />}
      {sets.problem && <Failure problem={sets.problem} />}
    </FormDialog>
  );
}
