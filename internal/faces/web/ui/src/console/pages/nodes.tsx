// For operators: the nodes of the service.
import type { NodeList } from "../../lib/contract";
import { count, moment, of } from "../../lib/format";
import { Badge, Id, Notice, Time } from "../parts/basic";
import { type Fact, Facts } from "../parts/facts";
import { Figure } from "../parts/figure";
import { Table } from "../parts/table";
import { PolledPage } from "../parts/polledpage";

export const Nodes = () => (
  <PolledPage<NodeList> title="Nodes" path="/nodes" every={5_000}>
    {(l) => <Living of={l} />}
  </PolledPage>
);

function Living({ of: l }: { of: NodeList }) {
  const versions = new Set(l.data.map((n) => n.version));
  // The most common value counts as the intended one; among equally common ones, that
  // of the oldest node.
  const usual = mostCommon(l.data.map((n) => n.configHash));
  return (
    <>
      {!l.sameConfig && (
        <Notice meaning="waiting">
          <p>
            <b>The nodes do not have the same settings.</b> What a caller gets depends on the node that answers. Give all of them the same configuration and restart those marked "differs".
          </p>
        </Notice>
      )}
      {l.data.map(
        (n) =>
          n.configProblem && (
            <Notice meaning="failed" key={n.id}>
              <p class="breaks">
                <b>{n.address} is not ready.</b> {n.configProblem}
              </p>
            </Notice>
          ),
      )}
      {versions.size > 1 && (
        <Notice>
          <p>They run {of(versions.size, "version")} of the program, as they do while a new one is rolled out.</p>
        </Notice>
      )}
      <dl class="figures">
        <Figure title={l.data.length === 1 ? "Node" : "Nodes"} sub={databases[l.database]}>
          {count(l.data.length)}
        </Figure>
        <Figure title="Calls in progress" sub="sessions included">
          {count(sum(l, "calls"))}
        </Figure>
        <Figure title="Sessions running" sub={<a href="#/sessions?status=running">Sessions</a>}>
          {count(sum(l, "sessions"))}
        </Figure>
        <Figure title="Version" word sub={versions.size > 1 ? "of most nodes" : l.data.length > 1 ? "on all nodes" : undefined}>
          {mostCommon(l.data.map((n) => n.version)) ?? "–"}
        </Figure>
      </dl>
      <section class="panel" aria-label="Nodes">
        <Table
          label="Nodes"
          rows={l.data}
          columns={[
            {
              title: "Node",
              show: (n) => (
                <>
                  <span class="breaks">{n.address}</span> {n.self && l.data.length > 1 && <Badge meaning="accent">answers you</Badge>}
                </>
              ),
            },
            {
              title: "State",
              keep: 3,
              show: (n) => (n.configProblem ? <Badge meaning="failed">not ready</Badge> : !l.sameConfig && n.configHash !== usual ? <Badge meaning="warning">differs</Badge> : <Badge meaning="ok">serves</Badge>),
            },
            { title: "Up for", named: true, keep: 2, show: (n) => <time class="nowrap" dateTime={n.startedAt} title={"since " + moment(n.startedAt)}>{lasted(Date.now() - new Date(n.startedAt).getTime())}</time> },
            { title: "Heartbeat", named: true, show: (n) => (n.self ? <span class="muted">now</span> : <Time at={n.seenAt} />) },
            { title: "Version", named: true, show: (n) => <span class="breaks">{n.version}</span> },
            { title: "Calls", number: true, show: (n) => count(n.calls) },
            { title: "Sessions", number: true, show: (n) => count(n.sessions) },
            {
              title: "Settings",
              show: (n) => (
                <span class="nowrap">
                  <code title={n.configHash}>{n.configHash.slice(0, 8)}</code> {n.configVersion > 0 && <a class="small muted" href="#/providers?settings=history">version {n.configVersion}</a>}
                </span>
              ),
            },
            { title: "Id", show: (n) => <Id of={n.id} /> },
          ]}
        />
      </section>
      <section class="panel" aria-labelledby="stops">
        <header>
          <h2 id="stops">If {l.data.length === 1 ? "the" : "a"} node stops</h2>
        </header>
        <Facts look="body" of={ends(l)} />
      </section>
      <p class="muted small">
        {l.database === "sqlite" ? (
          <>
            SQLite has one node. For several, use PostgreSQL: <a href="/docs/nodes">Scaling to several nodes</a>.
          </>
        ) : (
          <>
            All nodes are equal: any of them serves any request, runs any session and starts any schedule. There is no leader. <a href="/docs/nodes">Scaling to several nodes</a> covers sizes, upgrades and failures.
          </>
        )}
      </p>
    </>
  );
}

const databases: Record<NodeList["database"], string> = { sqlite: "with SQLite", postgresql: "with PostgreSQL" };

const sum = (l: NodeList, member: "calls" | "sessions"): number => l.data.reduce((all, n) => all + n[member], 0);

// ends returns what happens to calls, sessions and jobs when a node stops, and after which time.
function ends(l: NodeList): Fact[] {
  const others = l.data.length > 1;
  return [
    ["Stopped by SIGTERM", "It takes no more requests and finishes the running ones first."],
    ["Calls in progress at a crash", "They break off. Clients repeat them" + (others ? "; the other nodes answer." : " when a node runs again.")],
    ["Sessions", others ? "They continue on other nodes, after a crash within about 10 seconds." : "They continue when a node runs again, from their last finished step."],
    ["Schedules, webhooks, clean-up", others ? "Other nodes continue them; each job runs on one node at a time." : "They wait until a node runs again."],
    ["Credits that it held", others ? "They are free again after about 10 seconds, at a stop immediately." : "They are free again as soon as a node runs."],
  ];
}

// lasted formats a long time.
function lasted(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return "< 1 min";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return of(Math.floor(minutes / 1440), "day");
}

function mostCommon(words: string[]): string | undefined {
  const times = new Map<string, number>();
  for (const word of words) times.set(word, (times.get(word) ?? 0) + 1);
  return [...times].sort((a, b) => b[1] - a[1])[0]?.[0];
}
