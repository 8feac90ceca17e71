// The launcher: what a script tag adds to a page of any site. A button in a corner
// opens the chat page in a frame. It sends requests only to the host that it was loaded
// from, and uses a shadow tree to isolate its styles from those of the page.
//
//   <script src="https://…/embed.js" data-embed="pub_…" async></script>
//
// data-language, data-theme and data-position override the tag's settings.
import type { EmbedLauncher, EmbedTicket } from "../lib/contract";
import { initial, on } from "../lib/accent";
import { pick, words } from "./words";

const style = `
:host { all: initial; color-scheme: light dark; --accent: light-dark(#0d6660, #56c4b7); --on-accent: light-dark(#ffffff, #06211e);
  --bg: light-dark(#ffffff, #161513); --text: light-dark(#1f1d1a, #ece8e2); --line: light-dark(#e4e0d9, #33302c); }
:host([data-theme="light"]) { color-scheme: light; }
:host([data-theme="dark"]) { color-scheme: dark; }
* { box-sizing: border-box; font: 500 15px/1.4 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
button { cursor: pointer; border: 0; color: inherit; background: none; padding: 0; }
button:focus-visible { outline: 3px solid var(--text); outline-offset: 2px; box-shadow: 0 0 0 2px var(--bg); }
svg { display: block; width: 24px; height: 24px; fill: none; stroke: currentColor; stroke-width: 2; stroke-linecap: round; stroke-linejoin: round; }
.launcher { position: fixed; z-index: 2147483646; right: 20px; bottom: 20px; bottom: max(20px, env(safe-area-inset-bottom)); width: 56px; height: 56px; border-radius: 28px;
  display: grid; place-items: center; background: var(--accent); color: var(--on-accent); box-shadow: 0 4px 16px rgb(0 0 0 / 30%); transition: transform 120ms ease-out; }
.launcher:hover { transform: scale(1.05); }
.launcher svg + svg, .open .launcher svg { display: none; }
.open .launcher svg + svg { display: block; }
.left .launcher { right: auto; left: 20px; }
.panel { position: fixed; z-index: 2147483647; right: 20px; bottom: 88px; width: 400px; height: min(640px, calc(100dvh - 108px)); display: flex; flex-direction: column; overflow: hidden;
  border: 1px solid var(--line); border-radius: 12px; background: var(--bg); color: var(--text); box-shadow: 0 8px 32px rgb(0 0 0 / 30%); animation: rise 160ms ease-out; }
.left .panel { right: auto; left: 20px; }
.panel[hidden] { display: none; }
.face { flex: none; width: 28px; height: 28px; margin: 0 10px 0 16px; border-radius: 50%; display: grid; place-items: center; font-size: 14px; font-weight: 600; background: var(--accent); color: var(--on-accent); }
.face img { width: 100%; height: 100%; border-radius: 50%; object-fit: cover; }
.bar { display: flex; align-items: center; justify-content: flex-end; height: 44px; flex: none; border-bottom: 1px solid var(--line); }
.bar button { width: 44px; height: 44px; display: grid; place-items: center; }
.bar button:focus-visible { outline-offset: -4px; box-shadow: none; }
.bar p { flex: 1; font-weight: 600; margin: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.problem { padding: 16px; }
.problem p { margin: 0 0 12px; }
.problem button { text-decoration: underline; min-height: 24px; }
iframe { flex: 1; width: 100%; min-height: 0; border: 0; }
iframe[hidden], .problem[hidden] { display: none; }
@keyframes rise { from { opacity: 0; transform: translateY(12px); } }
@media (max-width: 480px), (max-height: 420px) {
  .panel, .left .panel { inset: 0; width: auto; height: auto; border: 0; border-radius: 0; }
  .open .launcher { visibility: hidden; }
}
@media (prefers-reduced-motion: reduce) { .panel { animation: none; } .launcher { transition: none; } .launcher:hover { transform: none; } }
`;

const small = matchMedia("(max-width: 480px), (max-height: 420px)");

// storage reads and writes data of the page's origin; without browser storage, nothing
// is kept.
function storage(area: () => Storage, name: string) {
  return {
    get: () => {
      try {
        return area().getItem(name) ?? "";
      } catch {
        return "";
      }
    },
    set: (value: string) => {
      try {
        if (value === "") area().removeItem(name);
        else area().setItem(name, value);
      } catch {
        // It is switched off.
      }
    },
  };
}

function icon(path: string): SVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const d = document.createElementNS("http://www.w3.org/2000/svg", "path");
  d.setAttribute("d", path);
  svg.append(d);
  return svg;
}

function button(label: string, path: string, act: () => void): HTMLButtonElement {
  const b = document.createElement("button");
  b.type = "button";
  b.setAttribute("aria-label", label);
  if (path !== "") b.append(icon(path));
  b.addEventListener("click", act);
  return b;
}

class Launcher {
  private readonly root = document.createElement("div");
  private readonly all = document.createElement("div");
  private readonly panel = document.createElement("div");
  private readonly problem = document.createElement("div");
  private readonly opener: HTMLButtonElement;
  private readonly closer: HTMLButtonElement;
  private frame: HTMLIFrameElement | null = null;
  private frameOrigin = "";
  private loading = false;
  private ended = false;
  private readonly visitor: ReturnType<typeof storage>;
  private readonly wasOpen: ReturnType<typeof storage>;
  private readonly say: ReturnType<typeof words>;

  constructor(
    private readonly base: string,
    private readonly look: EmbedLauncher,
    private readonly language: string,
  ) {
    this.visitor = storage(() => localStorage, "stoa.embed." + look.id);
    this.wasOpen = storage(() => sessionStorage, "stoa.embed." + look.id + ".open");
    this.say = words(language);
    const shown = look.title ?? look.agent.name;
    const name = this.say("Chat with {name}", { name: shown });

    const shadow = this.root.attachShadow({ mode: "open" });
    const sheet = new CSSStyleSheet(); // a policy of the page against inline styles allows it
    sheet.replaceSync(style);
    shadow.adoptedStyleSheets = [sheet];
    this.root.dataset.stoa = look.id;
    this.root.dataset.theme = look.theme;
    this.root.lang = language;
    if (look.accentColor && /^#[0-9a-f]{6}$/i.test(look.accentColor)) {
      this.root.style.setProperty("--accent", look.accentColor);
      this.root.style.setProperty("--on-accent", on(look.accentColor));
    }
    if (look.position === "left") this.all.className = "left";

    this.opener = button(name, "M21 12a8 8 0 0 1-8 8H4l2-3a8 8 0 1 1 15-5z", () => (this.panel.hidden ? this.open() : this.close()));
    this.opener.append(icon("M6 9l6 6 6-6")); // shown while the panel is open
    this.opener.className = "launcher";
    this.opener.setAttribute("aria-expanded", "false");
    this.opener.setAttribute("aria-controls", "panel");
    this.opener.setAttribute("aria-haspopup", "dialog");
    this.closer = button(this.say("Close the chat"), "M6 6l12 12M18 6L6 18", () => this.close());
    const title = document.createElement("p");
    title.textContent = shown;
    const bar = document.createElement("div");
    bar.className = "bar";
    const face = document.createElement("span");
    face.className = "face";
    face.ariaHidden = "true";
    face.textContent = initial(shown);
    if (look.logoUrl) {
      // The letter stays if the picture cannot be shown, such as under a policy of the page.
      const logo = new Image();
      logo.alt = "";
      logo.referrerPolicy = "no-referrer";
      logo.addEventListener("load", () => face.replaceChildren(logo));
      logo.src = look.logoUrl;
    }
    bar.append(face, title, this.closer);
    this.problem.className = "problem";
    this.problem.hidden = true;
    this.problem.setAttribute("role", "alert");
    this.panel.id = "panel";
    this.panel.className = "panel";
    this.panel.hidden = true;
    this.panel.setAttribute("role", "dialog");
    this.panel.setAttribute("aria-label", name);
    this.panel.append(bar, this.problem);
    this.all.append(this.opener, this.panel);
    shadow.append(this.all);
    document.body.append(this.root);

    addEventListener("keydown", (e) => {
      if (e.key === "Escape" && !this.panel.hidden && (e.composedPath().includes(this.root) || document.activeElement === this.root)) this.close();
    });
    addEventListener("message", (e: MessageEvent) => this.hear(e));
    if (this.wasOpen.get() !== "" && !small.matches) this.open(false);
  }

  private open(focus = true): void {
    this.panel.hidden = false;
    this.all.classList.add("open");
    this.panel.setAttribute("aria-modal", String(small.matches));
    this.opener.setAttribute("aria-expanded", "true");
    this.wasOpen.set("1");
    if (this.ended) this.forget();
    if (this.frame) {
      if (focus) this.frame.focus();
      return;
    }
    if (focus) this.closer.focus();
    void this.load(focus);
  }

  private close(): void {
    this.panel.hidden = true;
    this.all.classList.remove("open");
    this.opener.setAttribute("aria-expanded", "false");
    this.wasOpen.set("");
    this.opener.focus();
  }

  // forget removes a chat that has ended: the next opening requests a new one.
  private forget(): void {
    this.frame?.remove();
    this.frame = null;
    this.ended = false;
  }

  // load requests a ticket and opens the chat page with it.
  private async load(focus: boolean): Promise<void> {
    if (this.loading) return;
    this.loading = true;
    this.problem.hidden = true;
    try {
      const token = this.visitor.get();
      const reply = await fetch(`${this.base}/api/v1/embed/tags/${this.look.id}/tickets`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(token === "" ? {} : { visitorToken: token.slice(0, 200) }),
        credentials: "omit",
        referrerPolicy: "no-referrer",
      });
      if (!reply.ok) throw new Error(`the service answered ${reply.status}`);
      const ticket = (await reply.json()) as EmbedTicket;
      this.visitor.set(ticket.visitorToken);
      const url = new URL(ticket.url);
      if (url.protocol !== "https:" && url.protocol !== "http:") throw new Error("the service named no page");
      url.searchParams.set("lang", this.language);
      this.frameOrigin = url.origin;
      const frame = document.createElement("iframe");
      frame.title = this.say("Chat with {name}", { name: this.look.title ?? this.look.agent.name });
      frame.referrerPolicy = "no-referrer";
      frame.allow = `clipboard-write ${url.origin}`;
      frame.addEventListener("load", () => {
        frame.contentWindow?.postMessage({ type: "stoa.init", theme: this.look.theme }, this.frameOrigin);
        if (focus && !this.panel.hidden) frame.focus();
      });
      frame.src = url.href;
      this.panel.append(frame);
      this.frame = frame;
    } catch (error) {
      console.error("Stoa: the chat cannot be opened:", error);
      const text = document.createElement("p");
      text.textContent = this.say("The chat cannot be opened at the moment.");
      const again = button("", "", () => void this.load(true));
      again.removeAttribute("aria-label");
      again.textContent = this.say("Try again");
      this.problem.replaceChildren(text, again);
      this.problem.hidden = false;
    } finally {
      this.loading = false;
    }
  }

  private hear(e: MessageEvent): void {
    if (!this.frame || e.source !== this.frame.contentWindow || e.origin !== this.frameOrigin || typeof e.data !== "object" || e.data === null) return;
    if (e.data.type === "stoa.close") this.close();
    if (e.data.type === "stoa.status" && e.data.status === "ended") this.ended = true;
  }
}

async function start(script: HTMLScriptElement): Promise<void> {
  const id = script.dataset.embed ?? "";
  const base = new URL(script.src).origin;
  if (!/^pub_[0-9a-z]{26}$/.test(id)) {
    console.error('Stoa: the script tag needs data-embed="pub_…".');
    return;
  }
  if (document.querySelector(`[data-stoa="${id}"]`)) return; // included twice
  let look: EmbedLauncher;
  try {
    const reply = await fetch(`${base}/api/v1/embed/tags/${id}`, { credentials: "omit", referrerPolicy: "no-referrer" });
    if (!reply.ok) throw new Error(`the service answered ${reply.status}`);
    look = (await reply.json()) as EmbedLauncher;
  } catch (error) {
    console.error(`Stoa: ${id} is not shown. If ${location.origin} is not among its allowed origins, its owner can add it; or it is disabled or was deleted.`, error);
    return;
  }
  const { theme, position, language } = script.dataset;
  if (theme === "light" || theme === "dark" || theme === "auto") look.theme = theme;
  if (position === "left" || position === "right") look.position = position;
  const chosen = language ?? (look.language === "auto" ? null : look.language);
  const make = () => void new Launcher(base, look, pick(chosen, document.documentElement.lang, ...navigator.languages));
  if (document.body) make();
  else addEventListener("DOMContentLoaded", make, { once: true });
}

if (document.currentScript instanceof HTMLScriptElement) void start(document.currentScript);
