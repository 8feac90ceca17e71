// Hooks of the agent: addresses at which other services start turns with signed requests.
import { useState } from "preact/hooks";
import type { CreateHook, Hook, HookWithSecret } from "../../lib/contract";
import { of } from "../../lib/format";
import { testOf } from "../../lib/hooks";
import { Badge, Button, Time } from "../parts/basic";
import { Code } from "../parts/code";
import { Dialog } from "../parts/dialog";
import { SelectField, TextField } from "../parts/fields";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { Failure } from "../parts/load";
import { type Ends, ResourcePanel } from "../parts/resource";
import { Secret } from "../parts/secret";
import { useSession } from "../parts/session";
import { toast } from "../parts/toast";

type Kind = Hook["signature"]["kind"];

const kinds: [Kind, string][] = [["standard", "Standard Webhooks"], ["github", "GitHub"], ["slack", "Slack"], ["hmac", "HMAC in a header"]];
const kindOf = Object.fromEntries(kinds);

export function HooksView({ agentId }: { agentId: string }) {
  const { api, may } = useSession();
  const path = `/api-agents/${agentId}/hooks`;
  const { problem, run } = useAction({ repeats: true });
  const enable = (hook: Hook, reload: () => void) =>
    run(async () => {
      await api.patch(`${path}/${hook.id}`, { enabled: !hook.enabled });
      toast(hook.enabled ? "It is disabled" : "It is enabled");
      reload();
    });
  const address = ({ onClose }: { onClose: () => void }, hook: Hook) => <Address hook={hook} onClose={onClose} />;
  const secret = (ends: Ends, made: HookWithSecret) =>
    ends.onNext((then) => (
      <Secret title={`The secret of "${made.name}"`} text={made.secret} onClose={() => then.onNext((last) => address(last, made))}>
        Enter it in the other service.
      </Secret>
    ));
  const writes = may("schedules:write");
  return (
    <>
      {problem && <Failure problem={problem} />}
      <ResourcePanel<Hook>
        title="Hooks"
        path={path}
        limit={20}
        label="Hooks"
        search={{ name: "q", label: "Name" }}
        nothing="No such hooks"
        create={writes && { title: "Create hook", dialog: (ends) => <HookForm path={path} onClose={ends.onClose} onDone={(made) => secret(ends, made as HookWithSecret)} /> }}
        empty={{
          title: "No hooks yet",
          text: (
            <>
              A hook is an address at which another service, such as GitHub or Slack, starts turns of this agent with signed requests. <a href="/docs/hooks">The guide</a> has examples.
            </>
          ),
        }}
        columns={(show) => [
          {
            title: "Hook",
            show: (h) => (
              <button type="button" class="link" onClick={() => show((ends) => address(ends, h))}>
                {h.name}
              </button>
            ),
          },
          { title: "Signature", show: (h) => kindOf[h.signature.kind] ?? h.signature.kind },
          { title: "State", keep: 1, show: (h) => <Badge meaning={h.enabled ? "ok" : "none"}>{h.enabled ? "enabled" : h.disabledReason === "key_revoked" ? "disabled with its key" : "disabled"}</Badge> },
          { title: "Cap", show: (h) => <span class="nowrap">{of(h.turnsPerDay, "turn")} a day</span> },
          { title: "Made", show: (h) => <Time at={h.createdAt} /> },
        ]}
        actions={[
          { title: "Address", dialog: address },
          ...(writes
            ? [
                { title: "Edit", dialog: (ends: Ends, h: Hook) => <HookForm path={path} hook={h} onClose={ends.onClose} onDone={() => ends.onDone("It is saved")} /> },
                { title: "New secret", dialog: (ends: Ends, h: Hook) => <Rotate path={path} hook={h} onClose={ends.onClose} onDone={(made) => secret(ends, made)} /> },
                { title: (h: Hook) => (h.enabled ? "Disable" : "Enable"), run: enable },
                {
                  title: "Delete",
                  kind: "danger" as const,
                  dialog: (ends: Ends, h: Hook) => (
                    <ConfirmAction title="Delete this hook?" action="Delete it" undo="The hook is deleted in 5 seconds" work={() => api.remove(`${path}/${h.id}`)} said="It is deleted" {...ends}>
                      <p>Requests to its address are then refused. Its sessions are kept.</p>
                    </ConfirmAction>
                  ),
                },
              ]
            : []),
        ]}
      />
    </>
  );
}

// Address shows what to enter in the other service, and how to try it.
function Address({ hook, onClose }: { hook: Hook; onClose: () => void }) {
  return (
    <Dialog title={hook.name} wide onClose={onClose} footer={<Button kind="main" onClick={onClose}>Done</Button>}>
      <p>Enter this address in the other service, with the secret that was shown when the hook was created.</p>
      <Code title="Address" text={hook.url} wraps />
      <Code title="Send a test" text={testOf(hook)} />
    </Dialog>
  );
}

// Rotate asks for a new secret of a hook.
function Rotate({ path, hook, onClose, onDone }: { path: string; hook: Hook; onClose: () => void; onDone: (made: HookWithSecret) => void }) {
  const { api } = useSession();
  const [secret, setSecret] = useState("");
  const action = useAction();
  const wrong = action.problem?.param === "secret" ? action.problem.message : undefined;
  const submit = () => action.run(async (once) => onDone(await api.create<HookWithSecret>(`${path}/${hook.id}/rotate-secret`, { secret: secret.trim() || null }, once)));
  return (
    <FormDialog id="hook-rotate" title={`New secret of "${hook.name}"`} submit="Replace the secret" ready={hook.signature.kind !== "slack" || !!secret.trim()} action={action} shown={!!wrong} onSubmit={submit} onClose={onClose}>
      <p>For a day, requests that are signed with the former secret are accepted too.</p>
      <SecretField kind={hook.signature.kind} problem={wrong} value={secret} onChange={setSecret} />
    </FormDialog>
  );
}

function SecretField({ kind, ...field }: { kind: Kind; problem?: string; value: string; onChange: (text: string) => void }) {
  return <TextField id="hook-secret" label={kind === "slack" ? "Signing secret" : "Secret"} hint={kind === "slack" ? "Under Basic Information of your Slack app." : "If the other service has one. Empty: a new one."} type="password" autocomplete="off" maxLength={200} {...field} />;
}

// HookForm creates or changes a hook. The signature cannot be changed.
function HookForm({ path, hook, onClose, onDone }: { path: string; hook?: Hook; onClose: () => void; onDone: (made: Hook) => void }) {
  const { api } = useSession();
  const [name, setName] = useState(hook?.name ?? "");
  const [kind, setKind] = useState<Kind>(hook?.signature.kind ?? "github");
  const [header, setHeader] = useState("");
  const [secret, setSecret] = useState("");
  const [message, setMessage] = useState(hook?.message ?? "");
  const [externalId, setExternalId] = useState(hook?.externalId ?? "");
  const [user, setUser] = useState(hook?.externalUserId ?? "");
  const [eventId, setEventId] = useState(hook?.eventId ?? "");
  const [networks, setNetworks] = useState(hook?.networks.join(", ") ?? "");
  const [turns, setTurns] = useState(hook ? String(hook.turnsPerDay) : "");
  const [cap, setCap] = useState(hook?.maxCreditsMicroPerTurn ? String(hook.maxCreditsMicroPerTurn / 1e6) : "");
  const action = useAction();
  const submit = () =>
    action.run(async (once) => {
      const list = networks.split(/[\s,]+/).filter(Boolean);
      const body = {
        name: name.trim(), message: message.trim() || null, externalId: externalId.trim() || null, externalUserId: user.trim() || null, eventId: eventId.trim() || null, mode: null,
        networks: list.length > 0 ? list : null, turnsPerDay: turns ? Number(turns) : null, maxCreditsMicroPerTurn: cap ? Math.round(Number(cap) * 1e6) : null,
      };
      if (hook) {
        const mode = hook.mode === "chat" || body.externalId ? "chat" : null;
        onDone((await api.patch<Hook>(`${path}/${hook.id}`, { ...body, mode })).data);
        return;
      }
      const signature = kind === "hmac" ? { kind, header: header.trim() } : { kind };
      onDone(await api.create<Hook>(path, { ...body, signature, secret: secret.trim() || null } satisfies CreateHook, once));
    });
  const problem = action.problem;
  const about = (param: string) => (problem?.param?.split("[")[0] === param ? problem.message : undefined);
  const shown = ["name", "secret", "signature.header", "message", "externalId", "externalUserId", "eventId", "networks"].some((p) => about(p));
  return (
    <FormDialog
      id="hook-form"
      title={hook ? `Change "${hook.name}"` : "Create hook"}
      submit={hook ? "Save" : "Create the hook"}
      ready={!!name.trim() && (kind !== "slack" || !!hook || !!secret.trim()) && (kind !== "hmac" || !!hook || !!header.trim())}
      action={action}
      shown={shown}
      onSubmit={submit}
      onClose={onClose}
    >
      <TextField id="hook-name" label="Name" hint="The title of its sessions." problem={about("name")} maxLength={200} value={name} onChange={setName} autofocus />
      {!hook && <SelectField id="hook-kind" label="Signature of" value={kind} onChange={setKind} options={kinds} />}
      {!hook && kind === "hmac" && <TextField id="hook-header" label="Header" hint="It has the HMAC-SHA256 of the body, in hexadecimal digits." problem={about("signature.header")} placeholder="X-Signature" code maxLength={100} value={header} onChange={setHeader} />}
      {!hook && <SecretField kind={kind} problem={about("secret")} value={secret} onChange={setSecret} />}
      <TextField id="hook-message" label="Message" hint="A JSON Pointer into the body, such as /issue/body." problem={about("message")} placeholder="the whole body" code maxLength={1000} value={message} onChange={setMessage} />
      <TextField id="hook-external" label="Conversation" hint="A JSON Pointer to an id. Events with the same one continue one session." problem={about("externalId")} placeholder="each event starts a session" code maxLength={1000} value={externalId} onChange={setExternalId} />
      <TextField id="hook-user" label="End user" hint="A JSON Pointer." problem={about("externalUserId")} placeholder="none" code maxLength={1000} value={user} onChange={setUser} />
      <details>
        <summary>More choices</summary>
        <div class="stack more-choices">
          <TextField id="hook-event" label="Id of the event" hint="A JSON Pointer or the name of a header. One event starts at most one turn." problem={about("eventId")} placeholder="that of the signature" code maxLength={1000} value={eventId} onChange={setEventId} />
          <TextField id="hook-networks" label="Networks" hint="Address ranges such as 203.0.113.0/24, separated by commas." problem={about("networks")} placeholder="all" code value={networks} onChange={setNetworks} />
          <TextField id="hook-turns" label="Turns a day" placeholder="200" type="number" min={1} max={10000} step={1} value={turns} onChange={setTurns} />
          <TextField id="hook-cap" label="Credits of one turn" placeholder="as the agent allows" type="number" min="0.000001" step="any" value={cap} onChange={setCap} />
        </div>
      </details>
    </FormDialog>
  );
}
