// The overview: the balance, the spending, and the served models.
import type { ProviderList } from "../../lib/contract";
import { count } from "../../lib/format";
import type { Credits, Key, List, Meta, Receipt } from "../../lib/types";
import { Amount, Badge, Id, Time } from "../parts/basic";
import { Code } from "../parts/code";
import { Attention } from "../parts/notices";
import { Empty, States, useLoad } from "../parts/load";
import { Spend } from "../parts/spend";
import { Table } from "../parts/table";
import { NoScope } from "../parts/missing";
import { useSession } from "../parts/session";

export function Overview() {
  const { may, offers } = useSession();
  const sums = may("usage:read") && offers("getUsage");
  return (
    <>
      <header class="head">
        <h1>Overview</h1>
      </header>
      <Attention />
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
            <NoScope scope="usage:read" />
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
    <dl class="figures">
      <div class="figure panel">
        <dt>Credits available</dt>
        <dd>
          <Amount of={now.availableMicro} />
        </dd>
        <dd class="sub">
          <Amount of={now.heldMicro} /> held for calls that run
        </dd>
      </div>
      {now.spentMicro !== undefined && now.grantedMicro !== undefined && (
        <div class="figure panel">
          <dt>Spent so far</dt>
          <dd>
            <Amount of={now.spentMicro} />
          </dd>
          <dd class="sub">
            of <Amount of={now.grantedMicro} /> granted
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
  );
}

// FirstSteps guides an operator to the first answer of a vendor, until a vendor is
// connected and a call was made.
function FirstSteps() {
  const { api, may, offers } = useSession();
  const asks = may("operator:read") && offers("listProviders");
  const ask = <T,>(scope: string, path: string, query: Record<string, string | number> | undefined, signal: AbortSignal) => (asks && may(scope) ? api.get<T>(path, query, signal) : Promise.resolve(undefined));
  const state = useLoad(
    (signal) => Promise.all([ask<ProviderList>("operator:read", "/providers", undefined, signal), ask<List<Key>>("keys:write", "/keys", { limit: 2, unrevoked: "true" }, signal), ask<List<Receipt>>("usage:read", "/receipts", { limit: 1 }, signal)]),
    [api],
  );
  const [providers, keys, receipts] = state.data ?? [];
  if (!providers) return null;
  const connected = providers.data.some((p) => p.wire !== "sandbox");
  const called = (receipts?.data.length ?? 0) > 0;
  if (connected && called) return null;
  // The first key is for signing in; programs get their own keys.
  const made = (keys?.data.length ?? 0) > 1;
  return (
    <section class="panel" aria-labelledby="steps">
      <header>
        <h2 id="steps">Three steps to the first answer</h2>
        {!connected && (
          <span class="push">
            <Badge meaning="info">sandbox only</Badge>
          </span>
        )}
      </header>
      <ol class="body steps">
        <li>
          <b>Connect a vendor.</b> <Done is={connected} />{" "}
          {connected ? (
            <>
              See that it answers with "Test now" under <a href="#/providers">Providers</a>.
            </>
          ) : (
            <>
              No vendor is connected: the built-in sandbox answers for all models. Start the service with a vendor's key, then choose Refresh under <a href="#/providers">Providers</a>; <a href="/docs/connect-a-vendor">the guide</a> has the other vendors.
              <Code text={"ANTHROPIC_API_KEY=… stoa serve"} />
            </>
          )}
        </li>
        <li>
          <b>Create a key</b> for your program under <a href="#/keys">Keys</a>. <Done is={made} />
        </li>
        <li>
          <b>Make the first call.</b> <Done is={called} />
          {!called && <Code text={`curl ${location.origin}/api/v1/responses \\\n  -H "Authorization: Bearer $STOA_API_KEY" \\\n  -H 'Content-Type: application/json' \\\n  -d '{"model": "auto", "input": "Why is the sky blue?"}'`} />}
        </li>
      </ol>
    </section>
  );
}

const Done = ({ is }: { is: boolean }) => (is ? <Badge meaning="ok">done</Badge> : null);

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
                  !r.available ? <Badge meaning="failed">no provider</Badge> : r.gated && !me.plan.gatedModels ? <Badge meaning="waiting">not in your plan</Badge> : r.sandbox ? <Badge meaning="info">sandbox</Badge> : <Badge meaning="ok">served</Badge>,
              },
              { title: "Input", number: true, show: (r) => <Amount of={r.price.inputMicroPerMillion} as="column" /> },
              { title: "Output", number: true, show: (r) => <Amount of={r.price.outputMicroPerMillion} as="column" /> },
            ]}
          />
        )}
      </States>
      <p class="small muted note">Prices are credits per million tokens.</p>
    </section>
  );
}
