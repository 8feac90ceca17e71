// The tools of a connection: what their server says of each, and what a person decides
// about it.
import { useState } from "preact/hooks";
import { type Approval, approvalWords, type Effects, effectsWords, idArguments, maxPublic, type OnUnknown, onUnknownWords, pointers, risksOf, type Visitors, visitorsWords, waits } from "../../lib/connections";
import type { Connection, ConnectionTool, ReviewConnectionTools } from "../../lib/contract";
import { of } from "../../lib/format";
import { useSession } from "./session";
import { Badge, Button, type Meaning, Notice } from "./basic";
import { Diff } from "./diff";
import { Icon } from "./icon";
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
  const harmless = waiting.filter((t) => risksOf(t).length === 0); // the others are selected one by one
  const setAll = (change: Partial<Policy>) => setPolicies({ ...policies, ...Object.fromEntries(picked.map((t) => [t.name, changePolicy(policies[t.name] ?? policyOf(t), change)])) });
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
          <div class="push row">
            {harmless.length < waiting.length && <span class="small muted">{of(waiting.length - harmless.length, "tool")} with a warning: select one by one</span>}
            <Button small disabled={harmless.length === 0} onClick={() => setChosen(harmless.map((t) => t.name))}>
              Select all new tools
            </Button>
          </div>
        )}
      </header>
      {tools.length === 0 ? (
        <Empty title="No tools are known">
          <p>{connection.lastCheckedAt && !connection.lastError ? "The server has no tools." : "They appear when the server has answered."}</p>
        </Empty>
      ) : (
        <table class="tools">
          <thead>
            <tr>
              <th scope="col">Tool</th>
              <th scope="col">Choice</th>
              <th scope="col">
                <span class="unseen">Actions</span>
              </th>
            </tr>
          </thead>
          {rows.map((t) => (
            <Tool
              key={t.name}
              of={t}
              alone={waiting.length === 1 && waits(t)}
              chosen={chosen.includes(t.name)}
              policy={policies[t.name] ?? policyOf(t)}
              onChoose={open(t) ? (on) => setChosen((all) => (on ? [...all, t.name] : all.filter((n) => n !== t.name))) : undefined}
              onPolicy={(p) => setPolicies({ ...policies, [t.name]: p })}
              onTest={writes && connection.enabled && t.state === "approved" ? () => setTesting(t) : undefined}
            />
          ))}
        </table>
      )}
      {problem && picked.length === 0 && ( // below, because the person can be far down in a long list
        <div class="decide">
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
      {picked.length > 0 && (
        <div class="decide row">
          <span>{of(picked.length, "tool")} chosen</span>
          <SetAll id="set-approval" title="Set approval" words={approvalWords} onSet={(approval) => setAll({ approval })} />
          <SetAll id="set-effects" title="Set effects" words={effectsWords} onSet={(effects) => setAll({ effects })} />
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

// SetAll sets one choice for all selected tools.
function SetAll<V extends string>({ id, title, words, onSet }: { id: string; title: string; words: Record<V, string>; onSet: (value: V) => void }) {
  return (
    <select id={id} class="input" aria-label={title + " of the selected tools"} value="" onChange={(e) => onSet(e.currentTarget.value as V)}>
      <option value="" disabled>
        {title}
      </option>
      {(Object.entries(words) as [V, string][]).map(([value, text]) => (
        <option value={value} key={value}>
          {text}
        </option>
      ))}
    </select>
  );
}

// changePolicy changes a policy, without what its effects exclude.
function changePolicy(policy: Policy, change: Partial<Policy>): Policy {
  const p = { ...policy, ...change };
  if (p.visitors === "yes" && p.effects !== "read") p.visitors = "no";
  if (p.effects === "read") p.idempotencyArgument = null;
  return p;
}

// Tool is a tool in the table: its name and warnings, the choice about it, and on request its definition and all settings.
function Tool(props: { of: ConnectionTool; alone: boolean; chosen: boolean; policy: Policy; onChoose?: (on: boolean) => void; onPolicy: (p: Policy) => void; onTest?: () => void }) {
  const { of: t, policy } = props;
  const id = "tool-" + t.name.replace(/[^A-Za-z0-9_-]/g, "_");
  const [open, setOpen] = useState(t.state === "changed" || props.alone); // what differs is read before the decision
  const risks = risksOf(t);
  const name = (
    <b class="mono breaks">
      <EscapedText text={t.name} />
    </b>
  );
  const decides = props.onChoose && (props.chosen || waits(t));
  const change = (by: Partial<Policy>) => props.onPolicy(changePolicy(policy, by));
  return (
    <tbody class={props.chosen ? "chosen" : undefined}>
      <tr>
        <td>
          <div class="row">
            {props.onChoose ? (
              <label class="check">
                <input type="checkbox" checked={props.chosen} onChange={(e) => props.onChoose!(e.currentTarget.checked)} />
                {name}
              </label>
            ) : (
              name
            )}
            <Badge meaning={meanings[t.state] ?? "none"}>{t.state}</Badge>
            {risks.length > 0 && (
              <span class="small risk">
                <Icon name="warning" /> mentions {risks.join(", ")}
              </span>
            )}
          </div>
          <p class="small muted clamp">
            <EscapedText text={[...new Set([t.title, t.description])].filter(Boolean).join(": ") || "It has no description."} />
          </p>
        </td>
        <td class="small">
          {t.state === "approved" && t.approval && t.effects && !props.chosen ? (
            <span>
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
          ) : (
            decides && (
              <span>
                {approvalWords[policy.approval]}, {effectsWords[policy.effects]}
                {t.approval === null && policy.approval === t.suggested.approval && policy.effects === t.suggested.effects && <span class="muted"> (suggested by its annotations)</span>}
              </span>
            )
          )}
        </td>
        <td>
          <div class="row">
            <Button small kind="quiet" expanded={open} label={`Details of ${t.name}`} onClick={() => setOpen(!open)}>
              Details
            </Button>
            {props.onTest && (
              <Button small icon="play" onClick={props.onTest}>
                Test
              </Button>
            )}
          </div>
        </td>
      </tr>
      <tr class="details" hidden={!open && t.warnings.length === 0}>
        <td colSpan={3} class="stack">
          {t.warnings.length > 0 && (
            <Notice meaning={t.state === "invalid" ? "failed" : "waiting"}>
              {t.warnings.map((w) => (
                <p>
                  <EscapedText text={w} />
                </p>
              ))}
            </Notice>
          )}
          <div class="stack" hidden={!open}>
            {t.previous ? <Changed of={t} /> : t.description && <p class="pre breaks">{<EscapedText text={t.description} />}</p>}
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
            {decides && (
              <div class="pair policy">
                <Setting id={id + "-approval"} title="Approval" words={approvalWords} value={policy.approval} onChange={(approval) => change({ approval })} />
                <Setting id={id + "-effects"} title="Effects" words={effectsWords} value={policy.effects} onChange={(effects) => change({ effects })} />
                <Setting id={id + "-unknown"} title="If the outcome is unknown" words={onUnknownWords} value={policy.onUnknown} onChange={(onUnknown) => change({ onUnknown })} />
                {policy.effects !== "read" && idArguments(t).length > 0 && (
                  <Setting
                    id={id + "-argument"}
                    title="Argument for the id of the call"
                    words={{ "": "none", ...Object.fromEntries(idArguments(t).map((name) => [name, name])) }}
                    value={policy.idempotencyArgument ?? ""}
                    onChange={(name) => change({ idempotencyArgument: name || null })}
                  />
                )}
                <Setting
                  id={id + "-visitors"}
                  title="Visitors"
                  words={Object.fromEntries(Object.entries(visitorsWords).filter(([value]) => value !== "yes" || policy.effects === "read")) as Record<Visitors, string>}
                  value={policy.visitors}
                  onChange={(visitors) => change({ visitors })}
                />
              </div>
            )}
            {decides && policy.visitors === "confirm" && <Confirms id={id} of={t} policy={policy} onPolicy={props.onPolicy} />}
          </div>
        </td>
      </tr>
    </tbody>
  );
}

function Setting<V extends string>({ id, title, words, value, onChange }: { id: string; title: string; words: Record<V, string>; value: V; onChange: (value: V) => void }) {
  return (
    <label class="filter" for={id}>
      <span class="small muted">{title}</span>
      <select id={id} class="input" value={value} onChange={(e) => onChange(e.currentTarget.value as V)}>
        {Object.entries<string>(words).map(([value, text]) => (
          <option value={value} key={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
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
