// For operators: the state of the providers behind the models.
import type { Provider, ProviderFailure, ProviderList, ProviderRoute } from "../../lib/contract";
import { count, of } from "../../lib/format";
import { Badge, type Meaning, Time } from "../parts/basic";
import { Empty } from "../parts/load";
import { Table } from "../parts/table";
import { Watched } from "../parts/watched";

export const ProvidersPage = () => (
  <Watched<ProviderList> title="Providers" path="/providers" every={10_000}>
    {(p) => (
      <>
        <p class="muted small">
          {of(p.active, "call")} under way, {count(p.retrying)} of them at a retry. Counters began when the service started, or when a provider's settings changed.
        </p>
        {p.data.length === 0 && (
          <section class="panel">
            <Empty title="No providers">
              <p>A provider is a vendor's address and key in the configuration.</p>
            </Empty>
          </section>
        )}
        {p.data.map((one) => (
          <One key={one.name} of={one} />
        ))}
      </>
    )}
  </Watched>
);

const states: Record<ProviderRoute["state"], [Meaning, string]> = { closed: ["ok", "serves"], open: ["failed", "circuit open"], half_open: ["waiting", "is tried again"] };

function One({ of: p }: { of: Provider }) {
  const resting = p.routes.filter((r) => r.state !== "closed").length;
  return (
    <section class="panel" aria-label={p.name}>
      <header>
        <h2>{p.name}</h2>
        <span class="small muted">{p.wire}</span>
        <span class="push">
          {p.requests === 0 ? <Badge>not used yet</Badge> : resting === 0 ? <Badge meaning="ok">all models serve</Badge> : <Badge meaning="failed">{resting} of {of(p.routes.length, "model")} not serving</Badge>}
        </span>
      </header>
      <p class="pad small muted">
        {count(p.inFlight)} of at most {of(p.maxInFlight, "request")} under way
        {p.refused > 0 && <>, {of(p.refused, "call")} turned away because of that</>}. <LastFailure of={p.lastFailure} />
      </p>
      {p.routes.length > 0 && (
        <Table
          label={`Models of ${p.name}`}
          rows={p.routes}
          columns={[
            { title: "Model", show: (r) => <span class="nowrap">{r.model}</span> },
            {
              title: "State",
              show: (r) => (
                <>
                  <Badge meaning={states[r.state]?.[0]}>{states[r.state]?.[1] ?? r.state}</Badge>
                  {r.openUntil && (
                    <div class="small muted">
                      until <Time at={r.openUntil} />
                    </div>
                  )}
                </>
              ),
            },
            { title: "Under way", number: true, show: (r) => count(r.inFlight) },
            { title: "Requests", number: true, show: (r) => count(r.requests) },
            { title: "Retries", number: true, show: (r) => count(r.retries) },
            { title: "Failures", number: true, show: (r) => count(r.failures) },
            { title: "Timeouts", number: true, show: (r) => count(r.timeouts) },
            { title: "Last failure", show: (r) => (r.lastFailure ? <LastFailure of={r.lastFailure} short /> : <span class="muted">none</span>) },
          ]}
        />
      )}
    </section>
  );
}

function LastFailure({ of: f, short }: { of: ProviderFailure | null; short?: boolean }) {
  if (!f) return <>No failure so far.</>;
  return (
    <>
      {!short && "Failed last "}
      <Time at={f.at} />: <code>{f.code}</code>
      {f.status !== null && <span class="nowrap"> (HTTP {f.status})</span>}
    </>
  );
}
