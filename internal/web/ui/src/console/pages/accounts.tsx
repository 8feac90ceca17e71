// For operators: customers' accounts, and a page for each: its credits, usage, ledger,
// keys and plan.
import { useState } from "preact/hooks";
import type { Account, AccountWithCredits, AccountWithKey, CreateAccount, CreateGrant, UpdateAccount } from "../../lib/contract";
import { count, isLow } from "../../lib/format";
import type { Credits, Key, KeyWithSecret, Meta } from "../../lib/types";
import { Amount, Badge, Button, Field, Id, Time } from "../parts/basic";
import { type Choice, Filters, Pick, Text } from "../parts/filter";
import { FormDialog, useAction } from "../parts/form";
import { Empty, Failure, States, useLoad } from "../parts/load";
import { MissingScope } from "../parts/missing";
import { KeySecret } from "../parts/secret";
import { Spend } from "../parts/spend";
import { Pages, useList } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { toast } from "../parts/toast";
import { go, useFilter, withFilter } from "../router";
import { useSession } from "../session";
import { Ledger } from "./credits";
import { keyColumns, MakeKey, Revoke } from "./keys";

export function Accounts({ rest }: { rest: string }) {
  const { may } = useSession();
  const [id, tab] = rest.split("/");
  if (!may("operator")) {
    return (
      <>
        <header class="head">
          <h1>Accounts</h1>
        </header>
        <MissingScope scope="operator" what="run the service" />
      </>
    );
  }
  return id ? <One key={id} id={id} tab={tab ?? ""} /> : <All />;
}

const names = ["q", "low", "order"];
const lows: Choice[] = [
  { id: "", title: "Any" },
  { id: "0.000001", title: "None left" },
  { id: "1", title: "Below 1 credit" },
  { id: "5", title: "Below 5 credits" },
  { id: "20", title: "Below 20 credits" },
  { id: "100", title: "Below 100 credits" },
];
const orders: Choice[] = [
  { id: "", title: "Newest first" },
  { id: "asc", title: "Oldest first" },
];

function All() {
  const [filter, change] = useFilter();
  const pages = useList<Account>("/accounts", 50, undefined, { q: filter.q, unspentBelowMicro: Number(filter.low) > 0 ? String(toMicro(filter.low!)) : undefined, order: filter.order });
  const [making, setMaking] = useState(false);
  const [shown, setShown] = useState<KeyWithSecret>();
  return (
    <>
      <header class="head">
        <h1>Accounts</h1>
        <div class="push">
          <Button kind="main" icon="plus" onClick={() => setMaking(true)}>
            Create account
          </Button>
        </div>
      </header>
      <section class="panel" aria-label="Accounts">
        <Filters names={names} filter={filter} change={change}>
          <Text name="q" label="Name, email or id" kind="search" filter={filter} change={change} />
          <Pick name="low" label="Credits left" filter={filter} change={change} choices={lows} />
          <Pick name="order" label="Order" filter={filter} change={change} choices={orders} />
        </Filters>
        <Pages
          of={pages}
          label="Accounts"
          empty={<Empty title={names.some((n) => filter[n]) ? "No account fits these filters" : "No accounts"} />}
          onPick={(a) => go("accounts/" + a.id)}
          columns={[
            {
              title: "Name",
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
            { title: "Plan", show: (a) => a.plan },
            {
              title: "Balance",
              number: true,
              show: (a) => (
                <>
                  <Low of={a.credits} /> <Amount of={a.credits.availableMicro} as="column" />
                </>
              ),
            },
            { title: "Spent 30 days", number: true, show: (a) => <Amount of={a.spentLast30DaysMicro} as="column" /> },
            { title: "Last use", show: (a) => (a.lastUsedAt ? <Time at={a.lastUsedAt} /> : <span class="muted">never</span>) },
            { title: "Since", show: (a) => <Time at={a.createdAt} /> },
          ]}
        />
      </section>
      {making && (
        <Make
          onClose={() => setMaking(false)}
          onDone={(key) => {
            setMaking(false);
            setShown(key);
            pages.first.reload();
          }}
        />
      )}
      {shown && <KeySecret of={shown} onClose={() => setShown(undefined)} />}
    </>
  );
}

// Low marks a balance that is at its end, or nearly so.
function Low({ of: c }: { of: Credits }) {
  if (c.availableMicro <= 0) return <Badge meaning="failed">none</Badge>;
  return isLow(c.availableMicro, c.grantedMicro) ? <Badge meaning="waiting">low</Badge> : null;
}

function PlanSelect({ value, onChange }: { value: string; onChange: (plan: string) => void }) {
  const { api } = useSession();
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  const plans = meta.data?.plans ?? [];
  return (
    <select id="plan" class="input" value={value} onChange={(e) => onChange(e.currentTarget.value)}>
      {!plans.some((p) => p.id === value) && <option value={value}>{value}</option>}
      {plans.map((p) => (
        <option value={p.id}>
          {p.name}
          {p.gatedModels ? ": all models" : ""}
        </option>
      ))}
    </select>
  );
}

// toMicro converts an amount of credits as typed to micro-credits.
const toMicro = (text: string): number => Math.round(Number(text) * 1e6);

function Make({ onClose, onDone }: { onClose: () => void; onDone: (key: KeyWithSecret) => void }) {
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
      onDone((await api.create<AccountWithKey>("/accounts", body, once)).key);
    });
  return (
    <FormDialog id="make-account" title="Create account" submit="Create the account" ready={!!name.trim()} action={action} onSubmit={submit} onClose={onClose}>
      <Field id="account-name" label="Name">
        <input id="account-name" class="input" maxLength={200} value={name} onInput={(e) => setName(e.currentTarget.value)} autofocus />
      </Field>
      <Field id="account-email" label="Email" hint="May be empty.">
        <input id="account-email" class="input" type="email" value={email} onInput={(e) => setEmail(e.currentTarget.value)} aria-describedby="account-email-hint" />
      </Field>
      <Field id="plan" label="Plan">
        <PlanSelect value={plan} onChange={setPlan} />
      </Field>
      <Field id="account-grant" label="Credits to begin with" hint="Empty: none.">
        <input id="account-grant" class="input" type="number" min="0.000001" step="any" value={grant} onInput={(e) => setGrant(e.currentTarget.value)} aria-describedby="account-grant-hint" />
      </Field>
    </FormDialog>
  );
}

const tabs = [
  { id: "usage", title: "Usage" },
  { id: "ledger", title: "Ledger" },
  { id: "keys", title: "Keys" },
  { id: "limits", title: "Limits" },
];

// One is the page of an account.
function One({ id, tab }: { id: string; tab: string }) {
  const { api } = useSession();
  const account = useLoad((signal) => api.get<AccountWithCredits>("/accounts/" + encodeURIComponent(id), undefined, signal), [api, id]);
  const active = tabs.some((t) => t.id === tab) ? tab : "usage";
  const a = account.data;
  return (
    <>
      <header class="head">
        <h1 class="breaks">{a?.name ?? "Account"}</h1> {a?.suspended && <Badge meaning="failed">suspended</Badge>}
        <a class="push" href="#/accounts">
          All accounts
        </a>
      </header>
      <States of={account}>
        {(a) => (
          <>
            <dl class="figures">
              <div class="figure panel">
                <dt>Credits available</dt>
                <dd>
                  <Amount of={a.credits.availableMicro} as="exact" /> <Low of={a.credits} />
                </dd>
                <dd class="sub">
                  <Amount of={a.credits.heldMicro} /> held
                </dd>
              </div>
              <div class="figure panel">
                <dt>Spent in 30 days</dt>
                <dd>
                  <Amount of={a.spentLast30DaysMicro} as="exact" />
                </dd>
                <dd class="sub">
                  <Amount of={a.credits.spentMicro} /> of <Amount of={a.credits.grantedMicro} /> granted in all
                </dd>
              </div>
              <div class="figure panel">
                <dt>Last use</dt>
                <dd class="word">{a.lastUsedAt ? <Time at={a.lastUsedAt} /> : "never"}</dd>
                <dd class="sub">
                  <a href={"#/" + withFilter("requests", { account: a.id })}>Its requests</a>
                </dd>
              </div>
              <div class="figure panel">
                <dt>Account</dt>
                <dd class="word">{a.email ?? a.plan}</dd>
                <dd class="sub">
                  <Id of={a.id} />
                </dd>
              </div>
            </dl>
            <TopUp id={a.id} onDone={account.reload} />
            <section class="panel" aria-label="More of the account">
              <Tabs label="Account" tabs={tabs} active={active} onChange={(to) => go(`accounts/${id}/${to}`)} />
              {active === "ledger" && <Ledger key={a.credits.grantedMicro} account={a.id} />}
              {active === "keys" && <Keys id={a.id} />}
              {active === "limits" && <Limits of={a} onDone={account.reload} />}
            </section>
            {active === "usage" && <Spend account={a.id} />}
          </>
        )}
      </States>
    </>
  );
}

function TopUp({ id, onDone }: { id: string; onDone: () => void }) {
  const { api } = useSession();
  const [amount, setAmount] = useState("");
  const [reason, setReason] = useState("");
  const [reference, setReference] = useState("");
  const action = useAction({ repeats: true });
  const submit = () =>
    action.run(async (once) => {
      const body: CreateGrant = { amountMicro: toMicro(amount) };
      if (reason.trim()) body.reason = reason.trim();
      if (reference.trim()) body.externalRef = reference.trim();
      await api.create(`/accounts/${id}/grants`, body, once);
      setAmount("");
      setReason("");
      setReference("");
      toast("The credits are granted");
      onDone();
    });
  return (
    <section class="panel" aria-labelledby="top-up">
      <header>
        <h2 id="top-up">Top up</h2>
      </header>
      <form
        class="body stack"
        onSubmit={(e) => {
          e.preventDefault();
          void submit();
        }}
      >
        <div class="topup">
          <label class="filter">
            <span class="small muted">Credits</span>
            <input id="grant" class="input" type="number" min="0.000001" step="any" value={amount} onInput={(e) => setAmount(e.currentTarget.value)} />
          </label>
          <span class="row tight">
            {[5, 20, 100].map((credits) => (
              <Button small onClick={() => setAmount(String(credits))}>
                +{credits}
              </Button>
            ))}
          </span>
          <label class="filter">
            <span class="small muted">Reference of the payment</span>
            <input id="reference" class="input" maxLength={128} value={reference} onInput={(e) => setReference(e.currentTarget.value)} aria-describedby="reference-hint" />
          </label>
          <label class="filter">
            <span class="small muted">Reason</span>
            <input id="reason" class="input" maxLength={500} value={reason} onInput={(e) => setReason(e.currentTarget.value)} aria-describedby="reference-hint" />
          </label>
          <Button kind="main" type="submit" disabled={action.busy || !(Number(amount) > 0)}>
            Grant
          </Button>
        </div>
        <p class="small muted" id="reference-hint">
          Reference and reason may be empty; the account's ledger shows the reason. A reference counts once: sent again, it grants nothing more.
        </p>
        {action.problem && <Failure problem={action.problem} />}
      </form>
    </section>
  );
}

function Keys({ id }: { id: string }) {
  const { me, may } = useSession();
  const pages = useList<Key>("/keys", 50, undefined, { accountId: id });
  const [making, setMaking] = useState(false);
  const [shown, setShown] = useState<KeyWithSecret>();
  const [revoking, setRevoking] = useState<Key>();
  return (
    <>
      <Pages
        of={pages}
        label="Keys"
        empty={<Empty title="No keys" />}
        columns={[
          ...keyColumns,
          {
            title: "",
            show: (k) =>
              k.status !== "revoked" &&
              may("keys:write") && (
                <Button small kind="danger" onClick={() => setRevoking(k)}>
                  Revoke
                </Button>
              ),
          },
        ]}
      />
      <div class="pad">
        <Button icon="plus" onClick={() => setMaking(true)}>
          Create key
        </Button>
      </div>
      {making && (
        <MakeKey
          path={`/accounts/${id}/keys`}
          onClose={() => setMaking(false)}
          onDone={(made) => {
            setMaking(false);
            setShown(made);
            pages.first.reload();
          }}
        />
      )}
      {revoking && (
        <Revoke
          of={revoking}
          mine={revoking.id === me.key.id}
          onClose={() => setRevoking(undefined)}
          onDone={() => {
            setRevoking(undefined);
            pages.first.reload();
          }}
        />
      )}
      {shown && <KeySecret of={shown} onClose={() => setShown(undefined)} />}
    </>
  );
}

function Limits({ of: a, onDone }: { of: AccountWithCredits; onDone: () => void }) {
  const { api, me } = useSession();
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  const action = useAction({ repeats: true });
  const patch = (said: string, body: UpdateAccount) =>
    action.run(async () => {
      await api.patch("/accounts/" + a.id, body);
      toast(said);
      onDone();
    });
  const plan = meta.data?.plans.find((p) => p.id === a.plan);
  const most = (n: number | null) => (n === null ? <span class="muted">no limit</span> : count(n));
  return (
    <div class="body pad stack">
      <Field id="plan" label="Plan" hint="Holds from the next call on.">
        <PlanSelect value={a.plan} onChange={(plan) => patch("The plan is changed", { plan })} />
      </Field>
      {plan && (
        <dl class="facts">
          <dt>Models</dt>
          <dd>{plan.gatedModels ? "all models" : "standard models"}</dd>
          <dt>Requests a minute</dt>
          <dd>
            {most(plan.requestsPerMinute)} a key, {most(plan.requestsPerMinutePerAccount)} in all
          </dd>
          <dt>Calls at once</dt>
          <dd>
            {most(plan.concurrentPerKey)} a key, {most(plan.concurrentPerAccount)} in all
          </dd>
          <dt>Sessions at once</dt>
          <dd>{most(plan.activeSessions)}</dd>
        </dl>
      )}
      <p class="small muted">Keys may have closer limits of their own; they are under Keys.</p>
      {a.id !== me.id && (
        <div class="row">
          {a.suspended ? (
            <Button disabled={action.busy} onClick={() => patch("The account is active again", { suspended: false })}>
              Resume the account
            </Button>
          ) : (
            <Button kind="danger" disabled={action.busy} onClick={() => patch("The account is suspended", { suspended: true })}>
              Suspend the account
            </Button>
          )}
        </div>
      )}
      {action.problem && <Failure problem={action.problem} />}
    </div>
  );
}
