// One model call of a session, opened: the whole request by its parts, what the model replied, and its receipt. All texts are shown as
// text.
import { useEffect, useRef, useState } from "preact/hooks";
import type { RequestPart, SessionStep, StepRequest } from "../../lib/contract";
import { indented, visible } from "../../lib/exact";
import { count, duration } from "../../lib/format";
import { Amount, Badge } from "./basic";
import { EscapedText } from "./escapedtext";
import { Facts } from "./facts";
import { Failure, Skeleton, useLoad } from "./load";
import { withFilter } from "./router";
import { useSession } from "./session";

// pretty indents JSON without changing its numbers; other text is unchanged.
export function pretty(text: string): string {
  try {
    if (/^\s*[{[]/.test(text)) JSON.parse(text);
    else return visible(text);
  } catch {
    return visible(text); // a note in brackets
  }
  return visible(indented(text));
}

function Said({ title, text, note }: { title: string; text: string; note?: string }) {
  return (
    <>
      <p class="small muted">
        {title} {note && <Badge meaning="waiting">{note}</Badge>}
      </p>
      <pre class="io" tabIndex={0} aria-label={title}>
        <EscapedText text={pretty(text)} />
      </pre>
    </>
  );
}

interface Of {
  path: string; // of the session
  id: string;
  agentId: string;
  version?: number; // of the agent, with the instructions; undefined for a draft
  message?: string; // of the user, which began the turn
}

// ModelCall reads the call when it is opened.
export function ModelCall({ opened, ...of }: Of & { opened?: string }) {
  const { id } = of;
  const [open, setOpen] = useState(opened === id);
  const at = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    if (opened === id) at.current?.scrollIntoView({ block: "nearest" });
  }, []);
  return (
    <details ref={at} open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary class="small">Prompt and reply</summary>
      {open && <Opened {...of} />}
    </details>
  );
}

function Opened({ path, id, agentId, version, message }: Of) {
  const { api, may } = useSession();
  const step = useLoad((signal) => api.get<SessionStep>(`${path}/steps/${encodeURIComponent(id)}`, undefined, signal), [api, path, id]);
  const s = step.data;
  if (!s) return step.problem ? <Failure problem={step.problem} retry={step.reload} /> : <Skeleton />;
  const r = s.receipt;
  return (
    <div class="stack modelcall">
      <p class="small muted">
        Instructions and settings: {version === undefined ? "the draft" : may("agents:read") ? <a href={`#/agents/${agentId}/versions`}>version {version} of the agent</a> : `version ${version} of the agent`}.
        {!s.request && " Only what this call added to the conversation is recorded; earlier steps and turns were sent before it."}
      </p>
      {s.request && <Request of={s.request} receipt={r !== null} />}
      {!s.request &&
        s.input.map((i) => (
          <Said key={i.callId ?? ""} title={i.role === "user" ? "Message of the user" : `Result of ${i.name}`} text={i.text} note={i.truncated ? "beginning only" : i.isError ? "failed" : undefined} />
        ))}
      {s.text && <Said title="Reply" text={s.text} />}
      {s.calls.map((c) => (
        <Said key={c.callId} title={`Call of ${c.name}`} text={c.arguments} />
      ))}
      <Facts
        of={[
          ["Ended", s.stop ?? "broken off"],
          s.reasoningSegments > 0 && ["Reasoning", `${r?.usage.reasoningTokens ? count(r.usage.reasoningTokens) + " tokens, " : ""}sealed by the vendor`],
          r && ["Model", `${r.model.served} at ${r.route.provider}`],
          r && ["Tokens", `${count(r.usage.inputTokens)} in (${count(r.usage.cachedInputTokens)} from the cache), ${count(r.usage.outputTokens)} out`],
          r?.timeToFirstTokenMilliseconds != null && ["First token", `after ${duration(r.timeToFirstTokenMilliseconds)}`],
          r && ["Credits", <Amount of={r.creditsMicro} as="exact" />],
          r && ["Receipt", may("usage:read") ? <a href={"#/" + withFilter("credits", { id: r.id })}>{r.id}</a> : r.id],
        ]}
      />
      {message && may("sessions:write") && may("agents:read") && (
        <p>
          <a href={"#/" + withFilter(`agents/${agentId}/settings`, { try: message.slice(0, 2000), from: id.split(".")[0]! })}>Ask the draft the same</a> <span class="small muted">and compare both runs</span>
        </p>
      )}
    </div>
  );
}

const titles: Record<RequestPart["kind"], (p: RequestPart) => string> = {
  tools: () => "Tools",
  instructions: () => "Instructions of the agent",
  skills: () => "List of skills",
  service: () => "Instructions of the service",
  format: () => "Schema of answers",
  files: (p) => (p.files.length === 1 ? "1 file of the drive" : `${count(p.files.length)} files of the drive`),
  summary: () => "Summary of the beginning",
  found: () => "Tools that it found",
  history: (p) => `Turn ${p.turn ?? ""}`,
  note: () => "Note of the service",
  memory: () => "Notes about the user",
  message: () => "Message of this turn",
  step: (p) => (p.step ? `Step ${p.step} of this turn` : "Note of the last step"),
};

interface Group {
  key: string;
  parts: RequestPart[];
  tokens: number;
  cached: number;
}

// groupsOf folds consecutive parts that belong together: an earlier turn with its notes, the tools, a step with its results.
function groupsOf(parts: RequestPart[]): Group[] {
  const groups: Group[] = [];
  for (const p of parts) {
    let group = groups.at(-1);
    const kind = p.kind === "note" && p.turn !== null && group?.parts[0]!.turn === p.turn ? group.parts[0]!.kind : p.kind;
    const key = [kind, p.turn ?? "", p.step ?? ""].join(" ");
    if (group?.key !== key) groups.push((group = { key, parts: [], tokens: 0, cached: 0 }));
    group.parts.push(p);
    group.tokens += p.tokens;
    group.cached += p.cachedTokens;
  }
  return groups;
}

const pieceTitle = (p: RequestPart): string =>
  p.type === "tool" ? p.name! : p.type === "call" ? `Call of ${p.name}` : p.type === "result" ? `Result of ${p.name}` : p.type === "reasoning" ? "Reasoning, sealed by the vendor" : p.type === "image" ? "Image" : p.kind === "note" ? "Note of the service" : p.role === "assistant" ? "Reply" : p.role === "user" && p.kind !== "files" ? "User" : "Text";

// Request shows the parts of a request, folded except the new ones.
function Request({ of, receipt }: { of: StepRequest; receipt: boolean }) {
  const groups = groupsOf(of.parts);
  const tokens = groups.reduce((sum, g) => sum + g.tokens, 0);
  const cached = groups.reduce((sum, g) => sum + g.cached, 0);
  return (
    <section class="request" aria-label="Request">
      <p class="small muted">
        Request: {count(tokens)} tokens{receipt ? `, ${count(cached)} from the cache` : ", estimated"}. Tokens of parts are estimates.
      </p>
      {of.note && (
        <p class="small">
          <Badge meaning="warning">not exact</Badge> {of.note}
        </p>
      )}
      {groups.map((g, i) => (
        <Folded key={i} of={g} receipt={receipt} />
      ))}
    </section>
  );
}

// Folded shows the parts of a group when it is open, because all of them can be long.
function Folded({ of: g, receipt }: { of: Group; receipt: boolean }) {
  const [open, setOpen] = useState(g.parts.some((p) => p.new && p.kind !== "note"));
  const first = g.parts[0]!;
  const cached = `${count(g.cached)} of ${count(g.tokens)} tokens from the cache`;
  return (
    <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary class="small">
        <span>
          {titles[first.kind](first)}
          {first.new && <b> · new</b>}
        </span>
        {receipt && <progress max={Math.max(1, g.tokens)} value={g.cached} aria-label={cached} title={cached} />}
        <span class="muted">{count(g.tokens)} tokens</span>
      </summary>
      {open && (
        <div class="stack">
          {g.parts.map((p, j) => (
            <Piece key={j} of={p} />
          ))}
        </div>
      )}
    </details>
  );
}

function Piece({ of: p }: { of: RequestPart }) {
  return (
    <>
      {p.files.length > 0 && (
        <ul class="small">
          {p.files.map((f) => (
            <li key={f.path}>
              <code>{f.path}</code>
              {f.lines !== null && <span class="muted"> · lines 1–{count(f.lines)}</span>}
            </li>
          ))}
        </ul>
      )}
      {p.missing || p.text === "" ? (
        <p class="small muted">
          {pieceTitle(p)}
          {p.missing && <> <Badge meaning="warning">no longer stored</Badge></>}
        </p>
      ) : (
        <Said title={pieceTitle(p)} text={p.text} note={p.truncated ? "beginning only" : p.isError ? "failed" : undefined} />
      )}
    </>
  );
}
