// The audit log: who changed what, with each object before and after the change.
import { useMemo, useState } from "preact/hooks";
import type { AuditEntry } from "../../lib/contract";
import { local } from "../../lib/format";
import { Id } from "../parts/basic";
import { Code } from "../parts/code";
import { Dialog } from "../parts/dialog";
import { Diff } from "../parts/diff";
import { Facts } from "../parts/facts";
import { Filters, Range, spanOf, Text } from "../parts/filter";
import { Empty } from "../parts/load";
import { PickOf, sources } from "../parts/picker";
import { type Filter, useFilter } from "../parts/router";
import { useSession } from "../parts/session";
import { Pages, useList } from "../parts/table";

const names = ["range", "from", "to", "actor", "action", "object", "account"];

export function Audit() {
  const { may } = useSession();
  const [filter, change] = useFilter();
  const [open, setOpen] = useState<AuditEntry>();
  const operates = may("operator:read");
  const shared = { filter, change };
  return (
    <>
      <header class="head">
        <h1>Audit</h1>
      </header>
      <section class="panel" aria-label="Changes">
        <Filters names={names} {...shared}>
          <Text name="object" label="Object id" kind="search" {...shared} />
          <Range any="Any" {...shared} />
          {may("keys:write") && !filter.account ? (
            <PickOf name="actor" label="Key" source={sources.keys} {...shared} />
          ) : (
            <Text name="actor" label="Key id" {...shared} />
          )}
          <Text name="action" label="Action" {...shared} />
          {operates && <PickOf name="account" label="Account" source={sources.accounts} fixed={[{ id: "", title: "Mine" }, { id: "service", title: "The service" }]} {...shared} />}
        </Filters>
        <Rows key={JSON.stringify(filter)} filter={filter} onPick={setOpen} />
      </section>
      <p class="muted small">
        Each entry contains the hash of the one before. <code>stoa audit export</code> saves the log, and <code>stoa audit verify</code> checks that nothing was changed: <a href="/docs/audit">the guide</a>.
      </p>
      {open && <Entry of={open} onClose={() => setOpen(undefined)} />}
    </>
  );
}

function Rows({ filter, onPick }: { filter: Filter; onPick: (e: AuditEntry) => void }) {
  const query = useMemo(() => ({ ...spanOf(filter), actor: filter.actor, action: filter.action, object: filter.object, accountId: filter.account }), [filter]);
  const pages = useList<AuditEntry>("/audit", 50, undefined, query);
  const narrowed = names.some((n) => filter[n]);
  return (
    <Pages
      of={pages}
      label="Changes"
      onPick={onPick}
      columns={[
        { title: "When", show: (e) => <time dateTime={e.at} title={e.at} class="nowrap">{local(e.at)}</time> },
        { title: "Key", show: (e) => <span class="breaks">{e.actorName ?? e.actor}</span> },
        { title: "Action", keep: 1, show: (e) => <button type="button" class="link breaks" onClick={() => onPick(e)}>{e.action}</button> },
        { title: "Object", grows: true, show: (e) => <code class="breaks">{e.object}</code> },
      ]}
      empty={<Empty title={narrowed ? "No matching changes" : "No changes yet"} />}
    />
  );
}

// pretty returns the stored JSON with a member on each line.
const pretty = (text: string): string => JSON.stringify(JSON.parse(text), undefined, 2);

function Entry({ of: e, onClose }: { of: AuditEntry; onClose: () => void }) {
  return (
    <Dialog title={`Change ${e.seq}`} wide drawer onClose={onClose}>
      <Facts
        of={[
          ["When", local(e.at)],
          ["By", <>{e.actorName && e.actorName + " "}<Id of={e.actor} /></>],
          ["Action", e.action],
          ["Object", <Id of={e.object} />],
          e.requestId && ["Request", <Id of={e.requestId} />],
          e.address && ["Address", e.address],
          ["Hash", <Id of={e.hash} />],
        ]}
      />
      {e.before && e.after ? <Diff was={pretty(e.before)} now={pretty(e.after)} data /> : <Code title={e.before ? "Deleted" : "Created or decided"} text={pretty(e.after ?? e.before ?? "{}")} wraps />}
    </Dialog>
  );
}
