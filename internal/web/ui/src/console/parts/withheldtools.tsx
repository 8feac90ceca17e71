// Tools that were not offered to a model, with advice.
import type { WithheldTool } from "../../lib/contract";

const reasons: Record<string, string> = {
  mode_once: "it would have to wait for somebody, and the session does not wait: use the mode chat",
  caller: "whoever started the session withheld it",
  visitor: "visitors do not get it: its review, or its agent, says so",
  not_approved: "nobody has approved it: review it",
  changed: "its server says something else since it was approved: review it",
  missing: "its server no longer has it: take it out of the agent, or ask the server again",
  needs_authorization: "its server refuses the secret, the secret cannot be read, or the session lacks the secret that the connection requires: open the connection",
  disabled: "its connection is switched off: switch it on, or take the tool out of the agent",
  limit: "there are too many tools, or their definitions are too long: allow fewer",
};

const reviewed = new Set(["not_approved", "changed", "missing", "needs_authorization", "disabled"]);

export function WithheldTools({ of }: { of: WithheldTool[] }) {
  return (
    <ul class="plainlist">
      {of.map((t) => (
        <li class="breaks" key={t.tool}>
          <code>{t.tool}</code>: {reasons[t.reason] ?? t.reason}
          {reviewed.has(t.reason) && (
            <>
              {" "}
              (<a href="#/connections">connections</a>)
            </>
          )}
        </li>
      ))}
    </ul>
  );
}
