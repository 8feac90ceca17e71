import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { VisitorAttachments } from "../lib/contract";
import { AttachButton, AttachedFiles, ChosenFiles, taking, useFiles } from "../console/parts/attach";
import { Button, Notice } from "../console/parts/basic";
import { ReplyText, Spoken } from "../console/parts/reply";
import { copyText } from "../lib/copy";
import { Thumbs } from "../console/parts/thumbs";
import { Face } from "../console/parts/face";
import { clock, say } from "./say";
import { working, type Message, type PendingInput, type ToolConfirmation } from "./types";
import type { End, State, Visit } from "./visit";

// The whole page: the agent's name, the messages, and the one thing to do next.
export function ChatPage({ visit, state }: { visit: Visit; state: State }) {
  const { chat, end } = state;
  const name = chat?.title ?? chat?.agent.name ?? "";
  useEffect(() => {
    if (name) document.title = name;
  }, [name]);
  const slow = useSlow(chat !== null && working(chat.status), chat?.messages.at(-1)?.text.length ?? 0);
  if (!chat) {
    return (
      <main class="chat-page">
        <div class="middle">{end ? <Ended end={end} alone /> : <Opening offline={state.offline} />}</div>
      </main>
    );
  }
  const busy = working(chat.status);
  const idle = !busy && !state.sending;
  const limited = chat.remaining.limitReached && !busy && chat.pendingInput?.kind !== "tool_confirmation"; // a decision is accepted regardless
  const asks = !end && !limited && idle ? chat.pendingInput : null;
  return (
    <main class="chat-page" aria-label={say("Chat with {name}", { name })}>
      <header class="chat-head">
        <Face title={name} logo={chat.logoUrl} />
        <h1>{name}</h1>
        <span class="chat-state" role="status">
          {say(end ? "Ended" : state.offline ? "Offline" : state.sending ? "Sending" : chat.waitingFor === "operator" ? "Waiting for the operator" : busy ? (slow ? "Still working…" : "Working") : chat.status === "waiting_for_input" ? "Waiting for you" : "")}
        </span>
      </header>
      <Said visit={visit} state={state} asks={asks} onStart={end || limited || !idle ? undefined : (text) => void visit.send(text)} />
      <div class="chat-foot">
        {end ? (
          <Ended end={end} />
        ) : (
          <>
            {state.offline && (
              <Notice meaning="waiting">
                <p>{say("You are offline. The chat continues when the connection is back.")}</p>
              </Notice>
            )}
            {idle && chat.status === "failed" && (
              <Notice meaning="failed">
                <p>{say(chat.error?.message ?? "No answer.")}</p>
                {chat.error?.retryable && !chat.remaining.limitReached && (
                  <p class="row">
                    <Button small icon="again" onClick={() => void visit.retry()}>
                      {say("Try again")}
                    </Button>
                  </p>
                )}
              </Notice>
            )}
            {idle && chat.status === "cancelled" && !chat.remaining.limitReached && (
              <p class="row small muted">
                <span>{say("You stopped the answer.")}</span>
                <Button small kind="quiet" icon="again" onClick={() => void visit.retry()}>
                  {say("Try again")}
                </Button>
              </p>
            )}
            {state.notice && !(chat.remaining.limitReached && idle) && (
              <Notice meaning="failed">
                <p>{say(state.notice)}</p>
              </Notice>
            )}
            {chat.contact && chat.messages.length > 0 && <Person visit={visit} at={chat.personRequestedAt} />}
            {limited ? (
              <Notice meaning="info">
                <p>
                  <b>{say("This chat has reached its limit.")}</b>
                </p>
                <p>{say("You can still read this chat. Reload the page to start a new one.")}</p>
              </Notice>
            ) : asks?.confirmation ? (
              <Confirmation key={asks.id} input={asks} of={asks.confirmation} visit={visit} />
            ) : asks ? (
              <InputForm key={asks.id} input={asks} visit={visit} max={chat.maxMessageChars} attachments={chat.attachments} />
            ) : (
              <Composer visit={visit} state={state} busy={busy} name={name} />
            )}
          </>
        )}
      </div>
    </main>
  );
}

// Person asks the owner of the chat for a person, and says when that was done.
function Person({ visit, at }: { visit: Visit; at: string | null }) {
  const [busy, setBusy] = useState(false);
  const ask = async () => {
    setBusy(true);
    await visit.person();
    setBusy(false);
  };
  return (
    <p class="row small muted" role="status">
      {at ? (
        <span>{say("A person was asked at {time} and can read this chat. Write here how they can reach you.", { time: clock(at) })}</span>
      ) : (
        <Button small kind="quiet" disabled={busy} onClick={() => void ask()}>
          {say("Talk to a person")}
        </Button>
      )}
    </p>
  );
}

const slowAfter = 6000; // milliseconds without new text

// useSlow reports whether an answer has not grown for a while.
function useSlow(busy: boolean, length: number): boolean {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    setSlow(false);
    if (!busy) return;
    const timer = setTimeout(() => setSlow(true), slowAfter);
    return () => clearTimeout(timer);
  }, [busy, length]);
  return slow && busy;
}

function Opening({ offline }: { offline: boolean }) {
  if (offline) {
    return (
      <Notice meaning="waiting">
        <p>{say("The chat cannot be reached. It opens by itself when the connection is back.")}</p>
      </Notice>
    );
  }
  return (
    <div class="opening" role="status">
      <span class="unseen">{say("The chat is being opened.")}</span>
      <span class="skeleton w60" />
      <span class="skeleton w90" />
      <span class="skeleton w40" />
    </div>
  );
}

function Ended({ end, alone }: { end: End; alone?: boolean }) {
  return (
    <Notice meaning="info">
      {alone ? <h1 class="plain">{say(end.title)}</h1> : <h2 class="plain">{say(end.title)}</h2>}
      <p>{say(end.text)}</p>
    </Notice>
  );
}

// Said shows the conversation and scrolls to its end, unless the reader has scrolled
// away from it.
function Said({ visit, state, asks, onStart }: { visit: Visit; state: State; asks: PendingInput | null; onStart?: (text: string) => void }) {
  const chat = state.chat!;
  const box = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const top = useRef(0);
  const busy = working(chat.status);
  const last = chat.messages.at(-1);
  // The form's question is shown only there.
  const asked = asks && last?.role === "assistant" && last.text.trim() === asks.prompt.trim() ? last.id : "";
  useLayoutEffect(() => {
    const follow = () => {
      if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
    };
    follow();
    const sizes = new ResizeObserver(follow);
    if (box.current?.firstElementChild) sizes.observe(box.current.firstElementChild);
    if (box.current) sizes.observe(box.current);
    return () => sizes.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (last?.id === "sending") atEnd.current = true;
  }, [last?.id]);
  const spoken = [...chat.messages].reverse().find((m) => m.role === "assistant");
  // Earlier messages are not read out again when the page opens.
  const known = useRef(new Set(chat.messages.filter((m) => m.status !== "in_progress").map((m) => m.id)));
  return (
    <div
      class="chat-scroll"
      ref={box}
      tabIndex={0}
      role="region"
      aria-label={say("Conversation")}
      onScroll={(e) => {
        // Only the reader scrolls up; growth of the content does not stop the
        // scrolling.
        const el = e.currentTarget;
        if (el.scrollHeight - el.scrollTop - el.clientHeight < 48) atEnd.current = true;
        else if (el.scrollTop < top.current) atEnd.current = false;
        top.current = el.scrollTop;
      }}
    >
      <ol class="chat">
        {chat.hasEarlierMessages && <li class="muted small">{say("Earlier messages are not shown.")}</li>}
        {chat.greeting && (
          <li class="turn assistant">
            <ReplyText text={chat.greeting} streaming={false} />
          </li>
        )}
        {!chat.greeting && chat.messages.length === 0 && (
          <li class="hello">
            <p class="muted">{say("Write your question below.")}</p>
          </li>
        )}
        {chat.messages.length === 0 && onStart && <Starters of={chat.starters} onStart={onStart} />}
        {chat.messages.map((m) => m.id !== asked && <Bubble key={m.id} m={m} visit={chat.feedback && !state.end && !busy && !chat.pendingInput ? visit : undefined} />)}
        {busy && last?.status !== "in_progress" && (
          <li class="turn assistant">
            <div class="reply streaming" aria-hidden="true" />
          </li>
        )}
      </ol>
      {spoken && !known.current.has(spoken.id) && <Spoken key={spoken.id} text={plain(spoken.text)} done={spoken.status !== "in_progress"} />}
    </div>
  );
}

// Starters are questions that the owner of the chat offers: a click sends one.
function Starters({ of: texts = [], onStart }: { of?: string[]; onStart: (text: string) => void }) {
  if (texts.length === 0) return null;
  return (
    <li>
      <ul class="starters" aria-label={say("Suggested questions")}>
        {texts.map((text) => (
          <li key={text}>
            <button type="button" class="button" onClick={() => onStart(text)}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    </li>
  );
}

// plain removes Markdown marks from text for screen readers.
function plain(text: string): string {
  return text.replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/[*_`#>|~]+/g, "");
}

// Bubble shows a message; with a visit, an answer can be rated.
function Bubble({ m, visit }: { m: Message; visit?: Visit }) {
  if (m.role === "user") {
    return (
      <li class={"turn user" + (m.id === "sending" ? " sending" : "")} data-time={clock(m.createdAt)}>
        <span class="unseen">{say("You: ")}</span>
        {m.text}
        <AttachedFiles of={m.attachments} />
      </li>
    );
  }
  if (m.text === "" && m.status !== "in_progress") return null;
  const streaming = m.status === "in_progress";
  return (
    <li class={"turn assistant" + (m.kind === "comment" ? " comment" : "")}>
      <span class="unseen">{say("Answer: ")}</span>
      <ReplyText text={m.text} streaming={streaming} />
      {!streaming && (
        <div class="meta">
          {m.status === "cancelled" && <span>{say("Stopped")}</span>}
          <time datetime={m.createdAt}>{clock(m.createdAt)}</time>
          <Copy label={say("Copy the answer")} text={m.text} />
          {visit && m.kind === "reply" && <Thumbs was={m.feedback} rate={(to) => visit.rate(m.id, to)} say={say} />}
        </div>
      )}
    </li>
  );
}

// Copy copies a text to the clipboard and confirms it.
function Copy({ label, text }: { label: string; text: string }) {
  const [done, setDone] = useState(false);
  return (
    <Button small kind="quiet" icon={done ? "check" : "copy"} label={done ? say("Copied") : label} onClick={() => void copyText(text).then(setDone)} />
  );
}

function Composer({ visit, state, busy, name }: { visit: Visit; state: State; busy: boolean; name: string }) {
  const chat = state.chat!;
  const [text, setText] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  const files = useFiles((file) => visit.upload(file));
  const accepts = chat.attachments ? files : undefined;
  useEffect(() => {
    if (state.unsent !== "") setText((now) => now || state.unsent);
  }, [state.unsent]);
  const length = [...text.trim()].length;
  const over = length - chat.maxMessageChars;
  const send = async () => {
    const message = text.trim();
    if (message === "" || busy || state.sending || over > 0 || files.failed) return;
    field.current?.focus();
    const attached = await files.body();
    if (!attached) return;
    setText("");
    if (await visit.send(message, attached)) files.clear();
  };
  return (
    <form
      class={"chat-composer" + (accepts ? " attaches" : "")}
      {...taking(accepts)}
      onSubmit={(e) => {
        e.preventDefault();
        void send();
      }}
    >
      <ChosenFiles files={files} say={say} />
      {accepts && <AttachButton files={files} label={say("Attach files")} accept={chat.attachments!.accept} disabled={busy} />}
      <label class="unseen" for="message">
        {say("Message to {name}", { name })}
      </label>
      <textarea
        id="message"
        ref={field}
        class="input"
        rows={1}
        value={text}
        placeholder={say("Write a message")}
        enterkeyhint="send"
        autocomplete="off"
        aria-invalid={over > 0}
        aria-describedby={over > 0 ? "too-long" : chat.remaining.messages <= 5 ? "remaining" : undefined}
        onInput={(e) => setText(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "Escape" && busy) {
            e.preventDefault();
            void visit.stop();
          }
          if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
          e.preventDefault();
          void send();
        }}
      />
      {busy ? (
        <Button icon="stop" label={say("Stop the answer")} onClick={() => void visit.stop()} />
      ) : (
        <Button kind="main" type="submit" icon="send" label={say("Send")} disabled={length === 0 || state.sending || over > 0 || files.failed} />
      )}
      {over > 0 ? (
        <p id="too-long" class="problem small" role="alert">
          {over === 1 ? say("One character too many.") : say("{n} characters too many.", { n: over })}
        </p>
      ) : (
        chat.remaining.messages <= 5 && (
          <p id="remaining" class="small muted">
            {chat.remaining.messages === 1 ? say("One message left.") : say("{n} messages left.", { n: chat.remaining.messages })}
          </p>
        )
      )}
    </form>
  );
}

// InputForm shows the agent's question with a text field, a choice, or yes and no.
function InputForm({ input, visit, max, attachments }: { input: PendingInput; visit: Visit; max: number; attachments?: VisitorAttachments }) {
  const files = useFiles((file) => visit.upload(file));
  const [text, setText] = useState("");
  const first = useRef<HTMLElement>(null);
  useEffect(() => {
    // Keeps the focus of a visitor who was writing; otherwise the focus does
    // not move.
    if (document.hasFocus() && (document.activeElement === document.body || document.activeElement === null)) first.current?.focus();
  }, []);
  // A message with files is an answer too.
  const answer = async (value: string) => {
    const attached = await files.body();
    if (attached) await (attached.attachments ? visit.send(value, attached) : visit.answer(input, value));
  };
  if (input.kind === "question") {
    const ready = text.trim() !== "" && [...text.trim()].length <= max && !files.failed;
    return (
      <form
        class="chat-input"
        {...taking(attachments ? files : undefined)}
        onSubmit={(e) => {
          e.preventDefault();
          if (ready) void answer(text.trim());
        }}
      >
        <label for="answer">{input.prompt}</label>
        <textarea
          id="answer"
          ref={first as never}
          class="input"
          rows={2}
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
            e.preventDefault();
            if (ready) void answer(text.trim());
          }}
        />
        <ChosenFiles files={files} say={say} />
        <div class="row">
          {attachments && <AttachButton files={files} label={say("Attach files")} accept={attachments.accept} />}
          <Button kind="main" type="submit" disabled={!ready}>
            {say("Answer")}
          </Button>
          <Button kind="quiet" onClick={() => void visit.stop()}>
            {say("Stop")}
          </Button>
        </div>
      </form>
    );
  }
  const choices = input.kind === "choice" ? input.options.map((o) => [o, o]) : [["approve", say("Approve")], ["reject", say("Reject")]];
  return (
    <fieldset class="chat-input">
      <legend>{input.prompt}</legend>
      <div class="row">
        {choices.map(([value, label], i) => (
          <button key={value} type="button" ref={i === 0 ? (first as never) : undefined} class={"button" + (input.kind === "approval" && i === 0 ? " main" : "")} onClick={() => void answer(value!)}>
            {label}
          </button>
        ))}
        <Button kind="quiet" onClick={() => void visit.stop()}>
          {say("Stop")}
        </Button>
      </div>
    </fieldset>
  );
}

// Confirmation asks the visitor to confirm a call: it shows the reviewer's title and
// the visible arguments, all as text.
function Confirmation({ input, of: c, visit }: { input: PendingInput; of: ToolConfirmation; visit: Visit }) {
  const box = useRef<HTMLFieldSetElement>(null);
  useEffect(() => {
    // A visitor who was typing continues here, without pressing a button by accident.
    if (document.hasFocus() && (document.activeElement === document.body || document.activeElement === null)) box.current?.focus();
  }, []);
  useEffect(() => visit.lookAfter(input.expiresAt), [input.id]);
  const decide = (value: string) => void visit.answer(input, value);
  return (
    <fieldset class="chat-input" ref={box} tabIndex={-1} aria-describedby="confirms-what">
      <legend>{say("Confirm this action?")}</legend>
      <div id="confirms-what" class="confirms">
        <p class="what">
          <bdi>{c.title}</bdi>
        </p>
        {c.fields.length > 0 && (
          <dl>
            {c.fields.map((f) => (
              <div>
                <dt>
                  <bdi>{f.name}</bdi>
                </dt>
                <dd>
                  <bdi>{f.value}</bdi>
                </dd>
              </div>
            ))}
          </dl>
        )}
        <p class="small muted">{say(c.previousOutcome === "unknown" ? "It may have been done already. If you confirm, it is done again." : "Nothing happens before you confirm it.")}</p>
      </div>
      <div class="row">
        <Button kind="main" onClick={() => decide("approve")}>
          {say("Confirm")}
        </Button>
        <Button onClick={() => decide("reject")}>{say("Decline")}</Button>
      </div>
    </fieldset>
  );
}
