// Embeds of the agent: links and tokens, and refused origins.
import { useState } from "preact/hooks";
import type { CreateEmbed, EmbedTag } from "../../lib/contract";
import { type Embed, frame, type NewEmbed, script, servers } from "../../lib/embeds";
import { count, moment, of } from "../../lib/format";
import { Badge, Button, Field, type Meaning, Notice, Time } from "../parts/basic";
import { Code } from "../parts/code";
import { GivenSecrets, hasSecrets, useAgent, useOwnSecrets } from "../parts/credentials";
import { Confirm, Dialog } from "../parts/dialog";
import { FormDialog, useAction } from "../parts/form";
import { Empty, Failure, States, useLoad } from "../parts/load";
import { Pages, Table, useList } from "../parts/table";
import { Tabs } from "../parts/tabs";
import { toast } from "../parts/toast";
import { go } from "../parts/router";
import { useSession } from "../parts/session";
import { TagsTable } from "./tags";

const kinds = [
  { id: "embed-urls", title: "Links" },
  { id: "embed-sessions", title: "Tokens" },
  { id: "embed-tags", title: "Script tags" },
];

const states: Record<Embed["status"], [Meaning, string]> = { pending: ["waiting", "not opened yet"], active: ["ok", "active"], expired: ["none", "ended"], revoked: ["failed", "revoked"] };

export function EmbedsView({ agentId, enabled, shown }: { agentId: string; enabled: boolean; shown: string }) {
  const kind = kinds.some((k) => k.id === shown) ? shown : kinds[0]!.id;
  const path = `/api-agents/${agentId}/${kind}`;
  const tags = kind === "embed-tags";
  const pages = useList<Embed | EmbedTag>(path, 20);
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<{ embed: NewEmbed; body: CreateEmbed }>();
  const [revoking, setRevoking] = useState<Embed>();
  const [refused, setRefused] = useState<Embed>();
  const [looking, setLooking] = useState<Embed>();
  const links = kind === "embed-urls";
  return (
    <>
      {!enabled && (
        <Notice meaning="waiting">
          <p>
            <b>This agent may not be shown in pages.</b> Allow it in its <a href={`#/agents/${agentId}/settings`}>settings</a>.
          </p>
        </Notice>
      )}
      <section class="panel">
        <header>
          <Tabs label="Kind of embed" tabs={kinds} active={kind} onChange={(id) => go(`agents/${agentId}/embeds/${id}`)} />
          <div class="push">
            <Button kind="main" icon="plus" disabled={!enabled} onClick={() => setMaking(true)}>
              {tags ? "Make a script tag" : links ? "Make a link" : "Make a token"}
            </Button>
          </div>
        </header>
        {tags ? <TagsTable key="tags" agentId={agentId} path={path} pages={pages as ReturnType<typeof useList<EmbedTag>>} making={making} onMade={() => setMaking(false)} /> : <Pages
          key="embeds"
          of={pages as ReturnType<typeof useList<Embed>>}
          label={links ? "Links" : "Tokens"}
          empty={
            links ? (
              <Empty title="No links yet">
                <p>A link shows the agent in a frame of your page, for one visitor and one chat. Your server makes one per visit.</p>
              </Empty>
            ) : (
              <Empty title="No tokens yet">
                <p>A token lets a page of yours show the chat itself, for one visitor and one chat. Your server makes one per visit.</p>
              </Empty>
            )
          }
          columns={[
            {
              title: "For",
              show: (e) => (
                <>
                  <div class="breaks">{e.externalUserId ?? <span class="muted">a visitor</span>}</div>
                  <div class="small muted breaks">{e.allowedOrigins.join(", ")}</div>
                </>
              ),
            },
            { title: "State", show: (e) => <Badge meaning={states[e.status]?.[0]}>{states[e.status]?.[1] ?? e.status}</Badge> },
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
            {
              title: "Refused",
              show: (e) =>
                e.refusedRequests > 0 ? (
                  <Button small onClick={() => setRefused(e)}>
                    {of(e.refusedRequests, "request")}
                  </Button>
                ) : (
                  <span class="muted">none</span>
                ),
            },
            { title: "Made", show: (e) => <Time at={e.createdAt} /> },
            {
              title: "",
              show: (e) => (
                <span class="row">
                  <Button small kind="quiet" onClick={() => setLooking(e)}>
                    Details
                  </Button>
                  {(e.status === "pending" || e.status === "active") && (
                    <Button small kind="danger" onClick={() => setRevoking(e)}>
                      Revoke
                    </Button>
                  )}
                </span>
              ),
            },
          ]}
        />}
      </section>
      {making && !tags && (
        <Make
          agentId={agentId}
          path={path}
          links={links}
          onClose={() => setMaking(false)}
          onDone={(embed, body) => {
            setMaking(false);
            setMade({ embed, body });
            pages.first.reload();
          }}
        />
      )}
      {made && <Made agentId={agentId} of={made.embed} body={made.body} onClose={() => setMade(undefined)} />}
      {looking && <Details path={`${path}/${looking.id}`} onClose={() => setLooking(undefined)} />}
      {refused && <Refused of={refused} onClose={() => setRefused(undefined)} />}
      {revoking && (
        <Revoke
          path={path}
          of={revoking}
          onClose={() => setRevoking(undefined)}
          onDone={() => {
            setRevoking(undefined);
            toast("It is revoked");
            pages.first.reload();
          }}
        />
      )}
    </>
  );
}

// Details shows one link or token as it is now.
function Details({ path, onClose }: { path: string; onClose: () => void }) {
  const { api } = useSession();
  const embed = useLoad((signal) => api.get<Embed>(path, undefined, signal), [api, path]);
  return (
    <Dialog title="Details" onClose={onClose} footer={<Button kind="main" onClick={onClose}>Done</Button>}>
      <States of={embed}>
        {(e) => (
          <dl class="facts">
            <dt>State</dt>
            <dd>
              <Badge meaning={states[e.status]?.[0]}>{states[e.status]?.[1] ?? e.status}</Badge>
            </dd>
            <dt>Visitor</dt>
            <dd class="breaks">{e.externalUserId ?? <span class="muted">nobody in particular</span>}</dd>
            <dt>Pages that may show it</dt>
            <dd class="breaks">{e.allowedOrigins.join(", ")}</dd>
            {e.greeting && (
              <>
                <dt>Greeting</dt>
                <dd class="breaks">{e.greeting}</dd>
              </>
            )}
            {hasSecrets(e.credentials) && (
              <>
                <dt>Secrets of its chat</dt>
                <dd>
                  <GivenSecrets of={e.credentials} />
                </dd>
              </>
            )}
          </dl>
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
  const [cap, setCap] = useState("");
  const action = useAction();
  const own = useOwnSecrets({ agent: useAgent(agentId).data, users: true, problem: action.problem });
  const allowedOrigins = origins.split(/[\s,]+/).filter(Boolean);
  const submit = () =>
    action.run(async (once) => {
      const body: CreateEmbed = { allowedOrigins, ...own.body };
      if (user.trim()) body.externalUserId = user.trim();
      if (greeting.trim()) body.greeting = greeting;
      if (messages) body.maxMessages = Number(messages);
      if (cap) body.maxCreditsMicro = Math.round(Number(cap) * 1e6);
      onDone(await api.create<NewEmbed>(path, body, once), body);
    });
  const problem = action.problem;
  const about = (param: string) => (problem?.param?.split(/[.[]/)[0] === param ? problem.message : undefined);
  return (
    <FormDialog
      id="make-embed"
      title={links ? "Make a link" : "Make a token"}
      submit={links ? "Make the link" : "Make the token"}
      ready={allowedOrigins.length > 0}
      action={action}
      shown={!!about("allowedOrigins") || own.shown}
      onSubmit={submit}
      onClose={onClose}
    >
      <Field id="embed-origins" label="Pages that may show it" hint="One per line, such as https://www.example.com, https://*.example.com or http://localhost:3000." problem={about("allowedOrigins")}>
        <textarea id="embed-origins" class="input code" rows={2} spellcheck={false} value={origins} onInput={(e) => setOrigins(e.currentTarget.value)} aria-describedby="embed-origins-hint" aria-invalid={about("allowedOrigins") ? "true" : undefined} autofocus />
      </Field>
      <Field id="embed-user" label="Visitor" hint="As you call them; may be empty.">
        <input id="embed-user" class="input" maxLength={128} value={user} onInput={(e) => setUser(e.currentTarget.value)} aria-describedby="embed-user-hint" />
      </Field>
      <Field id="embed-greeting" label="Greeting" hint="Shown before the first message; may be empty.">
        <input id="embed-greeting" class="input" maxLength={2000} value={greeting} onInput={(e) => setGreeting(e.currentTarget.value)} aria-describedby="embed-greeting-hint" />
      </Field>
      <Field id="embed-messages" label="Messages at most" hint="Empty: 50.">
        <input id="embed-messages" class="input" type="number" min={1} max={1000} step={1} value={messages} onInput={(e) => setMessages(e.currentTarget.value)} aria-describedby="embed-messages-hint" />
      </Field>
      <Field id="embed-cap" label="Credits at most" hint="Empty: 5.">
        <input id="embed-cap" class="input" type="number" min="0.000001" step="any" value={cap} onInput={(e) => setCap(e.currentTarget.value)} aria-describedby="embed-cap-hint" />
      </Field>
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
          I have kept it
        </Button>
      }
    >
      <Notice meaning="waiting">
        <p>
          <b>This is shown once.</b> {made.url ? "It opens one chat, once, and has to be opened by" : "It holds until"} {moment(made.expiresAt)}.
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
          <p class="small muted">A page without a server takes a script tag.</p>
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

function Revoke({ path, of: e, onClose, onDone }: { path: string; of: Embed; onClose: () => void; onDone: () => void }) {
  const { api } = useSession();
  const action = useAction();
  const confirm = () =>
    action.run(async () => {
      await api.remove(`${path}/${e.id}`);
      onDone();
    });
  return (
    <Confirm title="Revoke this embed?" action="Revoke it" busy={action.busy} onConfirm={confirm} onClose={onClose}>
      <p>The visitor can say nothing more, and open chats close within a second. What was said stays, as a session of the agent.</p>
      {action.problem && <Failure problem={action.problem} />}
    </Confirm>
  );
}
