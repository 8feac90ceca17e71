// The draft of the managed settings: its review, its test, and the versions that were applied.
import { useState } from "preact/hooks";
import type { ConfigDraft, ConfigPrice, ConfigVersion, ProviderTest } from "../../lib/contract";
import { credits, duration, of, rulesInWords } from "../../lib/format";
import { Button, Notice } from "../parts/basic";
import { Diff } from "../parts/diff";
import { Dialog } from "../parts/dialog";
import { TextField } from "../parts/fields";
import { ConfirmAction, useAction } from "../parts/form";
import { Failure } from "../parts/load";
import type { Ends } from "../parts/resource";
import { useSession } from "../parts/session";
import { type All, draftPath } from "../parts/settings";
import { Table } from "../parts/table";

const lines = (v: unknown) => (v === null ? "" : JSON.stringify(v, null, 2));
const rates = (p: ConfigPrice | null) => (p ? [`${credits(p.input)} / ${credits(p.output)}`, rulesInWords(p)].filter(Boolean).join(", ") : "–");

// inCode shows the parts of a text between backticks as code.
const inCode = (text: string) => text.split("`").map((part, i) => (i % 2 ? <code>{part}</code> : part));

// Review shows what the draft changes, tests its providers, and applies it.
export function Review({ of: all, onDone, onClose }: { of: All } & Ends) {
  const { api } = useSession();
  const check = all.check!;
  const [note, setNote] = useState("");
  const [accepted, setAccepted] = useState(false);
  const asks = check.effects.some((e) => e.confirm);
  const action = useAction();
  const apply = () =>
    action.run(async (once) => {
      const { etag } = await api.read<ConfigDraft>(draftPath);
      const reply = await api.raw("POST", draftPath + "/apply", { body: note.trim() ? { note: note.trim() } : {}, headers: { "Idempotency-Key": once, "If-Match": etag } });
      onDone(`Version ${((await reply.json()) as ConfigVersion).version} is applied`);
    });
  return (
    <Dialog
      title="Changes of the draft"
      wide
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Close</Button>
          <Button kind="main" disabled={action.busy || !check.ok || (asks && !accepted)} onClick={apply}>
            Apply
          </Button>
        </>
      }
    >
      {check.problems.length > 0 && (
        <Notice meaning="failed">
          <p>
            <b>The draft cannot be applied.</b>
          </p>
          <ul>
            {check.problems.map((p) => (
              <li class="breaks">
                {p.path && <code>{p.path}</code>} {p.message} {p.where && <span class="muted">({p.where})</span>}
              </li>
            ))}
          </ul>
        </Notice>
      )}
      {check.warnings.map((w) => (
        <Notice meaning="waiting">
          <p>{w}</p>
        </Notice>
      ))}
      {check.effects.length > 0 && (
        <Notice meaning={asks ? "failed" : "waiting"}>
          <p>
            <b>What changes for callers and agents</b>
          </p>
          <ul>
            {check.effects.map((e) => (
              <li class="breaks" title={e.models.join(", ") || undefined}>
                {e.confirm ? <b>{inCode(e.text)}</b> : inCode(e.text)}
              </li>
            ))}
          </ul>
          {asks && (
            <label class="check">
              <input type="checkbox" id="accept-effects" checked={accepted} onChange={(e) => setAccepted(e.currentTarget.checked)} /> Apply it although calls will fail
            </label>
          )}
        </Notice>
      )}
      {check.changes.length === 0 && <p>The draft does not differ from the settings in force.</p>}
      {check.changes.map((c) => (
        <section key={c.path} class="stack" aria-label={c.path}>
          <h3 class="breaks">{c.path}</h3>
          <Diff was={lines(c.before)} now={lines(c.after)} data />
          {c.path.startsWith("providers.") && c.after && check.problems.length === 0 && <TestDraft name={c.path.slice("providers.".length)} />}
        </section>
      ))}
      {check.prices.length > 0 && (
        <Table
          label="Prices that change"
          rows={check.prices}
          columns={[
            { title: "Model", show: (p) => <span class="breaks">{p.model}</span> },
            { title: "Input / output now", number: true, show: (p) => rates(p.before) },
            { title: "With the draft", number: true, show: (p) => rates(p.after) },
          ]}
        />
      )}
      <TextField id="apply-note" label="Note" hint="For the history." maxLength={500} value={note} onChange={setNote} />
      {action.problem && <Failure problem={action.problem} />}
    </Dialog>
  );
}

function TestDraft({ name }: { name: string }) {
  const { api } = useSession();
  const [test, setTest] = useState<ProviderTest>();
  const action = useAction({ repeats: true });
  const run = () => action.run(async () => setTest(await (await api.raw("POST", draftPath + "/test", { body: { provider: name } })).json()));
  return (
    <div class="stack" role="status">
      <div class="row">
        <Button small disabled={action.busy} onClick={run}>
          {action.busy ? "Testing" : `Test ${name}`}
        </Button>
      </div>
      {test && <Tested of={test} />}
      {action.problem && <Failure problem={action.problem} />}
    </div>
  );
}

// Tested shows the result of a test call.
export function Tested({ of: t }: { of: ProviderTest }) {
  return (
    <Notice meaning={t.ok ? "ok" : "failed"}>
      <p>
        <b>{t.ok ? "Healthy." : "The test failed."}</b> {t.text}
      </p>
      {t.model !== null && (
        <p class="small muted breaks">
          {t.model}, {of(t.attempts, "request")}, {duration(t.durationMilliseconds)}
          {t.status !== null && `, HTTP ${t.status}`}
          {t.errorCode !== null && <>, <code>{t.errorCode}</code></>}
        </p>
      )}
    </Notice>
  );
}

export function Drop(ends: Ends) {
  const { api } = useSession();
  return (
    <ConfirmAction title="Discard the draft?" action="Discard the draft" work={() => api.remove(draftPath)} said="The draft is discarded" {...ends}>
      <p>All operators share it. The settings in force stay as they are.</p>
    </ConfirmAction>
  );
}

export function Restore({ of: v, ...ends }: { of: ConfigVersion } & Ends) {
  const { api } = useSession();
  const action = useAction();
  const restore = () =>
    action.run(async (once) => {
      const made = await api.create<ConfigVersion>(`/config/versions/${v.version}/restore`, {}, once);
      ends.onDone(`Version ${made.version} has the settings of version ${v.version}`);
    });
  return (
    <Dialog
      title={`Restore version ${v.version}?`}
      onClose={ends.onClose}
      footer={
        <>
          <Button onClick={ends.onClose}>Cancel</Button>
          <Button kind="main" disabled={action.busy} onClick={restore}>
            Restore
          </Button>
        </>
      }
    >
      <p>Its settings become the next version, and are in force within about a second. The draft is discarded.</p>
      {action.problem && <Failure problem={action.problem} />}
    </Dialog>
  );
}
