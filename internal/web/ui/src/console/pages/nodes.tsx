// For operators: the nodes of the service.
import type { NodeList } from "../../lib/contract";
import { count, of } from "../../lib/format";
import { Badge, Id, Notice, Time } from "../parts/basic";
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
      <section class="panel" aria-label="Nodes">
        <Table
          label="Nodes"
          rows={l.data}
          columns={[
            {
              title: "Node",
              show: (n) => (
                <div>
                  <Id of={n.id} />
                  <div class="small muted">
                    <span class="breaks">{n.address}</span> {n.self && <Badge meaning="accent">answers you</Badge>}
                  </div>
                </div>
              ),
            },
            { title: "Version", show: (n) => <span class="breaks">{n.version}</span> },
            { title: "Since", show: (n) => <Time at={n.startedAt} /> },
            { title: "Seen", show: (n) => <Time at={n.seenAt} /> },
            { title: "Calls", number: true, show: (n) => count(n.calls) },
            { title: "Sessions", number: true, show: (n) => count(n.sessions) },
            {
              title: "Settings",
              show: (n) => (
                <div>
                  <code class="nowrap" title={n.configHash}>
                    {n.configHash.slice(0, 12)}
                  </code>{" "}
                  {n.configVersion > 0 && <span class="small muted nowrap">version {n.configVersion}</span>} {!l.sameConfig && n.configHash !== usual && <Badge meaning="warning">differs</Badge>}
                </div>
              ),
            },
          ]}
        />
      </section>
      <p class="muted small">
        {l.data.length === 1 ? "One process serves." : `${count(l.data.length)} processes serve one database.`} Calls and sessions in progress are counted. A node that was killed disappears after about 10 seconds.
      </p>
    </>
  );
}

function mostCommon(words: string[]): string | undefined {
  const times = new Map<string, number>();
  for (const word of words) times.set(word, (times.get(word) ?? 0) + 1);
  return [...times].sort((a, b) => b[1] - a[1])[0]?.[0];
}
