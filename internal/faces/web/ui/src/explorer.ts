// Starts the explorer without features that call other origins or that the service does
// not offer.

interface Scalar {
  createApiReference(at: Element, configuration: unknown): unknown;
}

// The explorer adds style elements while it runs. The page's policy allows
// those with its nonce, so each gets the nonce when it is created.
const nonce = document.querySelector<HTMLMetaElement>("meta[property=csp-nonce]")?.content ?? "";
const make = document.createElement.bind(document) as (name: string, options?: ElementCreationOptions) => HTMLElement;
document.createElement = ((name: string, options?: ElementCreationOptions) => {
  const made = make(name, options);
  if (name.toLowerCase() === "style") made.nonce = nonce;
  return made;
}) as typeof document.createElement;

const place = document.getElementById("explorer")!;
const dark = () => document.documentElement.dataset.theme === "dark";

const configuration = {
  url: place.dataset.document,
  theme: "none",
  layout: "modern",
  darkMode: dark(),
  forceDarkModeState: dark() ? "dark" : "light",
  hideDarkModeToggle: true,
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  mcp: { disabled: true },
  proxyUrl: "",
  hideClientButton: true,
  showDeveloperTools: "never",
  persistAuth: false,
  hideModels: false,
  defaultOpenAllTags: true,
  documentDownloadType: "json",
  defaultHttpClient: { targetKey: "shell", clientKey: "curl" },
  // The user enters a key, which the explorer does not store. The cookie of the console does
  // not count for its calls.
  authentication: { preferredSecurityScheme: "bearer" },
};

// mend adds missing names and keyboard access to the explorer's elements. It searches
// for each part again whenever something is drawn.
function mend() {
  for (const button of place.querySelectorAll<HTMLElement>("button[aria-controls]:not([aria-label]):not([aria-labelledby])")) {
    if (!button.innerText.trim()) button.setAttribute("aria-label", `Show or hide ${nameOf(button)}`);
  }
  // Scrolling elements are focusable and scroll with the arrow keys.
  for (const list of place.querySelectorAll<HTMLElement>("ul[aria-label$=' endpoints']:not([tabindex])")) list.tabIndex = 0;
  // Each operation names its examples by their statuses, which other operations have too.
  for (const card of place.querySelectorAll("[role=region][aria-labelledby][aria-label='Example Responses']")) {
    const name = nameOf(card);
    card.removeAttribute("aria-labelledby");
    card.setAttribute("aria-label", `Example responses: ${name}`);
  }
  // The bar of the service is the banner of the page.
  for (const header of place.querySelectorAll("header:not([role])")) header.setAttribute("role", "presentation");
}

// nameOf returns the heading of the section that contains an element.
function nameOf(element: Element): string {
  for (let at = element.parentElement; at && at !== place; at = at.parentElement) {
    const heading = at.querySelector<HTMLElement>("h1, h2, h3, h4")?.innerText.trim();
    if (heading) return heading;
  }
  return "this part";
}

new MutationObserver(mend).observe(place, { childList: true, subtree: true });

// The explorer's own script comes after this one.
addEventListener("DOMContentLoaded", () => {
  (window as unknown as { Scalar: Scalar }).Scalar.createApiReference(place, configuration);
  // It reads the mode once; after that only its classes can be changed.
  document.addEventListener("stoa:theme", () => {
    document.body.classList.toggle("dark-mode", dark());
    document.body.classList.toggle("light-mode", !dark());
  });
});
