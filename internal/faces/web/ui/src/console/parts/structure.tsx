// Tools and a schema of the playground: the definitions, the calls, and the entered
// results.
import { useState } from "preact/hooks";
import type { ToolCall } from "../../lib/responses";
import type { Meta } from "../../lib/types";
import { Badge, Button, Field } from "./basic";
import { ClientTools, type Tool } from "./clienttools";
import type { Settings } from "./prompts";

// A Result is the result of a tool call.
export interface Result {
  id: string; // of the call
  name: string;
  output: string;
}

interface Read<T> {
  value?: T;
  problem?: string;
}

// arrayIn parses the JSON of tools; an empty text is allowed.
export function arrayIn(text: string): Read<unknown[]> {
  return readJSON(text, (v) => (Array.isArray(v) ? v : undefined), "Must be a JSON array of tools.");
}

// objectIn reads the JSON of a schema.
export function objectIn(text: string): Read<object> {
  return readJSON(text, (v) => (typeof v === "object" && v !== null && !Array.isArray(v) ? v : undefined), "This has to be a JSON object.");
}

function readJSON<T>(text: string, take: (v: unknown) => T | undefined, otherwise: string): Read<T> {
  if (!text.trim()) return {};
  try {
    const value = take(JSON.parse(text));
    return value === undefined ? { problem: otherwise } : { value };
  } catch (error) {
    return { problem: `Invalid JSON: ${(error as Error).message}` };
  }
}

const exampleTools = `[
  {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {
      "type": "object",
      "properties": { "city": { "type": "string" } },
      "required": ["city"],
      "additionalProperties": false
    }
  }
]`;

const exampleSchema = `{
  "type": "object",
  "properties": {
    "title": { "type": "string" },
    "tags": { "type": "array", "items": { "type": "string" } }
  },
  "required": ["title", "tags"],
  "additionalProperties": false
}`;

// Structure edits the tools and the schema, if the service offers them.
export function Structure({ meta, settings, onChange }: { meta: Meta; settings: Settings; onChange: (s: Partial<Settings>) => void }) {
  const on = (extension: string) => meta.extensions?.includes(extension) ?? false;
  const tools = arrayIn(settings.tools);
  return (
    <>
      {on("tools") && !tools.problem && <ClientTools type="function" tools={(tools.value ?? []) as Tool[]} onChange={(all) => onChange({ tools: all.length > 0 ? JSON.stringify(all, null, 2) : "" })} />}
      {on("tools") && <JSONField id="tools" label="Tools as JSON" hint="Functions that the model can call. You enter their results." example={exampleTools} value={settings.tools} problem={tools.problem} onChange={(tools) => onChange({ tools })} />}
      {on("formats") && <JSONField id="schema" label="JSON schema" hint="The reply must match it. Leave empty for plain text." example={exampleSchema} value={settings.schema} problem={objectIn(settings.schema).problem} onChange={(schema) => onChange({ schema })} />}
    </>
  );
}

function JSONField(props: { id: string; label: string; hint: string; example: string; value: string; problem?: string; onChange: (value: string) => void }) {
  return (
    <Field id={props.id} label={props.label} hint={props.hint} problem={props.problem}>
      <textarea id={props.id} class="input mono" rows={props.value ? 8 : 2} spellcheck={false} value={props.value} onInput={(e) => props.onChange(e.currentTarget.value)} aria-invalid={props.problem !== undefined} aria-describedby={props.id + (props.problem ? "-problem" : "-hint")} />
      {!props.value && (
        <Button small kind="quiet" onClick={() => props.onChange(props.example)}>
          Fill in an example
        </Button>
      )}
    </Field>
  );
}

// pretty formats JSON in lines; other text is unchanged.
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// Calls shows the calls of a reply and, if they can be answered, fields for the
// results.
export function Calls({ calls, onResults }: { calls: ToolCall[]; onResults?: (results: Result[]) => void }) {
  const [outputs, setOutputs] = useState<string[]>([]);
  const answers = onResults && !calls.some((c) => c.cut);
  return (
    <form
      class="stack calls"
      onSubmit={(e) => {
        e.preventDefault();
        onResults?.(calls.map((c, i) => ({ id: c.id, name: c.name, output: outputs[i] ?? "" })));
      }}
    >
      {calls.map((c, i) => (
        <div class="stack panel">
          <div class="row">
            <span>
              Calls <code>{c.name}</code>
            </span>
            {c.cut && <Badge meaning="warning">cut off</Badge>}
          </div>
          <pre tabIndex={0} aria-label={`Arguments of ${c.name}`}>{pretty(c.arguments)}</pre>
          {answers && (
            <Field id={`result-${c.id}`} label={`Result of ${c.name}`}>
              <textarea id={`result-${c.id}`} class="input" rows={2} value={outputs[i] ?? ""} onInput={(e) => setOutputs(Object.assign([...outputs], { [i]: e.currentTarget.value }))} />
            </Field>
          )}
        </div>
      ))}
      {answers && (
        <div class="row">
          <Button small kind="main" type="submit">
            {calls.length > 1 ? "Send the results" : "Send the result"}
          </Button>
        </div>
      )}
    </form>
  );
}

// Results shows results that were sent.
export function Results({ results }: { results: Result[] }) {
  return (
    <div class="turn user">
      {results.map((r) => (
        <div>
          <span class="muted">{r.name} gave</span> {r.output || <span class="muted">nothing</span>}
        </div>
      ))}
    </div>
  );
}
