// Light or dark: the system's setting, until the switch is used. This runs
// before the first paint, so the page never flashes in the other theme.

const key = "stoa.theme";
const root = document.documentElement;

function stored(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // storage is switched off: the system decides
  }
}

function shown(): "light" | "dark" {
  const chosen = stored();
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function apply(): void {
  root.dataset.theme = shown();
}

root.classList.add("js");
apply();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
addEventListener("storage", apply);
document.addEventListener("click", (event) => {
  if (!(event.target instanceof Element) || !event.target.closest("[data-theme-switch]")) return;
  try {
    localStorage.setItem(key, shown() === "dark" ? "light" : "dark");
    apply();
  } catch {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  }
});
