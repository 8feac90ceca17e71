// The forms that store a secret and replace its value. A value is in the page while it is
// typed, and no longer.
import { useState } from "preact/hooks";
import type { CreateSecret, Secret, SetSecretValue } from "../../lib/contract";
import { inputTime } from "../../lib/format";
import { useSession } from "./session";
import { SelectField, TextField } from "./fields";
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

// A SecretUse is the purpose of a secret: requests of a connection, requests of
// sessions, or an OAuth client. It limits the options.
export type SecretUse = "requests" | "session" | "client";

const kindsOf = (use?: SecretUse): Kind[] => (use === "client" ? ["token"] : use ? ["bearer", "header", "basic", "query"] : ["bearer", "header", "basic", "query", "token"]);

// wrong returns the service's error about one field.
const wrong = (action: Action, param: string) => (action.problem?.param === param ? action.problem.message : undefined);

// useValue holds the fields of a value and of its expiry.
function useValue(kind: Kind, action: Action) {
  const [text, setText] = useState("");
  const [user, setUser] = useState("");
  const [expires, setExpires] = useState("");
  const basic = kind === "basic";
  const colon = basic && user.includes(":") ? "A user name cannot contain a colon." : undefined;
  const fields = (
    <>
      {basic && (
        <TextField id="secret-user-name" label="User" problem={colon} maxLength={4096} autocomplete="off" spellcheck={false} value={user} onChange={setUser} />
      )}
      <TextField id="secret-value" label={basic ? "Password" : "Value"} hint="Printable ASCII characters. It is never shown again." problem={wrong(action, "value")} type="password" maxLength={basic ? 4096 : 8192} autocomplete="off" spellcheck={false} value={text} onChange={setText} />
    </>
  );
  const expiry = (
    <TextField id="secret-expires" label="Expires" hint="After this time it is not sent. Leave empty for no expiry. In the time zone of this browser." problem={wrong(action, "expiresAt")} type="datetime-local" min={inputTime(new Date().toISOString())} value={expires} onChange={setExpires} />
  );
  return {
    fields,
    expiry,
    ready: !!text && (!basic || (!!user && !colon)),
    body: { value: basic ? `${user}:${text}` : text, ...(expires && { expiresAt: new Date(expires).toISOString() }) } satisfies SetSecretValue,
    forget: () => (setText(""), setUser("")),
  };
}

// SecretForm stores a secret, optionally for a given origin and external user.
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
      <TextField id="secret-name" label="Name" hint="A name to recognise it by." maxLength={200} value={name} onChange={setName} autofocus />
      <TextField
        id="secret-origin"
        label="Goes to"
        hint={props.use === "client" ? "Scheme and host of the authorization server's token endpoint. It is never sent anywhere else." : "Scheme and host, such as https://mcp.example.com. It is never sent anywhere else."}
        problem={wrong(action, "origin")}
        maxLength={512}
        readOnly={!!props.origin}
        value={origin}
        onChange={setOrigin}
      />
      {choices.length > 1 && (
        <SelectField
          id="secret-kind"
          label="Sent as"
          options={choices.map((k) => [k, kinds[k]] as const)}
          value={kind}
          onChange={(k) => {
            setKind(k);
            setCalled("");
          }}
        />
      )}
      {named && (
        <TextField id="secret-called" label={kind === "query" ? "Parameter" : "Header"} problem={wrong(action, param)} maxLength={64} placeholder={kind === "query" ? "api_key" : "X-Api-Key"} spellcheck={false} value={called} onChange={setCalled} />
      )}
      {value.fields}
      {value.expiry}
      <SpaceField id="secret-space" hint="Only connections of this space can use it." none="All spaces" value={spaceId} onChange={setSpaceId} />
      {(!props.use || props.use === "session") && kind !== "token" && (
        <TextField id="secret-user" label="End user" hint="Only for sessions of this user. Leave empty for all." maxLength={128} readOnly={!!props.user} value={user} onChange={setUser} />
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
