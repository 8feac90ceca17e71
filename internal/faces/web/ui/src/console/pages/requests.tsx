// The request log: the outcome of each call of the model endpoint, including rejected
// and failed ones.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Problem } from "../../lib/api";
import type { Request, RequestList, RequestSummary } from "../../lib/contract";
import { count, credits, duration, local, moment, of } from "../../lib/format";
import { Badge, Button, Id, type Meaning, Notice, Time } from "../parts/basic";
import { lastColumns } from "../parts/columns";
import { Dialog } from "../parts/dialog";
import { Download } from "../parts/download";
import { Facts } from "../parts/facts";
import { type Choice, Filters, Pick, Range, spanOf, Text } from "../parts/filter";
import { asProblem, Empty, Failure, States, useLoad } from "../parts/load";
import { useMeta } from "../parts/shared";
import { PickOf, sources } from "../parts/picker";
import { ScopeSwitch, useScope } from "../parts/scope";
import { type Column, orderOf, Table, useOlder } from "../parts/table";
import { type Filter, useFilter, withFilter } from "../parts/router";
import { useSession } from "../parts/session";

const again = 2_000; // polling interval of the live tail in milliseconds
const kept = 500; // maximum number of rows of the live tail

const names = ["range", "from", "to", "model", "key", "account", "status", "error", "provider", "slow", "order", "id"];

const orders: Choice[] = [
  { id: "", title: "Newest first" },
  { id: "duration", title: "Slowest first" },
  { id: "spent", title: "Dearest first" },
];

const statuses: Choice[] = [
  { id: "", title: "Any" },
  { id: "2xx", title: "2xx answered" },
  { id: "4xx", title: "4xx refused" },
  { id: "5xx", title: "5xx failed" },
  { id: "401", title: "401 key" },
  { id: "404", title: "404 not found" },
  { id: "429", title: "429 limit or credits" },
  { id: "499", title: "499 client disconnected" },
];
const slowness: Choice[] = [
  { id: "", title: "Any" },
  { id: "1000", title: "1 s and more" },
  { id: "5000", title: "5 s and more" },
  { id: "30000", title: "30 s and more" },
];

// askedFor says which model was asked for if another one was served.
const askedFor = (r: Request): string => (r.model.requested && r.model.served && r.model.requested !== r.model.served ? `for ${r.model.requested}` : "");

// queryOf returns the query of a filter.
function queryOf(f: Filter, account: string | undefined): Record<string, string | undefined> {
  return { ...spanOf(f), model: f.model, keyId: f.key, accountId: f.account || account, status: f.status, errorCode: f.error, provider: f.provider, minDurationMilliseconds: f.slow };
}

export function Requests() {
  const { may } = useSession();
  const [filter, change] = useFilter();
  const [live, setLive] = useState(false);
  const [open, setOpen] = useState<Request>();
  const operates = may("operator:read");
  const meta = useMeta();
  const asked = JSON.stringify(filter);
  // One query for all pages: a cursor is only valid with the filter that it was
  // returned for.
  const scope = useScope();
  const query = useMemo(() => queryOf(filter, scope.accountId), [asked, live, scope.all]);
  const others = !!query.accountId;
  const columns: Column<Request>[] = [
    { title: "When", show: (r) => <time dateTime={r.startedAt} title={r.startedAt} class="nowrap">{local(r.startedAt)}</time> },
    { title: "Status", keep: 3, show: (r) => <Outcome of={r} /> },
    {
      title: "Model",
      grows: true,
      show: (r) => (
        <div>
          <span class="breaks">{r.model.served ?? r.model.requested ?? "–"}</span>
          {(r.provider || askedFor(r)) && <div class="small muted">{[r.provider, askedFor(r)].filter(Boolean).join(" ")}</div>}
        </div>
      ),
    },
    ...(others ? [{ title: "Account", show: (r: Request) => <span class="breaks">{r.accountName ?? r.accountId}</span> }] : []),
    { title: "Key", show: (r) => <span class="breaks">{r.keyName ?? r.keyId}</span> },
    ...lastColumns<Request>((r) => r.inputTokens + r.outputTokens, setOpen),
  ];
  return (
    <>
      <header class="head">
        <h1>Requests</h1>
        <ScopeSwitch onChange={() => change({ account: "", key: "" })} />
        <div class="push row">
          <label class="check">
            <input type="checkbox" checked={live} onChange={(e) => setLive(e.currentTarget.checked)} /> Live tail
          </label>
          <Download<Request>
            path="/requests"
            query={() => ({ ...queryOf(filter, scope.accountId), ...orderOf(filter.order) })}
            name="requests.csv"
            columns={[
              ["id", (r) => r.id],
              ["startedAt", (r) => r.startedAt],
              ["accountId", (r) => r.accountId],
              ["accountName", (r) => r.accountName ?? null],
              ["keyId", (r) => r.keyId],
              ["keyName", (r) => r.keyName ?? null],
              ["status", (r) => r.status],
              ["errorCode", (r) => r.errorCode],
              ["requestedModel", (r) => r.model.requested],
              ["servedModel", (r) => r.model.served],
              ["provider", (r) => r.provider],
              ["attempts", (r) => r.attempts],
              ["inputTokens", (r) => r.inputTokens],
              ["cachedInputTokens", (r) => r.cachedInputTokens],
              ["outputTokens", (r) => r.outputTokens],
              ["creditsMicro", (r) => r.creditsMicro],
              ["timeToFirstTokenMilliseconds", (r) => r.timeToFirstTokenMilliseconds],
              ["durationMilliseconds", (r) => r.durationMilliseconds],
              ["receiptId", (r) => r.receiptId],
            ]}
          />
        </div>
      </header>
      <section class="panel" aria-label="Request log">
        <Filters names={names} filter={filter} change={change}>
          <Text name="id" label="Request id" kind="search" filter={filter} change={change} />
          <Range filter={filter} change={change} any="Any" />
          <Pick name="status" label="Status" filter={filter} change={change} choices={statuses} />
          <Text name="model" label="Model" filter={filter} change={change} offers={meta.data?.models.map((m) => m.id)} />
          {may("keys:write") && query.accountId !== "*" ? (
            <PickOf name="key" label="Key" source={{ ...sources.keys, query: { accountId: filter.account } }} filter={filter} change={change} />
          ) : (
            <Text name="key" label="Key id" filter={filter} change={change} />
          )}
          {operates && (
            <PickOf
              name="account"
              label="Account"
              source={sources.accounts}
              filter={filter}
              change={(by) => change({ ...by, key: "" })}
              fixed={[{ id: "", title: scope.all ? "All customers" : "This account" }]}
            />
          )}
          <Text name="error" label="Error code" filter={filter} change={change} />
          <Text name="provider" label="Provider" filter={filter} change={change} />
          <Pick name="slow" label="Took" filter={filter} change={change} choices={slowness} />
          <Pick name="order" label="Order" filter={filter} change={change} choices={orders} />
        </Filters>
        {!filter.id && <Totals key={asked + live + scope.all} query={query} words={operates && query.accountId === scope.accountId ? scope.words : ""} />}
        {filter.id ? <One id={filter.id} columns={columns} onPick={setOpen} /> : <Rows key={asked + live + scope.all} query={query} live={live} order={live ? "" : (filter.order ?? "")} onOrder={(order) => change({ order })} columns={columns} onPick={setOpen} narrowed={names.some((n) => filter[n])} />}
      </section>
      {meta.data && (
        <p class="muted small">
          Neither prompts nor replies are kept. A row appears a second after its request and is kept for {Math.round(meta.data.limits.requestsKeptSeconds / 86_400)} days, up to {count(meta.data.limits.requestsKeptPerAccount)} rows for an account.
        </p>
      )}
      {open && <Details of={open} operates={operates} onClose={() => setOpen(undefined)} />}
    </>
  );
}

// Totals shows the sums of all rows that match the filters.
function Totals({ query, words }: { query: Record<string, string | undefined>; words: string }) {
  const { api, offers } = useSession();
  const sums = useLoad((signal) => (offers("getRequestSummary") ? api.get<RequestSummary>("/requests/summary", query, signal) : Promise.resolve(undefined)), [api]);
  if (sums.problem) return <p class="pad totals long muted">{sums.problem.message}</p>;
  if (!sums.data) return <p class="pad totals long muted">{sums.loading ? "Adding up" : ""}</p>;
  const { totals, complete } = sums.data;
  return (
    <p class="pad totals long" role="status">
      {words && <span class="muted">Of {words}: </span>}
      {!complete && "Of the newest: "}
      <b>{of(totals.requests, "request")}</b>, <b>{of(totals.errors, "error")}</b>, {credits(totals.creditsMicro)} credits
      {totals.medianDurationMilliseconds !== null && `, half within ${duration(totals.medianDurationMilliseconds)}, 95 % within ${duration(totals.p95DurationMilliseconds!)}`}
    </p>
  );
}

interface Shown {
  columns: Column<Request>[];
  onPick: (r: Request) => void;
}

function Rows({ query, live, columns, onPick, narrowed, order, onOrder }: Shown & { query: Record<string, string | undefined>; live: boolean; narrowed: boolean; order: string; onOrder: (order: string) => void }) {
  const { api } = useSession();
  const first = useLoad((signal) => api.get<RequestList>("/requests", { ...query, ...orderOf(order), limit: 50 }, signal), [api]);
  const [older, setOlder] = useState<RequestList[]>([]);
  const [newer, setNewer] = useState<Request[]>([]);
  const [dropped, setDropped] = useState<RequestList["dropped"]>(); // of the live tail; before, that of the first page
  const [problem, setProblem] = useState<Problem>();
  const [busy, setBusy] = useState(false);
  const cursor = useRef<string | undefined>(undefined);
  useEffect(() => {
    cursor.current = first.data?.followCursor;
    setDropped(undefined);
    if (!live || !first.data) return;
    const stop = new AbortController();
    let timer = 0;
    const ask = async () => {
      try {
        while (document.visibilityState === "visible") {
          const next = await api.get<RequestList>("/requests", { ...query, limit: 100, order: "asc", cursor: cursor.current }, stop.signal);
          cursor.current = next.hasMore ? next.nextCursor! : next.followCursor;
          if (next.data.length > 0) setNewer((rows) => [...next.data.toReversed(), ...rows].slice(0, kept));
          setDropped(next.dropped);
          setProblem(undefined);
          if (!next.hasMore) break;
        }
      } catch (error) {
        if (stop.signal.aborted) return;
        setProblem(asProblem(error));
      }
      timer = setTimeout(ask, again);
    };
    timer = setTimeout(ask, again);
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [first.data, live]);
  const last = older.at(-1) ?? first.data;
  const more = async () => {
    setBusy(true);
    try {
      const page = await api.get<RequestList>("/requests", { ...query, ...orderOf(order), limit: 50, cursor: last!.nextCursor! });
      setOlder((pages) => [...pages, page]);
      setProblem(undefined);
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  const searching = useOlder({ rows: newer.length + (first.data?.data.length ?? 0) + older.reduce((n, p) => n + p.data.length, 0), pages: older.length + 1, hasMore: last?.hasMore ?? false, busy: busy || first.loading || !!problem, next: more });
  return (
    <States of={first} lines={6}>
      {(page) => {
        const lost = dropped === undefined ? page.dropped : dropped;
        const rows = [...newer, ...page.data, ...older.flatMap((p) => p.data)];
        return (
          <>
            {lost && (
              <div class="pad">
                <Notice meaning="waiting">
                  {of(lost.count, "row")} between {moment(lost.since)} and {moment(lost.until)} are missing: they came faster than they could be written. Receipts are complete.
                </Notice>
              </div>
            )}
            {live && (
              <p class="pad small muted" role="status">
                <Badge meaning="info">live</Badge> New requests appear at the top, up to {kept}.
              </p>
            )}
            {problem && (
              <div class="pad">
                <Failure problem={problem} />
              </div>
            )}
            {rows.length > 0 ? (
              <Table label="Requests" rows={rows} columns={columns} onPick={onPick} sorting={live ? undefined : { order, change: onOrder }} />
            ) : last?.hasMore ? (
              searching
            ) : (
              <Empty title={narrowed ? "No matching requests" : "No requests yet"}>
                <p>{narrowed ? "Choose a longer time, or clear the filters." : "All calls with the account's keys appear here, including failed and rejected ones."}</p>
                {!narrowed && (
                  <p class="row">
                    <a class="button" href="#/playground">
                      Try a model
                    </a>
                  </p>
                )}
              </Empty>
            )}
            {last?.hasMore && (
              <div class="more">
                <Button onClick={more} disabled={busy}>
                  {busy ? "Loading" : "Show more"}
                </Button>
              </div>
            )}
          </>
        );
      }}
    </States>
  );
}

// One shows the request with an id, regardless of filters.
function One({ id, columns, onPick }: Shown & { id: string }) {
  const { api } = useSession();
  const found = useLoad((signal) => api.get<Request>("/requests/" + encodeURIComponent(id), undefined, signal), [api, id]);
  return (
    <>
      <p class="pad small muted">A request id ignores the other filters.</p>
      <States of={found}>{(r) => (r.id === id ? <Table label="Requests" rows={[r]} columns={columns} onPick={onPick} /> : null)}</States>
    </>
  );
}

function Outcome({ of: r }: { of: Request }) {
  const meaning: Meaning = r.status >= 500 ? "failed" : r.status >= 400 ? "refused" : r.errorCode ? "warning" : "ok";
  return (
    <div>
      <Badge meaning={meaning}>{r.status}</Badge>
      {r.errorCode && <div class="muted breaks">{r.errorCode}</div>}
    </div>
  );
}

function Details({ of: r, operates, onClose }: { of: Request; operates: boolean; onClose: () => void }) {
  const remarks = [
    r.stream && "streamed",
    r.replayed && "replayed from an earlier request; not charged again",
    r.disconnected && "the client disconnected before the end",
    r.estimated && "tokens counted here, not by the provider",
    r.clamped && "the account's credits did not cover all of it",
  ].filter(Boolean);
  return (
    <Dialog title="Request" drawer onClose={onClose}>
      <Facts
        of={[
          ["Request", <Id of={r.id} />],
          [
            "Result",
            <>
              <Outcome of={r} />
              {r.errorParam && (
                <div class="small">
                  at <code>{r.errorParam}</code>
                </div>
              )}
              {r.errorCode && (
                <a class="small" href="/docs/api-openapi/errors">
                  What the codes mean
                </a>
              )}
            </>,
          ],
          ["Model", <>{r.model.served ?? "none was tried"}{r.model.requested !== null && r.model.requested !== r.model.served && <span class="muted"> for {r.model.requested}</span>}</>, "breaks"],
          ["Provider", <>{r.provider ?? "–"} <span class="muted">{of(r.attempts, "attempt")}</span></>],
          ["Tokens", <>{count(r.inputTokens)} in <span class="muted">({count(r.cachedInputTokens)} from the cache)</span>, {count(r.outputTokens)} out</>],
          ["Charged", <>{credits(r.creditsMicro)} credits {r.receiptId && <a href={"#/" + withFilter("credits/receipts", { id: r.receiptId })}>Receipt</a>}</>],
          [
            "Time",
            <>
              {moment(r.startedAt)} <span class="muted">(<Time at={r.startedAt} />)</span>, {duration(r.durationMilliseconds)}
              {r.timeToFirstTokenMilliseconds !== null && <span class="muted">, first words after {duration(r.timeToFirstTokenMilliseconds)}</span>}
            </>,
          ],
          ["Key", <>{r.keyName && <div>{r.keyName}</div>}<Id of={r.keyId} /></>],
          operates && ["Account", <>{r.accountName && <div>{r.accountName}</div>}<Id of={r.accountId} /></>],
          r.responseId && ["Reply", <Id of={r.responseId} />],
          r.clientAddress && ["Client", r.clientAddress, "mono"],
          remarks.length > 0 && ["Remarks", remarks.join("; ")],
        ]}
      />
    </Dialog>
  );
}
