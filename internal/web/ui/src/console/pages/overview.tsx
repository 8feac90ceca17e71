// The first page: what is left, what was spent on what, and what is served.
import type { ProviderList } from "../../lib/contract";
import { count } from "../../lib/format";
import type { Credits, List, Meta, Receipt } from "../../lib/types";
import { Amount, Badge, Id, Notice, Time } from "../parts/basic";
import { Code } from "../parts/code";
import { Empty, States, useLoad } from "../parts/load";
import { Spend } from "../parts/spend";
import { Table } from "../parts/table";
import { useSession } from "../session";

export function Overview() {
  const { me, may, offers } = useSession();
  const sums = may("usage:read") && offers("getUsage");
  return (
    <>
      <header class="head">
        <h1>Overview</h1>
      </header>
      <FirstSteps />
      <Figures />
      {sums ? (
        <>
          <Spend />
          <Latest />
        </>
      ) : (
        <section class="panel">
          <Empty title="What was spent is not shown">
            <p>
              The key <code>{me.key.hint}</code> does not carry the scope <code>usage:read</code>.
            </p>
          </Empty>
        </section>
      )}
      <Served />
    </>
  );
}

function Figures() {
  const { api, me, may, offers } = useSession();
  const asks = may("usage:read") && offers("getCredits");
  const balance = useLoad<Partial<Credits>>((signal) => (asks ? api.get<Credits>("/credits", undefined, signal) : Promise.resolve(me.credits)), [api]);
  const now = { ...me.credits, ...balance.data };
  return (
    <>
      <Left available={now.availableMicro} granted={now.grantedMicro} />
      <dl class="figures">
        <div class="figure panel">
          <dt>Credits available</dt>
          <dd>
            <Amount of={now.availableMicro} as="exact" />
          </dd>
          <dd class="sub">
            <Amount of={now.heldMicro} as="exact" /> held for calls that run
          </dd>
        </div>
        {now.spentMicro !== undefined && now.grantedMicro !== undefined && (
          <div class="figure panel">
            <dt>Spent so far</dt>
            <dd>
              <Amount of={now.spentMicro} as="exact" />
            </dd>
            <dd class="sub">
              of <Amount of={now.grantedMicro} as="exact" /> granted
            </dd>
          </div>
        )}
        <div class="figure panel">
          <dt>Plan</dt>
          <dd class="word">{me.plan.name}</dd>
          <dd class="sub">{me.plan.gatedModels ? "all models" : "standard models"}</dd>
        </div>
        <div class="figure panel">
          <dt>Account</dt>
          <dd class="word">{me.name}</dd>
          <dd class="sub">
            <Id of={me.id} />
          </dd>
        </div>
      </dl>
    </>
  );
}

// Left warns where the credits are at their end, or nearly so: less than a twentieth
// of what was granted.
function Left({ available, granted }: { available: number; granted?: number }) {
  const { may, me } = useSession();
  if (available > 0 && (granted === undefined || available * 20 >= granted)) return null;
  const topUp = may("operator") ? <a href="#/accounts">Grant credits to the account "{me.name}".</a> : "Ask whoever runs this service to top up the account.";
  return available <= 0 ? (
    <Notice meaning="failed">
      <p>
        <b>No credits are left.</b> Calls are refused with <code>insufficient_quota</code> until there are. {topUp}
      </p>
    </Notice>
  ) : (
    <Notice meaning="waiting">
      <p>
        <b>Few credits are left</b>: <Amount of={available} /> of <Amount of={granted!} />. {topUp}
      </p>
    </Notice>
  );
}

// FirstSteps leads an operator to the first answer of a vendor, until one is connected.
function FirstSteps() {
  const { api, may, offers } = useSession();
  const asks = may("operator") && offers("listProviders");
  const providers = useLoad((signal) => (asks ? api.get<ProviderList>("/providers", undefined, signal) : Promise.resolve(undefined)), [api]);
  if (!providers.data || providers.data.data.some((p) => p.wire !== "sandbox")) return null;
  return (
    <section class="panel" aria-labelledby="steps">
      <header>
        <h2 id="steps">Three steps to the first answer</h2>
        <span class="push">
          <Badge meaning="info">sandbox only</Badge>
        </span>
      </header>
      <ol class="body steps">
        <li>
          <b>Connect a vendor.</b> No vendor is connected: the built-in sandbox answers for all models. Start the service with a vendor's key, then choose Refresh under <a href="#/providers">Providers</a>; <a href="/docs/connect-a-vendor">the guide</a> has the other vendors.
          <Code text={"ANTHROPIC_API_KEY=… stoa serve"} />
        </li>
        <li>
          <b>Create a key</b> for your program under <a href="#/keys">Keys</a>.
        </li>
        <li>
          <b>Make the first call.</b>
          <Code text={`curl ${location.origin}/api/v1/responses \\\n  -H "Authorization: Bearer $STOA_API_KEY" \\\n  -H 'Content-Type: application/json' \\\n  -d '{"model": "auto", "input": "Why is the sky blue?"}'`} />
        </li>
      </ol>
    </section>
  );
}

function Latest() {
  const { api, offers } = useSession();
  const receipts = useLoad((signal) => api.get<List<Receipt>>("/receipts", { limit: 5 }, signal), [api]);
  if (!offers("listReceipts")) return null;
  return (
    <section class="panel" aria-labelledby="latest">
      <header>
        <h2 id="latest">Latest calls</h2>
        <a class="push" href="#/credits">
          All receipts
        </a>
      </header>
      <States of={receipts} lines={4}>
        {(list) =>
          list.data.length === 0 ? (
            <Empty title="No calls yet">
              <p>Each call that was charged leaves a receipt here.</p>
            </Empty>
          ) : (
            <Table
              label="Latest calls"
              rows={list.data}
              columns={[
                { title: "When", show: (r) => <Time at={r.createdAt} /> },
                { title: "Model", show: (r) => <span class="nowrap">{r.model.served}</span> },
                { title: "Tokens", number: true, show: (r) => count(r.usage.totalTokens) },
                { title: "Credits", number: true, show: (r) => <Amount of={r.creditsMicro} as="column" /> },
              ]}
            />
          )
        }
      </States>
    </section>
  );
}

function Served() {
  const { api, me } = useSession();
  const meta = useLoad((signal) => api.get<Meta>("/meta", undefined, signal), [api]);
  return (
    <section class="panel" aria-labelledby="served">
      <header>
        <h2 id="served">Models</h2>
        {meta.data && (
          <span class="push small muted">
            <code>auto</code> is {meta.data.defaultModel} now
          </span>
        )}
      </header>
      <States of={meta}>
        {(m) => (
          <Table
            label="Models"
            rows={m.models}
            columns={[
              { title: "Model", show: (r) => <span class="nowrap">{r.id}</span> },
              {
                title: "State",
                show: (r) =>
                  !r.available ? <Badge meaning="failed">no provider</Badge> : r.gated && !me.plan.gatedModels ? <Badge meaning="waiting">not in your plan</Badge> : <Badge meaning="ok">served</Badge>,
              },
              { title: "Input", number: true, show: (r) => <Amount of={r.price.inputMicroPerMillion} /> },
              { title: "Output", number: true, show: (r) => <Amount of={r.price.outputMicroPerMillion} /> },
            ]}
          />
        )}
      </States>
      <p class="small muted note">Prices are credits per million tokens.</p>
    </section>
  );
}
