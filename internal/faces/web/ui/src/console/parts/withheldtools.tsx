// Tools that were not offered to a model, with advice.
import type { WithheldTool } from "../../lib/contract";

const reasons: Record<string, string> = {
  mode_once: "it may have to wait for a person, and sessions of mode once never wait: use the mode chat",
  caller: "withheld when the session was started",
  visitor: "not allowed for visitors by its review or its agent",
  not_approved: "not approved: review it",
  changed: "its server has changed it since the approval: review it",
  missing: "its server no longer has it: remove it from the agent, or refresh the connection",
  needs_authorization: "its server rejects the secret, the secret cannot be read, or the session lacks a required secret: open the connection",
  disabled: "its connection is switched off: switch it on, or remove the tool from the agent",
  limit: "too many tools, or definitions that are too long: allow fewer",
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
