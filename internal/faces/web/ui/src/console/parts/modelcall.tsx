// One model call of a session, opened: what it added to the conversation, what the model replied,
// and its receipt. All texts are shown as text.
import { useEffect, useRef, useState } from "preact/hooks";
import type { SessionStep } from "../../lib/contract";
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
  return visible(/^\s*[{[]/.test(text) ? indented(text) : text);
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
        Instructions and settings: {version === undefined ? "the draft" : may("agents:read") ? <a href={`#/agents/${agentId}/versions`}>version {version} of the agent</a> : `version ${version} of the agent`}. What earlier steps and turns added was sent before it.
      </p>
      {s.input.map((i) => (
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
