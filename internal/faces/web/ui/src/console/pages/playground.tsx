// The playground: a call, its reply and its cost; or two models side by side.
import { useEffect, useRef, useState } from "preact/hooks";
import { copyText } from "../../lib/copy";
import { count, credits, duration, perMillion, rulesInWords } from "../../lib/format";
import { type Call, estimate, type Message, type Output, type Raw, type Reply, respond } from "../../lib/responses";
import type { Problem } from "../../lib/api";
import type { List, Meta, Receipt } from "../../lib/types";
import { Amount, Badge, Button, Field, Notice } from "../parts/basic";
import { AreaField, TextField } from "../parts/fields";
import { asProblem, Failure, States, useLoad } from "../parts/load";
import { type Image, imagesOf, Images } from "../parts/images";
import { ModelSelect } from "../parts/models";
import { commandKey } from "../parts/palette";
import { linkOf, plain, type Prompt, promptOfLink, Prompts, type Settings } from "../parts/prompts";
import { RawCall } from "../parts/raw";
import { ReplyText, Spoken } from "../parts/reply";
import { Snippets } from "../parts/snippets";
import { arrayIn, Calls, objectIn, type Result, Results, Structure } from "../parts/structure";
import { useAutoScroll } from "../parts/autoscroll";
import { toast } from "../parts/toast";
import { useFilter, withFilter } from "../parts/router";
import { playgroundName, useSession } from "../parts/session";

// A Side is the reply of one model to a prompt.
interface Side {
  asked: string; // the model as chosen
  reply?: Reply;
  receipt?: Receipt;
  stopped?: boolean;
  problem?: Problem;
}

// A Round is one prompt and its replies: one, or two if models are compared.
interface Round {
  id: number;
  question: string;
  images?: Image[];
  results?: Result[]; // of the calls of the previous round, instead of a question
  sides: Side[];
}

export function Playground() {
  const { api } = useSession();
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  return <States of={meta}>{(m) => <Bench meta={m} />}</States>;
}

function callOf(settings: Settings, model: string, input: (Message | Output)[]): Call {
  const call: Call = { model, input };
  if (settings.instructions.trim()) call.instructions = settings.instructions;
  if (settings.maxTokens) call.max_output_tokens = Number(settings.maxTokens);
  if (settings.temperature) call.temperature = Number(settings.temperature);
  if (settings.effort) call.reasoning = { effort: settings.effort };
  const tools = arrayIn(settings.tools).value;
  if (tools?.length) call.tools = tools;
  const schema = objectIn(settings.schema).value;
  if (schema) call.text = { format: { type: "json_schema", name: "reply", schema, strict: true } };
  return call;
}

// history returns the messages of earlier rounds for the next call of a side: those
// with a reply, even a partial one. If a round had one side, its reply is used for
// both.
function history(rounds: Round[], side: number): (Message | Output)[] {
  return rounds
    .map((r) => ({ round: r, reply: (r.sides[side] ?? r.sides[0])?.reply }))
    .filter(({ reply }) => reply?.text || reply?.output)
    .flatMap(({ round, reply }) => [...asked(round), ...(reply!.output ?? [{ role: "assistant" as const, content: reply!.text }])]);
}

// asked returns the input of a round: a question, optionally with images, or the
// results of calls.
function asked(round: Pick<Round, "question" | "images" | "results">): (Message | Output)[] {
  if (round.results) return round.results.map((r) => ({ type: "function_call_output", call_id: r.id, output: r.output }));
  if (!round.images?.length) return [{ role: "user", content: round.question }];
  return [{ role: "user", content: [{ type: "input_text", text: round.question }, ...round.images.map((i) => ({ type: "input_image" as const, image_url: i.url }))] }];
}

interface Kept {
  settings: Settings;
  rounds: Round[];
  draft: string;
}

// readKept returns the conversation of this tab, if there is one.
function readKept(): Kept | undefined {
  try {
    const kept = JSON.parse(sessionStorage.getItem(playgroundName) ?? "null") as Kept | null;
    return kept ? { ...kept, rounds: kept.rounds.filter((r) => Array.isArray(r.sides)) } : undefined;
  } catch {
    return undefined;
  }
}

// keep stores a conversation for this tab. Problems are temporary and not stored.
function keep(what: Kept): void {
  try {
    sessionStorage.setItem(playgroundName, JSON.stringify({ ...what, rounds: what.rounds.map((r) => ({ ...r, sides: r.sides.map((side) => ({ ...side, problem: undefined })) })) }));
  } catch {
    // Without storage, or when it is full, the conversation is kept until the page is
    // closed.
  }
}

const examples = ["Explain in three sentences why the sky is blue.", "Write a polite reply to a customer whose parcel is late.", "List five names for a bakery, as a JSON array."];

function Bench({ meta }: { meta: Meta }) {
  const { api, may, offers, refresh } = useSession();
  const [kept] = useState(readKept);
  const [settings, setSettings] = useState<Settings>({ ...plain, ...kept?.settings });
  const [rounds, setRounds] = useState<Round[]>(kept?.rounds ?? []);
  const [draft, setDraft] = useState(kept?.draft ?? "");
  const [images, setImages] = useState<Image[]>([]);
  const [snippets, setSnippets] = useState(false);
  const [saved, setSaved] = useState(false);
  const [raw, setRaw] = useState<{ raw: Raw; reply?: Reply }>();
  const [edited, setEdited] = useState<number>(); // the round whose question is being changed
  const raws = useRef(new Map<string, Raw>()); // by round and side; not kept
  const [filter] = useFilter();
  const running = useRef<AbortController | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  const box = useRef<HTMLTextAreaElement>(null);
  const ids = useRef(Math.max(0, ...rounds.map((r) => r.id)));
  const [chat, stick] = useAutoScroll();

  useEffect(() => () => running.current?.abort(), []);
  useEffect(() => {
    if (!busy) keep({ settings, rounds, draft });
  }, [busy, settings, rounds, draft]);

  // A link can contain a prompt; the user decides whether to send it.
  useEffect(() => {
    if (!filter.prompt) return;
    window.history.replaceState(null, "", "#/playground");
    const prompt = promptOfLink(filter.prompt);
    if (!prompt) {
      toast("The prompt in this link is incomplete", "failed");
      return;
    }
    running.current?.abort();
    setRounds([]);
    setSettings(prompt.settings);
    setDraft(prompt.text);
  }, [filter.prompt]);

  const change = (id: number, at: number, what: Partial<Side>) => setRounds((all) => all.map((r) => (r.id === id ? { ...r, sides: r.sides.map((side, i) => (i === at ? { ...side, ...what } : side)) } : r)));

  // The receipt is written when the call ends; the list is read, because a missing
  // receipt is not an error there.
  const findReceipt = async (id: number, at: number, reply: Reply) => {
    if (!offers("listReceipts") || !may("usage:read")) return;
    for (const pause of [0, 500, 2000]) {
      await new Promise((done) => setTimeout(done, pause));
      try {
        const list = await api.get<List<Receipt>>("/receipts", { limit: 10 });
        const receipt = list.data.find((r) => r.id === reply.id);
        if (receipt) {
          change(id, at, { receipt });
          return;
        }
      } catch {
        return; // the estimate stays
      }
    }
  };

  const ask = async (round: Round, at: number, before: Round[], signal: AbortSignal) => {
    let known: Reply | undefined;
    try {
      known = await respond(
        api,
        callOf(settings, round.sides[at]!.asked, [...history(before, at), ...asked(round)]),
        signal,
        (reply) => {
          known = reply;
          change(round.id, at, { reply });
        },
        (sent) => void raws.current.set(`${round.id}.${at}`, sent),
      );
      change(round.id, at, { reply: known });
      void findReceipt(round.id, at, known);
    } catch (error) {
      if (signal.aborted) change(round.id, at, { stopped: true, reply: known && { ...known, status: "incomplete" } });
      else change(round.id, at, { problem: asProblem(error), reply: known });
      if (known && signal.aborted) void findReceipt(round.id, at, known);
    }
  };

  const send = async (what: Pick<Round, "question" | "images" | "results">, before: Round[]) => {
    const models = settings.compared && !what.results ? [settings.model, settings.compared] : [settings.model];
    const round: Round = { ...what, id: ++ids.current, sides: models.map((asked) => ({ asked })) };
    const stop = new AbortController();
    running.current = stop;
    stick.current = true;
    setEdited(undefined);
    setRounds([...before, round]);
    setBusy(true);
    await Promise.all(models.map((_, at) => ask(round, at, before, stop.signal)));
    if (running.current === stop) {
      running.current = undefined;
      setBusy(false);
    }
    refresh();
    box.current?.focus();
  };

  const submit = () => {
    const question = draft.trim();
    if (!question || busy || wrong !== undefined) return;
    setDraft("");
    setImages([]);
    void send({ question, images: images.length ? images : undefined }, rounds);
  };
  const on = (extension: string) => meta.extensions?.includes(extension) ?? false;
  const add = async (files: Iterable<File>) => {
    const { images: more, refused } = await imagesOf(files, images.length);
    if (refused) toast(refused, "failed");
    setImages((all) => [...all, ...more]);
    box.current?.focus();
  };
  const wrong = arrayIn(settings.tools).problem ?? objectIn(settings.schema).problem;
  const latest = rounds.at(-1);
  const repeat = (r: Round) => void send(r, rounds.slice(0, rounds.indexOf(r)));

  // From any field: the settings can be changed and tried without the mouse.
  const keys = useRef<(event: KeyboardEvent) => void>(() => {});
  keys.current = (event) => {
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && busy) running.current?.abort();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented) {
      event.preventDefault();
      if (draft.trim()) submit();
      else if (latest && !busy && wrong === undefined) repeat(latest);
    }
  };
  useEffect(() => {
    const listen = (event: KeyboardEvent) => keys.current(event);
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);

  const prompt: Prompt = { settings, text: draft.trim() || latest?.question || "" };
  const share = async () => {
    const link = linkOf(prompt);
    if (!link) toast("This prompt is too long for a link. Save it under a name instead.", "failed");
    else toast((await copyText(link)) ? "Link copied. It contains the whole prompt, so share it only with people who are allowed to read it." : "The browser does not allow copying here");
  };
  const example = callOf(settings, settings.model, [...history(rounds.slice(0, -1), 0), ...asked({ question: draft.trim() || latest?.question || "Why is the sky blue?", images })]);

  return (
    <>
      <header class="head">
        <h1>Playground</h1>
        <div class="row push">
          <Button small icon="file" onClick={() => setSaved(true)}>
            Saved prompts
          </Button>
          <Button small icon="copy" disabled={!prompt.text && !settings.instructions} onClick={share}>
            Copy link to this prompt
          </Button>
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
              <p>Ask something. Each call sends the whole conversation, and each reply shows its cost.</p>
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
                <Exchange
                  key={r.id}
                  round={r}
                  meta={meta}
                  busy={busy && r === latest}
                  again={busy ? undefined : () => repeat(r)}
                  last={r === latest}
                  edits={edited === r.id}
                  onEdit={busy ? undefined : (on) => setEdited(on ? r.id : undefined)}
                  onEdited={(question) => void send({ question, images: r.images }, rounds.slice(0, rounds.indexOf(r)))}
                  onResults={busy || r !== latest || r.sides.length > 1 ? undefined : (results) => void send({ question: "", results }, rounds)}
                  onRaw={(at) => setRaw({ raw: raws.current.get(`${r.id}.${at}`)!, reply: r.sides[at]!.reply })}
                  hasRaw={(at) => raws.current.has(`${r.id}.${at}`)}
                />
              ))}
          </div>
          <Spoken text={latest?.sides[0]?.reply?.text ?? ""} done={!busy} />
          <form
            class="composer"
            onDragOver={(e) => on("images") && e.preventDefault()}
            onDrop={(e) => {
              if (!on("images") || !e.dataTransfer?.files.length) return;
              e.preventDefault();
              void add(e.dataTransfer.files);
            }}
            onPaste={(e) => on("images") && e.clipboardData?.files.length && (e.preventDefault(), void add(e.clipboardData.files))}
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
                if (e.key === "Enter" && !e.shiftKey && !e.ctrlKey && !e.metaKey && !e.isComposing) {
                  e.preventDefault();
                  submit();
                }
              }}
            />
            <div class="row">
              {on("images") && <Images images={images} onAdd={add} onRemove={(at) => setImages(images.filter((_, i) => i !== at))} />}
              <span class="small muted keys">
                <kbd>Enter</kbd> sends, <kbd>Shift</kbd> <kbd>Enter</kbd> breaks a line, <kbd>{commandKey}</kbd> <kbd>Enter</kbd> sends from every field
              </span>
              <div class="push">
                {busy ? (
                  <Button icon="stop" onClick={() => running.current?.abort()}>
                    Stop
                  </Button>
                ) : (
                  <Button kind="main" type="submit" icon="send" disabled={!draft.trim() || wrong !== undefined}>
                    Send
                  </Button>
                )}
              </div>
            </div>
          </form>
        </section>
      </div>
      {snippets && <Snippets call={example} onClose={() => setSnippets(false)} />}
      {raw && <RawCall {...raw} onClose={() => setRaw(undefined)} />}
      {saved && (
        <Prompts
          now={prompt}
          onLoad={(p) => {
            setSettings(p.settings);
            setDraft(p.text);
          }}
          onClose={() => setSaved(false)}
        />
      )}
    </>
  );
}

function Choices({ meta, settings, onChange }: { meta: Meta; settings: Settings; onChange: (s: Partial<Settings>) => void }) {
  const { me } = useSession();
  const chosen = meta.models.find((m) => m.id === (settings.model === "auto" ? meta.defaultModel : settings.model));
  const locked = settings.model !== "auto" && chosen?.gated && !me.plan.gatedModels;
  const wide = matchMedia("(min-width: 961px)").matches;
  const set = [
    settings.maxTokens && `${settings.maxTokens} tokens`,
    settings.temperature && `temperature ${settings.temperature}`,
    settings.effort && `${settings.effort} effort`,
    settings.tools.trim() && "tools",
    settings.schema.trim() && "JSON schema",
  ].filter(Boolean);
  const [opened] = useState(set.length > 0);
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
                {perMillion(chosen.price.inputMicroPerMillion)} in, {perMillion(chosen.price.outputMicroPerMillion)} out: credits per million tokens{rulesInWords(chosen.price) && `, ${rulesInWords(chosen.price)}`}.
              </>
            )
          }
        >
          <ModelSelect id="model" meta={meta} value={settings.model} onChange={(model) => onChange({ model })} />
        </Field>
        <Field id="compared" label="Compare with" hint={settings.compared && "Both get the same prompt, and both replies are charged."}>
          <ModelSelect id="compared" none="no other model" meta={meta} value={settings.compared} onChange={(compared) => onChange({ compared })} />
        </Field>
        {locked && (
          <Notice meaning="waiting">
            <p>
              The plan {me.plan.name} does not include this model. <code>{meta.defaultModel}</code> answers instead, at its own price.
            </p>
          </Notice>
        )}
        <AreaField id="instructions" label="Instructions" hint="The system prompt of each call." rows={5} value={settings.instructions} onChange={(text) => onChange({ instructions: text })} />
        <details class="stack" open={opened}>
          <summary>
            More settings <span class="muted">{set.length > 0 ? set.join(", ") : "all default"}</span>
          </summary>
          <div class="pair">
            <TextField id="tokens" label="Max output tokens" placeholder="default" type="number" min={1} step={1} value={settings.maxTokens} onChange={(text) => onChange({ maxTokens: text.replace(/\D/g, "") })} />
            <TextField id="temperature" label="Temperature, 0–2" placeholder="default" type="number" min={0} max={2} step={0.1} value={settings.temperature} onChange={(text) => onChange({ temperature: text })} />
          </div>
          <Field id="effort" label="Reasoning effort" hint="If the model does not support it, the closest level is used.">
            <select id="effort" class="input" value={settings.effort} onChange={(e) => onChange({ effort: e.currentTarget.value as Settings["effort"] })} aria-describedby="effort-hint">
              <option value="">default</option>
              {["none", "minimal", "low", "medium", "high", "xhigh", "max"].map((e) => (
                <option value={e}>{e}</option>
              ))}
            </select>
          </Field>
          <Structure meta={meta} settings={settings} onChange={onChange} />
        </details>
      </div>
    </details>
  );
}

interface ExchangeProps {
  round: Round;
  meta: Meta;
  busy: boolean;
  last: boolean;
  again?: () => void;
  edits: boolean;
  onEdit?: (on: boolean) => void;
  onEdited: (question: string) => void;
  onResults?: (results: Result[]) => void; // undefined if its calls cannot be answered
  onRaw: (side: number) => void;
  hasRaw: (side: number) => boolean;
}

function Exchange({ round, meta, busy, last, again, edits, onEdit, onEdited, onResults, onRaw, hasRaw }: ExchangeProps) {
  const answers = round.sides.map((side, at) => <Answer side={side} meta={meta} busy={busy && side.reply?.took === undefined && !side.problem} last={last} again={again} onRaw={hasRaw(at) ? () => onRaw(at) : undefined} onResults={onResults} />);
  return (
    <>
      {round.results ? (
        <Results results={round.results} />
      ) : edits ? (
        <Edit question={round.question} last={last} onSend={onEdited} onCancel={() => onEdit?.(false)} />
      ) : (
        <div class="asked">
          {onEdit && (
            <Button kind="quiet" small onClick={() => onEdit(true)}>
              Edit
            </Button>
          )}
          <div class="turn user">
            {round.question}
            {round.images?.map((image) => <img class="picture" src={image.url} alt={image.name} />)}
          </div>
        </div>
      )}
      {answers.length === 1 ? answers : <div class="sides">{answers}</div>}
    </>
  );
}

// Edit changes an earlier question and removes the later rounds.
function Edit({ question, last, onSend, onCancel }: { question: string; last: boolean; onSend: (question: string) => void; onCancel: () => void }) {
  const [text, setText] = useState(question);
  const at = useRef<HTMLTextAreaElement>(null);
  useEffect(() => at.current!.focus(), []);
  return (
    <form
      class="stack edit"
      onSubmit={(e) => {
        e.preventDefault();
        if (text.trim()) onSend(text.trim());
      }}
    >
      <label class="unseen" for="edited">
        Changed message
      </label>
      <textarea id="edited" ref={at} class="input" rows={3} value={text} onInput={(e) => setText(e.currentTarget.value)} onKeyDown={(e) => e.key === "Escape" && onCancel()} />
      <div class="row">
        {!last && <span class="small muted">Later messages are removed.</span>}
        <div class="row push">
          <Button small onClick={onCancel}>
            Cancel
          </Button>
          <Button small kind="main" type="submit" disabled={!text.trim()}>
            Send again
          </Button>
        </div>
      </div>
    </form>
  );
}

function Answer({ side, meta, busy, last, again, onRaw, onResults }: { side: Side; meta: Meta; busy: boolean; last: boolean; again?: () => void; onRaw?: () => void; onResults?: (results: Result[]) => void }) {
  const { reply, receipt, problem } = side;
  const price = meta.models.find((m) => m.id === reply?.model)?.price;
  const guess = reply?.usage && price ? estimate(reply.usage, price) : undefined;
  const other = reply?.model && side.asked !== "auto" && side.asked !== reply.model;
  const copy = async () => toast((await copyText(reply!.text)) ? "Copied" : "The browser does not allow copying here", "ok");
  return (
      <div class="turn assistant">
        {reply?.text ? <ReplyText text={reply.text} streaming={busy} /> : busy && !reply?.calls.length ? <span class="reply streaming" aria-label="Waiting for the first token" role="img" /> : null}
        {reply && reply.calls.length > 0 && <Calls calls={reply.calls} onResults={busy || problem ? undefined : onResults} />}
        {reply && !reply.text && !reply.calls.length && !busy && !problem && <p class="muted">{side.stopped ? "Stopped before the first words." : "The reply is empty."}</p>}
        {problem && <Failure problem={problem} retry={again} />}
        {reply && !busy && (
          <div class="meta">
            <span>{reply.model}</span>
            {other && <Badge meaning="warning">instead of {side.asked}</Badge>}
            {side.stopped && <Badge>stopped</Badge>}
            {reply.reason && <Badge meaning="warning">{reply.reason === "max_output_tokens" ? "cut at the longest reply" : "cut by a filter"}</Badge>}
            {reply.usage && (
              <span title={`${count(reply.usage.input_tokens_details.cached_tokens)} of the input from the cache, ${count(reply.usage.output_tokens_details.reasoning_tokens)} of the output for reasoning`}>
                {count(reply.usage.input_tokens)} in, {count(reply.usage.output_tokens)} out tokens
              </span>
            )}
            {receipt ? (
              <a href={"#/" + withFilter("credits/receipts", { id: receipt.id })}>
                <Amount of={receipt.creditsMicro} /> credits
              </a>
            ) : (
              guess !== undefined && <span title="Estimated from the price list; the receipt has the exact cost">about {credits(guess)} credits</span>
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
            {onRaw && (
              <Button kind="quiet" small onClick={onRaw}>
                Raw
              </Button>
            )}
            {again && !problem && (
              <Button kind="quiet" small onClick={again}>
                {last ? "Regenerate" : "Regenerate from here"}
              </Button>
            )}
          </div>
        )}
      </div>
  );
}
