// Secrets of connections: their values are written, and never shown.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { hasExpired } from "../../lib/connections";
import type { Connection, Secret, Space } from "../../lib/contract";
import type { List } from "../../lib/types";
import { Badge, Button, Notice, Time } from "../parts/basic";
import { Confirm } from "../parts/dialog";
import { useAction } from "../parts/form";
import { Empty, Failure, useLoad } from "../parts/load";
import { ReplaceSecret, SecretForm } from "../parts/secretform";
import { useSpaces } from "../parts/space";
import { Pages, useList } from "../parts/table";
import { toast } from "../parts/toast";
import { useSession } from "../parts/session";

export function Secrets({ head }: { head: ComponentChildren }) {
  const { api, may } = useSession();
  const pages = useList<Secret>("/secrets", 20);
  const connections = useLoad((signal) => api.get<List<Connection>>("/connections", { limit: 100 }, signal), [api]);
  const spaces = useSpaces();
  const [making, setMaking] = useState(false);
  const [setting, setSetting] = useState<Secret>();
  const [deleting, setDeleting] = useState<Secret>();
  const writes = may("secrets:write");
  const done = (said: string) => {
    setMaking(false);
    setSetting(undefined);
    setDeleting(undefined);
    toast(said);
    pages.first.reload();
  };
  return (
    <>
      {head}
      <section class="panel" aria-labelledby="secrets">
        <header>
          <h2 id="secrets">Secrets</h2>
          {writes && (
            <div class="push">
              <Button small icon="plus" onClick={() => setMaking(true)}>
                Store a secret
              </Button>
            </div>
          )}
        </header>
        <Pages
          of={pages}
          label="Secrets"
          empty={
            <Empty title="No secrets">
              <p>A secret is a value that requests to one server carry, such as a token. Nothing shows it again.</p>
            </Empty>
          }
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
            { title: "For", show: (s) => <Whom of={s} spaces={spaces} /> },
            { title: "Used by", show: (s) => (s.usedBy.length === 0 ? <span class="muted">no connection</span> : <Users of={s} connections={connections.data?.data} />) },
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
            {
              title: "",
              show: (s) =>
                writes && (
                  <div class="row tight">
                    <Button small onClick={() => setSetting(s)}>
                      Replace
                    </Button>
                    <Button small kind="danger" onClick={() => setDeleting(s)}>
                      Delete
                    </Button>
                  </div>
                ),
            },
          ]}
        />
        {making && <SecretForm onClose={() => setMaking(false)} onDone={() => done("The secret is stored")} />}
        {setting && <ReplaceSecret of={setting} onClose={() => setSetting(undefined)} onDone={() => done("The value is replaced")} />}
        {deleting && <Delete of={deleting} connections={connections.data?.data} onClose={() => setDeleting(undefined)} onDone={() => done("The secret is deleted")} />}
      </section>
    </>
  );
}

// Whom says which connections and sessions may use a secret.
function Whom({ of: s, spaces }: { of: Secret; spaces: Space[] }) {
  return (
    <div>
      {s.externalUserId && <div class="breaks">sessions of {s.externalUserId}</div>}
      {s.spaceId ? (
        <div class={"breaks" + (s.externalUserId ? " small muted" : "")}>space {spaces.find((x) => x.id === s.spaceId)?.name ?? s.spaceId}</div>
      ) : (
        !s.externalUserId && <span class="muted">all spaces</span>
      )}
    </div>
  );
}

// Users names what uses a secret.
function Users({ of: s, connections }: { of: Secret; connections?: Connection[] }) {
  return (
    <span class="breaks">
      {s.usedBy.map((u, i) => (
        <>
          {i > 0 && ", "}
          <a href={"#/connections/" + u.connectionId}>{connections?.find((c) => c.id === u.connectionId)?.name ?? u.connectionId}</a>
          {u.use === "oauth_client" && <span class="small muted"> (its OAuth client)</span>}
        </>
      ))}
    </span>
  );
}

// sentAs says how requests carry a secret.
function sentAs(s: Secret): string {
  switch (s.kind) {
    case "bearer":
      return "as Authorization: Bearer";
    case "basic":
      return "as Authorization: Basic";
    case "query":
      return `as the parameter ${s.parameterName}`;
    case "token":
      return "to a token endpoint alone, of an OAuth client";
    default:
      return `as ${s.headerName}`;
  }
}

function Delete({ of: s, connections, onDone, onClose }: { of: Secret; connections?: Connection[]; onDone: () => void; onClose: () => void }) {
  const { api } = useSession();
  const action = useAction({ repeats: true });
  const confirm = () =>
    action.run(async () => {
      await api.remove("/secrets/" + s.id);
      onDone();
    });
  return (
    <Confirm title={`Delete "${s.name}"?`} action="Delete it" busy={action.busy} onConfirm={confirm} onClose={onClose}>
      <p>The value is wiped. This cannot be undone. Sessions and schedules that were given it lose their tools of its connections.</p>
      {s.usedBy.length > 0 && (
        <Notice meaning="waiting">
          <p>
            <b>It is in use, so it cannot be deleted yet.</b> Give another secret, or none, to <Users of={s} connections={connections} />.
          </p>
        </Notice>
      )}
      {action.problem && <Failure problem={action.problem} />}
    </Confirm>
  );
}
