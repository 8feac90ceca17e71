// The form of a webhook, its state and its secret.
import { useState } from "preact/hooks";
import type { CreateWebhook, Webhook, WebhookWithSecret } from "../../lib/contract";
import { moment } from "../../lib/format";
import { Badge, type Meaning, Time } from "./basic";
import { TextField } from "./fields";
import { FormDialog, useAction } from "./form";
import { PickerList, sources } from "./picker";
import { Secret } from "./secret";
import { useSession } from "./session";
import { useManySpaces } from "./space";

// HookSecret shows the secret of a webhook.
export function HookSecret({ of: w, onClose }: { of: WebhookWithSecret; onClose: () => void }) {
  return (
    <Secret title="The secret of the webhook" text={w.secret} onClose={onClose}>
      {w.url?.startsWith("mailto:") ? "Mail is not signed, so you do not need the secret." : "Every request is signed with it. Your program uses it to check the signatures."}
      {w.previousEndsAt && <> Until {moment(w.previousEndsAt)} requests are signed with the former secret as well.</>}
    </Secret>
  );
}

const reasons: Record<string, string> = {
  user: "by hand",
  key_revoked: "its key has ended",
  failures: "nothing arrived for three days",
  gone: "the address answered 410, gone",
  scope_removed: "its key may no longer receive the alerts of the service",
  recipient_removed: "the email address no longer belongs to a member",
};

// whyDisabled contains the reasons as texts.
export const whyDisabled = (w: Webhook): string => reasons[w.disabledReason ?? ""] ?? w.disabledReason ?? "";

const states: Record<string, [Meaning, string]> = { enabled: ["ok", "enabled"], disabled: ["failed", "disabled"], secret_unreadable: ["failed", "secret unreadable"] };

export function HookState({ of: w }: { of: Webhook }) {
  const [meaning, word] = w.status === "enabled" && w.failingSince ? (["warning", "failing"] as const) : w.status === "enabled" && !w.url ? (["none", "to be read"] as const) : (states[w.status] ?? ["none", w.status]);
  return (
    <>
      <Badge meaning={meaning}>{word}</Badge>
      {w.status === "disabled" && <div class="small muted">{whyDisabled(w)}</div>}
      {w.status === "enabled" && w.failingSince && (
        <div class="small muted">
          since <Time at={w.failingSince} />
        </div>
      )}
    </>
  );
}

// example returns the body of a request.
const example = (type: string) =>
  JSON.stringify({ id: "evt_…", type, timestamp: "2026-11-23T17:14:30.131Z", data: type.startsWith("session.") ? { accountId: "acc_…", spaceId: "spc_…", agentId: "agt_…", sessionId: "ses_…", turn: 1 } : { accountId: "acc_…" } }, undefined, 2);

type EventType = Exclude<CreateWebhook["events"][number], "*">;

const alertWords = {
  "provider.down": "provider does not answer",
  "provider.up": "provider answers again",
  "errors.high": "many model calls fail",
  "account.balance_low": "credits of a customer are low",
  "node.lost": "node was lost",
  "config.refused": "configuration was refused",
  "webhook.failing": "webhook does not work",
} as const;

const eventWords: Record<Exclude<EventType, Exclude<keyof typeof alertWords, "webhook.failing">>, string> = {
  "session.completed": "session completed",
  "session.failed": "session failed",
  "session.cancelled": "session cancelled",
  "session.waiting_for_input": "session waits for input",
  "scheduled_task.run_finished": "scheduled run finished",
  "scheduled_task.run_skipped": "scheduled run skipped",
  "scheduled_task.paused": "scheduled task paused",
  "credits.low": "credits are low",
  "credits.exhausted": "credits are used up",
  "budget.threshold": "budget reached a threshold",
  "key.expiring": "key expires soon",
  "key.pause_soon": "key of an absent member pauses soon",
  "webhook.failing": "webhook does not work",
  "webhook.disabled": "webhook disabled",
  "connection.review_needed": "approved tool changed",
  "connection.needs_authorization": "server rejects its secret",
  "tool_call.unknown": "tool call outcome unknown",
  "attachment.created": "visitor uploaded a file",
  "message.feedback": "answer rated",
  "chat.person_requested": "person requested",
  "audit.anchor": "daily hash of the audit log",
  "audit.recorded": "new entry in the audit log",
};

export const eventTypes = Object.keys({ ...eventWords, ...alertWords }) as EventType[];

const mostSpaces = 20; // of a webhook

// WebhookForm creates a webhook, or changes the given one. The entity tag protects
// changes of other users.
export function WebhookForm({ of: was, etag, onDone, onClose }: { of?: Webhook; etag?: string; onDone: (w: Webhook | WebhookWithSecret) => void; onClose: () => void }) {
  const { api, may } = useSession();
  const [ofService, setOfService] = useState(was?.scope === "service");
  const [url, setURL] = useState(was?.url ?? "");
  const [description, setDescription] = useState(was?.description ?? "");
  const [all, setAll] = useState(was?.events.includes("*") ?? false);
  const [events, setEvents] = useState<string[]>(() => was?.events.filter((e) => e !== "*") ?? []);
  const [inSpaces, setInSpaces] = useState<string[]>(was?.spaceIds ?? []);
  const [low, setLow] = useState(was ? String(was.creditsLowMicro / 1e6) : "");
  const many = useManySpaces();
  const action = useAction();
  const toggle = (list: string[], one: string) => (list.includes(one) ? list.filter((x) => x !== one) : [...list, one]);
  const submit = () =>
    action.run(async (once) => {
      const scope = ofService ? ({ scope: "service" } as const) : {};
      const body = {
        url: url.trim() || null,
        description: description.trim() || null,
        events: (all ? ["*"] : events) as CreateWebhook["events"],
        spaceIds: inSpaces,
        creditsLowMicro: low ? Math.round(Number(low) * 1e6) : null,
      };
      onDone(was ? (await api.patch<Webhook>("/webhooks/" + was.id, body, etag)).data : await api.create<WebhookWithSecret>("/webhooks", { ...body, ...scope } satisfies CreateWebhook, once));
    });
  const wrong = action.problem?.param === "url" ? action.problem.message : undefined;
  return (
    <FormDialog id="webhook-form" title={was ? "Change the webhook" : "Add a webhook"} submit={was ? "Save" : "Add it"} ready={all || events.length > 0} action={action} shown={!!wrong} onSubmit={submit} onClose={onClose}>
      <TextField id="webhook-url" label="Address" hint="Https and public, such as https://example.com/hooks/stoa, or mailto: and the address of a member. Empty: events are kept to be read." problem={wrong} type="url" maxLength={2048} value={url} onChange={setURL} autofocus />
      <TextField id="webhook-description" label="Description" hint="Optional." maxLength={1000} value={description} onChange={setDescription} />
      {!was && may("operator") && (
        <label class="check">
          <input
            type="checkbox"
            checked={ofService}
            onChange={(e) => {
              setOfService(e.currentTarget.checked);
              setEvents([]);
              setInSpaces([]);
            }}
          />{" "}
          Alerts of the service, such as a provider that does not answer
        </label>
      )}
      <fieldset class="plainset">
        <legend>Events</legend>
        <label class="check">
          <input type="checkbox" checked={all} onChange={(e) => setAll(e.currentTarget.checked)} /> All, including future types
        </label>
        {!all &&
          Object.entries(ofService ? alertWords : eventWords).map(([type, words]) => (
            <label class="check" key={type}>
              <input type="checkbox" checked={events.includes(type)} onChange={() => setEvents(toggle(events, type))} />
              <span>
                {words} {words !== type.replace(/[._]/g, " ") && <code class="breaks">{type}</code>}
              </span>
            </label>
          ))}
      </fieldset>
      {!url.startsWith("mailto:") && (
        <details>
          <summary class="small">What a request contains</summary>
          <pre class="io small">{example(ofService ? "provider.down" : (events[0] ?? "session.completed"))}</pre>
          <p class="small muted">
            The members of <code>data</code> depend on the event: <a href="/docs/webhooks">the guide</a> lists them.
          </p>
        </details>
      )}
      {!ofService && (many || inSpaces.length > 0) && (
        <fieldset class="plainset">
          <legend>Spaces</legend>
          <p class="small muted">Select none for all of them.</p>
          <PickerList id="webhook-spaces" label="Space" source={sources.spaces} value={inSpaces} onChange={setInSpaces} most={mostSpaces} />
        </fieldset>
      )}
      {!ofService && (all || events.includes("credits.low")) && <TextField id="webhook-low" label="Credits are low below" hint="Empty: 10 credits." type="number" min="0.000001" step="any" value={low} onChange={setLow} />}
    </FormDialog>
  );
}
