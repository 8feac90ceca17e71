// One webhook: its settings and its deliveries.
import { useState } from "preact/hooks";
import type { Delivery, DeliverySummary, RecoverWebhook, Webhook, WebhookRecovery, WebhookWithSecret } from "../../lib/contract";
import { count, credits, duration, inputTime } from "../../lib/format";
import { Badge, Button, Id, type Meaning, Notice, Time } from "../parts/basic";
import { Code } from "../parts/code";
import { Dialog } from "../parts/dialog";
import { Facts } from "../parts/facts";
import { SelectField, TextField } from "../parts/fields";
import type { Choice } from "../parts/filter";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { Failure, type Loaded, States, useLive, useLoad } from "../parts/load";
import { Menu } from "../parts/menu";
import { useDialogs, useResource } from "../parts/resource";
import { go } from "../parts/router";
import { useSession } from "../parts/session";
import { Subject, type Tagged, useSubject } from "../parts/subject";
import { PickedName, sources } from "../parts/picker";
import { toast } from "../parts/toast";
import { eventTypes, HookSecret, HookState, WebhookForm, whyDisabled } from "../parts/webhookform";

export function WebhookPage({ id }: { id: string }) {
  const hook = useSubject<Webhook>("/webhooks/" + id);
  if (hook.data) return <One subject={hook} hook={hook.data} />;
  return (
    <Subject of={hook} {...kind}>
      <States of={hook}>{() => null}</States>
    </Subject>
  );
}

const kind = { what: "webhook", list: "webhooks" };

function One({ subject, hook }: { subject: Loaded<Tagged<Webhook>>; hook: Tagged<Webhook> }) {
  const { reload } = subject;
  const { api, may } = useSession();
  const w = hook.data;
  const path = "/webhooks/" + w.id;
  const [sent, setSent] = useState(0); // counts deliveries that the list does not show yet
  const { busy, problem, run } = useAction({ repeats: true });
  const writes = may("webhooks:write");
  const again = () => {
    setSent((n) => n + 1);
    reload();
  };
  const { open, dialog } = useDialogs<"change" | "rotate" | "delete" | "recover" | "delivery", string | void>(
    {
      change: ({ onClose, onDone }) => <WebhookForm of={w} etag={hook.etag} onClose={onClose} onDone={() => onDone("Saved")} />,
      rotate: ({ onClose, onNext }) => <Rotate path={path} onClose={onClose} onDone={(now) => onNext((ends) => <HookSecret of={now} onClose={ends.onClose} />)} />,
      delete: ({ onClose }) => (
        <ConfirmAction title="Delete the webhook?" action="Delete it" work={() => api.remove(path)} onClose={onClose} onDone={() => (toast("The webhook is deleted"), go("webhooks"))}>
          <p>It receives no more events, and all its deliveries, also pending ones, are deleted. This cannot be undone.</p>
        </ConfirmAction>
      ),
      recover: ({ onClose, onDone }) => (
        <Recover
          path={path}
          onClose={onClose}
          onDone={(n) => {
            setSent((s) => s + 1);
            onDone(n === 0 ? "Nothing was missed in that time" : n === 1 ? "1 delivery is sent again" : `${n} deliveries are sent again`);
          }}
        />
      ),
      delivery: ({ onClose }, id) => <DeliveryDialog key={id} path={`${path}/deliveries/${id}`} sends={writes && w.status === "enabled" && !!w.url} onClose={() => (onClose(), again())} />,
    },
    reload,
  );
  const said = (text: string) => {
    toast(text);
    reload();
  };
  const test = () =>
    run(async (once) => {
      const d = await api.create<Delivery>(path + "/test", undefined, once);
      setSent((n) => n + 1);
      open("delivery", d.id);
    });
  const enable = () =>
    run(async () => {
      await api.raw("POST", path + "/enable");
      said("It is enabled");
    });
  const disable = () =>
    run(async () => {
      await api.patch(path, { enabled: false });
      said("It is disabled");
    });
  const actions = writes && (
    <div class="push row">
      {w.status === "disabled" && (
        <Button kind="main" disabled={busy} onClick={enable}>
          Enable
        </Button>
      )}
      <Button disabled={busy || !w.url} onClick={test}>
        Send a test
      </Button>
      <Button onClick={() => open("change")}>Change</Button>
      <Menu
        label="Actions"
        items={[
          { title: "Rotate the secret", onClick: () => open("rotate") },
          ...(w.status === "disabled" ? [] : [{ title: "Disable", onClick: () => void disable() }]),
          { title: "Delete", danger: true, onClick: () => open("delete") },
        ]}
      />
    </div>
  );
  return (
    <Subject of={subject} {...kind} title={w.url ?? "Events that are read"} state={<HookState of={w} />} aside={actions}>
      {subject.problem && <Failure problem={subject.problem} retry={reload} />}
      {problem && <Failure problem={problem} />}
      {w.status === "disabled" && (
        <Notice meaning="waiting">
          <p>
            <b>It is disabled: {whyDisabled(w)}.</b> What happens is held for 30 days. Enable it, then recover what was missed.
          </p>
        </Notice>
      )}
      {w.status === "secret_unreadable" && (
        <Notice meaning="failed">
          <p>
            <b>Its secret cannot be read.</b> The service has not the key that it was encrypted with, and deliveries wait. Rotate the secret, or have the operator put the key back.
          </p>
        </Notice>
      )}
      <section class="panel" aria-label="Webhook">
        <Facts
          look="body"
          of={[
            w.scope === "service" && ["Scope", "alerts of the service"],
            ["Events", w.events.includes("*") ? "all, including future types" : w.events.join(", "), "breaks"],
            w.scope !== "service" && (w.events.includes("*") || w.events.includes("credits.low")) && ["Credits are low", <>below {credits(w.creditsLowMicro)} credits</>],
            w.spaceIds.length > 0 && ["Spaces", w.spaceIds.map((id, i) => <>{i > 0 && ", "}<PickedName source={sources.spaces} id={id} /></>), "breaks"],
            w.description && ["Description", w.description, "breaks"],
            ["Last success", w.lastSuccessAt ? <Time at={w.lastSuccessAt} /> : "never"],
            w.failedDeliveries > 0 && ["Failed deliveries", count(w.failedDeliveries)],
            ["Id", <Id of={w.id} />],
          ]}
        />
      </section>
      <Deliveries key={sent} hook={w} onRecover={() => open("recover")} onShow={(id) => open("delivery", id)} />
      {dialog}
    </Subject>
  );
}

// stateOf returns the state of a delivery. One that waits for another attempt has failed before.
const stateOf = (d: Pick<Delivery, "status" | "lastError">) => (d.status === "pending" && d.lastError ? <Badge meaning="warning">retrying</Badge> : <Badge meaning={deliveryMeanings[d.status] ?? "none"}>{d.status}</Badge>);

const deliveryMeanings: Record<Delivery["status"], Meaning> = { pending: "waiting", delivered: "ok", failed: "failed", held: "none" };

const statuses: Choice[] = [
  { id: "", title: "All" },
  { id: "pending", title: "Pending" },
  { id: "delivered", title: "Delivered" },
  { id: "failed", title: "Failed" },
  { id: "held", title: "Held" },
];

const errors: Record<string, string> = {
  status: "not accepted",
  timeout: "no reply in time",
  unreachable: "not reached",
  tls: "no safe connection",
  not_allowed: "the address is not allowed",
  broken: "the connection broke",
  invalid_url: "the address is wrong",
};

const outcome = (status: number | null, error: string | null) => [status, error && (errors[error] ?? error)].filter(Boolean).join(", ");

function Deliveries({ hook, onRecover, onShow }: { hook: Webhook; onRecover: () => void; onShow: (id: string) => void }) {
  const { may } = useSession();
  const types = ["webhook.test", ...eventTypes].map((type) => ({ id: type, title: type }));
  const { pages, list } = useResource<DeliverySummary>({
    path: `/webhooks/${hook.id}/deliveries`,
    limit: 20,
    label: "Deliveries",
    filters: [
      { name: "status", label: "State", choices: statuses },
      { name: "type", label: "Event", choices: [{ id: "", title: "All" }, ...types] },
    ],
    onPick: (d) => onShow(d.id),
    empty: { title: "No deliveries yet", text: "New deliveries and their outcomes appear here." },
    nothing: "No matches",
    columns: [
      { title: "Event", show: (d) => <span class="breaks">{d.type}</span> },
      { title: "State", keep: 2, show: stateOf },
      {
        title: "Newest attempt",
        show: (d) => (
          <>
            {outcome(d.lastStatus, d.lastError) || <span class="muted">none</span>}
            {d.nextAttemptAt && d.attemptCount > 0 && (
              <div class="small muted">
                next <Time at={d.nextAttemptAt} />
              </div>
            )}
          </>
        ),
      },
      { title: "Attempts", number: true, show: (d) => d.attemptCount },
      { title: "Happened", show: (d) => <Time at={d.createdAt} /> },
    ],
    actions: [{ title: "Details", kind: "quiet", run: (d) => onShow(d.id) }],
  });
  return (
    <section class="panel" aria-labelledby="deliveries">
      <header>
        <h2 id="deliveries">Deliveries</h2>
        <div class="push row">
          <Button small icon="again" onClick={pages.first.reload}>
            Refresh
          </Button>
          {may("webhooks:write") && hook.status === "enabled" && hook.url && (
            <Button small onClick={onRecover}>
              Recover
            </Button>
          )}
        </div>
      </header>
      {list}
    </section>
  );
}

// pretty formats JSON in lines; other text is unchanged.
function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function DeliveryDialog({ path, sends, onClose }: { path: string; sends: boolean; onClose: () => void }) {
  const { api } = useSession();
  const delivery = useLoad((signal) => api.get<Delivery>(path, undefined, signal), [api, path]);
  useLive(delivery, 1000, delivery.data?.status === "pending");
  const { busy, problem, run } = useAction({ repeats: true });
  const again = () =>
    run(async (once) => {
      delivery.set(await api.create<Delivery>(path + "/redeliver", undefined, once));
      toast("It is sent again");
    });
  return (
    <Dialog
      title="Delivery"
      wide
      drawer
      onClose={onClose}
      footer={
        <>
          <Button icon="again" onClick={delivery.reload}>
            Refresh
          </Button>
          {sends && (
            <Button kind="main" disabled={busy || !delivery.data} onClick={again}>
              Send it again
            </Button>
          )}
        </>
      }
    >
      {problem && <Failure problem={problem} />}
      <States of={delivery}>
        {(d) => (
          <>
            <Facts
              of={[
                ["Event", d.type],
                [
                  "State",
                  <>
                    {stateOf(d)}
                    {d.nextAttemptAt && (
                      <span class="small muted">
                        {" "}
                        next attempt <Time at={d.nextAttemptAt} />
                      </span>
                    )}
                  </>,
                ],
                ["Happened", <Time at={d.createdAt} />],
                ["webhook-id", <Id of={d.eventId} />],
              ]}
            />
            <h3>Attempts</h3>
            {d.attempts.length === 0 ? (
              <p class="muted">None yet.</p>
            ) : (
              <ol class="timeline">
                {d.attempts.map((a) => (
                  <li class={a.error ? "failed" : "ok"} key={a.number}>
                    <Time at={a.at} />
                    <b>{a.error ? outcome(a.status, a.error) : `${a.status}, accepted`}</b> <span class="small muted">after {duration(a.milliseconds)}</span>
                    {a.reply && (
                      <pre class="io" tabIndex={0} aria-label={`Reply to attempt ${a.number}`}>
                        {a.reply}
                      </pre>
                    )}
                  </li>
                ))}
              </ol>
            )}
            <Code title="What is sent" text={pretty(d.body)} wraps />
          </>
        )}
      </States>
    </Dialog>
  );
}

const overlaps: [number, string][] = [
  [0, "ends immediately"],
  [3600, "signs for another hour"],
  [86_400, "signs for another day"],
  [604_800, "signs for another week"],
];

function Rotate({ path, onDone, onClose }: { path: string; onDone: (w: WebhookWithSecret) => void; onClose: () => void }) {
  const { api } = useSession();
  const [overlap, setOverlap] = useState(86_400);
  const action = useAction();
  const submit = () => action.run(async (once) => onDone(await api.create<WebhookWithSecret>(path + "/rotate-secret", { overlapSeconds: overlap }, once)));
  return (
    <FormDialog id="rotate-webhook" title="Rotate the secret" submit="Create the new secret" action={action} onSubmit={submit} onClose={onClose}>
      <p>While both secrets sign, you can switch your program to the new one: accept requests that match either signature.</p>
      <SelectField id="overlap" label="The old secret" options={overlaps} value={overlap} onChange={setOverlap} />
    </FormDialog>
  );
}

function Recover({ path, onDone, onClose }: { path: string; onDone: (sent: number) => void; onClose: () => void }) {
  const { api } = useSession();
  const [since, setSince] = useState(() => inputTime(new Date(Date.now() - 86_400_000).toISOString()));
  const [until, setUntil] = useState("");
  const action = useAction();
  const submit = () =>
    action.run(async () => {
      const body: RecoverWebhook = { since: new Date(since).toISOString(), until: until ? new Date(until).toISOString() : null };
      const reply = await api.raw("POST", path + "/recover", { body });
      onDone(((await reply.json()) as WebhookRecovery).recovered);
    });
  return (
    <FormDialog id="recover-webhook" title="Recover missed deliveries" submit="Send it again" ready={!!since} action={action} onSubmit={submit} onClose={onClose}>
      <p>Failed and held events of that time are sent again with their original ids.</p>
      <TextField id="recover-since" label="Since" hint="In the time zone of this browser." type="datetime-local" value={since} onChange={setSince} autofocus />
      <TextField id="recover-until" label="Until" hint="Empty: now." type="datetime-local" value={until} onChange={setUntil} />
    </FormDialog>
  );
}
