// Credits by day and model: a panel for the own account, and for operators the content of a panel
// for another.
import { useState } from "preact/hooks";
import { credits, dayOf, midnight, of, zone } from "../../lib/format";
import type { UsageReport } from "../../lib/types";
import { useSession } from "./session";
import { useScope } from "./scope";
import { Amount } from "./basic";
import { Chart } from "./chart";
import { Empty, States, useLoad } from "./load";
import { Tabs } from "./tabs";

const spans = [
  { id: "7", title: "7 days" },
  { id: "14", title: "14 days" },
  { id: "30", title: "30 days" },
];

export function Spend({ account }: { account?: string }) {
  const { api } = useSession();
  const scope = useScope();
  const [span, setSpan] = useState("14");
  const usage = useLoad(
    (signal) => api.get<UsageReport>("/usage", { from: new Date(midnight(Date.now(), 1 - Number(span))).toISOString(), groupBy: "day,model", timeZone: zone, accountId: account ?? scope.accountId }, signal),
    [api, span, account, scope.all],
  );
  const content = (
    <>
      <header>
        <h2 id="spend">Credits by day and model</h2>
        <div class="push">
          <Tabs label="Span of time" tabs={spans} active={span} onChange={setSpan} />
        </div>
      </header>
      <States of={usage} lines={5}>
        {(report) => {
          if (report.data.length === 0) {
            return (
              <Empty title="Nothing was spent in this time">
                <p>Spend by day and model appears here.</p>
                {!account && (
                  <a class="button" href="#/playground">
                    Try a model
                  </a>
                )}
              </Empty>
            );
          }
          const days = Array.from({ length: Number(span) }, (_, i) => dayOf(midnight(Date.now(), i + 1 - Number(span))));
          const bars = days.map((day) => ({
            day,
            parts: Object.fromEntries(report.data.filter((r) => r.day === day).map((r) => [r.model ?? "", r.creditsMicro])),
          }));
          return (
            <div class="body">
              <p class="muted small">
                <Amount of={report.totals.creditsMicro} /> credits for {of(report.totals.calls, "call")} and {of(report.totals.totalTokens, "token")}{!account && scope.label("")}. Days are those of {zone}.
              </p>
              <Chart label="Credits by day and model" bars={bars} unit="Credits" amount={credits} />
            </div>
          );
        }}
      </States>
    </>
  );
  if (account) return content;
  return (
    <section class="panel" aria-labelledby="spend">
      {content}
    </section>
  );
}
