// The chat page, shown in a frame of another site.
import { render } from "preact";
import { Parent } from "./parent";
import { Visit, type State } from "./visit";
import { ChatPage } from "./view";
import { on } from "../lib/accent";
import { language } from "./say";

const root = document.getElementById("chat")!;
const embedId = root.dataset.embed!;
const allowed = (root.dataset.origins ?? "").split(" ").filter(Boolean);
if (root.dataset.tag !== undefined) {
  allowed.push(location.origin); // the preview of its script tag
  document.documentElement.dataset.tagged = ""; // the launcher's panel shows the name
}

document.documentElement.lang = language;
const accent = root.dataset.accent ?? "";
if (/^#[0-9a-f]{6}$/.test(accent)) {
  const html = document.documentElement;
  html.dataset.branded = "";
  html.style.setProperty("--brand", accent);
  html.style.setProperty("--on-brand", on(accent));
}

// The ticket is removed from the address first.
const ticket = new URLSearchParams(location.hash.slice(1)).get("t") ?? "";
history.replaceState(null, "", location.pathname + location.search);

function theme(name: string): void {
  const html = document.documentElement;
  if (name === "light" || name === "dark") html.dataset.theme = name;
  else if (name === "auto") delete html.dataset.theme;
}

const parent = new Parent(allowed, theme);
let ready = false;
let told = "";

function show(state: State): void {
  render(<ChatPage visit={visit} state={state} />, root);
  if (state.chat && !ready) {
    ready = true;
    parent.tell({ type: "stoa.ready", version: 1, chatSessionId: state.chat.id, agentName: state.chat.agent.name });
  }
  const status = state.end ? "ended" : state.offline ? "offline" : state.chat?.status ?? "";
  if (status !== "" && status !== told) {
    told = status;
    parent.tell({ type: "stoa.status", status });
  }
}

const visit = new Visit(
  embedId,
  show,
  (expiresAt) => parent.tell({ type: "stoa.token_expiring", expiresAt }),
  (code, message) => parent.tell({ type: "stoa.error", code, message }),
);

// The height of the content: all messages and their surroundings.
let height = 0;
const measure = () => {
  const scroll = document.querySelector(".chat-scroll");
  const rest = (document.querySelector<HTMLElement>(".chat-head")?.offsetHeight ?? 0) + (document.querySelector<HTMLElement>(".chat-foot")?.offsetHeight ?? 0);
  const now = Math.ceil(scroll ? rest + (scroll.firstElementChild?.getBoundingClientRect().height ?? 0) + 32 : root.scrollHeight);
  if (now === height) return;
  height = now;
  parent.tell({ type: "stoa.resize", height });
};
new MutationObserver(() => requestAnimationFrame(measure)).observe(root, { childList: true, subtree: true, characterData: true });
addEventListener("resize", measure);

// An Escape without another meaning here closes the panel of the parent page.
addEventListener("keydown", (e) => {
  if (e.key === "Escape" && !e.defaultPrevented) parent.tell({ type: "stoa.close" });
});

show(visit.state);
void visit.begin(ticket);
