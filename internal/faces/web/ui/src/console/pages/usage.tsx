// Usage: a metric by one group over a time range, and the previous range.
import { useMemo } from "preact/hooks";
import type { Api } from "../../lib/api";
import type { RequestGroup, RequestSummary, RequestSums } from "../../lib/contract";
import { columnCredits, count, credits, day as dayName, dayOf, duration, inputTime, midnight, of, zone } from "../../lib/format";
import { csv } from "../../lib/csv";
import { saveFile } from "../../lib/save";
import type { UsageReport, UsageRow } from "../../lib/types";
import { Button, Notice } from "../parts/basic";
import { type Bar, Chart } from "../parts/chart";
import { type Choice, Filters, Pick, spanOf } from "../parts/filter";
import { Empty, States, useLoad } from "../parts/load";
import { Spark } from "../parts/spark";
import { Table } from "../parts/table";
import { type Filter, go, useFilter, withFilter } from "../parts/router";
import { ScopeSwitch, useScope } from "../parts/scope";
import { useSession } from "../parts/session";

// Daily totals are from the receipts, which are complete. Hours, errors and durations
// are from the request log.
const metrics: (Choice & { log?: boolean; word: string })[] = [
  { id: "", title: "Credits", word: "credits" },
  { id: "calls", title: "Calls", word: "calls" },
  { id: "tokens", title: "Tokens", word: "tokens" },
  { id: "errors", title: "Errors", word: "errors", log: true },
  { id: "p50", title: "Latency p50", word: "", log: true },
  { id: "p95", title: "Latency p95", word: "", log: true },
  { id: "first50", title: "Time to first token p50", word: "", log: true },
  { id: "first95", title: "Time to first token p95", word: "", log: true },
];
const groups: (Choice & { of: "both" | "receipts" | "log" })[] = [
  { id: "", title: "Model", of: "both" },
  { id: "key", title: "Key", of: "both" },
  { id: "agent", title: "Agent", of: "receipts" },
  { id: "member", title: "Member", of: "receipts" },
  { id: "endUser", title: "End user", of: "receipts" },
  { id: "provider", title: "Provider", of: "log" },
  { id: "account", title: "Account", of: "both" },
];
const hour = 3_600_000;
const ranges: (Choice & { days?: number; hours?: number })[] = [
  { id: "", title: "14 days", days: 14 },
  { id: "1h", title: "Last hour", hours: 1 },
  { id: "24h", title: "24 hours", hours: 24 },
  { id: "7d", title: "7 days", days: 7 },
  { id: "30d", title: "30 days", days: 30 },
  { id: "custom", title: "From … to …" },
];
const names = ["metric", "group", "range", "from", "to"];
const most = 200_000; // rows of the request log that the server sums for one range

// A Cell contains the values of one group in one bar.
interface Cell {
  bar: number;
  group: string;
  value: number;
}

interface Answer {
  bars: { name: string; from: number; to: number }[];
  cells: Cell[];
  by: Map<string, number>; // the value of each group over the whole range
  all: number;
  before: Map<string, number>;
  allBefore?: number; // absent if unknown
  saved?: number; // micro-credits that the providers' caches saved; absent if unknown
  cut: boolean; // the log has more rows than were read
  names?: Map<string, string>; // of accounts
}

// span returns the filter's time range in milliseconds.
function span(f: Filter, now = Date.now()): { from: number; to: number; log: boolean } {
  const range = ranges.find((r) => r.id === (f.range ?? "")) ?? ranges[0]!;
  if (range.hours) return { from: now - range.hours * hour, to: now, log: true };
  if (range.days) return { from: midnight(now, 1 - range.days), to: now, log: false };
  const { from, to } = spanOf(f, now);
  const end = to ? Math.min(Date.parse(to), now) : now;
  const start = from ? Date.parse(from) : midnight(end, -6);
  return { from: Math.min(Math.max(start, end - 366 * 24 * hour), end), to: end, log: end - start <= 48 * hour };
}

const iso = (at: number): string => new Date(at).toISOString();

// measure returns a metric of some sums of the request log.
function measure(metric: string, s: RequestSums): number {
  switch (metric) {
    case "calls":
      return s.requests;
    case "tokens":
      return s.inputTokens + s.outputTokens;
    case "errors":
      return s.errors;
    case "p50":
      return s.medianDurationMilliseconds ?? 0;
    case "p95":
      return s.p95DurationMilliseconds ?? 0;
    case "first50":
      return s.medianTimeToFirstTokenMilliseconds ?? 0;
    case "first95":
      return s.p95TimeToFirstTokenMilliseconds ?? 0;
  }
  return s.creditsMicro;
}

const timed = (metric: string): boolean => /^(p|first)\d+$/.test(metric);

async function fromLog(api: Api, f: Filter, accountId: string | undefined, at: { from: number; to: number }, signal: AbortSignal): Promise<Answer> {
  const metric = f.metric ?? "";
  const group = f.group || "model";
  const member = ({ model: "model", key: "keyId", provider: "provider", account: "accountId" } as const)[group as "model" | "key" | "provider" | "account"] ?? "model";
  const length = at.to - at.from;
  const step = length <= 2 * hour ? hour / 12 : length <= 48 * hour ? hour : 24 * hour;
  const interval = step < hour ? "5m" : step < 24 * hour ? "hour" : "day";
  const ask = (from: number, to: number, groupBy?: string, interval?: string) =>
    api.get<RequestSummary>("/requests/summary", { from: iso(from), to: iso(to), accountId, groupBy, interval, timeZone: interval === "day" ? zone : undefined }, signal);
  // Quantiles of intervals cannot be added: those of a group are asked for.
  const [now, parts, then] = [await ask(at.from, at.to, group), await ask(at.from, at.to, timed(metric) ? undefined : group, interval), await ask(at.from - length, at.from, group)];
  const start = step < 24 * hour ? Math.floor(at.from / step) * step : midnight(at.from);
  const clock = new Intl.DateTimeFormat("en-GB", step < 24 * hour ? { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short" });
  const begin = (i: number) => (step < 24 * hour ? start + i * step : midnight(start, i));
  const bars = Array.from({ length: Math.ceil((at.to - start) / step) || 1 }, (_, i) => ({ name: clock.format(begin(i)).replace(",", ""), from: begin(i), to: begin(i + 1) }));
  const groupOf = (r: RequestGroup) => r[member] ?? "none";
  const sums = (list: RequestGroup[]) => new Map(list.map((r) => [groupOf(r), measure(metric, r)]));
  const cells = parts.data.map((r) => ({ bar: bars.findLastIndex((b) => b.from <= Date.parse(r.from!)), group: timed(metric) ? "all" : groupOf(r), value: measure(metric, r) }));
  const nameOf = (r: RequestGroup) => ({ key: r.keyName, account: r.accountName })[group];
  const names = new Map(now.data.flatMap((r) => (nameOf(r) ? [[groupOf(r), nameOf(r)!] as const] : [])));
  return { bars, cells, by: sums(now.data), all: measure(metric, now.totals), before: sums(then.data), allBefore: now.complete && then.complete ? measure(metric, then.totals) : undefined, cut: !now.complete, names };
}

async function fromReceipts(api: Api, f: Filter, accountId: string | undefined, at: { from: number; to: number }, signal: AbortSignal): Promise<Answer> {
  const group = f.group || "model";
  const member = { model: "model", key: "keyId", agent: "agentId", member: "memberId", endUser: "endUser", account: "accountId" }[group] as "model" | "keyId" | "agentId" | "memberId" | "endUser" | "accountId";
  const value = (r: Pick<UsageRow, "calls" | "totalTokens" | "creditsMicro">) => (f.metric === "calls" ? r.calls : f.metric === "tokens" ? r.totalTokens : r.creditsMicro);
  const ask = (from: number, to: number, by: string) => api.get<UsageReport>("/usage", { from: iso(from), to: iso(to), groupBy: by, timeZone: zone, accountId }, signal);
  const [now, then] = await Promise.all([ask(at.from, at.to, "day," + group), ask(at.from - (at.to - at.from), at.from, group)]);
  const bars: Answer["bars"] = [];
  for (let from = midnight(at.from); from < at.to; from = midnight(from, 1)) bars.push({ name: dayOf(from), from, to: midnight(from, 1) });
  const groupOf = (r: UsageRow) => r[member] ?? "none";
  const nameOf = (r: UsageRow) => ({ key: r.keyName, agent: r.agentName, account: r.accountName, member: r.memberName })[group];
  const names = new Map(now.data.flatMap((r) => (nameOf(r) ? [[groupOf(r), nameOf(r)!] as const] : [])));
  const cells = now.data.map((r) => ({ bar: bars.findIndex((b) => b.name === r.day), group: groupOf(r), value: value(r) }));
  const by = new Map<string, number>();
  for (const c of cells) by.set(c.group, (by.get(c.group) ?? 0) + c.value);
  return { bars, cells, by, all: value(now.totals), before: new Map(then.data.map((r) => [groupOf(r), value(r)])), allBefore: value(then.totals), saved: f.metric ? undefined : now.totals.savedMicro, cut: false, names };
}

export function Usage() {
  const { api, may } = useSession();
  const [filter, change] = useFilter();
  const scope = useScope();
  const accountId = filter.group === "account" ? "*" : scope.accountId;
  const metric = metrics.find((m) => m.id === (filter.metric ?? "")) ?? metrics[0]!;
  const at = useMemo(() => span(filter), [JSON.stringify(filter)]);
  const log = at.log || !!metric.log || groups.find((g) => g.id === filter.group)?.of === "log";
  const shown = groups.filter((g) => (g.of === "both" || (log ? g.of === "log" || g.id === filter.group : true)) && (g.id !== "account" || may("operator:read")) && !(g.of === "receipts" && (metric.log || at.log)));
  const group = shown.find((g) => g.id === (filter.group ?? "")) ?? shown[0]!;
  const asked: Filter = { ...filter, metric: metric.id, group: group.id };
  const answer = useLoad((signal) => (log ? fromLog(api, asked, accountId, at, signal) : fromReceipts(api, asked, accountId, at, signal)), [api, JSON.stringify(asked), accountId]);
  const nameOf = (id: string): string => answer.data?.names?.get(id) ?? (id === "none" ? `no ${group.title.toLowerCase()}` : id);
  const amount = (n: number): string => (timed(metric.id) ? duration(n) : metric.id === "" ? credits(n) : count(n));
  const cell = (n: number): string => (metric.id === "" ? columnCredits(n) : amount(n));
  // The calls behind a bar or a group are receipts or requests.
  const calls = (more: Filter): string => {
    const by: Filter = { range: "custom", from: inputTime(iso(at.from)), to: inputTime(iso(at.to + 60_000)), ...more };
    if (!log && by.account) return "accounts/" + by.account;
    return log ? withFilter("requests", { ...by, account: by.account ?? accountId ?? "" }) : withFilter("credits/receipts", by);
  };
  const member = { "": "model", key: "key", agent: "agent", member: "", endUser: "user", provider: "provider", account: "account" }[group.id]!;
  const save = (a: Answer) =>
    saveFile(
      new Blob([csv([["from", "to", group.title, "name", metric.id === "" ? "creditsMicro" : metric.title], ...a.cells.map((c) => [iso(a.bars[c.bar]?.from ?? at.from), iso(a.bars[c.bar]?.to ?? at.to), c.group, a.names?.get(c.group) ?? "", c.value])])], { type: "text/csv" }),
      "usage.csv",
    );
  return (
    <>
      <header class="head">
        <h1>Usage</h1>
        <ScopeSwitch onChange={() => filter.group === "account" && change({ group: "" })} />
        <div class="push">
          <Button icon="download" disabled={!answer.data} onClick={() => save(answer.data!)}>
            CSV
          </Button>
        </div>
      </header>
      <section class="panel" aria-label="Usage">
        <Filters names={names} filter={filter} change={change}>
          <Pick name="metric" label="Show" filter={filter} change={change} choices={metrics} />
          <Pick name="group" label="By" filter={asked} change={change} choices={shown} />
          <Pick name="range" label="Time" filter={filter} change={change} choices={ranges} />
          {filter.range === "custom" &&
            (["from", "to"] as const).map((name) => (
              <label class="filter">
                <span class="small muted">{name === "from" ? "From" : "To"}</span>
                <input class="input" id={"filter-" + name} type="datetime-local" value={filter[name] ?? ""} onChange={(e) => change({ [name]: e.currentTarget.value })} />
              </label>
            ))}
        </Filters>
        <States of={answer} lines={6}>
          {(a) => {
            const rows = [...a.by].map(([id, value]) => ({ id, value, before: a.before.get(id) })).sort((x, y) => y.value - x.value);
            const bars: Bar[] = a.bars.map((b, i) => ({ day: b.name, parts: Object.fromEntries(a.cells.filter((c) => c.bar === i).map((c) => [c.group === "all" ? metric.title : nameOf(c.group), c.value])) }));
            if (rows.length === 0) {
              return (
                <Empty title="No usage in this time">
                  <p>Choose a longer time, or try a model.</p>
                  <a class="button" href="#/playground">
                    Try a model
                  </a>
                </Empty>
              );
            }
            return (
              <>
                <div class="body stack">
                  <p>
                    <b class="total">
                      {amount(a.all)} {log && metric.id === "calls" ? "requests" : metric.word}
                    </b>{" "}
                    <span class="muted">
                      of {accountId ? "all customers" : "this account"} {a.allBefore === undefined ? "" : compare(a.all, a.allBefore, amount)}
                    </span>
                  </p>
                  {!!a.saved && (
                    <p class="muted">
                      Caches of the providers {a.saved > 0 ? "saved" : "added"} {credits(Math.abs(a.saved))} credits.
                    </p>
                  )}
                  {a.cut && (
                    <Notice meaning="waiting">
                      Only the newest {of(most, "request")} of this time are shown. Choose a shorter time{at.log || metric.log ? "" : " or another group"} for all of them.
                    </Notice>
                  )}
                  <Chart
                    label={`${metric.title} by ${group.title.toLowerCase()}`}
                    bars={bars}
                    unit={metric.title}
                    amount={amount}
                    onPick={!log && group.id === "account" ? undefined : (bar) => {
                      const b = a.bars[bars.indexOf(bar)] ?? a.bars.find((x) => x.name === bar.day)!;
                      go(calls({ from: inputTime(iso(b.from)), to: inputTime(iso(b.to)) }));
                    }}
                  />
                </div>
                <Table
                  label={`${metric.title} of each ${group.title.toLowerCase()}`}
                  rows={rows}
                  columns={[
                    { title: group.title, show: (r) => (r.id === "none" || !member || (!log && accountId && ["agent", "endUser"].includes(group.id)) ? <span class={r.id === "none" ? "muted" : "breaks"}>{nameOf(r.id)}</span> : <a class="breaks" href={"#/" + calls({ [member]: r.id })}>{nameOf(r.id)}</a>) },
                    { title: metric.title, number: true, show: (r) => <span class="nowrap">{!timed(metric.id) && <Spark of={a.bars.map((_, i) => a.cells.find((c) => c.bar === i && c.group === r.id)?.value ?? 0)} />} {cell(r.value)}</span> },
                    ...(timed(metric.id) ? [] : [{ title: "Share", number: true, show: (r: { value: number }) => (a.all > 0 ? `${Math.round((100 * r.value) / a.all)} %` : "–") }]),
                    { title: "Before", number: true, show: (r) => (a.allBefore === undefined ? "–" : cell(r.before ?? 0)) },
                  ]}
                />
              </>
            );
          }}
        </States>
      </section>
      <p class="muted small">
        {log
          ? `From the request log: ${metric.id === "errors" ? "replies with an error, and streams that broke off" : "each call of the model endpoint, without the steps of agents"}. ${timed(metric.id) ? "Refused and failed calls do not count for times." : ""}`
          : `From the receipts of ${dayName(dayOf(at.from))} to today. Days are those of ${zone}.`}
      </p>
    </>
  );
}

// compare describes the change of a number from the previous range.
function compare(now: number, before: number, amount: (n: number) => string): string {
  if (before === 0) return "and nothing in the period before";
  const part = Math.round((100 * (now - before)) / before);
  return `${part === 0 ? "as much as" : part > 0 ? `${count(part)} % more than` : `${count(-part)} % less than`} in the period before (${amount(before)})`;
}
