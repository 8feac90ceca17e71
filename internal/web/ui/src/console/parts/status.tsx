import type { SessionStatus } from "../../lib/agents";
import { Badge, type Meaning } from "./basic";

const meanings: Record<SessionStatus, Meaning> = { queued: "waiting", running: "info", completed: "ok", waiting_for_input: "waiting", failed: "failed", cancelled: "none" };
const words: Record<SessionStatus, string> = { queued: "queued", running: "running", completed: "completed", waiting_for_input: "waiting for input", failed: "failed", cancelled: "cancelled" };

// Status shows the status of a session.
export function Status({ of }: { of: SessionStatus }) {
  return <Badge meaning={meanings[of] ?? "none"}>{words[of] ?? of}</Badge>;
}

export const going = (status: SessionStatus): boolean => status === "queued" || status === "running";
