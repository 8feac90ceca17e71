// Script tags of the agent: launchers for pages that have no server.
import { useState } from "preact/hooks";
import type { CreateEmbedTag, EmbedTag } from "../../lib/contract";
import { count, credits, of } from "../../lib/format";
import { Badge, Button, Field, Time } from "../parts/basic";
import { Code } from "../parts/code";
import { GivenSecrets, hasSecrets, useAgent, useOwnSecrets } from "../parts/credentials";
import { Confirm, Dialog } from "../parts/dialog";
import { FormDialog, useAction } from "../parts/form";
import { Empty, Failure, States, useLoad } from "../parts/load";
import { Pages, type useList } from "../parts/table";
import { toast } from "../parts/toast";
import { useSession } from "../parts/session";

type Doing = { what: "make" } | { what: "edit" | "show" | "refused" | "delete"; tag: EmbedTag };

export function TagsTable({ agentId, path, pages, making, onMade }: { agentId: string; path: string; pages: ReturnType<typeof useList<EmbedTag>>; making: boolean; onMade: () => void }) {
  const { api } = useSession();
  const [chosen, setDoing] = useState<Doing>();
  const action = useAction();
  const doing: Doing | undefined = making ? { what: "make" } : chosen;
  const close = () => {
    onMade();
    setDoing(undefined);
  };
  const saved = (tag: EmbedTag) => {
    onMade();
    setDoing({ what: "show", tag });
    pages.first.reload();
  };
  const enable = (tag: EmbedTag, enabled: boolean) =>
    action.run(async () => {
      await api.patch(`${path}/${tag.id}`, { enabled });
      toast(enabled ? "It is enabled" : "It is disabled");
      pages.first.reload();
    });
  return (
    <>
      {action.problem && <Failure problem={action.problem} />}
      <Pages
        of={pages}
        label="Script tags"
        empty={
          <Empty title="No script tags yet">
            <p>A script tag is one line for a page that has no server. It shows a button that opens a chat with the agent.</p>
          </Empty>
        }
        columns={[
          {
            title: "Pages",
            show: (t) => (
              <>
                <div class="breaks">{t.allowedOrigins.join(", ")}</div>
                <div class="small muted breaks">{t.id}</div>
              </>
            ),
          },
          { title: "State", show: (t) => <Badge meaning={t.enabled ? "ok" : "none"}>{t.enabled ? "enabled" : t.disabledReason === "key_revoked" ? "disabled with its key" : "disabled"}</Badge> },
          { title: "Caps", show: (t) => <span class="nowrap">{of(t.chatsPerDay, "chat")} a day, {credits(t.maxCreditsMicro)} each</span> },
          {
            title: "Refused",
            show: (t) =>
              t.refusedRequests > 0 ? (
                <Button small onClick={() => setDoing({ what: "refused", tag: t })}>
                  {of(t.refusedRequests, "request")}
                </Button>
              ) : (
                <span class="muted">none</span>
              ),
          },
          { title: "Made", show: (t) => <Time at={t.createdAt} /> },
          {
            title: "",
            show: (t) => (
              <span class="row">
                <Button small onClick={() => setDoing({ what: "show", tag: t })}>
                  Snippet
                </Button>
                <Button small onClick={() => setDoing({ what: "edit", tag: t })}>
                  Edit
                </Button>
                <Button small onClick={() => void enable(t, !t.enabled)}>
                  {t.enabled ? "Disable" : "Enable"}
                </Button>
                <Button small kind="danger" onClick={() => setDoing({ what: "delete", tag: t })}>
                  Delete
                </Button>
              </span>
            ),
          },
        ]}
      />
      {doing?.what === "make" && <TagForm agentId={agentId} path={path} onClose={close} onDone={saved} />}
      {doing?.what === "edit" && <Edit agentId={agentId} path={path} id={doing.tag.id} onClose={close} onDone={saved} />}
      {doing?.what === "show" && <Snippet path={path} tag={doing.tag} onClose={close} />}
      {doing?.what === "refused" && <Blocked tag={doing.tag} onClose={close} />}
      {doing?.what === "delete" && (
        <Delete
          path={path}
          tag={doing.tag}
          onClose={close}
          onDone={() => {
            close();
            toast("It is deleted");
            pages.first.reload();
          }}
        />
      )}
    </>
  );
}

const languages = [["auto", "That of the page"], ["en", "English"], ["de", "German"], ["fr", "French"], ["es", "Spanish"]];

// useTag reads a script tag alone, which says what it has of its own.
function useTag(path: string, id: string) {
  const { api } = useSession();
  return useLoad((signal) => api.get<EmbedTag>(`${path}/${id}`, undefined, signal), [api, path, id]);
}

// Edit reads a script tag, and has the form change it.
function Edit({ agentId, path, id, onClose, onDone }: { agentId: string; path: string; id: string; onClose: () => void; onDone: (tag: EmbedTag) => void }) {
  return <States of={useTag(path, id)}>{(tag) => <TagForm agentId={agentId} path={path} tag={tag} onClose={onClose} onDone={onDone} />}</States>;
}

// TagForm makes a script tag, or changes one.
function TagForm({ agentId, path, tag, onClose, onDone }: { agentId: string; path: string; tag?: EmbedTag; onClose: () => void; onDone: (tag: EmbedTag) => void }) {
  const { api } = useSession();
  const [origins, setOrigins] = useState(tag?.allowedOrigins.join("\n") ?? "");
  const [greeting, setGreeting] = useState(tag?.greeting ?? "");
  const [theme, setTheme] = useState<string>(tag?.theme ?? "auto");
  const [accent, setAccent] = useState(tag?.accentColor ?? "");
  const [position, setPosition] = useState<string>(tag?.position ?? "right");
  const [language, setLanguage] = useState(tag?.language ?? "auto");
  const [cap, setCap] = useState(tag ? String(tag.maxCreditsMicro / 1e6) : "");
  const [chats, setChats] = useState(tag ? String(tag.chatsPerDay) : "");
  const action = useAction();
  const own = useOwnSecrets({ agent: useAgent(agentId).data, was: tag?.credentials, users: false, problem: action.problem });
  const allowedOrigins = origins.split(/[\s,]+/).filter(Boolean);
  const submit = () =>
    action.run(async (once) => {
      const body = {
        allowedOrigins, greeting: greeting.trim() || null, theme, accentColor: accent.trim() || null, position, language,
        maxCreditsMicro: cap ? Math.round(Number(cap) * 1e6) : null, chatsPerDay: chats ? Number(chats) : null, ...own.body,
      } as CreateEmbedTag;
      onDone(tag ? (await api.patch<EmbedTag>(`${path}/${tag.id}`, body)).data : await api.create<EmbedTag>(path, body, once));
    });
  const problem = action.problem;
  const about = (param: string) => (problem?.param?.split(/[.[]/)[0] === param ? problem.message : undefined);
  const shown = ["allowedOrigins", "accentColor", "maxCreditsMicro", "chatsPerDay"].some((p) => about(p)) || own.shown;
  return (
    <FormDialog id="tag-form" title={tag ? "Edit the script tag" : "Make a script tag"} submit={tag ? "Save" : "Make the script tag"} ready={allowedOrigins.length > 0} action={action} shown={shown} onSubmit={submit} onClose={onClose}>
      <Field id="tag-origins" label="Pages that may show it" hint="One per line, such as https://www.example.com, https://*.example.com or http://localhost:3000." problem={about("allowedOrigins")}>
        <textarea id="tag-origins" class="input code" rows={2} spellcheck={false} value={origins} onInput={(e) => setOrigins(e.currentTarget.value)} aria-describedby="tag-origins-hint" aria-invalid={about("allowedOrigins") ? "true" : undefined} autofocus />
      </Field>
      <Field id="tag-greeting" label="Greeting" hint="Shown before the first message; may be empty.">
        <input id="tag-greeting" class="input" maxLength={2000} value={greeting} onInput={(e) => setGreeting(e.currentTarget.value)} aria-describedby="tag-greeting-hint" />
      </Field>
      <Field id="tag-accent" label="Colour" hint="Such as #1a7f5a; empty: ours." problem={about("accentColor")}>
        <input id="tag-accent" class="input code" maxLength={7} pattern="#[0-9a-fA-F]{6}" value={accent} onInput={(e) => setAccent(e.currentTarget.value)} aria-describedby="tag-accent-hint" />
      </Field>
      <Choice id="tag-theme" label="Light or dark" value={theme} onChange={setTheme} options={[["auto", "As the visitor's system"], ["light", "Light"], ["dark", "Dark"]]} />
      <Choice id="tag-position" label="Corner" value={position} onChange={setPosition} options={[["right", "Lower right"], ["left", "Lower left"]]} />
      <Choice id="tag-language" label="Language" value={language} onChange={setLanguage} options={languages} />
      <Field id="tag-cap" label="Credits of one chat" hint="Empty: 5." problem={about("maxCreditsMicro")}>
        <input id="tag-cap" class="input" type="number" min="0.000001" step="any" value={cap} onInput={(e) => setCap(e.currentTarget.value)} aria-describedby="tag-cap-hint" />
      </Field>
      <Field id="tag-chats" label="Chats a day" hint="Empty: 200." problem={about("chatsPerDay")}>
        <input id="tag-chats" class="input" type="number" min={1} max={10000} step={1} value={chats} onInput={(e) => setChats(e.currentTarget.value)} aria-describedby="tag-chats-hint" />
      </Field>
      {own.fields}
    </FormDialog>
  );
}

function Choice({ id, label, value, onChange, options }: { id: string; label: string; value: string; onChange: (value: string) => void; options: string[][] }) {
  return (
    <Field id={id} label={label}>
      <select id={id} class="input" value={value} onChange={(e) => onChange(e.currentTarget.value)}>
        {options.map(([name, title]) => (
          <option key={name} value={name}>
            {title}
          </option>
        ))}
      </select>
    </Field>
  );
}

function Snippet({ path, tag, onClose }: { path: string; tag: EmbedTag; onClose: () => void }) {
  const own = useTag(path, tag.id).data?.credentials;
  return (
    <Dialog title="The script tag" wide onClose={onClose} footer={<Button kind="main" onClick={onClose}>Done</Button>}>
      <p>Put this into the page as it is. You do not need to update it when you change settings here.</p>
      <Code title="Into your page" text={tag.snippet} wraps />
      {hasSecrets(own) && (
        <div>
          <b>Secrets of its chats</b>
          <GivenSecrets of={own} />
        </div>
      )}
      <p>
        <a class="button" href={tag.previewUrl} target="_blank" rel="noreferrer">
          Open preview
        </a>
      </p>
    </Dialog>
  );
}

// Blocked tells the owner which pages were refused.
function Blocked({ tag, onClose }: { tag: EmbedTag; onClose: () => void }) {
  return (
    <Dialog title="Refused pages" onClose={onClose}>
      <p>
        {of(tag.refusedRequests, "request")} came from pages that are not allowed. To allow one, edit the script tag.
      </p>
      <ul class="plain-list">
        {tag.refusedOrigins.map((o) => (
          <li key={o.origin}>
            Blocked: <code class="breaks">{o.origin}</code> is not among the allowed origins. {count(o.times)} {o.times === 1 ? "time" : "times"}, last <Time at={o.lastAt} />
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

function Delete({ path, tag, onClose, onDone }: { path: string; tag: EmbedTag; onClose: () => void; onDone: () => void }) {
  const { api } = useSession();
  const action = useAction();
  const confirm = () =>
    action.run(async () => {
      await api.remove(`${path}/${tag.id}`);
      onDone();
    });
  return (
    <Confirm title="Delete this script tag?" action="Delete it" busy={action.busy} onConfirm={confirm} onClose={onClose}>
      <p>Pages show it no more, and its chats end at once. What was said stays, as sessions of the agent.</p>
      {action.problem && <Failure problem={action.problem} />}
    </Confirm>
  );
}
