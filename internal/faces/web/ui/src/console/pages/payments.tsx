// Payments: the packs of credits that an owner can buy, and the payments of the account.
import type { Pack, PackList, Payment } from "../../lib/contract";
import { local } from "../../lib/format";
import { Amount, Badge, Button, type Meaning } from "../parts/basic";
import { Dialog } from "../parts/dialog";
import { useAction } from "../parts/form";
import { Failure, States, useLoad } from "../parts/load";
import { type Ends, useResource } from "../parts/resource";
import { useSession } from "../parts/session";

// price returns an amount in the smallest unit of a currency as people write it.
export function price(amount: number, currency: string): string {
  const format = new Intl.NumberFormat("en-GB", { style: "currency", currency });
  return format.format(amount / 10 ** (format.resolvedOptions().maximumFractionDigits ?? 2));
}

const meanings: Record<Payment["state"], Meaning> = { pending: "waiting", paid: "ok", expired: "none", failed: "failed", rejected: "failed" };

// state returns the state of a payment in a word.
function state(p: Payment): { text: string; meaning: Meaning } {
  if (p.state !== "paid") return { text: p.state, meaning: meanings[p.state] };
  if (p.disputed) return { text: "disputed", meaning: "failed" };
  if (p.refundedAmount >= p.amount) return { text: "refunded", meaning: "none" };
  return { text: p.refundedAmount > 0 ? "partly refunded" : "paid", meaning: "ok" };
}

export function Payments() {
  const { may } = useSession();
  const buys = may("account:write");
  const { head, list, dialog } = useResource<Payment>({
    path: "/payments",
    limit: 50,
    label: "Payments",
    create: buys && { title: "Buy credits", dialog: (ends) => <Buy {...ends} /> },
    empty: { title: "No payments yet", text: buys ? "Credits that you buy are for all keys and agents of the account." : undefined },
    columns: [
      { title: "When", show: (p) => <time dateTime={p.createdAt}>{local(p.createdAt)}</time> },
      { title: "Pack", show: (p) => <span class="breaks">{p.name}</span> },
      { title: "Price", number: true, show: (p) => <span class="nowrap">{price(p.amount, p.currency)}</span> },
      { title: "Credits", number: true, show: (p) => <Amount of={p.creditsMicro - p.withdrawnMicro} /> },
      {
        title: "State",
        show: (p) => (
          <>
            <Badge meaning={state(p).meaning}>{state(p).text}</Badge>
            {!p.live && <div class="small muted">test</div>}
          </>
        ),
      },
    ],
    actions: [{ title: "Pay", when: (p) => buys && p.checkoutUrl !== null, run: (p) => location.assign(p.checkoutUrl!) }],
  });
  return (
    <>
      {head && <div class="row">{head}</div>}
      {list}
      {dialog}
    </>
  );
}

// Buy shows the packs. A click leads to the page on which the person pays.
function Buy({ onClose }: Ends) {
  const { api } = useSession();
  const packs = useLoad((signal) => api.get<PackList>("/payments/packs", undefined, signal), [api]);
  const action = useAction();
  const buy = (pack: Pack) =>
    action.run(async (once) => {
      const made = await api.create<Payment>("/payments", { pack: pack.id }, once);
      location.assign(made.checkoutUrl!);
    });
  return (
    <Dialog title="Buy credits" onClose={onClose}>
      <States of={packs}>
        {(list) => (
          <ul class="plain">
            {list.data.map((p) => (
              <li class="row" key={p.id}>
                <span class="breaks">{p.name}</span>
                <span class="push">
                  <Button disabled={action.busy} onClick={() => buy(p)}>
                    {price(p.amount, p.currency)}
                  </Button>
                </span>
              </li>
            ))}
          </ul>
        )}
      </States>
      {action.problem && <Failure problem={action.problem} />}
      <p class="small muted">You pay on a page of Stripe and come back afterwards.</p>
    </Dialog>
  );
}
