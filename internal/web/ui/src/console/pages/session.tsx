// One session, live: what is said, what the agent does, and what it waits for.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Api, onceKey, type Problem } from "../../lib/api";
import { applyEvent, type SessionMessage, type Session, type SessionEvent } from "../../lib/agents";
import { count, of as plural, size } from "../../lib/format";
import { saveFile } from "../../lib/save";
import { follow, sleep } from "../../lib/follow";
import { Amount, Badge, Button, Notice } from "../parts/basic";
import { Confirm, Dialog } from "../parts/dialog";
import { useAction } from "../parts/form";
import { asProblem, Failure, Skeleton, useLoad } from "../parts/load";
import { ReplyText, Spoken } from "../parts/reply";
import { going, Status } from "../parts/status";
import { useStick } from "../parts/stick";
import { type Happening, Timeline } from "../parts/timeline";
import { toast } from "../parts/toast";
import { go } from "../router";
import { useSession } from "../session";

interface Log {
  events: SessionEvent[];
  said: SessionMessage[];
  live: boolean;
  problem?: Problem;
}

// followLog reads the session's log from its beginning and continues with it.
// Events that arrive together are told together.
function followLog(api: Api, path: string, signal: AbortSignal, tell: (events: SessionEvent[]) => void, live: (now: boolean, problem?: Problem) => void): Promise<void> {
  let after = 0;
  let pending: SessionEvent[] = [];
  const flush = () => {
    if (pending.length > 0 && !signal.aborted) tell(pending);
    pending = [];
  };
  return follow<SessionEvent>({
    open: () => api.raw("GET", path + "/events", { query: { after, follow: "true" }, headers: { Accept: "text/event-stream" }, signal }),
    opened: () => live(true),
    take: (event) => {
      if (event.seq <= after) return;
      after = event.seq;
      if (pending.push(event) === 1) setTimeout(flush, 30);
    },
    closed: (error) => {
      if (signal.aborted) return false;
      const problem = error === undefined ? undefined : asProblem(error);
      live(false, problem);
      return !problem || problem.status < 400 || problem.status >= 500 || problem.status === 429; // otherwise asking again does not help
    },
    going: () => !signal.aborted,
    pause: sleep,
  });
}

export function SessionView({ agentId, id }: { agentId: string; id: string }) {
  const { api, may, offers } = useSession();
  const path = `/api-agents/${agentId}/sessions/${id}`;
  const session = useLoad((signal) => api.get<Session>(path, undefined, signal), [api, path]);
  const [log, setLog] = useState<Log>({ events: [], said: [], live: false });
  const { busy, problem, run } = useAction({ repeats: true });
  const [deleting, setDeleting] = useState(false);
  const [saving, setSaving] = useState(false);
  const writes = may("sessions:write");
  const happenedAt = useRef<HTMLElement>(null);

  useEffect(() => {
    const box = happenedAt.current;
    if (box && box.scrollHeight - box.scrollTop - box.clientHeight < 160) box.scrollTop = box.scrollHeight;
  }, [log.events]);
  useEffect(() => {
    const stop = new AbortController();
    void followLog(
      api,
      path,
      stop.signal,
      (events) => {
        setLog((l) => ({ ...l, events: [...l.events, ...events.filter((e) => e.type !== "message.delta")], said: events.reduce(applyEvent, l.said) }));
        // What the events do not carry, such as sums, is read anew.
        if (events.some((e) => e.type === "session.status" || e.type === "step.completed" || e.type.startsWith("input."))) session.reload();
      },
      (live, failure) => !stop.signal.aborted && setLog((l) => ({ ...l, live, problem: failure })),
    );
    return () => stop.abort();
  }, [api, path]);

  const act = async (work: () => Promise<unknown>) => {
    const done = await run(work);
    if (done) session.reload();
    return done;
  };
  const post = (what: string, body: unknown) => act(() => api.raw("POST", `${path}/${what}`, { body, headers: { "Idempotency-Key": onceKey() } }));

  const s = session.data;
  if (!s) return session.problem ? <Failure problem={session.problem} retry={session.reload} /> : <Skeleton />;
  const running = going(s.status);
  const writing = log.said.findLast((m) => m.role === "assistant");
  return (
    <>
      <div class="row">
        <Status of={s.status} />
        <span class="small muted">
          turn {s.turn.number}, {plural(s.usage.steps, "model call")}, {count(s.usage.totalTokens)} tokens, <Amount of={s.usage.creditsMicro} /> credits
          {s.model.served && `, ${s.model.served}`}
        </span>
        {s.model.fallback && <Badge meaning="waiting">instead of {s.model.requested}</Badge>}
        <div class="row push">
          {offers("exportSession") && <Button small icon="download" kind="quiet" label="Download the session" onClick={() => setSaving(true)} />}
        </div>
        {writes && (
          <div class="row">
            {(running || s.status === "waiting_for_input") && (
              <Button small icon="stop" disabled={busy} onClick={() => act(() => api.raw("POST", path + "/cancel"))}>
                Cancel
              </Button>
            )}
            {(s.status === "failed" || s.status === "cancelled") && (
              <Button small icon="again" disabled={busy} onClick={() => act(() => api.raw("POST", path + "/retry", { headers: { "Idempotency-Key": onceKey() } }))}>
                Try again
              </Button>
            )}
            <Button small icon="trash" kind="quiet" label="Delete the session" disabled={busy} onClick={() => setDeleting(true)} />
          </div>
        )}
      </div>
      <div class="session">
        <section class="talk" aria-label="Conversation">
          <Growing>
            {log.said.map((m) =>
              m.role === "user" ? (
                <div key={m.id} class="turn user">
                  {m.text}
                </div>
              ) : (
                <div key={m.id} class={"turn assistant " + m.kind}>
                  {m.text ? <ReplyText text={m.text} streaming={running && m.status === "in_progress"} /> : <span class="reply streaming" role="img" aria-label="Waiting for the first words" />}
                </div>
              ),
            )}
          </Growing>
          {s.error && (
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
          {problem && <Failure problem={problem} />}
          <Spoken text={writing?.text ?? ""} done={!running} />
          {writes && (s.mode === "chat" || s.pendingInput) && <Answer session={s} busy={busy} post={post} />}
        </section>
        <aside ref={happenedAt} class="panel happened" tabIndex={0} aria-label="What happened">
          <header>
            <h2>What happened</h2>
            <span class="push small">{log.live ? <Badge meaning="ok">live</Badge> : log.problem ? <Badge meaning="failed">{log.problem.offline ? "not connected" : "not followed"}</Badge> : <Badge>not live</Badge>}</span>
          </header>
          <div class="body">
            <Timeline of={log.events.map(happening).filter((h): h is Happening => h !== undefined)} />
          </div>
        </aside>
      </div>
      {saving && <Download path={path} id={id} onClose={() => setSaving(false)} />}
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
          <p>Its messages and events are lost; a turn that runs is cancelled. Receipts stay.</p>
        </Confirm>
      )}
    </>
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

// Growing shows the conversation and keeps its end visible.
function Growing({ children }: { children: ComponentChildren }) {
  const [at] = useStick();
  return (
    <div class="chat" ref={at}>
      {children}
    </div>
  );
}

function Answer({ session: s, busy, post }: { session: Session; busy: boolean; post: (what: string, body: unknown) => Promise<boolean> }) {
  const [draft, setDraft] = useState("");
  const box = useRef<HTMLTextAreaElement>(null);
  const pending = s.pendingInput;
  const submit = async () => {
    const text = draft.trim();
    if (!text || busy) return;
    const sent = pending?.kind === "question" ? await post("input", { inputId: pending.id, answer: text }) : await post("messages", { message: text });
    if (sent) setDraft("");
    box.current?.focus();
  };
  if (pending && pending.kind !== "question") {
    return (
      <div class="composer">
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
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      {pending && <p class="small muted">The agent waits for an answer: {pending.prompt}</p>}
      <label class="unseen" for="message">
        Message
      </label>
      <textarea
        id="message"
        ref={box}
        class="input"
        rows={2}
        placeholder={pending ? "Answer" : going(s.status) ? "Message, taken up next" : "Message"}
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
        <span class="small muted">{s.queuedMessages > 0 && plural(s.queuedMessages, "message") + " waiting"}</span>
        <div class="push">
          <Button kind="main" type="submit" icon="send" disabled={busy || !draft.trim()}>
            Send
          </Button>
        </div>
      </div>
    </form>
  );
}

// happening returns an event as text; undefined for events that are shown
// elsewhere.
function happening(e: SessionEvent): Happening | undefined {
  const at = { id: String(e.seq), at: e.createdAt };
  const lines = e.fromLine ? `, lines ${e.fromLine} to ${e.toLine ?? e.fromLine}` : "";
  switch (e.type) {
    case "session.created":
      return { ...at, title: "Session created" };
    case "session.status":
      return { ...at, title: <Status of={e.status as Session["status"]} />, detail: e.statusReason };
    case "turn.started":
      return { ...at, title: `Turn ${e.turn} taken up` };
    case "turn.recovered":
      return { ...at, meaning: "waiting", title: `Turn ${e.turn} taken up again`, detail: `attempt ${e.attempt}` };
    case "step.completed":
      return {
        ...at,
        meaning: "ok",
        title: `Model call ${e.step}: ${e.model}`,
        detail: (
          <>
            {e.usage && `${count(e.usage.inputTokens)} in, ${count(e.usage.outputTokens)} out tokens`}
            {e.creditsMicro !== undefined && (
              <>
                , <Amount of={e.creditsMicro} /> credits
              </>
            )}
          </>
        ),
      };
    case "tool.called":
      return { ...at, meaning: "info", title: <>Tool <code>{e.name}</code></>, detail: e.arguments && <span class="mono breaks">{e.arguments.slice(0, 200)}</span> };
    case "tool.completed":
      return e.isError ? { ...at, meaning: "failed", title: <>Tool <code>{e.name}</code> failed</> } : { ...at, meaning: "ok", title: <>Tool <code>{e.name}</code> answered</>, detail: e.bytes !== undefined && size(e.bytes) };
    case "drive.read":
      return { ...at, title: "Read from the drive", detail: <span class="breaks">{e.path}{lines}</span> };
    case "drive.written":
      return { ...at, title: `Wrote to the drive: ${e.outcome ?? "done"}`, detail: <span class="breaks">{e.path}</span> };
    case "input.requested":
      return { ...at, meaning: "waiting", title: "Asked the user", detail: e.prompt };
    case "input.answered":
      return { ...at, meaning: "ok", title: e.defaultUsed ? "The default answer was used" : "Answered", detail: e.answer };
    case "input.expired":
      return { ...at, meaning: "failed", title: "Nobody answered in time" };
    case "error":
      return { ...at, meaning: "failed", title: e.message ?? "Failed", detail: <code>{e.code}</code> };
  }
  return undefined; // messages are the conversation; types that come later are skipped
}
