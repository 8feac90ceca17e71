// Budgets: what subjects may spend in a period, with the state of their current periods.
import { useState } from "preact/hooks";
import type { Budget, BudgetWindow, CreateBudget, UpdateBudget } from "../../lib/contract";
import { credits } from "../../lib/format";
import { Amount, Badge, Notice, Time } from "../parts/basic";
import { Dialog } from "../parts/dialog";
import { SelectField, TextField } from "../parts/fields";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { type Ends, type Resource, ResourcePage, ResourcePanel } from "../parts/resource";
import { PickerField, type Source, sources } from "../parts/picker";
import { useSession } from "../parts/session";

const scopes: [Budget["scope"], string][] = [
  ["account", "The whole account"],
  ["member", "Member"],
  ["key", "Key"],
  ["agent", "Agent"],
  ["embed", "Embed"],
  ["end_user", "End user"],
];

const periods: [Budget["period"], string][] = [
  ["day", "Day"],
  ["week", "Week, from Monday"],
  ["month", "Month"],
  ["total", "In total"],
];

const caps: [Budget["atCap"], string][] = [
  ["shorten", "Replies are shortened"],
  ["refuse", "Calls are refused"],
];

const word = <V extends string>(list: [V, string][], value: V) => list.find(([v]) => v === value)![1];

export function Budgets() {
  const { may } = useSession();
  return <ResourcePage<Budget> title="Budgets" {...budgetsAt("/budgets", may("account:write"), may("operator"))} />;
}

// budgetsAt is the list of the budgets at a path: those of this account, or for operators of another one. Its members cannot change
// what an operator has set.
export function budgetsAt(path: string, writes: boolean, operates: boolean): Resource<Budget> {
  const mayChange = (b: Budget) => writes && (!b.setByOperator || operates);
  return {
    path,
    limit: 50,
    label: "Budgets",
    search: { name: "q", label: "Name or id of what is limited" },
    nothing: "No such budgets",
    create: writes && { title: "Create budget", dialog: (ends) => <BudgetForm path={path} {...ends} /> },
    empty: {
      title: "No budgets",
      text: (
        <>
          A budget limits what the account, a key, an agent or an end user spends in a period. See <a href="/docs/budgets">the guide</a>.
        </>
      ),
    },
    columns: (show) => [
      {
        title: "Limits",
        show: (b) => (
          <div>
            {b.subject === "*" ? `Each ${word(scopes, b.scope).toLowerCase()}` : b.subject ? <span class="breaks">{b.subjectName ?? b.subject}</span> : word(scopes, b.scope)}
            {b.subject && b.subject !== "*" && <div class="small muted">{word(scopes, b.scope).toLowerCase()}</div>}
            {b.setByOperator && <div class="small muted">set by the operator</div>}
          </div>
        ),
      },
      { title: "Period", show: (b) => word(periods, b.period).split(",")[0] },
      {
        title: "Used",
        keep: 1,
        show: (b) =>
          b.spentMicro === null ? (
            <button type="button" class="link" onClick={() => show(({ onClose }) => <Subjects of={b} onClose={onClose} />)}>
              see each
            </button>
          ) : (
            <Used spent={b.spentMicro} held={b.heldMicro ?? 0} limit={b.limitMicro} warnAt={Math.min(...b.notifyAt, 100)} />
          ),
      },
      { title: "Spent", number: true, show: (b) => (b.spentMicro === null ? <span class="muted">–</span> : <Amount of={b.spentMicro} as="column" />) },
      { title: "Limit", number: true, keep: 2, show: (b) => <Amount of={b.limitMicro} as="column" /> },
      { title: "At the limit", named: true, show: (b) => <span class="muted">{b.atCap === "refuse" ? "calls are refused" : "replies are shortened"}</span> },
      { title: "Resets", named: true, show: (b) => (b.resetsAt ? <Time at={b.resetsAt} /> : <span class="muted">never</span>) },
    ],
    actions: [
      { title: "Subjects", kind: "quiet", when: (b) => b.subject === "*", dialog: (ends, b) => <Subjects of={b} onClose={ends.onClose} /> },
      { title: "Edit", when: mayChange, dialog: (ends, b) => <BudgetForm path={path} of={b} {...ends} /> },
      { title: "Delete", kind: "danger", when: mayChange, dialog: (ends, b) => <Remove of={b} {...ends} /> },
    ],
  };
}

// Used shows the share of a limit that is spent or held, with a mark from a number of percent on.
function Used({ spent, held, limit, warnAt }: { spent: number; held: number; limit: number; warnAt: number }) {
  const percent = Math.floor((100 * (spent + held)) / limit);
  const text = `${credits(spent)} of ${credits(limit)} credits spent` + (held > 0 ? `, ${credits(held)} held` : "");
  const share = percent > 999 ? "> 999 %" : percent === 0 && spent + held > 0 ? "< 1 %" : `${percent} %`;
  return (
    <span class="meter" title={text}>
      <progress max={limit} value={Math.min(spent + held, limit)} aria-label={text} />
      {percent >= 100 ? <Badge meaning="failed">{share}</Badge> : percent >= warnAt ? <Badge meaning="warning">{share}</Badge> : <span class="small">{share}</span>}
    </span>
  );
}

function Subjects({ of, onClose }: { of: Budget; onClose: () => void }) {
  return (
    <Dialog title="Subjects in the current period" wide onClose={onClose}>
      <ResourcePanel<BudgetWindow>
        title=""
        path={`/budgets/${of.id}/windows`}
        limit={50}
        label="Subjects"
        empty={{ title: "No calls in this period" }}
        columns={[
          { title: "Subject", show: (w) => <span class="breaks">{w.subjectName ?? w.subject}</span> },
          { title: "Used", keep: 2, show: (w) => <Used spent={w.spentMicro} held={w.heldMicro} limit={w.limitMicro} warnAt={Math.min(...of.notifyAt, 100)} /> },
          { title: "Spent", number: true, show: (w) => <Amount of={w.spentMicro} as="column" /> },
          { title: "Limit", number: true, show: (w) => <Amount of={w.limitMicro} as="column" /> },
        ]}
      />
    </Dialog>
  );
}

// picks are the subjects that are chosen from a list, with the scope that lists them.
const picks: Partial<Record<Budget["scope"], { source: Source; scope: string }>> = {
  key: { source: sources.keys, scope: "keys:write" },
  agent: { source: sources.agents, scope: "agents:read" },
  member: { source: { path: "/members" }, scope: "account:read" },
};

// BudgetForm creates a budget, or changes the limit, the cap and the marks of one.
function BudgetForm({ path, of, onDone, onClose }: { path: string; of?: Budget } & Ends) {
  const { api, may } = useSession();
  const [scope, setScope] = useState<Budget["scope"]>(of?.scope ?? "account");
  const [subject, setSubject] = useState(of?.subject ?? "*");
  const [period, setPeriod] = useState<Budget["period"]>(of?.period ?? "month");
  const [zone, setZone] = useState(Intl.DateTimeFormat().resolvedOptions().timeZone);
  const [limit, setLimit] = useState(of ? String(of.limitMicro / 1e6) : "");
  const [atCap, setAtCap] = useState<Budget["atCap"]>(of?.atCap ?? "shorten");
  const [marks, setMarks] = useState((of?.notifyAt ?? [80, 100]).join(", "));
  const action = useAction();
  const pick = path === "/budgets" && picks[scope] && may(picks[scope].scope) ? picks[scope] : undefined; // the lists are of this account
  const submit = () =>
    action.run(async (once) => {
      const body: UpdateBudget = { limitMicro: Math.round(Number(limit) * 1e6), atCap, notifyAt: marks.split(/[\s,]+/).filter(Boolean).map(Number) };
      if (of) {
        await api.patch("/budgets/" + of.id, body);
        onDone("The budget is changed");
        return;
      }
      const made: CreateBudget = { ...body, limitMicro: body.limitMicro!, scope, period, timeZone: zone.trim() || null, subject: scope === "account" ? null : subject.trim() };
      await api.create<Budget>(path, made, once);
      onDone("The budget is created");
    });
  return (
    <FormDialog id="budget" title={of ? "Edit the budget" : "Create a budget"} submit={of ? "Save" : "Create"} ready={Number(limit) > 0} action={action} onSubmit={submit} onClose={onClose}>
      {!of && (
        <>
          <SelectField id="budget-scope" label="Limits" options={scopes} value={scope} onChange={(scope) => (setScope(scope), setSubject("*"))} />
          {pick && (
            <PickerField key={scope} id="budget-subject" label="Subject" hint="All: each one is limited separately." source={pick.source} fixed={[{ id: "*", title: "All" }]} value={subject} onChange={setSubject} />
          )}
          {scope !== "account" && !pick && <TextField id="budget-subject" label="Subject" hint="An id, or the name of an end user; * limits each one separately." maxLength={512} value={subject} onChange={setSubject} />}
          <SelectField id="budget-period" label="Period" options={periods} value={period} onChange={setPeriod} />
          {period !== "total" && <TextField id="budget-zone" label="Time zone" hint="Periods begin at its midnights." maxLength={64} value={zone} onChange={setZone} />}
        </>
      )}
      <TextField id="budget-limit" label="Limit, in credits" type="number" min="0.000001" step="any" value={limit} onChange={setLimit} />
      <SelectField id="budget-cap" label="At the limit" hint={atCap === "refuse" ? "A call is refused when less is left than it can cost with its longest reply, even if nothing was spent yet." : undefined} options={caps} value={atCap} onChange={setAtCap} />
      <TextField id="budget-marks" label="Notices" hint="Percent of the limit at which webhooks receive budget.threshold, such as 80, 100." value={marks} onChange={setMarks} />
      {of && <Notice>A lower limit applies immediately, except to credits that running calls have reserved.</Notice>}
    </FormDialog>
  );
}

function Remove({ of, ...ends }: { of: Budget } & Ends) {
  const { api } = useSession();
  return (
    <ConfirmAction title="Delete the budget?" action="Delete the budget" undo="The budget is deleted in 5 seconds" work={() => api.remove("/budgets/" + of.id)} said="The budget is deleted" {...ends}>
      <p>Calls are no longer limited, and the spend of the current period is lost.</p>
    </ConfirmAction>
  );
}
