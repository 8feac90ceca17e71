// Fields with one input: a text, a longer text, a choice.
import type { ComponentChildren, InputHTMLAttributes, TextareaHTMLAttributes } from "preact";
import { Field } from "./basic";

interface Labelled {
  id: string;
  label: string;
  hint?: ComponentChildren;
  problem?: string;
}

interface Typed extends Labelled {
  value: string;
  onChange: (text: string) => void;
  code?: boolean; // shown with letters of one width
}

// common returns the attributes that connect an input with its hint and its problem.
function common(f: Labelled) {
  const described = [f.hint && f.id + "-hint", f.problem && f.id + "-problem"].filter(Boolean).join(" ");
  return { id: f.id, "aria-describedby": described || undefined, "aria-invalid": f.problem ? ("true" as const) : undefined };
}

const look = (code?: boolean) => "input" + (code ? " code" : "");

// TextField is a line of text, or a number or a time depending on its type. Further
// attributes are passed to the input.
export function TextField({ label, hint, problem, code, value, onChange, ...rest }: Typed & Omit<InputHTMLAttributes, "id" | "label" | "value" | "onChange"> & { type?: string }) {
  const field = { id: rest.id, label, hint, problem };
  return (
    <Field {...field}>
      <input {...(rest as InputHTMLAttributes)} {...common(field)} class={look(code)} value={value} onInput={(e) => onChange(e.currentTarget.value)} />
    </Field>
  );
}

// AreaField is a text of several lines.
export function AreaField({ label, hint, problem, code, value, onChange, ...rest }: Typed & Omit<TextareaHTMLAttributes, "id" | "label" | "value" | "onChange">) {
  const field = { id: rest.id, label, hint, problem };
  return (
    <Field {...field}>
      <textarea {...(rest as TextareaHTMLAttributes)} {...common(field)} class={look(code)} value={value} onInput={(e) => onChange(e.currentTarget.value)} />
    </Field>
  );
}

// Options are the values of a choice with their texts. Values can be numbers.
export type Options<V extends string | number> = readonly (readonly [value: V, words: string])[];

// named returns objects with a name as options.
export const named = (list: { id: string; name: string }[] = []): [string, string][] => list.map((one) => [one.id, one.name]);

// SelectField is a choice of one value.
export function SelectField<V extends string | number>({ options, value, onChange, ...field }: Labelled & { options: Options<V>; value: V; onChange: (value: V) => void }) {
  return (
    <Field {...field}>
      <select {...common(field)} class="input" value={value} onChange={(e) => onChange((typeof value === "number" ? Number(e.currentTarget.value) : e.currentTarget.value) as V)}>
        {options.map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
    </Field>
  );
}
