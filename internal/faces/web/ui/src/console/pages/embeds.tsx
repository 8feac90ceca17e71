// Embeds of the agent: links and tokens, and rejected origins.
import { useState } from "preact/hooks";
import type { CreateEmbed, EmbedTag } from "../../lib/contract";
import { type Embed, frame, type NewEmbed, script, servers } from "../../lib/embeds";
import { count, moment, of } from "../../lib/format";
import { AttachmentsField, settingOf } from "../parts/attach";
import { Badge, Button, type Meaning, Notice, Time } from "../parts/basic";
import { Code } from "../parts/code";
import { GivenSecrets, hasSecrets, useAgent, useOwnSecrets } from "../parts/credentials";
import { Dialog } from "../parts/dialog";
import { Facts } from "../parts/facts";
import { AreaField, TextField } from "../parts/fields";
import { useLook } from "../parts/embedlook";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { Failure, States, useLoad } from "../parts/load";
import { type Resource, useResource } from "../parts/resource";
import { go } from "../parts/router";
import { useSession } from "../parts/session";
import { Table } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { Refusals, useTags } from "./tags";

const kinds = [
  { id: "embed-tags", title: "Script tags" },
  { id: "embed-urls", title: "Links" },
  { id: "embed-sessions", title: "Tokens" },
];

const states: Record<Embed["status"], [Meaning, string]> = { pending: ["none", "not opened yet"], active: ["ok", "active"], expired: ["none", "ended"], revoked: ["failed", "revoked"] };

export function EmbedsView({ agentId, name, enabled, shown }: { agentId: string; name: string; enabled: boolean; shown: string }) {
  const { api } = useSession();
  const kind = kinds.some((k) => k.id === shown) ? shown : kinds[0]!.id;
  const path = `/api-agents/${agentId}/${kind}`;
  const links = kind === "embed-urls";
  const { tags, problem } = useTags(agentId, path, enabled, name);
  const embeds: Resource<Embed> = {
    path,
    limit: 20,
    label: links ? "Links" : "Tokens",
    search: { name: "q", label: "End user or origin" },
    nothing: links ? "No such links" : "No such tokens",
    create: {
      title: links ? "Create link" : "Create token",
      disabled: !enabled,
      dialog: ({ onClose, onNext }) => <Make agentId={agentId} path={path} links={links} onClose={onClose} onDone={(embed, body) => onNext((ends) => <Made agentId={agentId} of={embed} body={body} onClose={ends.onClose} />)} />,
    },
    empty: links
      ? { title: "No links yet", text: "A link shows the agent in a frame of your page, for one visitor and one chat. Your server creates one per visit." }
      : { title: "No tokens yet", text: "A token lets a page of yours show the chat itself, for one visitor and one chat. Your server creates one per visit." },
    columns: (show) => [
      {
        title: "For",
        show: (e) => (
          <>
            <div class="breaks">{e.externalUserId ?? <span class="muted">a visitor</span>}</div>
            <div class="small muted breaks">{e.allowedOrigins.join(", ")}</div>
          </>
        ),
      },
      { title: "State", keep: 2, show: (e) => <Badge meaning={states[e.status]?.[0]}>{states[e.status]?.[1] ?? e.status}</Badge> },
      {
        title: "Chat",
        show: (e) =>
          e.messagesSent > 0 ? (
            <a class="nowrap" href={`#/agents/${agentId}/sessions/${e.chatSessionId}`}>
              {count(e.messagesSent)} of {of(e.maxMessages, "message")}
            </a>
          ) : (
            <span class="muted nowrap">nothing said</span>
          ),
      },
      { title: "Refused", named: true, show: (e) => <Refusals of={e} onOpen={() => show(({ onClose }) => <Refused of={e} onClose={onClose} />)} /> },
      { title: "Made", show: (e) => <Time at={e.createdAt} /> },
    ],
    actions: [
      { title: "Details", kind: "quiet", dialog: ({ onClose }, e) => <Details path={`${path}/${e.id}`} onClose={onClose} /> },
      {
        title: "Revoke",
        kind: "danger",
        when: (e) => e.status === "pending" || e.status === "active",
        dialog: (ends, e) => (
          <ConfirmAction title="Revoke this embed?" action="Revoke it" work={() => api.remove(`${path}/${e.id}`)} said="It is revoked" {...ends}>
            <p>The visitor can send no more messages, and open chats close within a second. The conversation is kept as a session of the agent.</p>
          </ConfirmAction>
        ),
      },
    ],
  };
  // One list for all kinds, so that the tabs above it keep the focus.
  const { head, list, dialog } = useResource((kind === "embed-tags" ? tags : embeds) as Resource<Embed | EmbedTag>);
  return (
    <>
      {!enabled && (
        <Notice meaning="waiting">
          <p>
            <b>Embedding is off for this agent.</b> Turn it on in its <a href={`#/agents/${agentId}/settings`}>settings</a>.
          </p>
        </Notice>
      )}
      <section class="panel">
        <header>
          <Tabs label="Kind of embed" tabs={kinds} active={kind} onChange={(id) => go(`agents/${agentId}/embeds/${id}`)} />
          {head}
        </header>
        {problem && <Failure problem={problem} />}
        {list}
      </section>
      {dialog}
    </>
  );
}

// Details shows the current state of one link or token.
function Details({ path, onClose }: { path: string; onClose: () => void }) {
  const { api } = useSession();
  const embed = useLoad((signal) => api.get<Embed>(path, undefined, signal), [api, path]);
  return (
    <Dialog title="Details" drawer onClose={onClose} footer={<Button kind="main" onClick={onClose}>Done</Button>}>
      <States of={embed}>
        {(e) => (
          <Facts
            of={[
              ["State", <Badge meaning={states[e.status]?.[0]}>{states[e.status]?.[1] ?? e.status}</Badge>],
              ["Visitor", e.externalUserId ?? <span class="muted">any visitor</span>, "breaks"],
              ["Pages that can show it", e.allowedOrigins.join(", "), "breaks"],
              e.greeting && ["Greeting", e.greeting, "breaks"],
              hasSecrets(e.credentials) && ["Secrets of its chat", <GivenSecrets of={e.credentials} />],
            ]}
          />
        )}
      </States>
    </Dialog>
  );
}

function Make({ agentId, path, links, onClose, onDone }: { agentId: string; path: string; links: boolean; onClose: () => void; onDone: (made: NewEmbed, body: CreateEmbed) => void }) {
  const { api } = useSession();
  const [origins, setOrigins] = useState("");
  const [user, setUser] = useState("");
  const [greeting, setGreeting] = useState("");
  const [messages, setMessages] = useState("");
  const [files, setFiles] = useState("");
  const [cap, setCap] = useState("");
  const action = useAction();
  const agent = useAgent(agentId).data;
  const look = useLook({ name: agent?.name, problem: action.problem });
  const own = useOwnSecrets({ agent, users: true, problem: action.problem });
  const allowedOrigins = origins.split(/[\s,]+/).filter(Boolean);
  const submit = () =>
    action.run(async (once) => {
      const body: CreateEmbed = { allowedOrigins, ...own.body };
      for (const [name, value] of Object.entries(look.body)) if (value) Object.assign(body, { [name]: value });
      if (user.trim()) body.externalUserId = user.trim();
      if (greeting.trim()) body.greeting = greeting;
      if (files) body.attachments = settingOf(files) as CreateEmbed["attachments"];
      if (messages) body.maxMessages = Number(messages);
      if (cap) body.maxCreditsMicro = Math.round(Number(cap) * 1e6);
      onDone(await api.create<NewEmbed>(path, body, once), body);
    });
  const problem = action.problem;
  const about = (param: string) => (problem?.param?.split(/[.[]/)[0] === param ? problem.message : undefined);
  return (
    <FormDialog
      id="make-embed"
      title={links ? "Create link" : "Create token"}
      submit={links ? "Create the link" : "Create the token"}
      missing={allowedOrigins.length > 0 ? undefined : "Name a page that can show it"}
      action={action}
      preview={links && look.preview({ greeting })}
      shown={!!about("allowedOrigins") || look.shown || own.shown}
      onSubmit={submit}
      onClose={onClose}
    >
      <AreaField id="embed-origins" label="Pages that can show it" hint="One per line, such as https://www.example.com, https://*.example.com or http://localhost:3000." problem={about("allowedOrigins")} code rows={2} spellcheck={false} value={origins} onChange={setOrigins} autofocus />
      <TextField id="embed-user" label="Visitor" hint="Your own id of the visitor." placeholder="anonymous" maxLength={128} value={user} onChange={setUser} />
      <TextField id="embed-greeting" label="Greeting" hint="Shown before the first message." placeholder="none" maxLength={2000} value={greeting} onChange={setGreeting} />
      {look.fields}
      <TextField id="embed-messages" label="Maximum messages" placeholder="50" type="number" min={1} max={1000} step={1} value={messages} onChange={setMessages} />
      <TextField id="embed-cap" label="Maximum credits" placeholder="5" type="number" min="0.000001" step="any" value={cap} onChange={setCap} />
      <AttachmentsField id="embed-files" value={files} onChange={setFiles} />
      {own.fields}
    </FormDialog>
  );
}

function Made({ agentId, of: made, body, onClose }: { agentId: string; of: NewEmbed; body: CreateEmbed; onClose: () => void }) {
  return (
    <Dialog
      title={made.url ? "The link" : "The token"}
      wide
      stays
      onClose={onClose}
      footer={
        <Button kind="main" onClick={onClose}>
          Done
        </Button>
      }
    >
      <Notice meaning="waiting">
        <p>
          <b>This is shown once.</b> {made.url ? "It opens one chat, once, and expires" : "It expires"} {moment(made.expiresAt)}.
        </p>
      </Notice>
      {made.url ? (
        <>
          <Code title="Try it now (works once)" text={frame(made.url)} />
          <p>
            <a class="button" href={made.url} target="_blank" rel="noreferrer">
              Open preview
            </a>
          </p>
          <OnServer agentId={agentId} body={body} />
          <p class="small muted">A page without a server uses a script tag.</p>
        </>
      ) : (
        <>
          <Code title="Token" text={made.token ?? ""} wraps />
          <Code title="In your page" text={script(location.origin, made.chatSessionId)} />
        </>
      )}
    </Dialog>
  );
}

// OnServer shows the code that makes a link for each visit.
function OnServer({ agentId, body }: { agentId: string; body: CreateEmbed }) {
  const all = servers(location.origin, agentId, body);
  const [shown, setShown] = useState(all[0]!.id);
  return (
    <div data-server>
      <Tabs label="Language of your server" tabs={all} active={shown} onChange={setShown} />
      <Code title="On your server: a link per visit" text={all.find((s) => s.id === shown)!.text} />
    </div>
  );
}

function Refused({ of: e, onClose }: { of: Embed; onClose: () => void }) {
  return (
    <Dialog title="Refused pages" onClose={onClose}>
      <p>
        {of(e.refusedRequests, "request")} came from pages that are not allowed. Allowed {e.allowedOrigins.length === 1 ? "is" : "are"} <code>{e.allowedOrigins.join(", ")}</code>. To allow another, make a new embed with it.
      </p>
      <Table
        label="Refused pages"
        rows={e.refusedOrigins.map((o) => ({ ...o, id: o.origin }))}
        columns={[
          { title: "Page", show: (o) => <code class="breaks">{o.origin}</code> },
          { title: "Times", number: true, show: (o) => count(o.times) },
          { title: "Last", show: (o) => <Time at={o.lastAt} /> },
        ]}
      />
    </Dialog>
  );
}
