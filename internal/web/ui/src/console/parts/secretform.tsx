// The forms that store a secret and replace its value. A value is in the page while it is
// typed, and no longer.
import { useState } from "preact/hooks";
import type { CreateSecret, Secret, SetSecretValue } from "../../lib/contract";
import { inputTime } from "../../lib/format";
import { useSession } from "./session";
import { Field } from "./basic";
import { type Action, FormDialog, useAction } from "./form";
import { SpaceField } from "./space";

type Kind = CreateSecret["kind"];

const kinds: Record<Kind, string> = {
  bearer: "Authorization: Bearer …",
  header: "Another header",
  basic: "Authorization: Basic …, a user and a password",
  query: "A parameter of the address",
  token: "Not with requests: the secret of an OAuth client",
};

// A SecretUse is what a secret is stored for: requests of a connection, those of sessions,
// or an OAuth client. It narrows what there is to choose.
export type SecretUse = "requests" | "session" | "client";

const kindsOf = (use?: SecretUse): Kind[] => (use === "client" ? ["token"] : use ? ["bearer", "header", "basic", "query"] : ["bearer", "header", "basic", "query", "token"]);

// wrong is what the service says of one field.
const wrong = (action: Action, param: string) => (action.problem?.param === param ? action.problem.message : undefined);

// useValue holds the fields of a value and of its expiry.
function useValue(kind: Kind, action: Action) {
  const [text, setText] = useState("");
  const [user, setUser] = useState("");
  const [expires, setExpires] = useState("");
  const basic = kind === "basic";
  const colon = basic && user.includes(":") ? "A user has no colon." : undefined;
  const fields = (
    <>
      {basic && (
        <Field id="secret-user-name" label="User" problem={colon}>
          <input id="secret-user-name" class="input" maxLength={4096} autocomplete="off" spellcheck={false} value={user} onInput={(e) => setUser(e.currentTarget.value)} aria-invalid={!!colon} />
        </Field>
      )}
      <Field id="secret-value" label={basic ? "Password" : "Value"} hint="Printable ASCII characters. Nobody sees it again." problem={wrong(action, "value")}>
        <input id="secret-value" class="input" type="password" maxLength={basic ? 4096 : 8192} autocomplete="off" spellcheck={false} value={text} onInput={(e) => setText(e.currentTarget.value)} aria-describedby="secret-value-hint" aria-invalid={!!wrong(action, "value")} />
      </Field>
    </>
  );
  const expiry = (
    <Field id="secret-expires" label="Expires" hint="It is not sent from then on. Empty: it does not expire. By the clock of this computer." problem={wrong(action, "expiresAt")}>
      <input id="secret-expires" class="input" type="datetime-local" min={inputTime(new Date().toISOString())} value={expires} onInput={(e) => setExpires(e.currentTarget.value)} aria-describedby="secret-expires-hint" aria-invalid={!!wrong(action, "expiresAt")} />
    </Field>
  );
  return {
    fields,
    expiry,
    ready: !!text && (!basic || (!!user && !colon)),
    body: { value: basic ? `${user}:${text}` : text, ...(expires && { expiresAt: new Date(expires).toISOString() }) } satisfies SetSecretValue,
    forget: () => (setText(""), setUser("")),
  };
}

// SecretForm stores a secret; for a given origin and external user where there are such.
export function SecretForm(props: { use?: SecretUse; origin?: string; name?: string; user?: string; onDone: (s: Secret) => void; onClose: () => void }) {
  const { api } = useSession();
  const choices = kindsOf(props.use);
  const [kind, setKind] = useState(choices[0]!);
  const [name, setName] = useState(props.name ?? "");
  const [origin, setOrigin] = useState(props.origin ?? "");
  const [called, setCalled] = useState("");
  const [spaceId, setSpaceId] = useState("");
  const [user, setUser] = useState(props.user ?? "");
  const action = useAction();
  const value = useValue(kind, action);
  const named = kind === "header" || kind === "query";
  const param = kind === "query" ? "parameterName" : "headerName";
  const submit = () =>
    action.run(async (once) => {
      const body: CreateSecret = { name: name.trim(), origin: origin.trim(), kind, ...value.body };
      if (named) body[param] = called.trim();
      if (spaceId) body.spaceId = spaceId;
      if (user.trim()) body.externalUserId = user.trim();
      const made = await api.create<Secret>("/secrets", body, once);
      value.forget();
      props.onDone(made);
    });
  const about = ["value", "expiresAt", "origin", param].some((p) => wrong(action, p));
  return (
    <FormDialog id="secret-form" title="Store a secret" submit="Store it" ready={!!name.trim() && !!origin.trim() && value.ready && (!named || !!called.trim())} action={action} shown={about} onSubmit={submit} onClose={props.onClose}>
      <Field id="secret-name" label="Name" hint="So that you know it later.">
        <input id="secret-name" class="input" maxLength={200} value={name} onInput={(e) => setName(e.currentTarget.value)} aria-describedby="secret-name-hint" autofocus />
      </Field>
      <Field
        id="secret-origin"
        label="Goes to"
        hint={props.use === "client" ? "Scheme and host of the authorization server's token endpoint. It is sent nowhere else, ever." : "Scheme and host, such as https://mcp.example.com. It is sent nowhere else, ever."}
        problem={wrong(action, "origin")}
      >
        <input id="secret-origin" class="input" maxLength={512} readOnly={!!props.origin} value={origin} onInput={(e) => setOrigin(e.currentTarget.value)} aria-describedby="secret-origin-hint" aria-invalid={!!wrong(action, "origin")} />
      </Field>
      {choices.length > 1 && (
        <Field id="secret-kind" label="Sent as">
          <select
            id="secret-kind"
            class="input"
            value={kind}
            onChange={(e) => {
              setKind(e.currentTarget.value as Kind);
              setCalled("");
            }}
          >
            {choices.map((k) => (
              <option value={k}>{kinds[k]}</option>
            ))}
          </select>
        </Field>
      )}
      {named && (
        <Field id="secret-called" label={kind === "query" ? "Parameter" : "Header"} problem={wrong(action, param)}>
          <input id="secret-called" class="input" maxLength={64} placeholder={kind === "query" ? "api_key" : "X-Api-Key"} spellcheck={false} value={called} onInput={(e) => setCalled(e.currentTarget.value)} aria-invalid={!!wrong(action, param)} />
        </Field>
      )}
      {value.fields}
      {value.expiry}
      <SpaceField id="secret-space" hint="Connections of this space alone may use it." none="All spaces" value={spaceId} onChange={setSpaceId} />
      {(!props.use || props.use === "session") && kind !== "token" && (
        <Field id="secret-user" label="End user" hint="It is sent in the sessions of this user alone, which choose it. Empty: it is for all.">
          <input id="secret-user" class="input" maxLength={128} readOnly={!!props.user} value={user} onInput={(e) => setUser(e.currentTarget.value)} aria-describedby="secret-user-hint" />
        </Field>
      )}
    </FormDialog>
  );
}

// ReplaceSecret sets another value of a secret, whose expiry is that of the value.
export function ReplaceSecret({ of: s, onDone, onClose }: { of: Secret; onDone: () => void; onClose: () => void }) {
  const { api } = useSession();
  const action = useAction();
  const value = useValue(s.kind, action);
  const submit = () =>
    action.run(async () => {
      await api.raw("PUT", `/secrets/${s.id}/value`, { body: value.body });
      value.forget();
      onDone();
    });
  return (
    <FormDialog id="replace-secret" title={`Replace "${s.name}"`} submit="Replace the value" ready={value.ready} action={action} shown={["value", "expiresAt"].some((p) => wrong(action, p))} onSubmit={submit} onClose={onClose}>
      <p>The next request to {s.origin} carries the new value.</p>
      {value.fields}
      {value.expiry}
    </FormDialog>
  );
}
