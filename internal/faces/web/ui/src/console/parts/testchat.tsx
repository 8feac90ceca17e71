// A conversation with an agent in its current settings, saved or not. Each is a normal
// session of the agent, with its real drive and tools.
import { useEffect, useRef, useState } from "preact/hooks";
import { type Agent, applyEvent, going, type Session, type SessionMessage, uploader } from "../../lib/agents";
import { onceKey } from "../../lib/api";
import { of as plural } from "../../lib/format";
import { useFilter } from "./router";
import { useSession } from "./session";
import { AttachButton, AttachedFiles, ChosenFiles, taking, useFiles } from "./attach";
import { Approvals } from "./approvals";
import { OpenCalls } from "./calls";
import { Amount, Badge, Button, Notice } from "./basic";
import { useOwnSecrets } from "./credentials";
import { useAction } from "./form";
import { Failure } from "./load";
import { followLog } from "./log";
import { ReplyText, Spoken } from "./reply";
import { Status } from "./status";

// TestChat chats with the agent; draft contains the differences from the saved
// settings, and agent has the current tools.
export function TestChat({ agentId, draft, agent }: { agentId: string; draft: Record<string, unknown>; agent: Pick<Agent, "spaceId" | "tools"> }) {
  const { api, refresh } = useSession();
  const base = `/api-agents/${agentId}/sessions`;
  const [session, setSession] = useState<Session>();
  const [said, setSaid] = useState<SessionMessage[]>([]);
  const [filter] = useFilter();
  const [text, setText] = useState(filter.try ?? ""); // of a model call that is asked again
  const began = useRef(""); // the draft on which the session runs
  const { busy, problem, run } = useAction({ repeats: true });
  const files = useFiles(uploader(api, agentId));
  const own = useOwnSecrets({ agent, users: false, problem });
  const scroll = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLTextAreaElement>(null);
  const id = session?.id;
  // What arrives after New does not bring its session back.
  const update = (read: Session) => setSession((shown) => (shown?.id === read.id ? read : shown));

  useEffect(() => {
    setSaid([]);
    if (!id) return;
    const stop = new AbortController();
    void followLog(
      api,
      `${base}/${id}`,
      stop.signal,
      async (events) => {
        setSaid((all) => events.reduce(applyEvent, all));
        if (!events.some((e) => e.type === "session.status" || e.type === "step.completed" || e.type.startsWith("input."))) return;
        try {
          update(await api.get<Session>(`${base}/${id}`, undefined, stop.signal));
          refresh();
        } catch {
          // It is read again with the next event.
        }
      },
      () => {},
    );
    return () => stop.abort();
  }, [api, base, id]);
  useEffect(() => scroll.current?.scrollTo(0, scroll.current.scrollHeight), [said]);

  const now = JSON.stringify(draft);
  const changed = session !== undefined && now !== began.current;
  const running = session !== undefined && going(session.status);
  const pending = session?.pendingInput;
  const post = (what: string, body?: unknown) =>
    run(async () => {
      const reply = await api.raw("POST", `${base}/${id}/${what}`, { body, headers: what === "cancel" ? {} : { "Idempotency-Key": onceKey() } });
      update(await reply.json());
    });
  const submit = async () => {
    const message = text.trim();
    if (!message || busy || files.failed) return;
    const attached = await files.body();
    if (!attached) return;
    const answers = pending?.kind === "question" && files.list.length === 0; // a message with files is an answer too
    const sent =
      session && !changed
        ? await post(answers ? "input" : "messages", answers ? { inputId: pending.id, answer: message } : { message, ...attached })
        : await run(async (once) => {
            const made = await api.create<Session>(base, { message, ...attached, ...(now !== "{}" && { draft }), ...own.body }, once);
            began.current = now;
            setSession(made);
          });
    if (sent) {
      setText("");
      files.clear();
    }
    box.current?.focus();
  };
  const latest = said.findLast((m) => m.role === "assistant");
  return (
    <section class="panel try" aria-labelledby="try">
      <header>
        <h2 id="try">Try it</h2>
        <div class="row push">
          {session && <Status of={session.status} />}
          {session && (
            <Button
              small
              icon="plus"
              onClick={() => {
                setSession(undefined);
                box.current?.focus();
              }}
            >
              New
            </Button>
          )}
        </div>
      </header>
      <div class="try-scroll" ref={scroll} tabIndex={0} role="group" aria-label="Conversation">
        {said.length === 0 ? (
          <p class="muted small">Try the settings as they are here, saved or not. The agent uses its real drive{draft.driveAccess === "read_write" && " and can write to it"}, and costs like any session.</p>
        ) : (
          <div class="chat">
            {said.map((m) =>
              m.role === "user" ? (
                <div key={m.id} class="turn user">
                  {m.text}
                  <AttachedFiles of={m.attachments} />
                </div>
              ) : (
                <div key={m.id} class={"turn assistant " + m.kind}>
                  {m.text ? <ReplyText text={m.text} streaming={running && m.status === "in_progress"} /> : <span class="reply streaming" role="img" aria-label="Waiting for the first token" />}
                </div>
              ),
            )}
          </div>
        )}
        {session?.error && (
          <Notice meaning="failed">
            <p>{session.error.message}</p>
            <p class="small muted">
              <code>{session.error.code}</code>
            </p>
          </Notice>
        )}
      </div>
      <Spoken text={latest?.text ?? ""} done={!running} />
      {pending?.kind === "tool_call" && !changed && (
        <div class="body">
          <OpenCalls calls={pending.calls ?? []} claimedUntil={pending.claimedUntil} busy={busy} give={(output) => void post("input", { inputId: pending.id, outputs: [output] })} />
        </div>
      )}
      {pending?.kind === "tool_approval" && !changed && (
        <div class="body">
          <Approvals calls={pending.calls ?? []} busy={busy} decide={(decisions) => post("input", { inputId: pending.id, decisions })} />
        </div>
      )}
      <form
        class="composer try-foot"
        {...taking(files)}
        onSubmit={(e) => {
          e.preventDefault();
          void submit();
        }}
      >
        {problem && !own.shown && <Failure problem={problem} />}
        {(!session || changed) && own.fields}
        {session && (
          <p class="small muted">
            {session.draft ? <Badge meaning="accent">draft</Badge> : `version ${session.agentVersion},`} {session.model.served ?? session.model.requested}, {plural(session.usage.steps, "model call")}, <Amount of={session.usage.creditsMicro} /> credits.{" "}
            <a href={`#/agents/${agentId}/sessions/${session.id}`}>Open the session</a>
            {filter.from && (
              <>
                {" · "}
                <a href={`#/agents/${agentId}/sessions/${filter.from}/with/${session.id}`}>Compare with the earlier run</a>
              </>
            )}
          </p>
        )}
        {changed && <p class="small">The settings have changed: the next message starts a new conversation.</p>}
        {pending && !changed && (
          <div class="stack">
            <b>{pending.prompt}</b>
            {(pending.kind === "choice" || pending.kind === "approval") && (
              <div class="row">
                {(pending.kind === "choice" ? pending.options : ["approve", "reject"]).map((o) => (
                  <Button small disabled={busy} onClick={() => post("input", pending.kind === "choice" ? { inputId: pending.id, choice: o } : { inputId: pending.id, decision: o })}>
                    {o}
                  </Button>
                ))}
              </div>
            )}
          </div>
        )}
        <ChosenFiles files={files} />
        <label class="unseen" for="try-message">
          Message to try
        </label>
        <textarea
          id="try-message"
          ref={box}
          class="input"
          rows={2}
          placeholder="Message"
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
              e.preventDefault();
              void submit();
            }
          }}
        />
        <div class="row">
          <AttachButton files={files} />
          <div class="row push">
            {running && (
              <Button icon="stop" disabled={busy} onClick={() => post("cancel")}>
                Stop
              </Button>
            )}
            <Button kind="main" type="submit" icon="send" disabled={busy || !text.trim() || files.failed}>
              Send
            </Button>
          </div>
        </div>
      </form>
    </section>
  );
}
