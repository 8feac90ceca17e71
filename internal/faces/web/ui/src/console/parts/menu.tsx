import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";
import { Icon } from "./icon";

export interface MenuItem {
  title: ComponentChildren;
  danger?: boolean;
  onClick: () => void;
}

const margin = 8; // pixels between a menu and the edges of the window

// A Menu is a button "⋯" that opens a list of actions. The list is a popover, so that no
// table or dialog cuts it. Arrow keys move in it, Escape closes it.
export function Menu({ label, items }: { label: string; items: MenuItem[] }) {
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const close = () => list.current?.hidePopover();
  const onToggle = (event: Pick<ToggleEvent, "newState">) => {
    button.current?.setAttribute("aria-expanded", String(event.newState === "open"));
    removeEventListener("scroll", close, true);
    if (event.newState !== "open") return;
    const at = button.current!.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height, style } = list.current!;
    const below = at.bottom + 4 + height <= innerHeight - margin;
    style.left = Math.max(margin, Math.min(at.right - width, innerWidth - width - margin)) + "px";
    style.top = Math.max(margin, below ? at.bottom + 4 : at.top - 4 - height) + "px";
    list.current!.querySelector("button")?.focus({ preventScroll: true });
    addEventListener("scroll", close, true);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Tab") close();
    if (!step) return;
    event.preventDefault();
    const all = [...list.current!.querySelectorAll("button")];
    all[(all.indexOf(document.activeElement as HTMLButtonElement) + step + all.length) % all.length]!.focus();
  };
  return (
    <>
      <button ref={button} type="button" class="button quiet icon small" aria-label={label} title={label} aria-haspopup="menu" aria-expanded="false" popovertarget={id}>
        <Icon name="more" />
      </button>
      <div ref={list} id={id} class="menu" role="menu" popover="auto" aria-label={label} onToggle={onToggle} onKeyDown={onKeyDown}>
        {items.map((item) => (
          <button
            type="button"
            role="menuitem"
            class={item.danger ? "danger" : ""}
            tabIndex={-1}
            onClick={() => {
              close();
              item.onClick();
            }}
          >
            {item.title}
          </button>
        ))}
      </div>
    </>
  );
}
