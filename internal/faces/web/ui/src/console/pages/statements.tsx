// Statements: the statement of an account's month, and for operators a list of those of all accounts.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Statement, StatementCharge, StatementGrants, StatementList } from "../../lib/contract";
import { count, exactCredits, inputTime, of, utcDay } from "../../lib/format";
import { saveFile } from "../../lib/save";
import { Amount, Badge, Button, Id } from "../parts/basic";
import { Chart } from "../parts/chart";
import { Lines } from "../parts/facts";
import { Figure } from "../parts/figure";
import { Filters, Pick } from "../parts/filter";
import { asProblem, Empty, States, useLoad } from "../parts/load";
import { PickOf, sources } from "../parts/picker";
import { go, useFilter, withFilter } from "../parts/router";
import { useSession } from "../parts/session";
import { orderOf, Pages, type Sorting, Table, useList } from "../parts/table";
import { toast } from "../parts/toast";

const most = 24; // months to choose from

// months returns the months up to the current one, newest first.
function months(now = new Date()): string[] {
  return Array.from({ length: most }, (_, i) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - i)).toISOString().slice(0, 7));
}

const nameIn = (length: "long" | "short") => {
  const format = new Intl.DateTimeFormat("en-GB", { month: length, year: "numeric", timeZone: "UTC" });
  return (month: string): string => format.format(new Date(month + "-01T00:00:00Z"));
};
const named = nameIn("long");
const short = nameIn("short");

export function Statements() {
  const { api, may } = useSession();
  const [filter, change] = useFilter();
  const [busy, setBusy] = useState(false);
  const list = months();
  const month = filter.month ?? list[0]!;
  const operates = may("operator:read");
  const whose = operates ? (filter.of ?? "*") : "own";
  const accountId = whose === "own" ? undefined : whose;
  const save = async () => {
    setBusy(true);
    try {
      const reply = await api.raw("GET", "/statements/" + month, { query: { format: "csv", accountId } });
      saveFile(await reply.blob(), `statements-${month}.csv`);
    } catch (error) {
      toast("Nothing was saved: " + asProblem(error).message, "failed");
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <header class="head">
        <h1>Statements</h1>
        <div class="push row">
          {whose !== "*" && <Button onClick={() => print()}>Print</Button>}
          <Button icon="download" disabled={busy} onClick={save}>
            CSV
          </Button>
        </div>
      </header>
      <section class="panel" aria-label="Which statements">
        <Filters names={["month", "of"]} filter={filter} change={change}>
          <Pick name="month" label="Month" filter={{ ...filter, month }} change={change} choices={list.map((id) => ({ id, title: short(id) }))} />
          {operates && (
            <PickOf
              name="of"
              label="Account"
              source={sources.accounts}
              filter={filter}
              change={change}
              fixed={[
                { id: "", title: "All accounts" },
                { id: "own", title: "This account" },
              ]}
            />
          )}
        </Filters>
      </section>
      {accountId === "*" ? <All month={month} /> : <One key={month + whose} month={month} accountId={accountId} />}
      <p class="muted small">Months and days are those of UTC. Three days after its month a statement is final and never changes again.</p>
    </>
  );
}

// monthEnd returns the end of a month.
const monthEnd = (month: string): Date => new Date(Date.UTC(Number(month.slice(0, 4)), Number(month.slice(5)), 1));

function All({ month }: { month: string }) {
  const [filter, change] = useFilter();
  const order = filter.order || "charged";
  const pages = useList<Statement>("/statements/" + month, 50, undefined, { accountId: "*", charges: "with", ...orderOf(order) });
  const first = pages.first.data as StatementList | undefined;
  return (
    <>
      {!pages.first.problem && <Sums month={month} of={first && (first.totals ?? [])} />}
      <section class="panel" aria-label="Statements">
        <Listed month={month} of={pages} label="Statements" sorting={{ order, change: (order) => change({ order }) }} />
      </section>
      {!!first?.uncharged && <Uncharged key={month} month={month} n={first.uncharged} />}
    </>
  );
}

// Uncharged lists the accounts without charges when it is opened.
function Uncharged({ month, n }: { month: string; n: number }) {
  const [open, setOpen] = useState(false);
  const pages = useList<Statement>(open ? "/statements/" + month : undefined, 50, undefined, { accountId: "*", charges: "without", sort: "charged" });
  return (
    <details class="panel folded" onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{of(n, "account")} without charges</summary>
      {open && <Listed month={month} of={pages} label="Accounts without charges" />}
    </details>
  );
}

function Listed({ month, of: pages, label, sorting }: { month: string; of: ReturnType<typeof useList<Statement>>; label: string; sorting?: Sorting }) {
  const link = (s: Statement) => withFilter("invoices", { month, of: s.accountId });
  return (
    <Pages
      of={pages}
      label={label}
      onPick={(s) => go(link(s))}
      sorting={sorting}
      csv={false}
      empty={<Empty title="No account was charged in this month" />}
      columns={[
        { title: "Account", show: (s) => <a class="breaks" href={"#/" + link(s)}>{s.accountName || "Deleted account"}</a> },
        { title: "Models", keep: 1, show: (s) => <Models of={s} /> },
        { title: "Calls", number: true, show: (s) => count(s.charges.reduce((sum, c) => sum + c.calls, 0)) },
        { title: "Charged", sort: "charged", number: true, keep: 3, show: (s) => <Amount of={s.chargedMicro} as="column" /> },
        { title: "Closing balance", number: true, keep: 2, show: (s) => <Amount of={s.closingMicro} as="column" /> },
        { title: "State", keep: 1, show: (s) => <State of={s} /> },
      ]}
    />
  );
}

// Models shows the model that cost most, and how many others there are.
function Models({ of: s }: { of: Statement }) {
  const [first, ...others] = s.charges.toSorted((a, b) => b.amountMicro - a.amountMicro);
  if (!first) return <span class="muted">–</span>;
  return (
    <span title={[first, ...others].map((c) => `${c.model}: ${exactCredits(c.amountMicro)}`).join("\n")}>
      {first.model}
      {others.length > 0 && <span class="muted"> and {of(others.length, "other")}</span>}
    </span>
  );
}

// Sums shows what all accounts were charged in a month: the charges by model.
function Sums({ month, of: models }: { month: string; of?: StatementCharge[] }) {
  const sum = (of: "calls" | "inputTokens" | "outputTokens" | "amountMicro") => models?.reduce((sum, m) => sum + m[of], 0) ?? 0;
  const charged = sum("amountMicro");
  const first = models?.toSorted((a, b) => b.amountMicro - a.amountMicro)[0];
  return (
    <dl class="figures">
      <Figure title="Charged to all accounts" sub={`${named(month)}${monthEnd(month).getTime() > Date.now() ? ", so far" : ""}`}>
        {models ? <Amount of={charged} /> : "–"}
      </Figure>
      <Figure title="Calls" sub={models && of(sum("inputTokens") + sum("outputTokens"), "token")}>
        {models ? count(sum("calls")) : "–"}
      </Figure>
      <Figure title="Largest model" word sub={first && charged > 0 && `${Math.round((100 * first.amountMicro) / charged)} % of the credits`}>
        {first?.model ?? "–"}
      </Figure>
    </dl>
  );
}

const State = ({ of }: { of: Statement }) => (of.final ? <Badge meaning="ok">final</Badge> : <span class="muted">open</span>);

const kinds: Record<string, string> = { grant: "Grants", withdrawal: "Withdrawals", repayment: "Repayments of what was owed", plan: "Included in the plan", plan_end: "Plan credits that were not spent" };

function One({ month, accountId }: { month: string; accountId?: string }) {
  const { api } = useSession();
  const loaded = useLoad((signal) => api.get<StatementList>("/statements/" + month, { accountId }, signal), [api]);
  return (
    <States of={loaded} lines={6}>
      {(l) => {
        const s = l.data[0]!;
        const days = Math.round((new Date(s.to).getTime() - new Date(s.from).getTime()) / 86_400_000);
        const bars = Array.from({ length: days }, (_, i) => `${month}-${String(i + 1).padStart(2, "0")}`)
          .filter((day) => day <= utcDay(0))
          .map((day) => ({ day, parts: Object.fromEntries(s.charges.filter((c) => c.day === day).map((c) => [c.model, c.amountMicro])) }));
        const line = (g: StatementGrants, sign: number): [string, number] => [kinds[g.kind] ?? g.kind, sign * g.amountMicro];
        const lines: [string, number][] = [["Opening balance", s.openingMicro], ...s.grants.map((g) => line(g, 1)), ...s.withdrawals.map((g) => line(g, -1)), [`Charged for ${of(byModel(s).at(-1)!.calls, "call")}`, -s.chargedMicro]];
        return (
          <>
            <div class="cockpit">
              <section class="panel" aria-labelledby="by-day">
                <header>
                  <h2 id="by-day">Credits by day and model</h2>
                </header>
                {s.charges.length === 0 ? (
                  <Empty title="No charges in this month" />
                ) : (
                  <div class="body">
                    <Chart label="Credits by day and model" bars={bars} unit="Credits" amount={exactCredits} />
                  </div>
                )}
              </section>
              <section class="panel" aria-labelledby="statement">
                <header>
                  <h2 id="statement" class="breaks">
                    {s.accountName || "Deleted account"}, {named(month)}
                  </h2>
                  <span class="push small">
                    <State of={s} />
                  </span>
                </header>
                <div class="body stack">
                  <Lines of={[...lines, ["Closing balance", s.closingMicro]]} />
                  <div class="small">
                    <Id of={s.accountId} />
                  </div>
                </div>
              </section>
            </div>
            {s.charges.length > 0 && (
              <section class="panel" aria-label="Charges by model">
                <Table
                  label="Charges by model"
                  rows={byModel(s)}
                  columns={[
                    { title: "Model", show: (c) => (c.all ? <b>{c.model}</b> : <a class="breaks" href={"#/" + withFilter("credits/receipts", { range: "custom", from: inputTime(s.from), to: inputTime(s.to), model: c.model, account: accountId ?? "" })}>{c.model}</a>) },
                    { title: "Calls", number: true, show: (c) => <Sum all={c.all}>{count(c.calls)}</Sum> },
                    { title: "Input tokens", number: true, show: (c) => <Sum all={c.all}>{count(c.inputTokens)}</Sum> },
                    { title: "Output tokens", number: true, show: (c) => <Sum all={c.all}>{count(c.outputTokens)}</Sum> },
                    { title: "Credits", number: true, keep: 1, show: (c) => <Sum all={c.all}><Amount of={c.amountMicro} as="ledger" /></Sum> },
                  ]}
                />
              </section>
            )}
          </>
        );
      }}
    </States>
  );
}

const Sum = ({ all, children }: { all: boolean; children: ComponentChildren }) => (all ? <b>{children}</b> : <>{children}</>);

// byModel returns the charges by model, the largest first, and their sum.
function byModel(s: Statement) {
  const none = { calls: 0, inputTokens: 0, outputTokens: 0, amountMicro: 0 };
  const total = { id: "total", model: "Total", all: true, ...none };
  const models = new Map<string, typeof total>();
  for (const c of s.charges) {
    const row = models.get(c.model) ?? { id: c.model, model: c.model, all: false, ...none };
    models.set(c.model, row);
    for (const sum of [row, total]) for (const name of Object.keys(none) as (keyof typeof none)[]) sum[name] += c[name];
  }
  return [...[...models.values()].sort((a, b) => b.amountMicro - a.amountMicro), total];
}
