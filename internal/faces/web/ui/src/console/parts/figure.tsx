import type { ComponentChildren } from "preact";

// A Figure is a number that matters, with a line below it.
export function Figure({ title, sub, word, children }: { title: string; sub?: ComponentChildren; word?: boolean; children: ComponentChildren }) {
  return (
    <div class="figure panel">
      <dt>{title}</dt>
      <dd class={word ? "word" : ""}>{children}</dd>
      <dd class="sub">{sub ?? "\u00a0"}</dd>
    </div>
  );
}
