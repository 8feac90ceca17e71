// One session, live: the conversation, the agent's actions, and its pending input.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Api, onceKey, type Problem } from "../../lib/api";
import { type Agent, applyEvent, going, type SessionMessage, type Session, type SessionEvent, uploader } from "../../lib/agents";
import { copyText } from "../../lib/copy";
import { count, duration, moment, of as plural } from "../../lib/format";
import { saveFile } from "../../lib/save";
import type { FeedbackList, MessageList } from "../../lib/contract";
import type { Meta } from "../../lib/types";
import { Amount, Badge, Button, Notice, Time } from "../parts/basic";
import { AttachButton, AttachedFiles, ChosenFiles, taking, useFiles } from "../parts/attach";
import { Approvals, KeysHint } from "../parts/approvals";
import { OpenCalls } from "../parts/calls";
import { GivenSecrets, hasSecrets } from "../parts/credentials";
import { Confirm, Dialog } from "../parts/dialog";
import { ConfirmAction, useAction } from "../parts/form";
import { Empty, Failure, Skeleton, useLoad } from "../parts/load";
import { Remembered } from "../parts/memory";
import { followLog } from "../parts/log";
import { pictures } from "../parts/picture";
import { ReplyText, Spoken } from "../parts/reply";
import { Text } from "../parts/filter";
import { Status } from "../parts/status";
import { useAutoScroll } from "../parts/autoscroll";
import { type Rating, Thumbs } from "../parts/thumbs";
import { Tabs } from "../parts/tabs";
import { lines, type ResultOf, Trace, turnsOf } from "../parts/trace";
import { Pages, useList } from "../parts/table";
import { toast } from "../parts/toast";
import { type Filter, go, useFilter, useTitle, useWayBack, withFilter } from "../parts/router";
import { useSession } from "../parts/session";
import { triggers } from "./sessions";
import { AddToTestSet } from "./tests";

interface Log {
  events: SessionEvent[];
  said: SessionMessage[];
  live: boolean;
  problem?: Problem;
}

// Reported shows the earlier messages of a conversation that the caller of an agent as a model has sent with it.
function Reported({ path }: { path: string }) {
  const { api } = useSession();
  const messages = useLoad((signal) => api.get<MessageList>(path + "/messages", { limit: 100 }, signal), [api, path]);
  const history = messages.data?.data.filter((m) => m.kind === "history") ?? [];
  return history.length === 0 ? null : (
    <details class="clip">
      <summary>{plural(history.length, "earlier message")}, as the caller reports them</summary>
      {history.map((m) => (
        <div key={m.id} class={"turn " + m.role}>
          {m.text}
        </div>
      ))}
    </details>
  );
}

export function SessionView({ agentId, agentName, version, id }: { agentId: string; agentName?: string; version?: number; id: string }) {
  const { api, may, offers } = useSession();
  const path = `/api-agents/${agentId}/sessions/${id}`;
  const session = useLoad((signal) => api.get<Session>(path, undefined, signal), [api, path]);
  const feedback = useLoad((signal) => (offers("listFeedback") ? api.get<FeedbackList>("/feedback", { sessionId: id, limit: 100 }, signal) : Promise.resolve(undefined)), [api, id]);
  const [log, setLog] = useState<Log>({ events: [], said: [], live: false });
  const { busy, problem, run } = useAction({ repeats: true });
  const [deleting, setDeleting] = useState(false);
  const [erasing, setErasing] = useState(false);
  const [remembering, setRemembering] = useState(false);
  const [saving, setSaving] = useState(false);
  const [comparing, setComparing] = useState(false);
  const [testing, setTesting] = useState(false);
  const [repeating, setRepeating] = useState(false);
  const writes = may("sessions:write");
  const [{ step }] = useFilter(); // a model call, which is opened
  const [view, setView] = useState(step ? "log" : "talk");
  const back = useWayBack();
  const part = back.to.startsWith("agents/") && (back.to.includes("/with/") ? "Comparison" : /\/(tasks|schedules)\//.test(back.to) ? "Scheduled task" : undefined);
  const fromAgent = !part && back.to.startsWith("agents/" + agentId);
  const [upTo, setUpTo] = useState<number>(); // types of shown events; undefined means all

  useEffect(() => {
    const stop = new AbortController();
    void followLog(
      api,
      path,
      stop.signal,
      (events) => {
        setLog((l) => ({ ...l, events: [...l.events, ...events.filter((e) => e.type !== "message.delta")], said: events.reduce(applyEvent, l.said) }));
        // Data that is not in the events, such as totals, is read again.
        if (events.some((e) => e.type === "session.status" || e.type === "step.completed" || e.type.startsWith("input."))) session.reload();
      },
      (live, failure) => !stop.signal.aborted && setLog((l) => ({ ...l, live, problem: failure })),
    );
    return () => stop.abort();
  }, [api, path]);

  useTitle(session.data?.title);

  const act = async (work: () => Promise<unknown>) => {
    const done = await run(work);
    if (done) session.reload();
    return done;
  };
  const retry = (acknowledgeEffects: boolean) => act(() => api.raw("POST", path + "/retry", { body: { acknowledgeEffects }, headers: { "Idempotency-Key": onceKey() } }));
  const rate = async (message: string, to: Rating | null) => {
    const done = await run(() => api.raw(to ? "PUT" : "DELETE", `${path}/messages/${message}/feedback`, to ? { body: to } : {}));
    if (done) feedback.reload();
    return done;
  };
  const post = (what: string, body: unknown) => act(() => api.raw("POST", `${path}/${what}`, { body, headers: { "Idempotency-Key": onceKey() } }));

  // The log contains the calls of tools; their answers are in the export, which is read
  // on demand.
  const exported = useRef<{ upTo: number; lines: Promise<ExportedTool[]> } | undefined>(undefined);
  const resultOf: ResultOf = async (stepId, callId) => {
    if (exported.current?.upTo !== log.events.length) exported.current = { upTo: log.events.length, lines: readTools(api, path) };
    const tool = (await exported.current.lines).find((t) => t.stepId === stepId && t.callId === callId);
    if (typeof tool?.result !== "string") return undefined;
    const image = may("drive:read") ? imageIn(tool) : undefined;
    return { text: tool.result, image: image && { path: image.path, blob: await readImage(api, agentId, image) } };
  };

  const s = session.data;
  if (!s) return session.problem ? <Failure problem={session.problem} retry={session.reload} /> : <Skeleton />;
  const running = going(s.status);
  const replayed = upTo !== undefined && !running && upTo < log.events.length;
  const events = replayed ? log.events.slice(0, upTo) : log.events;
  const turns = turnsOf(events);
  const said = replayed ? events.reduce(applyEvent, []) : log.said;
  const first = log.said.find((m) => m.role === "user" && m.kind === "message");
  const writing = log.said.findLast((m) => m.role === "assistant");
  // What the agent asks is shown only where it is answered.
  const asked = writes && !replayed && said.at(-1)?.role === "assistant" && said.at(-1)!.text.trim() === s.pendingInput?.prompt.trim() ? said.at(-1) : undefined;
  const wanted = events.findLast((e) => e.type === "person.requested");
  return (
    <>
      <p class="small muted crumb">
        <a class="back" href={"#/" + back.to}>
          {fromAgent ? agentName ?? agentId : part || back.title}
        </a>{" "}
        · {fromAgent ? <a href="#/sessions">Sessions</a> : <a href={`#/agents/${agentId}/sessions`}>{agentName ?? agentId}</a>}
      </p>
      {wanted && (
        <Notice meaning="waiting">
          <p>
            The visitor asks for a person (<Time at={wanted.createdAt} />). The chat asks them to write how they can be reached. What is sent below is a message to the agent.
          </p>
        </Notice>
      )}
      {s.skillsWithheld.length > 0 && (
        <Notice meaning="waiting">
          <p>
            Withheld from this session, because their files have changed: {s.skillsWithheld.join(", ")}. <a href={`#/agents/${agentId}/skills`}>Review</a>
          </p>
        </Notice>
      )}
      <div class="session-head">
        <div class="row">
          <h1 class="session-title" title={s.title ?? undefined}>
            {s.title || "Session"}
          </h1>
          <Status of={s.status} />
          {s.draft && <Badge meaning="accent">draft</Badge>}
          <div class="row push">
            {writes && (running || s.status === "waiting_for_input") && (
              <Button small icon="stop" disabled={busy} onClick={() => act(() => api.raw("POST", path + "/cancel"))}>
                Stop
              </Button>
            )}
            {writes && s.mode === "chat" && !running && s.status !== "waiting_for_input" && version !== undefined && s.agentVersion !== version && (
              <Button small disabled={busy} onClick={() => act(() => api.raw("POST", path + "/upgrade"))}>
                Use version {version}
              </Button>
            )}
            {writes && (s.status === "failed" || s.status === "cancelled") && (
              <Button small icon="again" disabled={busy} onClick={() => (s.usage.toolCalls > 0 ? setRepeating(true) : void retry(false))}>
                Try again
              </Button>
            )}
            <Button small onClick={() => setComparing(true)}>
              Compare
            </Button>
            {offers("createTestSet") && may("agents:write") && first && (
              <Button small onClick={() => setTesting(true)}>
                Add to test set
              </Button>
            )}
            {offers("exportSession") && <Button small icon="download" kind="quiet" label="Download the session" onClick={() => setSaving(true)} />}
            {writes && <Button small icon="trash" kind="quiet" label="Delete the session" disabled={busy} onClick={() => setDeleting(true)} />}
          </div>
        </div>
        <div class="small muted breaks">
          <Time at={s.createdAt} /> by {triggers[s.trigger.type] ?? s.trigger.type}
          {s.externalUserId && ` · end user ${s.externalUserId}`}
          {s.externalUserId && s.trigger.type !== "hook" && offers("listMemoryNotes") && may("drive:read") && (
            <>
              {" "}
              <button type="button" class="link" onClick={() => setRemembering(true)}>
                What it remembers
              </button>
            </>
          )}
          {s.externalUserId && writes && (
            <>
              {" "}
              <button type="button" class="link" onClick={() => setErasing(true)}>
                Erase this user
              </button>
            </>
          )}{" "}
          · {plural(s.turn.number, "turn")}, {plural(s.usage.steps, "model call")}, {count(s.usage.totalTokens)} tokens · <Amount of={s.usage.creditsMicro} /> credits
          {s.model.served && ` · ${s.model.served}`} {s.model.fallback && <Badge meaning="warning">instead of {s.model.requested}</Badge>}
        </div>
        {hasSecrets(s.credentials) && (
          <div class="small muted">
            <GivenSecrets of={s.credentials} />
          </div>
        )}
        <div class="session-tabs">
          <Tabs
            label="Parts of the session"
            tabs={[
              { id: "talk", title: "Conversation" },
              { id: "log", title: "Log" },
            ]}
            active={view}
            onChange={setView}
          />
        </div>
      </div>
      <div class={"session shows-" + view}>
        <section class="talk" aria-label="Conversation">
          <Growing follows={running}>
            {s.trigger.type === "responses" && <Reported path={path} />}
            {said.map((m, i) =>
              m === asked ? null : m.role === "user" ? (
                <div key={m.id} class="turn user">
                  {m.text}
                  <AttachedFiles of={m.attachments} open={(f) => void run(async () => saveFile(await (await api.raw("GET", `${path}/attachments/${f.id}/content`)).blob(), f.name))} />
                </div>
              ) : (
                <div key={m.id} class={"turn assistant " + m.kind}>
                  {m.text ? <ReplyText text={m.text} streaming={running && m.status === "in_progress"} /> : <span class="reply streaming" role="img" aria-label="Waiting for the first token" />}
                  {m.status === "completed" && m.text && m.kind !== "comment" && <Below agentId={agentId} message={m} events={said.findLast((x) => x.role === "assistant" && x.turn === m.turn) === said[i] ? events : []} rated={feedback.data?.data.filter((r) => r.messageId === m.id)} rate={writes && m.kind === "reply" && feedback.data && !(m.turn === s.turn.number && (running || s.status === "waiting_for_input")) ? (to) => rate(m.id, to) : undefined} />}
                </div>
              ),
            )}
          </Growing>
          {s.error && !replayed && (
            <Notice meaning="failed">
              <p>
                <b>The turn failed</b>
              </p>
              <p>{s.error.message}</p>
              <p class="small muted">
                <code>{s.error.code}</code>
              </p>
            </Notice>
          )}
          {!replayed && <Spent agentId={agentId} credits={turns.findLast((t) => t.number === s.turn.number)?.credits ?? 0} />}
          {problem && <Failure problem={problem} />}
          <Spoken text={writing?.text ?? ""} done={!running} />
          {writes && (s.mode === "chat" || s.pendingInput) && <Answer session={s} busy={busy} post={post} agentId={agentId} />}
        </section>
        <aside class="panel happened" tabIndex={0} aria-label="Log">
          <header>
            <h2>Log</h2>
            <span class="push small">{running ? log.live ? <Badge meaning="ok">live</Badge> : log.problem ? <Badge meaning="failed">{log.problem.offline ? "not connected" : "not followed"}</Badge> : <Badge>not live</Badge> : <Took session={s} />}</span>
          </header>
          <div class="body stack">
            {!running && log.events.length > 2 && (
              <label class="replay small muted">
                <span>
                  Replay: {replayed ? `event ${upTo} of ${log.events.length}, ` : `all ${log.events.length} events`}
                  {replayed && events.length > 0 && <span title={moment(events.at(-1)!.createdAt)}>+{duration(new Date(events.at(-1)!.createdAt).getTime() - new Date(log.events[0]!.createdAt).getTime())}</span>}
                </span>
                <input type="range" min={1} max={log.events.length} step={1} value={upTo ?? log.events.length} onInput={(e) => setUpTo(Number(e.currentTarget.value))} />
              </label>
            )}
            <Trace of={{ path, agentId, version: s.draft ? undefined : s.agentVersion, opened: step, messageOf: (turn) => log.said.find((m) => m.role === "user" && m.turn === turn)?.text }} turns={turns} resultOf={resultOf} running={running} />
          </div>
        </aside>
      </div>
      {testing && first && (
        <AddToTestSet
          agentId={agentId}
          message={first.text}
          onClose={() => setTesting(false)}
          onDone={() => {
            setTesting(false);
            toast("It is added");
          }}
        />
      )}
      {comparing && <Others agentId={agentId} id={id} onClose={() => setComparing(false)} />}
      {remembering && <Remembered agentId={agentId} user={s.externalUserId!} onClose={() => setRemembering(false)} />}
      {saving && <Download path={path} id={id} onClose={() => setSaving(false)} />}
      {repeating && (
        <Confirm
          title="Retry the turn?"
          action="Do it again"
          busy={busy}
          onClose={() => setRepeating(false)}
          onConfirm={async () => {
            await retry(true);
            setRepeating(false);
          }}
        >
          <p>It has called your tools, which may have had effects. The agent receives the list of these calls, and can repeat them.</p>
        </Confirm>
      )}
      {erasing && (
        <ConfirmAction
          title="Erase this end user?"
          action="Erase the user"
          work={() => api.remove("/end-users/" + encodeURIComponent(s.externalUserId!))}
          onDone={() => {
            toast("The end user is being erased");
            go(`agents/${agentId}/sessions`);
          }}
          onClose={() => setErasing(false)}
        >
          <p>
            All sessions of <b class="breaks">{s.externalUserId}</b> are deleted, with any agent, and so are what agents remember of them, stored credentials, embeds and replies. Receipts stay under a random id. Nobody can undo this. See <a href="/docs/erasure">the guide</a>.
          </p>
        </ConfirmAction>
      )}
      {deleting && (
        <Confirm
          title="Delete the session?"
          action="Delete the session"
          busy={busy}
          onClose={() => setDeleting(false)}
          onConfirm={async () => {
            if (await run(() => api.remove(path))) {
              toast("The session is deleted");
              go(`agents/${agentId}/sessions`);
            } else setDeleting(false);
          }}
        >
          <p>Its messages and events are deleted, and a running turn is cancelled. Receipts are kept.</p>
        </Confirm>
      )}
    </>
  );
}

// An ExportedTool is a line of the export about a tool.
interface ExportedTool {
  type: string;
  name: string;
  stepId: string;
  callId: string;
  result: string | null;
}

interface ShownImage {
  path: string;
  mimeType: string;
  sha256: string;
  page?: number; // of a document, which is not an image itself
}

// imageIn returns the image from a drive_read result.
function imageIn(tool: ExportedTool): ShownImage | undefined {
  if (tool.name !== "drive_read") return undefined;
  try {
    const shown = JSON.parse(tool.result!) as ShownImage;
    return shown.sha256 && !shown.page && pictures.includes(shown.mimeType) ? shown : undefined;
  } catch {
    return undefined; // an error, in words
  }
}

// readImage reads an image of the drive, unless its file has changed or was deleted.
async function readImage(api: Api, agentId: string, image: ShownImage): Promise<Blob | undefined> {
  try {
    const reply = await api.raw("GET", `/api-agents/${agentId}/drive/files/content`, { query: { path: image.path } });
    return reply.headers.get("ETag") === `"${image.sha256}"` ? new Blob([await reply.blob()], { type: image.mimeType }) : undefined;
  } catch {
    return undefined;
  }
}

async function readTools(api: Api, path: string): Promise<ExportedTool[]> {
  const text = await (await api.raw("GET", path + "/export", { query: { format: "jsonl" } })).text();
  return text
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as ExportedTool)
    .filter((line) => line.type === "tool");
}

// Took shows how long the newest turn ran. The trace has the time since its message, which includes the wait for a worker.
function Took({ session: s }: { session: Session }) {
  const { startedAt, finishedAt } = s.turn;
  if (!startedAt || !finishedAt) return null;
  return <span class="muted" title="From the first worker to the end of the turn">turn {s.turn.number} ran {duration(new Date(finishedAt).getTime() - new Date(startedAt).getTime())}</span>;
}

const mostSources = 6;

// Spent warns when the newest turn has spent half of the agent's limit per turn.
function Spent({ agentId, credits }: { agentId: string; credits: number }) {
  const { api } = useSession();
  const agent = useLoad((signal) => api.get<Agent>("/api-agents/" + agentId, undefined, signal), [api, agentId]);
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  const most = agent.data && (agent.data.limits.maxCreditsMicro ?? meta.data?.limits.defaultTurnCreditsMicro);
  if (!most || credits < most / 2) return null;
  return (
    <Notice meaning="waiting">
      <p>
        This turn has spent <Amount of={credits} /> of the <Amount of={most} /> credits that a turn of this agent may spend. The limit is among its settings.
      </p>
    </Notice>
  );
}

// Below shows the sources of an answer, a copy button, and its ratings.
function Below({ agentId, message, events, rated = [], rate }: { agentId: string; message: SessionMessage; events: SessionEvent[]; rated?: FeedbackList["data"]; rate?: (to: Rating | null) => Promise<boolean> }) {
  const [all, setAll] = useState(false);
  let turn = 0;
  const sources = new Map<string, SessionEvent>();
  for (const e of events) {
    turn = e.turn ?? turn;
    // Files that were included as a whole are less informative than passages that were
    // searched.
    if (e.type === "drive.read" && e.via !== "context" && turn === message.turn) sources.set(e.path + lines(e), e);
  }
  const list = [...sources.values()];
  const copy = async () => toast((await copyText(message.text)) ? "Copied" : "The browser does not allow copying here");
  return (
    <div class="row below">
      {list.slice(0, all ? undefined : mostSources).map((e) => (
        <a class="chip" href={"#/" + withFilter(`agents/${agentId}/drive/${encodeURIComponent(e.path ?? "")}`, { page: /^p\. (\d+)/.exec(e.place ?? "")?.[1] ?? "", from: String(e.fromLine ?? ""), to: String(e.toLine ?? ""), sha: e.sha256 ?? "" })} title={"Source: " + e.path + lines(e)}>
          {e.path}
          {e.place && `, ${e.place}`}
        </a>
      ))}
      {!all && list.length > mostSources && (
        <Button kind="quiet" small onClick={() => setAll(true)}>
          {list.length - mostSources} more
        </Button>
      )}
      <Button kind="quiet" small icon="copy" label="Copy the answer" onClick={copy} />
      {rate && <Thumbs was={rated.find((r) => r.by === "account")} rate={rate} />}
      {rated.map((r) => (
        (r.by === "visitor" || r.comment) && (
          <p key={r.id} class="small muted rated breaks">
            {r.by === "visitor" ? "Visitor" : "You or a member"}: {r.rating === "up" ? "good" : "bad"}
            {r.comment && ` · ${r.comment}`}
          </p>
        )
      ))}
    </div>
  );
}

const forms = [
  { format: "markdown", title: "Markdown, to read", ending: "md" },
  { format: "jsonl", title: "JSON Lines, with everything", ending: "jsonl" },
];

// Download saves the session as a file.
function Download({ path, id, onClose }: { path: string; id: string; onClose: () => void }) {
  const { api } = useSession();
  const { busy, problem, run } = useAction();
  const save = (form: (typeof forms)[number]) =>
    run(async () => {
      const reply = await api.raw("GET", path + "/export", { query: { format: form.format } });
      saveFile(await reply.blob(), `${id}.${form.ending}`);
      onClose();
    });
  return (
    <Dialog title="Download the session" onClose={onClose}>
      {forms.map((form) => (
        <Button icon="download" disabled={busy} onClick={() => save(form)}>
          {form.title}
        </Button>
      ))}
      {problem && <Failure problem={problem} />}
    </Dialog>
  );
}

// Growing shows the conversation and keeps its end visible while it grows. An ended
// conversation is shown from its beginning.
function Growing({ follows, children }: { follows: boolean; children: ComponentChildren }) {
  const [at] = useAutoScroll(follows);
  return (
    <div class="chat" ref={at}>
      {children}
    </div>
  );
}

function Answer({ session: s, busy, post, agentId }: { session: Session; busy: boolean; post: (what: string, body: unknown) => Promise<boolean>; agentId: string }) {
  const { api } = useSession();
  const files = useFiles(uploader(api, agentId));
  const [draft, setDraft] = useState("");
  const box = useRef<HTMLTextAreaElement>(null);
  const pending = s.pendingInput;
  const submit = async () => {
    const text = draft.trim();
    if (!text || busy || files.failed) return;
    const attached = await files.body();
    if (!attached) return;
    const answers = pending?.kind === "question" && files.list.length === 0; // a message with files is an answer too
    const sent = answers ? await post("input", { inputId: pending.id, answer: text }) : await post("messages", { message: text, ...attached });
    if (sent) {
      setDraft("");
      files.clear();
    }
    box.current?.focus();
  };
  if (pending && pending.kind === "tool_call") {
    return (
      <div class="panel asks stack">
        <p>
          <b>{pending.prompt}</b>
        </p>
        <OpenCalls calls={pending.calls ?? []} claimedUntil={pending.claimedUntil} busy={busy} give={(output) => void post("input", { inputId: pending.id, outputs: [output] })} />
      </div>
    );
  }
  if (pending && pending.kind === "tool_approval") {
    return (
      <div class="panel asks stack">
        <p>
          <b>{pending.prompt}</b>
        </p>
        <Approvals calls={pending.calls ?? []} busy={busy} decide={(decisions) => post("input", { inputId: pending.id, decisions })} />
        <KeysHint />
      </div>
    );
  }
  if (pending && pending.kind === "tool_confirmation") {
    return (
      <div class="panel asks stack">
        <p>
          <b>{pending.prompt}</b> Nobody else can. To end the wait, stop the session.
        </p>
        <Approvals calls={pending.calls ?? []} busy={busy} />
      </div>
    );
  }
  if (pending && pending.kind !== "question") {
    return (
      <div class="composer follows">
        <p>
          <b>{pending.prompt}</b>
        </p>
        <div class="row">
          {pending.kind === "choice" ? (
            pending.options.map((o) => (
              <Button disabled={busy} onClick={() => post("input", { inputId: pending.id, choice: o })}>
                {o}
              </Button>
            ))
          ) : (
            <>
              <Button kind="main" disabled={busy} onClick={() => post("input", { inputId: pending.id, decision: "approve" })}>
                Approve
              </Button>
              <Button disabled={busy} onClick={() => post("input", { inputId: pending.id, decision: "reject" })}>
                Reject
              </Button>
            </>
          )}
        </div>
      </div>
    );
  }
  return (
    <form
      class="composer"
      {...taking(files)}
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      <ChosenFiles files={files} />
      {pending && <p class="small muted">The agent waits for an answer: {pending.prompt}</p>}
      <label class="unseen" for="message">
        Message
      </label>
      <textarea
        id="message"
        ref={box}
        class="input"
        rows={2}
        placeholder={pending ? "Answer" : going(s.status) ? "Send a follow-up (runs after this turn)" : "Message"}
        value={draft}
        onInput={(e) => setDraft(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
            e.preventDefault();
            void submit();
          }
        }}
      />
      <div class="row">
        <AttachButton files={files} />
        <span class="small muted">{s.queuedMessages > 0 && plural(s.queuedMessages, "message") + " waiting"}</span>
        <div class="push">
          <Button kind="main" type="submit" icon="send" disabled={busy || !draft.trim() || files.failed}>
            Send
          </Button>
        </div>
      </div>
    </form>
  );
}

// Others lists the sessions with which one can be compared.
function Others({ agentId, id, onClose }: { agentId: string; id: string; onClose: () => void }) {
  const { offers } = useSession();
  const [filter, setFilter] = useState<Filter>({ q: "" });
  const searches = offers("listAllSessions");
  const pages = useList<Session>(searches ? "/sessions" : `/api-agents/${agentId}/sessions`, 20, undefined, searches ? { agentId, q: filter.q || undefined } : undefined);
  return (
    <Dialog title="Compare with" wide onClose={onClose}>
      {searches && <Text name="q" label="Title or id" kind="search" soon filter={filter} change={(by) => setFilter({ ...filter, ...by })} />}
      <Pages
        of={{ ...pages, rows: pages.rows.filter((s) => s.id !== id) }}
        label="Other sessions"
        empty={<Empty title="No other sessions" />}
        columns={[
          {
            title: "Session",
            show: (s) => (
              <a href={`#/agents/${agentId}/sessions/${id}/with/${s.id}`} class="clamp">
                {s.title || <span class="mono">{s.id}</span>}
              </a>
            ),
          },
          { title: "Version", number: true, show: (s) => (s.draft ? "draft" : s.agentVersion) },
          { title: "Credits", number: true, show: (s) => <Amount of={s.usage.creditsMicro} as="column" /> },
          { title: "Changed", show: (s) => <Time at={s.updatedAt} /> },
        ]}
      />
    </Dialog>
  );
}
