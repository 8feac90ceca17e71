// For operators: customers' accounts, their credits, plans and first keys.
import { useState } from "preact/hooks";
import type { Account, AccountWithCredits, AccountWithKey, CreateAccount, CreateGrant } from "../../lib/contract";
import type { KeyWithSecret, Meta } from "../../lib/types";
import { Amount, Badge, Button, Field, Id, Time } from "../parts/basic";
import { Dialog } from "../parts/dialog";
import { FormDialog, useAction } from "../parts/form";
import { Empty, Failure, Skeleton, useLoad } from "../parts/load";
import { MissingScope } from "../parts/missing";
import { Secret } from "../parts/secret";
import { Pages, useList } from "../parts/table";
import { toast } from "../parts/toast";
import { withFilter } from "../router";
import { useSession } from "../session";

export function Accounts() {
  const { may } = useSession();
  const operates = may("operator");
  const pages = useList<Account>(operates ? "/accounts" : undefined, 50);
  const [making, setMaking] = useState(false);
  const [open, setOpen] = useState<string>();
  const [shown, setShown] = useState<KeyWithSecret>();
  return (
    <>
      <header class="head">
        <h1>Accounts</h1>
        {operates && (
          <div class="push">
            <Button kind="main" icon="plus" onClick={() => setMaking(true)}>
              Create account
            </Button>
          </div>
        )}
      </header>
      {operates ? (
        <section class="panel">
          <Pages
            of={pages}
            label="Accounts"
            empty={<Empty title="No accounts" />}
            columns={[
              {
                title: "Name",
                show: (a) => (
                  <>
                    <button type="button" class="link" onClick={() => setOpen(a.id)}>
                      {a.name}
                    </button>
                    {a.email && <div class="small muted">{a.email}</div>}
                  </>
                ),
              },
              { title: "Plan", show: (a) => a.plan },
              { title: "State", show: (a) => (a.suspended ? <Badge meaning="failed">suspended</Badge> : <Badge meaning="ok">active</Badge>) },
              { title: "Since", show: (a) => <Time at={a.createdAt} /> },
            ]}
          />
        </section>
      ) : (
        <MissingScope scope="operator" what="run the service" />
      )}
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
      {open && <Details id={open} onClose={() => setOpen(undefined)} onChanged={pages.first.reload} />}
      {shown && <Secret of={shown} onClose={() => setShown(undefined)} />}
    </>
  );
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

function Details({ id, onClose, onChanged }: { id: string; onClose: () => void; onChanged: () => void }) {
  const { api, me } = useSession();
  const account = useLoad((signal) => api.get<AccountWithCredits>("/accounts/" + id, undefined, signal), [api, id]);
  const [amount, setAmount] = useState("");
  const [reason, setReason] = useState("");
  const [reference, setReference] = useState("");
  const action = useAction({ repeats: true });
  const attempt = (said: string, work: (once: string) => Promise<unknown>) =>
    action.run(async (once) => {
      await work(once);
      toast(said);
      account.reload();
      onChanged();
    });
  const a = account.data;
  return (
    <Dialog title={a?.name ?? "Account"} onClose={onClose}>
      {account.problem && <Failure problem={account.problem} retry={account.reload} />}
      {!a && account.loading && <Skeleton />}
      {a && (
        <>
          <dl class="facts">
            <dt>Account</dt>
            <dd>
              <Id of={a.id} />
            </dd>
            <dt>Available</dt>
            <dd>
              <Amount of={a.credits.availableMicro} /> credits, <Amount of={a.credits.heldMicro} /> held
            </dd>
            <dt>Spent</dt>
            <dd>
              <Amount of={a.credits.spentMicro} /> of <Amount of={a.credits.grantedMicro} /> granted
            </dd>
            <dt>Calls</dt>
            <dd>
              <a href={"#/" + withFilter("requests", { account: a.id })}>Its requests</a>
            </dd>
          </dl>
          <Field id="plan" label="Plan">
            <PlanSelect value={a.plan} onChange={(plan) => attempt("The plan is changed", () => api.patch("/accounts/" + id, { plan }))} />
          </Field>
          <form
            class="stack"
            onSubmit={(e) => {
              e.preventDefault();
              const body: CreateGrant = { amountMicro: toMicro(amount) };
              if (reason.trim()) body.reason = reason.trim();
              if (reference.trim()) body.externalRef = reference.trim();
              void attempt("The credits are granted", async (once) => {
                await api.create(`/accounts/${id}/grants`, body, once);
                setAmount("");
                setReason("");
                setReference("");
              });
            }}
          >
            <Field id="grant" label="Grant credits">
              <input id="grant" class="input" type="number" min="0.000001" step="any" value={amount} onInput={(e) => setAmount(e.currentTarget.value)} />
            </Field>
            <div class="row">
              {[5, 20, 100].map((credits) => (
                <Button small onClick={() => setAmount(String(credits))}>
                  +{credits}
                </Button>
              ))}
            </div>
            <Field id="reference" label="Reference" hint="Of the payment; may be empty. A reference counts once: sent again, it grants nothing more.">
              <input id="reference" class="input" maxLength={128} value={reference} onInput={(e) => setReference(e.currentTarget.value)} aria-describedby="reference-hint" />
            </Field>
            <Field id="reason" label="Reason" hint="Shown in the account's ledger.">
              <input id="reason" class="input" maxLength={500} value={reason} onInput={(e) => setReason(e.currentTarget.value)} aria-describedby="reason-hint" />
            </Field>
            <div class="row">
              <Button kind="main" type="submit" disabled={action.busy || !(Number(amount) > 0)}>
                Grant
              </Button>
              {a.id !== me.id && (
                <div class="push">
                  {a.suspended ? (
                    <Button disabled={action.busy} onClick={() => attempt("The account is active again", () => api.patch("/accounts/" + id, { suspended: false }))}>
                      Resume the account
                    </Button>
                  ) : (
                    <Button kind="danger" disabled={action.busy} onClick={() => attempt("The account is suspended", () => api.patch("/accounts/" + id, { suspended: true }))}>
                      Suspend the account
                    </Button>
                  )}
                </div>
              )}
            </div>
          </form>
          {action.problem && <Failure problem={action.problem} />}
        </>
      )}
    </Dialog>
  );
}
