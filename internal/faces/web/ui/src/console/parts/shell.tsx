// The parts of the frame that depend on the width: a rail of pages at the left, which shows
// only icons in a narrow window, and on a phone a bar whose menu button opens the rail.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Button } from "./basic";
import { Icon } from "./icon";

// A TopBar replaces the bar of the site on a phone. With waiting, the menu button has a
// mark: something in the menu needs attention.
export function TopBar({ title, open, waiting, onMenu, onFind }: { title: string; open: boolean; waiting: boolean; onMenu: () => void; onFind: () => void }) {
  return (
    <header class="topbar">
      <button type="button" class="button quiet icon" aria-label={open ? "Close the menu" : "Menu"} aria-expanded={open} aria-controls="rail" onClick={onMenu}>
        <Icon name={open ? "cross" : "menu"} />
        {waiting && !open && <span class="mark" />}
      </button>
      <b class="cut">{title}</b>
      <Button kind="quiet" icon="search" label="Search" onClick={onFind} />
    </header>
  );
}

// The Rail moves the focus into itself while it is open on a phone, and Escape closes it.
export function Rail({ open, onClose, children }: { open: boolean; onClose: () => void; children: ComponentChildren }) {
  const rail = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!open) return;
    const before = document.activeElement as HTMLElement | null;
    (rail.current!.querySelector<HTMLElement>("a[aria-current]") ?? rail.current!.querySelector("a"))?.focus();
    const wide = matchMedia("(min-width: 761px)"); // the rail is beside the page there
    wide.addEventListener("change", onClose);
    return () => {
      wide.removeEventListener("change", onClose);
      before?.focus?.();
    };
  }, [open]);
  return (
    <aside ref={rail} id="rail" class={"rail" + (open ? " open" : "")} onKeyDown={(event) => event.key === "Escape" && onClose()}>
      {children}
      <p class="elsewhere small">
        <a href="/docs">Guides</a> <a href="/api/v1/doc">Explorer</a> <a href="/docs/api-openapi">Reference</a>
        <button type="button" class="link" data-theme-switch>
          Light or dark
        </button>
      </p>
    </aside>
  );
}
