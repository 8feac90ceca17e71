// What was charged: receipts, the ledger, and whether the books balance.
import { useState } from "preact/hooks";
import { count, duration, moment, of, perMillion } from "../../lib/format";
import type { LedgerEntry, Receipt, Reconciliation } from "../../lib/types";
import { Amount, Badge, Button, type Meaning, Notice, Time } from "../parts/basic";
import { Dialog } from "../parts/dialog";
import { Empty, States, useLoad } from "../parts/load";
import { Pages, useList } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { go } from "../router";
import { useSession } from "../session";

const tabs = [
  { id: "receipts", title: "Receipts" },
  { id: "ledger", title: "Ledger" },
  { id: "books", title: "Check the books" },
];

export function Credits({ rest }: { rest: string }) {
  const { may, me } = useSession();
  const active = tabs.some((t) => t.id === rest) ? rest : "receipts";
  return (
    <>
      <header class="head">
        <h1>Credits</h1>
      </header>
      {may("usage:read") ? (
        <section class="panel">
          <Tabs label="Credits" tabs={tabs} active={active} onChange={(id) => go("credits/" + id)} />
          {active === "receipts" ? <Receipts /> : active === "ledger" ? <Ledger /> : <Books />}
        </section>
      ) : (
        <section class="panel">
          <Empty title="This key may not read the books">
            <p>
              The key <code>{me.key.hint}</code> does not carry the scope <code>usage:read</code>.
            </p>
          </Empty>
        </section>
      )}
    </>
  );
}

const endings: Record<string, Meaning> = { completed: "ok", incomplete: "waiting", cancelled: "none" };

function Receipts() {
  const pages = useList<Receipt>("/receipts", 50);
  const [open, setOpen] = useState<Receipt>();
  return (
    <>
      <Pages
        of={pages}
        label="Receipts"
        empty={
          <Empty title="No receipts yet">
            <p>Each call that is charged leaves one: which model answered, how many tokens, how many credits.</p>
            <a class="button" href="#/playground">
              Try a model
            </a>
          </Empty>
        }
        columns={[
          { title: "When", show: (r) => <Time at={r.createdAt} /> },
          { title: "Model", show: (r) => <span class="nowrap">{r.model.served}</span> },
          { title: "Ended", show: (r) => <Badge meaning={endings[r.status]}>{r.status}</Badge> },
          { title: "Input", number: true, show: (r) => count(r.usage.inputTokens) },
          { title: "Output", number: true, show: (r) => count(r.usage.outputTokens) },
          { title: "Credits", number: true, show: (r) => <Amount of={r.creditsMicro} /> },
          {
            title: "",
            show: (r) => (
              <Button small kind="quiet" onClick={() => setOpen(r)}>
                Details
              </Button>
            ),
          },
        ]}
      />
      {open && <ReceiptDetails receipt={open} onClose={() => setOpen(undefined)} />}
    </>
  );
}

const reasons: Record<string, string> = { alias: "the name is an alias", auto: "chosen by auto", plan: "the plan does not include the model" };

function ReceiptDetails({ receipt: r, onClose }: { receipt: Receipt; onClose: () => void }) {
  return (
    <Dialog title="Receipt" onClose={onClose}>
      <dl class="facts">
        <dt>Call</dt>
        <dd class="mono breaks">{r.id}</dd>
        <dt>Model</dt>
        <dd>
          {r.model.served}
          {r.model.requested !== r.model.served && (
            <span class="muted">
              {" "}
              for {r.model.requested}
              {r.model.fallbackReason && `, ${reasons[r.model.fallbackReason] ?? r.model.fallbackReason}`}
            </span>
          )}
        </dd>
        <dt>Input</dt>
        <dd>
          {count(r.usage.inputTokens)} tokens, {count(r.usage.cachedInputTokens)} from the cache, at {perMillion(r.price.inputMicroPerMillion)} per million
        </dd>
        <dt>Output</dt>
        <dd>
          {count(r.usage.outputTokens)} tokens, {count(r.usage.reasoningTokens)} for reasoning, at {perMillion(r.price.outputMicroPerMillion)} per million
        </dd>
        <dt>Charged</dt>
        <dd>
          <b>
            <Amount of={r.creditsMicro} /> credits
          </b>{" "}
          <span class="muted">({count(r.creditsMicro)} micro-credits, price list {r.price.version})</span>
        </dd>
        <dt>Time</dt>
        <dd>
          {moment(r.startedAt)}, {duration(r.durationMilliseconds)}
          {r.timeToFirstTokenMilliseconds !== null && <span class="muted">, first words after {duration(r.timeToFirstTokenMilliseconds)}</span>}
        </dd>
        <dt>Key</dt>
        <dd class="mono breaks">{r.keyId}</dd>
      </dl>
      {r.estimated && <Notice>The provider did not tell the tokens, so they were counted here.</Notice>}
      {r.capped && <Notice>The price was lowered to that of the model that was asked for.</Notice>}
      {r.clamped && (
        <Notice meaning="waiting">
          The account could not cover all of it; <Amount of={r.writtenOffMicro} /> credits were given up.
        </Notice>
      )}
    </Dialog>
  );
}

const kinds: Record<LedgerEntry["type"], Meaning> = { grant: "ok", charge: "none", refund: "info", adjust: "waiting" };

function Ledger() {
  const pages = useList<LedgerEntry>("/credits/ledger", 50);
  return (
    <Pages
      of={pages}
      label="Ledger"
      empty={
        <Empty title="The ledger is empty">
          <p>Grants, charges and corrections appear here, newest first. Lines are never changed.</p>
        </Empty>
      }
      columns={[
        { title: "When", show: (r) => <Time at={r.createdAt} /> },
        { title: "Line", show: (r) => <Badge meaning={kinds[r.type]}>{r.type}</Badge> },
        { title: "Reason", show: (r) => <span class="breaks">{r.reason ?? <span class="mono">{r.ref ?? "–"}</span>}</span> },
        { title: "Credits", number: true, show: (r) => <>{r.amountMicro > 0 && "+"}<Amount of={r.amountMicro} /></> },
      ]}
    />
  );
}

function Books() {
  const { api } = useSession();
  const books = useLoad((signal) => api.get<Reconciliation>("/usage/reconcile", undefined, signal), [api]);
  return (
    <States of={books}>
      {(b) => (
        <div class="body stack pad">
          {b.balanced ? (
            <Notice meaning="ok">
              <p>
                <b>The books balance.</b> Granted is available, held and charged together, and the receipts of {of(b.charges, "call")} add up to the charges.
              </p>
            </Notice>
          ) : (
            <Notice meaning="failed">
              <p>
                <b>The books do not balance.</b> Whoever runs this service should see this.
              </p>
              <pre class="breaks">{JSON.stringify(b.differences, null, 2)}</pre>
            </Notice>
          )}
          <dl class="facts">
            <dt>Granted</dt>
            <dd><Amount of={b.grantedMicro} /></dd>
            <dt>Available</dt>
            <dd><Amount of={b.availableMicro} /></dd>
            <dt>Held</dt>
            <dd><Amount of={b.heldMicro} /></dd>
            <dt>Charges</dt>
            <dd><Amount of={b.chargesMicro} /></dd>
            <dt>Receipts</dt>
            <dd><Amount of={b.receiptsMicro} /></dd>
            <dt>Checked</dt>
            <dd><Time at={b.checkedAt} /></dd>
          </dl>
          <Button icon="again" onClick={books.reload} disabled={books.loading}>
            Check again
          </Button>
        </div>
      )}
    </States>
  );
}
