// Sends the request of an operation's form in the reference, and shows the reply as it arrives.

import { duration, of, size } from "./format";
import { saveFile } from "./save";
import { readEvents } from "./sse";

const maxShown = 1 << 20; // bytes of a reply that are shown; a larger one can be saved
const maxEvents = 1000; // that are shown at a time, so that a long stream does not slow the page down

// secrets has the keys of this page. They are in no storage, so that they are gone with the page.
const secrets = new Map<string, string>();

export function element(name: string, className: string, ...content: (string | Node)[]): HTMLElement {
  const made = document.createElement(name);
  made.className = className;
  made.append(...content);
  return made;
}

// callForm makes a form work, and returns a function that stops its call.
export function callForm(form: HTMLFormElement): () => void {
  const { method, path, secret } = form.dataset as { method: string; path: string; secret: string };
  const reply = form.querySelector<HTMLElement>("[data-reply]")!;
  const stop = form.querySelector<HTMLButtonElement>("[data-stop]")!;
  const fields = [...form.querySelectorAll<HTMLInputElement>("[data-in]")];
  const body = form.querySelector<HTMLTextAreaElement>("[data-in=body]");
  let running: AbortController | undefined;

  for (const field of fields) {
    if (field.dataset.in !== "secret") continue;
    field.value = secrets.get(secret) ?? "";
    field.addEventListener("input", () => secrets.set(secret, field.value.trim()));
  }
  form.querySelector<HTMLSelectElement>("[data-examples]")?.addEventListener("change", (event) => (body!.value = (event.target as HTMLSelectElement).value));
  stop.addEventListener("click", () => running?.abort());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    running?.abort();
    const mine = (running = new AbortController());
    stop.hidden = false;
    try {
      await send(request(method, path, fields), mine.signal, reply);
    } catch (problem) {
      const text = mine.signal.aborted ? "Stopped." : `The request failed: ${(problem as Error).message}`;
      if (running === mine) reply.append(element("p", "", text));
    }
    if (running === mine) stop.hidden = true;
  });
  form.hidden = false;
  return () => running?.abort();
}

// request returns what the fields of a form say. Empty fields are not sent.
function request(method: string, path: string, fields: HTMLInputElement[]): [address: string, init: RequestInit] {
  const query = new URLSearchParams();
  const headers = new Headers();
  let body: BodyInit | undefined;
  for (const field of fields) {
    const value = field.value.trim();
    if (!value) continue;
    switch (field.dataset.in) {
      case "secret":
        headers.set("Authorization", "Bearer " + value);
        break;
      case "path":
        path = path.replace(`{${field.name}}`, encodeURIComponent(value));
        break;
      case "query":
        query.set(field.name, value);
        break;
      case "header":
        headers.set(field.name, value);
        break;
      case "file":
        body = field.files![0];
        break;
      case "body":
        body = value;
        headers.set("Content-Type", "application/json");
    }
  }
  // The cookie of the console must not act for a call that a key is meant for.
  return [query.size > 0 ? `${path}?${query}` : path, { method, headers, body, credentials: "omit", cache: "no-store" }];
}

async function send([address, init]: [string, RequestInit], signal: AbortSignal, reply: HTMLElement): Promise<void> {
  const begun = performance.now();
  reply.replaceChildren(element("p", "muted", "Waiting for the reply …"));
  const response = await fetch(address, { ...init, signal }).catch((problem) => {
    reply.replaceChildren();
    throw problem;
  });
  const status = element("p", "row", element("span", response.ok ? "badge ok" : "badge failed", `${response.status} ${response.statusText}`));
  status.setAttribute("role", "status");
  status.append(element("span", "muted small", `after ${duration(performance.now() - begun)}`));
  const id = response.headers.get("x-request-id");
  if (id) status.append(element("span", "small", "x-request-id ", element("code", "", id)));
  const headers = [...response.headers].map(([name, value]) => element("li", "", `${name}: ${value}`));
  reply.replaceChildren(status, element("details", "", element("summary", "small", of(headers.length, "header")), element("ul", "headers mono small", ...headers)));
  const kind = response.headers.get("Content-Type") ?? "";
  if (kind.startsWith("text/event-stream") && response.body) await showEvents(response.body, reply);
  else await showBody(await response.blob(), kind, reply);
}

async function showEvents(stream: ReadableStream<Uint8Array>, reply: HTMLElement): Promise<void> {
  const list = element("ol", "stream");
  list.tabIndex = 0; // it scrolls
  list.setAttribute("aria-label", "Events");
  reply.append(list);
  for await (const event of readEvents(stream)) {
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    list.append(element("li", "", element("b", "mono small", event.name), element("pre", "", event.data)));
    if (list.childElementCount > maxEvents) list.firstElementChild!.remove();
    if (atEnd) list.scrollTop = list.scrollHeight;
  }
  reply.append(element("p", "muted", "The stream has ended."));
}

async function showBody(body: Blob, kind: string, reply: HTMLElement): Promise<void> {
  if (body.size === 0) return void reply.append(element("p", "muted", "The body is empty."));
  if (body.size <= maxShown && /json|^text\//.test(kind)) {
    const pre = element("pre", "", indented(await body.text()));
    pre.tabIndex = 0;
    reply.append(element("div", "code", pre));
    return;
  }
  const save = element("button", "button", `Save ${size(body.size)} of ${kind || "an unknown type"}`) as HTMLButtonElement;
  save.type = "button";
  save.addEventListener("click", () => saveFile(body, "reply"));
  reply.append(save);
}

// indented indents JSON, unless parsing it changes it, as it does large numbers.
function indented(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    return JSON.stringify(value) === text.trim() ? JSON.stringify(value, null, 2) : text;
  } catch {
    return text;
  }
}
