// The look of an embed: its title, logo and starters, and a preview of the chat.
import { useState } from "preact/hooks";
import { onceKey, type Problem } from "../../lib/api";
import type { EmbedLogo, EmbedTag } from "../../lib/contract";
import { on } from "../../lib/accent";
import { moment } from "../../lib/format";
import { Face } from "./face";
import { Button, Field } from "./basic";
import { Icon } from "./icon";
import { AreaField, TextField } from "./fields";
import { ConfirmAction, useAction } from "./form";
import { useSession } from "./session";
import { useList } from "./table";

type Look = Partial<Pick<EmbedTag, "title" | "logo" | "logoUrl" | "starters" | "feedback" | "contact">>;

// useLook returns the fields of a look, its part of a body, and the preview of a chat with it.
export function useLook({ was = {}, name, problem }: { was?: Look; name?: string; problem?: Problem }) {
  const { api, offers } = useSession();
  const logos = useList<EmbedLogo>(offers("listEmbedLogos") ? "/embed-logos" : undefined, 24);
  const [deleting, setDeleting] = useState(false);
  const [title, setTitle] = useState(was.title ?? "");
  const [logo, setLogo] = useState<{ id: string; url: string } | null>(was.logo ? { id: was.logo, url: was.logoUrl ?? "" } : null);
  const [lines, setLines] = useState((was.starters ?? []).join("\n"));
  const [feedback, setFeedback] = useState(was.feedback ?? true);
  const [contact, setContact] = useState(was.contact ?? false);
  const upload = useAction({ repeats: true });
  const starters = lines.split("\n").map((line) => line.trim()).filter(Boolean);
  const about = (param: string) => (problem?.param?.split(/[.[]/)[0] === param ? problem.message : undefined);
  const take = (file: File) =>
    upload.run(async () => {
      const url = await new Promise<string>((done) => {
        const reader = new FileReader();
        reader.onload = () => done(reader.result as string);
        reader.readAsDataURL(file);
      });
      setLogo(await api.create<EmbedLogo>("/embed-logos", { content: url.slice(url.indexOf(",") + 1) }, onceKey()));
      logos.first.reload();
    });
  return {
    body: { title: title.trim() || null, logo: logo?.id ?? null, starters: starters.length > 0 ? starters : null, feedback, contact },
    shown: ["title", "logo", "starters"].some(about),
    fields: (
      <>
        <TextField id="embed-title" label="Title" placeholder={name ?? "the agent's name"} maxLength={80} problem={about("title")} value={title} onChange={setTitle} />
        <Field id="embed-logo" label="Logo" hint="PNG, JPEG or WebP, up to 256 KB." problem={upload.problem?.message ?? about("logo")}>
          <div class="row tight">
            <input
              id="embed-logo"
              class="input"
              type="file"
              accept="image/png,image/jpeg,image/webp"
              aria-describedby="embed-logo-hint"
              disabled={upload.busy}
              onChange={(e) => {
                const file = e.currentTarget.files?.[0];
                if (file) void take(file);
              }}
            />
            {logo && <Button kind="quiet" icon="cross" label="Remove the logo" onClick={() => setLogo(null)} />}
          </div>
          {logos.rows.length > 0 && (
            <div class="row logos" role="group" aria-label="Uploaded logos">
              {logos.rows.map((l) => (
                <button key={l.id} type="button" class="button" aria-pressed={logo?.id === l.id} aria-label={`Logo of ${moment(l.createdAt)}`} title={`${l.width} × ${l.height} pixels, uploaded ${moment(l.createdAt)}`} onClick={() => setLogo(l)}>
                  <img src={l.url} alt="" loading="lazy" />
                </button>
              ))}
              {logos.hasMore && (
                <Button small kind="quiet" disabled={logos.busy} onClick={logos.next}>
                  Show more
                </Button>
              )}
              {logos.rows.some((l) => l.id === logo?.id) && (
                <Button small kind="quiet" icon="trash" onClick={() => setDeleting(true)}>
                  Delete
                </Button>
              )}
            </div>
          )}
          {deleting && logo && (
            <ConfirmAction
              title="Delete the logo?"
              action="Delete it"
              work={() => api.remove("/embed-logos/" + logo.id)}
              onClose={() => setDeleting(false)}
              onDone={() => {
                setDeleting(false);
                setLogo(null);
                logos.first.reload();
              }}
            >
              <img class="picture" src={logo.url} alt="The logo" />
              <p>Script tags and open chats of any agent that use it show the first letter of their title instead. This cannot be undone.</p>
            </ConfirmAction>
          )}
        </Field>
        <AreaField id="embed-starters" label="Suggested questions" hint="One per line, up to 6. A click sends one." placeholder="none" rows={3} problem={about("starters")} value={lines} onChange={setLines} />
        <label class="check">
          <input type="checkbox" checked={feedback} onChange={(e) => setFeedback(e.currentTarget.checked)} /> Visitors can rate answers
        </label>
        <label class="check">
          <input type="checkbox" checked={contact} onChange={(e) => setContact(e.currentTarget.checked)} /> Visitors can ask for a person
        </label>
        {contact && <p class="small muted">Webhooks and mails with the event "person requested" tell you. Create one under Webhooks.</p>}
      </>
    ),
    // preview shows the first screen of the chat.
    preview: ({ greeting, accent = "", theme = "auto" }: { greeting: string; accent?: string; theme?: string }) => {
      const shown = title.trim() || name || "The agent";
      const branded = /^#[0-9a-f]{6}$/i.test(accent);
      return (
        <div class="mock" style={{ colorScheme: theme === "auto" ? "" : theme, ...(branded && { "--brand": accent, "--on-brand": on(accent) }) }}>
          <p class="row">
            <Face title={shown} logo={logo?.url} />
            <b class="cut">{shown}</b>
          </p>
          <p class={greeting ? "" : "muted"}>{greeting || "Write your question below."}</p>
          {starters.slice(0, 6).map((text) => (
            <p class="starter">{text}</p>
          ))}
          <p class="row">
            <span class="muted">Write a message</span>
            <span class="face">
              <Icon name="send" />
            </span>
          </p>
        </div>
      );
    },
  };
}
