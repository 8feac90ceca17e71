// Forms for JSON schemas of arguments: the simple ones get a field for each member.

// A SchemaField is a member of an object with a form field.
export interface SchemaField {
  name: string;
  kind: "text" | "number" | "integer" | "boolean" | "choice" | "json";
  choices: string[]; // of a choice
  required: boolean;
  description: string;
}

type Schema = Record<string, unknown>;

const isObject = (v: unknown): v is Schema => typeof v === "object" && v !== null && !Array.isArray(v);

// A form cannot show members that depend on others, or have no names.
const beyond = ["$ref", "oneOf", "anyOf", "allOf", "not", "if", "patternProperties", "dependentSchemas", "dependentRequired"];

const mostFields = 30;

// fieldsOf returns the fields of a schema; undefined if it requires JSON input.
export function fieldsOf(schema: Schema): SchemaField[] | undefined {
  const properties = schema.properties ?? {};
  if (beyond.some((keyword) => keyword in schema) || isObject(schema.additionalProperties) || !isObject(properties)) return undefined;
  const names = Object.keys(properties);
  if (names.length > mostFields || (names.length === 0 && schema.additionalProperties !== false && schema.type !== "object")) return undefined;
  const required = Array.isArray(schema.required) ? schema.required : [];
  return names.map((name) => {
    const p = isObject(properties[name]) ? properties[name] : {};
    const choices = Array.isArray(p.enum) && p.enum.every((v) => typeof v === "string") ? (p.enum as string[]) : [];
    return { name, kind: kindOf(p, choices), choices, required: required.includes(name), description: typeof p.description === "string" ? p.description : "" };
  });
}

function kindOf(p: Schema, choices: string[]): SchemaField["kind"] {
  if (beyond.some((keyword) => keyword in p)) return "json";
  if (choices.length > 0) return "choice";
  switch (p.type) {
    case "string":
      return "text";
    case "number":
    case "integer":
    case "boolean":
      return p.type;
    default:
      return "json";
  }
}

const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

// problemIn returns the error in the text of a field, or undefined.
export function problemIn(field: SchemaField, text: string): string | undefined {
  if (text === "") return undefined;
  if (field.kind === "number" && !number.test(text)) return "This is no number.";
  if (field.kind === "integer" && !/^-?(0|[1-9]\d*)$/.test(text)) return "This is no whole number.";
  if (field.kind === "json") {
    try {
      JSON.parse(text);
    } catch (error) {
      return `This is no JSON: ${(error as Error).message}`;
    }
  }
  return undefined;
}

// argumentsOf returns the JSON text of the fields. Numbers keep their notation, because
// JavaScript would round long ones. Empty optional fields are omitted.
export function argumentsOf(fields: SchemaField[], texts: Record<string, string>): string {
  const members: string[] = [];
  for (const f of fields) {
    const text = texts[f.name] ?? "";
    if (text === "" && !(f.required && f.kind === "text")) continue;
    members.push(JSON.stringify(f.name) + ": " + (f.kind === "text" || f.kind === "choice" ? JSON.stringify(text) : text));
  }
  return members.length === 0 ? "{}" : "{\n  " + members.join(",\n  ") + "\n}";
}

// isObjectText reports whether a text is a JSON object.
export function isObjectText(text: string): boolean {
  try {
    return isObject(JSON.parse(text));
  } catch {
    return false;
  }
}
