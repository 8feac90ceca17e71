// The sessions of an agent, with a form to start one; and the sessions of all agents.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Session } from "../../lib/agents";
import { Amount, Button, Time } from "../parts/basic";
import { useAgent, useOwnSecrets } from "../parts/credentials";
import { TextField } from "../parts/fields";
import { useAction } from "../parts/form";
import { Empty, Failure } from "../parts/load";
import { Filters, Pick, Text } from "../parts/filter";
import { PickOf, sources } from "../parts/picker";
import { Status, statusOptions } from "../parts/status";
import { ScopeSwitch, useScope } from "../parts/scope";
import { type Column, orderOf, Pages, useList, useLiveList } from "../parts/table";
import { type Filter, go } from "../parts/router";
import { useSession } from "../parts/session";

// columns returns the columns of a list of sessions.
function columns(agent?: (s: Session) => ComponentChildren, account?: boolean): Column<Session>[] {
  return [
    {
      title: "Session",
      show: (s) => (
        <>
          {s.accountId ? (
            <span class="mono">{s.id}</span>
          ) : (
            <a href={`#/agents/${s.agentId}/sessions/${s.id}`} class="clamp">
              {s.title || s.reply?.slice(0, 80) || <span class="mono">{s.id}</span>}
            </a>
          )}
          {s.error && <div class="small reason">{s.error.message || s.error.code}</div>}
          {s.pendingInput && <div class="small muted clamp">It asks: {s.pendingInput.prompt}</div>}
        </>
      ),
    },
    { title: "Status", keep: 3, show: (s) => <span title={s.error?.message}><Status of={s.status} /></span> },
    ...(account ? [{ title: "Account", keep: 1, show: (s: Session) => (s.accountId ? <a class="clamp" href={"#/accounts/" + s.accountId}>{s.accountName ?? s.accountId}</a> : <span class="muted">this account</span>) }] : []),
    ...(agent ? [{ title: "Agent", show: agent }] : []),
    {
      title: "Started by",
      show: (s) => (
        <span class="nowrap">
          {triggers[s.trigger.type] ?? s.trigger.type}
          {s.draft && <div class="small muted">a draft</div>}
          {s.externalUserId && <div class="small muted breaks">{s.externalUserId}</div>}
        </span>
      ),
    },
    { title: "Turns", number: true, show: (s) => s.turn.number },
    { title: "Credits", sort: "spent", number: true, keep: 1, show: (s) => <Amount of={s.usage.creditsMicro} as="column" /> },
    { title: "Changed", sort: "updated", keep: 2, show: (s) => <Time at={s.updatedAt} /> },
  ];
}

const filters = ["q", "agentId", "status", "trigger", "feedback", "externalUserId"];
const orders = [
  { id: "", title: "Newest first" },
  { id: "asc", title: "Oldest first" },
  { id: "updated", title: "Changed, latest first" },
  { id: "spent", title: "Credits, largest first" },
];

export const ratings = [
  { id: "", title: "All" },
  { id: "up", title: "Good" },
  { id: "down", title: "Bad" },
];

export const triggers: Record<string, string> = { api: "API", schedule: "schedule", embed: "embed", hook: "hook", responses: "model call", mcp: "MCP client", agui: "AG-UI", test: "test set" };

// AllSessions shows the sessions of all agents. The filters are in the address, after
// "#/sessions/".
export function AllSessions({ rest }: { rest: string }) {
  const { may, offers } = useSession();
  const filter = Object.fromEntries([...new URLSearchParams(rest)].filter(([name, value]) => [...filters, "order"].includes(name) && value));
  const { order, ...narrowed } = filter;
  const scope = useScope();
  const all = scope.all && !narrowed.agentId; // an agent is one of this account
  const query = new URLSearchParams(narrowed);
  const pages = useList<Session>("/sessions" + (query.size ? "?" + query : ""), 30, undefined, { accountId: all ? scope.accountId : undefined, ...orderOf(order) });
  useLiveList(pages);
  const change = (by: Filter) => {
    const next = new URLSearchParams(Object.entries({ ...filter, ...by }).filter(([, value]) => value));
    go("sessions" + (next.size ? "/" + next : ""));
  };
  const shared = { filter, change };
  return (
    <>
      <header class="head">
        <h1>Sessions</h1>
        <ScopeSwitch onChange={() => change({ agentId: "" })} />
        <div class="push">
          <Button icon="again" onClick={pages.first.reload}>
            Refresh
          </Button>
        </div>
      </header>
      <section class="panel">
        <Filters names={[...filters, "order"]} {...shared}>
          <Text name="q" label={all ? "Id" : "Title or id"} kind="search" soon {...shared} />
          {may("agents:read") && offers("listAgents") && <PickOf name="agentId" label="Agent" source={sources.agents} fixed={[{ id: "", title: "All" }]} {...shared} />}
          <Pick name="status" label="Status" choices={[{ id: "", title: "All" }, ...statusOptions.map(([id, title]) => ({ id, title }))]} {...shared} />
          <Pick name="trigger" label="Started by" choices={[{ id: "", title: "All" }, ...Object.entries(triggers).map(([id, title]) => ({ id, title }))]} {...shared} />
          <Pick name="feedback" label="Rated" choices={ratings} {...shared} />
          <Text name="externalUserId" label="End user (exact id)" {...shared} />
          <Pick name="order" label="Order" choices={orders} {...shared} />
        </Filters>
        <Pages
          of={pages}
          label="Sessions"
          sorting={{ order: order ?? "", change: (order) => change({ order }) }}
          empty={
            query.size ? (
              <Empty title="No matching sessions">
                <p>Nothing matches the filters.</p>
                <Button onClick={() => go("sessions")}>Clear the filters</Button>
              </Empty>
            ) : (
              <Empty title="No sessions yet">
                <p>
                  A session is a conversation with an agent. <a href="#/agents">Start one on the page of an agent.</a>
                </p>
              </Empty>
            )
          }
          columns={columns(
            (s) =>
              s.accountId ? (
                <span class="clamp">{s.agentName ?? s.agentId}</span>
              ) : (
                <a href={"#/agents/" + s.agentId} class="clamp">
                  {s.agentName ?? <span class="mono">{s.agentId}</span>}
                </a>
              ),
            all,
          )}
        />
      </section>
      {all && <p class="muted small">Sessions of customers are shown without their texts.</p>}
    </>
  );
}

export function SessionsView({ agentId }: { agentId: string }) {
  const { may } = useSession();
  const pages = useList<Session>(`/api-agents/${agentId}/sessions`, 20);
  useLiveList(pages);
  return (
    <>
      {may("sessions:write") && <Start agentId={agentId} />}
      <section class="panel">
        <Pages
          of={pages}
          label="Sessions"
          empty={
            <Empty title="No sessions yet">
              <p>A session is a conversation with the agent. It runs here even when this page is closed.</p>
            </Empty>
          }
          columns={columns()}
        />
      </section>
    </>
  );
}

function Start({ agentId }: { agentId: string }) {
  const { api, offers } = useSession();
  const [message, setMessage] = useState("");
  const [once, setOnce] = useState(false);
  const [user, setUser] = useState("");
  const action = useAction();
  const agent = useAgent(agentId).data;
  const remembers = agent?.memory === "user";
  const own = useOwnSecrets({ agent, users: true, problem: action.problem });
  const submit = () => {
    if (!message.trim() || action.busy) return;
    void action.run(async (key) => {
      const made = await api.create<Session>(`/api-agents/${agentId}/sessions`, { message, mode: once ? "once" : "chat", ...own.body, ...(user.trim() && { externalUserId: user.trim() }) }, key);
      go(`agents/${agentId}/sessions/${made.id}`);
    });
  };
  return (
    <form
      class="stack start"
      onSubmit={(e) => {
        e.preventDefault();
        submit();
      }}
    >
      <label class="unseen" for="start">
        Message
      </label>
      <div class="row tight">
        <textarea
          id="start"
          class="input"
          rows={1}
          placeholder="Start a session with a message"
          value={message}
          onInput={(e) => setMessage(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
              e.preventDefault();
              submit();
            }
          }}
        />
        <Button kind="main" type="submit" icon="send" disabled={action.busy || !message.trim()}>
          Start
        </Button>
      </div>
      {own.fields}
      {(own.forUsers || remembers) && (
        <TextField id="start-user" label="End user" hint={"Your own name for them; optional." + (remembers ? " Without one, the agent remembers nothing." : "") + (own.forUsers ? " A secret of an end user is used in their sessions only." : "")} maxLength={128} value={user} onChange={setUser} />
      )}
      <div class="row small muted">
        <label class="check">
          <input type="checkbox" checked={once} onChange={(e) => setOnce(e.currentTarget.checked)} /> One shot: it asks nothing and ends with its answer
        </label>
        {offers("listAllSessions") && (
          <a class="push" href={"#/sessions/agentId=" + agentId}>
            Search and filter
          </a>
        )}
      </div>
      {action.problem && !own.shown && <Failure problem={action.problem} />}
    </form>
  );
}
