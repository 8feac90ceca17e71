// Secrets of connections: their values are written, and never shown.
import type { ComponentChildren } from "preact";
import { hasExpired } from "../../lib/connections";
import type { Secret } from "../../lib/contract";
import { Badge, Notice, Time } from "../parts/basic";
import { Effects } from "../parts/effects";
import { ConfirmAction } from "../parts/form";
import { ResourcePanel } from "../parts/resource";
import { ReplaceSecret, SecretForm } from "../parts/secretform";
import { useSession } from "../parts/session";

export function Secrets({ head }: { head: ComponentChildren }) {
  const { api, may } = useSession();
  const writes = may("secrets:write");
  return (
    <>
      {head}
      <ResourcePanel<Secret>
        title="Secrets"
        path="/secrets"
        limit={20}
        label="Secrets"
        search={{ name: "q", label: "Name or address" }}
        nothing="No matching secrets"
        empty={{ title: "No secrets", text: "A secret is a value, such as a token, that is sent with requests to one server. It is never shown again." }}
        create={writes && { title: "Store a secret", look: "small", dialog: ({ onClose, onDone }) => <SecretForm onClose={onClose} onDone={() => onDone("The secret is stored")} /> }}
        columns={[
          {
            title: "Name",
            show: (s) => (
              <div>
                <div class="breaks">{s.name}</div>
                {s.hint && <code class="small">…{s.hint}</code>} {s.unreadable && <Badge meaning="failed">unreadable</Badge>} {hasExpired(s) && <Badge meaning="failed">expired</Badge>}
              </div>
            ),
          },
          {
            title: "Goes to",
            show: (s) => (
              <div>
                <div class="breaks">{s.origin}</div>
                <div class="small muted breaks">{sentAs(s)}</div>
              </div>
            ),
          },
          { title: "For", show: (s) => <Whom of={s} /> },
          { title: "Used by", show: (s) => (s.usedBy.length === 0 ? <span class="muted">no connection</span> : <Users of={s} />) },
          { title: "Last sent", show: (s) => (s.lastUsedAt ? <Time at={s.lastUsedAt} /> : <span class="muted">never</span>) },
          {
            title: "Value",
            show: (s) => (
              <div>
                <div class="nowrap">
                  set <Time at={s.updatedAt} />
                </div>
                {s.expiresAt && (
                  <div class="small muted nowrap">
                    {hasExpired(s) ? "expired" : "expires"} <Time at={s.expiresAt} />
                  </div>
                )}
              </div>
            ),
          },
        ]}
        actions={[
          { title: "Replace", when: () => writes, dialog: ({ onClose, onDone }, s) => <ReplaceSecret of={s} onClose={onClose} onDone={() => onDone("The value is replaced")} /> },
          {
            title: "Delete",
            kind: "danger",
            when: () => writes,
            dialog: (ends, s) => (
              <ConfirmAction title={`Delete "${s.name}"?`} action="Delete it" waits={s.usedBy.length > 0} undo={`"${s.name}" is deleted in 5 seconds`} work={() => api.remove("/secrets/" + s.id)} said="The secret is deleted" {...ends}>
                <Effects of="secret" id={s.id} />
                <p>The value is deleted for good. Sessions and schedules that use it lose the tools of its connections.</p>
                {s.usedBy.length > 0 && (
                  <Notice meaning="waiting">
                    <p>
                      <b>It is in use and cannot be deleted yet.</b> Give another secret, or none, to <Users of={s} />.
                    </p>
                  </Notice>
                )}
              </ConfirmAction>
            ),
          },
        ]}
      />
    </>
  );
}

// Whom shows the connections and sessions that can use a secret.
function Whom({ of: s }: { of: Secret }) {
  return (
    <div>
      {s.externalUserId && <div class="breaks">sessions of {s.externalUserId}</div>}
      {s.spaceId ? (
        <div class={"breaks" + (s.externalUserId ? " small muted" : "")}>space {s.spaceName ?? s.spaceId}</div>
      ) : (
        !s.externalUserId && <span class="muted">all spaces</span>
      )}
    </div>
  );
}

// Users lists the users of a secret.
function Users({ of: s }: { of: Secret }) {
  return (
    <span class="breaks">
      {s.usedBy.map((u, i) => (
        <>
          {i > 0 && ", "}
          <a href={"#/connections/" + u.connectionId}>{u.connectionName ?? u.connectionId}</a>
          {u.use === "oauth_client" && <span class="small muted"> (its OAuth client)</span>}
        </>
      ))}
    </span>
  );
}

// sentAs describes how requests carry a secret.
function sentAs(s: Secret): string {
  switch (s.kind) {
    case "bearer":
      return "as Authorization: Bearer";
    case "basic":
      return "as Authorization: Basic";
    case "query":
      return `as the parameter ${s.parameterName}`;
    case "token":
      return "only to the token endpoint, by an OAuth client";
    default:
      return `as ${s.headerName}`;
  }
}
