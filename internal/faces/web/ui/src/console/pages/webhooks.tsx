// Webhooks: the addresses that receive events.
import type { Webhook, WebhookWithSecret } from "../../lib/contract";
import { count } from "../../lib/format";
import { Time } from "../parts/basic";
import { ResourcePage } from "../parts/resource";
import { go } from "../parts/router";
import { useSession } from "../parts/session";
import { HookSecret, HookState, WebhookForm } from "../parts/webhookform";
import { WebhookPage } from "./webhook";

export function Webhooks({ rest }: { rest: string }) {
  return rest ? <WebhookPage key={rest} id={rest} /> : <All />;
}

const eventsOf = (w: Webhook) => (w.events.includes("*") ? "all" : w.events.join(", "));

function All() {
  const { may } = useSession();
  const shown = (made: WebhookWithSecret) => () => <HookSecret of={made} onClose={() => go("webhooks/" + made.id)} />;
  return (
    <ResourcePage<Webhook>
      title="Webhooks"
      path="/webhooks"
      live
      limit={20}
      label="Webhooks"
      search={{ name: "q", label: "Address or description" }}
      nothing="No matching webhooks"
      onPick={(w) => go("webhooks/" + w.id)}
      create={may("webhooks:write") && { title: "Add a webhook", dialog: ({ onClose, onNext }) => <WebhookForm onClose={onClose} onDone={(w) => onNext(shown(w as WebhookWithSecret))} /> }}
      empty={{
        title: "No webhooks yet",
        text: (
          <>
            A webhook is an address of yours to which the service sends what happens, such as the end of a session. <a href="/docs/webhooks">The guide</a> lists the events.
          </>
        ),
      }}
      columns={[
        {
          title: "Address",
          show: (w) => (
            <>
              <a class="breaks" href={"#/webhooks/" + w.id}>
                {w.url?.split(/(?<=[/?&])/).map((part) => (
                  <>
                    {part}
                    <wbr />
                  </>
                )) ?? "none: events are polled"}
              </a>
              {w.description && <div class="small muted clamp">{w.description}</div>}
            </>
          ),
        },
        { title: "Events", show: (w) => <span class="small">{eventsOf(w)}</span> },
        { title: "State", keep: 2, show: (w) => <HookState of={w} /> },
        { title: "Failed deliveries", number: true, show: (w) => (w.failedDeliveries > 0 ? count(w.failedDeliveries) : <span class="muted">{w.failingSince ? "none yet, retrying" : "0"}</span>) },
        { title: "Last success", show: (w) => (w.lastSuccessAt ? <Time at={w.lastSuccessAt} /> : <span class="muted">never</span>) },
      ]}
    />
  );
}
