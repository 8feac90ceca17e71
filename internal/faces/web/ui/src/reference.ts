// Enhances the reference and the guides: a live filter over the operations, a search of the
// guides while one types, copy buttons, the current position in the contents, and expanding the
// target of an address. The pages are complete without it.

import { copyText } from "./lib/copy";

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
      const first = document.querySelector<HTMLAnchorElement>(".side li[data-words]:not([hidden]) a");
      if (first) location.hash = first.hash;
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
      const request = (latest = new XMLHttpRequest()); // fetch has no parser that works with trusted types
      request.open("GET", address);
      request.responseType = "document";
      request.onload = () => {
        const found = request.response?.querySelector("#main");
        if (request.status !== 200 || !found) return;
        document.querySelector("#main")!.replaceWith(document.adoptNode(found));
        document.title = request.response.title;
        history.replaceState(null, "", address);
      };
      request.send();
    }, 200);
  });
}

function copyButtons(): void {
  for (const block of document.querySelectorAll<HTMLElement>("[data-copy]")) {
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

// openTarget expands the elements that hide the target of the address.
function openTarget(): void {
  const id = decodeURIComponent(location.hash.slice(1));
  const target = id ? document.getElementById(id) : null;
  if (!target) return;
  if (target instanceof HTMLAnchorElement) return location.replace(target.href); // a section that has moved
  for (let at: Element | null = target; at; at = at.parentElement) {
    if (at instanceof HTMLDetailsElement) at.open = true;
  }
  target.scrollIntoView();
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
copyButtons();
openTarget();
addEventListener("hashchange", openTarget);
follow();
// On a phone the contents would push the text far down; elsewhere they are beside it, and open without moving it.
if (!matchMedia("(max-width: 860px)").matches) document.querySelector(".contents")?.setAttribute("open", "");
