// Enhances the reference and the guides: a live filter over the operations, a search of the
// guides while one types, copy buttons, the current position in the contents, expanding the
// target of an address and linked schemas in place, and forms that call operations. All that one
// reads is complete without it.

import { callForm, element } from "./lib/call";
import { copyText } from "./lib/copy";

const narrow = matchMedia("(max-width: 860px)");

// page loads another page of the site. Only an XMLHttpRequest has a parser that works with trusted types.
function page(address: string, then: (page: Document) => void, failed = () => {}): XMLHttpRequest {
  const request = new XMLHttpRequest();
  request.open("GET", address);
  request.responseType = "document";
  request.onload = () => {
    if (request.status === 200 && request.response) then(request.response);
    else failed();
  };
  request.onerror = failed;
  request.send();
  return request;
}

function filter(): void {
  const box = document.querySelector<HTMLElement>(".find");
  const input = document.querySelector<HTMLInputElement>("#find");
  const nothing = document.querySelector<HTMLElement>(".nothing");
  if (!box || !input || !nothing) return;
  box.hidden = false;
  const items = [...document.querySelectorAll<HTMLElement>("[data-words]")];
  const groups = [...document.querySelectorAll<HTMLElement>("[data-group]")];
  const run = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const item of items) {
      const hit = words.every((word) => item.dataset.words!.includes(word));
      item.hidden = !hit;
      if (hit) found++;
    }
    for (const group of groups) group.hidden = !group.querySelector("[data-words]:not([hidden])");
    nothing.hidden = found > 0;
  };
  input.addEventListener("input", run);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      input.value = "";
      run();
      input.blur();
    } else if (event.key === "Enter") {
      document.querySelector<HTMLAnchorElement>("li[data-words]:not([hidden]) a")?.click();
    }
  });
  addEventListener("keydown", (event) => {
    const at = event.target as HTMLElement;
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || at.matches("input, textarea, select")) return;
    event.preventDefault();
    document.querySelector<HTMLDetailsElement>(".contents")?.setAttribute("open", "");
    input.focus();
  });
}

// search shows the results of the guides while one types. The page of results replaces the content.
function search(): void {
  const input = document.querySelector<HTMLInputElement>("#q");
  if (!input) return;
  let timer = 0;
  let latest: XMLHttpRequest | undefined;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    latest?.abort();
    const words = input.value.trim();
    if (words.length < 2) return;
    timer = window.setTimeout(() => {
      const address = "/docs?q=" + encodeURIComponent(words);
      latest = page(address, (results) => {
        document.querySelector("#main")!.replaceWith(document.adoptNode(results.querySelector("#main")!));
        document.title = results.title;
        history.replaceState(null, "", address);
      });
    }, 200);
  });
}

function copyButtons(at: ParentNode): void {
  for (const block of at.querySelectorAll<HTMLElement>("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button quiet small copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const done = await copyText(block.querySelector("pre")!.textContent ?? "");
      button.textContent = done ? "Copied" : "Not allowed";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.append(button);
  }
}

// named returns the element that the address names. A malformed one names none.
function named(): HTMLElement | null {
  try {
    return document.getElementById(decodeURIComponent(location.hash.slice(1)));
  } catch {
    return null;
  }
}

// openTarget expands the elements that hide the target of the address.
function openTarget(): void {
  const target = named();
  if (!target) return;
  if (target instanceof HTMLAnchorElement) return location.replace(target.href); // a section that has moved
  for (let at: Element | null = target; at; at = at.parentElement) {
    if (at instanceof HTMLDetailsElement) at.open = true;
  }
  target.scrollIntoView();
}

// schemas expands a linked schema below the link instead of leaving the page.
function schemas(): void {
  document.addEventListener("click", (event) => {
    const link = (event.target as Element).closest<HTMLAnchorElement>(".member a[href*='/schemas/'], .media a[href*='/schemas/']");
    if (!link || link.closest(".own-page") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const at = link.closest(".member, .media")!;
    const open = at.querySelector(":scope > .filled");
    link.setAttribute("aria-expanded", String(!open));
    if (open) return open.remove();
    page(link.href, (schema) => {
      if (at.querySelector(":scope > .filled")) return;
      const parts = [...schema.querySelector(".type-page")!.children].slice(1).map((part) => document.adoptNode(part));
      const name = element("a", "", "Page of " + schema.querySelector("h1")!.textContent) as HTMLAnchorElement;
      name.href = link.href;
      at.append(element("div", "filled", ...parts, element("p", "own-page small", name)));
    }, () => location.assign(link.href));
  });
}

// explorer shows the operation that the address names, with its form, in place of the current one. It does
// not leave the page, so that a key needs to be entered once.
function explorer(main: HTMLElement): void {
  const contents = document.querySelector<HTMLDetailsElement>(".contents")!;
  const first = [...main.childNodes];
  const title = document.title;
  let latest: XMLHttpRequest | undefined;
  let stop = () => {};
  const draw = (name: string, ...content: Node[]) => {
    stop();
    document.title = name;
    main.replaceChildren(...content);
    if (narrow.matches) contents.open = false;
    scrollTo(0, 0);
  };
  const show = () => {
    const link = named();
    latest?.abort();
    document.querySelector(".side [aria-current]")?.removeAttribute("aria-current");
    if (!(link instanceof HTMLAnchorElement) || !link.closest("[data-words]")) return draw(title, ...first);
    link.setAttribute("aria-current", "page");
    latest = page(link.href.replace("#", "/"), (operation) => {
      const article = document.adoptNode(operation.querySelector<HTMLElement>(".operation")!);
      article.removeAttribute("id"); // the link has it
      draw(operation.title, article);
      copyButtons(article);
      stop = callForm(article.querySelector("form")!);
      const heading = article.querySelector("h1")!;
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
    }, () => location.assign(link.href));
  };
  document.querySelector<HTMLElement>(".side")!.addEventListener("click", (event) => {
    const link = (event.target as Element).closest<HTMLAnchorElement>("li[data-words] a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    location.hash = link.id;
  });
  addEventListener("hashchange", show);
  if (location.hash) show();
}

function follow(): void {
  const links = new Map([...document.querySelectorAll<HTMLAnchorElement>(".side a[href^='#']")].map((a) => [a.hash.slice(1), a]));
  let current: HTMLAnchorElement | undefined;
  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        const link = links.get(entry.target.id);
        if (!entry.isIntersecting || !link || link === current) continue;
        current?.removeAttribute("aria-current");
        link.setAttribute("aria-current", "location");
        current = link;
      }
    },
    { rootMargin: "-80px 0px -75% 0px" },
  );
  for (const id of links.keys()) {
    const target = document.getElementById(id);
    if (target) watch.observe(target);
  }
}

filter();
search();
copyButtons(document);
schemas();
const place = document.querySelector<HTMLElement>("[data-explorer]");
if (place) explorer(place);
else {
  openTarget();
  addEventListener("hashchange", openTarget);
  for (const form of document.querySelectorAll<HTMLFormElement>("form.call")) callForm(form);
}
follow();
// On a phone the contents would push the text far down; elsewhere they are beside it, and open without moving it.
if (!narrow.matches) document.querySelector(".contents")?.setAttribute("open", "");
