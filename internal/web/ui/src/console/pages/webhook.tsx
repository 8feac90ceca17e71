// One webhook: what it is, and what became of its deliveries.
import { useState } from "preact/hooks";
import type { Delivery, DeliverySummary, RecoverWebhook, Space, Webhook, WebhookRecovery, WebhookWithSecret } from "../../lib/contract";
import { credits, duration, inputTime, of } from "../../lib/format";
import type { List } from "../../lib/types";
import { Badge, Button, Field, Id, type Meaning, Notice, Time } from "../parts/basic";
import { Code } from "../parts/code";
import { Confirm, Dialog } from "../parts/dialog";
import { type Choice, Filters, Pick } from "../parts/filter";
import { FormDialog, useAction } from "../parts/form";
import { Empty, Failure, States, useLoad } from "../parts/load";
import { Subject, type Tagged, useSubject } from "../parts/subject";
import { Pages, useList } from "../parts/table";
import { toast } from "../parts/toast";
import { go, useFilter } from "../parts/router";
import { useSession } from "../parts/session";
import { eventTypes, HookSecret, HookState, WebhookForm, whyDisabled } from "../parts/webhookform";

export function WebhookPage({ id }: { id: string }) {
  const hook = useSubject<Webhook>("/webhooks/" + id);
  return (
    <Subject of={hook} what="webhook" list="webhooks" title={hook.data?.data.url ?? (hook.data && "Events that are read")}>
      <States of={hook}>{(h) => <One hook={h} reload={hook.reload} />}</States>
    </Subject>
  );
}

function One({ hook, reload }: { hook: Tagged<Webhook>; reload: () => void }) {
  const { api, may } = useSession();
  const w = hook.data;
  const path = "/webhooks/" + w.id;
  const [open, setOpen] = useState<"change" | "rotate" | "delete" | "recover">();
  const [made, setMade] = useState<WebhookWithSecret>();
  const [sent, setSent] = useState(0); // counts what the list of deliveries does not show yet
  const [shown, setShown] = useState<string>();
  const { busy, problem, run } = useAction({ repeats: true });
  const spaces = useLoad((signal) => (w.spaceIds.length > 0 ? api.get<List<Space>>("/spaces", { limit: 100 }, signal) : Promise.resolve(undefined)), [api, w.spaceIds.length > 0]);
  const writes = may("webhooks:write");
  const done = (said: string) => {
    setOpen(undefined);
    toast(said);
    reload();
  };
  const test = () =>
    run(async (once) => {
      const d = await api.create<Delivery>(path + "/test", undefined, once);
      setSent((n) => n + 1);
      setShown(d.id);
    });
  const enable = () =>
    run(async () => {
      await api.raw("POST", path + "/enable");
      done("It is enabled");
    });
  const disable = () =>
    run(async () => {
      await api.patch(path, { enabled: false });
      done("It is disabled");
    });
  return (
    <>
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
      <section class="panel" aria-labelledby="webhook">
        <header>
          <h2 id="webhook">Webhook</h2>
          {writes && (
            <div class="push row">
              <Button small disabled={busy || !w.url} onClick={test}>
                Send a test
              </Button>
              <Button small onClick={() => setOpen("change")}>
                Change
              </Button>
              <Button small onClick={() => setOpen("rotate")}>
                Rotate the secret
              </Button>
              {w.status === "disabled" ? (
                <Button small kind="main" disabled={busy} onClick={enable}>
                  Enable
                </Button>
              ) : (
                <Button small disabled={busy} onClick={disable}>
                  Disable
                </Button>
              )}
              <Button small kind="danger" onClick={() => setOpen("delete")}>
                Delete
              </Button>
            </div>
          )}
        </header>
        <dl class="facts body">
          <dt>State</dt>
          <dd>
            <HookState of={w} />
          </dd>
          <dt>Events</dt>
          <dd class="breaks">{w.events.includes("*") ? "all, those that come later too" : w.events.join(", ")}</dd>
          {(w.events.includes("*") || w.events.includes("credits.low")) && (
            <>
              <dt>Credits are low</dt>
              <dd>below {credits(w.creditsLowMicro)} credits</dd>
            </>
          )}
          {w.spaceIds.length > 0 && (
            <>
              <dt>Spaces</dt>
              <dd class="breaks">{w.spaceIds.map((id) => spaces.data?.data.find((s) => s.id === id)?.name ?? id).join(", ")}</dd>
            </>
          )}
          {w.description && (
            <>
              <dt>Description</dt>
              <dd class="breaks">{w.description}</dd>
            </>
          )}
          <dt>Last success</dt>
          <dd>{w.lastSuccessAt ? <Time at={w.lastSuccessAt} /> : "never"}</dd>
          {w.failedDeliveries > 0 && (
            <>
              <dt>Given up since</dt>
              <dd>{of(w.failedDeliveries, "delivery").replace("deliverys", "deliveries")}</dd>
            </>
          )}
          <dt>Id</dt>
          <dd>
            <Id of={w.id} />
          </dd>
        </dl>
      </section>
      <Deliveries key={sent} hook={w} onRecover={() => setOpen("recover")} onShow={setShown} />
      {open === "change" && <WebhookForm of={w} etag={hook.etag} onClose={() => setOpen(undefined)} onDone={() => done("Saved")} />}
      {open === "rotate" && (
        <Rotate
          path={path}
          onClose={() => setOpen(undefined)}
          onDone={(now) => {
            setOpen(undefined);
            setMade(now);
            reload();
          }}
        />
      )}
      {open === "delete" && <Delete path={path} onClose={() => setOpen(undefined)} />}
      {open === "recover" && (
        <Recover
          path={path}
          onClose={() => setOpen(undefined)}
          onDone={(n) => {
            setOpen(undefined);
            setSent((s) => s + 1);
            toast(n === 0 ? "Nothing was missed in that time" : n === 1 ? "1 delivery is sent again" : `${n} deliveries are sent again`);
          }}
        />
      )}
      {made && <HookSecret of={made} onClose={() => setMade(undefined)} />}
      {shown && (
        <DeliveryDialog
          key={shown}
          path={`${path}/deliveries/${shown}`}
          sends={writes && w.status === "enabled" && !!w.url}
          onClose={() => {
            setShown(undefined);
            setSent((n) => n + 1);
            reload();
          }}
        />
      )}
    </>
  );
}

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
  const [filter, change] = useFilter();
  const types = ["webhook.test", ...eventTypes].map((type) => ({ id: type, title: type }));
  const pages = useList<DeliverySummary>(`/webhooks/${hook.id}/deliveries`, 20, undefined, { status: filter.status || undefined, type: filter.type || undefined });
  const narrowed = !!(filter.status || filter.type);
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
      <Filters names={["status", "type"]} filter={filter} change={change}>
        <Pick name="status" label="State" filter={filter} change={change} choices={statuses} />
        <Pick name="type" label="Event" filter={filter} change={change} choices={[{ id: "", title: "All" }, ...types]} />
      </Filters>
      <Pages
        of={pages}
        label="Deliveries"
        onPick={(d) => onShow(d.id)}
        empty={
          narrowed ? (
            <Empty title="Nothing fits the filter" />
          ) : (
            <Empty title="Nothing was sent yet">
              <p>What happens from now on is shown here, with what became of it.</p>
            </Empty>
          )
        }
        columns={[
          { title: "Event", show: (d) => <span class="breaks">{d.type}</span> },
          { title: "State", show: (d) => <Badge meaning={deliveryMeanings[d.status] ?? "none"}>{d.status}</Badge> },
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
          {
            title: "",
            show: (d) => (
              <Button small kind="quiet" onClick={() => onShow(d.id)}>
                Details
              </Button>
            ),
          },
        ]}
      />
    </section>
  );
}

// pretty is JSON in lines; what is none is left as it is.
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
            <dl class="facts">
              <dt>Event</dt>
              <dd>{d.type}</dd>
              <dt>State</dt>
              <dd>
                <Badge meaning={deliveryMeanings[d.status] ?? "none"}>{d.status}</Badge>
                {d.nextAttemptAt && (
                  <span class="small muted">
                    {" "}
                    next attempt <Time at={d.nextAttemptAt} />
                  </span>
                )}
              </dd>
              <dt>Happened</dt>
              <dd>
                <Time at={d.createdAt} />
              </dd>
              <dt>webhook-id</dt>
              <dd>
                <Id of={d.eventId} />
              </dd>
            </dl>
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

const overlaps = [
  { seconds: 0, title: "ends at once" },
  { seconds: 3600, title: "signs for another hour" },
  { seconds: 86_400, title: "signs for another day" },
  { seconds: 604_800, title: "signs for another week" },
];

function Rotate({ path, onDone, onClose }: { path: string; onDone: (w: WebhookWithSecret) => void; onClose: () => void }) {
  const { api } = useSession();
  const [overlap, setOverlap] = useState(86_400);
  const action = useAction();
  const submit = () => action.run(async (once) => onDone(await api.create<WebhookWithSecret>(path + "/rotate-secret", { overlapSeconds: overlap }, once)));
  return (
    <FormDialog id="rotate-webhook" title="Rotate the secret" submit="Make the new secret" action={action} onSubmit={submit} onClose={onClose}>
      <p>While both sign, the program behind the address can change over: a request is right if one of the two fits.</p>
      <Field id="overlap" label="The former secret">
        <select id="overlap" class="input" value={overlap} onChange={(e) => setOverlap(Number(e.currentTarget.value))}>
          {overlaps.map((o) => (
            <option value={o.seconds}>{o.title}</option>
          ))}
        </select>
      </Field>
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
    <FormDialog id="recover-webhook" title="Recover what was missed" submit="Send it again" ready={!!since} action={action} onSubmit={submit} onClose={onClose}>
      <p>What failed or was held, of events of that time, is sent again under the ids that it had.</p>
      <Field id="recover-since" label="Since" hint="By the clock of this computer.">
        <input id="recover-since" class="input" type="datetime-local" value={since} onInput={(e) => setSince(e.currentTarget.value)} aria-describedby="recover-since-hint" autofocus />
      </Field>
      <Field id="recover-until" label="Until" hint="Empty: now.">
        <input id="recover-until" class="input" type="datetime-local" value={until} onInput={(e) => setUntil(e.currentTarget.value)} aria-describedby="recover-until-hint" />
      </Field>
    </FormDialog>
  );
}

function Delete({ path, onClose }: { path: string; onClose: () => void }) {
  const { api } = useSession();
  const action = useAction();
  const confirm = () =>
    action.run(async () => {
      await api.remove(path);
      toast("The webhook is deleted");
      go("webhooks");
    });
  return (
    <Confirm title="Delete the webhook?" action="Delete it" busy={action.busy} onConfirm={confirm} onClose={onClose}>
      <p>Nothing more is sent to it. Its deliveries, also those that were held, are gone with it. This cannot be undone.</p>
      {action.problem && <Failure problem={action.problem} />}
    </Confirm>
  );
}
