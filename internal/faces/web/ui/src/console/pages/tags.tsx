// Script tags of the agent: launchers for pages without a server.
import { useState } from "preact/hooks";
import type { CreateEmbedTag, EmbedTag } from "../../lib/contract";
import { count, credits, of } from "../../lib/format";
import { AttachmentsField, choiceOf, settingOf } from "../parts/attach";
import { Badge, Button, Field, Time } from "../parts/basic";
import { Code } from "../parts/code";
import { GivenSecrets, hasSecrets, useAgent, useOwnSecrets } from "../parts/credentials";
import { Dialog } from "../parts/dialog";
import { AreaField, SelectField, TextField } from "../parts/fields";
import { useLook } from "../parts/embedlook";
import { ConfirmAction, FormDialog, useAction } from "../parts/form";
import { States, useLoad } from "../parts/load";
import type { Ends, Resource } from "../parts/resource";
import { useSession } from "../parts/session";
import { toast } from "../parts/toast";

// useTags declares the script tags at a path. The problem is the error of enabling one.
export function useTags(agentId: string, path: string, enabled: boolean, name?: string) {
  const { api } = useSession();
  const { problem, run } = useAction({ repeats: true });
  const enable = (tag: EmbedTag, reload: () => void) =>
    run(async () => {
      await api.patch(`${path}/${tag.id}`, { enabled: !tag.enabled });
      toast(tag.enabled ? "It is disabled" : "It is enabled");
      reload();
    });
  const snippet = (ends: Ends, tag: EmbedTag) => <Snippet path={path} tag={tag} onClose={ends.onClose} />;
  const form = (ends: Ends) => ({ agentId, path, onClose: ends.onClose, onDone: (tag: EmbedTag) => ends.onNext((then) => snippet(then, tag)) });
  const tags: Resource<EmbedTag> = {
    path,
    limit: 20,
    label: "Script tags",
    search: { name: "q", label: "Origin or greeting" },
    nothing: "No such tags",
    create: { title: "Create script tag", disabled: !enabled, dialog: (ends) => <TagForm {...form(ends)} /> },
    empty: { title: "No script tags yet", text: "A script tag is one line for a page that has no server. It shows a button that opens a chat with the agent." },
    columns: (show) => [
      {
        title: "Chat",
        show: (t) => (
          <>
            <button type="button" class="link" onClick={() => show((ends) => snippet(ends, t))}>
              {t.title ?? name ?? "Untitled"}
            </button>
            <div class="small muted breaks">{t.allowedOrigins.join(", ")}</div>
          </>
        ),
      },
      { title: "State", keep: 2, show: (t) => <Badge meaning={t.enabled ? "ok" : "none"}>{t.enabled ? "enabled" : t.disabledReason === "key_revoked" ? "disabled with its key" : "disabled"}</Badge> },
      { title: "Caps", show: (t) => <span class="nowrap">{of(t.chatsPerDay, "chat")} a day, {credits(t.maxCreditsMicro)} each</span> },
      { title: "Refused", named: true, show: (t) => <Refusals of={t} onOpen={() => show(({ onClose }) => <Blocked tag={t} onClose={onClose} />)} /> },
      { title: "Made", show: (t) => <Time at={t.createdAt} /> },
    ],
    actions: [
      { title: "Snippet", dialog: snippet },
      { title: "Edit", dialog: (ends, t) => <Edit {...form(ends)} id={t.id} /> },
      { title: (t) => (t.enabled ? "Disable" : "Enable"), run: enable },
      {
        title: "Delete",
        kind: "danger",
        dialog: (ends, t) => (
          <ConfirmAction title="Delete this script tag?" action="Delete it" undo="The script tag is deleted in 5 seconds" work={() => api.remove(`${path}/${t.id}`)} said="It is deleted" {...ends}>
            <p>Pages no longer show it, and its chats end immediately. Conversations are kept as sessions of the agent.</p>
          </ConfirmAction>
        ),
      },
    ],
  };
  return { tags, problem };
}

// Refusals is a button with the number of rejected requests.
export function Refusals({ of: e, onOpen }: { of: { refusedRequests: number }; onOpen: () => void }) {
  if (e.refusedRequests === 0) return <span class="muted">none</span>;
  return (
    <Button small onClick={onOpen}>
      {of(e.refusedRequests, "request")}
    </Button>
  );
}

const usualAccent = "#0d6660";

const languages: [string, string][] = [["auto", "That of the page"], ["en", "English"], ["de", "German"], ["fr", "French"], ["es", "Spanish"]];

// useTag reads a single script tag, including its own credentials.
function useTag(path: string, id: string) {
  const { api } = useSession();
  return useLoad((signal) => api.get<EmbedTag>(`${path}/${id}`, undefined, signal), [api, path, id]);
}

// Edit reads a script tag and shows the form to change it.
function Edit({ agentId, path, id, onClose, onDone }: { agentId: string; path: string; id: string; onClose: () => void; onDone: (tag: EmbedTag) => void }) {
  return <States of={useTag(path, id)}>{(tag) => <TagForm agentId={agentId} path={path} tag={tag} onClose={onClose} onDone={onDone} />}</States>;
}

// TagForm creates or changes a script tag.
function TagForm({ agentId, path, tag, onClose, onDone }: { agentId: string; path: string; tag?: EmbedTag; onClose: () => void; onDone: (tag: EmbedTag) => void }) {
  const { api } = useSession();
  const [origins, setOrigins] = useState(tag?.allowedOrigins.join("\n") ?? "");
  const [greeting, setGreeting] = useState(tag?.greeting ?? "");
  const [theme, setTheme] = useState<string>(tag?.theme ?? "auto");
  const [accent, setAccent] = useState(tag?.accentColor ?? "");
  const [position, setPosition] = useState<string>(tag?.position ?? "right");
  const [language, setLanguage] = useState(tag?.language ?? "auto");
  const [cap, setCap] = useState(tag ? String(tag.maxCreditsMicro / 1e6) : "");
  const [files, setFiles] = useState(choiceOf(tag?.attachments));
  const [chats, setChats] = useState(tag ? String(tag.chatsPerDay) : "");
  const action = useAction();
  const agent = useAgent(agentId).data;
  const look = useLook({ was: tag, name: agent?.name, problem: action.problem });
  const own = useOwnSecrets({ agent, was: tag?.credentials, users: false, problem: action.problem });
  const allowedOrigins = origins.split(/[\s,]+/).filter(Boolean);
  const submit = () =>
    action.run(async (once) => {
      const body = {
        allowedOrigins, greeting: greeting.trim() || null, theme, accentColor: accent.trim() || null, position, language,
        maxCreditsMicro: cap ? Math.round(Number(cap) * 1e6) : null, chatsPerDay: chats ? Number(chats) : null, ...(files !== choiceOf(tag?.attachments) && { attachments: settingOf(files) }), ...look.body, ...own.body,
      } as CreateEmbedTag;
      onDone(tag ? (await api.patch<EmbedTag>(`${path}/${tag.id}`, body)).data : await api.create<EmbedTag>(path, body, once));
    });
  const problem = action.problem;
  const about = (param: string) => (problem?.param?.split(/[.[]/)[0] === param ? problem.message : undefined);
  const shown = ["allowedOrigins", "accentColor", "maxCreditsMicro", "chatsPerDay"].some((p) => about(p)) || look.shown || own.shown;
  return (
    <FormDialog id="tag-form" title={tag ? "Edit the script tag" : "Create script tag"} submit={tag ? "Save" : "Create the script tag"} preview={look.preview({ greeting, accent, theme })} ready={allowedOrigins.length > 0} action={action} shown={shown} onSubmit={submit} onClose={onClose}>
      <AreaField id="tag-origins" label="Pages that can show it" hint="One per line, such as https://www.example.com, https://*.example.com or http://localhost:3000." problem={about("allowedOrigins")} code rows={2} spellcheck={false} value={origins} onChange={setOrigins} autofocus />
      <TextField id="tag-greeting" label="Greeting" hint="Shown before the first message." placeholder="none" maxLength={2000} value={greeting} onChange={setGreeting} />
      {look.fields}
      <Field id="tag-accent" label="Color" problem={about("accentColor")}>
        <div class="row tight">
          <input class="input" type="color" aria-label="Choose the color" value={/^#[0-9a-f]{6}$/i.test(accent) ? accent : usualAccent} onInput={(e) => setAccent(e.currentTarget.value)} />
          <input id="tag-accent" class="input code" placeholder={usualAccent} maxLength={7} pattern="#[0-9a-fA-F]{6}" value={accent} onInput={(e) => setAccent(e.currentTarget.value)} aria-invalid={!!about("accentColor")} />
        </div>
      </Field>
      <SelectField id="tag-theme" label="Light or dark" value={theme} onChange={setTheme} options={[["auto", "As the visitor's system"], ["light", "Light"], ["dark", "Dark"]]} />
      <SelectField id="tag-position" label="Corner" value={position} onChange={setPosition} options={[["right", "Lower right"], ["left", "Lower left"]]} />
      <SelectField id="tag-language" label="Language" value={language} onChange={setLanguage} options={languages} />
      <TextField id="tag-cap" label="Credits of one chat" placeholder="5" problem={about("maxCreditsMicro")} type="number" min="0.000001" step="any" value={cap} onChange={setCap} />
      <TextField id="tag-chats" label="Chats a day" placeholder="200" problem={about("chatsPerDay")} type="number" min={1} max={10000} step={1} value={chats} onChange={setChats} />
      <AttachmentsField id="tag-files" value={files} onChange={setFiles} />
      {own.fields}
    </FormDialog>
  );
}

function Snippet({ path, tag, onClose }: { path: string; tag: EmbedTag; onClose: () => void }) {
  const own = useTag(path, tag.id).data?.credentials;
  return (
    <Dialog title="The script tag" wide onClose={onClose} footer={<Button kind="main" onClick={onClose}>Done</Button>}>
      <p>Paste this into your page. You don't need to update it when you change settings here.</p>
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

// Blocked shows the rejected pages to the owner.
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
