// The tools of a connection: what their server says of each, and what a person decides
// about it.
import { useState } from "preact/hooks";
import { type Approval, approvalWords, type Effects, effectsWords, idArguments, maxPublic, type OnUnknown, onUnknownWords, pointers, type Visitors, visitorsWords, waits } from "../../lib/connections";
import type { Connection, ConnectionTool, ReviewConnectionTools } from "../../lib/contract";
import { of } from "../../lib/format";
import { useSession } from "./session";
import { Badge, Button, type Meaning, Notice } from "./basic";
import { Diff } from "./diff";
import { TextField } from "./fields";
import { useAction } from "./form";
import { Empty, Failure } from "./load";
import { EscapedText } from "./escapedtext";
import { toast } from "./toast";
import { Trial } from "./trial";

interface Policy {
  approval: Approval;
  effects: Effects;
  visitors: Visitors;
  visitorTitle: string;
  publicFields: string[];
  onUnknown: OnUnknown;
  idempotencyArgument: string | null;
}

const meanings: Record<ConnectionTool["state"], Meaning> = { new: "info", approved: "ok", changed: "warning", missing: "failed", rejected: "none", invalid: "failed" };

// policyOf returns the review of a tool, or the suggestion from its annotations.
const policyOf = (t: ConnectionTool): Policy => ({
  approval: t.approval ?? t.suggested.approval,
  effects: t.effects ?? t.suggested.effects,
  visitors: t.visitors,
  visitorTitle: t.visitorTitle ?? "",
  publicFields: t.publicFields ?? [],
  onUnknown: t.onUnknown ?? "tell_model",
  idempotencyArgument: t.idempotencyArgument !== null && idArguments(t).includes(t.idempotencyArgument) ? t.idempotencyArgument : null,
});

// sent returns a policy in the form of a review. Settings for confirming visitors are
// only sent with that choice.
const sent = ({ visitorTitle, publicFields, ...p }: Policy) => (p.visitors === "confirm" ? { ...p, publicFields, ...(visitorTitle.trim() ? { visitorTitle: visitorTitle.trim() } : {}) } : p);

const most = 500; // tools of one review

export function Review({ path, connection, tools, writes, onChanged }: { path: string; connection: Connection; tools: ConnectionTool[]; writes: boolean; onChanged: () => void }) {
  const { api } = useSession();
  const [chosen, setChosen] = useState<string[]>([]);
  const [policies, setPolicies] = useState<Record<string, Policy>>({});
  const [testing, setTesting] = useState<ConnectionTool>();
  const { busy, problem, run } = useAction({ repeats: true });
  const open = (t: ConnectionTool) => writes && t.state !== "invalid" && t.state !== "missing";
  const picked = tools.filter((t) => chosen.includes(t.name) && open(t)).slice(0, most);
  const waiting = tools.filter((t) => waits(t) && open(t));
  const rows = [...tools].sort((a, b) => Number(waits(b)) - Number(waits(a)) || (a.name < b.name ? -1 : 1));
  const decide = async (decision: "approve" | "reject") => {
    const body: ReviewConnectionTools = {
      tools: picked.map((t) => ({ name: t.name, sha256: t.sha256, decision, ...(decision === "approve" ? sent(policies[t.name] ?? policyOf(t)) : {}) })),
    };
    if (await run(() => api.raw("POST", path + "/tools/review", { body }))) {
      toast(`${of(picked.length, "tool")} ${decision === "approve" ? "approved" : "rejected"}`);
      setPolicies({});
    }
    setChosen([]);
    onChanged(); // after a failure, the definitions may have changed
  };
  return (
    <section class="panel" aria-labelledby="tools">
      <header>
        <h2 id="tools">Tools</h2>
        {waiting.length > 0 && <Badge meaning="waiting">{waiting.length} to review</Badge>}
        {waiting.length > 0 && (
          <div class="push">
            <Button small onClick={() => setChosen(waiting.map((t) => t.name))}>
              Select all new tools
            </Button>
          </div>
        )}
      </header>
      {problem && (
        <div class="pad">
          {problem.code === "tool_changed" ? (
            <Notice meaning="waiting">
              <p>
                <b>Nothing was saved.</b> The server changed a definition since you read it. Review the new one, then decide again.
              </p>
            </Notice>
          ) : (
            <Failure problem={problem} />
          )}
        </div>
      )}
      {tools.length === 0 ? (
        <Empty title="No tools are known">
          <p>{connection.lastCheckedAt && !connection.lastError ? "The server has no tools." : "They appear when the server has answered."}</p>
        </Empty>
      ) : (
        <ul class="tools">
          {rows.map((t) => (
            <Tool
              key={t.name}
              of={t}
              writes={writes}
              chosen={chosen.includes(t.name)}
              policy={policies[t.name] ?? policyOf(t)}
              onChoose={open(t) ? (on) => setChosen((all) => (on ? [...all, t.name] : all.filter((n) => n !== t.name))) : undefined}
              onPolicy={(p) => setPolicies({ ...policies, [t.name]: p })}
              onTest={writes && connection.enabled && t.state === "approved" ? () => setTesting(t) : undefined}
            />
          ))}
        </ul>
      )}
      {picked.length > 0 && (
        <div class="decide row">
          <span>{of(picked.length, "tool")} chosen</span>
          <div class="push row">
            <Button kind="danger" disabled={busy} onClick={() => void decide("reject")}>
              Reject
            </Button>
            <Button kind="main" disabled={busy} onClick={() => void decide("approve")}>
              Approve
            </Button>
          </div>
        </div>
      )}
      {testing && <Trial path={path} of={testing} onClose={() => setTesting(undefined)} />}
    </section>
  );
}

const pretty = (value: unknown) => JSON.stringify(value, null, 2);

function Tool(props: { of: ConnectionTool; writes: boolean; chosen: boolean; policy: Policy; onChoose?: (on: boolean) => void; onPolicy: (p: Policy) => void; onTest?: () => void }) {
  const { of: t, policy } = props;
  const id = "tool-" + t.name.replace(/[^A-Za-z0-9_-]/g, "_");
  return (
    <li class="stack">
      <div class="row">
        {props.onChoose ? (
          <label class="check">
            <input type="checkbox" checked={props.chosen} onChange={(e) => props.onChoose!(e.currentTarget.checked)} />
            <b class="mono breaks">
              <EscapedText text={t.name} />
            </b>
          </label>
        ) : (
          <b class="mono breaks">
            <EscapedText text={t.name} />
          </b>
        )}
        {t.title && (
          <span class="breaks">
            <EscapedText text={t.title} />
          </span>
        )}
        <Badge meaning={meanings[t.state] ?? "none"}>{t.state}</Badge>
        {t.state === "approved" && t.approval && t.effects && (
          <span class="small muted">
            {approvalWords[t.approval]}, {effectsWords[t.effects]}
            {t.visitors === "yes" && ", also for visitors"}
            {t.visitors === "confirm" && ", also for visitors who confirm it"}
            {t.onUnknown === "fail" && ", the turn fails if the outcome is unknown"}
            {t.idempotencyArgument && (
              <>
                , id in <code>{t.idempotencyArgument}</code>
              </>
            )}
          </span>
        )}
        {props.onTest && (
          <div class="push">
            <Button small icon="play" onClick={props.onTest}>
              Test
            </Button>
          </div>
        )}
      </div>
      {t.warnings.length > 0 && (
        <Notice meaning={t.state === "invalid" ? "failed" : "waiting"}>
          {t.warnings.map((w) => (
            <p>
              <EscapedText text={w} />
            </p>
          ))}
        </Notice>
      )}
      {t.previous ? <Changed of={t} /> : t.description ? <p class="pre breaks">{<EscapedText text={t.description} />}</p> : <p class="muted">It has no description.</p>}
      <details class="small">
        <summary>Arguments{t.annotations && ", and the server's annotations"}</summary>
        <pre class="io" tabIndex={0} aria-label={`Arguments of ${t.name}`}>
          <EscapedText text={pretty(t.inputSchema)} />
        </pre>
        {t.annotations && (
          <pre class="io" tabIndex={0} aria-label={`Annotations of ${t.name}`}>
            <EscapedText text={pretty(t.annotations)} />
          </pre>
        )}
        {t.request && (
          <pre class="io" tabIndex={0} aria-label={`Request of ${t.name}`}>
            <EscapedText text={pretty(t.request)} />
          </pre>
        )}
        <p class="muted breaks">
          Name for models <code>{t.modelName}</code>; it takes about {of(t.definitionTokens, "token")} of each prompt. Definition <code>{t.sha256.slice(0, 12)}</code>.
        </p>
      </details>
      {props.onChoose && (props.chosen || waits(t)) && (
        <div class="pair policy">
          <label class="filter" for={id + "-approval"}>
            <span class="small muted">Approval</span>
            <select id={id + "-approval"} class="input" value={policy.approval} onChange={(e) => props.onPolicy({ ...policy, approval: e.currentTarget.value as Approval })}>
              {Object.entries(approvalWords).map(([value, words]) => (
                <option value={value}>{words}</option>
              ))}
            </select>
          </label>
          <label class="filter" for={id + "-effects"}>
            <span class="small muted">Effects</span>
            <select id={id + "-effects"} class="input" value={policy.effects} onChange={(e) => props.onPolicy({ ...policy, effects: e.currentTarget.value as Effects, visitors: policy.visitors === "yes" && e.currentTarget.value !== "read" ? "no" : policy.visitors, ...(e.currentTarget.value === "read" ? { idempotencyArgument: null } : {}) })}>
              {Object.entries(effectsWords).map(([value, words]) => (
                <option value={value}>{words}</option>
              ))}
            </select>
          </label>
          <label class="filter" for={id + "-unknown"}>
            <span class="small muted">If the outcome is unknown</span>
            <select id={id + "-unknown"} class="input" value={policy.onUnknown} onChange={(e) => props.onPolicy({ ...policy, onUnknown: e.currentTarget.value as OnUnknown })}>
              {Object.entries(onUnknownWords).map(([value, words]) => (
                <option value={value}>{words}</option>
              ))}
            </select>
          </label>
          {policy.effects !== "read" && idArguments(t).length > 0 && (
            <label class="filter" for={id + "-argument"}>
              <span class="small muted">Argument for the id of the call</span>
              <select id={id + "-argument"} class="input" value={policy.idempotencyArgument ?? ""} onChange={(e) => props.onPolicy({ ...policy, idempotencyArgument: e.currentTarget.value || null })}>
                <option value="">none</option>
                {idArguments(t).map((name) => (
                  <option value={name}>{name}</option>
                ))}
              </select>
            </label>
          )}
          <label class="filter" for={id + "-visitors"}>
            <span class="small muted">Visitors</span>
            <select id={id + "-visitors"} class="input" value={policy.visitors} onChange={(e) => props.onPolicy({ ...policy, visitors: e.currentTarget.value as Visitors })}>
              {Object.entries(visitorsWords).map(
                ([value, words]) =>
                  (value !== "yes" || policy.effects === "read") && (
                    <option value={value} key={value}>
                      {words}
                    </option>
                  ),
              )}
            </select>
          </label>
        </div>
      )}
      {props.onChoose && (props.chosen || waits(t)) && policy.visitors === "confirm" && <Confirms id={id} of={t} policy={policy} onPolicy={props.onPolicy} />}
    </li>
  );
}

// Confirms shows the text and arguments for visitors who confirm the calls of a tool.
function Confirms({ id, of: t, policy, onPolicy }: { id: string; of: ConnectionTool; policy: Policy; onPolicy: (p: Policy) => void }) {
  const known = pointers(t.inputSchema);
  const full = policy.publicFields.length >= maxPublic;
  const choose = (pointer: string, on: boolean) => onPolicy({ ...policy, publicFields: known.filter((p) => (p === pointer ? on : policy.publicFields.includes(p))) });
  return (
    <div class="stack policy">
      <TextField id={id + "-title"} label="Question to visitors" hint={t.title ? "Empty: the tool's title." : "Such as: Cancel an order. The tool has no title."} maxLength={200} value={policy.visitorTitle} aria-describedby={id + "-title-hint"} onChange={(text) => onPolicy({ ...policy, visitorTitle: text })} />
      {known.length > 0 ? (
        <fieldset class="stack">
          <legend class="small muted">Arguments that visitors see, at most {maxPublic}. They see no others, and no result.</legend>
          {known.map((p) => (
            <label class="check" key={p}>
              <input type="checkbox" checked={policy.publicFields.includes(p)} disabled={full && !policy.publicFields.includes(p)} onChange={(e) => choose(p, e.currentTarget.checked)} />
              <code class="breaks">
                <EscapedText text={p} />
              </code>
            </label>
          ))}
        </fieldset>
      ) : (
        <p class="small muted">No arguments can be shown: visitors see the question only.</p>
      )}
      {policy.approval === "always" && <p class="small muted">After the visitor, a person of the account must approve, too.</p>}
    </div>
  );
}

// Changed shows the differences from the approved definition.
function Changed({ of: t }: { of: ConnectionTool }) {
  const text = (description: string, schema: unknown) => description + "\n\nArguments:\n" + pretty(schema);
  const was = text(t.previous!.description, t.previous!.inputSchema);
  const now = text(t.description, t.inputSchema);
  return (
    <div>
      <p class="small muted">{was === now ? "Description and arguments are as they were approved; its title, its result or its annotations differ." : "Changes since the approved definition:"}</p>
      {was !== now && <Diff was={was} now={now} data />}
    </div>
  );
}
