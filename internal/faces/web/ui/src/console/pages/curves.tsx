// The curves of the overview: spend, calls, errors and latency with the period before, and for operators each provider.
import { useState } from "preact/hooks";
import type { RequestGroup, RequestSummary } from "../../lib/contract";
import { count, credits, day as dayName, dayOf, duration, midnight, zone } from "../../lib/format";
import type { UsageReport } from "../../lib/types";
import { States, useLoad } from "../parts/load";
import { Lines } from "../parts/lines";
import { useScope } from "../parts/scope";
import { useSession } from "../parts/session";
import { Tabs } from "../parts/tabs";

const spans = [
  { id: "7", title: "7 days" },
  { id: "14", title: "14 days" },
  { id: "30", title: "30 days" },
];

export function Curves() {
  const { api, offers } = useSession();
  const scope = useScope();
  const [span, setSpan] = useState("14");
  const n = Number(span);
  const from = midnight(Date.now(), 1 - 2 * n);
  const logged = offers("getRequestSummary");
  const read = useLoad(
    async (signal) => {
      const query = { from: new Date(from).toISOString(), timeZone: zone, accountId: scope.accountId };
      return Promise.all([api.get<UsageReport>("/usage", { ...query, groupBy: "day" }, signal), logged ? api.get<RequestSummary>("/requests/summary", { ...query, interval: "day" }, signal) : undefined]);
    },
    [api, span, scope.all],
  );
  return (
    <section class="panel" aria-labelledby="curves">
      <header>
        <h2 id="curves">Trends</h2>
        {scope.label("") && <span class="small muted">{scope.words}</span>}
        <div class="push">
          <Tabs label="Days of the curves" tabs={spans} active={span} onChange={setSpan} />
        </div>
      </header>
      <States of={read} lines={8}>
        {([usage, log]) => {
          const days = Array.from({ length: 2 * n }, (_, i) => dayOf(midnight(from, i)));
          const spent = new Map(usage.data.map((r) => [r.day!, r]));
          const rows = new Map(log?.data.map((r) => [dayOf(Date.parse(r.from!)), r]));
          const since = log && !log.complete ? Math.min(...log.data.map((r) => Date.parse(r.from!))) : 0; // the log has no more before
          const curves: { title: string; unit: string; amount: (n: number) => string; of: (day: string) => number | null }[] = [
            { title: "Credits", unit: "", amount: credits, of: (day) => spent.get(day)?.creditsMicro ?? 0 },
            { title: "Calls", unit: "", amount: count, of: (day) => spent.get(day)?.calls ?? 0 },
          ];
          if (log) {
            const known = (day: string, value: (r: RequestGroup | undefined) => number | null) => (Date.parse(day) < since ? null : value(rows.get(day)));
            curves.push({ title: "Errors", unit: "Requests with an error", amount: count, of: (day) => known(day, (r) => r?.errors ?? 0) }, { title: "Latency p95", unit: "", amount: duration, of: (day) => known(day, (r) => r?.p95DurationMilliseconds ?? null) });
          }
          return (
            <div class="body curves">
              {curves.map((c) => (
                <div>
                  <h3>{c.title}</h3>
                  <Lines
                    label={`${c.title} by day, ${scope.words}`}
                    unit={c.unit}
                    amount={c.amount}
                    points={days.slice(n).map(dayName)}
                    lines={[
                      { name: "This period", values: days.slice(n).map(c.of) },
                      { name: "Period before", before: true, values: days.slice(0, n).map(c.of) },
                    ]}
                  />
                </div>
              ))}
            </div>
          );
        }}
      </States>
    </section>
  );
}

const hour = 3_600_000;
const most = 6; // lines of a chart

// ProviderCurves shows latency and errors of each provider in the last 24 hours, of all customers.
export function ProviderCurves() {
  const { api } = useSession();
  const start = Math.floor(Date.now() / hour) * hour - 23 * hour;
  const read = useLoad((signal) => api.get<RequestSummary>("/requests/summary", { from: new Date(start).toISOString(), accountId: "*", groupBy: "provider", interval: "hour" }, signal), [api]);
  const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
  return (
    <section class="panel" aria-labelledby="provider-curves">
      <header>
        <h2 id="provider-curves">Providers, last 24 hours</h2>
        <span class="small muted">all customers</span>
        <a class="push small" href="#/providers">
          Providers
        </a>
      </header>
      <States of={read} lines={6}>
        {(log) => {
          const calls = new Map<string, number>();
          for (const r of log.data) if (r.provider || r.errors > 0) calls.set(r.provider ?? "", (calls.get(r.provider ?? "") ?? 0) + r.requests);
          const names = [...calls.keys()].sort((a, b) => calls.get(b)! - calls.get(a)!).slice(0, most);
          if (names.length === 0) return <p class="pad muted">No requests in the last 24 hours.</p>;
          const points = Array.from({ length: 24 }, (_, i) => start + i * hour);
          const values = (provider: string, value: (r: RequestGroup | undefined) => number | null) => points.map((at) => value(log.data.find((r) => (r.provider ?? "") === provider && Date.parse(r.from!) === at)));
          const shared = { points: points.map((at) => clock.format(at)) };
          return (
            <div class="body curves">
              <div>
                <h3>Latency p95</h3>
                <Lines {...shared} label="Latency p95 of each provider by hour" unit="" amount={duration} lines={names.filter((name) => name).map((name) => ({ name, values: values(name, (r) => r?.p95DurationMilliseconds ?? null) }))} />
              </div>
              <div>
                <h3>Errors</h3>
                <Lines {...shared} label="Errors of each provider by hour" unit="Requests with an error" amount={count} lines={names.map((name) => ({ name: name || "no provider", values: values(name, (r) => r?.errors ?? 0) }))} />
              </div>
            </div>
          );
        }}
      </States>
    </section>
  );
}
