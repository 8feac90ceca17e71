// The audit log: who changed what, with each object before and after the change.
import { useMemo, useState } from "preact/hooks";
import type { AuditActionList, AuditEntry } from "../../lib/contract";
import { count, credits, local, moment } from "../../lib/format";
import { Id } from "../parts/basic";
import { Code } from "../parts/code";
import { Dialog } from "../parts/dialog";
import { Diff } from "../parts/diff";
import { EscapedText } from "../parts/escapedtext";
import { Facts } from "../parts/facts";
import { Filters, Pick, Range, spanOf, Text } from "../parts/filter";
import { Empty, useLoad } from "../parts/load";
import { PickOf, sources } from "../parts/picker";
import { type Filter, useFilter, withFilter } from "../parts/router";
import { ScopeSwitch, useScope } from "../parts/scope";
import { useSession } from "../parts/session";
import { Pages, useList } from "../parts/table";

const names = ["range", "from", "to", "actor", "action", "object", "account"];

export function Audit() {
  const { api, may } = useSession();
  const [filter, change] = useFilter();
  const [open, setOpen] = useState<AuditEntry>();
  const operates = may("operator:read");
  const shared = { filter, change };
  const scope = useScope();
  const account = filter.account || scope.accountId;
  const all = account === "*"; // the actions are those of one log
  const actions = useLoad((signal) => (all ? Promise.resolve(undefined) : api.get<AuditActionList>("/audit/actions", { accountId: account }, signal)), [api, account]);
  return (
    <>
      <header class="head">
        <h1>Audit</h1>
        <ScopeSwitch onChange={() => change({ account: "", actor: "" })} />
      </header>
      <section class="panel" aria-label="Changes">
        <Filters names={names} {...shared}>
          <Text name="object" label="Object id" kind="search" {...shared} />
          <Range any="Any" {...shared} />
          {may("keys:write") && !account ? (
            <PickOf name="actor" label="Key" source={sources.keys} {...shared} />
          ) : (
            <Text name="actor" label="Key id" {...shared} />
          )}
          {all ? <Text name="action" label="Action, such as updateWebhook" {...shared} /> : <Pick name="action" label="Action" choices={[{ id: "", title: "Any" }, ...(actions.data?.data ?? []).map(({ action }) => ({ id: action, title: words(action) }))]} {...shared} />}
          {operates && <PickOf name="account" label="Account" source={sources.accounts} fixed={[{ id: "", title: scope.all ? "All customers" : "This account" }, { id: "service", title: "The service" }]} {...shared} />}
        </Filters>
        <Rows key={JSON.stringify(filter) + account} filter={filter} account={account} onPick={setOpen} />
      </section>
      <p class="muted small">
        Each entry contains the hash of the one before. <code>stoa audit export</code> saves the log, and <code>stoa audit verify</code> checks that nothing was changed: <a href="/docs/audit">the guide</a>.
      </p>
      {open && <Entry of={open} account={account} onClose={() => setOpen(undefined)} />}
    </>
  );
}

const none: Filter = {};

// History is the audit log of an account as a part of its page.
export function History({ account }: { account: string }) {
  const [open, setOpen] = useState<AuditEntry>();
  return (
    <>
      <Rows filter={none} account={account} onPick={setOpen} />
      {open && <Entry of={open} account={account} onClose={() => setOpen(undefined)} />}
    </>
  );
}

function Rows({ filter, account, onPick }: { filter: Filter; account?: string; onPick: (e: AuditEntry) => void }) {
  const query = useMemo(() => ({ ...spanOf(filter), actor: filter.actor, action: filter.action, object: filter.object, accountId: account }), [filter, account]);
  const pages = useList<AuditEntry>("/audit", 50, undefined, query);
  const narrowed = names.some((n) => filter[n]);
  return (
    <Pages
      of={pages}
      label="Changes"
      onPick={onPick}
      columns={[
        { title: "When", show: (e) => <time dateTime={e.at} title={moment(e.at)} class="nowrap">{local(e.at)}</time> },
        { title: "Action", keep: 1, show: (e) => <button type="button" class="link breaks" onClick={() => onPick(e)}>{words(e.action)}</button> },
        {
          title: "Object",
          grows: true,
          show: (e) => {
            const name = nameOf(e) ?? (e.object === e.actor ? e.actorName : undefined);
            return (
              <div>
                {name ? <span class={name.includes("://") ? "small mono breaks" : "breaks"}>{name}</span> : <span class="small mono">{e.object}</span>}
                {name && <div class="small muted mono">{e.object}</div>}
              </div>
            );
          },
        },
        { title: "Changed", show: (e) => changed(e).length > 0 && <span class="muted breaks">{changed(e).map((name) => named(name, parsed(e.after)?.[name])).join(", ")}</span> },
        ...(account === "*" ? [{ title: "Account", keep: 1, show: (e: AuditEntry) => <span class="breaks">{e.accountName ?? e.accountId}</span> }] : []),
        { title: "By", keep: 2, show: (e) => <span class="breaks" title={e.actor}>{e.actorName ?? e.actor}</span> },
      ]}
      empty={<Empty title={narrowed ? "No matching changes" : "No changes yet"} />}
    />
  );
}

// words returns an operation or an event as a person reads it: "updateWebhook" as "Update webhook".
function words(action: string): string {
  const text = action.replace(/[._]/g, " ").replace(/[A-Z]+/g, (c) => " " + (c.length > 1 ? c : c.toLowerCase()));
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// named is the name of a changed member, with what says most about the change.
const named = (name: string, to: unknown): string => (typeof to === "boolean" ? `${name}: ${to ? "yes" : "no"}` : name);

type Stored = Record<string, unknown> | null;

// parsed returns a stored object; null if there is none, or only its size was kept.
function parsed(text: string | null): Stored {
  try {
    return JSON.parse(text ?? "null") as Stored;
  } catch {
    return null;
  }
}

// nameOf returns the name that the object had after the change, or before it, or what tells it
// from others of its kind.
function nameOf(e: AuditEntry): string | undefined {
  const o = parsed(e.after) ?? parsed(e.before);
  if (!o) return undefined;
  if (typeof o.amountMicro === "number") return credits(o.amountMicro) + " credits";
  if (typeof o.limitMicro === "number") return `${credits(o.limitMicro)} credits, ${o.period === "total" ? "in total" : `each ${String(o.period)}`}`;
  return [o.name, o.title, o.url, o.role].find((text): text is string => typeof text === "string" && text !== "" && text !== "(masked)");
}

// changed returns the members that a change gave another value.
function changed(e: AuditEntry): string[] {
  const [was, now] = [parsed(e.before), parsed(e.after)];
  if (!was || !now) return [];
  return [...new Set([...Object.keys(was), ...Object.keys(now)])].filter((name) => name !== "updatedAt" && JSON.stringify(was[name]) !== JSON.stringify(now[name]));
}

// pretty returns the stored JSON with a member on each line.
const pretty = (text: string): string => JSON.stringify(JSON.parse(text), undefined, 2);

const longest = 300; // characters of a value

// Change shows the value of a member before and after a change.
function Change({ was, now }: { was: unknown; now: unknown }) {
  const text = (v: unknown) => {
    const all = v === undefined || v === null || v === "" ? "nothing" : v === true ? "yes" : v === false ? "no" : typeof v === "string" ? v : JSON.stringify(v);
    return all.length > longest ? all.slice(0, longest) + "…" : all;
  };
  return (
    <span class="breaks">
      <EscapedText text={text(now)} /> <span class="muted">instead of <EscapedText text={text(was)} /></span>
    </span>
  );
}

// pages are those of objects, by the prefix of the id.
const pages: Record<string, string> = { agt: "agents/", con: "connections/", whk: "webhooks/" };

function Entry({ of: e, account, onClose }: { of: AuditEntry; account?: string; onClose: () => void }) {
  const page = e.after && pages[e.object.split("_")[0]!]; // a deleted object has none
  return (
    <Dialog title={words(e.action)} wide drawer onClose={onClose}>
      <Facts
        of={[
          ["When", moment(e.at)],
          ["By", <>{e.actorName && <div>{e.actorName}</div>}<Id of={e.actor} /></>],
          ["Object", <>{nameOf(e) && <div class="breaks">{page ? <a href={"#/" + page + e.object}>{nameOf(e)}</a> : nameOf(e)}</div>}<Id of={e.object} /></>],
          ["Entry", <>{count(e.seq)}, <code>{e.action}</code></>],
          e.requestId && ["Request", <Id of={e.requestId} />],
          e.address && ["Address", e.address],
          ["Hash", <Id of={e.hash} />],
          ["More", <a href={"#/" + withFilter("audit", { object: e.object, account: account ? e.accountId : "" })} onClick={onClose}>All changes of this object</a>],
        ]}
      />
      {e.before && e.after ? (
        <>
          {changed(e).length > 0 && <Facts of={changed(e).map((name) => [words(name), <Change was={parsed(e.before)![name]} now={parsed(e.after)![name]} />])} />}
          <details open={changed(e).length === 0}>
            <summary class="small">As stored</summary>
            <Diff was={pretty(e.before)} now={pretty(e.after)} data />
          </details>
        </>
      ) : <Code title={e.before ? "Deleted" : "Created or decided"} text={pretty(e.after ?? e.before ?? "{}")} wraps />}
    </Dialog>
  );
}
