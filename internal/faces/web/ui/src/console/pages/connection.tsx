// One connection: the state of its server, and its tools.
import { useState } from "preact/hooks";
import { kindWords, originOf, perSessionWords, sessionWords } from "../../lib/connections";
import type { Agent, Connection, ConnectionAuth, ConnectionToolList, RefreshedConnection, Secret, UpdateConnection } from "../../lib/contract";
import { duration, of, size } from "../../lib/format";
import type { List } from "../../lib/types";
import { Effects } from "../parts/effects";
import { useAccess, type Way, wayOf } from "../parts/access";
import { SignIn } from "../parts/authorize";
import { Badge, Button, Id, Notice, Time } from "../parts/basic";
import { Facts } from "../parts/facts";
import { AreaField, SelectField, TextField } from "../parts/fields";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { Failure, type Loaded, States, useLoad } from "../parts/load";
import { Menu } from "../parts/menu";
import { ConnectionState } from "../parts/connectionstate";
import { useConnectionFields } from "../parts/connectionfields";
import { type Ends, useDialogs } from "../parts/resource";
import { Review } from "../parts/review";
import { EscapedText } from "../parts/escapedtext";
import { Subject, type Tagged, useSubject } from "../parts/subject";
import { toast } from "../parts/toast";
import { go } from "../parts/router";
import { useSession } from "../parts/session";

export function ConnectionPage({ id }: { id: string }) {
  const connection = useSubject<Connection>("/connections/" + id);
  if (connection.data) return <One subject={connection} of={connection.data} />;
  return (
    <Subject of={connection} {...kind}>
      <States of={connection}>{() => null}</States>
    </Subject>
  );
}

const kind = { what: "connection", list: "connections" };

function One({ subject, of: tagged }: { subject: Loaded<Tagged<Connection>>; of: Tagged<Connection> }) {
  const { reload } = subject;
  const { api, may } = useSession();
  const c = tagged.data;
  const path = "/connections/" + c.id;
  const tools = useLoad((signal) => api.get<ConnectionToolList>(path + "/tools", undefined, signal), [api, path]);
  const [found, setFound] = useState<RefreshedConnection>();
  const { busy, problem, run } = useAction({ repeats: true });
  const writes = may("connections:write");
  const way = wayOf(c.auth);
  const again = () => {
    reload();
    tools.reload();
  };
  const refresh = async () => {
    setFound(undefined);
    await run(async () => setFound((await (await api.raw("POST", path + "/refresh")).json()) as RefreshedConnection));
    again();
  };
  const switchOn = async () => {
    if (await run(() => api.patch<Connection>(path, { enabled: true } satisfies UpdateConnection))) toast(`The connection "${c.name}" is switched on`);
    again();
  };
  const authorized = (auth: ConnectionAuth, ends: Ends) => {
    ends.onClose();
    if (wayOf(auth) === "oauth" || !c.enabled) again(); // it must first be authorized or switched on
    else void refresh();
  };
  // changed ends a dialog that makes the refresh result outdated.
  const changed = ({ onDone }: Ends, said: string) => {
    setFound(undefined);
    onDone(said);
  };
  const { open, dialog } = useDialogs(
    {
      change: (ends) => <Change path={path} of={tagged} onClose={ends.onClose} onDone={() => changed(ends, "Saved")} />,
      access: (ends) => <ChangeAccess path={path} of={tagged} first={way === "none" && c.status === "needs_authorization" ? "oauth" : undefined} onClose={ends.onClose} onDone={(auth) => authorized(auth, ends)} />,
      secret: (ends) => <ChangeAccess path={path} of={tagged} first="secret" onClose={ends.onClose} onDone={(auth) => authorized(auth, ends)} />,
      signIn: ({ onClose }) => (
        <SignIn
          path={path}
          of={c}
          onClose={() => {
            onClose();
            again();
          }}
          onDone={() => {
            onClose();
            toast(`The connection "${c.name}" is authorized`);
            if (c.enabled) void refresh();
            else again();
          }}
        />
      ),
      signOut: (ends) => (
        <ConfirmAction title={`Sign out of "${c.name}"?`} action="Delete the tokens" work={() => api.raw("POST", path + "/deauthorize")} onClose={ends.onClose} onDone={() => changed(ends, "Signed out")}>
          <p>The stored tokens are deleted, and agents cannot use the tools until someone signs in again. Reviews are kept. The authorization server is not notified; you can revoke the access there, too.</p>
        </ConfirmAction>
      ),
      switchOff: (ends) => <SwitchOff path={path} of={c} onClose={ends.onClose} onDone={() => changed(ends, `The connection "${c.name}" is switched off`)} />,
      delete: ({ onClose }) => (
        <ConfirmAction title={`Delete "${c.name}"?`} action="Delete it" work={() => api.remove(path)} onClose={onClose} onDone={() => (toast(`The connection "${c.name}" is deleted`), go("connections"))}>
          <Effects of="connection" id={c.id} />
          <p>Its tools and their reviews are deleted. Its secret is kept. This cannot be undone.</p>
        </ConfirmAction>
      ),
    },
    again,
  );
  const ask = (title: string) => (
    <Button small disabled={busy} onClick={refresh}>
      {busy ? "Asking" : title}
    </Button>
  );
  // The notice of the state shows the server's requirements, with advice.
  const known = c.status === "needs_authorization" || c.status === "unreachable";
  const actions = writes && (
    <div class="push row">
      {c.enabled && (
        <Button icon="again" disabled={busy} onClick={refresh}>
          Refresh
        </Button>
      )}
      <Button onClick={() => open("change")}>Change</Button>
      <Menu
        label="Actions"
        items={[
          { title: "Access", onClick: () => open("access") },
          ...(way === "oauth" && c.status !== "needs_authorization" ? [{ title: "Sign out of it", onClick: () => open("signOut") }] : []),
          ...(c.enabled ? [{ title: "Switch off", onClick: () => open("switchOff") }] : []),
          { title: "Delete", danger: true, onClick: () => open("delete") },
        ]}
      />
    </div>
  );
  return (
    <Subject of={subject} {...kind} title={c.name} state={<ConnectionState of={c} />} aside={actions}>
      {subject.problem && <Failure problem={subject.problem} retry={reload} />}
      {problem && !(known && problem.status >= 500) && <Failure problem={problem} />}
      {!c.enabled && (
        <Notice meaning="waiting">
          <p>
            <b>The connection is switched off.</b> Agents cannot use its tools, and its server is not contacted.
          </p>
          {writes && (
            <div class="row">
              <Button small kind="main" disabled={busy} onClick={switchOn}>
                Switch on
              </Button>
            </div>
          )}
        </Notice>
      )}
      {c.status === "unchecked" && writes && (
        <Notice meaning="info">
          <p>
            <b>The server was not checked since its address or secret changed.</b> Refresh to list its tools.
          </p>
          <div class="row">{ask("Refresh tools")}</div>
        </Notice>
      )}
      {c.status === "needs_authorization" && (
        <Notice meaning="failed">
          <p class="breaks">
            <b>{wants[way]}</b> {c.lastError?.message}
          </p>
          {writes && (
            <div class="row">
              {way === "oauth" ? (
                <Button small kind="main" onClick={() => open("signIn")}>
                  Sign in
                </Button>
              ) : (
                <Button small kind="main" onClick={() => open(way === "client" ? "access" : "secret")}>
                  {way === "none" ? "Set a secret" : way === "secret" ? "Change the secret" : "Change its access"}
                </Button>
              )}
              {way === "none" && (
                <Button small onClick={() => open("access")}>
                  Use OAuth
                </Button>
              )}
              {way !== "oauth" && ask("Ask again")}
            </div>
          )}
        </Notice>
      )}
      {c.status === "unreachable" && (
        <Notice meaning="failed">
          <p>
            <b>The server could not be reached.</b> {c.lastError?.message}
          </p>
          {writes && <div class="row">{ask("Ask again")}</div>}
        </Notice>
      )}
      {found && <Difference of={found} />}
      <section class="panel" aria-label="Server">
        <Facts
          look="body"
          of={[
            c.kind !== "mcp" && ["What it is", kindWords[c.kind]],
            c.documentUrl && ["Document", c.documentUrl, "mono breaks"],
            ["Address", c.url || <span class="muted">not known yet</span>, "mono breaks"],
            c.protocol && [
              "Speaks",
              <>
                MCP {c.protocol.version}
                {c.protocol.serverName && (
                  <>
                    {" "}
                    as <EscapedText text={[c.protocol.serverName, c.protocol.serverVersion].filter(Boolean).join(" ")} />
                  </>
                )}
              </>,
              "breaks",
            ],
            ["Access", <Carried of={c} />],
            c.credentialsPerSession !== "off" && ["Sessions", perSessionWords[c.credentialsPerSession]],
            c.sessions !== "turn" && ["Sessions at the server", sessionWords[c.sessions]],
            !!c.filter && ["Operations", [...(c.filter.tags ?? []), ...(c.filter.paths ?? []), c.filter.search].filter(Boolean).join(", "), "breaks"],
            Object.keys(c.headers).length > 0 && ["Headers", Object.entries(c.headers).map(([name, value]) => <div>{`${name}: ${value}`}</div>), "mono breaks"],
            ["Changes", c.onChange === "block" ? "withhold the tool until it is reviewed" : "keep using the approved definition"],
            ["Limits", `${duration(c.limits.timeoutSeconds * 1000)} a call, ${size(c.limits.maxResultBytes)} a reply, ${c.limits.maxConcurrent} at a time, ${c.limits.callsPerMinute} a minute`],
            ["Checked", c.lastCheckedAt ? <Time at={c.lastCheckedAt} /> : "never"],
            ["Id", <Id of={c.id} />],
          ]}
        />
        {c.instructions && (
          <details class="note small">
            <summary>The server's description of itself; models do not see it</summary>
            <p class="pre breaks">
              <EscapedText text={c.instructions} />
            </p>
          </details>
        )}
      </section>
      <States of={tools}>{(list) => <Review path={path} connection={c} tools={list.data} writes={writes} onChanged={again} />}</States>
      {dialog}
    </Subject>
  );
}

function Difference({ of: d }: { of: RefreshedConnection }) {
  const parts: [string, string[]][] = [
    ["Added", d.added],
    ["Changed", d.changed],
    ["Missing", d.missing],
  ];
  const any = parts.some(([, names]) => names.length > 0);
  const first = d.changed.length + d.missing.length + d.unchanged === 0;
  return (
    <Notice meaning={any ? "waiting" : "ok"}>
      <p>
        <b>{any ? (first ? "The server offers tools that nobody has reviewed." : "The server has changed.") : "Nothing has changed."}</b> {d.unchanged > 0 && `${of(d.unchanged, "tool")} ${d.unchanged === 1 ? "is" : "are"} as before.`}
      </p>
      {parts.map(
        ([word, names]) =>
          names.length > 0 && (
            <p class="breaks">
              {word}: {names.map((name, i) => [i > 0 && ", ", <code>{name}</code>])}
            </p>
          ),
      )}
    </Notice>
  );
}

// wants returns the missing authorization of a connection.
const wants: Record<Way, string> = {
  none: "The server requires a secret.",
  secret: "The server rejected the secret.",
  oauth: "Sign-in required.",
  client: "The server rejected the client.",
};

// Carried shows the credentials of a connection's requests.
function Carried({ of: { auth, status } }: { of: Connection }) {
  const way = wayOf(auth);
  if (way === "none") return <span class="muted">none</span>;
  if (way === "secret") return <SecretName id={auth.secretId!} />;
  return (
    <div class="breaks">
      {way === "client" ? "OAuth, as a client" : status === "needs_authorization" ? "OAuth, not signed in" : "OAuth, signed in"}
      {auth.clientId && (
        <div class="small muted">
          client <code>{auth.clientId}</code>
          {auth.clientSecretId && (
            <>
              {" "}
              with <SecretName id={auth.clientSecretId} />
            </>
          )}
        </div>
      )}
      {auth.scopes && auth.scopes.length > 0 && (
        <div class="small muted">
          scopes {auth.scopes.map((scope) => [<code>{scope}</code>, " "])}
        </div>
      )}
    </div>
  );
}

function SecretName({ id }: { id: string }) {
  const { api } = useSession();
  const secret = useLoad((signal) => api.get<Secret>("/secrets/" + id, undefined, signal), [api, id]);
  const s = secret.data;
  return (
    <>
      <a href="#/connections/secrets">{s?.name ?? id}</a> {s?.hint && <code>…{s.hint}</code>} {s?.unreadable && <Badge meaning="failed">unreadable</Badge>}
      {s?.unreadable && <div class="small muted">The encryption key of this secret is missing. Replace the value.</div>}
    </>
  );
}

// headersIn parses lines such as "X-Team: docs".
function headersIn(text: string): Record<string, string> | undefined {
  const out: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const at = line.indexOf(":");
    if (at < 1) return undefined;
    out[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return out;
}

const limits = [
  { name: "timeoutSeconds", title: "Timeout of a call, in seconds", min: 1, max: 300 },
  { name: "maxResultBytes", title: "Maximum reply size, in bytes", min: 1024, max: 4194304 },
  { name: "maxConcurrent", title: "Concurrent calls", min: 1, max: 32 },
  { name: "callsPerMinute", title: "Calls per minute", min: 1, max: 600 },
] as const;

function Change({ path, of: { data: c, etag }, onDone, onClose }: { path: string; of: Tagged<Connection>; onDone: () => void; onClose: () => void }) {
  const { api } = useSession();
  const place = useConnectionFields(c.kind, c);
  const [text, setText] = useState(() =>
    Object.entries(c.headers)
      .map(([name, value]) => `${name}: ${value}`)
      .join("\n"),
  );
  const [onChange, setOnChange] = useState(c.onChange);
  const [perSession, setPerSession] = useState(c.credentialsPerSession);
  const [sessions, setSessions] = useState(c.sessions);
  const [most, setMost] = useState<Record<string, number>>({ ...c.limits });
  const action = useAction();
  const headers = headersIn(text);
  const submit = () =>
    action.run(async () => {
      const body: UpdateConnection = { ...place.body, headers, onChange, credentialsPerSession: perSession, sessions, limits: most };
      await api.patch<Connection>(path, body, etag);
      onDone();
    });
  const approved = c.toolCounts.approved + c.toolCounts.changed + c.toolCounts.missing;
  return (
    <FormDialog id="change-connection" title={`Change "${c.name}"`} wide submit="Save" ready={place.ready && !!headers} action={action} onSubmit={submit} onClose={onClose}>
      {place.fields}
      {place.body.url && approved > 0 && <Notice meaning="waiting">If you change the address, all tools must be reviewed again.</Notice>}
      <AreaField id="connection-headers" label="Headers" hint="One per line, such as X-Team: docs. They are visible here, so do not enter secrets." problem={headers ? undefined : "A line has no colon."} code rows={3} spellcheck={false} value={text} onChange={setText} />
      <SelectField
        id="connection-on-change"
        label="When the definition of an approved tool changes"
        options={[
          ["block", "withhold it until it is reviewed"],
          ["keep", "keep using the approved definition"],
        ]}
        value={onChange}
        onChange={setOnChange}
      />
      <SelectField id="connection-per-session" label="Secrets of sessions" hint="Each of your users acts with their own access." options={Object.entries(perSessionWords) as [Connection["credentialsPerSession"], string][]} value={perSession} onChange={setPerSession} />
      {c.kind === "mcp" && <SelectField id="connection-sessions" label="Sessions at the server" hint="A server with state, such as a browser or a shell, loses it when its session ends." options={Object.entries(sessionWords) as [Connection["sessions"], string][]} value={sessions} onChange={setSessions} />}
      <fieldset class="plainset">
        <legend>Limits</legend>
        <div class="pair">
          {limits.map((l) => (
            <TextField key={l.name} id={"limit-" + l.name} label={l.title} type="number" required min={l.min} max={l.max} step={1} value={String(most[l.name])} onChange={(n) => setMost({ ...most, [l.name]: Number(n) })} />
          ))}
        </div>
      </fieldset>
    </FormDialog>
  );
}

// ChangeAccess changes the credentials of a connection's requests. A secret that is
// stored for it is used immediately.
function ChangeAccess({ path, of: { data: c, etag }, first, onDone, onClose }: { path: string; of: Tagged<Connection>; first?: Way; onDone: (auth: ConnectionAuth) => void; onClose: () => void }) {
  const { api } = useSession();
  const action = useAction();
  const use = (auth: ConnectionAuth) =>
    action.run(async () => {
      const body: UpdateConnection = { auth };
      await api.patch<Connection>(path, body, etag);
      onDone(auth);
    });
  const access = useAccess({ origin: originOf(c.url), name: c.name, was: c, first, onStored: (s) => void use({ type: "secret", secretId: s.id }) });
  if (access.storing) return access.storing;
  const approved = c.toolCounts.approved + c.toolCounts.changed + c.toolCounts.missing;
  return (
    <FormDialog id="change-access" title={`The access of "${c.name}"`} submit="Use it" ready={access.ready && access.changed} action={action} onSubmit={() => void use(access.auth)} onClose={onClose}>
      {access.fields}
      {approved > 0 && <Notice meaning="waiting">If you change this, all tools must be reviewed again.</Notice>}
    </FormDialog>
  );
}

const namedAgents = 10;

// SwitchOff lists the agents that lose tools while the connection is switched off.
function SwitchOff({ path, of: c, onDone, onClose }: { path: string; of: Connection; onDone: () => void; onClose: () => void }) {
  const { api, may } = useSession();
  const users = useLoad(
    async (signal) => {
      const all: Agent[] = [];
      for (let cursor: string | undefined; may("agents:read"); ) {
        const page: List<Agent> = await api.get<List<Agent>>("/api-agents", { spaceId: c.spaceId, limit: 100, cursor }, signal);
        all.push(...page.data.filter((a) => a.tools.some((t) => t.connectionId === c.id)));
        if (!page.nextCursor) break;
        cursor = page.nextCursor;
      }
      return all;
    },
    [api, c.id],
  );
  const work = () => api.patch<Connection>(path, { enabled: false } satisfies UpdateConnection);
  return (
    <ConfirmAction title={`Switch "${c.name}" off?`} action="Switch it off" waits={users.loading} work={work} onClose={onClose} onDone={onDone}>
      <p>Agents cannot use its tools, planned calls are not made, and its server is not contacted until you switch it on again. Reviews are kept. Calls in progress are not cancelled.</p>
      <States of={users}>
        {(agents) =>
          !may("agents:read") ? (
            <p class="muted">Your key cannot see which agents use it.</p>
          ) : agents.length === 0 ? (
            <p>No agent uses it.</p>
          ) : (
            <>
              <p>{agents.length === 1 ? "This agent uses it:" : `${agents.length} agents use it:`}</p>
              <ul class="plainlist" aria-label="Agents that use it">
                {agents.slice(0, namedAgents).map((a) => (
                  <li class="breaks" key={a.id}>
                    <a href={"#/agents/" + a.id}>
                      <EscapedText text={a.name} />
                    </a>
                  </li>
                ))}
                {agents.length > namedAgents && <li>and {agents.length - namedAgents} more</li>}
              </ul>
            </>
          )
        }
      </States>
    </ConfirmAction>
  );
}
