// For operators: the current and recent state of the providers.
import { useEffect, useState } from "preact/hooks";
import type { Provider, ProviderFailure, ProviderList, ProviderRoute, ProviderTest, RecentCalls, RecentProvider, RecentProviderList } from "../../lib/contract";
import { count, duration, local, moment, of } from "../../lib/format";
import type { UsageReport } from "../../lib/types";
import { Badge, Button, type Meaning, Notice, Time } from "../parts/basic";
import { useAction } from "../parts/form";
import { Empty, Failure, type Loaded, Skeleton, useLoad } from "../parts/load";
import { Figure } from "../parts/figure";
import { type Column, Table } from "../parts/table";
import { PolledPage } from "../parts/polledpage";
import { useFilter, withFilter } from "../parts/router";
import { useSession } from "../parts/session";
import { Tested } from "./vendordraft";
import { Vendors } from "./vendors";

export const ProvidersPage = () => (
  <PolledPage<ProviderList> title="Providers" path="/providers" every={10_000}>
    {(p) => <All of={p} />}
  </PolledPage>
);

const day = 24 * 3_600_000; // milliseconds

function All({ of: p }: { of: ProviderList }) {
  const { api, may, offers } = useSession();
  const [filter] = useFilter();
  const asks = offers("listRecentProviders");
  const recent = useLoad<RecentProviderList | undefined>((signal) => (asks ? api.get<RecentProviderList>("/providers/recent", undefined, signal) : Promise.resolve(undefined)), [api]);
  const reads = may("usage:read") && offers("getUsage");
  const books = useLoad((signal) => (reads ? api.get<UsageReport>("/usage", { from: new Date(Date.now() - day).toISOString(), accountId: "*" }, signal) : Promise.resolve(undefined)), [api]);
  useEffect(() => {
    const again = () => {
      recent.reload();
      books.reload();
    };
    const timer = setInterval(() => document.visibilityState === "visible" && again(), 60_000);
    return () => clearInterval(timer);
  }, [recent.reload, books.reload]);
  return (
    <>
      <Sums of={p} recent={recent.data} calls={books.data?.totals.calls} />
      {offers("getConfig") && <Vendors />}
      {(!filter.settings || filter.settings === "provider") && (asks && !recent.data && !recent.problem ? <Skeleton /> : <Health of={p} recent={recent} />)}
    </>
  );
}

// Sums shows whether all providers serve, and the calls of the last 24 hours.
function Sums({ of: p, recent, calls }: { of: ProviderList; recent?: RecentProviderList; calls?: number }) {
  const resting = p.data.filter((one) => !one.disabled && one.routes.some((r) => r.state !== "closed"));
  const unread = p.data.filter((one) => one.listProblem);
  const sum = (member: "calls" | "errors") => recent && recent.data.reduce((all, r) => all + r.day[member], recent.unserved.day);
  const [requests, errors] = [sum("calls"), sum("errors")];
  return (
    <dl class="figures">
      <Figure title="Providers" sub={resting.length > 0 ? <span class="bad">{resting.map((one) => one.name).join(", ")} failing</span> : unread.length > 0 ? <span class="bad">models of {unread.map((one) => one.name).join(", ")} not offered</span> : "none failing"}>
        {count(p.data.filter((one) => !one.disabled).length)}
      </Figure>
      <Figure title="Calls in progress" sub={`${count(p.retrying)} retrying`}>
        {count(p.active)}
      </Figure>
      <Figure title="Calls in 24 h" sub="all customers, with agents">
        {calls === undefined ? "–" : count(calls)}
      </Figure>
      <Figure title="Errors in 24 h" sub={!!requests && `of ${of(requests, "request")}, all customers${recent!.unserved.day > 0 ? `, ${count(recent!.unserved.day)} without a provider` : ""}`}>
        {errors === undefined ? "–" : <span class={errors > 0 ? "bad" : ""}>{count(errors)}</span>}
      </Figure>
    </dl>
  );
}

// Health shows what each provider serves, and its calls.
function Health({ of: p, recent }: { of: ProviderList; recent: Loaded<RecentProviderList | undefined> }) {
  return (
    <>
      {recent.data?.cut && (
        <Notice meaning="waiting">
          <p>
            Of the last 24 hours only the latest {of(recent.data.rows, "request")} are counted, since <time dateTime={recent.data.since} title={moment(recent.data.since)}>{local(recent.data.since)}</time>.
          </p>
        </Notice>
      )}
      {recent.problem && <Failure problem={recent.problem} retry={recent.reload} />}
      {p.data.length === 0 && (
        <section class="panel">
          <Empty title="No providers">
            <p>A provider is a vendor's address and key. Add one above.</p>
          </Empty>
        </section>
      )}
      {p.data.map((one) => (
        <One key={one.name} of={one} recent={recent} />
      ))}
    </>
  );
}

const states: Record<ProviderRoute["state"], [Meaning, string]> = { closed: ["ok", "serves"], open: ["failed", "circuit open"], half_open: ["waiting", "is tried again"] };

function One({ of: p, recent }: { of: Provider; recent: Loaded<RecentProviderList | undefined> }) {
  const { api, may, offers } = useSession();
  const resting = p.routes.filter((r) => r.state !== "closed").length;
  const lately = recent.data?.data.find((r) => r.name === p.name);
  const serves =
    p.models.length > 0 ? (
      <span class="breaks">Serves {p.models.join(", ")}.</span>
    ) : p.disabled && p.wire === "sandbox" ? (
      "It gets no calls: it answers only while no provider is configured."
    ) : p.disabled ? (
      "It gets no calls. Enable it under Settings."
    ) : p.wire === "sandbox" ? (
      "It answers for models without a provider."
    ) : (
      p.listProblem ? "It serves no model." : "No model is routed to it. Add it to the routes of a family."
    );
  const used = p.requests > 0 || !!lately?.day.calls;
  const [test, setTest] = useState<ProviderTest>();
  const action = useAction({ repeats: true });
  const run = () =>
    action.run(async (once) => {
      setTest(undefined);
      setTest(await api.create<ProviderTest>(`/providers/${encodeURIComponent(p.name)}/test`, undefined, once));
    });
  return (
    <section class="panel" aria-label={p.name}>
      <header>
        <h2>{p.name}</h2>
        <span class="small muted">
          {p.wire}
          {!used && <> · {serves}</>}
        </span>
        <span class="push row tight small">
          {p.disabled ? <Badge>{p.wire === "sandbox" ? "not in use" : "disabled"}</Badge> : p.listProblem && p.models.length === 0 ? <Badge meaning="failed">no models</Badge> : !used ? <Badge>not used yet</Badge> : resting === 0 ? <Badge meaning="ok">all models serve</Badge> : <Badge meaning="failed">{resting} of {of(p.routes.length, "model")} not serving</Badge>}
          {may("operator") && offers("testProvider") && !p.disabled && (
            <Button small disabled={action.busy} onClick={run}>
              {action.busy ? "Testing" : "Test now"}
            </Button>
          )}
        </span>
      </header>
      {p.listProblem && (
        <div class="pad">
          <Notice meaning={p.models.length === 0 ? "failed" : "waiting"}>
            <p class="breaks">{p.listProblem}</p>
          </Notice>
        </div>
      )}
      <div class={test || action.problem ? "pad stack" : ""} role="status">
        {test && <Tested of={test} />}
        {action.problem && <Failure problem={action.problem} />}
      </div>
      {used && (
        <p class="pad small muted">
          {count(p.inFlight)} of at most {of(p.maxInFlight, "request")} in progress
          {p.refused > 0 && <>, {of(p.refused, "call")} turned away because of that</>}. <LastFailure of={p.lastFailure} />
          <br />
          {serves}
        </p>
      )}
      {lately && lately.day.calls > 0 && (
        <>
          <h3>The last 24 hours, without steps of agents</h3>
          <Lately of={lately} />
        </>
      )}
      {p.routes.length > 0 && (
        <>
          <h3>Since the last restart, or the last change of its settings</h3>
          <Table
            label={`Models of ${p.name}`}
            rows={p.routes}
            columns={[
              { title: "Model", show: (r) => <span class="nowrap">{r.model}</span> },
              {
                title: "State",
                keep: 2,
                show: (r) => (
                  <>
                    <Badge meaning={states[r.state]?.[0]}>{states[r.state]?.[1] ?? r.state}</Badge>
                    {r.openUntil && (
                      <div class="small muted">
                        until <Time at={r.openUntil} />
                      </div>
                    )}
                  </>
                ),
              },
              { title: "In progress", number: true, show: (r) => count(r.inFlight) },
              { title: "Requests", number: true, show: (r) => count(r.requests) },
              { title: "Retries", number: true, show: (r) => count(r.retries) },
              { title: "Failures", number: true, show: (r) => count(r.failures) },
              { title: "Timeouts", number: true, show: (r) => count(r.timeouts) },
              { title: "Last failure", show: (r) => (r.lastFailure ? <LastFailure of={r.lastFailure} short /> : <span class="muted">none</span>) },
            ]}
          />
        </>
      )}
    </section>
  );
}

const took = (ms: number | null) => (ms === null ? <span class="muted">–</span> : duration(ms));

interface Row {
  model: string;
  hour: RecentCalls;
  day: RecentCalls;
}

// latelyColumns contains the numbers of both time ranges.
const latelyColumns: Column<Row>[] = [
  { title: "Model", show: (r) => <span class="breaks">{r.model}</span> },
  ...(["hour", "day"] as const).flatMap((span): Column<Row>[] => {
    const within = span === "hour" ? "1 h" : "24 h";
    return [
      { title: `Calls ${within}`, number: true, show: (r) => count(r[span].calls) },
      { title: `Errors ${within}`, number: true, show: (r) => (r[span].errors > 0 ? <b>{count(r[span].errors)}</b> : 0) },
      { title: `p50 ${within}`, number: true, show: (r) => took(r[span].p50Milliseconds) },
      { title: `p95 ${within}`, number: true, show: (r) => took(r[span].p95Milliseconds) },
    ];
  }),
];

function Lately({ of: r }: { of: RecentProvider }) {
  const e = r.lastError;
  return (
    <>
      <Table label={`Recent calls at ${r.name}`} rows={[{ model: "all models", hour: r.hour, day: r.day }, ...r.models]} columns={latelyColumns} />
      {e && (
        <p class="pad small">
          Last error <Time at={e.at} />: <code>{e.code}</code> {e.text} <a href={"#/" + withFilter("requests", { id: e.requestId })}>The request</a>
        </p>
      )}
    </>
  );
}

function LastFailure({ of: f, short }: { of: ProviderFailure | null; short?: boolean }) {
  if (!f) return <>No failure so far.</>;
  return (
    <>
      {!short && "Failed last "}
      <Time at={f.at} />: <code title={f.text}>{f.code}</code>
      {f.status !== null && <span class="nowrap"> (HTTP {f.status})</span>}
    </>
  );
}
