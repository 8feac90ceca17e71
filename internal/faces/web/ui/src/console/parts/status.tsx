import type { SessionStatus } from "../../lib/agents";
import { Badge, type Meaning } from "./basic";

// sessionStatuses has the color and the text of each status, in the order of lists.
const sessionStatuses: Record<SessionStatus, [Meaning, string]> = {
  waiting_for_input: ["waiting", "waiting for input"],
  running: ["info", "running"],
  queued: ["waiting", "queued"],
  completed: ["ok", "completed"],
  failed: ["failed", "failed"],
  cancelled: ["none", "cancelled"],
};

// statusOptions are the statuses as options of a filter.
export const statusOptions = Object.entries(sessionStatuses).map(([value, [, text]]): [string, string] => [value, text]);

// statusLook returns the meaning and the word of a status.
export const statusLook = (of: SessionStatus): [Meaning, string] => sessionStatuses[of] ?? ["none", of];

// Status shows the status of a session, or of a run of a task.
export function Status({ of }: { of: SessionStatus | "skipped" }) {
  const [meaning, text] = of === "skipped" ? (["none", of] as const) : statusLook(of);
  return <Badge meaning={meaning}>{text}</Badge>;
}
