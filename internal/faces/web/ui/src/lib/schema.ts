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
  if (field.kind === "number" && !number.test(text)) return "This is not a number.";
  if (field.kind === "integer" && !/^-?(0|[1-9]\d*)$/.test(text)) return "This is not a whole number.";
  if (field.kind === "json") {
    try {
      JSON.parse(text);
    } catch (error) {
      return `Invalid JSON: ${(error as Error).message}`;
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

// A Parameter is a member of a schema that a form can edit without loss.
export interface Parameter extends SchemaField {
  kind: Exclude<SchemaField["kind"], "json">;
}

const only = (o: Schema, members: string[]) => Object.keys(o).every((name) => members.includes(name));

// parametersOf returns the members of a schema; undefined if a form would lose a part of it.
export function parametersOf(schema: Schema): Parameter[] | undefined {
  if (!only(schema, ["type", "properties", "required", "additionalProperties"]) || (schema.type !== undefined && schema.type !== "object")) return undefined;
  const properties = schema.properties ?? {};
  if (!isObject(properties) || !Object.values(properties).every((p) => isObject(p) && only(p, ["type", "description", "enum"]))) return undefined;
  const fields = fieldsOf({ ...schema, type: "object" });
  return fields?.every((f) => f.kind !== "json") ? (fields as Parameter[]) : undefined;
}

// schemaOf returns the schema of an object with these members, which was another one before.
export function schemaOf(parameters: Parameter[], was?: Schema): Schema {
  const properties: Schema = {};
  for (const p of parameters) {
    properties[p.name.trim()] = {
      type: p.kind === "text" || p.kind === "choice" ? "string" : p.kind,
      ...(p.description.trim() && { description: p.description.trim() }),
      ...(p.kind === "choice" && { enum: p.choices.map((c) => c.trim()).filter((c) => c) }),
    };
  }
  const required = parameters.filter((p) => p.required).map((p) => p.name.trim());
  return {
    type: "object",
    properties,
    ...(required.length > 0 && { required }),
    ...((was === undefined || "additionalProperties" in was) && { additionalProperties: was?.additionalProperties ?? false }),
  };
}
