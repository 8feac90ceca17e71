// The tools that programs carry out, as a list with a form for each: those of an agent, or the
// functions of a call.
import { useState } from "preact/hooks";
import type { AgentTool } from "../../lib/contract";
import { of as plural } from "../../lib/format";
import { type Parameter, parametersOf, schemaOf } from "../../lib/schema";
import { Button, Field } from "./basic";
import { AreaField, SelectField, TextField } from "./fields";
import { FormDialog, useAction } from "./form";
import { Menu } from "./menu";

const toolName = /^[A-Za-z0-9_-]{1,64}$/;

// A Tool is one of an agent, or a function of a call, which has neither effects nor an approval.
export type Tool = Omit<AgentTool, "type"> & { type: AgentTool["type"] | "function" };

// ClientTools lists the tools of one type; others in the list stay as they are.
export function ClientTools<T extends Tool>({ tools, type = "client", onChange }: { tools: T[]; type?: "client" | "function"; onChange: (tools: T[]) => void }) {
  const [open, setOpen] = useState<{ at?: number }>(); // undefined at: a new tool
  const own = tools.map((t, at) => ({ t, at })).filter(({ t }) => t?.type === type);
  const title = type === "client" ? "Tools of your programs" : "Tools";
  return (
    <div role="group" aria-label={title} class="stack">
      <b>{title}</b>
      {own.length > 0 && (
        <ul class="picked">
          {own.map(({ t, at }) => (
            <li key={at}>
              <span>
                <code>{t.name}</code> <span class="small muted">{t.description}</span>
              </span>
              <Menu
                label={"Actions for " + t.name}
                items={[
                  { title: "Edit", onClick: () => setOpen({ at }) },
                  { title: "Remove", danger: true, onClick: () => onChange(tools.filter((_, i) => i !== at)) },
                ]}
              />
            </li>
          ))}
        </ul>
      )}
      <div>
        <Button small icon="plus" onClick={() => setOpen({})}>
          Add a tool
        </Button>
      </div>
      {open && (
        <ToolForm
          type={type}
          of={open.at === undefined ? undefined : tools[open.at]}
          taken={tools.filter((_, i) => i !== open.at).map((t) => t?.name ?? "")}
          onClose={() => setOpen(undefined)}
          onDone={(tool) => {
            onChange(open.at === undefined ? [...tools, tool as T] : tools.map((t, i) => (i === open.at ? (tool as T) : t)));
            setOpen(undefined);
          }}
        />
      )}
    </div>
  );
}

const kinds: [Parameter["kind"], string][] = [
  ["text", "text"],
  ["choice", "one of a list"],
  ["integer", "whole number"],
  ["number", "number"],
  ["boolean", "yes or no"],
];

const effects: [NonNullable<AgentTool["effects"]>, string][] = [
  ["read", "it only reads"],
  ["idempotent", "it changes something; repeating it has no further effect"],
  ["once", "it must not be repeated"],
];

function ToolForm({ type, of, taken, onClose, onDone }: { type: "client" | "function"; of?: Tool; taken: string[]; onClose: () => void; onDone: (t: Tool) => void }) {
  const [name, setName] = useState(of?.name ?? "");
  const [description, setDescription] = useState(of?.description ?? "");
  const [effect, setEffect] = useState(of?.effects ?? "once");
  const [approval, setApproval] = useState(of?.approval ?? "never");
  const [list, setList] = useState(() => (of ? parametersOf(of.parameters ?? {}) : []));
  const [json, setJSON] = useState(() => JSON.stringify(of?.parameters ?? { type: "object" }, null, 2));
  const action = useAction();
  const schema = list ? schemaOf(list, of?.parameters) : objectIn(json);
  const problem = name && !toolName.test(name) ? "Use up to 64 letters, digits, _ and -." : taken.includes(name) ? "Another tool has this name." : undefined;
  const complete = list === undefined || list.every((p, i) => p.name.trim() && list.findIndex((q) => q.name.trim() === p.name.trim()) === i && (p.kind !== "choice" || p.choices.some((c) => c.trim())));
  const change = (at: number, part: Partial<Parameter>) => setList(list!.map((p, i) => (i === at ? { ...p, ...part } : p)));
  return (
    <FormDialog
      id="tool"
      wide
      title={of ? `Edit ${of.name}` : "Add a tool"}
      submit={of ? "Change the tool" : "Add the tool"}
      ready={!!name && !problem && !!description.trim() && schema !== undefined && complete}
      action={action}
      onSubmit={() => onDone({ ...of, type, name, description: description.trim(), ...(type === "client" && { effects: effect, approval }), parameters: schema! })}
      onClose={onClose}
    >
      <TextField id="tool-name" label="Name" hint="The name that the model uses, such as lookup_order." code maxLength={64} problem={problem} value={name} onChange={setName} autofocus />
      <AreaField id="tool-description" label="Description" hint="What it does, and when the model should call it." rows={3} value={description} onChange={setDescription} />
      {type === "client" && (
        <>
          <SelectField id="tool-effects" label="Effects" options={effects} value={effect} onChange={setEffect} />
          <SelectField
            id="tool-approval"
            label="Approval"
            options={[
              ["never", "no approval"],
              ["always", "a person approves each call"],
            ]}
            value={approval}
            onChange={setApproval}
          />
        </>
      )}
      {list === undefined ? (
        <AreaField id="tool-json" label="Parameters" hint="A JSON Schema that this form cannot edit." code rows={10} spellcheck={false} problem={schema ? undefined : "Not a JSON object."} value={json} onChange={setJSON} />
      ) : (
        <fieldset class="stack plain">
          <legend>{list.length === 0 ? "No parameters" : plural(list.length, "parameter")}</legend>
          {list.map((p, i) => (
            <div key={i} class="parameter">
              <TextField id={`parameter-${i}`} label="Name" code maxLength={64} value={p.name} onChange={(name) => change(i, { name })} />
              <SelectField id={`parameter-${i}-kind`} label="Type" options={kinds} value={p.kind} onChange={(kind) => change(i, { kind })} />
              {p.kind === "choice" && <TextField id={`parameter-${i}-choices`} label="Texts (a, b)" value={p.choices.join(",")} onChange={(text) => change(i, { choices: text.split(",") })} />}
              <TextField id={`parameter-${i}-description`} label="Description" value={p.description} onChange={(description) => change(i, { description })} />
              <Field id={`parameter-${i}-required`} label="Required">
                <input id={`parameter-${i}-required`} type="checkbox" checked={p.required} onChange={(e) => change(i, { required: e.currentTarget.checked })} />
              </Field>
              <Button small kind="quiet" icon="trash" label={`Remove the parameter ${p.name || i + 1}`} onClick={() => setList(list.filter((_, j) => j !== i))} />
            </div>
          ))}
          <div>
            <Button small icon="plus" onClick={() => setList([...list, { name: "", kind: "text", choices: [], required: true, description: "" }])}>
              Add a parameter
            </Button>
          </div>
        </fieldset>
      )}
    </FormDialog>
  );
}

function objectIn(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
