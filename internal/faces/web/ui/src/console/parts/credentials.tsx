// The sessions' own secrets for connections: the current ones, and their selection.
// Only ids and names, never values.
import { useState } from "preact/hooks";
import type { Agent } from "../../lib/agents";
import type { Api, Problem } from "../../lib/api";
import { hasExpired, originOf } from "../../lib/connections";
import type { Connection, Secret } from "../../lib/contract";
import type { List } from "../../lib/types";
import { useSession } from "./session";
import { allSecrets, secretSaid } from "./access";
import { Badge, Field } from "./basic";
import { asProblem, Failure, Skeleton, useLoad } from "./load";

// Credentials maps ids of connections to ids of secrets.
export type Credentials = Record<string, string>;

// hasSecrets reports whether there is anything to show.
export const hasSecrets = (of?: Credentials | null): of is Credentials => Object.keys(of ?? {}).length > 0;

// found reads an object; undefined if it no longer exists.
async function found<T>(api: Api, path: string, signal: AbortSignal): Promise<T | undefined> {
  try {
    return await api.get<T>(path, undefined, signal);
  } catch (error) {
    if (!signal.aborted && asProblem(error).status === 404) return undefined;
    throw error;
  }
}

// GivenSecrets shows the secret of each connection; nothing if there are none.
export function GivenSecrets({ of }: { of?: Credentials | null }) {
  const { api, may } = useSession();
  const reads = may("connections:read");
  const pairs = Object.entries(of ?? {});
  const names = useLoad(
    (signal) =>
      Promise.all(
        (reads ? pairs : []).map(async ([connection, secret]) => {
          const [c, s] = await Promise.all([found<Connection>(api, "/connections/" + connection, signal), found<Secret>(api, "/secrets/" + secret, signal)]);
          return { id: connection, c, s };
        }),
      ),
    [api, reads, JSON.stringify(pairs)],
  );
  if (pairs.length === 0) return null;
  return (
    <>
      <ul class="plainlist" aria-label="Session secrets">
        {pairs.map(([connection, secret]) => {
          const known = names.data?.find((n) => n.id === connection);
          const { c, s } = known ?? {};
          return (
            <li class="breaks" key={connection}>
              {known && !c ? <span>{connection} (a deleted connection)</span> : <a href={"#/connections/" + connection}>{c?.name ?? connection}</a>} uses{" "}
              {known && (!s || s.deletedAt) ? (
                <>
                  {s?.name ?? secret} <Badge meaning="failed">deleted</Badge>
                </>
              ) : (
                <>
                  <a href="#/connections/secrets">{s?.name ?? secret}</a> {s?.hint && <code>…{s.hint}</code>} {s?.externalUserId && <>for {s.externalUserId}</>} {s && hasExpired(s) && <Badge meaning="failed">expired</Badge>}
                </>
              )}
            </li>
          );
        })}
      </ul>
      {names.problem && <Failure problem={names.problem} retry={names.reload} />}
    </>
  );
}

// useAgent reads an agent, whose tools determine the connections.
export function useAgent(id: string) {
  const { api } = useSession();
  return useLoad((signal) => api.get<Agent>("/api-agents/" + id, undefined, signal), [api, id]);
}

const same = (a: Credentials, b: Credentials) => JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());

// useOwnSecrets holds a field for each connection of the agent's tools that accepts
// secrets of sessions. was contains the current ones, users reports whether the
// sessions can belong to an end user, and problem is the error of the last attempt.
export function useOwnSecrets({ agent, was = {}, users, problem }: { agent?: Pick<Agent, "spaceId" | "tools">; was?: Credentials | null; users: boolean; problem?: Problem }) {
  const { api, may } = useSession();
  const had = was ?? {};
  const [now, setNow] = useState<Credentials>(had);
  const writes = may("secrets:write");
  const spaceId = agent?.spaceId;
  const used = new Set(agent?.tools.flatMap((t) => (t?.type === "connection" && t.connectionId ? [t.connectionId] : [])));
  const asks = may("connections:read") && !!spaceId && (used.size > 0 || hasSecrets(had));
  const lists = useLoad(
    async (signal) => {
      if (!asks) return undefined;
      const { data } = await api.get<List<Connection>>("/connections", { spaceId, limit: 100 }, signal);
      const takes = data.filter((c) => used.has(c.id) && c.credentialsPerSession !== "off").sort((a, b) => a.name.localeCompare(b.name));
      return { connections: data, takes, secrets: writes && (takes.length > 0 || hasSecrets(had)) ? await allSecrets(api, signal) : [] };
    },
    [api, asks, writes, spaceId, [...used].sort().join()],
  );
  const takes = lists.data?.takes ?? [];
  // Existing secrets can be removed, regardless of the state of their connection.
  const ids = [...takes.map((c) => c.id), ...Object.keys(had).filter((id) => !takes.some((c) => c.id === id))];
  const chosen = Object.fromEntries(Object.entries(now).filter(([id]) => ids.includes(id))); // of the connections with a field
  const about = (id: string) => (problem?.param === "credentials." + id ? problem.message : undefined);
  const fit = (c?: Connection) => (lists.data?.secrets ?? []).filter((s) => c && s.kind !== "token" && s.origin === originOf(c.url) && (!s.spaceId || s.spaceId === c.spaceId) && (users || !s.externalUserId));
  const row = (id: string) => {
    const c = lists.data!.connections.find((c) => c.id === id);
    const value = now[id] ?? "";
    const offered = fit(c);
    const other = value && !offered.some((s) => s.id === value);
    const required = c?.credentialsPerSession === "required";
    let hint: string | undefined;
    if (!c) hint = "This connection no longer exists.";
    else if (c.credentialsPerSession === "off") hint = "The connection no longer accepts secrets of sessions.";
    else if (!used.has(id)) hint = "The agent has no tools of this connection.";
    else if (!value) hint = (required ? "Without a secret, its tools are withheld." : "Without one, the connection's secret is used.") + (offered.length === 0 ? ` There is no secret for ${originOf(c.url) || "its address"}: add one on the page Connections.` : "");
    const wrong = about(id);
    return (
      <Field key={id} id={"own-" + id} label={"Secret for " + (c?.name ?? id)} hint={hint} problem={wrong}>
        <select
          id={"own-" + id}
          class="input"
          value={value}
          onChange={(e) => {
            const { [id]: _, ...rest } = now;
            const picked = e.currentTarget.value;
            setNow(picked ? { ...rest, [id]: picked } : rest);
          }}
          aria-describedby={hint && `own-${id}-hint`}
          aria-invalid={wrong ? "true" : undefined}
        >
          <option value="">{required ? "Choose a secret" : "None"}</option>
          {offered.map((s) => (
            <option value={s.id}>
              {secretSaid(s)}
              {s.externalUserId && `, for ${s.externalUserId}`}
              {hasExpired(s) && ", expired"}
            </option>
          ))}
          {other && <option value={value}>{lists.data!.secrets.find((s) => s.id === value)?.name ?? "A deleted secret"}</option>}
        </select>
      </Field>
    );
  };
  const needing = takes.filter((c) => c.credentialsPerSession === "required" && !had[c.id]);
  const named = (list: Connection[]) => list.map((c) => c.name).join(", ");
  const fields =
    lists.problem || ids.length > 0 ? (
      <fieldset class="plainset stack">
        <legend>Session secrets</legend>
        {lists.problem ? (
          <Failure problem={lists.problem} retry={lists.reload} />
        ) : !lists.data ? null : writes ? (
          ids.map(row)
        ) : (
          <p class="small muted">
            You cannot choose secrets with this key, which lacks the scope <code>secrets:write</code>.{takes.length > 0 && ` Sessions can have their own secrets for ${named(takes)}.`}
            {needing.length > 0 && ` Without one, tools of ${named(needing)} are withheld.`}
          </p>
        )}
      </fieldset>
    ) : asks && lists.loading ? (
      <Skeleton lines={1} />
    ) : null;
  return {
    fields,
    forUsers: writes && users && takes.some((c) => fit(c).some((s) => s.externalUserId)), // some belong to one end user only
    shown: ids.some((id) => !!about(id)), // a field shows the error
    body: same(chosen, had) ? {} : { credentials: chosen }, // the value for the request
  };
}
