// The audit log: who changed what, with each object before and after the change.
import { useMemo, useState } from "preact/hooks";
import type { Account, AuditEntry } from "../../lib/contract";
import { local } from "../../lib/format";
import type { List } from "../../lib/types";
import { Id } from "../parts/basic";
import { Code } from "../parts/code";
import { Dialog } from "../parts/dialog";
import { Diff } from "../parts/diff";
import { Facts } from "../parts/facts";
import { Filters, Pick, Range, spanOf, Text } from "../parts/filter";
import { Empty, useLoad } from "../parts/load";
import { type Filter, useFilter } from "../parts/router";
import { useSession } from "../parts/session";
import { Pages, useList } from "../parts/table";
import { useKeys } from "./requests";

const names = ["range", "from", "to", "actor", "action", "object", "account"];

export function Audit() {
  const { may } = useSession();
  const [filter, change] = useFilter();
  const [open, setOpen] = useState<AuditEntry>();
  const keys = useKeys();
  const operates = may("operator:read");
  const accounts = useAccounts(operates);
  const shared = { filter, change };
  const actorName = (id: string) => keys.get(id) ?? id;
  return (
    <>
      <header class="head">
        <h1>Audit</h1>
      </header>
      <section class="panel" aria-label="Changes">
        <Filters names={names} {...shared}>
          <Text name="object" label="Object id" kind="search" {...shared} />
          <Range any="Any" {...shared} />
          {keys.size > 0 && !filter.account ? (
            <Pick name="actor" label="Key" choices={[{ id: "", title: "Any" }, ...[...keys].map(([id, title]) => ({ id, title }))]} {...shared} />
          ) : (
            <Text name="actor" label="Key id" {...shared} />
          )}
          <Text name="action" label="Action" {...shared} />
          {operates && <Pick name="account" label="Account" choices={[{ id: "", title: "Mine" }, { id: "service", title: "The service" }, ...accounts]} {...shared} />}
        </Filters>
        <Rows key={JSON.stringify(filter)} filter={filter} actorName={actorName} onPick={setOpen} />
      </section>
      <p class="muted small">
        Each entry contains the hash of the one before. <code>stoa audit export</code> saves the log, and <code>stoa audit verify</code> checks that nothing was changed: <a href="/docs/audit">the guide</a>.
      </p>
      {open && <Entry of={open} actorName={actorName(open.actor)} onClose={() => setOpen(undefined)} />}
    </>
  );
}

function useAccounts(operates: boolean) {
  const { api } = useSession();
  const list = useLoad((signal) => (operates ? api.get<List<Account>>("/accounts", { limit: 100 }, signal) : Promise.resolve(undefined)), [api]);
  return (list.data?.data ?? []).map((a) => ({ id: a.id, title: a.name }));
}

function Rows({ filter, actorName, onPick }: { filter: Filter; actorName: (id: string) => string; onPick: (e: AuditEntry) => void }) {
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
        { title: "Key", show: (e) => <span class="breaks">{actorName(e.actor)}</span> },
        { title: "Action", keep: 1, show: (e) => <button type="button" class="link breaks" onClick={() => onPick(e)}>{e.action}</button> },
        { title: "Object", grows: true, show: (e) => <code class="breaks">{e.object}</code> },
      ]}
      empty={<Empty title={narrowed ? "No change fits these filters" : "No changes yet"} />}
    />
  );
}

// pretty returns the stored JSON with a member on each line.
const pretty = (text: string): string => JSON.stringify(JSON.parse(text), undefined, 2);

function Entry({ of: e, actorName, onClose }: { of: AuditEntry; actorName: string; onClose: () => void }) {
  return (
    <Dialog title={`Change ${e.seq}`} wide drawer onClose={onClose}>
      <Facts
        of={[
          ["When", local(e.at)],
          ["By", <>{actorName !== e.actor && actorName + " "}<Id of={e.actor} /></>],
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
