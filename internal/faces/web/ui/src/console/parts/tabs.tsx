import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { scrollRowTo } from "../../lib/scrollrow";

// Tabs choose one of a few views; mark, such as a count, follows the title. Arrow keys move between
// them.
export function Tabs({ label, tabs, active, onChange }: { label: string; tabs: { id: string; title: string; mark?: ComponentChildren }[]; active: string; onChange: (id: string) => void }) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => scrollRowTo(list.current, list.current?.querySelector("[aria-selected=true]")), [active]);
  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((t) => t.id === active);
    const next = (at + step + tabs.length) % tabs.length;
    onChange(tabs[next]!.id);
    (list.current?.children[next] as HTMLElement | undefined)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
      {tabs.map((t) => (
        <button type="button" role="tab" class="tab" aria-selected={t.id === active} tabIndex={t.id === active ? 0 : -1} onClick={() => onChange(t.id)}>
          {t.title}
          {t.mark && <> {t.mark}</>}
        </button>
      ))}
    </div>
  );
}
