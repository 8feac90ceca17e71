// Texts for connections and their tools.
import type { Connection, ConnectionTool, ConnectionToolPolicy, Secret } from "./contract";

export type Approval = ConnectionToolPolicy["approval"];
export type Effects = ConnectionToolPolicy["effects"];

export type Kind = Connection["kind"];

export const kindWords: Record<Kind, string> = { mcp: "A server of the Model Context Protocol", openapi: "An OpenAPI document", http: "Requests that you describe" };

export const approvalWords: Record<Approval, string> = { always: "ask before each call", never: "call without asking" };

export const effectsWords: Record<Effects, string> = { read: "only reads", idempotent: "can be repeated", once: "has side effects" };

export type Visitors = ConnectionTool["visitors"];

export const visitorsWords: Record<Visitors, string> = { no: "not in their chats", yes: "in their chats, too", confirm: "if they confirm each call" };

export const maxPublic = 8;

const plain = ["string", "number", "integer", "boolean", "null"];

// pointers returns the JSON Pointers of the strings, numbers and booleans in a schema
// of arguments, which can be shown to visitors.
export function pointers(schema: unknown, at = "", depth = 0): string[] {
  const properties = (schema as { properties?: Record<string, { type?: unknown }> } | null)?.properties;
  if (!properties || typeof properties !== "object" || depth > 7) return [];
  return Object.entries(properties).flatMap(([name, member]) => {
    const here = at + "/" + name.replaceAll("~", "~0").replaceAll("/", "~1");
    const types = Array.isArray(member?.type) ? member.type : [member?.type];
    return types.length > 0 && types.every((t) => plain.includes(t as string)) ? [here] : pointers(member, here, depth + 1);
  });
}

export type OnUnknown = NonNullable<ConnectionTool["onUnknown"]>;

// onUnknownWords describe the effect on a turn if the outcome of a call is unknown.
export const onUnknownWords: Record<OnUnknown, string> = { tell_model: "the model or the approver decides", fail: "the turn fails" };

// idArguments returns the arguments of a tool that can carry the id of a call.
export function idArguments(t: ConnectionTool): string[] {
  const properties = (t.inputSchema.properties ?? {}) as Record<string, { type?: unknown; format?: unknown } | undefined>;
  return Object.keys(properties).filter((name) => properties[name]?.type === "string" && properties[name].format === undefined);
}

// perSessionWords describe whether sessions supply their own secrets.
export const perSessionWords: Record<Connection["credentialsPerSession"], string> = { off: "use the connection's access", optional: "can use their own secrets", required: "must use their own secrets" };

// sessionWords describe how long a session at a stateful server lasts.
export const sessionWords: Record<Connection["sessions"], string> = { turn: "end with the turn, or when it waits", session: "last as long as the agent's session, at most 30 minutes without a call" };

const risks: [RegExp, string][] = [
  [/\b(env|environment)\b/, "environment variables"],
  [/\b(secrets?|tokens?|passwords?|credentials?)\b/, "secrets"],
  [/\b(files?|filesystem)\b/, "files"],
  [/\b(exec|execute[sd]?|shell|bash)\b/, "commands"],
  [/\b(delete[sd]?|remove[sd]?|drop)\b/, "deletion"],
];

// risksOf names what the name or the texts of a tool say about secrets, files, commands and deletion. Annotations of a server
// are its own words, and what it calls read-only can still return secrets.
export function risksOf(t: ConnectionTool): string[] {
  const text = [t.name.replace(/([a-z])([A-Z])/g, "$1 $2"), t.title ?? "", t.description].join(" ").replaceAll("_", " ").replaceAll("-", " ").toLowerCase();
  return risks.filter(([sign]) => sign.test(text)).map(([, word]) => word);
}

// waits reports whether a tool waits for a decision.
export const waits = (t: ConnectionTool): boolean => t.state === "new" || t.state === "changed";

// counted returns the number of tools, and of the waiting ones, as text.
export function counted(c: Connection): string {
  const n = c.toolCounts;
  const parts: [number, string][] = [
    [n.approved, "approved"],
    [n.new, "new"],
    [n.changed, "changed"],
    [n.missing, "missing"],
    [n.rejected, "rejected"],
    [n.invalid, "invalid"],
  ];
  return (
    parts
      .filter(([many]) => many > 0)
      .map(([many, word]) => `${many} ${word}`)
      .join(", ") || "none"
  );
}

// originOf returns scheme, host and port of an address; empty if it is not an address.
export function originOf(address: string): string {
  try {
    const { origin } = new URL(address);
    return origin === "null" ? "" : origin;
  } catch {
    return "";
  }
}

// hasExpired reports whether a secret is no longer sent.
export const hasExpired = (s: Secret): boolean => !!s.expiresAt && new Date(s.expiresAt).getTime() <= Date.now();
