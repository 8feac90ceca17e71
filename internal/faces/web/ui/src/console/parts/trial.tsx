// A test call of a tool.
import { useMemo, useState } from "preact/hooks";
import { effectsWords } from "../../lib/connections";
import type { ConnectionTool, ConnectionToolTest } from "../../lib/contract";
import { duration, size } from "../../lib/format";
import { argumentsOf, fieldsOf, isObjectText, problemIn, type SchemaField } from "../../lib/schema";
import { useSession } from "./session";
import { Badge, Button, Field, type Meaning, Notice } from "./basic";
import { AreaField } from "./fields";
import { FormDialog, useAction } from "./form";

const outcomes: Record<ConnectionToolTest["outcome"], [Meaning, string]> = {
  ok: ["ok", "The tool answered."],
  error: ["failed", "The tool reported an error."],
  not_sent: ["failed", "The server was not contacted: nothing was done."],
  refused: ["failed", "The server rejected the call: nothing was done."],
  unknown: ["warning", "It is unknown whether the call was carried out. Check before you call it again."],
};

export function Trial({ path, of: t, onClose }: { path: string; of: ConnectionTool; onClose: () => void }) {
  const { api } = useSession();
  const fields = useMemo(() => fieldsOf(t.inputSchema), [t]);
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [json, setJSON] = useState(fields ? undefined : "{}"); // as JSON, instead of the fields
  const [confirm, setConfirm] = useState(false);
  const [got, setGot] = useState<ConnectionToolTest>();
  const action = useAction({ repeats: true });
  const risky = t.effects !== "read";
  const bad = json === undefined ? fields!.some((f) => problemIn(f, texts[f.name] ?? "") || (f.required && f.kind !== "text" && !texts[f.name])) : !isObjectText(json);
  const submit = () => {
    setGot(undefined);
    void action.run(async () => {
      const text = `{"name": ${JSON.stringify(t.name)}, "confirm": ${risky && confirm}, "arguments": ${json ?? argumentsOf(fields!, texts)}}`;
      setGot((await (await api.raw("POST", path + "/tools/test", { text })).json()) as ConnectionToolTest);
      setConfirm(false);
    });
  };
  return (
    <FormDialog id="trial" title={`Test "${t.name}"`} wide submit={action.busy ? "Calling" : "Call it"} ready={!bad && (!risky || confirm)} action={action} onSubmit={submit} onClose={onClose}>
      {json === undefined ? (
        <>
          {fields!.length === 0 && <p class="muted">It has no arguments.</p>}
          {fields!.map((f) => (
            <Argument key={f.name} of={f} text={texts[f.name] ?? ""} onChange={(text) => setTexts({ ...texts, [f.name]: text })} />
          ))}
        </>
      ) : (
        <AreaField id="trial-json" label="Arguments" hint="A JSON object." problem={bad ? "Not a JSON object." : undefined} code rows={8} spellcheck={false} value={json} onChange={setJSON} />
      )}
      {fields && (
        <div>
          <Button small kind="quiet" onClick={() => setJSON(json === undefined ? argumentsOf(fields, texts) : undefined)}>
            {json === undefined ? "Write JSON" : "Back to the fields"}
          </Button>
        </div>
      )}
      {risky && (
        <Notice meaning="waiting">
          <p>
            <b>This is a real call: {t.effects === "idempotent" ? "it changes something" : effectsWords.once}.</b>
          </p>
          <label class="check">
            <input type="checkbox" checked={confirm} onChange={(e) => setConfirm(e.currentTarget.checked)} /> Run the tool
          </label>
        </Notice>
      )}
      {got && (
        <section class="stack" aria-label="Result" aria-live="polite">
          <div class="row">
            <Badge meaning={outcomes[got.outcome]?.[0]}>{got.outcome}</Badge>
            <span>{got.message ?? outcomes[got.outcome]?.[1]}</span>
            <span class="push small muted">
              {duration(got.durationMilliseconds)}
              {got.text !== null && ", " + size(got.bytes)}
            </span>
          </div>
          {got.text !== null && (
            <pre class="io" tabIndex={0} aria-label="Result">
              {got.text}
            </pre>
          )}
        </section>
      )}
    </FormDialog>
  );
}

function Argument({ of: f, text, onChange }: { of: SchemaField; text: string; onChange: (text: string) => void }) {
  const id = "argument-" + f.name;
  const problem = problemIn(f, text);
  const shared = { id, value: text, "aria-describedby": f.description ? id + "-hint" : undefined, "aria-invalid": problem ? true : undefined };
  return (
    <Field id={id} label={f.name + (f.required ? "" : " (optional)")} hint={f.description || undefined} problem={problem}>
      {f.kind === "choice" || f.kind === "boolean" ? (
        <select class="input" {...shared} onChange={(e) => onChange(e.currentTarget.value)}>
          <option value="" />
          {(f.kind === "boolean" ? ["true", "false"] : f.choices).map((c) => (
            <option value={c}>{c}</option>
          ))}
        </select>
      ) : f.kind === "json" ? (
        <textarea class="input code" rows={3} spellcheck={false} {...shared} onInput={(e) => onChange(e.currentTarget.value)} />
      ) : f.kind === "text" ? (
        <textarea class="input" rows={1} {...shared} onInput={(e) => onChange(e.currentTarget.value)} />
      ) : (
        <input class="input" inputMode={f.kind === "integer" ? "numeric" : "decimal"} autocomplete="off" {...shared} onInput={(e) => onChange(e.currentTarget.value)} />
      )}
    </Field>
  );
}
