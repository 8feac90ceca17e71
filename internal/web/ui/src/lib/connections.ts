// Words for connections and their tools.
import type { Connection, ConnectionTool, ConnectionToolPolicy } from "./contract";

export type Approval = ConnectionToolPolicy["approval"];
export type Effects = ConnectionToolPolicy["effects"];

export type Kind = Connection["kind"];

export const kindWords: Record<Kind, string> = { mcp: "A server of the Model Context Protocol", openapi: "An OpenAPI document", http: "Requests that you describe" };

export const approvalWords: Record<Approval, string> = { always: "ask before each call", never: "call without asking" };

export const effectsWords: Record<Effects, string> = { read: "only reads", idempotent: "may be repeated", once: "each call has an effect" };

// perSessionWords say whether sessions bring secrets of their own.
export const perSessionWords: Record<Connection["credentialsPerSession"], string> = { off: "use the connection's access", optional: "may bring secrets of their own", required: "have to bring secrets of their own" };

// waits reports whether a tool waits for a decision.
export const waits = (t: ConnectionTool): boolean => t.state === "new" || t.state === "changed";

// counted is the number of tools, and of those that wait, in words.
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

// originOf is scheme, host and port of an address; empty for what is none.
export function originOf(address: string): string {
  try {
    const { origin } = new URL(address);
    return origin === "null" ? "" : origin;
  } catch {
    return "";
  }
}
