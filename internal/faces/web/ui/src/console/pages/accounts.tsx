// For operators: customers' accounts, and a page for each: its credits, usage, ledger,
// keys and plan.
import { useState } from "preact/hooks";
import type { Account, AccountWithCredits, AccountWithKey, CreateAccount, CreateGrant, CreateWithdrawal, UpdateAccount, Withdrawal } from "../../lib/contract";
import { count, credits, isLow } from "../../lib/format";
import type { Credits, Key, KeyWithSecret } from "../../lib/types";
import { Effects } from "../parts/effects";
import { Amount, Badge, Button, Id, Time } from "../parts/basic";
import { Facts } from "../parts/facts";
import { Figure } from "../parts/figure";
import { TextField } from "../parts/fields";
import type { Choice } from "../parts/filter";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { Failure, States, useLoad } from "../parts/load";
import { Menu } from "../parts/menu";
import { useMeta } from "../parts/shared";
import { type Ends, ResourcePage, useDialogs, useResource } from "../parts/resource";
import { PlanField, toMicro, usePlanName } from "../parts/plan";
import { go, withFilter } from "../parts/router";
import { KeySecret } from "../parts/secret";
import { useSession } from "../parts/session";
import { Spent } from "../parts/spark";
import { Spend } from "../parts/spend";
import { Tabs } from "../parts/tabs";
import { toast } from "../parts/toast";
import { budgetsAt } from "./budgets";
import { History } from "./audit";
import { Ledger } from "./credits";
import { InviteCustomer } from "./invitecustomer";
import { MembersOf } from "./members";
import { keyColumns, MakeKey, Revoke, useRevoked } from "./keys";

export function Accounts({ rest }: { rest: string }) {
  const [id, tab] = rest.split("/");
  return id ? <One key={id} id={id} tab={tab ?? ""} /> : <All />;
}

const lows: Choice[] = [
  { id: "", title: "Any" },
  { id: "0.000001", title: "None left" },
  { id: "1", title: "Below 1 credit" },
  { id: "5", title: "Below 5 credits" },
  { id: "20", title: "Below 20 credits" },
  { id: "100", title: "Below 100 credits" },
];

function All() {
  const { may } = useSession();
  const planName = usePlanName();
  return (
    <ResourcePage<Account>
      title="Accounts"
      path="/accounts"
      limit={50}
      label="Accounts"
      search={{ name: "q", label: "Name, email or id" }}
      filters={[{ name: "low", label: "Credits left", choices: lows, param: (low) => (Number(low) > 0 ? { unspentBelowMicro: toMicro(low) } : {}) }]}
      empty={{ title: "No accounts" }}
      nothing="No matching accounts"
      onPick={(a) => go("accounts/" + a.id)}
      aside={may("operator:billing") && <InviteCustomer />}
      create={may("operator") && { title: "Create account", dialog: (ends) => <Make {...ends} /> }}
      columns={[
        {
          title: "Name",
          sort: "name",
          show: (a) => (
            <div>
              <a class="breaks" href={"#/accounts/" + a.id}>
                {a.name}
              </a>{" "}
              {a.suspended && <Badge meaning="failed">suspended</Badge>}
              {a.email && <div class="small muted breaks">{a.email}</div>}
            </div>
          ),
        },
        { title: "Plan", show: (a) => planName(a.plan) },
        {
          title: "Balance",
          sort: "balance",
          keep: 2,
          number: true,
          show: (a) => (
            <>
              <Low of={a.credits} /> <Amount of={a.credits.availableMicro} as="column" />
            </>
          ),
        },
        { title: "Spent, 30 days", sort: "spent", keep: 1, number: true, show: (a) => (a.spentByDayMicro ? <Spent of={a.spentByDayMicro} /> : <Amount of={a.spentLast30DaysMicro} as="column" />) },
        { title: "Last used", sort: "used", named: true, show: (a) => (a.lastUsedAt ? <Time at={a.lastUsedAt} /> : <span class="muted">never</span>) },
        { title: "Created", sort: "created", named: true, show: (a) => <Time at={a.createdAt} /> },
      ]}
    />
  );
}

// Low marks a balance that is empty or low.
function Low({ of: c }: { of: Credits }) {
  if (c.availableMicro <= 0) return <Badge meaning="failed">none</Badge>;
  return isLow(c.availableMicro, c.grantedMicro) ? <Badge meaning="warning">low</Badge> : null;
}

// showKey shows a new key instead of the form that created it.
const showKey = (key: KeyWithSecret, account: string | undefined, onNext: Ends["onNext"]) => onNext((ends) => <KeySecret of={key} account={account} onClose={ends.onClose} />);

function Make({ onClose, onNext }: Ends) {
  const { api } = useSession();
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [plan, setPlan] = useState("free");
  const [grant, setGrant] = useState("");
  const action = useAction();
  const submit = () =>
    action.run(async (once) => {
      const body: CreateAccount = { name: name.trim(), plan };
      if (email.trim()) body.email = email.trim();
      if (grant) body.grantMicro = toMicro(grant);
      showKey((await api.create<AccountWithKey>("/accounts", body, once)).key, body.name, onNext);
    });
  return (
    <FormDialog id="make-account" title="Create account" submit="Create the account" ready={!!name.trim()} action={action} onSubmit={submit} onClose={onClose}>
      <TextField id="account-name" label="Name" maxLength={200} value={name} onChange={setName} autofocus />
      <TextField id="account-email" label="Email" placeholder="none" type="email" value={email} onChange={setEmail} />
      <PlanField value={plan} onChange={setPlan} />
      <TextField id="account-grant" label="Starting credits" placeholder="none" type="number" min="0.000001" step="any" value={grant} onChange={setGrant} />
      <p class="small muted">The account gets a first key, which is shown once.</p>
    </FormDialog>
  );
}

const tabs = [
  { id: "usage", title: "Usage" },
  { id: "ledger", title: "Ledger" },
  { id: "keys", title: "Keys" },
  { id: "budgets", title: "Budgets" },
  { id: "members", title: "Members" },
  { id: "limits", title: "Limits" },
  { id: "history", title: "History" },
];

// One is the page of an account.
function One({ id, tab }: { id: string; tab: string }) {
  const { api, me, may, offers } = useSession();
  const planName = usePlanName();
  const account = useLoad((signal) => api.get<AccountWithCredits>("/accounts/" + encodeURIComponent(id), undefined, signal), [api, id]);
  const active = tabs.some((t) => t.id === tab) ? tab : "usage";
  const a = account.data;
  const dialogs = useDialogs<"topUp" | "withdraw" | "remove">(
    {
      remove: ({ onClose }) => <Remove of={account.data!} onClose={onClose} />,
      topUp: (ends) => <TopUp id={id} {...ends} />,
      withdraw: (ends) => <Withdraw id={id} {...ends} />,
    },
    account.reload,
  );
  return (
    <>
      <header class="head">
        <div>
          <p class="small muted">
            <a href="#/accounts">Accounts</a>
          </p>
          <div class="row">
            <h1 class="breaks">{a?.name ?? "Account"}</h1> {a?.suspended && <Badge meaning="failed">suspended</Badge>}
          </div>
        </div>
        <div class="push row">
          {a && may("operator:billing") && (
            <>
              <Button onClick={() => dialogs.open("withdraw")}>Withdraw</Button>
              <Button kind="main" icon="plus" onClick={() => dialogs.open("topUp")}>
                Top up
              </Button>
            </>
          )}
          {a && a.id !== me.id && may("operator") && <Menu label="More" items={[{ title: "Delete the account", danger: true, onClick: () => dialogs.open("remove") }]} />}
        </div>
      </header>
      <States of={account}>
        {(a) => (
          <>
            <p class="small muted">
              {a.email && <span class="breaks">{a.email} · </span>}
              <Id of={a.id} /> created <Time at={a.createdAt} />
            </p>
            <dl class="figures">
              <Figure
                title="Credits available"
                sub={
                  <>
                    <Amount of={a.credits.heldMicro} /> held
                    {!!a.credits.owedMicro && (
                      <>
                        , <Amount of={a.credits.owedMicro} /> owed
                      </>
                    )}
                  </>
                }
              >
                <Amount of={a.credits.availableMicro} /> <Low of={a.credits} />
              </Figure>
              <Figure
                title="Spent in 30 days"
                sub={
                  <>
                    <Amount of={a.credits.spentMicro} /> of <Amount of={a.credits.grantedMicro} /> in all
                  </>
                }
              >
                <Amount of={a.spentLast30DaysMicro} />
              </Figure>
              <Figure title="Last used" word sub={<a href={"#/" + withFilter("requests", { account: a.id })}>Its requests</a>}>
                {a.lastUsedAt ? <Time at={a.lastUsedAt} /> : "never"}
              </Figure>
              <Figure title="Plan" word sub={offers("getStatements") && <a href={"#/" + withFilter("invoices", { of: a.id })}>Its statements</a>}>
                {planName(a.plan)}
              </Figure>
            </dl>
            <section class="panel" aria-label="More of the account">
              <Tabs label="Account" tabs={tabs} active={active} onChange={(to) => go(`accounts/${id}/${to}`)} />
              {active === "ledger" && <Ledger key={a.credits.grantedMicro} account={a.id} />}
              {active === "keys" && <Keys id={a.id} />}
              {active === "budgets" && <AccountBudgets id={a.id} />}
              {active === "members" && <MembersOf account={a.id} />}
              {active === "history" && <History account={a.id} />}
              {active === "limits" && <Limits of={a} onDone={account.reload} />}
              {active === "usage" && <Spend account={a.id} />}
            </section>
          </>
        )}
      </States>
      {dialogs.dialog}
    </>
  );
}

// Remove deletes an account. Its name is typed, because everything of the account is lost.
function Remove({ of: a, onClose }: { of: AccountWithCredits; onClose: () => void }) {
  const { api } = useSession();
  const [typed, setTyped] = useState("");
  return (
    <ConfirmAction
      title={`Delete "${a.name}"?`}
      action="Delete the account"
      waits={typed.trim() !== a.name}
      work={() => api.remove("/accounts/" + a.id)}
      onDone={() => {
        toast("The account is deleted; its data is being erased");
        go("accounts");
      }}
      onClose={onClose}
    >
      <Effects of="account" id={a.id} />
      <p>Its keys end, and everything that its people, agents and calls have stored is erased: sessions, files, members, secrets and logs. Nobody can undo this.</p>
      <p>
        Receipts and the ledger stay without names.{" "}
        {a.credits.availableMicro > 0 && (
          <>
            <Amount of={a.credits.availableMicro} /> credits are left and cannot be used any more.
          </>
        )}{" "}
        Backups keep the data: see <a href="/docs/erasure">the guide</a>.
      </p>
      <TextField id="account-typed" label="Name of the account" hint={`Type ${a.name} to confirm.`} maxLength={200} value={typed} onChange={setTyped} autofocus />
    </ConfirmAction>
  );
}

function AccountBudgets({ id }: { id: string }) {
  const { may } = useSession();
  const { list, head, dialog } = useResource(budgetsAt(`/accounts/${id}/budgets`, may("operator"), may("operator")));
  return (
    <>
      <header>{head}</header>
      {list}
      {dialog}
    </>
  );
}

function TopUp({ id, onDone, onClose }: { id: string } & Ends) {
  const { api } = useSession();
  const [amount, setAmount] = useState("");
  const [reason, setReason] = useState("");
  const [reference, setReference] = useState("");
  const action = useAction();
  const submit = () =>
    action.run(async (once) => {
      const body: CreateGrant = { amountMicro: toMicro(amount) };
      if (reason.trim()) body.reason = reason.trim();
      if (reference.trim()) body.externalRef = reference.trim();
      await api.create(`/accounts/${id}/grants`, body, once);
      onDone("The credits are granted");
    });
  return (
    <FormDialog id="top-up" title="Top up" submit="Grant" ready={Number(amount) > 0} action={action} onSubmit={submit} onClose={onClose}>
      <div>
        <TextField id="grant" label="Credits" type="number" min="0.000001" step="any" value={amount} onChange={setAmount} autofocus />
        <div class="row quick">
          {[5, 20, 100, 500].map((n) => (
            <Button small onClick={() => setAmount(String(n))}>
              +{n}
            </Button>
          ))}
        </div>
      </div>
      <TextField id="reference" label="Reference of the payment" placeholder="none" hint="It counts once: sent again, it grants nothing more." maxLength={128} value={reference} onChange={setReference} />
      <TextField id="reason" label="Reason" placeholder="none" hint="The account's ledger shows it." maxLength={500} value={reason} onChange={setReason} />
    </FormDialog>
  );
}

function Withdraw({ id, onDone, onClose }: { id: string } & Ends) {
  const { api } = useSession();
  const [amount, setAmount] = useState("");
  const [reference, setReference] = useState("");
  const [reason, setReason] = useState("");
  const action = useAction();
  const submit = () =>
    action.run(async (once) => {
      const body: CreateWithdrawal = { amountMicro: toMicro(amount), externalRef: reference.trim(), reason: reason.trim() || null };
      const made = await api.create<Withdrawal>(`/accounts/${id}/withdrawals`, body, once);
      onDone(made.owedMicro > 0 ? `${credits(made.takenMicro)} credits are withdrawn, ${credits(made.owedMicro)} are owed` : "The credits are withdrawn");
    });
  return (
    <FormDialog id="withdraw" title="Withdraw credits" submit="Withdraw" ready={Number(amount) > 0 && !!reference.trim()} action={action} onSubmit={submit} onClose={onClose}>
      <TextField id="withdraw-amount" label="Credits" hint="Credits that are already spent are owed; later grants pay them first." type="number" min="0.000001" step="any" value={amount} onChange={setAmount} />
      <TextField id="withdraw-reference" label="Reference" hint="Such as the id of a refund. It counts once." maxLength={128} value={reference} onChange={setReference} />
      <TextField id="withdraw-reason" label="Reason" hint="The account's ledger shows it." maxLength={500} value={reason} onChange={setReason} />
    </FormDialog>
  );
}

function Keys({ id }: { id: string }) {
  const { may } = useSession();
  const revoked = useRevoked();
  const { list, head, dialog } = useResource<Key>({
    path: "/keys",
    query: { accountId: id, ...revoked.query },
    aside: revoked.choice,
    limit: 50,
    label: "Keys",
    search: { name: "key", label: "Name or id", param: (q) => ({ q }) },
    nothing: "No matching keys",
    empty: revoked.empty,
    columns: keyColumns,
    sortName: "keys",
    heads: true,
    actions: [{ title: "Revoke", kind: "danger", when: (k) => k.status !== "revoked" && may("keys:write"), dialog: (ends, k) => <Revoke of={k} {...ends} /> }],
    create: may("operator") && { title: "Create key", look: "plain", dialog: ({ onClose, onNext }) => <MakeKey path={`/accounts/${id}/keys`} onClose={onClose} onDone={(made) => showKey(made, undefined, onNext)} /> },
  });
  return (
    <>
      <header>{head}</header>
      {list}
      {dialog}
    </>
  );
}

function Limits({ of: a, onDone }: { of: AccountWithCredits; onDone: () => void }) {
  const { api, me, may } = useSession();
  const meta = useMeta();
  const action = useAction({ repeats: true });
  const [newPlan, setNewPlan] = useState<string>(); // chosen, not yet confirmed
  const [suspending, setSuspending] = useState(false);
  const patch = (said: string, body: UpdateAccount) =>
    action.run(async () => {
      await api.patch("/accounts/" + a.id, body);
      toast(said);
      onDone();
    });
  const plan = meta.data?.plans.find((p) => p.id === a.plan);
  const most = (n: number | null) => (n === null ? <span class="muted">no limit</span> : count(n));
  const both = (key: number | null, all: number | null) => (key === null && all === null ? most(null) : <>{most(key)} a key, {most(all)} in all</>);
  return (
    <div class="body pad stack narrow">
      {may("operator:billing") && <PlanField hint="Applies from the next call." value={a.plan} onChange={setNewPlan} />}
      {plan && (
        <Facts
          of={[
            ["Models", plan.gatedModels ? "all models" : "standard models"],
            ["Requests per minute", both(plan.requestsPerMinute, plan.requestsPerMinutePerAccount)],
            ["Concurrent calls", both(plan.concurrentPerKey, plan.concurrentPerAccount)],
            ["Concurrent sessions", most(plan.activeSessions)],
          ]}
        />
      )}
      <p class="small muted">Keys can have lower limits; see Keys.</p>
      {a.id !== me.id && may("operator") && (
        <div class="row">
          {a.suspended ? (
            <Button disabled={action.busy} onClick={() => patch("The account is active again", { suspended: false })}>
              Resume the account
            </Button>
          ) : (
            <Button kind="danger" disabled={action.busy} onClick={() => setSuspending(true)}>
              Suspend the account
            </Button>
          )}
        </div>
      )}
      {action.problem && <Failure problem={action.problem} />}
      {newPlan && (
        <ConfirmAction
          title={`Change the plan of "${a.name}"?`}
          action="Change the plan"
          work={() => api.patch("/accounts/" + a.id, { plan: newPlan })}
          onDone={() => {
            setNewPlan(undefined);
            toast("The plan is changed");
            onDone();
          }}
          onClose={() => setNewPlan(undefined)}
        >
          <Effects of="account" id={a.id} change="plan" to={newPlan} />
          <p>The new plan applies from the next call.</p>
        </ConfirmAction>
      )}
      {suspending && (
        <ConfirmAction
          title={`Suspend "${a.name}"?`}
          action="Suspend"
          work={() => api.patch("/accounts/" + a.id, { suspended: true })}
          onDone={() => {
            setSuspending(false);
            toast("The account is suspended");
            onDone();
          }}
          onClose={() => setSuspending(false)}
        >
          <Effects of="account" id={a.id} change="suspend" />
          <p>Its keys stop working: calls, sessions and embedded chats are refused until you resume it. Nothing is deleted.</p>
        </ConfirmAction>
      )}
    </div>
  );
}
