// Charges: receipts, the ledger, and the reconciliation.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { count, duration, exactCredits, local, midnight, moment, of, perMillion } from "../../lib/format";
import type { UsageSums } from "../../lib/contract";
import type { Credits as CreditsOf, LedgerEntry, Receipt, Reconciliation } from "../../lib/types";
import { Amount, Badge, Button, Id, type Meaning, Notice, Time } from "../parts/basic";
import { lastColumns } from "../parts/columns";
import { Dialog } from "../parts/dialog";
import { Download } from "../parts/download";
import { Facts, Lines } from "../parts/facts";
import { Figure } from "../parts/figure";
import { Filters, Range, spanOf, Text } from "../parts/filter";
import { Empty, States, useLive, useLoad } from "../parts/load";
import { shared, useMeta } from "../parts/shared";
import { PickOf, sources } from "../parts/picker";
import { type Column, Pages, Table, useList } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { Payments } from "./payments";
import { type Filter, go, useFilter, withFilter } from "../parts/router";
import { ScopeSwitch, useScope } from "../parts/scope";
import { useSession } from "../parts/session";

const always = [
  { id: "receipts", title: "Receipts" },
  { id: "ledger", title: "Ledger" },
  { id: "books", title: "Reconcile" },
];

export function Credits({ rest }: { rest: string }) {
  const { me, may, offers } = useSession();
  const [, change] = useFilter();
  const meta = useMeta();
  const sells = may("account:read") && meta.data?.payments;
  if (rest === "payments" && !meta.data) return <States of={meta}>{() => null}</States>;
  const tabs = sells ? [...always, { id: "payments", title: "Payments" }] : always;
  const active = tabs.some((t) => t.id === rest) ? rest : "receipts";
  return (
    <>
      <header class="head">
        <h1>Credits</h1>
        {active === "receipts" && <ScopeSwitch onChange={() => change({ key: "", agent: "", user: "", account: "" })} />}
        {may("operator:billing") ? (
          <a class="button push" href={"#/accounts/" + me.id}>
            Top up
          </a>
        ) : (
          sells && may("account:write") && active !== "payments" && (
            <a class="button main push" href="#/credits/payments?new=1">
              Buy credits
            </a>
          )
        )}
      </header>
      {offers("getCredits") && may("usage:read") && <Balance />}
      <section class="panel">
        <Tabs label="Credits" tabs={tabs} active={active} onChange={(id) => go("credits/" + id)} />
        {active === "receipts" ? <Receipts /> : active === "ledger" ? <Ledger /> : active === "payments" ? <Payments /> : <Books />}
      </section>
    </>
  );
}

// Balance shows the credits of the account.
function Balance() {
  const { api, offers } = useSession();
  const scope = useScope();
  const now = useLoad(() => shared<CreditsOf>(api, "/credits"), [api]);
  useLive(now, 15_000);
  const lately = useLoad(
    (signal) => (offers("getReceiptSummary") ? api.get<UsageSums>("/receipts/summary", { from: new Date(midnight(Date.now(), -29)).toISOString(), accountId: scope.accountId }, signal) : Promise.resolve(undefined)),
    [api, scope.all],
  );
  const c = now.data;
  const shown = (amount?: number) => (amount === undefined ? "–" : <Amount of={amount} />);
  return (
    <dl class="figures">
      <Figure
        title={scope.label("Available", false)}
        sub={
          c && (
            <>
              <Amount of={c.heldMicro} /> held
              {!!c.owedMicro && (
                <>
                  , <Amount of={c.owedMicro} /> owed
                </>
              )}
            </>
          )
        }
      >
        {shown(c?.availableMicro)}
      </Figure>
      <Figure title={scope.label("Spent in 30 days")} sub={lately.data && of(lately.data.calls, "call")}>
        {shown(lately.data?.creditsMicro)}
      </Figure>
      <Figure title={scope.label("Granted in all", false)} sub={c && <><Amount of={c.spentMicro} /> spent in all</>}>
        {shown(c?.grantedMicro)}
      </Figure>
    </dl>
  );
}

const endings: Record<string, Meaning> = { completed: "ok", incomplete: "warning", cancelled: "none" };

const filters = ["range", "from", "to", "model", "key", "agent", "user", "account", "id"];

function receiptQuery(f: Filter, accountId: string | undefined): Record<string, string | undefined> {
  return { accountId, ...spanOf(f), model: f.model, keyId: f.key, agentId: f.agent, endUser: f.user };
}

function Receipts() {
  const { api, may } = useSession();
  const [filter, change] = useFilter();
  const asked = JSON.stringify(filter);
  const scope = useScope();
  // Agents and end users are those of one account.
  const accountId = filter.account || (filter.agent || filter.user ? undefined : scope.accountId);
  const query = useMemo(() => receiptQuery(filter, accountId), [asked, accountId]);
  const pages = useList<Receipt>(filter.id ? undefined : "/receipts", 50, undefined, query);
  const one = useLoad((signal) => (filter.id ? api.get<Receipt>("/receipts/" + encodeURIComponent(filter.id), undefined, signal) : Promise.resolve(undefined)), [api, filter.id]);
  const meta = useMeta();
  const [open, setOpen] = useState<Receipt>();
  const narrowed = filters.some((name) => filter[name]);
  const columns: Column<Receipt>[] = [
    { title: "When", show: (r) => <time dateTime={r.startedAt} title={moment(r.startedAt)} class="nowrap">{local(r.startedAt)}</time> },
    {
      title: "Model",
      grows: true,
      show: (r) => (
        <div>
          <span class="breaks">{r.model.served}</span>
          {r.status !== "completed" && <div><Badge meaning={endings[r.status]}>{r.status}</Badge></div>}
        </div>
      ),
    },
    ...(accountId ? [{ title: "Account", keep: 1, show: (r: Receipt) => (r.accountId ? <a class="breaks" href={"#/accounts/" + r.accountId}>{r.accountName ?? r.accountId}</a> : null) }] : []),
    { title: "Key", show: (r) => <span class="breaks">{r.keyName ?? r.keyId}</span> },
    { title: "Agent", show: (r) => (r.agentId && accountId ? <span class="breaks">{r.agentName ?? r.agentId}</span> : r.agentId ? <a class="breaks" href={"#/agents/" + r.agentId}>{r.agentName ?? r.agentId}</a> : null) },
    { title: "End user", show: (r) => (r.endUser !== null ? <span class="breaks">{r.endUser}</span> : null) },
    ...lastColumns<Receipt>((r) => r.usage.totalTokens, setOpen),
  ];
  return (
    <>
      <Filters names={filters} filter={filter} change={change}>
        <Range filter={filter} change={change} any="Any" />
        <Text name="model" label="Model" filter={filter} change={change} offers={meta.data?.models.map((m) => m.id)} />
        {may("keys:write") && !accountId ? (
          <PickOf name="key" label="Key" source={sources.keys} filter={filter} change={change} />
        ) : (
          <Text name="key" label="Key id" filter={filter} change={change} />
        )}
        {may("operator:read") && (
          <PickOf name="account" label="Account" source={sources.accounts} filter={filter} change={(by) => change({ ...by, key: "", agent: "" })} fixed={[{ id: "", title: scope.all ? "All customers" : "This account" }]} />
        )}
        {may("agents:read") && !filter.account && <PickOf name="agent" label="Agent" source={sources.agents} filter={filter} change={change} />}
        <Text name="user" label="End user" filter={filter} change={change} />
        <Text name="id" label="Receipt id" kind="search" filter={filter} change={change} />
      </Filters>
      {!filter.id && (
        <div class="row totalled">
          <Totals query={query} />
          <Download<Receipt>
            path="/receipts"
            query={() => receiptQuery(filter, accountId)}
            name="receipts.csv"
            columns={[
              ["id", (r) => r.id],
              ["accountId", (r) => r.accountId ?? null],
              ["accountName", (r) => r.accountName ?? null],
              ["startedAt", (r) => r.startedAt],
              ["requestedModel", (r) => r.model.requested],
              ["servedModel", (r) => r.model.served],
              ["status", (r) => r.status],
              ["keyId", (r) => r.keyId],
              ["keyName", (r) => r.keyName ?? null],
              ["agentId", (r) => r.agentId],
              ["agentName", (r) => r.agentName ?? null],
              ["sessionId", (r) => r.sessionId],
              ["endUser", (r) => r.endUser],
              ["inputTokens", (r) => r.usage.inputTokens],
              ["cachedInputTokens", (r) => r.usage.cachedInputTokens],
              ["outputTokens", (r) => r.usage.outputTokens],
              ["creditsMicro", (r) => r.creditsMicro],
              ["timeToFirstTokenMilliseconds", (r) => r.timeToFirstTokenMilliseconds],
              ["durationMilliseconds", (r) => r.durationMilliseconds],
              ["adjustments", (r) => r.adjustments?.join(" ") ?? null],
              ["ignored", (r) => r.ignored?.join(" ") ?? null],
            ]}
          />
        </div>
      )}
      {filter.id ? (
        <States of={one}>{(r) => (r?.id === filter.id ? <Table label="Receipts" rows={[r!]} columns={columns} onPick={setOpen} /> : null)}</States>
      ) : (
        <Pages
          of={pages}
          label="Receipts"
          csv={false}
          onPick={setOpen}
          empty={
            <Empty title={narrowed ? "No matching receipts" : "No receipts yet"}>
              <p>{narrowed ? "Choose a longer time, or clear the filters. Calls that failed cost nothing and are in the request log." : "Each charged call has a receipt with its model, tokens and credits."}</p>
              {!narrowed && (
                <a class="button" href="#/playground">
                  Try a model
                </a>
              )}
            </Empty>
          }
          columns={columns}
        />
      )}
      {open && <ReceiptDetails receipt={open} onClose={() => setOpen(undefined)} />}
    </>
  );
}

// Totals shows the sums of all receipts that match the filters.
function Totals({ query }: { query: Record<string, string | undefined> }) {
  const { api, offers } = useSession();
  const sums = useLoad((signal) => (offers("getReceiptSummary") ? api.get<UsageSums>("/receipts/summary", query, signal) : Promise.resolve(undefined)), [api, query]);
  return (
    <p class="pad totals" role="status">
      {sums.problem ? (
        <span class="muted">{sums.problem.message}</span>
      ) : sums.loading || !sums.data ? (
        <span class="muted">Adding up</span>
      ) : (
        <>
          <b>{of(sums.data.calls, "receipt")}</b>, <b><Amount of={sums.data.creditsMicro} as="exact" /> credits</b>, {count(sums.data.totalTokens)} tokens
        </>
      )}
    </p>
  );
}

const reasons: Record<string, string> = { alias: "the name is an alias", auto: "chosen by auto", plan: "the plan does not include the model" };

const routes: Record<string, string> = { reasoning: "which made the reasoning of the request", cache: "whose cache has the conversation", failover: "because another one failed or was full" };
const broke: Record<string, string> = { tools: "changed tools", instructions: "changed instructions", knowledge: "changed files of the drive", compacted: "a summary, or turns that were left out", expired: "its age" };
const marks: Record<string, string> = { caller: "by the request", stoa: "by this service", vendor: "no: the provider caches by itself" };

const adjustments: Record<string, string> = {
  tool_choice_auto: "The model cannot be made to call a tool, so it decided itself.",
  strict_dropped: "A function with “strict” was sent without: the model cannot be held to its schema.",
  schema_rewritten: "A schema was rewritten for the provider.",
  format_in_words: "The reply format was requested in the prompt.",
  reasoning_unread: "Returned reasoning could not be decrypted and was omitted.",
  reasoning_left_out: "Returned reasoning was omitted because another provider or model created it.",
  media_estimated: "Images and files were counted at their maximum size.",
  calls_dropped: "Tool calls that the request did not allow were omitted.",
  invalid_arguments: "The arguments of a tool call are not a JSON object.",
  invalid_json: "A JSON format was requested, but the reply is not JSON.",
  reply_cut: "A limit of this service ended the reply, or the client read it too slowly.",
  stop_cut_here: "The provider has no stop sequences: the text was cut here, and all of its output was charged.",
  cache_marks_changed: "A mark of the request for the provider’s cache was dropped, moved or given a shorter life.",
  media_left_out: "Images or files in the outputs of tools were left out: the model does not support them.",
  tools_left_out: "Tools that the caller does not run were left out.",
  items_left_out: "Items of the input that another service made, such as web searches, were left out.",
  end_unknown: "The provider ended the reply with a reason that the service does not know. It counts as a normal end.",
  grammar_in_words: "The grammar of a custom tool became part of its description: the provider has no such tools.",
  limit_set_here: "The reply ended at a limit of output tokens that the request did not set.",
  reply_broken: "The provider stopped sending the reply, or sent something invalid.",
};

function ReceiptDetails({ receipt: r, onClose }: { receipt: Receipt; onClose: () => void }) {
  return (
    <Dialog title="Receipt" drawer onClose={onClose}>
      <Facts
        of={[
          ["Call", <Id of={r.id} />],
          r.accountId && ["Account", <a href={"#/accounts/" + r.accountId}>{r.accountName ?? r.accountId}</a>],
          [
            "Model",
            <>
              {r.model.served}
              {r.model.requested !== r.model.served && (
                <span class="muted">
                  {" "}
                  for {r.model.requested}
                  {r.model.fallbackReason && `, ${reasons[r.model.fallbackReason] ?? r.model.fallbackReason}`}
                </span>
              )}
            </>,
          ],
          ["Provider", <>{r.route.provider}{r.route.reason !== null && r.route.reason !== "order" && <span class="muted">, {routes[r.route.reason]}</span>}</>],
          ["Input", `${count(r.usage.inputTokens)} tokens, ${count(r.usage.cachedInputTokens)} read from the cache, ${count(r.usage.cacheWriteTokens)} written to it, at ${perMillion(r.price.inputMicroPerMillion)} per million`],
          ...(r.cache.savedMicro === 0 ? [] : [[r.cache.savedMicro > 0 ? "Saved by the cache" : "Added by the cache", <><Amount of={Math.abs(r.cache.savedMicro)} as="exact" /> credits</>] as [string, ComponentChildren]]),
          r.cache.broke !== null && ["Not read from the cache because of", broke[r.cache.broke] ?? r.cache.broke],
          r.cache.marks !== null && r.cache.marks !== "none" && ["Marked for the cache", marks[r.cache.marks]!],
          ["Output", `${count(r.usage.outputTokens)} tokens, ${count(r.usage.reasoningTokens)} for reasoning, at ${perMillion(r.price.outputMicroPerMillion)} per million`],
          r.price.band != null && ["Price band", r.price.band],
          [
            "Charged",
            <>
              <b>
                <Amount of={r.creditsMicro} as="exact" /> credits
              </b>{" "}
              <span class="muted">({count(r.creditsMicro)} micro-credits, price list {r.price.version})</span>
            </>,
          ],
          ["Time", <>{moment(r.startedAt)}, {duration(r.durationMilliseconds)}{r.timeToFirstTokenMilliseconds !== null && <span class="muted">, first words after {duration(r.timeToFirstTokenMilliseconds)}</span>}</>],
          ["Key", <>{r.keyName && <div>{r.keyName}</div>}<Id of={r.keyId} /></>],
          r.agentId && [
            "Agent",
            <>
              <a href={"#/agents/" + r.agentId}>{r.agentName ?? r.agentId}</a>
              {r.sessionId && (
                <>
                  , <a href={"#/" + withFilter(`agents/${r.agentId}/sessions/${r.sessionId}`, { step: r.id })}>its session</a>
                </>
              )}
            </>,
          ],
          r.endUser !== null && ["End user", r.endUser, "breaks"],
        ]}
      />
      {r.adjustments?.map((a) => <Notice>{adjustments[a] ?? a}</Notice>)}
      {r.ignored && <Notice>These members of the request had no effect: {r.ignored.join(", ")}.</Notice>}
      {r.estimated && <Notice>The provider did not report tokens, so they were counted here.</Notice>}
      {r.capped && <Notice>Charged at the lower price of the requested model.</Notice>}
      {r.clamped && (
        <Notice meaning="waiting">
          The account could not cover all of it; <Amount of={r.writtenOffMicro} /> credits were given up.
        </Notice>
      )}
    </Dialog>
  );
}

const kinds: Record<LedgerEntry["type"], Meaning> = { grant: "info", charge: "none", refund: "none", adjust: "warning" };

export function Ledger({ account }: { account?: string }) {
  const pages = useList<LedgerEntry>("/credits/ledger", 50, undefined, { accountId: account });
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
        { title: "When", show: (r) => <time dateTime={r.createdAt} title={moment(r.createdAt)} class="nowrap">{local(r.createdAt)}</time> },
        { title: "Type", show: (r) => (r.type === "charge" ? <span class="muted">charge</span> : <Badge meaning={kinds[r.type]}>{r.type}</Badge>) },
        { title: "Reason", grows: true, show: (r) => <span class="breaks">{r.reason ?? <span class="mono">{r.ref ?? "–"}</span>}</span> },
        { title: "Credits", number: true, show: (r) => <>{r.amountMicro > 0 && "+"}<Amount of={r.amountMicro} as="ledger" /></> },
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
        <div class="body stack pad narrow">
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
          <Lines
            of={[
              ["Available", b.availableMicro],
              ["Held for running calls", b.heldMicro],
              [`Charges, with receipts of ${exactCredits(b.receiptsMicro)}`, b.chargesMicro],
              ["Granted", b.grantedMicro],
            ]}
          />
          <p class="small muted">
            Checked <Time at={b.checkedAt} />.
          </p>
          <Button icon="again" onClick={books.reload} disabled={books.loading}>
            Check again
          </Button>
        </div>
      )}
    </States>
  );
}
