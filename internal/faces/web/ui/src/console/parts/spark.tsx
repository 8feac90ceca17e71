// The credits that agents or keys spent in the last 30 days, as a number and a small chart in their rows.
import { Problem } from "../../lib/api";
import { dayOf, midnight, zone } from "../../lib/format";
import type { UsageReport, UsageRow } from "../../lib/types";
import { Amount } from "./basic";
import { useLoad } from "./load";
import { useSession } from "./session";
import type { Column } from "./table";

// Spark draws a bar for each number. It is decoration: the text next to it or the page Usage has the
// same numbers.
export function Spark({ of }: { of: number[] }) {
  const most = Math.max(...of);
  const slot = 60 / of.length;
  return (
    <svg class="spark" width={60} height={16} aria-hidden="true">
      {most > 0 && (
        <>
          <line y1={15.5} x2={60} y2={15.5} />
          <path stroke-width={slot * 0.7} d={of.map((n, i) => (n > 0 ? `M${(slot * (i + 0.5)).toFixed(1)} 16v-${Math.max((15 * n) / most, 1).toFixed(1)}` : "")).join("")} />
        </>
      )}
    </svg>
  );
}

const days = 30;

// Spent shows the amounts of the last 30 days as a chart, and their sum. A further amount is only added to the sum.
export const Spent = ({ of }: { of: number[] }) => (
  <span class="nowrap">
    <Spark of={of.length > days ? [0] : of} /> <Amount of={of.reduce((a, b) => a + b, 0)} as="column" />
  </span>
);

// useSpent returns the column of the credits that each row spent in the last 30 days, from one
// report; none if the key cannot read it. With very many rows the report has no days.
export function useSpent<T extends { id: string }>(group: "agent" | "key"): Column<T>[] {
  const { api, may, offers } = useSession();
  const reads = may("usage:read") && offers("getUsage");
  const from = midnight(Date.now(), 1 - days);
  const usage = useLoad(
    async (signal) => {
      if (!reads) return new Map<string, number[]>();
      const ask = (groupBy: string) => api.get<UsageReport>("/usage", { from: new Date(from).toISOString(), groupBy, timeZone: zone }, signal);
      const report = await ask("day," + group).catch((error) => {
        if (error instanceof Problem && error.status === 400) return ask(group); // too many groups
        throw error;
      });
      const at = new Map(Array.from({ length: days }, (_, i) => [dayOf(midnight(from, i)), i]));
      const spent = new Map<string, number[]>();
      for (const r of report.data as UsageRow[]) {
        const id = (group === "agent" ? r.agentId : r.keyId) ?? "";
        const row = spent.get(id) ?? Array.from({ length: days }, () => 0);
        row[at.get(r.day ?? "") ?? days] = r.creditsMicro; // after the days: the sum alone
        spent.set(id, row);
      }
      return spent;
    },
    [api],
  );
  if (!reads || usage.problem) return [];
  return [
    {
      title: "Credits, 30 days",
      sort: "spent",
      number: true,
      keep: 2,
      show: ({ id }) => (usage.data ? <Spent of={usage.data.get(id) ?? []} /> : <Spark of={[]} />),
    },
  ];
}
