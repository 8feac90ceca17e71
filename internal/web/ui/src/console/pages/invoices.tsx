// Invoices: the statement of a month, and for operators those of all customers by model.
import { useState } from "preact/hooks";
import type { Statement, StatementList } from "../../lib/contract";
import { count, day, of } from "../../lib/format";
import { saveFile } from "../../lib/save";
import { Amount, Badge, Button, Id } from "../parts/basic";
import { type Fact, Facts } from "../parts/facts";
import { Filters, Pick } from "../parts/filter";
import { asProblem, Empty, States, useLoad } from "../parts/load";
import { useFilter } from "../parts/router";
import { useSession } from "../parts/session";
import { Pages, Table, useList } from "../parts/table";
import { toast } from "../parts/toast";

const most = 24; // months to choose from

// months returns the months up to the current one, newest first.
function months(now = new Date()): string[] {
  return Array.from({ length: most }, (_, i) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - i)).toISOString().slice(0, 7));
}

const monthName = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });
const named = (month: string): string => monthName.format(new Date(month + "-01T00:00:00Z"));

export function Invoices() {
  const { api, may } = useSession();
  const [filter, change] = useFilter();
  const [busy, setBusy] = useState(false);
  const list = months();
  const month = filter.month ?? list[0]!;
  const all = may("operator:read") && filter.of !== "own";
  const accountId = all ? "*" : undefined;
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
        <h1>Invoices</h1>
        <div class="push">
          <Button icon="download" disabled={busy} onClick={save}>
            CSV
          </Button>
        </div>
      </header>
      <section class="panel" aria-label="Statements">
        <Filters names={["month", "of"]} filter={filter} change={change}>
          <Pick name="month" label="Month" filter={{ ...filter, month }} change={change} choices={list.map((id) => ({ id, title: named(id) }))} />
          {may("operator:read") && (
            <Pick
              name="of"
              label="Accounts"
              filter={filter}
              change={change}
              choices={[
                { id: "", title: "All accounts" },
                { id: "own", title: "This account" },
              ]}
            />
          )}
        </Filters>
        {all ? <All month={month} /> : <One month={month} />}
      </section>
      <p class="muted small">Months and days are those of UTC. Three days after its month a statement is final and never changes again.</p>
    </>
  );
}

function All({ month }: { month: string }) {
  const pages = useList<Statement>("/statements/" + month, 50, undefined, { accountId: "*" });
  return (
    <Pages
      of={pages}
      label="Accounts"
      empty={<Empty title="No account had credits in this month" />}
      columns={[
        { title: "Account", show: (s) => <a class="breaks" href={"#/accounts/" + s.accountId}>{s.accountName}</a> },
        {
          title: "Models",
          tall: true,
          show: (s) => (
            <div>
              {s.charges.map((c) => (
                <div>
                  <span class="breaks">{c.model}</span>{" "}
                  <span class="small muted nowrap">
                    {of(c.calls, "call")}, <Amount of={c.amountMicro} as="exact" />
                  </span>
                </div>
              ))}
            </div>
          ),
        },
        { title: "Charged", number: true, keep: 2, show: (s) => <Amount of={s.chargedMicro} as="ledger" /> },
        { title: "Closing balance", number: true, show: (s) => <Amount of={s.closingMicro} as="ledger" /> },
        { title: "State", show: (s) => <State of={s} /> },
      ]}
    />
  );
}

const State = ({ of }: { of: Statement }) => (of.final ? <Badge meaning="ok">final</Badge> : <Badge meaning="info">open</Badge>);

function One({ month }: { month: string }) {
  const { api } = useSession();
  const loaded = useLoad((signal) => api.get<StatementList>("/statements/" + month, undefined, signal), [api, month]);
  return (
    <States of={loaded}>
      {(l) => {
        const s = l.data[0]!;
        return (
          <>
            <div class="body stack">
              <Facts
                of={[
                  ["Account", <Id of={s.accountId} />],
                  ["State", <State of={s} />],
                  ["Opening balance", <Amount of={s.openingMicro} as="exact" />],
                  ...s.grants.map((g): Fact => [`Granted: ${g.kind}`, <Amount of={g.amountMicro} as="exact" />]),
                  ...s.withdrawals.map((g): Fact => [`Withdrawn: ${g.kind}`, <Amount of={-g.amountMicro} as="exact" />]),
                  ["Charged", <Amount of={-s.chargedMicro} as="exact" />],
                  ["Closing balance", <Amount of={s.closingMicro} as="exact" />],
                ]}
              />
            </div>
            {s.charges.length === 0 ? (
              <Empty title="No charges in this month" />
            ) : (
              <Table
                label="Charges by day and model"
                rows={s.charges}
                columns={[
                  { title: "Day", show: (c) => <span class="nowrap">{day(c.day!)}</span> },
                  { title: "Model", grows: true, show: (c) => <span class="breaks">{c.model}</span> },
                  { title: "Calls", number: true, show: (c) => count(c.calls) },
                  { title: "Input", number: true, show: (c) => count(c.inputTokens) },
                  { title: "Output", number: true, show: (c) => count(c.outputTokens) },
                  { title: "Credits", number: true, show: (c) => <Amount of={c.amountMicro} as="ledger" /> },
                ]}
              />
            )}
          </>
        );
      }}
    </States>
  );
}
