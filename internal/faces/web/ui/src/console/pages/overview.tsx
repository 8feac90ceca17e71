// The overview: what was spent and what it leads to, how calls went, what waits for a
// person, and who spends. Each part is shown only to those who may read it.
import { useContext, useState } from "preact/hooks";
import type { Session } from "../../lib/agents";
import type { Model, NoticeList, ProviderList, RequestSummary } from "../../lib/contract";
import { count, credits, day as dayName, dayOf, duration, midnight, of, rulesInWords, zone } from "../../lib/format";
import type { Credits, Key, List, Receipt, UsageReport } from "../../lib/types";
import { Curves, ProviderCurves } from "./curves";
import { ScopeSwitch, useScope } from "../parts/scope";
import { Amount, Badge, Button, Id, Notice, Time } from "../parts/basic";
import { Code } from "../parts/code";
import { shared, useMeta } from "../parts/shared";
import { Notices, NoticesContext } from "../parts/notices";
import { Empty, Skeleton, States, useLive, useLoad } from "../parts/load";
import { Figure } from "../parts/figure";
import { useInbox } from "../parts/inbox";
import { Spend } from "../parts/spend";
import { Table } from "../parts/table";
import { NoScope } from "../parts/missing";
import { useSession } from "../parts/session";

const day = 24 * 3_600_000; // milliseconds

export function Overview() {
  const { may, offers } = useSession();
  const sums = may("usage:read") && offers("getUsage");
  const steps = useSteps();
  return (
    <>
      <header class="head">
        <h1>Overview</h1>
        <ScopeSwitch />
      </header>
      {steps.loading && !steps.data ? (
        <Skeleton lines={12} />
      ) : (
        <>
          {steps.data?.[0] && <Unread of={steps.data[0]} />}
          {steps.data && <FirstSteps of={steps.data} />}
          <Figures sums={sums} />
          <div class="cockpit">
            {sums ? (
              <Spend />
            ) : (
              <section class="panel">
                <Empty title="Spend is not available">
                  <NoScope scope="usage:read" />
                </Empty>
              </section>
            )}
            <Waiting />
          </div>
          {sums && (
            <div class="tops">
              {may("agents:read") && <TopAgents />}
              {may("operator:read") && <TopAccounts />}
              <Latest />
            </div>
          )}
          {sums && <Curves />}
          {may("operator:read") && offers("getRequestSummary") && <ProviderCurves />}
          <Served />
        </>
      )}
    </>
  );
}

function Figures({ sums }: { sums: boolean }) {
  const scope = useScope();
  const { api, me, offers } = useSession();
  const asks = sums && offers("getCredits");
  const balance = useLoad<Partial<Credits>>(() => (asks ? shared<Credits>(api, "/credits") : Promise.resolve(me.credits)), [api]);
  const now = { ...me.credits, ...balance.data };
  return (
    <dl class="figures">
      {sums && <Spending />}
      <Figure
        title={scope.label("Credits available", false)}
        sub={
          <>
            {now.grantedMicro !== undefined && (
              <>
                of <Amount of={now.grantedMicro} /> ·{" "}
              </>
            )}
            <Amount of={now.heldMicro} /> held
          </>
        }
      >
        <Amount of={now.availableMicro} />
      </Figure>
      {sums && offers("listRequests") && <Health />}
      {!sums && (
        <Figure title="Account" word sub={<Id of={me.id} />}>
          {me.name}
        </Figure>
      )}
    </dl>
  );
}

const lately = 7; // days that the forecast continues

// Spending shows today and this month, in the time zone of the browser. The forecast adds the rest of the month, each day
// of which costs as much as a day of the last seven.
function Spending() {
  const { api } = useSession();
  const scope = useScope();
  const at = Date.now();
  const start = new Date(new Date(at).getFullYear(), new Date(at).getMonth(), 1).getTime();
  const end = new Date(new Date(at).getFullYear(), new Date(at).getMonth() + 1, 1).getTime();
  const read = useLoad((signal) => api.get<UsageReport>("/usage", { from: new Date(midnight(at, -30)).toISOString(), groupBy: "day", timeZone: zone, accountId: scope.accountId }, signal), [api, scope.all]);
  const rows = read.data?.data ?? [];
  const sum = (from: string, to: string) => rows.reduce((all, r) => (r.day! >= from && r.day! < to ? all + r.creditsMicro : all), 0);
  const today = dayOf(at);
  const ofMonth = read.data && { creditsMicro: sum(dayOf(start), "9") };
  const ofToday = read.data && (rows.find((d) => d.day === today) ?? { calls: 0, creditsMicro: 0 });
  // Whole days since the first charge, at most seven.
  const first = rows.map((r) => r.day!).sort()[0];
  const days = first ? Math.min(lately, Math.round((midnight(at) - new Date(first + "T00:00:00").getTime()) / day)) : 0;
  const step = ofMonth && ofMonth.creditsMicro > 1e6 ? 10_000 : 100; // micro-credits, of the rounded forecast
  const forecast = ofMonth && days > 0 ? ofMonth.creditsMicro + (sum(dayOf(midnight(at, -days)), today) / days) * ((end - at) / day) : undefined;
  return (
    <>
      <Figure title={scope.label("Spent today")} sub={ofToday && of(ofToday.calls, "call")}>
        {ofToday ? <Amount of={ofToday.creditsMicro} /> : "–"}
      </Figure>
      <Figure
        title={scope.label("This month")}
        sub={
          ofMonth && (
            <span title={`The forecast adds for each day left as much as a day of the last ${lately} cost; with fewer days, of those.`}>
              {forecast === undefined ? "too early for a forecast" : `≈ ${credits(Math.round(forecast / step) * step)} by ${dayName(dayOf(end - 1))}${days < lately ? `, from ${of(days, "day")}` : ""}`}
            </span>
          )
        }
      >
        {ofMonth ? <Amount of={ofMonth.creditsMicro} /> : "–"}
      </Figure>
    </>
  );
}

// Health shows errors and times of the calls of the last 24 hours.
function Health() {
  const { api } = useSession();
  const scope = useScope();
  const log = useLoad((signal) => api.get<RequestSummary>("/requests/summary", { from: new Date(Date.now() - day).toISOString(), accountId: scope.accountId }, signal), [api, scope.all]);
  const sums = log.data?.totals;
  const took = (ms: number | null | undefined) => (ms == null ? "–" : duration(ms));
  return (
    <>
      <Figure title={scope.label("Errors")} sub={<a href="#/requests?range=24h">{sums ? `of ${log.data!.complete ? "" : "the newest "}${of(sums.requests, "request")} in 24 h` : "in 24 h"}</a>}>
        <span class={sums && sums.errors > 0 ? "bad" : ""}>{sums ? count(sums.errors) : "–"}</span>
      </Figure>
      <Figure title={scope.label("Latency p50")} sub={`p95 ${took(sums?.p95DurationMilliseconds)}`}>
        {took(sums?.medianDurationMilliseconds)}
      </Figure>
    </>
  );
}

const asks: Record<string, string> = { approval: "approval", tool_approval: "approval", tool_call: "program", tool_confirmation: "confirmation" };

// Waiting lists what needs a person: notices, approvals and questions of agents.
function Waiting() {
  const { api, may, offers } = useSession();
  const notices = useContext<NoticeList | undefined>(NoticesContext);
  const inbox = useInbox();
  const reads = may("sessions:read") && offers("listAllSessions");
  const asked = useLoad((signal) => (reads ? api.get<List<Session>>("/sessions", { status: "waiting_for_input", limit: 5 }, signal) : Promise.resolve(undefined)), [api, inbox.calls]);
  useLive(asked, 15_000, reads);
  const sessions = asked.data?.data.filter((s) => s.status === "waiting_for_input") ?? [];
  const nothing = notices && (asked.data || !reads) && notices.data.length + sessions.length === 0 && !inbox.calls;
  return (
    <section class="panel" aria-labelledby="attention">
      <header>
        <h2 id="attention">Needs attention</h2>
        {inbox.calls && (
          <a class="push" href="#/tool-calls">
            <Badge meaning="waiting">{inbox.calls} to approve</Badge>
          </a>
        )}
      </header>
      {!notices || (reads && !asked.data && asked.loading) ? (
        <Skeleton lines={4} />
      ) : nothing ? (
        <Empty title="Nothing to do">
          <p>Approvals, questions of agents, and what fails are shown here.</p>
        </Empty>
      ) : (
        <ul class="waits">
          <Notices of={notices} />
          {sessions.map((s) => (
            <li key={s.id}>
              <Badge meaning="waiting">{asks[s.pendingInput?.kind ?? "question"] ?? "question"}</Badge>
              <div>
                <a href={`#/agents/${s.agentId}/sessions/${s.id}`}>{s.title || s.pendingInput?.prompt || s.id}</a>
                <div class="small muted">
                  {s.title && s.pendingInput?.prompt} <Time at={s.updatedAt} />
                </div>
              </div>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

const month = () => new Date(Date.now() - 30 * day).toISOString();
const most = 5; // rows of a ranking

// A Ranking lists who spent most, with a bar for the share of each.
function Ranking({ title, all, of: rows, none }: { title: string; all: string; of: { id: string; name: string; to: string; spent: number }[]; none: string }) {
  const top = rows.toSorted((a, b) => b.spent - a.spent).slice(0, most);
  const id = "ranking-" + title.toLowerCase().replaceAll(" ", "-");
  return (
    <section class="panel" aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        <a class="push small" href={"#/" + all}>
          Last 30 days
        </a>
      </header>
      {top.length === 0 ? (
        <Empty title={none} />
      ) : (
        <ol class="ranking">
          {top.map((r) => (
            <li key={r.id}>
              <a class="cut" href={"#/" + r.to} title={r.name}>
                {r.name}
              </a>
              <Amount of={r.spent} as="column" />
              <progress max={top[0]!.spent || 1} value={r.spent} aria-hidden="true" />
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

function TopAgents() {
  const { api } = useSession();
  const scope = useScope();
  const usage = useLoad((signal) => api.get<UsageReport>("/usage", { from: month(), groupBy: "agent", accountId: scope.accountId }, signal), [api, scope.all]);
  return (
    <States of={usage} lines={5}>
      {(u) => (
        <Ranking
          title="Top agents"
          all="usage?group=agent&range=30d"
          none="No agent spent credits"
          of={u.data.flatMap((r) => (r.agentId ? [{ id: r.agentId, name: r.agentName || r.agentId, to: scope.all ? "usage?group=agent&range=30d" : "agents/" + r.agentId, spent: r.creditsMicro }] : []))}
        />
      )}
    </States>
  );
}

function TopAccounts() {
  const { api } = useSession();
  const usage = useLoad((signal) => api.get<UsageReport>("/usage", { from: month(), groupBy: "account", accountId: "*" }, signal), [api]);
  return (
    <States of={usage} lines={5}>
      {(u) => (
        <Ranking
          title="Top customers"
          all="usage?group=account&range=30d"
          none="No account spent credits"
          of={u.data.flatMap((r) => (r.accountId ? [{ id: r.accountId, name: r.accountName ?? r.accountId, to: "accounts/" + r.accountId, spent: r.creditsMicro }] : []))}
        />
      )}
    </States>
  );
}

// useSteps reads what the first steps need; nothing for those who do not run the service.
function useSteps() {
  const { api, may, offers } = useSession();
  const asks = may("operator:read") && offers("listProviders");
  const ask = <T,>(scope: string, path: string, query: Record<string, string | number> | undefined, signal: AbortSignal) => (asks && may(scope) ? api.get<T>(path, query, signal) : Promise.resolve(undefined));
  return useLoad(
    (signal) => Promise.all([ask<ProviderList>("operator:read", "/providers", undefined, signal), ask<List<Key>>("keys:write", "/keys", { limit: 2, unrevoked: "true" }, signal), ask<List<Receipt>>("usage:read", "/receipts", { limit: 1 }, signal)]),
    [api],
  );
}

// FirstSteps guides an operator to the first answer of a vendor, until a vendor is
// connected and a call was made. When only the vendor is missing, it is one line.
function FirstSteps({ of: [providers, keys, receipts] }: { of: NonNullable<ReturnType<typeof useSteps>["data"]> }) {
  if (!providers) return null;
  const connected = providers.data.some((p) => p.wire !== "sandbox");
  const called = (receipts?.data.length ?? 0) > 0;
  if (connected && called) return null;
  // The first key is for signing in; programs get their own keys.
  const made = (keys?.data.length ?? 0) > 1;
  if (made && called)
    return (
      <Notice>
        <p>
          No vendor is connected: the built-in sandbox answers for all models. <a href="#/providers">Add a provider</a>; no restart is needed.
        </p>
      </Notice>
    );
  return (
    <section class="panel" aria-labelledby="steps">
      <header>
        <h2 id="steps">Three steps to the first answer</h2>
        {!connected && (
          <span class="push">
            <Badge meaning="info">sandbox only</Badge>
          </span>
        )}
      </header>
      <ol class="body steps">
        <li>
          <b>Connect a vendor.</b> <Done is={connected} />{" "}
          {connected ? (
            <>
              See that it answers with "Test now" under <a href="#/providers">Providers</a>.
            </>
          ) : (
            <>
              The built-in sandbox answers for all models until then. <a href="#/providers">Add a provider</a> with your key, test it and apply it; no restart is needed. <a href="/docs/connect-a-vendor">The guide</a> shows the file and the variables that do the same.
            </>
          )}
        </li>
        <li>
          <b>Create a key</b> for your program under <a href="#/keys">Keys</a>. <Done is={made} />
        </li>
        <li>
          <b>Make the first call.</b> <Done is={called} />
          {!called && <Code text={`curl ${location.origin}/api/v1/responses \\\n  -H "Authorization: Bearer $STOA_API_KEY" \\\n  -H 'Content-Type: application/json' \\\n  -d '{"model": "auto", "input": "Why is the sky blue?"}'`} />}
        </li>
      </ol>
    </section>
  );
}

// Unread names the providers whose models are not all offered.
function Unread({ of: providers }: { of: ProviderList }) {
  return (
    <>
      {providers.data
        .filter((p) => p.listProblem)
        .map((p) => (
          <Notice key={p.name} meaning={p.models.length === 0 ? "failed" : "waiting"}>
            <p class="breaks">
              <b>{p.name}:</b> {p.listProblem} <a href="#/providers">Providers</a>
            </p>
          </Notice>
        ))}
    </>
  );
}

const Done = ({ is }: { is: boolean }) => (is ? <Badge meaning="ok">done</Badge> : null);

function Latest() {
  const { api, offers } = useSession();
  const scope = useScope();
  const receipts = useLoad((signal) => api.get<List<Receipt>>("/receipts", { limit: 5, accountId: scope.accountId }, signal), [api, scope.accountId]);
  if (!offers("listReceipts")) return null;
  return (
    <section class="panel" aria-labelledby="latest">
      <header>
        <h2 id="latest">{scope.label("Latest calls")}</h2>
        <a class="push small" href="#/credits">
          All receipts
        </a>
      </header>
      <States of={receipts} lines={4}>
        {(list) =>
          list.data.length === 0 ? (
            <Empty title="No calls yet">
              <p>Receipts of charged calls appear here.</p>
            </Empty>
          ) : (
            <Table
              label="Latest calls"
              rows={list.data}
              columns={[
                { title: "Model", show: (r) => r.model.served },
                { title: "When", keep: 1, show: (r) => <Time at={r.createdAt} /> },
                { title: "Tokens", number: true, show: (r) => count(r.usage.totalTokens) },
                { title: "Credits", number: true, keep: 2, show: (r) => <Amount of={r.creditsMicro} as="column" /> },
              ]}
            />
          )
        }
      </States>
    </section>
  );
}

const mostModels = 6; // shown at first

function Served() {
  const { me } = useSession();
  const meta = useMeta();
  const [all, setAll] = useState(false);
  const count = meta.data?.models.length ?? 0;
  return (
    <section class="panel" aria-labelledby="served">
      <header>
        <h2 id="served">Models and prices</h2>
        {meta.data && (
          <span class="push small muted">
            {meta.data.defaultModel ? (
              <>
                <code>auto</code> is {meta.data.defaultModel} now
              </>
            ) : (
              <span class="bad">
                <code>auto</code> has no model: no provider serves it
              </span>
            )}
          </span>
        )}
      </header>
      <States of={meta}>
        {(m) => (
          <Table
            label="Models"
            rows={[...m.models].sort((a, b) => Number(b.available) - Number(a.available)).slice(0, all ? undefined : mostModels)}
            columns={[
              { title: "Model", show: (r) => r.id },
              {
                title: "State",
                show: (r) =>
                  !r.available ? <Badge meaning="failed">no provider</Badge> : r.gated && !me.plan.gatedModels ? <Badge meaning="refused">not in your plan</Badge> : r.sandbox ? <Badge meaning="info">sandbox</Badge> : <Badge meaning="ok">served</Badge>,
              },
              { title: "Input", number: true, show: (r) => <Amount of={r.price.inputMicroPerMillion} as="column" /> },
              { title: "Output", number: true, show: (r) => <Amount of={r.price.outputMicroPerMillion} as="column" /> },
              ...(m.models.some((r) => rulesInWords(r.price)) ? [{ title: "Rules", tall: true, show: (r: Model) => <span class="small">{rulesInWords(r.price)}</span> }] : []),
            ]}
          />
        )}
      </States>
      {!all && count > mostModels && (
        <div class="more">
          <Button small onClick={() => setAll(true)}>
            Show all {count} models
          </Button>
        </div>
      )}
      <p class="small muted note">Prices are credits per million tokens.</p>
    </section>
  );
}
