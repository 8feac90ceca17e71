// The playground: a call, its reply and its cost.
import { useEffect, useRef, useState } from "preact/hooks";
import { copyText } from "../../lib/copy";
import { count, credits, duration, perMillion } from "../../lib/format";
import { type Call, type Effort, estimate, type Message, type Reply, respond } from "../../lib/responses";
import type { Problem } from "../../lib/api";
import type { List, Meta, Receipt } from "../../lib/types";
import { Amount, Badge, Button, Field, Notice } from "../parts/basic";
import { asProblem, Failure, States, useLoad } from "../parts/load";
import { ModelSelect } from "../parts/models";
import { ReplyText, Spoken } from "../parts/reply";
import { Snippets } from "../parts/snippets";
import { useStick } from "../parts/stick";
import { toast } from "../parts/toast";
import { playgroundName, useSession } from "../session";

interface Settings {
  model: string;
  instructions: string;
  maxTokens: string;
  effort: Effort | ""; // empty: not sent
  temperature: string; // empty: not sent
}

// A Round is one prompt and its reply.
interface Round {
  id: number;
  question: string;
  asked: string; // the model as chosen
  reply?: Reply;
  receipt?: Receipt;
  stopped?: boolean;
  problem?: Problem;
}

export function Playground() {
  const { api } = useSession();
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  return <States of={meta}>{(m) => <Bench meta={m} />}</States>;
}

function callOf(settings: Settings, input: Message[]): Call {
  const call: Call = { model: settings.model, input };
  if (settings.instructions.trim()) call.instructions = settings.instructions;
  if (settings.maxTokens) call.max_output_tokens = Number(settings.maxTokens);
  if (settings.temperature) call.temperature = Number(settings.temperature);
  if (settings.effort) call.reasoning = { effort: settings.effort };
  return call;
}

// history returns the messages of earlier rounds for the next call: those with
// a reply, even a partial one.
function history(rounds: Round[]): Message[] {
  return rounds
    .filter((r) => r.reply?.text)
    .flatMap((r) => [
      { role: "user", content: r.question },
      { role: "assistant", content: r.reply!.text },
    ] as Message[]);
}

interface Kept {
  settings: Settings;
  rounds: Round[];
  draft: string;
}

// readKept returns the conversation of this tab, if there is one.
function readKept(): Kept | undefined {
  try {
    return (JSON.parse(sessionStorage.getItem(playgroundName) ?? "null") as Kept | null) ?? undefined;
  } catch {
    return undefined;
  }
}

// keep keeps a conversation for this tab. Problems are not kept: they are of a moment.
function keep(what: Kept): void {
  try {
    sessionStorage.setItem(playgroundName, JSON.stringify({ ...what, rounds: what.rounds.map((r) => ({ ...r, problem: undefined })) }));
  } catch {
    // Without storage, or when it is full, the conversation lives as long as the page.
  }
}

const examples = ["Explain in three sentences why the sky is blue.", "Write a polite reply to a customer whose parcel is late.", "List five names for a bakery, as a JSON array."];

function Bench({ meta }: { meta: Meta }) {
  const { api, may, offers, refresh } = useSession();
  const [kept] = useState(readKept);
  const [settings, setSettings] = useState<Settings>({ model: "auto", instructions: "", maxTokens: "", effort: "", temperature: "", ...kept?.settings });
  const [rounds, setRounds] = useState<Round[]>(kept?.rounds ?? []);
  const [draft, setDraft] = useState(kept?.draft ?? "");
  const [snippets, setSnippets] = useState(false);
  const running = useRef<AbortController | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  const box = useRef<HTMLTextAreaElement>(null);
  const ids = useRef(Math.max(0, ...rounds.map((r) => r.id)));
  const [chat, stick] = useStick();

  useEffect(() => () => running.current?.abort(), []);
  useEffect(() => {
    if (!busy) keep({ settings, rounds, draft });
  }, [busy, settings, rounds, draft]);

  const change = (id: number, what: Partial<Round>) => setRounds((all) => all.map((r) => (r.id === id ? { ...r, ...what } : r)));

  // The receipt is written when the call ends; the list is asked, because a
  // receipt that is not there yet is no error in it.
  const findReceipt = async (id: number, reply: Reply) => {
    if (!offers("listReceipts") || !may("usage:read")) return;
    for (const pause of [0, 500, 2000]) {
      await new Promise((done) => setTimeout(done, pause));
      try {
        const list = await api.get<List<Receipt>>("/receipts", { limit: 10 });
        const receipt = list.data.find((r) => r.id === reply.id);
        if (receipt) {
          change(id, { receipt });
          return;
        }
      } catch {
        return; // the estimate stays
      }
    }
  };

  const send = async (question: string, before: Round[]) => {
    const round: Round = { id: ++ids.current, question, asked: settings.model };
    const stop = new AbortController();
    running.current = stop;
    stick.current = true;
    setRounds([...before, round]);
    setBusy(true);
    let known: Reply | undefined;
    try {
      known = await respond(api, callOf(settings, [...history(before), { role: "user", content: question }]), stop.signal, (reply) => {
        known = reply;
        change(round.id, { reply });
      });
      change(round.id, { reply: known });
      void findReceipt(round.id, known);
    } catch (error) {
      if (stop.signal.aborted) change(round.id, { stopped: true, reply: known && { ...known, status: "incomplete" } });
      else change(round.id, { problem: asProblem(error), reply: known });
      if (known && stop.signal.aborted) void findReceipt(round.id, known);
    } finally {
      if (running.current === stop) {
        running.current = undefined;
        setBusy(false);
      }
      refresh();
      box.current?.focus();
    }
  };

  const submit = () => {
    const question = draft.trim();
    if (!question || busy) return;
    setDraft("");
    void send(question, rounds);
  };

  const latest = rounds.at(-1);
  const example = callOf(settings, [...history(rounds.slice(0, -1)), { role: "user", content: draft.trim() || latest?.question || "Why is the sky blue?" }]);

  return (
    <>
      <header class="head">
        <h1>Playground</h1>
        <div class="row push">
          <Button small icon="copy" onClick={() => setSnippets(true)}>
            Copy as code
          </Button>
          <Button
            small
            icon="plus"
            disabled={rounds.length === 0}
            onClick={() => {
              running.current?.abort();
              setRounds([]);
              box.current?.focus();
            }}
          >
            New conversation
          </Button>
        </div>
      </header>
      <div class="bench">
        <Choices meta={meta} settings={settings} onChange={(s) => setSettings({ ...settings, ...s })} />
        <section class="talk" aria-label="Conversation">
          {rounds.length === 0 && (
            <div class="hello muted">
              <p>Ask something. The whole conversation travels with each call, and each reply shows what it cost.</p>
              <div class="stack examples">
                {examples.map((text) => (
                  <Button
                    small
                    onClick={() => {
                      setDraft(text);
                      box.current?.focus();
                    }}
                  >
                    {text}
                  </Button>
                ))}
              </div>
            </div>
          )}
          <div class="chat" ref={chat}>
              {rounds.map((r) => (
                <Exchange key={r.id} round={r} meta={meta} busy={busy && r === latest} again={r === latest && !busy ? () => send(r.question, rounds.slice(0, -1)) : undefined} />
              ))}
          </div>
          <Spoken text={latest?.reply?.text ?? ""} done={!busy} />
          <form
            class="composer"
            onSubmit={(e) => {
              e.preventDefault();
              submit();
            }}
          >
            <label class="unseen" for="question">
              Message
            </label>
            <textarea
              id="question"
              ref={box}
              class="input"
              rows={2}
              placeholder="Message"
              value={draft}
              autofocus
              onInput={(e) => setDraft(e.currentTarget.value)}
              onKeyDown={(e) => {
                if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
                  e.preventDefault();
                  submit();
                } else if (e.key === "Escape" && busy) running.current?.abort();
              }}
            />
            <div class="row">
              <span class="small muted">Enter sends, Shift and Enter breaks a line</span>
              <div class="push">
                {busy ? (
                  <Button icon="stop" onClick={() => running.current?.abort()}>
                    Stop
                  </Button>
                ) : (
                  <Button kind="main" type="submit" icon="send" disabled={!draft.trim()}>
                    Send
                  </Button>
                )}
              </div>
            </div>
          </form>
        </section>
      </div>
      {snippets && <Snippets call={example} onClose={() => setSnippets(false)} />}
    </>
  );
}

function Choices({ meta, settings, onChange }: { meta: Meta; settings: Settings; onChange: (s: Partial<Settings>) => void }) {
  const { me } = useSession();
  const chosen = meta.models.find((m) => m.id === (settings.model === "auto" ? meta.defaultModel : settings.model));
  const locked = settings.model !== "auto" && chosen?.gated && !me.plan.gatedModels;
  const wide = matchMedia("(min-width: 961px)").matches;
  return (
    <details class="choices panel" open={wide}>
      <summary>
        Model and settings <span class="muted">{settings.model}</span>
      </summary>
      <div class="body stack">
        <Field
          id="model"
          label="Model"
          hint={
            chosen && (
              <>
                {settings.model === "auto" && <>{chosen.id} now. </>}
                {perMillion(chosen.price.inputMicroPerMillion)} in, {perMillion(chosen.price.outputMicroPerMillion)} out: credits per million tokens.
              </>
            )
          }
        >
          <ModelSelect id="model" meta={meta} value={settings.model} onChange={(model) => onChange({ model })} />
        </Field>
        {locked && (
          <Notice meaning="waiting">
            <p>
              The plan {me.plan.name} does not include this model. <code>{meta.defaultModel}</code> answers instead, at its own price.
            </p>
          </Notice>
        )}
        <Field id="instructions" label="Instructions" hint="The system prompt of each call.">
          <textarea id="instructions" class="input" rows={4} value={settings.instructions} onInput={(e) => onChange({ instructions: e.currentTarget.value })} aria-describedby="instructions-hint" />
        </Field>
        <Field id="tokens" label="Max output tokens" hint="Empty for the model's own.">
          <input id="tokens" class="input" type="number" min={1} step={1} value={settings.maxTokens} onInput={(e) => onChange({ maxTokens: e.currentTarget.value.replace(/\D/g, "") })} aria-describedby="tokens-hint" />
        </Field>
        <Field id="temperature" label="Temperature" hint="0 to 2; empty for the model's own. Some models take none.">
          <input id="temperature" class="input" type="number" min={0} max={2} step={0.1} value={settings.temperature} onInput={(e) => onChange({ temperature: e.currentTarget.value })} aria-describedby="temperature-hint" />
        </Field>
        <Field id="effort" label="Reasoning effort" hint="Moved to the nearest that the model takes.">
          <select id="effort" class="input" value={settings.effort} onChange={(e) => onChange({ effort: e.currentTarget.value as Settings["effort"] })} aria-describedby="effort-hint">
            <option value="">the model's own</option>
            {["none", "minimal", "low", "medium", "high", "xhigh", "max"].map((e) => (
              <option value={e}>{e}</option>
            ))}
          </select>
        </Field>
      </div>
    </details>
  );
}

function Exchange({ round, meta, busy, again }: { round: Round; meta: Meta; busy: boolean; again?: () => void }) {
  const { reply, receipt, problem } = round;
  const price = meta.models.find((m) => m.id === reply?.model)?.price;
  const guess = reply?.usage && price ? estimate(reply.usage, price) : undefined;
  const other = reply?.model && round.asked !== "auto" && round.asked !== reply.model;
  const copy = async () => toast((await copyText(reply!.text)) ? "Copied" : "The browser does not allow copying here", "ok");
  return (
    <>
      <div class="turn user">{round.question}</div>
      <div class="turn assistant">
        {reply?.text ? <ReplyText text={reply.text} streaming={busy} /> : busy ? <span class="reply streaming" aria-label="Waiting for the first words" role="img" /> : null}
        {reply && !reply.text && !busy && !problem && <p class="muted">{round.stopped ? "Stopped before the first words." : "The reply is empty."}</p>}
        {problem && <Failure problem={problem} retry={again} />}
        {reply && !busy && (
          <div class="meta">
            <span>{reply.model}</span>
            {other && <Badge meaning="waiting">instead of {round.asked}</Badge>}
            {round.stopped && <Badge>stopped</Badge>}
            {reply.reason && <Badge meaning="waiting">{reply.reason === "max_output_tokens" ? "cut at the longest reply" : "cut by a filter"}</Badge>}
            {reply.usage && (
              <span title={`${count(reply.usage.input_tokens_details.cached_tokens)} of the input from the cache, ${count(reply.usage.output_tokens_details.reasoning_tokens)} of the output for reasoning`}>
                {count(reply.usage.input_tokens)} in, {count(reply.usage.output_tokens)} out tokens
              </span>
            )}
            {receipt ? (
              <span>
                <Amount of={receipt.creditsMicro} /> credits
              </span>
            ) : (
              guess !== undefined && <span title="By the price list; the receipt says what it did cost">about {credits(guess)} credits</span>
            )}
            {reply.took !== undefined && (
              <span>
                {duration(reply.took)}
                {reply.firstAfter !== undefined && `, first words after ${duration(reply.firstAfter)}`}
              </span>
            )}
            {reply.text && (
              <Button kind="quiet" small onClick={copy}>
                Copy
              </Button>
            )}
            {again && !problem && (
              <Button kind="quiet" small onClick={again}>
                Again
              </Button>
            )}
          </div>
        )}
      </div>
    </>
  );
}
