// Markdown of models as elements. Raw HTML stays text, images become their
// descriptions, nothing is loaded, and links send no referrer.

import { Marked } from "marked";
import DOMPurify from "dompurify";

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escape = (text: string) => text.replace(/[&<>"]/g, (c) => escapes[c]!);

const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: {
    html: (token: { text: string }) => escape(token.text),
    image: (token: { text: string }) => escape(token.text),
    checkbox: (token: { checked?: boolean }) => (token.checked ? "☑ " : "☐ "),
  },
});

const tags = "a p br strong em del code pre ul ol li blockquote h1 h2 h3 h4 h5 h6 hr table thead tbody tr th td".split(" ");

export function markdown(text: string): DocumentFragment {
  const html = marked.parse(text, { async: false }) as string;
  const out = DOMPurify.sanitize(html, {
    ALLOWED_TAGS: tags,
    ALLOWED_ATTR: ["href", "start"],
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  }) as DocumentFragment;
  for (const box of out.querySelectorAll<HTMLElement>("pre, table")) box.tabIndex = 0; // they scroll
  for (const link of out.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
    const hidden = hiddenTarget(link);
    if (hidden !== "") link.dataset.host = hidden; // the style sheet shows it behind the link
  }
  return out;
}

// hiddenTarget returns the host or the email address of a link, unless its text is
// identical.
function hiddenTarget(link: HTMLAnchorElement): string {
  if (!link.getAttribute("href")) return "";
  const bare = (address: string) => address.trim().toLowerCase().replace(/^(https?:\/\/|mailto:)/, "").replace(/\/$/, "");
  const mail = link.protocol === "mailto:";
  const target = mail ? bare(link.href).replace(/\?.*/, "") : link.host;
  const text = bare(link.textContent ?? "");
  const named = !link.username && !link.password && (text === target || text === bare(link.href));
  return named ? "" : target;
}
