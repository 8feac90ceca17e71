import type { Connection } from "../../lib/contract";
import { Badge, type Meaning } from "./basic";

const states: Record<string, [Meaning, string]> = {
  unchecked: ["none", "not checked yet"],
  ready: ["ok", "ready"],
  review_needed: ["warning", "review needed"],
  needs_authorization: ["failed", "needs authorization"],
  unreachable: ["failed", "not reached"],
  disabled: ["none", "switched off"],
};

export function ConnectionState({ of: c }: { of: Connection }) {
  const [meaning, word] = states[c.status] ?? ["none", c.status];
  return <Badge meaning={meaning}>{word}</Badge>;
}
