// The credentials of a connection's requests: none, a secret, or OAuth tokens.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Api } from "../../lib/api";
import type { Connection, ConnectionAuth, Secret } from "../../lib/contract";
import type { List } from "../../lib/types";
import { useSession } from "./session";
import { Button } from "./basic";
import { SelectField, TextField } from "./fields";
import { useLoad } from "./load";
import { SecretForm, type SecretUse } from "./secretform";

export type Way = "none" | "secret" | "oauth" | "client";

const ways: Record<Way, string> = {
  none: "Nothing",
  secret: "A secret",
  oauth: "OAuth: a person signs in once",
  client: "OAuth: a registered client, without a person",
};

// wayOf returns the kind of authorization of a connection's requests.
export function wayOf(auth: ConnectionAuth): Way {
  if (auth.type !== "oauth") return auth.type;
  return auth.grant === "client_credentials" ? "client" : "oauth";
}

// secretSaid returns the text of a secret in a list of options.
export const secretSaid = (s: Secret): string => s.name + (s.hint ? ` …${s.hint}` : "");

// allSecrets reads all secrets of the account; there are at most a few hundred.
export async function allSecrets(api: Api, signal: AbortSignal): Promise<Secret[]> {
  const all: Secret[] = [];
  let cursor: string | undefined;
  do {
    const page = await api.get<List<Secret>>("/secrets", { limit: 100, cursor }, signal);
    all.push(...page.data);
    cursor = page.nextCursor ?? undefined;
  } while (cursor);
  return all;
}

// useSecrets returns the secrets that the key can list.
function useSecrets() {
  const { api, may } = useSession();
  return useLoad((signal) => (may("connections:read") ? allSecrets(api, signal) : Promise.resolve([])), [api]);
}

interface Access {
  fields: ComponentChildren;
  ready: boolean;
  changed: boolean; // from the connection
  auth: ConnectionAuth;
  storing: ComponentChildren; // the form of a new secret, which replaces this one while it is open
}

interface Given {
  secretId: string;
  scopes: string;
  clientId: string;
  clientSecretId: string;
}

// given returns the field values of a connection.
const given = (auth?: ConnectionAuth): Given => ({ secretId: auth?.secretId ?? "", scopes: auth?.scopes?.join(" ") ?? "", clientId: auth?.clientId ?? "", clientSecretId: auth?.clientSecretId ?? "" });

// authOf returns the auth settings of the fields.
function authOf(way: Way, g: Given): ConnectionAuth {
  if (way === "none") return { type: "none" };
  if (way === "secret") return { type: "secret", secretId: g.secretId };
  const auth: ConnectionAuth = { type: "oauth", grant: way === "client" ? "client_credentials" : "authorization_code" };
  const scopes = g.scopes.split(/\s+/).filter(Boolean);
  if (scopes.length > 0) auth.scopes = scopes;
  if (g.clientId.trim()) auth.clientId = g.clientId.trim();
  if (auth.clientId && g.clientSecretId) auth.clientSecretId = g.clientSecretId;
  return auth;
}

// useAccess holds the fields, filled in from an existing connection. origin is the
// origin of its requests; empty if unknown. onStored is called with a new secret for
// requests, which is also selected.
export function useAccess({ origin, name, was, first, onStored }: { origin: string; name: string; was?: Connection; first?: Way; onStored?: (s: Secret) => void }): Access {
  const { may } = useSession();
  const secrets = useSecrets();
  const all = (secrets.data ?? []).filter((s) => !s.externalUserId && (!was || !s.spaceId || s.spaceId === was.spaceId));
  const had = given(was?.auth);
  const [way, setWay] = useState<Way>(first ?? (was ? wayOf(was.auth) : "none"));
  const [secretId, setSecretId] = useState(had.secretId);
  const [scopes, setScopes] = useState(had.scopes);
  const [clientId, setClientId] = useState(had.clientId);
  const [clientSecretId, setClientSecretId] = useState(had.clientSecretId);
  const [making, setMaking] = useState<SecretUse>();
  const fit = all.filter((s) => s.kind !== "token" && s.origin === origin);
  const oauth = way === "oauth" || way === "client";
  const store = (use: SecretUse) =>
    may("secrets:write") && (
      <div>
        <Button small icon="plus" onClick={() => setMaking(use)}>
          New secret
        </Button>
      </div>
    );
  const pick = (id: string, label: string, hint: string, list: Secret[], value: string, set: (id: string) => void) => (
    <SelectField id={id} label={label} hint={hint} options={[["", "None"], ...list.map((s) => [s.id, secretSaid(s)] as const)]} value={value} onChange={set} />
  );
  const fields = (
    <>
      <SelectField id="access" label="Requests carry" options={Object.entries(ways) as [Way, string][]} value={way} onChange={setWay} />
      {way === "secret" && (
        <>
          {pick("secret", "Secret", origin ? `Only those for ${origin} can be used.` : "First say the address.", fit, secretId, setSecretId)}
          {origin && store("requests")}
        </>
      )}
      {oauth && (
        <>
          <TextField id="access-scopes" label="Scopes" hint="Separated by spaces. Leave empty for those that the server requests." maxLength={4000} spellcheck={false} value={scopes} onChange={setScopes} />
          <TextField id="access-client" label="Client id" hint={way === "client" ? "Of the client that you registered with the authorization server." : "Only if you registered a client with the authorization server. Leave empty to register automatically."} maxLength={1024} spellcheck={false} value={clientId} onChange={setClientId} />
          {(way === "client" || clientId.trim()) && (
            <>
              {pick(
                "access-client-secret",
                "Client secret",
                "Sent to the token endpoint only.",
                all.filter((s) => s.kind === "token"),
                clientSecretId,
                setClientSecretId,
              )}
              {store("client")}
            </>
          )}
        </>
      )}
    </>
  );
  const auth = authOf(way, { secretId, scopes, clientId, clientSecretId });
  const stored = (s: Secret) => {
    setMaking(undefined);
    // The list of options must contain it immediately.
    secrets.set([s, ...(secrets.data ?? [])]);
    if (making === "client") setClientSecretId(s.id);
    else {
      setSecretId(s.id);
      onStored?.(s);
    }
  };
  return {
    fields,
    ready: way === "secret" ? !!secretId : way !== "client" || !!(auth.clientId && auth.clientSecretId),
    changed: !was || JSON.stringify(auth) !== JSON.stringify(authOf(wayOf(was.auth), given(was.auth))),
    auth,
    storing: making && <SecretForm use={making} origin={making === "requests" ? origin : undefined} name={name} onClose={() => setMaking(undefined)} onDone={stored} />,
  };
}
